//! How often an event is allocated for on its way out of a server and into a client, all layers
//! included. Counted a thread, so each side has one of its own and the other is not counted.
//!
//! What a call costs once, and what a buffer costs that many events share, is left out of account:
//! two calls are compared, of which one has many events more.
//!
//! And how much memory a peer can make us take, which `floods` does; `limits` goes through all bounds.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test may fail loudly

#[path = "allocations/floods.rs"]
mod floods;
#[path = "allocations/limits.rs"]
mod limits;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use agent_hub_kit::{
    AgentHubClient, ContentRef, EventKind, McpServer, Tool, ToolContext, decode_envelope,
};
use allocation_counter::measure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

/// How many events the longer call has more than the shorter one.
const MORE: usize = 4_000;

/// Buffers that are shared by few events when the threads take turns often.
const SLACK: f64 = 0.1;

const PLAIN: &str = "word";
const JAPANESE: &str = "一切れ";
const ESCAPES: &str = "a \"quoted\"\nline\twith \\ in it";

#[derive(Serialize, Deserialize, JsonSchema)]
struct Ask {
    events: usize,
    kind: String,
    text: String,
}

fn ask(kind: &str, text: &str, events: usize) -> Ask {
    Ask {
        events,
        kind: kind.to_owned(),
        text: text.to_owned(),
    }
}

fn server() -> McpServer {
    McpServer::builder("counted", "0.1.0")
        .tool(
            Tool::typed::<Ask>("say"),
            async |ask: Ask, ctx: ToolContext| {
                let stream = ctx.streamer("my-agent");
                for _ in 0..ask.events {
                    match &*ask.kind {
                        "text" => stream.text(&ask.text).await?,
                        kind => stream.send(kind, &ask).await?,
                    }
                }
                Ok("done")
            },
        )
        .build()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Serves on a thread of its own, until the process ends.
fn serve_aside() -> String {
    let (tell, told): (Sender<String>, Receiver<String>) = channel();
    thread::spawn(move || {
        runtime().block_on(async {
            let bound = server().bind("127.0.0.1:0").await.unwrap();
            tell.send(bound.url().to_owned()).unwrap();
            bound.serve().await.unwrap();
        });
    });
    told.recv().unwrap()
}

/// Reads a call to its end; gives how many events there were and the last one's content.
async fn read(hub: &AgentHubClient, ask: &Ask) -> (usize, String) {
    let mut stream = hub.call_tool_stream("say", ask);
    let (mut events, mut last) = (0, None);
    while let Some(event) = stream.next().await {
        if event.is_terminal() {
            assert_eq!(event.kind, EventKind::Result, "{event:?}");
        } else {
            events += 1;
            last = Some(event);
        }
    }
    let last = last.map(|event| event.content.raw().into_owned());
    (events, last.unwrap_or_default())
}

fn an_event(fewer: u64, more: u64) -> f64 {
    (more as f64 - fewer as f64) / MORE as f64
}

#[test]
fn a_received_event_is_allocated_for_only_if_it_has_escapes() {
    let url = serve_aside();
    let runtime = runtime();
    let hub = AgentHubClient::builder().build();
    runtime.block_on(async { hub.connect_http("counted", url).await.unwrap() });
    for (kind, text, expected) in [
        ("text", PLAIN, 0.0),
        ("text", JAPANESE, 0.0),
        ("mine", "{}", 1.0),
        ("text", ESCAPES, 1.0),
    ] {
        let count = |events: usize| {
            let ask = ask(kind, text, events);
            let counted = measure(|| {
                let (read, last) = runtime.block_on(read(&hub, &ask));
                assert_eq!(read, events);
                let sent = match kind {
                    "text" => serde_json::to_string(text),
                    _ => serde_json::to_string(&ask),
                };
                assert_eq!(last, sent.unwrap());
            });
            counted.count_total
        };
        count(10);
        let found = an_event(count(100), count(100 + MORE));
        assert!(
            (expected - SLACK..expected + SLACK).contains(&found),
            "{kind} {text:?}: {found} allocations an event, not {expected}"
        );
    }
}

#[test]
fn a_sent_event_is_not_allocated_for() {
    for (kind, text) in [
        ("text", PLAIN),
        ("text", JAPANESE),
        ("text", ESCAPES),
        ("mine", ESCAPES),
    ] {
        let found = an_event(sent(kind, text, 100), sent(kind, text, 100 + MORE));
        assert!(
            found.abs() < SLACK,
            "{kind} {text:?}: {found} allocations an event"
        );
    }
}

/// The allocations of a server that is asked once for so many events.
fn sent(kind: &'static str, text: &'static str, events: usize) -> u64 {
    let runtime = runtime();
    let bound = runtime.block_on(async { server().bind("127.0.0.1:0").await.unwrap() });
    let (url, handle) = (bound.url().to_owned(), bound.handle());
    let reader = thread::spawn(move || {
        self::runtime().block_on(async {
            let hub = AgentHubClient::builder().build();
            hub.connect_http("counted", url).await.unwrap();
            let (read, _) = read(&hub, &ask(kind, text, events)).await;
            hub.close().await;
            handle.shutdown();
            read
        })
    });
    let counted = measure(|| runtime.block_on(bound.serve()).unwrap());
    assert_eq!(reader.join().unwrap(), events);
    counted.count_total
}

#[test]
fn an_envelope_is_read_in_place() {
    let message = r#"{"v":1,"type":"mine","content":"あ","node":"my-agent"}"#;
    let counted = measure(|| {
        let envelope = decode_envelope(message);
        assert!(matches!(&envelope.content, ContentRef::Text(text) if text == "あ"));
        assert_eq!(envelope.node.as_deref(), Some("my-agent"));
    });
    assert_eq!(counted.count_total, 0);
}
