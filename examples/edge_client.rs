//! The smallest HTTP client that streams, on one thread: calls `echo` and prints the text as it
//! comes, then its result.
//!
//!     cargo run --profile edge --example edge_client -- URL TEXT
#![allow(clippy::print_stdout)] // it is there to print

use std::io::Write;

use agent_hub_kit::{AgentHubClient, EventKind};
use serde::Serialize;

#[derive(Serialize)]
struct Echo {
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> agent_hub_kit::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(text)) = (args.next(), args.next()) else {
        eprintln!("usage: edge_client URL TEXT");
        std::process::exit(2)
    };
    let hub = AgentHubClient::builder().build();
    hub.connect_http("edge", url).await?;
    let mut events = hub.call_tool_stream("echo", Echo { text });
    while let Some(event) = events.next().await {
        match event.kind {
            EventKind::Text => print!("{}", event.text().unwrap_or_default()),
            EventKind::Result => println!("\n{}", event.content.value()),
            EventKind::TerminalError => println!("\nfailed: {}", event.content.value()),
            _ => {}
        }
        let _ = std::io::stdout().flush();
    }
    hub.close().await;
    Ok(())
}
