//! Agents call each other over MCP and see each other's tokens as they come: a client that bundles
//! many servers, and a server whose tools stream typed events while they run.
//!
//! ```
//! use agent_hub_kit::{AgentHubClient, McpServer, RawArgs, Tool, ToolContext, testing};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> agent_hub_kit::Result<()> {
//! let server = McpServer::builder("greeter", "0.1.0")
//!     .tool(Tool::new("greet"), async |_: RawArgs, ctx: ToolContext| {
//!         ctx.streamer("greeter").text("hel").await?;
//!         ctx.streamer("greeter").text("lo").await?;
//!         Ok("hello")
//!     })
//!     .build();
//! let hub = AgentHubClient::builder().build();
//! // Over a socket: server.serve_http("127.0.0.1:8001"), and hub.connect_http("greeter", url).
//! testing::connect_memory(&hub, "greeter", &server).await?;
//! let mut events = hub.call_tool_stream("greet", ());
//! while let Some(event) = events.next().await {
//!     println!("{}: {}", event.kind, event.content.value());
//! #   assert!("hello".contains(event.text().unwrap_or("no text")));
//! }
//! hub.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Begin with [`AgentHubClient`] to call tools, with [`McpServer`] and [`EventStreamer`] to offer
//! them, and with [`StreamEvent`] for what passes between the two.
//!
//! # The code
//!
//! Built in floors; a module names only lower ones, which a test holds. From the ground:
//!
//! 0. `error`, `limits`: what can go wrong, and every bound.
//! 1. `event`, `wire`: our events and their envelope; bytes and JSON-RPC, without a word of MCP. And
//!    `graph`, which emits such events, and `image`, which makes data URIs: they know nothing else.
//! 2. `mcp`: the words of MCP as pure functions, and what differs between its revisions.
//! 3. `session`: the protocol as machines without I/O, clock or task.
//! 4. `transport`: moves frames over sockets, child processes and memory; decides nothing.
//! 5. `client`, `server`, `llm`: what users call. On top stand `specialists`, `testing` and the command.
//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `client` | [`AgentHubClient`] and what it gives | yes |
//! | `server` | [`McpServer`], [`EventStreamer`] and their kin | yes |
//! | `http` | Streamable HTTP: `connect_http`, `bind`, `serve_http`, `into_service` | yes |
//! | `stdio` | servers as child processes: `connect_stdio`, `serve_stdio` | yes |
//! | `schemars` | `Tool::typed`: schemas from Rust types | yes |
//! | `image` | [`ImageInput`] from `image::DynamicImage` | |
//! | `tls` | `https://` on rustls, for clients ([`RootCertificates`]) and servers ([`ServerTls`]) | |
//! | `llm` | [`Llm`]: language models, [`OpenAiLlm`] among them | |
//! | `graph` | [`LlmGraph`]: agents as graphs of steps | |
//! | `specialists` | ready servers: echo and LLM | |
//! | `testing` | fixtures for tests of agents ([`testing`]); with `specialists` and `stdio` | |
//! | `cli` | the `agent-hub` command | |
//!
//! They only add. Needs a tokio runtime of either flavour with time and I/O enabled.
//!
//! # Cancel safety
//!
//! Dropping a call, or its stream before its end, cancels it on the server and waits for nothing.
//! [`CallStream::next`] loses no event when its future is dropped, and a handler's future is dropped
//! when its call is cancelled. Every async function says what dropping its future does.
//!
//! # Limits
//!
//! Every buffer, queue and wait has a bound, nearly all of them a field of [`Limits`]. Hitting one
//! ends what hit it with [`Error::Limit`] or [`Error::Timeout`], and nothing else. How long a call
//! takes is not bounded unless the caller does.
//!
//! # Stability
//!
//! Before 1.0 a minor release may change the API. The oldest Rust is 1.88, raised only in a minor
//! release. Enums and structs that may grow are `#[non_exhaustive]`. The text of an error is for
//! people and may change; its variant is not.
//!
//! # Out of scope
//!
//! Of MCP only tools: no resources, prompts, sampling or elicitation. No HTTP/2, no WebSocket.

// The lower floors serve both roles and every link. A build with fewer of them leaves parts unused,
// which the build with all of them would tell.
#![cfg_attr(
    not(all(
        feature = "client",
        feature = "server",
        feature = "http",
        feature = "stdio",
        feature = "graph",
        feature = "image",
        feature = "llm",
        feature = "testing"
    )),
    allow(dead_code, unreachable_pub, unused_imports)
)]

#[cfg(feature = "client")]
mod client;
mod error;
mod event;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "graph")]
mod graph;
mod image;
mod limits;
#[cfg(feature = "llm")]
mod llm;
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

pub use crate::image::{ImageInput, as_image_uris, encode_image_to_data_uri};
#[cfg(all(feature = "client", feature = "stdio"))]
pub use client::ConnectStdio;
#[cfg(feature = "client")]
pub use client::{
    AgentHubClient, AgentHubClientBuilder, CallStream, CallTool, CallTyped, HubEvent, OnError,
    ServerChange, ServerState, ServerStatus, ToolRef,
};
#[cfg(all(feature = "client", feature = "http"))]
pub use client::{ConnectAllHttp, ConnectHttp, HeaderRequest};
pub use error::{Error, Place, Result, Source};
pub use event::{
    Content, ContentRef, DataUri, ENVELOPE_VERSION, EnvelopeRef, EventKind, IntoNode, Node,
    OtherKind, Progress, StreamEvent, TERMINAL_EVENT_TYPES, TextChunk, decode_envelope,
    encode_envelope,
};
#[cfg(feature = "graph")]
pub use graph::{
    END, GraphRun, GraphState, LlmGraph, LlmGraphBuilder, NodeContext, NodeError, NodeFailure,
    NodeOutput, START,
};
pub use limits::Limits;
#[cfg(feature = "llm")]
pub use llm::{
    ChatChunk, ChatMessage, ChatRequest, ChatSink, ChatStream, DummyLlm, FinishReason, Llm,
    OpenAiLlm, OpenAiLlmBuilder, Role, Usage,
};
#[cfg(all(feature = "server", feature = "http"))]
pub use mcp::frame::Principal;
pub use mcp::tool::Tool;
pub use mcp::types::{CacheScope, ContentBlock, ToolOutput};
pub use mcp::version::Era;
#[cfg(all(feature = "server", feature = "http"))]
pub use server::{Bound, McpBody, McpService, ServerHandle};
#[cfg(feature = "server")]
pub use server::{
    EventStreamer, IntoToolOutput, Json, McpServer, McpServerBuilder, RawArgs, ToolContext,
    ToolError, stream_text_iter, stream_text_stream, try_stream_text_iter, try_stream_text_stream,
};
#[cfg(all(feature = "server", feature = "http"))]
pub use transport::http::authorize::{Denied, RequestHead};
#[cfg(all(feature = "client", feature = "stdio"))]
pub use transport::stdio::StdioCommand;
#[cfg(feature = "tls")]
pub use transport::tls::{RootCertificates, ServerTls};

#[cfg(all(
    doctest,
    feature = "client",
    feature = "server",
    feature = "http",
    feature = "schemars",
    feature = "llm"
))]
#[doc = include_str!("../README.md")]
mod readme {}
