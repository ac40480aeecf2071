//! The end of a server: of its input, of its output, and by a signal.

use std::process::Stdio;
use std::time::{Duration, Instant};

use agent_hub_kit::StdioCommand;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::raw::{Raw, call, initialize, quiet, stated, text};
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

/// All that a client has to say, and then nothing more, at once.
// Covers R-1609.
#[test]
fn what_was_asked_before_the_end_of_the_input_is_answered_whole() {
    run_once(async || {
        let mut raw = Raw::start_with_grace("3600000");
        let count = |id: i64| call(id, "count", json!({"n": 200, "size": 10}));
        let lines = [
            stated(&quiet(1, "wait", json!({"ms": 100}))),
            initialize(2),
            count(3),
            stated(&count(4)),
        ];
        raw.write_bytes(lines.join("\n").as_bytes()).await;
        raw.stdin = None;
        let (said, status) = raw.end().await;
        assert!(status.success(), "{status}");
        let (mut events, mut results) = ([0; 5], Vec::new());
        for line in said.lines() {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            match message["params"]["progressToken"].as_u64() {
                Some(token) => events[usize::try_from(token).unwrap()] += 1,
                None => results.push(message["id"].as_u64().unwrap()),
            }
        }
        results.sort_unstable();
        assert_eq!(
            (events, &*results),
            ([0, 0, 0, 200, 200], &[1, 2, 3, 4][..])
        );
    });
}

/// Servers of ours whose client is killed, and so says nothing: an idle one, one with a call that
/// ends in time and one with a call that does not. A server of somebody else may live on; nobody is
/// left who could end it.
// Covers R-1609.
#[test]
fn a_server_of_ours_ends_after_its_killed_client() {
    const INSIDE: &str = "STDIO_TEST_CLIENT";
    // One that waits for no reason waits for long.
    const SERVERS: [(&str, &str); 3] = [("idle", "3600000"), ("wait", "3600000"), ("hold", "300")];
    if let Ok(markers) = std::env::var(INSIDE) {
        run_once(async || {
            let hub = crate::hub();
            let mut calls = Vec::new();
            for (marker, (tool, grace)) in markers.split(' ').zip(SERVERS) {
                let command = StdioCommand::new(crate::raw::program());
                let command = command.arg(grace).arg(marker);
                hub.connect_stdio(tool, command).await.unwrap();
                if tool != "idle" {
                    let call = hub.call_tool_stream(tool, json!({"ms": 100}));
                    calls.push(call.server(tool));
                }
            }
            let mut held = calls.pop().unwrap();
            let mut short = calls.pop().unwrap();
            tokio::spawn(async move { short.next().await });
            let first = held.next().await;
            assert_eq!(first.unwrap().text(), Some("held"));
            println!("ready");
            std::future::pending::<()>().await;
        });
    }
    run_once(async || {
        let markers = [(); 3].map(|()| crate::process::marker());
        let mut client = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "leaving::a_server_of_ours_ends_after_its_killed_client",
                "--exact",
                "--nocapture",
            ])
            .env(INSIDE, markers.join(" "))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(client.stdout.take().unwrap()).lines();
        while said.next_line().await.unwrap().unwrap() != "ready" {}
        let pids = markers
            .each_ref()
            .map(|marker| crate::process::with(marker));
        assert!(pids.iter().all(|pids| pids.len() == 1), "{pids:?}");
        let begun = Instant::now();
        client.kill().await.unwrap();
        for (marker, pids) in markers.iter().zip(&pids) {
            crate::process::gone(marker, pids).await;
        }
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(300), "no grace: {took:?}");
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

/// What becomes of the thread is the business of whoever wrote the tool, and of the process.
#[test]
fn a_handler_that_never_yields_does_not_hold_up_the_end() {
    run_once(async || {
        for signals in [false, true] {
            let grace = if signals { "3600000" } else { "100" };
            let mut raw = Raw::start_on_threads(grace);
            raw.open().await;
            raw.write(&quiet(1, "stuck", json!({}))).await;
            raw.until_said("stuck").await;
            match signals {
                false => raw.stdin = None,
                true => {
                    raw.signal("TERM");
                    // Until it was heard; two at the same time are one.
                    raw.signal("INT");
                }
            }
            let answer = raw.json().await;
            assert_eq!(
                (&answer["id"], &answer["error"]["code"]),
                (&json!(1), &json!(-32603))
            );
            raw.until_said("served").await;
            raw.child.kill().await.unwrap();
        }
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
