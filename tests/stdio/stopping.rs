//! The end of a child that nobody needs any more.

use std::time::{Duration, Instant};

use agent_hub_kit::EventKind;
use futures_util::FutureExt as _;

use crate::{child, hub, hub_with, process, read, run, run_once};

/// Where a child notes what happens to it.
fn noted(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("stdio-test-{}-{name}", std::process::id()))
}

// Covers R-413, R-1608.
#[test]
fn closing_sends_the_cancels_then_closes_stdin_and_waits() {
    run(async || {
        let hub = hub();
        let file = noted("close");
        let _ = std::fs::remove_file(&file);
        let noting = format!(
            r#"
            file='{}'
            call() {{ progress "$id" 1 a; calls="$calls $id"; }}
            note() {{ case $line in *cancelled*) say "$line" >>"$file" ;; esac; }}
            serve
            echo "end of input" >>"$file"
            exit 0
            "#,
            file.display()
        );
        let marker = child::connect(&hub, &noting).await;
        let pids = process::with(&marker);
        let mut calls: Vec<_> = (0..2).map(|_| hub.call_tool_stream("t", ())).collect();
        for call in &mut calls {
            assert_eq!(call.next().await.unwrap().text(), Some("a"));
        }
        let begun = Instant::now();
        hub.close().await;
        // No stage was needed.
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
        process::gone(&marker, &pids).await;
        for call in &mut calls {
            let events = read(call).await;
            assert_eq!(events[0].kind, EventKind::TerminalError, "{events:?}");
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        for id in [r#""requestId":4"#, r#""requestId":5"#] {
            assert!(lines[..2].iter().any(|line| line.contains(id)), "{text}");
        }
        assert_eq!(lines[2], "end of input");
        std::fs::remove_file(&file).unwrap();
    });
}

// Covers R-1608.
#[test]
fn what_a_child_started_ends_with_it() {
    // How it goes: it ends by itself, it is closed, it is dropped, it is killed by another.
    run(async || {
        for how in ["close", "disconnect", "drop", "killed"] {
            let hub = hub();
            let marker = child::connect(
                &hub,
                r#"sh -c 'sleep 1000; :' "$0" & sh -c 'trap "" TERM; sleep 1000; :' "$0" &"#,
            )
            .await;
            let pids = process::count(&marker, 3).await;
            match how {
                "close" => hub.close().await,
                "disconnect" => hub.disconnect("p").await.unwrap(),
                "drop" => drop(hub),
                _ => {
                    let head = *pids.iter().min().unwrap();
                    process::signal(head, "KILL");
                }
            }
            process::gone(&marker, &pids).await;
        }
    });
}

// Covers R-1608.
#[test]
fn a_child_that_does_not_end_is_terminated_then_killed() {
    // What it does, and how many stages it takes at least and at most.
    let table = [
        ("serve; trap 'exit 0' TERM; sleep 1000 & wait", 1, 2),
        ("trap '' TERM; serve; while :; do sleep 1000; done", 2, 3),
    ];
    let stage = Duration::from_millis(300);
    run_once(async || {
        for (script, least, most) in table {
            let hub = hub_with(|limits| limits.child_stop_timeout = stage);
            let marker = child::connect(&hub, script).await;
            let pids = process::with(&marker);
            let begun = Instant::now();
            hub.close().await;
            let took = begun.elapsed();
            assert!(took >= stage * least, "{script}: {took:?}");
            assert!(
                took < stage * most + Duration::from_secs(1),
                "{script}: {took:?}"
            );
            process::gone(&marker, &pids).await;
        }
    });
}

#[test]
fn a_dropped_close_ends_the_child_at_once() {
    run(async || {
        let hub = hub();
        let marker = child::connect(&hub, "trap '' TERM; serve; sleep 1000").await;
        let pids = process::with(&marker);
        // Its stdin is closed, and the next stage would not be soon.
        let mut closing = Box::pin(hub.close());
        assert!(closing.as_mut().now_or_never().is_none());
        drop(closing);
        process::gone(&marker, &pids).await;
    });
}

#[test]
fn a_dropped_connect_leaves_no_process() {
    run(async || {
        let hub = hub();
        let (command, marker) = child::bare("next; sleep 1000");
        let mut connecting = Box::pin(hub.connect_stdio("p", command).into_future());
        let pids = loop {
            assert!(connecting.as_mut().now_or_never().is_none());
            let pids = process::with(&marker);
            if !pids.is_empty() {
                break pids;
            }
            tokio::task::yield_now().await;
        };
        drop(connecting);
        process::gone(&marker, &pids).await;
        hub.connect_stdio("p", child::script("").0).await.unwrap();
    });
}

#[test]
fn the_last_clone_takes_its_children_along() {
    run(async || {
        let hub = hub();
        let marker = child::connect(&hub, r#"call() { progress "$id" 1 a; }"#).await;
        let pids = process::with(&marker);
        let mut call = hub.call_tool_stream("t", ());
        assert_eq!(call.next().await.unwrap().text(), Some("a"));
        let clone = hub.clone();
        drop(hub);
        assert_eq!(process::with(&marker), pids, "a clone is left");
        drop(clone);
        process::gone(&marker, &pids).await;
        let events = read(&mut call).await;
        assert_eq!(events[0].kind, EventKind::TerminalError, "{events:?}");
    });
}

#[test]
fn a_runtime_that_ends_leaves_no_process() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (hub, marker) = runtime.block_on(async {
        let hub = hub();
        let marker = child::connect(&hub, "sleep 1000 &").await;
        (hub, marker)
    });
    assert!(!process::with(&marker).is_empty());
    drop(runtime);
    run_once(async || process::gone(&marker, &[]).await);
    // Without a runtime there is nothing to wait for.
    drop(hub);
}
