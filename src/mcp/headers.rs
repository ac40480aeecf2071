//! [`Head`] to HTTP header names and values, and back.
//!
//! Knows names and spelling; must not know hyper or what a value means.

use super::frame::{Head, SessionId};
use super::param;

/// `Last-Event-ID`.
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";
/// `Mcp-Method`.
pub(crate) const METHOD: &str = "mcp-method";
/// `Mcp-Name`.
pub(crate) const NAME: &str = "mcp-name";

/// `MCP-Protocol-Version`, in the lower case that HTTP libraries want.
pub(crate) const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// `Mcp-Session-Id`.
pub(crate) const SESSION_ID: &str = "mcp-session-id";

/// Whether a header, in lower case, is one that a [`Head`] writes.
pub(crate) fn writes(name: &str) -> bool {
    matches!(
        name,
        LAST_EVENT_ID | METHOD | NAME | PROTOCOL_VERSION | SESSION_ID
    ) || name.starts_with(param::PREFIX)
}

impl Head {
    /// Calls `set` for each header of this head.
    pub(crate) fn write<'a>(&'a self, mut set: impl FnMut(&'a str, &'a str)) {
        if let Some(version) = &self.version {
            set(PROTOCOL_VERSION, version);
        }
        if let Some(method) = &self.method {
            set(METHOD, method);
        }
        if let Some(name) = &self.name {
            set(NAME, name);
        }
        if let Some(id) = &self.session_id {
            set(SESSION_ID, id.as_str());
        }
        if let Some(id) = &self.last_event_id {
            set(LAST_EVENT_ID, id);
        }
        for (name, value) in &self.params {
            set(name, value);
        }
    }

    /// Reads a head from header fields with their names in lower case. Which of them may be there
    /// twice is for the reader to say; the values of a version are joined by a comma, as HTTP has
    /// it. A session id of impossible spelling is read as one that no table holds, so that it is
    /// answered "not found".
    pub(crate) fn read<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut head = Self::default();
        let mut session_id = None;
        for (name, value) in fields {
            let value = value.trim();
            match name {
                PROTOCOL_VERSION => {
                    head.version = join(head.version.take().map(Box::from), value).map(Into::into);
                }
                METHOD => head.repeated |= head.method.replace(value.into()).is_some(),
                NAME => head.repeated |= head.name.replace(value.into()).is_some(),
                SESSION_ID if value.is_empty() => {}
                SESSION_ID => {
                    let first = *session_id.get_or_insert(value);
                    head.session_conflict |= first != value;
                }
                LAST_EVENT_ID => head.last_event_id = join(head.last_event_id.take(), value),
                name if name.starts_with(param::PREFIX) => {
                    head.params.push((name.into(), value.into()));
                }
                _ => {}
            }
        }
        head.session_id =
            session_id.map(|id| SessionId::parse(id).unwrap_or_else(SessionId::unknown));
        head
    }
}

/// Where an empty value is none.
fn join(first: Option<Box<str>>, value: &str) -> Option<Box<str>> {
    if value.is_empty() {
        return first;
    }
    Some(match first {
        Some(first) => format!("{first}, {value}").into(),
        None => value.into(),
    })
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
            method: Some("tools/call".into()),
            name: Some("".into()),
            params: vec![("mcp-param-region".into(), "".into())],
            session_id: SessionId::parse("5f2d"),
            last_event_id: Some("s3-7".into()),
            ..Head::default()
        };
        let mut written = Vec::new();
        head.write(|name, value| written.push((name, value)));
        assert_eq!(Head::read(written.into_iter()), head);
    }

    // Covers R-1214.
    #[test]
    fn values_are_trimmed_and_an_empty_one_is_none() {
        let read =
            Head::read([(PROTOCOL_VERSION, "  2025-06-18\t"), (SESSION_ID, " ")].into_iter());
        assert_eq!(read.version.as_deref(), Some("2025-06-18"));
        assert_eq!(read.session_id, None);
    }

    #[test]
    fn an_impossible_session_id_is_one_that_nobody_has() {
        let read = Head::read([(SESSION_ID, "a b")].into_iter());
        assert_eq!(read.session_id.unwrap().as_str(), "-");
    }

    #[test]
    fn a_session_id_may_be_repeated_but_not_differ() {
        let table = [
            (&["a", "a"][..], Some("a"), false),
            (&["", "a", " a "], Some("a"), false),
            (&["a", "b", "a"], Some("a"), true),
            (&["a", "A"], Some("a"), true),
            (&["", ""], None, false),
        ];
        for (sent, expected, conflict) in table {
            let read = Head::read(sent.iter().map(|id| (SESSION_ID, *id)));
            let id = read.session_id.as_ref().map(SessionId::as_str);
            assert_eq!(
                (id, read.session_conflict),
                (expected, conflict),
                "{sent:?}"
            );
        }
    }

    #[test]
    fn a_header_that_is_there_twice_is_seen_to_be() {
        let params = [
            ("mcp-param-a", "1"),
            ("mcp-param-b", ""),
            ("mcp-param-a", "2"),
        ];
        let read = Head::read(params.into_iter().chain([("accept", "x")]));
        assert_eq!(read.params, params.map(|(n, v)| (n.into(), v.into())));
        let table = [
            (&[(METHOD, "ping"), (NAME, "x")][..], false),
            (&[(METHOD, "ping"), (METHOD, "ping")], true),
            (&[(METHOD, ""), (METHOD, "ping")], true),
            (&[(NAME, ""), (NAME, "x")], true),
        ];
        for (sent, repeated) in table {
            let read = Head::read(sent.iter().copied());
            assert_eq!(read.repeated, repeated, "{sent:?}");
        }
    }
}
