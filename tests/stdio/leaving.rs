//! The end of a server: of its input, of its output, and by a signal.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::raw::{Raw, call, quiet, text};
use crate::{run, run_once};

/// What is no time at all for a process to end in, on a machine with other things to do.
const AT_ONCE: Duration = Duration::from_secs(2);

// Covers R-1609.
#[test]
fn an_idle_server_ends_with_its_input() {
    run(async || {
        for opened in [false, true] {
            let mut raw = Raw::start_with_grace("3600000");
            if opened {
                raw.open().await;
            }
            let begun = Instant::now();
            assert_eq!(raw.close().await, "");
            assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
        }
    });
}

// Covers R-1609.
#[test]
fn a_call_that_runs_is_answered_after_the_end_of_the_input() {
    run_once(async || {
        let mut raw = Raw::start_with_grace("3600000");
        raw.open().await;
        raw.write(&quiet(1, "wait", json!({"ms": 300}))).await;
        // The last line has no end.
        let last = quiet(2, "wait", json!({"ms": 100}));
        raw.write_bytes(last.as_bytes()).await;
        raw.stdin = None;
        for id in [2, 1] {
            let answer = raw.json().await;
            assert_eq!((&answer["id"], text(&answer)), (&json!(id), "waited"));
        }
        let answered = Instant::now();
        assert_eq!(raw.close().await, "");
        assert!(answered.elapsed() < Duration::from_secs(1));
    });
}

// Covers R-1609.
#[test]
fn a_call_that_runs_on_is_ended_after_the_grace() {
    run_once(async || {
        let mut raw = Raw::start_with_grace("300");
        raw.open().await;
        raw.write(&quiet(1, "hold", json!({}))).await;
        assert_eq!(raw.said().await, "held");
        raw.stdin = None;
        let begun = Instant::now();
        let answer = raw.json().await;
        assert!(
            begun.elapsed() >= Duration::from_millis(300),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(1), &json!(-32603))
        );
        raw.until_said("dropped").await;
        assert_eq!(raw.close().await, "");
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
    });
}

#[test]
fn a_signal_ends_a_server_whose_input_is_silent() {
    run(async || {
        for name in ["TERM", "INT"] {
            let mut raw = Raw::start_with_grace("3600000");
            raw.open().await;
            let begun = Instant::now();
            raw.signal(name);
            let (rest, status) = raw.end().await;
            assert!(
                status.success() && rest.is_empty(),
                "{name}: {status} {rest}"
            );
            assert!(begun.elapsed() < AT_ONCE, "{name}: {:?}", begun.elapsed());
        }
    });
}

#[test]
fn a_signal_lets_calls_end_and_a_second_one_does_not() {
    run_once(async || {
        let mut raw = Raw::start_with_grace("3600000");
        raw.open().await;
        raw.write(&quiet(1, "wait", json!({"ms": 300}))).await;
        raw.write(&quiet(2, "hold", json!({}))).await;
        assert_eq!(raw.said().await, "held");
        raw.signal("TERM");
        assert_eq!(text(&raw.json().await), "waited");
        raw.signal("INT");
        let answer = raw.json().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(2), &json!(-32603))
        );
        raw.until_said("dropped").await;
        let (rest, status) = raw.end().await;
        assert!(status.success() && rest.is_empty(), "{status} {rest}");
    });
}

// Covers R-1609.
#[test]
fn a_signal_during_the_grace_after_the_input_ends_it() {
    run_once(async || {
        let mut raw = Raw::start_with_grace("3600000");
        raw.open().await;
        raw.write(&call(1, "hold", json!({}))).await;
        assert_eq!(raw.said().await, "held");
        assert_eq!(raw.json().await["method"], "notifications/progress");
        raw.stdin = None;
        // Nothing shows that the end of the input was read but this: it is not serving any more.
        let begun = Instant::now();
        raw.signal("TERM");
        let mut answered = tokio::time::timeout(Duration::from_millis(500), raw.json()).await;
        if answered.is_err() {
            // The signal came first, so it was what began the grace.
            raw.signal("TERM");
            answered = Ok(raw.json().await);
        }
        assert_eq!(answered.unwrap()["id"], 1);
        raw.until_said("dropped").await;
        let (_, status) = raw.end().await;
        assert!(status.success(), "{status}");
        assert!(begun.elapsed() < AT_ONCE + AT_ONCE, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_client_that_closed_its_end_is_no_error() {
    run(async || {
        let mut raw = Raw::start_with_grace("3600000");
        raw.open().await;
        raw.write(&call(1, "hold", json!({}))).await;
        assert_eq!(raw.said().await, "held");
        raw.stdout = None;
        // Its stdin is open; what tells it is that it has something to say.
        raw.write(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#)
            .await;
        raw.until_all_said(&["served", "dropped"]).await;
        let (_, status) = raw.end().await;
        assert!(status.success(), "{status}");
    });
}
