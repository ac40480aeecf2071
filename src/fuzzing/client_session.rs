//! A client's session, whatever its user, its peer and its links do in whatever order.
//!
//! Owns what may come out of it; must not know how the session keeps its state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use arbitrary::Arbitrary;
use bytes::Bytes;

use self::says::{Says, ids};
use crate::error::{Error, Place};
use crate::event::StreamEvent;
use crate::limits::Limits;
use crate::mcp::frame::{Frame, Head, SessionId, Verb};
use crate::mcp::types::Implementation;
use crate::mcp::version::{Era, ProtocolVersion};
use crate::session::call::{Call, Judged, Returned};
use crate::session::client::{
    Asker, CallSpec, ClientSession, Event, Output, Owner, Refusal, early_end,
};
use crate::session::negotiate::Negotiation;
use crate::wire::jsonrpc::{self, Incoming, Message, RawJson};

mod says;

/// What happens to one session.
#[derive(Debug, Clone, Arbitrary)]
pub struct ClientCase<'a> {
    chosen: Chosen,
    /// What the peer spoke in another connection.
    known: Option<u8>,
    is_shared: bool,
    ops: Vec<Op<'a>>,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Chosen {
    Auto,
    Handshake,
    Stateless,
}

/// One thing that happens. A number means the request that was sent so many before the newest one.
#[derive(Debug, Clone, Arbitrary)]
enum Op<'a> {
    Call {
        timeout: Option<u8>,
        events: bool,
    },
    Cancel(u8),
    Close,
    /// A reply ends; `read` tells whether the call's own reader sees it.
    End {
        of: Whose,
        is_broken: bool,
        read: bool,
    },
    Forget(u8),
    GiveUp(u8),
    GiveUpOpening,
    Head {
        of: Whose,
        status: u8,
        session: Option<bool>,
    },
    /// For the hub's own use, or for a user of it.
    List {
        is_ours: bool,
    },
    Listen,
    Lost,
    Message {
        on: Whose,
        about: u8,
        says: Says<'a>,
        /// Twice, in an array that holds junk as well.
        in_batch: bool,
    },
    Open,
    Refusal {
        of: Whose,
        status: u8,
        about: u8,
        says: Says<'a>,
    },
    Resume(u8),
    Sent(Whose),
    Skipped,
    Stream,
    Wait(u8),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Whose {
    Confirmation,
    Nobody,
    Request(u8),
}

/// Each call has exactly one end, and so have each list, each subscription and each attempt to
/// open; ids are never used again; frames are messages by the rules of their era; what is kept is
/// what waits, and nothing comes out of a session that was closed.
pub fn client_session(case: &ClientCase<'_>) {
    let mut driver = Driver::new(case);
    for op in &case.ops {
        driver.apply(op);
        driver.check();
    }
    driver.apply(&Op::Close);
    driver.check();
    driver.check_closed();
}

/// A driver as small as can be, which keeps count.
struct Driver {
    session: ClientSession,
    is_shared: bool,
    now: Instant,
    /// The ids of all requests, oldest first.
    issued: Vec<i64>,
    calls: BTreeMap<i64, Caller>,
    others: BTreeMap<i64, Other>,
    /// An answer to `open` is due.
    is_opening: bool,
    /// Since then.
    openings: usize,
    opened: u64,
    is_closed: bool,
    /// What a closed session is asked right now, and may answer.
    is_asked: bool,
    names: Vec<SessionId>,
    /// What the peer was told to stop.
    cancelled: BTreeSet<i64>,
}

struct Caller {
    call: Call,
    is_over: bool,
}

/// A list or a subscription.
struct Other {
    listens: bool,
    is_over: bool,
}

const MAX_TOOLS: usize = 4;

impl Driver {
    #[expect(
        clippy::disallowed_methods,
        reason = "a start for times that are only compared"
    )]
    fn new(case: &ClientCase<'_>) -> Self {
        let era = match case.chosen {
            Chosen::Auto => Era::Auto,
            Chosen::Handshake => Era::Legacy,
            Chosen::Stateless => Era::Modern,
        };
        let all = ProtocolVersion::ALL;
        let known = case.known.map(|pick| all[usize::from(pick) % all.len()]);
        let info = Implementation {
            name: "hub".to_owned(),
            version: "0.1.0".to_owned(),
        };
        let limits = Limits {
            max_tools: MAX_TOOLS,
            max_tool_pages: 3,
            ..Limits::default()
        };
        let negotiation = Negotiation::new(era, known);
        let place = Place::new(&"alpha".into(), None);
        Self {
            session: ClientSession::new(info, place, limits, case.is_shared, negotiation),
            is_shared: case.is_shared,
            now: Instant::now(),
            issued: Vec::new(),
            calls: BTreeMap::new(),
            others: BTreeMap::new(),
            is_opening: false,
            openings: 0,
            opened: 0,
            is_closed: false,
            is_asked: false,
            names: ["s-1", "s-2"]
                .map(|name| SessionId::parse(name).unwrap())
                .into(),
            cancelled: BTreeSet::new(),
        }
    }

    /// The id that a number means; one that was never given out if there are not so many.
    fn id(&self, back: u8) -> i64 {
        let at = self.issued.len().checked_sub(1 + usize::from(back));
        at.map_or(1_000_000, |at| self.issued[at])
    }

    fn owner(&self, whose: Whose) -> Owner {
        match whose {
            Whose::Confirmation => Owner::Confirmation,
            Whose::Nobody => Owner::Nobody,
            Whose::Request(back) => Owner::Request(self.id(back)),
        }
    }

    /// The call whose own reader has that reply.
    fn reads(&self, owner: Owner) -> Option<Call> {
        let Owner::Request(id) = owner else {
            return None;
        };
        let caller = self.calls.get(&id).filter(|_| !self.is_shared)?;
        Some(caller.call.clone())
    }

    fn is_over(&self, id: i64) -> bool {
        self.calls.get(&id).is_none_or(|caller| caller.is_over)
    }

    fn apply(&mut self, op: &Op<'_>) {
        match op {
            Op::Call { timeout, events } => self.call(*timeout, *events),
            Op::Cancel(back) => {
                let id = self.id(*back);
                self.session.cancel(id, "user");
                if let Some(caller) = self.calls.get_mut(&id) {
                    caller.is_over = true;
                }
            }
            Op::Close => {
                self.session.close();
                self.drain(0);
                self.is_closed = true;
            }
            Op::End {
                of,
                is_broken,
                read,
            } => self.end(*of, *is_broken, *read),
            Op::Forget(back) => self.forget(*back),
            Op::GiveUp(back) => {
                let id = self.id(*back);
                let error = Error::limit("max_queued_events", 1);
                let end = self.session.give_up(id, "unread", error);
                assert_eq!(end.is_none(), self.is_over(id));
                if let Some(end) = end {
                    self.deliver(id, &end);
                }
            }
            Op::GiveUpOpening => self.session.give_up_opening(&early_end()),
            Op::Head {
                of,
                status,
                session,
            } => {
                let name = session.map(|second| self.names[usize::from(second)].clone());
                let owner = self.owner(*of);
                self.session.handle_head(owner, said(*status), name);
            }
            Op::List { is_ours } => {
                self.is_asked = true;
                let id = self.session.list(match is_ours {
                    true => Asker::Hub,
                    false => Asker::User,
                });
                let other = Other {
                    listens: false,
                    is_over: false,
                };
                self.others.insert(id, other);
            }
            Op::Listen => {
                if let Some((id, frame)) = self.session.listen() {
                    let other = Other {
                        listens: true,
                        is_over: false,
                    };
                    self.others.insert(id, other);
                    self.sent(&frame, Owner::Request(id));
                }
            }
            Op::Lost => self.session.handle_lost(&early_end()),
            Op::Message {
                on,
                about,
                says,
                in_batch,
            } => {
                let mut message = says.message(self.id(*about));
                if *in_batch {
                    message = format!("[{message},7,{message}]");
                }
                self.receive(self.owner(*on), message.into());
            }
            Op::Open => {
                self.is_asked = true;
                self.openings = if self.is_opening { self.openings } else { 0 };
                self.is_opening = true;
                self.session.open(self.now);
            }
            Op::Refusal {
                of,
                status,
                about,
                says,
            } => {
                let body = says.message(self.id(*about));
                self.refuse(self.owner(*of), said(*status), &body);
            }
            Op::Resume(back) => {
                let id = self.id(*back);
                if let Some(frame) = self.session.resume(id, "s1-1".into()) {
                    assert_eq!(frame.head.last_event_id.as_deref(), Some("s1-1"));
                    self.sent(&frame, Owner::Nobody);
                }
            }
            Op::Sent(whose) => {
                let owner = self.owner(*whose);
                self.session.handle_sent(owner);
            }
            Op::Skipped => self
                .session
                .handle_skipped(&Error::limit("max_json_depth", 1)),
            Op::Stream => {
                if let Some(frame) = self.session.stream() {
                    self.sent(&frame, Owner::Nobody);
                }
            }
            Op::Wait(steps) => {
                self.now += Duration::from_millis(250) * u32::from(*steps);
                self.session.handle_timeout(self.now);
                let next = self.session.poll_timeout();
                assert!(
                    next.is_none_or(|at| at > self.now),
                    "a deadline that has passed"
                );
            }
        }
        let more = match op {
            Op::Message { says, .. } => says.message(0).len(),
            _ => 0,
        };
        self.drain(more);
        self.is_asked = false;
    }

    fn call(&mut self, timeout: Option<u8>, events: bool) {
        let place = Place::new(&"alpha".into(), Some(&"add".into()));
        let spec = CallSpec {
            tool: "add",
            arguments: &RawJson::from_static("{}"),
            events,
            timeout: timeout.map(|steps| Duration::from_millis(250) * u32::from(steps)),
            wraps_result: false,
            mirrored: &[],
            state: timeout.filter(|steps| steps % 2 == 1).map(|_| "\"s\""),
            place: &place,
        };
        let started = self.session.call(&spec, self.now);
        assert_eq!(started.is_ok(), self.session.opened().is_some());
        let Ok(start) = started else { return };
        let id = start.call.id;
        self.sent(&start.frame, Owner::Request(id));
        let caller = Caller {
            call: start.call,
            is_over: false,
        };
        self.calls.insert(id, caller);
    }

    fn forget(&mut self, back: u8) {
        let at = self.others.len().checked_sub(1 + usize::from(back));
        let Some((id, other)) = at.and_then(|at| self.others.iter_mut().nth(at)) else {
            return;
        };
        other.is_over = true;
        match other.listens {
            true => self.session.forget_listen(*id),
            false => self.session.forget_list(*id),
        }
    }

    fn end(&mut self, of: Whose, is_broken: bool, read: bool) {
        let error = is_broken.then(|| Error::transport("reset"));
        let owner = self.owner(of);
        match self.reads(owner).filter(|_| read) {
            None => self.session.handle_end(owner, error),
            Some(call) if !self.is_over(call.id) => {
                self.deliver(call.id, &call.fail(error.unwrap_or_else(early_end)));
                self.session.finish(call.id);
            }
            Some(_) => {}
        }
    }

    /// A message comes on the reply of `owner`: to the reader of that, or to the session.
    fn receive(&mut self, owner: Owner, bytes: Bytes) {
        let Some(call) = self.reads(owner) else {
            return self.session.handle_message(&bytes, owner);
        };
        match jsonrpc::decode(&bytes, 128) {
            // Nobody reads the reply of a call that is over.
            _ if self.is_over(call.id) => {}
            Ok(Incoming::One(message)) => match call.judge(message) {
                Judged::Event(event) | Judged::Returned(Returned { event, .. }) => {
                    self.deliver(call.id, &event);
                    if event.is_terminal() {
                        self.session.finish(call.id);
                    }
                }
                Judged::Foreign(message) => self.session.handle_decoded(message, owner),
            },
            _ => self.session.handle_message(&bytes, owner),
        }
    }

    fn refuse(&mut self, owner: Owner, status: u16, body: &str) {
        let refusal = self.session.handle_refusal(owner, status, None, body);
        let end = match refusal {
            Refusal::Call(event) | Refusal::Mismatch(event) => event,
            Refusal::SessionLost {
                generation, event, ..
            } => {
                assert!((1..=self.opened).contains(&generation));
                event
            }
            Refusal::Noted => {
                let is_call = matches!(owner, Owner::Request(id) if !self.is_over(id));
                return assert!(!is_call, "a refused call has no end");
            }
        };
        let Owner::Request(id) = owner else {
            panic!("{owner:?} is no call")
        };
        self.deliver(id, &end);
    }

    fn deliver(&mut self, id: i64, event: &StreamEvent) {
        let caller = self.calls.get_mut(&id).expect("an event of a call");
        assert!(!caller.is_over, "{} after the end of {id}", event.kind);
        caller.is_over = event.is_terminal();
    }

    fn end_other(&mut self, id: i64) {
        let other = self.others.get_mut(&id).expect("a known request");
        assert!(
            !other.is_over,
            "{id} ended twice, or after it was forgotten"
        );
        other.is_over = true;
    }

    /// Takes what comes out: not much, however much was `said`.
    fn drain(&mut self, said: usize) {
        let most = 16 + 4 * (self.calls.len() + self.others.len()) + said;
        let mut count = 0;
        while let Some(output) = self.session.poll_output() {
            count += 1;
            assert!(count <= most, "more than {most} outputs of one input");
            match output {
                Output::Send { frame, owner, ends } => {
                    self.sent(&frame, owner);
                    if let Some(id) = ends {
                        let listens = self.others.get(&id).is_some_and(|other| other.listens);
                        assert!(listens || self.calls.contains_key(&id), "{id} is no call");
                        assert!(self.cancelled.insert(id), "{id} was cancelled twice");
                    }
                }
                Output::Event(event) => self.told(event),
            }
        }
    }

    fn told(&mut self, event: Event) {
        let is_answer = matches!(
            event,
            Event::Listed { tools: Err(_), .. } | Event::Opened(Err(_))
        );
        let is_due = !self.is_closed || self.is_asked && is_answer;
        assert!(is_due, "after the close: {event:?}");
        match event {
            Event::Call { id, event } => self.deliver(id, &event),
            Event::Returned { id, event, .. } => {
                assert!(event.is_terminal());
                self.deliver(id, &event);
            }
            Event::Listed { id, tools, .. } => {
                let count = tools.map_or(0, |list| list.tools.len());
                assert!(count <= MAX_TOOLS, "{count} tools");
                self.end_other(id);
            }
            Event::Opened(outcome) => {
                assert!(self.is_opening, "opened twice: {outcome:?}");
                self.is_opening = false;
                self.opened += u64::from(outcome.is_ok());
            }
            Event::Subscribed => {
                let mut others = self.others.values();
                assert!(others.any(|other| other.listens && !other.is_over));
            }
            Event::Unsubscribed { id, .. } => {
                assert!(self.others[&id].listens);
                self.end_other(id);
            }
            Event::ToolsChanged | Event::Warning(_) => {}
        }
    }

    /// A frame on its way to the peer.
    fn sent(&mut self, frame: &Frame, owner: Owner) {
        assert!(!self.is_closed, "a frame after the close: {frame:?}");
        let Frame { verb, head, body } = frame;
        assert!(!body.contains(&b'\n') && !body.contains(&b'\r'));
        let version = head
            .version
            .as_deref()
            .map(|text| ProtocolVersion::parse(text).expect("a version that we know"));
        let has_sessions = version.is_some_and(ProtocolVersion::is_legacy);
        if let Some(name) = &head.session_id {
            assert!(self.names.contains(name));
            assert!(version.is_none() && *verb == Verb::Delete || has_sessions);
        }
        if *verb != Verb::Post {
            assert!(body.is_empty() && (has_sessions || version.is_none()));
            return;
        }
        match (jsonrpc::decode(body, 128), owner) {
            (Ok(Incoming::One(Message::Request(request))), Owner::Request(id)) => {
                assert_eq!(ids(&request.id), Some(id));
                assert!(
                    self.issued.iter().all(|old| *old < id),
                    "{id} was used before"
                );
                self.issued.push(id);
                let says_method = head.method.as_deref() == Some(&*request.method);
                assert_eq!(says_method, version.is_some() && !has_sessions);
                assert_eq!(head.method.is_some(), says_method);
                let opens = matches!(&*request.method, "initialize" | "server/discover");
                self.openings += usize::from(opens);
                assert!(self.openings <= 4, "a fifth attempt to open");
            }
            (Ok(Incoming::One(Message::Notification(_))), Owner::Confirmation) => {
                assert!(has_sessions);
            }
            (Ok(Incoming::One(Message::Notification(_))), Owner::Nobody) => {
                assert!(has_sessions || self.is_shared, "a cancel over HTTP");
            }
            (Ok(Incoming::One(Message::Response(_))), Owner::Nobody) => {
                assert!(has_sessions || version.is_none(), "an answer to the peer");
            }
            (message, owner) => panic!("{message:?} for {owner:?}"),
        }
    }

    /// What is kept is what waits.
    fn check(&self) {
        let calls = self.calls.iter();
        for (id, caller) in calls {
            let awaits = self.session.awaits(Owner::Request(*id));
            assert_eq!(awaits, !caller.is_over, "call {id}");
        }
        let waits = self.calls.values().filter(|caller| !caller.is_over).count()
            + self.others.values().filter(|other| !other.is_over).count();
        let kept = self.session.pending_count();
        let opening = usize::from(self.is_opening);
        assert!((waits..=waits + opening).contains(&kept), "{kept} kept");
        assert_eq!(self.session.generation(), self.opened);
        assert!(!self.is_opening || self.session.opened().is_none());
    }

    fn check_closed(&self) {
        assert!(!self.is_opening, "no answer to open");
        assert_eq!(self.session.pending_count(), 0);
        assert_eq!(self.session.poll_timeout(), None);
        assert!(self.calls.values().all(|caller| caller.is_over));
        assert!(self.others.values().all(|other| other.is_over));
        assert_eq!(self.session.opened().map(|_| Head::default()), None);
    }
}

/// A status that a peer may answer with.
fn said(pick: u8) -> u16 {
    const STATUSES: [u16; 14] = [
        200, 202, 204, 400, 401, 403, 404, 405, 406, 422, 429, 500, 502, 503,
    ];
    STATUSES[usize::from(pick) % STATUSES.len()]
}
