//! What the public types promise beyond their methods: threads, sizes, and the words of errors.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::error::Error as _;
use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, Bound, CallStream, Content, DataUri, Denied, Error, EventKind, EventStreamer,
    HubEvent, ImageInput, Limits, McpBody, McpServer, McpService, Node, Principal, RequestHead,
    ServerHandle, StreamEvent, ToolContext, ToolError, ToolRef, testing,
};
use serde_json::json;

fn crosses_threads<T: Send + Sync + 'static>() {}
fn moves_between_threads_as_a_body<T: Send + Unpin + 'static>() {}
fn moves_between_threads<T: Send + Unpin + 'static>(value: T) -> T {
    value
}

#[test]
fn what_users_hold_crosses_threads() {
    crosses_threads::<AgentHubClient>();
    crosses_threads::<McpServer>();
    crosses_threads::<McpService>();
    moves_between_threads_as_a_body::<McpBody>();
    crosses_threads::<ServerHandle>();
    crosses_threads::<EventStreamer>();
    crosses_threads::<ToolContext>();
    crosses_threads::<ToolRef>();
    crosses_threads::<StreamEvent>();
    crosses_threads::<HubEvent>();
    crosses_threads::<Content>();
    crosses_threads::<DataUri>();
    crosses_threads::<ImageInput>();
    crosses_threads::<Error>();
    crosses_threads::<ToolError>();
    crosses_threads::<Limits>();
    crosses_threads::<testing::TestServer>();
    crosses_threads::<testing::ScriptedPeer>();
    crosses_threads::<testing::HostilePeer>();
    crosses_threads::<testing::Faults>();
    moves_between_threads_as_a_body::<testing::Script>();
    crosses_threads::<RequestHead>();
    crosses_threads::<Principal>();
    crosses_threads::<Denied>();
    fn bound(bound: Bound) -> impl Send {
        bound.serve()
    }
    let _ = bound;
}

#[test]
fn streams_and_calls_move_between_threads() {
    fn of(hub: &AgentHubClient) {
        let stream: CallStream = moves_between_threads(hub.call_tool_stream("t", ()));
        drop(stream);
        let call = moves_between_threads(hub.call_tool("t", ()).into_future());
        drop(call);
        let connect = moves_between_threads(hub.connect_http("s", "http://x/mcp").into_future());
        drop(connect);
    }
    of(&AgentHubClient::builder().build());
}

#[test]
fn hot_types_stay_small() {
    let sizes = [
        ("Error", size_of::<Error>(), 64),
        ("Node", size_of::<Node>(), 32),
        ("Content", size_of::<Content>(), 40),
        ("EventKind", size_of::<EventKind>(), 40),
        ("StreamEvent", size_of::<StreamEvent>(), 192),
    ];
    for (name, size, at_most) in sizes {
        assert!(
            size <= at_most,
            "{name} takes {size} bytes, at most {at_most}"
        );
    }
}

#[test]
fn the_future_of_an_event_stays_small() {
    async fn measured(stream: &EventStreamer) -> usize {
        size_of_val(&stream.text("token"))
    }
    fn of(ctx: &ToolContext) -> impl Future<Output = usize> + use<> {
        let stream = EventStreamer::new(ctx);
        async move { measured(&stream).await }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let size = runtime.block_on(async {
        let server = McpServer::builder("sizes", "0")
            .tool(
                agent_hub_kit::Tool::new("size"),
                |_: agent_hub_kit::RawArgs, ctx: ToolContext| async move {
                    Ok(of(&ctx).await.to_string())
                },
            )
            .build();
        let hub = AgentHubClient::builder().build();
        testing::connect_memory(&hub, "sizes", &server)
            .await
            .unwrap();
        hub.call_tool("size", ()).typed::<usize>().await.unwrap()
    });
    assert!(size <= 256, "the future of text() takes {size} bytes");
}

/// One of each kind of error that a user can meet without a network.
async fn errors() -> Vec<Error> {
    let server = McpServer::builder("errors", "0")
        .tool(
            agent_hub_kit::Tool::new("fail"),
            |_: agent_hub_kit::RawArgs, _: ToolContext| async move {
                Err::<(), _>(ToolError::new("no luck"))
            },
        )
        .tool(
            agent_hub_kit::Tool::new("refuse"),
            |_: agent_hub_kit::RawArgs, _: ToolContext| async move {
                Err::<(), _>(ToolError::protocol(-1, "not you"))
            },
        )
        .tool(
            agent_hub_kit::Tool::new("hang"),
            |_: agent_hub_kit::RawArgs, _: ToolContext| {
                std::future::pending::<Result<(), ToolError>>()
            },
        )
        .build();
    let hub = AgentHubClient::builder().build();
    for name in ["a", "b"] {
        testing::connect_memory(&hub, name, &server).await.unwrap();
    }
    let mut cancelled = hub.call_tool_stream("a/hang", ());
    cancelled.cancel();
    let cancelled = cancelled.next().await.unwrap().error().unwrap().clone();
    let short = Duration::from_millis(1);
    vec![
        cancelled,
        hub.call_tool("fail", ()).await.unwrap_err(),
        hub.call_tool("a/fail", ()).await.unwrap_err(),
        hub.call_tool("a/refuse", ()).await.unwrap_err(),
        hub.call_tool("a/hang", ())
            .timeout(short)
            .await
            .unwrap_err(),
        hub.call_tool("nothing", ()).await.unwrap_err(),
        hub.call_tool("fail", ())
            .server("nobody")
            .await
            .unwrap_err(),
        hub.call_tool("a/fail", json!([1])).await.unwrap_err(),
        hub.connect_http("c", "http://127.0.0.1:1/mcp")
            .await
            .unwrap_err(),
        hub.connect_http("a", "http://127.0.0.1:1/mcp")
            .await
            .unwrap_err(),
        hub.connect_http("d", "nonsense").await.unwrap_err(),
    ]
}

#[tokio::test]
async fn predicates_tell_errors_apart() {
    // tool, cancelled, retryable
    let expected = [
        (false, true, false),
        (false, false, false),
        (true, false, false),
        (false, false, false),
        (false, false, true),
        (false, false, false),
        (false, false, false),
        (false, false, false),
        (false, false, true),
        (false, false, false),
        (false, false, false),
    ];
    let errors = errors().await;
    assert_eq!(errors.len(), expected.len());
    for (error, expected) in errors.iter().zip(expected) {
        let seen = (error.is_tool(), error.is_cancelled(), error.is_retryable());
        assert_eq!(seen, expected, "{error:?}");
    }
}

#[tokio::test]
async fn each_level_of_an_error_says_its_own_clause() {
    for error in errors().await {
        let mut clauses = vec![error.to_string()];
        let mut cause = error.source();
        while let Some(e) = cause {
            clauses.push(e.to_string());
            cause = e.source();
        }
        for (level, clause) in clauses.iter().enumerate() {
            assert!(!clause.is_empty() && !clause.ends_with('.'), "{clauses:?}");
            for other in clauses.iter().skip(level + 1) {
                assert!(!clause.contains(other.as_str()), "told twice: {clauses:?}");
            }
        }
    }
}
