//! Against peers that write their bytes by hand, over TCP and over an in-memory pipe.

use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::mcp::frame::Head;
use crate::transport::Messages;

/// Bounds a test whose bug is that it waits for ever.
async fn on_time<T>(test: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(Duration::from_secs(20), test).await;
    outcome.expect("nothing happened for 20 s")
}

/// The peer's end of one connection.
struct Wire<S>(S);

/// A request as it was on the wire.
struct Seen {
    head: String,
    body: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// The next request; `None` if the client hung up instead.
    async fn read(&mut self) -> Option<Seen> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match self.0.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return None,
            }
        }
        let head = String::from_utf8(head).unwrap();
        let len = field(&head, "content-length").map_or(0, |len| len.parse().unwrap());
        let mut body = vec![0; len];
        self.0.read_exact(&mut body).await.unwrap();
        let body = String::from_utf8(body).unwrap();
        Some(Seen { head, body })
    }

    async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Answers one request.
    async fn answer(&mut self, bytes: impl AsRef<[u8]>) -> Seen {
        let seen = self.read().await.expect("a request");
        self.write(bytes).await;
        seen
    }

    async fn hung_up(&mut self) -> bool {
        !matches!(self.0.read(&mut [0]).await, Ok(1..))
    }
}

impl Seen {
    fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find_map(|(n, value)| n.eq_ignore_ascii_case(name).then_some(value))
}

/// A server on a free port, and a link to it.
struct Peer(TcpListener);

impl Peer {
    async fn bind() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.local_addr().unwrap())
    }

    fn link(&self) -> HttpLink {
        link(&self.url("/mcp"))
    }

    async fn accept(&self) -> Wire<TcpStream> {
        Wire(self.0.accept().await.unwrap().0)
    }
}

fn with(headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>) -> HttpConfig {
    HttpConfig {
        headers: headers.into_iter().collect(),
        ..HttpConfig::default()
    }
}

fn link(url: &str) -> HttpLink {
    HttpLink::new(url, HttpConfig::default(), &Limits::default()).unwrap()
}

/// A link whose connections come out of the receiver.
fn piped(limits: &Limits) -> (HttpLink, mpsc::UnboundedReceiver<Wire<DuplexStream>>) {
    let (opened, connections) = mpsc::unbounded_channel();
    let connect = move || {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        opened.send(Wire(theirs)).unwrap();
        Ok(ours)
    };
    (HttpLink::in_memory(connect, limits).unwrap(), connections)
}

impl HttpLink {
    /// What [`Link::send`] gives for this link: always a reply of its own.
    fn request(&self, frame: Frame) -> impl Future<Output = Result<Reply, Error>> + Send + 'static {
        let peer = self.0.clone();
        async move { send(&peer, frame).await }
    }
}

fn post(body: &'static str) -> Frame {
    Frame {
        verb: Verb::Post,
        head: Head::default(),
        body: Bytes::from_static(body.as_bytes()),
    }
}

/// Sends `{}`; the peer answers with `bytes` on a new connection, which stays open as long as the
/// wire does.
async fn answered(bytes: impl AsRef<[u8]>) -> (Result<Reply, Error>, HttpLink, Wire<DuplexStream>) {
    let (link, mut connections) = piped(&Limits::default());
    let peer = async {
        let mut wire = connections.recv().await.unwrap();
        wire.answer(bytes).await;
        wire
    };
    let (reply, wire) = on_time(async { tokio::join!(link.request(post("{}")), peer) }).await;
    (reply, link, wire)
}

async fn next(messages: &mut dyn Messages) -> Option<Result<String, Error>> {
    let message = on_time(std::future::poll_fn(|cx| messages.poll_next(cx))).await;
    message.map(|m| m.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
}

async fn all(reply: &mut Reply) -> Vec<String> {
    let mut messages = Vec::new();
    while let Some(message) = next(&mut *reply.messages).await {
        messages.push(message.unwrap());
    }
    messages
}

async fn excerpt(reply: &mut Reply, max: usize) -> String {
    on_time(std::future::poll_fn(|cx| {
        reply.messages.poll_excerpt(max, cx)
    }))
    .await
}

/// The texts of an error and of its causes.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(" < {error}");
        cause = error.source();
    }
    text
}

fn json(body: &str) -> String {
    let len = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
    )
}

const SSE_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

const END: &str = "0\r\n\r\n";

// Covers R-1202, R-1704.
#[tokio::test]
async fn a_post_carries_what_servers_insist_on() {
    let peer = Peer::bind().await;
    let headers = [
        (
            header::AUTHORIZATION,
            HeaderValue::from_static("Bearer s3cret"),
        ),
        (
            HeaderName::from_static("x-two"),
            HeaderValue::from_static("1"),
        ),
        (
            HeaderName::from_static("x-two"),
            HeaderValue::from_static("2"),
        ),
    ];
    let link = HttpLink::new(
        &peer.url("/a/mcp/?k=s3cret"),
        with(headers),
        &Limits::default(),
    )
    .unwrap();
    let frame = Frame {
        head: Head {
            version: Some("2025-11-25".to_owned()),
            session_id: SessionId::parse("s3cret"),
            ..Head::default()
        },
        ..post(r#"{"a":"あ"}"#)
    };
    on_time(async {
        let sent = link.request(frame.clone());
        let serve = async { peer.accept().await.answer(json("{}")).await };
        let (reply, seen) = tokio::join!(sent, serve);
        reply.unwrap();
        assert_eq!(seen.line(), "POST /a/mcp/?k=s3cret HTTP/1.1");
        assert_eq!(seen.body, r#"{"a":"あ"}"#);
        let host = peer.0.local_addr().unwrap().to_string();
        for (name, value) in [
            ("host", host.as_str()),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("content-length", "11"),
            ("authorization", "Bearer s3cret"),
            ("mcp-protocol-version", "2025-11-25"),
            ("mcp-session-id", "s3cret"),
        ] {
            assert_eq!(seen.field(name), Some(value), "{name}");
        }
        assert_eq!(seen.head.matches("x-two").count(), 2);
        assert_eq!(seen.field("transfer-encoding"), None);

        let delete = Frame {
            verb: Verb::Delete,
            body: Bytes::new(),
            ..frame
        };
        let serve = async { peer.accept().await.answer("HTTP/1.1 200 OK\r\n\r\n").await };
        let (reply, seen) = tokio::join!(link.request(delete), serve);
        assert_eq!(reply.unwrap().head.status, 200);
        assert_eq!(seen.line(), "DELETE /a/mcp/?k=s3cret HTTP/1.1");
        assert_eq!(seen.field("mcp-session-id"), Some("s3cret"));
        assert_eq!(seen.field("authorization"), Some("Bearer s3cret"));
        for name in [
            "content-length",
            "content-type",
            "transfer-encoding",
            "accept",
        ] {
            assert_eq!(seen.field(name), None, "{name}");
        }
    })
    .await;
    assert_eq!(link.target(), peer.url("/a/mcp/"));
    assert!(!format!("{link:?}").contains("s3cret"));
}

#[test]
fn headers_that_the_transport_lives_by_cannot_be_configured() {
    for name in [
        "accept",
        "content-length",
        "transfer-encoding",
        "mcp-session-id",
    ] {
        let headers = [(
            HeaderName::from_static(name),
            HeaderValue::from_static("s3cret"),
        )];
        let error = HttpLink::new("http://h/", with(headers), &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{name}");
        assert!(error.to_string().contains(name), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn the_head_of_an_answer_is_read() {
    let (reply, ..) = answered(
        "HTTP/1.1 401 Unauthorized\r\nmcp-session-id:  5f2d \r\n\
         WWW-Authenticate: Bearer realm=\"a\"\r\nwww-authenticate: Basic\r\n\
         content-length: 0\r\n\r\n",
    )
    .await;
    let head = reply.unwrap().head;
    assert_eq!(head.status, 401);
    assert_eq!(head.session_id.unwrap().as_str(), "5f2d");
    assert_eq!(
        head.authenticate.as_deref(),
        Some("Bearer realm=\"a\", Basic")
    );
}

// Covers R-1207.
#[tokio::test]
async fn a_body_is_judged_by_its_media_type() {
    use Media::{Json, Other, Sse};
    // Content-Type line, status, body, expected media
    let table = [
        ("content-type: application/json", 200, "{}", Json),
        (
            "content-type: Application/JSON ;charset=\"UTF-8\"",
            200,
            "{}",
            Json,
        ),
        ("content-type: application/json", 404, "{}", Json),
        (
            "content-type: TEXT/event-stream; charset=utf-8",
            200,
            "",
            Sse,
        ),
        ("content-type: application/jsonp", 200, "{}", Other),
        ("content-type: text/html", 500, "<p>", Other),
        ("x: y", 200, "{}", Json),
        ("x: y", 200, " \r\n [1]", Json),
        ("x: y", 202, "", Other),
        ("x: y", 200, "  ", Other),
        ("x: y", 200, "Accepted", Other),
        ("x: y", 400, "{}", Other),
        ("content-type:", 200, "{}", Json),
    ];
    for (line, status, body, media) in table {
        let len = body.len();
        let (reply, ..) = answered(format!(
            "HTTP/1.1 {status} X\r\n{line}\r\nContent-Length: {len}\r\n\r\n{body}"
        ))
        .await;
        let mut reply = reply.unwrap();
        assert_eq!(reply.head.media, media, "`{line}` {status} `{body}`");
        let expected: &[&str] = if media == Json { &[body] } else { &[] };
        assert_eq!(
            all(&mut reply).await,
            expected,
            "`{line}` {status} `{body}`"
        );
    }
}

#[tokio::test]
async fn a_json_body_is_one_message_in_any_pieces() {
    let body = r#"{"result":"あ"}"#;
    let len = body.len();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let table = [
        format!("{head}Content-Length: {len}\r\n\r\n{body}"),
        format!(
            "{head}Transfer-Encoding: chunked\r\n\r\n{}{END}",
            chunk(body)
        ),
        format!(
            "{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{\"\r\n{}{END}",
            chunk(&body[2..])
        ),
        format!("{head}Connection: close\r\n\r\n{body}"),
        format!("HTTP/1.1 100 Continue\r\n\r\n{head}Content-Length: {len}\r\n\r\n{body}"),
    ];
    for bytes in table {
        let (reply, _link, wire) = answered(&bytes).await;
        drop(wire);
        assert_eq!(all(&mut reply.unwrap()).await, [body], "{bytes}");
    }
    for empty in ["", " \r\n"] {
        let (reply, ..) = answered(json(empty)).await;
        assert!(all(&mut reply.unwrap()).await.is_empty(), "`{empty}`");
    }
}

// Covers R-1207, R-1504.
#[tokio::test]
async fn sse_events_are_messages_in_any_split() {
    let body = "\
        : hello\n\n\
        event: message\ndata: {\"a\":1}\n\n\
        data:{\"b\":\r\ndata:2}\r\n\r\n\
        event: ping\ndata: {\"not\":1}\n\n\
        id: 7\ndata:\n\n\
        event\ndata: {\"c\":3}\n\n\
        data: {\"d\":4}\n";
    let expected = ["{\"a\":1}", "{\"b\":\n2}", "{\"c\":3}", "{\"d\":4}"];
    let whole = [SSE_HEAD, &chunk(body), END].concat();
    let (reply, ..) = answered(&whole).await;
    assert_eq!(all(&mut reply.unwrap()).await, expected, "in one write");

    let singles: String = body.chars().map(|c| chunk(&c.to_string())).collect();
    let (reply, ..) = answered([SSE_HEAD, &singles, END].concat()).await;
    assert_eq!(
        all(&mut reply.unwrap()).await,
        expected,
        "a chunk each byte"
    );

    let (link, mut connections) = piped(&Limits::default());
    let peer = async {
        let mut wire = connections.recv().await.unwrap();
        wire.read().await.unwrap();
        for byte in whole.bytes() {
            wire.write([byte]).await;
            tokio::task::yield_now().await;
        }
    };
    let client = async { all(&mut link.request(post("{}")).await.unwrap()).await };
    let (messages, ()) = on_time(async { tokio::join!(client, peer) }).await;
    assert_eq!(messages, expected, "byte by byte");
}

#[tokio::test]
async fn an_event_is_there_before_the_next_is_sent() {
    let (link, mut connections) = piped(&Limits::default());
    on_time(async {
        let sent = tokio::spawn(link.request(post("{}")));
        let mut wire = connections.recv().await.unwrap();
        wire.answer(SSE_HEAD).await;
        let mut reply = sent.await.unwrap().unwrap();
        for n in 0..5 {
            wire.write(chunk(&format!("data: {n}\n\n"))).await;
            let message = next(&mut *reply.messages).await.unwrap().unwrap();
            assert_eq!(message, n.to_string());
        }
    })
    .await;
}

#[tokio::test]
async fn an_event_costs_one_wake_up() {
    struct Count(AtomicUsize);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = count.clone().into();
    let mut cx = Context::from_waker(&waker);
    let (reply, _link, mut wire) = answered(SSE_HEAD).await;
    let mut messages = reply.unwrap().messages;
    assert!(messages.poll_next(&mut cx).is_pending());
    for n in 1..=3 {
        wire.write(chunk("data: 1\n\n")).await;
        assert!(messages.poll_next(&mut cx).is_ready(), "event {n}");
        assert!(messages.poll_next(&mut cx).is_pending(), "event {n}");
        assert_eq!(count.0.load(Relaxed), n);
    }
}

// Covers R-1508.
#[tokio::test]
async fn a_flood_of_empty_events_is_skipped() {
    let flood = chunk(&":\nevent: x\n\n".repeat(300_000));
    let bytes = [SSE_HEAD, &flood, &chunk("data: 1\n\n"), END].concat();
    let (link, mut connections) = piped(&Limits::default());
    let peer = async { connections.recv().await.unwrap().answer(bytes).await };
    let client = async { all(&mut link.request(post("{}")).await.unwrap()).await };
    let (messages, _) = on_time(async { tokio::join!(client, peer) }).await;
    assert_eq!(messages, ["1"]);
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let peer = Peer::bind().await;
    let link = peer.link();
    let sse = [SSE_HEAD, &chunk("data: 1\n\n"), END].concat();
    // answer, what its reader does with it
    let table: [(String, &str); 6] = [
        (json("1"), "reads"),
        (sse.clone(), "reads"),
        (sse.clone(), "finishes"),
        (sse, "drops"),
        (
            "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".into(),
            "drops",
        ),
        (
            "HTTP/1.1 500 X\r\nContent-Length: 4\r\n\r\noops".into(),
            "excerpts",
        ),
    ];
    on_time(async {
        let mut wire = None;
        for (answer, reader) in table {
            let peer_side = async {
                let mut open = match wire.take() {
                    Some(open) => open,
                    None => peer.accept().await,
                };
                open.answer(&answer).await;
                open
            };
            let (reply, open) = tokio::join!(link.request(post("{}")), peer_side);
            wire = Some(open);
            let mut reply = reply.unwrap();
            match reader {
                "reads" => assert_eq!(all(&mut reply).await, ["1"], "{answer}"),
                "finishes" => {
                    next(&mut *reply.messages).await.unwrap().unwrap();
                    reply.messages.finish();
                }
                "excerpts" => assert_eq!(excerpt(&mut reply, 64).await, "oops"),
                _ => drop(reply),
            }
            assert_eq!(link.0.pool.idle_count(), 1, "{reader} {answer}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_late_terminator_lets_a_finished_connection_be_used_again() {
    let (link, mut connections) = piped(&Limits::default());
    on_time(async {
        let sent = tokio::spawn(link.request(post("{}")));
        let mut wire = connections.recv().await.unwrap();
        wire.answer(SSE_HEAD.to_owned() + &chunk("data: 1\n\n"))
            .await;
        let mut reply = sent.await.unwrap().unwrap();
        assert_eq!(next(&mut *reply.messages).await.unwrap().unwrap(), "1");
        reply.messages.finish();
        wire.write(chunk(": bye\n\n") + END).await;

        let sent = tokio::spawn(link.request(post("{}")));
        wire.answer(json("2")).await;
        assert_eq!(all(&mut sent.await.unwrap().unwrap()).await, ["2"]);
        assert!(connections.try_recv().is_err(), "no second connection");
    })
    .await;
}

#[tokio::test]
async fn a_finished_answer_that_does_not_end_is_given_up_at_the_next_request() {
    let (link, mut connections) = piped(&Limits::default());
    on_time(async {
        let sent = tokio::spawn(link.request(post("{}")));
        let mut first = connections.recv().await.unwrap();
        first
            .answer(SSE_HEAD.to_owned() + &chunk("data: 1\n\n"))
            .await;
        let mut reply = sent.await.unwrap().unwrap();
        next(&mut *reply.messages).await.unwrap().unwrap();
        reply.messages.finish();
        let sent = tokio::spawn(link.request(post("{}")));
        let mut second = connections.recv().await.unwrap();
        second.answer(json("2")).await;
        assert_eq!(all(&mut sent.await.unwrap().unwrap()).await, ["2"]);
        assert!(first.hung_up().await);
    })
    .await;
}

#[tokio::test]
async fn dropping_a_reply_midway_or_its_request_hangs_up() {
    let (link, mut connections) = piped(&Limits::default());
    on_time(async {
        let sent = tokio::spawn(link.request(post("{}")));
        let mut wire = connections.recv().await.unwrap();
        wire.answer(SSE_HEAD.to_owned() + &chunk("data: 1\n\n"))
            .await;
        let mut reply = sent.await.unwrap().unwrap();
        next(&mut *reply.messages).await.unwrap().unwrap();
        drop(reply);
        assert!(wire.hung_up().await, "a reply");

        let sent = tokio::spawn(link.request(post("{}")));
        let mut wire = connections.recv().await.unwrap();
        wire.read().await.unwrap();
        sent.abort();
        assert!(wire.hung_up().await, "a request");
        assert_eq!(link.0.pool.idle_count(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_pooled_connection_that_died_is_replaced_silently() {
    let peer = Peer::bind().await;
    let link = peer.link();
    on_time(async {
        for n in 0..3 {
            let serve = async {
                let mut wire = peer.accept().await;
                wire.answer(json("1")).await;
                wire
            };
            let (reply, wire) = tokio::join!(link.request(post("{}")), serve);
            assert_eq!(all(&mut reply.unwrap()).await, ["1"], "request {n}");
            assert_eq!(link.0.pool.idle_count(), 1, "request {n}");
            // The next round finds it dead, once the runtime has asked the kernel.
            drop(wire);
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A stream that, once armed, says "not yet" to one read and then that the peer has gone.
struct Dying {
    io: DuplexStream,
    reads_left: Arc<AtomicUsize>,
}

impl AsyncRead for Dying {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.reads_left.load(Relaxed) {
            usize::MAX => Pin::new(&mut self.io).poll_read(cx, buf),
            0 => Poll::Ready(Ok(())),
            left => {
                self.reads_left.store(left - 1, Relaxed);
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Dying {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn a_request_of_which_nothing_left_is_sent_on_a_new_connection() {
    let reads_left = Arc::new(AtomicUsize::new(usize::MAX));
    let (opened, mut connections) = mpsc::unbounded_channel();
    let first = Mutex::new(Some(reads_left.clone()));
    let connect = move || {
        let (io, theirs) = tokio::io::duplex(64 * 1024);
        opened.send(Wire(theirs)).unwrap();
        let reads_left = first.lock().unwrap().take();
        let reads_left = reads_left.unwrap_or_else(|| Arc::new(usize::MAX.into()));
        Ok(Dying { io, reads_left })
    };
    let link = HttpLink::in_memory(connect, &Limits::default()).unwrap();
    on_time(async {
        let sent = tokio::spawn(link.request(post("{}")));
        let mut first = connections.recv().await.unwrap();
        first.answer(json("1")).await;
        assert_eq!(all(&mut sent.await.unwrap().unwrap()).await, ["1"]);

        // Alive when it is taken from the pool, dead before the request is written.
        reads_left.store(1, Relaxed);
        let sent = tokio::spawn(link.request(post("{}")));
        let mut second = connections.recv().await.unwrap();
        second.answer(json("2")).await;
        assert_eq!(all(&mut sent.await.unwrap().unwrap()).await, ["2"]);
        assert!(
            first.read().await.is_none(),
            "nothing was written to the first"
        );
    })
    .await;
}

#[tokio::test]
async fn a_request_that_was_read_is_never_repeated() {
    let answers = ["", "HTTP/1.1 200 OK\r\nContent-", "HTTP/9 nonsense\r\n\r\n"];
    for answer in answers {
        // On a new connection, then on one that has already served.
        for served in [false, true] {
            let (link, mut connections) = piped(&Limits::default());
            on_time(async {
                let peer = async {
                    let mut wire = connections.recv().await.unwrap();
                    if served {
                        wire.answer(json("1")).await;
                    }
                    wire.answer(answer).await;
                };
                let client = async {
                    if served {
                        all(&mut link.request(post("{}")).await.unwrap()).await;
                    }
                    link.request(post("{}")).await.unwrap_err()
                };
                let (error, ()) = tokio::join!(client, peer);
                assert!(matches!(error, Error::Transport { .. }), "{error:?}");
                assert!(error.source().is_some(), "{answer}");
                let text = error.to_string();
                assert!(text.contains("http://localhost/mcp"), "{text}");
                assert!(connections.try_recv().is_err(), "repeated after `{answer}`");
            })
            .await;
        }
    }
}

/// Asks `/mcp`, where each request is answered with the redirect until another path is asked.
/// Gives the outcome and the request lines seen.
async fn redirected(
    peer: &Peer,
    status: u16,
    location: &str,
) -> (Result<Vec<String>, Error>, Vec<String>) {
    let token = HeaderValue::from_static("Bearer s3cret");
    let headers = [(header::AUTHORIZATION, token)];
    let link = HttpLink::new(&peer.url("/mcp"), with(headers), &Limits::default()).unwrap();
    let serve = async {
        let mut wire = peer.accept().await;
        let mut lines = Vec::new();
        while let Some(seen) = wire.read().await {
            assert_eq!(seen.field("authorization"), Some("Bearer s3cret"));
            assert_eq!(seen.body, r#"{"id":1}"#, "{status} {location}");
            lines.push(seen.line().to_owned());
            wire.write(match seen.line() {
                "POST /mcp HTTP/1.1" => format!(
                    "HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
                ),
                _ => json("1"),
            })
            .await;
        }
        lines
    };
    let client = async {
        let reply = link.request(post(r#"{"id":1}"#)).await;
        link.close();
        match reply {
            Ok(mut reply) => Ok(all(&mut reply).await),
            Err(error) => Err(error),
        }
    };
    on_time(async { tokio::join!(client, serve) }).await
}

// Covers R-1212.
#[tokio::test]
async fn a_redirect_within_the_origin_takes_the_whole_request_along() {
    let peer = Peer::bind().await;
    let absolute = peer.url("/mcp/?x=1");
    let table = [
        (307, "/mcp/", "/mcp/"),
        (308, &absolute, "/mcp/?x=1"),
        (307, "v2/mcp", "/v2/mcp"),
    ];
    for (status, location, path) in table {
        let (outcome, lines) = redirected(&peer, status, location).await;
        assert_eq!(outcome.unwrap(), ["1"], "{status} {location}");
        assert_eq!(lines[1..], [format!("POST {path} HTTP/1.1")]);
    }
}

// Covers R-1212, R-1704.
#[tokio::test]
async fn any_other_redirect_is_an_error_that_says_where_to() {
    let peer = Peer::bind().await;
    let login = peer.url("/login?k=s3cret");
    // status, Location, a part of the error text, requests sent
    let table = [
        (301, "/mcp/", "to /mcp/, which is not followed", 1),
        (302, &login, "/login, which is not followed", 1),
        (303, "/mcp/", "change the URL", 1),
        (
            307,
            "http://other.example/mcp?k=s3cret",
            "to http://other.example/mcp,",
            1,
        ),
        (
            308,
            "https://u:s3cret@other.example/",
            "to https://other.example/,",
            1,
        ),
        (
            308,
            "/mcp",
            "more than 5 redirects (`max_redirects`), the last one to /mcp",
            6,
        ),
    ];
    for (status, location, part, requests) in table {
        let (outcome, lines) = redirected(&peer, status, location).await;
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, Error::Http { status: s, .. } if s == status),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(
            text.contains(part) && text.contains(&status.to_string()),
            "{location}: {text}"
        );
        assert!(!text.contains("s3cret"), "{text}");
        assert_eq!(lines.len(), requests, "{status} {location}");
    }
    let (reply, ..) = answered("HTTP/1.1 308 X\r\nContent-Length: 0\r\n\r\n").await;
    assert!(reply.unwrap_err().to_string().contains("leads nowhere"));
}

#[tokio::test]
async fn a_status_without_an_answer_gives_an_excerpt() {
    // body, bound, excerpt
    let table: [(&[u8], usize, &str); 6] = [
        (b"<html>\r\n\x1b[1mno\t", 64, "<html>   [1mno"),
        ("ああ".as_bytes(), 4, "あ"),
        (b"a\xff\xfeb", 64, "a\u{fffd}\u{fffd}b"),
        (b"0123456789", 4, "0123"),
        (b"", 64, ""),
        (b"  \r\n", 64, ""),
    ];
    for (body, max, expected) in table {
        let mut bytes = format!(
            "HTTP/1.1 500 X\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend(body);
        let (reply, _link, _wire) = answered(bytes).await;
        let mut reply = reply.unwrap();
        assert_eq!((reply.head.status, reply.head.media), (500, Media::Other));
        assert!(next(&mut *reply.messages).await.is_none());
        assert_eq!(excerpt(&mut reply, max).await, expected, "{body:?}");
    }
    // A body that fails midway.
    let (reply, _link, wire) = answered("HTTP/1.1 502 X\r\nContent-Length: 9\r\n\r\nbad ga").await;
    drop(wire);
    assert_eq!(excerpt(&mut reply.unwrap(), 64).await, "bad ga");
}

// Covers R-809.
#[tokio::test]
async fn a_message_over_the_cap_is_the_limit_by_name() {
    let limits = Limits {
        max_client_message_bytes: 1000,
        ..Limits::default()
    };
    let long = "1".repeat(1001);
    let fits = "1".repeat(1000);
    let sse = |data: &str| [SSE_HEAD, &chunk(&format!("data: {data}\n\n")), END].concat();
    let table = [
        (json(&fits), true),
        (json(&long), false),
        (sse("1"), true),
        (sse(&long), false),
        (
            SSE_HEAD.to_owned() + &chunk(&format!("data: {long}")),
            false,
        ),
    ];
    for (bytes, passes) in table {
        let (link, mut connections) = piped(&limits);
        on_time(async {
            let sent = tokio::spawn(link.request(post("{}")));
            let mut wire = connections.recv().await.unwrap();
            wire.answer(&bytes).await;
            let mut reply = sent.await.unwrap().unwrap();
            let first = next(&mut *reply.messages).await.unwrap();
            if passes {
                first.unwrap();
                return;
            }
            let what = "max_client_message_bytes";
            assert!(
                matches!(first, Err(Error::Limit { what: w, max: 1000, .. }) if w == what),
                "{first:?}"
            );
            assert!(next(&mut *reply.messages).await.is_none(), "once");
            assert!(wire.hung_up().await, "nothing more is read");
        })
        .await;
    }
}

#[tokio::test]
async fn a_break_in_an_event_keeps_what_came_before_it() {
    let started = [
        SSE_HEAD,
        &chunk("data: 1\n\ndata: 2\n\n"),
        "ff\r\ndata: {\"cut",
    ]
    .concat();
    for reset in [false, true] {
        let peer = Peer::bind().await;
        let link = peer.link();
        on_time(async {
            let serve = async {
                let mut wire = peer.accept().await;
                wire.answer(&started).await;
                wire
            };
            let (reply, wire) = tokio::join!(link.request(post("{}")), serve);
            let mut messages = reply.unwrap().messages;
            for expected in ["1", "2"] {
                assert_eq!(next(&mut *messages).await.unwrap().unwrap(), expected);
            }
            if reset {
                wire.0.set_zero_linger().unwrap();
            }
            drop(wire);
            let error = next(&mut *messages).await.unwrap().unwrap_err();
            assert!(matches!(error, Error::Transport { .. }), "{error:?}");
            let text = chain(&error);
            assert!(text.starts_with("the connection broke before the answer ended < "));
            let io = text.to_lowercase();
            assert!(!reset || io.contains("reset"), "{text}");
            assert!(next(&mut *messages).await.is_none(), "once");
            assert_eq!(link.0.pool.idle_count(), 0);
        })
        .await;
    }
}

#[tokio::test]
async fn both_families_of_localhost_are_found() {
    for (address, host) in [
        ("127.0.0.1:0", "localhost"),
        ("[::1]:0", "localhost"),
        ("[::1]:0", "[::1]"),
    ] {
        let Ok(listener) = TcpListener::bind(address).await else {
            println!("{address} does not exist on this machine");
            continue;
        };
        let authority = format!("{host}:{}", listener.local_addr().unwrap().port());
        let link = link(&format!("http://{authority}/mcp"));
        let serve = async {
            Wire(listener.accept().await.unwrap().0)
                .answer(json("1"))
                .await
        };
        let (reply, seen) = on_time(async { tokio::join!(link.request(post("{}")), serve) }).await;
        assert_eq!(all(&mut reply.unwrap()).await, ["1"], "{address} as {host}");
        assert_eq!(seen.field("host"), Some(authority.as_str()));
    }
}

#[tokio::test]
async fn a_refused_connection_names_its_place_and_cause() {
    let peer = Peer::bind().await;
    let address = peer.0.local_addr().unwrap();
    let link = peer.link();
    drop(peer);
    let error = on_time(link.request(post("{}"))).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(error.to_string(), format!("could not connect to {address}"));
    let cause = error.source().unwrap().downcast_ref::<std::io::Error>();
    assert_eq!(cause.unwrap().kind(), std::io::ErrorKind::ConnectionRefused);
}

// Covers R-1215.
#[tokio::test]
async fn a_post_does_not_wait_for_another_ones_answer() {
    let peer = Peer::bind().await;
    let link = peer.link();
    on_time(async {
        let serve = async {
            let mut first = peer.accept().await;
            first.read().await.unwrap();
            let mut second = peer.accept().await;
            second.answer(json("2")).await;
            first.write(json("1")).await;
            (first, second)
        };
        let one = async { all(&mut link.request(post("{}")).await.unwrap()).await };
        let two = async { all(&mut link.request(post("{}")).await.unwrap()).await };
        let (one, two, _wires) = tokio::join!(one, two, serve);
        assert_eq!([one, two].concat(), ["1", "2"]);
    })
    .await;
}

/// `count` connections at once, all idle afterwards; and their far ends, in order of connection.
async fn idle_connections(
    link: &HttpLink,
    connections: &mut mpsc::UnboundedReceiver<Wire<DuplexStream>>,
    count: usize,
) -> Vec<Wire<DuplexStream>> {
    let mut pairs = Vec::new();
    for _ in 0..count {
        let sent = tokio::spawn(link.request(post("{}")));
        let mut wire = connections.recv().await.unwrap();
        wire.read().await.unwrap();
        pairs.push((sent, wire));
    }
    let mut wires = Vec::new();
    for (sent, mut wire) in pairs {
        wire.write(json("1")).await;
        assert_eq!(all(&mut sent.await.unwrap().unwrap()).await, ["1"]);
        wires.push(wire);
    }
    wires
}

#[tokio::test(start_paused = true)]
async fn the_pool_keeps_few_connections_and_not_for_long() {
    let limits = Limits {
        max_idle_connections: 2,
        ..Limits::default()
    };
    let (link, mut connections) = piped(&limits);
    let pool = &link.0.pool;

    let mut wires = idle_connections(&link, &mut connections, 3).await;
    assert_eq!(pool.idle_count(), 2);
    assert!(wires[0].hung_up().await, "the oldest made room");

    link.sweep();
    assert_eq!(pool.idle_count(), 2, "both are young and alive");
    drop(wires.pop());
    link.sweep();
    assert_eq!(pool.idle_count(), 1, "a dead one is swept");

    tokio::time::advance(limits.pool_idle_timeout).await;
    link.sweep();
    assert_eq!(pool.idle_count(), 0, "an old one is swept");
    assert!(wires[1].hung_up().await);

    let mut old = idle_connections(&link, &mut connections, 1).await;
    tokio::time::advance(limits.pool_idle_timeout).await;
    let _new = idle_connections(&link, &mut connections, 1).await;
    assert!(old[0].hung_up().await, "an old one is not used either");

    link.close();
    assert_eq!(pool.idle_count(), 0);
    idle_connections(&link, &mut connections, 1).await;
    assert_eq!(pool.idle_count(), 0, "a closed pool keeps nothing");
}

#[tokio::test]
async fn unasked_bytes_spoil_an_idle_connection() {
    let (link, mut connections) = piped(&Limits::default());
    on_time(async {
        let mut wires = idle_connections(&link, &mut connections, 1).await;
        wires[0].write(json("\"for nobody\"")).await;
        let _second = idle_connections(&link, &mut connections, 1).await;
        assert!(wires[0].hung_up().await);
    })
    .await;
}

/// A request that crossed the end of its connection is made again; one that may have run is not,
/// however late it was answered.
#[tokio::test]
async fn only_a_request_that_no_server_read_is_made_again() {
    const LATE: &str = "HTTP/1.1 408 Request Timeout\r\n";
    let unasked = format!("{LATE}Connection: close\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n");
    for (case, refusal, requests) in [
        ("at once", &*unasked, 4),
        ("it stays open", &unasked.replace("close", "keep-alive"), 1),
        ("later", &unasked.replace("After: 0", "After: 1"), 1),
        (
            "no word of when",
            &unasked.replace("Retry-After: 0\r\n", ""),
            1,
        ),
        ("another status", &unasked.replace("408", "503"), 1),
    ] {
        let (link, mut connections) = piped(&Limits::default());
        on_time(async {
            let mut used = idle_connections(&link, &mut connections, 1).await;
            let answer = link.request(post("[7]"));
            let serve = async {
                assert_eq!(used[0].answer(refusal).await.body, "[7]", "{case}");
                // It is not made again without an end.
                for _ in 1..requests {
                    let mut wire = connections.recv().await.unwrap();
                    assert_eq!(wire.answer(refusal).await.body, "[7]", "{case}");
                }
            };
            let (reply, ()) = tokio::join!(answer, serve);
            assert!(matches!(reply.unwrap().head.status, 408 | 503), "{case}");
            assert!(connections.try_recv().is_err(), "{case}");
        })
        .await;
    }
    // The next connection may do.
    let (link, mut connections) = piped(&Limits::default());
    on_time(async {
        let mut used = idle_connections(&link, &mut connections, 1).await;
        let serve = async {
            used[0].answer(&unasked).await;
            connections.recv().await.unwrap().answer(json("1")).await
        };
        let (reply, seen) = tokio::join!(link.request(post("[7]")), serve);
        assert_eq!(seen.body, "[7]");
        assert_eq!(all(&mut reply.unwrap()).await, ["1"]);
    })
    .await;
}
