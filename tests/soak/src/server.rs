//! The process of the servers over HTTP, and the child of a client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agent_hub_kit::{Bound, McpServer, RawArgs, Tool, ToolContext};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
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
    let mut serving = JoinSet::new();
    let battered = Arc::new(Tally::battered());
    let runs = || tally.running() + battered.running();
    for (name, addr) in setup.servers {
        let of = if name == "battered" {
            &battered
        } else {
            &tally
        };
        let mut builder = tools::server(&counts, of);
        builder = match &*name {
            "replay" => builder.sse_replay(true),
            "mounted" => builder
                .cancel_on_disconnect(true)
                .allowed_hosts(["localhost", "127.0.0.1"]),
            _ => builder.dynamic_tools(true),
        };
        let (sender, stops) = mpsc::channel(8);
        let server = builder.build();
        match &*name {
            "mounted" => drop(serving.spawn(mount(server.clone(), addr, stops, counts.clone()))),
            _ => drop(serving.spawn(keep_serving(server.clone(), addr, stops, counts.clone()))),
        }
        running.push((name, server, sender));
    }
    let listeners = running.len() as u64;
    let listening = counts.until(PATIENCE, |own| own.count("listening") == listeners);
    if !listening.await {
        counts.wrong("not every server listens".to_owned());
    }
    counts.set("fds at the start", counts.report().fds);
    counts.set("ready", 1);
    let mut ticks = interval(Duration::from_millis(500));
    let mut changes = interval(Duration::from_secs(5));
    let mut extra = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                counts.set("running", runs());
                counts.tell();
            }
            _ = changes.tick() => {
                extra = !extra;
                let same = ["mounted", "replay"];
                for (_, server, _) in running.iter().filter(|(name, ..)| !same.contains(&&**name)) {
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
    if !counts.until(PATIENCE, |_| runs() == 0).await {
        counts.wrong(format!("{} calls run without a client", runs()));
    }
    // A task for each listener; all connections have to go by what bounds them.
    if !counts.until(PATIENCE, |own| own.tasks <= listeners).await {
        let tasks = counts.report().tasks;
        counts.wrong(format!("{tasks} tasks at {listeners} idle servers"));
    }
    counts.add("fds at the end", counts.report().fds);
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
async fn keep_serving(
    server: McpServer,
    addr: SocketAddr,
    mut stops: mpsc::Receiver<Stop>,
    counts: Arc<Counts>,
) {
    loop {
        let bound = bind(&server, addr).await;
        counts.add("listening", 1);
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

/// Serves within an app of somebody else's, which here is bare hyper. Ends with the sender.
async fn mount(
    server: McpServer,
    addr: SocketAddr,
    mut stops: mpsc::Receiver<Stop>,
    counts: Arc<Counts>,
) {
    let (Ok(listener), Ok(service)) = (TcpListener::bind(addr).await, server.into_service()) else {
        return counts.wrong("nothing is mounted".to_owned());
    };
    counts.add("listening", 1);
    let mut ticks = interval(Duration::from_millis(500));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((socket, _)) = accepted else { continue };
                let _ = socket.set_nodelay(true);
                let serving = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(tools::limits().idle_connection_timeout)
                    .serve_connection(TokioIo::new(socket), service.clone());
                connections.spawn(serving);
            }
            _ = connections.join_next(), if !connections.is_empty() => {}
            _ = ticks.tick() => counts.set("sessions", sessions(&format!("{service:?}"))),
            _ = stops.recv() => return,
        }
    }
}

/// How many sessions a service says that it has.
fn sessions(service: &str) -> u64 {
    let (_, rest) = service.split_once("sessions: ").unwrap_or_default();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// Serves the one client that started this process.
pub async fn serve_stdio() {
    quiet_panics();
    let counts = Arc::new(Counts::default());
    let tally = Arc::new(Tally::battered());
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
