//! Peers and networks that fail: what the hub gives, and what it costs the others.

use std::time::Duration;

use agent_hub_kit::testing::{Fault, Faults, HostilePeer, TestServer, connect_memory};
use agent_hub_kit::{AgentHubClient, Era, Error, Limits};
use tokio::time::Instant;

use crate::{greeter, hub, on_time, read, shown};

/// What a call of a greeter with a fault ends with.
fn fits(fault: Fault, lines: bool, error: Option<&Error>) -> bool {
    match (fault, error) {
        (Fault::Delay(_) | Fault::Noise, None) => true,
        (Fault::CutAfter(_), Some(Error::Transport { .. })) => true,
        (Fault::Garbage, Some(Error::Transport { .. })) => true,
        (Fault::Silence | Fault::Flood(64), Some(Error::Timeout { .. })) => true,
        (
            Fault::Flood(_),
            Some(Error::Limit {
                what: "max_client_message_bytes",
                ..
            }),
        ) => true,
        (Fault::WrongIds, Some(Error::Timeout { .. })) => lines,
        (Fault::WrongIds, Some(Error::Protocol { .. } | Error::Transport { .. })) => !lines,
        _ => false,
    }
}

const FAULTS: [Fault; 9] = [
    Fault::CutAfter(0),
    Fault::CutAfter(150),
    Fault::Delay(Duration::from_millis(100)),
    Fault::Flood(64),
    Fault::Flood(2 << 20),
    Fault::Garbage,
    Fault::Noise,
    Fault::Silence,
    Fault::WrongIds,
];

/// Calls a server with a fault: one terminal event, of the right kind; another server is not touched;
/// and without the fault the next call works.
async fn one_fault(
    hub: &AgentHubClient,
    faults: &Faults,
    fault: Fault,
    lines: bool,
    patience: Duration,
) {
    let case = format!("{fault:?}, lines: {lines}");
    faults.set(fault);
    let events = read(hub.call_tool_stream("bad/greet", ()).timeout(patience)).await;
    let error = events.last().unwrap().error();
    assert!(fits(fault, lines, error), "{case}: {error:?}");
    if error.is_none() {
        assert_eq!(
            shown(&events),
            ["text \"hel\"", "text \"lo\"", "result \"hello\""],
            "{case}"
        );
    }
    assert_eq!(
        on_time(hub.call_tool("good/greet", ()).into_future())
            .await
            .unwrap(),
        "hello",
        "{case}"
    );
    faults.set(None);
    let healed = hub
        .call_tool("bad/greet", ())
        .timeout(Duration::from_secs(30))
        .await;
    assert_eq!(
        healed.unwrap_or_else(|e| panic!("{case}: {e:?}")),
        "hello",
        "{case}"
    );
}

fn careful() -> AgentHubClient {
    let mut limits = Limits::default();
    limits.max_client_message_bytes = 1 << 20;
    AgentHubClient::builder().limits(limits).build()
}

#[tokio::test(start_paused = true)]
async fn every_fault_in_memory_ends_one_call_and_nothing_else() {
    for era in [Era::Legacy, Era::Modern] {
        for lines in [false, true] {
            for fault in FAULTS {
                let (hub, server, faults) = (careful(), greeter(), Faults::none());
                let bad = connect_memory(&hub, "bad", &server)
                    .era(era)
                    .faults(&faults);
                let bad = if lines { bad.lines() } else { bad };
                on_time(bad.into_future()).await.unwrap();
                connect_memory(&hub, "good", &server).await.unwrap();
                one_fault(&hub, &faults, fault, lines, Duration::from_secs(1)).await;
                on_time(hub.close()).await;
            }
        }
    }
}

#[tokio::test]
async fn every_fault_on_the_network_ends_one_call_and_nothing_else() {
    for era in [Era::Legacy, Era::Modern] {
        for fault in FAULTS {
            let patience = match fault {
                // Only where time can be paused.
                Fault::Delay(_) => continue,
                // It never comes.
                Fault::Silence | Fault::Flood(64) => Duration::from_millis(100),
                // It comes in time, however slow the machine is.
                _ => Duration::from_secs(30),
            };
            let (hub, faults) = (careful(), Faults::none());
            let server = TestServer::spawn(greeter()).await.unwrap();
            let peer = HostilePeer::wrap(server.url(), &faults).await.unwrap();
            assert_eq!(peer.url(), format!("http://{}/mcp", peer.local_addr()));
            hub.connect_http("bad", peer.url()).era(era).await.unwrap();
            hub.connect_http("good", server.url()).await.unwrap();
            one_fault(&hub, &faults, fault, false, patience).await;
            on_time(hub.close()).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_peer_takes_as_long_as_it_was_told() {
    let (hub, server) = (hub(), greeter());
    let faults = Faults::none();
    connect_memory(&hub, "slow", &server)
        .era(Era::Modern)
        .faults(&faults)
        .await
        .unwrap();
    faults.set(Fault::Delay(Duration::from_secs(1)));
    let start = Instant::now();
    let mut stream = hub.call_tool_stream("greet", ());
    let first = stream.next().await.unwrap();
    // The head of the answer, and its first event.
    assert_eq!(
        (first.text(), start.elapsed()),
        (Some("hel"), Duration::from_secs(2))
    );
    let late = hub
        .call_tool("greet", ())
        .timeout(Duration::from_millis(1999))
        .await
        .unwrap_err();
    assert!(matches!(late, Error::Timeout { .. }), "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_server_cannot_be_connected_and_says_why() {
    // It hangs up, says nothing that makes sense, or nothing at all: whether it is known at once.
    let table = [
        (Fault::CutAfter(0), true),
        (Fault::CutAfter(40), true),
        (Fault::Garbage, true),
        (Fault::WrongIds, true),
        (Fault::Silence, false),
        (Fault::Flood(64), false),
    ];
    for (fault, is_known) in table {
        for era in [Era::Legacy, Era::Modern, Era::Auto] {
            let peer = HostilePeer::start(fault).await.unwrap();
            let hub = hub();
            let patience = if is_known { 20_000 } else { 50 };
            let connect = hub.connect_http("bad", peer.url()).era(era);
            let connect = connect.connect_timeout(Duration::from_millis(patience));
            let failed = on_time(connect.into_future()).await.unwrap_err();
            assert!(
                matches!(failed, Error::Connect { .. }),
                "{fault:?}, {era:?}: {failed:?}"
            );
            let is_late = format!("{failed:?}").contains("Timeout");
            assert_eq!(is_late, !is_known, "{fault:?}, {era:?}: {failed:?}");
            assert!(hub.call_tool("echo", ()).await.is_err(), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn a_noisy_server_is_connected_all_the_same() {
    for era in [Era::Legacy, Era::Modern, Era::Auto] {
        let peer = HostilePeer::start(Fault::Noise).await.unwrap();
        let hub = hub();
        let tools = on_time(hub.connect_http("noisy", peer.url()).era(era).into_future()).await;
        assert_eq!(tools.unwrap().len(), 1, "{era:?}");
        let events = read(hub.call_tool_stream("echo", serde_json::json!({"text": "あa"}))).await;
        let wanted = [
            "log \"received 2 characters\"",
            "text \"あ\"",
            "text \"a\"",
            "result \"あa\"",
        ];
        assert_eq!(shown(&events), wanted, "{era:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_wrapped_is_refused() {
    for url in ["", "/mcp", "https://127.0.0.1:1/mcp", "no url"] {
        let refused = HostilePeer::wrap(url, Faults::none()).await.unwrap_err();
        assert!(
            matches!(refused, Error::Config { .. }),
            "{url}: {refused:?}"
        );
    }
    // A server that is not there looks like one that hangs up.
    let dead = HostilePeer::wrap("http://127.0.0.1:1/mcp?a=b", Faults::none())
        .await
        .unwrap();
    assert!(dead.url().ends_with("/mcp?a=b"));
    let failed = on_time(hub().connect_http("dead", dead.url()).into_future())
        .await
        .unwrap_err();
    assert!(matches!(failed, Error::Connect { .. }), "{failed:?}");
}

#[test]
fn hostile_and_scripted_peers_leave_no_task() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(on_time(async {
        for fault in [Fault::Silence, Fault::Flood(64)] {
            let faults = Faults::none();
            let peer = HostilePeer::start(&faults).await.unwrap();
            let hub = hub();
            hub.connect_http("bad", peer.url()).await.unwrap();
            faults.set(fault);
            let stream = hub.call_tool_stream("echo", serde_json::json!({"text": "x"}));
            drop(peer);
            let events = read(stream).await;
            let error = events.last().unwrap().error().unwrap();
            assert!(matches!(error, Error::Transport { .. }), "{error:?}");
            drop(hub);
            let metrics = tokio::runtime::Handle::current().metrics();
            while metrics.num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        }
    }));
}
