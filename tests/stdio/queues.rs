//! Events that nobody reads, and events that are read slowly.

use std::time::Duration;

use agent_hub_kit::{CallStream, Error, EventKind, StreamEvent};
use serde_json::json;

use crate::{child, hub, hub_with, read, run, run_once, shown};

/// `u` says one event and waits. `t` says so many events of each, its own and of the one that
/// waits, then ends. Counts the cancels, and tells them in the result.
const TWO: &str = r#"
    note() { case $line in *notifications/cancelled*) cancels="$cancels $line" ;; esac; }
    call() {
        case $line in
            *'"u"'*) waits=$id; progress "$waits" 1 first ;;
            *'"ask"'*) id_=$id; printf '{"jsonrpc":"2.0","id":%s,"result":{"structuredContent":{"cancels":[%s]}}}\n' "$id" "$(list)" ;;
            *)
                count=${line#*\"n\":}; count=${count%%[,\}]*} n=1
                while [ "$n" -le "$count" ]; do
                    progress "$waits" "$((n + 1))" "u$n"
                    progress "$id" "$n" "t$n"
                    n=$((n + 1))
                done
                text done ;;
        esac
    }
    list() { comma=; for cancel in $cancels; do printf '%s%s' "$comma" "$cancel"; comma=,; done; }
    cancels=
"#;

const STALLED: Duration = Duration::from_millis(300);

fn texts(events: &[StreamEvent]) -> Vec<&str> {
    let texts = events.iter().filter(|event| event.kind == EventKind::Text);
    texts.filter_map(StreamEvent::text).collect()
}

fn numbered(tool: &str, count: usize) -> Vec<String> {
    (1..=count).map(|n| format!("{tool}{n}")).collect()
}

async fn begin(mut call: CallStream) -> CallStream {
    assert_eq!(call.next().await.unwrap().text(), Some("first"));
    call
}

#[test]
fn a_call_that_nobody_reads_ends_alone() {
    run(async || {
        let hub = hub_with(|limits| {
            limits.stalled_queue_timeout = STALLED;
            limits.max_queued_events = 50;
        });
        child::connect(&hub, TWO).await;
        let mut unread = begin(hub.call_tool_stream("u", ())).await;
        let mut other = hub.call_tool_stream("t", json!({ "n": 500 }));
        let events = read(&mut other).await;
        assert_eq!(texts(&events), numbered("t", 500), "nothing is lost");
        assert_eq!(events.last().unwrap().kind, EventKind::Result);

        let events = read(&mut unread).await;
        assert_eq!(texts(&events), numbered("u", 50));
        let end = events.last().unwrap();
        let Some(Error::Limit {
            what, max, place, ..
        }) = end.error()
        else {
            panic!("{end:?}")
        };
        assert_eq!((*what, *max), ("max_queued_events", 50));
        assert_eq!((place.server(), place.tool()), (Some("p"), Some("u")));
        let told = hub.call_tool("t", json!({ "ask": 1 })).await.unwrap();
        let cancels = told["cancels"].as_array().unwrap();
        assert_eq!(cancels.len(), 1, "{cancels:?}");
        assert_eq!(cancels[0]["params"]["requestId"], 4, "{cancels:?}");
    });
}

#[test]
fn a_queue_may_be_bounded_in_bytes() {
    run_once(async || {
        let hub = hub_with(|limits| {
            limits.stalled_queue_timeout = STALLED;
            limits.max_queued_bytes = 10_000;
        });
        child::connect(&hub, TWO).await;
        let mut unread = begin(hub.call_tool_stream("u", ())).await;
        let mut other = hub.call_tool_stream("t", json!({ "n": 500 }));
        assert_eq!(texts(&read(&mut other).await), numbered("t", 500));
        let events = read(&mut unread).await;
        let end = events.last().unwrap();
        let Some(Error::Limit { what, .. }) = end.error() else {
            panic!("{end:?}")
        };
        assert_eq!(*what, "max_queued_bytes");
        assert!(events.len() > 10, "{}", events.len());
    });
}

#[test]
fn a_reader_that_comes_back_in_time_loses_nothing() {
    run(async || {
        // Longer than this test waits for anything.
        let hub = hub_with(|limits| limits.stalled_queue_timeout = Duration::from_secs(3600));
        child::connect(&hub, TWO).await;
        for capacity in [1, 2, 7, 100] {
            let call = hub.call_tool_stream("u", ()).queue_capacity(capacity);
            let mut slow = begin(call).await;
            let mut other = hub.call_tool_stream("t", json!({ "n": 300 }));
            let mut events = Vec::new();
            // One of each in turn: the slow one holds the fast one up, and is held up by nothing.
            for n in 1..=300 {
                let (event, of_other) = tokio::join!(slow.next(), other.next());
                let text = format!("u{n}");
                assert_eq!(event.unwrap().text(), Some(&*text), "{capacity}");
                events.push(of_other.unwrap());
            }
            events.extend(read(&mut other).await);
            assert_eq!(texts(&events), numbered("t", 300), "{capacity}");
            slow.cancel();
            assert_eq!(shown(&read(&mut slow).await), ["cancelled null"]);
        }
    });
}

#[test]
fn a_full_queue_ends_with_its_call_at_once() {
    // However it ends, the others go on before any time is up.
    run(async || {
        for how in ["drop", "cancel", "timeout"] {
            let hub = hub_with(|limits| limits.stalled_queue_timeout = Duration::from_secs(3600));
            child::connect(&hub, TWO).await;
            let mut call = hub.call_tool_stream("u", ()).queue_capacity(3);
            if how == "timeout" {
                call = call.timeout(STALLED);
            }
            let mut full = Some(begin(call).await);
            let mut other = hub.call_tool_stream("t", json!({ "n": 100 }));
            for n in 1..=2 {
                let event = other.next().await.unwrap();
                assert_eq!(event.text(), Some(format!("t{n}").as_str()), "{how}");
            }
            match how {
                "drop" => full = None,
                "cancel" => full.as_mut().unwrap().cancel(),
                _ => {}
            }
            let events = read(&mut other).await;
            assert_eq!(texts(&events).last(), Some(&"t100"), "{how}");
            if let Some(mut full) = full {
                let events = read(&mut full).await;
                assert!(texts(&events).len() >= 2, "{how}: {events:?}");
                let kind = &events.last().unwrap().kind;
                let cancelled = *kind == EventKind::Cancelled;
                assert_eq!(cancelled, how == "cancel", "{how}");
            }
        }
    });
}

#[test]
fn a_result_has_room_in_a_full_queue() {
    run(async || {
        let hub = hub();
        let script = r#"call() { progress "$id" 1 a; text b; }"#;
        child::connect(&hub, script).await;
        let mut call = hub.call_tool_stream("t", ()).queue_capacity(1);
        assert_eq!(
            shown(&read(&mut call).await),
            [r#"text "a""#, r#"result "b""#]
        );
    });
}

// Covers R-901, R-909.
#[test]
fn a_call_is_cancelled_once_with_its_number_and_the_child_lives_on() {
    run(async || {
        for how in ["drop", "cancel", "timeout", "idle_timeout"] {
            let hub = hub();
            let marker = child::connect(&hub, TWO).await;
            let pids = crate::process::with(&marker);
            let mut call = hub.call_tool_stream("u", ());
            call = match how {
                "timeout" => call.timeout(STALLED),
                "idle_timeout" => call.idle_timeout(STALLED),
                _ => call,
            };
            let mut call = begin(call).await;
            match how {
                "drop" => drop(call),
                "cancel" => {
                    call.cancel();
                    call.cancel();
                    assert_eq!(shown(&read(&mut call).await), ["cancelled null"]);
                }
                named => {
                    let events = read(&mut call).await;
                    let Some(Error::Timeout { what, .. }) = events[0].error() else {
                        panic!("{how}: {events:?}")
                    };
                    assert_eq!(*what, named);
                }
            }
            let mut told = json!(null);
            for _ in 0..3 {
                told = hub.call_tool("t", json!({ "ask": 1 })).await.unwrap();
            }
            let seen = told["cancels"].as_array().unwrap();
            assert_eq!(seen.len(), 1, "{how}: {seen:?}");
            let id = &seen[0]["params"]["requestId"];
            assert_eq!(*id, 4, "{how}: a number, that of the call");
            assert_eq!(crate::process::with(&marker), pids, "{how}");
        }
    });
}
