//! A client's side of one connection: opening, requests in flight, routing of what comes back.
//!
//! Owns the state of the connection; must not know what carries its frames or who reads its
//! events. Over HTTP a call's own reply is judged by its [`Call`] without coming here; this
//! machine sees its start, its end, and messages that arrived on another's reply.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::call::Call;
use super::negotiate::{Negotiation, Opening};
use super::pending::Pending;
use super::progress::ProgressDecoder;
use super::tools::{Listing, ToolList};
use crate::error::{Error, Place};
use crate::event::StreamEvent;
use crate::limits::Limits;
use crate::mcp::era::{Dialect, Opened};
use crate::mcp::frame::{Frame, Head, SessionId, Verb};
use crate::mcp::param::ParamHeader;
use crate::mcp::types::Implementation;
use crate::mcp::version::ProtocolVersion;
use crate::wire::jsonrpc::{RawJson, RequestId};

mod incoming;
mod listening;
mod requests;

#[derive(Debug)]
pub(crate) struct ClientSession {
    client: Implementation,
    place: Place,
    limits: Limits,
    /// All messages share one channel, so that hanging up says nothing.
    is_shared: bool,
    negotiation: Negotiation,
    /// Until when the opening under way may ask what the peer speaks.
    question_deadline: Option<Instant>,
    dialect: &'static dyn Dialect,
    phase: Phase,
    /// How often the connection was opened: tells a lost session from the one that replaced it.
    generation: u64,
    /// How often it was tried to open it.
    attempts: u64,
    /// How many calls and lists for a user were answered.
    answered: u64,
    /// Outlives the session, since a peer may still quote it.
    last_session: Option<SessionId>,
    pending: Pending<Work>,
    progress: ProgressDecoder,
    /// What was passed over so far because it is no message.
    skipped: u64,
    outputs: VecDeque<Output>,
}

#[derive(Debug)]
enum Phase {
    New,
    /// `session` is what the head of the answer said; it counts once the answer is a result.
    Opening {
        id: i64,
        session: Option<SessionId>,
        /// Something of its reply is there.
        is_replied: bool,
        /// The same as in [`Opening`].
        is_question: bool,
    },
    Confirming(Live),
    Open(Live),
    Closed,
}

/// What an open connection is.
#[derive(Debug)]
struct Live {
    opened: Opened,
    session: Option<SessionId>,
    /// Members of every request's `_meta`.
    meta: String,
}

/// What a request is about, and what it relies on.
#[derive(Debug)]
enum Work {
    Call {
        call: Call,
        timeout: Option<Duration>,
        named: Named,
    },
    /// `list` is the id that the connection's user knows the whole list by.
    List {
        list: i64,
        asker: Asker,
        listing: Listing,
        named: Named,
    },
    /// `honoured` is whether the peer agreed to tell of changed tools, once it has said.
    Listen {
        honoured: Option<bool>,
    },
    Open,
}

/// What the peer has to know to take a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Named {
    /// Which opening of the connection it is of.
    generation: u64,
    version: Option<ProtocolVersion>,
    /// It carries the id of a session.
    has_session: bool,
}

/// On whose account a list is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// It is ours to keep up to date; that it can be had shows no use of the peer to anybody.
    Hub,
    User,
}

/// What the driver does next.
#[derive(Debug)]
pub(crate) enum Output {
    Event(Event),
    /// Send this frame. Its reply belongs to `owner`. If it tells the peer that the call `ends` is
    /// over, that call's reply may be hung up once this is delivered.
    Send {
        frame: Frame,
        owner: Owner,
        ends: Option<i64>,
    },
}

/// Whose reply it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The message that completes the opening.
    Confirmation,
    /// A message without an answer, whose delivery nobody waits for.
    Nobody,
    Request(i64),
}

/// What the connection's user learns.
#[derive(Debug)]
pub(crate) enum Event {
    /// An event of a call that did not come through the call's own reply.
    Call {
        id: i64,
        event: StreamEvent,
    },
    /// `lost` is the number of the session that the peer lost meanwhile, as in
    /// [`Refusal::SessionLost`].
    Listed {
        id: i64,
        tools: Result<ToolList, Error>,
        lost: Option<u64>,
    },
    Opened(Result<(), Error>),
    /// The server wants a call made again, with `state` beside its arguments, and has ended this
    /// one. If it is not made again, `event` is its end.
    Returned {
        id: i64,
        state: Box<str>,
        event: StreamEvent,
    },
    /// From now on the peer tells of changed tools; what changed before is not told.
    Subscribed,
    ToolsChanged,
    /// The peer tells no more of changes. `again` if it may be asked again.
    Unsubscribed {
        id: i64,
        again: bool,
    },
    Warning(String),
}

/// What to do with a reply whose head is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Drain a little of it; nothing in it matters.
    Ignore,
    /// Feed its messages to [`ClientSession::handle_message`], then its end.
    Read,
    /// Read it as text for [`ClientSession::handle_refusal`].
    Refused,
}

/// What became of a request that was refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The request failed; its caller sees this.
    Call(StreamEvent),
    /// The headers that repeat arguments were not those that the tool wants now. Nothing ran: list
    /// the tools again and repeat it. If it was repeated already, its caller sees this.
    Mismatch(StreamEvent),
    /// It is told through an output, or matters to nobody.
    Noted,
    /// The peer lost the session that was opened as number `generation`. The request was not
    /// processed: open again and repeat it. If it was repeated already, its caller sees `event`,
    /// and also if the peer speaks `unless_still` then: it may have processed it.
    SessionLost {
        generation: u64,
        unless_still: Option<ProtocolVersion>,
        event: StreamEvent,
    },
}

/// A call that begins.
#[derive(Debug)]
pub(crate) struct CallStart {
    pub(crate) call: Call,
    pub(crate) frame: Frame,
}

/// What to call, and how.
#[derive(Debug)]
pub(crate) struct CallSpec<'a> {
    pub(crate) tool: &'a str,
    /// An object.
    pub(crate) arguments: &'a RawJson,
    /// Whether events are wanted, and so a progress token is sent.
    pub(crate) events: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) wraps_result: bool,
    /// The arguments that the tool wants in headers too.
    pub(crate) mirrored: &'a [ParamHeader],
    /// What the server wants to be given back, as JSON, if it wants this call made again.
    pub(crate) state: Option<&'a str>,
    pub(crate) place: &'a Place,
}

impl ClientSession {
    pub(crate) fn new(
        client: Implementation,
        place: Place,
        limits: Limits,
        is_shared: bool,
        negotiation: Negotiation,
    ) -> Self {
        let progress = ProgressDecoder::new(limits.max_json_depth);
        Self {
            client,
            place,
            limits,
            is_shared,
            dialect: negotiation.dialect(),
            negotiation,
            question_deadline: None,
            phase: Phase::New,
            generation: 0,
            attempts: 0,
            answered: 0,
            last_session: None,
            pending: Pending::new(),
            progress,
            skipped: 0,
            outputs: VecDeque::new(),
        }
    }

    /// The next thing to do. Call it until it gives `None` after each input.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due. Changes with every call.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.pending.next_deadline()
    }

    /// How often this connection was opened.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Which attempt to open the connection it lives from; `None` when it has to be opened.
    pub(crate) fn attempt(&self) -> Option<u64> {
        (!matches!(self.phase, Phase::New)).then_some(self.attempts)
    }

    /// How many calls and lists for a user the peer has answered on a shared link.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// The id of the session that was opened last: a secret.
    pub(crate) fn last_session(&self) -> Option<&SessionId> {
        self.last_session.as_ref()
    }

    /// What the peer speaks, if that was found out by asking it.
    pub(crate) fn found(&self) -> Option<ProtocolVersion> {
        self.negotiation.found()
    }

    /// What the peer said of itself; `None` while the connection is not open.
    pub(crate) fn opened(&self) -> Option<&Opened> {
        match &self.phase {
            Phase::Open(live) => Some(&live.opened),
            _ => None,
        }
    }

    /// Whether the reply of `owner` can still say anything of interest.
    pub(crate) fn awaits(&self, owner: Owner) -> bool {
        matches!(owner, Owner::Request(id) if self.pending.contains(id))
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Opens the connection, or opens it again after the peer lost the session. While it opens
    /// there is nothing more to do: one [`Event::Opened`] is on its way.
    pub(crate) fn open(&mut self, now: Instant) {
        match self.phase {
            Phase::Closed => return self.tell(Event::Opened(Err(closed().at(&self.place)))),
            Phase::Opening { .. } | Phase::Confirming(_) => return,
            Phase::New | Phase::Open(_) => {}
        }
        self.attempts += 1;
        self.question_deadline = now.checked_add(self.patience());
        let opening = self.negotiation.begin();
        self.send_opening(&opening);
    }

    /// How long it may take to ask what the peer speaks. The longer part of the time is left for
    /// an opening that has to follow.
    fn patience(&self) -> Duration {
        let limits = &self.limits;
        limits.discover_timeout.min(limits.connect_timeout / 2)
    }

    fn send_opening(&mut self, opening: &Opening) {
        self.attempts += u64::from(opening.is_fresh);
        self.dialect = opening.dialect;
        let deadline = self.question_deadline.filter(|_| opening.is_question);
        let id = self.pending.insert(deadline, |_| Work::Open);
        self.phase = Phase::Opening {
            id,
            session: None,
            is_replied: false,
            is_question: opening.is_question,
        };
        let (head, body) = self.dialect.opening(&RequestId::Number(id), &self.client);
        self.post(head, body, Owner::Request(id), None);
    }

    /// Ends the connection: every call fails and is cancelled, and a session of the peer is given
    /// up.
    pub(crate) fn close(&mut self) {
        for (id, work) in self.pending.drain() {
            match work {
                Work::Call { call, .. } => {
                    self.send_cancel(id, "closed");
                    self.tell(Event::Call {
                        id,
                        event: call.fail(closed()),
                    });
                }
                Work::List { list, .. } => {
                    self.tell(Event::Listed {
                        id: list,
                        tools: Err(closed().at(&self.place)),
                        lost: None,
                    });
                }
                Work::Listen { .. } => {
                    self.send_cancel(id, "closed");
                    self.tell(Event::Unsubscribed { id, again: false });
                }
                Work::Open => self.tell(Event::Opened(Err(closed().at(&self.place)))),
            }
        }
        if matches!(self.phase, Phase::Confirming(_)) {
            self.tell(Event::Opened(Err(closed().at(&self.place))));
        }
        self.leave(self.head());
        self.phase = Phase::Closed;
    }

    /// Gives the session in a head up, if there is one.
    fn leave(&mut self, head: Head) {
        if head.session_id.is_some() && self.dialect.has_sessions() {
            let frame = Frame {
                verb: Verb::Delete,
                head,
                body: Bytes::new(),
            };
            self.outputs.push_back(Output::Send {
                frame,
                owner: Owner::Nobody,
                ends: None,
            });
        }
    }

    /// A deadline may have come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some((id, work)) = self.pending.pop_expired(now) {
            match work {
                Work::Call { call, timeout, .. } => {
                    self.send_cancel(id, "timeout");
                    let error = Error::timeout("timeout", timeout.unwrap_or_default());
                    self.tell(Event::Call {
                        id,
                        event: call.fail(error),
                    });
                }
                // A late answer finds nothing.
                Work::Open => {
                    let next = self.negotiation.handle_silence(self.patience());
                    self.go_on(next);
                }
                Work::List { .. } | Work::Listen { .. } => {}
            }
        }
    }

    /// What a request relies on now.
    fn named(&self) -> Named {
        Named {
            generation: self.generation,
            version: self.opened().map(|opened| opened.version),
            has_session: self.head().session_id.is_some(),
        }
    }

    fn head(&self) -> Head {
        match &self.phase {
            Phase::Confirming(live) | Phase::Open(live) => self
                .dialect
                .head(live.opened.version, live.session.as_ref()),
            _ => Head::default(),
        }
    }

    fn post(&mut self, head: Head, body: Bytes, owner: Owner, ends: Option<i64>) {
        let frame = Frame {
            verb: Verb::Post,
            head,
            body,
        };
        self.outputs.push_back(Output::Send { frame, owner, ends });
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }
}

fn closed() -> Error {
    Error::closed("connection")
}

/// What a call sees whose reply ended without an answer.
pub(crate) fn early_end() -> Error {
    Error::transport(EARLY_END)
}

pub(crate) const EARLY_END: &str = "the connection closed before the response";

#[cfg(test)]
mod tests;
