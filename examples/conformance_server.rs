//! The tools that the official conformance suite calls. `conformance_server PORT` serves them on
//! 127.0.0.1 and says its URL on stderr; `tests/conformance/run.sh` lets the suite at it.

use std::time::Duration;

use agent_hub_kit::{
    ContentBlock, McpServer, McpServerBuilder, RawArgs, Tool, ToolContext, ToolError,
};
use serde_json::{Value, json};

/// A red dot.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\
    \0\0\0\x0cIDATx\xdac\xf8\xcf\xc0\0\0\x03\x01\x01\0\xf7\x03AC\0\0\0\0IEND\xaeB`\x82";
/// A quarter of a millisecond of silence.
const WAV: &[u8] = b"RIFF&\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0\
    data\x02\0\0\0\x80\x80";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("give a port")?.parse()?;
    let bound = server().build().bind(("127.0.0.1", port)).await?;
    eprintln!("listening on {}", bound.url());
    Ok(bound.serve().await?)
}

/// The suite calls the first tool of the list without arguments, and expects it to work.
fn server() -> McpServerBuilder {
    let text = ContentBlock::text("a text");
    let image = ContentBlock::image(PNG, "image/png");
    let audio = ContentBlock::audio(WAV, "audio/wav");
    let resource = ContentBlock::text_resource("test://text", "text/plain", "a resource");
    let three = vec![text.clone(), image.clone(), resource.clone()];
    let server =
        McpServer::builder("conformance-server", env!("CARGO_PKG_VERSION")).sse_replay(true);
    [
        ("test_simple_text", vec![text.clone()]),
        ("test_image_content", vec![image]),
        ("test_audio_content", vec![audio]),
        ("test_embedded_resource", vec![resource]),
        ("test_multiple_content_types", three),
        ("test_streaming_elicitation", vec![text.clone()]),
        ("test_logging_tool", vec![text]),
    ]
    .into_iter()
    .fold(server, |server, (name, blocks)| {
        server.tool_with(
            plain(name).description("Always gives the same blocks"),
            blocks,
            async |blocks: Vec<ContentBlock>, _: RawArgs, _: ToolContext| Ok(blocks),
        )
    })
    .tool(
        plain("test_error_handling").description("Always fails"),
        async |_: RawArgs, _: ToolContext| Err::<(), _>(ToolError::new("failed, as it should")),
    )
    .tool(
        plain("test_tool_with_progress").description("Says how far it is"),
        async |_: RawArgs, ctx: ToolContext| {
            for percent in [0.0, 50.0, 100.0] {
                ctx.progress(percent, 100.0, None).await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok("done")
        },
    )
    .tool(
        plain("test_reconnection").description("Has its client come back for the result"),
        async |_: RawArgs, ctx: ToolContext| {
            ctx.close_sse_stream();
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok("a text")
        },
    )
    .tool(
        Tool::new("json_schema_2020_12_tool")
            .description("Has a schema that says much")
            .input_schema(rich_schema()),
        async |_: RawArgs, _: ToolContext| Ok("a text"),
    )
    .tool(
        Tool::new("test_x_mcp_header")
            .description("Has an argument that travels as a header as well")
            .input_schema(json!({
                "type": "object",
                "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
            })),
        async |_: RawArgs, _: ToolContext| Ok("a text"),
    )
    .tool(
        plain("test_missing_capability")
            .description("Needs a client that can sample")
            .requires_client_capability("sampling"),
        async |_: RawArgs, _: ToolContext| Ok("a text"),
    )
}

/// A tool without arguments.
fn plain(name: &str) -> Tool {
    Tool::new(name).input_schema(json!({ "type": "object", "properties": {} }))
}

/// What the scenario `json-schema-2020-12` asks for, keyword by keyword.
fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
