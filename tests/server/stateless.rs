//! Requests that stand for themselves: what is checked of them, and what their answers say.

use std::collections::HashSet;
use std::time::Duration;

use agent_hub_kit::{
    CacheScope, ContentBlock, Json, McpServerBuilder, RawArgs, Tool, ToolContext, ToolError,
    ToolOutput,
};
use serde_json::{Map, Value, json};

use crate::fixture::{
    BOTH, Gate, builder, echo, gated, limits, on_both_runtimes, post, quiet_call, serve,
};
use crate::raw::{Raw, soon};
use crate::stated::{VERSION, ask, ask_with, body, bytes, meta, quiet, streaming};

fn server_info() -> Value {
    json!({"io.modelcontextprotocol/serverInfo": {"name": "test", "version": "0.1.0"}})
}

// Covers R-203, R-312, R-1106, R-1404.
#[tokio::test]
async fn the_first_check_that_fails_answers() {
    let served = serve(echo(builder())).await;
    let call = |name: &str| body(7, "tools/call", quiet(name, json!({"text": "a"})));
    let list = body(7, "tools/list", json!({}));
    let bare = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
    let without = |member: &str| {
        let mut said = meta();
        said.as_object_mut().unwrap().remove(member);
        let params = json!({ "_meta": said });
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": params}).to_string()
    };
    let version_in_body = |version: &str| list.replace("2026-07-28", version);
    const METHOD: (&str, &str) = ("Mcp-Method", "tools/list");
    const CALL: (&str, &str) = ("Mcp-Method", "tools/call");
    type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, String, u16, i64, Value);
    let table: Vec<Case<'_>> = vec![
        (
            "no JSON",
            vec![VERSION],
            "{".to_owned(),
            400,
            -32700,
            Value::Null,
        ),
        (
            "no request",
            vec![VERSION],
            r#"{"jsonrpc":"2.0"}"#.to_owned(),
            400,
            -32600,
            Value::Null,
        ),
        (
            "a request of another kind",
            vec![VERSION],
            r#"{"jsonrpc":"1.0","id":7,"method":"tools/list"}"#.to_owned(),
            400,
            -32600,
            json!(7),
        ),
        (
            "a response",
            vec![VERSION],
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned(),
            400,
            -32600,
            Value::Null,
        ),
        (
            "an array",
            vec![VERSION, METHOD],
            format!("[{list}]"),
            400,
            -32600,
            Value::Null,
        ),
        (
            "no _meta",
            vec![VERSION, METHOD],
            bare.to_owned(),
            400,
            -32602,
            json!(7),
        ),
        (
            "no version",
            vec![VERSION, METHOD],
            without("io.modelcontextprotocol/protocolVersion"),
            400,
            -32602,
            json!(7),
        ),
        // Before the headers, which are missing as well.
        (
            "no capabilities",
            vec![],
            without("io.modelcontextprotocol/clientCapabilities"),
            400,
            -32602,
            json!(7),
        ),
        ("no headers", vec![], list.clone(), 400, -32020, json!(7)),
        (
            "no method header",
            vec![VERSION],
            list.clone(),
            400,
            -32020,
            json!(7),
        ),
        (
            "another method",
            vec![VERSION, CALL],
            list.clone(),
            400,
            -32020,
            json!(7),
        ),
        (
            "a method twice",
            vec![VERSION, METHOD, METHOD],
            list.clone(),
            400,
            -32020,
            json!(7),
        ),
        (
            "a version twice",
            vec![VERSION, VERSION, METHOD],
            list.clone(),
            400,
            -32020,
            json!(7),
        ),
        (
            "two versions",
            vec![VERSION, ("mcp-protocol-version", "2025-11-25"), METHOD],
            list.clone(),
            400,
            -32020,
            json!(7),
        ),
        (
            "a name that differs",
            vec![VERSION, CALL, ("Mcp-Name", "ecco")],
            call("echo"),
            400,
            -32020,
            json!(7),
        ),
        (
            "a name of another case",
            vec![VERSION, CALL, ("Mcp-Name", "Echo")],
            call("echo"),
            400,
            -32020,
            json!(7),
        ),
        (
            "a name that cannot be decoded",
            vec![VERSION, CALL, ("Mcp-Name", "=?base64?ZWNobw?=")],
            call("echo"),
            400,
            -32020,
            json!(7),
        ),
        // Before the version, which nobody knows.
        (
            "a version in the body only",
            vec![VERSION, METHOD],
            version_in_body("1999-01-01"),
            400,
            -32020,
            json!(7),
        ),
        (
            "an unknown version",
            vec![("MCP-Protocol-Version", "1999-01-01"), METHOD],
            version_in_body("1999-01-01"),
            400,
            -32022,
            json!(7),
        ),
        (
            "a version with sessions",
            vec![("MCP-Protocol-Version", "2025-11-25"), METHOD],
            version_in_body("2025-11-25"),
            400,
            -32022,
            json!(7),
        ),
        // Before the parameters, which are no object.
        (
            "an unknown method",
            vec![VERSION, ("Mcp-Method", "no/such")],
            body(7, "no/such", json!({"cursor": 1})),
            404,
            -32601,
            json!(7),
        ),
        (
            "an odd cursor",
            vec![VERSION, METHOD],
            body(7, "tools/list", json!({"cursor": 1})),
            400,
            -32602,
            json!(7),
        ),
        (
            "odd arguments",
            vec![VERSION, CALL, ("Mcp-Name", "echo")],
            body(7, "tools/call", json!({"name": "echo", "arguments": [1]})),
            400,
            -32602,
            json!(7),
        ),
        (
            "no name",
            vec![VERSION, CALL],
            body(7, "tools/call", json!({})),
            400,
            -32602,
            json!(7),
        ),
        // The request is in order; what it asks for is not there.
        (
            "an unknown tool",
            vec![VERSION, CALL, ("Mcp-Name", "ecco")],
            call("ecco"),
            200,
            -32602,
            json!(7),
        ),
        (
            "an unknown cursor",
            vec![VERSION, METHOD],
            body(7, "tools/list", json!({"cursor": "x"})),
            200,
            -32602,
            json!(7),
        ),
    ];
    for (case, headers, body, status, code, id) in table {
        for accept in [BOTH, "text/event-stream, application/json;q=0.5"] {
            let headers = [&headers[..], &[("Accept", accept)]].concat();
            let mut answer = post(served.addr, &headers, &body).await;
            assert_eq!(answer.head.status, status, "{case}: {}", answer.head.text);
            assert_eq!(answer.head.header("mcp-session-id"), None, "{case}");
            if status == 200 {
                continue;
            }
            let kind = answer.head.header("content-type");
            assert_eq!(kind, Some("application/json"), "{case}");
            let message = answer.json().await;
            assert_eq!(message["error"]["code"], code, "{case}: {message}");
            assert_eq!(message["id"], id, "{case}: {message}");
        }
    }
}

// Covers R-104, R-109.
#[tokio::test]
async fn ids_come_back_as_they_were() {
    let served = serve(echo(builder())).await;
    for id in [
        "0",
        "-5",
        r#""""#,
        r#""7""#,
        "9007199254740993",
        r#""\u00e9\/""#,
    ] {
        for (method, status) in [("tools/list", 200), ("no/such", 404), ("Tools/list", 400)] {
            let body = body(0, method, json!({})).replace(r#""id":0"#, &format!(r#""id":{id}"#));
            let headers = [
                VERSION,
                ("Mcp-Method", method.trim_start_matches("Tools/list")),
            ];
            let mut answer = post(served.addr, &headers, &body).await;
            assert_eq!(answer.head.status, status, "{body}");
            let text = answer.body().await;
            assert!(text.contains(&format!(r#""id":{id},"#)), "{id}: {text}");
        }
    }
}

// Covers R-412, R-513.
#[tokio::test]
async fn what_only_sessions_have_is_unknown() {
    let served = serve(echo(builder())).await;
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "notifications/initialized",
        "subscriptions/listen",
    ] {
        let mut answer = ask(
            served.addr,
            "x",
            method,
            json!({"protocolVersion": "2025-11-25"}),
        )
        .await;
        assert_eq!(answer.head.status, 404, "{method}");
        assert_eq!(answer.head.header("mcp-session-id"), None, "{method}");
        let message = answer.json().await;
        assert_eq!(
            (&message["error"]["code"], &message["id"]),
            (&json!(-32601), &json!("x")),
            "{method}"
        );
    }
}

// Covers R-1208, R-1405.
#[tokio::test]
async fn notifications_are_taken_and_come_to_nothing() {
    let gate = Gate::new();
    let served = serve(gated(builder(), &gate)).await;
    let running = tokio::spawn(async move {
        ask(served.addr, 1, "tools/call", quiet("gated", json!({})))
            .await
            .json()
            .await
    });
    gate.reached().await;
    let cancel = json!({"requestId": 1, "_meta": meta()});
    let plain = json!({"requestId": 1});
    for (params, headers) in [
        (
            &cancel,
            vec![VERSION, ("Mcp-Method", "notifications/cancelled")],
        ),
        (&cancel, vec![]),
        (&plain, vec![VERSION]),
        (&json!([1]), vec![VERSION]),
    ] {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        let mut answer = post(served.addr, &headers, note.to_string()).await;
        assert_eq!(
            (answer.head.status, &*answer.body().await),
            (202, ""),
            "{note} {headers:?}"
        );
    }
    gate.open();
    let message = soon(running).await.unwrap();
    assert_eq!(message["result"]["content"][0]["text"], "released");
}

// Covers R-1403.
#[tokio::test]
async fn only_post_is_taken() {
    for (dynamic, allow) in [(false, "POST, DELETE"), (true, "POST, GET, DELETE")] {
        let served = serve(echo(builder()).dynamic_tools(dynamic)).await;
        let session = served.session().await;
        for verb in ["GET", "DELETE"] {
            for id in ["", &*format!("Mcp-Session-Id: {}\r\n", session.id)] {
                let mut raw = Raw::connect(served.addr).await;
                raw.send(format!(
                    "{verb} /mcp HTTP/1.1\r\nHost: {}\r\nMCP-Protocol-Version: 2026-07-28\r\n{id}\r\n",
                    served.addr
                ))
                .await;
                let answer = raw.answer().await;
                assert_eq!(answer.head.status, 405, "{verb} {id}");
                assert_eq!(answer.head.header("allow"), Some(allow), "{verb} {id}");
            }
        }
        assert_eq!(session.ping().await, 200, "it lives");
    }
}

// Covers R-314, R-505, R-506, R-509.
#[tokio::test]
async fn a_server_says_what_it_is() {
    let bare = serve(echo(builder())).await;
    let told = echo(builder())
        .instructions("be kind")
        .dynamic_tools(true)
        .tools_ttl(Duration::from_secs(60))
        .cache_scope(CacheScope::Private);
    let told = serve(told).await;
    let mut answer = ask(bare.addr, 1, "server/discover", json!({})).await;
    assert_eq!(answer.head.header("content-type"), Some("application/json"));
    let expected = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "public",
        "_meta": server_info(),
    });
    assert_eq!(answer.json().await["result"], expected);
    let mut answer = ask(told.addr, 1, "server/discover", json!({})).await;
    let expected = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": true}}, "instructions": "be kind",
        "ttlMs": 60000, "cacheScope": "private", "_meta": server_info(),
    });
    assert_eq!(answer.json().await["result"], expected);
}

// Covers R-506, R-509, R-512, R-603.
#[tokio::test]
async fn every_page_says_how_long_it_may_be_kept() {
    let server = ["c", "a", "b"].iter().fold(builder(), |server, name| {
        server.tool(Tool::new(*name), async |_: RawArgs, _: ToolContext| Ok("x"))
    });
    let server = server
        .tools_per_page(2)
        .tools_ttl(Duration::from_millis(1500));
    let served = serve(server).await;
    let (mut names, mut params) = (Vec::new(), json!({}));
    for page in 0..2 {
        let mut answer = ask(served.addr, 1, "tools/list", params.take()).await;
        let mut result = answer.json().await["result"].take();
        for tool in result["tools"].as_array().unwrap() {
            names.push(tool["name"].as_str().unwrap().to_owned());
        }
        let cursor = result["nextCursor"].take();
        assert_eq!(cursor.is_null(), page == 1, "{cursor}");
        params = json!({ "cursor": cursor });
        assert_eq!(
            (
                &result["resultType"],
                &result["ttlMs"],
                &result["cacheScope"],
                &result["_meta"]
            ),
            (
                &json!("complete"),
                &json!(1500),
                &json!("public"),
                &server_info()
            ),
            "page {page}"
        );
    }
    assert_eq!(names, ["c", "a", "b"]);
    let session = served.session().await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let result = session.post(list).await.json().await["result"].take();
    let members: HashSet<&String> = result.as_object().unwrap().keys().collect();
    assert_eq!(members.len(), 2, "{members:?}");
    let result = session.result("c", json!({})).await;
    assert_eq!(result, json!({"content": [{"type": "text", "text": "x"}]}));
}

// Covers R-509.
#[tokio::test]
async fn a_time_to_live_is_a_number_that_every_peer_can_read() {
    let server = builder().tools_ttl(Duration::MAX);
    let served = serve(server).await;
    for method in ["tools/list", "server/discover"] {
        let message = ask(served.addr, 1, method, json!({})).await.json().await;
        let ttl = &message["result"]["ttlMs"];
        assert_eq!(*ttl, json!((1_u64 << 53) - 1), "{method}");
    }
}

/// Tools that return one thing each.
fn returning(builder: McpServerBuilder) -> McpServerBuilder {
    let array = json!({"type": "array", "items": {"type": "integer"}});
    builder
        .tool(
            Tool::new("array").output_schema(array),
            async |_: RawArgs, _: ToolContext| Ok(Json(vec![1, 2])),
        )
        .tool(Tool::new("null"), async |_: RawArgs, _: ToolContext| {
            Ok(ToolOutput::new().structured(Value::Null))
        })
        .tool(Tool::new("kinds"), async |_: RawArgs, _: ToolContext| {
            Ok(vec![
                ContentBlock::audio(b"RIFF", "audio/wav"),
                ContentBlock::resource_link("file:///a", "a"),
            ])
        })
        .tool(Tool::new("meta"), async |_: RawArgs, _: ToolContext| {
            let mut meta = Map::new();
            meta.insert("example.com/cost".to_owned(), json!(7));
            Ok(ToolOutput::new().meta(meta))
        })
        .tool(Tool::new("failing"), async |_: RawArgs, _: ToolContext| {
            Err::<(), _>(ToolError::new("no such date"))
        })
}

// Covers R-506, R-509, R-606, R-704, R-705, R-707, R-709.
#[tokio::test]
async fn a_result_is_complete_and_says_whose_it_is() {
    let served = serve(returning(builder())).await;
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let table = [
        (
            "array",
            json!({"content": text("[1,2]"), "structuredContent": [1, 2]}),
        ),
        ("null", json!({"content": [], "structuredContent": null})),
        (
            "kinds",
            json!({"content": [
                {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "file:///a", "name": "a"},
            ]}),
        ),
        (
            "meta",
            json!({"content": [], "_meta": {"example.com/cost": 7}}),
        ),
        (
            "failing",
            json!({"content": text("no such date"), "isError": true}),
        ),
    ];
    for (tool, mut expected) in table {
        expected["resultType"] = json!("complete");
        let info = server_info();
        for (key, value) in info.as_object().unwrap() {
            expected["_meta"][key] = value.clone();
        }
        let mut answer = ask(served.addr, 1, "tools/call", quiet(tool, json!({}))).await;
        let message = answer.json().await;
        assert_eq!(message["result"], expected, "{tool}");
        assert_eq!(
            message["result"]
                .as_object()
                .unwrap()
                .contains_key("structuredContent"),
            matches!(tool, "array" | "null"),
            "{tool}"
        );
    }
    let list = ask(served.addr, 1, "tools/list", json!({}))
        .await
        .json()
        .await;
    assert_eq!(list["result"]["tools"][0]["outputSchema"]["type"], "array");
    // Who opened a session is told nothing of that.
    let session = served.session().await;
    let result = session.result("array", json!({})).await;
    assert_eq!(result, json!({"content": text("[1,2]")}));
}

// Covers R-1203, R-1204, R-1406.
async fn a_call_streams_and_then_ends() {
    let server = builder().tool(Tool::new("count"), async |_: RawArgs, ctx: ToolContext| {
        for n in 1..=3 {
            ctx.progress(f64::from(n), 3.0, None).await?;
        }
        Ok("counted")
    });
    let served = serve(server).await;
    let mut answer = ask(
        served.addr,
        "c",
        "tools/call",
        streaming("count", json!({})),
    )
    .await;
    assert_eq!(answer.head.status, 200);
    assert!(answer.head.is_sse(), "{}", answer.head.text);
    let messages = answer.messages().await;
    assert_eq!(messages.len(), 4, "{messages:?}");
    for (n, message) in (1..).zip(&messages[..3]) {
        let expected = json!({"progressToken": "t", "progress": n, "total": 3});
        assert_eq!(message["params"], expected);
    }
    assert_eq!(messages[3]["id"], "c");
    assert_eq!(messages[3]["result"]["resultType"], "complete");
    // Whoever takes JSON alone is given the end alone.
    let json_only = [("Accept", "application/json")];
    let params = streaming("count", json!({}));
    let mut answer = ask_with(served.addr, &json_only, "c", "tools/call", params).await;
    assert_eq!(answer.head.header("content-type"), Some("application/json"));
    assert_eq!(
        answer.json().await["result"]["content"][0]["text"],
        "counted"
    );
}

on_both_runtimes!(
    a_call_streams_and_then_ends,
    equal_ids_of_many_clients_never_meet
);

// Covers R-112, R-504.
async fn equal_ids_of_many_clients_never_meet() {
    let gate = Gate::new();
    let served = serve(gated(echo(builder()), &gate)).await;
    let addr = served.addr;
    let held = tokio::spawn(async move {
        ask(addr, 1, "tools/call", quiet("gated", json!({})))
            .await
            .json()
            .await
    });
    gate.reached().await;
    // The same id, and the same connection for all of them.
    let mut raw = Raw::connect(addr).await;
    for n in 0..3 {
        let params = quiet("echo", json!({"text": format!("text {n}")}));
        raw.send(bytes(addr, &body(1, "tools/call", params), &[]))
            .await;
        let mut answer = raw.answer().await;
        let message = answer.json().await;
        assert_eq!(message["result"]["content"][0]["text"], format!("text {n}"));
        raw = answer.into_raw();
    }
    gate.open();
    assert_eq!(soon(held).await.unwrap()["id"], 1);
}

// Covers R-508, R-1102, R-1103.
#[tokio::test]
async fn what_a_client_says_beside_the_rules_changes_nothing() {
    let served = serve(echo(builder())).await;
    for more in [
        json!({"io.modelcontextprotocol/logLevel": "loudest"}),
        json!({"io.modelcontextprotocol/clientInfo": 7}),
        json!({"io.modelcontextprotocol/clientInfo": {"name": "echo-server", "version": "-1"}}),
        json!({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}),
        json!({"progressToken": [1]}),
    ] {
        let mut params = quiet("echo", json!({"text": "a"}));
        params["_meta"] = more;
        let mut answer = ask(served.addr, 1, "tools/call", params.clone()).await;
        let message = answer.json().await;
        assert_eq!(message["result"]["content"][0]["text"], "a", "{params}");
    }
}

// Covers R-1107.
#[tokio::test]
async fn a_tool_that_needs_more_of_its_client_does_not_run() {
    let server = builder()
        .tool(
            Tool::new("needy").requires_client_capability("sampling"),
            async |_: RawArgs, _: ToolContext| Ok("ran"),
        )
        .tool(
            Tool::new("needier")
                .requires_client_capability("sampling")
                .requires_client_capability("roots"),
            async |_: RawArgs, _: ToolContext| Ok("ran"),
        )
        .tool(
            Tool::new("finds_out"),
            async |_: RawArgs, _: ToolContext| {
                let data = json!({"requiredCapabilities": {"roots": {}}});
                Err::<(), _>(ToolError::protocol_with_data(
                    -32021,
                    "roots are needed",
                    data,
                ))
            },
        );
    let served = serve(server).await;
    let sampling = json!({"sampling": {}});
    let none = json!({});
    let table = [
        ("needy", &none, Some(json!({"sampling": {}}))),
        (
            "needy",
            &json!({"sampling": null}),
            Some(json!({"sampling": {}})),
        ),
        ("needy", &sampling, None),
        (
            "needier",
            &sampling,
            Some(json!({"sampling": {}, "roots": {}})),
        ),
        ("needier", &json!({"sampling": {}, "roots": {}}), None),
        ("finds_out", &none, Some(json!({"roots": {}}))),
    ];
    for (tool, capabilities, needed) in table {
        let mut params = quiet(tool, json!({}));
        params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
        let mut answer = ask(served.addr, "m", "tools/call", params).await;
        let message = answer.json().await;
        match needed {
            None => assert_eq!(message["result"]["content"][0]["text"], "ran", "{message}"),
            Some(needed) => {
                assert_eq!(answer.head.status, 400, "{message}");
                assert_eq!(message["id"], "m");
                assert_eq!(message["error"]["code"], -32021);
                assert_eq!(
                    message["error"]["data"],
                    json!({"requiredCapabilities": needed})
                );
            }
        }
    }
    // Who opened a session is not asked.
    let session = served.session().await;
    let result = session.result("needy", json!({})).await;
    assert_eq!(result["content"][0]["text"], "ran");
}

// Covers R-1213, R-1707.
#[tokio::test]
async fn calls_without_a_session_count_among_all() {
    let gate = Gate::new();
    let server = gated(echo(builder()), &gate).limits(limits(|l| {
        l.max_calls = 1;
        l.max_session_calls = 1;
    }));
    let served = serve(server).await;
    let addr = served.addr;
    let held = tokio::spawn(async move {
        ask(addr, 1, "tools/call", quiet("gated", json!({})))
            .await
            .json()
            .await
    });
    gate.reached().await;
    let params = quiet("echo", json!({"text": "a"}));
    let mut answer = ask(addr, 2, "tools/call", params.clone()).await;
    assert_eq!(answer.head.status, 503);
    assert_eq!(answer.head.header("retry-after"), Some("1"));
    let message = answer.json().await;
    assert_eq!(
        (&message["id"], &message["error"]["code"]),
        (&json!(2), &json!(-32603))
    );
    let session = served.session().await;
    let busy = session
        .post(quiet_call(3, "echo", json!({"text": "a"})))
        .await;
    assert_eq!(busy.head.status, 503);
    // What is no call needs no place.
    let mut listed = ask(addr, 4, "tools/list", json!({})).await;
    assert_eq!(
        listed.json().await["result"]["tools"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    gate.open();
    soon(held).await.unwrap();
    let mut answer = ask(addr, 5, "tools/call", params).await;
    assert_eq!(answer.json().await["result"]["content"][0]["text"], "a");
}
