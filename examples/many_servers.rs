//! Several servers in one hub: two offer a tool of the same name, and one is down.
//!
//!     cargo run --example many_servers
#![allow(clippy::print_stdout)] // it is there to print

use agent_hub_kit::{AgentHubClient, Error, McpServer, OnError, RawArgs, Tool, ToolContext};
use tokio::net::TcpListener;

fn greeter(name: &str, greeting: &'static str) -> McpServer {
    McpServer::builder(name, "0.1.0")
        .tool_with(
            Tool::new("greet"),
            greeting,
            async |greeting: &'static str, _: RawArgs, _: ToolContext| Ok(greeting),
        )
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut servers = Vec::new();
    for (name, greeting) in [("english", "hello"), ("japanese", "こんにちは")] {
        let bound = greeter(name, greeting).bind("127.0.0.1:0").await?;
        servers.push((name, bound.url().to_owned()));
        tokio::spawn(bound.serve());
    }
    // The listener is gone with this line.
    let nowhere = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    servers.push(("sleeping", format!("http://{nowhere}/mcp")));

    let hub = AgentHubClient::builder().build();
    hub.connect_all_http(servers)
        .on_error(OnError::Skip)
        .await?;
    for server in hub.servers() {
        println!("{}: {:?}", server.name, server.state);
    }

    // No server is chosen silently.
    match hub.call_tool("greet", ()).await {
        Err(Error::AmbiguousTool { candidates, .. }) => println!("which of {candidates:?}?"),
        other => println!("not ambiguous: {other:?}"),
    }
    for tool in hub.find_tools("greet") {
        let said = hub.call_tool(&tool.qualified_name(), ()).await?;
        println!("{}: {said}", tool.server());
    }
    hub.close().await;
    Ok(())
}
