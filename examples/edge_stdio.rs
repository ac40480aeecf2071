//! The smallest server over stdio that streams, on one thread; without HTTP in its tree.
//!
//!     cargo build --profile edge --no-default-features --features server,stdio --example edge_stdio

use agent_hub_kit::{McpServer, Result, Tool, ToolContext};
use serde::Deserialize;

#[derive(Deserialize)]
struct Echo {
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    McpServer::builder("edge-stdio", "0.1.0")
        .tool(
            Tool::new("echo").description("Says a text back, a character at a time"),
            async |args: Echo, ctx: ToolContext| {
                let stream = ctx.streamer("echo");
                for character in args.text.chars() {
                    stream.text(character).await?;
                }
                Ok(args.text)
            },
        )
        .build()
        .serve_stdio()
        .await
}
