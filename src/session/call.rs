//! One call, seen by its caller: messages in, events out, one of them terminal.
//!
//! Owns what a message of the peer means to a call; must not know how it arrived. Small enough to
//! sit beside the reader of a reply stream, so that an event touches no shared table.

use std::ops::ControlFlow;

use serde_json::Value;

use super::progress::decode_progress;
use crate::error::{Error, Place};
use crate::event::{Content, StreamEvent};
use crate::mcp::era::{Completion, Dialect};
use crate::mcp::types::CallResult;
use crate::wire::jsonrpc::{self, Code, ErrorObject, Message, Outcome, RawJson, Response};

/// The rules of one call in flight.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: i64,
    /// By whose rules a result is read.
    pub(crate) dialect: &'static dyn Dialect,
    /// The tool wraps a result that is no object in one with the key `result`.
    pub(crate) wraps_result: bool,
    pub(crate) place: Place,
}

/// What a message means to a call.
#[derive(Debug)]
pub(crate) enum Judged {
    /// The caller sees this.
    Event(StreamEvent),
    /// It is not about this call.
    Foreign(Message),
    /// This request is over, and the server wants it made again.
    Returned(Returned),
}

/// How a request ends.
#[derive(Debug)]
pub(crate) enum End {
    /// With the call's terminal event.
    Final(StreamEvent),
    Returned(Returned),
}

/// A request that the server wants made again.
#[derive(Debug)]
pub(crate) struct Returned {
    /// What is to stand beside its arguments then, as JSON.
    pub(crate) state: Box<str>,
    /// The call's terminal event if it is not made again.
    pub(crate) event: StreamEvent,
}

impl Call {
    pub(crate) fn judge(&self, message: Message) -> Judged {
        match message {
            Message::Notification(note) if *note.method == *"notifications/progress" => {
                match note.params.as_ref().and_then(decode_progress) {
                    Some((token, event)) if token.as_number() == Some(self.id) => {
                        Judged::Event(event)
                    }
                    _ => Judged::Foreign(Message::Notification(note)),
                }
            }
            Message::Response(response) if self.is_answered_by(&response) => {
                match self.end(response.outcome) {
                    End::Final(event) => Judged::Event(event),
                    End::Returned(returned) => Judged::Returned(returned),
                }
            }
            other => Judged::Foreign(other),
        }
    }

    fn is_answered_by(&self, response: &Response) -> bool {
        response.id.as_ref().and_then(|id| id.as_number()) == Some(self.id)
    }

    /// What an answer means that is known to be this call's.
    pub(crate) fn end(&self, outcome: Outcome) -> End {
        End::Final(match outcome {
            Outcome::Error(error) => self.fail(rpc_error(error)),
            Outcome::Malformed(detail) => {
                self.fail(Error::protocol(format!("a malformed answer: {detail}")))
            }
            Outcome::Result(result) => match self.unfinished(&result) {
                None => self.result(result),
                Some((error, None)) => self.fail(error),
                Some((error, Some(state))) => {
                    let event = self.fail(error);
                    return End::Returned(Returned { state, event });
                }
            },
        })
    }

    /// The terminal event for a failure.
    pub(crate) fn fail(&self, error: Error) -> StreamEvent {
        StreamEvent::failure(error.at(&self.place))
    }

    /// Why a result is not the end of the call, and what the server wants to be given back if that
    /// may lead to one.
    fn unfinished(&self, result: &RawJson) -> Option<(Error, Option<Box<str>>)> {
        if !result.is_object() {
            let detail = "the result of the call is not an object";
            return Some((Error::protocol(detail), None));
        }
        match self.dialect.completion(result) {
            Completion::Complete => None,
            Completion::InputRequired { methods, state } => {
                let state = state.filter(|_| methods.is_empty());
                Some((input_required(&methods), state))
            }
            Completion::Odd(detail) => Some((Error::protocol(detail), None)),
        }
    }

    fn result(&self, raw: RawJson) -> StreamEvent {
        let parsed: CallResult<'_> = match raw.object() {
            Ok(parsed) => parsed,
            Err(e) => {
                return self.fail(Error::protocol(format!("an odd result of the call: {e}")));
            }
        };
        if parsed.task.is_some() {
            return self.fail(Error::protocol(
                "a task result, which this client does not support",
            ));
        }
        let failed = parsed.is_error.is_some_and(|raw| raw.get() == "true");
        let content = self.content(&raw, &parsed, failed);
        let sent = Content::json(raw.clone().into_shared());
        if !failed {
            return StreamEvent::result(content, sent);
        }
        let content = match content.as_str() {
            _ if content.is_null() => Content::text("the tool failed without a message"),
            Some(text) if text.trim().is_empty() => {
                Content::text("the tool failed without a message")
            }
            _ => content,
        };
        let error = Error::Tool {
            place: self.place.clone(),
            content: Box::new(content.value()),
        };
        StreamEvent::tool_failure(content, error, sent)
    }

    /// Structured content if there is some; else nothing, a text, or the blocks.
    fn content(&self, raw: &RawJson, result: &CallResult<'_>, failed: bool) -> Content {
        if let Some(structured) = result.structured_content {
            let whole = Content::json(raw.part(structured).into_shared());
            if self.wraps_result
                && !failed
                && structured.get().starts_with('{')
                && let Ok(members) = whole.deserialize::<Wrapped>()
            {
                return members.result;
            }
            return whole;
        }
        let Some(blocks) = result.content else {
            return Content::NULL;
        };
        // One by one, since a block may be a thousand times smaller than a value of it. Read with
        // what a value cannot hold mended, for one odd block must not hide the texts.
        let (mut texts, mut joined) = (0_usize, String::new());
        let mut is_text = true;
        let read = jsonrpc::elements(blocks.get(), |block| {
            let block = Content::json(raw.part(block).into_shared()).value();
            let text = match block.get("type").and_then(Value::as_str) {
                Some("text") => block.get("text").and_then(Value::as_str),
                _ => None,
            };
            let Some(text) = text else {
                is_text = false;
                return ControlFlow::Break(());
            };
            if texts > 0 {
                joined.push('\n');
            }
            joined.push_str(text);
            texts += 1;
            ControlFlow::Continue(())
        });
        match texts {
            _ if read.is_err() || !is_text => Content::json(raw.part(blocks).into_shared()),
            0 => Content::NULL,
            _ => Content::text(joined),
        }
    }
}

/// An object whose only member is `result`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped {
    #[serde(deserialize_with = "raw_content")]
    result: Content,
}

fn raw_content<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
    let raw: Box<serde_json::value::RawValue> = serde::Deserialize::deserialize(deserializer)?;
    Ok(Content::json(String::from(Box::<str>::from(raw)).into()))
}

/// A server that wants something of its client before it answers. This client has declared that it
/// has nothing to give.
pub(super) fn input_required(methods: &[String]) -> Error {
    Error::protocol(match methods {
        [] => "input_required: the server wants to be asked again and again".to_owned(),
        _ => format!(
            "input_required: the server wants {}, which this client does not offer",
            methods.join(", ")
        ),
    })
}

/// A peer's error as ours; the code for a cancelled request is a cancel.
pub(crate) fn rpc_error(error: ErrorObject) -> Error {
    if error.code == Code::CANCELLED {
        return Error::Cancelled {
            place: Place::default(),
        };
    }
    /// What we keep of a peer's text.
    const MAX_MESSAGE_CHARS: usize = 4_000;
    let message: String = error.message.chars().take(MAX_MESSAGE_CHARS).collect();
    // Mended where a value cannot hold it, so that one odd number does not cost all the rest.
    let data = error
        .data
        .map(|data| Box::new(Content::json(data.into_shared()).value()));
    Error::Rpc {
        place: Place::default(),
        code: error.code.0,
        message: message.into(),
        data,
    }
}

#[cfg(test)]
mod tests;
