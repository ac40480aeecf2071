//! One server-side connection, from its first byte to its last.
//!
//! Owns what hyper leaves open: how long each state of a connection may last (`patience`), a
//! request framed in two ways at once (`framing`), and a close that does not take the answer with
//! it (`observed`). Must not know what is asked or answered.
//!
//! No request is lost to the end of a server. While it drains, one that was on its way is answered, and
//! the answer says that it is the last. A connection on which none comes ends with a word that none
//! was read, so that a client whose request crosses it may ask again. One that is merely idle for long
//! ends without it: a client that looks at its connection only when it uses it, as curl before 8.1,
//! takes the word for the answer, where it would have seen an end and made a new connection.
//!
//! A client that hangs up is noticed while its request runs, whatever else it had sent. One that
//! only ends its sending side counts as one that hung up: no client of the protocol does so to wait
//! for an answer, and a socket whose other end is gone looks the same.

mod framing;
mod observed;
mod patience;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;

use self::observed::Observed;
use self::patience::{Lost, Patience, State};
use super::super::Exchange;
use super::body::{AnswerBody, AnswerBytes};
use super::refusal::Refusal;
use super::server::{Shutdown, Stage};
use super::service::HttpService;

/// The request head, and what waits to be written. hyper's own 400 KiB would be held by each
/// connection whose reader stalls.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// Time for a client to hear that its request was not read, and to hang up. Until then a request that
/// it sends is no reason to reset the connection.
const UNASKED_TIMEOUT: Duration = Duration::from_millis(250);

/// Serves one connection until it ends, from whichever side: a socket or one end of an in-memory
/// pair.
///
/// # Cancel safety
/// Dropping the future closes the connection and drops what runs on it.
pub(crate) async fn serve_io<E, Io>(io: Io, service: HttpService<E>, shutdown: &Shutdown)
where
    E: Exchange,
    Io: AsyncRead + AsyncWrite + Unpin,
{
    let state = Arc::new(State::default());
    let max_lingering_bytes = service.limits().max_server_message_bytes;
    let io = Observed::new(io, state.clone(), max_lingering_bytes);
    let mut patience = Patience::new(&state, service.limits());
    let mut conn = http1::Builder::new()
        // hyper's own timeout would run while the connection is idle, and costs an allocation and
        // a timer for each request.
        .header_read_timeout(None)
        .max_buf_size(MAX_BUFFER_BYTES)
        .serve_connection(
            TokioIo::new(io),
            service_fn(|request: http::Request<Incoming>| {
                let (service, state) = (service.clone(), state.clone());
                let is_ambiguous = state.begin_request();
                // hyper keeps room for this future for as long as the connection lasts: some 4 KiB,
                // of which an answer that streams, or an idle connection, would use nothing.
                Box::pin(async move {
                    let mut response = match is_ambiguous {
                        true => service.refuse(&request, Refusal::ambiguous_length()),
                        false => service.call(request).await,
                    };
                    if is_ambiguous || response.headers().contains_key(CONNECTION) {
                        state.refuse_request();
                    } else if state.is_draining() {
                        let close = HeaderValue::from_static("close");
                        response.headers_mut().insert(CONNECTION, close);
                    }
                    Ok::<_, Infallible>(response.map(|body| Answering { body, state }))
                })
            }),
        );
    let mut draining = Draining::new(shutdown);
    let lost = poll_fn(|cx| {
        if draining.is_due(cx) {
            state.drain();
        }
        if Pin::new(&mut conn).poll(cx).is_ready() {
            // An error has no other reader than the client, who is gone.
            return Poll::Ready(None);
        }
        patience.poll_lost(cx).map(Some)
    })
    .await;
    // Whether the client hears of it is its own affair.
    match lost {
        None | Some(Lost::Broken) => {}
        Some(Lost::Idle) => {
            let mut io = conn.into_parts().io.into_inner();
            // TLS has a word for the end.
            let end = poll_fn(|cx| Pin::new(&mut io).poll_shutdown(cx));
            let _ = timeout(UNASKED_TIMEOUT, end).await;
        }
        Some(Lost::Unasked) => {
            let io = conn.into_parts().io.into_inner();
            let _ = timeout(UNASKED_TIMEOUT, io.say_unasked()).await;
        }
    }
}

/// Hears of a shutdown once. Looking costs an atomic load: the wait itself, which takes a lock
/// that all connections share, is polled only to leave a new waker there.
struct Draining {
    changed: watch::Receiver<Stage>,
    reached: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    waker: Option<Waker>,
}

impl Draining {
    fn new(shutdown: &Shutdown) -> Self {
        Self {
            changed: shutdown.subscribe(),
            reached: Some(Box::pin(shutdown.reached(Stage::Draining))),
            waker: None,
        }
    }

    /// True once, when the server begins to shut down.
    fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(reached) = &mut self.reached else {
            return false;
        };
        let is_known = self.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker()));
        if is_known && !self.changed.has_changed().unwrap_or(true) {
            return false;
        }
        self.waker = Some(cx.waker().clone());
        let is_due = reached.as_mut().poll(cx).is_ready();
        if is_due {
            self.reached = None;
        }
        is_due
    }
}

/// The body of an answer; when hyper lets go of it, its request is over.
struct Answering {
    body: AnswerBody,
    state: Arc<State>,
}

impl Body for Answering {
    type Data = AnswerBytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<AnswerBytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.state.end_request();
    }
}

#[cfg(test)]
mod tests;
