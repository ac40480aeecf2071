//! What `edge_echo` does, as far as it can be told from bytes: hyper alone, no JSON, no MCP. It answers
//! anything that is no call with one fixed result, and knows neither sessions nor errors.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::time::{Sleep, sleep};

type Anything = Box<dyn std::error::Error + Send + Sync>;

/// One HTTP chunk an event, then the result.
struct Events {
    text: String,
    sent: u64,
    times: u64,
    delay: Duration,
    pause: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.sent > 0 && self.sent < self.times && !self.delay.is_zero() {
            let delay = self.delay;
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(delay)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let (text, sent) = (&self.text, self.sent);
        let event = if sent < self.times {
            format!(
                r#"data: {{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":1,"progress":{sent},"message":"{{\"v\":1,\"type\":\"text\",\"content\":\"{text}\",\"node\":\"echo\"}}"}}}}"#
            )
        } else {
            self.ended = true;
            r#"data: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#.to_owned()
        };
        self.sent += 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(event + "\n\n")))))
    }
}

/// What follows `"name":` up to the end of the member.
fn member<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("\"{name}\":"))?;
    Some(rest.split([',', '}']).next()?.trim_matches('"'))
}

fn number(body: &str, name: &str) -> Option<u64> {
    member(body, name)?.parse().ok()
}

async fn answer(
    request: Request<Incoming>,
) -> Result<Response<Either<Full<Bytes>, Events>>, Anything> {
    let body = request.into_body().collect().await?.to_bytes();
    let body = std::str::from_utf8(&body)?;
    let (kind, body) = if body.contains("\"tools/call\"") {
        let events = Events {
            text: member(body, "text").unwrap_or_default().to_owned(),
            sent: 0,
            times: number(body, "times").unwrap_or(1),
            delay: Duration::from_millis(number(body, "delay_ms").unwrap_or(0)),
            pause: None,
            ended: false,
        };
        ("text/event-stream", Either::Right(events))
    } else {
        let result = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        ("application/json", Either::Left(Full::from(result)))
    };
    Ok(Response::builder().header(CONTENT_TYPE, kind).body(body)?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Anything> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            let _ = connection.await;
        });
    }
}
