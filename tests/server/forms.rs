//! The many ways to write a request, legal and not, in both eras.

use serde_json::{Value, json};

use crate::fixture::{BOTH, Served, Session, builder, echo, post, quiet_call, serve};
use crate::raw::{Answer, Raw};
use crate::stated::{VERSION, ask, body, bytes, meta};

/// A list of the tools in one era: its headers, without `Host` and the types, and its body.
fn list_of(session: Option<&Session>) -> (String, String) {
    match session {
        Some(session) => (
            format!(
                "Mcp-Session-Id: {}\r\nMCP-Protocol-Version: 2025-11-25\r\n",
                session.id
            ),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#.to_owned(),
        ),
        None => (
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n".to_owned(),
            body(7, "tools/list", json!({})),
        ),
    }
}

/// Posts a list with exactly these headers beside those of its era.
async fn list(served: &Served, session: Option<&Session>, headers: &str) -> Answer {
    let (own, body) = list_of(session);
    let mut raw = Raw::connect(served.addr).await;
    let length = body.len();
    raw.send(format!(
        "POST /mcp HTTP/1.1\r\n{headers}{own}Content-Length: {length}\r\n\r\n{body}"
    ))
    .await;
    raw.answer().await
}

// Covers R-1203.
#[tokio::test]
async fn every_legal_spelling_of_the_types_is_taken_and_what_excludes_us_is_told_in_json() {
    let served = serve(echo(builder())).await;
    let session = served.session().await;
    let json = "application/json";
    // Content-Type, Accept, status
    let table = [
        (json, Some(BOTH), 200),
        ("application/json; charset=utf-8", Some(BOTH), 200),
        ("Application/JSON", Some(BOTH), 200),
        (r#"application/json;charset="UTF-8""#, Some(BOTH), 200),
        (json, Some("*/*"), 200),
        (json, Some("application/*, text/*"), 200),
        (json, Some("text/event-stream, application/json"), 200),
        (
            json,
            Some("application/json;q=0.9, text/event-stream;q=0.1"),
            200,
        ),
        (json, Some("text/html, */*;q=0.1"), 200),
        (json, None, 200),
        (json, Some("text/html"), 406),
        (json, Some("*/*;q=0"), 406),
        ("text/plain", Some(BOTH), 415),
        ("application/x-www-form-urlencoded", Some(BOTH), 415),
    ];
    for session in [Some(&session), None] {
        for (kind, accept, status) in table {
            let case = format!("{kind}, {accept:?}, session: {}", session.is_some());
            let accept = accept.map_or(String::new(), |accept| format!("Accept: {accept}\r\n"));
            let headers = format!("Host: localhost\r\nContent-Type: {kind}\r\n{accept}");
            let mut answer = list(&served, session, &headers).await;
            assert_eq!(answer.head.status, status, "{case}: {}", answer.head.text);
            let message = answer.only().await;
            if status == 200 {
                assert_eq!(message["id"], 7, "{case}: {message}");
            } else {
                assert!(!answer.head.is_sse(), "{case}");
                assert_eq!(message["error"]["code"], -32600, "{case}: {message}");
            }
        }
    }
}

// Covers R-1702.
#[tokio::test]
async fn a_server_on_this_machine_is_found_by_each_of_its_names_and_by_those_it_was_given() {
    let guarded = echo(builder()).allowed_hosts(["mcp.example.com", "ported.example.com:8443"]);
    let guarded = serve(guarded).await;
    let open = serve(echo(builder()).allow_any_host_and_origin()).await;
    let port = guarded.addr.port();
    let table = [
        ("127.0.0.1".to_owned(), true),
        (format!("127.0.0.1:{port}"), true),
        ("localhost".to_owned(), true),
        (format!("LOCALHOST:{port}"), true),
        (format!("[::1]:{port}"), true),
        ("[::1]".to_owned(), true),
        ("mcp.example.com".to_owned(), true),
        ("mcp.example.com:1234".to_owned(), true),
        ("ported.example.com:8443".to_owned(), true),
        ("ported.example.com".to_owned(), false),
        ("other.example.com".to_owned(), false),
        (format!("other.example.com:{port}"), false),
    ];
    let session = guarded.session().await;
    for (host, taken) in table {
        let types = format!("Content-Type: application/json\r\nAccept: {BOTH}\r\n");
        let headers = format!("Host: {host}\r\n{types}");
        for session in [Some(&session), None] {
            let mut answer = list(&guarded, session, &headers).await;
            let status = if taken { 200 } else { 403 };
            assert_eq!(answer.head.status, status, "{host}");
            let message = answer.only().await;
            let text = message["error"]["message"].as_str().unwrap_or_default();
            assert_eq!(taken, !text.contains("allowed_hosts"), "{host}: {text}");
        }
        let answer = list(&open, None, &headers).await;
        assert_eq!(answer.head.status, 200, "{host}, unchecked");
    }
}

// Covers R-1305.
#[tokio::test]
async fn a_call_whose_session_is_missing_is_told_so_and_not_run() {
    let served = serve(echo(builder())).await;
    let version = ("MCP-Protocol-Version", "2025-11-25");
    for headers in [
        &[version][..],
        &[version, ("Mcp-Session-Id", "")],
        &[version, ("Mcp-Session-Id", " ")],
    ] {
        let call = quiet_call(7, "echo", json!({"text": "a"}));
        let mut answer = post(served.addr, headers, call).await;
        assert_eq!(answer.head.status, 400, "{headers:?}");
        assert!(!answer.head.is_sse(), "{headers:?}");
        assert_eq!(answer.head.header("mcp-session-id"), None, "{headers:?}");
        let message = answer.json().await;
        let told = (&message["id"], &message["error"]["code"]);
        assert_eq!(told, (&json!(7), &json!(-32600)), "{headers:?}");
    }
}

// Covers R-105.
#[tokio::test]
async fn an_id_of_another_kind_is_not_echoed_without_a_session_either() {
    let served = serve(echo(builder())).await;
    let (long, deep) = (
        format!("\"{}\"", "x".repeat(2 << 20)),
        "[".repeat(5000) + &"]".repeat(5000),
    );
    for id in [r#"{"a":["b"]}"#, "[1]", "true", "null", "1.5", &long, &deep] {
        let body = body(0, "tools/list", json!({})).replace(r#""id":0"#, &format!(r#""id":{id}"#));
        let headers = [VERSION, ("Mcp-Method", "tools/list")];
        let mut answer = post(served.addr, &headers, body).await;
        assert_eq!(answer.head.status, 400, "{id:.20}");
        let text = answer.body().await;
        assert!(text.len() < 300, "{id:.20}: {} bytes", text.len());
        let error: Value = serde_json::from_str(&text).unwrap();
        let code = if id == deep { -32700 } else { -32600 };
        let told = (&error["id"], &error["error"]["code"]);
        assert_eq!(told, (&Value::Null, &json!(code)), "{text}");
    }
    let listed = ask(served.addr, 1, "tools/list", json!({})).await;
    assert_eq!(listed.head.status, 200);
}

// Covers R-107, R-702, R-703.
#[tokio::test]
async fn arguments_are_an_object_without_a_session_too() {
    let raw = builder().tool(
        agent_hub_kit::Tool::new("raw"),
        async |args: agent_hub_kit::RawArgs, _: agent_hub_kit::ToolContext| {
            Ok(args.as_str().to_owned())
        },
    );
    let served = serve(echo(raw)).await;
    let table = [
        (json!({"name": "raw"}), Ok("{}")),
        (json!({"name": "raw", "arguments": {}}), Ok("{}")),
        (json!({"name": "raw", "arguments": null}), Ok("{}")),
        (
            json!({"name": "raw", "arguments": r#"{"text":"a"}"#}),
            Err(400),
        ),
        (json!({"name": "raw", "arguments": [1]}), Err(400)),
    ];
    for (params, expected) in table {
        let mut answer = ask(served.addr, 4, "tools/call", params.clone()).await;
        let status = expected.err().unwrap_or(200);
        assert_eq!(answer.head.status, status, "{params}");
        let message = answer.only().await;
        match expected {
            Ok(text) => assert_eq!(message["result"]["content"][0]["text"], text, "{params}"),
            Err(_) => assert_eq!(message["error"]["code"], -32602, "{params}"),
        }
    }
    // A field that is missing is named.
    let mut answer = ask(served.addr, 4, "tools/call", json!({"name": "echo"})).await;
    let result = answer.only().await["result"].take();
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("`text`"), "{text}");
}

// Covers R-802, R-805.
#[tokio::test]
async fn any_token_that_is_one_streams_on_the_answer_of_its_own_call() {
    let server = builder().tool(
        agent_hub_kit::Tool::new("t"),
        async |_: agent_hub_kit::RawArgs, ctx: agent_hub_kit::ToolContext| {
            ctx.streamer("n").text("a").await?;
            Ok("done")
        },
    );
    let served = serve(server).await;
    for token in [json!(0), json!(""), json!("0"), json!(-7)] {
        let mut said = meta();
        said["progressToken"] = token.clone();
        let params = json!({"name": "t", "_meta": said});
        let mut answer = ask(served.addr, "c", "tools/call", params).await;
        assert!(answer.head.is_sse(), "{token}");
        let messages = answer.messages().await;
        assert_eq!(messages.len(), 2, "{token}: {messages:?}");
        assert_eq!(messages[0]["params"]["progressToken"], token, "{token}");
        assert_eq!(messages[1]["id"], "c", "{token}");
    }
}

// Covers R-116.
#[tokio::test]
async fn no_array_is_taken_without_a_session() {
    let served = serve(echo(builder())).await;
    let one = body(1, "tools/list", json!({}));
    for array in ["[]".to_owned(), "[1]".to_owned(), format!("[{one},{one}]")] {
        let headers = [VERSION, ("Mcp-Method", "tools/list")];
        let mut answer = post(served.addr, &headers, &array).await;
        assert_eq!(answer.head.status, 400, "{array}");
        let error = answer.json().await;
        let told = (&error["id"], &error["error"]["code"]);
        assert_eq!(told, (&Value::Null, &json!(-32600)), "{array}");
    }
}

/// A request in pieces, however small, and over however many packets.
#[tokio::test]
async fn a_request_may_come_byte_by_byte() {
    let served = serve(echo(builder())).await;
    let session = served.session().await;
    let arguments = json!({"text": "é😀"});
    let call = body(
        1,
        "tools/call",
        json!({"name": "echo", "arguments": arguments}),
    );
    for request in [
        session.bytes(quiet_call(1, "echo", arguments)),
        bytes(served.addr, &call, &[]),
    ] {
        let mut raw = Raw::connect(served.addr).await;
        for byte in request.as_bytes() {
            raw.send([*byte]).await;
        }
        let message = raw.answer().await.only().await;
        assert_eq!(message["result"]["content"][0]["text"], "é😀");
    }
}
