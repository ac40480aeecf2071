//! Whatever happens, in whatever order: each call, each list and each subscription has exactly one
//! end.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::super::call::{Judged, Returned};
use super::*;
use crate::wire::jsonrpc::{self, Incoming};

/// What is spoken, and over what.
#[derive(Debug, Clone, Copy)]
struct Kind {
    stateless: bool,
    is_shared: bool,
}

/// One thing that happens. The numbers pick a call among those that were begun.
#[derive(Debug, Clone)]
enum Op {
    Begin {
        timeout: Option<u64>,
    },
    List,
    Listen,
    /// A message about the call `about` comes on the reply of `on`, or on nobody's.
    Message {
        on: Option<usize>,
        about: usize,
        form: Form,
    },
    /// A message about a list or a subscription, or about none, where it is to come.
    Other {
        about: usize,
        form: Form,
    },
    /// The reply ends, well or broken; `read` tells whether its reader or the machine sees it. On a
    /// shared link everything ends, or one message was not taken.
    End {
        of: usize,
        broken: bool,
        read: bool,
    },
    Refuse {
        of: usize,
        status: u16,
        body: &'static str,
    },
    Cancel {
        of: usize,
    },
    /// Nobody waits for a list or a subscription any more.
    Forget {
        of: usize,
    },
    Tick {
        ms: u64,
    },
    Reopen,
    Close,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Acknowledged,
    AcknowledgedNothing,
    Batch,
    Broken,
    CalledOff,
    Changed,
    ErrorOfNobody,
    InputRequired,
    Malformed,
    OddResult,
    Progress,
    Request,
    Result,
    Returned,
    RpcError,
    SpelledAsText,
    ToolFailure,
}

impl Form {
    const ALL: [Self; 17] = [
        Self::Acknowledged,
        Self::AcknowledgedNothing,
        Self::Batch,
        Self::Broken,
        Self::CalledOff,
        Self::Changed,
        Self::ErrorOfNobody,
        Self::InputRequired,
        Self::Malformed,
        Self::OddResult,
        Self::Progress,
        Self::Request,
        Self::Result,
        Self::Returned,
        Self::RpcError,
        Self::SpelledAsText,
        Self::ToolFailure,
    ];

    fn message(self, id: i64) -> String {
        let result =
            |members: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{members}}}}}"#);
        let note = |method: &str, params: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{params}}}}}"#
            )
        };
        let subscription = format!(
            r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":"#
        );
        let progress = note(
            "progress",
            &format!(r#""progressToken":{id},"progress":1,"message":"a""#),
        );
        let complete = result(r#""content":[],"tools":[]"#);
        match self {
            Self::Acknowledged => note(
                "subscriptions/acknowledged",
                &format!(r#"{subscription}{{"toolsListChanged":true}}"#),
            ),
            Self::AcknowledgedNothing => {
                note("subscriptions/acknowledged", &format!("{subscription}{{}}"))
            }
            Self::Batch => format!("[{progress},{complete},7,{progress},{complete}]"),
            Self::Broken => complete.replace('}', ""),
            Self::CalledOff => note("cancelled", &format!(r#""requestId":{id}"#)),
            Self::Changed => note("tools/list_changed", ""),
            Self::ErrorOfNobody => {
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#.to_owned()
            }
            Self::InputRequired => result(
                r#""resultType":"input_required","requestState":"s","inputRequests":{"a":{"method":"m"}}"#,
            ),
            Self::Malformed => format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#),
            Self::OddResult => result(r#""resultType":"odd""#),
            Self::Progress => progress,
            Self::Request => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#),
            Self::Result => complete,
            Self::Returned => result(r#""resultType":"input_required","requestState":"s""#),
            Self::RpcError => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"m"}}}}"#)
            }
            Self::SpelledAsText => format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{}}}}"#),
            Self::ToolFailure => result(r#""isError":true"#),
        }
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let form = prop_oneof![
        2 => Just(Form::Progress),
        9 => prop::sample::select(&Form::ALL[..]),
    ];
    let refusal = prop::sample::select(vec![
        (404, ""),
        (400, "no such session"),
        (500, "<html>"),
        (
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#,
        ),
        (
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"m"}}"#,
        ),
    ]);
    let which = 0..6usize;
    let op = prop_oneof![
        4 => proptest::option::of(0..50u64).prop_map(|timeout| Op::Begin { timeout }),
        1 => Just(Op::List),
        1 => Just(Op::Listen),
        10 => (proptest::option::of(which.clone()), which.clone(), form.clone())
            .prop_map(|(on, about, form)| Op::Message { on, about, form }),
        4 => (which.clone(), form).prop_map(|(about, form)| Op::Other { about, form }),
        2 => (which.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(of, broken, read)| Op::End { of, broken, read }),
        2 => (which.clone(), refusal)
            .prop_map(|(of, (status, body))| Op::Refuse { of, status, body }),
        2 => which.clone().prop_map(|of| Op::Cancel { of }),
        1 => which.prop_map(|of| Op::Forget { of }),
        2 => (0..30u64).prop_map(|ms| Op::Tick { ms }),
        1 => Just(Op::Reopen),
        1 => Just(Op::Close),
    ];
    proptest::collection::vec(op, 0..40)
}

/// A driver as small as can be: callers that read their own replies, and one session.
struct Driver {
    kind: Kind,
    session: ClientSession,
    now: Instant,
    callers: Vec<Caller>,
    /// Lists and subscriptions, with the ends of each, and whether it was forgotten.
    others: Vec<Other>,
    cancels: BTreeMap<i64, usize>,
    goodbyes: usize,
    /// The request whose answer opens the connection again.
    opening: Option<i64>,
}

struct Caller {
    call: Call,
    events: usize,
    ends: usize,
}

#[derive(Debug)]
struct Other {
    id: i64,
    listens: bool,
    ends: usize,
    forgotten: bool,
}

impl Driver {
    fn new(kind: Kind) -> Self {
        let era = match kind.stateless {
            true => Era::Modern,
            false => Era::Legacy,
        };
        let mut driver = Self {
            kind,
            session: client_of(era, kind.is_shared, Limits::default()),
            now: start(),
            callers: Vec::new(),
            others: Vec::new(),
            cancels: BTreeMap::new(),
            goodbyes: 0,
            opening: None,
        };
        driver.apply(Op::Reopen);
        assert!(driver.session.opened().is_some());
        driver
    }

    fn caller(&mut self, id: i64) -> Option<&mut Caller> {
        self.callers.iter_mut().find(|caller| caller.call.id == id)
    }

    /// The call that `pick` means, if any was begun.
    fn pick(&self, pick: usize) -> Option<Call> {
        let at = pick.checked_rem(self.callers.len())?;
        Some(self.callers[at].call.clone())
    }

    fn pick_other(&mut self, pick: usize) -> Option<&mut Other> {
        let at = pick.checked_rem(self.others.len())?;
        self.others.get_mut(at)
    }

    fn is_over(&mut self, id: i64) -> bool {
        self.caller(id).is_none_or(|caller| caller.ends > 0)
    }

    /// The caller sees an event that it found itself, and tells the session of an end.
    fn judged(&mut self, id: i64, event: &StreamEvent) {
        self.deliver(id, event);
        if event.is_terminal() {
            self.session.finish(id);
        }
    }

    fn deliver(&mut self, id: i64, event: &StreamEvent) {
        let caller = self.caller(id).expect("an event of a call");
        assert_eq!(caller.ends, 0, "{} after the end", event.kind);
        caller.events += 1;
        caller.ends += usize::from(event.is_terminal());
    }

    fn end_other(&mut self, id: i64) {
        let mut others = self.others.iter_mut();
        let other = others.find(|other| other.id == id).expect("a known one");
        assert!(!other.forgotten, "{id} was forgotten");
        other.ends += 1;
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Event(Event::Call { id, event } | Event::Returned { id, event, .. }) => {
                    self.deliver(id, &event);
                }
                Output::Event(Event::Listed { id, .. } | Event::Unsubscribed { id, .. }) => {
                    self.end_other(id);
                }
                Output::Event(_) => {}
                Output::Send { frame, owner, ends } => self.sent(&frame, owner, ends),
            }
        }
    }

    fn sent(&mut self, frame: &Frame, owner: Owner, ends: Option<i64>) {
        assert_eq!(self.goodbyes, 0, "a frame after the goodbye");
        let body = std::str::from_utf8(&frame.body).unwrap();
        if frame.verb == Verb::Delete {
            self.goodbyes += 1;
        }
        match (owner, ends) {
            (Owner::Request(id), None) => self.opening = Some(id),
            (Owner::Nobody, Some(id)) => {
                assert!(body.contains(&format!(r#""requestId":{id},"#)), "{body}");
                *self.cancels.entry(id).or_default() += 1;
            }
            _ => {}
        }
        if self.kind.stateless {
            assert_eq!(frame.verb, Verb::Post);
            assert_eq!(frame.head.session_id, None);
            let is_request = matches!(owner, Owner::Request(_));
            assert!(
                is_request || self.kind.is_shared && ends.is_some(),
                "{body}"
            );
        }
    }

    /// A message on the reply that a caller reads itself, or on another one.
    fn receive(&mut self, on: Option<&Call>, message: &str) {
        let bytes = Bytes::copy_from_slice(message.as_bytes());
        let Some(call) = on else {
            self.session.handle_message(&bytes, Owner::Nobody);
            return self.drain();
        };
        let owner = Owner::Request(call.id);
        let members = match jsonrpc::decode(&bytes, 128) {
            Ok(Incoming::One(message)) => vec![message],
            Ok(Incoming::Batch(members)) => members.into_iter().flatten().collect(),
            Err(_) => vec![],
        };
        for message in members {
            if self.is_over(call.id) {
                return;
            }
            match call.judge(message) {
                Judged::Event(event) | Judged::Returned(Returned { event, .. }) => {
                    self.judged(call.id, &event);
                }
                Judged::Foreign(message) => self.session.handle_decoded(message, owner),
            }
            self.drain();
        }
    }

    fn end(&mut self, of: usize, broken: bool, read: bool) {
        let error = broken.then(|| Error::transport("reset"));
        if self.kind.is_shared {
            let error = error.unwrap_or_else(early_end);
            return match read {
                true => self.session.handle_skipped(&error),
                false => self.session.handle_lost(&error),
            };
        }
        let Some(call) = self.pick(of) else { return };
        if !read {
            self.session.handle_end(Owner::Request(call.id), error);
        } else if !self.is_over(call.id) {
            let event = call.fail(error.unwrap_or_else(early_end));
            self.judged(call.id, &event);
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Begin { timeout } => {
                let timeout = timeout.map(Duration::from_millis);
                let started = try_call(&mut self.session, timeout, self.now);
                self.callers.extend(started.ok().map(|start| Caller {
                    call: start.call,
                    events: 0,
                    ends: 0,
                }));
            }
            Op::List => {
                let id = self.session.list(Asker::User);
                self.others.push(Other {
                    id,
                    listens: false,
                    ends: 0,
                    forgotten: false,
                });
            }
            Op::Listen => {
                let listen = self.session.listen();
                assert!(listen.is_none() || self.kind.stateless);
                self.others.extend(listen.map(|(id, _)| Other {
                    id,
                    listens: true,
                    ends: 0,
                    forgotten: false,
                }));
            }
            Op::Message { on, about, form } => {
                let Some(about) = self.pick(about) else {
                    return;
                };
                let on = on.and_then(|on| self.pick(on));
                let on = on.filter(|_| !self.kind.is_shared);
                // Nobody reads the reply of a call that is over.
                if on.as_ref().is_some_and(|call| self.is_over(call.id)) {
                    return;
                }
                self.receive(on.as_ref(), &form.message(about.id));
            }
            Op::Other { about, form } => {
                let Some(id) = self.pick_other(about).map(|other| other.id) else {
                    return;
                };
                let owner = match self.kind.is_shared {
                    true => Owner::Nobody,
                    false => Owner::Request(id),
                };
                self.session.handle_message(&form.message(id).into(), owner);
            }
            Op::End { of, broken, read } => self.end(of, broken, read),
            Op::Refuse { .. } if self.kind.is_shared => {}
            Op::Refuse { of, status, body } => {
                let Some(call) = self.pick(of) else { return };
                let owner = Owner::Request(call.id);
                match self.session.handle_refusal(owner, status, None, body) {
                    Refusal::Call(event) | Refusal::SessionLost { event, .. } => {
                        self.deliver(call.id, &event);
                    }
                    Refusal::Mismatch(event) => {
                        assert!(self.kind.stateless);
                        self.deliver(call.id, &event);
                    }
                    Refusal::Noted => assert!(self.is_over(call.id)),
                }
            }
            Op::Cancel { of } => {
                let Some(call) = self.pick(of) else { return };
                self.session.cancel(call.id, "user");
                if !self.is_over(call.id) {
                    let cancelled = Error::Cancelled {
                        place: Place::default(),
                    };
                    self.deliver(call.id, &call.fail(cancelled));
                }
            }
            Op::Forget { of } => {
                let Some(other) = self.pick_other(of) else {
                    return;
                };
                other.forgotten |= other.ends == 0;
                let (id, listens) = (other.id, other.listens);
                match listens {
                    true => self.session.forget_listen(id),
                    false => self.session.forget_list(id),
                }
            }
            Op::Tick { ms } => {
                self.now += Duration::from_millis(ms);
                self.session.handle_timeout(self.now);
            }
            Op::Reopen => {
                self.session.open(start());
                self.drain();
                if let Some(id) = self.opening.take() {
                    let result = match self.kind.stateless {
                        true => DISCOVERED.to_owned(),
                        false => initialized("2025-11-25"),
                    };
                    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#);
                    let owner = Owner::Request(id);
                    let session = session_id(SESSION).filter(|_| !self.kind.is_shared);
                    self.session.handle_head(owner, 200, session);
                    self.session.handle_message(&answer.into(), owner);
                    self.session.handle_head(Owner::Confirmation, 202, None);
                }
            }
            Op::Close => self.session.close(),
        }
        self.drain();
    }
}

fn each_ends_once(kind: Kind, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut driver = Driver::new(kind);
    for op in ops {
        driver.apply(op.clone());
    }
    driver.session.close();
    driver.drain();
    for Caller { call, events, ends } in &driver.callers {
        prop_assert_eq!(*ends, 1, "call {} after {} events", call.id, events);
    }
    for other in &driver.others {
        prop_assert_eq!(other.ends, usize::from(!other.forgotten), "{:?}", other);
    }
    let calls = |id: &i64| driver.callers.iter().any(|caller| caller.call.id == *id);
    let listens = |id: &i64| driver.others.iter().any(|o| o.listens && o.id == *id);
    for (id, times) in &driver.cancels {
        prop_assert_eq!(*times, 1, "cancels of {}", id);
        prop_assert!(calls(id) || listens(id), "{}", id);
    }
    prop_assert!(!kind.stateless || kind.is_shared || driver.cancels.is_empty());
    prop_assert_eq!(driver.session.poll_timeout(), None);
    prop_assert_eq!(driver.session.pending_count(), 0);
    let goodbyes = usize::from(!kind.stateless);
    prop_assert!(driver.goodbyes <= goodbyes);
    Ok(())
}

proptest! {
    #[test]
    fn whatever_is_asked_ends_exactly_once(
        stateless in any::<bool>(),
        is_shared in any::<bool>(),
        ops in ops(),
    ) {
        each_ends_once(Kind { stateless, is_shared }, &ops)?;
    }

    #[test]
    fn no_message_makes_the_session_panic(
        stateless in any::<bool>(),
        messages in proptest::collection::vec(("\\PC{0,60}", 0..5i64), 0..8),
    ) {
        let mut session = Driver::new(Kind { stateless, is_shared: false }).session;
        session.list(Asker::User);
        session.listen();
        for (text, owner) in messages {
            for message in [
                text.clone(),
                format!(r#"{{"jsonrpc":"2.0","id":2,"result":{text}}}"#),
                format!(r#"{{"jsonrpc":"2.0",{text}}}"#),
            ] {
                received(&mut session, Owner::Request(owner), &message);
            }
        }
    }
}
