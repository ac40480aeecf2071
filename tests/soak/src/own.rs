//! What a process knows of itself, and how it talks to the one that started it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, Write};
use std::sync::Mutex;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::report::Report;

/// Counters by name, and the first things that went wrong.
#[derive(Default)]
pub struct Counts {
    counts: Mutex<BTreeMap<String, u64>>,
    wrong: Mutex<Vec<String>>,
}

/// What of all that went wrong is told in words.
const TOLD: usize = 20;

impl Counts {
    pub fn add(&self, name: &str, by: u64) {
        let mut counts = self.counts.lock().unwrap();
        match counts.get_mut(name) {
            Some(count) => *count += by,
            None => drop(counts.insert(name.to_owned(), by)),
        }
    }

    pub fn set(&self, name: &str, count: u64) {
        self.counts.lock().unwrap().insert(name.to_owned(), count);
    }

    pub fn wrong(&self, what: String) {
        self.add("wrong", 1);
        let mut wrong = self.wrong.lock().unwrap();
        if wrong.len() < TOLD {
            wrong.push(what);
        }
    }

    /// The same of a call, by the kind of fault.
    pub fn wrong_call(&self, fault: &str, what: String) {
        self.add(fault, 1);
        self.wrong(format!("{fault}: {what}"));
    }

    pub fn report(&self) -> Report {
        Report {
            rss_kib: status("VmRSS:"),
            fds: fds(),
            tasks: Handle::current().metrics().num_alive_tasks() as u64,
            threads: status("Threads:"),
            counts: self.counts.lock().unwrap().clone(),
            wrong: self.wrong.lock().unwrap().clone(),
        }
    }

    /// Tells it to the process that started this one.
    pub fn tell(&self) {
        let line = serde_json::to_string(&self.report()).expect("it is JSON");
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            std::process::exit(1); // nobody watches any more
        }
    }

    /// Waits until something holds, telling how it goes; false if it did not within the time.
    pub async fn until(&self, patience: Duration, holds: impl Fn(&Report) -> bool) -> bool {
        let step = Duration::from_millis(100);
        for _ in 0..patience.as_millis() / step.as_millis() {
            if holds(&self.report()) {
                return true;
            }
            tokio::time::sleep(step).await;
        }
        holds(&self.report())
    }
}

/// A figure of `/proc/self/status`.
fn status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let figure = line.and_then(|line| line.split_whitespace().next());
    figure.and_then(|figure| figure.parse().ok()).unwrap_or(0)
}

/// Open descriptors, without the one that counts them.
fn fds() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(0, |dir| dir.count() as u64 - 1)
}

/// The lines that this process is sent. It ends with whoever started it.
pub fn commands() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                return;
            }
        }
        std::process::exit(1);
    });
    receiver
}
