//! The endpoint inside a server of somebody else's.

use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, EventKind, Limits, McpBody, McpServerBuilder, McpService, RawArgs, Tool,
    ToolContext,
};
use axum::Router;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tower_service::Service;

use crate::fixture::{BOTH, Gate, Live, builder, endless};
use crate::raw::soon;

fn mounted(builder: McpServerBuilder) -> McpService {
    builder.build().into_service().unwrap()
}

fn request(path: &str, session: Option<&str>, body: Value) -> Request<Full<bytes::Bytes>> {
    let mut request = Request::post(path)
        .header("host", "agent.test")
        .header("accept", BOTH)
        .header("content-type", "application/json");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    request.body(body.to_string().into()).unwrap()
}

fn ping(session: &str) -> Request<Full<bytes::Bytes>> {
    let body = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    request("/", Some(session), body)
}

async fn ask(service: &McpService, request: Request<Full<bytes::Bytes>>) -> Response<McpBody> {
    service.clone().call(request).await.unwrap()
}

/// Opens a session at any path.
async fn open(service: &McpService) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "raw", "version": "0"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let opened = ask(service, request("/any/path", None, body)).await;
    assert_eq!(opened.status(), 200);
    let id = opened.headers()["mcp-session-id"].to_str().unwrap();
    id.to_owned()
}

fn call(session: &str, tool: &str) -> Request<Full<bytes::Bytes>> {
    let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": 1}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    request("/", Some(session), body)
}

/// The next piece of a stream.
async fn piece(answer: &mut Response<McpBody>) -> Option<String> {
    let frame = soon(answer.body_mut().frame()).await?.unwrap();
    Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
}

/// A tool that says one word, and the next when it may.
fn halting(gate: &Gate) -> McpService {
    mounted(builder().tool_with(
        Tool::new("halting"),
        gate.clone(),
        async |gate: Gate, _: RawArgs, ctx: ToolContext| {
            let stream = ctx.streamer("t");
            stream.text("one").await?;
            gate.passed().await;
            stream.text("two").await?;
            Ok("done")
        },
    ))
}

#[tokio::test]
async fn an_axum_app_streams_each_event_as_it_comes() {
    let (routed, nested) = (Gate::new(), Gate::new());
    let app = Router::new()
        .route("/", axum::routing::get(async || "a page"))
        .route_service("/by/route", halting(&routed))
        .nest_service("/by/nest", halting(&nested));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let hub = AgentHubClient::builder().build();
    for (path, gate) in [("by/route", routed), ("by/nest", nested)] {
        let url = format!("http://{addr}/{path}");
        hub.connect_http(path, url).await.unwrap();
        let mut events = hub.call_tool_stream("halting", ()).server(path);
        let first = soon(events.next()).await.unwrap();
        assert_eq!(first.text(), Some("one"), "{path}");
        gate.open();
        let second = soon(events.next()).await.unwrap();
        assert_eq!(second.text(), Some("two"), "{path}");
        let last = soon(events.next()).await.unwrap();
        assert_eq!(last.kind, EventKind::Result, "{path}");
    }
    hub.close().await;
    serving.abort();
}

#[tokio::test]
async fn hyper_takes_it_as_its_own_kind_of_service() {
    let service = mounted(builder());
    let answer = hyper::service::Service::call(&service, ping("nobody's"))
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (&body["id"], &body["error"]["code"]),
        (&json!(9), &json!(-32600))
    );
}

// Covers R-1701.
#[tokio::test]
async fn hosts_count_only_if_they_are_named_and_origins_always() {
    let origin = |origin: &'static str| {
        let mut asked = ping("nobody's");
        asked
            .headers_mut()
            .insert("origin", origin.parse().unwrap());
        asked
    };
    let plain = mounted(builder());
    let named = mounted(builder().allowed_hosts(["agent.test"]));
    let other = mounted(builder().allowed_hosts(["other.test"]));
    let pages = mounted(builder().allowed_origins(["https://app.test"]));
    let open = mounted(builder().allow_any_host_and_origin());
    for (case, service, asked, status) in [
        ("any host", &plain, ping("nobody's"), 404),
        ("a named host", &named, ping("nobody's"), 404),
        ("another host", &other, ping("nobody's"), 403),
        ("a page", &plain, origin("https://app.test"), 403),
        ("a local page", &plain, origin("http://localhost"), 403),
        ("a named page", &pages, origin("https://app.test"), 404),
        ("no check", &open, origin("https://app.test"), 404),
    ] {
        assert_eq!(ask(service, asked).await.status(), status, "{case}");
    }
}

#[test]
fn a_faulty_server_is_no_service() {
    for builder in [
        builder().path("mcp"),
        builder().allowed_hosts(["a b"]),
        builder().allowed_origins(["app.test"]),
    ] {
        assert!(builder.build().into_service().is_err());
    }
}

#[tokio::test]
async fn the_last_clone_ends_the_calls() {
    let live = Live::new();
    let service = mounted(endless(builder(), &live));
    let session = open(&service).await;
    let mut answer = ask(&service, call(&session, "endless")).await;
    assert!(piece(&mut answer).await.unwrap().contains("begun"));

    let clone = service.clone();
    drop(service);
    assert_eq!(ask(&clone, ping(&session)).await.status(), 200);
    assert_eq!(live.count(), 1);
    drop(clone);
    live.reach(0).await;
    let end = piece(&mut answer).await.unwrap();
    assert!(end.contains("the server is shutting down"), "{end}");
    assert_eq!(piece(&mut answer).await, None);
}

fn stated(method: &'static str, params: Value) -> Request<Full<bytes::Bytes>> {
    let name = params["name"].as_str().map(str::to_owned);
    let body = crate::stated::body(1, method, params);
    let mut request = request("/", None, serde_json::from_str(&body).unwrap());
    let headers = request.headers_mut();
    headers.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
    headers.insert("mcp-method", method.parse().unwrap());
    if let Some(name) = name {
        headers.insert("mcp-name", name.parse().unwrap());
    }
    request
}

// Covers R-311, R-905.
#[tokio::test]
async fn who_needs_no_session_is_served_beside_those_who_do() {
    let live = Live::new();
    let service = mounted(endless(builder(), &live).dynamic_tools(true));
    let session = open(&service).await;
    let params = || crate::stated::streaming("endless", json!({}));
    // Gone before the head, and between two events.
    let unheard = tokio::spawn({
        let service = service.clone();
        let mut params = params();
        params["_meta"] = json!({});
        async move { ask(&service, stated("tools/call", params)).await.status() }
    });
    live.reach(1).await;
    unheard.abort();
    live.reach(0).await;
    let mut answer = ask(&service, stated("tools/call", params())).await;
    assert!(piece(&mut answer).await.unwrap().contains("begun"));
    drop(answer);
    live.reach(0).await;

    let mut listening = ask(
        &service,
        stated("subscriptions/listen", crate::stated::tools()),
    )
    .await;
    assert!(
        piece(&mut listening)
            .await
            .unwrap()
            .contains("acknowledged")
    );
    assert_eq!(ask(&service, ping(&session)).await.status(), 200);
    // The end of the last clone is the end of all.
    let mut answer = ask(&service, stated("tools/call", params())).await;
    assert!(piece(&mut answer).await.unwrap().contains("begun"));
    drop(service);
    live.reach(0).await;
    let end = piece(&mut answer).await.unwrap();
    assert!(end.contains("the server is shutting down"), "{end}");
    assert_eq!(piece(&mut answer).await, None);
    let end = piece(&mut listening).await.unwrap();
    assert!(end.contains(r#""resultType":"complete""#), "{end}");
    assert_eq!(piece(&mut listening).await, None);
}

/// Nothing but requests gives a mounted server its turn.
// Covers R-1306.
#[tokio::test(start_paused = true)]
async fn idle_sessions_expire_without_a_loop_of_the_servers_own() {
    let after = Limits::default().session_idle_timeout;
    let service = mounted(builder());
    let idle = open(&service).await;
    tokio::time::advance(after / 2).await;
    let used = open(&service).await;
    tokio::time::advance(after / 2).await;
    assert_eq!(ask(&service, ping(&idle)).await.status(), 404);
    assert_eq!(ask(&service, ping(&used)).await.status(), 200);
    tokio::time::advance(after - Duration::from_millis(1)).await;
    assert_eq!(ask(&service, ping(&used)).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_stream_is_open_is_not_idle() {
    let after = Limits::default().session_idle_timeout;
    let service = mounted(builder().dynamic_tools(true));
    let session = open(&service).await;
    let stream = Request::get("/")
        .header("host", "agent.test")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session)
        .body(Full::default())
        .unwrap();
    let stream = ask(&service, stream).await;
    assert_eq!(stream.status(), 200);
    tokio::time::advance(2 * after).await;
    assert_eq!(ask(&service, ping(&session)).await.status(), 200);
    tokio::time::advance(2 * after).await;
    // From here on it is, for as long as any other.
    drop(stream);
    tokio::time::advance(after - Duration::from_millis(1)).await;
    assert_eq!(ask(&service, ping(&session)).await.status(), 200);
    tokio::time::advance(after).await;
    assert_eq!(ask(&service, ping(&session)).await.status(), 404);
}

/// The time for which a call goes on alone is that since its client was last there.
#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_saves_its_call() {
    let live = Live::new();
    let service = mounted(endless(builder().sse_replay(true), &live));
    let session = open(&service).await;
    let mut stream = ask(&service, call(&session, "endless")).await;
    assert!(piece(&mut stream).await.unwrap().contains("begun"));
    let patience = Limits::default().detached_call_timeout;
    let second = Duration::from_secs(1);
    for _ in 0..2 {
        drop(stream);
        sleep(patience - second).await;
        let get = Request::get("/")
            .header("host", "agent.test")
            .header("mcp-session-id", &session)
            .header("last-event-id", "s1-1")
            .body(Full::default());
        stream = ask(&service, get.unwrap()).await;
        assert_eq!(stream.status(), 200);
        sleep(patience * 3).await;
        assert_eq!(live.count(), 1);
    }
    drop(stream);
    sleep(patience - second).await;
    assert_eq!(live.count(), 1);
    sleep(second * 2).await;
    assert_eq!(live.count(), 0);
}

/// Also if it left again before anybody looked.
#[tokio::test(start_paused = true)]
async fn a_client_that_comes_and_goes_saves_its_call_as_well() {
    let live = Live::new();
    let service = mounted(endless(builder().sse_replay(true), &live));
    let session = open(&service).await;
    let mut stream = ask(&service, call(&session, "endless")).await;
    assert!(piece(&mut stream).await.unwrap().contains("begun"));
    drop(stream);
    let (patience, second) = (
        Limits::default().detached_call_timeout,
        Duration::from_secs(1),
    );
    for _ in 0..2 {
        sleep(patience - second).await;
        let get = Request::get("/")
            .header("host", "agent.test")
            .header("mcp-session-id", &session)
            .header("last-event-id", "s1-1")
            .body(Full::default());
        drop(ask(&service, get.unwrap()).await);
    }
    sleep(patience - second).await;
    assert_eq!(live.count(), 1);
    sleep(second * 2).await;
    assert_eq!(live.count(), 0);
}
