//! Asks an agent, and shows what it thinks and says as it comes.
//!
//!     cargo run --example llm_agent_client -- 'What is a hub?'
//!
//! `LLM_AGENT_PORT` says where the agent listens.
#![allow(clippy::print_stdout)] // it is there to print

use std::io::Write;

use agent_hub_kit::{AgentHubClient, EventKind};
use serde_json::json;

#[tokio::main]
async fn main() -> agent_hub_kit::Result<()> {
    let port = std::env::var("LLM_AGENT_PORT").unwrap_or_else(|_| "8201".into());
    let request = std::env::args().nth(1);
    let request = request.unwrap_or_else(|| "What is a hub?".into());
    let hub = AgentHubClient::builder().build();
    let url = format!("http://127.0.0.1:{port}/mcp");
    hub.connect_http("llm-agent", url).await?;

    let mut events = hub.call_tool_stream("ask", json!({ "user_request": request }));
    let mut last: Option<EventKind> = None;
    while let Some(event) = events.next().await {
        if last.as_ref() != Some(&event.kind) {
            let end = last.map_or("", |_| "\n");
            print!("{end}[{}] ", event.kind);
            last = Some(event.kind.clone());
        }
        match event.text() {
            Some(piece) => print!("{piece}"),
            None => print!("{}", event.content.value()),
        }
        let _ = std::io::stdout().flush();
    }
    println!();
    hub.close().await;
    Ok(())
}
