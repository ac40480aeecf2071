//! What clients send that they should not, and what they send much of.

use serde_json::{Value, json};

use crate::fixture::{
    Gate, builder, call, echo, gated, on_both_runtimes, post_bytes, quiet_call, serve,
};
use crate::raw::{Raw, soon};

// Covers R-1213.
#[tokio::test]
async fn a_body_too_large_is_refused_before_it_comes() {
    let served = serve(echo(builder())).await;
    let session = served.session().await;
    let mut raw = Raw::connect(served.addr).await;
    raw.send(format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Mcp-Session-Id: {}\r\nContent-Length: {}\r\n\r\n",
        session.id,
        1 << 30
    ))
    .await;
    let mut answer = raw.answer().await;
    assert_eq!(answer.head.status, 413);
    let error = answer.json().await;
    let text = error["error"]["message"].as_str().unwrap();
    assert!(text.contains("max_server_message_bytes"), "{text}");
    assert_eq!(session.ping().await, 200);
}

#[tokio::test]
async fn a_chunked_body_without_end_is_refused_at_the_limit() {
    let served = serve(echo(builder())).await;
    let mut raw = Raw::connect(served.addr).await;
    raw.send(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
    )
    .await;
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    for _ in 0..17 {
        raw.send(&chunk).await;
    }
    assert_eq!(raw.head().await.status, 413);
    assert_eq!(served.session().await.ping().await, 200);
}

#[tokio::test]
async fn a_length_given_in_two_ways_is_refused() {
    let served = serve(echo(builder())).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut raw = Raw::connect(served.addr).await;
    raw.send(format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{ping}\r\n0\r\n\r\n",
        ping.len(),
        ping.len()
    ))
    .await;
    assert_eq!(raw.head().await.status, 400);
    let served_before = post_bytes(served.addr, &[], ping);
    let mut raw = Raw::connect(served.addr).await;
    raw.send(served_before).await;
    assert_eq!(raw.head().await.status, 200);
}

// Covers R-1213.
#[tokio::test]
async fn deep_and_wide_arguments_do_no_harm() {
    let session = serve(echo(builder())).await.session().await;
    let body = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
        )
    };
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let deep = open.repeat(100_000) + "1" + &close.repeat(100_000);
        for arguments in [
            format!(r#"{{"text":{deep}}}"#),
            deep.clone(),
            open.repeat(100_000),
        ] {
            let mut answer = session.post(body(&arguments)).await;
            assert_eq!(answer.head.status, 400);
            let error = answer.json().await;
            assert_eq!(error["error"]["code"], -32700);
        }
    }
    let mut wide: String = (0..1_000_000).map(|n| format!(r#""{n}":0,"#)).collect();
    wide = format!(r#"{{{wide}"text":"still read"}}"#);
    let result = session.post(body(&wide)).await.json().await;
    assert_eq!(result["result"]["content"][0]["text"], "still read");
    assert_eq!(session.ping().await, 200);
}

#[tokio::test]
async fn a_text_comes_back_as_it_was_whatever_its_letters() {
    let session = serve(echo(builder())).await.session().await;
    let long = "漢字かな".repeat((1 << 20) / 12);
    let table = [
        (r"\ud83d\ude00", "😀"),
        ("😀", "😀"),
        (r"\u0000", "\0"),
        (r"\u2028 ", "\u{2028} "),
        ("e\u{301}\u{200d}👩‍👩‍👧", "e\u{301}\u{200d}👩‍👩‍👧"),
        (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
        ("\u{fffe}\u{10ffff}\u{7f}", "\u{fffe}\u{10ffff}\u{7f}"),
        (&*long, &*long),
    ];
    for (sent, expected) in table {
        for token in ["", r#","_meta":{"progressToken":1}"#] {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{sent}"}}{token}}}}}"#
            );
            let mut answer = session.post(body).await;
            let text = answer.json().await["result"]["content"][0]["text"].take();
            assert!(text == expected, "{:.40}", sent);
        }
    }
}

#[tokio::test]
async fn half_of_a_surrogate_pair_is_answered() {
    let raw = builder().tool(
        agent_hub_kit::Tool::new("raw"),
        async |args: agent_hub_kit::RawArgs, ctx: agent_hub_kit::ToolContext| {
            let value: Value = args.deserialize()?;
            ctx.streamer("n").log(&value).await?;
            Ok(value.to_string())
        },
    );
    let session = serve(echo(raw)).await.session().await;
    for tool in ["echo", "raw"] {
        for text in [r"\ud83d", r"\ude00", r"\ud83d\ud83d", r"\ud83dx"] {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{text}"}}}}}}"#
            );
            let mut answer = session.post(body).await;
            let message = answer.json().await;
            assert_eq!(message["id"], 1, "{text}");
            let failed = message["result"]["isError"] == true || message["error"].is_object();
            assert!(failed, "{text}: {message}");
        }
        for name in [r"\ud83d", "n\u{0}"] {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}"}}}}"#
            );
            let mut answer = session.post(body).await;
            assert!(matches!(answer.head.status, 200 | 400), "{name:?}");
            assert!(answer.json().await["error"].is_object(), "{name:?}");
        }
    }
    assert_eq!(session.ping().await, 200);
}

/// Slow calls stand in nobody's way.
// Covers R-112.
async fn a_slow_call_delays_no_other() {
    let gate = Gate::new();
    let session = serve(echo(gated(builder(), &gate))).await.session().await;
    let mut slow = session.call(1, "gated", json!({})).await;
    let mut other = session.call(2, "gated", json!({})).await;
    assert_eq!(session.ping().await, 200);
    let fast = session
        .call(3, "echo", json!({"text": "fast"}))
        .await
        .json()
        .await;
    assert_eq!(fast["result"]["content"][0]["text"], "fast");
    session.cancel(1).await;
    assert_eq!(slow.frame().await, None);
    gate.open();
    assert_eq!(other.message().await.unwrap()["id"], 2);
}
on_both_runtimes!(a_slow_call_delays_no_other);

async fn twenty_calls_of_a_session_run_at_once() {
    let gate = Gate::new();
    let live = crate::fixture::Live::new();
    let builder = builder().tool_with(
        agent_hub_kit::Tool::new("meet"),
        (gate.clone(), live.clone()),
        async |(gate, live): (Gate, crate::fixture::Live),
               args: crate::fixture::EchoArgs,
               _: agent_hub_kit::ToolContext| {
            let _alive = live.enter();
            gate.passed().await;
            Ok(args.text)
        },
    );
    let session = serve(builder).await.session().await;
    let calls: Vec<_> = (0..20)
        .map(|id| {
            let session = session.clone();
            tokio::spawn(async move {
                let mut answer = session
                    .call(id, "meet", json!({"text": id.to_string()}))
                    .await;
                let message = match answer.head.is_sse() {
                    true => answer.message().await.unwrap(),
                    false => answer.json().await,
                };
                assert_eq!(message["id"], id);
                assert_eq!(message["result"]["content"][0]["text"], id.to_string());
            })
        })
        .collect();
    // None ends before all have begun.
    live.reach(20).await;
    gate.open();
    for call in calls {
        soon(call).await.unwrap();
    }
    live.reach(0).await;
}
on_both_runtimes!(twenty_calls_of_a_session_run_at_once);

// Covers R-1307.
#[tokio::test]
async fn an_id_in_flight_is_refused_and_free_again_after_its_call() {
    let gate = Gate::new();
    let session = serve(echo(gated(builder(), &gate))).await.session().await;
    let mut first = session.call(1, "gated", json!({})).await;
    let mut twin = session.call(1, "echo", json!({"text": "a"})).await;
    let error = twin.json().await;
    assert_eq!(error["id"], 1);
    assert_eq!(error["error"]["code"], -32600);
    // A text is another id than the number it spells.
    let text_id = call(1, "echo", json!({"text": "a"})).replace(r#""id":1"#, r#""id":"1""#);
    assert_eq!(session.post(text_id).await.json().await["id"], "1");
    gate.open();
    assert_eq!(first.message().await.unwrap()["id"], 1);
    let again = session
        .post(quiet_call(1, "echo", json!({"text": "a"})))
        .await
        .json()
        .await;
    assert_eq!(again["result"]["content"][0]["text"], "a");
}
