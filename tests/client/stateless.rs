//! Calls of a server that knows neither handshake nor sessions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, CallStream, Error, HubEvent, ServerChange};
use serde_json::{Value, json};

use crate::peer::{
    self, Answer, Peer, Request, SSE_HEAD, Wire, answer, envelope, error, event,
    json as json_answer, listed, polite, progress, result, sse,
};
use crate::{Seen, read, run, shown};

/// What such a server says of itself; `changes` if it says that its tools may change.
pub fn discovered(request: &Request, changes: bool) -> Answer {
    let tools = match changes {
        true => json!({"listChanged": true}),
        false => json!({}),
    };
    let answer = json!({"jsonrpc": "2.0", "id": request.id(), "result": {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": tools},
        "ttlMs": 0, "cacheScope": "public",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "peer", "version": "1"}},
    }});
    json_answer(&answer.to_string()).into()
}

/// A peer of two tools, `echo` and `stream`, whose calls are answered by `call`.
async fn stateless(call: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Peer {
    Peer::asked(move |request| match &*request.what() {
        "server/discover" => discovered(request, false),
        "tools/call" => call(request),
        _ => polite(request),
    })
    .await
}

/// A result that says whether it is the end.
fn typed(request: &Request, members: &Value) -> Answer {
    let answer = json!({"jsonrpc": "2.0", "id": request.id(), "result": members});
    json_answer(&answer.to_string()).into()
}

fn refused(request: &Request, code: i64) -> Answer {
    let body = error(&request.id(), code, "no");
    answer(
        "400 Bad Request",
        "Content-Type: application/json\r\n",
        &body,
    )
    .into()
}

// Covers R-501, R-1401, R-1402.
#[test]
fn each_request_is_complete_by_itself_and_nothing_else_is_sent() {
    run(async || {
        let peer = stateless(polite).await;
        let hub = peer.hub().await;
        let mut stream = hub.call_tool_stream("stream", json!({"a": 1}));
        assert_eq!(
            shown(&read(&mut stream).await),
            ["text \"a\"", "text \"b\"", "result \"ab\""]
        );
        hub.close().await;
        assert_eq!(
            peer.heard(),
            ["server/discover", "tools/list", "tools/call"]
        );
        for request in peer.seen() {
            assert_eq!(request.line, "POST /mcp HTTP/1.1");
            let what = request.what();
            let message = request.json();
            let meta = &message["params"]["_meta"];
            assert_eq!(
                meta["io.modelcontextprotocol/protocolVersion"],
                "2026-07-28"
            );
            assert_eq!(
                meta["io.modelcontextprotocol/clientCapabilities"],
                json!({})
            );
            let name = &meta["io.modelcontextprotocol/clientInfo"]["name"];
            assert_eq!(name, "agent-hub-kit");
            let tool = (what == "tools/call").then_some("stream");
            for (header, value) in [
                ("mcp-protocol-version", Some("2026-07-28")),
                ("mcp-method", Some(&*what)),
                ("mcp-name", tool),
                ("mcp-session-id", None),
                ("last-event-id", None),
            ] {
                assert_eq!(request.header(header), value, "{what}: {header}");
            }
        }
    });
}

// Covers R-508.
#[test]
fn what_a_server_calls_itself_decides_nothing() {
    run(async || {
        for info in [
            Value::Null,
            json!(7),
            json!({}),
            json!({"name": 7, "version": []}),
            json!({"name": "evil\u{1b}[2J", "version": "99", "title": ["x"]}),
        ] {
            let meta = json!({"io.modelcontextprotocol/serverInfo": info});
            let of = meta.clone();
            let peer = Peer::asked(move |request| match &*request.what() {
                "server/discover" => typed(
                    request,
                    &json!({"supportedVersions": ["2026-07-28"], "capabilities": {}, "_meta": of}),
                ),
                "tools/list" => typed(request, &json!({"tools": [{"name": "echo"}], "_meta": of})),
                _ => typed(request, &json!({"content": [], "_meta": of})),
            })
            .await;
            let seen = Seen::default();
            let hub = seen.hub();
            peer.connect(&hub, "p").await;
            assert_eq!(hub.call_tool("echo", ()).await.unwrap(), Value::Null);
            assert_eq!(seen.warnings(), [""; 0], "{meta}");
        }
    });
}

/// A call whose reply has begun, or has not.
struct Running {
    hub: AgentHubClient,
    peer: Peer,
    stream: CallStream,
    wire: Wire,
}

impl Running {
    async fn start(begun: bool, option: impl Fn(CallStream) -> CallStream) -> Self {
        let peer = stateless(|request| match &request.json()["params"]["name"] {
            name if name == "stream" => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let mut stream = option(hub.call_tool_stream("stream", ()));
        let serve = async {
            let (request, mut wire) = peer.handed().await;
            if begun {
                let message = progress(&request.token(), 1, &envelope("text", "a"));
                wire.write(SSE_HEAD).await;
                wire.send(event(&message)).await;
            }
            wire
        };
        let wire = if begun {
            let (first, wire) = tokio::join!(stream.next(), serve);
            assert_eq!(first.unwrap().text(), Some("a"));
            wire
        } else {
            tokio::select! {
                wire = serve => wire,
                event = stream.next() => panic!("{event:?}"),
            }
        };
        Self {
            hub,
            peer,
            stream,
            wire,
        }
    }
}

// Covers R-903, R-909.
#[test]
fn a_call_that_is_given_up_hangs_up_and_says_nothing() {
    /// How it ends; `None` if nobody is there to see it.
    type End = (&'static str, Option<&'static str>);
    const ENDS: [End; 6] = [
        ("cancel", Some("cancelled")),
        ("drop", None),
        ("timeout", Some("terminal_error")),
        ("idle_timeout", Some("terminal_error")),
        ("disconnect", Some("terminal_error")),
        ("close", Some("terminal_error")),
    ];
    run(async || {
        for begun in [false, true] {
            for (how, kind) in ENDS {
                let option = |stream: CallStream| {
                    let soon = Duration::from_millis(300);
                    match how {
                        "timeout" => stream.timeout(soon),
                        "idle_timeout" => stream.idle_timeout(soon),
                        _ => stream,
                    }
                };
                let Running {
                    hub,
                    peer,
                    mut stream,
                    mut wire,
                } = Running::start(begun, option).await;
                match how {
                    "cancel" => stream.cancel(),
                    "drop" => {
                        drop(std::mem::replace(
                            &mut stream,
                            hub.call_tool_stream("echo", ()),
                        ));
                    }
                    "disconnect" => hub.disconnect("p").await.unwrap(),
                    "close" => hub.close().await,
                    _ => {}
                }
                if let Some(kind) = kind {
                    let events = read(&mut stream).await;
                    let kinds: Vec<String> = events.iter().map(|e| e.kind.to_string()).collect();
                    assert_eq!(kinds, [kind], "{how}, {begun}");
                }
                wire.hung_up().await;
                if !matches!(how, "disconnect" | "close") {
                    // On another connection than the one that was given up.
                    assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
                    let calls = peer.seen_of("tools/call");
                    assert_ne!(calls[0].connection, calls[1].connection, "{how}");
                }
                hub.close().await;
                let sent = peer.heard();
                assert!(
                    sent.iter().all(|what| !what.starts_with("notifications/")),
                    "{how}: {sent:?}"
                );
            }
        }
    });
}

// Covers R-1407.
#[test]
fn a_reply_that_is_lost_is_neither_taken_up_nor_asked_for_again() {
    run(async || {
        let start = "id: 7\nretry: 0\ndata:\n\n";
        for (case, answer) in [
            ("before the head", Answer::Last(Vec::new())),
            ("an end without an answer", peer::raw_sse(start).into()),
            (
                "a break",
                Answer::Last(format!("{SSE_HEAD}{}", peer::chunk(start)).into_bytes()),
            ),
        ] {
            let answer = std::sync::Mutex::new(Some(answer));
            let peer = stateless(move |_| answer.lock().unwrap().take().expect("one call")).await;
            let hub = peer.hub().await;
            let error = hub.call_tool("echo", ()).await.unwrap_err();
            assert!(
                matches!(error, Error::Transport { .. }),
                "{case}: {error:?}"
            );
            hub.close().await;
            assert_eq!(
                peer.heard(),
                ["server/discover", "tools/list", "tools/call"],
                "{case}"
            );
        }
    });
}

// Covers R-1105.
#[test]
fn a_request_of_the_server_is_dropped_with_a_warning() {
    run(async || {
        let peer = stateless(|request| {
            let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            sse(&[ping.to_owned(), result(&request.id(), "done")]).into()
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        hub.close().await;
        assert_eq!(peer.seen_of("response").len(), 0);
        let warnings = seen.warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("\"ping\""), "{warnings:?}");
    });
}

// Covers R-1108.
#[test]
fn a_server_that_wants_input_is_told_of_by_name() {
    run(async || {
        let peer = stateless(|request| {
            typed(
                request,
                &json!({"resultType": "input_required", "requestState": "s", "inputRequests": {
                    "who": {"method": "elicitation/create", "params": {}},
                    "where": {"method": "roots/list"},
                }}),
            )
        })
        .await;
        let hub = peer.hub().await;
        let error = hub.call_tool("echo", ()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "p/echo: the peer broke the protocol: input_required: the server wants \
             elicitation/create, roots/list, which this client does not offer"
        );
        assert_eq!(peer.seen_of("tools/call").len(), 1);
    });
}

// Covers R-710, R-1108.
#[test]
fn a_call_that_the_server_wants_again_is_made_again_with_what_it_gave() {
    run(async || {
        for (returns, ends) in [(1, true), (3, true), (4, false)] {
            let count = AtomicUsize::new(0);
            let peer = stateless(move |request| match count.fetch_add(1, Ordering::Relaxed) {
                nth if nth < returns => typed(
                    request,
                    &json!({"resultType": "input_required", "requestState": format!("s{nth}")}),
                ),
                _ => typed(
                    request,
                    &json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]}),
                ),
            })
            .await;
            let hub = peer.hub().await;
            let answer = hub.call_tool("echo", json!({"a": 1})).await;
            if ends {
                assert_eq!(answer.unwrap(), "done");
            } else {
                let text = answer.unwrap_err().to_string();
                assert!(text.contains("wants to be asked again"), "{text}");
            }
            let calls = peer.seen_of("tools/call");
            assert_eq!(calls.len(), 1 + returns.min(3));
            let mut ids: Vec<String> = Vec::new();
            for (nth, call) in calls.iter().enumerate() {
                let params = &call.json()["params"];
                let state = match nth {
                    0 => Value::Null,
                    nth => json!(format!("s{}", nth - 1)),
                };
                assert_eq!(params["requestState"], state, "{nth}");
                assert_eq!(params["arguments"], json!({"a": 1}));
                assert!(!ids.contains(&call.id().to_string()), "{nth}");
                ids.push(call.id().to_string());
            }
            // It is nothing to the next call.
            hub.call_tool("echo", ()).await.ok();
            let next = peer.seen_of("tools/call")[calls.len()].json();
            assert_eq!(next["params"]["requestState"], Value::Null);
        }
    });
}

#[test]
fn a_call_that_is_to_be_made_again_can_be_given_up_and_has_one_timeout() {
    run(async || {
        let peer = stateless(|request| {
            let more = json!({"resultType": "input_required", "requestState": "s"});
            typed(request, &more)
        })
        .await;
        let hub = peer.hub().await;
        let mut stream = hub
            .call_tool_stream("echo", ())
            .timeout(Duration::from_millis(50));
        let events = read(&mut stream).await;
        assert!(
            matches!(events[0].error(), Some(Error::Timeout { what, .. }) if *what == "timeout"),
            "{events:?}"
        );
        let mut stream = hub.call_tool_stream("echo", ());
        let sent = peer.seen_of("tools/call").len();
        tokio::select! {
            _ = peer.wait_for("tools/call", sent + 1) => {}
            event = stream.next() => panic!("{event:?}"),
        }
        stream.cancel();
        assert_eq!(shown(&read(&mut stream).await), ["cancelled null"]);
    });
}

/// A list of the tool `echo`, with its one argument mirrored under that name.
fn mirroring(request: &Request, header: &Value) -> Answer {
    let answer = json!({"jsonrpc": "2.0", "id": request.id(), "result": {"tools": [
        {"name": "echo", "inputSchema": {"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": header},
        }}},
        {"name": "plain", "inputSchema": {"type": "object"}},
    ]}});
    json_answer(&answer.to_string()).into()
}

// Covers R-1408, R-1409.
#[test]
fn a_server_that_wants_other_headers_is_asked_which_and_the_call_repeated_once() {
    run(async || {
        for (wanted, relists, ends) in [
            ("Second", true, true),
            ("Third", true, false),
            ("Second", false, false),
        ] {
            let lists = AtomicUsize::new(0);
            let peer = Peer::asked(move |request| match &*request.what() {
                "server/discover" => discovered(request, false),
                "tools/list" => match lists.fetch_add(1, Ordering::Relaxed) {
                    0 => mirroring(request, &"First".into()),
                    _ if !relists => peer::empty("503 Service Unavailable").into(),
                    _ => mirroring(request, &"Second".into()),
                },
                "tools/call" => {
                    match request.header(&format!("mcp-param-{}", wanted.to_lowercase())) {
                        Some("eu") => polite(request),
                        _ => refused(request, -32020),
                    }
                }
                _ => polite(request),
            })
            .await;
            let hub = peer.hub().await;
            let answer = hub.call_tool("echo", json!({"region": "eu"})).await;
            match ends {
                true => assert_eq!(answer.unwrap(), "done"),
                false => assert_eq!(
                    answer.unwrap_err().to_string(),
                    "p/echo: the server answered error -32020: no"
                ),
            }
            let calls = peer.seen_of("tools/call");
            assert_eq!(calls.len(), 1 + usize::from(relists), "{wanted}");
            assert_eq!(calls[0].header("mcp-param-first"), Some("eu"));
            assert_eq!(peer.seen_of("tools/list").len(), 2);
            if let Some(second) = calls.get(1) {
                assert_eq!(second.header("mcp-param-first"), None);
                assert_ne!(calls[0].id(), second.id());
            }
        }
    });
}

#[test]
fn a_tool_that_is_gone_when_it_is_listed_again_is_no_other_servers() {
    run(async || {
        let lists = AtomicUsize::new(0);
        let peer = Peer::asked(move |request| match &*request.what() {
            "server/discover" => discovered(request, false),
            "tools/list" => {
                let tools: &[&str] = match lists.fetch_add(1, Ordering::Relaxed) {
                    0 => &["only"],
                    _ => &[],
                };
                json_answer(&listed(&request.id(), tools)).into()
            }
            _ => refused(request, -32020),
        })
        .await;
        let other = Peer::asked(move |request| match &*request.what() {
            "server/discover" => discovered(request, false),
            "tools/list" => json_answer(&listed(&request.id(), &["only"])).into(),
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let mut stream = hub.call_tool_stream("only", ());
        let first = tokio::select! {
            _ = peer.wait_for("tools/call", 1) => None,
            event = stream.next() => event,
        };
        other.connect(&hub, "q").await;
        let end = match first {
            Some(event) => event,
            None => stream.next().await.unwrap(),
        };
        assert!(
            matches!(end.error(), Some(Error::UnknownTool { .. })),
            "{end:?}"
        );
        assert_eq!(other.seen_of("tools/call").len(), 0);
    });
}

// Covers R-611, R-1410.
#[test]
fn a_tool_whose_headers_cannot_be_sent_is_left_out_and_told_of() {
    run(async || {
        let peer = Peer::asked(|request| match &*request.what() {
            "server/discover" => discovered(request, false),
            "tools/list" => mirroring(request, &"not a token".into()),
            _ => polite(request),
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        let tools = peer.connect(&hub, "p").await;
        let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
        assert_eq!(names, ["plain"]);
        let warnings = seen.warnings();
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0].starts_with("p: tool `echo` is left out: ")
                && warnings[0].contains("not a token"),
            "{warnings:?}"
        );
        assert_eq!(hub.call_tool("plain", ()).await.unwrap(), "done");
    });
}

#[test]
fn an_argument_that_no_header_can_hold_fails_before_anything_is_sent() {
    run(async || {
        let peer = Peer::asked(|request| match &*request.what() {
            "server/discover" => discovered(request, false),
            "tools/list" => mirroring(request, &"Region".into()),
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let long = "x".repeat(20_000);
        let error = hub
            .call_tool("echo", json!({"region": long}))
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::Limit { what, .. } if what == "max_param_header_bytes"),
            "{error:?}"
        );
        assert_eq!(peer.seen_of("tools/call").len(), 0);
        assert_eq!(
            hub.call_tool("echo", json!({"region": "eu"}))
                .await
                .unwrap(),
            "done"
        );
    });
}

#[test]
fn an_unknown_tool_is_looked_for_whatever_the_list_was_said_to_be_good_for() {
    run(async || {
        let lists = AtomicUsize::new(0);
        let peer = Peer::asked(move |request| match &*request.what() {
            "server/discover" => discovered(request, false),
            "tools/list" => {
                let tool = match lists.fetch_add(1, Ordering::Relaxed) {
                    0 => "old",
                    _ => "new",
                };
                let answer = json!({"jsonrpc": "2.0", "id": request.id(), "result": {
                    "tools": [{"name": tool}], "ttlMs": 3_600_000,
                }});
                json_answer(&answer.to_string()).into()
            }
            _ => json_answer(&error(&request.id(), -32602, "Unknown tool: old")).into(),
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        hub.call_tool("old", ()).await.unwrap_err();
        while hub.find_tool("new").is_none() {
            tokio::task::yield_now().await;
        }
        let listed = |event: &_| matches!(event, HubEvent::Server { change, .. } if *change == ServerChange::ToolsListed);
        seen.until(listed).await;
    });
}
