//! Tools that change while a server is connected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_hub_kit::{AgentHubClient, HubEvent, ServerChange};
use serde_json::{Value, json};

use crate::peer::{self, Answer, Peer, Request, json as json_answer, listed, polite, result, sse};
use crate::{Seen, run};

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// A peer that offers the tools of `lists`, one list after the other, the last for ever.
async fn changing(
    lists: &'static [&'static [&'static str]],
    call: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> Peer {
    let asked = AtomicUsize::new(0);
    Peer::start(move |request| match &*request.what() {
        "tools/list" => {
            let nth = asked.fetch_add(1, Ordering::Relaxed).min(lists.len() - 1);
            json_answer(&listed(&request.id(), lists[nth])).into()
        }
        "tools/call" => call(request),
        _ => polite(request),
    })
    .await
}

fn count(seen: &Seen, wanted: ServerChange) -> usize {
    let is =
        |event: &HubEvent| matches!(event, HubEvent::Server { change, .. } if *change == wanted);
    seen.all().iter().filter(|event| is(event)).count()
}

async fn refreshed(seen: &Seen, times: usize) {
    while count(seen, ServerChange::ToolsListed) < times {
        tokio::task::yield_now().await;
    }
}

// Covers R-612.
#[test]
fn tools_that_changed_are_listed_again() {
    run(async || {
        let peer = changing(&[&["old", "kept"], &["kept", "new"]], |request| {
            sse(&[CHANGED.to_owned(), result(&request.id(), "done")]).into()
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        hub.call_tool("old", ()).await.unwrap();
        refreshed(&seen, 1).await;
        assert_eq!(count(&seen, ServerChange::ToolsChanged), 1);
        assert!(hub.find_tool("old").is_none() && hub.find_tool("new").is_some());
        assert_eq!(hub.servers()[0].tools, 2);
        assert_eq!(peer.seen_of("tools/list").len(), 2);
    });
}

// Covers R-612.
#[test]
fn many_changes_at_once_are_listed_at_most_twice() {
    run(async || {
        let peer = changing(&[&["a"]], |request| {
            let mut messages = vec![CHANGED.to_owned(); 50];
            messages.push(result(&request.id(), "done"));
            sse(&messages).into()
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        hub.call_tool("a", ()).await.unwrap();
        assert_eq!(count(&seen, ServerChange::ToolsChanged), 50);
        refreshed(&seen, 1).await;
        hub.close().await;
        assert!(peer.seen_of("tools/list").len() <= 3, "{:?}", peer.heard());
    });
}

// Covers R-612, R-703.
#[test]
fn a_server_that_does_not_know_a_tool_it_listed_is_asked_again() {
    run(async || {
        type Answer = fn(&Value) -> String;
        let answers: [(&str, Answer); 3] = [
            ("an error", |id| {
                peer::error(id, -32602, "Unknown tool: old")
            }),
            ("a failure", |id| {
                let content = json!([{"type": "text", "text": "Unknown tool: old"}]);
                let result = json!({"content": content, "isError": true});
                json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
            }),
            ("an error in small letters", |id| {
                peer::error(id, -32602, "unknown tool old")
            }),
        ];
        for (case, answer) in answers {
            let peer = changing(&[&["old"], &["new"]], move |request| {
                match request.json()["params"]["name"].as_str() {
                    Some("old") => json_answer(&answer(&request.id())).into(),
                    _ => polite(request),
                }
            })
            .await;
            let seen = Seen::default();
            let hub = seen.hub();
            peer.connect(&hub, "p").await;
            hub.call_tool("old", ()).await.unwrap_err();
            refreshed(&seen, 1).await;
            let said = hub.diagnose_tool("old");
            assert!(said.contains("there are: p/new"), "{case}: {said}");
            assert_eq!(hub.call_tool("new", ()).await.unwrap(), "done", "{case}");
            assert_eq!(peer.seen_of("tools/list").len(), 2, "{case}");
        }
    });
}

#[test]
fn any_other_failure_of_a_call_lists_nothing() {
    run(async || {
        let peer = changing(&[&["a"]], |request| {
            json_answer(&peer::error(&request.id(), -32602, "missing argument")).into()
        })
        .await;
        let hub = peer.hub().await;
        hub.call_tool("a", ()).await.unwrap_err();
        hub.call_tool("nobody's", ()).await.unwrap_err();
        hub.close().await;
        assert_eq!(peer.seen_of("tools/list").len(), 1);
    });
}

#[test]
fn a_list_that_fails_when_tools_changed_is_told_and_the_old_one_kept() {
    run(async || {
        let asked = AtomicUsize::new(0);
        let peer = Peer::start(move |request| match &*request.what() {
            "tools/list" if asked.fetch_add(1, Ordering::Relaxed) > 0 => {
                peer::answer("500 Oops", "", "broken").into()
            }
            "tools/call" => sse(&[CHANGED.to_owned(), result(&request.id(), "done")]).into(),
            _ => polite(request),
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        hub.call_tool("echo", ()).await.unwrap();
        while seen.warnings().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(
            seen.warnings()[0].contains("broken"),
            "{:?}",
            seen.warnings()
        );
        assert!(hub.servers()[0].last_error.is_some());
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
    });
}

#[test]
fn a_change_that_is_told_while_connecting_is_not_lost() {
    run(async || {
        let asked = Arc::new(AtomicUsize::new(0));
        let peer = Peer::start(move |request| match &*request.what() {
            "tools/list" => match asked.fetch_add(1, Ordering::Relaxed) {
                0 => sse(&[CHANGED.to_owned(), listed(&request.id(), &["old"])]).into(),
                _ => json_answer(&listed(&request.id(), &["new"])).into(),
            },
            _ => polite(request),
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        refreshed(&seen, 1).await;
        assert!(hub.find_tool("new").is_some() && hub.find_tool("old").is_none());
    });
}

#[test]
fn a_hub_can_go_while_tools_are_listed_again() {
    run(async || {
        let asked = AtomicUsize::new(0);
        let peer = Peer::start(move |request| match &*request.what() {
            "tools/list" if asked.fetch_add(1, Ordering::Relaxed) > 0 => Answer::Hand,
            "tools/call" => sse(&[CHANGED.to_owned(), result(&request.id(), "done")]).into(),
            _ => polite(request),
        })
        .await;
        let hub: AgentHubClient = peer.hub().await;
        hub.call_tool("echo", ()).await.unwrap();
        let (_, mut wire) = peer.handed().await;
        drop(hub);
        wire.hung_up().await;
    });
}
