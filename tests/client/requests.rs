//! The bytes that a client sends.

use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Error};
use serde_json::{Value, json};

use crate::peer::{FIRST_CALL, FIRST_LIST, INITIALIZE, Peer, Request};
use crate::{Seen, read, run};

/// Asserts body and headers; `extra` headers stand beside those of every POST.
fn assert_post(request: &Request, peer: &Peer, body: &Value, extra: &[(&str, &str)]) {
    let what = request.what();
    assert_eq!(request.line, "POST /mcp HTTP/1.1", "{what}");
    assert_eq!(&request.json(), body, "{what}");
    let host = peer.address.to_string();
    let length = request.body.len().to_string();
    let mut expected = vec![
        ("accept", "application/json, text/event-stream"),
        ("content-length", &*length),
        ("content-type", "application/json"),
        ("host", &*host),
    ];
    expected.extend(extra);
    expected.sort_unstable();
    let mut names = request.header_names.clone();
    names.sort_unstable();
    let sent: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (&**name, request.header(name).unwrap()))
        .collect();
    assert_eq!(sent, expected, "{what}");
}

const SESSION: [(&str, &str); 2] = [
    ("mcp-protocol-version", "2025-11-25"),
    ("mcp-session-id", "s-1"),
];

// Covers, R-1201, R-1202, R-1301.
#[test]
fn each_request_is_exactly_what_the_specification_shows() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = AgentHubClient::builder().client_info("hub", "1").build();
        peer.connect(&hub, "p").await;
        read(&mut hub.call_tool_stream("stream", json!({"text": "あ\n"}))).await;
        let mut cancelled = hub.call_tool_stream("stream", ());
        cancelled.next().await;
        cancelled.cancel();
        peer.wait_for("notifications/cancelled", 1).await;
        let seen = peer.seen();
        let message = |id: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let initialize = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "hub", "version": "1"},
        });
        assert_post(
            &seen[0],
            &peer,
            &message(INITIALIZE, "initialize", initialize),
            &[],
        );
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_post(&seen[1], &peer, &initialized, &SESSION);
        assert_post(
            &seen[2],
            &peer,
            &message(FIRST_LIST, "tools/list", json!({})),
            &SESSION,
        );
        let call = json!({
            "name": "stream",
            "arguments": {"text": "あ\n"},
            "_meta": {"progressToken": FIRST_CALL},
        });
        assert_post(
            &seen[3],
            &peer,
            &message(FIRST_CALL, "tools/call", call),
            &SESSION,
        );
        let cancel = &seen[5];
        let reason = cancel.json()["params"]["reason"].clone();
        assert!(reason.is_string());
        let told = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": FIRST_CALL + 1, "reason": reason}});
        assert_post(cancel, &peer, &told, &SESSION);
        assert_eq!(seen.len(), 6);
    });
}

//
#[test]
fn arguments_are_always_an_object() {
    #[derive(serde::Serialize)]
    struct Empty {}
    #[derive(serde::Serialize)]
    struct Unit;
    run(async || {
        let peer = Peer::polite().await;
        let hub = peer.hub().await;
        hub.call_tool("echo", ()).await.unwrap();
        hub.call_tool("echo", Value::Null).await.unwrap();
        hub.call_tool("echo", None::<Empty>).await.unwrap();
        hub.call_tool("echo", Unit).await.unwrap();
        hub.call_tool("echo", Empty {}).await.unwrap();
        hub.call_tool("echo", json!({"a": [1, "\u{2028}", null]}))
            .await
            .unwrap();
        let raw: Box<serde_json::value::RawValue> =
            serde_json::from_str(" {\"n\": 123456789012345678901234567890} ").unwrap();
        hub.call_tool("echo", raw).await.unwrap();
        let sent: Vec<String> = peer
            .seen_of("tools/call")
            .iter()
            .map(|call| call.body.split_once("\"arguments\":").unwrap().1.to_owned())
            .collect();
        assert_eq!(sent[..5], ["{}}}"; 5]);
        assert_eq!(sent[5], "{\"a\":[1,\"\u{2028}\",null]}}}");
        assert_eq!(sent[6], "{\"n\": 123456789012345678901234567890}}}");
    });
}

#[test]
fn arguments_that_are_no_object_are_refused_on_this_side() {
    struct Broken;
    impl serde::Serialize for Broken {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("will not"))
        }
    }
    run(async || {
        let peer = Peer::polite().await;
        let hub = peer.hub().await;
        let table = [
            hub.call_tool_stream("echo", json!([1])),
            hub.call_tool_stream("echo", "{\"text\":\"a\"}"),
            hub.call_tool_stream("echo", 7),
            hub.call_tool_stream("echo", true),
            hub.call_tool_stream("echo", vec![("a", 1)]),
            hub.call_tool_stream("echo", Broken),
        ];
        for mut stream in table {
            let events = read(&mut stream).await;
            let error = events[0].error().unwrap();
            assert!(matches!(error, Error::Config { .. }), "{error:?}");
            assert!(error.to_string().contains("`echo`"), "{error}");
        }
        let error = hub.call_tool("echo", [1]).await.unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{error:?}");
        assert!(peer.seen_of("tools/call").is_empty());
    });
}

//
#[test]
fn a_progress_token_is_sent_only_where_events_are_wanted_and_is_the_request_id() {
    run(async || {
        let peer = Peer::polite().await;
        let plain = peer.hub().await;
        plain.call_tool("echo", ()).await.unwrap();
        plain
            .call_tool("echo", ())
            .timeout(Duration::from_secs(9))
            .await
            .unwrap();
        plain
            .call_tool("echo", ())
            .idle_timeout(Duration::from_secs(9))
            .await
            .unwrap();
        read(&mut plain.call_tool_stream("echo", ())).await;
        let observed = Seen::default().hub();
        peer.connect(&observed, "p").await;
        observed.call_tool("echo", ()).await.unwrap();
        let wanted: Vec<bool> = peer
            .seen_of("tools/call")
            .iter()
            .map(|call| {
                let token = call.token();
                assert!(token.is_null() || token == call.id(), "{}", call.body);
                !token.is_null()
            })
            .collect();
        assert_eq!(wanted, [false, false, true, true, true]);
    });
}

//
#[test]
fn a_request_id_is_never_used_again() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = peer.hub().await;
        for _ in 0..3 {
            hub.call_tool("echo", ()).await.unwrap();
            hub.list_tools().await;
        }
        let mut ids: Vec<i64> = peer.seen().iter().filter_map(|r| r.id().as_i64()).collect();
        assert_eq!(ids.len(), 8);
        assert!(ids.is_sorted());
        ids.dedup();
        assert_eq!(ids.len(), 8);
    });
}
