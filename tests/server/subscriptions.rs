//! Streams of changes that clients without a session ask for.

use std::net::SocketAddr;
use std::time::Duration;

use agent_hub_kit::{Limits, McpServer, RawArgs, Tool, ToolContext};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::fixture::{Live, Served, builder, echo, endless, limits, on_both_runtimes, serve_built};
use crate::raw::{Answer, Raw, message_of, soon};
use crate::stated::{ask, ask_with, body, bytes, quiet, streaming, tools};

fn add(server: &McpServer, name: &str) {
    server
        .add_tool(Tool::new(name), async |_: RawArgs, _: ToolContext| {
            Ok("new")
        })
        .unwrap();
}

fn dynamic(change: impl FnOnce(&mut Limits)) -> McpServer {
    echo(builder())
        .dynamic_tools(true)
        .limits(limits(change))
        .build()
}

async fn listen(addr: SocketAddr, id: impl Into<Value>) -> Answer {
    ask(addr, id, "subscriptions/listen", tools()).await
}

/// What every message of a subscription says.
fn subscription(id: &Value) -> Value {
    json!({"io.modelcontextprotocol/subscriptionId": id})
}

fn acknowledged(id: &Value, notifications: Value) -> Value {
    json!({
        "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": {"notifications": notifications, "_meta": subscription(id)},
    })
}

fn changed(id: &Value) -> Value {
    json!({
        "jsonrpc": "2.0", "method": "notifications/tools/list_changed",
        "params": {"_meta": subscription(id)},
    })
}

fn ended(id: &Value) -> Value {
    let mut meta = subscription(id);
    meta["io.modelcontextprotocol/serverInfo"] = json!({"name": "test", "version": "0.1.0"});
    json!({
        "jsonrpc": "2.0", "id": id,
        "result": {"resultType": "complete", "_meta": meta},
    })
}

/// Reads the head and what is granted.
async fn begun(stream: &mut Answer, id: &Value) {
    assert_eq!(stream.head.status, 200, "{}", stream.head.text);
    assert!(stream.head.is_sse(), "{}", stream.head.text);
    let first = soon(stream.message()).await.unwrap();
    assert_eq!(first, acknowledged(id, json!({"toolsListChanged": true})));
}

// Covers R-1002, R-1004, R-1005, R-1007.
async fn changes_are_told_from_the_acknowledgement_to_the_end() {
    let server = dynamic(|_| {});
    let served = serve_built(&server).await;
    let ids = [json!(9), json!("9"), json!("é\n"), json!(0)];
    let mut streams = Vec::new();
    for id in &ids {
        let mut stream = listen(served.addr, id.clone()).await;
        begun(&mut stream, id).await;
        streams.push(stream);
    }
    for name in ["a", "b"] {
        add(&server, name);
        for (stream, id) in streams.iter_mut().zip(&ids) {
            assert_eq!(soon(stream.message()).await.unwrap(), changed(id));
        }
    }
    let listed = ask(served.addr, 1, "tools/list", json!({}))
        .await
        .json()
        .await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 3);
    served.handle.shutdown();
    for (stream, id) in streams.iter_mut().zip(&ids) {
        assert_eq!(soon(stream.message()).await.unwrap(), ended(id));
        assert_eq!(soon(stream.message()).await, None);
    }
    soon(served.serving).await.unwrap().unwrap();
}

// Covers R-1001, R-1002, R-1005.
async fn a_subscription_goes_with_its_client_and_frees_its_place() {
    let server = dynamic(|l| l.max_subscriptions = 1);
    let served = serve_built(&server).await;
    for id in 0..3 {
        let id = json!(id);
        let mut stream = soon(async {
            loop {
                let stream = listen(served.addr, id.clone()).await;
                if stream.head.status != 503 {
                    return stream;
                }
            }
        })
        .await;
        begun(&mut stream, &id).await;
        let mut refused = listen(served.addr, "more").await;
        assert_eq!(refused.head.status, 503);
        let message = refused.json().await;
        assert_eq!(
            (&message["id"], &message["error"]["code"]),
            (&json!("more"), &json!(-32603))
        );
        // It is no call, and takes no call's place.
        let params = quiet("echo", json!({"text": "a"}));
        let mut answer = ask(served.addr, 1, "tools/call", params).await;
        assert_eq!(answer.json().await["result"]["content"][0]["text"], "a");
    }
}

async fn many_changes_wait_as_one() {
    let server = dynamic(|_| {});
    let served = serve_built(&server).await;
    let id = json!(1);
    let mut stream = listen(served.addr, 1).await;
    begun(&mut stream, &id).await;
    // All of them before anybody can have read the first: the runtime has one thread.
    for n in 0..1000 {
        add(&server, &format!("tool{n}"));
    }
    assert_eq!(soon(stream.message()).await.unwrap(), changed(&id));
    server.remove_tool("echo").unwrap();
    assert_eq!(soon(stream.message()).await.unwrap(), changed(&id));
    served.handle.shutdown();
    assert_eq!(soon(stream.message()).await.unwrap(), ended(&id));
}

on_both_runtimes!(
    changes_are_told_from_the_acknowledgement_to_the_end,
    a_subscription_goes_with_its_client_and_frees_its_place,
);

#[tokio::test]
async fn many_changes_wait_as_one_for_a_slow_client() {
    many_changes_wait_as_one().await;
}

// Covers R-1003, R-1006.
#[tokio::test]
async fn what_is_not_granted_is_over_at_once() {
    let server = dynamic(|l| l.max_subscriptions = 0);
    let served = serve_built(&server).await;
    for asked in [
        json!({}),
        json!({"toolsListChanged": false}),
        json!({"promptsListChanged": true, "resourceSubscriptions": ["a"], "other": 1}),
    ] {
        let params = json!({ "notifications": asked });
        let mut stream = ask(served.addr, "l", "subscriptions/listen", params).await;
        assert!(stream.head.is_sse(), "{asked}");
        let id = json!("l");
        let expected = [acknowledged(&id, json!({})), ended(&id)];
        assert_eq!(stream.messages().await, expected, "{asked}");
    }
}

// Covers R-1003, R-1203.
#[tokio::test]
async fn what_is_asked_badly_is_refused() {
    let server = dynamic(|_| {});
    let served = serve_built(&server).await;
    for params in [
        json!({}),
        json!({"notifications": null}),
        json!({"notifications": []}),
        json!({"notifications": true}),
        json!({"notifications": {"toolsListChanged": "yes"}}),
        json!({"notifications": {"toolsListChanged": null}}),
    ] {
        let mut refused = ask(served.addr, 3, "subscriptions/listen", params.clone()).await;
        assert_eq!(refused.head.status, 400, "{params}");
        let message = refused.json().await;
        assert_eq!(
            (&message["id"], &message["error"]["code"]),
            (&json!(3), &json!(-32602)),
            "{params}"
        );
    }
    let json_only = [("Accept", "application/json")];
    let mut refused = ask_with(served.addr, &json_only, 3, "subscriptions/listen", tools()).await;
    assert_eq!(refused.head.status, 406);
    assert_eq!(refused.json().await["id"], 3);
}

// Covers R-409, R-1006.
#[tokio::test]
async fn fixed_tools_cannot_be_subscribed_to() {
    let served = serve_built(&echo(builder()).build()).await;
    let mut refused = listen(served.addr, 3).await;
    assert_eq!(refused.head.status, 404);
    assert_eq!(refused.json().await["error"]["code"], -32601);
    let session = served.session().await;
    let body =
        r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{}}}"#;
    for served in [served, serve_built(&dynamic(|_| {})).await] {
        let session = match served.addr == session.addr {
            true => session.clone(),
            false => served.session().await,
        };
        let refused = session.post(body).await.json().await;
        assert_eq!(refused["error"]["code"], -32601, "a session has none");
    }
}

// Covers R-1005, R-1205.
#[tokio::test]
async fn a_subscription_with_nothing_to_say_says_that_it_lives() {
    let server = dynamic(|l| l.keep_alive_interval = Duration::from_millis(20));
    let served = serve_built(&server).await;
    let id = json!(1);
    let mut stream = listen(served.addr, 1).await;
    begun(&mut stream, &id).await;
    for _ in 0..3 {
        assert_eq!(soon(stream.frame()).await.unwrap(), ": keep-alive\n\n");
    }
    add(&server, "a");
    let told = soon(async {
        loop {
            let frame = stream.frame().await.unwrap();
            if !frame.starts_with(':') {
                return message_of(&frame);
            }
        }
    })
    .await;
    assert_eq!(told, changed(&id));
}

#[tokio::test]
async fn a_server_that_is_told_twice_leaves_no_subscription() {
    let server = dynamic(|l| l.shutdown_timeout = Duration::from_secs(3600));
    let served: Served = serve_built(&server).await;
    let mut stream = listen(served.addr, 1).await;
    begun(&mut stream, &json!(1)).await;
    served.handle.shutdown();
    served.handle.shutdown();
    soon(served.serving).await.unwrap().unwrap();
    // Its result, or nothing, but an end.
    soon(stream.into_raw().rest()).await;
}

/// The bytes of a POST without its body, for which the server asks.
fn announced(served: &Served, body: &str) -> String {
    let whole = bytes(served.addr, body, &[("Expect", "100-continue")]);
    whole.strip_suffix(body).unwrap().to_owned()
}

#[tokio::test]
async fn a_subscription_that_comes_after_the_shutdown_does_not_delay_it() {
    let server = dynamic(|l| l.shutdown_timeout = Duration::from_secs(3600));
    let served = serve_built(&server).await;
    let body = body(1, "subscriptions/listen", tools());
    let mut late = Raw::connect(served.addr).await;
    late.send(announced(&served, &body)).await;
    assert_eq!(late.head().await.status, 100);
    served.handle.shutdown();
    soon(async { while TcpStream::connect(served.addr).await.is_ok() {} }).await;
    late.send(&body).await;
    let mut stream = late.answer().await;
    begun(&mut stream, &json!(1)).await;
    assert_eq!(soon(stream.message()).await, Some(ended(&json!(1))));
    soon(served.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_request_that_comes_too_late_is_told_so() {
    let server = endless(builder(), &Live::new())
        .limits(limits(|l| l.shutdown_timeout = Duration::ZERO))
        .build();
    let served = serve_built(&server).await;
    let body = body("late", "tools/list", json!({}));
    let mut late = Raw::connect(served.addr).await;
    late.send(announced(&served, &body)).await;
    assert_eq!(late.head().await.status, 100);
    let running = streaming("endless", json!({}));
    let mut running = ask(served.addr, 1, "tools/call", running).await;
    served.handle.shutdown();
    soon(running.body()).await;
    late.send(&body).await;
    let mut answer = late.answer().await;
    assert_eq!(answer.head.status, 503);
    let message = answer.json().await;
    assert_eq!(
        (&message["id"], &message["error"]["code"]),
        (&json!("late"), &json!(-32603))
    );
}
