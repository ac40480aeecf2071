//! The stream on which a server says that its tools have changed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, AgentHubClientBuilder, HubEvent, Limits, ServerChange};

use crate::peer::{
    self, Answer, Peer, Request, SSE_HEAD, empty, event, initialized, json as json_answer, listed,
    no_session, polite, raw_sse, with_session,
};
use crate::{Seen, run};

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// The answer to `initialize` of a server whose tools may change.
fn declaring(request: &Request, session: &str) -> Answer {
    let plain = initialized(request);
    let answer = plain.replace(r#""tools":{}"#, r#""tools":{"listChanged":true}"#);
    assert_ne!(answer, plain);
    with_session(session, &answer).into()
}

/// A peer that declares it, and answers a GET by `get`.
async fn dynamic(get: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Peer {
    Peer::start(move |request| match &*request.what() {
        "initialize" => declaring(request, "s-1"),
        "GET" => get(request),
        _ => polite(request),
    })
    .await
}

/// A hub that does not wait between attempts.
fn hasty(builder: AgentHubClientBuilder) -> AgentHubClient {
    let mut limits = Limits::default();
    limits.resume_delay = Duration::ZERO;
    builder.limits(limits).build()
}

// Covers R-612, R-1010, R-1301.
#[test]
fn a_server_whose_tools_may_change_is_asked_for_a_stream() {
    run(async || {
        let asked = AtomicUsize::new(0);
        let peer = Peer::start(move |request| match &*request.what() {
            "initialize" => declaring(request, "s-1"),
            "GET" => Answer::Hand,
            "tools/list" => {
                let tools: &[&str] = match asked.fetch_add(1, Ordering::Relaxed) {
                    0 => &["old"],
                    _ => &["new"],
                };
                json_answer(&listed(&request.id(), tools)).into()
            }
            _ => polite(request),
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        let (get, mut wire) = peer.handed().await;
        for (name, value) in [
            ("accept", Some("text/event-stream")),
            ("last-event-id", None),
            ("mcp-protocol-version", Some("2025-11-25")),
            ("mcp-session-id", Some("s-1")),
        ] {
            assert_eq!(get.header(name), value, "{name}");
        }
        assert_eq!(
            peer.heard()[..2],
            ["initialize", "notifications/initialized"]
        );
        wire.write(SSE_HEAD).await;
        wire.send("event: x\ndata:\n\n: hi\n\ndata: {\n\n").await;
        wire.send(event(CHANGED)).await;
        peer.wait_for("tools/list", 2).await;
        while hub.find_tool("new").is_none() {
            tokio::task::yield_now().await;
        }
        let changed = |event: &_| matches!(event, HubEvent::Server { change, .. } if *change == ServerChange::ToolsChanged);
        seen.until(changed).await;
        // It is no call's, so that a ping on it is answered like any other.
        wire.send(event(r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#))
            .await;
        let answers = peer.wait_for("response", 1).await;
        assert_eq!(answers[0].id(), "x");
        hub.close().await;
        wire.hung_up().await;
    });
}

// Covers R-1010.
#[test]
fn no_stream_is_asked_for_where_none_is_wanted() {
    run(async || {
        let plain = Peer::polite().await;
        let dynamic = dynamic(|_| empty("405 Method Not Allowed").into()).await;
        let unwilling = || AgentHubClient::builder().follow_list_changes(false).build();
        for (peer, hub) in [
            (&plain, AgentHubClient::builder().build()),
            (&plain, unwilling()),
            (&dynamic, unwilling()),
        ] {
            peer.connect(&hub, "p").await;
            hub.call_tool("echo", ()).await.unwrap();
            hub.close().await;
            assert_eq!(peer.seen_of("GET").len(), 0);
        }
    });
}

// Covers R-1010, R-1313.
#[test]
fn a_server_that_says_no_is_not_asked_again_and_all_else_works() {
    run(async || {
        for (case, answer) in [
            ("400", empty("400 Bad Request")),
            ("401", empty("401 Unauthorized")),
            ("404", no_session()),
            ("405", empty("405 Method Not Allowed")),
            ("406", empty("406 Not Acceptable")),
            ("501", empty("501 Not Implemented")),
            ("204", empty("204 No Content")),
            ("JSON", json_answer(CHANGED)),
            (
                "HTML",
                peer::answer("200 OK", "Content-Type: text/html\r\n", "<p>"),
            ),
        ] {
            let peer = dynamic(move |_| answer.clone().into()).await;
            let seen = Seen::default();
            let hub = hasty(seen.builder());
            peer.connect(&hub, "p").await;
            peer.wait_for("GET", 1).await;
            for _ in 0..20 {
                hub.call_tool("echo", ()).await.unwrap();
            }
            hub.close().await;
            assert_eq!(peer.seen_of("GET").len(), 1, "{case}");
            assert_eq!(peer.seen_of("initialize").len(), 1, "{case}");
            assert_eq!(seen.warnings(), [""; 0], "{case}");
        }
    });
}

#[test]
fn a_stream_that_ends_is_asked_for_again_from_where_it_ended() {
    run(async || {
        let count = AtomicUsize::new(0);
        let peer = dynamic(move |_| match count.fetch_add(1, Ordering::Relaxed) {
            0 => empty("503 Service Unavailable").into(),
            1 => raw_sse(": nothing\n\n").into(),
            2 => Answer::Last(Vec::new()),
            3 => Answer::Last(format!("{SSE_HEAD}5\r\ndata:").into_bytes()),
            4 => raw_sse("id: 7\ndata:\n\n").into(),
            5..12 => raw_sse("").into(),
            _ => Answer::Hand,
        })
        .await;
        let hub = hasty(AgentHubClient::builder());
        peer.connect(&hub, "p").await;
        let (last, wire) = peer.handed().await;
        assert_eq!(last.header("last-event-id"), Some("7"));
        let gets = peer.seen_of("GET");
        let after: Vec<_> = gets.iter().map(|get| get.header("last-event-id")).collect();
        assert_eq!(after[..5], [None; 5]);
        assert_eq!(after[5..], [Some("7"); 8]);
        // Dropped, a hub takes the stream with it, also one without a head.
        drop(hub);
        let mut wire = wire;
        wire.hung_up().await;
    });
}

#[test]
fn a_session_that_is_opened_again_has_a_stream_again() {
    run(async || {
        let opened = AtomicUsize::new(0);
        let peer = Peer::start(move |request| match &*request.what() {
            "initialize" => {
                let nth = opened.fetch_add(1, Ordering::Relaxed) + 1;
                declaring(request, &format!("s-{nth}"))
            }
            "GET" => Answer::Hand,
            "tools/call" if request.header("mcp-session-id") == Some("s-1") => no_session().into(),
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let (first, mut old) = peer.handed().await;
        assert_eq!(first.header("mcp-session-id"), Some("s-1"));
        hub.call_tool("echo", ()).await.unwrap();
        let (second, _new) = peer.handed().await;
        assert_eq!(second.header("mcp-session-id"), Some("s-2"));
        old.hung_up().await;
    });
}

// Covers R-1704.
#[test]
fn configured_headers_go_with_the_stream_and_with_a_session_opened_again() {
    run(async || {
        let opened = AtomicUsize::new(0);
        let peer = Peer::start(move |request| match &*request.what() {
            "initialize" => {
                let nth = opened.fetch_add(1, Ordering::Relaxed) + 1;
                declaring(request, &format!("s-{nth}"))
            }
            "GET" => Answer::Hand,
            "tools/call" if request.header("mcp-session-id") == Some("s-1") => no_session().into(),
            _ => polite(request),
        })
        .await;
        let hub = AgentHubClient::builder().build();
        hub.connect_http("p", peer.url())
            .bearer_token("t0ken")
            .await
            .unwrap();
        let (_, _old) = peer.handed().await;
        hub.call_tool("echo", ()).await.unwrap();
        let (_, _new) = peer.handed().await;
        hub.close().await;
        for (what, count) in [("GET", 2), ("initialize", 2), ("DELETE", 1)] {
            assert_eq!(peer.seen_of(what).len(), count, "{what}");
        }
        for request in peer.seen() {
            let token = request.header("authorization");
            assert_eq!(token, Some("Bearer t0ken"), "{}", request.what());
        }
    });
}
