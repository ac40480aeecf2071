//! Who is let in, and what is theirs.

use std::fmt::Debug;
use std::future::pending;
use std::time::Duration;

use agent_hub_kit::testing::connect_memory;
use agent_hub_kit::{
    AgentHubClient, Denied, Error, McpServerBuilder, Principal, RawArgs, RequestHead, Tool,
    ToolContext,
};
use axum::Router;
use axum::extract::ConnectInfo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fixture::{
    Live, Served, Session, ask, bare, builder, call, channel, endless, limits, post, post_bytes,
    quiet_call, serve,
};
use crate::raw::{Answer, Raw, soon};
use crate::stated;

const ALICE: (&str, &str) = ("Authorization", "Bearer t0ken-of-alice");
const BOB: (&str, &str) = ("Authorization", "Bearer t0ken-of-bob");

fn whoami(builder: McpServerBuilder) -> McpServerBuilder {
    builder.tool(Tool::new("whoami"), async |_: RawArgs, ctx: ToolContext| {
        Ok(ctx.principal().unwrap_or("nobody").to_owned())
    })
}

fn guarded() -> McpServerBuilder {
    whoami(builder()).bearer_tokens([("alice", "t0ken-of-alice"), ("bob", "t0ken-of-bob")])
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}"#;

/// Opens a session with these credentials.
async fn open(served: &Served, who: (&str, &str)) -> Session {
    let opened = post(served.addr, &[who], INITIALIZE).await;
    assert_eq!(opened.head.status, 200, "{}", opened.head.text);
    let id = opened.head.header("mcp-session-id").unwrap().to_owned();
    let addr = served.addr;
    Session { addr, id }
}

async fn post_as(session: &Session, who: (&str, &str), body: impl AsRef<str>) -> Answer {
    let [id, version] = session.headers();
    post(session.addr, &[id, version, who], body).await
}

async fn name_of(answer: &mut Answer) -> Value {
    let mut message = answer.only().await;
    message["result"]["content"][0]["text"].take()
}

// Covers R-1703.
#[tokio::test]
async fn without_a_good_token_nothing_is_answered() {
    let metadata = "https://h.example/.well-known/oauth-protected-resource";
    let served = serve(guarded().challenge_resource_metadata(metadata)).await;
    let resource = format!("resource_metadata=\"{metadata}\"");
    let missing = format!("Bearer {resource}");
    let invalid = format!("Bearer error=\"invalid_token\", {resource}");
    let malformed = format!("Bearer error=\"invalid_request\", {resource}");
    let wrong = ("Authorization", "Bearer t0ken-of-alicf");
    let listed = stated::body(1, "tools/list", json!({}));
    let with = |headers: &[(&str, &str)]| post_bytes(served.addr, headers, INITIALIZE);
    let queried = with(&[]).replacen("/mcp", "/mcp?access_token=t0ken-of-alice", 1);
    let table = [
        ("no token", with(&[]), 401, &missing),
        ("a token in the query", queried, 401, &missing),
        ("a wrong token", with(&[wrong]), 401, &invalid),
        (
            "another scheme",
            with(&[("Authorization", "Basic YTpi")]),
            401,
            &missing,
        ),
        (
            "no token after all",
            with(&[("Authorization", "Bearer")]),
            400,
            &malformed,
        ),
        ("two of them", with(&[ALICE, BOB]), 400, &malformed),
        (
            "without a session",
            stated::bytes(served.addr, &listed, &[]),
            401,
            &missing,
        ),
        (
            "GET",
            bare("GET /mcp", &[("Mcp-Session-Id", "x")]),
            401,
            &missing,
        ),
        (
            "resumption",
            bare("GET /mcp", &[("Last-Event-ID", "s1-1")]),
            401,
            &missing,
        ),
        (
            "DELETE",
            bare("DELETE /mcp", &[("Mcp-Session-Id", "x")]),
            401,
            &missing,
        ),
        ("another method", bare("PUT /mcp", &[]), 401, &missing),
        ("OPTIONS", bare("OPTIONS /mcp", &[]), 401, &missing),
    ];
    for (case, request, status, challenge) in table {
        let mut answer = ask(&served, request).await;
        assert_eq!(answer.head.status, status, "{case}");
        assert_eq!(
            answer.head.header("www-authenticate"),
            Some(&**challenge),
            "{case}"
        );
        let body = answer.json().await;
        assert_eq!(
            (&body["id"], &body["error"]["code"]),
            (&Value::Null, &json!(-32600)),
            "{case}"
        );
        assert!(!body.to_string().contains("t0ken"), "{case}: {body}");
    }
    let mut head = Raw::connect(served.addr).await;
    head.send(bare("HEAD /mcp", &[])).await;
    assert_eq!(head.head().await.status, 401);
}

// Covers R-312, R-1703.
#[tokio::test]
async fn who_asks_is_looked_at_after_where_from_and_before_what() {
    let served = serve(guarded()).await;
    let plain = post_bytes(served.addr, &[], INITIALIZE);
    let text = plain.replacen("application/json", "text/plain", 1);
    let broken = post_bytes(served.addr, &[], "{");
    for (case, request, status) in [
        ("host", plain.replacen("127.0.0.1", "evil.example", 1), 403),
        (
            "origin",
            plain.replacen("Host", "Origin: http://evil.example\r\nHost", 1),
            403,
        ),
        ("path", plain.replacen("/mcp", "/other", 1), 404),
        ("type", text, 401),
        (
            "form",
            plain.replacen("Accept", "Accept: text/html\r\nX", 1),
            401,
        ),
        ("JSON", broken, 401),
    ] {
        assert_eq!(ask(&served, request).await.head.status, status, "{case}");
    }
}

/// Nothing of the body has been sent when the answer is there.
// Covers R-1703.
#[tokio::test]
async fn a_body_is_not_waited_for_when_there_is_no_token() {
    let served = serve(guarded()).await;
    for framing in ["Content-Length: 1073741824", "Transfer-Encoding: chunked"] {
        let head = post_bytes(served.addr, &[], "").replacen("Content-Length: 0", framing, 1);
        let mut answer = ask(&served, head).await;
        assert_eq!(answer.head.status, 401, "{framing}");
        assert_eq!(answer.json().await["error"]["code"], -32600, "{framing}");
        assert!(answer.into_raw().is_closed().await, "{framing}");
    }
}

#[tokio::test]
async fn a_connection_goes_on_after_a_refusal_if_no_body_is_left_on_it() {
    let served = serve(guarded()).await;
    let session = open(&served, ALICE).await;
    let mut raw = Raw::connect(served.addr).await;
    // Sent ahead: each is judged by its own token.
    let delete = |more: &[(&str, &str)]| bare("DELETE /mcp", more);
    let id = ("Mcp-Session-Id", &*session.id);
    let empty = post_bytes(served.addr, &[], "");
    let ahead = [
        delete(&[id]),
        empty,
        delete(&[id, BOB]),
        delete(&[id]),
        delete(&[id, ALICE]),
        delete(&[id, ALICE]),
    ];
    raw.send(ahead.concat()).await;
    for status in [401, 401, 404, 401, 200, 404] {
        let mut answer = raw.answer().await;
        answer.body().await;
        assert_eq!(answer.head.status, status);
        raw = answer.into_raw();
    }
    // What follows an unread body is never taken for a request.
    raw.send(post_bytes(served.addr, &[], &delete(&[id, ALICE])))
        .await;
    let mut answer = raw.answer().await;
    assert_eq!(answer.head.status, 401);
    answer.body().await;
    assert!(answer.into_raw().is_closed().await);
}

// Covers R-1308.
#[tokio::test]
async fn a_session_is_another_principals_business() {
    let live = Live::new();
    let server = endless(guarded(), &live)
        .dynamic_tools(true)
        .sse_replay(true);
    let served = serve(server).await;
    let session = open(&served, ALICE).await;
    let mut running = post_as(&session, ALICE, call(1, "endless", json!({}))).await;
    let begun = loop {
        let frame = running.frame().await.unwrap();
        if frame.contains("begun") {
            break frame;
        }
    };
    let event = begun
        .lines()
        .find_map(|line| line.strip_prefix("id: "))
        .unwrap();

    let id = ("Mcp-Session-Id", &*session.id);
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
    });
    let [_, version] = session.headers();
    let note = |body: &Value, who| post_bytes(served.addr, &[id, version, who], &body.to_string());
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let array = format!("[{}]", quiet_call(3, "whoami", json!({})));
    let requests = |who| {
        [
            (
                "ping",
                note(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}), who),
            ),
            (
                "a call",
                post_bytes(
                    served.addr,
                    &[id, version, who],
                    &call(2, "whoami", json!({})),
                ),
            ),
            (
                "an array",
                post_bytes(served.addr, &[id, version, who], &array),
            ),
            ("a cancel", note(&cancel, who)),
            ("a notification", note(&initialized, who)),
            ("a stream", bare("GET /mcp", &[id, version, who])),
            (
                "the rest of a stream",
                bare("GET /mcp", &[id, version, who, ("Last-Event-ID", event)]),
            ),
            ("its end", bare("DELETE /mcp", &[id, version, who])),
        ]
    };
    for (case, request) in requests(BOB) {
        let mut answer = ask(&served, request).await;
        assert_eq!(answer.head.status, 404, "{case}");
        let body = answer.json().await;
        assert_eq!(body["error"]["message"], "session not found", "{case}");
    }
    for (case, request) in requests(("X-Nothing", "x")) {
        assert_eq!(ask(&served, request).await.head.status, 401, "{case}");
    }
    // To its owner it is as it was.
    assert_eq!(live.count(), 1);
    let mut mine = post_as(&session, ALICE, quiet_call(4, "whoami", json!({}))).await;
    assert_eq!(name_of(&mut mine).await, "alice");
    let mut theirs = open(&served, BOB).await;
    let mut answer = post_as(&theirs, BOB, quiet_call(4, "whoami", json!({}))).await;
    assert_eq!(name_of(&mut answer).await, "bob");
    theirs.id.clone_from(&session.id);
    let mut answer = post_as(&theirs, BOB, quiet_call(4, "whoami", json!({}))).await;
    assert_eq!(
        (answer.head.status, answer.json().await["id"].take()),
        (404, json!(4))
    );
    let cancelled = ask(&served, note(&cancel, ALICE)).await;
    assert_eq!(cancelled.head.status, 202);
    live.reach(0).await;
}

// Covers R-509, R-1308.
#[tokio::test]
async fn a_request_without_a_session_is_its_own_principals() {
    let live = Live::new();
    let served = serve(endless(guarded(), &live).dynamic_tools(true)).await;
    let ask = async |who, id: &'static str, method, params| {
        stated::ask_with(served.addr, &[who], id, method, params).await
    };
    for (who, name) in [(ALICE, "alice"), (BOB, "bob")] {
        let params = stated::quiet("whoami", json!({}));
        let mut answer = ask(who, "same", "tools/call", params).await;
        assert_eq!(name_of(&mut answer).await, name);
    }
    let params = stated::streaming("endless", json!({}));
    let mut running = ask(ALICE, "same", "tools/call", params).await;
    assert!(running.frame().await.unwrap().contains("begun"));
    let mut listening = ask(ALICE, "heard", "subscriptions/listen", stated::tools()).await;
    assert!(listening.frame().await.unwrap().contains("acknowledged"));
    for id in ["same", "heard"] {
        let cancel = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id},
        });
        let headers = [
            BOB,
            stated::VERSION,
            ("Mcp-Method", "notifications/cancelled"),
        ];
        let told = post(served.addr, &headers, cancel.to_string()).await;
        assert_eq!(told.head.status, 202, "{id}");
    }
    let params = stated::streaming("endless", json!({}));
    let mut theirs = ask(BOB, "same", "tools/call", params).await;
    assert!(theirs.frame().await.unwrap().contains("begun"));
    assert_eq!(live.count(), 2);
    drop(theirs);
    live.reach(1).await;
    drop((running, listening));
    live.reach(0).await;

    // A list may depend on who asks, so nobody shares it unless the server says so.
    for (server, scope) in [
        (builder(), "public"),
        (guarded(), "private"),
        (
            guarded().cache_scope(agent_hub_kit::CacheScope::Public),
            "public",
        ),
    ] {
        let served = serve(server).await;
        let mut answer = stated::ask_with(served.addr, &[ALICE], 1, "tools/list", json!({})).await;
        assert_eq!(answer.json().await["result"]["cacheScope"], scope);
    }
}

/// One can take the place of the other.
#[tokio::test]
async fn tokens_without_a_name_are_one_client() {
    let served = serve(whoami(builder()).bearer_token("0ld").bearer_token("n3w")).await;
    let (old, new) = (
        ("Authorization", "Bearer 0ld"),
        ("Authorization", "Bearer n3w"),
    );
    let session = open(&served, old).await;
    let mut answer = post_as(&session, new, quiet_call(1, "whoami", json!({}))).await;
    assert_eq!(name_of(&mut answer).await, "nobody");
}

async fn by_path(head: RequestHead) -> Result<Principal, Denied> {
    match head
        .headers()
        .get("x-fate")
        .and_then(|fate| fate.to_str().ok())
    {
        Some("forbidden") => Err(Denied::forbidden().scope("tools:call")),
        Some("unavailable") => Err(Denied::unavailable()),
        Some("malformed") => Err(Denied::malformed().description("no fate")),
        Some("panic") => panic!("the hook was told to"),
        Some("never") => pending().await,
        _ => {
            let name = head.bearer_token().ok_or_else(Denied::unauthorized)?;
            Ok(Principal::new(name))
        }
    }
}

// Covers R-1703.
#[tokio::test]
async fn a_hook_lets_in_or_says_why_not() {
    let limits = limits(|limits| limits.authorize_timeout = Duration::from_millis(20));
    let served = serve(whoami(builder()).authorize(by_path).limits(limits)).await;
    let call = stated::body(1, "tools/call", stated::quiet("whoami", json!({})));
    let carol = ("Authorization", "Bearer carol");
    for (fate, status, code, header) in [
        (
            "forbidden",
            403,
            -32600,
            "Bearer error=\"insufficient_scope\", scope=\"tools:call\"",
        ),
        (
            "malformed",
            400,
            -32600,
            "Bearer error=\"invalid_request\", error_description=\"no fate\"",
        ),
        ("panic", 500, -32603, ""),
        ("never", 503, -32603, ""),
        ("unavailable", 503, -32603, ""),
    ] {
        let request = stated::bytes(served.addr, &call, &[carol, ("X-Fate", fate)]);
        let mut answer = ask(&served, request).await;
        assert_eq!(answer.head.status, status, "{fate}");
        let challenge = answer.head.header("www-authenticate").unwrap_or_default();
        assert_eq!(challenge, header, "{fate}");
        let retry = answer.head.header("retry-after");
        assert_eq!(retry, (status == 503).then_some("1"), "{fate}");
        let body = answer.json().await;
        assert_eq!(body["error"]["code"], code, "{fate}: {body}");
        assert!(!body.to_string().contains("carol"), "{fate}: {body}");
    }
    let mut answer = ask(&served, stated::bytes(served.addr, &call, &[carol])).await;
    assert_eq!(name_of(&mut answer).await, "carol");
    assert_eq!(
        ask(&served, stated::bytes(served.addr, &call, &[]))
            .await
            .head
            .status,
        401
    );
}

#[tokio::test]
async fn a_hook_ends_with_its_client_and_knows_from_where_it_asks() {
    struct TellsEnd(crate::fixture::Told<()>);
    impl Drop for TellsEnd {
        fn drop(&mut self) {
            self.0.tell(());
        }
    }
    let (begun, mut begins) = channel();
    let (ended, mut ends) = channel();
    let server = builder().authorize(move |head: RequestHead| {
        begun.tell(head.peer_addr());
        let end = TellsEnd(ended.clone());
        async move {
            let _end = end;
            pending().await
        }
    });
    let served = serve(server).await;
    let socket = tokio::net::TcpStream::connect(served.addr).await.unwrap();
    let near = socket.local_addr().unwrap();
    socket
        .try_write(bare("DELETE /mcp", &[]).as_bytes())
        .unwrap();
    assert_eq!(soon(begins.recv()).await.unwrap(), Some(near));
    drop(socket);
    soon(ends.recv()).await.unwrap();
}

#[tokio::test]
async fn a_mounted_server_asks_too_and_hears_what_the_app_knows() {
    #[derive(Clone)]
    struct User(&'static str);
    let server = whoami(builder()).authorize(async |head: RequestHead| {
        let ConnectInfo(peer) = head
            .extensions()
            .get::<ConnectInfo<std::net::SocketAddr>>()
            .ok_or_else(Denied::unavailable)?;
        assert!(peer.ip().is_loopback() && head.peer_addr().is_none());
        let user = head.extensions().get::<User>();
        user.map(|user| user.0.into())
            .ok_or_else(Denied::unauthorized)
    });
    let service = server.build().into_service().unwrap();
    let app = Router::new()
        .route_service("/known", service.clone())
        .layer(axum::Extension(User("dave")))
        .route_service("/unknown", service);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<std::net::SocketAddr>();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let hub = AgentHubClient::builder().build();
    hub.connect_http("known", format!("http://{addr}/known"))
        .await
        .unwrap();
    let result = hub.call_tool("whoami", ()).await.unwrap();
    assert_eq!(result.as_str(), Some("dave"));
    let refused = hub
        .connect_http("unknown", format!("http://{addr}/unknown"))
        .await;
    let refused = refused.unwrap_err();
    let Error::Connect { source, .. } = refused else {
        panic!("{refused:?}");
    };
    assert!(
        matches!(*source, Error::Http { status: 401, .. }),
        "{source:?}"
    );
    hub.close().await;
    serving.abort();
}

#[tokio::test]
async fn the_hub_shows_its_token_and_a_pipe_in_memory_is_not_asked() {
    let served = serve(guarded()).await;
    let url = format!("http://{}/mcp", served.addr);
    let hub = AgentHubClient::builder().build();
    hub.connect_http("a", &url)
        .bearer_token("t0ken-of-alice")
        .await
        .unwrap();
    assert!(
        hub.connect_http("b", &url)
            .bearer_token("t0ken")
            .await
            .is_err()
    );
    connect_memory(&hub, "m", &guarded().build()).await.unwrap();
    for (server, name) in [("a", "alice"), ("m", "nobody")] {
        let result = hub.call_tool("whoami", ()).server(server).await.unwrap();
        assert_eq!(result.as_str(), Some(name), "{server}");
    }
    hub.close().await;
}

#[tokio::test]
async fn nothing_that_can_be_printed_holds_a_token() {
    fn shown(what: &str, value: &dyn Debug) {
        for text in [format!("{value:?}"), format!("{value:#?}")] {
            assert!(!text.contains("t0ken"), "{what}: {text}");
        }
    }
    shown("builder", &guarded());
    let server = guarded().bearer_token("t0ken").build();
    shown("server", &server);
    let bound = server.bind("127.0.0.1:0").await.unwrap();
    shown("bound", &bound);
    shown("handle", &bound.handle());
    shown("service", &server.into_service().unwrap());
}

#[tokio::test]
async fn what_could_never_let_anybody_in_is_told_when_the_server_is_to_serve() {
    let hooked = || builder().authorize(async |_| Ok("a".into()));
    for (server, says) in [
        (builder().bearer_token(""), "bearer token 1 is empty"),
        (builder().bearer_token("t0ken\n"), "bearer token 1"),
        (
            builder().bearer_tokens([("a", "t0ken"), ("b", "t0ken")]),
            "another principal",
        ),
        (hooked().bearer_token("t0ken"), "exclude each other"),
        (
            builder().bearer_tokens(Vec::<(String, String)>::new()),
            "there is none",
        ),
        (builder().challenge_scope("a"), "nothing that asks"),
        (hooked().challenge_scope("a\"b"), "challenge_scope"),
        (
            hooked().challenge_resource_metadata("a\nb"),
            "challenge_resource_metadata",
        ),
    ] {
        let server = server.build();
        let bound = server.bind("127.0.0.1:0").await.map(drop);
        for made in [bound, server.into_service().map(drop)] {
            let Err(error @ Error::Config { .. }) = made else {
                panic!("{says}: {made:?}");
            };
            assert!(error.to_string().contains(says), "{error}");
            assert!(!format!("{error:?}").contains("t0ken"), "{error:?}");
        }
    }
}
