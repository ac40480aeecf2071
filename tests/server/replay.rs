//! Streams that break or are closed, and the clients that come back for the rest.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, Era, Error, EventKind, McpServerBuilder, RawArgs, Tool, ToolContext,
};
use memchr::memmem;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::fixture::{
    Live, Served, Session, builder, call, channel, echo, endless, limits, on_both_runtimes, post,
    quiet_call, serve,
};
use crate::raw::{Answer, Raw, soon};

const SSE: (&str, &str) = ("Accept", "text/event-stream");
const PRIMING: &str = "id: s1-0\nretry: 1000\ndata:\n\n";

fn replaying() -> McpServerBuilder {
    builder().sse_replay(true)
}

async fn open(served: &Served, version: &str) -> Session {
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"},
    }});
    let opened = post(served.addr, &[], body.to_string()).await;
    let id = opened.head.header("mcp-session-id").unwrap().to_owned();
    Session {
        addr: served.addr,
        id,
    }
}

async fn get(addr: SocketAddr, headers: &[(&str, &str)]) -> Answer {
    let mut raw = Raw::connect(addr).await;
    let lines: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    raw.send(format!("GET /mcp HTTP/1.1\r\nHost: {addr}\r\n{lines}\r\n"))
        .await;
    raw.answer().await
}

async fn resume(session: &Session, last_event_id: &str) -> Answer {
    let [id, version] = session.headers();
    let after = ("Last-Event-ID", last_event_id);
    get(session.addr, &[id, version, SSE, after]).await
}

/// What a client gets that comes back in vain.
async fn refused(session: &Session, last_event_id: &str) {
    let mut answer = resume(session, last_event_id).await;
    assert_eq!(answer.head.status, 400, "{last_event_id}");
    let error = answer.json().await;
    assert_eq!(error["error"]["code"], -32600, "{last_event_id}: {error}");
    assert_eq!(error["id"], Value::Null, "{last_event_id}");
}

/// The id of an event and what it says, shortly; keep-alive comments do not count.
fn shown(frame: &str) -> String {
    let (id, rest) = frame
        .strip_prefix("id: ")
        .and_then(|rest| rest.split_once('\n'))
        .unwrap_or_else(|| panic!("an event without an id: {frame:?}"));
    if rest == "retry: 1000\ndata:\n\n" {
        return format!("{id} priming");
    }
    let message = crate::raw::message_of(rest);
    if message["method"] == "notifications/progress" {
        let event = crate::fixture::event_of(&message);
        return format!("{id} {}", event["content"].as_str().unwrap());
    }
    let said = match &message["result"]["content"][0]["text"] {
        Value::String(text) => text.clone(),
        _ => message["error"]["message"].to_string(),
    };
    format!("{id} result {}: {said}", message["id"])
}

async fn hear(answer: &mut Answer) -> String {
    shown(&soon(answer.frame()).await.expect("an event"))
}

/// The rest of a stream.
async fn all(answer: &mut Answer) -> Vec<String> {
    assert_eq!(answer.head.status, 200, "{}", answer.head.text);
    assert!(answer.head.is_sse());
    let frames = answer.frames().await;
    frames.iter().map(|frame| shown(frame)).collect()
}

/// A tool that does as the test says, and tells what became of it: `close` closes its stream, `end`
/// ends it, and all else is said.
fn puppet(builder: McpServerBuilder) -> (McpServerBuilder, Strings) {
    let (orders, received) = mpsc::unbounded_channel();
    let received = Arc::new(tokio::sync::Mutex::new(received));
    let (told, news) = channel();
    let builder = builder.tool_with(
        Tool::new("puppet"),
        (received, told),
        async |(received, told): (Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<&str>>>, _),
               _: RawArgs,
               ctx: ToolContext| {
            let mut received = received.lock().await;
            while let Some(order) = received.recv().await {
                let news = match order {
                    "close" => ctx.close_sse_stream(),
                    "end" => break,
                    text => {
                        ctx.streamer(None::<&str>).text(text).await?;
                        ctx.streamer(None::<&str>).is_active()
                    }
                };
                crate::fixture::Told::tell(&told, news);
            }
            Ok("done")
        },
    );
    (builder, Strings { orders, news })
}

struct Strings {
    orders: mpsc::UnboundedSender<&'static str>,
    news: mpsc::UnboundedReceiver<bool>,
}

impl Strings {
    /// What the tool was told by the library: whether the stream was closed, or somebody hears.
    async fn pull(&mut self, order: &'static str) -> bool {
        self.orders.send(order).unwrap();
        soon(self.news.recv()).await.unwrap()
    }

    fn end(&self) {
        self.orders.send("end").unwrap();
    }
}

// Covers R-1318, R-1319.
async fn each_event_has_an_id_and_a_new_client_is_told_so_at_once() {
    // revision, whether the server keeps what it sent, the first frame
    for (version, replays, first) in [
        ("2025-11-25", true, Some(PRIMING)),
        ("2025-06-18", true, None),
        ("2025-03-26", true, None),
        ("2024-11-05", true, None),
        ("2025-11-25", false, None),
    ] {
        let (builder, mut tool) = puppet(builder().sse_replay(replays));
        let session = open(&serve(builder).await, version).await;
        let mut answer = session.call(1, "puppet", json!({})).await;
        assert!(tool.pull("a").await);
        tool.end();
        let mut frames = answer.frames().await.into_iter();
        if let Some(first) = first {
            assert_eq!(frames.next().as_deref(), Some(first), "{version}");
        }
        let id = |number| match replays {
            true => format!("id: s1-{number}\n"),
            false => String::new(),
        };
        let event = format!(
            "{}event: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\
             \"params\":{{\"progressToken\":1,\"progress\":1,\
             \"message\":\"{{\\\"v\\\":1,\\\"type\\\":\\\"text\\\",\\\"content\\\":\\\"a\\\"}}\"}}}}\n\n",
            id(1)
        );
        let response = format!(
            "{}event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\
             {{\"content\":[{{\"text\":\"done\",\"type\":\"text\"}}]}}}}\n\n",
            id(2)
        );
        let rest: Vec<String> = frames.collect();
        assert_eq!(rest, [event, response], "{version}, {replays}");
    }
}

#[tokio::test]
async fn an_answer_of_one_event_has_an_id_as_well() {
    let served = serve(echo(replaying()).limits(limits(|l| {
        l.replay_retry = Duration::from_millis(7);
    })))
    .await;
    let session = open(&served, "2025-11-25").await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let echo = quiet_call(2, "echo", json!({"text": "a"}));
    for body in [list, &echo] {
        let mut answer = session.post_accepting("text/event-stream", body).await;
        let frames = answer.frames().await;
        let (id, number) = frames[0]
            .strip_prefix("id: ")
            .and_then(|rest| rest.strip_suffix("-0\nretry: 7\ndata:\n\n"))
            .map(|stream| (format!("{stream}-0"), format!("id: {stream}-1\n")))
            .unwrap_or_else(|| panic!("{frames:?}"));
        assert!(frames[1].starts_with(&number), "{frames:?}");
        let mut again = resume(&session, &id).await;
        assert_eq!(again.frames().await, frames[1..], "{body}");
    }
    // JSON is as it was.
    let mut answer = session.post(list).await;
    assert!(answer.json().await["result"]["tools"].is_array());
}

// Covers R-1315, R-1319.
async fn a_client_that_was_cut_off_reads_the_rest_and_what_is_still_to_come() {
    for version in ["2025-11-25", "2025-03-26"] {
        let (builder, mut tool) = puppet(replaying());
        let session = open(&serve(builder).await, version).await;
        let mut answer = session.call(1, "puppet", json!({})).await;
        tool.pull("a").await;
        tool.pull("b").await;
        let mut heard = hear(&mut answer).await;
        if version == "2025-11-25" {
            assert_eq!(heard, "s1-0 priming");
            heard = hear(&mut answer).await;
        }
        assert_eq!(heard, "s1-1 a");
        drop(answer);
        assert!(tool.pull("c").await, "it will be heard");
        let mut answer = resume(&session, "s1-1").await;
        assert_eq!(hear(&mut answer).await, "s1-2 b");
        assert_eq!(hear(&mut answer).await, "s1-3 c");
        tool.pull("d").await;
        assert_eq!(hear(&mut answer).await, "s1-4 d");
        tool.end();
        assert_eq!(all(&mut answer).await, ["s1-5 result 1: done"]);
        // It has ended, and can still be had.
        for (after, first) in [(0, 0), (1, 1), (4, 4), (5, 5)] {
            let mut answer = resume(&session, &format!("s1-{after}")).await;
            let rest = [
                "s1-1 a",
                "s1-2 b",
                "s1-3 c",
                "s1-4 d",
                "s1-5 result 1: done",
            ];
            assert_eq!(all(&mut answer).await, rest[first..], "{after}");
        }
    }
}

// Covers R-1319.
async fn an_id_that_leads_nowhere_is_refused() {
    let (builder, mut tool) = puppet(replaying());
    let served = serve(builder).await;
    let session = served.session().await;
    let other = served.session().await;
    let mut answer = session.call(1, "puppet", json!({})).await;
    tool.pull("a").await;
    for id in ["s1-2", "s2-0", "s1", "1", "s1-01", "s1--1", "x", "\u{e9}"] {
        refused(&session, id).await;
    }
    // Nobody gets what another session was sent, nor anything of one's own in its place.
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut own = other.post_accepting("text/event-stream", ping).await;
    assert_eq!(own.frames().await.len(), 2);
    for id in ["s1-0", "s1-1"] {
        refused(&other, id).await;
    }
    let [id, version] = session.headers();
    let after = ("Last-Event-ID", "s1-0");
    let json = ("Accept", "application/json");
    let table: &[(&[(&str, &str)], u16)] = &[
        (&[SSE, after], 400),
        (&[SSE, after, ("Mcp-Session-Id", "x")], 404),
        (&[id, version, after, json], 406),
        (
            &[id, SSE, after, ("MCP-Protocol-Version", "1999-01-01")],
            400,
        ),
        // There is no stream of the session's own here.
        (&[id, version, SSE], 405),
        (&[id, version, SSE, ("Last-Event-ID", " ")], 405),
    ];
    for (headers, status) in table {
        let answer = get(served.addr, headers).await;
        assert_eq!(answer.head.status, *status, "{headers:?}");
    }
    // The stream itself was not disturbed by any of that.
    assert_eq!(hear(&mut answer).await, "s1-0 priming");
    tool.end();
    assert_eq!(all(&mut answer).await, ["s1-1 a", "s1-2 result 1: done"]);
}

#[tokio::test]
async fn without_replay_nothing_can_be_gone_on_with() {
    for (dynamic, status) in [(false, 405), (true, 400)] {
        let (builder, mut tool) = puppet(builder().dynamic_tools(dynamic));
        let session = serve(builder).await.session().await;
        let _answer = session.call(1, "puppet", json!({})).await;
        tool.pull("a").await;
        assert_eq!(resume(&session, "s1-0").await.head.status, status);
    }
}

#[tokio::test]
async fn a_refused_id_leaves_the_stream_of_the_session_alone() {
    for replays in [false, true] {
        let served = serve(echo(builder()).dynamic_tools(true).sse_replay(replays)).await;
        let session = served.session().await;
        let [id, version] = session.headers();
        let mut standing = get(served.addr, &[id, version, SSE]).await;
        refused(&session, "s1-0").await;
        served.handle.shutdown();
        assert_eq!(soon(standing.frame()).await, None, "and no sooner");
    }
}

#[tokio::test]
async fn what_fell_out_of_the_ring_is_refused_and_what_is_left_is_not() {
    let one = {
        // The size of an event as it is kept.
        let (builder, mut tool) = puppet(replaying());
        let session = serve(builder).await.session().await;
        let mut answer = session.call(1, "puppet", json!({})).await;
        tool.pull("a").await;
        answer.frame().await;
        answer.frame().await.unwrap().len()
    };
    // events, bytes, how many of the newest are kept
    for (max_events, max_bytes, kept) in [
        (2, 1 << 20, 2),
        (1024, 3 * one, 3),
        (1024, 3 * one - 1, 2),
        (1024, one - 1, 0),
        (0, 1 << 20, 0),
    ] {
        let (builder, mut tool) = puppet(replaying());
        let builder = builder.limits(limits(|l| {
            l.max_replay_events = max_events;
            l.max_replay_bytes = max_bytes;
        }));
        let session = serve(builder).await.session().await;
        let mut answer = session.call(1, "puppet", json!({})).await;
        for text in ["a", "b", "c", "d"] {
            tool.pull(text).await;
        }
        // Who reads as it comes misses nothing.
        for expected in ["s1-0 priming", "s1-1 a", "s1-2 b", "s1-3 c", "s1-4 d"] {
            assert_eq!(hear(&mut answer).await, expected);
        }
        for after in 0..4 {
            let id = format!("s1-{after}");
            if after < 4 - kept {
                refused(&session, &id).await;
            } else {
                let mut answer = resume(&session, &id).await;
                let next = hear(&mut answer).await;
                assert!(next.starts_with(&format!("s1-{} ", after + 1)), "{next}");
            }
        }
        // To wait for the next event nothing has to be kept.
        let mut answer = resume(&session, "s1-4").await;
        tool.pull("e").await;
        assert_eq!(hear(&mut answer).await, "s1-5 e");
    }
}

#[tokio::test]
async fn calls_share_one_ring() {
    let (builder, mut tool) = puppet(echo(replaying()));
    let session = serve(builder.limits(limits(|l| l.max_replay_events = 2)))
        .await
        .session()
        .await;
    let mut answer = session.call(1, "puppet", json!({})).await;
    tool.pull("a").await;
    assert_eq!(hear(&mut answer).await, "s1-0 priming");
    let mut others = Vec::new();
    for id in 2..4 {
        let body = quiet_call(id, "echo", json!({"text": "x"}));
        let mut answer = session.post_accepting("text/event-stream", body).await;
        let priming = answer.frame().await.unwrap();
        others.push(priming[4..].split('\n').next().unwrap().to_owned());
    }
    // The oldest event went, whosever it was.
    refused(&session, "s1-0").await;
    for id in &others {
        assert_eq!(all(&mut resume(&session, id).await).await.len(), 1);
    }
    tool.end();
    assert_eq!(all(&mut answer).await, ["s1-1 a", "s1-2 result 1: done"]);
    refused(&session, &others[0]).await;
}

async fn of_two_readers_the_newer_one_reads_on() {
    let (builder, mut tool) = puppet(replaying());
    let session = serve(builder).await.session().await;
    let mut first = session.call(1, "puppet", json!({})).await;
    tool.pull("a").await;
    assert_eq!(hear(&mut first).await, "s1-0 priming");
    assert_eq!(hear(&mut first).await, "s1-1 a");
    let mut second = resume(&session, "s1-0").await;
    assert_eq!(soon(first.frame()).await, None, "the older one ends");
    assert_eq!(hear(&mut second).await, "s1-1 a");
    let mut third = resume(&session, "s1-1").await;
    assert_eq!(soon(second.frame()).await, None);
    drop((first, second));
    // That they went says nothing of the third.
    assert_eq!(session.ping().await, 200);
    tool.pull("b").await;
    tool.end();
    assert_eq!(all(&mut third).await, ["s1-2 b", "s1-3 result 1: done"]);
}

// Covers R-1315.
async fn a_tool_ends_its_stream_and_its_client_comes_back() {
    // what it says before and after it closes, which it does once or twice
    let table: [(&[&'static str], &[&str], &[&str]); 3] = [
        (
            &["close", "a"],
            &["s1-0 priming"],
            &["s1-1 a", "s1-2 result 1: done"],
        ),
        (
            &["a", "close", "b"],
            &["s1-0 priming", "s1-1 a"],
            &["s1-2 b", "s1-3 result 1: done"],
        ),
        (
            &["a", "b", "close"],
            &["s1-0 priming", "s1-1 a", "s1-2 b"],
            &["s1-3 result 1: done"],
        ),
    ];
    for (orders, before, after) in table {
        for window in [0, 3_600_000] {
            let (builder, mut tool) = puppet(replaying());
            let builder = builder.limits(limits(|l| {
                l.answer_window = Duration::from_millis(window);
            }));
            let session = serve(builder).await.session().await;
            let mut raw = Raw::connect(session.addr).await;
            raw.send(session.bytes(call(1, "puppet", json!({})))).await;
            for order in orders {
                assert!(tool.pull(order).await, "{order} of {orders:?}");
            }
            assert!(!tool.pull("close").await, "it is closed already");
            let mut answer = raw.answer().await;
            assert_eq!(all(&mut answer).await, before, "{orders:?}");
            tool.end();
            let last = before.last().unwrap().split(' ').next().unwrap();
            let mut answer = resume(&session, last).await;
            assert_eq!(all(&mut answer).await, after, "{orders:?}");
        }
    }
}

async fn a_tool_may_end_each_stream_that_its_client_comes_back_with() {
    let (builder, mut tool) = puppet(replaying());
    let session = serve(builder).await.session().await;
    let mut answer = session.call(1, "puppet", json!({})).await;
    assert!(tool.pull("close").await);
    assert_eq!(all(&mut answer).await, ["s1-0 priming"]);
    for (after, text, heard) in [(0, "a", "s1-1 a"), (1, "b", "s1-2 b"), (2, "c", "s1-3 c")] {
        let mut answer = resume(&session, &format!("s1-{after}")).await;
        assert!(tool.pull(text).await);
        assert!(tool.pull("close").await);
        assert_eq!(all(&mut answer).await, [heard]);
    }
    // Nobody is there.
    assert!(!tool.pull("close").await);
    tool.end();
    let mut answer = resume(&session, "s1-3").await;
    assert_eq!(all(&mut answer).await, ["s1-4 result 1: done"]);
}

// Covers R-1315.
#[tokio::test]
async fn a_stream_is_not_ended_where_its_client_might_not_come_back() {
    for (version, replays, accept) in [
        ("2025-11-25", false, crate::fixture::BOTH),
        ("2025-11-25", true, "application/json"),
        ("2025-06-18", true, crate::fixture::BOTH),
        ("2025-03-26", true, crate::fixture::BOTH),
    ] {
        let (builder, mut tool) = puppet(builder().sse_replay(replays));
        let session = open(&serve(builder).await, version).await;
        let calling = tokio::spawn({
            let session = session.clone();
            async move {
                let mut answer = session
                    .post_accepting(accept, call(1, "puppet", json!({})))
                    .await;
                answer.body().await
            }
        });
        assert!(!tool.pull("close").await, "{version} {replays} {accept}");
        tool.pull("a").await;
        assert!(!tool.pull("close").await, "{version} {replays} {accept}");
        tool.end();
        let body = soon(calling).await.unwrap();
        assert!(
            body.contains("done"),
            "{version} {replays} {accept}: {body}"
        );
    }
}

async fn a_call_whose_client_is_away_can_be_cancelled_and_ends_with_its_session() {
    let live = Live::new();
    let served = serve(endless(replaying(), &live)).await;
    for (round, by_delete) in [(1, false), (2, true)] {
        let session = served.session().await;
        let mut answer = session.call(1, "endless", json!({})).await;
        answer.frame().await;
        answer.frame().await;
        drop(answer);
        assert_eq!(session.ping().await, 200);
        assert_eq!(live.count(), 1);
        let id = format!("s{round}-0");
        match by_delete {
            false => {
                session.cancel(1).await;
                live.reach(0).await;
                refused(&session, &id).await;
            }
            true => {
                assert_eq!(session.delete().await.head.status, 200);
                live.reach(0).await;
                assert_eq!(resume(&session, &id).await.head.status, 404);
            }
        }
    }
}

async fn a_resumed_stream_ends_with_its_call_and_its_session() {
    let live = Live::new();
    let served = serve(endless(replaying(), &live)).await;
    for by_delete in [false, true] {
        let session = served.session().await;
        let mut answer = session.call(1, "endless", json!({})).await;
        let first = hear(&mut answer).await;
        drop(answer);
        let mut answer = resume(&session, first.split(' ').next().unwrap()).await;
        assert!(hear(&mut answer).await.ends_with("begun"));
        match by_delete {
            false => session.cancel(1).await,
            true => drop(session.delete().await),
        }
        assert_eq!(soon(answer.frame()).await, None);
        live.reach(0).await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_come_back_in_time_loses_its_call() {
    for closed in [false, true] {
        let live = Live::new();
        let builder = replaying()
            .limits(limits(|l| {
                l.detached_call_timeout = Duration::from_millis(30);
            }))
            .tool_with(
                Tool::new("t"),
                (live.clone(), closed),
                async |(live, closed): (Live, bool), _: RawArgs, ctx: ToolContext| {
                    let _alive = live.enter();
                    ctx.streamer("n").text("a").await?;
                    if closed {
                        assert!(ctx.close_sse_stream());
                    }
                    std::future::pending::<()>().await;
                    Ok(())
                },
            );
        let session = serve(builder).await.session().await;
        let mut answer = session.call(1, "t", json!({})).await;
        assert_eq!(hear(&mut answer).await, "s1-0 priming");
        drop(answer);
        live.reach(0).await;
        // A moment after the handler is gone.
        soon(async { while resume(&session, "s1-0").await.head.status != 400 {} }).await;
    }
}

async fn a_server_ends_with_calls_whose_clients_are_away_or_came_back() {
    for comes_back in [false, true] {
        let live = Live::new();
        let builder = endless(replaying(), &live).limits(limits(|l| {
            l.shutdown_timeout = Duration::from_millis(50);
        }));
        let served = serve(builder).await;
        let session = served.session().await;
        let mut answer = session.call(1, "endless", json!({})).await;
        assert_eq!(hear(&mut answer).await, "s1-0 priming");
        drop(answer);
        let resumed = match comes_back {
            true => Some(resume(&session, "s1-0").await),
            false => None,
        };
        served.handle.shutdown();
        if let Some(mut resumed) = resumed {
            assert_eq!(
                all(&mut resumed).await,
                [
                    "s1-1 begun",
                    "s1-2 result 1: \"the server is shutting down\""
                ]
            );
        }
        soon(served.serving).await.unwrap().unwrap();
        live.reach(0).await;
    }
}

on_both_runtimes!(
    each_event_has_an_id_and_a_new_client_is_told_so_at_once,
    a_client_that_was_cut_off_reads_the_rest_and_what_is_still_to_come,
    an_id_that_leads_nowhere_is_refused,
    of_two_readers_the_newer_one_reads_on,
    a_tool_ends_its_stream_and_its_client_comes_back,
    a_tool_may_end_each_stream_that_its_client_comes_back_with,
    a_call_whose_client_is_away_can_be_cancelled_and_ends_with_its_session,
    a_resumed_stream_ends_with_its_call_and_its_session,
    a_server_ends_with_calls_whose_clients_are_away_or_came_back,
);

#[tokio::test]
async fn replay_and_a_cancel_by_hanging_up_exclude_each_other() {
    let server = replaying().cancel_on_disconnect(true).build();
    let Err(Error::Config { detail, .. }) = server.bind("127.0.0.1:0").await else {
        panic!("it would end the calls that clients come back to")
    };
    assert!(detail.contains("cancel_on_disconnect"), "{detail}");
}

/// Passes bytes to a server and back, and cuts each streamed answer off after some more of its
/// bytes than the one before.
async fn cutting_proxy(server: SocketAddr, step: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let cuts = Arc::new(AtomicUsize::new(0));
    let count = cuts.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let count = count.clone();
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) =
                    TcpStream::connect(server).await.unwrap().into_split();
                let upload = tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
                });
                let mut passed = Vec::new();
                let mut left = None;
                let mut piece = [0; 512];
                while let Ok(size @ 1..) = from_server.read(&mut piece).await {
                    let mut piece = &piece[..size];
                    passed.extend_from_slice(piece);
                    if left.is_none()
                        && let Some(at) = memmem::find(&passed, b"text/event-stream")
                        && let Some(end) = memmem::find(&passed[at..], b"\r\n\r\n")
                    {
                        let streamed = passed.len() - (at + end + 4);
                        let cut = (count.fetch_add(1, Ordering::Relaxed) + 1) * step;
                        left = Some(cut + size - streamed.min(size));
                    }
                    if let Some(left) = &mut left {
                        piece = &piece[..size.min(*left)];
                        *left -= piece.len();
                    }
                    if to_client.write_all(piece).await.is_err() || left == Some(0) {
                        break;
                    }
                }
                upload.abort();
            });
        }
    });
    (addr, cuts)
}

#[tokio::test]
async fn our_own_client_hears_every_event_once_however_often_it_is_cut_off() {
    const EVENTS: u64 = 60;
    for step in [40, 97, 331] {
        let builder = replaying()
            .limits(limits(|l| l.replay_retry = Duration::from_millis(1)))
            .tool(Tool::new("count"), async |_: RawArgs, ctx: ToolContext| {
                let stream = ctx.streamer("n");
                for number in 0..EVENTS {
                    stream.text(number.to_string()).await?;
                    if number % 7 == 0 {
                        ctx.close_sse_stream();
                    }
                    tokio::task::yield_now().await;
                }
                Ok("counted")
            });
        let served = serve(builder).await;
        let (proxy, cuts) = cutting_proxy(served.addr, step).await;
        // The first answers bring not one event whole.
        let limits = limits(|l| l.max_resume_attempts = 100);
        let hub = AgentHubClient::builder().limits(limits).build();
        // Nothing is gone on with in the other era.
        hub.connect_http("p", format!("http://{proxy}/mcp"))
            .era(Era::Legacy)
            .await
            .unwrap();
        let mut events = hub.call_tool_stream("count", ());
        let mut heard = Vec::new();
        soon(async {
            while let Some(event) = events.next().await {
                assert_ne!(event.kind, EventKind::TerminalError, "{:?}", event.content);
                heard.push(event.content.value().as_str().unwrap().to_owned());
            }
        })
        .await;
        let numbers = (0..EVENTS).map(|number| number.to_string());
        let expected: Vec<String> = numbers.chain(["counted".to_owned()]).collect();
        assert_eq!(heard, expected, "{step}");
        assert!(cuts.load(Ordering::Relaxed) > 1, "{step}: never cut off");
        soon(hub.close()).await;
    }
}
