//! The id of a request, as it was spelled.
//!
//! Owns which ids there are and when two are the same; must not know who gave them out.

use std::fmt;
use std::hash::{Hash, Hasher};

use bytestring::ByteString;
use serde::de::Deserializer;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{safe_integer, string};

/// A request's id. `7` and `"7"` are different ids, and each goes back as it came.
#[derive(Clone)]
pub(crate) enum RequestId {
    Number(i64),
    /// The text, and its spelling with quotes and escapes.
    Text {
        value: ByteString,
        raw: ByteString,
    },
}

/// A longer id is refused rather than echoed: a peer could make us write what it did not send.
const MAX_ID_BYTES: usize = 1024;

impl RequestId {
    pub(super) fn parse(token: &ByteString) -> Result<Self, &'static str> {
        if token.len() > MAX_ID_BYTES {
            return Err("the id is longer than 1024 bytes");
        }
        if token.starts_with('"') {
            let raw = token.clone();
            return match string(token) {
                Ok(value) => Ok(Self::Text { value, raw }),
                Err(_) => Err("the id is a string with a broken escape"),
            };
        }
        match token.parse() {
            Ok(number) => Ok(Self::Number(number)),
            Err(_) => Err("the id must be a string or an integer"),
        }
    }

    /// As [`parse`](Self::parse), but for the id of a response, which may be an integer that a
    /// peer wrote as a fraction.
    pub(super) fn parse_answered(token: &ByteString) -> Option<Self> {
        Self::parse(token)
            .ok()
            .or_else(|| safe_integer(token).map(Self::Number))
    }

    /// The same id without a hold on the message it came in.
    pub(crate) fn into_owned(self) -> Self {
        match self {
            Self::Number(number) => Self::Number(number),
            Self::Text { value, raw } => Self::Text {
                value: ByteString::from(&*value),
                raw: ByteString::from(&*raw),
            },
        }
    }

    /// The number that this id stands for, also when a peer turned it into a string.
    pub(crate) fn as_number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text { value, .. } => value.parse().ok(),
        }
    }
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::Text { value: a, .. }, Self::Text { value: b, .. }) => a == b,
            _ => false,
        }
    }
}

impl Eq for RequestId {}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Number(number) => number.hash(state),
            Self::Text { value, .. } => value.hash(state),
        }
    }
}

/// As it stands in a message: `7` and `"7"`.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text { raw, .. } => f.write_str(raw),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// In `requestId`: the value, since a spelling cannot pass through serde.
impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Text { value, .. } => serializer.serialize_str(value),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let token = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(&ByteString::from(token.get())).map_err(serde::de::Error::custom)
    }
}
