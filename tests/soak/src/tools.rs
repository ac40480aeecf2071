//! What the servers offer. Each event says its call and its place in it, and the end how many there
//! were.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_hub_kit::{Limits, McpServer, McpServerBuilder, Tool, ToolContext, ToolError};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::own::Counts;

/// The arguments of `stream`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ask {
    /// The client in the upper half, the number of its call in the lower.
    pub call: u64,
    pub events: u64,
    /// Bytes of each event beside its numbers.
    pub size: usize,
    pub pause_us: u64,
    pub end: End,
    /// Nobody will disturb it, so that it counts on both sides.
    pub plain: bool,
    /// Whatever comes along.
    pub load: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Done,
    Fail,
    Panic,
    /// Never.
    Hang,
    /// Takes the process along.
    Exit,
}

/// What event `index` of a call says.
pub fn content(call: u64, index: u64, size: usize) -> String {
    // With and without what JSON escapes, in turn.
    let part = ["x", "\"\\あ\n\u{1}", "é🦀"][(call + index) as usize % 3];
    format!("{call}:{index}:{}", part.repeat(size.div_ceil(part.len())))
}

/// What the end of a call says.
pub fn ending(ask: &Ask, events: u64) -> String {
    let sum = ask.load.bytes().fold(7u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    format!("{}:{events}:{sum}", ask.call)
}

/// What a server knows of its calls.
#[derive(Default)]
pub struct Tally {
    running: AtomicU64,
    /// The newest calls of each client: none may run twice.
    recent: Mutex<HashMap<u64, VecDeque<u64>>>,
    /// What it is asked may have been changed on the way.
    is_battered: bool,
}

const RECENT: usize = 64;

/// A call that runs; it ends with its handler, however that ends.
struct Running<'a>(&'a Tally);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tally {
    /// Of a server whose bytes are changed on the way.
    pub fn battered() -> Self {
        Self {
            is_battered: true,
            ..Self::default()
        }
    }

    pub fn running(&self) -> u64 {
        self.running.load(Ordering::Relaxed)
    }

    fn begin(&self, call: u64, counts: &Counts) -> Running<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        let mut recent = self.recent.lock().unwrap();
        let calls = recent.entry(call >> 32).or_default();
        if calls.contains(&call) && !self.is_battered {
            counts.wrong(format!("call {call:x} ran twice"));
        }
        if calls.len() == RECENT {
            calls.pop_front();
        }
        calls.push_back(call);
        Running(self)
    }
}

/// Short where a person would wait, so that each wait is met in a run; yet not so short that a machine
/// which is busy with something else is taken for a client that stalls.
pub fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.session_idle_timeout = Duration::from_secs(10);
    limits.detached_call_timeout = Duration::from_secs(2);
    limits.header_read_timeout = Duration::from_secs(6);
    limits.body_read_timeout = Duration::from_secs(6);
    limits.idle_connection_timeout = Duration::from_secs(12);
    limits.stalled_reader_timeout = Duration::from_secs(6);
    limits.keep_alive_interval = Duration::from_secs(1);
    limits.shutdown_timeout = Duration::from_millis(500);
    limits.replay_retry = Duration::from_millis(50);
    limits
}

pub fn server(counts: &Arc<Counts>, tally: &Arc<Tally>) -> McpServerBuilder {
    let state = (counts.clone(), tally.clone());
    McpServer::builder("soak", "0").limits(limits()).tool_with(
        Tool::new("stream").description("Sends events and says how many"),
        state,
        async |(counts, tally): (Arc<Counts>, Arc<Tally>), ask: Ask, ctx: ToolContext| {
            let _running = tally.begin(ask.call, &counts);
            stream(&counts, ask, tally.is_battered, ctx).await
        },
    )
}

async fn stream(
    counts: &Counts,
    mut ask: Ask,
    is_battered: bool,
    ctx: ToolContext,
) -> Result<String, ToolError> {
    counts.add("calls", 1);
    if is_battered {
        ask.events = ask.events.min(10_000);
        ask.size = ask.size.min(1 << 20);
        ask.pause_us = ask.pause_us.min(1_000_000);
        ask.plain = false;
    }
    let stream = ctx.streamer("soak");
    let mut sent = 0;
    for index in 0..ask.events {
        if ask.pause_us > 0 {
            sleep(Duration::from_micros(ask.pause_us)).await;
        }
        let content = content(ask.call, index, ask.size);
        match index % 8 {
            6 => stream.log(content).await?,
            7 => stream.think(content).await?,
            _ => stream.text(content).await?,
        }
        sent += u64::from(stream.is_active());
    }
    if ask.events == 0 && ask.pause_us > 0 {
        sleep(Duration::from_micros(ask.pause_us)).await;
    }
    counts.add("events", sent);
    if ask.plain {
        counts.add("plain calls", 1);
        counts.add("plain events", sent);
    }
    let said = ending(&ask, sent);
    match ask.end {
        End::Done => Ok(said),
        End::Fail => Err(ToolError::new(said)),
        End::Panic => panic!("{said}"),
        End::Hang => std::future::pending().await,
        End::Exit => std::process::exit(3),
    }
}
