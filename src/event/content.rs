//! The payload of an event.

use std::borrow::Cow;

use bytestring::ByteString;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::escape;
use crate::error::Error;

/// What an event carries: a text, or any JSON kept as it was sent until someone asks for it.
///
/// Cheap to clone. A content that came over the wire may share the buffer it arrived in, which
/// lives as long as the content; [`into_owned`](Self::into_owned) lets go of it.
///
/// ```
/// # let message = r#"{"type":"point","content":{"x":1, "y":1e999}}"#;
/// # let content = agent_hub_kit::decode_envelope(message).content.into_owned();
/// // Of an event whose content is `{"x":1, "y":1e999}`:
/// assert_eq!(content.raw(), r#"{"x":1, "y":1e999}"#);
/// assert_eq!(content.value(), serde_json::json!({"x": 1, "y": "1e999"}));
/// assert_eq!(content.as_str(), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content(Repr);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Repr {
    Null,
    Text(ByteString),
    /// JSON that is neither a string nor null.
    Json(ByteString),
}

impl Content {
    pub(crate) const NULL: Self = Self(Repr::Null);

    pub(crate) fn text(text: impl Into<ByteString>) -> Self {
        Self(Repr::Text(text.into()))
    }

    /// Takes one JSON value as it stands on the wire. The caller has checked that it is one.
    pub(crate) fn json(raw: ByteString) -> Self {
        let trimmed = raw.trim_matches([' ', '\t', '\n', '\r']);
        let raw = if trimmed.len() == raw.len() {
            raw
        } else {
            raw.slice_ref(trimmed)
        };
        if &*raw == "null" {
            return Self::NULL;
        }
        match raw
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
        {
            Some(inner) => match escape::unescape(inner) {
                Cow::Borrowed(inner) => Self::text(raw.slice_ref(inner)),
                Cow::Owned(text) => Self::text(text),
            },
            None => Self(Repr::Json(raw)),
        }
    }

    /// Any value of the user's.
    pub(crate) fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        match serde_json::to_string(value) {
            Ok(json) => Ok(Self::json(json.into())),
            Err(e) => Err(unwritable(&e)),
        }
    }

    /// True if there is no content, or a JSON null.
    pub fn is_null(&self) -> bool {
        self.0 == Repr::Null
    }

    /// The text, if the content is one.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Repr::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The content as JSON text: exactly as it was sent, unless it is a text.
    pub fn raw(&self) -> Cow<'_, str> {
        match &self.0 {
            Repr::Null => Cow::Borrowed("null"),
            Repr::Text(text) => Cow::Owned(quoted(text)),
            Repr::Json(raw) => Cow::Borrowed(raw),
        }
    }

    /// The content as a JSON value.
    ///
    /// What a [`Value`] cannot hold is mended: a lone surrogate escape becomes U+FFFD, and a number
    /// outside the range of `f64` becomes a string of its digits. [`raw`](Self::raw) keeps both.
    pub fn value(&self) -> Value {
        match &self.0 {
            Repr::Null => Value::Null,
            Repr::Text(text) => Value::from(&**text),
            Repr::Json(raw) => mended_value(raw),
        }
    }

    /// The content as a type of yours.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the content has another shape.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let raw = self.raw();
        serde_json::from_str(&raw)
            .or_else(|first| serde_json::from_str(&escape::mend_json(&raw)).map_err(|_| first))
            .map_err(|e| Error::protocol(format!("the content is not of the type asked for: {e}")))
    }

    /// A copy that shares no buffer with the message it came in.
    pub fn into_owned(self) -> Self {
        match self.0 {
            Repr::Null => Self::NULL,
            Repr::Text(text) => Self(Repr::Text(ByteString::from(&*text))),
            Repr::Json(raw) => Self(Repr::Json(ByteString::from(&*raw))),
        }
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Null => serializer.serialize_unit(),
            Repr::Text(text) => serializer.serialize_str(text),
            Repr::Json(raw) => match serde_json::from_str::<&RawValue>(&one_line(raw)) {
                Ok(raw) => raw.serialize(serializer),
                Err(_) => self.value().serialize(serializer),
            },
        }
    }
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The value of a JSON text, mended where it has to be.
pub(super) fn mended_value(raw: &str) -> Value {
    serde_json::from_str(raw)
        .or_else(|_| serde_json::from_str(&escape::mend_json(raw)))
        .unwrap_or(Value::Null)
}

/// The error for a value of the user's that has no JSON.
pub(super) fn unwritable(cause: &serde_json::Error) -> Error {
    Error::config(format!("the content cannot be written as JSON: {cause}"))
}

/// A JSON text without line breaks, which can only stand between tokens: where events are written
/// one a line, one in a peer's JSON must not end the line.
fn one_line(raw: &str) -> Cow<'_, str> {
    if raw.contains(['\n', '\r']) {
        Cow::Owned(raw.replace(['\n', '\r'], ""))
    } else {
        Cow::Borrowed(raw)
    }
}

#[cfg(test)]
mod tests;
