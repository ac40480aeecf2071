//! The process of the servers over HTTP, and the child of a client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agent_hub_kit::{Bound, McpServer, RawArgs, Tool, ToolContext};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, sleep, timeout};

use crate::own::{Counts, commands};
use crate::report::Setup;
use crate::tools::{self, Tally};

/// For what ends by itself: longer than any of the limits.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a server is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// In order.
    Gentle,
    /// At once.
    Hard,
}

/// Serves on each address of the setup until it is told `stop`; `gentle NAME` and `hard NAME` start
/// one of them anew.
pub async fn serve(setup: Setup) {
    quiet_panics();
    let (counts, tally) = (Arc::new(Counts::default()), Arc::new(Tally::default()));
    let mut commands = commands();
    let mut running = Vec::new();
    let mut serving = tokio::task::JoinSet::new();
    for (name, addr) in setup.servers {
        let mut builder = tools::server(&counts, &tally);
        builder = match &*name {
            "replay" => builder.sse_replay(true),
            _ => builder.dynamic_tools(true),
        };
        let (sender, stops) = mpsc::channel(8);
        let server = builder.build();
        serving.spawn(keep_serving(server.clone(), addr, stops));
        running.push((name, server, sender));
    }
    let mut ticks = interval(Duration::from_millis(500));
    let mut changes = interval(Duration::from_secs(5));
    let mut extra = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                counts.set("running", tally.running());
                counts.tell();
            }
            _ = changes.tick() => {
                extra = !extra;
                for (_, server, _) in running.iter().filter(|(name, ..)| name != "replay") {
                    let changed = match extra {
                        true => server.add_tool(Tool::new("extra"), async |_: RawArgs, _: ToolContext| Ok(())),
                        false => server.remove_tool("extra"),
                    };
                    if let Err(error) = changed {
                        counts.wrong(format!("the tools could not be changed: {error}"));
                    }
                }
            }
            command = commands.recv() => {
                let command = command.unwrap_or_default();
                let (stop, named) = match command.split_once(' ') {
                    Some(("gentle", name)) => (Stop::Gentle, name),
                    Some(("hard", name)) => (Stop::Hard, name),
                    _ => break,
                };
                for (_, _, sender) in running.iter().filter(|(name, ..)| name == named) {
                    let _ = sender.send(stop).await;
                }
            }
        }
    }
    // The clients are gone, so nothing may run.
    if !counts.until(PATIENCE, |_| tally.running() == 0).await {
        counts.wrong(format!("{} calls run without a client", tally.running()));
    }
    let listeners = running.len() as u64;
    // A task for each listener; all connections have to go by what bounds them.
    if !counts.until(PATIENCE, |own| own.tasks <= listeners).await {
        let tasks = counts.report().tasks;
        counts.wrong(format!("{tasks} tasks at {listeners} idle servers"));
    }
    counts.add("fds before the end", counts.report().fds);
    drop(running); // which tells each to end
    let over = async { while serving.join_next().await.is_some() {} };
    if timeout(PATIENCE, over).await.is_err() {
        counts.wrong("a server did not end".to_owned());
    }
    if !counts.until(PATIENCE, |own| own.tasks == 0).await {
        let tasks = counts.report().tasks;
        counts.wrong(format!("{tasks} tasks are left after the servers' end"));
    }
    counts.add("over", 1);
    counts.tell();
    std::process::exit(0);
}

/// Serves on one address, and again each time it was told to stop. Ends with the sender.
async fn keep_serving(server: McpServer, addr: SocketAddr, mut stops: mpsc::Receiver<Stop>) {
    loop {
        let bound = bind(&server, addr).await;
        let handle = bound.handle();
        let mut serving = Box::pin(bound.serve());
        let stop = tokio::select! {
            _ = &mut serving => return, // it never does by itself
            stop = stops.recv() => stop,
        };
        if stop != Some(Stop::Hard) {
            handle.shutdown();
            let _ = serving.await;
        }
        if stop.is_none() {
            return;
        }
    }
}

async fn bind(server: &McpServer, addr: SocketAddr) -> Bound {
    let start = Instant::now();
    loop {
        match server.bind(addr).await {
            Ok(bound) => return bound,
            Err(error) if start.elapsed() > Duration::from_secs(10) => {
                eprintln!("soak: {error:?}");
                std::process::exit(1);
            }
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Serves the one client that started this process.
pub async fn serve_stdio() {
    quiet_panics();
    let (counts, tally) = (Arc::new(Counts::default()), Arc::new(Tally::default()));
    if let Err(error) = tools::server(&counts, &tally).build().serve_stdio().await {
        eprintln!("soak: {error}");
        std::process::exit(1);
    }
}

/// Tools panic on purpose here.
fn quiet_panics() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic
            .payload()
            .downcast_ref::<String>()
            .map_or("", |text| text);
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            tell(panic);
        }
    }));
}
