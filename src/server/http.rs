//! Serving over Streamable HTTP.
//!
//! Owns the life of a listener; must not know what is asked on it.

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use tokio::net::{TcpListener, ToSocketAddrs};

use super::builder::McpServer;
use super::exchange::HttpHost;
use crate::error::{Error, Result};
use crate::mcp::frame::SessionId;
use crate::transport::http::access::{Access, Check};
use crate::transport::http::authorize::Authorization;
use crate::transport::http::passed;
use crate::transport::http::server::{Server, Shutdown, Stage};
use crate::transport::http::service::HttpService;
use crate::transport::tls::ServerTls;

impl McpServer {
    /// Binds an address, so that the port is known before anything is served. Port 0 takes any
    /// free one.
    ///
    /// A socket that whoever started this process passed on is taken instead, whatever `addr` is:
    /// [`Bound::url`] tells the truth. Such sockets are the descriptors from 3 on, as many as the
    /// environment variable `LISTEN_FDS` says (systemd, systemfd and `agent-hub dev` do so;
    /// `LISTEN_PID`, if it is set, has to be this process; Unix only). The first time that a process
    /// binds takes the first one, each further time the next, and after the last one addresses are
    /// bound. Both variables are removed, and no child inherits the descriptors.
    ///
    /// On a loopback address only requests that name this machine are answered; see
    /// [`allowed_hosts`](crate::McpServerBuilder::allowed_hosts).
    ///
    /// # Errors
    /// [`Error::Config`] for what is wrong with the server itself or with `LISTEN_FDS`,
    /// [`Error::Transport`] if the address cannot be bound, or if a descriptor that was passed on is
    /// no listening TCP socket.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is bound if the future is dropped.
    pub async fn bind(&self, addr: impl ToSocketAddrs + fmt::Debug) -> Result<Bound> {
        self.check()?;
        let text = format!("could not listen on {addr:?}");
        let listener = match passed::take()? {
            Some(listener) => listener,
            None => TcpListener::bind(addr)
                .await
                .map_err(|e| Error::transport_by(text, e))?,
        };
        self.listen(listener)
    }

    /// [Binds](Self::bind) an address, or takes a socket that was passed on, and serves until the
    /// process ends or the future is dropped. [`bind`](Self::bind) gives a handle to stop it in
    /// order.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind).
    ///
    /// # Cancel safety
    /// Dropping the future ends every connection and every call.
    pub async fn serve_http(&self, addr: impl ToSocketAddrs + fmt::Debug) -> Result<()> {
        self.bind(addr).await?.serve().await
    }

    /// As [`serve_http`](Self::serve_http), on a listener that is bound already.
    ///
    /// # Errors
    /// [`Error::Config`] for what is wrong with the server itself.
    ///
    /// # Cancel safety
    /// Dropping the future ends every connection and every call.
    pub async fn serve_listener(&self, listener: TcpListener) -> Result<()> {
        self.check()?;
        self.listen(listener)?.serve().await
    }

    fn listen(&self, listener: TcpListener) -> Result<Bound> {
        let local_addr = listener
            .local_addr()
            .map_err(|e| Error::transport_by("the listener has no address", e))?;
        let access = self.access(Some(local_addr))?;
        let authorization = self.settings.guard.authorization()?;
        let tls = self.settings.tls.clone();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{local_addr}{}", self.settings.path);
        Ok(Bound {
            tls,
            service: self.service(Some(&self.settings.path), access, authorization),
            listener,
            local_addr,
            url,
            shutdown: Shutdown::new(),
        })
    }

    /// The service behind a pipe in memory, which no browser reaches, nor anybody else.
    pub(crate) fn memory_service(&self) -> Result<HttpService<Arc<HttpHost>>> {
        self.check()?;
        Ok(self.service(Some(&self.settings.path), Access::open(), None))
    }

    pub(super) fn access(&self, bind: Option<SocketAddr>) -> Result<Access> {
        let check = match self.settings.check_access {
            true => Check::On,
            false => Check::Off,
        };
        Access::new(
            check,
            bind,
            &self.settings.allowed_hosts,
            &self.settings.allowed_origins,
        )
    }

    pub(super) fn service(
        &self,
        path: Option<&str>,
        access: Access,
        authorization: Option<Authorization>,
    ) -> HttpService<Arc<HttpHost>> {
        let host = Arc::new(HttpHost::new(self.host.clone(), new_session_id));
        HttpService::new(host, path, access, authorization, self.host.limits())
    }
}

/// A server with its address, before and while it serves.
pub struct Bound {
    service: HttpService<Arc<HttpHost>>,
    listener: TcpListener,
    local_addr: SocketAddr,
    url: String,
    tls: Option<ServerTls>,
    shutdown: Shutdown,
}

impl Bound {
    /// The address, with the port that was taken.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The URL for clients on this machine.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A handle to stop the server.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle(self.shutdown.clone())
    }

    /// Serves until a [`ServerHandle`] says stop. Then nothing new is accepted, running calls may
    /// end for [`Limits::shutdown_timeout`](crate::Limits::shutdown_timeout), and the rest end with
    /// an error that says so. A handler that blocks its thread can be told nothing: the runtime
    /// cannot end before that thread does.
    ///
    /// # Errors
    /// None today: a server outlives what goes wrong on its connections.
    ///
    /// # Cancel safety
    /// Dropping the future ends every connection and every call at once.
    pub async fn serve(self) -> Result<()> {
        let host = EndsCalls(self.service.exchange().clone());
        let draining = self.shutdown.reached(Stage::Draining);
        let ending = self.shutdown.reached(Stage::Ending);
        let server = Server::new(self.listener, self.service, self.shutdown).secured(self.tls);
        let mut running = pin!(server.run());
        let mut expiring = pin!(host.0.expire_sessions());
        let mut ending = pin!(async {
            draining.await;
            host.0.end_streams();
            ending.await;
            host.0.end_calls();
            pending::<()>().await;
        });
        poll_fn(|cx| {
            let _ = ending.as_mut().poll(cx);
            let _ = expiring.as_mut().poll(cx);
            running.as_mut().poll(cx)
        })
        .await;
        Ok(())
    }
}

/// Ends all calls when the server is over, or its future is dropped.
pub(super) struct EndsCalls(pub(super) Arc<HttpHost>);

impl Drop for EndsCalls {
    fn drop(&mut self) {
        self.0.end_calls();
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound")
            .field("local_addr", &self.local_addr)
            .finish_non_exhaustive()
    }
}

/// Stops a server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle(Shutdown);

impl ServerHandle {
    /// Tells the server to stop, and waits for nothing. Told a second time, it ends at once.
    pub fn shutdown(&self) {
        self.0.shut_down();
    }
}

/// 128 random bits; whoever knows them acts as the session's client.
fn new_session_id() -> Option<SessionId> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    SessionId::parse(&format!("{:032x}", u128::from_ne_bytes(bits)))
}
