//! The specialists and a hub in one process, over real sockets: a conversation, token by token.

use std::time::Duration;

use agent_hub_kit::specialists::{build_echo_server, build_llm_server};
use agent_hub_kit::{AgentHubClient, CallStream, DummyLlm, EventKind, StreamEvent};
use serde_json::json;
use tokio::task::JoinSet;

use crate::failure::{Failure, Unconnected};
use crate::screen::{Screen, Style};

pub(crate) async fn run() -> Result<(), Failure> {
    let hub = AgentHubClient::builder()
        .client_info("agent-hub-demo", env!("CARGO_PKG_VERSION"))
        .build();
    let mut screen = Screen::new();
    let (mut servers, mut handles) = (JoinSet::new(), Vec::new());
    let specialists = [
        ("echo", build_echo_server()),
        ("llm", build_llm_server(DummyLlm::new().delay(PACE))),
    ];
    for (name, server) in specialists {
        let bound = server
            .build()
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
    let mut events = show(&mut screen, "echo", echo(&hub, GREETING)).await?;
    events += show(&mut screen, "llm", ask(&hub, GREETING)).await?;
    screen.text("and both at once:\n")?;
    events += show_both(&mut screen, echo(&hub, SHORT), ask(&hub, SHORT)).await?;
    screen.text(&format!("4 calls, {events} events\n"))?;
    hub.close().await;
    for handle in handles {
        handle.shutdown();
    }
    while servers.join_next().await.is_some() {}
    Ok(())
}

fn echo(hub: &AgentHubClient, text: &str) -> CallStream {
    let pace = PACE.as_millis() as u64;
    hub.call_tool_stream("echo", json!({ "text": text, "delay_ms": pace }))
}

fn ask(hub: &AgentHubClient, text: &str) -> CallStream {
    hub.call_tool_stream("ask", json!({ "user_request": text }))
}

/// Shows one call as a line that grows, and gives how many events it took.
async fn show(screen: &mut Screen, who: &str, mut call: CallStream) -> Result<usize, Failure> {
    let (mut count, mut speaks) = (0, false);
    while let Some(event) = call.next().await {
        count += 1;
        if event.kind == EventKind::Text && !speaks {
            speaks = true;
            let who = screen.emphasized(Style::Bold, who);
            screen.print(&format!("{who}: "))?;
        }
        match event.error() {
            Some(error) => return Err(Failure::Call(error.clone())),
            None if event.is_terminal() => screen.finish()?,
            None => screen.event(&event, who)?,
        }
    }
    Ok(count)
}

/// Shows two calls side by side: a column each, a piece a line, in the order in which they came.
async fn show_both(
    screen: &mut Screen,
    mut left: CallStream,
    mut right: CallStream,
) -> Result<usize, Failure> {
    let mut count = 0;
    loop {
        let (indent, event) = tokio::select! {
            Some(event) = left.next() => ("  ", event),
            Some(event) = right.next() => ("        ", event),
            else => return Ok(count),
        };
        count += 1;
        show_piece(screen, indent, &event)?;
    }
}

fn show_piece(screen: &mut Screen, indent: &str, event: &StreamEvent) -> Result<(), Failure> {
    match (event.error(), event.text()) {
        (Some(error), _) => Err(Failure::Call(error.clone())),
        (None, Some(text)) if event.kind == EventKind::Text => {
            Ok(screen.text(&format!("{indent}{text}\n"))?)
        }
        _ => Ok(()),
    }
}

const GREETING: &str = "Hello, I am a server of my own: 聞こえますか? 👋";
const SHORT: &str = "Together";

/// That it can be read along. It takes about four seconds.
const PACE: Duration = Duration::from_millis(25);
