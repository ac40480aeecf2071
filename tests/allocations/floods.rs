//! How much memory a peer can make us take, whatever it sends: that of the bound it runs into, times
//! a small factor. One side is measured, on a thread of its own; the other one speaks raw bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, AgentHubClientBuilder, CallStream, Error, Limits, McpServer, McpServerBuilder,
    RawArgs, Tool, ToolContext,
};
use allocation_counter::measure;
use serde_json::{Value, json};

use crate::runtime;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// What a connection, a session and the tools cost beside what a bound is for.
const BASE: usize = MIB;

fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

/// The most memory at once that a server takes while a client does its worst.
fn server_peak(
    builder: McpServerBuilder,
    attack: impl FnOnce(SocketAddr) + Send + 'static,
) -> usize {
    let runtime = runtime();
    let bound = runtime.block_on(async { builder.build().bind("127.0.0.1:0").await.unwrap() });
    let (address, handle) = (bound.local_addr(), bound.handle());
    let attacker = thread::spawn(move || {
        attack(address);
        // Nothing that still runs is waited for.
        handle.shutdown();
        handle.shutdown();
    });
    let counted = measure(|| runtime.block_on(bound.serve()).unwrap());
    attacker.join().unwrap();
    usize::try_from(counted.bytes_max).unwrap()
}

/// A client of a server that speaks raw bytes.
struct Raw(TcpStream);

impl Raw {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        stream.set_write_timeout(patience).unwrap();
        Self(stream)
    }

    /// A server may have closed; the answer says so.
    fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).is_ok()
    }

    fn post(&mut self, session: &str, body: &Value) {
        let body = body.to_string();
        self.send(format!(
            "{}Content-Length: {}\r\n\r\n{body}",
            head(session),
            body.len()
        ));
    }

    /// Up to the end of a head, a byte at a time so that nothing behind it is lost.
    fn head(&mut self) -> String {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && self.0.read_exact(&mut byte).is_ok() {
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap()
    }

    /// An answer with a length; gives its head.
    fn answer(&mut self) -> String {
        let head = self.head();
        let mut body = vec![0; length(&head)];
        self.0.read_exact(&mut body).unwrap();
        head
    }

    /// Reads on until so many bytes have come, or to the end.
    fn read(&mut self, count: usize) -> usize {
        let (mut read, mut scrap) = (0, vec![0; 64 * KIB]);
        while read < count {
            match self.0.read(&mut scrap) {
                Ok(0) | Err(_) => break,
                Ok(some) => read += some,
            }
        }
        read
    }
}

fn length(head: &str) -> usize {
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().unwrap())
    });
    length.unwrap_or(0)
}

fn head(session: &str) -> String {
    let session = match session {
        "" => String::new(),
        id => format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n"),
    };
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{session}"
    )
}

/// Opens a session.
fn open(raw: &mut Raw) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"},
    });
    raw.post(
        "",
        &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
    );
    let head = raw.answer();
    let id = head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "));
    id.unwrap_or_default().to_owned()
}

fn call(id: usize, tool: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": {}, "_meta": {"progressToken": id}},
    })
}

/// `flood` says so much that nobody should keep it; `hold` says a word and never ends.
fn tools(limits: Limits) -> McpServerBuilder {
    McpServer::builder("flooded", "0")
        .limits(limits)
        .tool(Tool::new("flood"), async |_: RawArgs, ctx: ToolContext| {
            let (stream, word) = (ctx.streamer("n"), "x".repeat(KIB));
            for _ in 0..20 * KIB {
                stream.text(&word).await?;
            }
            Ok("done")
        })
        .tool(Tool::new("hold"), async |_: RawArgs, ctx: ToolContext| {
            ctx.streamer("n").text("held").await?;
            std::future::pending::<()>().await;
            Ok("never")
        })
}

#[test]
fn a_server_keeps_no_more_of_a_message_than_it_takes() {
    type Attack = fn(&mut Raw);
    let attacks: [(&str, Attack); 4] = [
        ("a body without end", |raw| {
            raw.send(head("") + "Transfer-Encoding: chunked\r\n\r\n");
            let chunk = format!("{:x}\r\n{}\r\n", 64 * KIB, "x".repeat(64 * KIB));
            while raw.send(&chunk) {}
        }),
        ("a body of 1 TiB", |raw| {
            raw.send(format!(
                "{}Content-Length: {}\r\n\r\n",
                head(""),
                1u64 << 40
            ));
            let piece = "x".repeat(64 * KIB);
            for _ in 0..320 {
                raw.send(&piece);
            }
        }),
        ("a head without end", |raw| {
            raw.send(head(""));
            let line = format!("X-Filler: {}\r\n", "x".repeat(KIB));
            for _ in 0..20 * KIB {
                raw.send(&line);
            }
        }),
        ("requests without end", |raw| {
            let session = open(raw);
            raw.post(&session, &call(1, "hold"));
            let body = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string();
            let ping = format!(
                "{}Content-Length: {}\r\n\r\n{body}",
                head(&session),
                body.len()
            );
            let pings = ping.repeat(100);
            while raw.send(&pings) {}
        }),
    ];
    let max = 256 * KIB;
    for (case, attack) in attacks {
        let limits = limits(|limits| limits.max_server_message_bytes = max);
        let peak = server_peak(tools(limits), move |address| {
            attack(&mut Raw::connect(address));
        });
        assert!(peak < 2 * max + BASE, "{case}: {peak} bytes");
    }
}

#[test]
fn a_call_that_is_read_slowly_or_never_keeps_little() {
    for max in [KIB, 64 * KIB] {
        let limits = limits(|limits| limits.max_outbox_bytes = max);
        let peak = server_peak(tools(limits), |address| {
            let mut raw = Raw::connect(address);
            let session = open(&mut raw);
            raw.post(&session, &call(1, "flood"));
            // The tool has been as far ahead as it ever will be, many times.
            assert!(raw.read(8 * MIB) >= 8 * MIB);
        });
        assert!(peak < 4 * max + BASE, "{max}: {peak} bytes");
    }
}

#[test]
fn a_session_keeps_no_more_for_a_client_that_comes_back_than_it_may() {
    for (events, bytes) in [(100, usize::MAX), (usize::MAX, 128 * KIB)] {
        let limits = limits(|limits| {
            limits.max_replay_events = events;
            limits.max_replay_bytes = bytes;
        });
        let peak = server_peak(tools(limits).sse_replay(true), |address| {
            let mut raw = Raw::connect(address);
            let session = open(&mut raw);
            raw.post(&session, &call(1, "flood"));
            assert!(raw.read(8 * MIB) >= 8 * MIB);
        });
        assert!(
            peak < 2 * 128 * KIB + BASE,
            "{events} {bytes}: {peak} bytes"
        );
    }
}

/// Ten times the clients cost no more, once there are as many as may be.
#[test]
fn a_crowd_costs_no_more_than_what_may_be() {
    type Attack = fn(SocketAddr, usize);
    let few = limits(|limits| {
        limits.max_sessions = 50;
        limits.max_session_calls = 20;
        limits.max_calls = 30;
        limits.max_subscriptions = 20;
        limits.max_connections = 250;
    });
    let narrow = limits(|limits| limits.max_connections = 10);
    let attacks: [(&str, &Limits, usize, Attack); 4] = [
        ("sessions", &few, 200, |address, count| {
            let mut raw = Raw::connect(address);
            for _ in 0..count {
                assert!(!open(&mut raw).is_empty());
            }
        }),
        ("calls", &few, 60, |address, count| {
            let sessions = [(); 3].map(|()| open(&mut Raw::connect(address)));
            let calls: Vec<Raw> = (0..count)
                .filter_map(|id| {
                    let mut raw = Raw::connect(address);
                    raw.post(&sessions[id % 3], &call(id, "hold"));
                    raw.head().contains(" 200 ").then_some(raw)
                })
                .collect();
            assert_eq!(calls.len(), 30);
        }),
        ("subscriptions", &few, 60, |address, count| {
            let listen = |id| {
                json!({
                    "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen",
                    "params": {
                        "notifications": {"toolsListChanged": true},
                        "_meta": {
                            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                            "io.modelcontextprotocol/clientCapabilities": {},
                        },
                    },
                })
                .to_string()
            };
            let open: Vec<Raw> = (0..count)
                .filter_map(|id| {
                    let mut raw = Raw::connect(address);
                    let body = listen(id);
                    raw.send(format!(
                        "{}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n\
                         Content-Length: {}\r\n\r\n{body}",
                        head(""),
                        body.len()
                    ));
                    raw.head().contains(" 200 ").then_some(raw)
                })
                .collect();
            assert_eq!(open.len(), 20);
        }),
        ("connections", &narrow, 100, |address, count| {
            let mut crowd: Vec<Raw> = (0..count).map(|_| Raw::connect(address)).collect();
            for raw in &mut crowd {
                raw.send("POST");
            }
            let rest = head("").split_off(4) + "Content-Length: 2\r\n\r\n{}";
            // Those that were served stay.
            crowd.retain_mut(|raw| {
                raw.send(&rest);
                raw.answer().contains(" 40")
            });
            assert_eq!(crowd.len(), 10);
        }),
    ];
    for (case, limits, count, attack) in attacks {
        let peak = |times: usize| {
            let builder = tools(limits.clone()).dynamic_tools(true);
            server_peak(builder, move |address| attack(address, times * count))
        };
        let (once, often) = (peak(1), peak(3));
        assert!(
            often < once + once / 2 + 64 * KIB,
            "{case}: {once} bytes, then {often}"
        );
    }
}

/// A server that answers each request by `script` with bytes, or keeps it waiting.
fn peer(script: impl Fn(&Value, &mut Raw) -> bool + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let script = Arc::new(script);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let script = script.clone();
            thread::spawn(move || {
                let mut raw = Raw(stream.unwrap());
                loop {
                    let head = raw.head();
                    let mut body = vec![0; length(&head)];
                    if head.is_empty() || raw.0.read_exact(&mut body).is_err() {
                        return;
                    }
                    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
                    if !script(&asked, &mut raw) {
                        return;
                    }
                }
            });
        }
    });
    url
}

fn answer(raw: &mut Raw, body: &str) -> bool {
    raw.send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

const SSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

fn progress(token: &Value, number: usize, text: &str) -> String {
    let message = json!({"v": 1, "type": "text", "content": text}).to_string();
    event(&json!({
        "jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": number, "message": message},
    }))
}

/// Opens a session and lists one tool; the rest is for the test.
fn polite(asked: &Value, raw: &mut Raw) -> bool {
    let result = match asked["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "0"},
        }),
        Some("tools/list") => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
        Some("server/discover") => {
            let error = json!({"code": -32601, "message": "no"});
            let body = json!({"jsonrpc": "2.0", "id": asked["id"], "error": error});
            return answer(raw, &body.to_string());
        }
        _ => return raw.send("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"),
    };
    answer(
        raw,
        &json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string(),
    )
}

/// The most memory at once that a hub takes with this peer.
fn hub_peak(
    builder: AgentHubClientBuilder,
    url: String,
    test: impl AsyncFnOnce(&AgentHubClient),
) -> usize {
    let runtime = runtime();
    let counted = measure(|| {
        runtime.block_on(async {
            let hub = builder.build();
            if let Err(error) = hub.connect_http("p", url).await {
                let Error::Connect { .. } = error else {
                    panic!("{error:?}")
                };
            }
            tokio::time::timeout(Duration::from_secs(30), test(&hub))
                .await
                .unwrap();
            hub.close().await;
        });
    });
    usize::try_from(counted.bytes_max).unwrap()
}

fn hub(limits: Limits) -> AgentHubClientBuilder {
    AgentHubClient::builder().limits(limits)
}

/// The name of the limit that a call ends by, after so many events.
async fn limit_of(mut call: CallStream) -> (&'static str, usize) {
    let mut events = 0;
    loop {
        let event = call.next().await.unwrap();
        if let Some(error) = event.error() {
            let Error::Limit { what, .. } = error else {
                panic!("{error:?}")
            };
            return (*what, events);
        }
        assert!(!event.is_terminal(), "{event:?}");
        events += 1;
    }
}

#[test]
fn a_hub_keeps_no_more_of_a_message_than_it_takes() {
    let bodies: [(&str, &'static str, &'static str); 3] = [
        ("a JSON body", "application/json", ""),
        ("an event", "text/event-stream", "data: "),
        ("lines of an event", "text/event-stream", "\ndata: "),
    ];
    let max = 256 * KIB;
    for (case, media, line) in bodies {
        let url = peer(move |asked, raw| match asked["method"].as_str() {
            Some("tools/call") => {
                raw.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n\r\n{}",
                    line.trim_start()
                ));
                let rest = if line.starts_with('\n') { line } else { "" };
                let piece = format!("{}{rest}", "x".repeat(64)).repeat(KIB);
                while raw.send(&piece) {}
                false
            }
            _ => polite(asked, raw),
        });
        let limits = limits(|limits| limits.max_client_message_bytes = max);
        let peak = hub_peak(hub(limits), url, async |hub| {
            let ended = limit_of(hub.call_tool_stream("t", ())).await;
            assert_eq!(ended, ("max_client_message_bytes", 0), "{case}");
        });
        assert!(peak < 4 * max + BASE, "{case}: {peak} bytes");
    }
}

#[test]
fn a_tool_list_without_end_costs_what_it_may() {
    type Set = fn(&mut Limits);
    let cases: [(&str, &str, Set); 3] = [
        ("large tools", "max_list_bytes", |limits| {
            limits.max_list_bytes = 512 * KIB
        }),
        ("many tools", "max_tools", |limits| limits.max_tools = 1_000),
        ("tiny entries", "max_tools", |limits| {
            limits.max_tools = 1_000
        }),
    ];
    for (case, named, set) in cases {
        let url = peer(move |asked, raw| match asked["method"].as_str() {
            Some("tools/list") => {
                let page = asked["params"]["cursor"]
                    .as_str()
                    .map_or(0, |cursor| cursor.parse().unwrap());
                let tools = match case {
                    "large tools" => {
                        let text = "x".repeat(60 * KIB);
                        format!(
                            r#"{{"name":"t{page}","description":"{text}","inputSchema":{{"type":"object"}}}}"#
                        )
                    }
                    "many tools" => {
                        let tools: Vec<_> = (0..50)
                            .map(|n| format!(r#"{{"name":"t{page}-{n}"}}"#))
                            .collect();
                        tools.join(",")
                    }
                    _ => vec!["7"; 500_000].join(","),
                };
                let result = format!(r#"{{"tools":[{tools}],"nextCursor":"{}"}}"#, page + 1);
                answer(
                    raw,
                    &format!(
                        r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
                        asked["id"]
                    ),
                )
            }
            _ => polite(asked, raw),
        });
        let builder = hub(limits(set));
        let peak = hub_peak(builder, url.clone(), async |hub| {
            let failed = hub.connect_http("again", url).await.unwrap_err();
            let told = format!("{failed:?}");
            assert!(told.contains(named), "{case}: {told}");
        });
        // Half a million entries are a message of 1 MB.
        let most = if case == "tiny entries" {
            4 * MIB
        } else {
            2 * MIB
        };
        assert!(peak < most + BASE, "{case}: {peak} bytes");
    }
}

#[test]
fn a_call_that_nobody_reads_keeps_little_of_what_comes_for_it() {
    for (named, set) in [
        (
            "max_queued_bytes",
            (|limits| limits.max_queued_bytes = 128 * KIB) as fn(&mut Limits),
        ),
        ("max_queued_events", |limits| limits.max_queued_events = 100),
    ] {
        // The second call's reply is flooded with events for the first one.
        let flooded = std::sync::Mutex::new(None::<Value>);
        let url = peer(move |asked, raw| match asked["method"].as_str() {
            Some("tools/call") => {
                raw.send(SSE);
                let own = &asked["params"]["_meta"]["progressToken"];
                let Some(flooded) = flooded.lock().unwrap().replace(own.clone()) else {
                    raw.send(progress(own, 1, "begun"));
                    raw.read(1);
                    return false;
                };
                for number in 2..=5_000 {
                    raw.send(progress(&flooded, number, &"x".repeat(KIB)));
                }
                let result = json!({"content": []});
                raw.send(event(
                    &json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}),
                ));
                false
            }
            _ => polite(asked, raw),
        });
        let peak = hub_peak(hub(limits(set)), url, async |hub| {
            let mut unread = hub.call_tool_stream("t", ());
            assert_eq!(unread.next().await.unwrap().text(), Some("begun"));
            let mut other = hub.call_tool_stream("t", ());
            assert!(other.next().await.unwrap().is_terminal());
            let (what, events) = limit_of(unread).await;
            assert_eq!(what, named);
            assert!((50..200).contains(&events), "{events}");
        });
        assert!(peak < 2 * 128 * KIB + BASE, "{named}: {peak} bytes");
    }
}

#[test]
fn an_observer_that_falls_behind_keeps_little() {
    // Large events, and small ones in large pieces.
    for (size, count) in [(4 * KIB, 2_500), (8, 2_500)] {
        let url = peer(move |asked, raw| match asked["method"].as_str() {
            Some("tools/call") => {
                raw.send(SSE);
                let token = &asked["params"]["_meta"]["progressToken"];
                let text = "x".repeat(size);
                let mut number = 0;
                while number < count {
                    let noise = format!(": {}\n", "x".repeat(4 * KIB - size));
                    let some: String = (1..=50)
                        .map(|n| noise.clone() + &progress(token, number + n, &text))
                        .collect();
                    raw.send(some);
                    number += 50;
                }
                let result = json!({"content": []});
                raw.send(event(
                    &json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}),
                ));
                false
            }
            _ => polite(asked, raw),
        });
        let limits = limits(|limits| {
            limits.max_queued_hub_events = 1_000;
            limits.max_queued_hub_bytes = 256 * KIB;
        });
        let builder = hub(limits).on_event_async(|_| std::future::pending());
        let peak = hub_peak(builder, url, async |hub| {
            let mut call = hub.call_tool_stream("t", ());
            let mut events = 0;
            while let Some(event) = call.next().await {
                events += usize::from(!event.is_terminal());
            }
            assert_eq!(events, count);
        });
        assert!(peak < 2 * 256 * KIB + BASE, "{size}: {peak} bytes");
    }
}

#[test]
fn answers_that_nobody_takes_do_not_pile_up() {
    let peak = |pings: usize| {
        let url = peer(move |asked, raw| match asked["method"].as_str() {
            Some("tools/call") => {
                raw.send(SSE);
                let mut sent = 0;
                while sent < pings {
                    let some: String = (0..100)
                        .map(|n| {
                            event(&json!({"jsonrpc": "2.0", "id": sent + n, "method": "ping"}))
                        })
                        .collect();
                    raw.send(some);
                    sent += 100;
                }
                let result = json!({"content": []});
                raw.send(event(
                    &json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}),
                ));
                false
            }
            // An answer of the hub's.
            None => {
                raw.read(1);
                false
            }
            _ => polite(asked, raw),
        });
        let limits = limits(|limits| {
            limits.max_queued_messages = 100;
            limits.close_timeout = Duration::from_millis(10);
        });
        hub_peak(hub(limits), url, async |hub| {
            drop(hub.call_tool("t", ()).await)
        })
    };
    let (few, many) = (peak(5_000), peak(25_000));
    assert!(many < few + few / 2 + 64 * KIB, "{few} bytes, then {many}");
}
