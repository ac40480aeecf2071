//! Time limits, on a clock that the test moves: in memory, since a paused clock and sockets do not
//! go together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, Era, Error, EventKind, Limits, McpServer, RawArgs, StreamEvent, Tool,
    ToolContext, testing,
};
use serde_json::json;
use tokio::time::{Instant, advance, sleep, timeout};

use crate::{read, shown};

const MIN: Duration = Duration::from_secs(60);

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[derive(serde::Deserialize)]
struct Plan {
    /// Seconds from one event to the next; then comes the result.
    #[serde(default)]
    events: Vec<u64>,
    /// Seconds from the last event to the result.
    #[serde(default)]
    end: u64,
}

/// Counts how many calls of it run.
#[derive(Clone, Default)]
struct Running(Arc<AtomicUsize>);

impl Running {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

struct Run(Running);

impl Drop for Run {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A server whose tool `plan` does what it is told, and a hub with it.
async fn planned(era: Era) -> (AgentHubClient, Running) {
    let running = Running::default();
    let counted = running.clone();
    let tool = move |plan: Plan, ctx: ToolContext| {
        let running = counted.clone();
        async move {
            running.0.fetch_add(1, Ordering::SeqCst);
            let _run = Run(running);
            let stream = ctx.streamer("plan");
            for (n, pause) in plan.events.into_iter().enumerate() {
                sleep(secs(pause)).await;
                stream.text(n.to_string()).await?;
            }
            sleep(secs(plan.end)).await;
            Ok("end")
        }
    };
    let server = McpServer::builder("planned", "1")
        .tool(Tool::new("plan"), tool)
        .build();
    let hub = AgentHubClient::builder().build();
    testing::connect_memory(&hub, "p", &server)
        .era(era)
        .await
        .unwrap();
    (hub, running)
}

fn timed_out(event: &StreamEvent) -> (&'static str, Duration) {
    match event.error() {
        Some(Error::Timeout { what, after, .. }) => (what, *after),
        other => panic!("{other:?}"),
    }
}

/// Lets the tasks that have something to do do it, without moving the clock.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

// Covers R-911.
#[tokio::test(start_paused = true)]
async fn a_total_timeout_ends_a_call_exactly_at_its_deadline() {
    for era in ERAS {
        let (hub, running) = planned(era).await;
        let start = Instant::now();
        let mut stream = hub
            .call_tool_stream("plan", json!({"events": [3, 3, 3, 3, 3]}))
            .timeout(secs(10));
        let events = read(&mut stream).await;
        assert_eq!(start.elapsed().as_secs(), 10);
        assert_eq!(events.len(), 4);
        assert_eq!(timed_out(&events[3]), ("timeout", secs(10)));
        settle().await;
        assert_eq!(running.count(), 0, "the tool was cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn a_total_timeout_holds_also_while_nobody_reads() {
    // In the other era a call that nobody polls is not given up yet.
    let (hub, running) = planned(Era::Legacy).await;
    let mut stream = hub
        .call_tool_stream("plan", json!({"events": [1], "end": 3600}))
        .timeout(secs(10));
    assert_eq!(stream.next().await.unwrap().text(), Some("0"));
    let start = Instant::now();
    sleep(secs(8)).await;
    assert_eq!(running.count(), 1);
    sleep(secs(1) + Duration::from_millis(10)).await;
    settle().await;
    assert_eq!(running.count(), 0, "after {:?}", start.elapsed());
    sleep(MIN).await;
    let events = read(&mut stream).await;
    assert_eq!(timed_out(&events[0]), ("timeout", secs(10)));
}

#[tokio::test(start_paused = true)]
async fn a_total_timeout_counts_from_the_first_poll() {
    for era in ERAS {
        let (hub, _) = planned(era).await;
        let mut stream = hub
            .call_tool_stream("plan", json!({"end": 9}))
            .timeout(secs(10));
        sleep(MIN).await;
        assert_eq!(shown(&read(&mut stream).await), ["result \"end\""]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_was_late_by_a_reader_is_no_result() {
    for era in ERAS {
        // The deadline passed before anybody read: whether the result was there does not count.
        let (hub, _) = planned(era).await;
        let mut stream = hub
            .call_tool_stream("plan", json!({"events": [1], "end": 1}))
            .timeout(secs(10));
        stream.next().await.unwrap();
        sleep(secs(20)).await;
        let events = read(&mut stream).await;
        assert_eq!(timed_out(&events[0]), ("timeout", secs(10)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_no_time_ends_a_call() {
    for era in ERAS {
        let (hub, running) = planned(era).await;
        for after in [Duration::ZERO, Duration::from_nanos(1)] {
            let start = Instant::now();
            let call = hub.call_tool("plan", json!({"end": 3600}));
            let late = call.timeout(after).await.unwrap_err();
            assert!(matches!(late, Error::Timeout { .. }), "{late:?}");
            assert!(start.elapsed() < secs(1));
        }
        sleep(secs(2)).await;
        assert_eq!(running.count(), 0);
    }
}

// Covers R-911.
#[tokio::test(start_paused = true)]
async fn an_idle_timeout_is_renewed_by_each_event() {
    for era in ERAS {
        let (hub, running) = planned(era).await;
        let start = Instant::now();
        let mut stream = hub
            .call_tool_stream("plan", json!({"events": [4, 4, 4, 4], "end": 3600}))
            .idle_timeout(secs(5));
        let events = read(&mut stream).await;
        assert_eq!(start.elapsed().as_secs(), 4 * 4 + 5);
        assert_eq!(events.len(), 5);
        assert_eq!(timed_out(&events[4]), ("idle_timeout", secs(5)));
        settle().await;
        assert_eq!(running.count(), 0, "the tool was cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_timeout_counts_no_pause_of_the_reader() {
    for era in ERAS {
        let (hub, _) = planned(era).await;
        let mut stream = hub
            .call_tool_stream("plan", json!({"events": [1, 1, 4], "end": 3}))
            .idle_timeout(secs(5));
        for n in 0..3 {
            assert_eq!(stream.next().await.unwrap().text(), Some(&*n.to_string()));
            sleep(MIN).await;
        }
        assert_eq!(shown(&read(&mut stream).await), ["result \"end\""]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_timeout_holds_for_a_reader_that_looks_now_and_then() {
    for era in ERAS {
        // As in a select with a ticker: each look is a wait that goes on.
        let (hub, _) = planned(era).await;
        let start = Instant::now();
        let mut stream = hub
            .call_tool_stream("plan", json!({"end": 3600}))
            .idle_timeout(secs(5));
        let end = loop {
            match timeout(secs(1), stream.next()).await {
                Ok(event) => break event.unwrap(),
                Err(_) => assert!(start.elapsed() < secs(7)),
            }
        };
        assert_eq!(timed_out(&end), ("idle_timeout", secs(5)));
        assert_eq!(start.elapsed().as_secs(), 5);
    }
}

// Covers R-911.
#[tokio::test(start_paused = true)]
async fn keep_alives_do_not_renew_an_idle_timeout() {
    for era in ERAS {
        // The server writes a comment each 15 s.
        let (hub, _) = planned(era).await;
        let start = Instant::now();
        let mut stream = hub
            .call_tool_stream("plan", json!({"end": 3600}))
            .idle_timeout(secs(40));
        let events = read(&mut stream).await;
        assert_eq!(timed_out(&events[0]), ("idle_timeout", secs(40)));
        assert_eq!(start.elapsed().as_secs(), 40);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_a_call_may_think_for_hours() {
    for era in ERAS {
        let (hub, _) = planned(era).await;
        let start = Instant::now();
        let value = hub
            .call_tool("plan", json!({"events": [9000], "end": 9000}))
            .await;
        assert_eq!(value.unwrap(), "end");
        assert_eq!(start.elapsed().as_secs(), 18_000);
    }
}

#[tokio::test(start_paused = true)]
async fn the_shorter_of_two_limits_ends_the_call() {
    for era in ERAS {
        let (hub, _) = planned(era).await;
        for (total, idle, named) in [(10, 20, "timeout"), (20, 10, "idle_timeout")] {
            let mut stream = hub
                .call_tool_stream("plan", json!({"end": 3600}))
                .timeout(secs(total))
                .idle_timeout(secs(idle));
            let events = read(&mut stream).await;
            assert_eq!(timed_out(&events[0]), (named, secs(10)));
        }
        // Both at once: one end, whichever it is.
        let mut stream = hub
            .call_tool_stream("plan", json!({"end": 3600}))
            .timeout(secs(10))
            .idle_timeout(secs(10));
        assert_eq!(read(&mut stream).await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_timeout_holds_for_a_call_without_events_too() {
    for era in ERAS {
        let (hub, _) = planned(era).await;
        let start = Instant::now();
        let call = hub.call_tool("plan", json!({"events": [4, 4], "end": 3600}));
        let late = call.idle_timeout(secs(5)).await.unwrap_err();
        assert!(
            matches!(
                late,
                Error::Timeout {
                    what: "idle_timeout",
                    ..
                }
            ),
            "{late:?}"
        );
        assert_eq!(start.elapsed().as_secs(), 13);
    }
}

#[tokio::test(start_paused = true)]
async fn many_deadlines_are_kept_each_for_itself() {
    for era in ERAS {
        let (hub, running) = planned(era).await;
        let start = Instant::now();
        let calls: Vec<_> = (1..=30)
            .rev()
            .map(|n| {
                let call = hub.call_tool("plan", json!({"end": 3600})).timeout(secs(n));
                tokio::spawn(async move {
                    call.await.unwrap_err();
                    (n, Instant::now())
                })
            })
            .collect();
        for call in calls {
            let (n, at) = call.await.unwrap();
            assert_eq!((at - start).as_secs(), n);
        }
        settle().await;
        assert_eq!(running.count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_takes_no_longer_than_its_limit() {
    // In the other era a call that nobody polls is not given up yet.
    let (hub, running) = planned(Era::Legacy).await;
    let mut stream = hub.call_tool_stream("plan", json!({"events": [1], "end": 3600}));
    stream.next().await.unwrap();
    let start = Instant::now();
    hub.close().await;
    assert!(start.elapsed() <= Limits::default().close_timeout);
    settle().await;
    assert_eq!(running.count(), 0);
    let events = read(&mut stream).await;
    assert_eq!(events[0].kind, EventKind::TerminalError);
}

#[tokio::test(start_paused = true)]
async fn a_connection_outlives_hours_of_silence() {
    for era in ERAS {
        let (hub, _) = planned(era).await;
        for _ in 0..3 {
            assert_eq!(hub.call_tool("plan", ()).await.unwrap(), "end");
            // The server forgets a session after half an hour.
            advance(secs(3 * 3600)).await;
            sleep(secs(1)).await;
        }
        assert_eq!(hub.list_tools().await[0].1.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn raw_arguments_reach_a_tool_in_memory_as_they_were() {
    let server = McpServer::builder("raw", "1")
        .tool(Tool::new("raw"), async |args: RawArgs, _: ToolContext| {
            Ok(args.as_str().to_owned())
        })
        .build();
    let hub = AgentHubClient::builder().build();
    testing::connect_memory(&hub, "raw", &server).await.unwrap();
    let args: Box<serde_json::value::RawValue> =
        serde_json::from_str(r#"{"n": 1e400, "s": "\u0041"}"#).unwrap();
    let sent = args.get().to_owned();
    assert_eq!(hub.call_tool("raw", args).await.unwrap(), sent);
}
