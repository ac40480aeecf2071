//! The smallest HTTP server that streams, on one thread: one tool, which repeats a text.
//!
//!     cargo run --profile edge --example edge_echo            # any free port, told on stdout
//!     cargo run --profile edge --example edge_echo -- 8001
#![allow(clippy::print_stdout)] // it is there to print

use std::time::Duration;

use agent_hub_kit::{McpServer, Tool, ToolContext, ToolError};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Echo {
    /// What each event says.
    text: String,
    #[serde(default = "once")]
    times: u32,
    /// The pause between two events.
    #[serde(default)]
    delay_ms: u64,
}

fn once() -> u32 {
    1
}

async fn echo(args: Echo, ctx: ToolContext) -> Result<String, ToolError> {
    let stream = ctx.streamer("echo");
    for time in 0..args.times {
        if time > 0 && args.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(args.delay_ms)).await;
        }
        stream.text(&*args.text).await?;
    }
    Ok(args.text)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> agent_hub_kit::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "0".into());
    let tool = Tool::new("echo")
        .description("Repeat a text")
        .input_schema(json!({
            "type": "object",
            "properties": {
                "text": { "type": "string" },
                "times": { "type": "integer" },
                "delay_ms": { "type": "integer" },
            },
            "required": ["text"],
        }));
    let server = McpServer::builder("edge-echo", "0.1.0")
        .tool(tool, echo)
        .build();
    let bound = server.bind(format!("127.0.0.1:{port}")).await?;
    println!("{}", bound.url());
    bound.serve().await
}
