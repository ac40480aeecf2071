//! What the benches of calls share: a server to call, and a client that calls it.
//!
//! Every answer is checked while the time runs: each event for its number and its length, each call
//! for its result. That costs next to nothing, and a bench that loses events is not fast.

use std::fmt;

use agent_hub_kit::{
    AgentHubClient, CallStream, EventKind, McpServer, McpServerBuilder, Tool, ToolContext,
};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

/// Events of one pass, over all calls.
const EVENTS: usize = 16_384;

/// What a connection takes at once by default.
const AT_ONCE: usize = 64;

const STREAMS: [(usize, usize); 4] = [(1, 4), (1, 1024), (AT_ONCE, 4), (AT_ONCE, 1024)];

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Stream {
    events: usize,
    bytes: usize,
}

/// `echo` answers without streaming; `stream` says something a number of times and then "done".
pub fn server() -> McpServerBuilder {
    McpServer::builder("load", "0.1.0")
        .tool(
            Tool::typed::<Echo>("echo"),
            async |echo: Echo, _: ToolContext| Ok(echo.text),
        )
        .tool(
            Tool::typed::<Stream>("stream"),
            async |args: Stream, ctx: ToolContext| {
                let stream = ctx.streamer("bench");
                let text = "x".repeat(args.bytes);
                for _ in 0..args.events {
                    stream.text(&*text).await?;
                }
                Ok("done")
            },
        )
}

pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Over what a client is connected, and how many calls it makes of how many bytes an event.
#[derive(Debug, Clone, Copy)]
pub struct Load<L> {
    pub link: L,
    calls: usize,
    bytes: usize,
}

impl<L: Copy> Load<L> {
    /// One call and as many as a connection takes, short and long events, over each link.
    pub fn all(links: &[L]) -> Vec<Self> {
        let over = |link: &L| {
            let link = *link;
            STREAMS.map(|(calls, bytes)| Self { link, calls, bytes })
        };
        links.iter().flat_map(over).collect()
    }
}

impl<L: fmt::Display> fmt::Display for Load<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { link, calls, bytes } = self;
        let plural = if *calls == 1 { "" } else { "s" };
        write!(f, "{link}, {calls} call{plural}, {bytes} B")
    }
}

/// A hub on a runtime of one thread, the one of the bench.
pub struct Client {
    runtime: Runtime,
    pub hub: AgentHubClient,
}

impl Client {
    pub fn connected(connect: impl AsyncFnOnce(&AgentHubClient)) -> Self {
        let (runtime, hub) = (runtime(), AgentHubClient::builder().build());
        runtime.block_on(connect(&hub));
        Self { runtime, hub }
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    async fn echo(&self) {
        let answer = self.hub.call_tool("echo", json!({"text": "hello"})).await;
        assert_eq!(answer.unwrap(), "hello");
    }

    /// One call after the other.
    pub fn bench_echo(&self, bencher: Bencher<'_, '_>) {
        bencher
            .counter(ItemsCount::new(1_usize))
            .bench_local(|| self.block_on(self.echo()));
    }

    /// As many calls at once as the server takes, each followed by another one.
    pub fn bench_echo_at_once(&self, bencher: Bencher<'_, '_>) {
        const EACH: usize = 16;
        let echoes = async || {
            for _ in 0..EACH {
                self.echo().await;
            }
        };
        bencher
            .counter(ItemsCount::new(AT_ONCE * EACH))
            .bench_local(|| {
                self.block_on(join_all((0..AT_ONCE).map(|_| echoes())));
            });
    }

    pub fn bench_events<L>(&self, bencher: Bencher<'_, '_>, load: Load<L>) {
        let Load { calls, bytes, .. } = load;
        let events = EVENTS / calls;
        let arguments = json!({"events": events, "bytes": bytes});
        let call = async || {
            let call = self.hub.call_tool_stream("stream", &arguments);
            assert_eq!(count(call, bytes).await, events);
        };
        bencher
            .counter(ItemsCount::new(EVENTS))
            .counter(BytesCount::new(EVENTS * bytes))
            .bench_local(|| {
                self.block_on(join_all((0..calls).map(|_| call())));
            });
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.runtime.block_on(self.hub.close());
    }
}

/// Reads a call to its end.
async fn count(mut call: CallStream, bytes: usize) -> usize {
    let mut events = 0;
    loop {
        let event = call.next().await.expect("a terminal event");
        if event.kind == EventKind::Result {
            assert_eq!(event.content.value(), "done");
            return events;
        }
        events += 1;
        assert_eq!(event.text().map(str::len), Some(bytes), "{event:?}");
        let number = event.progress().map(|progress| progress.number);
        assert_eq!(number, Some(events as f64), "in order");
    }
}
