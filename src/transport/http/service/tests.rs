use std::time::Duration;

use http_body_util::Full;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::super::toy::{
    Answer, connect, echo, json, loopback, now, outbound, post, service, source, streaming,
};
use super::*;
use crate::mcp::frame::SessionId;

/// Sends one request to a service that echoes, and reads the answer.
async fn ask(request: &str) -> Answer {
    ask_within(&Limits::default(), request).await
}

async fn ask_within(limits: &Limits, request: &str) -> Answer {
    let mut client = connect(echo(limits).0);
    client.send(request).await;
    let asked = timeout(Duration::from_secs(20), client.answer());
    asked
        .await
        .unwrap_or_else(|_| panic!("no answer to {request:?}"))
}

/// Asserts that an answer is a refusal as JSON-RPC has it, and gives its text.
fn refusal(answer: &Answer, status: u16, case: &str) -> String {
    assert_eq!(answer.status, status, "{case}: {answer:?}");
    assert_eq!(
        answer.header("content-type"),
        Some("application/json"),
        "{case}"
    );
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["jsonrpc"], "2.0", "{case}");
    assert_eq!(body.get("id"), Some(&Value::Null), "{case}");
    assert_eq!(body["error"]["code"], -32600, "{case}");
    body["error"]["message"].as_str().unwrap().to_owned()
}

fn with_header(header: &str) -> String {
    post("{}").replace("Content-Length", &format!("{header}\r\nContent-Length"))
}

// Covers R-1214.
#[tokio::test]
async fn a_message_reaches_the_exchange_as_it_was_sent() {
    let (service, seen) = echo(&Limits::default());
    let mut client = connect(service);
    let head = "MCP-Protocol-Version:  2025-11-25 \r\nmcp-session-id: 5f2d\r\nMCP-SESSION-ID: 5f2d";
    client.send(with_header(head)).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, &*answer.body), (200, "[{}]"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("content-length"), Some("4"));
    let inbound = seen.lock().unwrap().pop().unwrap();
    assert_eq!(inbound.verb, Verb::Post);
    assert_eq!(&inbound.body[..], b"{}");
    assert_eq!(inbound.head.version.as_deref(), Some("2025-11-25"));
    assert_eq!(inbound.head.session_id, SessionId::parse("5f2d"));
}

#[tokio::test]
async fn a_delete_needs_neither_body_nor_types() {
    let (service, seen) = echo(&Limits::default());
    let mut client = connect(service);
    let request = "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: 5f2d\r\n\r\n";
    client.send(request).await;
    assert_eq!(client.answer().await.status, 200);
    let inbound = seen.lock().unwrap().pop().unwrap();
    assert_eq!(inbound.verb, Verb::Delete);
    assert!(inbound.body.is_empty() && inbound.accept.sse && !inbound.accept.prefers_sse);
    assert_eq!(inbound.head.session_id, SessionId::parse("5f2d"));
}

// Covers R-1210.
#[tokio::test]
async fn only_post_and_delete_are_offered() {
    for method in ["GET", "PUT", "PATCH", "OPTIONS", "TRACE", "post", "BREW"] {
        let request = format!("{method} /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = ask(&request).await;
        let text = refusal(&answer, 405, method);
        assert!(text.contains(&format!("`{method}`")), "{text}");
        assert_eq!(answer.header("allow"), Some("POST, DELETE"), "{method}");
    }
    let mut client = connect(echo(&Limits::default()).0);
    client
        .send("HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    let answer = client.head().await;
    assert_eq!(
        (answer.status, answer.header("allow")),
        (405, Some("POST, DELETE"))
    );
}

// Covers R-1201, R-1210.
#[tokio::test]
async fn the_path_is_matched_exactly() {
    for (target, found) in [
        ("/mcp", true),
        ("/mcp?session=1", true),
        ("http://localhost/mcp", true),
        ("/mcp/", false),
        ("/MCP", false),
        ("/", false),
        ("//mcp", false),
        ("/mc%70", false),
        ("/mcpx", false),
        ("/x/../mcp", false),
        ("*", false),
    ] {
        let answer = ask(&post("{}").replace("/mcp", target)).await;
        if found {
            assert_eq!(answer.status, 200, "{target}");
        } else {
            let text = refusal(&answer, 404, target);
            assert!(text.contains("`/mcp`"), "{target}: {text}");
        }
    }
}

// Covers R-1203, R-1701, R-1702.
#[tokio::test]
async fn a_refusal_says_what_to_do() {
    let host = |host: &str| post("{}").replace("localhost", host);
    for (case, request, status, says) in [
        (
            "type",
            post("{}").replace("application/json\r\nA", "text/plain\r\nA"),
            415,
            "`text/plain`",
        ),
        (
            "no type",
            post("{}").replace("Content-Type", "X-Type"),
            415,
            "missing",
        ),
        (
            "coding",
            with_header("Content-Encoding: gzip"),
            415,
            "Content-Encoding",
        ),
        (
            "accept",
            post("{}").replace("application/json, text/event-stream", "text/html"),
            406,
            "application/json, text/event-stream",
        ),
        ("host", host("mcp.example.com"), 403, "`mcp.example.com`"),
        ("host", host("mcp.example.com"), 403, "`allowed_hosts`"),
        ("no host", post("{}").replace("Host", "X-Host"), 400, "Host"),
        ("two hosts", with_header("Host: localhost"), 400, "Host"),
        (
            "origin",
            with_header("Origin: http://evil.example"),
            403,
            "`http://evil.example`",
        ),
        (
            "origin",
            with_header("Origin: null"),
            403,
            "`allowed_origins`",
        ),
        (
            "host before path",
            host("x").replace("/mcp", "/other"),
            403,
            "allowed_hosts",
        ),
        (
            "path before method",
            post("{}").replace("POST /mcp", "PUT /other"),
            404,
            "`/other`",
        ),
        (
            "host before method",
            host("x").replace("POST", "GET"),
            403,
            "allowed_hosts",
        ),
        (
            "method before type",
            "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
            405,
            "POST",
        ),
    ] {
        let text = refusal(&ask(&request).await, status, case);
        assert!(text.contains(says), "{case}: {text}");
    }
}

#[tokio::test]
async fn legal_types_are_taken_and_passed_on() {
    for (accept, sse, prefers_sse) in [
        ("*/*", true, false),
        ("application/*, text/*", true, false),
        ("text/event-stream, application/json;q=0.1", true, true),
        ("application/json", false, false),
        ("text/event-stream", true, true),
    ] {
        let (service, seen) = echo(&Limits::default());
        let mut client = connect(service);
        let request = post("{}").replace("application/json, text/event-stream", accept);
        let request = request.replace(
            "application/json\r\n",
            "Application/JSON; charset=utf-8\r\n",
        );
        client.send(request).await;
        assert_eq!(client.answer().await.status, 200, "{accept}");
        let inbound = seen.lock().unwrap().pop().unwrap();
        assert_eq!(inbound.accept, Accept { sse, prefers_sse }, "{accept}");
    }
}

#[tokio::test]
async fn a_session_id_of_impossible_spelling_is_not_taken_for_none() {
    let (service, seen) = echo(&Limits::default());
    let mut client = connect(service);
    client.send(with_header("Mcp-Session-Id: \u{e9}")).await;
    assert_eq!(client.answer().await.status, 200);
    let inbound = seen.lock().unwrap().pop().unwrap();
    assert_eq!(inbound.head.session_id, SessionId::parse("-"));
}

// Covers R-1213.
#[tokio::test]
async fn a_body_over_the_cap_is_refused_when_that_is_known() {
    let limits = Limits {
        max_server_message_bytes: 10,
        ..Limits::default()
    };
    let announced = |n: u64, sent: &str| {
        post("").replace("Content-Length: 0", &format!("Content-Length: {n}")) + sent
    };
    let chunked =
        |sent: &str| post("").replace("Content-Length: 0", "Transfer-Encoding: chunked") + sent;
    for (case, request, status) in [
        ("1 GiB, head only", announced(1 << 30, ""), 413),
        ("11 bytes, head only", announced(11, ""), 413),
        ("11 bytes", announced(11, "01234567890"), 413),
        ("10 bytes", announced(10, "0123456789"), 200),
        (
            "chunked, 10 in one",
            chunked("a\r\n0123456789\r\n0\r\n\r\n"),
            200,
        ),
        (
            "chunked, 10 in two",
            chunked("4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n"),
            200,
        ),
        (
            "chunked with trailers",
            chunked("2\r\n01\r\n0\r\nA: b\r\n\r\n"),
            200,
        ),
        ("chunked, 11 in one", chunked("b\r\n01234567890\r\n"), 413),
        (
            "chunked, 11 in two, no end",
            chunked("a\r\n0123456789\r\n1\r\n0\r\n"),
            413,
        ),
        ("chunked, one huge", chunked("ffffffff\r\n01234567890"), 413),
        ("chunked, broken", chunked("zz\r\n"), 400),
    ] {
        let answer = ask_within(&limits, &request).await;
        if status == 200 {
            let sent = &request[request.find("\r\n\r\n").unwrap()..];
            assert_eq!(answer.status, 200, "{case}");
            assert_eq!(answer.body.contains("[01"), sent.contains("01"), "{case}");
        } else {
            refusal(&answer, status, case);
            assert_eq!(answer.header("connection"), Some("close"), "{case}");
        }
    }
}

/// A body may pause for 30 s, and may come slowly, but not so that it never ends.
#[tokio::test(start_paused = true)]
async fn a_body_that_hardly_comes_is_given_up() {
    let limits = Limits::default();
    let pause = limits.body_read_timeout;
    let trickle = |rate| Limits {
        min_body_rate: rate,
        ..Limits::default()
    };
    let second = Duration::from_secs(1);
    // bytes a piece, the wait between two, how many, what is said, and after how many seconds
    let table = [
        (
            "a byte a second",
            &limits,
            1,
            second,
            100,
            "`min_body_rate`",
            30,
        ),
        (
            "at once, then a byte a second",
            &limits,
            1,
            second,
            100,
            "`min_body_rate`",
            33,
        ),
        (
            "a stop",
            &limits,
            100,
            pause + second,
            2,
            "`body_read_timeout`",
            30,
        ),
        (
            "just in time",
            &limits,
            20_000,
            pause - second,
            4,
            "",
            3 * 29,
        ),
        ("fast enough", &limits, 500, second, 100, "", 99),
        ("any rate", &trickle(0), 1, pause - second, 100, "", 99 * 29),
        (
            "no rate is enough",
            &trickle(usize::MAX),
            500,
            second,
            100,
            "`min_body_rate`",
            30,
        ),
    ];
    for (case, limits, size, wait, count, said, seconds) in table {
        let (service, _) = echo(limits);
        let mut client = connect(service).patient();
        let lead = if case.starts_with("at once") { 1500 } else { 0 };
        let length = size * count + lead;
        let head = post("").replace("Content-Length: 0", &format!("Content-Length: {length}"));
        let begin = now();
        client.send(head + &"x".repeat(lead)).await;
        let (mut reader, mut writer) = tokio::io::split(client.io);
        let dripping = tokio::spawn(async move {
            for nth in 0..count {
                if nth > 0 {
                    sleep(wait).await;
                }
                if writer.write_all(&vec![b'x'; size]).await.is_err() {
                    break;
                }
            }
        });
        let mut answer = vec![0; 12];
        reader.read_exact(&mut answer).await.unwrap();
        let took = begin.elapsed().as_secs();
        dripping.abort();
        while let Ok(Ok(1..)) = timeout(second, reader.read_buf(&mut answer)).await {}
        let answer = String::from_utf8(answer).unwrap();
        let status = if said.is_empty() { "200" } else { "408" };
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{case}: {answer}"
        );
        assert!(answer.contains(said), "{case}: {answer}");
        assert_eq!(took, seconds, "{case}");
    }
}

#[tokio::test]
async fn a_body_in_pieces_is_joined_in_order() {
    let (service, seen) = echo(&Limits::default());
    let mut client = connect(service);
    let whole: String = ('a'..='z').cycle().take(100_000).collect();
    let request = post(&whole);
    for piece in request.as_bytes().chunks(977) {
        client.send(piece).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.answer().await.body, format!("[{whole}]"));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on_or_not() {
    let expecting = |n: usize| {
        let with = format!("Expect: 100-continue\r\nContent-Length: {n}");
        post("").replace("Content-Length: 0", &with)
    };
    let mut client = connect(echo(&Limits::default()).0);
    client.send(expecting(2)).await;
    assert_eq!(client.head().await.status, 100);
    client.send("{}").await;
    assert_eq!(client.answer().await.body, "[{}]");
    refusal(
        &ask(&expecting(1 << 30)).await,
        413,
        "refused without a 100",
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_may_pause_but_not_for_long() {
    let mut client = connect(echo(&Limits::default()).0).patient();
    let start = now();
    // So many that they did not come slowly on the whole.
    let request = post(&"x".repeat(30_000));
    client.send(&request[..request.len() - 10_000]).await;
    sleep(Duration::from_secs(29)).await;
    client.send("x").await;
    let answer = client.answer().await;
    let text = refusal(&answer, 408, "slow");
    assert!(text.contains("30s"), "{text}");
    assert_eq!(start.elapsed().as_secs(), 29 + 30);
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn an_answer_has_the_headers_of_its_form() {
    let empty = || outbound(OutboundBody::Empty);
    for (case, answer, status, headers) in [
        (
            "accepted",
            Outbound {
                status: 202,
                ..empty()
            },
            202,
            &[("content-type", None), ("content-length", Some("0"))][..],
        ),
        (
            "opened",
            Outbound {
                session_id: SessionId::parse("5f2d"),
                ..json("{}")
            },
            200,
            &[
                ("mcp-session-id", Some("5f2d")),
                ("content-length", Some("2")),
            ],
        ),
        (
            "busy",
            Outbound {
                status: 503,
                retry_after: Some(Duration::from_millis(1001)),
                ..json("{}")
            },
            503,
            &[
                ("retry-after", Some("2")),
                ("content-type", Some("application/json")),
            ],
        ),
        (
            "no status",
            Outbound {
                status: 7,
                ..empty()
            },
            500,
            &[],
        ),
    ] {
        let answer = std::sync::Mutex::new(Some(answer));
        let mut client = connect(service(&Limits::default(), move |_| {
            answer.lock().unwrap().take()
        }));
        client.post("{}").await;
        let answer = client.answer().await;
        assert_eq!(answer.status, status, "{case}");
        for (name, value) in headers {
            assert_eq!(answer.header(name), *value, "{case}: {name}");
        }
    }
}

// Covers R-1205.
#[tokio::test]
async fn a_stream_is_sent_as_sse() {
    let (source, events, _dropped) = source();
    events.send(b"data: 1\n\n".to_vec()).unwrap();
    events.send(b"data: 2\n\n".to_vec()).unwrap();
    drop(events);
    let mut client = connect(streaming(source, &Limits::default()));
    client.post("{}").await;
    let answer = client.answer().await;
    assert_eq!(
        (answer.status, &*answer.body),
        (200, "data: 1\n\ndata: 2\n\n")
    );
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
        ("transfer-encoding", "chunked"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn a_refusal_over_http_2_has_no_connection_header() {
    let (service, _) = echo(&Limits::default());
    for (version, closes) in [(Version::HTTP_2, false), (Version::HTTP_11, true)] {
        let request = Request::post("/other")
            .header("host", "localhost")
            .version(version)
            .body(Full::new(Bytes::from_static(b"{}")))
            .unwrap();
        let response = service.call(request).await;
        assert_eq!(response.status(), 404);
        assert_eq!(
            response.headers().contains_key(CONNECTION),
            closes,
            "{version:?}"
        );
    }
}

struct Silent;

impl Exchange for Silent {
    async fn exchange(&self, _: Inbound) -> Outbound {
        outbound(OutboundBody::Empty)
    }
}

#[test]
fn another_path_can_be_served() {
    let service = HttpService::new(Silent, Some("/x"), loopback(), None, &Limits::default());
    assert!(format!("{service:?}").contains("\"/x\""));
    let request = Request::delete("/x").header("host", "localhost");
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let response = futures_util::future::FutureExt::now_or_never(service.call(request));
    assert_eq!(response.unwrap().status(), 200);
}

#[test]
fn without_a_path_every_path_is_served() {
    let service = HttpService::new(Silent, None, loopback(), None, &Limits::default());
    for path in ["/", "/mcp", "/a/b?c"] {
        let request = Request::delete(path).header("host", "localhost");
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let response = futures_util::future::FutureExt::now_or_never(service.call(request));
        assert_eq!(response.unwrap().status(), 200, "{path}");
    }
}
