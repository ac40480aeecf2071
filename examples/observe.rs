//! Counts every event that passes through a hub, on a page for Prometheus.
//!
//!     cargo run --example observe --features specialists,testing
#![allow(clippy::print_stdout)] // it is there to print

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use agent_hub_kit::{AgentHubClient, EventKind, HubEvent, specialists::build_echo_server, testing};
use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use serde_json::json;
use tokio::net::TcpListener;

/// How many events there were, by their labels as they are written.
static COUNTS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

fn count(seen: &HubEvent) {
    #[rustfmt::skip]
    let HubEvent::Call { server, tool, event, .. } = seen else { return };
    let kind = match &event.kind {
        EventKind::Other(_) => "other", // a peer may think of ever new ones
        known => known.as_str(),
    };
    // A quote in a name must not end it.
    let [server, tool, kind] = [&**server, &**tool, kind]
        .map(|name| name.replace('\\', r"\\").replace('"', "\\\""))
        .map(|name| name.replace('\n', r"\n"));
    let labels = format!("server=\"{server}\",tool=\"{tool}\",kind=\"{kind}\"");
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    *counts.entry(labels).or_default() += 1;
}

fn page() -> String {
    let mut page = "# TYPE agent_hub_events_total counter\n".to_owned();
    for (labels, count) in &*COUNTS.lock().unwrap_or_else(PoisonError::into_inner) {
        page += &format!("agent_hub_events_total{{{labels}}} {count}\n");
    }
    page
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hub = AgentHubClient::builder().on_event(count).build();
    for name in ["echo", "the \"other\" one"] {
        testing::connect_memory(&hub, name, &build_echo_server().build()).await?;
        let call = hub.call_tool("echo", json!({ "text": "Hello" }));
        call.server(name).await?;
    }
    let port = std::env::args().nth(1).unwrap_or_else(|| "9090".into());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("http://{}/metrics", listener.local_addr()?);
    let page = async || ([(CONTENT_TYPE, "text/plain; version=0.0.4")], page());
    Ok(axum::serve(listener, Router::new().route("/metrics", get(page))).await?)
}
