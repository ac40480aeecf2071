//! A call that says as much as it can stands in nobody's way: how long the others wait is counted in
//! its events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_hub_kit::{AgentHubClient, McpServer, RawArgs, Tool, ToolContext, testing};

use crate::on_time;

/// What may wait of the flood where a call has to pass: a few turns of whoever sends and reads.
const FEW: usize = 10_000;

fn flooding() -> McpServer {
    McpServer::builder("s", "1")
        .tool(Tool::new("flood"), async |_: RawArgs, ctx: ToolContext| {
            let stream = ctx.streamer("n");
            loop {
                stream.text("word").await?;
            }
            #[expect(unreachable_code, reason = "says what it would return")]
            Ok("never")
        })
        .tool(Tool::new("echo"), async |_: RawArgs, _: ToolContext| {
            Ok("done")
        })
        .build()
}

#[tokio::test]
async fn a_call_that_floods_delays_no_other_on_one_thread() {
    on_time(async {
        let server = flooding();
        let (flooded, other) = (
            AgentHubClient::builder().build(),
            AgentHubClient::builder().build(),
        );
        testing::connect_memory(&flooded, "s", &server)
            .await
            .unwrap();
        testing::connect_memory(&other, "s", &server).await.unwrap();
        let heard = Arc::new(AtomicUsize::new(0));
        let mut flood = flooded.call_tool_stream("flood", ());
        let count = heard.clone();
        let reading = tokio::spawn(async move {
            while flood.next().await.is_some_and(|event| !event.is_terminal()) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        while heard.load(Ordering::Relaxed) < FEW {
            tokio::task::yield_now().await;
        }
        // Of another client, and of the same one.
        for hub in [&other, &flooded] {
            for _ in 0..20 {
                let before = heard.load(Ordering::Relaxed);
                assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
                let waited = heard.load(Ordering::Relaxed) - before;
                assert!(waited < FEW, "{waited} events");
            }
        }
        reading.abort();
    })
    .await;
}
