//! The one error type of the crate.
//!
//! Knows nothing of the other modules: the lower floors build an [`Error`] with an empty
//! [`Place`], and whoever knows the server and the tool fills it in on the way up.

use std::error::Error as StdError;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong, on either side of the wire.
///
/// `Display` gives one clause about this level; the cause is in
/// [`source`](StdError::source). Clones share their source, since one dead connection fails many
/// calls.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// Several servers offer this tool and none was named. Pick one of `candidates`
    /// (`server/tool`), or name the server.
    #[non_exhaustive]
    AmbiguousTool {
        /// The name that was asked for.
        tool: Box<str>,
        /// Qualified names that would have worked, in connection order.
        candidates: Arc<[String]>,
    },
    /// This side cancelled the call, or the peer said that it was cancelled.
    #[non_exhaustive]
    Cancelled {
        /// Whose call it was.
        place: Place,
    },
    /// The hub, the server, the connection or the event stream named by `what` is closed.
    #[non_exhaustive]
    Closed {
        /// Where.
        place: Place,
        /// What was closed: `"hub"`, `"connection"`, `"stream"`.
        what: &'static str,
    },
    /// The caller's own input cannot work: a bad URL, a name in use, arguments that are no object.
    #[non_exhaustive]
    Config {
        /// What is wrong and what to do about it.
        detail: Box<str>,
    },
    /// A server could not be connected. The cause is in `source`.
    #[non_exhaustive]
    Connect {
        /// The name given to the server.
        server: Arc<str>,
        /// Where it was expected: a URL or a command.
        target: Arc<str>,
        /// Why it failed.
        source: Arc<Self>,
    },
    /// Several connections were asked for together and some failed; those that had opened were
    /// closed again.
    #[non_exhaustive]
    ConnectMany {
        /// Every server that failed, by name.
        failures: Arc<[(String, Self)]>,
    },
    /// The [header provider](crate::ConnectHttp::header_provider) of a server failed, took too long,
    /// or gave what cannot be sent. Whether it may succeed later is not known.
    #[non_exhaustive]
    HeaderProvider {
        /// For which server.
        place: Place,
        /// What it said.
        source: Source,
    },
    /// The server answered with an HTTP status that carries no JSON-RPC answer.
    #[non_exhaustive]
    Http {
        /// Where.
        place: Place,
        /// The HTTP status code.
        status: u16,
        /// A short excerpt of the body, or of the header that explains the status.
        detail: Box<str>,
        /// How long the server asks to wait before the next try, if it was looked for and said.
        retry_after: Option<Duration>,
    },
    /// A bound was hit.
    #[non_exhaustive]
    Limit {
        /// Where.
        place: Place,
        /// The field of [`Limits`](crate::Limits), or the option, that sets the bound.
        what: &'static str,
        /// Its value: bytes, items or milliseconds, as the field says.
        max: u64,
    },
    /// A language model failed that is not of this crate. Whether it may succeed later is not known.
    #[non_exhaustive]
    Model {
        /// What it said.
        source: Source,
    },
    /// The peer broke the protocol.
    #[non_exhaustive]
    Protocol {
        /// Where.
        place: Place,
        /// What was wrong with its bytes.
        detail: Box<str>,
    },
    /// The peer answered with a JSON-RPC error.
    #[non_exhaustive]
    Rpc {
        /// Where.
        place: Place,
        /// The JSON-RPC error code.
        code: i64,
        /// The peer's text, cut to a bound.
        message: Box<str>,
        /// The peer's `data` member, as it was sent.
        data: Option<Box<serde_json::Value>>,
    },
    /// Time ran out.
    #[non_exhaustive]
    Timeout {
        /// Where.
        place: Place,
        /// Which limit: `"connect_timeout"`, `"probe_timeout"`, `"list_timeout"`, `"timeout"`,
        /// `"idle_timeout"`.
        what: &'static str,
        /// The limit itself.
        after: Duration,
    },
    /// The tool ran and failed (`isError`). Only [`call_tool`](crate::AgentHubClient::call_tool)
    /// returns this; a stream carries it as its terminal event.
    #[non_exhaustive]
    Tool {
        /// Which server and tool.
        place: Place,
        /// What the tool said of its failure.
        content: Box<serde_json::Value>,
    },
    /// The connection failed: refused, reset, cut before the answer.
    #[non_exhaustive]
    Transport {
        /// Where.
        place: Place,
        /// What was being done.
        detail: Box<str>,
        /// The cause, when there is one below this crate.
        source: Option<Source>,
    },
    /// No server of this name is connected.
    #[non_exhaustive]
    UnknownServer {
        /// The name that was asked for.
        server: Arc<str>,
    },
    /// No connected server offers this tool.
    #[non_exhaustive]
    UnknownTool {
        /// The name that was asked for.
        tool: Box<str>,
        /// What there is instead, in words.
        hint: Box<str>,
    },
}

/// The cause of an [`Error`], shared between its clones.
pub type Source = Arc<dyn StdError + Send + Sync>;

/// Which server, and which of its tools, an [`Error`] speaks of; empty where nobody knows.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Place(Option<Arc<Names>>);

#[derive(PartialEq, Eq)]
struct Names {
    server: Arc<str>,
    tool: Option<Arc<str>>,
}

impl Place {
    pub(crate) fn new(server: &Arc<str>, tool: Option<&Arc<str>>) -> Self {
        Self(Some(Arc::new(Names {
            server: server.clone(),
            tool: tool.cloned(),
        })))
    }

    /// The name given to the server.
    pub fn server(&self) -> Option<&str> {
        self.0.as_deref().map(|names| &*names.server)
    }

    /// The name of the tool.
    pub fn tool(&self) -> Option<&str> {
        self.0.as_deref().and_then(|names| names.tool.as_deref())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.server(), self.tool()) {
            (Some(server), Some(tool)) => write!(f, "{server}/{tool}"),
            (Some(server), None) => f.write_str(server),
            _ => f.write_str("-"),
        }
    }
}

/// As a prefix: `server/tool: `, or nothing.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(_) => write!(f, "{self:?}: "),
            None => Ok(()),
        }
    }
}

impl Error {
    /// True if a tool ran and said that it failed.
    pub fn is_tool(&self) -> bool {
        matches!(self, Self::Tool { .. })
    }

    /// True if the call was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }

    /// True if the same thing may succeed when it is tried again later: the network, a time limit
    /// or a busy server was in the way, not what was asked for.
    ///
    /// It does not say that nothing happened: a call whose connection broke may have run.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Transport { .. } => true,
            Self::ConnectMany { failures } => failures.iter().all(|(_, e)| e.is_retryable()),
            Self::Http { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }

    /// How long the server asks to wait before the next try, as far as it is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Http { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The server this error speaks of, if it is known.
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::Connect { server, .. } | Self::UnknownServer { server } => Some(server),
            _ => self.place().and_then(Place::server),
        }
    }

    /// The tool this error speaks of, if it is known.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::AmbiguousTool { tool, .. } | Self::UnknownTool { tool, .. } => Some(tool),
            _ => self.place().and_then(Place::tool),
        }
    }

    pub(crate) fn closed(what: &'static str) -> Self {
        Self::Closed {
            place: Place::default(),
            what,
        }
    }

    pub(crate) fn config(detail: impl Into<Box<str>>) -> Self {
        Self::Config {
            detail: detail.into(),
        }
    }

    pub(crate) fn header_provider(source: Source) -> Self {
        Self::HeaderProvider {
            place: Place::default(),
            source,
        }
    }

    pub(crate) fn limit(what: &'static str, max: usize) -> Self {
        Self::Limit {
            place: Place::default(),
            what,
            max: max as u64,
        }
    }

    /// What a model of somebody else's failed with; an error of ours stays what it is.
    pub(crate) fn model(cause: Box<dyn StdError + Send + Sync>) -> Self {
        match cause.downcast::<Self>() {
            Ok(ours) => *ours,
            Err(cause) => Self::Model {
                source: cause.into(),
            },
        }
    }

    pub(crate) fn protocol(detail: impl Into<Box<str>>) -> Self {
        Self::Protocol {
            place: Place::default(),
            detail: detail.into(),
        }
    }

    pub(crate) fn timeout(what: &'static str, after: Duration) -> Self {
        Self::Timeout {
            place: Place::default(),
            what,
            after,
        }
    }

    pub(crate) fn transport(detail: impl Into<Box<str>>) -> Self {
        Self::Transport {
            place: Place::default(),
            detail: detail.into(),
            source: None,
        }
    }

    pub(crate) fn transport_by(
        detail: impl Into<Box<str>>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        Self::Transport {
            place: Place::default(),
            detail: detail.into(),
            source: Some(Arc::new(source)),
        }
    }

    /// Says where this error happened, unless a lower level already did.
    pub(crate) fn at(mut self, at: &Place) -> Self {
        if let Some(place) = self.place_mut()
            && place.0.is_none()
        {
            *place = at.clone();
        }
        self
    }

    /// Without the place, for the cause of an error that names it.
    pub(crate) fn without_place(mut self) -> Self {
        if let Some(place) = self.place_mut() {
            *place = Place::default();
        }
        self
    }

    /// Says more about the same failure, where its kind has room for words.
    pub(crate) fn with_clause(mut self, clause: &str) -> Self {
        if let Self::Http { detail, .. }
        | Self::Protocol { detail, .. }
        | Self::Rpc {
            message: detail, ..
        }
        | Self::Transport { detail, .. } = &mut self
        {
            *detail = match (detail.is_empty(), detail.contains('\n')) {
                (true, _) => clause.into(),
                (false, false) => format!("{detail}; {clause}").into(),
                (false, true) => format!("{detail}\n{clause}").into(),
            };
        }
        self
    }

    /// Changes what is quoted of the peer.
    pub(crate) fn map_quoted(mut self, change: &dyn Fn(&str) -> String) -> Self {
        match &mut self {
            Self::Http { detail, .. }
            | Self::Protocol { detail, .. }
            | Self::Transport { detail, .. } => {
                *detail = change(detail).into();
            }
            Self::Rpc { message, data, .. } => {
                *message = change(message).into();
                if let Some(data) = data {
                    map_texts(data, change);
                }
            }
            _ => {}
        }
        self
    }

    fn place(&self) -> Option<&Place> {
        match self {
            Self::Cancelled { place }
            | Self::Closed { place, .. }
            | Self::HeaderProvider { place, .. }
            | Self::Http { place, .. }
            | Self::Limit { place, .. }
            | Self::Protocol { place, .. }
            | Self::Rpc { place, .. }
            | Self::Timeout { place, .. }
            | Self::Tool { place, .. }
            | Self::Transport { place, .. } => Some(place),
            _ => None,
        }
    }

    fn place_mut(&mut self) -> Option<&mut Place> {
        match self {
            Self::Cancelled { place }
            | Self::Closed { place, .. }
            | Self::HeaderProvider { place, .. }
            | Self::Http { place, .. }
            | Self::Limit { place, .. }
            | Self::Protocol { place, .. }
            | Self::Rpc { place, .. }
            | Self::Timeout { place, .. }
            | Self::Tool { place, .. }
            | Self::Transport { place, .. } => Some(place),
            _ => None,
        }
    }
}

fn map_texts(value: &mut serde_json::Value, change: &dyn Fn(&str) -> String) {
    match value {
        serde_json::Value::Array(items) => {
            for item in items {
                map_texts(item, change);
            }
        }
        serde_json::Value::Object(members) => {
            for (name, mut member) in std::mem::take(members) {
                map_texts(&mut member, change);
                members.insert(change(&name), member);
            }
        }
        serde_json::Value::String(text) => *text = change(text),
        _ => {}
    }
}

/// A text of the peer's as a part of one clause: on one line, and cut.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_CHARS: usize = 4_000;
        for c in self.0.chars().take(MAX_CHARS) {
            f.write_char(if c.is_control() { ' ' } else { c })?;
        }
        match self.0.chars().nth(MAX_CHARS) {
            Some(_) => f.write_str(".."),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AmbiguousTool { tool, candidates } => write!(
                f,
                "several servers offer the tool `{tool}`, name one of: {}",
                Quoted(&candidates.join(", "))
            ),
            Self::Cancelled { place } => write!(f, "{place}the call was cancelled"),
            Self::Closed { place, what } => write!(f, "{place}{what} closed"),
            Self::Config { detail } => f.write_str(detail),
            Self::Connect { server, target, .. } => {
                write!(f, "could not connect `{server}` at {target}")
            }
            Self::ConnectMany { failures } => {
                let names: Vec<&str> = failures.iter().map(|(name, _)| name.as_str()).collect();
                write!(
                    f,
                    "could not connect {} servers: {}",
                    names.len(),
                    names.join(", ")
                )
            }
            Self::HeaderProvider { place, .. } => write!(f, "{place}the header provider failed"),
            Self::Http {
                place,
                status,
                detail,
                ..
            } if detail.is_empty() => {
                write!(f, "{place}the server answered HTTP {status}")
            }
            Self::Http {
                place,
                status,
                detail,
                ..
            } => {
                let detail = Quoted(detail);
                write!(f, "{place}the server answered HTTP {status}: {detail}")
            }
            Self::Limit { place, what, max } => {
                write!(f, "{place}the limit `{what}` of {max} was hit")
            }
            Self::Model { .. } => f.write_str("the model failed"),
            Self::Protocol { place, detail } => {
                let detail = Quoted(detail);
                write!(f, "{place}the peer broke the protocol: {detail}")
            }
            Self::Rpc {
                place,
                code,
                message,
                ..
            } => {
                let message = Quoted(message);
                write!(f, "{place}the server answered error {code}: {message}")
            }
            Self::Timeout { place, what, after } => {
                write!(f, "{place}no end within the {what} of {after:?}")
            }
            Self::Tool { place, content } => match &**content {
                serde_json::Value::String(text) => {
                    write!(f, "{place}the tool failed: {}", Quoted(text))
                }
                other => {
                    write!(f, "{place}the tool failed: {}", Quoted(&other.to_string()))
                }
            },
            Self::Transport { place, detail, .. } => write!(f, "{place}{detail}"),
            Self::UnknownServer { server } => write!(f, "no server `{server}` is connected"),
            Self::UnknownTool { tool, hint } if hint.is_empty() => {
                write!(f, "no connected server offers the tool `{tool}`")
            }
            Self::UnknownTool { tool, hint } => {
                let hint = Quoted(hint);
                write!(f, "no connected server offers the tool `{tool}`; {hint}")
            }
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Connect { source, .. } => Some(&**source),
            Self::HeaderProvider { source, .. } | Self::Model { source } => Some(&**source),
            Self::Transport { source, .. } => source.as_deref().map(|s| s as _),
            Self::ConnectMany { failures } => failures.first().map(|(_, e)| e as _),
            _ => None,
        }
    }
}
