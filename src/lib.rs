//! Agents call each other over MCP with token-level streaming.

// Each floor is laid before what stands on it.
#![allow(dead_code, unused_imports)]

mod error;
mod event;
mod limits;
mod mcp;
mod session;
mod transport;
mod wire;
pub use error::{Error, Place, Result, Source};
pub use event::{
    Content, ContentRef, ENVELOPE_VERSION, EnvelopeRef, EventKind, IntoNode, Node, OtherKind,
    Progress, StreamEvent, TERMINAL_EVENT_TYPES, decode_envelope, encode_envelope,
};
pub use limits::Limits;
pub use mcp::tool::Tool;
pub use mcp::types::{ContentBlock, ToolOutput};
#[cfg(all(feature = "client", feature = "stdio"))]
pub use transport::stdio::StdioCommand;
