//! Connects to a server, lists its tools, calls `echo` and prints its events by kind.
//!
//!     cargo run --example my_client           # http://127.0.0.1:8001/mcp
//!     cargo run --example my_client -- URL
#![allow(clippy::print_stdout)] // it is there to print

use std::io::Write;

use agent_hub_kit::{AgentHubClient, EventKind};
use serde_json::json;

#[tokio::main]
async fn main() -> agent_hub_kit::Result<()> {
    let url = std::env::args().nth(1);
    let url = url.unwrap_or_else(|| "http://127.0.0.1:8001/mcp".into());
    let hub = AgentHubClient::builder().build();
    for tool in hub.connect_http("my-app", url).await? {
        let about = tool.description().unwrap_or_default();
        println!("{}: {about}", tool.qualified_name());
    }
    let mut events = hub.call_tool_stream("echo", json!({ "text": "Hé👋llo" }));
    while let Some(event) = events.next().await {
        match event.kind {
            EventKind::Text => print!("{}", event.text().unwrap_or_default()),
            EventKind::Log => println!("log: {}", event.content.value()),
            EventKind::Result => println!("\nresult: {}", event.content.value()),
            EventKind::TerminalError => println!("\nfailed: {}", event.content.value()),
            _ => {}
        }
        let _ = std::io::stdout().flush();
    }
    hub.close().await;
    Ok(())
}
