//! A server on bare hyper: one body frame an event, or as many as asked for.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep_until};

use super::write_line;
use crate::{Anything, Outcome, clock, wire};

/// Serves on `count` ports.
pub(super) async fn serve_http(count: usize) -> Outcome {
    let mut addresses = Vec::new();
    for _ in 0..count {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        addresses.push(listener.local_addr()?.to_string());
        tokio::spawn(accept(listener));
    }
    write_line(&addresses.join(" "))?;
    std::future::pending().await
}

async fn accept(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream));
    }
}

async fn connection(stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let serving = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(answer));
    // A client that is gone is no fault of the server's.
    let _ = serving.await;
}

async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, Anything> {
    if request.method() != Method::POST {
        let refused = Response::builder().status(StatusCode::METHOD_NOT_ALLOWED);
        return Ok(refused.header(ALLOW, "POST").body(Answer::empty())?);
    }
    let body = request.into_body().collect().await?.to_bytes();
    let request: wire::Request<'_> = serde_json::from_slice(&body)?;
    let Some(id) = request.id else {
        let accepted = Response::builder().status(StatusCode::ACCEPTED);
        return Ok(accepted.body(Answer::empty())?);
    };
    let arguments = request.params.arguments.map_or("{}", |raw| raw.get());
    if request.method == "tools/call" && request.params.name == Some("stream") {
        let token = request.params.meta.and_then(|meta| meta.token);
        let token = token.ok_or("a stream needs a progress token")?.get();
        let events = Events::new(id.get(), token, serde_json::from_str(arguments)?);
        let response = Response::builder().header(CONTENT_TYPE, "text/event-stream");
        return Ok(response.body(Answer::Events(Box::new(events)))?);
    }
    let json = wire::reply(id.get(), &request)?;
    let response = Response::builder().header(CONTENT_TYPE, "application/json");
    Ok(response.body(Answer::Whole(Some(json.into())))?)
}

enum Answer {
    Whole(Option<Bytes>),
    Events(Box<Events>),
}

impl Answer {
    fn empty() -> Self {
        Self::Whole(None)
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Self::Whole(bytes) => bytes.take(),
            Self::Events(events) => ready!(events.poll_next(cx)),
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Events(events) => events.ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Events(_) => SizeHint::default(),
        }
    }
}

struct Events {
    frames: wire::Frames,
    text: String,
    sent: u64,
    args: wire::Stream,
    timer: Option<Pin<Box<Sleep>>>,
    result: String,
    ended: bool,
}

impl Events {
    fn new(id: &str, token: &str, args: wire::Stream) -> Self {
        let timer = (args.interval_us > 0).then(|| Box::pin(sleep_until(Instant::now())));
        Self {
            frames: wire::Frames::new("event: message\ndata: ", token, "\n\n"),
            text: wire::text(args.size),
            sent: 0,
            args,
            timer,
            result: format!("event: message\ndata: {}\n\n", wire::result(id, "done")),
            ended: false,
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut out = Vec::with_capacity(self.args.chunk);
        while self.sent < self.args.n {
            if let Some(timer) = &mut self.timer {
                // A timer has the precision of a millisecond, also for what is due at once.
                if timer.deadline() > Instant::now() {
                    ready!(timer.as_mut().poll(cx));
                }
                let next = timer.deadline() + Duration::from_micros(self.args.interval_us);
                timer.as_mut().reset(next);
                self.text = clock::wall_ns().to_string();
            }
            self.sent += 1;
            self.frames.write(&mut out, self.sent, &self.text);
            if out.len() >= self.args.chunk {
                return Poll::Ready(Some(out.into()));
            }
        }
        out.extend_from_slice(self.result.as_bytes());
        self.ended = true;
        Poll::Ready(Some(out.into()))
    }
}
