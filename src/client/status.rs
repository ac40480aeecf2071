//! How the servers of a hub are doing.

use std::sync::Arc;

use crate::error::Error;

/// What a hub knows of one of its servers. See [`servers`](crate::AgentHubClient::servers).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerStatus {
    /// The name given to it.
    pub name: Arc<str>,
    /// Where it is, or was expected: never holds credentials.
    pub target: Arc<str>,
    /// Whether it can be used.
    pub state: ServerState,
    /// What went wrong last: why it could not be connected, replaced or listed. None once that
    /// succeeded.
    pub last_error: Option<Error>,
    /// How many tools it offers, as last listed.
    pub tools: usize,
    /// The revision of the protocol that is spoken with it; none while there is no open session.
    pub protocol_version: Option<&'static str>,
}

/// Whether a server can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerState {
    /// It is being connected, for the first time or again.
    Connecting,
    /// Its tools can be called. Also while another connection is made to replace this one.
    Connected,
    /// It could not be connected, and [`OnError`](crate::OnError) said to go on. It keeps its place
    /// in the order until it is connected or disconnected.
    Failed,
}
