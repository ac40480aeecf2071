//! The program of the server side of these tests: `stdio_server [GRACE_MS]`, on as many threads as
//! `THREADS` says, or on one. Says on stderr what becomes of its calls.

use std::time::Duration;

use agent_hub_kit::{Limits, McpServer, RawArgs, Result, Tool, ToolContext};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::runtime::Builder;
use tokio::time::sleep;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Wait {
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    n: u64,
    size: usize,
}

/// Tells when it is dropped.
struct Told(&'static str);

impl Drop for Told {
    fn drop(&mut self) {
        eprintln!("{}", self.0);
    }
}

fn server(limits: Limits) -> McpServer {
    McpServer::builder("stdio-server", "0")
        .limits(limits)
        .tool(
            Tool::typed::<Echo>("echo"),
            async |args: Echo, _: ToolContext| Ok(args.text),
        )
        .tool(
            Tool::typed::<Wait>("wait"),
            async |args: Wait, _: ToolContext| {
                sleep(Duration::from_millis(args.ms)).await;
                Ok("waited")
            },
        )
        .tool(Tool::new("hold"), async |_: RawArgs, ctx: ToolContext| {
            let told = Told("dropped");
            ctx.streamer("n").text("held").await?;
            eprintln!("held");
            std::future::pending::<()>().await;
            drop(told);
            Ok("never")
        })
        .tool(
            Tool::typed::<Count>("count"),
            async |args: Count, ctx: ToolContext| {
                let stream = ctx.streamer("n");
                let text = "x".repeat(args.size);
                for n in 1..=args.n {
                    stream.text(format!("{n} {text}")).await?;
                }
                eprintln!("counted");
                Ok("counted")
            },
        )
        .tool(Tool::new("late"), async |_: RawArgs, ctx: ToolContext| {
            // Goes on after the tool has ended, until it is told that nobody listens.
            let stream = ctx.streamer("n");
            tokio::spawn(async move {
                while stream.text("tick").await.is_ok() {
                    tokio::task::yield_now().await;
                }
                eprintln!("closed");
            });
            tokio::task::yield_now().await;
            Ok("early")
        })
        .tool(Tool::new("clock"), async |_: RawArgs, ctx: ToolContext| {
            // Stopped only when the tool has ended.
            let stream = ctx.streamer("n");
            let clock = tokio::spawn(async move {
                let mut ticks = tokio::time::interval(Duration::from_millis(1));
                loop {
                    ticks.tick().await;
                    if stream.text("tick").await.is_err() {
                        return eprintln!("closed");
                    }
                }
            });
            sleep(Duration::from_millis(20)).await;
            drop(clock);
            Ok("early")
        })
        .tool(Tool::new("stuck"), async |_: RawArgs, _: ToolContext| {
            eprintln!("stuck");
            // Holds its thread, whatever becomes of the call.
            #[expect(clippy::disallowed_methods, reason = "what a tool of a user may do")]
            std::thread::sleep(Duration::from_secs(3600));
            Ok("never")
        })
        .tool(Tool::new("panic"), async |_: RawArgs, _: ToolContext| {
            if true {
                #[expect(clippy::panic, reason = "what a tool of a user may do")]
                {
                    panic!("on purpose");
                }
            }
            Ok("never")
        })
        .build()
}

fn main() -> Result<()> {
    let mut limits = Limits::default();
    let grace = std::env::args().nth(1).and_then(|ms| ms.parse().ok());
    if let Some(grace) = grace {
        limits.shutdown_timeout = Duration::from_millis(grace);
    }
    let threads = std::env::var("THREADS").ok().and_then(|n| n.parse().ok());
    let mut builder = Builder::new_current_thread();
    if let Some(threads) = threads {
        builder = Builder::new_multi_thread();
        builder.worker_threads(threads);
    }
    #[expect(clippy::expect_used, reason = "without one there is nothing to test")]
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(server(limits).serve_stdio())?;
    eprintln!("served");
    Ok(())
}
