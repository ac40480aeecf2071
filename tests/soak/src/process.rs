//! The processes of a run, from outside.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep, timeout_at};

use crate::report::{Report, Setup};
use crate::watch::cpu;

/// A process of the run, and what it said last.
pub struct Process {
    pub child: Child,
    input: ChildStdin,
    last: Arc<Mutex<Report>>,
}

impl Process {
    pub fn start(mode: &str, setup: &Setup) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(mode)
            .arg(serde_json::to_string(setup)?)
            // What is freed goes back to the system, or one burst of large events would hide a leak
            // for the rest of the run. Other allocators than glibc's ignore it.
            .env("MALLOC_ARENA_MAX", "2")
            .env("MALLOC_MMAP_THRESHOLD_", "65536")
            .env("MALLOC_TRIM_THRESHOLD_", "131072")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || std::io::Error::other("no pipe");
        let input = child.stdin.take().ok_or_else(missing)?;
        let mut output = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        let last = Arc::new(Mutex::new(Report::default()));
        let told = last.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                if let Ok(report) = serde_json::from_str(&line) {
                    *told.lock().unwrap() = report;
                }
            }
        });
        Ok(Self { child, input, last })
    }

    pub async fn say(&mut self, line: &str) {
        let _ = self.input.write_all(format!("{line}\n").as_bytes()).await;
    }

    pub fn report(&self) -> Report {
        self.last.lock().unwrap().clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Processor time so far, in seconds.
    pub fn cpu(&self) -> f64 {
        cpu(self.pid()).as_secs_f64()
    }

    /// Waits until it says that all is ready.
    pub async fn ready(&self) {
        while self.report().count("ready") == 0 {
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Tells it to end and waits until it did.
    pub async fn end(&mut self, until: Instant, wrong: &mut Vec<String>, name: &str) -> Report {
        self.say("stop").await;
        match timeout_at(until, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(status) => wrong.push(format!("the {name} ended by {status:?}")),
            Err(_) => wrong.push(format!("the {name} does not end")),
        }
        for _ in 0..100 {
            if self.report().count("over") > 0 {
                break;
            }
            sleep(Duration::from_millis(10)).await; // until its last line was read
        }
        self.report()
    }
}
