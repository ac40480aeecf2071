//! Events: their order, their content, and those that come on another call's reply.

use agent_hub_kit::{AgentHubClient, CallStream, Error, EventKind, Limits, TERMINAL_EVENT_TYPES};
use serde_json::{Value, json};

use crate::peer::{Answer, Peer, Request, SSE_HEAD, Wire, envelope, event, progress, result, sse};
use crate::{read, run, shown};

#[test]
fn every_rule_of_the_envelope_is_seen_in_the_stream() {
    run(async || {
        // message, type, content, node
        let table = [
            (
                r#"{"v":1,"type":"text","content":"あ","node":"n"}"#,
                "text",
                json!("あ"),
                Some("n"),
            ),
            (
                r#"{"type":"think","content":"t"}"#,
                "think",
                json!("t"),
                None,
            ),
            (
                r#"{"v":1,"type":"image","content":"data:image/png;base64,AA=="}"#,
                "image",
                json!("data:image/png;base64,AA=="),
                None,
            ),
            (
                r#"{"v":1,"type":"emotion_data","content":{"a":[1,2.5,null]}}"#,
                "emotion_data",
                json!({"a": [1, 2.5, null]}),
                None,
            ),
            (
                r#"{"v":1,"type":"error","content":"oops"}"#,
                "error",
                json!("oops"),
                None,
            ),
            (
                r#"{"v":1,"type":"my_own","content":true}"#,
                "my_own",
                json!(true),
                None,
            ),
            (
                r#"{"v":9,"type":"log","content":"l","new":{}}"#,
                "log",
                json!("l"),
                None,
            ),
            (r#"{"v":1,"type":"text"}"#, "text", json!(null), None),
            (
                r#"{"v":1,"type":"text","content":"a","node":7}"#,
                "text",
                json!("a"),
                None,
            ),
            (
                r#"{"v":1,"type":"text","content":"a","content":"b"}"#,
                "text",
                json!("b"),
                None,
            ),
            (
                r#"{"v":1,"type":"text","content":"\"\\\n\u0041\ud83d\ude00"}"#,
                "text",
                json!("\"\\\nA😀"),
                None,
            ),
            (
                r#"{"v":1,"type":"text","content":"\ud83d"}"#,
                "text",
                json!("\u{fffd}"),
                None,
            ),
            (
                r#"{"v":1,"type":7}"#,
                "text",
                json!(r#"{"v":1,"type":7}"#),
                None,
            ),
            (
                r#"{"content":"a"}"#,
                "text",
                json!(r#"{"content":"a"}"#),
                None,
            ),
            ("[1]", "text", json!("[1]"), None),
            ("plain words", "text", json!("plain words"), None),
            ("", "text", json!(""), None),
            ("{\"v\":1,", "text", json!("{\"v\":1,"), None),
        ];
        let messages: Vec<&str> = table.iter().map(|row| row.0).collect();
        let owned: Vec<String> = messages.iter().map(|m| (*m).to_owned()).collect();
        let peer = Peer::calls(move |request| {
            let mut events: Vec<String> = (1..)
                .zip(&owned)
                .map(|(n, message)| progress(&request.token(), n, message))
                .collect();
            events.push(result(&request.id(), "end"));
            sse(&events).into()
        })
        .await;
        let hub = peer.hub().await;
        let events = read(&mut hub.call_tool_stream("stream", ())).await;
        assert_eq!(events.len(), table.len() + 1);
        for (n, (event, (message, kind, content, node))) in events.iter().zip(&table).enumerate() {
            assert_eq!(event.kind.as_str(), *kind, "{message}");
            assert_eq!(event.content.value(), *content, "{message}");
            assert_eq!(
                event.node.as_ref().map(|node| node.as_str()),
                *node,
                "{message}"
            );
            assert_eq!(event.raw().as_deref(), Some(*message));
            let progress = event.progress().unwrap();
            assert_eq!(
                (progress.number, progress.total),
                ((n + 1) as f64, None),
                "{message}"
            );
            assert!(event.tool_result().is_none() && event.error().is_none());
            let owned = event.clone().into_owned();
            assert_eq!(
                serde_json::to_value(&owned).unwrap(),
                json!({"type": kind, "content": content, "node": node}),
                "{message}"
            );
            assert_eq!(
                (owned.raw(), owned.progress()),
                (event.raw(), event.progress())
            );
        }
    });
}

#[test]
fn an_envelope_cannot_end_a_stream() {
    run(async || {
        let peer = Peer::calls(|request| {
            let mut events: Vec<String> = (1..)
                .zip(TERMINAL_EVENT_TYPES)
                .map(|(n, kind)| progress(&request.token(), n, &envelope(kind, "x")))
                .collect();
            events.push(result(&request.id(), "end"));
            sse(&events).into()
        })
        .await;
        let events = read(&mut peer.hub().await.call_tool_stream("stream", ())).await;
        let expected = [
            "peer:result \"x\"",
            "peer:terminal_error \"x\"",
            "peer:cancelled \"x\"",
            "result \"end\"",
        ];
        assert_eq!(shown(&events), expected);
        assert!(matches!(events[0].kind, EventKind::Other(_)));
    });
}

#[test]
fn progress_without_a_message_is_shown_by_its_numbers() {
    run(async || {
        // params beside the token, content, number, total
        let table = [
            (
                json!({"progress": 1, "total": 10}),
                json!({"progress": 1, "total": 10}),
                1.0,
                Some(10.0),
            ),
            (
                json!({"progress": 0.5}),
                json!({"progress": 0.5}),
                0.5,
                None,
            ),
            (
                json!({"progress": 2, "message": null}),
                json!({"progress": 2}),
                2.0,
                None,
            ),
            (
                json!({"progress": 2, "message": 7}),
                json!({"progress": 2}),
                2.0,
                None,
            ),
            (json!({}), json!({"progress": null}), 0.0, None),
        ];
        let params: Vec<Value> = table.iter().map(|row| row.0.clone()).collect();
        let peer = Peer::calls(move |request| {
            let event = |params: &Value| {
                let mut params = params.clone();
                params["progressToken"] = request.token();
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                    .to_string()
            };
            let mut events: Vec<String> = params.iter().map(event).collect();
            events.push(result(&request.id(), "end"));
            sse(&events).into()
        })
        .await;
        let events = read(&mut peer.hub().await.call_tool_stream("stream", ())).await;
        for (event, (sent, content, number, total)) in events.iter().zip(table) {
            assert_eq!(event.kind, EventKind::Progress, "{sent}");
            assert_eq!(event.content.value(), content, "{sent}");
            let progress = event.progress().unwrap();
            assert_eq!((progress.number, progress.total), (number, total), "{sent}");
            assert!(event.raw().is_none());
        }
    });
}

// Covers R-806.
#[test]
fn events_come_in_the_order_in_which_they_were_sent_whatever_their_numbers() {
    run(async || {
        let peer = Peer::calls(|request| {
            let numbers = [1, 2, 2, 1, 9, 3];
            let mut events: Vec<String> = numbers
                .iter()
                .map(|n| progress(&request.token(), *n, &envelope("text", &n.to_string())))
                .collect();
            events.push(result(&request.id(), "end"));
            sse(&events).into()
        })
        .await;
        let events = read(&mut peer.hub().await.call_tool_stream("stream", ())).await;
        let texts: Vec<&str> = events.iter().filter_map(|event| event.text()).collect();
        assert_eq!(texts, ["1", "2", "2", "1", "9", "3", "end"]);
    });
}

// Covers R-711.
#[test]
fn nothing_is_given_after_the_first_response() {
    run(async || {
        let peer = Peer::calls(|request| {
            let id = request.id();
            let late = progress(&request.token(), 2, &envelope("text", "late"));
            sse(&[
                progress(&request.token(), 1, &envelope("text", "a")),
                result(&id, "first"),
                result(&id, "second"),
                late,
                crate::peer::error(&id, 1, "third"),
            ])
            .into()
        })
        .await;
        let hub = peer.hub().await;
        for _ in 0..3 {
            let events = read(&mut hub.call_tool_stream("stream", ())).await;
            assert_eq!(shown(&events), ["text \"a\"", "result \"first\""]);
        }
        hub.close().await;
        assert!(peer.seen_of("notifications/cancelled").is_empty());
    });
}

/// Two calls that run, each with its reply open.
struct Two {
    peer: Peer,
    hub: AgentHubClient,
    calls: [(CallStream, Request, Wire); 2],
}

impl Two {
    async fn start(limits: Limits, capacity: Option<usize>) -> Self {
        let peer = Peer::calls(|_| Answer::Hand).await;
        let hub = AgentHubClient::builder().limits(limits).build();
        peer.connect(&hub, "p").await;
        let mut calls = Vec::new();
        for _ in 0..2 {
            let mut stream = hub.call_tool_stream("stream", ());
            if let Some(capacity) = capacity {
                stream = stream.queue_capacity(capacity);
            }
            let (request, mut wire) = tokio::select! {
                biased;
                event = stream.next() => panic!("{event:?}"),
                handed = peer.handed() => handed,
            };
            wire.write(SSE_HEAD).await;
            calls.push((stream, request, wire));
        }
        let calls = calls.try_into().map_err(|_| ()).unwrap();
        Self { peer, hub, calls }
    }
}

// Covers R-113, R-806.
#[test]
fn events_on_another_calls_reply_reach_their_call_in_order() {
    run(async || {
        let Two {
            peer: _peer,
            hub: _hub,
            calls,
        } = Two::start(Limits::default(), None).await;
        let [
            (mut a, a_request, mut a_wire),
            (mut b, b_request, mut b_wire),
        ] = calls;
        for n in 1..=5 {
            let message = progress(&b_request.token(), n, &envelope("text", &n.to_string()));
            a_wire.send(event(&message)).await;
        }
        let own = progress(&a_request.token(), 1, &envelope("text", "own"));
        a_wire.send(event(&own)).await;
        assert_eq!(a.next().await.unwrap().text(), Some("own"));
        let mut texts = Vec::new();
        for _ in 0..5 {
            texts.push(b.next().await.unwrap().text().unwrap().to_owned());
        }
        assert_eq!(texts, ["1", "2", "3", "4", "5"]);
        // And its end, while a reader waits for it.
        let reading = tokio::spawn(async move { read(&mut b).await });
        a_wire.send(event(&result(&b_request.id(), "b"))).await;
        a_wire.send(event(&result(&a_request.id(), "a"))).await;
        assert_eq!(shown(&read(&mut a).await), ["result \"a\""]);
        assert_eq!(shown(&reading.await.unwrap()), ["result \"b\""]);
        // Its own reply has nothing to add, and is hung up.
        b_wire.hung_up().await;
    });
}

#[test]
fn the_end_on_another_calls_reply_is_the_only_end() {
    run(async || {
        let Two { peer, hub, calls } = Two::start(Limits::default(), None).await;
        let [
            (mut a, a_request, mut a_wire),
            (mut b, b_request, mut b_wire),
        ] = calls;
        b_wire
            .send(event(&progress(&b_request.token(), 1, "before")))
            .await;
        assert_eq!(b.next().await.unwrap().text(), Some("before"));
        let both = [
            result(&b_request.id(), "over there"),
            result(&a_request.id(), "a"),
        ];
        a_wire
            .send(both.map(|message| event(&message)).concat())
            .await;
        assert_eq!(shown(&read(&mut a).await), ["result \"a\""]);
        b_wire.send(event(&result(&b_request.id(), "here"))).await;
        assert_eq!(shown(&read(&mut b).await), ["result \"over there\""]);
        hub.close().await;
        assert!(peer.seen_of("notifications/cancelled").is_empty());
    });
}

#[test]
fn a_flood_for_a_call_that_nobody_reads_ends_that_call_alone() {
    run(async || {
        let (mut few, mut small) = (Limits::default(), Limits::default());
        few.max_queued_events = 10;
        small.max_queued_bytes = 10_000;
        for (limits, capacity, named, max) in [
            (few, None, "max_queued_events", 10),
            (small, None, "max_queued_bytes", 10_000),
            (Limits::default(), Some(10), "queue_capacity", 10),
        ] {
            let Two { peer, hub, calls } = Two::start(limits, capacity).await;
            let [
                (mut a, a_request, mut a_wire),
                (mut b, b_request, mut b_wire),
            ] = calls;
            let flood: String = (1..=100)
                .map(|n| {
                    event(&progress(
                        &b_request.token(),
                        n,
                        &envelope("text", &"x".repeat(100)),
                    ))
                })
                .collect();
            a_wire.send(flood).await;
            a_wire.send(event(&result(&a_request.id(), "a"))).await;
            assert_eq!(shown(&read(&mut a).await), ["result \"a\""]);
            let cancel = &peer.wait_for("notifications/cancelled", 1).await[0];
            assert_eq!(cancel.json()["params"]["requestId"], b_request.id());
            let events = read(&mut b).await;
            let (end, before) = events.split_last().unwrap();
            let Some(
                error @ Error::Limit {
                    what, max: limit, ..
                },
            ) = end.error()
            else {
                panic!("{end:?}")
            };
            assert_eq!((*what, *limit), (named, max));
            assert_eq!(error.tool(), Some("stream"), "{error:?}");
            assert!(
                (1..=99).contains(&before.len()),
                "{named}: {}",
                before.len()
            );
            for (n, event) in (1..).zip(before) {
                assert_eq!(event.progress().unwrap().number, f64::from(n), "{named}");
            }
            b_wire.hung_up().await;
            hub.close().await;
            assert_eq!(peer.seen_of("notifications/cancelled").len(), 1);
        }
    });
}

#[test]
fn a_reader_makes_room_for_a_flood() {
    run(async || {
        let mut limits = Limits::default();
        limits.max_queued_events = 10;
        let Two {
            peer: _peer,
            hub: _hub,
            calls,
        } = Two::start(limits, None).await;
        let [(mut a, a_request, mut a_wire), (mut b, b_request, _)] = calls;
        for n in 1..=100 {
            let message = progress(&b_request.token(), n, &envelope("text", "x"));
            let own = progress(&a_request.token(), n, &envelope("text", "y"));
            a_wire.send([event(&message), event(&own)].concat()).await;
            assert_eq!(a.next().await.unwrap().text(), Some("y"));
            assert_eq!(b.next().await.unwrap().text(), Some("x"));
        }
    });
}

#[test]
fn events_for_a_call_that_is_over_are_dropped() {
    run(async || {
        let Two {
            peer: _peer,
            hub,
            calls,
        } = Two::start(Limits::default(), None).await;
        let [(mut a, a_request, mut a_wire), (b, b_request, _)] = calls;
        drop(b);
        let late = [
            progress(&b_request.token(), 1, "late"),
            result(&b_request.id(), "late"),
            progress(&a_request.token(), 1, &envelope("text", "a")),
            result(&a_request.id(), "a"),
        ];
        a_wire
            .send(late.map(|message| event(&message)).concat())
            .await;
        assert_eq!(shown(&read(&mut a).await), ["text \"a\"", "result \"a\""]);
        drop(hub);
    });
}
