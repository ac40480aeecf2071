//! Runs tools: one task for each call that does not end at once.
//!
//! Owns what all sessions of a server share and the tasks of their calls; must not know sockets. A
//! task never outlives its session for long, and a session never its server.

use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::batch::Batch;
use super::calls::{Begun, Session};
use super::notice::Notice;
use super::offer::Offer;
use super::output::ToolError;
use super::roster::Roster;
use super::work::{Attended, Work};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::mcp::frame::Principal;
use crate::session::outbox::Outbox;
use crate::session::outbox::tape::Replay;
use crate::session::progress::{Framing, ProgressFrame};
use crate::session::server::{CallRequest, ServerSession};
use crate::transport::Source;
use crate::wire::chunk::Chunk;

/// A server's tools, shared by all its sessions.
pub(super) struct Host {
    offer: RwLock<Arc<Offer>>,
    limits: Limits,
    /// Whom to tell when the tools change; `None` if they do not.
    notices: Option<Mutex<Roster<Notice>>>,
    cancel_on_disconnect: bool,
    /// How many streams there were that can be gone on with; `None` if there are no such.
    streams: Option<Arc<AtomicU64>>,
    /// One permit a call in flight.
    calls: Arc<Semaphore>,
    /// One permit a subscription.
    subscriptions: Arc<Semaphore>,
}

impl Host {
    pub(super) fn new(offer: Offer, cancel_on_disconnect: bool, replays: bool) -> Self {
        let limits = offer.facts.limits.clone();
        let places = |max: usize| Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
        Self {
            notices: offer.facts.words.list_changed.then(Mutex::default),
            offer: RwLock::new(Arc::new(offer)),
            cancel_on_disconnect,
            streams: replays.then(Arc::default),
            calls: places(limits.max_calls),
            subscriptions: places(limits.max_subscriptions),
            limits,
        }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether clients are told that the tools have changed.
    pub(super) fn tells_changes(&self) -> bool {
        self.notices.is_some()
    }

    /// What is offered now.
    pub(super) fn offer(&self) -> Arc<Offer> {
        self.offer
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes what is offered, and tells every client so.
    pub(super) fn change(&self, change: impl FnOnce(&mut Offer) -> Result<()>) -> Result<()> {
        let Some(notices) = &self.notices else {
            return Err(Error::config(
                "the tools are fixed: build the server with dynamic_tools(true)",
            ));
        };
        // A handler that goes may run code of its own, which may change the tools: both offers are
        // dropped only when nothing is locked any more.
        let (_old, changed) = {
            let mut offer = self.offer.write().unwrap_or_else(PoisonError::into_inner);
            let mut next = Offer::clone(&offer);
            let changed = change(&mut next);
            let next = Arc::new(next);
            match changed {
                Ok(()) => (mem::replace(&mut *offer, next), Ok(())),
                Err(_) => (next, changed),
            }
        };
        changed?;
        let listening = {
            let notices = notices.lock().unwrap_or_else(PoisonError::into_inner);
            notices.present()
        };
        for notice in listening {
            notice.raise();
        }
        Ok(())
    }

    /// A session that nobody has opened yet.
    pub(super) fn session(
        &self,
        machine: ServerSession,
        principal: Option<Principal>,
    ) -> Arc<Session> {
        let streams = self.streams.clone();
        let replay = streams.map(|streams| Arc::new(Replay::new(&self.limits, streams)));
        Arc::new(Session::new(machine, principal, self.notice(), replay))
    }

    /// Whether what was sent is kept for a while.
    pub(super) fn replays(&self) -> bool {
        self.streams.is_some()
    }

    /// Word of each change from now on; `None` if the tools are fixed.
    fn notice(&self) -> Option<Arc<Notice>> {
        let notice = Arc::new(Notice::default());
        let mut notices = self
            .notices
            .as_ref()?
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        notices.enter(&notice);
        Some(notice)
    }

    /// What a subscription needs, if there is a place for it.
    pub(super) fn subscribe(&self) -> Option<(Arc<Notice>, OwnedSemaphorePermit)> {
        let place = self.subscriptions.clone().try_acquire_owned().ok()?;
        let notice = self.notice()?;
        notice.confirm();
        Some((notice, place))
    }

    /// Gives a call its outbox and its place, if there is one.
    pub(super) fn admit(
        &self,
        call: &CallRequest,
        framing: Framing,
        streams: bool,
    ) -> Option<(Arc<Outbox>, OwnedSemaphorePermit)> {
        let permit = self.calls.clone().try_acquire_owned().ok()?;
        let token = call.token.as_ref().filter(|_| streams);
        let frame = token.map(|token| ProgressFrame::new(framing, token));
        let outbox = Outbox::new(
            framing,
            frame,
            // With no room at all no event would ever be taken.
            self.limits().max_outbox_bytes.max(1),
            self.limits().max_event_bytes,
        );
        Some((Arc::new(outbox), permit))
    }

    /// Leaves a call to a task, which ends with its session.
    pub(super) fn leave_to_task(&self, work: Work, begun: Begun) {
        let patience = if self.cancel_on_disconnect {
            Duration::ZERO
        } else {
            self.limits().detached_call_timeout
        };
        let attended = Attended::new(work, begun.outbox().clone(), patience);
        tokio::spawn(async move {
            // The handler and what it owns are gone with this statement.
            let end = attended.await;
            if let Some((status, body)) = end {
                begun.end(status, body);
            }
        });
    }
}

/// Answers a batch over lines, when all of it is done.
pub(super) fn answer_batch(batch: Batch, outbox: Arc<Outbox>) {
    tokio::spawn(async move {
        match batch.answer().await {
            Some(body) => outbox.end(200, body),
            None => outbox.abandon(),
        }
    });
}

/// The reading end of a call's outbox: lets the call know when nobody reads any more.
pub(super) struct Reader {
    pub(super) outbox: Arc<Outbox>,
    /// What ends with the reading.
    _session: Option<Arc<Session>>,
}

impl Reader {
    pub(super) fn new(outbox: Arc<Outbox>, session: Option<Arc<Session>>) -> Self {
        Self {
            outbox,
            _session: session,
        }
    }
}

impl Source for Reader {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        self.outbox.poll_chunk(cx)
    }

    fn is_end(&self) -> bool {
        self.outbox.is_drained()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.outbox.detach();
    }
}

/// Runs a blocking loop on a thread of its own.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(e) => match e.try_into_panic() {
            // The handler's own panic, for whoever watches over the handler.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ToolError::new("the runtime is shutting down")),
        },
    }
}
