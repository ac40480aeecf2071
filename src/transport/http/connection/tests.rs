use std::io;
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::time::{sleep, timeout};

use super::super::toy::{
    Client, UNASKED, connect, connect_with_room, echo, json, now, outbound, post, service,
    service_and_drops, source, streaming,
};
use super::*;
use crate::limits::Limits;
use crate::transport::OutboundBody;

fn limits() -> Limits {
    Limits::default()
}

const SECOND: Duration = Duration::from_secs(1);

/// Notes each write as one string.
struct Writes {
    io: DuplexStream,
    log: Arc<Mutex<Vec<String>>>,
}

impl AsyncRead for Writes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Writes {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        self.log.lock().unwrap().push(text);
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let joined: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        self.poll_write(cx, &joined)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn what_is_ready_together_leaves_in_one_write() {
    let (source, events, _dropped) = source();
    let (near, far) = tokio::io::duplex(1024 * 1024);
    let log = Arc::new(Mutex::new(Vec::new()));
    let io = Writes {
        io: far,
        log: log.clone(),
    };
    let service = streaming(source, &limits());
    tokio::spawn(async move { serve_io(io, service, &Shutdown::new()).await });
    let mut client = Client::new(near);

    events.send(b"data: 1\n\n".to_vec()).unwrap();
    client.post("{}").await;
    client.until("data: 1\n\n\r\n").await;
    events.send(b"data: 2\n\n".to_vec()).unwrap();
    client.until("data: 2\n\n\r\n").await;
    events.send(b"data: 3\n\n".to_vec()).unwrap();
    drop(events);
    client.until("0\r\n\r\n").await;

    let log = log.lock().unwrap();
    assert_eq!(log.len(), 3, "{log:?}");
    assert!(log[0].starts_with("HTTP/1.1 200 OK\r\n"), "{log:?}");
    assert!(log[0].ends_with("\r\n\r\n9\r\ndata: 1\n\n\r\n"), "{log:?}");
    assert_eq!(log[1], "9\r\ndata: 2\n\n\r\n");
    assert_eq!(log[2], "9\r\ndata: 3\n\n\r\n0\r\n\r\n");
}

// Covers R-1205.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_kept_alive_by_comments() {
    let (source, events, _dropped) = source();
    let mut client = connect(streaming(source, &limits())).patient();
    let start = now();
    client.post("{}").await;
    client.head().await;
    for (wait, sent, expected, at) in [
        (0, "", ": keep-alive\n\n", 15),
        (0, "", ": keep-alive\n\n", 30),
        (1, "data: 1\n\n", "data: 1\n\n", 31),
        (14, "data: 2\n\n", "data: 2\n\n", 45),
        (0, "", ": keep-alive\n\n", 60),
        (0, "", ": keep-alive\n\n", 75),
    ] {
        if !sent.is_empty() {
            sleep(wait * SECOND).await;
            events.send(sent.as_bytes().to_vec()).unwrap();
        }
        let chunk = format!("{:X}\r\n{expected}\r\n", expected.len());
        assert_eq!(client.until("\n\n\r\n").await, chunk, "at {at} s");
        // tokio's timers count whole milliseconds.
        let off = start.elapsed().abs_diff(at * SECOND);
        assert!(off < Duration::from_millis(10), "at {at} s: {off:?} off");
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_has_to_come_in_time() {
    for (case, first, slowly, bound) in [
        ("nothing at all", "", "", 10),
        ("a part", "POST /mcp HT", "", 10),
        ("byte by byte", "", "POST /mcp HTTP/1.1\r\n", 10),
        ("empty lines", "\r\n\r\n", "\r\n\r\n\r\n\r\n", 10),
    ] {
        let (near, far) = tokio::io::duplex(1024);
        let (service, _) = echo(&limits());
        let start = now();
        let served = tokio::spawn(async move { serve_io(far, service, &Shutdown::new()).await });
        let mut client = Client::new(near).patient();
        client.send(first).await;
        let (mut read, mut write) = tokio::io::split(client.io);
        let drip = tokio::spawn(async move {
            for byte in slowly.bytes() {
                sleep(2 * SECOND).await;
                let _ = write.write_all(&[byte]).await;
            }
            write
        });
        served.await.unwrap();
        assert_eq!(start.elapsed().as_secs(), bound, "{case}");
        assert_eq!(limits().header_read_timeout.as_secs(), bound, "{case}");
        drip.abort();
        let mut rest = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut read, &mut rest).await;
        assert_eq!(rest, b"", "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_ends_later_than_one_with_half_a_head() {
    let bounds = [
        limits().idle_connection_timeout,
        limits().header_read_timeout,
    ];
    assert_eq!(bounds.map(|bound| bound.as_secs()), [75, 10]);
    for (case, sent, bound) in [("idle", "", 75), ("half a head", "POST", 20 + 10)] {
        let mut client = connect(echo(&limits()).0).patient();
        // Idle time is counted anew after each answer.
        for _ in 0..3 {
            client.post("{}").await;
            assert_eq!(client.answer().await.status, 200, "{case}");
            sleep(60 * SECOND).await;
        }
        client.post("{}").await;
        client.answer().await;
        let start = now();
        sleep(20 * SECOND).await;
        client.send(sent).await;
        // Without a word, which an old curl would take for its next answer.
        assert_eq!(client.rest().await, "", "{case}");
        assert_eq!(start.elapsed().as_secs(), bound, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_may_take_its_time() {
    let (source, events, _dropped) = source();
    let mut client = connect(streaming(source, &limits())).patient();
    client.post("{}").await;
    client.head().await;
    sleep(3 * 60 * 60 * SECOND).await;
    events.send(b"data: 1\n\n".to_vec()).unwrap();
    client.until("data: 1\n\n").await;
    drop(events);
    client.until("0\r\n\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_is_given_up() {
    let (source, events, dropped) = source();
    let mut client = connect_with_room(streaming(source, &limits()), 1000).patient();
    client.post("{}").await;
    client.head().await;
    let start = now();
    for _ in 0..2000 {
        events.send(vec![b'x'; 100]).unwrap();
    }
    // A reader that takes a little now and then is slow, not stalled.
    for _ in 0..10 {
        sleep(290 * SECOND).await;
        client.more().await;
    }
    assert!(!events.is_closed());
    dropped.await.unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 10 * 290 + 300);
    assert_eq!(limits().stalled_reader_timeout.as_secs(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_of_a_large_answer_is_not_idle() {
    let large = "x".repeat(100_000);
    let answer = json(&large);
    let answer = Mutex::new(Some(answer));
    let service = service(&limits(), move |_| answer.lock().unwrap().take());
    let mut client = connect_with_room(service, 10_000).patient();
    client.post("{}").await;
    for _ in 0..5 {
        sleep(100 * SECOND).await;
        client.more().await;
    }
    assert_eq!(client.answer().await.body, large);
    let start = now();
    assert_eq!(client.rest().await, "");
    assert_eq!(start.elapsed().as_secs(), 75);
}

#[tokio::test]
async fn a_disconnect_is_noticed_without_a_write() {
    // Before the head of the answer.
    let (service, mut drops) = service_and_drops(&limits(), |_| None);
    let mut client = connect(service);
    client.post("{}").await;
    assert!(
        timeout(Duration::from_millis(50), drops.recv())
            .await
            .is_err()
    );
    drop(client);
    let told = timeout(SECOND, drops.recv()).await;
    assert_eq!(told, Ok(Some(())), "while the exchange runs");

    // In the middle of a stream.
    let (source, _events, dropped) = source();
    let mut client = connect(streaming(source, &limits()));
    client.post("{}").await;
    client.head().await;
    drop(client);
    assert!(
        timeout(SECOND, dropped).await.unwrap().is_err(),
        "while it streams"
    );
}

#[tokio::test]
async fn a_disconnect_is_noticed_behind_what_was_sent_ahead() {
    let next = post("{}");
    let head = next.split_once("{}").unwrap().0;
    let much = format!("{next}{next}{}", post(&"x".repeat(10_000)));
    let too_much = post(&"x".repeat(60_000));
    for (case, ahead) in [
        ("half a head", &next[..10]),
        ("a head", head),
        ("all of the next", &next),
        ("several", &much),
        ("more than is read ahead", &too_much),
    ] {
        for at_once in [true, false] {
            let (service, mut drops) = service_and_drops(&limits(), |_| None);
            let mut client = connect_with_room(service, 64 * 1024);
            match at_once {
                true => client.send(next.clone() + ahead).await,
                false => {
                    client.send(&next).await;
                    tokio::task::yield_now().await;
                    client.send(ahead).await;
                }
            }
            tokio::task::yield_now().await;
            drop(client);
            let told = timeout(SECOND, drops.recv()).await;
            assert_eq!(told, Ok(Some(())), "{case}, at once: {at_once}");

            let (source, events, dropped) = source();
            let mut client = connect_with_room(streaming(source, &limits()), 64 * 1024);
            client.send(next.clone() + ahead).await;
            client.head().await;
            events.send(b"data: 1\n\n".to_vec()).unwrap();
            client.until("data: 1").await;
            drop(client);
            let told = timeout(SECOND, dropped).await;
            assert!(told.unwrap().is_err(), "{case}, while it streams");
        }
    }
}

#[tokio::test]
async fn what_was_sent_ahead_is_answered_in_its_turn() {
    let (service, seen) = echo(&limits());
    let mut client = connect_with_room(service, 64 * 1024);
    let bodies: Vec<String> = [1, 4000, 20_000, 1, 9000]
        .map(|size| format!("\"{}\"", "x".repeat(size)))
        .into();
    let ahead: String = bodies.iter().map(|body| post(body)).collect();
    client.send(ahead).await;
    for body in &bodies {
        assert_eq!(client.answer().await.body, format!("[{body}]"));
    }
    assert_eq!(seen.lock().unwrap().len(), bodies.len());
}

#[tokio::test]
async fn a_source_goes_when_its_stream_ends() {
    let (source, events, dropped) = source();
    let mut client = connect(streaming(source, &limits()));
    client.post("{}").await;
    drop(events);
    assert_eq!(client.answer().await.body, "");
    assert!(timeout(SECOND, dropped).await.unwrap().is_err());
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let mut client = connect(echo(&limits()).0);
    for i in 0..20 {
        client.post(&i.to_string()).await;
        assert_eq!(client.answer().await.body, format!("[{i}]"));
    }
    // Sent ahead, answered in order.
    let ahead: String = (0..20).map(|i| post(&i.to_string())).collect();
    client.send(ahead).await;
    for i in 0..20 {
        assert_eq!(client.answer().await.body, format!("[{i}]"));
    }
    // A refusal of a request without a body costs nobody the connection.
    client
        .send("GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 405);
    client.post("{}").await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn an_unread_body_is_never_taken_for_a_request() {
    let hidden = post("hidden");
    for (case, outer) in [
        ("path", post(&hidden).replacen("/mcp", "/other", 1)),
        (
            "type",
            post(&hidden).replacen("application/json", "text/plain", 1),
        ),
        ("method", post(&hidden).replacen("POST", "PUT", 1)),
        ("delete", post(&hidden).replacen("POST", "DELETE", 1)),
        (
            "chunked",
            post("")
                .replace("Content-Length: 0", "Transfer-Encoding: chunked")
                .replacen("POST", "PUT", 1)
                + &format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len()),
        ),
    ] {
        for at_once in [true, false] {
            let (service, seen) = echo(&limits());
            let mut client = connect(service);
            if at_once {
                client.send(&outer).await;
            } else {
                let at = outer.find("\r\n\r\n").unwrap() + 4;
                client.send(&outer[..at]).await;
                tokio::task::yield_now().await;
                client.send(&outer[at..]).await;
            }
            client.answer().await;
            assert_eq!(client.rest().await, "", "{case}, at once: {at_once}");
            let seen = seen.lock().unwrap();
            assert!(
                seen.iter().all(|inbound| inbound.body.is_empty()),
                "{case}: {seen:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_request_framed_in_two_ways_is_refused() {
    let length = "Content-Length: 30\r\n";
    let coding = "Transfer-Encoding: chunked\r\n";
    let request = |headers: &str| {
        post("").replace("Content-Length: 0\r\n", headers) + "0\r\n\r\nPOST /mcp HTTP/1.1\r\n\r\n"
    };
    for (case, headers) in [
        ("length first", format!("{length}{coding}")),
        ("coding first", format!("{coding}{length}")),
        (
            "apart",
            format!("{coding}A: b\r\n{}", length.to_uppercase()),
        ),
        ("two lengths", format!("{length}Content-Length: 31\r\n")),
        ("odd length", "Content-Length: +3\r\n".to_owned()),
        (
            "odd coding",
            "Transfer-Encoding: chunked, gzip\r\n".to_owned(),
        ),
    ] {
        for size in [1, 50, 10_000] {
            let (service, seen) = echo(&limits());
            let mut client = connect(service);
            client.post("before").await;
            client.answer().await;
            for piece in request(&headers).as_bytes().chunks(size) {
                client.send(piece).await;
                tokio::task::yield_now().await;
            }
            let answer = client.answer().await;
            assert_eq!(answer.status, 400, "{case}, pieces of {size}");
            assert_eq!(client.rest().await, "", "{case}, pieces of {size}");
            assert_eq!(seen.lock().unwrap().len(), 1, "{case}, pieces of {size}");
        }
    }
}

#[tokio::test]
async fn a_body_is_not_taken_for_a_head() {
    let body = "\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    for size in [1, 7, 10_000] {
        let mut client = connect(echo(&limits()).0);
        for _ in 0..3 {
            for piece in post(body).as_bytes().chunks(size) {
                client.send(piece).await;
                tokio::task::yield_now().await;
            }
            let answer = client.answer().await;
            assert_eq!(
                (answer.status, answer.body),
                (200, format!("[{body}]")),
                "{size}"
            );
        }
    }
}

#[tokio::test]
async fn a_malformed_head_is_refused_and_the_connection_closed() {
    let many: String = (0..101).map(|i| format!("X-{i}: y\r\n")).collect();
    for (case, head, status) in [
        ("no HTTP", "hello\r\n\r\n".to_owned(), Some(400)),
        ("HTTP/3", "POST /mcp HTTP/3.0\r\n\r\n".to_owned(), Some(400)),
        ("HTTP/0.9", "GET /mcp\r\n\r\n".to_owned(), Some(400)),
        (
            "a space in a name",
            "POST /mcp HTTP/1.1\r\nHo st: a\r\n\r\n".to_owned(),
            Some(400),
        ),
        (
            "a space before the colon",
            "POST /mcp HTTP/1.1\r\nHost : a\r\n\r\n".to_owned(),
            Some(400),
        ),
        (
            "a folded line",
            "POST /mcp HTTP/1.1\r\nHost: a\r\n b\r\n\r\n".to_owned(),
            Some(400),
        ),
        (
            "a NUL",
            "POST /mcp HTTP/1.1\r\nHost: a\0\r\n\r\n".to_owned(),
            Some(400),
        ),
        (
            "101 headers",
            format!("POST /mcp HTTP/1.1\r\n{many}\r\n"),
            Some(431),
        ),
        (
            "a huge header",
            format!("POST /mcp HTTP/1.1\r\nX: {}", "y".repeat(100_000)),
            Some(431),
        ),
        (
            "HTTP/2",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
            None,
        ),
    ] {
        let (service, seen) = echo(&limits());
        let mut client = connect(service);
        let _ = client.io.write_all(head.as_bytes()).await;
        if let Some(status) = status {
            assert_eq!(client.answer().await.status, status, "{case}");
        }
        assert_eq!(client.rest().await, "", "{case}");
        assert!(seen.lock().unwrap().is_empty(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_client_has_a_moment_to_read_why() {
    let small = Limits {
        max_server_message_bytes: 1000,
        ..limits()
    };
    for (case, patience, sent, closes_after) in [
        ("one that says no more", true, 0, 2),
        ("one that sends what a body may have", true, 900, 2),
        ("one that sends more", true, 5000, 0),
        ("one that hangs up", false, 0, 0),
    ] {
        let (near, far) = tokio::io::duplex(64);
        let (service, _) = echo(&small);
        let start = now();
        let served = tokio::spawn(async move { serve_io(far, service, &Shutdown::new()).await });
        let mut client = Client::new(near).patient();
        let request = post("").replace("Content-Length: 0", "Content-Length: 100000");
        client.send(request).await;
        assert_eq!(client.answer().await.status, 413, "{case}");
        let _ = client.io.write_all(&vec![b'x'; sent]).await;
        if !patience {
            drop(client);
        }
        served.await.unwrap();
        assert_eq!(start.elapsed().as_secs(), closes_after, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_for_the_end_gets_it_at_once() {
    let start = now();
    let mut client = connect(echo(&limits()).0).patient();
    client
        .send(post("{}").replace("Accept", "Connection: close\r\nAccept"))
        .await;
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(client.rest().await, "");

    let mut client = connect(echo(&limits()).0).patient();
    client
        .send(
            post("{}")
                .replace("HTTP/1.1", "HTTP/1.0")
                .replace("Host", "X-Host"),
        )
        .await;
    assert_eq!(client.answer().await.body, "[{}]");
    assert_eq!(client.rest().await, "");
    assert_eq!(start.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_connections_when_they_are_done() {
    for (case, requests, ends_after) in [
        ("fresh", "", 1),
        ("half a head", "POST /mcp", 10),
        ("idle", "POST", 0),
        ("busy", "busy", 60),
    ] {
        let (source, events, _dropped) = source();
        let source = Mutex::new(Some(source));
        let service = service(&limits(), move |inbound| match &inbound.body[..] {
            b"busy" => source
                .lock()
                .unwrap()
                .take()
                .map(|source| outbound(OutboundBody::Stream(Box::new(source)))),
            _ => Some(json("{}")),
        });
        let (near, far) = tokio::io::duplex(1024);
        let shutdown = Shutdown::new();
        let handle = shutdown.clone();
        let served = tokio::spawn(async move { serve_io(far, service, &handle).await });
        let mut client = Client::new(near).patient();
        match case {
            "idle" => {
                client.post("{}").await;
                client.answer().await;
            }
            "busy" => {
                client.post("busy").await;
                client.head().await;
            }
            _ => client.send(requests).await,
        }
        // Everything that was sent is read before the shutdown begins.
        sleep(Duration::from_millis(1)).await;
        let start = now();
        shutdown.shut_down();
        tokio::spawn(async move {
            sleep(60 * SECOND).await;
            drop(events);
        });
        let rest = client.rest().await;
        let wanted = match case {
            "busy" => "0\r\n\r\n".to_owned() + UNASKED,
            "half a head" => String::new(),
            _ => UNASKED.to_owned(),
        };
        assert_eq!(
            rest.replace("E\r\n: keep-alive\n\n\r\n", ""),
            wanted,
            "{case}"
        );
        served.await.unwrap();
        let elapsed = (start.elapsed() + Duration::from_millis(2)).as_secs();
        assert_eq!(elapsed, ends_after, "{case}");
    }
}

/// A request that is on its way when the server begins to drain is answered, and the answer says that
/// it is the last.
#[tokio::test(start_paused = true)]
async fn a_request_on_its_way_is_answered_by_a_server_that_drains() {
    for (case, is_used, after) in [
        ("the first", false, 0),
        ("the first, slow", false, 900),
        ("the next", true, 0),
        ("the next, slow", true, 90),
    ] {
        let (near, far) = tokio::io::duplex(1024);
        let shutdown = Shutdown::new();
        let handle = shutdown.clone();
        let service = echo(&limits()).0;
        let served = tokio::spawn(async move { serve_io(far, service, &handle).await });
        let mut client = Client::new(near).patient();
        if is_used {
            client.post("{}").await;
            assert_eq!(client.answer().await.header("connection"), None, "{case}");
        }
        sleep(Duration::from_millis(1)).await;
        shutdown.shut_down();
        sleep(Duration::from_millis(after)).await;
        client.post("{}").await;
        let answer = client.answer().await;
        assert_eq!(answer.body, "[{}]", "{case}");
        assert_eq!(answer.header("connection"), Some("close"), "{case}");
        assert_eq!(client.rest().await, "", "{case}");
        served.await.unwrap();
    }
}

/// One that comes later is read and thrown away, so that nothing resets the word that it was not run.
#[tokio::test(start_paused = true)]
async fn a_request_that_crosses_the_end_is_not_run() {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let shutdown = Shutdown::new();
    let handle = shutdown.clone();
    let (service, mut drops) = service_and_drops(&limits(), |inbound| {
        (&inbound.body[..] == b"{}").then(|| json("{}"))
    });
    let served = tokio::spawn(async move { serve_io(far, service, &handle).await });
    let mut client = Client::new(near).patient();
    client.post("{}").await;
    client.answer().await;
    shutdown.shut_down();
    sleep(Duration::from_millis(110)).await;
    client.post("[1]").await;
    assert_eq!(client.rest().await, UNASKED);
    client.post("[2]").await;
    drop(client);
    served.await.unwrap();
    assert!(drops.try_recv().is_err());
}
