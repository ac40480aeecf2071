//! Arguments that travel in headers too.

use agent_hub_kit::{Error, McpServerBuilder, RawArgs, Tool, ToolContext};
use serde_json::{Value, json};

use crate::fixture::{builder, post, serve};
use crate::stated::{VERSION, ask_with, body, quiet};

/// A tool that is told where to work, by a text, a number and a flag.
fn routed(builder: McpServerBuilder) -> McpServerBuilder {
    let schema = json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {
                "type": "object",
                "properties": {"shard": {"type": "integer", "x-mcp-header": "Shard"}},
            },
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        },
    });
    builder.tool(
        Tool::new("routed").input_schema(schema),
        async |args: RawArgs, _: ToolContext| Ok(args.as_str().to_owned()),
    )
}

// Covers R-1404, R-1412.
#[tokio::test]
async fn an_argument_and_its_header_say_the_same() {
    let served = serve(routed(builder())).await;
    let all = json!({"region": "us-west1", "deep": {"shard": 42}, "dry": true});
    const REGION: (&str, &str) = ("Mcp-Param-Region", "us-west1");
    const SHARD: (&str, &str) = ("mcp-param-shard", "42.0");
    const DRY: (&str, &str) = ("MCP-PARAM-DRY", "true");
    type Case<'a> = (Value, Vec<(&'a str, &'a str)>, bool);
    let table: Vec<Case<'_>> = vec![
        (json!({}), vec![], true),
        (json!({"region": null}), vec![], true),
        (all.clone(), vec![REGION, SHARD, DRY], true),
        (
            all.clone(),
            vec![REGION, SHARD, DRY, ("Mcp-Param-Other", "x")],
            true,
        ),
        (all.clone(), vec![REGION, SHARD], false),
        (
            all.clone(),
            vec![REGION, ("Mcp-Param-Shard", "43"), DRY],
            false,
        ),
        (
            all.clone(),
            vec![REGION, SHARD, ("Mcp-Param-Dry", "True")],
            false,
        ),
        (all, vec![REGION, REGION, SHARD, DRY], false),
        (
            json!({"region": "a, b"}),
            vec![("Mcp-Param-Region", "a"), ("Mcp-Param-Region", "b")],
            false,
        ),
        // Not wrapped, so that it is no text to HTTP; and what stands for such.
        (
            json!({"region": "é"}),
            vec![("Mcp-Param-Region", "é")],
            false,
        ),
        (
            json!({"region": "\u{fffd}"}),
            vec![("Mcp-Param-Region", "é")],
            false,
        ),
        (json!({}), vec![REGION], false),
        (
            json!({"region": "世界"}),
            vec![("Mcp-Param-Region", "=?base64?5LiW55WM?=")],
            true,
        ),
        (
            json!({"region": "世界"}),
            vec![("Mcp-Param-Region", "=?base64?5LiW55WM=?=")],
            false,
        ),
        (json!({"region": ""}), vec![("Mcp-Param-Region", "")], true),
        (json!({"region": ""}), vec![], false),
        // Of a type that the schema excludes: that is for the tool to say.
        (json!({"region": {}}), vec![], true),
    ];
    for (arguments, headers, agrees) in table {
        let params = quiet("routed", arguments.clone());
        let mut answer = ask_with(served.addr, &headers, "h", "tools/call", params).await;
        let message = answer.json().await;
        if agrees {
            assert_eq!(
                answer.head.status, 200,
                "{arguments} {headers:?}: {message}"
            );
            let text = message["result"]["content"][0]["text"].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Value>(text).unwrap(), arguments);
        } else {
            assert_eq!(
                answer.head.status, 400,
                "{arguments} {headers:?}: {message}"
            );
            assert_eq!(message["error"]["code"], -32020, "{arguments} {headers:?}");
            assert_eq!(message["id"], "h");
        }
    }
    // Where arguments travel in the body alone, nothing is compared.
    let session = served.session().await;
    let result = session.result("routed", json!({"region": "x"})).await;
    assert_eq!(result["content"][0]["text"], r#"{"region":"x"}"#);
}

// Covers R-1404.
#[tokio::test]
async fn a_name_stands_once_and_as_text() {
    let server = ["a, b", "\u{fffd}"]
        .into_iter()
        .fold(builder(), |builder, name| {
            let tool = Tool::new(name).allow_any_name();
            builder.tool(tool, async |_: RawArgs, _: ToolContext| Ok("ran"))
        });
    let served = serve(server).await;
    let table = [
        ("a, b", vec!["a, b"], 200),
        ("a, b", vec!["a", "b"], 400),
        ("a, b", vec!["a, b", "a, b"], 400),
        ("\u{fffd}", vec!["=?base64?77+9?="], 200),
        ("\u{fffd}", vec!["é"], 400),
    ];
    for (name, sent, status) in table {
        let mut headers = vec![VERSION, ("Mcp-Method", "tools/call")];
        headers.extend(sent.iter().map(|value| ("Mcp-Name", *value)));
        let call = body("n", "tools/call", quiet(name, json!({})));
        let mut answer = post(served.addr, &headers, call).await;
        let message = answer.json().await;
        assert_eq!(answer.head.status, status, "{name} {sent:?}: {message}");
        if status == 400 {
            assert_eq!(message["error"]["code"], -32020, "{name} {sent:?}");
        }
    }
}

// Covers R-1404.
#[tokio::test]
async fn headers_are_compared_when_the_rest_is_in_order() {
    let served = serve(routed(builder())).await;
    let odd = [("Mcp-Param-Region", "x")];
    for (params, status, code) in [
        (json!({"name": "routed", "arguments": "x"}), 400, -32602),
        (json!({"name": "unknown", "arguments": {}}), 200, -32602),
        (json!({"name": "routed", "arguments": {}}), 400, -32020),
    ] {
        let mut answer = ask_with(served.addr, &odd, 1, "tools/call", params.clone()).await;
        let message = answer.json().await;
        assert_eq!(
            (answer.head.status, &message["error"]["code"]),
            (status, &json!(code)),
            "{params}"
        );
    }
}

// Covers R-1410.
#[test]
fn an_annotation_that_cannot_be_is_told_when_the_server_is_to_serve() {
    let table = [
        (
            json!({"type": "number", "x-mcp-header": "A"}),
            "needs the type",
        ),
        (
            json!({"type": "string", "x-mcp-header": "a b"}),
            "no HTTP header name",
        ),
        (json!({"type": "string", "x-mcp-header": ""}), "is empty"),
        (
            json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}),
            "by `properties` alone",
        ),
    ];
    for (property, says) in table {
        let schema = json!({"type": "object", "properties": {"p": property}});
        let tool = Tool::new("bad").input_schema(&schema);
        let server = builder()
            .tool(tool, async |_: RawArgs, _: ToolContext| Ok("x"))
            .build();
        let Err(Error::Config { detail, .. }) = server.into_service() else {
            panic!("{schema}");
        };
        assert!(detail.contains("`bad`"), "{detail}");
        assert!(detail.contains(says), "{detail}");
    }
}
