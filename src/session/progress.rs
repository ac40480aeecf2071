//! Progress notifications: an event to a finished SSE frame or line in one pass, and back.
//!
//! Owns the notification around the envelope; must not know who sends it when.

use std::io::Write as _;

use bytestring::ByteString;
use serde_json::value::RawValue;

use crate::error::Error;
use crate::event::{self, Content, EventKind, StreamEvent};
use crate::mcp::types::ProgressParams;
use crate::wire::jsonrpc::{RawJson, RequestId};
use crate::wire::sse;

/// How a message is framed on the way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// As one line.
    Line,
    /// As one SSE event.
    Sse,
}

impl Framing {
    fn head(self) -> &'static [u8] {
        match self {
            Self::Line => b"",
            Self::Sse => sse::EVENT_HEAD,
        }
    }

    fn tail(self) -> &'static [u8] {
        match self {
            Self::Line => b"\n",
            Self::Sse => sse::EVENT_TAIL,
        }
    }

    /// Appends one message. JSON on one line needs no more than a head and a tail.
    pub(crate) fn write(self, out: &mut Vec<u8>, message: &[u8]) {
        match self {
            Self::Line => {
                out.extend_from_slice(message);
                out.push(b'\n');
            }
            Self::Sse => sse::encode_event(out, message),
        }
    }
}

/// The start of a call's notifications: all that does not change from one to the next.
#[derive(Debug)]
pub(crate) struct ProgressFrame {
    head: Box<[u8]>,
    framing: Framing,
}

impl ProgressFrame {
    pub(crate) fn new(framing: Framing, token: &RequestId) -> Self {
        let mut head = framing.head().to_vec();
        head.extend_from_slice(
            br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#,
        );
        head.extend_from_slice(token.to_string().as_bytes());
        head.extend_from_slice(br#","progress":"#);
        Self {
            head: head.into(),
            framing,
        }
    }

    /// Appends one notification; `write` appends the inside of its message. A total that is no
    /// finite number is left out.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        number: f64,
        total: Option<f64>,
        write: Option<impl FnOnce(&mut Vec<u8>) -> Result<(), Error>>,
    ) -> Result<(), Error> {
        out.extend_from_slice(&self.head);
        write_number(out, number);
        if let Some(total) = total.filter(|total| total.is_finite()) {
            out.extend_from_slice(br#","total":"#);
            write_number(out, total);
        }
        if let Some(write) = write {
            out.extend_from_slice(br#","message":""#);
            write(out)?;
            out.push(b'"');
        }
        out.extend_from_slice(b"}}");
        out.extend_from_slice(self.framing.tail());
        Ok(())
    }
}

/// JSON has no infinities; what cannot be said is 0.
fn write_number(out: &mut Vec<u8>, number: f64) {
    // Exactly representable, so the cast loses nothing; integers are the hot path.
    if number.fract() == 0.0 && number.abs() < 9e15 {
        let _ = write!(out, "{}", number as i64);
    } else if number.is_finite() {
        let _ = serde_json::to_writer(out, &number);
    } else {
        out.push(b'0');
    }
}

/// Reads the token of a request: a string or an integer; anything else is none.
pub(crate) fn read_token(raw: &RawValue) -> Option<RequestId> {
    serde_json::from_str(raw.get()).ok()
}

/// Reads the `params` of a progress notification: the token, and what the caller sees.
///
/// `None` if there is no token that could be one of ours, so that nobody waits for it.
pub(crate) fn decode_progress(params: &RawJson) -> Option<(RequestId, StreamEvent)> {
    let fields: ProgressParams<'_> = params.object().ok()?;
    let token = match read_token(fields.progress_token) {
        Some(token) => token,
        None => RequestId::Number(integral(number(fields.progress_token)?)?),
    };
    let progress = fields.progress.and_then(number);
    let total = fields.total.and_then(number);
    let numbers = (progress.unwrap_or_default(), total);
    let message = fields.message.and_then(|raw| {
        let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
        Some(match event::unescape(inner) {
            std::borrow::Cow::Borrowed(inner) => params.slice(inner),
            std::borrow::Cow::Owned(text) => ByteString::from(text),
        })
    });
    let event = match message {
        Some(message) => {
            let (kind, content, node) = event::decode_shared(&message);
            StreamEvent::notified(kind, content, node, numbers, Some(message))
        }
        None => {
            // The numbers as they were spelled.
            let spelled = |raw: Option<&RawValue>| {
                raw.filter(|raw| number(raw).is_some())
                    .map_or("null", RawValue::get)
                    .to_owned()
            };
            let mut json = format!("{{\"progress\":{}", spelled(fields.progress));
            if total.is_some() {
                json.push_str(",\"total\":");
                json.push_str(&spelled(fields.total));
            }
            json.push('}');
            let content = Content::json(json.into());
            StreamEvent::notified(EventKind::Progress, content, None, numbers, None)
        }
    };
    Some((token, event))
}

/// By the standard library, which is exact to the last digit where serde_json is only fast.
fn number(raw: &RawValue) -> Option<f64> {
    let text = raw.get();
    let numeric = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    numeric.then(|| text.parse().ok()).flatten()
}

fn integral(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

#[cfg(test)]
mod tests;
