//! An agent as a graph behind one tool: it writes, looks at what it wrote and tries again.
//!
//!     cargo run --example graph_agent --features graph,testing
#![allow(clippy::print_stdout)] // it is there to print

use agent_hub_kit::{
    AgentHubClient, END, LlmGraph, McpServer, NodeError, RawArgs, START, Tool, ToolContext, testing,
};

#[derive(Default)]
struct Draft {
    text: String,
    attempts: u32,
}

fn writer() -> agent_hub_kit::Result<LlmGraph<Draft>> {
    LlmGraph::<Draft>::builder()
        // A node that fails does not end the run: its error is an event.
        .add_node("research", async |_draft, ctx| {
            ctx.think("what is known?").await?;
            Err(NodeError::new("the library is closed"))
        })
        .add_node("write", async |mut draft, ctx| {
            draft.attempts += 1;
            draft.text = format!("draft {}", draft.attempts);
            for word in draft.text.split_inclusive(' ') {
                ctx.text(word).await?;
            }
            Ok(())
        })
        .add_edge(START, "research")
        .add_edge("research", "write")
        .add_conditional_edge(
            "write",
            |draft| if draft.attempts < 2 { "again" } else { "good" },
            [("again", "write"), ("good", END)],
        )
        .build()
}

#[tokio::main]
async fn main() -> agent_hub_kit::Result<()> {
    let answer = async |graph: LlmGraph<Draft>, _: RawArgs, ctx: ToolContext| {
        let mut run = graph.run(Draft::default()).max_steps(20);
        ctx.streamer("writer").forward(&mut run).await?;
        Ok(run.finish().await?.into_inner().text)
    };
    let server = McpServer::builder("writer", "0.1.0")
        .tool_with(Tool::new("write"), writer()?, answer)
        .build();

    let hub = AgentHubClient::builder().build();
    testing::connect_memory(&hub, "writer", &server).await?;
    let mut events = hub.call_tool_stream("write", ());
    while let Some(event) = events.next().await {
        println!("{:?} {}: {}", event.node, event.kind, event.content.value());
    }
    hub.close().await;
    Ok(())
}
