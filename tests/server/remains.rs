//! What is left of clients that go in every way: nothing. Counted in a process of its own, since
//! other tests open and close things meanwhile.

use std::time::Duration;

use agent_hub_kit::{RawArgs, Tool, ToolContext};
use serde_json::json;

use crate::fixture::{Live, Served, builder, call, echo, endless, limits, serve};
use crate::raw::{Raw, soon};
use crate::stated::{body, bytes, streaming};

const INSIDE: &str = "AGENT_HUB_KIT_COUNTS";

#[test]
fn no_client_leaves_a_connection_or_a_task_however_it_goes() {
    if std::env::var_os(INSIDE).is_none() {
        let name = "remains::no_client_leaves_a_connection_or_a_task_however_it_goes";
        let ended = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        assert!(ended.status.success(), "{ended:?}");
        return;
    }
    let current = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let multi = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    for runtime in [current.unwrap(), multi.unwrap()] {
        runtime.block_on(soon(everybody_goes()));
    }
}

/// The tasks and the open descriptors of this process.
fn held() -> (usize, usize) {
    let metrics = tokio::runtime::Handle::current().metrics();
    // Where the system does not tell, there is nothing to compare.
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    (metrics.num_alive_tasks(), descriptors)
}

/// Waits until no more is held than that.
async fn only(before: (usize, usize), case: &str) {
    let counted = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            let now = held();
            if now.0 <= before.0 && now.1 <= before.1 {
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    let counted = counted.await;
    assert!(counted.is_ok(), "{case}: {before:?}, then {:?}", held());
}

/// The ways to go.
const WAYS: [&str; 14] = [
    "within the head, silently",
    "within the head",
    "within the head, by a reset",
    "within the body, silently",
    "within the body",
    "within the body, by a reset",
    "within a stream",
    "within a stream, by a reset",
    "within a stream, half-closed",
    "without reading",
    "without a session, within a stream",
    "without a session, by a reset",
    "from the stream of its session",
    "after its answer",
];

async fn everybody_goes() {
    let live = Live::new();
    let soon_over = Duration::from_millis(50);
    let limits = limits(|l| {
        l.header_read_timeout = soon_over;
        l.body_read_timeout = soon_over;
        l.stalled_reader_timeout = soon_over;
        l.detached_call_timeout = soon_over;
    });
    let server = echo(endless(builder().limits(limits), &live))
        .dynamic_tools(true)
        .tool_with(
            Tool::new("flooding"),
            live.clone(),
            async |live: Live, _: RawArgs, ctx: ToolContext| {
                let _alive = live.enter();
                let text = "x".repeat(1000);
                while ctx.streamer("f").text(&text).await.is_ok() {}
                Ok(())
            },
        );
    let served = serve(server).await;
    served.session().await;
    let before = held();
    for way in WAYS {
        for _ in 0..3 {
            go(&served, &live, way).await;
        }
        live.reach(0).await;
        only(before, way).await;
    }
    assert_eq!(served.session().await.ping().await, 200);
    served.handle.shutdown();
    soon(served.serving).await.unwrap().unwrap();
    only((0, before.1), "the server's own end").await;
}

async fn go(served: &Served, live: &Live, way: &str) {
    let session = served.session().await;
    let tool = match way {
        "without reading" => "flooding",
        _ => "endless",
    };
    let request = match way.contains("without a session") {
        true => {
            let params = streaming(tool, json!({}));
            bytes(served.addr, &body(1, "tools/call", params), &[])
        }
        false => session.bytes(call(1, tool, json!({}))),
    };
    let mut raw = Raw::connect_narrow(served.addr).await;
    let cut = match way {
        _ if way.contains("head") => request.find("\r\n\r\n").unwrap() - 10,
        _ if way.contains("body") => request.len() - 10,
        _ => request.len(),
    };
    match way {
        "from the stream of its session" => drop(session.stream().await),
        "after its answer" => assert_eq!(session.ping().await, 200),
        "without reading" => {
            raw.send(&request).await;
            live.reach(1).await;
            live.reach(0).await;
        }
        _ => {
            raw.send(&request[..cut]).await;
            if cut == request.len() {
                let mut answer = raw.answer().await;
                answer.message().await.unwrap();
                raw = answer.into_raw();
            }
            if way.contains("reset") {
                raw.reset();
            } else if way.contains("half-closed") {
                raw.stop_sending().await;
                raw.rest().await;
            } else if way.contains("silently") {
                raw.rest().await;
            }
        }
    }
}
