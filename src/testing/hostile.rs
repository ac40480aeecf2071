//! A peer that is not as it should be, on a port of this machine.
//!
//! Owns the way to the server behind it; must not know what goes wrong.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use http::Uri;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::fault::Faults;
use super::scripted::accept;
use super::server::TestServer;
use super::spoil::spoil_http;
use crate::error::{Error, Result};
use crate::specialists::build_echo_server;

/// A server, or a way to one, with a [`Fault`](super::Fault). It speaks Streamable HTTP on a port of
/// this machine; [`ConnectMemory::faults`](super::ConnectMemory::faults) has the same without a
/// socket. Dropped, it closes all its connections.
///
/// ```
/// use agent_hub_kit::testing::{Fault, Faults, HostilePeer, echo_specialist_url};
/// use agent_hub_kit::{AgentHubClient, Error};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let faults = Faults::none();
/// let peer = HostilePeer::wrap(echo_specialist_url().await, &faults).await?;
/// let hub = AgentHubClient::builder().build();
/// hub.connect_http("echo", peer.url()).await?;
///
/// faults.set(Fault::CutAfter(200));
/// let failed = hub.call_tool("echo", json!({"text": "hi"})).await.unwrap_err();
/// assert!(matches!(failed, Error::Transport { .. }), "{failed:?}");
/// faults.set(None);
/// assert_eq!(hub.call_tool("echo", json!({"text": "hi"})).await?, "hi");
/// # hub.close().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropped, it closes all its connections"]
pub struct HostilePeer {
    local_addr: SocketAddr,
    url: String,
    /// What accepts, and so all connections.
    _accepting: JoinSet<()>,
    _server: Option<TestServer>,
}

impl HostilePeer {
    /// Starts a peer that is an echo server with a fault; see
    /// [`build_echo_server`].
    ///
    /// # Errors
    /// [`Error::Transport`] if this machine has no free port.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing runs if the future is dropped.
    pub async fn start(faults: impl Into<Faults>) -> Result<Self> {
        let faults = faults.into();
        let server = TestServer::spawn(build_echo_server().build()).await?;
        let peer = Self::wrap(server.url(), faults).await?;
        Ok(Self {
            _server: Some(server),
            ..peer
        })
    }

    /// Starts a peer between a client and the server at `url`, which is asked only when a client
    /// comes.
    ///
    /// # Errors
    /// [`Error::Config`] for a URL that is not `http://..`, [`Error::Transport`] if this machine has
    /// no free port.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing runs if the future is dropped.
    pub async fn wrap(url: impl AsRef<str>, faults: impl Into<Faults>) -> Result<Self> {
        let (url, faults) = (url.as_ref(), faults.into());
        let unfit = || Error::config(format!("{url:?} is no http:// URL to stand before"));
        let behind: Uri = url.parse().map_err(|_| unfit())?;
        let (Some("http"), Some(authority)) = (behind.scheme_str(), behind.authority()) else {
            return Err(unfit());
        };
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(80);
        let named = authority.as_str().rsplit('@').next();
        let named = named.unwrap_or_default().to_owned();

        let failed = |e| Error::transport_by("a hostile peer could not listen", e);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(failed)?;
        let local_addr = listener.local_addr().map_err(failed)?;
        let path = behind.path_and_query().map_or("/", |path| path.as_str());
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, move |client| {
            pass(client, (host.clone(), port), named.clone(), faults.clone())
        }));
        Ok(Self {
            local_addr,
            url: format!("http://{local_addr}{path}"),
            _accepting: accepting,
            _server: None,
        })
    }

    /// The URL for clients: the one behind it, on this peer's port.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address with the port that was taken.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

impl fmt::Debug for HostilePeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostilePeer")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// One connection. A server that cannot be reached looks like one that hangs up.
async fn pass(mut client: TcpStream, server: (String, u16), named: String, faults: Faults) {
    match TcpStream::connect(server).await {
        Ok(beyond) => {
            let _ = beyond.set_nodelay(true);
            // Whoever broke off knows.
            let _ = spoil_http(client, beyond, Some(&named), &faults).await;
        }
        Err(_) => {
            let _ = client.shutdown().await;
        }
    }
}
