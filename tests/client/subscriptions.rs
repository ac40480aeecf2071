//! The request in answer to which a server says that its tools have changed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, AgentHubClientBuilder, HubEvent, Limits, ServerChange};
use serde_json::{Value, json};

use crate::peer::{
    self, Answer, END, Peer, Request, SSE_HEAD, Wire, answer, chunk, empty, error, event,
    json as json_answer, polite, sse,
};
use crate::stateless::discovered;
use crate::{Seen, run};

/// A peer that tells of changes, with one tool whose name says how often it was listed, each list
/// good for so many milliseconds; a subscription is answered by `listen`.
async fn dynamic(ttl: u64, listen: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Peer {
    let lists = AtomicUsize::new(0);
    Peer::asked(move |request| match &*request.what() {
        "server/discover" => discovered(request, true),
        "subscriptions/listen" => listen(request),
        "tools/list" => {
            let nth = lists.fetch_add(1, Ordering::Relaxed) + 1;
            let answer = json!({"jsonrpc": "2.0", "id": request.id(), "result": {
                "resultType": "complete", "ttlMs": ttl, "cacheScope": "private",
                "tools": [{"name": format!("list{nth}")}, {"name": "echo"}],
            }});
            json_answer(&answer.to_string()).into()
        }
        _ => polite(request),
    })
    .await
}

fn acknowledged(id: &Value, honoured: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "notifications": honoured, "_meta": {"io.modelcontextprotocol/subscriptionId": id},
    }})
    .to_string()
}

fn changed(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {
        "_meta": {"io.modelcontextprotocol/subscriptionId": id},
    }})
    .to_string()
}

fn over(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}}).to_string()
}

fn tools() -> Value {
    json!({"toolsListChanged": true})
}

/// Writes the start of an answer that goes on.
async fn begin(wire: &mut Wire, request: &Request) {
    wire.write(SSE_HEAD).await;
    wire.send(event(&acknowledged(&request.id(), &tools())))
        .await;
}

async fn found(hub: &AgentHubClient, tool: &str) {
    while hub.find_tool(tool).is_none() {
        tokio::task::yield_now().await;
    }
}

fn hasty(builder: AgentHubClientBuilder) -> AgentHubClient {
    let mut limits = Limits::default();
    limits.resume_delay = Duration::ZERO;
    builder.limits(limits).build()
}

// Covers R-1008, R-1010.
#[test]
fn a_server_that_tells_of_changes_is_listened_to_until_the_end() {
    run(async || {
        let peer = dynamic(0, |_| Answer::Hand).await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        let (listen, mut wire) = peer.handed().await;
        for (name, value) in [
            ("accept", Some("application/json, text/event-stream")),
            ("mcp-protocol-version", Some("2026-07-28")),
            ("mcp-method", Some("subscriptions/listen")),
            ("mcp-name", None),
            ("mcp-session-id", None),
        ] {
            assert_eq!(listen.header(name), value, "{name}");
        }
        let params = &listen.json()["params"];
        assert_eq!(params["notifications"], tools());
        assert_eq!(
            params["_meta"]["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        // What changed before it was heard is not told.
        begin(&mut wire, &listen).await;
        found(&hub, "list2").await;
        for nth in 3..6 {
            wire.send(event(&changed(&listen.id()))).await;
            found(&hub, &format!("list{nth}")).await;
        }
        let is_change = |event: &&HubEvent| matches!(event, HubEvent::Server { change, .. } if *change == ServerChange::ToolsChanged);
        assert_eq!(seen.all().iter().filter(is_change).count(), 3);
        hub.close().await;
        wire.hung_up().await;
        let heard = peer.heard();
        assert!(heard.iter().all(|what| !what.starts_with("notifications")));
        assert_eq!(peer.seen_of("subscriptions/listen").len(), 1);
        assert_eq!(seen.warnings(), [""; 0]);
    });
}

#[test]
fn many_changes_at_once_are_few_lists() {
    run(async || {
        let peer = dynamic(3_600_000, |_| Answer::Hand).await;
        let hub = peer.hub().await;
        let (listen, mut wire) = peer.handed().await;
        begin(&mut wire, &listen).await;
        let burst: String = (0..500).map(|_| event(&changed(&listen.id()))).collect();
        wire.send(burst).await;
        found(&hub, "list2").await;
        wire.send(event(&changed(&listen.id()))).await;
        found(&hub, "list3").await;
        // A second one if the burst came in two parts.
        assert!(peer.seen_of("tools/list").len() <= 4);
    });
}

//
#[test]
fn a_list_that_is_still_good_is_not_asked_for_again_unless_it_changed() {
    run(async || {
        let count = AtomicUsize::new(0);
        let peer = dynamic(3_600_000, move |request| {
            match count.fetch_add(1, Ordering::Relaxed) {
                0..3 => sse(&[acknowledged(&request.id(), &tools()), over(&request.id())]).into(),
                _ => Answer::Hand,
            }
        })
        .await;
        let hub = hasty(AgentHubClient::builder());
        peer.connect(&hub, "p").await;
        let (listen, mut wire) = peer.handed().await;
        begin(&mut wire, &listen).await;
        assert_eq!(peer.seen_of("tools/list").len(), 1);
        wire.send(event(&changed(&listen.id()))).await;
        found(&hub, "list2").await;
    });
}

// Covers R-1008.
#[test]
fn a_subscription_that_ends_is_made_again_with_another_id() {
    run(async || {
        let count = AtomicUsize::new(0);
        let peer = dynamic(0, move |request| {
            let id = request.id();
            let begun = format!("{SSE_HEAD}{}", chunk(&event(&acknowledged(&id, &tools()))));
            match count.fetch_add(1, Ordering::Relaxed) {
                0 => sse(&[acknowledged(&id, &tools()), over(&id)]).into(),
                1 => empty("503 Service Unavailable").into(),
                2 => Answer::Last(Vec::new()),
                3 => Answer::Last(begun.into_bytes()),
                4 => format!("{begun}{END}").into(),
                5 => json_answer(&error(&id, -32603, "too many subscriptions")).into(),
                6 => peer::raw_sse("").into(),
                _ => Answer::Hand,
            }
        })
        .await;
        let hub = hasty(AgentHubClient::builder());
        peer.connect(&hub, "p").await;
        let (_, mut wire) = peer.handed().await;
        let listens = peer.seen_of("subscriptions/listen");
        let mut ids: Vec<String> = listens.iter().map(|r| r.id().to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 8);
        assert!(listens.iter().all(|r| r.header("last-event-id").is_none()));
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        // Dropped, a hub takes it along, also before there is an answer.
        drop(hub);
        wire.hung_up().await;
    });
}

// Covers R-1008, R-1010.
#[test]
fn a_server_that_has_nothing_to_tell_is_not_asked_again_and_all_else_works() {
    run(async || {
        type Listen = fn(&Value) -> Answer;
        let table: [(&str, Listen); 8] = [
            ("no such method", |id| {
                let body = error(id, -32601, "no");
                let kind = "Content-Type: application/json\r\n";
                answer("404 Not Found", kind, &body).into()
            }),
            ("no such method, with a good status", |id| {
                json_answer(&error(id, -32601, "no")).into()
            }),
            ("bad parameters", |id| {
                json_answer(&error(id, -32602, "no")).into()
            }),
            ("405", |_| empty("405 Method Not Allowed").into()),
            ("401", |_| empty("401 Unauthorized").into()),
            ("202", |_| empty("202 Accepted").into()),
            ("nothing honoured", |id| {
                sse(&[acknowledged(id, &json!({})), over(id)]).into()
            }),
            ("an end before a word", |id| json_answer(&over(id)).into()),
        ];
        for (case, listen) in table {
            let peer = dynamic(0, move |request| listen(&request.id())).await;
            let seen = Seen::default();
            let hub = hasty(seen.builder());
            peer.connect(&hub, "p").await;
            peer.wait_for("subscriptions/listen", 1).await;
            for _ in 0..20 {
                assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done", "{case}");
            }
            hub.close().await;
            assert_eq!(peer.seen_of("subscriptions/listen").len(), 1, "{case}");
            assert_eq!(peer.seen_of("tools/list").len(), 1, "{case}");
            assert_eq!(seen.warnings(), [""; 0], "{case}");
        }
    });
}

// Covers R-1010.
#[test]
fn nobody_listens_where_none_is_wanted() {
    run(async || {
        let unwilling = || AgentHubClient::builder().follow_list_changes(false).build();
        let silent = Peer::asked(|request| match &*request.what() {
            "server/discover" => discovered(request, false),
            _ => polite(request),
        })
        .await;
        let dynamic = dynamic(0, |_| panic!("a subscription")).await;
        for (peer, hub) in [
            (&silent, AgentHubClient::builder().build()),
            (&silent, unwilling()),
            (&dynamic, unwilling()),
        ] {
            peer.connect(&hub, "p").await;
            hub.call_tool("echo", ()).await.unwrap();
            hub.close().await;
            assert_eq!(peer.seen_of("subscriptions/listen").len(), 0);
            assert_eq!(peer.seen_of("GET").len(), 0);
        }
    });
}
