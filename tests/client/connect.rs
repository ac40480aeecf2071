//! Connecting and disconnecting.

use std::error::Error as _;
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Era, Error, HubEvent, Limits, ServerChange};
use serde_json::{Value, json};

use crate::peer::{self, Answer, Peer, polite, with_session};
use crate::{Seen, read, run};

/// The texts of an error and its causes; no text may be told twice.
pub fn chain(error: &Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    for (nth, text) in texts.iter().enumerate() {
        let others = texts.iter().enumerate().filter(|(other, _)| *other != nth);
        for (_, other) in others {
            assert!(!other.contains(text.as_str()), "told twice: {texts:?}");
        }
    }
    texts
}

#[test]
fn connecting_gives_the_tools_in_the_order_of_the_server() {
    run(async || {
        let (peer, seen) = (Peer::polite().await, Seen::default());
        let hub = seen.hub();
        let tools = peer.connect(&hub, "p").await;
        let names: Vec<String> = tools.iter().map(|tool| tool.qualified_name()).collect();
        assert_eq!(names, ["p/echo", "p/stream"]);
        assert_eq!(
            peer.heard(),
            ["initialize", "notifications/initialized", "tools/list"]
        );
        let [HubEvent::Server { server, change, .. }] = &seen.all()[..] else {
            panic!("{:?}", seen.all())
        };
        assert_eq!((&**server, *change), ("p", ServerChange::Connected));
    });
}

#[test]
fn a_connection_is_made_only_when_it_is_awaited() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = AgentHubClient::builder().build();
        drop(hub.connect_http("p", peer.url()));
        hub.connect_http("p", peer.url()).await.unwrap();
        assert_eq!(peer.seen_of("initialize").len(), 1);
    });
}

// Covers R-1704.
#[test]
fn configured_headers_go_with_every_request() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = AgentHubClient::builder().build();
        hub.connect_http("p", peer.url())
            .header("X-Team", "red")
            .header("Authorization", "Basic b2xk")
            .bearer_token("t0ken")
            .await
            .unwrap();
        hub.call_tool("echo", ()).await.unwrap();
        hub.close().await;
        assert_eq!(peer.seen().len(), 5, "{:?}", peer.heard());
        for request in peer.seen() {
            let line = &request.line;
            assert_eq!(request.header("x-team"), Some("red"), "{line}");
            assert_eq!(
                request.header("authorization"),
                Some("Bearer t0ken"),
                "{line}"
            );
        }
    });
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_sent() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = AgentHubClient::builder().build();
        let url = peer.url();
        let table = [
            ("no name", hub.connect_http("", url.clone())),
            ("no URL", hub.connect_http("p", "")),
            ("another scheme", hub.connect_http("p", "ftp://x/")),
            (
                "a header name with a space",
                hub.connect_http("p", url.clone()).header("a b", "c"),
            ),
            (
                "a header value with a line break",
                hub.connect_http("p", url.clone()).header("a", "c\r\nd: e"),
            ),
            (
                "a header that is the transport's",
                hub.connect_http("p", url.clone())
                    .header("Content-Type", "text/plain"),
            ),
        ];
        for (case, connect) in table {
            let refused = connect.await.unwrap_err();
            assert!(
                matches!(refused, Error::Config { .. }),
                "{case}: {refused:?}"
            );
        }
        assert!(peer.seen().is_empty());
        peer.connect(&hub, "p").await;
    });
}

#[test]
fn a_name_in_use_is_refused_also_while_it_is_being_connected() {
    run(async || {
        let slow = Peer::start(|_| Answer::Hand).await;
        let peer = Peer::polite().await;
        let hub = AgentHubClient::builder().build();
        let connecting = tokio::spawn(hub.connect_http("p", slow.url()).into_future());
        let (initialize, mut wire) = slow.handed().await;
        let refused = hub.connect_http("p", peer.url()).await.unwrap_err();
        assert!(matches!(refused, Error::Config { .. }), "{refused:?}");
        assert!(refused.to_string().contains("`p`"), "{refused}");
        assert!(peer.seen().is_empty());
        wire.write(peer::json(&peer::error(&initialize.id(), -32603, "no")))
            .await;
        slow.resume(wire);
        connecting.await.unwrap().unwrap_err();

        peer.connect(&hub, "p").await;
        let refused = hub.connect_http("p", peer.url()).await.unwrap_err();
        assert!(matches!(refused, Error::Config { .. }), "{refused:?}");
        hub.disconnect("p").await.unwrap();
        peer.connect(&hub, "p").await;
    });
}

#[test]
fn a_name_is_free_again_after_a_connect_that_failed_or_was_dropped() {
    run(async || {
        let (silent, peer) = (Peer::start(|_| Answer::Hand).await, Peer::polite().await);
        let hub = AgentHubClient::builder().build();
        let mut connecting = hub.connect_http("p", silent.url()).into_future();
        tokio::select! {
            biased;
            connected = &mut connecting => panic!("{connected:?}"),
            (_, mut wire) = silent.handed() => {
                drop(connecting);
                wire.hung_up().await;
            }
        }
        let refuses = Peer::start(|_| peer::empty("503 Service Unavailable").into()).await;
        hub.connect_http("p", refuses.url()).await.unwrap_err();
        peer.connect(&hub, "p").await;
    });
}

#[test]
fn a_server_that_does_not_answer_is_given_up_in_time() {
    run(async || {
        for silent_at in ["initialize", "notifications/initialized", "tools/list"] {
            let silent = Peer::start(move |request| match request.what() == silent_at {
                true => Answer::Hand,
                false => polite(request),
            })
            .await;
            let hub = AgentHubClient::builder().build();
            let late = hub
                .connect_http("p", silent.url())
                .connect_timeout(Duration::from_millis(50))
                .await
                .unwrap_err();
            let texts = chain(&late);
            assert!(matches!(late, Error::Connect { .. }), "{late:?}");
            assert!(late.is_retryable());
            assert!(
                texts[0].contains("`p`") && texts[0].contains(&silent.url()),
                "{silent_at}: {texts:?}"
            );
            assert!(
                texts[1].contains("connect_timeout"),
                "{silent_at}: {texts:?}"
            );
            let (_, mut wire) = silent.handed().await;
            wire.hung_up().await;
            // A session that was open is given up in order.
            let deletes = usize::from(silent_at != "initialize");
            assert_eq!(silent.seen_of("DELETE").len(), deletes, "{silent_at}");
        }
    });
}

// Covers R-403.
#[test]
fn each_way_to_fail_says_where_and_why() {
    run(async || {
        let free = Peer::polite().await.stop().await;
        let texts = chain(
            &AgentHubClient::builder()
                .build()
                .connect_http("p", format!("http://{free}/mcp"))
                .await
                .unwrap_err(),
        );
        assert!(texts[0].contains(&free.to_string()), "{texts:?}");
        assert!(texts.last().unwrap().contains("refused"), "{texts:?}");

        let html = "<html>Bad Gateway</html>";
        // what initialize is answered, what the error says
        let table: [(&str, String, &[&str]); 8] = [
            (
                "502",
                peer::answer("502 Bad Gateway", "", html),
                &["502", html],
            ),
            ("404", peer::empty("404 Not Found"), &["404"]),
            (
                "401",
                peer::answer(
                    "401 Unauthorized",
                    "WWW-Authenticate: Bearer realm=\"x\"\r\n",
                    "",
                ),
                &["401", "Bearer realm"],
            ),
            (
                "an error",
                peer::json(&peer::error(
                    &json!(peer::INITIALIZE),
                    -32603,
                    "out of order",
                )),
                &["-32603", "out of order"],
            ),
            (
                "a version from long ago",
                peer::json(r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"1999-01-01"}}"#),
                &["1999-01-01", "2025-11-25"],
            ),
            (
                "a result without a version",
                peer::json(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
                &["initialize"],
            ),
            ("no answer", peer::sse(&[]), &["closed before the response"]),
            (
                "no message",
                peer::json("null"),
                &["closed before the response"],
            ),
        ];
        for (case, answer, says) in table {
            let peer = Peer::start(move |_| answer.clone().into()).await;
            let hub = AgentHubClient::builder().build();
            let failed = hub.connect_http("p", peer.url()).await.unwrap_err();
            let texts = chain(&failed);
            assert_eq!(failed.server(), Some("p"), "{case}");
            assert!(texts[0].contains("`p`"), "{case}: {texts:?}");
            for part in says {
                assert!(
                    texts[1..].iter().any(|t| t.contains(part)),
                    "{case}: {texts:?}"
                );
            }
            assert!(hub.list_tools().await.is_empty());
        }
    });
}

#[test]
fn the_order_of_servers_is_that_in_which_connecting_began() {
    run(async || {
        let slow = Peer::start(|request| match &*request.what() {
            "initialize" => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let quick = Peer::polite().await;
        let hub = AgentHubClient::builder().build();
        let connecting = tokio::spawn(hub.connect_http("slow", slow.url()).into_future());
        let (initialize, mut wire) = slow.handed().await;
        quick.connect(&hub, "quick").await;
        assert_eq!(hub.find_tool("echo").unwrap().server(), "quick");
        let answer = with_session("s", &peer::initialized(&initialize));
        wire.write(answer).await;
        slow.resume(wire);
        connecting.await.unwrap().unwrap();
        assert_eq!(hub.find_tool("echo").unwrap().server(), "slow");
        let servers: Vec<String> = hub
            .find_tools("echo")
            .iter()
            .map(|t| t.server().to_owned())
            .collect();
        assert_eq!(servers, ["slow", "quick"]);
        let listed = hub.list_tools().await;
        let order: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(order, ["slow", "quick"]);
    });
}

// Covers R-403, R-408, R-1301, R-1320.
#[test]
fn an_older_revision_is_spoken_and_named_in_every_later_request() {
    run(async || {
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let peer = Peer::start(move |request| match &*request.what() {
                "initialize" => {
                    let result = json!({"protocolVersion": version, "capabilities": {}});
                    let body = json!({"jsonrpc": "2.0", "id": request.id(), "result": result});
                    peer::json(&body.to_string()).into()
                }
                _ => polite(request),
            })
            .await;
            let hub = peer.hub().await;
            hub.call_tool("echo", ()).await.unwrap();
            let seen = peer.seen();
            assert_eq!(seen[0].header("mcp-protocol-version"), None);
            for request in &seen[1..] {
                let named = request.header("mcp-protocol-version");
                assert_eq!(named, Some(version), "{}", request.what());
            }
        }
    });
}

// Covers R-404, R-1209.
#[test]
fn any_2xx_counts_as_delivered_for_initialized() {
    let table = [
        peer::empty("202 Accepted"),
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        peer::empty("200 OK"),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
        peer::answer("200 OK", "Content-Type: text/plain\r\n", "Accepted"),
        peer::answer("200 OK", "", "Accepted"),
        peer::json("null"),
        peer::json(""),
        peer::sse(&[]),
        // A stream that stays open.
        peer::SSE_HEAD.to_owned(),
        // More than anybody reads.
        peer::answer(
            "200 OK",
            "Content-Type: text/html\r\n",
            &"x".repeat(1 << 20),
        ),
    ];
    run(async || {
        for delivered in table.clone() {
            let answer = delivered.clone();
            let peer = Peer::start(move |request| match &*request.what() {
                "notifications/initialized" => answer.clone().into(),
                _ => polite(request),
            })
            .await;
            let hub = AgentHubClient::builder().build();
            let connected = hub.connect_http("p", peer.url()).await;
            assert!(connected.is_ok(), "{delivered:?}: {connected:?}");
            assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
            hub.close().await;
        }
    });
}

// Covers R-1209.
#[test]
fn any_answer_to_a_cancel_is_passed_over() {
    run(async || {
        for delivered in [
            peer::empty("200 OK"),
            "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            peer::json("null"),
            peer::sse(&[]),
            peer::answer("200 OK", "Content-Type: text/plain\r\n", "Accepted"),
            peer::empty("500 Oops"),
            peer::empty("404 Not Found"),
        ] {
            let answer = delivered.clone();
            let peer = Peer::start(move |request| match &*request.what() {
                "notifications/cancelled" => answer.clone().into(),
                "tools/call" if request.json()["params"]["name"] == "stream" => Answer::Hand,
                _ => polite(request),
            })
            .await;
            let seen = Seen::default();
            let hub = seen.hub();
            peer.connect(&hub, "p").await;
            let mut stream = hub.call_tool_stream("stream", ());
            let (_, _wire) = tokio::select! {
                biased;
                event = stream.next() => panic!("{event:?}"),
                handed = peer.handed() => handed,
            };
            drop(stream);
            peer.wait_for("notifications/cancelled", 1).await;
            assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
            hub.close().await;
            assert_eq!(seen.warnings(), [""; 0], "{delivered}");
            assert_eq!(peer.seen_of("notifications/cancelled").len(), 1);
            assert_eq!(peer.seen_of("initialize").len(), 1, "{delivered}");
        }
    });
}

// Covers R-404.
#[test]
fn an_initialized_that_is_refused_fails_the_connect_and_gives_the_session_up() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "notifications/initialized" => peer::empty("400 Bad Request").into(),
            _ => polite(request),
        })
        .await;
        let hub = AgentHubClient::builder().build();
        let failed = hub.connect_http("p", peer.url()).await.unwrap_err();
        assert!(chain(&failed)[1].contains("400"), "{failed:?}");
        let delete = &peer.wait_for("DELETE", 1).await[0];
        assert_eq!(delete.header("mcp-session-id"), Some("s-1"));
    });
}

// Covers R-405, R-1101, R-1317.
#[test]
fn whatever_precedes_the_answer_to_initialize_is_passed_over() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "initialize" => {
                let body = [
                    "id: 0\nretry: 3000\ndata:\n\n".to_owned(),
                    peer::event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}"#),
                    ": a comment\n\n".to_owned(),
                    peer::event(r#"{"jsonrpc":"2.0","id":77,"result":{"protocolVersion":"2024-11-05"}}"#),
                    peer::event(&peer::initialized(request)),
                ];
                peer::raw_sse(&body.concat()).into()
            }
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        let call = &peer.seen_of("tools/call")[0];
        assert_eq!(call.header("mcp-protocol-version"), Some("2025-11-25"));
    });
}

// Covers R-411.
#[test]
fn a_ping_before_the_answer_to_initialize_is_answered() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "initialize" => {
                let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#.to_owned();
                peer::sse(&[ping, peer::initialized(request)]).into()
            }
            _ => polite(request),
        })
        .await;
        let _hub = peer.hub().await;
        let answer = &peer.wait_for("response", 1).await[0];
        assert_eq!(
            answer.json(),
            json!({"jsonrpc": "2.0", "id": "p", "result": {}})
        );
    });
}

// Covers R-1304.
#[test]
fn a_session_id_counts_only_with_a_result_and_only_from_initialize() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "notifications/initialized" => {
                peer::answer("202 Accepted", "Mcp-Session-Id: other\r\n", "").into()
            }
            "tools/call" => with_session("another", &peer::result(&request.id(), "x")).into(),
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        hub.call_tool("echo", ()).await.unwrap();
        hub.call_tool("echo", ()).await.unwrap();
        for request in &peer.seen()[1..] {
            let session = request.header("mcp-session-id");
            assert_eq!(session, Some("s-1"), "{}", request.what());
        }
    });
}

#[test]
fn disconnecting_touches_no_other_server() {
    run(async || {
        let (a, b) = (Peer::polite().await, Peer::polite().await);
        let seen = Seen::default();
        let hub = seen.hub();
        a.connect(&hub, "a").await;
        b.connect(&hub, "b").await;
        hub.disconnect("a").await.unwrap();
        assert_eq!(a.seen_of("DELETE").len(), 1);
        assert_eq!(b.seen_of("DELETE").len(), 0);
        assert_eq!(hub.find_tools("echo").len(), 1);
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        let gone = hub.call_tool("a/echo", ()).await.unwrap_err();
        assert!(matches!(gone, Error::UnknownTool { .. }), "{gone:?}");
        for name in ["a", "never"] {
            let unknown = hub.disconnect(name).await.unwrap_err();
            assert!(
                matches!(unknown, Error::UnknownServer { .. }),
                "{unknown:?}"
            );
            assert_eq!(unknown.server(), Some(name));
        }
        let changes = seen.all();
        let Some(HubEvent::Server { server, change, .. }) = changes
            .iter()
            .rev()
            .find(|e| matches!(e, HubEvent::Server { .. }))
        else {
            panic!("{changes:?}")
        };
        assert_eq!((&**server, *change), ("a", ServerChange::Disconnected));
    });
}

// Covers R-1301, R-1312.
#[test]
fn a_session_is_deleted_once_with_both_headers_and_whatever_the_answer() {
    run(async || {
        for status in [
            "200 OK",
            "404 Not Found",
            "405 Method Not Allowed",
            "500 Oops",
        ] {
            let peer = Peer::start(move |request| match &*request.what() {
                "DELETE" => peer::empty(status).into(),
                _ => polite(request),
            })
            .await;
            let hub = peer.hub().await;
            hub.disconnect("p").await.unwrap();
            hub.close().await;
            hub.close().await;
            let deletes = peer.seen_of("DELETE");
            assert_eq!(deletes.len(), 1, "{status}");
            assert_eq!(deletes[0].line, "DELETE /mcp HTTP/1.1");
            assert_eq!(deletes[0].header("mcp-session-id"), Some("s-1"));
            assert_eq!(
                deletes[0].header("mcp-protocol-version"),
                Some("2025-11-25")
            );
            assert_eq!(
                peer.heard().last().unwrap(),
                "DELETE",
                "it is the last word"
            );
        }
    });
}

// Covers R-1304, R-1312.
#[test]
fn without_a_session_id_nothing_is_deleted() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "initialize" => peer::json(&peer::initialized(request)).into(),
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        hub.call_tool("echo", ()).await.unwrap();
        hub.close().await;
        assert_eq!(peer.heard().last().unwrap(), "tools/call");
        for request in peer.seen() {
            assert_eq!(request.header("mcp-session-id"), None);
        }
    });
}

#[test]
fn nothing_works_after_close() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = peer.hub().await;
        let clone = hub.clone();
        hub.close().await;
        let closed = clone.connect_http("q", peer.url()).await.unwrap_err();
        assert!(matches!(closed, Error::Closed { .. }), "{closed:?}");
        let closed = clone.call_tool("echo", ()).await.unwrap_err();
        assert!(matches!(closed, Error::Closed { .. }), "{closed:?}");
        let events = read(&mut clone.call_tool_stream("echo", ())).await;
        assert!(matches!(events[0].error(), Some(Error::Closed { .. })));
        assert!(clone.find_tool("echo").is_none());
        assert!(clone.list_tools().await.is_empty());
    });
}

#[test]
fn a_hub_that_closes_takes_a_server_that_is_being_connected_with_it() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "tools/list" => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let hub = AgentHubClient::builder().build();
        let connecting = tokio::spawn(hub.connect_http("p", peer.url()).into_future());
        let (list, mut wire) = peer.handed().await;
        hub.close().await;
        wire.write(peer::json(&peer::listed(&list.id(), &["echo"])))
            .await;
        peer.resume(wire);
        let closed = connecting.await.unwrap().unwrap_err();
        assert!(matches!(closed, Error::Closed { .. }), "{closed:?}");
        assert_eq!(peer.wait_for("DELETE", 1).await.len(), 1);
    });
}

#[test]
fn a_server_is_found_under_each_spelling_of_its_address() {
    run(async || {
        let four = Peer::polite().await;
        let six = Peer::start_at("[::1]:0".parse().unwrap(), polite).await;
        let table = [
            format!("http://localhost:{}/mcp", four.address.port()),
            format!("http://localhost:{}/mcp", six.address.port()),
            format!("http://[::1]:{}/mcp", six.address.port()),
            format!("HTTP://LOCALHOST:{}/mcp", four.address.port()),
        ];
        for url in table {
            let hub = AgentHubClient::builder().build();
            let tools = hub.connect_http("p", url.clone()).await;
            assert_eq!(tools.unwrap_or_else(|e| panic!("{url}: {e:?}")).len(), 2);
        }
    });
}

// Covers R-1212.
#[test]
fn a_redirect_to_the_same_origin_is_followed() {
    run(async || {
        // status, whether the Location names the host, whether calls alone are sent there
        for (status, absolute, calls_alone) in [
            ("307 Temporary Redirect", false, false),
            ("308 Permanent Redirect", true, false),
            ("307 Temporary Redirect", true, true),
            ("308 Permanent Redirect", false, true),
        ] {
            let case = format!("{status}, absolute: {absolute}, calls alone: {calls_alone}");
            let peer = Peer::start(move |request| match &*request.line {
                "POST /mcp HTTP/1.1" if !calls_alone || request.what() == "tools/call" => {
                    let host = match absolute {
                        true => format!("http://{}", request.header("host").unwrap()),
                        false => String::new(),
                    };
                    peer::answer(status, &format!("Location: {host}/mcp/\r\n"), "").into()
                }
                _ => polite(request),
            })
            .await;
            let hub = peer.hub().await;
            let args = json!({"text": "kept"});
            assert_eq!(
                hub.call_tool("echo", &args).await.unwrap(),
                "done",
                "{case}"
            );
            let calls = peer.seen_of("tools/call");
            assert_eq!(calls.len(), 2, "{case}");
            assert_eq!(calls[0].body, calls[1].body, "{case}");
            assert_eq!(calls[1].json()["params"]["arguments"], args, "{case}");
            for call in &calls {
                assert_eq!(call.header("mcp-session-id"), Some("s-1"), "{case}");
                let named = call.header("mcp-protocol-version");
                assert_eq!(named, Some("2025-11-25"), "{case}");
            }
        }
        // One that leads back to itself.
        let peer = Peer::calls(|_| {
            peer::answer("307 Temporary Redirect", "Location: /mcp\r\n", "").into()
        })
        .await;
        let hub = peer.hub().await;
        let error = hub.call_tool("echo", ()).await.unwrap_err().to_string();
        assert!(error.contains("307") && error.contains("/mcp"), "{error}");
        assert_eq!(peer.seen_of("tools/call").len(), 6);
    });
}

#[test]
fn redirects_are_followed_as_often_as_may_be() {
    run(async || {
        for max in [0, 1, 3] {
            let peer = Peer::start(|_| {
                let location = "Location: /mcp\r\n";
                peer::answer("307 Temporary Redirect", location, "").into()
            })
            .await;
            let mut limits = Limits::default();
            limits.max_redirects = max;
            let hub = AgentHubClient::builder().limits(limits).build();
            let connecting = hub.connect_http("p", peer.url()).era(Era::Legacy);
            let texts = chain(&connecting.await.unwrap_err());
            assert!(texts[1].contains("`max_redirects`"), "{texts:?}");
            assert_eq!(peer.seen().len(), 1 + max);
        }
    });
}

#[test]
fn the_client_says_who_it_is() {
    run(async || {
        let peer = Peer::polite().await;
        let named = AgentHubClient::builder()
            .client_info("mine", "7")
            .limits(Limits::default())
            .build();
        peer.connect(&named, "p").await;
        peer.connect(&AgentHubClient::builder().build(), "p").await;
        let names: Vec<Value> = peer
            .seen_of("initialize")
            .iter()
            .map(|request| request.json()["params"]["clientInfo"].clone())
            .collect();
        assert_eq!(names[0], json!({"name": "mine", "version": "7"}));
        assert_eq!(names[1]["name"], "agent-hub-kit");
    });
}
