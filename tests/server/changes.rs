//! Tools that come and go while a server serves, and the stream that tells of it.

use std::net::SocketAddr;
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Era, Error, McpServer, RawArgs, Tool, ToolContext, testing};
use serde_json::{Value, json};

use crate::fixture::{
    Gate, Session, builder, call, echo, gated, limits, on_both_runtimes, quiet_call, serve,
    serve_built,
};
use crate::raw::{Answer, Raw, soon};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

fn add(server: &McpServer, name: &str) -> agent_hub_kit::Result<()> {
    server.add_tool(Tool::new(name), async |_: RawArgs, _: ToolContext| {
        Ok("new")
    })
}

fn dynamic() -> McpServer {
    echo(builder()).dynamic_tools(true).build()
}

async fn get(addr: SocketAddr, headers: &[(&str, &str)]) -> Answer {
    let mut raw = Raw::connect(addr).await;
    let lines: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    raw.send(format!("GET /mcp HTTP/1.1\r\nHost: {addr}\r\n{lines}\r\n"))
        .await;
    raw.answer().await
}

async fn confirm(session: &Session) {
    assert_eq!(session.post(INITIALIZED).await.head.status, 202);
}

async fn names(session: &Session) -> Vec<String> {
    let listed = session.post(LIST).await.json().await;
    let tools = listed["result"]["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn hear(stream: &mut Answer) {
    let message = soon(stream.message()).await.unwrap();
    assert_eq!(
        message,
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    );
}

// Covers R-409, R-1314.
#[tokio::test]
async fn the_tools_of_a_server_are_fixed_unless_it_says_otherwise() {
    let server = echo(builder()).build();
    for refused in [add(&server, "new"), server.remove_tool("echo")] {
        let Err(Error::Config { detail, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert!(detail.contains("dynamic_tools(true)"), "{detail}");
    }
    let served = serve_built(&server).await;
    let opened = served.initialize().await.json().await;
    assert_eq!(opened["result"]["capabilities"], json!({"tools": {}}));
    let session = served.session().await;
    let [id, version] = session.headers();
    let refused = get(served.addr, &[id, version, ("Accept", "text/event-stream")]).await;
    assert_eq!(refused.head.status, 405);
    assert_eq!(refused.head.header("allow"), Some("POST, DELETE"));
}

#[tokio::test]
async fn a_tool_that_cannot_be_is_not_added() {
    let server = dynamic();
    for (name, text) in [("echo", "is taken"), ("a b", "tool name"), ("", "name")] {
        let Err(Error::Config { detail, .. }) = add(&server, name) else {
            panic!("{name}")
        };
        assert!(detail.contains(text), "{detail}");
    }
    let gone = server.remove_tool("other").unwrap_err();
    assert!(gone.to_string().contains("no tool `other`"), "{gone}");
}

// Covers R-409, R-703, R-1001.
async fn tools_come_and_go() {
    let server = dynamic();
    let served = serve_built(&server).await;
    let opened = served.initialize().await.json().await;
    let declared = json!({"tools": {"listChanged": true}});
    assert_eq!(opened["result"]["capabilities"], declared);
    let session = served.session().await;
    confirm(&session).await;
    let mut stream = session.stream().await;
    add(&server, "new").unwrap();
    hear(&mut stream).await;
    assert_eq!(names(&session).await, ["echo", "new"]);
    assert_eq!(
        session.result("new", json!({})).await["content"][0]["text"],
        "new"
    );
    server.remove_tool("echo").unwrap();
    hear(&mut stream).await;
    assert_eq!(names(&session).await, ["new"]);
    let unknown = session
        .post(quiet_call(2, "echo", json!({"text": "a"})))
        .await
        .json()
        .await;
    assert_eq!(unknown["error"]["code"], -32602);
    // The name is free again, and its place is the last one.
    add(&server, "echo").unwrap();
    hear(&mut stream).await;
    assert_eq!(names(&session).await, ["new", "echo"]);
}

async fn a_running_call_of_a_removed_tool_goes_on() {
    let gate = Gate::new();
    let server = gated(builder(), &gate).dynamic_tools(true).build();
    let served = serve_built(&server).await;
    let session = served.session().await;
    // The head of the answer is there once the call runs.
    let mut running = session.call(1, "gated", json!({})).await;
    server.remove_tool("gated").unwrap();
    let gone = session.post(call(2, "gated", json!({}))).await.json().await;
    assert_eq!(gone["error"]["code"], -32602);
    gate.open();
    let last = soon(running.message()).await.unwrap();
    assert_eq!(last["result"]["content"][0]["text"], "released");
}

// Covers R-1001, R-1315.
async fn a_change_is_told_when_the_client_is_ready_and_listens() {
    let server = dynamic();
    let served = serve_built(&server).await;
    // Nobody is ready: what changed is told later.
    let session = served.session().await;
    let mut early = session.stream().await;
    add(&server, "a").unwrap();
    confirm(&session).await;
    hear(&mut early).await;
    // Nobody listens, then one does, who is told once.
    let session = served.session().await;
    confirm(&session).await;
    add(&server, "b").unwrap();
    add(&server, "c").unwrap();
    let mut late = session.stream().await;
    hear(&mut late).await;
    add(&server, "d").unwrap();
    hear(&mut late).await;
    // The first session was told of all that as well.
    hear(&mut early).await;
}

// Covers R-1314.
async fn the_newest_stream_wins() {
    let server = dynamic();
    let served = serve_built(&server).await;
    let session = served.session().await;
    confirm(&session).await;
    let mut old = session.stream().await;
    let mut new = session.stream().await;
    assert_eq!(soon(old.frame()).await, None, "the old one ends");
    add(&server, "new").unwrap();
    hear(&mut new).await;
    // Its own end changes nothing for the session.
    drop(new);
    let mut again = session.stream().await;
    add(&server, "newer").unwrap();
    hear(&mut again).await;
    session.delete().await;
    assert_eq!(soon(again.frame()).await, None, "ends with its session");
}

on_both_runtimes!(
    tools_come_and_go,
    a_running_call_of_a_removed_tool_goes_on,
    a_change_is_told_when_the_client_is_ready_and_listens,
    the_newest_stream_wins,
);

// Covers R-1305, R-1314.
#[tokio::test]
async fn a_stream_is_for_those_who_ask_for_it_well() {
    let server = dynamic();
    let served = serve_built(&server).await;
    let session = served.session().await;
    let id = ("Mcp-Session-Id", &*session.id);
    let sse = ("Accept", "text/event-stream");
    let version = |text| ("MCP-Protocol-Version", text);
    let table: &[(&[(&str, &str)], u16)] = &[
        (&[sse], 400),
        (&[sse, ("Mcp-Session-Id", "x")], 404),
        (&[sse, id, version("1999-01-01")], 400),
        (&[id, ("Accept", "application/json")], 406),
        (&[id, ("Accept", "text/event-stream;q=0")], 406),
        (&[id, sse, ("Last-Event-ID", "1")], 400),
        (&[id, sse], 200),
        (&[id, sse, version("2025-03-26")], 200),
        (&[id, ("Accept", "*/*")], 200),
        (&[id], 200),
    ];
    for (headers, status) in table {
        let answer = get(served.addr, headers).await;
        assert_eq!(answer.head.status, *status, "{headers:?}");
    }
    let mut raw = Raw::connect(served.addr).await;
    raw.send(format!(
        "PUT /mcp HTTP/1.1\r\nHost: {}\r\n\r\n",
        served.addr
    ))
    .await;
    let refused = raw.answer().await;
    assert_eq!(refused.head.header("allow"), Some("POST, GET, DELETE"));
}

// Covers R-805, R-1315.
#[tokio::test]
async fn what_a_call_says_is_not_said_on_the_stream_of_its_session() {
    let live = crate::fixture::Live::new();
    let server = crate::fixture::endless(builder(), &live)
        .dynamic_tools(true)
        .build();
    let served = serve_built(&server).await;
    let session = served.session().await;
    confirm(&session).await;
    let mut standing = session.stream().await;
    let mut running = session.call(7, "endless", json!({})).await;
    let said = soon(running.message()).await.unwrap();
    assert_eq!(said["params"]["progressToken"], 7);
    add(&server, "new").unwrap();
    // The first that it hears, though the call spoke before.
    hear(&mut standing).await;
    session.cancel(7).await;
    assert_eq!(running.frame().await, None, "nor did the call hear of it");
    add(&server, "newer").unwrap();
    hear(&mut standing).await;
}

#[tokio::test]
async fn an_open_stream_keeps_its_session_and_not_its_server() {
    let server = echo(builder())
        .dynamic_tools(true)
        .limits(limits(|limits| {
            limits.max_sessions = 1;
            limits.shutdown_timeout = Duration::from_secs(3600);
        }))
        .build();
    let served = serve_built(&server).await;
    let session = served.session().await;
    let mut stream = session.stream().await;
    assert_eq!(served.initialize().await.head.status, 503, "it is not idle");
    served.handle.shutdown();
    assert_eq!(soon(stream.frame()).await, None);
    soon(served.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_session_whose_stream_went_makes_room() {
    let server = echo(builder())
        .dynamic_tools(true)
        .limits(limits(|limits| limits.max_sessions = 1))
        .build();
    let served = serve_built(&server).await;
    let session = served.session().await;
    drop(session.stream().await);
    soon(async { while served.initialize().await.head.status != 200 {} }).await;
    assert_eq!(session.ping().await, 404);
}

#[tokio::test]
async fn a_hub_follows_the_tools_of_a_server() {
    for era in [Era::Legacy, Era::Modern] {
        let server = dynamic();
        let hub = AgentHubClient::builder().build();
        testing::connect_memory(&hub, "p", &server)
            .era(era)
            .await
            .unwrap();
        for name in ["new", "newer"] {
            add(&server, name).unwrap();
            soon(async {
                while hub.find_tool(name).is_none() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            assert_eq!(hub.call_tool(name, ()).await.unwrap(), "new");
        }
        server.remove_tool("new").unwrap();
        soon(async {
            while hub.find_tool("new").is_some() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        soon(hub.close()).await;
    }
}

// Covers R-603.
#[tokio::test]
async fn a_long_list_comes_in_pages() {
    for (per_page, pages) in [
        (0, vec![1, 1, 1, 1, 1]),
        (1, vec![1, 1, 1, 1, 1]),
        (2, vec![2, 2, 1]),
        (5, vec![5]),
        (9, vec![5]),
    ] {
        let server = builder().tools_per_page(per_page);
        let server = ["e", "d", "c", "b", "a"]
            .iter()
            .fold(server, |server, name| {
                server.tool(Tool::new(*name), async |_: RawArgs, _: ToolContext| Ok("x"))
            });
        let served = serve(server).await;
        let session = served.session().await;
        let (mut names, mut sizes, mut params) = (String::new(), Vec::new(), json!({}));
        loop {
            let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
            let mut page = session.post(list.to_string()).await.json().await["result"].take();
            let tools = page["tools"].as_array().unwrap();
            sizes.push(tools.len());
            names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap()));
            match page["nextCursor"].take() {
                Value::Null => break,
                cursor => params = json!({ "cursor": cursor }),
            }
        }
        assert_eq!((names.as_str(), sizes), ("edcba", pages), "{per_page}");
    }
}

// Covers R-602.
#[tokio::test]
async fn a_cursor_whose_tool_is_gone_is_unknown() {
    let server = echo(builder())
        .dynamic_tools(true)
        .tools_per_page(1)
        .build();
    add(&server, "second").unwrap();
    let served = serve_built(&server).await;
    let session = served.session().await;
    let first = session.post(LIST).await.json().await;
    let params = json!({"cursor": first["result"]["nextCursor"]});
    let next = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": params});
    let page = session.post(next.to_string()).await.json().await;
    assert_eq!(page["result"]["tools"][0]["name"], "second");
    server.remove_tool("second").unwrap();
    let gone = session.post(next.to_string()).await.json().await;
    assert_eq!(gone["error"]["code"], -32602);
}

/// What a handler owns, and what it does when it goes.
struct Goodbye(McpServer);

impl Drop for Goodbye {
    fn drop(&mut self) {
        let _ = self.0.remove_tool("echo");
    }
}

fn add_leaving(server: &McpServer, name: &str) -> agent_hub_kit::Result<()> {
    let goodbye = Goodbye(server.clone());
    server.add_tool(Tool::new(name), move |_: RawArgs, _: ToolContext| {
        let _ = &goodbye;
        async { Ok("new") }
    })
}

#[test]
fn a_handler_may_change_the_tools_when_it_goes() {
    type Change = fn(&McpServer) -> agent_hub_kit::Result<()>;
    let table: [(&str, Change); 2] = [
        ("taken out", |server| {
            add_leaving(server, "leaving")?;
            server.remove_tool("leaving")
        }),
        ("never put in", |server| add_leaving(server, "echo")),
    ];
    for (case, change) in table {
        let (told, news) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let server = dynamic();
            let _ = change(&server);
            let _ = told.send(server.remove_tool("echo").is_err());
        });
        let is_gone = news.recv_timeout(Duration::from_secs(20));
        assert_eq!(is_gone, Ok(true), "{case}");
    }
}
