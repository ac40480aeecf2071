//! The envelope where it stands: inside the string that a progress notification has as its message.
//!
//! Owns how it is read there, so that the message need not be copied to be understood; must not know
//! the notification around it. What it cannot read is left to [`decode_shared`](super::decode_shared).

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Buf, Bytes};
use bytestring::ByteString;

use super::envelope::{share, shared_kind};
use super::escape::{unescape, unescape_twice};
use super::scan::Scanner;
use super::{Content, EventKind, Node};

/// The message of a progress notification as it was received: what stands between its quotes, the
/// escapes unread.
#[derive(Debug, Clone)]
pub(crate) struct QuotedMessage(Bytes);

impl QuotedMessage {
    /// The message that stands at `place` in `whole`, which is text there.
    pub(crate) fn new(mut whole: Bytes, place: Range<usize>) -> Self {
        whole.truncate(place.end);
        whole.advance(place.start);
        Self(whole)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The message as the peer meant it.
    pub(super) fn text(&self) -> Cow<'_, str> {
        unescape(str::from_utf8(&self.0).unwrap_or_default())
    }

    pub(super) fn into_owned(self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }
}

impl From<ByteString> for QuotedMessage {
    fn from(message: ByteString) -> Self {
        Self(message.into_bytes())
    }
}

/// The message of a progress notification as it stands there, between quotes, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quoted<'a> {
    Envelope {
        /// The insides of these two strings.
        kind: &'a str,
        node: Option<&'a str>,
        content: QuotedContent<'a>,
    },
    /// A message that is no envelope.
    Plain(&'a str),
}

/// The content of a [`Quoted`] envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotedContent<'a> {
    Null,
    /// The inside of a string.
    Text(&'a str),
    Json(&'a str),
}

impl<'a> Quoted<'a> {
    /// Reads a message, of which it gives the inside of the quotes too. `None` where only the
    /// message without its escapes can tell what it is.
    pub(crate) fn read(scan: &mut Scanner<'a, false>) -> Option<(&'a str, Self)> {
        if !scan.quotes_object()? {
            let inner = scan.text()?;
            return Some((inner, Self::Plain(inner)));
        }
        scan.quoted(|scan| {
            let (mut kind, mut content, mut node) = (None, None, None);
            scan.object(|scan, key| {
                let value = scan.value()?;
                match key {
                    "type" => kind = Some(value),
                    "content" => content = Some(value),
                    "node" => node = Some(value),
                    _ if key.contains('\\') => return None,
                    _ => {}
                }
                Some(())
            })?;
            Some(Self::Envelope {
                kind: quoted_string(kind?)?,
                content: content.map_or(QuotedContent::Null, |raw| match quoted_string(raw) {
                    Some(inner) => QuotedContent::Text(inner),
                    None if raw == "null" => QuotedContent::Null,
                    None => QuotedContent::Json(raw),
                }),
                node: node.and_then(quoted_string),
            })
        })
    }

    /// What the message says, as slices of `whole`, in which it stands. What has escapes is copied
    /// once.
    pub(crate) fn decode(self, whole: &ByteString) -> (EventKind, Content, Option<Node>) {
        match self {
            Self::Envelope {
                kind,
                content,
                node,
            } => {
                let text = |inner| share(whole, unescape_twice(inner));
                let content = match content {
                    QuotedContent::Null => Content::NULL,
                    QuotedContent::Text(inner) => Content::text(text(inner)),
                    QuotedContent::Json(raw) => Content::json(share(whole, unescape(raw))),
                };
                let node = node.map(|inner| Node::from_shared(text(inner)));
                (shared_kind(whole, unescape_twice(kind)), content, node)
            }
            Self::Plain(inner) => {
                let content = Content::text(share(whole, unescape(inner)));
                (EventKind::Text, content, None)
            }
        }
    }
}

/// The inside of a JSON value that stands in quotes, if the value is a string.
fn quoted_string(raw: &str) -> Option<&str> {
    raw.strip_prefix(r#"\""#)?.strip_suffix(r#"\""#)
}
