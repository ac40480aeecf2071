//! A handler at work.
//!
//! Owns its future until it ends or is given up, and keeps its panics in; must not know sessions
//! or what carries the answer.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::context::ToolContext;
use super::output::{ToolError, into_answer};
use crate::mcp::types::ToolOutput;
use crate::session::outbox::Outbox;
use crate::session::server::ReplyWords;
use crate::wire::jsonrpc::RawJson;

/// A handler's future.
pub(super) type CallFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// What runs when a tool is called.
pub(super) trait Handler: Send + Sync {
    fn call(&self, arguments: RawJson, ctx: ToolContext) -> CallFuture;
}

/// A handler until it ends, and its answer: the HTTP status and the response.
pub(super) struct Work {
    handler: Option<CallFuture>,
    tool: Arc<str>,
    reply: ReplyWords,
}

impl Work {
    pub(super) fn new(handler: CallFuture, tool: Arc<str>, reply: ReplyWords) -> Self {
        Self {
            handler: Some(handler),
            tool,
            reply,
        }
    }

    /// Drops what the handler owns. A handler may panic then as well, most likely one that
    /// panicked before.
    fn release(&mut self) {
        let handler = self.handler.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(handler)));
    }
}

impl Future for Work {
    type Output = (u16, Vec<u8>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(handler) = &mut self.handler else {
            return Poll::Pending;
        };
        let ended = match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(ended)) => ended,
            Err(panic) => Err(panicked(&self.tool, &*panic)),
        };
        // What the handler owned is gone before its caller learns of the end.
        self.release();
        Poll::Ready(match into_answer(ended) {
            Ok(output) => (200, self.reply.result(output)),
            Err(error) => self.reply.error(&error),
        })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.release();
    }
}

/// The caller learns that the tool panicked, not why: the text of a panic is for its developer,
/// who has it on stderr.
fn panicked(tool: &str, _panic: &(dyn Any + Send)) -> ToolError {
    ToolError::new(format!("the tool `{tool}` failed: it panicked"))
}

/// A handler that is given up when its stream is ended by somebody else, and some time after its
/// reader went away: until then it runs on unheard.
pub(super) struct Attended {
    work: Work,
    outbox: Arc<Outbox>,
    patience: Duration,
    /// How long it goes on since so many readers have gone.
    alone: Option<(u64, Pin<Box<Sleep>>)>,
}

impl Attended {
    pub(super) fn new(work: Work, outbox: Arc<Outbox>, patience: Duration) -> Self {
        Self {
            work,
            outbox,
            patience,
            alone: None,
        }
    }
}

impl Future for Attended {
    /// `None` when it was given up.
    type Output = Option<(u16, Vec<u8>)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Looked at first, so that no handler goes on after its cancel.
        if self.outbox.is_ended() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(end) = Pin::new(&mut self.work).poll(cx) {
            return Poll::Ready(Some(end));
        }
        let Poll::Ready(gone) = self.outbox.poll_unread(cx) else {
            // A reader may have come back.
            self.alone = None;
            return Poll::Pending;
        };
        if self.outbox.poll_ended(cx).is_ready() {
            return Poll::Ready(None);
        }
        let patience = self.patience;
        // One may also have come and gone since the last look.
        let alone = self.alone.take().filter(|(since, _)| *since == gone);
        let (_, alone) = self
            .alone
            .insert(alone.unwrap_or_else(|| (gone, Box::pin(sleep(patience)))));
        alone.as_mut().poll(cx).map(|()| None)
    }
}
