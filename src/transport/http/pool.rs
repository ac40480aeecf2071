//! Connections to one server: those in use, and those that wait for the next request.
//!
//! Owns hyper's connections and when one may be used again; must not know what a request means.
//! There is no task: whoever waits for an answer polls its connection, since HTTP/1.1 gives a
//! connection to one request at a time anyway.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::response::Parts;
use http::{Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::connect::{Connector, Io};
use crate::error::Error;
use crate::limits::Limits;

/// Idle connections to one server, and the way to new ones. Any number may be in use: a request
/// never waits for another one's answer.
pub(super) struct Pool {
    connector: Connector,
    max_idle: usize,
    idle_timeout: Duration,
    /// `None` once closed. Oldest first.
    idle: Mutex<Option<VecDeque<Idle>>>,
}

/// A connection with no request of ours under way.
struct Idle {
    answer: Answer,
    since: Instant,
}

/// A connection, and what its peer still sends of an answer.
pub(super) struct Answer {
    connection: Connection,
    body: Incoming,
    /// What its head says of the connection after it.
    leaves_open: bool,
}

struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once it has ended.
    #[expect(clippy::type_complexity, reason = "named nowhere else")]
    driver: Option<http1::Connection<TokioIo<Box<dyn Io>>, Full<Bytes>>>,
    /// Why it ended, if there was a reason.
    failure: Option<hyper::Error>,
}

/// What one poll tells of an answer nobody reads.
#[derive(Debug, PartialEq, Eq)]
enum Rest {
    /// The connection cannot be used again.
    Dead,
    /// The answer has ended and the connection takes a request.
    Ended,
    /// The peer has not ended its answer yet.
    Open,
}

/// Why a request got no answer.
enum Failure {
    /// It has gone out, at least in part: the peer may act on it.
    Sent(hyper::Error),
    /// No byte of it has gone out.
    Unsent(hyper::Error, Box<Request<Full<Bytes>>>),
}

impl Pool {
    pub(super) fn new(connector: Connector, limits: &Limits) -> Self {
        Self {
            connector,
            max_idle: limits.max_idle_connections,
            idle_timeout: limits.pool_idle_timeout,
            idle: Mutex::new(Some(VecDeque::new())),
        }
    }

    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.connector, Connector::InMemory(_))
    }

    /// Sends a request over an idle connection or a new one. `target` is for error texts.
    ///
    /// Only a request of which nothing has left is sent again, on another connection. Of another one
    /// [`is_unasked`] tells whether the peer says that it never read it.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        target: &str,
    ) -> Result<(Parts, Answer), Error> {
        while let Some(connection) = self.check_out() {
            match connection.send(request).await {
                Err(Failure::Unsent(_, unsent)) => request = *unsent,
                sent => return sent.map_err(|failure| failure.into_error(target)),
            }
        }
        let io = self.connector.connect().await?;
        let connection = Connection::open(io, target).await?;
        let sent = connection.send(request).await;
        sent.map_err(|failure| failure.into_error(target))
    }

    /// Takes an answer that nobody reads on. Its connection is kept if the answer has ended.
    pub(super) fn take_ended(&self, mut answer: Answer) {
        if answer.poll_rest() == Rest::Ended {
            self.keep(answer);
        }
    }

    /// The same, but the end of the answer may also come while the connection is idle.
    pub(super) fn take_ending(&self, mut answer: Answer) {
        match answer.poll_rest() {
            Rest::Ended => self.keep(answer),
            Rest::Open if answer.leaves_open => self.keep(answer),
            Rest::Dead | Rest::Open => {}
        }
    }

    /// Drops idle connections that are too old or dead.
    pub(super) fn sweep(&self) {
        // Polled outside of the lock; meanwhile a request opens a connection of its own.
        let mut swept = match &mut *self.lock() {
            Some(idle) => std::mem::take(idle),
            None => return,
        };
        let now = now();
        swept.retain_mut(|idle| {
            !self.is_expired(idle, now) && idle.answer.poll_rest() != Rest::Dead
        });
        let mut lock = self.lock();
        if let Some(idle) = &mut *lock {
            while let Some(newest) = swept.pop_back()
                && idle.len() < self.max_idle
            {
                idle.push_front(newest);
            }
        }
    }

    /// Drops all idle connections and keeps none from now on.
    pub(super) fn close(&self) {
        let idle = self.lock().take();
        drop(idle);
    }

    /// The idle connection that was used last, if it is alive.
    fn check_out(&self) -> Option<Connection> {
        loop {
            let mut idle = self.lock().as_mut()?.pop_back()?;
            if !self.is_expired(&idle, now()) && idle.answer.poll_rest() == Rest::Ended {
                return Some(idle.answer.connection);
            }
        }
    }

    fn keep(&self, answer: Answer) {
        let idle = Idle {
            answer,
            since: now(),
        };
        let mut lock = self.lock();
        let displaced = match &mut *lock {
            Some(kept) if self.max_idle > 0 => {
                let oldest = if kept.len() >= self.max_idle {
                    kept.pop_front()
                } else {
                    None
                };
                kept.push_back(idle);
                oldest
            }
            _ => Some(idle),
        };
        drop(lock);
        drop(displaced);
    }

    fn is_expired(&self, idle: &Idle, now: Instant) -> bool {
        now.saturating_duration_since(idle.since) >= self.idle_timeout
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<VecDeque<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn idle_count(&self) -> usize {
        self.lock().as_ref().map_or(0, VecDeque::len)
    }
}

impl Answer {
    /// The next bytes of the body.
    ///
    /// hyper hands each piece over through a slot that wakes the other side, and here both sides
    /// are this very task. So whatever is at hand is taken with a waker of nobody's, and the
    /// task's own waker is left only once there is nothing: no piece costs an extra wake-up.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        for waker in [Waker::noop(), cx.waker()] {
            if let Poll::Ready(piece) = self.poll_body() {
                return Poll::Ready(piece);
            }
            self.connection.poll(waker);
        }
        self.poll_body()
    }

    fn poll_body(&mut self) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        let mut nobody = Context::from_waker(Waker::noop());
        loop {
            let piece = match ready!(Pin::new(&mut self.body).poll_frame(&mut nobody)) {
                None => None,
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => Some(Ok(bytes)),
                    Err(_trailers) => continue,
                },
                // The body says that the connection broke, the connection says why.
                Some(Err(error)) => Some(Err(self.connection.failure.take().unwrap_or(error))),
            };
            return Poll::Ready(piece);
        }
    }

    /// Looks once whether the answer has ended. A little of it is read and thrown away: more of
    /// it costs more than a new connection.
    fn poll_rest(&mut self) -> Rest {
        const MAX_PIECES: usize = 16;
        let mut nobody = Context::from_waker(Waker::noop());
        for _ in 0..MAX_PIECES {
            match self.poll_frame(&mut nobody) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_))) => return Rest::Dead,
                Poll::Ready(None) => {
                    // After the last piece hyper has yet to turn the connection round, or to see
                    // that the peer has hung up.
                    self.connection.poll(Waker::noop());
                    return match self.connection.is_ready() {
                        true => Rest::Ended,
                        false => Rest::Dead,
                    };
                }
                Poll::Pending => return Rest::Open,
            }
        }
        Rest::Dead
    }
}

impl Connection {
    async fn open(io: Box<dyn Io>, target: &str) -> Result<Self, Error> {
        let (sender, driver) = http1::handshake(TokioIo::new(io))
            .await
            .map_err(|error| Failure::Sent(error).into_error(target))?;
        Ok(Self {
            sender,
            driver: Some(driver),
            failure: None,
        })
    }

    async fn send(mut self, request: Request<Full<Bytes>>) -> Result<(Parts, Answer), Failure> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let answered = poll_fn(|cx| {
            self.poll(cx.waker());
            answer.as_mut().poll(cx)
        });
        match answered.await {
            Ok(response) => {
                let (parts, body) = Response::into_parts(response);
                let answer = Answer {
                    connection: self,
                    leaves_open: leaves_open(&parts, &body),
                    body,
                };
                Ok((parts, answer))
            }
            Err(mut error) => Err(match error.take_message() {
                Some(unsent) => Failure::Unsent(error.into_error(), Box::new(unsent)),
                None => Failure::Sent(error.into_error()),
            }),
        }
    }

    fn poll(&mut self, waker: &Waker) {
        let Some(driver) = &mut self.driver else {
            return;
        };
        if let Poll::Ready(end) = Pin::new(driver).poll(&mut Context::from_waker(waker)) {
            // Dropping it tells whoever waits for an answer or a body.
            self.driver = None;
            self.failure = end.err();
        }
    }

    fn is_ready(&self) -> bool {
        self.driver.is_some() && self.sender.is_ready()
    }
}

/// Whether the connection can take a request after this answer (RFC 9112, section 9.3): the peer
/// means to leave it open, and the end of the body is not that of the connection.
fn leaves_open(parts: &Parts, body: &Incoming) -> bool {
    let is_kept = match parts.version {
        Version::HTTP_11 => !says(parts, "close"),
        _ => says(parts, "keep-alive") && !says(parts, "close"),
    };
    let has_end =
        parts.headers.contains_key(header::TRANSFER_ENCODING) || body.size_hint().exact().is_some();
    is_kept && has_end
}

/// Whether the `Connection` header names this.
fn says(parts: &Parts, word: &str) -> bool {
    let values = parts.headers.get_all(header::CONNECTION).iter();
    let mut words = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    words.any(|given| given.trim().eq_ignore_ascii_case(word))
}

/// Whether a peer says that no request was received on the connection, which it closes: the request
/// crossed that word (RFC 9110, "408 Request Timeout"). Applications use the status for what took
/// them too long, so it has to name no wait as well: what may have run is not sent again.
pub(super) fn is_unasked(parts: &Parts) -> bool {
    let is_at_once = |value: &HeaderValue| value == "0";
    parts.status == StatusCode::REQUEST_TIMEOUT
        && says(parts, "close")
        && parts
            .headers
            .get(header::RETRY_AFTER)
            .is_some_and(is_at_once)
}

impl Failure {
    fn into_error(self, target: &str) -> Error {
        let (Self::Sent(error) | Self::Unsent(error, _)) = self;
        Error::transport_by(
            format!("the connection to {target} broke before the answer"),
            error,
        )
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "connections come back from wherever an answer was read; nobody there has a clock"
)]
fn now() -> Instant {
    Instant::now()
}
