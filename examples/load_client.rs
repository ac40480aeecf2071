//! A client to measure with. The last line of its output is JSON.
//!
//! ```text
//! load_client call URL TOOL ARGS             events, seconds, late and out of order ones
//! load_client stdio TOOL ARGS -- COMMAND...  the same over a child process
//! load_client echo URL COUNT                 calls in sequence
//! load_client rps URL SECONDS CONCURRENCY    calls in a loop: calls, seconds, p50 and p99 in us
//! load_client connect BASE_PORT COUNT        connect to COUNT servers in parallel, list their tools
//! ```

#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(clippy::print_stdout, reason = "its report goes there")]

use std::time::{Duration, Instant};

use agent_hub_kit::{AgentHubClient, CallStream, Error, EventKind, Result, StdioCommand};
use serde_json::{Value, json};
use tokio::task::{JoinError, JoinSet};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let hub = AgentHubClient::builder().build();
    let report = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["call", url, tool, arguments] => call(&hub, url, tool, arguments).await,
        ["stdio", tool, arguments, "--", ref command @ ..] => {
            stdio(&hub, tool, arguments, command).await
        }
        ["echo", url, count] => echo(&hub, url, number(count)).await,
        ["rps", url, seconds, concurrency] => {
            rps(&hub, url, number(seconds), number(concurrency)).await
        }
        ["connect", port, count] => connect(&hub, number(port), number(count)).await,
        _ => usage(),
    };
    hub.close().await;
    match report {
        Ok(report) => println!("{report}"),
        Err(e) => {
            eprintln!("error: {e}");
            std::process::exit(1)
        }
    }
}

fn usage() -> ! {
    eprintln!("usage: see the head of examples/load_client.rs");
    std::process::exit(2)
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| usage())
}

fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| usage())
}

async fn call(hub: &AgentHubClient, url: &str, tool: &str, args: &str) -> Result<Value> {
    hub.connect_http("load", url).await?;
    count(hub.call_tool_stream(tool, arguments(args))).await
}

async fn stdio(hub: &AgentHubClient, tool: &str, args: &str, command: &[&str]) -> Result<Value> {
    let words: Vec<String> = command.iter().map(ToString::to_string).collect();
    hub.connect_stdio("load", StdioCommand::from(words)).await?;
    count(hub.call_tool_stream(tool, arguments(args))).await
}

/// Reads a call to its end and looks once more 300 ms later.
async fn count(mut stream: CallStream) -> Result<Value> {
    let started = Instant::now();
    let (mut events, mut out_of_order, mut late, mut last) = (0u64, 0u64, 0u64, 0.0);
    while let Some(event) = stream.next().await {
        if let Some(progress) = event.progress() {
            events += 1;
            out_of_order += u64::from(progress.number != last + 1.0);
            last = progress.number;
        }
        if let Some(error) = event.error() {
            return Err(error.clone());
        }
        if event.kind == EventKind::Result {
            break;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_millis(300)).await;
    while stream.next().await.is_some() {
        late += 1;
    }
    Ok(json!({ "events": events, "seconds": seconds, "late": late, "out_of_order": out_of_order }))
}

async fn echo(hub: &AgentHubClient, url: &str, count: u64) -> Result<Value> {
    hub.connect_http("load", url).await?;
    let started = Instant::now();
    for _ in 0..count {
        hub.call_tool("echo", json!({ "text": "hello" })).await?;
    }
    Ok(json!({ "calls": count, "seconds": started.elapsed().as_secs_f64() }))
}

async fn rps(hub: &AgentHubClient, url: &str, seconds: u64, concurrency: u64) -> Result<Value> {
    hub.connect_http("load", url).await?;
    let (started, length) = (Instant::now(), Duration::from_secs(seconds));
    let mut loops = JoinSet::new();
    for _ in 0..concurrency {
        let hub = hub.clone();
        loops.spawn(async move {
            let mut times = Vec::new();
            while started.elapsed() < length {
                let call = Instant::now();
                hub.call_tool("echo", json!({ "text": "hello" })).await?;
                times.push(call.elapsed().as_micros());
            }
            Ok::<_, Error>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = loops.join_next().await {
        times.extend(joined(ended)?);
    }
    times.sort_unstable();
    let at = |share: usize| {
        times
            .get(times.len() * share / 100)
            .copied()
            .unwrap_or_default()
    };
    Ok(json!({
        "calls": times.len(), "seconds": started.elapsed().as_secs_f64(),
        "p50_us": at(50), "p99_us": at(99),
    }))
}

async fn connect(hub: &AgentHubClient, port: u64, count: u64) -> Result<Value> {
    let servers = (port..port + count)
        .map(|port| (format!("s{port}"), format!("http://127.0.0.1:{port}/mcp")));
    let started = Instant::now();
    let connected = hub.connect_all_http(servers).await?;
    let tools: usize = connected.iter().map(|(_, tools)| tools.len()).sum();
    Ok(json!({
        "servers": connected.len(), "tools": tools, "seconds": started.elapsed().as_secs_f64(),
    }))
}

/// What a task gave; its panic is ours.
fn joined<T>(ended: std::result::Result<T, JoinError>) -> T {
    ended.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()))
}
