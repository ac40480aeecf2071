//! What is measured, and what it is measured against.
//!
//! ```text
//! server http|stdio CONTESTANT [RUNTIME] [COUNT]   says its addresses on a line, separated by spaces
//! client SCENARIO CONTESTANT TARGET...             prints its figures, separated by spaces
//! ```

mod client;
mod ours;
mod raw_server;
mod raw_stdio;
mod rmcp;

use std::time::Duration;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep_until};

use crate::{Outcome, clock, wire};

/// How a server or client of the same kind differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Best,
    Default,
}

pub(crate) fn run(role: &[&str]) -> Outcome {
    // Whoever started this reads it to its end.
    set_pdeathsig(Signal::SIGKILL)?;
    match *role {
        ["server", link, name, ref rest @ ..] => {
            let runtime = runtime(rest.first() == Some(&"multi"))?;
            let count = rest.get(1).map_or(Ok(1), |count| count.parse())?;
            runtime.block_on(serve(link, name, count))
        }
        ["client", scenario, name, ref target @ ..] => {
            let runtime = runtime(name == "rmcp-default")?;
            let figures = runtime.block_on(client::run(scenario, name, target))?;
            let figures: Vec<String> = figures.iter().map(f64::to_string).collect();
            write_line(&figures.join(" "))
        }
        _ => Err(format!("no such contestant: {role:?}").into()),
    }
}

fn runtime(multi_thread: bool) -> Outcome<Runtime> {
    let mut builder = if multi_thread {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2);
        builder
    } else {
        Builder::new_current_thread()
    };
    Ok(builder.enable_all().build()?)
}

async fn serve(link: &str, name: &str, count: usize) -> Outcome {
    match (link, name) {
        ("http", "ours") => ours::serve_http().await,
        ("http", "rmcp-best") => rmcp::serve_http(Mode::Best).await,
        ("http", "rmcp-default") => rmcp::serve_http(Mode::Default).await,
        ("http", "raw") => raw_server::serve_http(count).await,
        ("stdio", "ours") => ours::serve_stdio().await,
        ("stdio", "rmcp-best") => rmcp::serve_stdio(Mode::Best).await,
        ("stdio", "rmcp-default") => rmcp::serve_stdio(Mode::Default).await,
        ("stdio", "raw") => raw_stdio::serve(),
        _ => Err(format!("no such server: {name} over {link}").into()),
    }
}

fn write_line(line: &str) -> Outcome {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// The texts of a call's events, each in its time.
struct Texts {
    text: String,
    left: u64,
    interval: Duration,
    next: Instant,
}

impl Texts {
    fn new(args: wire::Stream) -> Self {
        Self {
            text: wire::text(args.size),
            left: args.n,
            interval: Duration::from_micros(args.interval_us),
            next: Instant::now(),
        }
    }

    /// Waits until the next is due, the first at once.
    async fn next(&mut self) -> Option<&str> {
        self.left = self.left.checked_sub(1)?;
        if !self.interval.is_zero() {
            // A timer has the precision of a millisecond, also for what is due at once.
            if self.next > Instant::now() {
                sleep_until(self.next).await;
            }
            self.next += self.interval;
            self.text = clock::wall_ns().to_string();
        }
        Some(&self.text)
    }

    /// Works instead of waiting.
    fn compute(&mut self) -> Option<&str> {
        self.left = self.left.checked_sub(1)?;
        let started = Instant::now();
        while started.elapsed() < self.interval {
            std::hint::spin_loop();
        }
        self.text = clock::wall_ns().to_string();
        Some(&self.text)
    }
}
