//! The hub through its public API, against servers whose bytes are written by hand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a test may fail loudly"
)]

#[path = "client/peer.rs"]
mod peer;

#[path = "client/calls.rs"]
mod calls;
#[path = "client/cancel.rs"]
mod cancel;
#[path = "client/connect.rs"]
mod connect;
#[path = "client/eras.rs"]
mod eras;
#[path = "client/errors.rs"]
mod errors;
#[path = "client/events.rs"]
mod events;
#[path = "client/fair.rs"]
mod fair;
#[path = "client/faults.rs"]
mod faults;
#[path = "client/many.rs"]
mod many;
#[path = "client/observers.rs"]
mod observers;
#[path = "client/provider.rs"]
mod provider;
#[path = "client/refresh.rs"]
mod refresh;
#[path = "client/remains.rs"]
mod remains;
#[path = "client/replies.rs"]
mod replies;
#[path = "client/requests.rs"]
mod requests;
#[path = "client/resuming.rs"]
mod resuming;
#[path = "client/sessions.rs"]
mod sessions;
#[path = "client/standing.rs"]
mod standing;
#[path = "client/stateless.rs"]
mod stateless;
#[path = "client/subscriptions.rs"]
mod subscriptions;
#[path = "client/time.rs"]
mod time;
#[path = "client/tools.rs"]
mod tools;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, AgentHubClientBuilder, CallStream, HubEvent, StreamEvent};

/// Runs a test on both kinds of runtime. When it is over and all it made is dropped, no task may be
/// left.
fn run(test: impl AsyncFn()) {
    let current = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let multi = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    for runtime in [current.unwrap(), multi.unwrap()] {
        runtime.block_on(async {
            let before = remains::held();
            on_time(test()).await;
            on_time(no_task_is_left()).await;
            on_time(remains::no_more_than(before)).await;
        });
    }
}

/// Bounds a test whose bug is that it waits for ever.
async fn on_time<T>(test: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(Duration::from_secs(20), test).await;
    outcome.expect("nothing happened for 20 s")
}

async fn no_task_is_left() {
    let metrics = tokio::runtime::Handle::current().metrics();
    while metrics.num_alive_tasks() > 0 {
        tokio::task::yield_now().await;
    }
}

/// The events that a hub's observer saw.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<HubEvent>>>);

impl Seen {
    fn builder(&self) -> AgentHubClientBuilder {
        let seen = self.0.clone();
        AgentHubClient::builder().on_event(move |event| seen.lock().unwrap().push(event.clone()))
    }

    fn hub(&self) -> AgentHubClient {
        self.builder().build()
    }

    fn all(&self) -> Vec<HubEvent> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until one of them is meant: what a hub knows is there before its observer is told.
    async fn until(&self, meant: impl Fn(&HubEvent) -> bool) {
        while !self.all().iter().any(&meant) {
            tokio::task::yield_now().await;
        }
    }

    /// `server: text` of each warning.
    fn warnings(&self) -> Vec<String> {
        let text = |event| match event {
            HubEvent::Warning { server, text, .. } => Some(format!("{server}: {text}")),
            _ => None,
        };
        self.all().into_iter().filter_map(text).collect()
    }
}

/// Reads a stream to its end. Exactly one terminal event must come, and come last.
async fn read(stream: &mut CallStream) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    let ends: Vec<bool> = events.iter().map(StreamEvent::is_terminal).collect();
    let count = ends.iter().filter(|end| **end).count();
    assert!(count == 1 && ends.ends_with(&[true]), "{events:?}");
    assert!(stream.next().await.is_none(), "None stays None");
    events
}

/// `kind content` of each event, content as JSON.
fn shown(events: &[StreamEvent]) -> Vec<String> {
    let line = |event: &StreamEvent| format!("{} {}", event.kind, event.content.value());
    events.iter().map(line).collect()
}
