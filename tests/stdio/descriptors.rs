//! Standard streams that are no pipes, and a stdout that is also stderr.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use crate::raw::{self, call, initialize, quiet};
use crate::run_once;

fn pair() -> (UnixStream, OwnedFd) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (UnixStream::from_std(ours).unwrap(), theirs.into())
}

fn requests() -> String {
    let call = quiet(1, "echo", json!({"text": "é"}));
    format!("{}\n{call}\n", initialize(0))
}

fn assert_answers(said: &str) {
    let ids: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .map(|answer| answer["id"].clone())
        .collect();
    assert_eq!(ids, [0, 1], "{said}");
}

#[test]
fn files_are_read_and_written() {
    run_once(async || {
        let folder = std::env::temp_dir().join(crate::process::marker());
        std::fs::create_dir(&folder).unwrap();
        let (input, output) = (folder.join("in"), folder.join("out"));
        std::fs::write(&input, requests()).unwrap();
        let mut command = raw::command("5000");
        command.stdin(File::open(&input).unwrap());
        command.stdout(File::create(&output).unwrap());
        let status = command.status().await.unwrap();
        assert!(status.success(), "{status}");
        assert_answers(&std::fs::read_to_string(&output).unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
    });
}

#[test]
fn no_input_is_the_end_of_the_input() {
    run_once(async || {
        let output = raw::command("5000")
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        // Nobody to hear it is not the end of it.
        let mut command = raw::command("5000");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(requests().as_bytes()).await.unwrap();
        drop(stdin);
        assert!(child.wait().await.unwrap().success());
    });
}

#[test]
fn sockets_are_read_and_written_and_a_signal_ends_the_silence() {
    run_once(async || {
        for shared in [false, true] {
            let (ours, theirs) = pair();
            let (mut reads, mut writes) = ours.into_split();
            let mut command = raw::command("5000");
            let mut other = None;
            if shared {
                command.stdout(theirs.try_clone().unwrap());
            } else {
                let (ours, theirs) = pair();
                other = Some(ours);
                command.stdout(theirs);
            }
            let mut child = command.stdin(theirs).stderr(Stdio::null()).spawn().unwrap();
            drop(command);
            writes.write_all(requests().as_bytes()).await.unwrap();
            let mut said = String::new();
            let mut read = async |reader: &mut (dyn tokio::io::AsyncRead + Unpin + Send)| {
                let mut lines = BufReader::new(reader);
                for _ in 0..2 {
                    lines.read_line(&mut said).await.unwrap();
                }
            };
            match &mut other {
                Some(other) => read(other).await,
                None => read(&mut reads).await,
            }
            assert_answers(&said);
            crate::process::signal(child.id().unwrap(), "TERM");
            let status = child.wait().await.unwrap();
            assert!(status.success(), "{shared}: {status}");
        }
    });
}

/// A socket tells of a client that goes before it has read all, other than a pipe does.
#[test]
fn a_client_that_goes_with_answers_unread_is_no_error() {
    run_once(async || {
        for shared in [false, true] {
            let (mut ours, theirs) = pair();
            let mut command = raw::command("5000");
            let mut other = None;
            if shared {
                command.stdout(theirs.try_clone().unwrap());
            } else {
                let (ours, theirs) = pair();
                other = Some(ours);
                command.stdout(theirs);
            }
            let stderr = Stdio::piped();
            let mut child = command.stdin(theirs).stderr(stderr).spawn().unwrap();
            drop(command);
            ours.write_all(requests().as_bytes()).await.unwrap();
            other.as_ref().unwrap_or(&ours).readable().await.unwrap();
            drop((ours, other));
            let mut said = String::new();
            let mut stderr = child.stderr.take().unwrap();
            stderr.read_to_string(&mut said).await.unwrap();
            let status = child.wait().await.unwrap();
            assert!(status.success(), "shared: {shared}: {status}: {said}");
        }
    });
}

/// A stdout that is also stderr, and a client that reads slowly: who prints on stderr must find it
/// as it was.
#[test]
fn what_is_printed_on_a_shared_output_is_not_in_danger() {
    run_once(async || {
        for kind in ["pipe", "socket"] {
            let mut command = tokio::process::Command::new("sh");
            // The tool says a line on stderr for each call; more of them than fit.
            command
                .args(["-c", "exec \"$0\" 5000 2>&1"])
                .arg(raw::program());
            command.stdin(Stdio::piped()).kill_on_drop(true);
            let (ours, theirs) = pair();
            match kind {
                "pipe" => command.stdout(Stdio::piped()),
                _ => command.stdout(theirs),
            };
            let mut child = command.spawn().unwrap();
            drop(command);
            let mut stdin = child.stdin.take().unwrap();
            let mut output: Box<dyn tokio::io::AsyncRead + Unpin + Send> = match kind {
                "pipe" => Box::new(child.stdout.take().unwrap()),
                _ => Box::new(ours),
            };
            let mut lines = initialize(0) + "\n";
            for id in 1..=40 {
                lines += &call(id, "count", json!({"n": 500, "size": 100}));
                lines.push('\n');
            }
            stdin.write_all(lines.as_bytes()).await.unwrap();
            // It fills what there is between us before the first is read.
            let filled = tokio::time::timeout(Duration::from_millis(300), child.wait()).await;
            assert!(filled.is_err(), "{kind}: {filled:?}");
            drop(stdin);
            let mut said = String::new();
            output.read_to_string(&mut said).await.unwrap();
            let status = child.wait().await.unwrap();
            assert!(status.success(), "{kind}: {status}");
            assert!(!said.contains("panicked"), "{kind}");
            // Whole lines of stderr may stand inside a line of stdout; all the rest is in order.
            assert_eq!(said.matches("counted\n").count(), 40, "{kind}");
            let rest = said.replace("counted\n", "").replace("served\n", "");
            assert_eq!(rest.lines().count(), 1 + 40 * 501, "{kind}");
            for line in rest.lines() {
                let line = serde_json::from_str::<Value>(line).map_err(|e| format!("{e}: {line}"));
                line.unwrap();
            }
        }
    });
}

#[test]
fn a_terminal_is_read_without_being_waited_for() {
    // `script` makes one; not every system has it.
    let there = std::process::Command::new("script")
        .arg("--version")
        .output();
    if !there.is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: no `script`");
    }
    run_once(async || {
        let marker = crate::process::marker();
        let mut command = tokio::process::Command::new("script");
        let line = format!(
            "stty -echo -icanon; '{}' {marker}; echo \"it ended: $?\"",
            raw::program().display()
        );
        command
            .args(["-qec", &line, "/dev/null"])
            .kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let pids = crate::process::count(&marker, 1).await;
        stdin.write_all(requests().as_bytes()).await.unwrap();
        let mut answers = 0;
        while answers < 2 {
            let line = output.next_line().await.unwrap().unwrap();
            answers += usize::from(line.contains(r#""result""#));
        }
        crate::process::signal(pids[0], "TERM");
        while !output
            .next_line()
            .await
            .unwrap()
            .unwrap()
            .contains("it ended: 0")
        {}
        drop(stdin);
        child.wait().await.unwrap();
    });
}
