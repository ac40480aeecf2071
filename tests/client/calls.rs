//! Calling tools and finding them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Error, EventKind, HubEvent};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};

use crate::peer::{
    self, Answer, Peer, envelope, json as json_answer, listed, polite, progress, result, sse,
};
use crate::{Seen, read, run, shown};

/// A peer that offers these tools.
async fn offering(tools: &'static [&'static str]) -> Peer {
    Peer::start(move |request| match &*request.what() {
        "tools/list" => json_answer(&listed(&request.id(), tools)).into(),
        _ => polite(request),
    })
    .await
}

#[test]
fn a_call_gives_its_result() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = peer.hub().await;
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        assert_eq!(hub.call_tool("p/echo", ()).await.unwrap(), "done");
        assert_eq!(hub.call_tool("echo", ()).server("p").await.unwrap(), "done");
    });
}

#[test]
fn a_result_can_be_read_as_a_type() {
    #[derive(serde::Deserialize, PartialEq, Debug)]
    struct Sum {
        sum: i64,
    }
    run(async || {
        // result, what `typed` gives
        let table = [
            (json!({"structuredContent": {"sum": 3}}), Some(3)),
            (
                json!({"structuredContent": {"sum": 3}, "content": [{"type": "text", "text": "x"}]}),
                Some(3),
            ),
            (
                json!({"content": [{"type": "text", "text": "{\"sum\": 4}"}]}),
                Some(4),
            ),
            (json!({"content": [{"type": "text", "text": "four"}]}), None),
            (json!({"content": []}), None),
        ];
        for (result, expected) in table {
            let answer = result.clone();
            let peer = Peer::calls(move |request| {
                let body = json!({"jsonrpc": "2.0", "id": request.id(), "result": answer});
                json_answer(&body.to_string()).into()
            })
            .await;
            let typed = peer.hub().await.call_tool("echo", ()).typed::<Sum>().await;
            match expected {
                Some(sum) => assert_eq!(typed.unwrap(), Sum { sum }, "{result}"),
                None => {
                    let error = typed.unwrap_err();
                    assert!(
                        matches!(error, Error::Protocol { .. }),
                        "{result}: {error:?}"
                    );
                    let (server, tool) = (error.server(), error.tool());
                    assert_eq!((server, tool), (Some("p"), Some("echo")), "{result}");
                }
            }
        }
    });
}

#[test]
fn a_wrapped_result_is_unwrapped_for_value_but_a_type_sees_it_first() {
    #[derive(serde::Deserialize)]
    struct Whole {
        result: Vec<i64>,
    }
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "tools/list" => {
                let schema = json!({"type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"]});
                let tools = json!([{"name": "echo", "inputSchema": {}, "outputSchema": schema}]);
                let body = json!({"jsonrpc": "2.0", "id": request.id(), "result": {"tools": tools}});
                json_answer(&body.to_string()).into()
            }
            "tools/call" => {
                let body = json!({"jsonrpc": "2.0", "id": request.id(), "result": {"structuredContent": {"result": [1, 2]}}});
                json_answer(&body.to_string()).into()
            }
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), json!([1, 2]));
        let whole: Whole = hub.call_tool("echo", ()).typed().await.unwrap();
        assert_eq!(whole.result, [1, 2]);
        let inner: Vec<i64> = hub.call_tool("echo", ()).typed().await.unwrap();
        assert_eq!(inner, [1, 2]);
        let events = read(&mut hub.call_tool_stream("echo", ())).await;
        let sent = events[0].tool_result().unwrap().value();
        assert_eq!(sent, json!({"structuredContent": {"result": [1, 2]}}));
    });
}

#[test]
fn a_stream_gives_each_event_and_then_the_result() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = peer.hub().await;
        let events = read(&mut hub.call_tool_stream("stream", ())).await;
        assert_eq!(
            shown(&events),
            ["text \"a\"", "text \"b\"", "result \"ab\""]
        );
        let as_stream: Vec<_> = hub.call_tool_stream("stream", ()).collect().await;
        assert_eq!(shown(&as_stream), shown(&events));
    });
}

#[test]
fn nothing_is_sent_before_the_first_poll() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = peer.hub().await;
        let mut stream = hub.call_tool_stream("stream", ());
        let call = hub.call_tool("stream", ());
        hub.call_tool("echo", ()).await.unwrap();
        let mut cancelled = hub.call_tool_stream("stream", ());
        cancelled.cancel();
        assert_eq!(shown(&read(&mut cancelled).await), ["cancelled null"]);
        assert_eq!(peer.seen_of("tools/call").len(), 1);
        drop(call);
        stream.next().await.unwrap();
        assert_eq!(peer.seen_of("tools/call").len(), 2);
        drop(stream);
        hub.close().await;
        let cancels = peer.seen_of("notifications/cancelled").len();
        assert_eq!(cancels, 1, "only what was sent is cancelled");
    });
}

#[test]
fn text_is_collected_from_the_events_or_else_from_the_result() {
    run(async || {
        let peer = Peer::calls(|request| {
            let (id, token) = (request.id(), request.token());
            let events = match request.json()["params"]["arguments"]["case"].as_str() {
                Some("streamed") => vec![
                    progress(&token, 1, &envelope("log", "l")),
                    progress(&token, 2, &envelope("text", "あ")),
                    progress(&token, 3, "\n"),
                    progress(&token, 4, &envelope("think", "t")),
                    result(&id, "other"),
                ],
                Some("fails") => vec![
                    progress(&token, 1, &envelope("text", "a")),
                    peer::error(&id, -32000, "broken"),
                ],
                Some("silent") => vec![result(&id, "only")],
                _ => vec![
                    json!({"jsonrpc": "2.0", "id": id, "result": {"structuredContent": {}}})
                        .to_string(),
                ],
            };
            sse(&events).into()
        })
        .await;
        let hub = peer.hub().await;
        let collect = async |case: &str| {
            let stream = hub.call_tool_stream("stream", json!({"case": case}));
            stream.collect_text().await
        };
        assert_eq!(collect("streamed").await.unwrap(), "あ\n");
        assert_eq!(collect("silent").await.unwrap(), "only");
        assert_eq!(collect("no text").await.unwrap(), "");
        let error = collect("fails").await.unwrap_err();
        assert!(
            matches!(error, Error::Rpc { code: -32000, .. }),
            "{error:?}"
        );
    });
}

#[test]
fn next_can_be_dropped_without_losing_an_event() {
    run(async || {
        let peer = Peer::calls(|_| Answer::Hand).await;
        let hub = peer.hub().await;
        let mut stream = hub.call_tool_stream("stream", ());
        let (request, mut wire) = tokio::select! {
            biased;
            event = stream.next() => panic!("{event:?}"),
            handed = peer.handed() => handed,
        };
        wire.write(peer::SSE_HEAD).await;
        for (nth, text) in ["a", "b", "c"].iter().enumerate() {
            // Polled many times before its event is there.
            for _ in 0..10 {
                assert!(stream.next().now_or_never().is_none());
            }
            let message = progress(&request.token(), nth as u64 + 1, &envelope("text", text));
            wire.send(peer::event(&message)).await;
            assert_eq!(stream.next().await.unwrap().text(), Some(*text));
        }
    });
}

//
#[test]
fn a_tool_of_two_servers_is_never_chosen_silently() {
    run(async || {
        let (a, b) = (
            offering(&["search", "only-a"]).await,
            offering(&["search"]).await,
        );
        let seen = Seen::default();
        let hub = seen.hub();
        b.connect(&hub, "b").await;
        a.connect(&hub, "a").await;
        let Err(Error::AmbiguousTool {
            tool, candidates, ..
        }) = hub.call_tool("search", ()).await
        else {
            panic!("not ambiguous")
        };
        assert_eq!(
            (&*tool, &candidates[..]),
            (
                "search",
                &["b/search".to_owned(), "a/search".to_owned()][..]
            )
        );
        let events = read(&mut hub.call_tool_stream("search", ())).await;
        assert!(matches!(
            events[0].error(),
            Some(Error::AmbiguousTool { .. })
        ));
        assert!(a.seen_of("tools/call").is_empty() && b.seen_of("tools/call").is_empty());

        hub.call_tool("a/search", ()).await.unwrap();
        hub.call_tool("search", ()).server("b").await.unwrap();
        hub.call_tool("only-a", ()).await.unwrap();
        assert_eq!(
            (a.seen_of("tools/call").len(), b.seen_of("tools/call").len()),
            (2, 1)
        );
        let calls = a.seen_of("tools/call");
        assert_eq!(calls[0].json()["params"]["name"], "search");

        let warnings = seen.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for part in ["a: ", "a/search", "b/search"] {
            assert!(warnings[0].contains(part), "{warnings:?}");
        }
        hub.list_tools().await;
        assert_eq!(seen.warnings().len(), 1, "nothing became ambiguous since");
        hub.disconnect("b").await.unwrap();
        hub.call_tool("search", ()).await.unwrap();
    });
}

#[test]
fn a_qualified_name_may_hold_slashes_on_both_sides() {
    run(async || {
        let (plain, slashed) = (offering(&["c", "b/c"]).await, offering(&["c"]).await);
        let hub = AgentHubClient::builder().build();
        plain.connect(&hub, "a").await;
        slashed.connect(&hub, "x/y").await;
        for (name, peer, tool) in [
            ("a/c", &plain, "c"),
            ("a/b/c", &plain, "b/c"),
            ("b/c", &plain, "b/c"),
            ("x/y/c", &slashed, "c"),
        ] {
            hub.call_tool(name, ())
                .await
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            let call = peer.seen_of("tools/call").pop().unwrap();
            assert_eq!(call.json()["params"]["name"], tool, "{name}");
        }
    });
}

#[test]
fn an_unknown_tool_or_server_says_what_there_is() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = AgentHubClient::builder().build();
        let nothing = hub.call_tool("echo", ()).await.unwrap_err();
        assert!(
            nothing.to_string().contains("no server is connected"),
            "{nothing}"
        );
        peer.connect(&hub, "p").await;
        for stream in [
            hub.call_tool_stream("ecko", ()),
            hub.call_tool_stream("ecko", ()).server("p"),
            hub.call_tool_stream("p/ecko", ()),
        ] {
            let mut stream = stream;
            let events = read(&mut stream).await;
            let error = events[0].error().unwrap();
            assert!(matches!(error, Error::UnknownTool { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("ecko") && text.contains("p/echo"), "{text}");
        }
        let error = hub.call_tool("echo", ()).server("q").await.unwrap_err();
        assert!(matches!(error, Error::UnknownServer { .. }), "{error:?}");
        assert_eq!(error.server(), Some("q"));
        assert!(peer.seen_of("tools/call").is_empty());
    });
}

#[test]
fn a_tool_is_found_by_name_without_asking() {
    run(async || {
        let (a, b) = (offering(&["x", "y"]).await, offering(&["y", "z"]).await);
        let hub = AgentHubClient::builder().build();
        a.connect(&hub, "a").await;
        b.connect(&hub, "b").await;
        let name = |tool: Option<agent_hub_kit::ToolRef>| tool.map(|tool| tool.qualified_name());
        assert_eq!(name(hub.find_tool("y")).as_deref(), Some("a/y"));
        assert_eq!(name(hub.find_tool_on("b", "y")).as_deref(), Some("b/y"));
        assert_eq!(name(hub.find_tool_on("a", "z")), None);
        assert_eq!(name(hub.find_tool_on("c", "y")), None);
        assert_eq!(name(hub.find_tool("w")), None);
        let all: Vec<String> = hub
            .find_tools("y")
            .iter()
            .map(|t| t.qualified_name())
            .collect();
        assert_eq!(all, ["a/y", "b/y"]);
        assert!(hub.find_tools("w").is_empty());
        assert_eq!(a.seen_of("tools/list").len(), 1);
    });
}

#[test]
fn the_observer_sees_each_event_that_was_read_and_whose_it_was() {
    run(async || {
        let peer = Peer::polite().await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        hub.call_tool("stream", ()).await.unwrap();
        let mut half = hub.call_tool_stream("stream", ());
        half.next().await.unwrap();
        drop(half);
        read(&mut hub.call_tool_stream("nope", ()).server("p")).await;
        let mut calls = std::collections::BTreeMap::<u64, Vec<String>>::new();
        for event in seen.all() {
            if let HubEvent::Call {
                server,
                tool,
                call_id,
                event,
                ..
            } = event
            {
                let line = format!("{server}/{tool} {}", event.kind);
                calls.entry(call_id).or_default().push(line);
            }
        }
        let calls: Vec<Vec<String>> = calls.into_values().collect();
        let all = ["p/stream text", "p/stream text", "p/stream result"].map(str::to_owned);
        assert_eq!(calls[0], all);
        assert_eq!(calls[1], all[..1]);
        assert_eq!(calls[2], ["p/nope terminal_error".to_owned()]);
        assert_eq!(calls.len(), 3);
    });
}

#[test]
fn an_observer_that_panics_or_calls_back_disturbs_nothing() {
    run(async || {
        let peer = Peer::polite().await;
        let back = Arc::new(std::sync::OnceLock::<AgentHubClient>::new());
        let (count, inner) = (Arc::new(AtomicUsize::new(0)), Arc::downgrade(&back));
        let counted = count.clone();
        let hub = AgentHubClient::builder()
            .on_event(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
                if let Some(hub) = inner.upgrade()
                    && let Some(hub) = hub.get()
                {
                    assert!(hub.find_tools("stream").len() < 2);
                    drop(hub.call_tool_stream("stream", ()));
                }
                std::panic::resume_unwind(Box::new("from the observer"));
            })
            .build();
        back.set(hub.clone()).unwrap();
        peer.connect(&hub, "p").await;
        let events = read(&mut hub.call_tool_stream("stream", ())).await;
        assert_eq!(events.len(), 3);
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        hub.disconnect("p").await.unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 6);
    });
}

#[test]
fn many_calls_run_at_once_on_one_hub() {
    run(async || {
        const CALLS: usize = 50;
        let peer = Peer::calls(|_| Answer::Hand).await;
        let hub = peer.hub().await;
        let calls: Vec<_> = (0..CALLS)
            .map(|n| {
                let stream = hub.call_tool_stream("stream", json!({"n": n}));
                tokio::spawn(async move { stream.collect_text().await })
            })
            .collect();
        let mut wires = Vec::new();
        for _ in 0..CALLS {
            wires.push(peer.handed().await);
        }
        // All are open. They are answered in another order than they came in.
        for (request, wire) in wires.iter_mut().rev() {
            let n = request.json()["params"]["arguments"]["n"].to_string();
            let messages = [
                progress(&request.token(), 1, &envelope("text", &n)),
                result(&request.id(), ""),
            ];
            wire.write(sse(&messages)).await;
        }
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap().unwrap(), n.to_string());
        }
    });
}

#[test]
fn two_hubs_share_a_server_without_a_mark() {
    run(async || {
        let peer = Peer::polite().await;
        let (one, two) = (peer.hub().await, peer.hub().await);
        one.call_tool("echo", ()).await.unwrap();
        one.close().await;
        assert_eq!(two.call_tool("echo", ()).await.unwrap(), "done");
    });
}

// Covers R-112, R-1215.
#[test]
fn a_call_that_was_not_answered_yet_does_not_hold_up_another_one() {
    run(async || {
        let peer = Peer::calls(|request| match request.json()["params"]["name"].as_str() {
            Some("stream") => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let slow = tokio::spawn(hub.call_tool("stream", ()).into_future());
        let (request, mut wire) = peer.handed().await;
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        assert_eq!(hub.list_tools().await[0].1.len(), 2);
        wire.write(json_answer(&result(&request.id(), "late")))
            .await;
        assert_eq!(slow.await.unwrap().unwrap(), "late");
    });
}

#[test]
fn clones_are_the_same_hub_and_options_of_a_stream_may_come_in_any_order() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = AgentHubClient::builder().build();
        peer.connect(&hub.clone(), "p").await;
        let mut stream = hub
            .call_tool_stream("stream", ())
            .idle_timeout(Duration::MAX)
            .server("p")
            .timeout(Duration::MAX);
        assert_eq!(read(&mut stream).await.len(), 3);
        let value: Value = hub
            .clone()
            .call_tool("echo", ())
            .timeout(Duration::MAX)
            .idle_timeout(Duration::MAX)
            .server("p")
            .await
            .unwrap();
        assert_eq!(value, "done");
    });
}

#[test]
fn a_stream_can_be_sent_to_another_task() {
    fn assert_traits<T: Send + Unpin + 'static>(_: &T) {}
    run(async || {
        let peer = Peer::polite().await;
        let hub = peer.hub().await;
        let mut stream = hub.call_tool_stream("stream", ());
        assert_traits(&stream);
        stream.next().await.unwrap();
        let rest = tokio::spawn(async move { read(&mut stream).await });
        assert_eq!(rest.await.unwrap().len(), 2);
        let mut unread = hub.call_tool_stream("stream", ());
        assert_eq!(unread.next().await.unwrap().kind, EventKind::Text);
    });
}
