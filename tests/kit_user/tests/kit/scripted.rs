//! A server whose every byte is the test's.

use agent_hub_kit::testing::{Script, ScriptedPeer, connect_memory};
use agent_hub_kit::{Era, Error, encode_envelope};
use serde_json::{Value, json};

use crate::{hub, on_time, read, shown};

/// A progress notification with a text for the caller.
fn text(number: u64, text: &str) -> Value {
    let message = encode_envelope("text", text, None).unwrap();
    json!({"method": "notifications/progress", "params": {"progress": number, "message": message}})
}

fn done() -> Value {
    json!({"result": {"content": [{"type": "text", "text": "done"}]}})
}

#[tokio::test]
async fn an_agent_is_tested_against_a_model_that_is_a_script() {
    on_time(async {
        let script = Script::new()
            .offer(["ask"])
            .expect_json(json!({"params": {"arguments": {"user_request": "first"}}}))
            .answer_sse([text(1, "So "), text(2, "be it."), done()])
            .expect("tools/call")
            .begin_sse([text(1, "Hm")])
            .close()
            .expect("tools/call")
            .answer_json(json!({"error": {"code": -32602, "message": "no"}}));
        let model = ScriptedPeer::start(script).await.unwrap();
        let hub = hub();
        hub.connect_http("model", model.url()).await.unwrap();

        let (pieces, answer) = kit_user::answer(&hub, "first").await.unwrap();
        assert_eq!(
            (pieces.concat(), &*answer),
            ("So be it.".to_owned(), "done")
        );
        let (pieces, answer) = kit_user::answer(&hub, "second").await.unwrap();
        assert_eq!(
            (pieces.concat(), &*answer),
            ("Hm".to_owned(), kit_user::FALLBACK)
        );
        let refused = kit_user::answer(&hub, "third").await.unwrap_err();
        assert!(
            matches!(refused, Error::Rpc { code: -32602, .. }),
            "{refused:?}"
        );

        let asked: Vec<Value> = model
            .requests()
            .iter()
            .filter(|r| r.method() == "tools/call")
            .map(|r| r.json()["params"]["arguments"]["user_request"].clone())
            .collect();
        assert_eq!(asked, ["first", "second", "third"]);
        model.finish().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_script_is_the_same_in_both_eras_over_http_and_lines() {
    for era in [Era::Legacy, Era::Modern] {
        for lines in [false, true] {
            let script = Script::new()
                .offer(["greet"])
                .expect("tools/call")
                .begin_sse([text(1, "hel")])
                .hold()
                .answer_sse([text(2, "lo"), done()]);
            let peer = ScriptedPeer::start(script).await.unwrap();
            let hub = hub();
            let connect = connect_memory(&hub, "p", &peer).era(era);
            let connect = if lines { connect.lines() } else { connect };
            on_time(connect.into_future()).await.unwrap();
            let mut stream = hub.call_tool_stream("greet", ());
            assert_eq!(on_time(stream.next()).await.unwrap().text(), Some("hel"));
            peer.release();
            let rest = shown(&read(stream).await);
            assert_eq!(
                rest,
                ["text \"lo\"", "result \"done\""],
                "{era:?}, lines: {lines}"
            );
            on_time(hub.close()).await;
            on_time(peer.finish()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_a_dropped_call_does_can_be_expected() {
    on_time(async {
        for era in [Era::Legacy, Era::Modern] {
            let script = Script::new()
                .offer(["greet"])
                .expect("tools/call")
                .begin_sse([text(1, "so")]);
            let script = match era {
                Era::Modern => script.expect_close(),
                _ => script.expect("notifications/cancelled"),
            };
            let peer = ScriptedPeer::start(script).await.unwrap();
            let hub = hub();
            hub.connect_http("p", peer.url()).era(era).await.unwrap();
            let mut stream = hub.call_tool_stream("greet", ());
            assert_eq!(stream.next().await.unwrap().text(), Some("so"));
            drop(stream);
            peer.finish().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_whole_conversation_can_be_written_in_bytes() {
    on_time(async {
        let json = |body: &str| {
            let length = body.len();
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        };
        let of = move |body: &'static str| {
            move |request: &agent_hub_kit::testing::PeerRequest| {
                let id = request.json()["id"].to_string();
                json(&body.replace("$id", &id))
            }
        };
        let script = Script::new()
            .expect("initialize")
            .answer_with(of(r#"{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"p","version":"1"}}}"#))
            .expect("notifications/initialized")
            .expect("tools/list")
            .answer_with(of(r#"{"jsonrpc":"2.0","id":$id,"result":{"tools":[{"name":"greet","inputSchema":{"type":"object"}}]}}"#))
            .expect("tools/call")
            .answer_with(of(r#"{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"hi"}]}}"#));
        let peer = ScriptedPeer::start(script).await.unwrap();
        let hub = hub();
        hub.connect_http("p", peer.url()).era(Era::Legacy).await.unwrap();
        assert_eq!(hub.call_tool("greet", ()).await.unwrap(), "hi");
        let call = peer.requests().pop().unwrap();
        assert_eq!(call.header("mcp-protocol-version"), Some("2025-06-18"));
        assert_eq!(call.connection(), 0);
        assert!(call.body().starts_with(b"{"));
        peer.finish().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_script_that_was_not_followed_says_where() {
    // case, script, what is called, what the failure says
    let call = |name: &str| {
        Script::new()
            .offer(["a", "b"])
            .expect_json(json!({"params": {"name": name}}))
    };
    let table: [(&str, Script, &[&str], &[&str]); 6] = [
        (
            "another",
            call("a").answer_json(done()),
            &["b"],
            &[
                "request 1 of 1 was to be {\"params\":{\"name\":\"a\"}}",
                "and `tools/call`: {",
                "`/params/name` is \"b\", not \"a\"",
            ],
        ),
        (
            "one too many",
            call("a").answer_json(done()),
            &["a", "b"],
            &["the script ended after 1 requests, and `tools/call`: {"],
        ),
        (
            "one missing",
            call("a").answer_json(done()).expect("tools/call"),
            &["a"],
            &[
                "request 2 of 2 was to be `tools/call` and did not come; the last that came was `tools/call`: {",
            ],
        ),
        (
            "nothing",
            Script::new().expect("tools/call"),
            &[],
            &["request 1 of 1 was to be `tools/call` and did not come; nothing came at all"],
        ),
        (
            "nobody",
            Script::new().answer("hello"),
            &[],
            &["nobody connected"],
        ),
        (
            "not read",
            call("a").answer_json(done()).hold(),
            &["a"],
            &["what was to be done about `tools/call`: {", "has not ended"],
        ),
    ];
    for (case, script, calls, wanted) in table {
        let peer = ScriptedPeer::start(script).await.unwrap();
        let hub = hub();
        if !calls.is_empty() {
            connect_memory(&hub, "p", &peer).await.unwrap();
        }
        let mut last = None;
        for tool in calls {
            last = Some(on_time(hub.call_tool(*tool, ()).into_future()).await);
        }
        let failed = peer.finish().await.unwrap_err();
        assert!(
            matches!(failed, Error::Protocol { .. }),
            "{case}: {failed:?}"
        );
        for part in wanted {
            assert!(failed.to_string().contains(part), "{case}: {failed}");
        }
        // The client heard of it too, instead of waiting.
        if case == "another" || case == "one too many" {
            let Some(Err(Error::Rpc { message, .. })) = &last else {
                panic!("{case}: {last:?}")
            };
            assert!(message.contains(&wanted[0][..20]), "{case}: {message}");
        }
    }
}
