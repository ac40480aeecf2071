//! A server of a test's own, on a port of this machine.
//!
//! Owns its life: when it stops nothing of it is left. Must not know what it serves.

use std::fmt;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::task::{AbortHandle, JoinHandle};

use crate::error::Result;
use crate::server::{Bound, McpServer, ServerHandle};
use crate::transport::BoxFuture;

/// A port that nobody listened on a moment ago.
///
/// Nothing keeps it: until the test listens on it, another program may take it, or this one by
/// asking for any port. Where there is a choice, listen on port 0 and ask which it became, as
/// [`TestServer`] does; this is for programs that have to be told a port.
///
/// ```
/// use agent_hub_kit::testing::free_port;
///
/// let address = format!("127.0.0.1:{}", free_port());
/// assert!(std::net::TcpListener::bind(address).is_ok());
/// ```
///
/// # Panics
/// If this machine has no port left.
#[expect(
    clippy::expect_used,
    reason = "a test can only end there, and says why"
)]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.expect("a free port of this machine").port()
}

/// A server that runs on a free port of this machine as long as this is there.
///
/// Dropped, it frees its port and ends its connections at once; [`shutdown`](Self::shutdown) lets
/// running calls end.
///
/// ```
/// use agent_hub_kit::testing::TestServer;
/// use agent_hub_kit::{AgentHubClient, McpServer, RawArgs, Tool, ToolContext};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let server = McpServer::builder("greeter", "0.1.0")
///     .tool(Tool::new("greet"), async |_: RawArgs, _: ToolContext| Ok("hello"))
///     .build();
/// let mut server = TestServer::spawn(server).await?;
/// let hub = AgentHubClient::builder().build();
/// hub.connect_http("greeter", server.url()).await?;
/// assert_eq!(hub.call_tool("greet", ()).await?, "hello");
///
/// server.stop();
/// assert!(hub.call_tool("greet", ()).await.unwrap_err().is_retryable());
/// server.restart().await?;
/// assert_eq!(hub.call_tool("greet", ()).await?, "hello");
///
/// hub.close().await;
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropped, it ends"]
pub struct TestServer {
    server: McpServer,
    local_addr: SocketAddr,
    url: String,
    running: Option<Running>,
}

impl TestServer {
    /// Starts a server.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for what is wrong with the server itself,
    /// [`Error::Transport`](crate::Error::Transport) if no port is free.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing runs if the future is dropped.
    pub async fn spawn(server: McpServer) -> Result<Self> {
        let bound = server.bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self {
            local_addr: bound.local_addr(),
            url: bound.url().to_owned(),
            running: Some(Running::new(bound)),
            server,
        })
    }

    /// The URL for clients. It stays the same after [`restart`](Self::restart).
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address with the port that was taken.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Ends the server at once, nearly as if its process had been killed: when this returns, new
    /// connections are refused. Those that were open break when the runtime next turns; one that was
    /// just being written to may still say that the server is shutting down.
    ///
    /// The port is free then, and another program may take it.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Ends the server at once, if it runs, and starts it on the same port. It knows nothing of its
    /// sessions then, as a new process.
    ///
    /// # Errors
    /// [`Error::Transport`](crate::Error::Transport) if another program has taken the port.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may be stopped.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop();
        let bound = self.server.bind(self.local_addr).await?;
        self.running = Some(Running::new(bound));
        Ok(())
    }

    /// Ends the server in order: nothing new is accepted, running calls may end for
    /// [`Limits::shutdown_timeout`](crate::Limits::shutdown_timeout) of the server, and the rest end
    /// with an error that says so.
    ///
    /// # Cancel safety
    /// Dropping the future ends the server at once.
    pub async fn shutdown(mut self) {
        if let Some(running) = &mut self.running {
            running.handle.shutdown();
            // It cannot fail: nobody else aborts it, and it does not panic.
            let _ = (&mut running.task).await;
        }
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer")
            .field("url", &self.url)
            .field("is_running", &self.running.is_some())
            .finish_non_exhaustive()
    }
}

/// A server that runs. Its future is shared with its task, so that it can be dropped, and its port be
/// free, without waiting for the runtime.
struct Running {
    serving: Arc<Mutex<Option<BoxFuture<'static, Result<()>>>>>,
    handle: ServerHandle,
    task: JoinHandle<()>,
}

impl Running {
    fn new(bound: Bound) -> Self {
        let handle = bound.handle();
        let future: BoxFuture<'static, _> = Box::pin(bound.serve());
        let serving = Arc::new(Mutex::new(Some(future)));
        let shared = serving.clone();
        let task = tokio::spawn(poll_fn(move |cx| poll(&shared, cx)));
        Self {
            serving,
            handle,
            task,
        }
    }
}

type Serving = Mutex<Option<BoxFuture<'static, Result<()>>>>;

fn lock(serving: &Serving) -> MutexGuard<'_, Option<BoxFuture<'static, Result<()>>>> {
    serving.lock().unwrap_or_else(PoisonError::into_inner)
}

fn poll(serving: &Serving, cx: &mut Context<'_>) -> Poll<()> {
    match &mut *lock(serving) {
        Some(future) => future.as_mut().poll(cx).map(drop),
        None => Poll::Ready(()),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let ended: AbortHandle = self.task.abort_handle();
        ended.abort();
        let serving = lock(&self.serving).take();
        drop(serving);
    }
}
