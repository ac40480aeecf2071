//! The envelope: one event as the JSON text that a progress notification has as its message.
//!
//! Owns its members and what becomes of a message that has none; must not know the notification
//! around it.

use std::borrow::Cow;

use bytestring::ByteString;
use serde::Serialize;
use serde_json::Value;

use super::content::{mended_value, quoted, unwritable};
use super::escape::{DoubleEscape, unescape};
use super::{Content, EventKind, Node, scan};
use crate::error::Error;

/// The version of the envelope that this crate writes.
///
/// ```
/// use agent_hub_kit::{ENVELOPE_VERSION, decode_envelope, encode_envelope};
///
/// let message = encode_envelope("text", "hello", None)?;
/// assert_eq!(decode_envelope(&message).v, ENVELOPE_VERSION);
/// # Ok::<(), agent_hub_kit::Error>(())
/// ```
pub const ENVELOPE_VERSION: u64 = 1;

/// What [`decode_envelope`] reads out of a message. Each field that has no escape is a slice of it.
///
/// ```
/// use std::borrow::Cow;
/// use agent_hub_kit::{ContentRef, decode_envelope};
///
/// let envelope = decode_envelope(r#"{"v":1,"type":"text","content":"あ","node":"my-agent"}"#);
/// assert_eq!(envelope.kind, "text");
/// assert!(matches!(envelope.content, ContentRef::Text(Cow::Borrowed("あ"))));
/// assert_eq!(envelope.node.as_deref(), Some("my-agent"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvelopeRef<'a> {
    /// The version, 1 if the message names none. A higher one is decoded by the same rules.
    pub v: u64,
    /// The type, as it was written.
    pub kind: Cow<'a, str>,
    /// The payload.
    pub content: ContentRef<'a>,
    /// The step inside the tool that sent it.
    pub node: Option<Cow<'a, str>>,
    raw: &'a str,
}

impl<'a> EnvelopeRef<'a> {
    /// The kind of event that this is.
    ///
    /// ```
    /// use agent_hub_kit::{EventKind, decode_envelope};
    ///
    /// let log = decode_envelope(r#"{"type":"log","content":"loading"}"#);
    /// assert_eq!(log.event_kind(), EventKind::Log);
    /// // An envelope cannot end a stream, whatever it says.
    /// let result = decode_envelope(r#"{"type":"result","content":"the end"}"#);
    /// assert_eq!(result.event_kind().as_str(), "peer:result");
    /// ```
    pub fn event_kind(&self) -> EventKind {
        EventKind::from_envelope_type(&self.kind)
    }

    /// The message itself, with the members that this crate does not know.
    ///
    /// ```
    /// let message = r#"{"v":2,"type":"text","content":"a","colour":"red"}"#;
    /// assert_eq!(agent_hub_kit::decode_envelope(message).raw(), message);
    /// ```
    pub fn raw(&self) -> &'a str {
        self.raw
    }
}

/// The content of an [`EnvelopeRef`].
///
/// ```
/// use agent_hub_kit::{ContentRef, decode_envelope};
///
/// let shown = |message| match decode_envelope(message).content {
///     ContentRef::Text(text) => text.into_owned(),
///     ContentRef::Json(raw) => format!("JSON {raw}"),
///     _ => "nothing".to_owned(),
/// };
/// assert_eq!(shown(r#"{"type":"text","content":"hello"}"#), "hello");
/// assert_eq!(shown(r#"{"type":"point","content":{"x":1}}"#), r#"JSON {"x":1}"#);
/// assert_eq!(shown(r#"{"type":"done"}"#), "nothing");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentRef<'a> {
    /// None, or a JSON null.
    Null,
    /// A text, copied only if it had escapes.
    Text(Cow<'a, str>),
    /// Any other JSON, as it was written.
    Json(&'a str),
}

impl<'a> ContentRef<'a> {
    fn from_json(raw: &'a str) -> Self {
        match (string_of(raw), raw) {
            (Some(text), _) => Self::Text(text),
            (None, "null") => Self::Null,
            (None, raw) => Self::Json(raw),
        }
    }

    /// The text, if the content is one.
    ///
    /// ```
    /// let envelope = agent_hub_kit::decode_envelope("not an envelope");
    /// assert_eq!(envelope.content.as_str(), Some("not an envelope"));
    /// ```
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The content as JSON text: exactly as it was written, unless it is a text.
    ///
    /// ```
    /// let envelope = agent_hub_kit::decode_envelope(r#"{"type":"far","content":1e999}"#);
    /// assert_eq!(envelope.content.raw(), "1e999");
    /// ```
    pub fn raw(&self) -> Cow<'_, str> {
        match self {
            Self::Null => Cow::Borrowed("null"),
            Self::Text(text) => Cow::Owned(quoted(text)),
            Self::Json(raw) => Cow::Borrowed(raw),
        }
    }

    /// The content as a JSON value, mended as [`Content::value`] says.
    ///
    /// ```
    /// let envelope = agent_hub_kit::decode_envelope(r#"{"type":"point","content":{"x":1}}"#);
    /// assert_eq!(envelope.content.value(), serde_json::json!({"x": 1}));
    /// ```
    pub fn value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Text(text) => Value::from(&**text),
            Self::Json(raw) => mended_value(raw),
        }
    }

    /// A copy that needs no message to borrow from.
    ///
    /// ```
    /// let content = agent_hub_kit::decode_envelope(r#"{"type":"n","content":[1,2]}"#)
    ///     .content
    ///     .into_owned();
    /// assert_eq!(content.deserialize::<Vec<u8>>()?, [1, 2]);
    /// # Ok::<(), agent_hub_kit::Error>(())
    /// ```
    pub fn into_owned(self) -> Content {
        match self {
            Self::Null => Content::NULL,
            Self::Text(text) => Content::text(text.into_owned()),
            Self::Json(raw) => Content::json(raw.into()),
        }
    }
}

/// Reads an event out of the message of a progress notification. Never fails.
///
/// A message that is not a JSON object with a string `type`, or that nests deeper than 128, is a
/// `text` event with the whole message as its content. Unknown members are ignored, and of a member
/// that is given twice the last counts.
///
/// ```
/// let envelope = agent_hub_kit::decode_envelope("50 % done");
/// assert_eq!(envelope.kind, "text");
/// assert_eq!(envelope.content.as_str(), Some("50 % done"));
/// ```
pub fn decode_envelope(message: &str) -> EnvelopeRef<'_> {
    let (mut v, mut kind, mut content, mut node) = (None, None, None, None);
    let object = scan::members(message, |key, value| match &*unescape(key) {
        "v" => v = Some(value),
        "type" => kind = Some(value),
        "content" => content = Some(value),
        "node" => node = Some(value),
        _ => {}
    });
    match (object, kind.and_then(string_of)) {
        (Some(()), Some(kind)) => EnvelopeRef {
            v: v.map_or(1, version_of),
            kind,
            content: content.map_or(ContentRef::Null, ContentRef::from_json),
            node: node.and_then(string_of),
            raw: message,
        },
        _ => EnvelopeRef {
            v: 1,
            kind: Cow::Borrowed("text"),
            content: ContentRef::Text(Cow::Borrowed(message)),
            node: None,
            raw: message,
        },
    }
}

/// The text of a JSON value, if it is a string.
fn string_of(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    Some(unescape(inner))
}

fn version_of(raw: &str) -> u64 {
    // Looked at first: parsing ends at the overflow, before what may be no digit.
    match raw.bytes().all(|b| b.is_ascii_digit()) {
        true => raw.parse().unwrap_or(u64::MAX),
        false => 1,
    }
}

/// [`decode_envelope`] for a message that is shared: what it would borrow is a slice instead.
pub(crate) fn decode_shared(message: &ByteString) -> (EventKind, Content, Option<Node>) {
    let EnvelopeRef {
        kind,
        content,
        node,
        ..
    } = decode_envelope(message);
    let content = match content {
        ContentRef::Null => Content::NULL,
        ContentRef::Text(text) => Content::text(share(message, text)),
        ContentRef::Json(raw) => Content::json(message.slice_ref(raw)),
    };
    let node = node.map(|name| Node::from_shared(share(message, name)));
    (shared_kind(message, kind), content, node)
}

/// A text that was found in `whole`: a slice of it, unless it had to be copied.
pub(super) fn share(whole: &ByteString, text: Cow<'_, str>) -> ByteString {
    match text {
        Cow::Borrowed(text) => whole.slice_ref(text),
        Cow::Owned(text) => text.into(),
    }
}

pub(super) fn shared_kind(whole: &ByteString, name: Cow<'_, str>) -> EventKind {
    // The "text" of a message that is no envelope is no slice of it, but it is a known kind.
    EventKind::known(&name).unwrap_or_else(|| EventKind::from_shared_type(share(whole, name)))
}

/// Writes an event as the message of a progress notification.
///
/// ```
/// let message = agent_hub_kit::encode_envelope("text", "あ", Some("my-agent"))?;
/// assert_eq!(message, r#"{"v":1,"type":"text","content":"あ","node":"my-agent"}"#);
/// # Ok::<(), agent_hub_kit::Error>(())
/// ```
///
/// # Errors
/// [`Error::Config`] if the content cannot be written as JSON, as a map with keys that are no
/// strings.
pub fn encode_envelope(
    kind: &str,
    content: &(impl Serialize + ?Sized),
    node: Option<&str>,
) -> Result<String, Error> {
    #[derive(Serialize)]
    struct Envelope<'a, T: ?Sized> {
        v: u64,
        r#type: &'a str,
        content: &'a T,
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<&'a str>,
    }
    serde_json::to_string(&Envelope {
        v: ENVELOPE_VERSION,
        r#type: kind,
        content,
        node,
    })
    .map_err(|e| unwritable(&e))
}

/// Appends an envelope as it stands inside the quotes of the message: escaped once more.
pub(crate) fn write_text_envelope(out: &mut Vec<u8>, kind: &str, text: &str, node: Option<&str>) {
    write_head(out, kind);
    out.extend_from_slice(br#"\""#);
    DoubleEscape(out).text(text);
    out.extend_from_slice(br#"\""#);
    write_tail(out, node);
}

/// As [`write_text_envelope`], for the content of another event: JSON exactly as it was sent.
pub(crate) fn write_content_envelope(
    out: &mut Vec<u8>,
    kind: &str,
    content: &Content,
    node: Option<&str>,
) {
    if let Some(text) = content.as_str() {
        return write_text_envelope(out, kind, text, node);
    }
    write_head(out, kind);
    DoubleEscape(out).json(&content.raw());
    write_tail(out, node);
}

/// As [`write_text_envelope`], for any value. After an error `out` is as it was.
pub(crate) fn write_json_envelope(
    out: &mut Vec<u8>,
    kind: &str,
    content: &(impl Serialize + ?Sized),
    node: Option<&str>,
) -> Result<(), Error> {
    let start = out.len();
    write_head(out, kind);
    if let Err(e) = serde_json::to_writer(DoubleEscape(out), content) {
        out.truncate(start);
        return Err(unwritable(&e));
    }
    write_tail(out, node);
    Ok(())
}

fn write_head(out: &mut Vec<u8>, kind: &str) {
    const { assert!(ENVELOPE_VERSION == 1) };
    out.extend_from_slice(br#"{\"v\":1,\"type\":\""#);
    DoubleEscape(out).text(kind);
    out.extend_from_slice(br#"\",\"content\":"#);
}

fn write_tail(out: &mut Vec<u8>, node: Option<&str>) {
    if let Some(node) = node {
        out.extend_from_slice(br#",\"node\":\""#);
        DoubleEscape(out).text(node);
        out.extend_from_slice(br#"\""#);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests;
