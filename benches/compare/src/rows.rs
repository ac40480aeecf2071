//! The rows: who takes part, what is measured and where the bars are.

use std::future::Future;
use std::pin::Pin;

use crate::{Outcome, load};

pub(crate) const OURS: &str = "ours";
pub(crate) const BEST: &str = "rmcp-best";
pub(crate) const DEFAULT: &str = "rmcp-default";
const RAW: &str = "raw";

const ALL: &[&str] = &[OURS, BEST, DEFAULT, RAW];
const NO_RAW: &[&str] = &[OURS, BEST, DEFAULT];
const TWO: &[&str] = &[OURS, BEST];

/// What a figure may be at most, or has to be at least.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::enum_variant_names, reason = "they read as the bars do")]
pub(crate) enum Bar {
    AtMost(f64),
    AtLeast(f64),
    AtMostOfRaw(f64),
    AtLeastOfRaw(f64),
    AtMostOfBest(f64),
    AtLeastOfBest(f64),
}

use Bar::{AtLeast, AtLeastOfBest, AtLeastOfRaw, AtMost, AtMostOfBest, AtMostOfRaw};

pub(crate) type Measured<'a> = Pin<Box<dyn Future<Output = Outcome<Vec<f64>>> + 'a>>;

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) contestants: &'static [&'static str],
    /// One for each value that is measured.
    pub(crate) figures: &'static [(&'static str, &'static [Bar])],
    pub(crate) measure: fn(&'static str, Size) -> Measured<'static>,
}

/// How much is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// A quarter of it.
    pub(crate) quick: bool,
}

impl Size {
    /// `fast` for most, `slow` for the official SDK: about a second each.
    fn of(self, name: &str, fast: u64, slow: u64) -> u64 {
        let n = if name.starts_with("rmcp") { slow } else { fast };
        if self.quick { n / 4 } else { n }
    }
}

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "server-4b",
        contestants: ALL,
        figures: &[
            (
                "server, HTTP, one call, 4 B: CPU s a million",
                &[AtMost(0.35)],
            ),
            (
                "the same: events/s",
                &[AtLeastOfBest(12.0), AtLeastOfRaw(1.0)],
            ),
        ],
        measure: |name, size| {
            Box::pin(load::http_events(
                name,
                size.of(name, 2_000_000, 100_000),
                4,
                1,
            ))
        },
    },
    Row {
        name: "server-1k",
        contestants: ALL,
        figures: &[
            (
                "server, HTTP, one call, 1 KiB: CPU s a million",
                &[AtMost(1.1)],
            ),
            ("the same: events/s", &[]),
        ],
        measure: |name, size| {
            Box::pin(load::http_events(
                name,
                size.of(name, 600_000, 60_000),
                1024,
                1,
            ))
        },
    },
    Row {
        name: "server-64",
        contestants: ALL,
        figures: &[
            (
                "server, HTTP, 64 calls at once, 4 B: CPU s a million",
                &[AtMost(0.4)],
            ),
            ("the same: events/s", &[]),
        ],
        measure: |name, size| {
            Box::pin(load::http_events(
                name,
                size.of(name, 2_000_000, 80_000),
                4,
                64,
            ))
        },
    },
    Row {
        name: "client-4b",
        contestants: ALL,
        figures: &[
            (
                "client, HTTP, 4 B, an event a chunk: CPU s a million",
                &[AtMost(0.8)],
            ),
            ("the same: events/s", &[]),
            ("the same: % out of order", &[AtMost(0.0)]),
            ("the same: % after the result", &[AtMost(0.0)]),
        ],
        measure: |name, size| Box::pin(load::client(name, size.of(name, 1_000_000, 100_000), 4, 0)),
    },
    Row {
        name: "client-1k",
        contestants: ALL,
        figures: &[
            (
                "client, HTTP, 1 KiB, an event a chunk: CPU s a million",
                &[AtMost(1.5)],
            ),
            ("the same: events/s", &[]),
            ("the same: % out of order", &[AtMost(0.0)]),
            ("the same: % after the result", &[AtMost(0.0)]),
        ],
        measure: |name, size| Box::pin(load::client(name, size.of(name, 500_000, 60_000), 1024, 0)),
    },
    Row {
        name: "client-big-4b",
        contestants: ALL,
        figures: &[(
            "client, HTTP, 4 B, chunks of 16 KiB: CPU s a million",
            &[AtMost(0.8)],
        )],
        measure: |name, size| {
            let n = size.of(name, 1_000_000, 100_000);
            Box::pin(load::client(name, n, 4, 16 * 1024))
        },
    },
    Row {
        name: "client-big-1k",
        contestants: ALL,
        figures: &[(
            "client, HTTP, 1 KiB, chunks of 16 KiB: CPU s a million",
            &[AtMost(1.5)],
        )],
        measure: |name, size| {
            let n = size.of(name, 500_000, 60_000);
            Box::pin(load::client(name, n, 1024, 16 * 1024))
        },
    },
    Row {
        name: "echo",
        contestants: ALL,
        figures: &[
            (
                "tools/call echo, 16 connections: CPU us a call",
                &[AtMostOfRaw(1.2), AtMostOfBest(0.5)],
            ),
            ("the same: calls/s", &[]),
        ],
        measure: |name, size| Box::pin(load::http_echo(name, size.of(name, 60_000, 24_000))),
    },
    Row {
        name: "pace",
        contestants: ALL,
        figures: &[
            (
                "a token each 5 ms: us to the first, p50",
                &[AtMostOfRaw(1.25)],
            ),
            ("the same: us from sent to seen, p50", &[AtMostOfRaw(1.25)]),
        ],
        measure: |name, size| Box::pin(load::pace(name, "single", "stream", size.of("", 20, 0))),
    },
    Row {
        name: "compute-one-thread",
        contestants: NO_RAW,
        figures: &[
            (
                "5 ms of work a token, current-thread: us to the first beyond it",
                &[AtMost(2_000.0)],
            ),
            ("the same: us from sent to seen, p50", &[AtMost(2_000.0)]),
        ],
        measure: |name, size| Box::pin(load::pace(name, "single", "compute", size.of("", 8, 0))),
    },
    Row {
        name: "compute-threads",
        contestants: NO_RAW,
        figures: &[
            (
                "5 ms of work a token, multi-thread: us to the first beyond it",
                &[AtMost(2_000.0)],
            ),
            ("the same: us from sent to seen, p50", &[AtMost(2_000.0)]),
        ],
        measure: |name, size| Box::pin(load::pace(name, "multi", "compute", size.of("", 8, 0))),
    },
    Row {
        name: "stdio-events",
        contestants: NO_RAW,
        figures: &[
            ("server, stdio, 4 B: CPU s a million", &[AtMost(1.2)]),
            ("the same: events/s", &[AtLeast(800_000.0)]),
        ],
        measure: |name, size| {
            let slow = if name == DEFAULT { 40_000 } else { 150_000 };
            Box::pin(load::stdio_events(name, size.of(name, 1_500_000, slow), 4))
        },
    },
    Row {
        name: "stdio-calls-1",
        contestants: NO_RAW,
        figures: &[(
            "server, stdio, one call in flight: calls/s",
            &[AtLeast(8_000.0)],
        )],
        measure: |name, size| Box::pin(load::stdio_echo(name, size.of(name, 20_000, 8_000), 1)),
    },
    Row {
        name: "stdio-calls-64",
        contestants: NO_RAW,
        figures: &[(
            "server, stdio, 64 calls in flight: calls/s",
            &[AtLeast(120_000.0)],
        )],
        measure: |name, size| Box::pin(load::stdio_echo(name, size.of(name, 100_000, 40_000), 64)),
    },
    Row {
        name: "stdio-client-events",
        contestants: TWO,
        figures: &[
            ("client, stdio, 4 B: CPU s a million", &[AtMost(1.2)]),
            ("the same: events/s", &[AtLeast(800_000.0)]),
        ],
        measure: |name, size| {
            let n = size.of(name, 1_000_000, 100_000);
            Box::pin(load::stdio_client(name, "stdio", vec![n, 4]))
        },
    },
    Row {
        name: "stdio-client-calls-1",
        contestants: TWO,
        figures: &[(
            "client, stdio, one call in flight: calls/s",
            &[AtLeast(8_000.0)],
        )],
        measure: |name, size| {
            let n = size.of(name, 20_000, 8_000);
            Box::pin(load::stdio_client(name, "calls", vec![n, 1]))
        },
    },
    Row {
        name: "stdio-client-calls-64",
        contestants: TWO,
        figures: &[(
            "client, stdio, 64 calls in flight: calls/s",
            &[AtLeast(120_000.0)],
        )],
        measure: |name, size| {
            let n = size.of(name, 100_000, 40_000);
            Box::pin(load::stdio_client(name, "calls", vec![n, 64]))
        },
    },
    Row {
        name: "connect",
        contestants: ALL,
        figures: &[("connect 100 servers, list their tools: ms", &[AtMost(12.0)])],
        measure: |name, _| Box::pin(load::connect(name, "connect")),
    },
    Row {
        name: "connect-handshake",
        contestants: ALL,
        figures: &[("the same, all with a handshake: ms", &[AtMost(12.0)])],
        measure: |name, _| Box::pin(load::connect(name, "handshake")),
    },
];
