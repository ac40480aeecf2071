//! A synchronous model of this process, a loop that gives one token after the other, behind a
//! streaming tool: it runs on a thread of its own, and stops when its call is cancelled.
//!
//!     cargo run --example local_model --features testing
#![allow(clippy::print_stdout, clippy::disallowed_methods)] // it prints, and blocks a thread of its own

use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, EventStreamer, McpServer, RawArgs, Tool, ToolContext, testing,
};

/// What a library of yours would be: it blocks until the next token is there.
struct Model {
    tokens: Vec<&'static str>,
}

impl Iterator for Model {
    type Item = &'static str;

    fn next(&mut self) -> Option<Self::Item> {
        std::thread::sleep(Duration::from_millis(20));
        self.tokens.pop()
    }
}

#[tokio::main]
async fn main() -> agent_hub_kit::Result<()> {
    let generate = async |_: RawArgs, ctx: ToolContext| {
        ctx.spawn_blocking(|stream: EventStreamer| {
            let stream = stream.node("model");
            stream.blocking_think("on a thread of its own")?;
            let mut answer = String::new();
            for token in (Model {
                tokens: vec!["sea", " ", "the", " ", "by"],
            }) {
                // Fails once the call is cancelled, which ends the loop.
                stream.blocking_text(token)?;
                answer.push_str(token);
            }
            Ok(answer)
        })
        .await
    };
    let server = McpServer::builder("local", "0.1.0")
        .tool(Tool::new("generate"), generate)
        .build();

    let hub = AgentHubClient::builder().build();
    testing::connect_memory(&hub, "local", &server).await?;
    let mut events = hub.call_tool_stream("generate", ());
    while let Some(event) = events.next().await {
        println!("{}: {}", event.kind, event.content.value());
    }
    hub.close().await;
    Ok(())
}
