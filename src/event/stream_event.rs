//! What the caller of a tool sees.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::quoted::QuotedMessage;
use super::{Content, EventKind, Node};
use crate::error::Error;

/// One event of a call.
///
/// Serialises to `{"type":..,"content":..,"node":..}`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StreamEvent {
    /// What it is.
    pub kind: EventKind,
    /// What it carries.
    pub content: Content,
    /// The step inside the tool that sent it.
    pub node: Option<Node>,
    origin: Origin,
}

/// Where an event came from.
#[derive(Debug, Clone)]
enum Origin {
    /// This process: it has not travelled.
    Here,
    /// A progress notification, with its message if it had one.
    Notification {
        progress: Progress,
        message: Option<QuotedMessage>,
    },
    /// The end of the call: its result as sent, or the cause of its failure.
    End(Arc<End>),
}

#[derive(Debug, Clone)]
struct End {
    error: Option<Error>,
    result: Option<Content>,
}

/// The numbers of the progress notification that carried an event.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// How far the call is; rises with each event of a call.
    pub number: f64,
    /// What the number will be at the end, if the tool knows.
    pub total: Option<f64>,
}

impl StreamEvent {
    pub(crate) fn notified(
        kind: EventKind,
        content: Content,
        node: Option<Node>,
        (number, total): (f64, Option<f64>),
        message: Option<QuotedMessage>,
    ) -> Self {
        let progress = Progress { number, total };
        Self {
            kind,
            content,
            node,
            origin: Origin::Notification { progress, message },
        }
    }

    /// An event that is made here, for a stream of this process.
    pub(crate) fn made_here(kind: EventKind, content: Content, node: Option<Node>) -> Self {
        Self {
            kind,
            content,
            node,
            origin: Origin::Here,
        }
    }

    pub(crate) fn is_made_here(&self) -> bool {
        matches!(self.origin, Origin::Here)
    }

    pub(crate) fn result(content: Content, result: Content) -> Self {
        Self::end(
            EventKind::Result,
            content,
            End {
                error: None,
                result: Some(result),
            },
        )
    }

    /// A failure that the tool itself reported, with the result as it was sent.
    pub(crate) fn tool_failure(content: Content, error: Error, result: Content) -> Self {
        let end = End {
            error: Some(error),
            result: Some(result),
        };
        Self::end(EventKind::TerminalError, content, end)
    }

    /// The terminal event for an error: `cancelled` for a cancel, else `terminal_error`.
    pub(crate) fn failure(error: Error) -> Self {
        let kind = if error.is_cancelled() {
            EventKind::Cancelled
        } else {
            EventKind::TerminalError
        };
        let content = match &error {
            Error::Cancelled { .. } => Content::NULL,
            other => Content::text(describe(other)),
        };
        Self::end(
            kind,
            content,
            End {
                error: Some(error),
                result: None,
            },
        )
    }

    fn end(kind: EventKind, content: Content, end: End) -> Self {
        Self {
            kind,
            content,
            node: None,
            origin: Origin::End(Arc::new(end)),
        }
    }

    /// True for the last event of a call.
    pub fn is_terminal(&self) -> bool {
        self.kind.is_terminal()
    }

    /// The text, if the content is one.
    pub fn text(&self) -> Option<&str> {
        self.content.as_str()
    }

    /// The numbers of the notification that carried this event; `None` for a terminal event, and
    /// for one that was not sent yet, as those of a graph's run.
    pub fn progress(&self) -> Option<Progress> {
        match &self.origin {
            Origin::Notification { progress, .. } => Some(*progress),
            Origin::End(_) | Origin::Here => None,
        }
    }

    /// What the peer sent: the message of the progress notification, or the tool's result as JSON.
    /// `None` for a progress without a message, for a failure without a result and for an event
    /// that was not sent yet.
    pub fn raw(&self) -> Option<Cow<'_, str>> {
        match &self.origin {
            Origin::Notification { message, .. } => message.as_ref().map(QuotedMessage::text),
            Origin::End(end) => end.result.as_ref().map(Content::raw),
            Origin::Here => None,
        }
    }

    /// The whole result as the tool sent it (`content`, `structuredContent`, `isError`, `_meta`),
    /// never unwrapped. Of a terminal event only.
    pub fn tool_result(&self) -> Option<&Content> {
        match &self.origin {
            Origin::Notification { .. } | Origin::Here => None,
            Origin::End(end) => end.result.as_ref(),
        }
    }

    /// Why the call did not end with a result. Of `terminal_error` and `cancelled` only.
    pub fn error(&self) -> Option<&Error> {
        match &self.origin {
            Origin::Notification { .. } | Origin::Here => None,
            Origin::End(end) => end.error.as_ref(),
        }
    }

    /// A copy that shares no buffer with the message it came in, for events that are kept.
    pub fn into_owned(self) -> Self {
        let origin = match self.origin {
            Origin::Here => Origin::Here,
            Origin::Notification { progress, message } => Origin::Notification {
                progress,
                message: message.map(QuotedMessage::into_owned),
            },
            Origin::End(end) => {
                let End { error, result } = Arc::unwrap_or_clone(end);
                let result = result.map(Content::into_owned);
                Origin::End(Arc::new(End { error, result }))
            }
        };
        Self {
            kind: self.kind.into_owned(),
            content: self.content.into_owned(),
            node: self.node.map(Node::into_owned),
            origin,
        }
    }

    /// Bytes that this event keeps alive, about: for bounded queues.
    pub(crate) fn weight(&self) -> usize {
        let content = match &self.origin {
            Origin::Notification {
                message: Some(message),
                ..
            } => message.len(),
            _ => self.content.as_str().map_or(64, str::len),
        };
        size_of::<Self>() + content
    }
}

/// An error and its causes as one line, since the content of an event has no `source`.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        text.push_str(": ");
        text.push_str(&e.to_string());
        cause = e.source();
    }
    text
}

impl Serialize for StreamEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut event = serializer.serialize_struct("StreamEvent", 3)?;
        event.serialize_field("type", self.kind.as_str())?;
        event.serialize_field("content", &self.content)?;
        event.serialize_field("node", &self.node.as_ref().map(Node::as_str))?;
        event.end()
    }
}
