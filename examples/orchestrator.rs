//! An agent that asks several specialists at once and passes on what they say as they say it, each
//! step under a node of its own. Specialists come and go while it runs.
//!
//!     cargo run --example orchestrator --features specialists,testing
#![allow(clippy::print_stdout)] // it is there to print

use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, DummyLlm, EventKind, McpServer, RawArgs, Result, Tool, ToolContext, ToolError,
    specialists::build_llm_server, testing::connect_memory,
};
use futures_util::future::try_join_all;
use serde_json::json;

async fn ask_all(hub: AgentHubClient, _: RawArgs, ctx: ToolContext) -> Result<String, ToolError> {
    let stream = ctx.streamer("orchestrator");
    let answers = hub.find_tools("ask").into_iter().map(async |tool| {
        let (name, args) = (tool.server(), json!({ "user_request": "Hi" }));
        let mut answer = format!("{name}: ");
        let mut events = hub.call_tool_stream("ask", args).server(name);
        while let Some(mut event) = events.next().await {
            if event.kind == EventKind::Text {
                answer += event.text().unwrap_or_default();
            }
            let node = event.node.take();
            let step = node.map_or_else(|| name.into(), |node| format!("{name}/{node}"));
            stream.with_node(step).forward_event(&event).await?;
        }
        Ok::<_, ToolError>(answer)
    });
    Ok(try_join_all(answers).await?.join("; "))
}

async fn show(hub: &AgentHubClient) {
    let mut events = hub.call_tool_stream("ask_all", ());
    while let Some(event) = events.next().await {
        println!("{:?} {}: {}", event.node, event.kind, event.content.value());
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let specialists = AgentHubClient::builder().build();
    let server = McpServer::builder("orchestrator", "0.1.0")
        .tool_with(Tool::new("ask_all"), specialists.clone(), ask_all)
        .build();
    let hub = AgentHubClient::builder().build();
    connect_memory(&hub, "orchestrator", &server).await?;
    let model = DummyLlm::new().delay(Duration::from_millis(10));
    let specialist = build_llm_server(model).build();
    for name in ["cook", "pilot"] {
        connect_memory(&specialists, name, &specialist).await?;
        show(&hub).await;
    }
    specialists.disconnect("cook").await?;
    show(&hub).await;
    hub.close().await;
    Ok(())
}
