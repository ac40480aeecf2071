//! Children that end, stop, or never say a word.

use std::time::{Duration, Instant};

use agent_hub_kit::{CallStream, Error, EventKind, StdioCommand};

use crate::{child, hub, hub_with, process, read, run, run_once, said};

/// What the end of a child may take to be known by all who wait.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);

// Covers R-1604, R-1607.
#[test]
fn the_end_of_a_child_ends_each_call_once_and_says_how_it_went() {
    // How the child ends once twenty calls wait, and what the errors say of it.
    let table = [
        ("exit 0", "exit status: 0"),
        ("exit 7", "exit status: 7"),
        ("kill -KILL $$", "signal: 9"),
        ("exec 1>&-; read -r rest", "exit status: "),
        ("exec 0<&- 1>&-; sleep 1000", "closed its stdout"),
        // Somebody out of reach keeps the pipes open.
        (
            "exec 3>&1; held=$(setsid sh -c 'exec sleep 3 >&3' &); exit 3",
            "exit status: 3",
        ),
    ];
    run(async || {
        for (end, words) in table {
            let hub = hub();
            let ending = format!(
                r#"
                call() {{
                    progress "$id" 1 a
                    count=$((count + 1))
                    if [ "$count" = 20 ]; then echo "it was é" >&2; {end}; fi
                }}
                count=0
                "#
            );
            let marker = child::connect(&hub, &ending).await;
            let pids = process::with(&marker);
            let mut calls: Vec<CallStream> =
                (0..20).map(|_| hub.call_tool_stream("t", ())).collect();
            for call in &mut calls {
                assert_eq!(call.next().await.unwrap().text(), Some("a"), "{end}");
            }
            let last = Instant::now();
            for call in &mut calls {
                let events = read(call).await;
                assert_eq!(events.len(), 1, "{end}: {events:?}");
                assert_eq!(events[0].kind, EventKind::TerminalError, "{end}");
                let error = events[0].error().unwrap();
                assert!(matches!(error, Error::Transport { .. }), "{end}: {error:?}");
                let text = said(error);
                for word in ["p/t: ", "sh", words, "it was é"] {
                    assert!(text.contains(word), "{end}: no `{word}` in {text}");
                }
            }
            let after = last.elapsed();
            assert!(after < KNOWN_WITHIN, "{end}: known after {after:?}");
            hub.close().await;
            process::gone(&marker, &pids).await;
        }
    });
}

#[test]
fn a_child_that_ends_before_the_opening_is_an_error_that_tells_all() {
    // What it does instead, and what the error says.
    let table: [(&str, &[&str]); 5] = [
        ("exit 0", &["exit status: 0"]),
        (
            "echo 'no such module: é' >&2; exit 3",
            &["exit status: 3", "stderr", "no such module: é"],
        ),
        (
            "echo 'Usage: server [--stdio]'; exit 2",
            &["exit status: 2", "stdout", "Usage: server [--stdio]"],
        ),
        ("next; kill -TERM $$; next", &["signal: 15"]),
        (
            "head -c 100000 /dev/zero | tr '\\0' a >&2; echo the last >&2; exit 1",
            &["exit status: 1", "aaathe last"],
        ),
    ];
    run(async || {
        for (script, words) in table {
            let hub = hub();
            let (command, marker) = child::bare(script);
            let error = hub.connect_stdio("p", command).await.unwrap_err();
            let Error::Connect { server, target, .. } = &error else {
                panic!("{script}: {error:?}")
            };
            assert_eq!(&**server, "p");
            assert!(target.starts_with("sh -c "), "{target}");
            let text = said(&error);
            for word in words.iter().chain([&marker.as_str()]) {
                assert!(text.contains(word), "{script}: no `{word}` in {text}");
            }
            assert!(text.len() < 20_000, "{script}: {} bytes", text.len());
            process::gone(&marker, &[]).await;
            hub.connect_stdio("p", child::script("").0).await.unwrap();
        }
    });
}

#[test]
fn a_child_that_refuses_the_opening_is_ended() {
    run(async || {
        let hub = hub();
        let refusing = r#"opening() { say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32600,"message":"not today"}}'; }"#;
        let (command, marker) = child::script(refusing);
        let error = hub.connect_stdio("p", command).await.unwrap_err();
        assert!(said(&error).contains("not today"), "{}", said(&error));
        process::gone(&marker, &[]).await;
    });
}

#[test]
fn a_silent_child_is_given_up_and_ended() {
    run(async || {
        for (script, reads) in [("cat >/dev/null", true), ("exec sleep 1000", false)] {
            let hub = hub_with(|limits| limits.child_stop_timeout = Duration::from_millis(100));
            let (command, marker) = child::bare(script);
            let after = Duration::from_millis(200);
            let connecting = hub.connect_stdio("p", command).connect_timeout(after);
            let begun = Instant::now();
            let error = connecting.await.unwrap_err();
            let text = said(&error);
            assert!(text.contains("connect_timeout"), "{reads}: {text}");
            assert!(begun.elapsed() < Duration::from_secs(5), "{reads}");
            process::gone(&marker, &[]).await;
        }
    });
}

#[test]
fn a_stopped_child_keeps_no_call_beyond_its_time_and_no_close_beyond_its_stages() {
    run_once(async || {
        let hub = hub_with(|limits| {
            limits.child_stop_timeout = Duration::from_millis(200);
            limits.close_timeout = Duration::from_millis(200);
        });
        let marker = child::connect(&hub, "").await;
        let pids = process::with(&marker);
        process::signal(pids[0], "STOP");
        let after = Duration::from_millis(100);
        let error = hub.call_tool("t", ()).timeout(after).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
        // More than the pipe holds, so that the end of what is to be written never comes.
        let big = "x".repeat(1 << 20);
        let call = hub.call_tool("t", serde_json::json!({ "big": big }));
        let error = call.timeout(after).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
        let closing = Instant::now();
        hub.close().await;
        let took = closing.elapsed();
        assert!(
            took < Duration::from_secs(3),
            "three stages of 200 ms took {took:?}"
        );
        process::gone(&marker, &pids).await;
    });
}

#[test]
fn a_child_that_is_stopped_for_a_while_goes_on() {
    run(async || {
        let hub = hub();
        let marker = child::connect(&hub, "").await;
        hub.connect_stdio("other", child::script("").0)
            .await
            .unwrap();
        let pids = process::with(&marker);
        process::signal(pids[0], "STOP");
        let late = hub.call_tool("p/t", ()).timeout(Duration::from_millis(50));
        let error = late.await.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
        assert_eq!(hub.call_tool("other/t", ()).await.unwrap(), "4");
        process::signal(pids[0], "CONT");
        // After the late one and its cancel.
        assert_eq!(hub.call_tool("p/t", ()).await.unwrap(), "6");
        assert_eq!(process::with(&marker), pids, "the same child");
        hub.close().await;
        process::gone(&marker, &pids).await;
    });
}

// Covers R-1607.
#[test]
fn a_child_that_closes_its_stdin_is_gone() {
    run(async || {
        let hub = hub();
        let deaf = r#"
            listing() { exec 0<&-; tools; echo deaf >&2; exec sleep 1000; }
        "#;
        let (command, marker) = child::script(deaf);
        hub.connect_stdio("p", command).await.unwrap();
        let mut begun = Instant::now();
        let mut call = hub.call_tool_stream("t", ());
        let call = tokio::spawn(async move { read(&mut call).await });
        // What another test starts at this moment may hold the pipe for as long as it takes to
        // start it, and then a write succeeds that nobody reads. The next one tells; one that comes
        // after the end of the child starts it anew.
        while !call.is_finished() {
            let again = hub.call_tool("u", ()).timeout(Duration::from_millis(100));
            let _ = again.await;
        }
        let events = call.await.unwrap();
        let error = events[0].error().unwrap();
        assert!(matches!(error, Error::Transport { .. }), "{error:?}");
        assert!(said(error).contains("deaf"), "{}", said(error));
        assert!(begun.elapsed() < KNOWN_WITHIN, "{:?}", begun.elapsed());
        begun = Instant::now();
        hub.close().await;
        assert!(begun.elapsed() < Duration::from_secs(10));
        process::gone(&marker, &[]).await;
    });
}

#[test]
fn a_child_that_closes_its_stdout_is_stopped_at_once() {
    run(async || {
        let hub = hub();
        let mute = r#"call() { exec 1>&-; while next; do :; done; exit 0; }"#;
        let (command, marker): (StdioCommand, String) = child::script(mute);
        hub.connect_stdio("p", command).await.unwrap();
        let pids = process::with(&marker);
        let error = hub.call_tool("t", ()).await.unwrap_err();
        assert!(matches!(error, Error::Transport { .. }), "{error:?}");
        // Its stdin was closed, which is all it waits for.
        process::gone(&marker, &pids).await;
    });
}
