//! This crate, the official SDK (`rmcp`) and raw hyper under the same load, as ratios.
//!
//! ```text
//! cargo run --release --manifest-path benches/compare/Cargo.toml -- [ROW...] [--repeat N] [--quick]
//! ```
//!
//! Prints a Markdown table, one line for each figure: the median of each contestant over N rounds
//! (5 unless told, 2 with `--quick`, which also sends a quarter of the events), what this crate's
//! figure is of the others', the bar and whether it is met. ROW is the beginning of a row's name;
//! without one, all rows run, which takes about five minutes. An unknown name lists them.
//!
//! How it measures: contestants are processes of their own, started afresh for each round and
//! pinned to core 0, one after the other within each round. What they are measured against runs on
//! core 1. A server is read by a raw reader, which checks that each event is there, in order and
//! byte for byte what was asked for; a client is fed by a raw server, and counts and checks its own
//! events. CPU time is that of the measured process, from its clock. A wrong answer fails the run.
//!
//! The raw HTTP load never sleeps while it measures CPU time: else a slow server would pay for waking
//! it at each write, and a fast one would not. The figures that are times of the clock are taken
//! with a load that sleeps, as a real peer does.
//!
//! `rmcp` has two modes. Its best HTTP server has sessions off and JSON responses on, its best stdio
//! server uses non-blocking pipes, its best client keeps connections and runs on one thread. Its
//! default is what its constructors give, and for a client a multi-thread runtime as well.
//!
//! Needs Linux, two cores and `taskset` (util-linux).

#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(clippy::print_stdout, reason = "its report goes there")]

mod child;
mod clock;
mod contestant;
mod load;
mod report;
mod rows;
mod run;
mod wire;

use std::process::ExitCode;

type Anything = Box<dyn std::error::Error + Send + Sync>;
type Outcome<T = ()> = Result<T, Anything>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        [child::ROLE, ref role @ ..] => contestant::run(role),
        _ => run::rows(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
