//! Servers that are there, come and go.

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use agent_hub_kit::testing::{
    TestServer, connect_memory, echo_specialist_url, free_port, llm_specialist_url,
};
use agent_hub_kit::{Era, Error, Limits, McpServer, RawArgs, Tool, ToolContext};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

use crate::{greeter, hub, on_time, read, shown};

#[test]
fn shared_specialists_outlive_the_runtime_of_the_test_that_started_them() {
    let mut urls = HashSet::new();
    for text in ["a", "あ"] {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(on_time(async {
            let hub = hub();
            let (echo, llm) = (echo_specialist_url().await, llm_specialist_url().await);
            urls.extend([echo, llm]);
            hub.connect_all_http([("echo", echo), ("llm", llm)])
                .await
                .unwrap();
            assert_eq!(
                hub.call_tool("echo", json!({"text": text})).await.unwrap(),
                text
            );
            let (pieces, answer) = kit_user::answer(&hub, text).await.unwrap();
            assert_eq!(answer, format!("You said: {text}"));
            assert_eq!(pieces.concat(), answer);
            hub.close().await;
        }));
    }
    assert_eq!(urls.len(), 2, "each is started once: {urls:?}");
}

#[test]
fn a_free_port_can_be_listened_on() {
    let port = free_port();
    assert_ne!(port, 0);
    // The test server's way, on a port that has to be told.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(on_time(async {
        let bound = greeter().bind(("127.0.0.1", port)).await.unwrap();
        assert_eq!(bound.local_addr().port(), port);
    }));
}

#[test]
fn a_test_server_leaves_no_task_and_no_port() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(on_time(async {
        for is_in_order in [false, true] {
            let server = TestServer::spawn(greeter()).await.unwrap();
            let address = server.local_addr();
            assert_eq!(server.url(), format!("http://{address}/mcp"));
            let hub = hub();
            hub.connect_http("greeter", server.url()).await.unwrap();
            let mut waiting = hub.call_tool_stream("wait", ());
            assert_eq!(waiting.next().await.unwrap().text(), Some("so"));
            if is_in_order {
                waiting.cancel();
                server.shutdown().await;
            } else {
                drop(server);
            }
            // Nobody waits here: it is free at once.
            drop(TcpListener::bind(address).unwrap());
            if !is_in_order {
                let events = read(waiting).await;
                let error = events[0].error().unwrap();
                // A connection that was being written to on another thread has last words.
                let fits = matches!(
                    error,
                    Error::Transport { .. } | Error::Rpc { code: -32603, .. }
                );
                assert!(fits, "{error:?}");
            }
            drop(hub);
            let metrics = tokio::runtime::Handle::current().metrics();
            while metrics.num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        }
    }));
}

#[tokio::test]
async fn shutting_down_lets_a_running_call_end() {
    let (started, mut has_started) = watch::channel(false);
    let end = Arc::new(Notify::new());
    let may_end = end.clone();
    let mut limits = Limits::default();
    limits.shutdown_timeout = Duration::from_secs(30);
    let server = McpServer::builder("slow", "0.1.0")
        .limits(limits)
        .tool(Tool::new("slow"), move |_: RawArgs, ctx: ToolContext| {
            let (started, end) = (started.clone(), may_end.clone());
            async move {
                started.send_replace(true);
                end.notified().await;
                ctx.streamer("slow").text("last words").await?;
                Ok("done")
            }
        })
        .build();
    let server = TestServer::spawn(server).await.unwrap();
    let address = server.local_addr();
    let hub = hub();
    hub.connect_http("slow", server.url()).await.unwrap();
    let call = tokio::spawn(read(hub.call_tool_stream("slow", ())));
    on_time(has_started.wait_for(|started| *started))
        .await
        .unwrap();
    let stopping = tokio::spawn(server.shutdown());
    // It is going down once it takes nobody new.
    while TcpStream::connect(address).await.is_ok() {}
    end.notify_one();
    on_time(stopping).await.unwrap();
    assert_eq!(
        shown(&on_time(call).await.unwrap()),
        ["text \"last words\"", "result \"done\""]
    );
}

#[tokio::test]
async fn a_server_that_was_restarted_is_the_same_to_its_clients() {
    on_time(async {
        for era in [Era::Legacy, Era::Modern] {
            let mut server = TestServer::spawn(greeter()).await.unwrap();
            let url = server.url().to_owned();
            let hub = hub();
            hub.connect_http("greeter", &url).era(era).await.unwrap();
            for _ in 0..3 {
                assert_eq!(
                    hub.call_tool("greet", ()).await.unwrap(),
                    "hello",
                    "{era:?}"
                );
                server.stop();
                let failed = hub.call_tool("greet", ()).await.unwrap_err();
                assert!(
                    matches!(failed, Error::Transport { .. }),
                    "{era:?}: {failed:?}"
                );
                server.restart().await.unwrap();
                assert_eq!(server.url(), url);
            }
            assert_eq!(
                hub.call_tool("greet", ()).await.unwrap(),
                "hello",
                "{era:?}"
            );
            hub.close().await;
            server.shutdown().await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn in_memory_both_framings_and_both_eras_say_the_same() {
    for era in [Era::Legacy, Era::Modern, Era::Auto] {
        for lines in [false, true] {
            let hub = hub();
            let server = greeter();
            let connect = connect_memory(&hub, "greeter", &server).era(era);
            let connect = if lines { connect.lines() } else { connect };
            let tools = on_time(connect.into_future()).await.unwrap();
            assert_eq!(tools.len(), 2);
            let events = read(hub.call_tool_stream("greet", ())).await;
            let wanted = ["text \"hel\"", "text \"lo\"", "result \"hello\""];
            assert_eq!(shown(&events), wanted, "{era:?}, lines: {lines}");
            // A call that is dropped is cancelled, and others go on.
            let mut dropped = hub.call_tool_stream("wait", ());
            assert_eq!(dropped.next().await.unwrap().text(), Some("so"));
            drop(dropped);
            assert_eq!(
                on_time(hub.call_tool("greet", ()).into_future())
                    .await
                    .unwrap(),
                "hello"
            );
            on_time(hub.close()).await;
        }
    }
}
