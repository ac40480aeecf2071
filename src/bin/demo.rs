//! Two servers and a hub in one process, over real sockets: a conversation, token by token.

use std::time::Duration;

use agent_hub_kit::{AgentHubClient, EventKind, McpServer, Tool, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::failure::{Failure, Unconnected};
use crate::screen::{Screen, Style};

pub(crate) async fn run() -> Result<(), Failure> {
    let hub = AgentHubClient::builder()
        .client_info("agent-hub-demo", env!("CARGO_PKG_VERSION"))
        .build();
    let mut screen = Screen::new();
    let (mut servers, mut handles) = (JoinSet::new(), Vec::new());
    for name in ["alpha", "beta"] {
        let bound = speaker(name)
            .bind("127.0.0.1:0")
            .await
            .map_err(|e| Failure::serving(e, ""))?;
        let url = bound.url().to_owned();
        handles.push(bound.handle());
        servers.spawn(bound.serve());
        let tools = hub
            .connect_http(name, &url)
            .await
            .map_err(|e| Failure::connecting(vec![Unconnected::at_url(e)]))?;
        for tool in &tools {
            screen.text(&format!("connected {} at {url}\n", tool.qualified_name()))?;
        }
    }
    let mut events = 0;
    for (server, text) in SCRIPT {
        events += say(&hub, &mut screen, server, text).await?;
    }
    screen.text(&format!("{} calls, {events} events\n", SCRIPT.len()))?;
    hub.close().await;
    for handle in handles {
        handle.shutdown();
    }
    while servers.join_next().await.is_some() {}
    Ok(())
}

/// Lets one server say a text, and gives how many events it took.
async fn say(
    hub: &AgentHubClient,
    screen: &mut Screen,
    server: &str,
    text: &str,
) -> Result<usize, Failure> {
    let mut events = hub
        .call_tool_stream("echo", json!({ "text": text }))
        .server(server);
    let (mut count, mut speaks) = (0, false);
    while let Some(event) = events.next().await {
        count += 1;
        if event.kind == EventKind::Text && !speaks {
            speaks = true;
            let node = event.node.as_ref().map_or(server, |node| node.as_str());
            let node = screen.emphasized(Style::Bold, node);
            screen.print(&format!("{node}: "))?;
        }
        match event.error() {
            Some(error) => return Err(Failure::Call(error.clone())),
            None if event.is_terminal() => screen.finish()?,
            None => screen.event(&event, server)?,
        }
    }
    Ok(count)
}

/// A server whose tool `echo` says a text under the node `name`, at a pace that can be read along.
fn speaker(name: &'static str) -> McpServer {
    let tool =
        Tool::typed::<EchoArgs>("echo").description("Says a text back, one character at a time");
    McpServer::builder(name, env!("CARGO_PKG_VERSION"))
        .tool_with(tool, name, speak)
        .build()
}

#[derive(Deserialize, JsonSchema)]
struct EchoArgs {
    /// The text to say back.
    text: String,
}

async fn speak(
    name: &'static str,
    EchoArgs { text }: EchoArgs,
    ctx: ToolContext,
) -> Result<String, ToolError> {
    let stream = ctx.streamer(name);
    for ch in text.chars() {
        stream.text(ch).await?;
        sleep(PACE).await;
    }
    Ok(text)
}

/// Who says what. With the pace below it takes about four seconds.
const SCRIPT: [(&str, &str); 4] = [
    ("alpha", "Hello beta, I am a server of my own."),
    ("beta", "Hi alpha, so am I: 聞こえますか? 👋"),
    ("alpha", "Loud and clear, token by token."),
    ("beta", "And one hub listens to us both."),
];

const PACE: Duration = Duration::from_millis(25);
