//! The rows: who takes part, what is measured and where the bars are.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

use crate::report::{self, Figure, Line};
use crate::{Outcome, child, load};

const OURS: &str = "ours";
const BEST: &str = "rmcp-best";
const DEFAULT: &str = "rmcp-default";
const RAW: &str = "raw";

const ALL: &[&str] = &[OURS, BEST, DEFAULT, RAW];
const NO_RAW: &[&str] = &[OURS, BEST, DEFAULT];
const TWO: &[&str] = &[OURS, BEST];

/// What a figure may be at most, or has to be at least.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    AtMost(f64),
    AtLeast(f64),
    AtMostOfRaw(f64),
    AtLeastOfRaw(f64),
    AtMostOfBest(f64),
    AtLeastOfBest(f64),
}

use Bar::{AtLeast, AtLeastOfBest, AtLeastOfRaw, AtMost, AtMostOfBest, AtMostOfRaw};

type Measured<'a> = Pin<Box<dyn Future<Output = Outcome<Vec<f64>>> + 'a>>;

struct Row {
    name: &'static str,
    contestants: &'static [&'static str],
    /// One for each value that is measured.
    figures: &'static [(&'static str, &'static [Bar])],
    measure: fn(&'static str, Size) -> Measured<'static>,
}

/// No measurement takes this long.
const STUCK: Duration = Duration::from_secs(60);

/// How much is asked for.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// A quarter of it.
    quick: bool,
}

impl Size {
    /// `fast` for most, `slow` for the official SDK: about a second each.
    fn of(self, name: &str, fast: u64, slow: u64) -> u64 {
        let n = if name.starts_with("rmcp") { slow } else { fast };
        if self.quick { n / 4 } else { n }
    }
}

const ROWS: &[Row] = &[
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

/// Measures the rows that the words pick and prints their lines.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let (mut picked, mut repeat, mut size) = (Vec::new(), None, Size { quick: false });
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--quick" => size.quick = true,
            "--repeat" => {
                let rounds = words.next().ok_or("--repeat needs a number")?;
                repeat = Some(
                    rounds
                        .parse()
                        .map_err(|e| format!("--repeat {rounds}: {e}"))?,
                );
            }
            name => picked.push(name),
        }
    }
    let rows: Vec<&Row> = if picked.is_empty() {
        ROWS.iter().collect()
    } else {
        pick(&picked)?
    };
    let rounds: usize = repeat.unwrap_or(if size.quick { 2 } else { 5 });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        child::pin_self(child::LOAD).await?;
        println!("{}", report::head(rounds)?);
        for row in rows {
            measure(row, rounds, size)
                .await
                .map_err(|e| format!("{}: {e}", row.name))?;
        }
        Ok(())
    })
}

fn pick(names: &[&str]) -> Outcome<Vec<&'static Row>> {
    let mut picked = Vec::new();
    for name in names {
        let before = picked.len();
        picked.extend(ROWS.iter().filter(|row| row.name.starts_with(name)));
        if picked.len() == before {
            let all: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            return Err(format!("no row {name}; there are {}", all.join(", ")).into());
        }
    }
    Ok(picked)
}

/// Interleaves the contestants, so that what disturbs the machine disturbs all of them.
async fn measure(row: &Row, rounds: usize, size: Size) -> Outcome {
    let mut values = vec![vec![Vec::new(); row.contestants.len()]; row.figures.len()];
    for _ in 0..rounds {
        for (contestant, &name) in row.contestants.iter().enumerate() {
            let measured = timeout(STUCK, (row.measure)(name, size)).await;
            let measured = measured.map_err(|_| format!("{name} is stuck"))?;
            let measured = measured.map_err(|e| format!("{name}: {e}"))?;
            for (figure, value) in values.iter_mut().zip(measured) {
                figure[contestant].push(value);
            }
        }
    }
    for (&(what, bars), values) in row.figures.iter().zip(values) {
        let mut figure = Figure::default();
        for (&name, values) in row.contestants.iter().zip(values) {
            let median = Some(load::median(values));
            match name {
                OURS => figure.ours = median,
                BEST => figure.best = median,
                DEFAULT => figure.default = median,
                _ => figure.raw = median,
            }
        }
        println!("{}", Line { what, bars, figure });
    }
    Ok(())
}
