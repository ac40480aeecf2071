//! Accepts connections, counts them, and brings them to an end.
//!
//! Owns the listener and every connection's task; must not know what is asked on them.

use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};

use super::super::Exchange;
use super::super::tls::ServerTls;
use super::connection::serve_io;
use super::secured::secured;
use super::service::HttpService;

/// A listener and the service that answers on it.
#[derive(Debug)]
pub(crate) struct Server<E, L = TcpListener> {
    listener: L,
    service: HttpService<E>,
    shutdown: Shutdown,
    tls: Option<ServerTls>,
}

/// What connections come from.
pub(crate) trait Listener: Send {
    type Io: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next connection, and the address of its peer, if it has one.
    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Self::Io, Option<SocketAddr>)>>;

    /// Ends it, and gives up to `max` connections that wait already: their clients were told that
    /// they are connected, and may have asked something.
    fn into_waiting(self, _max: usize) -> Vec<(Self::Io, Option<SocketAddr>)>
    where
        Self: Sized,
    {
        Vec::new()
    }
}

/// Tells a server to stop. Clones are the same handle.
#[derive(Debug, Clone)]
pub(crate) struct Shutdown(watch::Sender<Stage>);

/// How far a shutdown has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Running,
    /// Nothing new is taken; what runs may end.
    Draining,
    /// What still runs has to end: its clients can be told so now, and no longer after that.
    Ending,
    /// Everything is dropped.
    Over,
}

/// Time to tell clients that their calls end, after `shutdown_timeout`.
const ENDING_TIMEOUT: Duration = Duration::from_millis(250);

/// Connections over `max_connections` that are told so at once. More wait in the listen backlog.
const MAX_REFUSED: usize = 64;

/// How long one of them may take: its request, the refusal, and a moment to read it.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause after a failed accept. Out of descriptors or memory, it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

impl<E: Exchange, L: Listener> Server<E, L> {
    pub(crate) fn new(listener: L, service: HttpService<E>, shutdown: Shutdown) -> Self {
        Self {
            listener,
            service,
            shutdown,
            tls: None,
        }
    }

    /// Takes connections by TLS alone, if there is something to prove itself with.
    pub(crate) fn secured(mut self, tls: Option<ServerTls>) -> Self {
        self.tls = tls;
        self
    }

    /// Serves until it is told to stop. Then it lets go of the listener at once, lets connections
    /// end for `shutdown_timeout` and drops the rest.
    ///
    /// # Cancel safety
    /// Dropping the future ends every connection.
    pub(crate) async fn run(self) {
        let Self {
            mut listener,
            service,
            shutdown,
            tls,
        } = self;
        let mut connections = JoinSet::new();
        accept(
            &mut listener,
            tls.as_ref(),
            &service,
            &shutdown,
            &mut connections,
        )
        .await;
        let room = service.limits().max_connections;
        let room = room.saturating_sub(connections.len());
        for (io, peer) in listener.into_waiting(room) {
            begin(
                &mut connections,
                io,
                peer,
                tls.as_ref(),
                &service,
                &shutdown,
            );
        }

        let patience = service.limits().shutdown_timeout;
        let over = || shutdown.reached(Stage::Over);
        if ended(&mut connections, patience, over()).await {
            return;
        }
        shutdown.raise_to(Stage::Ending);
        if !ended(&mut connections, ENDING_TIMEOUT, over()).await {
            shutdown.raise_to(Stage::Over);
            connections.abort_all();
            // So that what they held is gone as well, unless one of them does not yield.
            ended(&mut connections, ENDING_TIMEOUT, pending()).await;
        }
    }
}

/// Accepts connections until the shutdown begins. Those over the cap are refused, which must not
/// cost more than that: then the rest wait in the backlog.
async fn accept<E: Exchange, L: Listener>(
    listener: &mut L,
    tls: Option<&ServerTls>,
    service: &HttpService<E>,
    shutdown: &Shutdown,
    connections: &mut JoinSet<()>,
) {
    let mut draining = pin!(shutdown.reached(Stage::Draining));
    let full = service.full();
    let mut refused = JoinSet::new();
    let mut pause = pin!(None::<Sleep>);
    poll_fn(|cx| {
        loop {
            if draining.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            while let Poll::Ready(Some(_)) = connections.poll_join_next(cx) {}
            while let Poll::Ready(Some(_)) = refused.poll_join_next(cx) {}
            if let Some(pausing) = pause.as_mut().as_pin_mut() {
                ready!(pausing.poll(cx));
                pause.set(None);
            }
            let is_full = connections.len() >= service.limits().max_connections;
            if is_full && refused.len() >= MAX_REFUSED {
                // The end of a connection wakes this task.
                return Poll::Pending;
            }
            match ready!(listener.poll_accept(cx)) {
                Ok((io, _)) if is_full => {
                    let (full, shutdown) = (full.clone(), shutdown.clone());
                    let tls = tls.cloned();
                    refused.spawn(async move {
                        let refusal = async {
                            match &tls {
                                None => serve_io(io, full, &shutdown).await,
                                Some(tls) => secured(io, tls, full, &shutdown).await,
                            }
                        };
                        let _ = timeout(REFUSED_TIMEOUT, refusal).await;
                    });
                }
                Ok((io, peer)) => begin(connections, io, peer, tls, service, shutdown),
                Err(error) if is_of_the_client(&error) => {}
                Err(_) => pause.set(Some(sleep(ACCEPT_PAUSE))),
            }
        }
    })
    .await;
}

/// Serves a connection on a task of its own.
fn begin<E: Exchange, Io: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    connections: &mut JoinSet<()>,
    io: Io,
    peer: Option<SocketAddr>,
    tls: Option<&ServerTls>,
    service: &HttpService<E>,
    shutdown: &Shutdown,
) {
    let (service, shutdown) = (service.for_peer(peer), shutdown.clone());
    match tls.cloned() {
        None => connections.spawn(async move { serve_io(io, service, &shutdown).await }),
        Some(tls) => connections.spawn(async move { secured(io, &tls, service, &shutdown).await }),
    };
}

/// Waits until all connections have ended; false if time ran out or everything is over.
async fn ended(
    connections: &mut JoinSet<()>,
    patience: Duration,
    over: impl Future<Output = ()>,
) -> bool {
    let mut over = pin!(over);
    let mut timer = pin!(sleep(patience));
    poll_fn(|cx| {
        while let Poll::Ready(joined) = connections.poll_join_next(cx) {
            if joined.is_none() {
                return Poll::Ready(true);
            }
        }
        if over.as_mut().poll(cx).is_ready() || timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(false);
        }
        Poll::Pending
    })
    .await
}

/// True for an error of the connection that was to be accepted, not of the listener.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

impl Listener for TcpListener {
    type Io = TcpStream;

    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, Option<SocketAddr>)>> {
        let (socket, peer) = ready!(Self::poll_accept(self, cx))?;
        // Without it a token may wait for the acknowledgement of the one before it. A socket that
        // refuses is slower, not wrong.
        let _ = socket.set_nodelay(true);
        Poll::Ready(Ok((socket, Some(peer))))
    }

    fn into_waiting(self, max: usize) -> Vec<(TcpStream, Option<SocketAddr>)> {
        // The runtime may not know yet of those that came last, so the system is asked.
        let accept = |listener: &std::net::TcpListener| {
            let (socket, peer) = listener.accept()?;
            socket.set_nonblocking(true)?;
            let _ = socket.set_nodelay(true);
            Ok::<_, io::Error>((TcpStream::from_std(socket)?, Some(peer)))
        };
        let listener = self.into_std();
        let waiting = listener.iter().flat_map(|listener| {
            let next = move || match accept(listener) {
                Err(error) if is_of_the_client(&error) => Some(None),
                waiting => waiting.ok().map(Some),
            };
            std::iter::from_fn(next).flatten()
        });
        waiting.take(max).collect()
    }
}

impl Shutdown {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Stage::Running))
    }

    /// Tells the server to stop; told again, it stops at once.
    pub(crate) fn shut_down(&self) {
        self.0.send_modify(|stage| {
            *stage = match stage {
                Stage::Running => Stage::Draining,
                Stage::Draining | Stage::Ending | Stage::Over => Stage::Over,
            }
        });
    }

    /// Resolves when the shutdown has come to `stage`, at once if it is past it.
    pub(crate) fn reached(&self, stage: Stage) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.subscribe();
        async move {
            if changes.wait_for(|now| *now >= stage).await.is_err() {
                // Nobody is left who could say so.
                pending().await
            }
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Stage> {
        self.0.subscribe()
    }

    fn raise_to(&self, stage: Stage) {
        self.0.send_modify(|now| *now = stage.max(*now));
    }
}

#[cfg(test)]
mod tests;
