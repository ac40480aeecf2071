//! [`Head`] to HTTP header names and values, and back.
//!
//! Knows names and spelling; must not know hyper or what a value means.

use super::frame::{Head, SessionId};

/// `Last-Event-ID`.
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";
/// `MCP-Protocol-Version`, in the lower case that HTTP libraries want.
pub(crate) const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// `Mcp-Session-Id`.
pub(crate) const SESSION_ID: &str = "mcp-session-id";

impl Head {
    /// Calls `set` for each header of this head.
    pub(crate) fn write<'a>(&'a self, mut set: impl FnMut(&'static str, &'a str)) {
        if let Some(version) = &self.version {
            set(PROTOCOL_VERSION, version);
        }
        if let Some(id) = &self.session_id {
            set(SESSION_ID, id.as_str());
        }
        if let Some(id) = &self.last_event_id {
            set(LAST_EVENT_ID, id);
        }
    }

    /// Reads a head; `get` looks a header up by its lower-case name. A session id of impossible
    /// spelling is read as one that no table holds, so that it is answered "not found".
    pub(crate) fn read<'a>(get: impl Fn(&'static str) -> Option<&'a str>) -> Self {
        let value = |name| get(name).map(str::trim).filter(|text| !text.is_empty());
        Self {
            version: value(PROTOCOL_VERSION).map(str::to_owned),
            session_id: value(SESSION_ID)
                .map(|text| SessionId::parse(text).unwrap_or_else(SessionId::unknown)),
            last_event_id: value(LAST_EVENT_ID).map(Box::from),
        }
    }
}

impl SessionId {
    fn unknown() -> Self {
        Self::parse("-").unwrap_or_else(|| unreachable!("a dash is visible ASCII"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_as_it_was_written() {
        let head = Head {
            version: Some("2025-11-25".to_owned()),
            session_id: SessionId::parse("5f2d"),
            last_event_id: Some("s3-7".into()),
        };
        let mut written = Vec::new();
        head.write(|name, value| written.push((name, value)));
        let read = Head::read(|name| written.iter().find(|(n, _)| *n == name).map(|(_, v)| *v));
        assert_eq!(read, head);
    }

    #[test]
    fn values_are_trimmed_and_an_empty_one_is_none() {
        let read = Head::read(|name| match name {
            PROTOCOL_VERSION => Some("  2025-06-18\t"),
            SESSION_ID => Some(" "),
            _ => None,
        });
        assert_eq!(read.version.as_deref(), Some("2025-06-18"));
        assert_eq!(read.session_id, None);
    }

    #[test]
    fn an_impossible_session_id_is_one_that_nobody_has() {
        let read = Head::read(|name| (name == SESSION_ID).then_some("a b"));
        assert_eq!(read.session_id.unwrap().as_str(), "-");
    }
}
