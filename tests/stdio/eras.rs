//! Children of either era: each answer to the question, and children that turn.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use agent_hub_kit::{AgentHubClient, Era, Error};

use crate::{child, hub, hub_with, process, run, said};

/// A file to which each start of a child adds a line, and each message it hears its method.
struct Heard(PathBuf);

impl Heard {
    /// Also the changes that a script needs for it, and `$starts`, how often it was started, and
    /// the words of the stateless era.
    fn new() -> (Self, String) {
        let path = std::env::temp_dir().join(process::marker());
        let note = format!(
            r#"
            file='{}'
            echo start >>"$file"
            starts=$(grep -c start "$file")
            next() {{
                IFS= read -r line || return 1
                lines=$((lines + 1)) id=${{line#*\"id\":}} id=${{id%%[,\}}]*}}
                method=${{line#*\"method\":\"}}
                echo "${{method%%\"*}}" >>"$file"
            }}
            refuse() {{ say '{{"jsonrpc":"2.0","id":'"$id"',"error":{{"code":'"$1"',"message":"no"'"$2"'}}}}'; }}
            found() {{ answer '{{"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}}}}'; }}
            "#,
            path.display()
        );
        (Self(path), note)
    }

    fn all(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// What came after the first `count`.
    fn after(&self, count: usize) -> String {
        self.all()[count..].join(" ")
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn version(hub: &AgentHubClient) -> &'static str {
    hub.servers()[0].protocol_version.unwrap()
}

const ASKED: &str = "start server/discover tools/list";
const TOLD: &str = "start server/discover initialize notifications/initialized tools/list";

// Covers R-308.
#[test]
fn each_answer_to_the_question_has_its_consequence() {
    // What the child does about it, and what it hears.
    let table = [
        ("found", ASKED),
        (
            r#"say '{"jsonrpc":"2.0","method":"notifications/message","params":{}}'; echo noise; found"#,
            ASKED,
        ),
        (
            r#"answer '{"supportedVersions":["2027-01-01","2026-07-28","2025-11-25"]}'"#,
            ASKED,
        ),
        (r#"answer '{"supportedVersions":["2025-11-25"]}'"#, TOLD),
        (
            r#"refuse -32022 ',"data":{"supported":["2026-07-28"]}'; next; found"#,
            "start server/discover server/discover tools/list",
        ),
        (
            r#"refuse -32022 ',"data":{"supported":["2025-06-18"]}'"#,
            TOLD,
        ),
        ("refuse -32601", TOLD),
        ("refuse -32602", TOLD),
        ("refuse -32600", TOLD),
        ("refuse -32603", TOLD),
        ("refuse -32020", TOLD),
        ("refuse -32000", TOLD),
        ("id=null; refuse -32700", TOLD),
        ("id='\"other\"'; refuse -32600", TOLD),
        ("answer '{}'", TOLD),
        ("answer null", TOLD),
        (r#"say '{"jsonrpc":"2.0","id":'"$id"'}'"#, TOLD),
        (r#"say '{"jsonrpc":"2.0","id":'"$id"',"error":"no"}'"#, TOLD),
        // Noise and silence are no answer; the time that is waited for one is short here.
        ("echo 'unknown method server/discover'", TOLD),
        (":", TOLD),
    ];
    run(async || {
        for (does, expected) in table {
            let hub = hub_with(|limits| {
                limits.discover_timeout = match does.len() < 2 || does.starts_with("echo") {
                    true => Duration::from_millis(50),
                    false => Duration::from_secs(3600),
                };
            });
            let (heard, note) = Heard::new();
            let begun = Instant::now();
            child::connect(&hub, &format!("{note} discover() {{ {does}; }}")).await;
            // Silence would be half of the connect timeout.
            assert!(begun.elapsed() < Duration::from_secs(10), "{does}");
            assert_eq!(heard.after(0), expected, "{does}");
            let found = if expected == TOLD {
                "2025-11-25"
            } else {
                "2026-07-28"
            };
            assert_eq!(version(&hub), found, "{does}");
            hub.call_tool("t", ()).await.unwrap();
            hub.close().await;
        }
    });
}

// Covers R-305, R-308.
#[test]
fn what_comes_late_is_dropped_and_the_question_is_never_cancelled() {
    run(async || {
        let (heard, note) = Heard::new();
        let hub = hub_with(|limits| limits.discover_timeout = Duration::from_millis(50));
        let late = r#"
            discover() { first=$id; }
            opening() { own=$id id=$first; refuse -32601; found; id=null; refuse -32700; id=$own; welcome; }
            call() { own=$id id=$first; found; id=$own; text ok; }
        "#;
        child::connect(&hub, &(note + late)).await;
        assert_eq!(hub.call_tool("t", ()).await.unwrap(), "ok");
        assert_eq!(version(&hub), "2025-11-25");
        assert_eq!(heard.after(0), format!("{TOLD} tools/call"));
    });
}

// Covers R-307.
#[test]
fn a_child_that_is_slow_to_start_and_knows_no_handshake_is_asked_again() {
    run(async || {
        let (heard, note) = Heard::new();
        let hub = hub_with(|limits| limits.discover_timeout = Duration::from_millis(50));
        let slow = r#"
            discover() { case $lines in 1) first=$id ;; *) found ;; esac; }
            opening() { own=$id id=$first; found; id=$own; refuse -32601; }
        "#;
        child::connect(&hub, &(note + slow)).await;
        assert_eq!(version(&hub), "2026-07-28");
        assert_eq!(
            heard.after(0),
            "start server/discover initialize server/discover tools/list"
        );
    });
}

// Covers R-309.
#[test]
fn a_child_that_goes_when_it_is_asked_is_started_again_and_not_asked() {
    let again = "start server/discover start initialize notifications/initialized tools/list";
    run(async || {
        for ends in [
            "exit 0",
            "echo 'Traceback' >&2; exit 1",
            "kill -KILL $$",
            "exec 1>&-; while next; do :; done; exit 0",
        ] {
            let (heard, note) = Heard::new();
            let hub = hub();
            let script = format!("{note} discover() {{ {ends}; }}");
            let begun = Instant::now();
            let marker = child::connect(&hub, &script).await;
            assert!(begun.elapsed() < Duration::from_secs(5), "{ends}");
            assert_eq!(heard.after(0), again, "{ends}");
            let pids = process::with(&marker);
            assert_eq!(pids.len(), 1, "{ends}");
            // What it is is known by now.
            let count = heard.all().len();
            process::signal(pids[0], "KILL");
            process::gone(&marker, &pids).await;
            // A call that met the dead one may fail.
            if hub.call_tool("t", ()).await.is_err() {
                hub.call_tool("t", ()).await.unwrap();
            }
            // One that is new lists its tools again, at a time of its own.
            let heard = heard.after(count).replace(" tools/list", "");
            let known = "start initialize notifications/initialized tools/call";
            assert_eq!(heard, known, "{ends}");
        }
    });
}

// Covers R-309.
#[test]
fn a_child_that_goes_twice_is_an_error_that_tells_of_both() {
    run(async || {
        let (heard, note) = Heard::new();
        let script = format!(
            "{note} discover() {{ echo asked >&2; exit 3; }}; opening() {{ echo offered >&2; exit 4; }}"
        );
        let (command, marker) = child::script(&script);
        let error = hub().connect_stdio("p", command).await.unwrap_err();
        let text = said(&error);
        for part in [
            "exit status: 4",
            "offered",
            "server/discover",
            "exit status: 3",
            "asked",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert_eq!(heard.after(0), "start server/discover start initialize");
        process::gone(&marker, &[]).await;
    });
}

// Covers R-307, R-309.
#[test]
fn a_child_that_holds_on_to_the_question_is_started_again_for_it() {
    run(async || {
        let (heard, note) = Heard::new();
        let hub = hub();
        let locked = r#"
            discover() { case $starts in 1) refuse -32603 ;; *) found ;; esac; }
            opening() { refuse -32022; }
        "#;
        let marker = child::connect(&hub, &(note + locked)).await;
        assert_eq!(
            heard.after(0),
            "start server/discover initialize start server/discover tools/list"
        );
        assert_eq!(version(&hub), "2026-07-28");
        assert_eq!(process::with(&marker).len(), 1, "the first one has gone");
    });
}

// Covers R-302, R-310.
#[test]
fn a_choice_of_the_user_is_all_that_is_tried() {
    run(async || {
        for (era, expected) in [
            (
                Era::Legacy,
                "start initialize notifications/initialized tools/list",
            ),
            (Era::Modern, ASKED),
        ] {
            let (heard, note) = Heard::new();
            let hub = hub();
            let (command, _) = child::script(&format!("{note} discover() {{ found; }}"));
            hub.connect_stdio("p", command).era(era).await.unwrap();
            assert_eq!(heard.after(0), expected);
        }
        for era in [Era::Legacy, Era::Modern] {
            for does in ["refuse -32601", "exit 3"] {
                let (heard, note) = Heard::new();
                let script = format!("{note} discover() {{ {does}; }}; opening() {{ {does}; }}");
                let (command, marker) = child::script(&script);
                let hub = hub();
                let error = hub.connect_stdio("p", command).era(era).await.unwrap_err();
                assert!(matches!(error, Error::Connect { .. }), "{error:?}");
                assert_eq!(heard.all().len(), 2, "{era:?}: {}", heard.after(0));
                process::gone(&marker, &[]).await;
            }
        }
    });
}

// Covers R-303, R-310.
#[test]
fn what_a_command_was_found_to_start_is_kept_for_its_next_start_and_doubted_if_it_is_contradicted()
{
    run(async || {
        let (heard, note) = Heard::new();
        let hub = hub();
        // The third start and all after it are stateless, and know no handshake.
        let turning = r#"
            discover() { case $starts in 1|2) refuse -32601 ;; *) found ;; esac; }
            opening() { case $starts in 1|2) welcome ;; *) refuse -32601 ;; esac; }
        "#;
        let (command, _) = child::script(&(note + turning));
        hub.connect_stdio("p", command.clone()).await.unwrap();
        assert_eq!(heard.after(0), TOLD);
        let mut count = heard.all().len();
        let mut reconnect = async |expected: &str, found: &str| {
            hub.connect_stdio("p", command.clone())
                .replace(true)
                .await
                .unwrap();
            assert_eq!(version(&hub), found);
            assert_eq!(heard.after(count), expected);
            count = heard.all().len();
        };
        let known = "start initialize notifications/initialized tools/list";
        reconnect(known, "2025-11-25").await;
        reconnect(
            "start initialize start server/discover tools/list",
            "2026-07-28",
        )
        .await;
        reconnect(ASKED, "2026-07-28").await;
        // Another command is another server.
        let other = command.clone().env("OTHER", "1");
        hub.connect_stdio("q", other).await.unwrap();
        assert_eq!(heard.after(count), ASKED);
    });
}

// Covers R-403, R-408.
#[test]
fn an_older_revision_is_spoken_and_an_unknown_one_is_an_error_that_names_both() {
    run(async || {
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "1999-01-01"] {
            let hub = hub();
            let (command, marker) = child::script(&format!(
                r#"opening() {{ answer '{{"protocolVersion":"{version}","capabilities":{{}}}}'; }}"#
            ));
            let connected = hub.connect_stdio("p", command).await;
            if version == "1999-01-01" {
                let text = said(&connected.unwrap_err());
                assert!(
                    text.contains(version) && text.contains("2025-11-25"),
                    "{text}"
                );
                process::gone(&marker, &[]).await;
            } else {
                assert_eq!(connected.unwrap().len(), 2, "{version}");
                assert_eq!(crate::eras::version(&hub), version);
                assert_eq!(hub.call_tool("t", ()).await.unwrap(), "4", "{version}");
            }
        }
    });
}
