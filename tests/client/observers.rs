//! An observer that takes its time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agent_hub_kit::{AgentHubClient, HubEvent, Limits, ServerChange};
use tokio::sync::{Semaphore, mpsc};

use crate::peer::Peer;
use crate::run;

fn line(event: &HubEvent) -> String {
    match event {
        HubEvent::Call { event, .. } => event.kind.to_string(),
        HubEvent::Server { change, .. } => format!("{change:?}"),
        HubEvent::Warning { text, .. } => text.clone(),
        other => format!("{other:?}"),
    }
}

#[test]
fn an_async_observer_sees_every_event_in_order() {
    run(async || {
        let peer = Peer::polite().await;
        let (sender, mut events) = mpsc::unbounded_channel();
        let inline = Arc::new(AtomicUsize::new(0));
        let count = inline.clone();
        let hub = AgentHubClient::builder()
            .on_event(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .on_event_async(move |event| {
                let sender = sender.clone();
                async move {
                    tokio::task::yield_now().await;
                    sender.send(line(&event)).unwrap();
                }
            })
            .build();
        peer.connect(&hub, "p").await;
        hub.call_tool("stream", ()).await.unwrap();
        hub.close().await;
        drop(hub);
        let mut seen = Vec::new();
        while let Some(event) = events.recv().await {
            seen.push(event);
        }
        assert_eq!(
            seen,
            ["Connected", "text", "text", "result", "Disconnected"]
        );
        assert_eq!(inline.load(Ordering::Relaxed), 5, "both observers are told");
    });
}

#[test]
fn a_panic_in_an_async_observer_disturbs_nothing() {
    run(async || {
        let peer = Peer::polite().await;
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = seen.clone();
        let hub = AgentHubClient::builder()
            .on_event_async(move |event| {
                let line = line(&event);
                assert_ne!(line, "Connected", "a panic before the future");
                let kept = kept.clone();
                async move {
                    tokio::task::yield_now().await;
                    assert_ne!(line, "result", "a panic in the future");
                    kept.lock().unwrap().push(line);
                }
            })
            .build();
        peer.connect(&hub, "p").await;
        assert_eq!(hub.call_tool("stream", ()).await.unwrap(), "ab");
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        hub.close().await;
        assert_eq!(*seen.lock().unwrap(), ["text", "text", "Disconnected"]);
    });
}

#[test]
fn what_a_slow_observer_misses_is_the_oldest_and_is_counted() {
    run(async || {
        let peer = Peer::polite().await;
        let gate = Arc::new(Semaphore::new(0));
        let (sender, mut events) = mpsc::unbounded_channel();
        let mut limits = Limits::default();
        limits.max_queued_hub_events = 3;
        let hub = AgentHubClient::builder()
            .limits(limits)
            .on_event_async({
                let gate = gate.clone();
                move |event| {
                    let (gate, sender) = (gate.clone(), sender.clone());
                    async move {
                        let _ = sender.send(line(&event));
                        gate.acquire().await.unwrap().forget();
                    }
                }
            })
            .build();
        peer.connect(&hub, "p").await;
        assert_eq!(events.recv().await.unwrap(), "Connected");
        // Four more come while it looks at the first: text, text, result, result.
        hub.call_tool("stream", ()).await.unwrap();
        hub.call_tool("echo", ()).await.unwrap();
        gate.add_permits(100);
        let dropped = events.recv().await.unwrap();
        assert!(dropped.starts_with("1 events were dropped"), "{dropped}");
        for expected in ["text", "result", "result"] {
            assert_eq!(events.recv().await.unwrap(), expected);
        }
        hub.close().await;
        assert_eq!(
            events.recv().await.unwrap(),
            format!("{:?}", ServerChange::Disconnected)
        );
    });
}

#[test]
fn an_observer_that_never_ends_holds_up_neither_calls_nor_the_end() {
    run(async || {
        let peer = Peer::polite().await;
        let mut limits = Limits::default();
        limits.close_timeout = std::time::Duration::from_millis(50);
        let held = Arc::new(());
        let watched = Arc::downgrade(&held);
        let hub = AgentHubClient::builder()
            .limits(limits)
            .on_event_async(move |_| {
                let held = held.clone();
                async move {
                    std::future::pending::<()>().await;
                    drop(held);
                }
            })
            .build();
        peer.connect(&hub, "p").await;
        assert_eq!(hub.call_tool("stream", ()).await.unwrap(), "ab");
        hub.close().await;
        drop(hub);
        while watched.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn dropping_the_hub_ends_the_task_of_its_observer() {
    // `run` looks for tasks that are left.
    run(async || {
        let peer = Peer::polite().await;
        let hub = AgentHubClient::builder()
            .on_event_async(|_| std::future::pending())
            .build();
        peer.connect(&hub, "p").await;
        drop(hub);
    });
}

#[test]
fn a_hub_with_an_async_observer_can_be_built_before_there_is_a_runtime() {
    let (sender, mut events) = mpsc::unbounded_channel();
    let hub = AgentHubClient::builder()
        .on_event_async(move |event| {
            let _ = sender.send(line(&event));
            async {}
        })
        .build();
    // The task of a runtime that has ended is started again in the next one.
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            hub.call_tool("none", ()).await.unwrap_err();
            assert_eq!(events.recv().await.unwrap(), "terminal_error");
        });
    }
}

#[test]
fn of_tools_that_many_servers_share_a_few_are_told_and_the_rest_counted() {
    run(async || {
        let peer = Peer::polite().await;
        let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = warnings.clone();
        let hub = AgentHubClient::builder()
            .on_event(move |event| {
                if let HubEvent::Warning { text, .. } = event {
                    kept.lock().unwrap().push(text.clone());
                }
            })
            .build();
        let mut tools = Vec::new();
        for n in 10..35 {
            tools = peer.connect(&hub, &format!("s{n}")).await;
        }
        let text =
            "other servers offer tools of the same name, which are called by server and name: ";
        let (first, count) = (tools[0].name(), tools.len());
        let told = |servers: usize| -> String {
            let names = tools.iter().flat_map(|tool| {
                (10..10 + servers).map(move |server| format!("s{server}/{}", tool.name()))
            });
            names.take(20).collect::<Vec<_>>().join(", ")
        };
        let warnings = warnings.lock().unwrap();
        assert_eq!(warnings.len(), 24, "the first server is alone");
        assert!(
            warnings[0].starts_with(&format!("{text}s10/{first}, s11/{first}")),
            "{}",
            warnings[0]
        );
        let more = 25 * count - 20;
        assert_eq!(warnings[23], format!("{text}{} and {more} more", told(25)));
    });
}
