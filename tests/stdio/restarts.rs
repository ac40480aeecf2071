//! A child that died comes back with the next call, but not for ever.

use std::path::PathBuf;
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Error, EventKind};

use crate::{child, hub, hub_with, process, read, run, said};

/// A file to which each start of a child adds a line, and what makes it do so.
struct Starts(PathBuf);

impl Starts {
    fn new() -> (Self, String) {
        let path = std::env::temp_dir().join(process::marker());
        let note = format!("file='{}'; echo start >>\"$file\"\n", path.display());
        (Self(path), note)
    }

    fn count(&self) -> usize {
        std::fs::read_to_string(&self.0).unwrap().lines().count()
    }
}

impl Drop for Starts {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

// Covers R-1606.
#[test]
fn the_next_call_after_a_death_starts_the_child_again() {
    run(async || {
        let (starts, note) = Starts::new();
        let hub = hub();
        let script = r#"
            call() { case $line in *'"u"'*) progress "$id" 1 a ;; *) text "$lines" ;; esac; }
        "#;
        let marker = child::connect(&hub, &(note + LISTS_ASIDE + script)).await;
        for nth in 1..=7 {
            assert_eq!(starts.count(), nth);
            let mut waiting = hub.call_tool_stream("u", ());
            assert_eq!(waiting.next().await.unwrap().text(), Some("a"));
            let pids = process::with(&marker);
            process::signal(pids[0], "KILL");
            let events = read(&mut waiting).await;
            assert_eq!(events[0].kind, EventKind::TerminalError);
            process::gone(&marker, &pids).await;
            // A new opening, its note, and this call.
            assert_eq!(hub.call_tool("t", ()).await.unwrap(), "3");
        }
        assert_eq!(hub.list_tools().await[0].1.len(), 2);
    });
}

#[test]
fn a_child_that_dies_of_a_cancel_is_started_again() {
    run(async || {
        let hub = hub();
        let script = r#"
            call() { case $line in *'"u"'*) progress "$id" 1 a ;; *) text "$lines" ;; esac; }
            note() { case $line in *notifications/cancelled*) exit 1 ;; esac; }
        "#;
        let marker = child::connect(&hub, &(LISTS_ASIDE.to_owned() + script)).await;
        for _ in 0..2 {
            let pids = process::with(&marker);
            let mut cancelled = hub.call_tool_stream("u", ());
            assert_eq!(cancelled.next().await.unwrap().text(), Some("a"));
            cancelled.cancel();
            let events = read(&mut cancelled).await;
            assert_eq!(events[0].kind, EventKind::Cancelled, "{events:?}");
            process::gone_of(&pids).await;
            // A call that meets the dead one fails; once its end is known none does.
            let answer = loop {
                match hub.call_tool("t", ()).await {
                    Ok(answer) => break answer,
                    Err(e) => assert!(matches!(e, Error::Transport { .. }), "{e:?}"),
                }
            };
            assert_eq!(answer, "3");
        }
    });
}

#[test]
fn calls_that_come_together_share_one_restart() {
    run(async || {
        let (starts, note) = Starts::new();
        let hub = hub();
        let marker = child::connect(&hub, &note).await;
        let pids = process::with(&marker);
        process::signal(pids[0], "KILL");
        process::gone(&marker, &pids).await;
        let calls = (0..20).map(|_| hub.call_tool("t", ()).into_future());
        for result in futures_util::future::join_all(calls).await {
            // A call that met the dead one may fail, once its end is known none does.
            if let Err(e) = result {
                assert!(matches!(e, Error::Transport { .. }), "{e:?}");
            }
        }
        hub.call_tool("t", ()).await.unwrap();
        assert_eq!(starts.count(), 2);
    });
}

/// A list is no line that counts: it comes at a time of its own.
const LISTS_ASIDE: &str = r#"
    listing() { lines=$((lines - 1)); tools; }
"#;

#[test]
fn a_child_that_is_started_again_is_asked_for_its_tools_again() {
    run(async || {
        let (starts, note) = Starts::new();
        let hub = hub();
        let script = r#"
            case $(wc -l <"$file") in
                2) tools() { answer '{"tools":[{"name":"t"},{"name":"new"}]}'; } ;;
            esac
            call() { case $line in *'"u"'*) exit 3 ;; *) text ok ;; esac; }
        "#;
        child::connect(&hub, &(note + script)).await;
        hub.call_tool("u", ()).await.unwrap_err();
        assert_eq!(hub.call_tool("t", ()).await.unwrap(), "ok");
        while hub.find_tool("new").is_none() {
            tokio::task::yield_now().await;
        }
        assert!(hub.find_tool("u").is_none());
        assert_eq!(starts.count(), 2);
    });
}

async fn fail(hub: &AgentHubClient) -> Error {
    hub.call_tool("t", ()).await.unwrap_err()
}

// Covers R-1606.
#[test]
fn a_child_is_not_started_for_ever() {
    // What it does at each call, or when it starts again.
    let table = [
        ("call() { exit 3; }", "exit status: 3"),
        (
            r#"call() { exit 3; }; [ "$(wc -l <"$file")" = 1 ] || { echo gone >&2; exit 4; }"#,
            "exit status: 4",
        ),
        (
            r#"
            call() { exit 3; }
            [ "$(wc -l <"$file")" = 1 ] || opening() {
                say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32603,"message":"exit status: none"}}'
            }
            "#,
            "exit status: none",
        ),
    ];
    run(async || {
        for (script, words) in table {
            let (starts, note) = Starts::new();
            let hub = hub_with(|limits| limits.max_child_starts = 3);
            let marker = child::connect(&hub, &(note + script)).await;
            // The first start was answered: its list.
            assert!(said(&fail(&hub).await).contains("exit status: 3"));
            for again in 1..=3 {
                let text = said(&fail(&hub).await);
                assert!(text.contains(words), "{again}: {text}");
                assert_eq!(starts.count(), 1 + again, "{script}");
            }
            for _ in 0..3 {
                let error = fail(&hub).await;
                let Error::Limit { what, max, .. } = &error else {
                    panic!("{script}: {error:?}")
                };
                assert_eq!((*what, *max), ("max_child_starts", 3));
                assert_eq!(error.server(), Some("p"));
            }
            assert_eq!(starts.count(), 4, "{script}");
            process::gone(&marker, &[]).await;
            // Made anew it is another matter.
            let (command, _) = child::script("");
            hub.connect_stdio("p", command).replace(true).await.unwrap();
            hub.call_tool("t", ()).await.unwrap();
        }
    });
}

#[test]
fn an_answer_starts_the_count_anew() {
    run(async || {
        let (starts, note) = Starts::new();
        let hub = hub_with(|limits| limits.max_child_starts = 2);
        let script = r#"call() { case $line in *'"u"'*) text ok ;; *) exit 3 ;; esac; }"#;
        child::connect(&hub, &(note + script)).await;
        fail(&hub).await;
        for nth in 0..4 {
            assert_eq!(hub.call_tool("u", ()).await.unwrap(), "ok", "{nth}");
            fail(&hub).await;
            fail(&hub).await;
        }
        assert_eq!(starts.count(), 1 + 2 * 4);
    });
}

#[test]
fn a_restart_that_stays_silent_is_given_up_and_tried_anew() {
    run(async || {
        let (starts, note) = Starts::new();
        let hub = hub_with(|limits| limits.child_stop_timeout = Duration::from_millis(50));
        // The second one says nothing.
        let script = r#"
            case $(wc -l <"$file") in 2) exec sleep 1000 ;; esac
            call() { case $line in *'"u"'*) exit 3 ;; *) text "$lines" ;; esac; }
        "#;
        let (command, marker) = child::script(&(note + LISTS_ASIDE + script));
        let connecting = hub.connect_stdio("p", command);
        connecting
            .connect_timeout(Duration::from_secs(1))
            .await
            .unwrap();
        hub.call_tool("u", ()).await.unwrap_err();
        let error = fail(&hub).await;
        let Error::Timeout { what, .. } = error else {
            panic!("{error:?}")
        };
        assert_eq!(what, "connect_timeout");
        // The silent one goes before the next one comes, which hears of nothing before its opening.
        assert_eq!(hub.call_tool("t", ()).await.unwrap(), "3");
        assert_eq!(starts.count(), 3);
        assert_eq!(process::with(&marker).len(), 1);
    });
}

#[test]
fn what_waited_for_a_dead_child_is_not_sent_to_the_next_one() {
    run(async || {
        let hub = hub();
        // Says what the first message was.
        let script = r#"
            next; first=${line%%,\"params*}
            opening
            call() {
                case $line in
                    *'"u"'*) progress "$id" 1 a ;;
                    *) printf '{"jsonrpc":"2.0","id":%s,"result":{"structuredContent":{"first":%s}}}\n' "$id" "$first}" ;;
                esac
            }
        "#;
        let marker = child::connect(&hub, script).await;
        for _ in 0..5 {
            let mut waiting: Vec<_> = (0..20).map(|_| hub.call_tool_stream("u", ())).collect();
            for call in &mut waiting {
                assert_eq!(call.next().await.unwrap().text(), Some("a"));
            }
            process::signal(process::with(&marker)[0], "KILL");
            let last = waiting.pop();
            // Cancels, while it dies.
            drop(waiting);
            read(&mut last.unwrap()).await;
            let first = hub.call_tool("t", ()).await.unwrap();
            assert_eq!(first["first"]["method"], "initialize", "{first}");
        }
    });
}
