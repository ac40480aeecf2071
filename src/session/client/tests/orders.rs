//! Whatever happens to calls, in whatever order: each has exactly one end.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::super::call::Judged;
use super::*;
use crate::wire::jsonrpc::Incoming;

/// One thing that happens. The numbers pick a call among those that were begun.
#[derive(Debug, Clone)]
enum Op {
    Begin {
        timeout: Option<u64>,
    },
    /// A message about the call `about` comes on the reply of `on`, or on nobody's.
    Message {
        on: Option<usize>,
        about: usize,
        form: Form,
    },
    /// The reply ends, well or broken; `read` tells whether its reader or the machine sees it.
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
    Tick {
        ms: u64,
    },
    Reopen,
    Close,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Batch,
    Broken,
    ErrorOfNobody,
    Malformed,
    Progress,
    Result,
    RpcError,
    SpelledAsText,
    ToolFailure,
}

impl Form {
    fn message(self, id: i64) -> String {
        let progress = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":1,"message":"a"}}}}"#
        );
        let result = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#);
        match self {
            Self::Batch => format!("[{progress},{result},7,{progress},{result}]"),
            Self::Broken => result.replace('}', ""),
            Self::ErrorOfNobody => {
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#.to_owned()
            }
            Self::Malformed => format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#),
            Self::Progress => progress,
            Self::Result => result,
            Self::RpcError => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"m"}}}}"#)
            }
            Self::SpelledAsText => format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{}}}}"#),
            Self::ToolFailure => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"isError":true}}}}"#)
            }
        }
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    use Form::*;
    let form = prop::sample::select(vec![
        Batch,
        Broken,
        ErrorOfNobody,
        Malformed,
        Progress,
        Progress,
        Result,
        RpcError,
        SpelledAsText,
        ToolFailure,
    ]);
    let refusal = prop::sample::select(vec![
        (404, ""),
        (400, "no such session"),
        (500, "<html>"),
        (
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#,
        ),
    ]);
    let which = 0..6usize;
    let op = prop_oneof![
        4 => proptest::option::of(0..50u64).prop_map(|timeout| Op::Begin { timeout }),
        10 => (proptest::option::of(which.clone()), which.clone(), form)
            .prop_map(|(on, about, form)| Op::Message { on, about, form }),
        2 => (which.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(of, broken, read)| Op::End { of, broken, read }),
        2 => (which.clone(), refusal)
            .prop_map(|(of, (status, body))| Op::Refuse { of, status, body }),
        2 => which.prop_map(|of| Op::Cancel { of }),
        2 => (0..30u64).prop_map(|ms| Op::Tick { ms }),
        1 => Just(Op::Reopen),
        1 => Just(Op::Close),
    ];
    proptest::collection::vec(op, 0..40)
}

/// A driver as small as can be: callers that read their own replies, and one session.
struct Driver {
    session: ClientSession,
    now: Instant,
    callers: Vec<Caller>,
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

impl Driver {
    fn caller(&mut self, id: i64) -> Option<&mut Caller> {
        self.callers.iter_mut().find(|caller| caller.call.id == id)
    }

    /// The call that `pick` means, if any was begun.
    fn pick(&self, pick: usize) -> Option<Call> {
        let at = pick.checked_rem(self.callers.len())?;
        Some(self.callers[at].call.clone())
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

    fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Event(Event::Call { id, event }) => self.deliver(id, &event),
                Output::Event(_) => {}
                Output::Send { frame, owner, ends } => {
                    assert_eq!(self.goodbyes, 0, "a frame after the goodbye");
                    if frame.verb == Verb::Delete {
                        self.goodbyes += 1;
                    }
                    match (owner, ends) {
                        (Owner::Request(id), None) => self.opening = Some(id),
                        (Owner::Nobody, Some(id)) => {
                            let body = std::str::from_utf8(&frame.body).unwrap();
                            assert!(body.contains(&format!(r#""requestId":{id},"#)), "{body}");
                            *self.cancels.entry(id).or_default() += 1;
                        }
                        _ => {}
                    }
                }
            }
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
                Judged::Event(event) => self.judged(call.id, &event),
                Judged::Foreign(message) => self.session.handle_decoded(message, owner),
            }
            self.drain();
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Begin { timeout } => {
                let place = place(Some("add"));
                let spec = CallSpec {
                    tool: "add",
                    arguments: &RawJson::from_static("{}"),
                    events: true,
                    timeout: timeout.map(Duration::from_millis),
                    wraps_result: false,
                    place: &place,
                };
                if let Ok(CallStart { call, .. }) = self.session.call(&spec, self.now) {
                    self.callers.push(Caller {
                        call,
                        events: 0,
                        ends: 0,
                    });
                }
            }
            Op::Message { on, about, form } => {
                let Some(about) = self.pick(about) else {
                    return;
                };
                let on = on.and_then(|on| self.pick(on));
                // Nobody reads the reply of a call that is over.
                if on.as_ref().is_some_and(|call| self.is_over(call.id)) {
                    return;
                }
                self.receive(on.as_ref(), &form.message(about.id));
            }
            Op::End { of, broken, read } => {
                let Some(call) = self.pick(of) else { return };
                let error = broken.then(|| Error::transport("reset"));
                if !read {
                    self.session.handle_end(Owner::Request(call.id), error);
                } else if !self.is_over(call.id) {
                    let event = call.fail(error.unwrap_or_else(early_end));
                    self.judged(call.id, &event);
                }
            }
            Op::Refuse { of, status, body } => {
                let Some(call) = self.pick(of) else { return };
                let owner = Owner::Request(call.id);
                match self.session.handle_refusal(owner, status, None, body) {
                    Refusal::Call(event) | Refusal::SessionLost { event, .. } => {
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
            Op::Tick { ms } => {
                self.now += Duration::from_millis(ms);
                self.session.handle_timeout(self.now);
            }
            Op::Reopen => {
                self.session.open(start());
                self.drain();
                if let Some(id) = self.opening.take() {
                    let answer = format!(
                        r#"{{"jsonrpc":"2.0","id":{id},{}}}"#,
                        initialized("2025-11-25")
                    );
                    self.session
                        .handle_message(&answer.into(), Owner::Request(id));
                    self.session.handle_head(Owner::Confirmation, 202, None);
                }
            }
            Op::Close => self.session.close(),
        }
        self.drain();
    }
}

proptest! {
    #[test]
    fn every_call_ends_exactly_once(ops in ops()) {
        let mut driver = Driver {
            session: opened(),
            now: start(),
            callers: Vec::new(),
            cancels: BTreeMap::new(),
            goodbyes: 0,
            opening: None,
        };
        for op in ops {
            driver.apply(op);
        }
        driver.session.close();
        driver.drain();
        for caller in &driver.callers {
            prop_assert_eq!(caller.ends, 1, "call {} after {} events", caller.call.id, caller.events);
        }
        let calls = |id: &i64| driver.callers.iter().any(|caller| caller.call.id == *id);
        prop_assert!(driver.cancels.iter().all(|(id, times)| *times == 1 && calls(id)));
        prop_assert_eq!(driver.session.poll_timeout(), None);
        prop_assert!(driver.goodbyes <= 1);
    }

    #[test]
    fn no_message_makes_the_session_panic(messages in proptest::collection::vec(
        ("\\PC{0,60}", 0..5i64), 0..8,
    )) {
        let mut session = opened();
        session.list();
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
