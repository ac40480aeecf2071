//! Broken networks, hostile servers, and what they may cost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Error, EventKind, Limits};
use serde_json::{Value, json};

use crate::connect::chain;
use crate::many::BlackHole;
use crate::peer::{
    self, Answer, Peer, SSE_HEAD, chunk, envelope, event, json as json_answer, polite, progress,
    result,
};
use crate::{Seen, read, run, shown};

#[test]
fn a_reset_ends_the_call_and_not_the_connection() {
    run(async || {
        for before in ["", "HTTP/1.1 200 OK\r\nContent-Ty", SSE_HEAD] {
            let peer = Peer::calls(|request| match request.json()["params"]["name"].as_str() {
                Some("stream") => Answer::Hand,
                _ => polite(request),
            })
            .await;
            let hub = peer.hub().await;
            let mut stream = hub.call_tool_stream("stream", ());
            let reading = tokio::spawn(async move { read(&mut stream).await });
            let (_, mut wire) = peer.handed().await;
            wire.write(before).await;
            wire.reset();
            let events = reading.await.unwrap();
            let error = events[0].error().unwrap();
            assert!(
                matches!(error, Error::Transport { .. }),
                "{before:?}: {error:?}"
            );
            assert!(error.is_retryable());
            chain(error);
            assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        }
    });
}

/// An answer of two events and a result, and behind how many of its bytes each of them is whole.
/// The first event has letters of many bytes and stands in two chunks.
fn whole_answer(token: &Value, end: &str) -> (Vec<u8>, Vec<usize>) {
    let first = event(&progress(token, 1, "é😀"));
    let (left, right) = first.split_at(first.find('é').unwrap());
    let mut answer = format!("{SSE_HEAD}{}", chunk(left)).into_bytes();
    let mut whole = Vec::new();
    let second = event(&progress(token, 2, "b"));
    for text in [right, &second, &event(end)] {
        answer.extend(chunk(text).into_bytes());
        // The line break after the chunk is not the event's.
        whole.push(answer.len() - 2);
    }
    answer.extend(peer::END.bytes());
    (answer, whole)
}

/// What was cut last: the whole answer's length, the places of its events, and how many there were.
type LastCut = Arc<Mutex<(usize, Vec<usize>, usize)>>;

/// Answers a call whose arguments say so with the first bytes of an answer.
fn cut(request: &peer::Request, last: &LastCut) -> Option<Answer> {
    let arguments = request.json()["params"]["arguments"].take();
    let at = usize::try_from(arguments["at"].as_u64()?).unwrap();
    let end = peer::complete(&request.id(), json!({"content": []}));
    let (mut answer, whole) = whole_answer(&request.token(), &end);
    let mut last = last.lock().unwrap();
    *last = (answer.len(), whole, last.2 + 1);
    answer.truncate(at);
    match arguments["reset"].as_bool().unwrap() {
        true => Some(Answer::Reset(answer)),
        false => Some(Answer::Last(answer)),
    }
}

/// Within a header, a chunk size, an event, a letter, before and after each of them.
// Covers R-201, R-1211, R-1407.
#[test]
fn an_answer_that_is_cut_anywhere_ends_its_call_once_and_no_other() {
    run(async || {
        // One era on each kind of runtime.
        let flavor = tokio::runtime::Handle::current().runtime_flavor();
        let is_stateless = flavor == tokio::runtime::RuntimeFlavor::MultiThread;
        let (last, cancels) = (LastCut::default(), Arc::new(AtomicUsize::new(0)));
        let (cutting, cancelled) = (last.clone(), cancels.clone());
        let script = move |request: &peer::Request| {
            let is_cancel = request.what() == "notifications/cancelled";
            cancelled.fetch_add(is_cancel.into(), Ordering::Relaxed);
            cut(request, &cutting).unwrap_or_else(|| match is_stateless {
                true => peer::stateless(request),
                false => polite(request),
            })
        };
        let peer = match is_stateless {
            true => Peer::asked(script).await,
            false => Peer::start(script).await,
        };
        let hub = peer.hub().await;
        let (mut at, mut calls, mut begun, mut length) = (0, 0, 0, usize::MAX);
        while at <= length {
            let reset = calls % 2 == 1;
            let arguments = json!({"at": at, "reset": reset});
            let events = read(&mut hub.call_tool_stream("stream", arguments)).await;
            let (long, whole, _) = last.lock().unwrap().clone();
            length = long;
            let expected = whole.iter().filter(|end| **end <= at).count();
            let case = format!("{at} of {length}, reset: {reset}: {events:?}");
            for (text, event) in ["é😀", "b"].iter().zip(&events[..expected.min(2)]) {
                assert_eq!(event.text(), Some(*text), "{case}");
            }
            let last = events.last().unwrap();
            if expected == 3 {
                assert_eq!(last.kind, EventKind::Result, "{case}");
            } else {
                assert_eq!(events.len(), expected + 1, "{case}");
                let error = last.error().unwrap();
                assert!(matches!(error, Error::Transport { .. }), "{case}");
                // What was never answered is given up in silence.
                begun += usize::from(at >= SSE_HEAD.len());
            }
            if at % 50 == 0 {
                assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
            }
            calls += 1;
            // Each place in both ways.
            at += usize::from(reset);
        }
        // No call is made twice; one that may run on is called off, where that takes a message.
        assert_eq!(last.lock().unwrap().2, calls);
        assert!(peer.seen_of("GET").is_empty());
        let called_off = if is_stateless { 0 } else { begun };
        while cancels.load(Ordering::Relaxed) < called_off {
            tokio::task::yield_now().await;
        }
        hub.close().await;
        assert_eq!(cancels.load(Ordering::Relaxed), called_off);
        assert!(begun > 500, "{begun}");
    });
}

#[test]
fn a_server_that_vanishes_into_a_black_hole_costs_its_own_calls_their_time_alone() {
    run(async || {
        let mut limits = Limits::default();
        limits.tcp_connect_timeout = Duration::from_millis(300);
        let hub = AgentHubClient::builder().limits(limits).build();
        let (gone, other) = (Peer::polite().await, Peer::polite().await);
        gone.connect(&hub, "gone").await;
        other.connect(&hub, "other").await;
        let hole = BlackHole::at(gone.stop().await).await;
        let waiting = hub.call_tool("gone/echo", ());
        let hurried = hub
            .call_tool("gone/echo", ())
            .timeout(Duration::from_millis(100));
        let mut cancelled = hub.call_tool_stream("gone/stream", ());
        assert!(futures_util::FutureExt::now_or_never(cancelled.next()).is_none());
        cancelled.cancel();
        let (waiting, hurried, events, echoed) = tokio::join!(
            waiting.into_future(),
            hurried.into_future(),
            read(&mut cancelled),
            hub.call_tool("other/echo", ()).into_future(),
        );
        let texts = chain(&waiting.unwrap_err());
        assert!(texts[0].starts_with("gone/echo: "), "{texts:?}");
        assert!(texts[1].contains("tcp_connect_timeout"), "{texts:?}");
        let late = hurried.unwrap_err();
        assert!(matches!(late, Error::Timeout { .. }), "{late:?}");
        assert_eq!(shown(&events), ["cancelled null"]);
        assert_eq!(echoed.unwrap(), "done");
        let address = hole.close();
        let _back = Peer::start_at(address, polite).await;
        assert_eq!(hub.call_tool("gone/echo", ()).await.unwrap(), "done");
    });
}

#[test]
fn a_server_that_restarts_during_a_call_ends_that_call_alone() {
    run(async || {
        for is_stateless in [false, true] {
            let answering = move |request: &peer::Request| match is_stateless {
                true => peer::stateless(request),
                false => polite(request),
            };
            let holding = move |request: &peer::Request| match &*request.what() {
                "tools/call" => Answer::Hand,
                _ => answering(request),
            };
            let first = Peer::asked(holding).await;
            let other = Peer::asked(holding).await;
            let hub = AgentHubClient::builder().build();
            first.connect(&hub, "p").await;
            other.connect(&hub, "q").await;
            let mut calls = Vec::new();
            for (peer, tool) in [(&first, "p/stream"), (&other, "q/stream")] {
                let mut stream = hub.call_tool_stream(tool, ());
                let saying = async {
                    let (request, mut wire) = peer.handed().await;
                    wire.write(SSE_HEAD).await;
                    wire.send(event(&progress(&request.token(), 1, "a"))).await;
                    (request, wire)
                };
                let (said, (request, wire)) = tokio::join!(stream.next(), saying);
                assert_eq!(said.unwrap().text(), Some("a"));
                calls.push((stream, request, wire));
            }
            let (mut spared, request, mut spared_wire) = calls.pop().unwrap();
            let (mut stream, _, wire) = calls.pop().unwrap();
            drop(wire);
            let address = first.stop().await;
            // It knows nothing of what it was before.
            let second = Peer::start_at(address, move |request| {
                match (&*request.what(), request.header("mcp-session-id")) {
                    ("initialize", None) => {
                        peer::with_session("new", &peer::initialized(request)).into()
                    }
                    (_, Some("new")) => answering(request),
                    _ if is_stateless => answering(request),
                    _ => peer::no_session().into(),
                }
            })
            .await;
            let events = read(&mut stream).await;
            let error = events[0].error().unwrap();
            assert!(matches!(error, Error::Transport { .. }), "{error:?}");
            let streams = |call: &peer::Request| call.json()["params"]["name"] == "stream";
            assert_eq!(hub.call_tool("p/echo", ()).await.unwrap(), "done");
            assert!(
                !second.seen_of("tools/call").iter().any(streams),
                "repeated"
            );
            let end = peer::complete(&request.id(), json!({"content": []}));
            spared_wire.send(event(&end)).await;
            assert_eq!(shown(&read(&mut spared).await), ["result null"]);
        }
    });
}

#[test]
fn a_server_that_half_closes_has_ended_its_reply() {
    use tokio::io::AsyncWriteExt;
    run(async || {
        let peer = Peer::calls(|_| Answer::Hand).await;
        let hub = peer.hub().await;
        let mut stream = hub.call_tool_stream("stream", ());
        let reading = tokio::spawn(async move { read(&mut stream).await });
        let (request, mut wire) = peer.handed().await;
        wire.write(SSE_HEAD).await;
        wire.send(event(&progress(&request.token(), 1, "a"))).await;
        wire.socket.get_mut().shutdown().await.unwrap();
        let events = reading.await.unwrap();
        assert_eq!(events.len(), 2);
        assert!(
            matches!(events[1].error(), Some(Error::Transport { .. })),
            "{events:?}"
        );
        wire.hung_up().await;
    });
}

/// Writes `piece` until the client hangs up, and gives how many bytes that took, about.
async fn flood(wire: &mut peer::Wire, piece: &str, at_most: usize) -> usize {
    let mut written = 0;
    while wire.write(piece).await {
        written += piece.len();
        assert!(written < at_most, "{written} bytes were taken");
    }
    written
}

#[test]
fn a_message_without_end_is_a_limit_and_costs_no_memory() {
    const MIB: usize = 1 << 20;
    run(async || {
        let piece = "x".repeat(MIB / 4);
        let json_head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
        // what comes first, what then comes for ever
        let table = [
            (
                "a data line",
                format!("{SSE_HEAD}{}", chunk("data: ")),
                chunk(&piece),
            ),
            (
                "another line",
                format!("{SSE_HEAD}{}", chunk("x: ")),
                chunk(&piece),
            ),
            (
                "data lines",
                SSE_HEAD.to_owned(),
                chunk(&"data: x\n".repeat(MIB / 32)),
            ),
            (
                "a JSON body",
                format!("{json_head}Transfer-Encoding: chunked\r\n\r\n"),
                chunk(&piece),
            ),
            (
                "a JSON body of 100 GiB",
                format!("{json_head}Content-Length: 107374182400\r\n\r\n"),
                piece.clone(),
            ),
        ];
        for (case, first, then) in table {
            let peer = Peer::calls(|_| Answer::Hand).await;
            let mut limits = Limits::default();
            limits.max_client_message_bytes = MIB;
            let hub = AgentHubClient::builder().limits(limits).build();
            peer.connect(&hub, "p").await;
            let mut stream = hub.call_tool_stream("stream", ());
            let reading = tokio::spawn(async move { read(&mut stream).await });
            let (_, mut wire) = peer.handed().await;
            wire.write(first).await;
            // What both sockets hold comes on top.
            flood(&mut wire, &then, 30 * MIB).await;
            let events = reading.await.unwrap();
            let Some(error @ Error::Limit { what, max, .. }) = events[0].error() else {
                panic!("{case}: {events:?}")
            };
            assert_eq!(
                (*what, *max),
                ("max_client_message_bytes", MIB as u64),
                "{case}"
            );
            assert_eq!((error.server(), error.tool()), (Some("p"), Some("stream")));
            peer.wait_for("notifications/cancelled", 1).await;
        }
    });
}

#[test]
fn words_of_a_refusal_without_end_are_cut() {
    run(async || {
        for status in ["500 Oops", "404 Not Found", "200 OK"] {
            let peer = Peer::start(|request| match &*request.what() {
                "initialize" => json_answer(&peer::initialized(request)).into(),
                "tools/call" => Answer::Hand,
                _ => polite(request),
            })
            .await;
            let hub = peer.hub().await;
            let call = tokio::spawn(hub.call_tool("echo", ()).into_future());
            let (_, mut wire) = peer.handed().await;
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
            );
            wire.write(head).await;
            flood(&mut wire, &chunk(&"w".repeat(64 * 1024)), 30 << 20).await;
            let failed = call.await.unwrap().unwrap_err();
            assert!(matches!(failed, Error::Http { .. }), "{failed:?}");
            assert!(failed.to_string().len() < 1_000);
        }
    });
}

#[test]
fn a_head_without_end_is_refused() {
    run(async || {
        let peer = Peer::calls(|_| Answer::Hand).await;
        let hub = peer.hub().await;
        let call = tokio::spawn(hub.call_tool("echo", ()).into_future());
        let (_, mut wire) = peer.handed().await;
        wire.write("HTTP/1.1 200 OK\r\n").await;
        flood(
            &mut wire,
            &format!("X-Y: {}\r\n", "z".repeat(1000)),
            30 << 20,
        )
        .await;
        let failed = call.await.unwrap().unwrap_err();
        assert!(matches!(failed, Error::Transport { .. }), "{failed:?}");
    });
}

#[test]
fn json_that_is_nested_too_deep_is_passed_over_wherever_it_stands() {
    const DEPTH: usize = 100_000;
    let arrays = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    let objects = format!("{}1{}", "{\"a\":".repeat(DEPTH), "}".repeat(DEPTH));
    run(async || {
        for deep in [&arrays, &objects] {
            let of_a_call = [
                deep.clone(),
                format!(r#"{{"jsonrpc":"2.0","id":$id,"result":{deep}}}"#),
                format!(
                    r#"{{"jsonrpc":"2.0","id":$id,"error":{{"code":1,"message":"m","data":{deep}}}}}"#
                ),
                format!(r#"{{"jsonrpc":"2.0","id":{deep},"result":{{}}}}"#),
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":$id,"progress":1,"message":"m","x":{deep}}}}}"#
                ),
                // Not closed.
                deep[..deep.len() / 2].to_owned(),
            ];
            for body in of_a_call {
                let peer =
                    Peer::calls(
                        move |request| match request.json()["params"]["name"].as_str() {
                            Some("stream") => {
                                let id = request.id().to_string();
                                peer::sse(&[body.replace("$id", &id), result(&request.id(), "end")])
                                    .into()
                            }
                            _ => {
                                json_answer(&body.replace("$id", &request.id().to_string())).into()
                            }
                        },
                    )
                    .await;
                let hub = peer.hub().await;
                let mut stream = hub.call_tool_stream("stream", ());
                assert_eq!(shown(&read(&mut stream).await), ["result \"end\""]);
                let failed = hub.call_tool("echo", ()).await.unwrap_err();
                assert!(
                    matches!(failed, Error::Transport { .. } | Error::Protocol { .. }),
                    "{failed:?}"
                );
            }
            // Deep inside a string it is a string.
            let quoted = json!({"v": 1, "type": "text", "content": 0})
                .to_string()
                .replace('0', deep);
            let peer = Peer::calls(move |request| {
                peer::sse(&[
                    progress(&request.token(), 1, &quoted),
                    result(&request.id(), "end"),
                ])
                .into()
            })
            .await;
            let events = read(&mut peer.hub().await.call_tool_stream("stream", ())).await;
            assert_eq!(events.len(), 2);
            drop(events[0].content.value());

            for method in ["initialize", "tools/list"] {
                let body = deep.clone();
                let peer = Peer::start(move |request| match request.what() == method {
                    true => {
                        let id = request.id();
                        json_answer(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{body}}}"#))
                            .into()
                    }
                    false => polite(request),
                })
                .await;
                let hub = AgentHubClient::builder().build();
                let failed = hub.connect_http("p", peer.url()).await.unwrap_err();
                assert!(
                    matches!(failed, Error::Connect { .. }),
                    "{method}: {failed:?}"
                );
            }
        }
    });
}

#[test]
fn a_flood_of_nonsense_and_of_requests_ends_with_the_result() {
    run(async || {
        let peer = Peer::calls(|request| {
            let mut messages = vec!["nonsense".to_owned(); 2_000];
            messages.extend(
                (0..2_000)
                    .map(|n| json!({"jsonrpc": "2.0", "id": n, "method": "ping"}).to_string()),
            );
            messages.extend(vec![
                r#"{"jsonrpc":"2.0","id":99,"result":{}}"#.to_owned();
                2_000
            ]);
            messages.push(result(&request.id(), "end"));
            peer::sse(&messages).into()
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        let mut stream = hub.call_tool_stream("stream", ());
        assert_eq!(shown(&read(&mut stream).await), ["result \"end\""]);
        // The first ones are told of, and then how many there were, ever more seldom.
        let warnings = seen.warnings();
        assert_eq!(warnings.len(), 8 + 7, "{warnings:?}");
        assert!(warnings[14].ends_with("(1024 so far)"), "{warnings:?}");
        // The connection still lists and cancels.
        assert_eq!(hub.list_tools().await[0].1.len(), 2);
        hub.close().await;
        assert_eq!(peer.heard().last().unwrap(), "DELETE");
    });
}

#[test]
fn more_answers_than_may_wait_do_not_push_out_what_is_asked() {
    run(async || {
        let peer = Peer::calls(|_| Answer::Hand).await;
        let mut limits = Limits::default();
        limits.max_queued_messages = 4;
        let seen = Seen::default();
        let hub = seen.builder().limits(limits).build();
        peer.connect(&hub, "p").await;
        let mut stream = hub.call_tool_stream("stream", ());
        let (request, mut wire) = tokio::select! {
            biased;
            event = stream.next() => panic!("{event:?}"),
            handed = peer.handed() => handed,
        };
        let pings: String = (0..1_000)
            .map(|n| event(&json!({"jsonrpc": "2.0", "id": n, "method": "ping"}).to_string()))
            .collect();
        let end = event(&result(&request.id(), "end"));
        wire.write(format!("{SSE_HEAD}{}", chunk(&(pings + &end))))
            .await;
        let (lists, events) = tokio::join!(hub.list_tools(), read(&mut stream));
        assert_eq!(lists[0].1.len(), 2);
        assert_eq!(shown(&events), ["result \"end\""]);
        assert_eq!(seen.warnings(), [""; 0]);
        let answers = peer.seen_of("response").len();
        assert!(answers < 1_000, "{answers} answers");
    });
}

#[test]
fn a_server_that_answers_before_it_has_read_the_request_is_heard() {
    run(async || {
        // The head of the request is enough for it.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = Peer::polite().await;
        let hub = peer.hub().await;
        let address = peer.stop().await;
        drop(listener);
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let call = tokio::spawn(
            hub.call_tool("echo", json!({"text": "x".repeat(20 << 20)}))
                .into_future(),
        );
        let (mut socket, _) = listener.accept().await.unwrap();
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut some = [0; 64];
        socket.read_exact(&mut some).await.unwrap();
        socket
            .write_all(
                peer::answer("413 Too Large", "Connection: close\r\n", "too large").as_bytes(),
            )
            .await
            .unwrap();
        let failed = call.await.unwrap().unwrap_err();
        assert!(
            matches!(failed, Error::Http { status: 413, .. }),
            "{failed:?}"
        );
    });
}

#[test]
fn idle_connections_are_closed_with_the_hub() {
    run(async || {
        for orderly in [true, false] {
            let peer = Peer::calls(|_| Answer::Hand).await;
            let hub = peer.hub().await;
            let call = tokio::spawn(hub.call_tool("echo", ()).into_future());
            let (request, mut wire) = peer.handed().await;
            wire.write(json_answer(&result(&request.id(), "end"))).await;
            assert_eq!(call.await.unwrap().unwrap(), "end");
            match orderly {
                true => {
                    // The goodbye takes the idle connection.
                    peer.resume(wire);
                    hub.close().await;
                    assert_eq!(peer.heard().last().unwrap(), "DELETE");
                }
                false => {
                    drop(hub);
                    wire.hung_up().await;
                }
            }
        }
    });
}

#[test]
fn a_stream_outlives_its_runtime_without_a_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (hub, mut stream, unread) = runtime.block_on(async {
        let peer = Peer::calls(|request| {
            let first = progress(&request.token(), 1, &envelope("text", "a"));
            format!("{SSE_HEAD}{}", chunk(&event(&first))).into()
        })
        .await;
        let hub = peer.hub().await;
        let mut stream = hub
            .call_tool_stream("stream", ())
            .timeout(Duration::from_secs(9));
        assert_eq!(stream.next().await.unwrap().text(), Some("a"));
        let mut unread = hub.call_tool_stream("stream", ());
        unread.next().await.unwrap();
        (hub, stream, unread)
    });
    drop(runtime);
    drop(unread);
    stream.cancel();
    let events = futures_util::FutureExt::now_or_never(stream.next()).unwrap();
    assert_eq!(events.unwrap().kind, EventKind::Cancelled);
    assert!(hub.find_tool("echo").is_some());
    drop(hub);
}

#[test]
fn odd_values_in_a_progress_notification_harm_nobody() {
    run(async || {
        let params = [
            json!({"progress": 1e308, "total": -1}),
            json!({"progress": "1", "total": "x", "message": "m"}),
            json!({"progress": null, "message": ["a"]}),
            json!({"progress": {}, "message": {}}),
            json!({"progress": -0.0, "message": "\u{0}\u{2028}"}),
        ];
        let sent = params.clone();
        let peer = Peer::calls(move |request| {
            let mut messages: Vec<String> = sent
                .iter()
                .map(|params| {
                    let mut params = params.clone();
                    params["progressToken"] = request.token();
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string()
                })
                .collect();
            messages.push(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$id,"progress":1e999,"message":"inf"}}"#.replace("$id", &request.id().to_string()));
            messages.push(result(&request.id(), "end"));
            peer::sse(&messages).into()
        })
        .await;
        let hub = peer.hub().await;
        let events = read(&mut hub.call_tool_stream("stream", ())).await;
        assert_eq!(events.last().unwrap().kind, EventKind::Result);
        for event in &events {
            let json: Value = serde_json::to_value(event).unwrap();
            assert!(json["type"].is_string(), "{json}");
        }
        assert_eq!(events[4].text(), Some("\u{0}\u{2028}"));
    });
}
