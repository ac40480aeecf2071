//! Sessions, ids and the statuses of HTTP.

use serde_json::{Value, json};

use crate::fixture::{
    Session, builder, call, echo, limits, on_both_runtimes, post, quiet_call, serve,
};
use crate::raw::Raw;

// Covers R-406, R-512, R-1303, R-1309.
async fn a_session_lives_from_initialize_to_delete() {
    let served = serve(echo(builder().instructions("be kind"))).await;
    let mut opened = served.initialize().await;
    assert_eq!(opened.head.status, 200);
    assert_eq!(opened.head.header("content-type"), Some("application/json"));
    let id = opened.head.header("mcp-session-id").unwrap().to_owned();
    assert_eq!(id.len(), 32, "{id}");
    assert!(id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    assert_eq!(
        opened.json().await,
        json!({"jsonrpc": "2.0", "id": 0, "result": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "test", "version": "0.1.0"}, "instructions": "be kind",
        }})
    );

    let session = Session {
        addr: served.addr,
        id: id.clone(),
    };
    let mut taken = session
        .post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
        .await;
    assert_eq!((taken.head.status, &*taken.body().await), (202, ""));

    let mut listed = session
        .post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .await;
    assert_eq!(listed.head.header("content-type"), Some("application/json"));
    assert_eq!(listed.head.header("mcp-session-id"), None);
    assert_eq!(
        listed.body().await,
        concat!(
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"echo","#,
            r#""description":"repeats a text","inputSchema":{"type":"object"}}]}}"#
        )
    );

    // With a token too: nothing was streamed.
    let mut called = session.call(2, "echo", json!({"text": "hi"})).await;
    assert_eq!(called.head.status, 200);
    assert_eq!(called.head.header("content-type"), Some("application/json"));
    assert_eq!(
        called.body().await,
        r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"text":"hi","type":"text"}]}}"#
    );

    let mut again = session
        .post(r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#)
        .await;
    assert_eq!(again.json().await["id"], 3);

    let mut deleted = session.delete().await;
    assert_eq!((deleted.head.status, &*deleted.body().await), (200, ""));
    for mut gone in [
        session.delete().await,
        session
            .post(quiet_call(4, "echo", json!({"text": "hi"})))
            .await,
    ] {
        assert_eq!(gone.head.status, 404);
        let error = gone.json().await;
        assert_eq!(error["error"]["code"], -32600);
        assert_eq!(error["error"]["message"], "session not found");
    }
    // Another session is another matter.
    assert_eq!(served.session().await.ping().await, 200);
}
on_both_runtimes!(a_session_lives_from_initialize_to_delete);

// Covers R-109, R-1208, R-1305.
#[tokio::test]
async fn a_request_without_its_session_is_told_so() {
    let served = serve(echo(builder())).await;
    let list = r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let version = ("MCP-Protocol-Version", "2025-11-25");
    let ghost = ("Mcp-Session-Id", "00000000000000000000000000000000");
    let table: [(&[_], _, _, _); 8] = [
        (&[version], list, 400, json!("l")),
        (&[version, ("Mcp-Session-Id", "")], list, 400, json!("l")),
        (&[version, ("Mcp-Session-Id", "  ")], list, 400, json!("l")),
        (&[], note, 400, Value::Null),
        (&[version, ghost], list, 404, json!("l")),
        (&[version, ghost], note, 404, Value::Null),
        (&[version, ("mcp-session-id", "a b")], list, 404, json!("l")),
        (
            &[version, ("Mcp-Session-Id", "\u{1F600}")],
            list,
            404,
            json!("l"),
        ),
    ];
    for (headers, body, status, id) in table {
        let mut answer = post(served.addr, headers, body).await;
        assert_eq!(answer.head.status, status, "{headers:?} {body}");
        let error = answer.json().await;
        assert_eq!(error["error"]["code"], -32600, "{headers:?} {body}");
        assert_eq!(error["id"], id, "{headers:?} {body}");
    }
    for (headers, status) in [("", 400), ("Mcp-Session-Id: x\r\n", 404)] {
        let mut raw = Raw::connect(served.addr).await;
        raw.send(format!(
            "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
        ))
        .await;
        assert_eq!(raw.head().await.status, status, "{headers}");
    }
}

// Covers R-411.
#[tokio::test]
async fn ping_is_answered_with_and_without_a_session() {
    let served = serve(builder()).await;
    let session = served.session().await;
    for params in ["", r#","params":{}"#, r#","params":null"#] {
        let ping = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"ping"{params}}}"#);
        for mut answer in [
            post(served.addr, &[], &ping).await,
            session.post(&ping).await,
        ] {
            assert_eq!(answer.head.status, 200, "{ping}");
            assert_eq!(
                answer.body().await,
                r#"{"jsonrpc":"2.0","id":9,"result":{}}"#
            );
        }
    }
}

// Covers R-108, R-409, R-1102, R-1106, R-1208.
#[tokio::test]
async fn an_unknown_request_is_refused_and_an_unknown_notification_taken() {
    let session = serve(builder()).await.session().await;
    for method in [
        "no/such",
        "resources/list",
        "prompts/list",
        "logging/setLevel",
        "tasks/get",
        "server/discover",
        "tools/Call",
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":10,"method":"{method}"}}"#);
        let mut answer = session.post(body).await;
        assert_eq!(answer.head.status, 200, "{method}");
        let error = answer.json().await;
        assert_eq!(
            (&error["id"], &error["error"]["code"]),
            (&json!(10), &json!(-32601))
        );
        assert_eq!(
            error["error"]["message"],
            format!("method not found: {method}")
        );
    }
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/no/such","params":[1]}"#,
        r#"{"jsonrpc":"2.0","method":"tools/list"}"#,
        // An answer to a question that nobody asked.
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#,
    ] {
        let mut answer = session.post(body).await;
        assert_eq!(
            (answer.head.status, &*answer.body().await),
            (202, ""),
            "{body}"
        );
    }
    for cursor in [r#""""#, r#""p2""#] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"cursor":{cursor}}}}}"#
        );
        assert_eq!(
            session.post(body).await.json().await["error"]["code"],
            -32602
        );
    }
}

// Covers R-109, R-116, R-201.
#[tokio::test]
async fn bytes_that_are_no_message_are_refused_and_the_session_lives() {
    let served = serve(echo(builder())).await;
    let session = served.session().await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let table = [
        ("".to_owned(), -32700, Value::Null),
        ("{".to_owned(), -32700, Value::Null),
        ("ping".to_owned(), -32700, Value::Null),
        (format!("{ping}{ping}"), -32700, Value::Null),
        ("7".to_owned(), -32600, Value::Null),
        ("\"ping\"".to_owned(), -32600, Value::Null),
        ("{}".to_owned(), -32600, Value::Null),
        (r#"{"id":1,"method":"ping"}"#.to_owned(), -32600, json!(1)),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_owned(),
            -32600,
            json!(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#.to_owned(),
            -32600,
            json!(1),
        ),
        (r#"{"jsonrpc":"2.0","id":1}"#.to_owned(), -32600, json!(1)),
        // Batches were taken out of the protocol again.
        (format!("[{ping},{ping}]"), -32600, Value::Null),
        ("[]".to_owned(), -32600, Value::Null),
        ("[1]".to_owned(), -32600, Value::Null),
    ];
    for (body, code, id) in table {
        let mut answer = session.post(&body).await;
        assert_eq!(answer.head.status, 400, "{body}");
        assert!(!answer.head.is_sse(), "{body}");
        let error = answer.json().await;
        assert_eq!(error["error"]["code"], code, "{body}: {error}");
        assert_eq!(error["id"], id, "{body}");
    }
    let mut raw = Raw::connect(served.addr).await;
    let mut bytes = session.bytes("{\"a\":\"??\"}").into_bytes();
    let len = bytes.len();
    bytes[len - 4..len - 2].copy_from_slice(&[0xff, 0xfe]);
    raw.send(bytes).await;
    let mut answer = raw.answer().await;
    assert_eq!(answer.head.status, 400);
    assert_eq!(answer.json().await["error"]["code"], -32700);
    assert_eq!(session.ping().await, 200);
}

// Covers R-1201, R-1210.
#[tokio::test]
async fn other_methods_and_paths_are_refused() {
    let served = serve(builder()).await;
    let table = [
        ("GET /mcp", 405, Some("POST, DELETE")),
        ("PUT /mcp", 405, Some("POST, DELETE")),
        ("OPTIONS /mcp", 405, Some("POST, DELETE")),
        ("HEAD /mcp", 405, Some("POST, DELETE")),
        ("POST /", 404, None),
        ("POST /mcp/", 404, None),
        ("GET /other", 404, None),
    ];
    for (line, status, allow) in table {
        let mut raw = Raw::connect(served.addr).await;
        raw.send(format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        ))
        .await;
        let head = raw.head().await;
        assert_eq!(head.status, status, "{line}");
        assert_eq!(head.header("allow"), allow, "{line}");
    }
    let elsewhere = serve(builder().path("/x")).await;
    let answer = post(
        elsewhere.addr,
        &[],
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
    )
    .await;
    assert_eq!(answer.head.status, 404);
}

// Covers R-104.
#[tokio::test]
async fn an_id_comes_back_as_it_was_sent() {
    let session = serve(echo(builder())).await.session().await;
    let long = format!("\"{}\"", "x".repeat(200));
    for id in [
        "\"1\"",
        "\"init-1\"",
        "\"\"",
        "0",
        "-5",
        "4294967296",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        r#""\u00e9\/\n""#,
        "\"é😀\"",
        &long,
    ] {
        let result = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"#);
        let error = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-3260"#);
        let table = [
            (r#""ping""#, &result),
            (r#""tools/list""#, &result),
            (
                r#""tools/call","params":{"name":"echo","arguments":{"text":""}}"#,
                &result,
            ),
            (r#""tools/call","params":{"name":"nobody"}"#, &error),
            (r#""no/such""#, &error),
        ];
        for (method, expected) in table {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}}}"#);
            let answer = session.post(&body).await.body().await;
            assert!(answer.starts_with(expected), "{body}: {answer}");
        }
    }
}

// Covers R-105.
#[tokio::test]
async fn an_id_of_another_kind_is_refused_and_not_echoed() {
    let session = serve(builder()).await.session().await;
    let (long, deep) = (
        format!("\"{}\"", "x".repeat(2 << 20)),
        "[".repeat(5000) + &"]".repeat(5000),
    );
    for id in [
        r#"{"a":["b"]}"#,
        "[1]",
        "true",
        "null",
        "1.5",
        "9223372036854775808",
        &long,
        &deep,
    ] {
        let mut answer = session
            .post(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))
            .await;
        assert_eq!(answer.head.status, 400);
        let body = answer.body().await;
        assert!(body.len() < 300, "{}", body.len());
        let error: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(error["id"], Value::Null, "{body}");
        // Too deep is no JSON that we read.
        let code = if id == deep { -32700 } else { -32600 };
        assert_eq!(error["error"]["code"], code, "{body}");
    }
    assert_eq!(session.ping().await, 200);
}

#[tokio::test]
async fn requests_on_one_connection_are_answered_in_turn() {
    let served = serve(echo(builder())).await;
    let session = served.session().await;
    let mut raw = Raw::connect(served.addr).await;
    for id in 1..=5 {
        raw.send(session.bytes(call(id, "echo", json!({"text": "a"}))))
            .await;
        let mut answer = raw.answer().await;
        assert_eq!(answer.json().await["id"], id);
        raw = answer.into_raw();
    }
}

// Covers R-1302.
#[tokio::test]
async fn a_version_that_nobody_knows_is_refused_and_any_known_one_taken() {
    let served = serve(builder()).await;
    let session = served.session().await;
    let id = ("Mcp-Session-Id", &*session.id);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for (version, status) in [
        ("2024-11-05", 200),
        ("2025-03-26", 200),
        ("2025-06-18", 200),
        ("2025-11-25", 200),
        ("1999-01-01", 400),
        ("zzz", 400),
    ] {
        let version = ("MCP-Protocol-Version", version);
        let answer = post(served.addr, &[id, version], list).await;
        assert_eq!(answer.head.status, status, "{version:?}");
    }
    assert_eq!(post(served.addr, &[id], list).await.head.status, 200);
}

#[tokio::test]
async fn the_path_and_the_limits_of_the_builder_hold() {
    let served = serve(builder().limits(limits(|l| l.max_server_message_bytes = 100))).await;
    let small = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(post(served.addr, &[], small).await.head.status, 200);
    let large = small.to_owned() + &" ".repeat(100);
    assert_eq!(post(served.addr, &[], large).await.head.status, 413);
}

// Covers R-402, R-803, R-1320.
#[tokio::test]
async fn each_revision_has_sessions_and_streams() {
    let builder = echo(builder()).tool(
        agent_hub_kit::Tool::new("t"),
        async |_: agent_hub_kit::RawArgs, ctx: agent_hub_kit::ToolContext| {
            ctx.streamer("n").text("a").await?;
            Ok("done")
        },
    );
    let served = serve(builder).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let open = format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}"}}}}"#
        );
        let mut opened = post(served.addr, &[], open).await;
        let id = opened.head.header("mcp-session-id").unwrap().to_owned();
        let spoken = opened.json().await["result"]["protocolVersion"].take();
        assert_eq!(spoken, version);
        let headers = [("Mcp-Session-Id", &*id), ("MCP-Protocol-Version", version)];
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(post(served.addr, &headers, ready).await.head.status, 202);
        let mut called = post(served.addr, &headers, call(5, "t", json!({}))).await;
        assert!(called.head.is_sse(), "{version}");
        let messages = called.messages().await;
        let progress = &messages[0]["params"];
        assert_eq!(progress["progress"], 1, "{version}");
        assert!(progress["message"].is_string(), "{version}: {progress}");
        assert_eq!(messages[1]["id"], 5, "{version}");
        assert_eq!(messages.len(), 2, "{version}");
        let session = Session {
            addr: served.addr,
            id,
        };
        assert_eq!(session.delete().await.head.status, 200, "{version}");
    }
}
