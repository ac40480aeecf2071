//! The client of this crate.

use std::time::Instant;

use agent_hub_kit::{AgentHubClient, Era, EventKind, StdioCommand};
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::{LOOKOUT, Tally, json_args, raw_stdio, url};
use crate::{Outcome, wire};

pub(super) async fn http(address: &str) -> Outcome<AgentHubClient> {
    let hub = AgentHubClient::builder().build();
    hub.connect_http("raw", url(address)).await?;
    Ok(hub)
}

pub(super) async fn stdio() -> Outcome<AgentHubClient> {
    let hub = AgentHubClient::builder().build();
    hub.connect_stdio("raw", StdioCommand::from(raw_stdio()?))
        .await?;
    Ok(hub)
}

pub(super) async fn stream(hub: &AgentHubClient, args: wire::Stream) -> Outcome<Vec<f64>> {
    let [warm_up, measured] = json_args(args);
    call(hub, args, warm_up).await?;
    let tally = call(hub, args, measured).await?;
    hub.close().await;
    tally.figures(args)
}

async fn call(hub: &AgentHubClient, args: wire::Stream, arguments: Value) -> Outcome<Tally> {
    let mut tally = Tally::new(args.size);
    let mut stream = hub.call_tool_stream("stream", arguments);
    while let Some(event) = stream.next().await {
        match (event.progress(), event.text()) {
            (Some(progress), Some(text)) if event.kind == EventKind::Text => {
                tally.event(progress.number, text);
            }
            (None, Some(text)) if event.kind == EventKind::Result => tally.result(text),
            _ => return Err(format!("not an event of this call: {event:?}").into()),
        }
    }
    tokio::time::sleep(LOOKOUT).await;
    Ok(tally)
}

pub(super) async fn calls(hub: &AgentHubClient, n: u64, inflight: u64) -> Outcome<Vec<f64>> {
    let started = Instant::now();
    try_join_all((0..inflight).map(|_| async {
        for _ in 0..n / inflight {
            let result = hub.call_tool("echo", json!({ "text": wire::ECHO })).await?;
            if result != wire::ECHO {
                return Err(format!("another echo: {result:?}").into());
            }
        }
        Outcome::Ok(())
    }))
    .await?;
    Ok(vec![n as f64 / started.elapsed().as_secs_f64()])
}

pub(super) async fn connect(
    addresses: &[&str],
    discovers: bool,
) -> Outcome<(usize, AgentHubClient)> {
    let hub = AgentHubClient::builder().build();
    let servers = addresses.iter().map(|address| (*address, url(address)));
    let era = if discovers { Era::Auto } else { Era::Legacy };
    let connected = hub.connect_all_http(servers).era(era).await?;
    Ok((connected.iter().map(|(_, tools)| tools.len()).sum(), hub))
}
