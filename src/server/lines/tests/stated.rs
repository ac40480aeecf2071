//! Requests that say of themselves what they follow, beside a session and without one.

use std::time::Duration;

use tokio::sync::Notify;

use super::*;
use crate::limits::Limits;
use crate::server::calls::now;

/// A request that says so; members of `params` are kept.
fn stated(id: impl Into<Value>, method: &str, mut params: Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params}).to_string()
}

fn listen(id: impl Into<Value>) -> String {
    let params = json!({"notifications": {"toolsListChanged": true}});
    stated(id, "subscriptions/listen", params)
}

fn cancel(id: impl Into<Value>) -> String {
    let params = json!({"requestId": id.into()});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
}

fn quiet(tool: &str) -> Value {
    json!({"name": tool, "arguments": {}})
}

/// Which subscription a message belongs to.
fn subscription(message: &Value) -> &Value {
    let holder = match message.get("result") {
        Some(result) => result,
        None => &message["params"],
    };
    &holder["_meta"]["io.modelcontextprotocol/subscriptionId"]
}

const CHANGED: &str = "notifications/tools/list_changed";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Tools that wait: `held` until it is told to end, `ever` for ever.
fn waiting(end: &Arc<Notify>) -> McpServerBuilder {
    builder()
        .tool_with(
            Tool::new("held"),
            end.clone(),
            async |end: Arc<Notify>, _: RawArgs, ctx: ToolContext| {
                ctx.streamer("held").text("begun").await?;
                end.notified().await;
                Ok("ended")
            },
        )
        .tool(Tool::new("ever"), async |_: RawArgs, ctx: ToolContext| {
            ctx.streamer("ever").text("begun").await?;
            std::future::pending::<()>().await;
            Ok("never")
        })
        .dynamic_tools(true)
}

async fn expect_error(client: &mut Client, id: impl Into<Value>, code: i64) {
    let answer = client.read().await;
    let seen = (&answer["id"], &answer["error"]["code"]);
    assert_eq!(seen, (&id.into(), &json!(code)), "{answer}");
}

// Covers R-311, R-317, R-512.
#[tokio::test]
async fn neither_kind_of_client_locks_the_other_out() {
    let server = builder().build();
    serve_one(&server, async |client| {
        client.send(stated(1, "server/discover", json!({}))).await;
        assert_eq!(client.read().await["result"]["resultType"], "complete");
        client.send(stated("a", "tools/list", json!({}))).await;
        assert_eq!(client.read().await["result"]["cacheScope"], "public");
        // What says nothing of itself still has to open a session.
        client
            .send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#)
            .await;
        let answer = client.read().await;
        assert_eq!(answer["error"]["code"], -32602);
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(text.contains("initialize") && text.contains("_meta"), "{text}");
        // No session was opened by any of that, and none of that keeps one from opening.
        client.send(stated(3, "initialize", json!({"protocolVersion": "2025-11-25"}))).await;
        expect_error(client, 3, -32601).await;
        client.send(stated(4, "ping", json!({}))).await;
        expect_error(client, 4, -32601).await;
        assert_eq!(client.open("2025-06-18").await["protocolVersion"], "2025-06-18");
        client.send(call(5)).await;
        while client.read().await.get("method").is_some() {}
        client.send(stated(6, "tools/call", quiet("echo"))).await;
        assert_eq!(client.read().await["result"]["resultType"], "complete");
        client.send(call(7)).await;
        let mut last = client.read().await;
        while last.get("method").is_some() {
            last = client.read().await;
        }
        assert_eq!(last["result"].get("resultType"), None);
        client
            .send(r#"{"jsonrpc":"2.0","id":8,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#)
            .await;
        expect_error(client, 8, -32600).await;
        client.send(stated(9, "no/such", json!({}))).await;
        expect_error(client, 9, -32601).await;
    })
    .await;
}

// Covers R-103, R-317.
#[tokio::test]
async fn both_kinds_share_their_ids_and_one_cancel() {
    let server = waiting(&Arc::default()).build();
    serve_one(&server, async |client| {
        client.open("2025-11-25").await;
        let progress =
            |tool: &str| json!({"name": tool, "arguments": {}, "_meta": {"progressToken": "t"}});
        client.send(stated(1, "tools/call", progress("ever"))).await;
        assert_eq!(client.read().await["method"], "notifications/progress");
        client.send(call(1)).await;
        expect_error(client, 1, -32600).await;
        client.send(listen(1)).await;
        expect_error(client, 1, -32600).await;
        client
            .send(stated("1", "tools/call", progress("ever")))
            .await;
        assert_eq!(client.read().await["method"], "notifications/progress");
        client.send(cancel(2)).await;
        client.send(cancel(1)).await;
        client.send(cancel("1")).await;
        // Both ids are free again, without a word.
        client.send(stated(1, "tools/call", quiet("echo"))).await;
        assert_eq!(client.read().await["id"], 1);
        client.send(listen("1")).await;
        assert_eq!(client.read().await["method"], ACKNOWLEDGED);
        client.send(stated("1", "tools/call", quiet("echo"))).await;
        expect_error(client, "1", -32600).await;
        client.send(cancel("1")).await;
        client.hear_nothing().await;
    })
    .await;
}

// Covers R-1002, R-1004, R-1007, R-1611.
#[tokio::test]
async fn subscriptions_share_the_channel() {
    let server = builder().dynamic_tools(true).build();
    let add = |name: &str| {
        server
            .add_tool(Tool::new(name), async |_: RawArgs, _: ToolContext| Ok("x"))
            .unwrap();
    };
    serve_one(&server, async |client| {
        add("unheard");
        client.hear_nothing().await;
        for id in [json!(7), json!("7")] {
            client.send(listen(id.clone())).await;
            let first = client.read().await;
            assert_eq!(first["method"], ACKNOWLEDGED);
            assert_eq!(
                first["params"]["notifications"],
                json!({"toolsListChanged": true})
            );
            assert_eq!(subscription(&first), &id);
        }
        add("a");
        let mut told = [client.read().await, client.read().await];
        told.sort_by_key(|note| subscription(note).is_string());
        for (note, id) in told.iter().zip([json!(7), json!("7")]) {
            assert_eq!(
                (&note["method"], subscription(note)),
                (&json!(CHANGED), &id)
            );
        }
        // One is cancelled and gets no result; the other goes on.
        client.send(cancel(7)).await;
        client.hear_nothing().await;
        add("b");
        let note = client.read().await;
        assert_eq!(
            (&note["method"], subscription(&note)),
            (&json!(CHANGED), &json!("7"))
        );
        // A session beside them is told in its own words.
        let plain = json!({"jsonrpc": "2.0", "method": CHANGED});
        client.open("2025-11-25").await;
        client.send(INITIALIZED).await;
        assert_eq!(
            client.read().await,
            plain,
            "what changed before it was ready"
        );
        add("c");
        let mut told = [client.read().await, client.read().await];
        told.sort_by_key(|note| subscription(note).is_string());
        assert_eq!(told[0], plain);
        assert_eq!(subscription(&told[1]), "7");
        // The end of the input ends it in order.
        client.output.shutdown().await.unwrap();
        let last = client.read().await;
        assert_eq!(
            (&last["id"], subscription(&last)),
            (&json!("7"), &json!("7"))
        );
        assert_eq!(last["result"]["resultType"], "complete");
    })
    .await;
}

// Covers R-112, R-311, R-504.
#[tokio::test]
async fn all_kinds_of_requests_are_served_at_once() {
    let end = Arc::default();
    let server = waiting(&end).build();
    serve_one(&server, async |client| {
        client.open("2025-11-25").await;
        client.send(INITIALIZED).await;
        client.send(listen("l")).await;
        assert_eq!(client.read().await["method"], ACKNOWLEDGED);
        let params = |token: &str| {
            json!({"name": "held", "arguments": {}, "_meta": {"progressToken": token}})
        };
        client.send(stated(1, "tools/call", params("own"))).await;
        assert_eq!(client.read().await["params"]["progressToken"], "own");
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params("s")});
        client.send(call.to_string()).await;
        assert_eq!(client.read().await["params"]["progressToken"], "s");
        // While both run, everything else is answered and told.
        client.hear_nothing().await;
        client.send(stated(3, "tools/list", json!({}))).await;
        assert_eq!(client.read().await["result"]["ttlMs"], 0);
        server.remove_tool("ever").unwrap();
        let mut told = [client.read().await, client.read().await];
        told.sort_by_key(|note| subscription(note).is_string());
        assert_eq!(told[0], json!({"jsonrpc": "2.0", "method": CHANGED}));
        assert_eq!(subscription(&told[1]), "l");
        end.notify_waiters();
        let mut ended = [client.read().await, client.read().await];
        ended.sort_by_key(|last| last["id"].as_i64());
        assert_eq!(ended[0]["result"]["resultType"], "complete");
        assert_eq!(
            ended[1]["result"],
            json!({"content": [{"type": "text", "text": "ended"}]})
        );
        client.send(cancel("l")).await;
    })
    .await;
}

// Covers R-1005, R-1006.
#[tokio::test]
async fn subscriptions_have_places_of_their_own() {
    let limits = Limits {
        max_subscriptions: 2,
        max_session_calls: 2,
        ..Limits::default()
    };
    let end = Arc::default();
    let server = waiting(&end).limits(limits).build();
    serve_one(&server, async |client| {
        for id in [1, 2] {
            client.send(listen(id)).await;
            assert_eq!(client.read().await["method"], ACKNOWLEDGED);
        }
        client.send(listen(3)).await;
        expect_error(client, 3, -32603).await;
        // Refused, it is not in flight: its id is free.
        for id in [3, 7] {
            let call = json!({"name": "held", "arguments": {}, "_meta": {"progressToken": id}});
            client.send(stated(id, "tools/call", call)).await;
            assert_eq!(client.read().await["method"], "notifications/progress");
        }
        client.send(stated(4, "tools/call", quiet("echo"))).await;
        expect_error(client, 4, -32603).await;
        // What is not granted takes none, and is over.
        client
            .send(stated(
                5,
                "subscriptions/listen",
                json!({"notifications": {}}),
            ))
            .await;
        let first = client.read().await;
        assert_eq!(first["params"]["notifications"], json!({}));
        assert_eq!(client.read().await["id"], 5);
        // A place is free as soon as the cancel is read.
        client.send(format!("{}\n{}", cancel(1), listen(6))).await;
        let first = client.read().await;
        assert_eq!(
            (&first["method"], subscription(&first)),
            (&json!(ACKNOWLEDGED), &json!(6))
        );
        for id in [3, 7] {
            end.notify_one();
            assert_eq!(client.read().await["id"], id);
        }
        client.output.shutdown().await.unwrap();
        let mut ended = [client.read().await, client.read().await];
        ended.sort_by_key(|last| last["id"].as_i64());
        assert_eq!((&ended[0]["id"], &ended[1]["id"]), (&json!(2), &json!(6)));
    })
    .await;
}

// Covers R-1005.
#[tokio::test]
async fn one_client_holds_as_many_subscriptions_as_calls() {
    let limits = Limits {
        max_session_calls: 2,
        ..Limits::default()
    };
    let server = builder().dynamic_tools(true).limits(limits).build();
    serve_one(&server, async |client| {
        for id in [1, 2] {
            client.send(listen(id)).await;
            assert_eq!(client.read().await["method"], ACKNOWLEDGED);
        }
        client.send(listen(3)).await;
        expect_error(client, 3, -32603).await;
        client.send(stated(4, "tools/call", quiet("echo"))).await;
        assert_eq!(client.read().await["result"]["isError"], Value::Null);
        client.send(format!("{}\n{}", cancel(1), cancel(2))).await;
        client.send(listen(3)).await;
        assert_eq!(client.read().await["method"], ACKNOWLEDGED);
        client.send(cancel(3)).await;
    })
    .await;
}

#[tokio::test]
async fn fixed_tools_cannot_be_subscribed_to() {
    serve_one(&builder().build(), async |client| {
        client.send(listen(1)).await;
        expect_error(client, 1, -32601).await;
    })
    .await;
    serve_one(&builder().dynamic_tools(true).build(), async |client| {
        client.open("2025-11-25").await;
        client
            .send(r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{}}}"#)
            .await;
        expect_error(client, 1, -32601).await;
    })
    .await;
}

/// A client that reads nothing is owed one word, however often the tools change.
#[tokio::test]
async fn changes_do_not_pile_up_for_a_client_that_does_not_read() {
    let server = builder().dynamic_tools(true).build();
    serve_one(&server, async |client| {
        client.send(listen(1)).await;
        assert_eq!(client.read().await["method"], ACKNOWLEDGED);
        for n in 0..1000 {
            server
                .add_tool(
                    Tool::new(format!("t{n}")),
                    async |_: RawArgs, _: ToolContext| Ok("x"),
                )
                .unwrap();
        }
        assert_eq!(client.read().await["method"], CHANGED);
        client.hear_nothing().await;
        client.send(cancel(1)).await;
    })
    .await;
}

// Covers R-1609.
#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_end_is_told_so_when_the_time_is_over() {
    let server = waiting(&Arc::default()).build();
    let begun = now();
    serve_one(&server, async |client| {
        client.open("2025-11-25").await;
        client.send(listen("l")).await;
        assert_eq!(client.read().await["method"], ACKNOWLEDGED);
        client.send(stated(1, "tools/call", quiet("ever"))).await;
        let call = json!({"name": "ever", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call});
        client.send(call.to_string()).await;
        client.output.shutdown().await.unwrap();
        // Who only listens does not hold the end up.
        assert_eq!(client.read().await["id"], "l");
        assert_eq!(now() - begun, Duration::ZERO);
        let mut ended = [client.read().await, client.read().await];
        ended.sort_by_key(|last| last["id"].as_i64());
        for (last, id) in ended.iter().zip([1, 2]) {
            assert_eq!(
                (&last["id"], &last["error"]["code"]),
                (&json!(id), &json!(-32603))
            );
        }
        assert_eq!(now() - begun, Limits::default().shutdown_timeout);
    })
    .await;
}

// Covers R-116, R-311.
#[tokio::test]
async fn an_array_holds_only_what_belongs_to_its_session() {
    serve_one(&builder().build(), async |client| {
        client.open("2025-03-26").await;
        let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
        let own = stated(1, "tools/list", json!({}));
        client.send(format!("[{ping},{own}]")).await;
        let answers = client.read().await;
        assert_eq!(answers[0]["result"], json!({}));
        assert_eq!(
            (&answers[1]["id"], &answers[1]["error"]["code"]),
            (&json!(1), &json!(-32600))
        );
    })
    .await;
}
