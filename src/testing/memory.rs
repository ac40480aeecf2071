//! A hub and a peer joined in memory.
//!
//! Owns the pipes between them; everything above and below is what runs over a socket or over
//! standard streams.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{DuplexStream, duplex, split};
use tokio::task::JoinSet;

use super::fault::Faults;
use super::pipe::PipeLink;
use super::request::Framing;
use super::scripted::{ScriptedPeer, Shared};
use super::spoil::spoil;
use crate::client::{AgentHubClient, Candidate, Policy, ToolRef};
use crate::error::Result;
use crate::mcp::version::Era;
use crate::server::McpServer;
use crate::transport::http::client::HttpLink;
use crate::transport::http::connection::serve_io;
use crate::transport::http::server::Shutdown;
use crate::transport::{BoxFuture, Link};

/// What a pipe holds in each direction, about what a socket holds.
const PIPE_BYTES: usize = 64 * 1024;

/// Connects a server or a [`ScriptedPeer`] to `hub` under `name`, in memory, and gives its tools.
///
/// The same bytes pass as over a socket, so that a test sees what a user sees, also with tokio's
/// clock paused. The peer's side ends with the connection.
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
    peer: impl Into<MemoryPeer>,
) -> ConnectMemory {
    ConnectMemory {
        hub: hub.clone(),
        name: name.into(),
        peer: peer.into(),
        era: Era::default(),
        framing: Framing::Http,
        faults: None,
    }
}

/// What [`connect_memory`] joins to a hub: made of a `&McpServer` or a `&ScriptedPeer`.
///
/// ```
/// use agent_hub_kit::{McpServer, testing::MemoryPeer};
///
/// let server = McpServer::builder("greeter", "0.1.0").build();
/// let peer = MemoryPeer::from(&server);
/// ```
#[derive(Debug)]
pub struct MemoryPeer(Far);

enum Far {
    Scripted(Arc<Shared>),
    Server(McpServer),
}

impl From<&McpServer> for MemoryPeer {
    fn from(server: &McpServer) -> Self {
        Self(Far::Server(server.clone()))
    }
}

impl From<&ScriptedPeer> for MemoryPeer {
    fn from(peer: &ScriptedPeer) -> Self {
        Self(Far::Scripted(peer.shared.clone()))
    }
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scripted(_) => "a scripted peer",
            Self::Server(_) => "a server",
        })
    }
}

/// A connection that is made when it is awaited. See [`connect_memory`].
#[must_use = "a peer is connected when this is awaited"]
pub struct ConnectMemory {
    hub: AgentHubClient,
    name: String,
    peer: MemoryPeer,
    era: Era,
    framing: Framing,
    faults: Option<Faults>,
}

impl ConnectMemory {
    /// Which era of the protocol to speak; a server speaks both. Default [`Era::Auto`].
    pub fn era(mut self, era: Era) -> Self {
        self.era = era;
        self
    }

    /// Passes lines, as over the standard streams of a child process, instead of HTTP.
    ///
    /// ```
    /// # use agent_hub_kit::{AgentHubClient, specialists::build_echo_server, testing};
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> agent_hub_kit::Result<()> {
    /// let hub = AgentHubClient::builder().build();
    /// testing::connect_memory(&hub, "echo", &build_echo_server().build()).lines().await?;
    /// assert_eq!(hub.call_tool("echo", json!({"text": "hi"})).await?, "hi");
    /// # Ok(())
    /// # }
    /// ```
    pub fn lines(mut self) -> Self {
        self.framing = Framing::Lines;
        self
    }

    /// Puts a fault between the two, which may change while they talk.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use agent_hub_kit::testing::{Fault, Faults, connect_memory};
    /// # use agent_hub_kit::{AgentHubClient, Error, specialists::build_echo_server};
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> agent_hub_kit::Result<()> {
    /// # tokio::time::pause(); // as #[tokio::test(start_paused = true)]
    /// # let hub = AgentHubClient::builder().build();
    /// # let server = build_echo_server().build();
    /// let faults = Faults::none();
    /// connect_memory(&hub, "echo", &server).faults(&faults).await?;
    /// faults.set(Fault::Silence);
    /// let call = hub.call_tool("echo", json!({"text": "hi"}));
    /// let failed = call.timeout(Duration::from_secs(60)).await.unwrap_err();
    /// assert!(matches!(failed, Error::Timeout { .. }), "{failed:?}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn faults(mut self, faults: impl Into<Faults>) -> Self {
        self.faults = Some(faults.into());
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
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

async fn connect(connect: ConnectMemory) -> Result<Vec<ToolRef>> {
    let ConnectMemory {
        hub,
        name,
        peer,
        era,
        framing,
        faults,
    } = connect;
    let pipes = Pipes {
        serve: peer.serve(framing)?,
        framing,
        faults,
        tasks: Mutex::default(),
    };
    let limits = hub.shared().limits().clone();
    let link: Box<dyn Link> = match framing {
        Framing::Http => Box::new(HttpLink::in_memory(move || Ok(pipes.open()), &limits)?),
        Framing::Lines => Box::new(PipeLink::new(pipes, &limits)),
    };
    let candidate = Candidate::over(name.into(), link, limits, era);
    hub.shared().connect(candidate, Policy::default()).await
}

/// Serves the far end of a pipe until it is closed.
type Serve = Box<dyn Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync>;

impl MemoryPeer {
    fn serve(self, framing: Framing) -> Result<Serve> {
        Ok(match (self.0, framing) {
            (Far::Scripted(peer), _) => {
                Box::new(move |io| Box::pin(peer.clone().serve(io, framing)))
            }
            (Far::Server(server), Framing::Http) => {
                let (service, shutdown) = (server.memory_service()?, Shutdown::new());
                Box::new(move |io| {
                    let (service, shutdown) = (service.clone(), shutdown.clone());
                    Box::pin(async move { serve_io(io, service, &shutdown).await })
                })
            }
            (Far::Server(server), Framing::Lines) => {
                server.check()?;
                Box::new(move |io| {
                    let server = server.clone();
                    Box::pin(async move {
                        let (input, output) = split(io);
                        // A pipe of this process breaks only when the client is gone.
                        let _ = server.serve_lines(input, output).await;
                    })
                })
            }
        })
    }
}

/// Where connections to one peer come from. Owns the tasks of their far ends.
pub(super) struct Pipes {
    serve: Serve,
    framing: Framing,
    faults: Option<Faults>,
    tasks: Mutex<JoinSet<()>>,
}

impl Pipes {
    pub(super) fn open(&self) -> DuplexStream {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        let (near, far) = duplex(PIPE_BYTES);
        match &self.faults {
            None => tasks.spawn((self.serve)(far)),
            Some(faults) => {
                let (beyond, end) = duplex(PIPE_BYTES);
                tasks.spawn((self.serve)(end));
                tasks.spawn(spoil(far, beyond, self.framing, faults.clone()))
            }
        };
        near
    }
}
