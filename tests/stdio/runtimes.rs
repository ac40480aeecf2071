//! The same calls over each link, on each kind of runtime, in each era.

use agent_hub_kit::{McpServer, StdioCommand, Tool, ToolContext, testing};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;

use crate::{hub, process, raw, read, run_in_both_eras, shown};

#[derive(Deserialize)]
struct Count {
    n: u64,
    size: usize,
}

/// As the program of these tests has it.
fn server() -> McpServer {
    let count = async |args: Count, ctx: ToolContext| {
        let (stream, text) = (ctx.streamer("n"), "x".repeat(args.size));
        for n in 1..=args.n {
            stream.text(format!("{n} {text}")).await?;
        }
        Ok("counted")
    };
    let builder = McpServer::builder("here", "0");
    builder.tool(Tool::new("count"), count).build()
}

#[test]
fn calls_stream_over_every_link_on_every_runtime() {
    run_in_both_eras(async |era| {
        let hub = hub();
        let here = server();
        let bound = here.bind("127.0.0.1:0").await.unwrap();
        let url = bound.url().to_owned();
        let serving = tokio::spawn(bound.serve());
        let marker = process::marker();
        let on_one = StdioCommand::new(raw::program()).arg(&marker);
        let on_two = on_one.clone().env("THREADS", "2");
        testing::connect_memory(&hub, "memory", &here)
            .era(era)
            .await
            .unwrap();
        hub.connect_http("http", url).era(era).await.unwrap();
        hub.connect_stdio("one thread", on_one)
            .era(era)
            .await
            .unwrap();
        hub.connect_stdio("two threads", on_two)
            .era(era)
            .await
            .unwrap();
        for name in ["memory", "http", "one thread", "two threads"] {
            // More than all buffers hold, by several calls at once.
            let calls = (0..8).map(async |_| {
                let arguments = json!({"n": 500, "size": 1000});
                let mut call = hub.call_tool_stream("count", arguments).server(name);
                read(&mut call).await
            });
            for events in join_all(calls).await {
                assert_eq!(events.len(), 501, "{name}");
                for (event, n) in events.iter().zip(1..=500) {
                    let text = event.text().unwrap();
                    assert_eq!(text.split_once(' ').unwrap().0, n.to_string(), "{name}");
                }
                assert_eq!(shown(&events[500..]), [r#"result "counted""#], "{name}");
            }
        }
        hub.close().await;
        serving.abort();
        process::gone(&marker, &[]).await;
    });
}
