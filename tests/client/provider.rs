//! Headers that are made for each request.

use std::collections::HashSet;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use agent_hub_kit::{ConnectHttp, Error, HeaderRequest, Limits};

use super::peer::{
    Answer, FIRST_CALL, Peer, Request, SSE_HEAD, answer, empty, envelope, initialized, polite,
    progress, result, sse, with_session,
};
use super::*;

/// What a provider was asked, and what it gives: a token that is renewed when it is refused.
#[derive(Clone, Default)]
struct Tokens {
    asked: Arc<Mutex<Vec<String>>>,
    current: Arc<AtomicUsize>,
}

impl Tokens {
    fn on(&self, connect: ConnectHttp) -> ConnectHttp {
        let tokens = self.clone();
        connect.header_provider(move |request: HeaderRequest| {
            let tokens = tokens.clone();
            async move {
                let line = format!("{} {}", request.server(), request.is_refused());
                tokens.asked.lock().unwrap().push(line);
                if request.is_refused() {
                    tokens.current.fetch_add(1, Relaxed);
                }
                Ok([("Authorization", format!("Bearer {}", tokens.token()))])
            }
        })
    }

    fn token(&self) -> String {
        format!("a-token-of-{}", self.current.load(Relaxed))
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

fn bearer(request: &Request) -> &str {
    let header = request.header("authorization").unwrap_or_default();
    header.strip_prefix("Bearer ").unwrap_or_default()
}

fn unauthorized() -> Answer {
    let challenge = "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n";
    answer("401 Unauthorized", challenge, "").into()
}

// Covers R-1704, R-1705.
#[test]
fn headers_are_made_for_each_request_of_every_kind() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "initialize" => {
                let told = initialized(request).replace("{}", "{\"listChanged\":true}");
                with_session("s", &told).into()
            }
            "tools/call" if request.body.contains("stream") => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let hub = AgentHubClient::builder().build();
        let tokens = Tokens::default();
        let connect = hub.connect_http("p", peer.url());
        // The one that is made takes its place.
        let connect = connect.bearer_token("a-fixed-one").header("X-Key", "k");
        tokens.on(connect).await.unwrap();
        hub.call_tool("echo", ()).await.unwrap();
        let listening = peer.wait_for("GET", 1).await;
        let mut hanging = hub.call_tool_stream("stream", ());
        tokio::select! {
            _ = hanging.next() => panic!("it hangs"),
            _ = peer.wait_for("tools/call", 2) => drop(hanging),
        }
        peer.wait_for("notifications/cancelled", 1).await;
        hub.close().await;
        let mut kinds = HashSet::new();
        let seen = peer.seen();
        for request in &seen {
            assert_eq!(bearer(request), tokens.token(), "{}", request.line);
            assert_eq!(request.header("x-key"), Some("k"), "{}", request.line);
            kinds.insert(request.line.split(' ').next().unwrap().to_owned());
        }
        assert_eq!(kinds, ["POST", "GET", "DELETE"].map(String::from).into());
        assert_eq!(listening.len(), 1);
        let asked = tokens.asked();
        // The question which era it is is one of them, and not recorded by the peer.
        assert!(asked.len() > seen.len(), "{asked:?}");
        assert!(asked.iter().all(|line| line == "p false"), "{asked:?}");
    });
}

// Covers R-1705.
#[test]
fn a_refused_request_is_sent_once_more_with_other_headers() {
    run(async || {
        // how many of a call's requests are refused, how often it is sent, what it ends with
        let table = [
            (0, 1, Ok("done")),
            (1, 2, Ok("done")),
            (9, 2, Err("HTTP 401")),
        ];
        for (refused, sent, end) in table {
            let left = AtomicUsize::new(refused);
            let peer = Peer::calls(move |request| {
                match left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
                    Ok(_) => unauthorized(),
                    Err(_) => sse(&[result(&request.id(), "done")]).into(),
                }
            })
            .await;
            let hub = AgentHubClient::builder().build();
            let tokens = Tokens::default();
            tokens.on(hub.connect_http("p", peer.url())).await.unwrap();
            tokens.asked();
            let called = hub.call_tool("echo", ()).await;
            match (&called, end) {
                (Ok(value), Ok(text)) => assert_eq!(value, text),
                (Err(error), Err(part)) => {
                    let told = error.to_string();
                    assert!(
                        told.contains(part) && told.contains("invalid_token"),
                        "{told}"
                    );
                    assert_eq!((error.server(), error.tool()), (Some("p"), Some("echo")));
                }
                _ => panic!("{refused}: {called:?}"),
            }
            let calls = peer.seen_of("tools/call");
            let used: Vec<&str> = calls.iter().map(bearer).collect();
            let tokens_of = ["a-token-of-0", "a-token-of-1"];
            assert_eq!(used, tokens_of[..sent], "{refused}");
            assert!(calls.iter().all(|call| call.id() == FIRST_CALL), "one id");
            let asked = tokens.asked();
            assert_eq!(asked, ["p false", "p true"][..sent], "{refused}");
        }
    });
}

#[test]
fn connecting_is_refused_once_as_well() {
    run(async || {
        let peer = Peer::asked(|request| match bearer(request) {
            "a-token-of-0" => unauthorized(),
            _ if request.what() == "server/discover" => empty("404 Not Found").into(),
            _ => polite(request),
        })
        .await;
        let hub = AgentHubClient::builder().build();
        let tokens = Tokens::default();
        let tools = tokens.on(hub.connect_http("p", peer.url())).await;
        assert!(!tools.unwrap().is_empty());
        let heard: Vec<String> = peer.heard().into_iter().take(3).collect();
        assert_eq!(heard, ["server/discover", "server/discover", "initialize"]);
        assert_eq!(tokens.asked()[..3], ["p false", "p true", "p false"]);
    });
}

#[test]
fn a_call_that_had_begun_is_not_sent_again() {
    run(async || {
        let peer = Peer::calls(|_| Answer::Hand).await;
        let hub = AgentHubClient::builder().build();
        let tokens = Tokens::default();
        tokens.on(hub.connect_http("p", peer.url())).await.unwrap();
        tokens.asked();
        let mut stream = hub.call_tool_stream("stream", ());
        let reading = read(&mut stream);
        let serving = async {
            let (request, mut wire) = peer.handed().await;
            wire.write(SSE_HEAD).await;
            let event = progress(&request.token(), 1, &envelope("text", "a"));
            wire.send(peer::event(&event)).await;
            drop(wire);
        };
        let (events, ()) = tokio::join!(reading, serving);
        assert_eq!(events.len(), 2, "{events:?}");
        assert!(events[1].error().is_some(), "{events:?}");
        assert_eq!(peer.seen_of("tools/call").len(), 1);
        // The cancel may have been asked for too.
        assert!(tokens.asked().iter().all(|line| line == "p false"));
    });
}

// Covers R-1704.
#[test]
fn no_other_origin_is_sent_them() {
    run(async || {
        let other = Peer::polite().await;
        for status in ["307 Temporary Redirect", "308 Permanent Redirect"] {
            let location = format!("Location: {}\r\n", other.url());
            let peer = Peer::calls(move |_| answer(status, &location, "").into()).await;
            let hub = AgentHubClient::builder().build();
            let tokens = Tokens::default();
            tokens.on(hub.connect_http("p", peer.url())).await.unwrap();
            tokens.asked();
            let error = hub.call_tool("echo", ()).await.unwrap_err();
            assert!(error.to_string().contains("not followed"), "{error}");
            assert!(other.seen().is_empty(), "{:?}", other.seen());
            assert_eq!(tokens.asked(), ["p false"]);
        }
    });
}

#[test]
fn a_redirect_at_home_is_the_same_request() {
    run(async || {
        let peer = Peer::calls(|request| match &*request.line {
            "POST /mcp HTTP/1.1" => answer("307 Elsewhere", "Location: /other\r\n", "").into(),
            _ => sse(&[result(&request.id(), "done")]).into(),
        })
        .await;
        let hub = AgentHubClient::builder().build();
        let tokens = Tokens::default();
        tokens.on(hub.connect_http("p", peer.url())).await.unwrap();
        tokens.asked();
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        let calls = peer.seen_of("tools/call");
        let used: Vec<&str> = calls.iter().map(bearer).collect();
        assert_eq!(used, ["a-token-of-0"; 2]);
        assert_eq!(tokens.asked(), ["p false"]);
    });
}

#[test]
fn a_provider_that_fails_ends_its_call_alone() {
    type Made = Result<Vec<(&'static str, &'static str)>, Box<dyn std::error::Error + Send + Sync>>;
    type Making = futures_util::future::BoxFuture<'static, Made>;
    type Make = fn() -> Making;
    fn making(made: impl Future<Output = Made> + Send + 'static) -> Making {
        Box::pin(made)
    }
    run(async || {
        let faults: [(&str, Make, &str); 7] = [
            (
                "fails",
                || making(async { Err("log in first".into()) }),
                "log in first",
            ),
            ("panics", || making(async { panic!("oh") }), "it panicked"),
            ("panics at once", || panic!("oh"), "it panicked"),
            (
                "hangs",
                || making(std::future::pending()),
                "no end within the header_provider_timeout of 50ms",
            ),
            (
                "gives a bad name",
                || making(async { Ok(vec![("a b", "a-secret-value")]) }),
                "\"a b\" is no header name",
            ),
            (
                "gives a bad value",
                || making(async { Ok(vec![("x-key", "a-secret-value\n")]) }),
                "the value of the header `x-key` cannot be sent",
            ),
            (
                "gives what is ours",
                || making(async { Ok(vec![("mcp-session-id", "a-secret-value")]) }),
                "`mcp-session-id` cannot be set",
            ),
        ];
        let peer = Peer::polite().await;
        for (case, make, part) in faults {
            let mut limits = Limits::default();
            limits.header_provider_timeout = Duration::from_millis(50);
            let hub = AgentHubClient::builder().limits(limits).build();
            let fails = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let provide = {
                let fails = fails.clone();
                move |_: HeaderRequest| match fails.load(Relaxed) {
                    true => make(),
                    false => making(async { Ok(Vec::new()) }),
                }
            };
            peer.connect(&hub, "other").await;
            let connect = hub.connect_http("p", peer.url());
            connect.header_provider(provide.clone()).await.unwrap();
            let sent = peer.seen_of("tools/call").len();
            fails.store(true, Relaxed);
            let error = hub.call_tool("p/echo", ()).await.unwrap_err();
            let told = printed(&error);
            assert!(told.contains(part), "{case}: {told}");
            assert!(!told.contains("a-secret-value"), "{case}: {told}");
            assert_eq!(
                (error.server(), error.tool()),
                (Some("p"), Some("echo")),
                "{case}"
            );
            assert!(!error.is_retryable(), "{case}");
            let is_named = matches!(error, Error::HeaderProvider { .. });
            assert!(is_named, "{case}: {error:?}");
            assert_eq!(
                peer.seen_of("tools/call").len(),
                sent,
                "{case}: nothing is sent"
            );
            hub.call_tool("other/echo", ()).await.unwrap();
            fails.store(false, Relaxed);
            hub.call_tool("p/echo", ()).await.unwrap();
            // So does connecting.
            fails.store(true, Relaxed);
            let connect = hub.connect_http("late", peer.url());
            let error = connect.header_provider(provide).await.unwrap_err();
            let told = printed(&error);
            assert!(
                told.contains("`late`") && told.contains(part),
                "{case}: {told}"
            );
        }
    });
}

fn printed(error: &Error) -> String {
    let mut told = format!("{error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        told += &format!(": {error}");
        cause = error.source();
    }
    told
}

#[test]
fn calls_that_are_refused_at_once_all_end_well() {
    run(async || {
        let peer = Peer::calls(|request| match bearer(request) {
            "a-token-of-0" => unauthorized(),
            _ => sse(&[result(&request.id(), "done")]).into(),
        })
        .await;
        let hub = AgentHubClient::builder().build();
        let tokens = Tokens::default();
        tokens.on(hub.connect_http("p", peer.url())).await.unwrap();
        let calls = (0..20).map(|_| hub.call_tool("echo", ()).into_future());
        for called in futures_util::future::join_all(calls).await {
            assert_eq!(called.unwrap(), "done");
        }
        assert!(peer.seen_of("tools/call").len() <= 40);
    });
}

// Covers R-1704.
#[test]
fn what_was_given_is_not_shown_even_when_it_is_quoted_later() {
    run(async || {
        // Quotes the header of the call before.
        let last = Mutex::new(String::new());
        let peer = Peer::calls(move |request| {
            let mut last = last.lock().unwrap();
            let quoted = std::mem::replace(&mut *last, bearer(request).to_owned());
            let quoted = format!("you sent {} and {quoted}", bearer(request));
            answer("500 Oops", "", &quoted).into()
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        let count = Arc::new(AtomicUsize::new(0));
        let connect = hub.connect_http("p", peer.url()).header_provider(move |_| {
            let token = format!("Bearer a-token-of-{}", count.fetch_add(1, Relaxed));
            async move { Ok([("authorization", token)]) }
        });
        assert!(!format!("{connect:?}").contains("a-token"));
        connect.await.unwrap();
        for _ in 0..3 {
            let error = hub.call_tool("echo", ()).await.unwrap_err();
            let told = format!("{error} {error:?}");
            assert!(told.contains("you sent [hidden] and"), "{told}");
            assert!(!told.contains("a-token"), "{told}");
        }
        assert!(!format!("{:?}", seen.all()).contains("a-token"));
    });
}

#[test]
fn a_host_that_is_made_is_the_only_one_and_no_secret() {
    run(async || {
        let peer = Peer::calls(|_| answer("500 Oops", "", "nobody at b.example:8080").into()).await;
        let hub = AgentHubClient::builder().build();
        let connect = hub.connect_http("p", peer.url());
        let connect = connect
            .header_provider(async |_| Ok([("host", "a.example"), ("Host", "b.example:8080")]));
        connect.await.unwrap();
        let error = hub.call_tool("echo", ()).await.unwrap_err();
        assert!(error.to_string().contains("b.example:8080"), "{error}");
        for request in peer.seen() {
            assert_eq!(request.header("host"), Some("b.example:8080"));
        }
    });
}

#[test]
fn one_provider_for_many_servers_is_told_which_one_asks() {
    run(async || {
        let (a, b) = (Peer::polite().await, Peer::polite().await);
        let hub = AgentHubClient::builder().build();
        hub.connect_all_http([("a", a.url()), ("b", b.url())])
            .header_provider(async |request: HeaderRequest| {
                Ok([("x-for", request.server().to_owned())])
            })
            .await
            .unwrap();
        hub.reconnect_http("a", a.url())
            .header_provider(async |request: HeaderRequest| {
                Ok([("x-for", request.server().to_owned())])
            })
            .await
            .unwrap();
        for (name, peer) in [("a", &a), ("b", &b)] {
            let seen = peer.seen();
            assert!(!seen.is_empty());
            assert!(
                seen.iter()
                    .all(|request| request.header("x-for") == Some(name))
            );
        }
    });
}
