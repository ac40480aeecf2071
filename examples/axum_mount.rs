//! An axum app with an MCP endpoint beside its other routes.
//!
//!     cargo run --example axum_mount            # 127.0.0.1:8001
//!     cargo run --example axum_mount -- 0       # any free port
#![allow(clippy::print_stdout)] // it is there to print

use agent_hub_kit::{McpServer, RawArgs, Tool, ToolContext};
use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8001".into());
    let mcp = McpServer::builder("mounted", "0.1.0")
        .tool(
            Tool::new("greet").description("Greets, a word at a time"),
            async |_: RawArgs, ctx: ToolContext| {
                let stream = ctx.streamer("mounted");
                for word in ["hello ", "from ", "axum"] {
                    stream.text(word).await?;
                }
                Ok("hello from axum")
            },
        )
        // Its address is axum's matter, so the names it may be asked by are told here.
        .allowed_hosts(["127.0.0.1", "localhost"])
        .build();
    let app = Router::new()
        .route("/", get(async || "A page.\n"))
        .route_service("/agents/greeter", mcp.into_service()?);
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("http://{}/agents/greeter", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
