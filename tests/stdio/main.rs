//! Both roles over the standard streams, against real processes: children that are shell scripts,
//! and a server that is a program of its own.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "a test may fail loudly"
)]

mod child;
#[allow(
    dead_code,
    reason = "the peer is shared with the tests of the hub over HTTP"
)]
#[path = "../client/peer.rs"]
mod peer;
mod process;

mod ends;
mod eras;
mod habits;
mod messages;
mod mixed;
mod queues;
mod remains;
mod restarts;
mod starting;
mod stateless;
mod stopping;

mod raw;

mod both;
mod descriptors;
mod leaving;
mod runtimes;
mod serving;

use std::error::Error as _;
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, CallStream, Era, Error, Limits, StreamEvent};

/// Runs a test on both kinds of runtime.
fn run(test: impl AsyncFn()) {
    run_on(&mut tokio::runtime::Builder::new_current_thread(), &test);
    run_on(
        tokio::runtime::Builder::new_multi_thread().worker_threads(2),
        &test,
    );
}

/// The same in both eras, for what our own server is the other side of.
fn run_in_both_eras(test: impl AsyncFn(Era)) {
    for era in [Era::Legacy, Era::Modern] {
        run(async || test(era).await);
    }
}

/// Runs a test that takes its time on one of them.
fn run_once(test: impl AsyncFn()) {
    run_on(&mut tokio::runtime::Builder::new_current_thread(), &test);
}

fn run_on(builder: &mut tokio::runtime::Builder, test: &impl AsyncFn()) {
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(async {
        let before = remains::held().await;
        on_time(test()).await;
        on_time(remains::nothing_more_than(before)).await;
    });
    runtime.shutdown_background();
}

/// Bounds a test whose bug is that it waits for ever.
async fn on_time<T>(test: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(Duration::from_secs(30), test).await;
    outcome.expect("nothing happened for 30 s")
}

/// The defaults with a few changes.
fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

fn hub() -> AgentHubClient {
    AgentHubClient::builder().build()
}

fn hub_with(change: impl FnOnce(&mut Limits)) -> AgentHubClient {
    AgentHubClient::builder().limits(limits(change)).build()
}

/// Reads a stream to its end. Exactly one terminal event must come, and come last.
async fn read(stream: &mut CallStream) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    let ends = events.iter().filter(|event| event.is_terminal()).count();
    let last = events.last().is_some_and(StreamEvent::is_terminal);
    assert!(ends == 1 && last, "{events:?}");
    assert!(stream.next().await.is_none(), "None stays None");
    events
}

/// `kind content` of each event, content as JSON.
fn shown(events: &[StreamEvent]) -> Vec<String> {
    let line = |event: &StreamEvent| format!("{} {}", event.kind, event.content.value());
    events.iter().map(line).collect()
}

/// An error and its causes.
fn said(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        text.push_str(": ");
        text.push_str(&e.to_string());
        cause = e.source();
    }
    text
}
