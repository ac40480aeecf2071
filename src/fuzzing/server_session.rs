//! A server's session with the streams of its calls, whatever a client sends and a tool does.
//!
//! Owns what may be answered, and how often; must not know how the session keeps its state.

use std::collections::HashSet;
use std::sync::Arc;

use arbitrary::Arbitrary;
use bytes::Bytes;

use self::running::Running;
use self::says::Says;
use crate::limits::Limits;
use crate::mcp::classify::{Rejection, Route, Stated, classify, classify_line};
use crate::mcp::era::{ServerWords, opening_dialect};
use crate::mcp::frame::Head;
use crate::mcp::tool::Tool;
use crate::mcp::types::{CacheScope, Implementation};
use crate::session::progress::Framing;
use crate::session::server::{Reaction, ServerFacts, ServerSession};
use crate::wire::jsonrpc::{self, Incoming, Message, Outcome, Request, RequestId, Response};

mod running;
mod says;

/// What happens to one session.
#[derive(Debug, Clone, Arbitrary)]
pub struct ServerCase<'a> {
    is_http: bool,
    max_calls: u8,
    list_changed: bool,
    ops: Vec<Op<'a>>,
}

/// One thing that happens. A number means a call, of those in flight.
#[derive(Debug, Clone, Arbitrary)]
enum Op<'a> {
    /// The client cannot be reached any more.
    Detach(u8),
    End {
        of: u8,
        has_failed: bool,
    },
    Event {
        of: u8,
        text: &'a str,
    },
    Message(Says<'a>),
    Progress {
        of: u8,
        number: f64,
        total: Option<f64>,
    },
    Read(u8),
}

/// Each request has exactly one answer, under its id as it was spelled, unless it was cancelled; a
/// message that asks for nothing, or for what there is not, changes nothing; events come in order,
/// before the answer, and nothing comes after it; no more waits than may.
pub fn server_session(case: &ServerCase<'_>) {
    let mut host = Host::new(case);
    for op in &case.ops {
        host.apply(op);
    }
    host.end();
}

struct Host {
    session: ServerSession,
    facts: ServerFacts,
    is_http: bool,
    running: Vec<Running>,
    listening: HashSet<RequestId>,
}

impl Host {
    fn new(case: &ServerCase<'_>) -> Self {
        let info = Implementation {
            name: "alpha".to_owned(),
            version: "1".to_owned(),
        };
        let words = ServerWords {
            info,
            instructions: None,
            list_changed: case.list_changed,
            tools_ttl_ms: 0,
            cache_scope: CacheScope::Public,
        };
        let mirrored = serde_json::json!({"type": "object", "properties": {
            "text": {"type": "string", "x-mcp-header": "Text"},
        }});
        let limits = Limits {
            max_session_calls: usize::from(case.max_calls % 4),
            ..Limits::default()
        };
        let facts = ServerFacts {
            words: Arc::new(words),
            tools: vec![
                Tool::new("echo"),
                Tool::new("mirror").input_schema(mirrored),
                Tool::new("ask").requires_client_capability("sampling"),
            ],
            tools_per_page: 2,
            limits,
        };
        Self {
            session: ServerSession::new(opening_dialect()),
            facts,
            is_http: case.is_http,
            running: Vec::new(),
            listening: HashSet::new(),
        }
    }

    fn running(&mut self, pick: u8) -> Option<&mut Running> {
        let at = usize::from(pick).checked_rem(self.running.len())?;
        self.running.get_mut(at)
    }

    fn apply(&mut self, op: &Op<'_>) {
        match op {
            Op::Message(says) => self.receive(&says.message()),
            Op::End { of, has_failed } => {
                if let Some(at) = usize::from(*of).checked_rem(self.running.len()) {
                    let call = self.running.remove(at);
                    assert!(
                        self.session.finish(&call.id),
                        "{} was not in flight",
                        call.id
                    );
                    assert!(!self.session.finish(&call.id), "{} ended twice", call.id);
                    call.end(*has_failed);
                } else if let Some(id) = self.listening.iter().next().cloned() {
                    self.listening.remove(&id);
                    assert!(self.session.finish(&id), "{id} was not in flight");
                }
            }
            Op::Detach(of) => self.running(*of).into_iter().for_each(Running::detach),
            Op::Event { of, text } => {
                if let Some(call) = self.running(*of) {
                    call.say(text);
                }
            }
            Op::Progress { of, number, total } => {
                if let Some(call) = self.running(*of) {
                    call.progress(*number, *total);
                }
            }
            Op::Read(of) => self.running(*of).into_iter().for_each(Running::read),
        }
    }

    fn end(mut self) {
        for call in self.running.drain(..) {
            assert!(
                self.session.finish(&call.id),
                "{} was not in flight",
                call.id
            );
            call.end(false);
        }
        for id in &self.listening {
            assert!(self.session.finish(id), "{id} was not in flight");
        }
        let session = format!("{:?}", self.session);
        assert!(
            session.contains("calls: {}, subscriptions: {}"),
            "{session}"
        );
    }

    fn receive(&mut self, text: &str) {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let max_depth = self.facts.limits.max_json_depth;
        let incoming = match jsonrpc::decode(&bytes, max_depth) {
            Ok(incoming) => incoming,
            Err(invalid) => {
                let error = jsonrpc::ErrorObject::new(invalid.code, invalid.detail);
                let mut body = Vec::new();
                jsonrpc::encode_error(&mut body, invalid.id.as_ref(), &error);
                return assert_answers(&body, invalid.id.as_ref());
            }
        };
        let stated = match self.judge(&incoming) {
            Ok(stated) => stated,
            Err(rejection) => {
                assert!((400..500).contains(&rejection.status));
                return assert_eq!(rejection.id.as_ref().map(spelled), asked(&incoming));
            }
        };
        match incoming {
            Incoming::One(message) => self.take(message.with_own_id(), stated.as_ref()),
            Incoming::Batch(members) if self.session.takes_batches() => {
                for message in members.into_iter().flatten() {
                    if let Ok(None) = classify_line(&message) {
                        self.take(message.with_own_id(), None);
                    }
                }
            }
            Incoming::Batch(_) => {}
        }
    }

    /// What a message says of itself. Over HTTP its head says the same, as a client would write it.
    fn judge(&self, incoming: &Incoming) -> Result<Option<Stated>, Box<Rejection>> {
        let Incoming::One(message) = incoming else {
            return Ok(None);
        };
        let by_line = classify_line(message);
        if !self.is_http {
            return by_line;
        }
        let head = says::head(message);
        match (classify(&head, incoming), by_line) {
            (Ok(Route::Stated(stated)), Ok(Some(line))) => {
                assert_eq!(stated.version, line.version);
                assert_eq!(stated.params.as_ref(), Some(&head.params));
                Ok(Some(stated))
            }
            (Err(rejection), Err(line)) => {
                assert_eq!(rejection.error.code, line.error.code);
                Err(rejection)
            }
            // A head that says nothing belongs to no request that does.
            (by_head, Ok(Some(_))) => panic!("{by_head:?} for {message:?}"),
            (Ok(Route::Stated(stated)), by_line) => panic!("{stated:?}, {by_line:?} by line"),
            (_, by_line) => {
                assert!(head == Head::default() || by_line.is_err());
                by_line
            }
        }
    }

    fn take(&mut self, message: Message, stated: Option<&Stated>) {
        let (asked, is_stated) = (self.asked(&message), stated.is_some());
        let (method, is_answer) = match &message {
            Message::Request(request) => (request.method.clone(), false),
            Message::Notification(note) => (note.method.clone(), false),
            Message::Response(_) => (Default::default(), true),
        };
        let before = format!("{:?}", self.session);
        let max_calls = self.facts.limits.max_session_calls;
        let reaction = self.session.handle_message(message, stated, &self.facts);
        let is_same = format!("{:?}", self.session) == before;
        match (reaction, asked) {
            (Reaction::Answer { status, body }, Some(id)) => {
                assert!((200..500).contains(&status), "{status}");
                assert_answers(&body, Some(&id));
                assert!(is_same || *method == *"initialize" && !is_stated);
            }
            (Reaction::Busy(body), Some(id)) => {
                assert_answers(&body, Some(&id));
                let in_flight = match &*method {
                    "subscriptions/listen" => self.listening.len(),
                    _ => self.running.len(),
                };
                assert!(is_same && in_flight == max_calls, "busy with {in_flight}");
            }
            (Reaction::Call(call), Some(id)) => {
                assert_eq!(spelled(&call.id), spelled(&id));
                assert!(!self.is_in_flight(&id), "{id} is in flight already");
                assert!(call.arguments.is_object());
                assert!(self.facts.tools.get(call.tool).is_some());
                let framing = match self.is_http {
                    true => Framing::Sse,
                    false => Framing::Line,
                };
                self.running.push(Running::new(call, framing));
                assert!(self.running.len() <= max_calls, "too many calls");
            }
            (Reaction::Listen(listen), Some(id)) => {
                assert_eq!(spelled(&listen.id), spelled(&id));
                assert!(!self.is_in_flight(&id), "{id} is in flight already");
                assert_answers(&listen.words.ended, Some(&id));
                match listen.words.changed {
                    Some(_) => _ = self.listening.insert(id),
                    None => assert!(is_same),
                }
                assert!(self.listening.len() <= max_calls, "too many subscriptions");
            }
            (Reaction::Cancel(id), None) => {
                assert_eq!(&*method, "notifications/cancelled");
                if !self.listening.remove(&id) {
                    let at = self.running.iter().position(|call| call.id == id);
                    self.running.remove(at.expect("a call in flight")).cancel();
                }
                assert!(!self.session.finish(&id), "{id} is in flight still");
            }
            (Reaction::Accept, None) => {
                let confirms = *method == *"notifications/initialized";
                assert!(is_same || confirms && self.session.is_open());
            }
            // An answer that is none, to nothing that was asked.
            (Reaction::Answer { status: 400, .. }, None) => assert!(is_answer && is_same),
            (reaction, asked) => panic!("{asked:?}: {reaction:?}"),
        }
    }

    fn asked(&self, message: &Message) -> Option<RequestId> {
        match message {
            Message::Request(Request { id, .. }) => Some(id.clone()),
            Message::Notification(_) | Message::Response(_) => None,
        }
    }

    fn is_in_flight(&self, id: &RequestId) -> bool {
        self.listening.contains(id) || self.running.iter().any(|call| call.id == *id)
    }
}

fn spelled(id: &RequestId) -> String {
    id.to_string()
}

/// The id of the request that it is, as it is spelled.
fn asked(incoming: &Incoming) -> Option<String> {
    match incoming {
        Incoming::One(Message::Request(request)) => Some(spelled(&request.id)),
        _ => None,
    }
}

/// It is the response to that request, and one message on one line.
fn assert_answers(body: &[u8], id: Option<&RequestId>) {
    assert!(!body.contains(&b'\n') && !body.contains(&b'\r'));
    match jsonrpc::decode(&Bytes::copy_from_slice(body), 256) {
        Ok(Incoming::One(Message::Response(Response { id: read, outcome }))) => {
            assert_eq!(read.as_ref().map(spelled), id.map(spelled));
            assert!(!matches!(outcome, Outcome::Malformed(_)));
        }
        other => panic!("{other:?}"),
    }
}
