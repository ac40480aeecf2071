//! A server that forgets, dies or comes back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agent_hub_kit::{AgentHubClient, Error, HubEvent, ServerChange};
use serde_json::json;

use crate::connect::chain;
use crate::peer::{
    self, Answer, INITIALIZE, Peer, Request, envelope, initialized, json as json_answer,
    no_session, polite, progress, result, with_session,
};
use crate::{Seen, read, run, shown};

/// Hands out a new session id for each `initialize`, and knows only the one of `current`.
#[derive(Clone, Default)]
struct Sessions {
    opened: Arc<AtomicUsize>,
    lost: Arc<Mutex<Vec<String>>>,
}

impl Sessions {
    /// Forgets every session so far.
    fn lose(&self) {
        let opened = self.opened.load(Ordering::Relaxed);
        let ids = (1..=opened).map(|n| format!("s-{n}"));
        *self.lost.lock().unwrap() = ids.collect();
    }

    fn answer(&self, request: &Request) -> Answer {
        let session = request.header("mcp-session-id");
        if request.what() == "initialize" {
            assert_eq!(session, None, "an old session in a new initialize");
            let n = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
            return with_session(&format!("s-{n}"), &initialized(request)).into();
        }
        let lost = self.lost.lock().unwrap();
        match lost.iter().any(|id| Some(&**id) == session) {
            true => no_session().into(),
            false => polite(request),
        }
    }
}

async fn forgetful() -> (Peer, Sessions) {
    let sessions = Sessions::default();
    let answering = sessions.clone();
    let peer = Peer::start(move |request| answering.answer(request)).await;
    (peer, sessions)
}

// Covers R-103, R-1310.
#[test]
fn a_lost_session_is_opened_again_once_and_the_call_repeated() {
    run(async || {
        let (peer, sessions) = forgetful().await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        sessions.lose();
        assert_eq!(
            hub.call_tool("echo", json!({"a": 1})).await.unwrap(),
            "done"
        );
        let requests = peer.seen();
        // A session that is new lists its tools again, at a time of its own.
        let heard: Vec<_> = requests[3..]
            .iter()
            .filter(|r| r.what() != "tools/list")
            .map(|r| {
                (
                    r.what(),
                    r.header("mcp-session-id").unwrap_or("-").to_owned(),
                )
            })
            .collect();
        let expected = [
            ("tools/call", "s-1"),
            ("initialize", "-"),
            ("notifications/initialized", "s-2"),
            ("tools/call", "s-2"),
        ];
        let expected: Vec<_> = expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        assert_eq!(heard, expected);
        let calls = peer.seen_of("tools/call");
        assert_ne!(calls[0].id(), calls[1].id(), "ids are not used twice");
        assert_eq!(
            calls[0].json()["params"]["arguments"],
            calls[1].json()["params"]["arguments"]
        );
        let reopened = |event: &&HubEvent| {
            matches!(
                event,
                HubEvent::Server {
                    change: ServerChange::Reopened,
                    ..
                }
            )
        };
        assert_eq!(seen.all().iter().filter(reopened).count(), 1);
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        assert_eq!(sessions.opened.load(Ordering::Relaxed), 2);
    });
}

// Covers R-1310.
#[test]
fn calls_and_lists_that_find_the_session_lost_together_share_one_opening() {
    run(async || {
        const CALLS: usize = 20;
        let (peer, sessions) = forgetful().await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        sessions.lose();
        let calls: Vec<_> = (0..CALLS)
            .map(|_| tokio::spawn(hub.call_tool("echo", ()).into_future()))
            .collect();
        let listing = hub.clone();
        let list = tokio::spawn(async move { listing.list_tools().await });
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap(), "done");
        }
        assert_eq!(list.await.unwrap()[0].1.len(), 2);
        assert_eq!(sessions.opened.load(Ordering::Relaxed), 2);
        assert_eq!(seen.warnings(), [""; 0]);
        let reopened = |event: &&HubEvent| {
            matches!(
                event,
                HubEvent::Server {
                    change: ServerChange::Reopened,
                    ..
                }
            )
        };
        assert_eq!(seen.all().iter().filter(reopened).count(), 1);
    });
}

#[test]
fn a_refusal_that_comes_while_the_session_is_opened_again_waits_for_it() {
    run(async || {
        // Both calls and the second initialize are held, so that the order is ours.
        let peer = Peer::start(|request| match &*request.what() {
            "tools/call" if request.header("mcp-session-id") == Some("s-1") => Answer::Hand,
            "initialize" if request.id() != INITIALIZE => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let first = tokio::spawn(hub.call_tool("echo", ()).into_future());
        let (_, mut first_wire) = peer.handed().await;
        let second = tokio::spawn(hub.call_tool("echo", ()).into_future());
        let (_, mut second_wire) = peer.handed().await;
        first_wire.write(no_session()).await;
        peer.resume(first_wire);
        let (initialize, mut wire) = peer.handed().await;
        assert_eq!(initialize.what(), "initialize");
        second_wire.write(no_session()).await;
        peer.resume(second_wire);
        // One that begins only now waits too.
        let third = tokio::spawn(hub.call_tool("echo", ()).into_future());
        let list = tokio::spawn({
            let hub = hub.clone();
            async move { hub.list_tools().await }
        });
        wire.write(with_session("s-2", &initialized(&initialize)))
            .await;
        peer.resume(wire);
        for call in [first, second, third] {
            assert_eq!(call.await.unwrap().unwrap(), "done");
        }
        assert_eq!(list.await.unwrap()[0].1.len(), 2);
        assert_eq!(peer.seen_of("initialize").len(), 2);
    });
}

// Covers R-1310.
#[test]
fn a_session_that_is_lost_again_is_an_error() {
    run(async || {
        let peer = Peer::calls(|_| no_session().into()).await;
        let hub = peer.hub().await;
        let events = read(&mut hub.call_tool_stream("echo", ())).await;
        let Some(error @ Error::Rpc { code: -32001, .. }) = events[0].error() else {
            panic!("{events:?}")
        };
        assert_eq!(
            chain(error),
            ["p/echo: the server answered error -32001: Session not found"]
        );
        assert_eq!(peer.seen_of("initialize").len(), 2);
        assert_eq!(peer.seen_of("tools/call").len(), 2);
        assert!(peer.seen_of("notifications/cancelled").is_empty());
    });
}

// Covers R-1310.
#[test]
fn a_lost_session_is_known_whatever_the_words_of_the_404() {
    run(async || {
        for body in ["", "Session not found", "<html>404</html>", "{}"] {
            let (_, sessions) = forgetful().await;
            let answering = sessions.clone();
            let peer = Peer::start(move |request| match answering.answer(request) {
                Answer::Write(said) if said.starts_with(b"HTTP/1.1 404") => {
                    peer::answer("404 Not Found", "", body).into()
                }
                answer => answer,
            })
            .await;
            let hub = peer.hub().await;
            sessions.lose();
            assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done", "{body}");
            assert_eq!(peer.seen_of("initialize").len(), 2, "{body}");
            assert_eq!(peer.seen_of("tools/call").len(), 2, "{body}");
        }
    });
}

// Covers R-1211, R-1310.
#[test]
fn a_call_that_had_streamed_is_not_repeated_though_its_session_is_lost() {
    run(async || {
        let peer = Peer::calls(|request| {
            let first = progress(&request.token(), 1, &envelope("text", "a"));
            let lost = peer::error(&request.id(), -32001, "Session not found");
            peer::sse(&[first, lost]).into()
        })
        .await;
        let hub = peer.hub().await;
        let events = read(&mut hub.call_tool_stream("stream", ())).await;
        assert_eq!(events[0].text(), Some("a"));
        let error = events[1].error();
        assert!(
            matches!(error, Some(Error::Rpc { code: -32001, .. })),
            "{events:?}"
        );
        assert_eq!(peer.seen_of("tools/call").len(), 1);
    });
}

#[test]
fn some_servers_say_400_for_a_lost_session() {
    run(async || {
        let peer = Peer::calls(|request| match request.header("mcp-session-id") {
            Some("s-1") if request.connection == 0 => {
                let body = "Bad Request: No valid session ID provided";
                let close = "Connection: close\r\n";
                Answer::Last(peer::answer("400 Bad Request", close, body).into())
            }
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        assert_eq!(peer.seen_of("initialize").len(), 2);
    });
}

// Covers R-1311.
#[test]
fn without_a_session_a_404_is_a_plain_error() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "initialize" => json_answer(&initialized(request)).into(),
            "tools/call" => no_session().into(),
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        hub.call_tool("echo", ()).await.unwrap_err();
        assert_eq!(peer.seen_of("initialize").len(), 1);
        assert_eq!(peer.seen_of("tools/call").len(), 1);
    });
}

// Covers R-1211.
#[test]
fn a_call_that_had_begun_is_not_repeated() {
    run(async || {
        let peer = Peer::calls(|request| {
            let message = progress(&request.token(), 1, &envelope("text", "a"));
            let body = peer::chunk(&peer::event(&message));
            Answer::Last(format!("{}{body}", peer::SSE_HEAD).into())
        })
        .await;
        let hub = peer.hub().await;
        let events = read(&mut hub.call_tool_stream("stream", ())).await;
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].text(), Some("a"));
        assert!(
            matches!(events[1].error(), Some(Error::Transport { .. })),
            "{events:?}"
        );
        hub.close().await;
        assert_eq!(peer.seen_of("tools/call").len(), 1);
        assert_eq!(peer.seen_of("GET").len(), 0);
    });
}

#[test]
fn an_opening_that_fails_fails_the_calls_that_wait_and_the_next_call_tries_again() {
    run(async || {
        let sessions = Sessions::default();
        let refuse = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (answering, refusing) = (sessions.clone(), refuse.clone());
        let peer = Peer::start(move |request| {
            if request.what() == "initialize" && refusing.load(Ordering::Relaxed) {
                return peer::answer("503 Service Unavailable", "", "starting").into();
            }
            answering.answer(request)
        })
        .await;
        let hub = peer.hub().await;
        sessions.lose();
        refuse.store(true, Ordering::Relaxed);
        let failed = hub.call_tool("echo", ()).await.unwrap_err();
        let text = failed.to_string();
        assert!(
            text.starts_with("p/echo: ") && text.contains("503"),
            "{text}"
        );
        assert!(failed.is_retryable());
        let failed = hub.call_tool("echo", ()).await.unwrap_err();
        assert!(
            matches!(failed, Error::Http { status: 503, .. }),
            "{failed:?}"
        );
        assert_eq!(peer.seen_of("tools/call").len(), 1, "no use in sending it");
        refuse.store(false, Ordering::Relaxed);
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        assert_eq!(hub.list_tools().await[0].1.len(), 2);
    });
}

#[test]
fn a_server_that_was_restarted_is_used_again() {
    run(async || {
        let first = Peer::polite().await;
        let hub = first.hub().await;
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        let address = first.stop().await;
        let down = hub.call_tool("echo", ()).await.unwrap_err();
        assert!(matches!(down, Error::Transport { .. }), "{down:?}");
        assert!(down.to_string().starts_with("p/echo: "), "{down}");
        // It knows nothing of the old session.
        let second = Peer::start_at(address, |request| match &*request.what() {
            "initialize" => with_session("new", &initialized(request)).into(),
            _ if request.header("mcp-session-id") != Some("new") => no_session().into(),
            _ => polite(request),
        })
        .await;
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        assert_eq!(second.seen_of("tools/call").len(), 2);
    });
}

#[test]
fn a_server_that_was_restarted_between_two_calls_is_not_missed() {
    run(async || {
        let first = Peer::polite().await;
        let hub = first.hub().await;
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        let address = first.stop().await;
        let _second = Peer::start_at(address, |request| match &*request.what() {
            "initialize" => with_session("new", &initialized(request)).into(),
            _ if request.header("mcp-session-id") != Some("new") => no_session().into(),
            _ => polite(request),
        })
        .await;
        // The idle connection is dead, and nobody has looked at it since.
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
    });
}

#[test]
fn a_list_survives_a_lost_session_and_a_server_that_is_gone_keeps_its_tools() {
    run(async || {
        let (peer, sessions) = forgetful().await;
        let other = Peer::polite().await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        other.connect(&hub, "q").await;
        sessions.lose();
        assert_eq!(hub.list_tools().await[0].1.len(), 2);
        assert_eq!(
            seen.warnings().len(),
            1,
            "the tools of q are also those of p"
        );
        peer.stop().await;
        let listed = hub.list_tools().await;
        let counts: Vec<usize> = listed.iter().map(|(_, tools)| tools.len()).collect();
        assert_eq!(counts, [2, 2], "it keeps the list it had");
        let warning = &seen.warnings()[1];
        assert!(
            warning.starts_with("p: its tools could not be listed"),
            "{warning}"
        );
    });
}

#[test]
fn each_hub_has_a_session_of_its_own() {
    run(async || {
        let (peer, _) = forgetful().await;
        let (one, two) = (peer.hub().await, peer.hub().await);
        one.call_tool("echo", ()).await.unwrap();
        two.call_tool("echo", ()).await.unwrap();
        let calls = peer.seen_of("tools/call");
        let sessions: Vec<_> = calls
            .iter()
            .map(|call| call.header("mcp-session-id"))
            .collect();
        assert_eq!(sessions, [Some("s-1"), Some("s-2")]);
        one.close().await;
        assert_eq!(peer.seen_of("DELETE").len(), 1);
        two.call_tool("echo", ()).await.unwrap();
    });
}

#[test]
fn a_cancel_while_the_session_is_opened_again_ends_the_call_at_once() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "tools/call" => no_session().into(),
            "initialize" if request.id() != INITIALIZE => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let hub = AgentHubClient::builder().build();
        peer.connect(&hub, "p").await;
        let mut stream = hub.call_tool_stream("echo", ());
        let (initialize, mut wire) = tokio::select! {
            biased;
            event = stream.next() => panic!("{event:?}"),
            handed = peer.handed() => handed,
        };
        stream.cancel();
        assert_eq!(shown(&read(&mut stream).await), ["cancelled null"]);
        wire.write(json_answer(&initialized(&initialize))).await;
        peer.resume(wire);
        peer.wait_for("notifications/initialized", 2).await;
        hub.close().await;
        assert!(peer.seen_of("notifications/cancelled").is_empty());
        assert_eq!(peer.seen_of("tools/call").len(), 1);
    });
}

#[test]
fn a_result_of_an_old_session_is_still_a_result() {
    run(async || {
        let sessions = Sessions::default();
        let answering = sessions.clone();
        let peer = Peer::start(
            move |request| match request.json()["params"]["name"].as_str() {
                Some("stream") => Answer::Hand,
                _ => answering.answer(request),
            },
        )
        .await;
        let hub = peer.hub().await;
        let old = tokio::spawn(hub.call_tool("stream", ()).into_future());
        let (request, mut wire) = peer.handed().await;
        sessions.lose();
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        wire.write(json_answer(&result(&request.id(), "still here")))
            .await;
        assert_eq!(old.await.unwrap().unwrap(), "still here");
    });
}
