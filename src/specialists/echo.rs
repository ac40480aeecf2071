//! The echo specialist: says a text back, one character an event.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

use crate::mcp::tool::Tool;
use crate::server::{McpServer, McpServerBuilder, ToolContext, ToolError};

#[derive(Deserialize, JsonSchema)]
struct EchoArgs {
    /// The text to say back.
    // The Python kit's fixtures call it `user_request`.
    #[serde(alias = "user_request")]
    text: String,
    /// A pause after each character, in milliseconds, so that the stream can be seen.
    #[serde(default)]
    delay_ms: u64,
}

/// A builder for the echo server, to which more tools can be added.
///
/// Its tool `echo` takes `text` and `delay_ms`, logs how many characters it received, sends the
/// text back one character an event, and returns the whole.
///
/// ```no_run
/// # async fn f() -> agent_hub_kit::Result<()> {
/// agent_hub_kit::specialists::build_echo_server().build().serve_http("127.0.0.1:8001").await
/// # }
/// ```
pub fn build_echo_server() -> McpServerBuilder {
    McpServer::builder("echo-specialist", env!("CARGO_PKG_VERSION")).tool(
        Tool::typed::<EchoArgs>("echo")
            .title("Echo")
            .description("Says a text back, one character at a time"),
        async |args: EchoArgs, ctx: ToolContext| echo(args, ctx).await,
    )
}

async fn echo(args: EchoArgs, ctx: ToolContext) -> Result<String, ToolError> {
    let stream = ctx.streamer("echo");
    stream
        .log(format!("received {} characters", args.text.chars().count()))
        .await?;
    for ch in args.text.chars() {
        stream.text(ch).await?;
        if args.delay_ms > 0 {
            sleep(Duration::from_millis(args.delay_ms)).await;
        }
    }
    Ok(args.text)
}
