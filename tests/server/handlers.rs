//! What a handler may look like, take and return.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_hub_kit::{
    ContentBlock, IntoToolOutput, Json, McpServer, McpServerBuilder, RawArgs, Tool, ToolContext,
    ToolError, ToolOutput,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fixture::{builder, call, echo, event_of, on_both_runtimes, quiet_call, serve};

/// The example of the documentation, as it is printed there.
mod quick_start {
    use super::*;

    #[derive(Deserialize, JsonSchema)]
    struct EchoArgs {
        /** text to repeat */
        text: String,
    }

    #[rustfmt::skip]
    pub fn server() -> McpServerBuilder {
        McpServer::builder("my-app", "0.1.0")
            .tool(
                Tool::typed::<EchoArgs>("echo").description("Repeat a text, one character at a time"),
                async |args: EchoArgs, ctx: ToolContext| {
                    let stream = ctx.streamer("my-app");
                    stream.log(format!("received {} characters", args.text.chars().count())).await?;
                    for ch in args.text.chars() { stream.text(ch).await?; }
                    Ok(args.text)
                },
            )
    }

    #[expect(
        dead_code,
        reason = "it has to compile; serving on a fixed port is not for a test"
    )]
    pub async fn serves() -> agent_hub_kit::Result<()> {
        let server = server().build();
        server.serve_http("127.0.0.1:8001").await?;
        Ok(())
    }
}

async fn the_quick_start_streams_what_it_repeats() {
    let served = serve(quick_start::server()).await;
    let session = served.session().await;
    let mut answer = session.call(1, "echo", json!({"text": "aé😀"})).await;
    let mut messages = answer.messages().await;
    let result = messages.pop().unwrap();
    assert_eq!(
        result["result"],
        json!({"content": [{"type": "text", "text": "aé😀"}]})
    );
    let event = |kind: &str, content: &str| json!({"v": 1, "type": kind, "content": content, "node": "my-app"});
    assert_eq!(
        messages.iter().map(event_of).collect::<Vec<_>>(),
        [
            event("log", "received 3 characters"),
            event("text", "a"),
            event("text", "é"),
            event("text", "😀"),
        ]
    );

    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let listed = session.post(list).await.json().await;
    let tool = &listed["result"]["tools"][0];
    assert_eq!(tool["name"], "echo");
    assert_eq!(
        tool["description"],
        "Repeat a text, one character at a time"
    );
    let schema = &tool["inputSchema"];
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["text"]));
    assert_eq!(
        schema["properties"]["text"],
        json!({"description": "text to repeat", "type": "string"})
    );
}
on_both_runtimes!(the_quick_start_streams_what_it_repeats);

fn counting() -> McpServerBuilder {
    let cloned = Arc::new(AtomicU64::new(0));
    builder()
        .tool_with(
            Tool::new("with_state"),
            Arc::new(AtomicU64::new(0)),
            async |calls: Arc<AtomicU64>, _: RawArgs, _: ToolContext| {
                Ok(format!("call {}", calls.fetch_add(1, Ordering::Relaxed)))
            },
        )
        .tool(
            Tool::new("with_clone"),
            move |_: RawArgs, _: ToolContext| {
                let calls = cloned.clone();
                async move { Ok(format!("call {}", calls.fetch_add(1, Ordering::Relaxed))) }
            },
        )
}

#[tokio::test]
async fn state_lives_across_calls_in_both_forms() {
    let served = serve(counting()).await;
    for tool in ["with_state", "with_clone"] {
        for count in 0..3 {
            // Each in a session of its own: the state is the server's.
            let session = served.session().await;
            assert_eq!(
                session.result(tool, json!({})).await["content"][0]["text"],
                format!("call {count}"),
                "{tool}"
            );
        }
    }
}

fn returning<R>(
    value: impl Fn() -> Result<R, ToolError> + Send + Sync + 'static,
) -> McpServerBuilder
where
    R: IntoToolOutput + Send + 'static,
{
    returning_from(Tool::new("t"), value)
}

fn returning_from<R>(
    tool: Tool,
    value: impl Fn() -> Result<R, ToolError> + Send + Sync + 'static,
) -> McpServerBuilder
where
    R: IntoToolOutput + Send + 'static,
{
    builder().tool(tool, move |_: RawArgs, _: ToolContext| {
        let value = value();
        async move { value }
    })
}

#[derive(Debug, Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Debug)]
struct Outer(std::num::ParseIntError);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such port")
    }
}

impl std::error::Error for Outer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

fn parse_port() -> Result<String, ToolError> {
    let port: u16 = "x".parse().map_err(Outer)?;
    Ok(port.to_string())
}

// Covers R-511, R-704, R-705, R-707, R-708.
#[tokio::test]
async fn each_kind_of_return_value_becomes_its_result() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let failed = |message: &str| json!({"content": [text(message)], "isError": true});
    let silent = "the tool failed without a message";
    let meta = |value: Value| value.as_object().unwrap().clone();
    let table = [
        (
            returning(|| Ok("a".to_owned())),
            json!({"content": [text("a")]}),
        ),
        (returning(|| Ok("a")), json!({"content": [text("a")]})),
        (
            returning(|| Ok(std::borrow::Cow::Borrowed("a"))),
            json!({"content": [text("a")]}),
        ),
        (returning(|| Ok(())), json!({"content": []})),
        (
            returning(|| Ok(Json(Sum { sum: 7 }))),
            json!({"content": [text(r#"{"sum":7}"#)], "structuredContent": {"sum": 7}}),
        ),
        (
            returning(|| Ok(json!({"b": [1, null]}))),
            json!({"content": [text(r#"{"b":[1,null]}"#)], "structuredContent": {"b": [1, null]}}),
        ),
        // Before 2026-07-28 structured content is an object; the text says the rest.
        (
            returning(|| Ok(json!([1]))),
            json!({"content": [text("[1]")]}),
        ),
        (
            returning(|| Ok(ContentBlock::text("one").with("annotations", json!({"priority": 1})))),
            json!({"content": [{"type": "text", "text": "one", "annotations": {"priority": 1}}]}),
        ),
        (
            returning(|| {
                Ok(vec![
                    ContentBlock::text("a"),
                    ContentBlock::image(b"\x89P", "image/png"),
                ])
            }),
            json!({"content": [text("a"),
                {"type": "image", "data": "iVA=", "mimeType": "image/png"}]}),
        ),
        (
            returning(|| Ok(Vec::<ContentBlock>::new())),
            json!({"content": []}),
        ),
        (
            returning(move || {
                Ok(ToolOutput::new()
                    .block(ContentBlock::text("a"))
                    .structured(json!({"n": 1}))
                    .meta(meta(json!({"example.com/k": true}))))
            }),
            json!({"content": [text("a")], "structuredContent": {"n": 1},
                "_meta": {"example.com/k": true}}),
        ),
        (
            returning(|| Ok(ToolOutput::new().block(ContentBlock::text("no")).failed())),
            failed("no"),
        ),
        (
            returning(|| Err::<(), _>(ToolError::new("no"))),
            failed("no"),
        ),
        (
            returning(|| Err::<(), _>(ToolError::new(""))),
            failed(silent),
        ),
        (
            returning(|| Err::<(), _>(ToolError::from_display('x'))),
            failed("x"),
        ),
        (
            returning(|| Err::<(), _>(ToolError::with_output(ToolOutput::new()))),
            failed(silent),
        ),
        // An output that says that it failed is never empty either.
        (returning(|| Ok(ToolOutput::new().failed())), failed(silent)),
        (
            returning(parse_port),
            failed("no such port: invalid digit found in string"),
        ),
        (
            returning(|| Ok(Json(std::collections::BTreeMap::from([((1, 2), 3)])))),
            failed("the result cannot be written as JSON: key must be a string"),
        ),
        (
            returning_from(Tool::new("t").output::<Sum>(), || Ok("seven")),
            failed("the tool has an output schema but returned no structured content"),
        ),
        (
            returning_from(Tool::new("t").output::<Sum>(), || Ok(Json(Sum { sum: 7 }))),
            json!({"content": [text(r#"{"sum":7}"#)], "structuredContent": {"sum": 7}}),
        ),
        (
            returning_from(Tool::new("t").output::<Sum>(), || Ok(json!({"summe": 7}))),
            failed("the tool has an output schema but returned structured content without \"sum\""),
        ),
        (
            returning_from(Tool::new("t").output::<Sum>(), || Ok(json!([7]))),
            failed(
                "the tool has an output schema but returned structured content that is no object",
            ),
        ),
        (
            returning_from(Tool::new("t").output::<Vec<u8>>(), || Ok(json!([7]))),
            json!({"content": [text("[7]")]}),
        ),
        // A tool that failed owes no structured content.
        (
            returning_from(Tool::new("t").output::<Sum>(), || {
                Err::<(), _>(ToolError::new("no"))
            }),
            failed("no"),
        ),
    ];
    for (index, (builder, expected)) in table.into_iter().enumerate() {
        let session = serve(builder).await.session().await;
        assert_eq!(
            session.result("t", json!({})).await,
            expected,
            "case {index}"
        );
    }
}

#[tokio::test]
async fn a_protocol_error_is_an_error_and_no_result() {
    let table = [
        (
            ToolError::protocol(7, "no seats"),
            json!({"code": 7, "message": "no seats"}),
        ),
        (
            ToolError::protocol_with_data(-1, "no", json!({"left": [0]})),
            json!({"code": -1, "message": "no", "data": {"left": [0]}}),
        ),
    ];
    for (error, expected) in table {
        let served = serve(returning(move || Err::<(), _>(error.clone()))).await;
        let session = served.session().await;
        let mut answer = session.call(3, "t", json!({})).await;
        assert_eq!(answer.head.status, 200);
        assert_eq!(
            answer.json().await,
            json!({"jsonrpc": "2.0", "id": 3, "error": expected})
        );
    }
}

// Covers R-704.
async fn a_panic_fails_the_call_and_nothing_else() {
    let builder = echo(builder())
        .tool(Tool::new("at_once"), async |_: RawArgs, _: ToolContext| {
            if true {
                panic!("the secret of the tool");
            }
            Ok(())
        })
        .tool(Tool::new("later"), async |_: RawArgs, ctx: ToolContext| {
            ctx.streamer("n").text("soon").await?;
            tokio::task::yield_now().await;
            if true {
                panic!("the secret of the tool");
            }
            Ok(())
        })
        .tool(
            Tool::new("before_its_future"),
            |args: RawArgs, _: ToolContext| {
                assert!(args.as_str().is_empty(), "the secret of the tool");
                async { Ok(()) }
            },
        );
    let session = serve(builder).await.session().await;
    for tool in ["at_once", "later", "before_its_future"] {
        let mut answer = session.call(5, tool, json!({})).await;
        let last = match answer.head.is_sse() {
            true => answer.messages().await.pop().unwrap(),
            false => answer.json().await,
        };
        let text = format!("the tool `{tool}` failed: it panicked");
        assert_eq!(
            last["result"],
            json!({"content": [{"type": "text", "text": text}], "isError": true})
        );
        let echoed = session.result("echo", json!({"text": "alive"})).await;
        assert_eq!(echoed["content"][0]["text"], "alive");
    }
}
on_both_runtimes!(a_panic_fails_the_call_and_nothing_else);

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only their shape counts")]
struct Picky {
    text: String,
    #[serde(default)]
    sizes: Vec<Size>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only its shape counts")]
struct Size {
    width: u32,
}

// Covers R-704, R-1707.
#[tokio::test]
async fn bad_arguments_name_the_field_and_what_is_wrong_with_it() {
    let builder = builder().tool(Tool::new("t"), async |_: Picky, _: ToolContext| Ok("fine"));
    let session = serve(builder).await.session().await;
    let table = [
        (
            json!({"text": 5}),
            "invalid argument `text`: expected a string, but got the number 5",
        ),
        (
            json!({"text": null}),
            "invalid argument `text`: expected a string, but got null",
        ),
        (
            json!({}),
            "invalid argument `text`: it is required, but missing",
        ),
        (
            json!({"text": "", "sizes": [{"width": 1}, {"width": -1}]}),
            "invalid argument `sizes[1].width`: expected a whole number from 0 to 4294967295, but got the number -1",
        ),
        (
            json!({"text": "", "sizes": [{}]}),
            "invalid argument `sizes[0].width`: it is required, but missing",
        ),
        (
            json!({"text": "", "sizes": {"width": 1}}),
            "invalid argument `sizes`: expected an array, but got an object",
        ),
    ];
    for (arguments, expected) in table {
        let result = session.result("t", arguments.clone()).await;
        assert_eq!(
            result,
            json!({"content": [{"type": "text", "text": expected}], "isError": true}),
            "{arguments}"
        );
    }
    // What the tool does not know is no fault.
    let result = session.result("t", json!({"text": "", "more": 1})).await;
    assert_eq!(result["content"][0]["text"], "fine");
}

// Covers R-107, R-702, R-703.
#[tokio::test]
async fn missing_arguments_are_an_empty_object_and_others_than_objects_are_refused() {
    let raw = builder().tool(Tool::new("raw"), async |args: RawArgs, _: ToolContext| {
        Ok(args.as_str().to_owned())
    });
    let session = serve(raw).await.session().await;
    let table = [
        (r#""name":"raw""#, Ok("{}")),
        (r#""name":"raw","arguments":{}"#, Ok("{}")),
        (r#""name":"raw","arguments":null"#, Ok("{}")),
        // As it was sent, big numbers and spaces included.
        (
            r#""name":"raw","arguments":{ "n": 123456789012345678901234567890 }"#,
            Ok(r#"{ "n": 123456789012345678901234567890 }"#),
        ),
        (
            r#""name":"raw","arguments":"{\"text\":\"a\"}""#,
            Err("`arguments` is not an object"),
        ),
        (
            r#""name":"raw","arguments":[1]"#,
            Err("`arguments` is not an object"),
        ),
        (
            r#""name":"raw","arguments":true"#,
            Err("`arguments` is not an object"),
        ),
        (r#""name":"nobody""#, Err("unknown tool: nobody")),
        (r#""name":7"#, Err("invalid params")),
        (r#""arguments":{}"#, Err("missing field `name`")),
    ];
    for (params, expected) in table {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{{{params}}}}}"#);
        let mut answer = session.post(body).await;
        let message = answer.json().await;
        assert_eq!(message["id"], 4, "{params}");
        match expected {
            Ok(text) => assert_eq!(message["result"]["content"][0]["text"], text, "{params}"),
            Err(part) => {
                assert_eq!(message["error"]["code"], -32602, "{params}");
                let text = message["error"]["message"].as_str().unwrap();
                assert!(text.contains(part), "{params}: {text}");
            }
        }
    }
    for body in [
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":"raw"}"#,
    ] {
        let message = session.post(body).await.json().await;
        assert_eq!(message["error"]["code"], -32602, "{body}");
    }
}

#[tokio::test]
async fn raw_arguments_can_be_read_later() {
    let builder = builder().tool(Tool::new("t"), async |args: RawArgs, _: ToolContext| {
        let typed: crate::fixture::EchoArgs = args.deserialize()?;
        Ok(typed.text)
    });
    let session = serve(builder).await.session().await;
    let good = session.result("t", json!({"text": "a"})).await;
    assert_eq!(good["content"][0]["text"], "a");
    let bad = session.result("t", json!({"text": []})).await;
    let text = bad["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("invalid argument `text`: expected a string"),
        "{text}"
    );
}

#[tokio::test]
async fn a_handler_knows_the_tool_it_was_called_as() {
    let builder = builder().tool(Tool::new("t"), async |_: RawArgs, ctx: ToolContext| {
        Ok(ctx.tool().to_owned())
    });
    let session = serve(builder).await.session().await;
    let result = session.result("t", json!({})).await;
    assert_eq!(result["content"][0]["text"], "t");
}

/// A streaming call and a quiet one, so that both bodies above are used.
#[tokio::test]
async fn a_failure_after_events_ends_the_stream() {
    let builder = builder().tool(Tool::new("t"), async |_: RawArgs, ctx: ToolContext| {
        ctx.streamer(None::<String>).text("a").await?;
        Err::<(), _>(ToolError::protocol(9, "no"))
    });
    let session = serve(builder).await.session().await;
    let messages = session.post(call(1, "t", json!({}))).await.messages().await;
    assert_eq!(messages.len(), 2);
    assert_eq!(
        messages[1],
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 9, "message": "no"}})
    );
    let quiet = session
        .post(quiet_call(1, "t", json!({})))
        .await
        .json()
        .await;
    assert_eq!(quiet["error"]["code"], 9);
}

// Covers R-608.
#[tokio::test]
async fn what_a_schema_refers_to_is_never_fetched() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/schema", listener.local_addr().unwrap());
    let schema = json!({
        "$schema": url, "$id": url, "type": "object", "$ref": url,
        "properties": {"a": {"$ref": format!("{url}#/$defs/a")}},
    });
    let tool = Tool::new("t")
        .input_schema(schema.clone())
        .output_schema(schema.clone());
    let session = serve(returning_from(tool, || Ok(Json(Sum { sum: 7 }))))
        .await
        .session()
        .await;
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let listed = session.post(list).await.json().await;
    assert_eq!(listed["result"]["tools"][0]["inputSchema"], schema);
    let result = session.result("t", json!({"a": 1})).await;
    assert_eq!(result["structuredContent"], json!({"sum": 7}));
    let asked = listener.accept().unwrap_err();
    assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock, "it was asked");
}
