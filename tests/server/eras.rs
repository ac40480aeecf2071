//! One endpoint for clients with a session and without, at once.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::fixture::{
    Gate, Live, builder, call, echo, endless, gated, limits, on_both_runtimes, quiet_call, serve,
    serve_built,
};
use crate::raw::soon;
use crate::stated::{ask, quiet, streaming, tools};

// Covers R-311, R-504, R-512.
async fn all_kinds_of_clients_are_served_at_once() {
    let (gate, live) = (Gate::new(), Live::new());
    let server = endless(gated(echo(builder()), &gate), &live)
        .dynamic_tools(true)
        .build();
    let served = serve_built(&server).await;
    let addr = served.addr;
    let session = served.session().await;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    session.post(initialized).await;
    let mut stream = session.stream().await;
    let mut listening = ask(addr, 1, "subscriptions/listen", tools()).await;
    let first = soon(listening.message()).await.unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    // The same id everywhere.
    let mut legacy = session.call(1, "endless", json!({})).await;
    legacy.message().await.unwrap();
    let mut modern = ask(addr, 1, "tools/call", streaming("endless", json!({}))).await;
    modern.message().await.unwrap();
    live.reach(2).await;
    let held = tokio::spawn({
        let session = session.clone();
        async move {
            session
                .post(quiet_call(2, "gated", json!({})))
                .await
                .last()
                .await
        }
    });
    let lone = tokio::spawn(async move {
        ask(addr, 2, "tools/call", quiet("gated", json!({})))
            .await
            .last()
            .await
    });
    gate.reached().await;
    // Each hears of a change in its own words.
    server.remove_tool("echo").unwrap();
    let told = soon(stream.message()).await.unwrap();
    assert_eq!(
        told,
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    );
    let told = soon(listening.message()).await.unwrap();
    assert_eq!(
        told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        1
    );
    // A cancel in the session reaches its own call.
    session.cancel(1).await;
    live.reach(1).await;
    assert_eq!(soon(legacy.frame()).await, None);
    // The end of the session is no end for the others.
    gate.open();
    let result = soon(held).await.unwrap()["result"].take();
    assert_eq!(
        result,
        json!({"content": [{"type": "text", "text": "released"}]})
    );
    session.delete().await;
    assert_eq!(soon(stream.message()).await, None);
    let result = soon(lone).await.unwrap()["result"].take();
    assert_eq!(result["resultType"], "complete");
    server
        .add_tool(agent_hub_kit::Tool::new("late"), async |_: Value, _| {
            Ok("late")
        })
        .unwrap();
    assert_eq!(
        soon(listening.message()).await.unwrap()["method"],
        "notifications/tools/list_changed"
    );
    assert_eq!(live.count(), 1);
    drop(modern);
    live.reach(0).await;
}
on_both_runtimes!(all_kinds_of_clients_are_served_at_once);

async fn a_shutdown_tells_every_call() {
    let live = Live::new();
    let limits = limits(|l| l.shutdown_timeout = Duration::from_millis(50));
    let served = serve(endless(builder(), &live).limits(limits)).await;
    let session = served.session().await;
    let mut legacy = session.call(1, "endless", json!({})).await;
    legacy.message().await.unwrap();
    let mut modern = ask(
        served.addr,
        1,
        "tools/call",
        streaming("endless", json!({})),
    )
    .await;
    modern.message().await.unwrap();
    let unheard = tokio::spawn(async move {
        let only = [("Accept", "application/json")];
        let params = quiet("endless", json!({}));
        crate::stated::ask_with(served.addr, &only, 2, "tools/call", params)
            .await
            .json()
            .await
    });
    live.reach(3).await;
    served.handle.shutdown();
    let error = |id| {
        json!({"jsonrpc": "2.0", "id": id,
            "error": {"code": -32603, "message": "the server is shutting down"}})
    };
    for mut answer in [legacy, modern] {
        assert_eq!(answer.message().await, Some(error(1)));
        assert_eq!(answer.frame().await, None);
    }
    assert_eq!(soon(unheard).await.unwrap(), error(2));
    soon(served.serving).await.unwrap().unwrap();
    live.reach(0).await;
}

async fn told_twice_a_server_drops_every_call() {
    let live = Live::new();
    let limits = limits(|l| l.shutdown_timeout = Duration::from_secs(3600));
    let served = serve(endless(builder(), &live).limits(limits)).await;
    let session = served.session().await;
    let mut legacy = session.post(call(1, "endless", json!({}))).await;
    legacy.message().await.unwrap();
    let mut modern = ask(
        served.addr,
        1,
        "tools/call",
        streaming("endless", json!({})),
    )
    .await;
    modern.message().await.unwrap();
    served.handle.shutdown();
    served.handle.shutdown();
    soon(served.serving).await.unwrap().unwrap();
    live.reach(0).await;
    assert!(soon(TcpStream::connect(served.addr)).await.is_err());
}
on_both_runtimes!(
    a_shutdown_tells_every_call,
    told_twice_a_server_drops_every_call
);
