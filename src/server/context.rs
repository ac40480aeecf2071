//! A call as its handler sees it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::yield_now;

use super::output::ToolError;
use super::streamer::EventStreamer;
use crate::error::Result;
use crate::event::{IntoNode, escape_into};
use crate::mcp::frame::Principal;
use crate::session::outbox::{Outbox, Pushed};
use crate::wire::chunk::Spare;

/// One call of a tool, while it runs. Cheap to clone.
#[derive(Clone)]
pub struct ToolContext {
    running: Arc<Running>,
    tool: Arc<str>,
}

/// What a call's streamers share.
pub(crate) struct Running {
    pub(super) outbox: Arc<Outbox>,
    /// For payloads on their way to the outbox.
    pub(super) scratch: Arc<Spare>,
    principal: Option<Principal>,
    runtime: Handle,
    started: Instant,
    /// When the handler last let others run, in ns since the start; 0 before the first time.
    last_yield: AtomicU64,
}

/// How long a handler may write events without awaiting anything else before it makes way. A
/// handler that only computes would otherwise starve its own stream: the bytes are ready, but the
/// task that sends them never runs. Yielding at each event would send each one alone.
const MAX_RUN: Duration = Duration::from_micros(200);

impl Running {
    pub(super) fn new(outbox: Arc<Outbox>, principal: Option<Principal>) -> Self {
        Self {
            outbox,
            scratch: Arc::default(),
            principal,
            runtime: Handle::current(),
            started: now(),
            last_yield: AtomicU64::new(0),
        }
    }

    /// Lets the reader run at the first event, and then now and again.
    pub(super) async fn breathe(&self) {
        let last = self.last_yield.load(Ordering::Relaxed);
        let elapsed = || u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if last != 0 && elapsed().saturating_sub(last) < MAX_RUN.as_nanos() as u64 {
            return;
        }
        yield_now().await;
        self.last_yield.store(elapsed().max(1), Ordering::Relaxed);
    }

    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "paces real threads, not a protocol rule"
)]
fn now() -> Instant {
    Instant::now()
}

impl ToolContext {
    pub(super) fn new(running: Arc<Running>, tool: Arc<str>) -> Self {
        Self { running, tool }
    }

    /// A streamer with its events under `node`.
    pub fn streamer(&self, node: impl IntoNode) -> EventStreamer {
        EventStreamer::new(self).node(node)
    }

    /// The name of the tool that was called.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Who called, by the name that their
    /// [bearer token](crate::McpServerBuilder::bearer_tokens) has, or that
    /// [`authorize`](crate::McpServerBuilder::authorize) gave. `None` if the server asks nobody, if
    /// the token has no name, and over stdio and in memory.
    ///
    /// ```
    /// # use agent_hub_kit::ToolContext;
    /// # fn f(ctx: &ToolContext) -> String {
    /// format!("hello, {}", ctx.principal().unwrap_or("whoever you are"))
    /// # }
    /// ```
    pub fn principal(&self) -> Option<&str> {
        self.running.principal.as_ref().map(Principal::as_str)
    }

    /// Sends a plain progress notification: how far the call is, of how much, and a word on it.
    ///
    /// Numbers of a call rise strictly, events included: one that does not rise, is not finite or
    /// beyond 2^52 is sent as the next whole number.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) once the call has ended.
    ///
    /// # Cancel safety
    /// Dropping the future sends the notification whole or not at all.
    pub async fn progress(
        &self,
        progress: f64,
        total: impl Into<Option<f64>>,
        message: impl Into<Option<&str>>,
    ) -> Result<()> {
        let (total, message) = (total.into(), message.into());
        let outbox = &self.running.outbox;
        loop {
            let write = message.map(|text| {
                move |out: &mut Vec<u8>| {
                    escape_into(out, text);
                    Ok(())
                }
            });
            if outbox.push_progress(progress, total, write)? == Pushed::Done {
                break;
            }
            outbox.room().await;
        }
        self.running.breathe().await;
        Ok(())
    }

    /// Ends the SSE stream of this call after what was sent so far, while the call goes on: the
    /// client comes back for the rest, and no connection is held meanwhile. For tools that take
    /// long and say little.
    ///
    /// Needs a server with [`sse_replay`](crate::McpServerBuilder::sse_replay), which keeps what
    /// comes until then, a call over HTTP, and a client of revision 2025-11-25 that takes SSE.
    /// Otherwise nothing happens, and this is `false`; so it is while the client is away or once
    /// the call has ended. A client that does not come back within
    /// [`Limits::detached_call_timeout`](crate::Limits::detached_call_timeout) ends the call.
    pub fn close_sse_stream(&self) -> bool {
        self.running.outbox.close_stream()
    }

    /// Ready when the call has ended: cancelled, or its handler returned. For work that the
    /// handler left to other tasks; the handler's own future is dropped on a cancel.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn cancelled(&self) {
        self.running.outbox.ended().await;
    }

    /// True once the call has ended.
    pub fn is_cancelled(&self) -> bool {
        self.running.outbox.is_ended()
    }

    /// Runs a loop that blocks, such as a synchronous model, on a thread of its own, and waits for
    /// it. When the call is cancelled, the loop learns it from its streamer: the next `blocking_`
    /// method fails, and [`is_closed`](EventStreamer::is_closed) is true.
    ///
    /// ```
    /// # use agent_hub_kit::{EventStreamer, ToolContext, ToolError};
    /// # async fn handler(ctx: ToolContext) -> Result<String, ToolError> {
    /// let answer = ctx
    ///     .spawn_blocking(|stream: EventStreamer| {
    ///         for token in ["Hel", "lo"] {
    ///             stream.blocking_text(token)?;
    ///         }
    ///         Ok("Hello".to_owned())
    ///     })
    ///     .await?;
    /// # Ok(answer)
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the loop returns, or a failure when it panics.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the thread; the end of the call does.
    pub async fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(EventStreamer) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let stream = EventStreamer::new(self);
        super::driver::run_blocking(move || {
            if stream.is_closed() {
                // It had to wait for a thread.
                return Err(ToolError::new("the call has ended"));
            }
            work(stream)
        })
        .await
    }

    pub(super) fn running(&self) -> &Arc<Running> {
        &self.running
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}
