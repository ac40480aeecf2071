//! The envelope of an event.

use std::borrow::Cow;

use bytestring::ByteString;
use serde_json::Value;

use super::json;
use crate::event::{
    self, Content, ContentRef, EnvelopeRef, EventKind, Node, decode_envelope, encode_envelope,
};

/// A message is read as serde_json would have it, lone surrogates and numbers out of range mended;
/// what has no escape is borrowed; a shared message gives the same as a borrowed one; what was
/// written is read back, and what stands in a notification's quotes says the same.
pub fn envelope(input: &[u8]) {
    let message = String::from_utf8_lossy(input);
    let envelope = decode_envelope(&message);
    assert_eq!(envelope.raw(), message);
    if let Some(expected) = Envelope::read(&message) {
        let parts = (envelope.v, Envelope::of(&envelope));
        assert_eq!(parts, (expected.v(&message), expected));
    }
    for part in borrowable(&envelope) {
        let is_clean = matches!(part, Cow::Borrowed(_)) || !clean(&message);
        assert!(is_clean, "{part:?} was copied");
    }
    shares(&message, &envelope);
    round_trip(&envelope);
}

/// What a message says, its content as JSON.
#[derive(Debug, PartialEq)]
pub(super) struct Envelope {
    pub(super) kind: String,
    pub(super) content: String,
    pub(super) node: Option<String>,
}

impl Envelope {
    /// By serde_json; `None` where that cannot tell.
    pub(super) fn read(message: &str) -> Option<Self> {
        let is_object = |json: &&str| json.starts_with('{') && json::depth(json) <= 128;
        let Some(object) = json::json(message).filter(is_object) else {
            return Some(Self::plain(message));
        };
        let members = json::members(object)?;
        let last = |key| {
            let mut named = members.iter().rev().filter(|(name, _)| name == key);
            named.next().map(|(_, json)| *json)
        };
        let Some(kind) = last("type").and_then(json::text) else {
            return Some(Self::plain(message));
        };
        let content = last("content").unwrap_or("null");
        Some(Self {
            kind,
            content: json::text(content).map_or_else(|| content.to_owned(), quoted),
            node: last("node").and_then(json::text),
        })
    }

    fn plain(message: &str) -> Self {
        Self {
            kind: "text".to_owned(),
            content: quoted(message.to_owned()),
            node: None,
        }
    }

    fn of(envelope: &EnvelopeRef<'_>) -> Self {
        Self {
            kind: envelope.kind.to_string(),
            content: envelope.content.raw().into_owned(),
            node: envelope.node.as_deref().map(str::to_owned),
        }
    }

    fn v(&self, message: &str) -> u64 {
        let members = json::json(message).and_then(json::members);
        let members = members.filter(|_| *self != Self::plain(message));
        let version = members.into_iter().flatten().rfind(|(name, _)| name == "v");
        let digits = version.filter(|(_, json)| json.bytes().all(|b| b.is_ascii_digit()));
        digits.map_or(1, |(_, digits)| digits.parse().unwrap_or(u64::MAX))
    }
}

fn quoted(text: String) -> String {
    Value::from(text).to_string()
}

/// Nothing in it is escaped.
fn clean(message: &str) -> bool {
    !message.contains('\\')
}

fn borrowable<'e>(envelope: &'e EnvelopeRef<'_>) -> Vec<&'e Cow<'e, str>> {
    let text = match &envelope.content {
        ContentRef::Text(text) => Some(text),
        _ => None,
    };
    let parts = [Some(&envelope.kind), text, envelope.node.as_ref()];
    parts.into_iter().flatten().collect()
}

fn shares(message: &str, envelope: &EnvelopeRef<'_>) {
    let (kind, content, node) = event::decode_shared(&ByteString::from(message));
    assert_eq!(kind, envelope.event_kind());
    assert!(!kind.is_terminal(), "a peer ended the stream");
    assert_eq!(content, envelope.content.clone().into_owned());
    assert_eq!(content.value(), envelope.content.value());
    assert_eq!(node.as_ref().map(Node::as_str), envelope.node.as_deref());
    assert_eq!(kind, EventKind::from_envelope_type(&envelope.kind));
    let raw = content.raw();
    if let Ok(value) = serde_json::from_str::<Value>(&raw) {
        assert_eq!(content.value(), value);
    }
    let serialized = serde_json::to_string(&content).unwrap();
    assert!(!serialized.contains(['\n', '\r']), "{serialized:?}");
    assert_eq!(Content::json(raw.into_owned().into()), content);
}

fn round_trip(envelope: &EnvelopeRef<'_>) {
    let (kind, node) = (&*envelope.kind, envelope.node.as_deref());
    let value = envelope.content.value();
    let message = encode_envelope(kind, &value, node).unwrap();
    let read = decode_envelope(&message);
    let expected = Envelope {
        kind: kind.to_owned(),
        content: value.to_string(),
        node: node.map(str::to_owned),
    };
    assert_eq!((read.v, Envelope::of(&read)), (1, expected));

    let content = envelope.content.clone().into_owned();
    let mut quoted = vec![];
    event::write_json_envelope(&mut quoted, kind, &value, node).unwrap();
    assert_eq!(unquoted(&quoted), message);
    if let Some(text) = content.as_str() {
        quoted.clear();
        event::write_text_envelope(&mut quoted, kind, text, node);
        assert_eq!(unquoted(&quoted), message);
    }
    quoted.clear();
    event::write_content_envelope(&mut quoted, kind, &content, node);
    let message = unquoted(&quoted);
    let forwarded = decode_envelope(&message);
    assert_eq!(Envelope::of(&forwarded), Envelope::of(envelope));
}

/// What stands between the quotes of a notification's message.
fn unquoted(inside: &[u8]) -> String {
    let clean = inside.iter().all(|b| *b >= b' ');
    assert!(clean, "a control byte in {inside:?}");
    serde_json::from_slice(&[b"\"", inside, b"\""].concat()).unwrap()
}
