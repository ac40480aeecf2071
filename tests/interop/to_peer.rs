//! Our client against a peer's server.

use agent_hub_kit::{AgentHubClient, CallStream, Error};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::peer::{Era, Link, PATIENCE, Peer, Row, Server};

for_each_peer!(connected [
    tools_are_listed_and_called,
    progress_becomes_events_in_order_before_the_result,
    progress_without_a_message_tells_its_numbers,
    every_type_of_event_arrives_as_it_was_sent,
    a_failing_tool_is_a_tool_error_and_one_terminal_event,
    an_unknown_tool_ends_at_once_by_name,
    the_tool_sees_a_cancel_and_a_dropped_stream,
]);

/// Runs the scenario with a hub that is connected to the peer's server as `peer`.
async fn connected(row: Row, name: &str, scenario: impl AsyncFnOnce(&Server, &AgentHubClient)) {
    let Some(server) = Server::start(row, "server", name).await else {
        return;
    };
    let hub = AgentHubClient::builder().build();
    let connected = async {
        server.connect(&hub, "peer").await;
        scenario(&server, &hub).await;
        hub.close().await;
    };
    timeout(PATIENCE, connected).await.expect("the test ends");
}

/// The rest of a stream, each event in its JSON form.
async fn rest(mut stream: CallStream) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(serde_json::to_value(&event).unwrap());
    }
    events
}

fn event(kind: &str, content: Value) -> Value {
    json!({"type": kind, "content": content, "node": "peer"})
}

fn terminal(kind: &str, content: Value) -> Value {
    json!({"type": kind, "content": content, "node": null})
}

/// Calls on until the server's tool has seen its cancellation: so the session lives, too.
async fn cancellation_is_seen(server: &Server, hub: &AgentHubClient, times: usize) {
    while server.log().matches("cancelled sleep\n").count() < times {
        let echoed = hub.call_tool("echo", json!({"text": "still here"})).await;
        assert_eq!(echoed.unwrap(), json!("still here"));
    }
    assert_eq!(server.log(), "cancelled sleep\n".repeat(times));
}

async fn tools_are_listed_and_called(peer: &Server, hub: &AgentHubClient) {
    let listed = hub.list_tools().await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    let (server, tools) = &listed[0];
    let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    assert_eq!(server, "peer");
    assert_eq!(names, peer.row.peer.tools());

    let text = "Hé👋 \"llo\" \\ \n こんにちは";
    let echoed = hub.call_tool("echo", json!({"text": text})).await;
    assert_eq!(echoed.unwrap(), json!(text));
}

async fn progress_becomes_events_in_order_before_the_result(_: &Server, hub: &AgentHubClient) {
    let events = rest(hub.call_tool_stream("stream", json!({"n": 100}))).await;
    let mut expected: Vec<Value> = (0..100)
        .map(|i| event("text", json!(format!("tok{i}"))))
        .collect();
    expected.push(terminal("result", json!("done")));
    assert_eq!(events, expected);
}

async fn progress_without_a_message_tells_its_numbers(_: &Server, hub: &AgentHubClient) {
    let events = rest(hub.call_tool_stream("plain_progress", json!({"n": 3}))).await;
    assert_eq!(events.len(), 4, "{events:?}");
    for (i, event) in events[..3].iter().enumerate() {
        assert_eq!(event["type"], "progress", "{event}");
        // Python writes them as floats, TypeScript as integers.
        assert_eq!(
            event["content"]["progress"].as_f64(),
            Some(i as f64),
            "{event}"
        );
        assert_eq!(event["content"]["total"].as_f64(), Some(3.0), "{event}");
    }
    assert_eq!(events[3], terminal("result", json!("done")));
}

async fn every_type_of_event_arrives_as_it_was_sent(_: &Server, hub: &AgentHubClient) {
    let events = rest(hub.call_tool_stream("all_types", json!({}))).await;
    let expected = [
        event("text", json!("こんにちは 👋 \"quoted\" \\ \n")),
        event("think", json!("hmm")),
        event("log", json!("a line")),
        event("image", json!("data:image/png;base64,iVBORw0KGgo=")),
        event("stl", json!({"vertices": [[0, 0, 0.5]], "name": "tetra"})),
        event(
            "video",
            json!({"url": "https://example.org/a.mp4", "seconds": 1.25}),
        ),
        event("emotion_data", json!({"joy": 0.75})),
        event("error", json!("only an event")),
        event("custom", json!([1, null, {"deep": true}])),
        terminal("result", json!("done")),
    ];
    assert_eq!(events, expected);
}

async fn a_failing_tool_is_a_tool_error_and_one_terminal_event(
    server: &Server,
    hub: &AgentHubClient,
) {
    let said = json!(server.row.peer.failure("no luck"));
    let error = hub
        .call_tool("fail", json!({"message": "no luck"}))
        .await
        .unwrap_err();
    assert_eq!((error.server(), error.tool()), (Some("peer"), Some("fail")));
    match &error {
        Error::Tool { content, .. } => assert_eq!(**content, said),
        other => panic!("{other:?}"),
    }

    let events = rest(hub.call_tool_stream("fail", json!({"message": "no luck"}))).await;
    assert_eq!(events, [terminal("terminal_error", said)]);
}

async fn an_unknown_tool_ends_at_once_by_name(_: &Server, hub: &AgentHubClient) {
    let error = hub.call_tool("ecko", json!({})).await.unwrap_err();
    assert!(matches!(error, Error::UnknownTool { .. }), "{error:?}");
    assert_eq!(error.tool(), Some("ecko"));

    let events = rest(hub.call_tool_stream("ecko", json!({}))).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["type"], "terminal_error");
}

async fn the_tool_sees_a_cancel_and_a_dropped_stream(server: &Server, hub: &AgentHubClient) {
    let mut stream = hub.call_tool_stream("sleep", json!({"seconds": 3600}));
    let first = serde_json::to_value(stream.next().await.unwrap()).unwrap();
    assert_eq!(first, event("text", json!("asleep")));
    stream.cancel();
    let events = rest(stream).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["type"], "cancelled");
    cancellation_is_seen(server, hub, 1).await;

    let mut stream = hub.call_tool_stream("sleep", json!({"seconds": 3600}));
    stream.next().await.unwrap();
    drop(stream);
    cancellation_is_seen(server, hub, 2).await;
}

#[tokio::test]
async fn one_hub_holds_both_eras_over_both_links_at_once() {
    let rows = [
        (Peer::Python1, Link::Http, Era::Legacy),
        (Peer::TypeScript2, Link::Http, Era::Modern),
        (Peer::TypeScript1, Link::Stdio, Era::Legacy),
        (Peer::Rust3, Link::Stdio, Era::Modern),
    ];
    let hub = AgentHubClient::builder().build();
    let mut servers = Vec::new();
    for (peer, link, era) in rows {
        let (row, name) = (Row { peer, link, era }, format!("{peer:?}"));
        let Some(server) = Server::start(row, "server", &format!("one_hub::{name}")).await else {
            return;
        };
        server.connect(&hub, &name).await;
        servers.push((name, server));
    }
    let talking = join_all(servers.iter().map(async |(name, server)| {
        let call = |tool: &str, args| hub.call_tool_stream(tool, args).server(name);
        let mut asleep = call("sleep", json!({"seconds": 3600}));
        asleep.next().await.unwrap();
        let events = rest(call("stream", json!({"n": 100}))).await;
        let said: Vec<Value> = (0..100)
            .map(|i| event("text", json!(format!("tok{i}"))))
            .chain([terminal("result", json!("done"))])
            .collect();
        assert_eq!(events, said, "{name}");
        drop(asleep);
        while server.log().is_empty() {
            let echoed = hub.call_tool("echo", json!({"text": *name})).server(name);
            assert_eq!(echoed.await.unwrap(), json!(*name));
        }
    }));
    timeout(PATIENCE, talking).await.expect("the test ends");
    hub.close().await;
}
