//! Starts itself as a child process and streams from it.
//!
//!     cargo run --example stdio_child             # the client
//!     cargo run --example stdio_child -- serve    # the server, for a client on the other end
#![allow(clippy::print_stdout)] // it is there to print; the server leaves stdout to its messages

use agent_hub_kit::{AgentHubClient, McpServer, RawArgs, StdioCommand, Tool, ToolContext};

fn server() -> McpServer {
    McpServer::builder("counter", "0.1.0")
        .tool(
            Tool::new("count").description("Counts to three"),
            async |_: RawArgs, ctx: ToolContext| {
                let stream = ctx.streamer("counter");
                for number in ["one", "two", "three"] {
                    stream.text(number).await?;
                }
                Ok("done")
            },
        )
        .build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return Ok(server().serve_stdio().await?);
    }
    let hub = AgentHubClient::builder().build();
    let child = StdioCommand::new(std::env::current_exe()?).arg("serve");
    hub.connect_stdio("child", child).await?;
    let mut events = hub.call_tool_stream("count", ());
    while let Some(event) = events.next().await {
        println!("{}: {}", event.kind, event.content.value());
    }
    // The child ends when its stdin does.
    hub.close().await;
    Ok(())
}
