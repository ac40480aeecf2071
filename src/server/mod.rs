//! Tools that stream while they run.
//!
//! Owns tools, handlers and streamers; must not know sockets or the client half of the crate.

mod arguments;
mod batch;
mod builder;
mod calls;
mod context;
mod driver;
mod exchange;
#[cfg(feature = "http")]
mod guard;
#[cfg(not(feature = "http"))]
#[path = "no_guard.rs"]
mod guard;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "stdio")]
mod lines;
#[cfg(feature = "http")]
mod mount;
mod notice;
mod offer;
mod output;
mod promised;
mod replay;
mod roster;
#[cfg(feature = "schemars")]
mod schema;
#[cfg(feature = "stdio")]
mod stdio;
mod streamer;
mod subscription;
#[cfg(feature = "tls")]
mod tls;
mod work;

pub use builder::{McpServer, McpServerBuilder, RawArgs};
pub use context::ToolContext;
#[cfg(feature = "http")]
pub use http::{Bound, ServerHandle};
#[cfg(feature = "http")]
pub use mount::{McpBody, McpService};
pub use output::{IntoToolOutput, Json, ToolError};
pub use streamer::{
    EventStreamer, stream_text_iter, stream_text_stream, try_stream_text_iter,
    try_stream_text_stream,
};
