//! Processes as the system sees them: who is there, and who is gone.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An argument that no other process has.
pub fn marker() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let nth = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("stdio-test-{}-{nth}-end", std::process::id())
}

/// The processes with this argument.
pub fn with(marker: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let arguments = fs::read(entry.path().join("cmdline")).ok()?;
        let has = arguments
            .split(|byte| *byte == 0)
            .any(|argument| argument == marker.as_bytes());
        has.then_some(pid)
    })
    .collect()
}

/// How many children this process has, those that nobody has waited for included.
pub fn children() -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(state).filter(|(_, is_own)| *is_own).count()
}

/// The state of a process, and whether it is a child of this one; `None` if it is gone.
fn state(pid: u32) -> Option<(char, bool)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // "pid (name) state parent ..", where the name may hold anything.
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    let mut fields = rest.split(' ');
    let (state, parent) = (fields.next()?, fields.next()?);
    let own = std::process::id().to_string();
    Some((state.chars().next()?, parent == own))
}

/// Whether a process has ended, and was reaped if it is a child of this one.
fn is_gone(pid: u32) -> bool {
    state(pid).is_none_or(|(state, is_own)| state == 'Z' && !is_own)
}

/// Waits until these processes are gone, and none with the argument is left.
pub async fn gone(marker: &str, pids: &[u32]) {
    gone_of(pids).await;
    while !with(marker).is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Waits until these processes are gone.
pub async fn gone_of(pids: &[u32]) {
    while !pids.iter().all(|pid| is_gone(*pid)) {
        tokio::task::yield_now().await;
    }
}

/// Waits until there are so many with this argument.
pub async fn count(marker: &str, count: usize) -> Vec<u32> {
    loop {
        let found = with(marker);
        if found.len() == count {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

/// Sends a signal, by its name, to one process.
pub fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status();
    assert!(sent.unwrap().success(), "kill -{name} {pid}");
}
