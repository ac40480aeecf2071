//! Agents call each other over MCP with token-level streaming.

// Each floor is laid before what stands on it.
#![allow(dead_code, unused_imports)]

#[cfg(feature = "client")]
mod client;
mod error;
mod event;
mod limits;
mod mcp;
#[cfg(feature = "server")]
mod server;
mod session;
#[cfg(feature = "specialists")]
pub mod specialists;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod wire;
#[cfg(all(feature = "client", feature = "stdio"))]
pub use client::ConnectStdio;
#[cfg(feature = "client")]
pub use client::{
    AgentHubClient, AgentHubClientBuilder, CallStream, CallTool, CallTyped, HubEvent, OnError,
    ServerChange, ServerState, ServerStatus, ToolRef,
};
#[cfg(all(feature = "client", feature = "http"))]
pub use client::{ConnectAllHttp, ConnectHttp};
pub use error::{Error, Place, Result, Source};
pub use event::{
    Content, ContentRef, ENVELOPE_VERSION, EnvelopeRef, EventKind, IntoNode, Node, OtherKind,
    Progress, StreamEvent, TERMINAL_EVENT_TYPES, decode_envelope, encode_envelope,
};
pub use limits::Limits;
pub use mcp::tool::Tool;
pub use mcp::types::{ContentBlock, ToolOutput};
#[cfg(all(feature = "server", feature = "http"))]
pub use server::{Bound, McpBody, McpService, ServerHandle};
#[cfg(feature = "server")]
pub use server::{
    EventStreamer, IntoToolOutput, Json, McpServer, McpServerBuilder, RawArgs, TextChunk,
    ToolContext, ToolError, stream_text_iter, stream_text_stream, try_stream_text_iter,
    try_stream_text_stream,
};
#[cfg(all(feature = "client", feature = "stdio"))]
pub use transport::stdio::StdioCommand;
