//! What the processes of a run tell each other: a JSON line each.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What a process is started with, as its one argument after the mode.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    pub seed: u64,
    pub clients: u64,
    /// Calls a second, of all clients together.
    pub rate: u64,
    /// Where each server is to listen, or is reached.
    pub servers: BTreeMap<String, SocketAddr>,
    /// Bytes that a client keeps of each call: to see that the watch bites.
    pub leak: usize,
}

/// What a process says of itself, twice a second.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    pub rss_kib: u64,
    pub fds: u64,
    pub tasks: u64,
    pub threads: u64,
    /// By name; what is counted differs by the process.
    pub counts: BTreeMap<String, u64>,
    /// What went wrong, the first of it.
    pub wrong: Vec<String>,
}

impl Report {
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or_default()
    }
}
