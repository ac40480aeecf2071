//! Our client and our server together.

use std::time::{Duration, Instant};

use agent_hub_kit::{AgentHubClient, Era, Error, EventKind, StdioCommand};
use serde_json::json;

use crate::{hub, process, raw, read, run_in_both_eras, shown};

async fn connect(hub: &AgentHubClient, era: Era) -> String {
    let marker = process::marker();
    let command = StdioCommand::new(raw::program()).arg(&marker);
    hub.connect_stdio("p", command).era(era).await.unwrap();
    marker
}

#[test]
fn a_long_stream_arrives_whole_and_in_order() {
    run_in_both_eras(async |era| {
        let hub = hub();
        connect(&hub, era).await;
        const COUNT: usize = 20_000;
        let mut call = hub.call_tool_stream("count", json!({"n": COUNT, "size": 10}));
        for n in 1..=COUNT {
            let event = call.next().await.unwrap();
            assert_eq!(event.text(), Some(format!("{n} xxxxxxxxxx").as_str()));
        }
        assert_eq!(shown(&read(&mut call).await), [r#"result "counted""#]);
    });
}

// Covers R-1610.
#[test]
fn calls_run_beside_each_other_and_are_cancelled_alone() {
    run_in_both_eras(async |era| {
        let hub = hub();
        let marker = connect(&hub, era).await;
        let mut held: Vec<_> = (0..60).map(|_| hub.call_tool_stream("hold", ())).collect();
        for call in &mut held {
            assert_eq!(call.next().await.unwrap().text(), Some("held"));
        }
        // Each takes the place of one that was cancelled: the server has no more than 64.
        for nth in 0..60 {
            match held.pop() {
                Some(mut call) if nth % 2 == 0 => {
                    call.cancel();
                    assert_eq!(shown(&read(&mut call).await), ["cancelled null"]);
                }
                dropped => drop(dropped),
            }
            let text = format!("é {nth}");
            let echo = hub.call_tool("echo", json!({ "text": text }));
            assert_eq!(echo.await.unwrap(), text);
        }
        // A cancel is never overtaken by a call, so there is room for all of them.
        for _ in 0..3 {
            let more: Vec<_> = (0..64).map(|_| hub.call_tool_stream("hold", ())).collect();
            let firsts = more
                .into_iter()
                .map(async |mut call| call.next().await.unwrap());
            for first in futures_util::future::join_all(firsts).await {
                assert_eq!(first.kind, EventKind::Text, "{first:?}");
            }
        }
        let error = hub.call_tool("panic", ()).await.unwrap_err();
        assert!(matches!(error, Error::Tool { .. }), "{error:?}");
        let pids = process::with(&marker);
        assert_eq!(pids.len(), 1);
        let begun = Instant::now();
        hub.close().await;
        process::gone(&marker, &pids).await;
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
    });
}
