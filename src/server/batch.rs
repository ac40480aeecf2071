//! Several messages that came as one array.
//!
//! Owns their answers, in the order of the requests; must not know what carries the array. Calls
//! in it run side by side and stream nothing, since the answer is one piece.

use std::future::poll_fn;
use std::sync::Arc;

use super::calls::{Session, Step};
use super::driver::{Host, Reader};
use crate::mcp::classify::{Rejection, classify_line};
use crate::session::outbox::Answer;
use crate::session::progress::Framing;
use crate::session::server::{CallRequest, Reaction};
use crate::wire::jsonrpc::{self, Code, ErrorObject, Invalid, Message};

pub(super) const NO_BATCH: &str = "batches are not supported";

pub(super) struct Batch(Vec<Entry>);

enum Entry {
    Running(Reader),
    Said(Vec<u8>),
}

impl Batch {
    /// Takes the messages in their order; `None` if the session has ended.
    pub(super) fn begin(
        host: &Host,
        session: &Arc<Session>,
        members: Vec<Result<Message, Invalid>>,
    ) -> Option<Self> {
        let offer = host.offer();
        let mut entries = Vec::new();
        for member in members {
            let message = match member_of_session(member) {
                Ok(message) => message.with_own_id(),
                Err(rejection) => {
                    let Rejection { id, error, .. } = *rejection;
                    let mut body = Vec::new();
                    jsonrpc::encode_error(&mut body, id.as_ref(), &error);
                    entries.push(Entry::Said(body));
                    continue;
                }
            };
            let admit = |call: &CallRequest| host.admit(call, Framing::Line, false);
            match session.handle_message(message, None, &offer.facts, admit) {
                Step::Over => return None,
                Step::Run(call, begun) => {
                    let outbox = begun.outbox().clone();
                    if let Some(work) = offer.work(call, &outbox, session.principal()) {
                        host.leave_to_task(work, begun);
                    }
                    entries.push(Entry::Running(Reader::new(outbox, None)));
                }
                Step::Settled(Reaction::Answer { body, .. } | Reaction::Busy(body)) => {
                    entries.push(Entry::Said(body));
                }
                Step::Settled(_) => {}
            }
        }
        Some(Self(entries))
    }

    /// The answers as one array, once all are there; `None` if there is nothing to say.
    ///
    /// # Cancel safety
    /// Dropped, the calls that still run are unheard.
    pub(super) async fn answer(self) -> Option<Vec<u8>> {
        let mut array = Vec::new();
        for entry in self.0 {
            let body = match entry {
                Entry::Said(body) => body,
                Entry::Running(reader) => match poll_fn(|cx| reader.outbox.poll_answer(cx)).await {
                    Answer::Json { body, .. } => body,
                    // Cancelled.
                    Answer::Stream => continue,
                },
            };
            array.push(if array.is_empty() { b'[' } else { b',' });
            array.extend_from_slice(&body);
        }
        (!array.is_empty()).then(|| {
            array.push(b']');
            array
        })
    }
}

/// A member that is judged by the session's rules, or what is wrong with it. One that follows
/// rules of its own is none: by those there are no arrays.
fn member_of_session(member: Result<Message, Invalid>) -> Result<Message, Box<Rejection>> {
    let reject = |id, code, detail| {
        let error = ErrorObject::new(code, detail);
        let status = 400;
        Box::new(Rejection { status, id, error })
    };
    let message = member.map_err(|invalid| reject(invalid.id, invalid.code, invalid.detail))?;
    match (classify_line(&message)?, &message) {
        (Some(_), Message::Request(request)) => {
            let id = Some(request.id.clone());
            Err(reject(id, Code::INVALID_REQUEST, NO_BATCH.into()))
        }
        _ => Ok(message),
    }
}
