//! The seam between the eras of the protocol.
//!
//! What differs between the handshake revisions and the stateless ones is a method of [`Dialect`];
//! what does not differ is never asked here. A dialect is picked once, for a connection by the
//! client and for a request by the server, and then carried.

mod legacy;
mod modern;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::frame::{Head, SessionId};
use super::tool::Tool;
use super::types::{CacheScope, Implementation, ToolOutput};
use super::version::ProtocolVersion;
use crate::wire::jsonrpc::{Code, ErrorObject, RawJson, RequestId};

/// The rules of one era.
pub(crate) trait Dialect: fmt::Debug + Send + Sync {
    // The client's questions.

    /// The request that opens a connection, and what stands beside it.
    fn opening(&self, id: &RequestId, client: &Implementation) -> (Head, Bytes);

    /// Reads the answer to it.
    fn opened(&self, result: &RawJson) -> Result<Opened, Unopened>;

    /// The notification that completes the opening, if it takes one.
    fn confirmation(&self) -> Option<Bytes>;

    /// What stands beside a message once the connection is open.
    fn head(&self, version: ProtocolVersion, session: Option<&SessionId>) -> Head;

    /// Adds what a request says of itself there: its method, and what that is about.
    fn address(&self, head: &mut Head, method: &'static str, name: Option<&str>);

    /// The members of every request's `_meta`, as JSON without braces; empty if there are none.
    fn request_meta(&self, version: ProtocolVersion, client: &Implementation) -> String;

    /// Whether the era has sessions over HTTP: with an end, a stream of their own, and replies
    /// that can be taken up again.
    fn has_sessions(&self) -> bool;

    /// How a call over HTTP is cancelled.
    fn http_cancel(&self) -> HttpCancel;

    /// Whether a refusal says that the peer knows nothing of the connection any more: opening it
    /// anew and repeating the request once may help. `None` if it does not.
    fn loss(&self, denial: &Denial<'_>) -> Option<Loss>;

    /// Whether a call over HTTP repeats, in headers, the arguments that its tool's schema names. A
    /// peer that finds them to differ runs nothing and says [`Code::HEADER_MISMATCH`].
    fn mirrors_arguments(&self) -> bool;

    /// Whether the peer may ask something of this side, which then answers.
    fn answers_requests(&self) -> bool;

    /// The request, with its parameters, that has the peer tell of changed tools until it is
    /// cancelled; `None` if the peer tells without being asked.
    fn listen(&self) -> Option<(&'static str, &'static str)>;

    /// For how long a page of the tool list is good, in the server's words.
    fn freshness(&self, page: &RawJson) -> Duration;

    /// Whether a call's result is its end.
    fn completion(&self, result: &RawJson) -> Completion;

    // The server's questions.

    /// The method of that name; one that the era lacks is absent.
    fn method(&self, name: &str) -> Option<Method>;

    /// Answers the opening request: with the revision that is spoken from now on, if the client is
    /// to be remembered, and the result.
    fn open(
        &self,
        params: Option<&RawJson>,
        server: &ServerWords,
    ) -> Result<(Option<ProtocolVersion>, String), ErrorObject>;

    /// Whether a client of this revision may send several messages as one array.
    fn takes_batches(&self, version: ProtocolVersion) -> bool;

    /// Whether a stream that can be gone on with begins with an event that only says so, and may
    /// then end before its answer, so that the client comes back for the rest.
    fn primes_streams(&self, version: ProtocolVersion) -> bool;

    /// Appends a tool as this revision may describe it.
    fn write_tool(&self, version: ProtocolVersion, tool: &Tool, out: &mut String);

    /// The result of `tools/list` around tools that are written already, and the cursor of the
    /// page that follows.
    fn list_result(&self, tools: &str, next: Option<&str>, server: &ServerWords) -> String;

    /// A tool's result as this revision can carry it.
    fn call_result(
        &self,
        version: ProtocolVersion,
        output: ToolOutput,
        server: &ServerWords,
    ) -> String;

    /// What a subscription to changes says; `None` if there is none to be had.
    fn subscription(
        &self,
        id: &RequestId,
        params: Option<&RawJson>,
        server: &ServerWords,
    ) -> Result<Option<SubscriptionWords>, ErrorObject>;

    /// The HTTP status of an answer that is an error.
    fn http_status(&self, code: Code, stage: Stage) -> u16;
}

/// What a server says of itself.
#[derive(Debug, Clone)]
pub(crate) struct ServerWords {
    pub(crate) info: Implementation,
    pub(crate) instructions: Option<String>,
    /// The tools may change, and clients are told.
    pub(crate) list_changed: bool,
    /// For how many milliseconds a client may keep the list of tools without asking again.
    pub(crate) tools_ttl_ms: u64,
    /// Who may share what is kept.
    pub(crate) cache_scope: CacheScope,
}

/// The messages of one subscription.
#[derive(Debug, Clone)]
pub(crate) struct SubscriptionWords {
    /// Comes first: what of it is granted.
    pub(crate) acknowledged: Bytes,
    /// Says that the tools have changed; `None` if that is not granted, and so nothing is.
    pub(crate) changed: Option<Bytes>,
    /// Comes last, if the server ends it.
    pub(crate) ended: Vec<u8>,
}

/// What a client learned when a connection opened.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) version: ProtocolVersion,
    /// The server says that it has tools, if only none at the moment.
    pub(crate) has_tools: bool,
    /// The server says when its tools change.
    pub(crate) list_changed: bool,
}

/// Why an answer to the opening opens nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// It is no such answer; what is wrong.
    Odd(String),
    /// The versions that the server speaks, none of them of this era.
    Versions(Vec<String>),
}

/// A request that was not taken, with a status that is no success.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Denial<'a> {
    pub(crate) status: u16,
    /// Of the JSON-RPC error in the body, if there is one.
    pub(crate) code: Option<Code>,
    pub(crate) body: &'a str,
    /// The request carried the id of a session.
    pub(crate) has_session: bool,
}

/// How sure it is that a peer knows nothing of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Nothing that was asked for was run.
    Sure,
    /// The words are a stranger's, but a tool may have chosen them too. Nothing was run if the peer
    /// turns out to speak another revision by now.
    Likely,
}

/// The methods that a server of this crate has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    CallTool,
    Discover,
    Initialize,
    ListTools,
    /// Opens a stream of changes.
    Listen,
    Ping,
}

/// How a call over HTTP is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpCancel {
    /// By hanging up; nothing is sent.
    HangUp,
    /// By a notification; hanging up says nothing.
    Notification,
}

/// What a result says of the call that it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Completion {
    /// The call is over.
    Complete,
    /// The server wants something first.
    InputRequired {
        /// The methods of the requests that it wants answered.
        methods: Vec<String>,
        /// What it wants to be given back, a string as it stands in JSON.
        state: Option<Box<str>>,
    },
    /// Neither; what is wrong.
    Odd(String),
}

/// When an error arose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// While the request was judged.
    Check,
    /// In what it asked for.
    Work,
}

/// The rules by which a server takes a message that does not say which ones it follows.
pub(crate) fn opening_dialect() -> &'static dyn Dialect {
    &legacy::Legacy
}

/// The rules of the era that a revision belongs to.
pub(crate) fn dialect(version: ProtocolVersion) -> &'static dyn Dialect {
    if version.is_legacy() {
        &legacy::Legacy
    } else {
        &modern::Modern
    }
}

impl ServerWords {
    /// What it declares when a connection opens.
    fn capabilities(&self) -> Value {
        match self.list_changed {
            true => json!({ "tools": { "listChanged": true } }),
            false => json!({ "tools": {} }),
        }
    }
}

impl Opened {
    /// `capabilities` are what the server declares, whatever stands there.
    fn new(version: ProtocolVersion, capabilities: Option<&RawValue>) -> Self {
        let declared = capabilities.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        let tools = declared.as_ref().and_then(|declared| declared.get("tools"));
        let list_changed = tools.and_then(|tools| tools.get("listChanged"));
        Self {
            version,
            has_tools: tools.is_some_and(Value::is_object),
            list_changed: list_changed == Some(&Value::Bool(true)),
        }
    }
}

/// Revisions as a text for people.
pub(crate) fn spelled(versions: impl Iterator<Item = ProtocolVersion>) -> String {
    let versions: Vec<&str> = versions.map(ProtocolVersion::as_str).collect();
    versions.join(", ")
}

/// At most 100 characters of a peer's text.
pub(crate) fn clipped(text: &str) -> String {
    text.chars().take(100).collect()
}
