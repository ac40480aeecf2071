//! What a call costs between a hub and a server over loopback HTTP, in both eras.
//!
//! The servers have a thread of their own and the hub has the other: each side one core, a runtime
//! of one thread each.
//!
//! Run with `cargo bench --bench http`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "a bench may fail loudly, and waits in real time"
)]

mod load;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, CallStream, Era, McpServer, RawArgs, Tool, ToolContext};
use divan::Bencher;
use divan::counter::ItemsCount;
use load::{Client, Load};
use tokio::sync::{Mutex, oneshot};
use tokio::time::sleep;

fn main() {
    divan::main();
}

/// Time between the tokens of a slow producer.
const PAUSE: Duration = Duration::from_millis(5);

const SERVERS: usize = 100;

/// What the client asks for.
#[derive(Debug, Clone, Copy)]
struct Http(Era);

const ERAS: [Http; 2] = [Http(Era::Legacy), Http(Era::Modern)];

impl fmt::Display for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
            _ => "auto",
        })
    }
}

/// Servers on ports of their own, until this is dropped.
struct Servers {
    urls: Vec<String>,
    thread: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Servers {
    fn start(server: McpServer, count: usize) -> Self {
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            load::runtime().block_on(async {
                for _ in 0..count {
                    let bound = server.bind("127.0.0.1:0").await.unwrap();
                    tell.send(bound.url().to_owned()).unwrap();
                    tokio::spawn(bound.serve());
                }
                drop(tell);
                let _ = stopped.await;
            });
        });
        Self {
            urls: told.iter().collect(),
            thread: Some((stop, thread)),
        }
    }

    fn client(&self, Http(era): Http) -> Client {
        Client::connected(async |hub| {
            let url = self.urls.first().unwrap();
            let tools = hub.connect_http("load", url).era(era).await;
            assert!(!tools.unwrap().is_empty());
        })
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

#[divan::bench(args = ERAS, sample_count = 1_000, sample_size = 1)]
fn echo(bencher: Bencher<'_, '_>, http: Http) {
    let servers = Servers::start(load::server().build(), 1);
    servers.client(http).bench_echo(bencher);
}

#[divan::bench(args = ERAS, sample_size = 1)]
fn echo_64_at_once(bencher: Bencher<'_, '_>, http: Http) {
    let servers = Servers::start(load::server().build(), 1);
    servers.client(http).bench_echo_at_once(bencher);
}

#[divan::bench(args = Load::all(&ERAS), sample_count = 50, sample_size = 1)]
fn events(bencher: Bencher<'_, '_>, load: Load<Http>) {
    let servers = Servers::start(load::server().build(), 1);
    servers.client(load.link).bench_events(bencher, load);
}

/// From the call to the first of the tokens that come every 5 ms.
#[divan::bench(args = ERAS, sample_count = 200, sample_size = 1)]
fn first_token(bencher: Bencher<'_, '_>, http: Http) {
    let slow = async |_: RawArgs, ctx: ToolContext| {
        let stream = ctx.streamer("bench");
        for token in ["one", "two", "three"] {
            stream.text(token).await?;
            sleep(PAUSE).await;
        }
        Ok("done")
    };
    let server = load::server().tool(Tool::new("slow"), slow).build();
    let servers = Servers::start(server, 1);
    let client = servers.client(http);
    let unfinished = Cell::new(None::<CallStream>);
    // To its end, so that every call finds the link as idle as the one before.
    let finish = || {
        if let Some(call) = unfinished.take() {
            assert_eq!(client.block_on(call.collect_text()).unwrap(), "twothree");
        }
    };
    bencher.with_inputs(finish).bench_local_values(|()| {
        let mut call = client.hub.call_tool_stream("slow", ());
        let first = client.block_on(call.next()).unwrap();
        assert_eq!(first.text(), Some("one"));
        unfinished.set(Some(call));
    });
    finish();
}

/// From when the producer has a token, after a pause of 5 ms, to when the caller has it. Both
/// threads sleep before.
#[divan::bench(args = ERAS, sample_count = 200, sample_size = 1)]
fn lag_of_a_token(bencher: Bencher<'_, '_>, http: Http) {
    let (produce, produced) = tokio::sync::mpsc::unbounded_channel::<()>();
    let server = load::server()
        .tool_with(
            Tool::new("slow"),
            Arc::new(Mutex::new(produced)),
            async |produced: Arc<Mutex<tokio::sync::mpsc::UnboundedReceiver<()>>>,
                   _: RawArgs,
                   ctx: ToolContext| {
                let (stream, mut produced) = (ctx.streamer("bench"), produced.lock().await);
                while produced.recv().await.is_some() {
                    stream.text("token").await?;
                }
                Ok("done")
            },
        )
        .build();
    let servers = Servers::start(server, 1);
    let client = servers.client(http);
    let mut call = client.hub.call_tool_stream("slow", ());
    let mut token = || {
        produce.send(()).unwrap();
        let event = client.block_on(call.next()).unwrap();
        assert_eq!(event.text(), Some("token"));
    };
    token();
    bencher
        .with_inputs(|| thread::sleep(PAUSE))
        .bench_local_values(|()| token());
}

/// A new hub each time, which has to find out what each server speaks where it says "auto".
#[divan::bench(args = [Http(Era::Auto), ERAS[0], ERAS[1]], sample_count = 50, sample_size = 1)]
fn connect_100_servers(bencher: Bencher<'_, '_>, Http(era): Http) {
    let servers = Servers::start(load::server().build(), SERVERS);
    let runtime = load::runtime();
    let connected = Cell::new(None::<AgentHubClient>);
    let close = || {
        if let Some(hub) = connected.take() {
            runtime.block_on(hub.close());
        }
    };
    bencher
        .counter(ItemsCount::new(SERVERS))
        .with_inputs(close)
        .bench_local_values(|()| {
            let hub = AgentHubClient::builder().build();
            let named = servers.urls.iter().enumerate();
            let endpoints = named.map(|(nth, url)| (format!("server-{nth}"), url));
            let tools = runtime.block_on(hub.connect_all_http(endpoints).era(era).into_future());
            let tools = tools.unwrap();
            assert!(tools.len() == SERVERS && tools.iter().all(|(_, tools)| tools.len() == 2));
            connected.set(Some(hub));
        });
    close();
}
