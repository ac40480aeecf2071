//! Servers of either era over HTTP: each answer to the question, and servers that turn.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Era, Limits};
use serde_json::json;

use crate::connect::chain;
use crate::peer::{
    self, Answer, Peer, Request, empty, error, json as json_answer, polite, sse, stateless,
};
use crate::{read, run};

fn hub() -> AgentHubClient {
    AgentHubClient::builder().build()
}

fn version(hub: &AgentHubClient) -> &'static str {
    hub.servers()[0].protocol_version.unwrap()
}

fn typed(status: &str, kind: &str, body: &str) -> String {
    peer::answer(status, &format!("Content-Type: {kind}\r\n"), body)
}

fn rpc(status: &str, code: i64, data: &str) -> String {
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"no"{data}}}}}"#);
    typed(status, "application/json", &body)
}

fn supporting(versions: &str) -> String {
    format!(r#","data":{{"supported":{versions},"requested":"2026-07-28"}}"#)
}

/// What comes of a question.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Asked,
    /// It was asked twice.
    Again,
    Handshake,
    /// The error says this, and nothing more was sent.
    Error(&'static str),
}

use Then::{Again, Asked, Error, Handshake};

// Covers R-302, R-306.
#[test]
fn each_answer_to_the_question_has_its_consequence() {
    let discovered = |versions: &str| {
        json_answer(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","supportedVersions":{versions},"capabilities":{{"tools":{{}}}}}}}}"#
        ))
    };
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}"#;
    let found = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}"#;
    let with_session = |status: &str, body: &str| {
        let headers = "Content-Type: application/json\r\nMcp-Session-Id: stray\r\n";
        peer::answer(status, headers, body)
    };
    let table: Vec<(&str, String, Then)> = vec![
        ("ours", discovered(r#"["2026-07-28"]"#), Asked),
        (
            "ours among others",
            discovered(r#"["2027-01-01","2026-07-28","2025-11-25"]"#),
            Asked,
        ),
        (
            "ours as an event",
            sse(&[note.to_owned(), found.to_owned()]),
            Asked,
        ),
        (
            "ours after a comment",
            peer::raw_sse(&format!(": hi\n\ndata:\n\ndata: {found}\n\n")),
            Asked,
        ),
        ("ours with a session", with_session("200 OK", found), Asked),
        (
            "handshakes only",
            discovered(r#"["2025-11-25","2025-06-18"]"#),
            Handshake,
        ),
        (
            "nothing of ours",
            discovered(r#"["2027-01-01"]"#),
            Error("2027-01-01"),
        ),
        (
            "-32022 with ours",
            rpc("400 Bad Request", -32022, &supporting(r#"["2026-07-28"]"#)),
            Again,
        ),
        (
            "-32022 with ours at 200",
            rpc("200 OK", -32022, &supporting(r#"["2026-07-28"]"#)),
            Again,
        ),
        (
            "-32022 with handshakes",
            rpc("400 Bad Request", -32022, &supporting(r#"["2025-11-25"]"#)),
            Handshake,
        ),
        (
            "-32022 with nothing of ours",
            rpc("400 Bad Request", -32022, &supporting(r#"["2027-01-01"]"#)),
            Error("2027-01-01"),
        ),
        (
            "-32022 with nothing",
            rpc("400 Bad Request", -32022, ""),
            Error("2026-07-28, 2025-11-25"),
        ),
        ("-32020", rpc("400 Bad Request", -32020, ""), Handshake),
        ("-32021", rpc("400 Bad Request", -32021, ""), Handshake),
        ("-32601 at 200", rpc("200 OK", -32601, ""), Handshake),
        ("-32601 at 404", rpc("404 Not Found", -32601, ""), Handshake),
        ("-32602 at 200", rpc("200 OK", -32602, ""), Handshake),
        (
            "-32000 at 400",
            rpc("400 Bad Request", -32000, ""),
            Handshake,
        ),
        ("-32603 at 500", rpc("500 Oops", -32603, ""), Handshake),
        (
            "an error with a session",
            with_session(
                "400 Bad Request",
                &error(&json!(null), -32600, "Missing session ID"),
            ),
            Handshake,
        ),
        (
            "an error as an event",
            sse(&[error(&json!(1), -32601, "no")]),
            Handshake,
        ),
        ("400", empty("400 Bad Request"), Handshake),
        (
            "-32600 at 400 for nobody",
            typed(
                "400 Bad Request",
                "application/json",
                &error(&json!(null), -32600, "Missing ID field"),
            ),
            Handshake,
        ),
        ("404", empty("404 Not Found"), Handshake),
        ("405", empty("405 Method Not Allowed"), Handshake),
        (
            "404 as text",
            typed("404 Not Found", "text/plain", "Not Found"),
            Handshake,
        ),
        (
            "405 as HTML",
            typed("405 Method Not Allowed", "text/html", "<html>"),
            Handshake,
        ),
        ("406", empty("406 Not Acceptable"), Handshake),
        ("415", empty("415 Unsupported Media Type"), Handshake),
        (
            "422 as text",
            typed(
                "422 Unprocessable Entity",
                "text/plain",
                "expect initialize request",
            ),
            Handshake,
        ),
        (
            "400 as broken JSON",
            typed("400 Bad Request", "application/json", "{"),
            Handshake,
        ),
        (
            "400 as other JSON",
            typed(
                "400 Bad Request",
                "application/json",
                r#"{"error":"invalid_request"}"#,
            ),
            Handshake,
        ),
        (
            "200 as HTML",
            typed("200 OK", "text/html", "<html>hello"),
            Handshake,
        ),
        (
            "200 with another result",
            json_answer(r#"{"jsonrpc":"2.0","id":1,"result":{"ok":true}}"#),
            Handshake,
        ),
        (
            "200 with another answer",
            json_answer(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
            Handshake,
        ),
        ("200 with no message", json_answer("null"), Handshake),
        ("200 with broken JSON", json_answer("{"), Handshake),
        ("200 with nothing", empty("200 OK"), Handshake),
        ("200 with no event", sse(&[]), Handshake),
        ("202", empty("202 Accepted"), Handshake),
        ("204", empty("204 No Content"), Handshake),
        ("500", empty("500 Oops"), Handshake),
        (
            "502 as HTML",
            typed("502 Bad Gateway", "text/html", "<html>"),
            Handshake,
        ),
        (
            "401",
            peer::answer(
                "401 Unauthorized",
                "WWW-Authenticate: Bearer realm=\"x\"\r\n",
                "",
            ),
            Error("Bearer realm"),
        ),
        (
            "401 as an error",
            rpc("401 Unauthorized", -32601, ""),
            Error("401"),
        ),
        ("403", empty("403 Forbidden"), Error("403")),
        (
            "302",
            peer::answer("302 Found", "Location: /login\r\n", ""),
            Error("/login"),
        ),
        (
            "307 elsewhere",
            peer::answer(
                "307 Temporary Redirect",
                "Location: http://example.invalid/\r\n",
                "",
            ),
            Error("example.invalid"),
        ),
    ];
    run(async || {
        for (case, answer, then) in &table {
            let (first, then) = (answer.clone(), *then);
            let peer =
                Peer::asked(
                    move |request| match (&*request.what(), request.id().as_u64()) {
                        ("server/discover", Some(1)) => first.clone().into(),
                        _ if then == Again => stateless(request),
                        ("server/discover", _) => empty("500 Twice").into(),
                        _ if then == Asked => stateless(request),
                        _ => polite(request),
                    },
                )
                .await;
            let hub = hub();
            let connected = hub.connect_http("p", peer.url()).await;
            let asked = "server/discover";
            let heard: &[&str] = match then {
                Asked => &[asked, "tools/list"],
                Again => &[asked, asked, "tools/list"],
                Handshake => &[
                    asked,
                    "initialize",
                    "notifications/initialized",
                    "tools/list",
                ],
                Error(_) => &[asked],
            };
            assert_eq!(peer.heard(), heard, "{case}: {connected:?}");
            match (then, connected) {
                (Error(text), Err(error)) => {
                    let chain = chain(&error).join(": ");
                    assert!(chain.contains(text), "{case}: {chain}");
                    assert!(hub.servers().is_empty(), "{case}");
                    continue;
                }
                (_, connected) => assert_eq!(connected.unwrap().len(), 2, "{case}"),
            }
            let expected = if then == Handshake {
                "2025-11-25"
            } else {
                "2026-07-28"
            };
            assert_eq!(version(&hub), expected, "{case}");
            for request in peer.seen() {
                let stray = request.header("mcp-session-id") == Some("stray");
                assert!(!stray, "{case}: {request:?}");
            }
            assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done", "{case}");
            hub.close().await;
        }
    });
}

// Covers R-302, R-401.
#[test]
fn the_question_and_the_handshake_that_follows_it_stand_each_for_itself() {
    run(async || {
        let peer = Peer::asked(|request| match &*request.what() {
            "server/discover" => rpc("200 OK", -32601, "").into(),
            _ => polite(request),
        })
        .await;
        let hub = AgentHubClient::builder().client_info("hub", "1").build();
        peer.connect(&hub, "p").await;
        let seen = peer.seen();
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "hub", "version": "1"},
        });
        let question = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}});
        assert_eq!(seen[0].json(), question);
        let header = |request: &Request, name| request.header(name).map(str::to_owned);
        for (request, version, method) in [
            (&seen[0], Some("2026-07-28"), Some("server/discover")),
            (&seen[1], None, None),
            (&seen[2], Some("2025-11-25"), None),
        ] {
            let what = request.what();
            assert_eq!(
                header(request, "mcp-protocol-version").as_deref(),
                version,
                "{what}"
            );
            assert_eq!(header(request, "mcp-method").as_deref(), method, "{what}");
            let session = (version == Some("2025-11-25")).then_some("s-1");
            assert_eq!(
                header(request, "mcp-session-id").as_deref(),
                session,
                "{what}"
            );
        }
        assert_eq!(seen[1].json()["id"], 2);
    });
}

// Covers R-302.
#[test]
fn a_redirect_is_followed_and_the_answer_judged_then() {
    run(async || {
        for is_stateless in [true, false] {
            let peer = Peer::asked(move |request| {
                if request.line.contains(" /mcp ") {
                    let there = "Location: /there\r\n";
                    return peer::answer("307 Temporary Redirect", there, "").into();
                }
                match (is_stateless, &*request.what()) {
                    (true, _) => stateless(request),
                    (false, "server/discover") => empty("404 Not Found").into(),
                    (false, _) => polite(request),
                }
            })
            .await;
            let hub = peer.hub().await;
            let expected = if is_stateless {
                "2026-07-28"
            } else {
                "2025-11-25"
            };
            assert_eq!(version(&hub), expected);
        }
    });
}

// Covers R-304, R-305.
#[test]
fn silence_is_answered_by_a_handshake_and_what_comes_late_is_dropped() {
    run(async || {
        for head_first in [true, false] {
            let (peer, hub, connecting, mut wire) = loop {
                let peer = Peer::asked(|request| match &*request.what() {
                    "server/discover" => Answer::Hand,
                    _ => polite(request),
                })
                .await;
                let mut limits = Limits::default();
                limits.discover_timeout = Duration::from_secs(1);
                let hub = AgentHubClient::builder().limits(limits).build();
                let mut connecting = tokio::spawn(hub.connect_http("p", peer.url()).into_future());
                tokio::select! {
                    (_, wire) = peer.handed() => break (peer, hub, connecting, wire),
                    // On a machine that stood still the time is over before the question is there.
                    _ = &mut connecting => {}
                }
            };
            if head_first {
                wire.write(peer::SSE_HEAD).await;
            }
            assert_eq!(connecting.await.unwrap().unwrap().len(), 2);
            let late = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}"#;
            match head_first {
                true => wire.send(peer::event(late)).await,
                false => wire.write(json_answer(late)).await,
            };
            assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
            assert_eq!(version(&hub), "2025-11-25");
            hub.close().await;
            assert!(peer.seen_of("notifications/cancelled").is_empty());
        }
    });
}

// Covers R-307.
#[test]
fn a_server_that_holds_on_to_the_question_is_asked_once_more() {
    run(async || {
        let peer = Peer::asked(|request| match (&*request.what(), request.id().as_u64()) {
            ("server/discover", Some(1)) => rpc("500 Oops", -32603, "").into(),
            ("initialize", _) => rpc("400 Bad Request", -32022, "").into(),
            _ => stateless(request),
        })
        .await;
        let hub = peer.hub().await;
        let asked = "server/discover";
        assert_eq!(peer.heard(), [asked, "initialize", asked, "tools/list"]);
        assert_eq!(version(&hub), "2026-07-28");
    });
}

#[test]
fn both_failures_are_told() {
    run(async || {
        // what the question is answered, what the handshake, what the error says
        let table: [(String, String, &[&str]); 3] = [
            (
                typed("503 Service Unavailable", "text/plain", "resting"),
                typed("502 Bad Gateway", "text/plain", "lost"),
                &["HTTP 502: lost", "server/discover", "HTTP 503: resting"],
            ),
            (
                rpc("400 Bad Request", -32021, ""),
                rpc("404 Not Found", -32601, ""),
                &["error -32021: no", "initialize", "error -32601: no"],
            ),
            (
                empty("405 Method Not Allowed"),
                typed("404 Not Found", "text/plain", "try GET"),
                &[
                    "HTTP 404: try GET",
                    "HTTP+SSE",
                    "server/discover",
                    "HTTP 405",
                ],
            ),
        ];
        for (question, handshake, parts) in table {
            let peer = Peer::asked(move |request| match &*request.what() {
                "server/discover" => question.clone().into(),
                _ => handshake.clone().into(),
            })
            .await;
            let error = hub().connect_http("p", peer.url()).await.unwrap_err();
            let text = chain(&error).join(": ");
            for part in parts {
                assert!(text.contains(part), "no {part} in {text}");
            }
            assert_eq!(peer.heard(), ["server/discover", "initialize"]);
        }
    });
}

// Covers R-302.
#[test]
fn a_choice_of_the_user_is_all_that_is_tried() {
    run(async || {
        let dual = |request: &Request| match request.header("mcp-method") {
            Some(_) => stateless(request),
            None => polite(request),
        };
        for (era, expected, first) in [
            (Era::Auto, "2026-07-28", "server/discover"),
            (Era::Legacy, "2025-11-25", "initialize"),
            (Era::Modern, "2026-07-28", "server/discover"),
        ] {
            let peer = Peer::asked(dual).await;
            let hub = hub();
            hub.connect_http("p", peer.url()).era(era).await.unwrap();
            assert_eq!(version(&hub), expected, "{era:?}");
            assert_eq!(peer.heard()[0], first, "{era:?}");
            let all = [("q", peer.url())];
            hub.connect_all_http(all).era(era).await.unwrap();
            assert_eq!(hub.servers()[1].protocol_version, Some(expected), "{era:?}");

            let deaf = Peer::asked(|_| empty("404 Not Found").into()).await;
            hub.connect_http("deaf", deaf.url())
                .era(era)
                .await
                .unwrap_err();
            let tries = if era == Era::Auto { 2 } else { 1 };
            assert_eq!(deaf.heard().len(), tries, "{era:?}");
        }
    });
}

/// A server that may be of either era, and at first is of this one.
async fn turning(is_stateless: bool) -> (Peer, Arc<AtomicBool>) {
    let state = Arc::new(AtomicBool::new(is_stateless));
    let now = state.clone();
    let peer = Peer::asked(move |request| {
        let is_stateless = request.header("mcp-method").is_some();
        match (now.load(Ordering::SeqCst), is_stateless) {
            (true, true) => stateless(request),
            (false, false) => polite(request),
            (true, false) => {
                rpc("400 Bad Request", -32022, &supporting(r#"["2026-07-28"]"#)).into()
            }
            (false, true) => {
                let body = error(&json!(null), -32600, "Bad Request: Missing session ID");
                typed("400 Bad Request", "application/json", &body).into()
            }
        }
    })
    .await;
    (peer, state)
}

#[test]
fn as_many_servers_are_remembered_as_may_be() {
    run(async || {
        // how many may be, and how often two servers are asked that are connected twice
        for (max, asked) in [(0, 4), (1, 4), (2, 2), (usize::MAX, 2)] {
            let (peer, _) = turning(false).await;
            let mut limits = Limits::default();
            limits.max_known_servers = max;
            let hub = AgentHubClient::builder().limits(limits).build();
            for name in ["p", "q", "p", "q"] {
                let url = format!("{}/{name}", peer.url());
                let connecting = hub.connect_http(name, url).replace(true);
                connecting.await.unwrap();
            }
            assert_eq!(peer.seen_of("server/discover").len(), asked, "{max}");
        }
    });
}

// Covers R-303.
#[test]
fn what_was_found_out_is_kept_for_the_next_connection_and_doubted_if_it_is_contradicted() {
    run(async || {
        let (peer, is_stateless) = turning(false).await;
        let hub = hub();
        peer.connect(&hub, "p").await;
        let asked = |count: usize| {
            let seen = peer.seen_of("server/discover").len();
            assert_eq!(seen, count, "{:?}", peer.heard());
        };
        asked(1);
        // However it is connected again, with whatever query.
        hub.reconnect_http("p", peer.url()).await.unwrap();
        hub.connect_http("q", peer.url() + "?key=1").await.unwrap();
        hub.disconnect("q").await.unwrap();
        hub.connect_all_http([("q", peer.url())]).await.unwrap();
        hub.connect_http("q", peer.url())
            .replace(true)
            .await
            .unwrap();
        asked(1);
        // Another path is another server.
        hub.connect_http("r", peer.url() + "/").await.unwrap();
        asked(2);
        // The user's word says nothing of the server.
        hub.connect_http("s", peer.url() + "/s")
            .era(Era::Legacy)
            .await
            .unwrap();
        asked(2);
        hub.reconnect_http("s", peer.url() + "/s").await.unwrap();
        asked(3);

        is_stateless.store(true, Ordering::SeqCst);
        let before = peer.heard().len();
        hub.reconnect_http("p", peer.url()).await.unwrap();
        assert_eq!(
            peer.heard()[before..before + 3],
            ["initialize", "server/discover", "tools/list"]
        );
        assert_eq!(version(&hub), "2026-07-28");
        asked(4);
        is_stateless.store(false, Ordering::SeqCst);
        hub.reconnect_http("p", peer.url()).await.unwrap();
        assert_eq!(version(&hub), "2025-11-25");
        asked(5);
        hub.reconnect_http("p", peer.url()).await.unwrap();
        asked(5);
        // Another hub knows nothing.
        peer.hub().await;
        asked(6);
    });
}

// Covers R-303.
#[test]
fn a_server_that_turns_between_two_calls_is_found_out() {
    run(async || {
        for first in [false, true] {
            let (peer, is_stateless) = turning(first).await;
            let hub = peer.hub().await;
            for turn in 0..4 {
                let now = first ^ (turn % 2 == 1);
                is_stateless.store(now, Ordering::SeqCst);
                let calls = peer.seen_of("tools/call").len();
                assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done", "{turn}");
                let repeated = usize::from(turn > 0);
                assert_eq!(peer.seen_of("tools/call").len(), calls + 1 + repeated);
                let expected = if now { "2026-07-28" } else { "2025-11-25" };
                assert_eq!(version(&hub), expected, "{turn}");
                // And lists too.
                is_stateless.store(!now, Ordering::SeqCst);
                assert_eq!(hub.list_tools_from("p").await.unwrap().len(), 2);
                is_stateless.store(now, Ordering::SeqCst);
                assert_eq!(hub.list_tools_from("p").await.unwrap().len(), 2);
            }
        }
    });
}

#[test]
fn a_call_that_is_refused_again_is_not_repeated_for_ever() {
    run(async || {
        let peer = Peer::asked(|request| match &*request.what() {
            "tools/call" => rpc("400 Bad Request", -32022, "").into(),
            _ => stateless(request),
        })
        .await;
        let hub = peer.hub().await;
        let error = hub.call_tool("echo", ()).await.unwrap_err();
        assert!(error.to_string().contains("-32022"), "{error}");
        assert_eq!(peer.seen_of("tools/call").len(), 2);
        assert_eq!(peer.seen_of("server/discover").len(), 2);
    });
}

// Covers R-1211.
#[test]
fn a_call_that_may_have_run_is_not_repeated_for_its_words() {
    run(async || {
        // As a tool may fail that is given a handle, at servers that tell so by the status.
        for (status, code, message) in [
            (
                "400 Bad Request",
                -32602,
                "the session 7 of the shop has expired",
            ),
            ("404 Not Found", 7, "no such Session"),
            (
                "422 Unprocessable Content",
                -32603,
                "could not initialize the printer",
            ),
        ] {
            let peer = Peer::asked(move |request| match &*request.what() {
                "tools/call" => {
                    let body = error(&request.id(), code, message);
                    typed(status, "application/json", &body).into()
                }
                _ => stateless(request),
            })
            .await;
            let hub = peer.hub().await;
            let error = hub.call_tool("echo", ()).await.unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            assert_eq!(peer.seen_of("tools/call").len(), 1, "{message}");
        }
        // A server of the other era says so too, and was one all along.
        let body = "Bad Request: the argument io.modelcontextprotocol/x is odd";
        let peer = Peer::calls(move |_| typed("400 Bad Request", "text/plain", body).into()).await;
        let hub = peer.hub().await;
        let error = hub.call_tool("echo", ()).await.unwrap_err();
        assert!(error.to_string().contains(body), "{error}");
        assert_eq!(peer.seen_of("tools/call").len(), 1);
    });
}

// Covers R-303.
#[test]
fn what_was_found_out_and_leads_to_nothing_is_forgotten() {
    run(async || {
        // What a server that was replaced by a stateless one says to a handshake.
        for odd in [
            typed("500 Internal Server Error", "text/plain", "oops"),
            typed("200 OK", "text/html", "<html>"),
        ] {
            let is_new = Arc::new(AtomicBool::new(false));
            let now = is_new.clone();
            let peer = Peer::asked(move |request| match now.load(Ordering::SeqCst) {
                true if &*request.what() == "initialize" => odd.clone().into(),
                true => stateless(request),
                false if &*request.what() == "server/discover" => empty("404 Not Found").into(),
                false => polite(request),
            })
            .await;
            let hub = peer.hub().await;
            is_new.store(true, Ordering::SeqCst);
            hub.reconnect_http("p", peer.url()).await.unwrap_err();
            hub.connect_http("q", peer.url()).await.unwrap();
            assert_eq!(hub.servers()[1].protocol_version, Some("2026-07-28"));
        }
    });
}

// Covers R-1211, R-1407.
#[test]
fn a_server_that_turns_at_random_runs_no_call_twice() {
    run(async || {
        let turn = AtomicUsize::new(0);
        let runs: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let ran = runs.clone();
        let peer = Peer::asked(move |request| {
            // The same numbers each time, without an order.
            let dice = turn
                .fetch_add(1, Ordering::SeqCst)
                .wrapping_mul(2_654_435_761)
                >> 8;
            let is_stateless = request.header("mcp-method").is_some();
            match (!dice.is_multiple_of(4), is_stateless) {
                (true, true) | (false, false) if &*request.what() == "tools/call" => {
                    let call = request.json()["params"]["arguments"]["n"].to_string();
                    *ran.lock().unwrap().entry(call).or_default() += 1;
                    let body = error(&request.id(), -32603, "no session to initialize");
                    match dice / 4 % 4 {
                        0 => Answer::Last(Vec::new()),
                        1 => typed("500 Internal Server Error", "application/json", &body).into(),
                        2 => json_answer(&body).into(),
                        _ if is_stateless => stateless(request),
                        _ => polite(request),
                    }
                }
                (true, true) => stateless(request),
                (false, false) => polite(request),
                (true, false) => {
                    rpc("400 Bad Request", -32022, &supporting(r#"["2026-07-28"]"#)).into()
                }
                (false, true) => {
                    let body = error(&json!(null), -32600, "Bad Request: Missing session ID");
                    typed("400 Bad Request", "application/json", &body).into()
                }
            }
        })
        .await;
        let hub = hub();
        while hub.connect_http("p", peer.url()).await.is_err() {}
        let calls = (0..60).map(|n| {
            let hub = hub.clone();
            tokio::spawn(async move {
                let mut stream = hub.call_tool_stream("echo", json!({ "n": n }));
                let events = read(&mut stream).await;
                let ends = events.iter().filter(|event| event.is_terminal()).count();
                assert_eq!(ends, 1, "{n}: {events:?}");
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        hub.close().await;
        let runs = runs.lock().unwrap();
        assert!(runs.len() > 20, "{runs:?}");
        assert!(runs.values().all(|count| *count == 1), "{runs:?}");
    });
}
