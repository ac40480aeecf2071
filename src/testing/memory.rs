//! A hub and a server joined in memory.
//!
//! Owns the pipes between them; everything above and below is what runs over a socket.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tokio::io::duplex;
use tokio::task::JoinSet;

use crate::client::{AgentHubClient, Candidate, Policy, ToolRef};
use crate::error::Result;
use crate::mcp::version::Era;
use crate::server::McpServer;
use crate::transport::BoxFuture;
use crate::transport::http::client::HttpLink;
use crate::transport::http::connection::serve_io;
use crate::transport::http::server::Shutdown;

/// What a pipe holds in each direction, about what a socket holds.
const PIPE_BYTES: usize = 64 * 1024;

/// Connects `server` to `hub` under `name`, in memory, and gives its tools.
///
/// The same bytes pass as over a socket, so that a test sees what a user sees, also with tokio's
/// clock paused. The server's side ends with the connection.
///
/// ```
/// use agent_hub_kit::{AgentHubClient, McpServer, RawArgs, Tool, ToolContext, testing};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let server = McpServer::builder("greeter", "0.1.0")
///     .tool(Tool::new("greet"), async |_: RawArgs, _: ToolContext| Ok("hello"))
///     .build();
/// let hub = AgentHubClient::builder().build();
/// testing::connect_memory(&hub, "greeter", &server).await?;
/// assert_eq!(hub.call_tool("greet", ()).await?, "hello");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`connect_http`](AgentHubClient::connect_http), and
/// [`Error::Config`](crate::Error::Config) for what is wrong with the server.
///
/// # Cancel safety
/// Dropping the future gives the connection up.
pub fn connect_memory(
    hub: &AgentHubClient,
    name: impl Into<String>,
    server: &McpServer,
) -> ConnectMemory {
    ConnectMemory {
        hub: hub.clone(),
        name: name.into(),
        server: server.clone(),
        era: Era::default(),
    }
}

/// A connection that is made when it is awaited. See [`connect_memory`].
#[must_use = "a server is connected when this is awaited"]
pub struct ConnectMemory {
    hub: AgentHubClient,
    name: String,
    server: McpServer,
    era: Era,
}

impl ConnectMemory {
    /// Which era of the protocol to speak; a server speaks both. Default [`Era::Auto`].
    pub fn era(mut self, era: Era) -> Self {
        self.era = era;
        self
    }
}

impl IntoFuture for ConnectMemory {
    type Output = Result<Vec<ToolRef>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(connect(self))
    }
}

impl fmt::Debug for ConnectMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectMemory")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

async fn connect(connect: ConnectMemory) -> Result<Vec<ToolRef>> {
    let ConnectMemory {
        hub,
        name,
        server,
        era,
    } = connect;
    let service = server.memory_service()?;
    let (shutdown, connections) = (Shutdown::new(), Mutex::new(JoinSet::new()));
    let connect = move || {
        let (near, far) = duplex(PIPE_BYTES);
        let (service, shutdown) = (service.clone(), shutdown.clone());
        let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
        while connections.try_join_next().is_some() {}
        connections.spawn(async move { serve_io(far, service, &shutdown).await });
        Ok(near)
    };
    let limits = hub.shared().limits().clone();
    let link = HttpLink::in_memory(connect, &limits)?;
    let candidate = Candidate::over(name.into(), Box::new(link), limits, era);
    hub.shared().connect(candidate, Policy::default()).await
}
