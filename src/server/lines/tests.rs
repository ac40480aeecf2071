use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};

use super::*;
use crate::mcp::tool::Tool;
use crate::server::{McpServer, McpServerBuilder, RawArgs, ToolContext};

mod stated;

/// The client's end.
struct Client {
    input: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Client {
    async fn send(&mut self, line: impl AsRef<str>) {
        let line = format!("{}\n", line.as_ref());
        self.output.write_all(line.as_bytes()).await.unwrap();
    }

    /// The next line; `null` at the end.
    async fn read(&mut self) -> Value {
        let line = self.input.next_line().await.unwrap();
        line.map_or(Value::Null, |line| serde_json::from_str(&line).unwrap())
    }

    /// Opens the session and completes it.
    async fn open(&mut self, version: &str) -> Value {
        let params = json!({"protocolVersion": version, "capabilities": {}});
        let open = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        self.send(open.to_string()).await;
        self.read().await["result"].take()
    }

    /// Sends a ping and checks that nothing comes before its answer, nor after it: an answer goes
    /// before what is told unasked.
    async fn hear_nothing(&mut self) {
        for _ in 0..2 {
            self.send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)
                .await;
            assert_eq!(self.read().await["id"], "p");
        }
    }
}

/// Serves one client, whose input ends with `test`.
async fn serve_one(server: &McpServer, test: impl AsyncFnOnce(&mut Client)) {
    let (near, far) = duplex(64 * 1024);
    let ((input, output), (theirs, ours)) = (split(near), split(far));
    let serving = serve(&server.host, theirs, ours, async || {
        std::future::pending().await
    });
    let client = async {
        let mut client = Client {
            input: BufReader::new(input).lines(),
            output,
        };
        test(&mut client).await;
        client.output.shutdown().await.unwrap();
        assert_eq!(client.read().await, Value::Null, "nothing follows");
    };
    let (served, ()) = tokio::join!(serving, client);
    served.unwrap();
}

fn builder() -> McpServerBuilder {
    McpServer::builder("test", "1").tool(
        Tool::new("echo"),
        async |args: RawArgs, ctx: ToolContext| {
            ctx.streamer("echo").text("unheard").await?;
            tokio::task::yield_now().await;
            Ok(args.as_str().to_owned())
        },
    )
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn call(id: u64) -> String {
    let params = json!({"name": "echo", "arguments": {}, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

// Covers R-405, R-1001.
#[tokio::test]
async fn a_change_of_the_tools_is_told_once_the_client_is_ready() {
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let server = builder().dynamic_tools(true).build();
    serve_one(&server, async |client| {
        let opened = client.open("2025-11-25").await;
        assert_eq!(
            opened["capabilities"],
            json!({"tools": {"listChanged": true}})
        );
        server.remove_tool("echo").unwrap();
        client.hear_nothing().await;
        client.send(INITIALIZED).await;
        assert_eq!(client.read().await, changed);
        client.hear_nothing().await;
        server
            .add_tool(Tool::new("new"), async |_: RawArgs, _: ToolContext| Ok("x"))
            .unwrap();
        assert_eq!(client.read().await, changed);
        client
            .send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
            .await;
        let listed = client.read().await;
        assert_eq!(listed["result"]["tools"][0]["name"], "new");
        assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 1);
    })
    .await;
}

// Covers R-115, R-116.
#[tokio::test]
async fn a_batch_is_answered_in_one_line_by_the_revision_that_has_them() {
    let server = builder().build();
    let batch = format!("[{},{},1,{INITIALIZED},{}]", call(1), call(2), call(2));
    serve_one(&server, async |client| {
        // Before the session is open nobody knows.
        client.send(&batch).await;
        assert_eq!(client.read().await["error"]["code"], -32600);
        client.open("2025-03-26").await;
        client.send(&batch).await;
        let answers = client.read().await;
        let shown: Vec<_> = answers
            .as_array()
            .unwrap()
            .iter()
            .map(|answer| format!("{} {}", answer["id"], answer["error"]["code"]))
            .collect();
        assert_eq!(shown, ["1 null", "2 null", "null -32600", "2 -32600"]);
        // The end of the input waits for it.
        client.send(format!("[{INITIALIZED}]")).await;
        client.send("[]").await;
        assert_eq!(client.read().await["error"]["code"], -32600);
        client.send(format!("[{}]", call(3))).await;
        client.output.shutdown().await.unwrap();
        assert_eq!(client.read().await[0]["id"], 3);
    })
    .await;
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        serve_one(&server, async |client| {
            client.open(version).await;
            client.send(&batch).await;
            let answer = client.read().await;
            assert_eq!(answer["error"]["code"], -32600, "{version}");
            assert_eq!(answer["id"], Value::Null, "{version}");
            client.hear_nothing().await;
        })
        .await;
    }
}

// Covers R-1601.
#[tokio::test]
async fn a_schema_in_many_lines_is_listed_on_one() {
    let schema = "{\n  \"type\": \"object\",\r\n  \"title\": \"a\\nb\"\n}";
    let schema: Box<serde_json::value::RawValue> = serde_json::from_str(schema).unwrap();
    let tool = Tool::new("t").input_schema(schema);
    let server = McpServer::builder("test", "1")
        .tool(tool, async |_: RawArgs, _: ToolContext| Ok("x"))
        .build();
    serve_one(&server, async |client| {
        client.open("2025-11-25").await;
        client
            .send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
            .await;
        let listed = client.read().await;
        assert_eq!(
            listed["result"]["tools"][0]["inputSchema"],
            json!({"type": "object", "title": "a\nb"})
        );
    })
    .await;
}

/// A call that says as much as it can holds up neither an answer nor another call's events for more
/// than its turn.
#[tokio::test]
async fn a_call_that_floods_holds_up_no_other_for_more_than_its_turn() {
    let server = builder()
        .tool(Tool::new("flood"), async |_: RawArgs, ctx: ToolContext| {
            let stream = ctx.streamer("n");
            for _ in 0..1_000_000 {
                stream.text("word").await?;
            }
            Ok("done")
        })
        .tool(Tool::new("echo"), async |_: RawArgs, _: ToolContext| {
            Ok("echoed")
        })
        .build();
    serve_one(&server, async |client| {
        client.open("2025-11-25").await;
        let call = |id: u64, tool: &str| {
            let params = json!({"name": tool, "_meta": {"progressToken": id}});
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
        };
        client.send(call(1, "flood").to_string()).await;
        for _ in 0..1_000 {
            assert_eq!(client.read().await["params"]["progressToken"], 1);
        }
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        for asked in [ping, call(2, "echo")] {
            for _ in 0..5 {
                client.send(asked.to_string()).await;
                let mut waited = 0;
                while client.read().await["id"] != 2 {
                    waited += 1;
                }
                // What the pipe holds, the piece that is being written, and one more.
                assert!(waited < 5_000, "{asked}: {waited} events");
            }
        }
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        client.send(cancel.to_string()).await;
        // What is left of it comes before the next call's turn.
        client.send(call(3, "echo").to_string()).await;
        while client.read().await["id"] != 3 {}
    })
    .await;
}
