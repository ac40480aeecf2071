//! The hub: many servers, one registry of tools, one stream of events a call.
//!
//! Owns connections, names and calls; must not know sockets or the server half of the crate.

mod call;
mod call_tool;
mod channel;
mod config;
mod connect;
mod connection;
mod driver;
mod event_queue;
mod events;
mod follow;
#[cfg(feature = "http")]
mod header_provider;
#[cfg(feature = "http")]
mod http;
mod hub;
mod inbox;
mod join;
mod known;
mod outgoing;
mod refresh;
mod registry;
mod resume;
mod secrets;
mod status;
#[cfg(feature = "stdio")]
mod stdio;
mod suggest;
#[cfg(feature = "tls")]
mod tls;

pub use call::CallStream;
pub use call_tool::{CallTool, CallTyped};
pub use config::AgentHubClientBuilder;
pub use connect::OnError;
#[cfg(feature = "testing")]
pub(crate) use connect::{Candidate, Policy};
pub use events::{HubEvent, ServerChange};
#[cfg(feature = "http")]
pub use header_provider::HeaderRequest;
#[cfg(feature = "http")]
pub use http::{ConnectAllHttp, ConnectHttp};
pub use hub::AgentHubClient;
pub use registry::ToolRef;
pub use status::{ServerState, ServerStatus};
#[cfg(feature = "stdio")]
pub use stdio::ConnectStdio;
