//! The seam between the eras of the protocol.
//!
//! What differs between the handshake revisions and the stateless ones is a method of [`Dialect`];
//! what does not differ is never asked here. A dialect is picked once, for a connection by the
//! client and for a request by the server, and then carried.

mod legacy;

use std::fmt;

use bytes::Bytes;

use super::frame::{Head, SessionId};
use super::tool::Tool;
use super::types::{Implementation, ToolOutput};
use super::version::ProtocolVersion;
use crate::wire::jsonrpc::{Code, ErrorObject, RawJson, RequestId};

/// The rules of one era.
pub(crate) trait Dialect: fmt::Debug + Send + Sync {
    // The client's questions.

    /// The request that opens a connection.
    fn opening(&self, id: &RequestId, client: &Implementation) -> Bytes;

    /// Reads the answer to it; the error says why the connection cannot go on.
    fn opened(&self, result: &RawJson) -> Result<Opened, String>;

    /// The notification that completes the opening.
    fn confirmation(&self) -> Bytes;

    /// What stands beside a message once the connection is open.
    fn head(&self, version: ProtocolVersion, session: Option<&SessionId>) -> Head;

    /// Whether the era has sessions over HTTP: with an end, a stream of their own, and replies
    /// that can be taken up again.
    fn has_sessions(&self) -> bool;

    /// How a call over HTTP is cancelled.
    fn http_cancel(&self) -> HttpCancel;

    // The server's questions.

    /// The method of that name; one that the era lacks is absent.
    fn method(&self, name: &str) -> Option<Method>;

    /// Reads the opening request and answers with the revision to be spoken and the result.
    fn open(
        &self,
        params: Option<&RawJson>,
        server: &ServerWords,
    ) -> Result<(ProtocolVersion, String), ErrorObject>;

    /// Whether a client of this revision may send several messages as one array.
    fn takes_batches(&self, version: ProtocolVersion) -> bool;

    /// Appends a tool as this revision may describe it.
    fn write_tool(&self, version: ProtocolVersion, tool: &Tool, out: &mut String);

    /// The result of `tools/list` around tools that are written already, and the cursor of the
    /// page that follows.
    fn list_result(&self, tools: &str, next: Option<&str>) -> String;

    /// A tool's result as this revision can carry it.
    fn call_result(&self, version: ProtocolVersion, output: &ToolOutput) -> String;

    /// The HTTP status of an answer that is an error.
    fn http_status(&self, code: Code) -> u16;
}

/// What a server says of itself when a connection opens.
#[derive(Debug, Clone)]
pub(crate) struct ServerWords {
    pub(crate) info: Implementation,
    pub(crate) instructions: Option<String>,
    /// The tools may change, and clients are told.
    pub(crate) list_changed: bool,
}

/// What a client learned when a connection opened.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) version: ProtocolVersion,
    /// The server says when its tools change.
    pub(crate) list_changed: bool,
}

/// The methods that a server of this crate has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    CallTool,
    Initialize,
    ListTools,
    Ping,
}

/// How a call over HTTP is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpCancel {
    /// By a notification; hanging up says nothing.
    Notification,
}

/// The rules by which a client opens a connection, before it knows what the peer speaks.
pub(crate) fn opening_dialect() -> &'static dyn Dialect {
    &legacy::Legacy
}

/// The rules of the era that a revision belongs to.
pub(crate) fn dialect(version: ProtocolVersion) -> &'static dyn Dialect {
    match version {
        ProtocolVersion::V2024_11_05
        | ProtocolVersion::V2025_03_26
        | ProtocolVersion::V2025_06_18
        | ProtocolVersion::V2025_11_25 => &legacy::Legacy,
    }
}
