//! A server to measure: `load_server http PORT`, or `load_server stdio`.
//!
//! Tools: `echo(text)` answers without streaming; `stream(n, size, interval_us = 0)` sends n text
//! events and returns "done"; `sleep(ms)`; `fail(message)`.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_hub_kit::{EventStreamer, McpServer, Result, Tool, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until};

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Stream {
    /// How many events.
    n: u64,
    /// Characters of each.
    size: usize,
    /// Time between them. With one, event i is sent i intervals after the start and says when it
    /// was sent, in nanoseconds of the wall clock.
    #[serde(default)]
    interval_us: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Fail {
    message: String,
}

fn server() -> McpServer {
    McpServer::builder("load-server", env!("CARGO_PKG_VERSION"))
        .tool(
            Tool::typed::<Echo>("echo").description("Gives the text back"),
            async |args: Echo, _: ToolContext| Ok(args.text),
        )
        .tool(
            Tool::typed::<Stream>("stream").description("Sends events, then says done"),
            async |args: Stream, ctx: ToolContext| {
                stream(&ctx.streamer("bench"), args).await?;
                Ok("done")
            },
        )
        .tool(
            Tool::typed::<Sleep>("sleep").description("Waits"),
            async |args: Sleep, _: ToolContext| {
                sleep(Duration::from_millis(args.ms)).await;
                Ok("slept")
            },
        )
        .tool(
            Tool::typed::<Fail>("fail").description("Fails"),
            async |args: Fail, _: ToolContext| Err::<(), _>(ToolError::new(args.message)),
        )
        .build()
}

async fn stream(stream: &EventStreamer, args: Stream) -> Result<()> {
    let text = "x".repeat(args.size);
    if args.interval_us == 0 {
        for _ in 0..args.n {
            stream.text(&*text).await?;
        }
        return Ok(());
    }
    let (mut next, interval) = (Instant::now(), Duration::from_micros(args.interval_us));
    for _ in 0..args.n {
        sleep_until(next).await;
        next += interval;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        stream.text(now.as_nanos().to_string()).await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["http", port] => {
            let bound = server().bind(format!("127.0.0.1:{port}")).await?;
            eprintln!("listening on {}", bound.url());
            bound.serve().await
        }
        ["stdio"] => server().serve_stdio().await,
        _ => {
            eprintln!("usage: load_server http PORT | stdio");
            std::process::exit(2)
        }
    }
}
