//! What an event is.

use std::fmt;

use bytestring::ByteString;

/// The types whose event ends a stream: exactly one of them comes, and it comes last.
pub const TERMINAL_EVENT_TYPES: [&str; 3] = ["result", "terminal_error", "cancelled"];

/// What a [`StreamEvent`](crate::StreamEvent) is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The call was cancelled, by this side or by the peer. Terminal.
    Cancelled,
    /// State of a face or voice, for avatars. Content is what the tool sent.
    EmotionData,
    /// Something went wrong inside the tool, which goes on.
    Error,
    /// An image: a data URI or a URL.
    Image,
    /// A line of diagnosis for people.
    Log,
    /// Any other type that a tool sends.
    Other(OtherKind),
    /// A progress notification without a message; content `{"progress":n,"total":m}`.
    Progress,
    /// What the tool returned. Terminal.
    Result,
    /// A mesh for 3D printing or display: a data URI or a URL.
    Stl,
    /// The call failed. Terminal; [`StreamEvent::error`](crate::StreamEvent::error) says why.
    TerminalError,
    /// A piece of the answer.
    Text,
    /// A piece of the reasoning before the answer.
    Think,
    /// A video: a data URI or a URL.
    Video,
}

/// The name of an event type that this crate has no variant for.
///
/// An envelope cannot end a stream: one of type `result`, `terminal_error` or `cancelled` arrives
/// as `peer:result` and so on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OtherKind(ByteString);

impl OtherKind {
    /// The type as the tool wrote it, or `peer:` and the type for a terminal one.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl EventKind {
    /// The kind of an envelope's `type`. A terminal type is one that a peer may not use, so it
    /// becomes [`EventKind::Other`].
    pub fn from_envelope_type(name: &str) -> Self {
        Self::known(name).unwrap_or_else(|| Self::other(ByteString::from(name)))
    }

    /// As [`from_envelope_type`](Self::from_envelope_type), for a name that need not be copied.
    pub(crate) fn from_shared_type(name: ByteString) -> Self {
        Self::known(&name).unwrap_or_else(|| Self::other(name))
    }

    /// The kind of a type that needs no copy of its name.
    pub(crate) fn known(name: &str) -> Option<Self> {
        Some(match name {
            "emotion_data" => Self::EmotionData,
            "error" => Self::Error,
            "image" => Self::Image,
            "log" => Self::Log,
            "progress" => Self::Progress,
            "stl" => Self::Stl,
            "text" => Self::Text,
            "think" => Self::Think,
            "video" => Self::Video,
            "cancelled" => Self::other(ByteString::from_static("peer:cancelled")),
            "result" => Self::other(ByteString::from_static("peer:result")),
            "terminal_error" => Self::other(ByteString::from_static("peer:terminal_error")),
            _ => return None,
        })
    }

    fn other(name: ByteString) -> Self {
        Self::Other(OtherKind(name))
    }

    /// The name that stands in `"type"`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cancelled => "cancelled",
            Self::EmotionData => "emotion_data",
            Self::Error => "error",
            Self::Image => "image",
            Self::Log => "log",
            Self::Other(name) => name.as_str(),
            Self::Progress => "progress",
            Self::Result => "result",
            Self::Stl => "stl",
            Self::TerminalError => "terminal_error",
            Self::Text => "text",
            Self::Think => "think",
            Self::Video => "video",
        }
    }

    /// True for the kinds of [`TERMINAL_EVENT_TYPES`].
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Result | Self::TerminalError)
    }

    pub(crate) fn into_owned(self) -> Self {
        match self {
            Self::Other(OtherKind(name)) => Self::other(ByteString::from(&*name)),
            known => known,
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_envelope_type_has_its_kind_and_keeps_its_name() {
        for name in [
            "text",
            "think",
            "log",
            "image",
            "stl",
            "video",
            "emotion_data",
            "error",
        ] {
            let kind = EventKind::from_envelope_type(name);
            assert!(!matches!(kind, EventKind::Other(_)), "{name}");
            assert_eq!(kind.as_str(), name);
            assert!(!kind.is_terminal(), "{name}");
        }
        assert_eq!(EventKind::from_envelope_type("my_own").as_str(), "my_own");
    }

    #[test]
    fn a_peer_cannot_name_a_terminal_type() {
        for name in TERMINAL_EVENT_TYPES {
            for kind in [
                EventKind::from_envelope_type(name),
                EventKind::from_shared_type(ByteString::from(name)),
            ] {
                assert!(!kind.is_terminal(), "{name}");
                assert_eq!(kind.as_str(), format!("peer:{name}"));
            }
        }
    }
}
