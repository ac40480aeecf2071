//! Events on their way: their bytes, their order, and the form of the answer.

use std::time::Duration;

use agent_hub_kit::{
    Error, EventStreamer, RawArgs, Tool, ToolContext, ToolError, stream_text_iter,
    stream_text_stream, try_stream_text_iter, try_stream_text_stream,
};
use serde_json::{Value, json};

use crate::fixture::{
    BOTH, Gate, Live, Told, builder, call, channel, echo, endless, event_of, gated, limits,
    on_both_runtimes, quiet_call, serve,
};
use crate::raw::{message_of, soon};
use crate::stated::{ask, streaming};

async fn say_everything(ctx: &ToolContext) -> Result<(), Error> {
    let stream = ctx.streamer("n\"1");
    stream.text("あ\"\\\n").await?;
    stream.text('c').await?;
    stream.text(String::from("s")).await?;
    stream.think("hm").await?;
    stream.log(json!({"line": 1})).await?;
    stream.image("data:image/png;base64,AA==").await?;
    stream.stl("data:model/stl;base64,AA==").await?;
    stream.video("https://example.com/v").await?;
    stream.emotion(json!({"joy": 0.5})).await?;
    stream.error("odd").await?;
    stream.send("custom", [1, 2]).await?;
    stream.send("peer:result", ()).await?;
    stream.with_node("other").text("o").await?;
    stream.with_node(String::from("owned")).text("o").await?;
    stream.with_node(None::<String>).text("none").await?;
    EventStreamer::new(ctx).text("plain").await?;
    EventStreamer::new(ctx).node("late").text("l").await?;
    // The node of the streamer itself is as it was.
    stream.text("").await?;
    Ok(())
}

// Covers R-1205, R-1206, R-1318, R-1507.
async fn every_kind_of_event_is_written_byte_for_byte() {
    let builder = builder().tool(Tool::new("t"), async |_: RawArgs, ctx: ToolContext| {
        assert!(ctx.streamer("n").is_active() && !ctx.streamer("n").is_closed());
        say_everything(&ctx).await?;
        Ok("done")
    });
    let session = serve(builder).await.session().await;
    let mut answer = session.call(7, "t", json!({})).await;
    assert_eq!(answer.head.status, 200);
    let header = |name| answer.head.header(name);
    assert_eq!(header("content-type"), Some("text/event-stream"));
    assert_eq!(header("cache-control"), Some("no-cache"));
    assert_eq!(header("x-accel-buffering"), Some("no"));
    assert_eq!(header("mcp-session-id"), None);
    // As they stand on the wire, within the quotes of `message`.
    let node = r#",\"node\":\"n\\\"1\""#;
    let envelopes = [
        (r#"\"text\",\"content\":\"あ\\\"\\\\\\n\""#, node),
        (r#"\"text\",\"content\":\"c\""#, node),
        (r#"\"text\",\"content\":\"s\""#, node),
        (r#"\"think\",\"content\":\"hm\""#, node),
        (r#"\"log\",\"content\":{\"line\":1}"#, node),
        (
            r#"\"image\",\"content\":\"data:image/png;base64,AA==\""#,
            node,
        ),
        (
            r#"\"stl\",\"content\":\"data:model/stl;base64,AA==\""#,
            node,
        ),
        (r#"\"video\",\"content\":\"https://example.com/v\""#, node),
        (r#"\"emotion_data\",\"content\":{\"joy\":0.5}"#, node),
        (r#"\"error\",\"content\":\"odd\""#, node),
        (r#"\"custom\",\"content\":[1,2]"#, node),
        (r#"\"peer:result\",\"content\":null"#, node),
        (r#"\"text\",\"content\":\"o\""#, r#",\"node\":\"other\""#),
        (r#"\"text\",\"content\":\"o\""#, r#",\"node\":\"owned\""#),
        (r#"\"text\",\"content\":\"none\""#, ""),
        (r#"\"text\",\"content\":\"plain\""#, ""),
        (r#"\"text\",\"content\":\"l\""#, r#",\"node\":\"late\""#),
        (r#"\"text\",\"content\":\"\""#, node),
    ];
    for (index, (envelope, node)) in envelopes.into_iter().enumerate() {
        let expected = format!(
            "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\
             \"params\":{{\"progressToken\":7,\"progress\":{},\
             \"message\":\"{{\\\"v\\\":1,\\\"type\\\":{envelope}{node}}}\"}}}}\n\n",
            index + 1,
        );
        assert_eq!(answer.frame().await.unwrap(), expected);
    }
    assert_eq!(
        answer.frame().await.unwrap(),
        "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\
         {\"content\":[{\"text\":\"done\",\"type\":\"text\"}]}}\n\n"
    );
    assert_eq!(answer.frame().await, None);
}
on_both_runtimes!(every_kind_of_event_is_written_byte_for_byte);

fn talkative(builder: agent_hub_kit::McpServerBuilder) -> agent_hub_kit::McpServerBuilder {
    builder.tool(Tool::new("t"), async |_: RawArgs, ctx: ToolContext| {
        let stream = ctx.streamer("n");
        stream.text("a").await?;
        Ok(stream.is_active().to_string())
    })
}

// Covers R-802, R-804.
async fn the_token_comes_back_as_it_was_sent_and_without_one_nothing_streams() {
    let session = serve(talkative(builder())).await.session().await;
    let table = [
        ("0", Some("0")),
        ("-1", Some("-1")),
        (r#""""#, Some(r#""""#)),
        (r#""x""#, Some(r#""x""#)),
        (r#""\u00e9""#, Some(r#""\u00e9""#)),
        ("9007199254740993", Some("9007199254740993")),
        ("null", None),
        ("1.5", None),
        ("true", None),
        ("{}", None),
    ];
    for (token, echoed) in table {
        let mut answer = session
            .post(format!(
                r#"{{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{{"name":"t","_meta":{{"progressToken":{token}}}}}}}"#
            ))
            .await;
        let active = match echoed {
            Some(echoed) => {
                assert!(answer.head.is_sse(), "{token}");
                let frame = answer.frame().await.unwrap();
                let part = format!(r#""progressToken":{echoed},"progress":1,"#);
                assert!(frame.contains(&part), "{token}: {frame}");
                let result = answer.message().await.unwrap();
                assert_eq!(answer.frame().await, None);
                result
            }
            None => {
                assert!(!answer.head.is_sse(), "{token}");
                answer.json().await
            }
        };
        assert_eq!(
            active["result"]["content"][0]["text"],
            echoed.is_some().to_string(),
            "{token}"
        );
    }
    for meta in ["", r#","_meta":{}"#, r#","_meta":null"#, r#","_meta":7"#] {
        let mut answer = session
            .post(format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t"{meta}}}}}"#
            ))
            .await;
        assert!(!answer.head.is_sse(), "{meta}");
        assert_eq!(answer.json().await["result"]["content"][0]["text"], "false");
    }
}
on_both_runtimes!(the_token_comes_back_as_it_was_sent_and_without_one_nothing_streams);

// Covers R-1203, R-1204.
#[tokio::test]
async fn the_answer_has_a_form_that_the_client_takes() {
    let session = serve(talkative(echo(builder()))).await.session().await;
    let streaming = call(1, "t", json!({}));
    let silent = call(1, "echo", json!({"text": "a"}));
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let unknown = r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#;
    let (json, sse) = ("application/json", "text/event-stream");
    let table = [
        // Accept, body, form, messages
        (BOTH, &*streaming, sse, 2),
        (BOTH, &silent, json, 1),
        ("*/*", &streaming, sse, 2),
        // What cannot be streamed is not sent.
        (json, &streaming, json, 1),
        (json, &silent, json, 1),
        (json, list, json, 1),
        (sse, &streaming, sse, 2),
        (sse, &silent, sse, 1),
        (sse, list, sse, 1),
        (sse, unknown, sse, 1),
    ];
    for (accept, body, form, count) in table {
        let mut answer = session.post_accepting(accept, body).await;
        assert_eq!(answer.head.status, 200, "{accept} {body}");
        assert_eq!(
            answer.head.header("content-type"),
            Some(form),
            "{accept} {body}"
        );
        let messages = match form == sse {
            true => answer.messages().await,
            false => vec![answer.json().await],
        };
        assert_eq!(messages.len(), count, "{accept} {body}");
        assert_eq!(messages.last().unwrap()["id"], 1, "{accept} {body}");
    }
    // An answer that refuses is always JSON, for clients that read nothing else then.
    let refused = session.post_accepting(sse, "{").await;
    assert_eq!(refused.head.status, 400);
    assert!(!refused.head.is_sse());
    assert_eq!(
        session.post_accepting("text/html", list).await.head.status,
        406
    );
}

// Covers R-1204.
async fn the_head_of_a_silent_call_leaves_within_the_window() {
    // The default window, and shorter ones. The tool waits for the head to have come.
    for window in [None, Some(Duration::ZERO), Some(Duration::from_millis(5))] {
        let gate = Gate::new();
        let limits = limits(|l| l.answer_window = window.unwrap_or(l.answer_window));
        let served = serve(gated(builder(), &gate).limits(limits)).await;
        let session = served.session().await;
        let mut with_token = session.call(1, "gated", json!({})).await;
        let mut without = session.post(quiet_call(2, "gated", json!({}))).await;
        gate.open();
        for answer in [&mut with_token, &mut without] {
            assert!(answer.head.is_sse());
            let messages = answer.messages().await;
            assert_eq!(messages.len(), 1);
            assert_eq!(messages[0]["result"]["content"][0]["text"], "released");
        }
    }
}
on_both_runtimes!(the_head_of_a_silent_call_leaves_within_the_window);

#[tokio::test]
async fn a_client_that_takes_only_json_waits_for_the_end() {
    let gate = Gate::new();
    let limits = limits(|l| l.answer_window = Duration::ZERO);
    let served = serve(gated(builder(), &gate).limits(limits)).await;
    let session = served.session().await;
    let waiting = tokio::spawn({
        let session = session.clone();
        async move {
            session
                .post_accepting("application/json", call(1, "gated", json!({})))
                .await
        }
    });
    // The server is past the window once it has answered others.
    for _ in 0..10 {
        assert_eq!(session.ping().await, 200);
    }
    gate.open();
    let mut answer = soon(waiting).await.unwrap();
    assert!(!answer.head.is_sse());
    assert_eq!(
        answer.json().await["result"]["content"][0]["text"],
        "released"
    );
}

// Covers R-1205.
#[tokio::test]
async fn a_silent_stream_is_kept_alive() {
    let gate = Gate::new();
    let limits = limits(|l| {
        l.answer_window = Duration::from_millis(1);
        l.keep_alive_interval = Duration::from_millis(10);
    });
    let served = serve(gated(builder(), &gate).limits(limits)).await;
    let mut answer = served.session().await.call(1, "gated", json!({})).await;
    for _ in 0..3 {
        assert_eq!(answer.frame().await.unwrap(), ": keep-alive\n\n");
    }
    gate.open();
    let last = loop {
        let frame = answer.frame().await.unwrap();
        if frame != ": keep-alive\n\n" {
            break frame;
        }
    };
    assert_eq!(message_of(&last)["id"], 1);
    assert_eq!(answer.frame().await, None);
}

/// What a tool does with its streamers when it returns.
#[derive(Debug, Clone, Copy)]
enum Habit {
    /// Leaves one to a task that goes on.
    LeavesOneBehind,
    /// Sends much and returns without a pause.
    SendsMuch,
    /// Drops a task that was sending every millisecond.
    StopsAClock,
}

// Covers R-711, R-804, R-1102, R-1206.
async fn nothing_follows_the_result() {
    let (told, mut late) = channel();
    let builder = builder()
        .tool_with(
            Tool::new("leaves_one_behind"),
            told.clone(),
            async |told: Told<Error>, _: RawArgs, ctx: ToolContext| {
                let stream = ctx.streamer("late");
                tokio::spawn(async move {
                    loop {
                        if let Err(e) = stream.text("x").await {
                            assert!(stream.is_closed() && !stream.is_active());
                            return told.tell(e);
                        }
                        tokio::task::yield_now().await;
                    }
                });
                Ok("end")
            },
        )
        .tool(
            Tool::new("sends_much"),
            async |_: RawArgs, ctx: ToolContext| {
                let stream = ctx.streamer("much");
                for index in 0..1000 {
                    stream.text(index.to_string()).await?;
                }
                Ok("end")
            },
        )
        .tool(
            Tool::new("stops_a_clock"),
            async |_: RawArgs, ctx: ToolContext| {
                let stream = ctx.streamer("clock");
                let mut clock = tokio::time::interval(Duration::from_millis(1));
                let ticking = async {
                    loop {
                        clock.tick().await;
                        if stream.text("tick").await.is_err() {
                            return;
                        }
                    }
                };
                let ending =
                    tokio::time::timeout(Duration::from_millis(20), std::future::pending::<()>());
                futures_util::future::select(std::pin::pin!(ticking), std::pin::pin!(ending)).await;
                Ok("end")
            },
        );
    let session = serve(builder).await.session().await;
    let table = [
        (Habit::LeavesOneBehind, "leaves_one_behind"),
        (Habit::SendsMuch, "sends_much"),
        (Habit::StopsAClock, "stops_a_clock"),
    ];
    for round in 0..6 {
        for (habit, tool) in table {
            // In a session and without one, in turn.
            let mut answer = match round % 2 {
                0 => session.call(round, tool, json!({})).await,
                _ => {
                    ask(
                        session.addr,
                        round,
                        "tools/call",
                        streaming(tool, json!({})),
                    )
                    .await
                }
            };
            let mut messages = match answer.head.is_sse() {
                true => answer.messages().await,
                false => vec![answer.json().await],
            };
            let last = messages.pop().unwrap();
            assert_eq!(last["result"]["content"][0]["text"], "end", "{habit:?}");
            for (index, message) in messages.iter().enumerate() {
                assert_eq!(message["method"], "notifications/progress", "{habit:?}");
                assert_eq!(message["params"]["progress"], index + 1, "{habit:?}");
                if let Habit::SendsMuch = habit {
                    assert_eq!(event_of(message)["content"], index.to_string());
                }
            }
            match habit {
                Habit::LeavesOneBehind => {
                    let error = soon(late.recv()).await.unwrap();
                    assert!(
                        matches!(error, Error::Closed { what: "stream", .. }),
                        "{error:?}"
                    );
                }
                Habit::SendsMuch => assert_eq!(messages.len(), 1000),
                Habit::StopsAClock => assert!(!messages.is_empty()),
            }
        }
    }
}
on_both_runtimes!(nothing_follows_the_result);

#[tokio::test]
async fn a_streamer_of_a_quiet_call_learns_of_the_end_too() {
    let (told, mut late) = channel();
    let builder = builder().tool_with(
        Tool::new("t"),
        told,
        async |told: Told<_>, _: RawArgs, ctx: ToolContext| {
            ctx.streamer("n").text("nobody hears it").await?;
            tokio::spawn(async move {
                ctx.cancelled().await;
                told.tell((
                    ctx.streamer("n").text("late").await,
                    ctx.progress(1.0, None, None).await,
                    ctx.is_cancelled(),
                ));
            });
            Ok(())
        },
    );
    let session = serve(builder).await.session().await;
    session.result("t", json!({})).await;
    let (text, progress, is_cancelled) = soon(late.recv()).await.unwrap();
    assert!(matches!(text, Err(Error::Closed { what: "stream", .. })));
    assert!(matches!(
        progress,
        Err(Error::Closed { what: "stream", .. })
    ));
    assert!(is_cancelled);
}

// Covers R-803.
#[tokio::test]
async fn plain_progress_keeps_its_numbers_as_long_as_they_rise() {
    let builder = builder()
        .tool(Tool::new("plain"), async |_: RawArgs, ctx: ToolContext| {
            for number in [0.0, 50.0, 100.0] {
                ctx.progress(number, 100.0, "going").await?;
            }
            Ok(())
        })
        .tool(Tool::new("mixed"), async |_: RawArgs, ctx: ToolContext| {
            let stream = ctx.streamer("n");
            ctx.progress(0.25, None, None).await?;
            ctx.progress(0.5, 1.0, None).await?;
            stream.text("a").await?;
            ctx.progress(0.75, None, None).await?;
            ctx.progress(-3.0, None, None).await?;
            stream.text("b").await?;
            ctx.progress(10.5, None, "x\"y").await?;
            stream.text("c").await?;
            Ok(())
        })
        .tool(Tool::new("odd"), async |_: RawArgs, ctx: ToolContext| {
            for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 5.0, -0.0] {
                ctx.progress(number, f64::NAN, None).await?;
            }
            ctx.streamer("n").text("a").await?;
            Ok(())
        });
    let session = serve(builder).await.session().await;
    let numbers = async |tool: &str| -> Vec<Value> {
        let mut messages = session.call(1, tool, json!({})).await.messages().await;
        messages.pop();
        messages
            .into_iter()
            .map(|mut m| m["params"].take())
            .collect()
    };
    let plain = |number: i64| json!({"progressToken": 1, "progress": number, "total": 100, "message": "going"});
    assert_eq!(numbers("plain").await, [plain(0), plain(50), plain(100)]);

    let mixed = numbers("mixed").await;
    let seen: Vec<_> = mixed
        .iter()
        .map(|p| p["progress"].as_f64().unwrap())
        .collect();
    assert_eq!(seen, [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 10.5, 11.0]);
    assert_eq!(mixed[1]["total"], 1);
    assert_eq!(mixed[6]["message"], "x\"y");
    assert_eq!(mixed[0].get("message"), None);

    let odd = numbers("odd").await;
    let seen: Vec<_> = odd
        .iter()
        .map(|p| p["progress"].as_f64().unwrap())
        .collect();
    assert_eq!(seen.len(), 7);
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
}

#[tokio::test]
async fn texts_can_be_streamed_from_iterators_and_streams() {
    use futures_util::stream;

    fn chunks() -> [Result<&'static str, std::num::ParseIntError>; 3] {
        [Ok("a"), Err("x".parse::<u8>().unwrap_err()), Ok("b")]
    }
    let builder = builder()
        .tool(Tool::new("iter"), async |_: RawArgs, ctx: ToolContext| {
            Ok(stream_text_iter(&ctx.streamer("n"), ["a", "é"]).await?)
        })
        .tool(Tool::new("chars"), async |_: RawArgs, ctx: ToolContext| {
            Ok(stream_text_iter(&ctx.streamer("n"), "aé".chars()).await?)
        })
        .tool(Tool::new("stream"), async |_: RawArgs, ctx: ToolContext| {
            let chunks = stream::iter(["a".to_owned(), "é".to_owned()]);
            Ok(stream_text_stream(&ctx.streamer("n"), chunks).await?)
        })
        .tool(
            Tool::new("try_iter_ok"),
            async |_: RawArgs, ctx: ToolContext| {
                try_stream_text_iter(&ctx.streamer("n"), ["a", "é"].map(Ok::<_, Error>)).await
            },
        )
        .tool(
            Tool::new("try_stream_ok"),
            async |_: RawArgs, ctx: ToolContext| {
                let chunks = stream::iter(["a", "é"].map(Ok::<_, ToolError>));
                try_stream_text_stream(&ctx.streamer("n"), chunks).await
            },
        )
        .tool(
            Tool::new("try_iter"),
            async |_: RawArgs, ctx: ToolContext| {
                try_stream_text_iter(&ctx.streamer("n"), chunks()).await
            },
        )
        .tool(
            Tool::new("try_stream"),
            async |_: RawArgs, ctx: ToolContext| {
                try_stream_text_stream(&ctx.streamer("n"), stream::iter(chunks())).await
            },
        );
    let session = serve(builder).await.session().await;
    for (tool, events, text) in [
        ("iter", &["a", "é"][..], "aé"),
        ("chars", &["a", "é"], "aé"),
        ("stream", &["a", "é"], "aé"),
        ("try_iter_ok", &["a", "é"], "aé"),
        ("try_stream_ok", &["a", "é"], "aé"),
        ("try_iter", &["a"], "invalid digit found in string"),
        ("try_stream", &["a"], "invalid digit found in string"),
    ] {
        let mut messages = session.call(1, tool, json!({})).await.messages().await;
        let last = messages.pop().unwrap();
        assert_eq!(last["result"]["content"][0]["text"], text, "{tool}");
        assert_eq!(
            last["result"].get("isError").is_some(),
            events.len() == 1,
            "{tool}"
        );
        let seen: Vec<_> = messages
            .iter()
            .map(|m| event_of(m)["content"].take())
            .collect();
        assert_eq!(seen, *events, "{tool}");
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_sent_is_refused_and_the_stream_goes_on() {
    let (told, mut refused) = channel();
    let limits = limits(|l| l.max_event_bytes = 400);
    let builder = builder().limits(limits).tool_with(
        Tool::new("t"),
        told,
        async |told: Told<_>, _: RawArgs, ctx: ToolContext| {
            let stream = ctx.streamer("n");
            stream.text("before").await?;
            for kind in ["result", "terminal_error", "cancelled"] {
                told.tell(stream.send(kind, 1).await);
            }
            told.tell(
                stream
                    .log(std::collections::BTreeMap::from([((1, 2), 3)]))
                    .await,
            );
            told.tell(stream.text("x".repeat(400)).await);
            stream.text("after").await?;
            Ok(())
        },
    );
    let session = serve(builder).await.session().await;
    let messages = session.call(1, "t", json!({})).await.messages().await;
    let numbers: Vec<_> = messages[..2]
        .iter()
        .map(|m| &m["params"]["progress"])
        .collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(event_of(&messages[1])["content"], "after");
    assert_eq!(messages.len(), 3);
    for _ in 0..4 {
        let error = refused.recv().await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{error:?}");
    }
    let error = refused.recv().await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Limit {
                what: "max_event_bytes",
                max: 400,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_payload_that_panics_takes_nothing_with_it() {
    struct Grenade;
    impl serde::Serialize for Grenade {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("pulled");
        }
    }
    let builder = builder().tool(Tool::new("t"), async |_: RawArgs, ctx: ToolContext| {
        let stream = ctx.streamer("n");
        stream.text("a").await?;
        let other = stream.clone();
        let failed = tokio::spawn(async move { other.log(Grenade).await }).await;
        assert!(failed.is_err());
        stream.text("b").await?;
        Ok(())
    });
    let session = serve(builder).await.session().await;
    let messages = session.call(1, "t", json!({})).await.messages().await;
    assert_eq!(messages.len(), 3);
    assert_eq!(event_of(&messages[1])["content"], "b");
    assert_eq!(messages[1]["params"]["progress"], 2);
}

// Covers R-805, R-1315.
#[tokio::test]
async fn two_streams_of_one_session_do_not_mix() {
    let live = Live::new();
    let served = serve(endless(builder(), &live)).await;
    let session = served.session().await;
    let mut first = session.call(1, "endless", json!({})).await;
    let mut second = session.call(2, "endless", json!({})).await;
    for (id, answer) in [(2, &mut second), (1, &mut first)] {
        assert_eq!(
            answer.message().await.unwrap()["params"]["progressToken"],
            id
        );
    }
    session.cancel(1).await;
    assert_eq!(first.frame().await, None);
    session.cancel(2).await;
    assert_eq!(second.frame().await, None);
    live.reach(0).await;
}
