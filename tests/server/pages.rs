//! Pages in a browser: which of them may ask, and what they are let see.

use agent_hub_kit::{Limits, McpServerBuilder, RawArgs, Tool, ToolContext};
use serde_json::json;

use crate::fixture::{ask, bare, builder, call, echo, limits, post_bytes, quiet_call, serve};
use crate::raw::Head;
use crate::stated;

const PAGE: (&str, &str) = ("Origin", "https://app.example");
const TOKEN: (&str, &str) = ("Authorization", "Bearer t0ken");

/// Open to one page, and to who has the token.
fn paged() -> McpServerBuilder {
    talks(echo(builder()))
        .allowed_origins(["https://app.example"])
        .bearer_token("t0ken")
}

fn talks(builder: McpServerBuilder) -> McpServerBuilder {
    builder.tool(Tool::new("talk"), async |_: RawArgs, ctx: ToolContext| {
        ctx.streamer("talk").text("a word").await?;
        Ok("done")
    })
}

fn names(head: &Head, name: &str) -> Vec<String> {
    let list = head.header(name).unwrap_or_default();
    list.split(',')
        .map(|name| name.trim().to_ascii_lowercase())
        .collect()
}

/// The names of all headers that are for browsers.
fn for_browsers(head: &Head) -> Vec<&str> {
    let names = head.text.lines().filter_map(|line| line.split(':').next());
    names
        .filter(|name| name.to_ascii_lowercase().starts_with("access-control"))
        .collect()
}

const ASKS: (&str, &str) = (
    "Access-Control-Request-Headers",
    "content-type,mcp-protocol-version,mcp-session-id,mcp-method,mcp-name,last-event-id,\
     authorization,mcp-param-region",
);

#[tokio::test]
async fn a_browser_that_asks_beforehand_needs_no_token() {
    let served = serve(paged()).await;
    let method = ("Access-Control-Request-Method", "POST");
    for (line, headers) in [
        ("OPTIONS /mcp", &[PAGE, method, ASKS][..]),
        ("OPTIONS /mcp", &[PAGE, ASKS]),
        // So that the page can read that there is nothing.
        ("OPTIONS /other", &[PAGE, method, ASKS]),
    ] {
        let mut answer = ask(&served, bare(line, headers)).await;
        assert_eq!(
            (answer.head.status, &*answer.body().await),
            (204, ""),
            "{line}"
        );
        let head = &answer.head;
        assert_eq!(head.header("access-control-allow-origin"), Some(PAGE.1));
        let allowed = names(head, "access-control-allow-headers");
        for name in ASKS.1.split(',').chain(["accept"]) {
            assert!(
                allowed.iter().any(|allowed| allowed == name),
                "{name} in {allowed:?}"
            );
        }
        let methods = names(head, "access-control-allow-methods");
        assert_eq!(methods, ["get", "post", "delete", "options"]);
        assert!(
            names(head, "vary").contains(&"origin".to_owned()),
            "{}",
            head.text
        );
        assert!(head.header("access-control-max-age").is_some());
        assert_eq!(head.header("access-control-allow-credentials"), None);
        assert_eq!(head.header("access-control-allow-private-network"), None);
    }
    let local = ("Access-Control-Request-Private-Network", "true");
    let answer = ask(&served, bare("OPTIONS /mcp", &[PAGE, method, local])).await;
    let allows = answer.head.header("access-control-allow-private-network");
    assert_eq!(allows, Some("true"));
}

// Covers R-1210, R-1701.
#[tokio::test]
async fn a_page_that_is_not_allowed_is_refused_and_told_nothing() {
    let served = serve(echo(builder())).await;
    let other = serve(paged()).await;
    let method = ("Access-Control-Request-Method", "POST");
    for (case, served, line, origin, status) in [
        ("off", &served, "OPTIONS /mcp", Some(PAGE), 403),
        ("off", &served, "POST /mcp", Some(PAGE), 403),
        ("off", &served, "GET /mcp", Some(PAGE), 403),
        (
            "another",
            &other,
            "OPTIONS /mcp",
            Some(("Origin", "https://app.example:8443")),
            403,
        ),
        (
            "sandboxed",
            &other,
            "OPTIONS /mcp",
            Some(("Origin", "null")),
            403,
        ),
        ("no page", &served, "OPTIONS /mcp", None, 405),
        ("no page", &other, "OPTIONS /mcp", None, 401),
        ("no page", &other, "GET /other", None, 404),
    ] {
        let headers: Vec<_> = [method, ASKS].into_iter().chain(origin).collect();
        let answer = ask(served, bare(line, &headers)).await;
        let case = format!("{case}, {line}");
        assert_eq!(answer.head.status, status, "{case}");
        assert_eq!(for_browsers(&answer.head), [""; 0], "{case}");
        // What a cache keeps for others is not to be shown to a page.
        let varies = answer.head.header("vary") == Some("origin");
        let names_pages = std::ptr::eq(served, &other);
        assert_eq!(varies, origin.is_none() && names_pages, "{case}");
    }
}

fn seen_by_page(case: &str, head: &Head, page: &str) {
    assert_eq!(
        head.header("access-control-allow-origin"),
        Some(page),
        "{case}: {}",
        head.text
    );
    let exposed = names(head, "access-control-expose-headers");
    for name in [
        "mcp-session-id",
        "mcp-protocol-version",
        "www-authenticate",
        "retry-after",
    ] {
        assert!(
            exposed.iter().any(|exposed| exposed == name),
            "{case}: {name}"
        );
    }
    assert_eq!(head.header("vary"), Some("origin"), "{case}");
    assert_eq!(
        head.header("access-control-allow-credentials"),
        None,
        "{case}"
    );
}

#[tokio::test]
async fn a_page_can_read_every_answer_errors_included() {
    let small = |limits: &mut Limits| limits.max_server_message_bytes = 1000;
    let served = serve(paged().dynamic_tools(true).limits(limits(small))).await;
    let full = serve(paged().limits(limits(|limits| limits.max_calls = 0))).await;
    let forbidding = talks(builder())
        .allowed_origins([PAGE.1])
        .authorize(async |_| Err(agent_hub_kit::Denied::forbidden()));
    let forbidding = serve(forbidding).await;
    let initialize = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {},
                   "clientInfo": {"name": "page", "version": "0"}},
    });
    let initialize = initialize.to_string();
    let opening = post_bytes(served.addr, &[PAGE, TOKEN], &initialize);
    let opened = ask(&served, &opening).await;
    seen_by_page("initialize", &opened.head, PAGE.1);
    let id = opened.head.header("mcp-session-id").unwrap().to_owned();
    let session = [PAGE, TOKEN, ("Mcp-Session-Id", &*id)];
    let within = |body: &str| post_bytes(served.addr, &session, body);
    let stated = |body: &str| stated::bytes(served.addr, body, &[PAGE, TOKEN]);
    let spoken = stated::body(1, "tools/call", stated::streaming("talk", json!({})));
    let quiet = stated::body(1, "tools/call", stated::quiet("echo", json!({"text": "x"})));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let sse = ("Accept", "text/event-stream");
    let get = bare("GET /mcp", &[session[0], session[1], session[2], sse]);
    let lost = bare("DELETE /mcp", &[PAGE, TOKEN, ("Mcp-Session-Id", "lost")]);
    let unasked = post_bytes(served.addr, &[PAGE], &initialize);
    let twice = opening.replacen("Host", "Transfer-Encoding: chunked\r\nHost", 1);
    let busy = stated::bytes(full.addr, &quiet, &[PAGE, TOKEN]);
    let forbidden = post_bytes(forbidding.addr, &[PAGE], &initialize);
    let table = [
        ("a result", &served, stated(&quiet), 200),
        ("a stream", &served, stated(&spoken), 200),
        (
            "a result in a session",
            &served,
            within(&quiet_call(1, "echo", json!({"text": "x"}))),
            200,
        ),
        (
            "a stream in a session",
            &served,
            within(&call(2, "talk", json!({}))),
            200,
        ),
        ("the stream of a session", &served, get, 200),
        ("a notification", &served, within(note), 202),
        ("broken JSON", &served, within("{"), 400),
        ("two framings", &served, twice, 400),
        ("no token", &served, unasked, 401),
        ("not enough", &forbidding, forbidden, 403),
        (
            "another path",
            &served,
            opening.replacen("/mcp", "/other", 1),
            404,
        ),
        ("a lost session", &served, lost, 404),
        (
            "another method",
            &served,
            bare("PUT /mcp", &[PAGE, TOKEN]),
            405,
        ),
        (
            "no form",
            &served,
            opening.replacen("application/json, text", "text/html, image", 1),
            406,
        ),
        ("too long", &served, within(&" ".repeat(1001)), 413),
        (
            "another type",
            &served,
            opening.replacen("application/json", "text/plain", 1),
            415,
        ),
        ("busy", &full, busy, 503),
    ];
    for (case, served, request, status) in table {
        let answer = ask(served, request).await;
        assert_eq!(answer.head.status, status, "{case}: {}", answer.head.text);
        seen_by_page(case, &answer.head, PAGE.1);
        if case.contains("stream") {
            assert!(answer.head.is_sse(), "{case}: {}", answer.head.text);
        }
    }
}

// Covers R-1701.
#[tokio::test]
async fn a_page_of_this_machine_sees_nothing_unless_it_is_named() {
    let page = ("Origin", "http://localhost:6274");
    let call = stated::body(1, "tools/call", stated::quiet("echo", json!({"text": "x"})));
    let served = serve(echo(builder())).await;
    // No browser sends a call of its own accord: this one stands for a program on this machine.
    for (request, status) in [
        (bare("OPTIONS /mcp", &[page, ASKS]), 405),
        (stated::bytes(served.addr, &call, &[page]), 200),
        (stated::bytes(served.addr, &call, &[]), 200),
    ] {
        let answer = ask(&served, request).await;
        assert_eq!(answer.head.status, status, "{}", answer.head.text);
        assert_eq!(for_browsers(&answer.head), [""; 0]);
    }
    let served = serve(echo(builder()).allowed_origins([page.1])).await;
    let answer = ask(&served, bare("OPTIONS /mcp", &[page, ASKS])).await;
    assert_eq!(answer.head.status, 204);
    let answer = ask(&served, stated::bytes(served.addr, &call, &[page])).await;
    seen_by_page("named", &answer.head, page.1);
}

#[tokio::test]
async fn a_server_that_checks_nothing_still_names_the_pages_that_may_see() {
    let server = echo(builder())
        .allowed_origins([PAGE.1])
        .allow_any_host_and_origin();
    let served = serve(server).await;
    let call = stated::body(1, "tools/call", stated::quiet("echo", json!({"text": "x"})));
    let ask_from = |origin| ask(&served, stated::bytes(served.addr, &call, &[origin]));
    seen_by_page("listed", &ask_from(PAGE).await.head, PAGE.1);
    let other = ask_from(("Origin", "https://other.example")).await;
    assert_eq!(other.head.status, 200);
    assert_eq!(for_browsers(&other.head), [""; 0]);
}
