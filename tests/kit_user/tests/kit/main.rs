//! The kit's fixtures, used as their users use them: through nothing but the public API.

mod fixtures;
mod hostile;
mod scripted;

use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, CallStream, McpServer, RawArgs, StreamEvent, Tool, ToolContext,
};

/// Bounds a test whose bug is that it waits for ever.
async fn on_time<T>(test: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(Duration::from_secs(30), test).await;
    outcome.expect("nothing happened for 30 s")
}

fn hub() -> AgentHubClient {
    AgentHubClient::builder().build()
}

/// A server whose tool `greet` says hello in two pieces, and `wait` never ends.
fn greeter() -> McpServer {
    McpServer::builder("greeter", "0.1.0")
        .tool(Tool::new("greet"), async |_: RawArgs, ctx: ToolContext| {
            ctx.streamer("greeter").text("hel").await?;
            ctx.streamer("greeter").text("lo").await?;
            Ok("hello")
        })
        .tool(Tool::new("wait"), async |_: RawArgs, ctx: ToolContext| {
            ctx.streamer("greeter").text("so").await?;
            std::future::pending::<()>().await;
            Ok("never")
        })
        .build()
}

/// Reads a stream to its end. Exactly one terminal event must come, and come last.
async fn read(mut stream: CallStream) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    while let Some(event) = on_time(stream.next()).await {
        events.push(event);
    }
    let ends: Vec<bool> = events.iter().map(StreamEvent::is_terminal).collect();
    let count = ends.iter().filter(|end| **end).count();
    assert!(count == 1 && ends.ends_with(&[true]), "{events:?}");
    events
}

/// `kind content` of each event, content as JSON.
fn shown(events: &[StreamEvent]) -> Vec<String> {
    let line = |event: &StreamEvent| format!("{} {}", event.kind, event.content.value());
    events.iter().map(line).collect()
}
