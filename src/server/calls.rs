//! One client's session: what its messages ask for, and the calls that are in flight in it.
//!
//! Owns the rule that a call is in its session exactly as long as it runs; must not know tasks or
//! what carries a message. One lock a session; nobody is woken under it, and no code of a tool
//! runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;

use super::notice::{Listener, Notice};
use crate::mcp::classify::Stated;
use crate::mcp::frame::Principal;
use crate::session::outbox::Outbox;
use crate::session::outbox::tape::{Replay, Resumed};
use crate::session::server::{
    self as machine, CallRequest, ListenRequest, Reaction, ReplyWords, ServerFacts, ServerSession,
};
use crate::session::table::Occupied;
use crate::wire::jsonrpc::{ErrorObject, Message, RequestId};

pub(super) struct Session {
    state: Mutex<State>,
    /// Whose it is, where that is asked for and has a name.
    principal: Option<Principal>,
    /// Only if the server's tools may change.
    notice: Option<Arc<Notice>>,
    /// Only if the server keeps what it sent.
    replay: Option<Arc<Replay>>,
}

struct State {
    machine: ServerSession,
    /// Calls and subscriptions: the same that the machine counts.
    calls: HashMap<RequestId, InFlight>,
    /// When the last of them ended.
    freed: Option<Instant>,
    /// Nothing begins any more.
    is_over: bool,
}

/// What it takes to end a call or a subscription from outside.
struct InFlight {
    outbox: Arc<Outbox>,
    last: LastWord,
}

/// What the client is told when the server ends something.
enum LastWord {
    /// An error, as the response of a call.
    Error(ReplyWords),
    /// This result, as the response of a subscription, whose place is free again with it.
    Result {
        body: Vec<u8>,
        _place: OwnedSemaphorePermit,
    },
}

impl InFlight {
    fn end(self, error: &ErrorObject) {
        let (status, body) = match self.last {
            LastWord::Error(reply) => reply.error(error),
            LastWord::Result { body, .. } => (200, body),
        };
        self.outbox.end(status, body);
    }
}

/// What is to be done about a message.
pub(super) enum Step {
    /// The session has ended meanwhile.
    Over,
    /// Run this tool.
    Run(CallRequest, Begun),
    /// Nothing, or to say something.
    Settled(Reaction),
}

impl Session {
    pub(super) fn new(
        machine: ServerSession,
        principal: Option<Principal>,
        notice: Option<Arc<Notice>>,
        replay: Option<Arc<Replay>>,
    ) -> Self {
        let state = State {
            machine,
            calls: HashMap::new(),
            freed: None,
            is_over: false,
        };
        Self {
            state: Mutex::new(state),
            principal,
            notice,
            replay,
        }
    }

    pub(super) fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// Keeps what a call says on its stream, which has yet to begin.
    pub(super) fn tape(&self, outbox: &Arc<Outbox>) {
        if let Some(replay) = &self.replay {
            replay.tape(outbox, self.primes_streams());
        }
    }

    /// A stream of one message that can be gone on with; `None` if there are no such streams.
    pub(super) fn whole_stream(&self, message: &[u8]) -> Option<Vec<u8>> {
        let replay = self.replay.as_ref()?;
        Some(replay.whole(message, self.primes_streams()))
    }

    /// Goes on with a stream after an event, if all that follows is kept.
    pub(super) fn resume(&self, last_event_id: &str) -> Option<Resumed> {
        self.replay.as_ref()?.resume(last_event_id)
    }

    fn primes_streams(&self) -> bool {
        self.state().machine.primes_streams()
    }

    /// The one stream that hears of changed tools; `None` if there are none, or the session has
    /// ended.
    pub(super) fn listen(&self) -> Option<Listener> {
        let state = self.state();
        let notice = self.notice.as_ref().filter(|_| !state.is_over)?;
        Some(notice.listen())
    }

    /// Ends that stream, and every subscription.
    pub(super) fn hang_up(&self) {
        if let Some(notice) = &self.notice {
            notice.hang_up();
        }
        let mut state = self.state();
        let State { machine, calls, .. } = &mut *state;
        let is_subscription = |call: &InFlight| matches!(call.last, LastWord::Result { .. });
        let ended: Vec<_> = calls
            .extract_if(|id, call| is_subscription(call) && machine.finish(id))
            .collect();
        drop(state);
        for (_, InFlight { outbox, last }) in ended {
            if let LastWord::Result { body, .. } = last {
                outbox.end(200, body);
            }
        }
    }

    /// Puts a subscription in flight; `None` if the session has ended meanwhile.
    pub(super) fn subscribe(
        self: &Arc<Self>,
        listen: ListenRequest,
        outbox: &Arc<Outbox>,
        place: OwnedSemaphorePermit,
    ) -> Option<Begun> {
        let ListenRequest { id, words } = listen;
        let mut state = self.state();
        if state.is_over {
            return None;
        }
        let in_flight = InFlight {
            outbox: outbox.clone(),
            last: LastWord::Result {
                body: words.ended,
                _place: place,
            },
        };
        state.calls.insert(id.clone(), in_flight);
        Some(Begun {
            session: Arc::downgrade(self),
            id,
            outbox: outbox.clone(),
            permit: None,
        })
    }

    /// A request that was taken comes to nothing.
    pub(super) fn turn_away(&self, id: &RequestId) {
        self.state().machine.finish(id);
    }

    pub(super) fn takes_batches(&self) -> bool {
        self.state().machine.takes_batches()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges a message. `admit` gives a call its outbox and its place among all of the server;
    /// `None` if there is no place.
    pub(super) fn handle_message(
        self: &Arc<Self>,
        message: Message,
        stated: Option<&Stated>,
        facts: &ServerFacts,
        admit: impl FnOnce(&CallRequest) -> Option<(Arc<Outbox>, OwnedSemaphorePermit)>,
    ) -> Step {
        let mut state = self.state();
        if state.is_over {
            return Step::Over;
        }
        match state.machine.handle_message(message, stated, facts) {
            Reaction::Call(call) => {
                let Some((outbox, permit)) = admit(&call) else {
                    state.machine.finish(&call.id);
                    return Step::Settled(Reaction::Busy(machine::busy(&call.id, "max_calls")));
                };
                let in_flight = InFlight {
                    outbox: outbox.clone(),
                    last: LastWord::Error(call.reply.clone()),
                };
                state.calls.insert(call.id.clone(), in_flight);
                let begun = Begun {
                    session: Arc::downgrade(self),
                    id: call.id.clone(),
                    outbox,
                    permit: Some(permit),
                };
                Step::Run(call, begun)
            }
            Reaction::Cancel(id) => {
                let cancelled = state.calls.remove(&id);
                state.freed = Some(now());
                drop(state);
                if let Some(call) = cancelled {
                    call.outbox.abandon();
                }
                Step::Settled(Reaction::Accept)
            }
            Reaction::Accept => {
                let confirmed = state.machine.is_confirmed();
                drop(state);
                if let Some(notice) = self.notice.as_ref().filter(|_| confirmed) {
                    notice.confirm();
                }
                Step::Settled(Reaction::Accept)
            }
            reaction => Step::Settled(reaction),
        }
    }

    /// Ends the session and its calls: with an error as their response, or without one.
    pub(super) fn end(&self, error: Option<&ErrorObject>) {
        let calls = {
            let mut state = self.state();
            state.is_over = true;
            std::mem::take(&mut state.calls)
        };
        if let Some(notice) = &self.notice {
            notice.end();
        }
        for call in calls.into_values() {
            match error {
                Some(error) => call.end(error),
                None => call.outbox.abandon(),
            }
        }
        if let Some(replay) = &self.replay {
            replay.clear();
        }
    }

    /// Takes a call out that has ended, unless somebody did so already: then its id may stand for
    /// another call by now.
    fn forget(&self, id: &RequestId, outbox: &Arc<Outbox>) {
        let mut state = self.state();
        let is_there = |call: &InFlight| Arc::ptr_eq(&call.outbox, outbox);
        if state.calls.get(id).is_some_and(is_there) {
            state.calls.remove(id);
            state.machine.finish(id);
            state.freed = Some(now());
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl Occupied for Arc<Session> {
    fn is_busy(&self) -> bool {
        let heard = |notice: &Arc<Notice>| notice.is_heard();
        !self.state().calls.is_empty() || self.notice.as_ref().is_some_and(heard)
    }

    fn owner(&self) -> Option<&Principal> {
        self.principal()
    }

    fn freed(&self) -> Option<Instant> {
        let unheard = self.notice.as_ref().and_then(|notice| notice.freed());
        self.state().freed.max(unheard)
    }
}

/// A call in flight. However it ends, a dropped task included, its session and its stream learn
/// of it.
pub(super) struct Begun {
    session: Weak<Session>,
    id: RequestId,
    outbox: Arc<Outbox>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Begun {
    pub(super) fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Gives the response. The call's place is free before its client can know.
    pub(super) fn end(mut self, status: u16, body: Vec<u8>) {
        self.leave();
        self.outbox.end(status, body);
    }

    fn leave(&mut self) {
        self.permit = None;
        if let Some(session) = std::mem::take(&mut self.session).upgrade() {
            session.forget(&self.id, &self.outbox);
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.leave();
        self.outbox.abandon();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a driver reads the clock for its machines"
)]
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
