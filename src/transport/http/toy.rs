//! What the tests of this folder share: an exchange made of a closure, a source made of a channel,
//! and a client that speaks raw bytes.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::super::{Exchange, Inbound, Outbound, OutboundBody, Source};
use super::access::{Access, Check};
use super::clock::from_now;
use super::connection::serve_io;
use super::server::Shutdown;
use super::service::HttpService;
use crate::limits::Limits;
use crate::wire::chunk::Chunk;

/// What a connection ends with on which no request came.
pub(super) const UNASKED: &str = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\
    retry-after: 0\r\ncontent-length: 0\r\n\r\n";

/// Answers what the closure says; `None` is never answered.
pub(super) struct Toy<F> {
    answer: F,
    /// Told when an exchange that is never answered is dropped.
    dropped: mpsc::UnboundedSender<()>,
}

impl<F> Exchange for Toy<F>
where
    F: Fn(Inbound) -> Option<Outbound> + Send + Sync + 'static,
{
    async fn exchange(&self, inbound: Inbound) -> Outbound {
        match (self.answer)(inbound) {
            Some(outbound) => outbound,
            None => {
                let _told = ToldOnDrop(self.dropped.clone());
                pending().await
            }
        }
    }
}

struct ToldOnDrop(mpsc::UnboundedSender<()>);

impl Drop for ToldOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

pub(super) fn now() -> Instant {
    from_now(Duration::ZERO)
}

pub(super) fn outbound(body: OutboundBody) -> Outbound {
    Outbound {
        status: 200,
        session_id: None,
        retry_after: None,
        body,
    }
}

pub(super) fn json(text: &str) -> Outbound {
    outbound(OutboundBody::Json(Bytes::copy_from_slice(text.as_bytes())))
}

/// A source that gives what comes through a channel; the second half hears of its drop.
pub(super) struct ChannelSource {
    chunks: mpsc::UnboundedReceiver<Vec<u8>>,
    _told: oneshot::Sender<()>,
}

pub(super) fn source() -> (
    ChannelSource,
    mpsc::UnboundedSender<Vec<u8>>,
    oneshot::Receiver<()>,
) {
    let (sender, chunks) = mpsc::unbounded_channel();
    let (_told, dropped) = oneshot::channel();
    (ChannelSource { chunks, _told }, sender, dropped)
}

impl Source for ChannelSource {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        self.chunks.poll_recv(cx).map(|c| c.map(Chunk::once))
    }

    fn is_end(&self) -> bool {
        self.chunks.is_closed() && self.chunks.is_empty()
    }
}

/// A service whose next stream is `source`; it can be used once.
pub(super) fn streaming(source: ChannelSource, limits: &Limits) -> HttpService<impl Exchange> {
    let source = Mutex::new(Some(source));
    service(limits, move |_| {
        let source = source.lock().unwrap().take().expect("one stream");
        Some(outbound(OutboundBody::Stream(Box::new(source))))
    })
}

pub(super) fn loopback() -> Access {
    Access::new(Check::On, Some(([127, 0, 0, 1], 8001).into()), &[], &[]).unwrap()
}

pub(super) fn service<F>(limits: &Limits, answer: F) -> HttpService<Toy<F>>
where
    F: Fn(Inbound) -> Option<Outbound> + Send + Sync + 'static,
{
    service_and_drops(limits, answer).0
}

pub(super) fn service_and_drops<F>(
    limits: &Limits,
    answer: F,
) -> (HttpService<Toy<F>>, mpsc::UnboundedReceiver<()>)
where
    F: Fn(Inbound) -> Option<Outbound> + Send + Sync + 'static,
{
    let (dropped, drops) = mpsc::unbounded_channel();
    let toy = Toy { answer, dropped };
    (
        HttpService::new(toy, Some("/mcp"), loopback(), None, limits),
        drops,
    )
}

/// A service that answers each message with itself in a list, and what it saw.
pub(super) fn echo(limits: &Limits) -> (HttpService<impl Exchange>, Arc<Mutex<Vec<Inbound>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let service = service(limits, move |inbound| {
        let answer = json(&format!("[{}]", String::from_utf8_lossy(&inbound.body)));
        log.lock().unwrap().push(inbound);
        Some(answer)
    });
    (service, seen)
}

/// Serves one end of an in-memory pair; the connection ends with the task.
pub(super) fn connect<E: Exchange>(service: HttpService<E>) -> Client<DuplexStream> {
    connect_with_room(service, 1024 * 1024)
}

pub(super) fn connect_with_room<E: Exchange>(
    service: HttpService<E>,
    bytes: usize,
) -> Client<DuplexStream> {
    let (near, far) = tokio::io::duplex(bytes);
    tokio::spawn(async move { serve_io(far, service, &Shutdown::new()).await });
    Client::new(near)
}

/// Speaks raw bytes, and reads answers framed by a length, by chunks or by the end.
pub(super) struct Client<Io> {
    pub(super) io: Io,
    ahead: Vec<u8>,
    patience: Duration,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl<Io: AsyncRead + tokio::io::AsyncWrite + Unpin> Client<Io> {
    pub(super) fn new(io: Io) -> Self {
        Self {
            io,
            ahead: Vec::new(),
            patience: Duration::from_secs(20),
        }
    }

    /// For a paused clock, under which a day costs nothing.
    pub(super) fn patient(mut self) -> Self {
        self.patience = Duration::from_secs(24 * 60 * 60);
        self
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.io.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends a POST of `body` as our own client would.
    pub(super) async fn post(&mut self, body: &str) {
        self.send(post(body)).await;
    }

    /// One read; false at the end.
    pub(super) async fn more(&mut self) -> bool {
        let read = self.io.read_buf(&mut self.ahead);
        match tokio::time::timeout(self.patience, read).await {
            // A connection that was cut is one that ended.
            Ok(read) => read.unwrap_or(0) > 0,
            Err(_) => panic!("nothing came"),
        }
    }

    pub(super) async fn until(&mut self, end: &str) -> String {
        loop {
            let found = self
                .ahead
                .windows(end.len())
                .position(|w| w == end.as_bytes());
            if let Some(at) = found {
                let text = self.ahead.drain(..at + end.len()).collect();
                return String::from_utf8(text).unwrap();
            }
            let so_far = String::from_utf8_lossy(&self.ahead).into_owned();
            assert!(self.more().await, "ended before {end:?}, after {so_far:?}");
        }
    }

    async fn exactly(&mut self, count: usize) -> String {
        while self.ahead.len() < count {
            assert!(self.more().await, "ended early");
        }
        String::from_utf8(self.ahead.drain(..count).collect()).unwrap()
    }

    /// Everything up to the end of the connection.
    pub(super) async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8(std::mem::take(&mut self.ahead)).unwrap()
    }

    pub(super) async fn head(&mut self) -> Answer {
        let head = self.until("\r\n\r\n").await;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer {
            status,
            head,
            body: String::new(),
        }
    }

    pub(super) async fn answer(&mut self) -> Answer {
        let mut answer = self.head().await;
        answer.body = match answer.header("content-length") {
            Some(length) => {
                let count = length.parse().unwrap();
                self.exactly(count).await
            }
            None if answer.header("transfer-encoding") == Some("chunked") => {
                let mut body = String::new();
                loop {
                    let size = self.until("\r\n").await;
                    let size = usize::from_str_radix(size.trim(), 16).unwrap();
                    let piece = self.exactly(size + 2).await;
                    if size == 0 {
                        break body;
                    }
                    body.push_str(&piece[..size]);
                }
            }
            None => self.rest().await,
        };
        answer
    }
}

pub(super) fn post(body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
