//! A server `my-app` with one tool, which logs and then streams a text one character at a time.
//!
//!     cargo run --example my_server           # 127.0.0.1:8001
//!     cargo run --example my_server -- 0      # any free port
#![allow(clippy::print_stdout)] // it is there to print

use agent_hub_kit::{McpServer, Tool, ToolContext};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct EchoArgs {
    /// text to repeat
    text: String,
}

#[tokio::main]
async fn main() -> agent_hub_kit::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8001".into());
    let server = McpServer::builder("my-app", "0.1.0")
        .tool(
            Tool::typed::<EchoArgs>("echo").description("Repeat a text, a character at a time"),
            async |args: EchoArgs, ctx: ToolContext| {
                let stream = ctx.streamer("my-app");
                let count = args.text.chars().count();
                stream.log(format!("received {count} characters")).await?;
                for ch in args.text.chars() {
                    stream.text(ch).await?;
                }
                Ok(args.text)
            },
        )
        .build();
    let bound = server.bind(format!("127.0.0.1:{port}")).await?;
    println!("{}", bound.url());
    bound.serve().await
}
