//! A server that is edited while agents use it: `agent-hub dev` builds it after each change, starts
//! it with the socket that it holds, and lets the old one finish its calls. No request fails.
//!
//!     cargo build --example reload_server && cargo run --features cli --bin agent-hub -- \
//!         dev --watch examples --build 'cargo build --example reload_server' \
//!         -- target/debug/examples/reload_server
//!     cargo run --features cli --bin agent-hub -- call http://127.0.0.1:8001/mcp greet
//!
//! Change GREETING, save, and call again. Run by itself, it binds the address that it names.
#![allow(clippy::expect_used)] // without its signal it would drop its calls

use agent_hub_kit::{McpServer, RawArgs, Tool, ToolContext, ToolError};

const GREETING: &str = "hello";

async fn greet(_: RawArgs, ctx: ToolContext) -> Result<String, ToolError> {
    let stream = ctx.streamer("greeter");
    for ch in GREETING.chars() {
        stream.text(ch).await?;
    }
    Ok(GREETING.to_owned())
}

#[cfg(unix)]
fn told_to_end() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut told = signal(SignalKind::terminate()).expect("a process may wait for signals");
    async move { told.recv().await.unwrap_or_default() }
}

#[cfg(not(unix))]
fn told_to_end() -> impl Future<Output = ()> {
    std::future::pending()
}

#[tokio::main]
async fn main() -> agent_hub_kit::Result<()> {
    let server = McpServer::builder("reload-server", "0.1.0")
        .tool(Tool::new("greet").description("Say hello"), greet)
        .build();
    let bound = server.bind("127.0.0.1:8001").await?;
    let (handle, told) = (bound.handle(), told_to_end());
    tokio::spawn(async move {
        told.await;
        handle.shutdown(); // what runs may end
    });
    // What `agent-hub dev` waits for before it ends the old one.
    eprintln!("listening on {}", bound.url());
    bound.serve().await
}
