//! One message with what HTTP says about it in its headers, ready for any link.
//!
//! Knows that there are verbs and heads; must not know how a link writes them.

use bytes::Bytes;

/// What HTTP does with a frame; a stdio link ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Ends the session named in the head.
    Delete,
    /// Asks for a stream of messages: the session's own, or the rest of a reply.
    Get,
    /// A message of ours in the body.
    Post,
}

/// What stands in HTTP headers beside a message; values are as written, white space trimmed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// `MCP-Protocol-Version`.
    pub(crate) version: Option<String>,
    /// `Mcp-Method`: the method of the request in the body.
    pub(crate) method: Option<Box<str>>,
    /// `Mcp-Name`: what that method is about, such as the name of a tool.
    pub(crate) name: Option<Box<str>>,
    /// One of these two came more than once.
    pub(crate) repeated: bool,
    /// `Mcp-Param-*`: arguments of a tool, with the names of their headers. As they came, one that
    /// came twice included, or ready to be written.
    pub(crate) params: Vec<(Box<str>, Box<str>)>,
    /// `Mcp-Session-Id`: a secret, never shown.
    pub(crate) session_id: Option<SessionId>,
    /// It came with different values, of which `session_id` is one.
    pub(crate) session_conflict: bool,
    /// `Last-Event-ID`: what the rest of a broken reply follows.
    pub(crate) last_event_id: Option<Box<str>>,
}

/// A handshake-era HTTP session id. Whoever has it can act as the session's owner, so `Debug`
/// hides it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(std::sync::Arc<str>);

impl SessionId {
    /// Takes what a peer sent, if it is visible ASCII (0x21..=0x7E) of a sane length.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        const MAX_BYTES: usize = 1024;
        let visible = text.bytes().all(|b| (0x21..=0x7e).contains(&b));
        (visible && !text.is_empty() && text.len() <= MAX_BYTES).then(|| Self(text.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionId(..)")
    }
}

/// Who sent a request: the name that goes with a bearer token, or that
/// [`authorize`](crate::McpServerBuilder::authorize) gave. It is no secret.
///
/// ```
/// let alice = agent_hub_kit::Principal::new("alice");
/// assert_eq!(alice.as_str(), "alice");
/// assert_eq!(alice, "alice".into());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Principal(std::sync::Arc<str>);

impl Principal {
    /// A principal of that name. Two of the same name are the same.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self(name.as_ref().into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Principal {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Principal {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl std::fmt::Display for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Debug for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Principal").field(&self.0).finish()
    }
}

/// A message and its head on the way to the peer.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) verb: Verb,
    pub(crate) head: Head,
    /// One JSON-RPC message; empty for verbs without one.
    pub(crate) body: Bytes,
}
