//! A progress notification to what the caller sees: the general path.
//!
//! Owns which spellings of a token, a number and a message are taken; must not know whose the
//! notification is. It decides what each notification means; the fast path only comes to the same
//! sooner.

use std::borrow::Cow;

use bytestring::ByteString;
use serde_json::value::RawValue;

use crate::event::{self, Content, EventKind, StreamEvent};
use crate::mcp::types::ProgressParams;
use crate::wire::jsonrpc::{RawJson, RequestId};

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
        None => RequestId::Number(integral(number(fields.progress_token.get())?)?),
    };
    let progress = fields.progress.map(RawValue::get).and_then(number);
    let total = fields.total.map(RawValue::get).and_then(number);
    let numbers = (progress.unwrap_or_default(), total);
    let inner = |raw: &RawValue| {
        let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
        Some(params.slice(inner))
    };
    let event = match fields.message.and_then(inner) {
        Some(message) => {
            let text = match event::unescape(&message) {
                Cow::Borrowed(_) => message.clone(),
                Cow::Owned(text) => ByteString::from(text),
            };
            let (kind, content, node) = event::decode_shared(&text);
            StreamEvent::notified(kind, content, node, numbers, Some(message.into()))
        }
        None => {
            // The numbers as they were spelled.
            let spelled = |raw: Option<&RawValue>| {
                raw.map(RawValue::get)
                    .filter(|raw| number(raw).is_some())
                    .unwrap_or("null")
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
pub(super) fn number(raw: &str) -> Option<f64> {
    let numeric = raw.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    numeric.then(|| raw.parse().ok()).flatten()
}

fn integral(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}
