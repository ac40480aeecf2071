//! Replies that end before the answer, and whose rest is asked for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Error, EventKind, Limits};
use serde_json::json;

use crate::peer::{
    Answer, FIRST_CALL, FIRST_LIST, Peer, Request, SSE_HEAD, chunk, empty, envelope, event,
    initialized, json as json_answer, listed, polite, progress, raw_sse, result, with_session,
};
use crate::{read, run, shown};

/// One SSE event with an id.
fn numbered(id: impl std::fmt::Display, message: &str) -> String {
    format!("id: {id}\n{}", event(message))
}

/// An event without data that asks to come back soon.
const PRIMING: &str = "id: 0\nretry: 1\ndata:\n\n";

/// Where an event of a test's call goes on, since the call's id is not in a GET.
fn text(token: u64, number: u64, text: &str) -> String {
    progress(&json!(token), number, &envelope("text", text))
}

/// A peer whose calls end at once after an event with the id 0, and whose GETs are answered by
/// `get`, which is told how many there were before.
async fn breaking(get: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Peer {
    let count = AtomicUsize::new(0);
    Peer::start(move |request| match &*request.what() {
        "tools/call" => raw_sse(PRIMING).into(),
        "GET" => get(count.fetch_add(1, Ordering::Relaxed), request),
        _ => polite(request),
    })
    .await
}

// Covers R-1301, R-1316.
#[test]
fn the_rest_of_a_reply_is_read_from_where_it_broke_off() {
    run(async || {
        for version in ["2025-11-25", "2025-03-26"] {
            let peer = Peer::start(move |request| match &*request.what() {
                "initialize" => {
                    let answer = initialized(request).replace("2025-11-25", version);
                    with_session("s-1", &answer).into()
                }
                "tools/call" => {
                    let first = numbered("a/1", &text(FIRST_CALL, 1, "a"));
                    raw_sse(&format!("{PRIMING}{first}")).into()
                }
                "GET" => Answer::Hand,
                _ => polite(request),
            })
            .await;
            let hub = peer.hub().await;
            let mut stream = hub.call_tool_stream("stream", ());
            let reading = tokio::spawn(async move { read(&mut stream).await });
            let (get, mut wire) = peer.handed().await;
            assert_eq!(get.line, "GET /mcp HTTP/1.1");
            for (name, value) in [
                ("accept", Some("text/event-stream")),
                ("content-type", None),
                ("last-event-id", Some("a/1")),
                ("mcp-protocol-version", Some(version)),
                ("mcp-session-id", Some("s-1")),
            ] {
                assert_eq!(get.header(name), value, "{name} for {version}");
            }
            assert_eq!(get.body, "");
            wire.write(SSE_HEAD).await;
            wire.send(numbered("a/2", &text(FIRST_CALL, 2, "b"))).await;
            // The body does not end here, and nobody waits for that.
            wire.send(event(&result(&json!(FIRST_CALL), "ab"))).await;
            let events = reading.await.unwrap();
            assert_eq!(
                shown(&events),
                [r#"text "a""#, r#"text "b""#, r#"result "ab""#]
            );
            let heard = peer.heard();
            assert_eq!(heard.last().unwrap(), "GET", "{heard:?}");
        }
    });
}

#[test]
fn a_reply_that_breaks_is_taken_up_like_one_that_ends() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "tools/call" => Answer::Hand,
            "GET" => raw_sse(&event(&result(&json!(FIRST_CALL), "done"))).into(),
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let mut stream = hub.call_tool_stream("stream", ());
        let reading = tokio::spawn(async move { read(&mut stream).await });
        let (_, mut wire) = peer.handed().await;
        wire.write(SSE_HEAD).await;
        wire.send(PRIMING).await;
        // Cut in the middle of an event, which comes again.
        wire.send("id: 1\ndata: {\"jsonrpc\"").await;
        drop(wire);
        assert_eq!(shown(&reading.await.unwrap()), [r#"result "done""#]);
        let after = peer.seen_of("GET")[0]
            .header("last-event-id")
            .map(str::to_owned);
        assert_eq!(after.as_deref(), Some("0"));
    });
}

#[test]
fn a_list_is_taken_up_as_well() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "tools/list" => raw_sse(PRIMING).into(),
            "GET" => raw_sse(&event(&listed(&json!(FIRST_LIST), &["late"]))).into(),
            _ => polite(request),
        })
        .await;
        let hub = AgentHubClient::builder().build();
        let tools = peer.connect(&hub, "p").await;
        assert_eq!(tools[0].name(), "late");
        assert_eq!(peer.seen_of("GET").len(), 1);
    });
}

// Covers R-1316.
#[test]
fn without_an_id_nothing_is_asked_for() {
    run(async || {
        for body in [
            "",
            "retry: 1\n\n",
            "id\ndata:\n\n",
            ": id: 1\n\n",
            "id: 1\n",
        ] {
            let peer = Peer::calls(move |_| raw_sse(body).into()).await;
            let hub = peer.hub().await;
            let error = hub.call_tool("echo", ()).await.unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("the connection closed before the response"),
                "{body:?}: {error}"
            );
            assert_eq!(peer.seen_of("GET").len(), 0, "{body:?}");
        }
    });
}

// Covers R-1316.
#[test]
fn a_peer_that_never_says_anything_new_is_asked_five_times() {
    run(async || {
        let table: [(&str, Answer); 6] = [
            ("nothing", raw_sse(": nothing\n\n").into()),
            ("no byte", raw_sse("").into()),
            ("a head, then it hangs up", Answer::Last(SSE_HEAD.into())),
            ("nothing and hangs up", Answer::Last(Vec::new())),
            ("the same event", raw_sse(PRIMING).into()),
            ("it is overloaded", empty("503 Service Unavailable").into()),
        ];
        for (case, says) in table {
            let peer = breaking(move |_, _| match &says {
                Answer::Last(bytes) => Answer::Last(bytes.clone()),
                Answer::Write(bytes) => Answer::Write(bytes.clone()),
                _ => unreachable!(),
            })
            .await;
            let hub = peer.hub().await;
            let mut stream = hub.call_tool_stream("stream", ());
            let events = read(&mut stream).await;
            assert!(
                matches!(events[0].error(), Some(Error::Transport { .. })),
                "{case}: {events:?}"
            );
            peer.wait_for("notifications/cancelled", 1).await;
            assert_eq!(peer.seen_of("GET").len(), 5, "{case}");
        }
    });
}

#[test]
fn each_new_event_counts_the_attempts_anew() {
    run(async || {
        const ROUNDS: usize = 12;
        let peer = breaking(|count, _| match count {
            ROUNDS => raw_sse(&event(&result(&json!(FIRST_CALL), "end"))).into(),
            // Every second time there is nothing.
            n if n % 2 == 0 => raw_sse("").into(),
            n => raw_sse(&numbered(n, &text(FIRST_CALL, n as u64, "x"))).into(),
        })
        .await;
        let hub = peer.hub().await;
        let mut stream = hub.call_tool_stream("stream", ());
        let events = read(&mut stream).await;
        assert_eq!(events.len(), ROUNDS / 2 + 1);
        let after: Vec<_> = peer
            .seen_of("GET")
            .iter()
            .map(|get| get.header("last-event-id").unwrap().to_owned())
            .collect();
        let expected = [
            "0", "0", "1", "1", "3", "3", "5", "5", "7", "7", "9", "9", "11",
        ];
        assert_eq!(after, expected);
    });
}

// Covers R-1316.
#[test]
fn a_peer_that_says_no_is_not_asked_again() {
    run(async || {
        for (case, answer) in [
            ("HTTP 400", empty("400 Bad Request")),
            ("HTTP 401", empty("401 Unauthorized")),
            ("HTTP 404", crate::peer::no_session()),
            ("HTTP 405", empty("405 Method Not Allowed")),
            ("HTTP 501", empty("501 Not Implemented")),
            ("HTTP 204", empty("204 No Content")),
            (
                "HTTP 200",
                crate::peer::answer("200 OK", "Content-Type: text/html\r\n", "<p>hi"),
            ),
        ] {
            let peer = breaking(move |_, _| answer.clone().into()).await;
            let hub = peer.hub().await;
            let error = hub.call_tool("echo", ()).await.unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains("closed before the response") && text.contains(case),
                "{case}: {text}"
            );
            // It may run on, and must not run twice.
            peer.wait_for("notifications/cancelled", 1).await;
            assert_eq!(peer.seen_of("GET").len(), 1, "{case}");
            assert_eq!(peer.seen_of("tools/call").len(), 1, "{case}");
            assert_eq!(peer.seen_of("initialize").len(), 1, "{case}");
        }
    });
}

/// Each kind of call here ends after one event; the first wait is too long, the second is over at
/// once but nothing is answered.
const GIVEN_UP: [(&str, bool); 2] = [("600000", false), ("1", true)];

async fn silent(retry: &'static str) -> Peer {
    Peer::start(move |request| match &*request.what() {
        "tools/call" => {
            let first = event(&text(FIRST_CALL, 1, "a"));
            raw_sse(&format!("id: 0\nretry: {retry}\n{first}")).into()
        }
        "GET" => Answer::Hand,
        _ => polite(request),
    })
    .await
}

#[test]
fn a_call_can_be_given_up_while_its_rest_is_asked_for() {
    run(async || {
        for (retry, asks) in GIVEN_UP {
            for end in ["cancel", "drop", "close"] {
                let peer = silent(retry).await;
                let hub = peer.hub().await;
                let mut stream = hub.call_tool_stream("stream", ());
                assert_eq!(stream.next().await.unwrap().kind, EventKind::Text);
                let wire = tokio::select! {
                    handed = peer.handed(), if asks => Some(handed.1),
                    event = stream.next() => panic!("{event:?}"),
                    // What has come of the reply's end is read by now.
                    () = tokio::task::yield_now(), if !asks => None,
                };
                match end {
                    "cancel" => {
                        stream.cancel();
                        let last = stream.next().await.unwrap();
                        assert_eq!(last.kind, EventKind::Cancelled, "{retry}");
                    }
                    "close" => {
                        let ((), last) = tokio::join!(hub.close(), stream.next());
                        let error = last.as_ref().and_then(|last| last.error());
                        assert!(matches!(error, Some(Error::Closed { .. })), "{last:?}");
                    }
                    _ => drop(stream),
                }
                peer.wait_for("notifications/cancelled", 1).await;
                if let Some(mut wire) = wire {
                    wire.hung_up().await;
                }
            }
        }
    });
}

#[test]
fn time_limits_hold_while_the_rest_is_asked_for() {
    run(async || {
        // Long enough for the rest to be asked for, whatever else the machine does.
        const SOON: Duration = Duration::from_millis(300);
        for (retry, asks) in GIVEN_UP {
            for idle in [true, false] {
                let peer = silent(retry).await;
                let hub = peer.hub().await;
                let stream = hub.call_tool_stream("stream", ());
                let mut stream = match idle {
                    true => stream.idle_timeout(SOON),
                    false => stream.timeout(SOON),
                };
                let events = read(&mut stream).await;
                let error = events.last().unwrap().error();
                assert!(
                    matches!(error, Some(Error::Timeout { .. })),
                    "{retry}, {idle}: {events:?}"
                );
                peer.wait_for("notifications/cancelled", 1).await;
                if asks {
                    peer.handed().await.1.hung_up().await;
                }
            }
        }
    });
}

// Covers R-113.
#[test]
fn messages_of_other_calls_find_them_on_a_resumed_reply() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "tools/call" if request.id() == json!(FIRST_CALL) => raw_sse(PRIMING).into(),
            "tools/call" | "GET" => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let mut first = hub.call_tool_stream("stream", ());
        let first = tokio::spawn(async move { read(&mut first).await });
        let (_, mut get) = peer.handed().await;
        let mut second = hub.call_tool_stream("stream", ());
        let second = tokio::spawn(async move { read(&mut second).await });
        let (call, _quiet) = peer.handed().await;
        get.write(SSE_HEAD).await;
        let foreign = progress(&call.token(), 1, &envelope("text", "yours"));
        get.send(event(&foreign)).await;
        get.send(event(&result(&call.id(), "second"))).await;
        get.send(event(&result(&json!(FIRST_CALL), "first"))).await;
        assert_eq!(shown(&first.await.unwrap()), [r#"result "first""#]);
        assert_eq!(
            shown(&second.await.unwrap()),
            [r#"text "yours""#, r#"result "second""#]
        );
    });
}

#[test]
fn an_id_goes_back_as_it_came_and_one_answer_may_be_json() {
    run(async || {
        for id in ["日本 語", "a:b, c;\"d\"", "~"] {
            let peer = Peer::start(move |request| match &*request.what() {
                "tools/call" => raw_sse(&format!("retry: 1\nid: {id}\ndata:\n\n")).into(),
                "GET" => json_answer(&result(&json!(FIRST_CALL), "done")).into(),
                _ => polite(request),
            })
            .await;
            let hub = peer.hub().await;
            assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
            let get = &peer.seen_of("GET")[0];
            assert_eq!(get.header("last-event-id"), Some(id));
        }
    });
}

#[test]
fn an_id_that_no_header_can_carry_ends_the_call() {
    run(async || {
        let peer = Peer::calls(|_| raw_sse("retry: 1\nid: \u{1}\ndata:\n\n").into()).await;
        let hub = peer.hub().await;
        assert!(hub.call_tool("echo", ()).await.is_err());
        assert_eq!(peer.seen_of("GET").len(), 0);
    });
}

#[test]
fn the_number_of_attempts_and_the_first_wait_are_limits() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "tools/call" => raw_sse("id: 0\ndata:\n\n").into(),
            "GET" => format!("{SSE_HEAD}{}0\r\n\r\n", chunk(": hi\n\n")).into(),
            _ => polite(request),
        })
        .await;
        for attempts in [0, 2] {
            let mut limits = Limits::default();
            limits.max_resume_attempts = attempts;
            limits.resume_delay = Duration::from_millis(1);
            let hub = AgentHubClient::builder().limits(limits).build();
            peer.connect(&hub, "p").await;
            assert!(hub.call_tool("echo", ()).await.is_err());
            assert_eq!(peer.seen_of("GET").len(), attempts);
        }
    });
}
