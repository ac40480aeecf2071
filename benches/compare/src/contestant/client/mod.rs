//! Clients: what each scenario asks of them, and what it measures.
//!
//! ```text
//! stream ADDRESS N SIZE CHUNK   CPU us an event, events/s, percent out of order, percent late
//! stdio N SIZE                  the same over stdio
//! calls N INFLIGHT              calls/s over stdio
//! connect ADDRESS...            ms until all are connected and their tools are listed
//! handshake ADDRESS...          the same, in the era of the handshake
//! ```

mod ours;
mod raw;
mod rmcp;

use std::any::Any;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Mode;
use crate::{Outcome, child, clock, wire};

pub(super) async fn run(scenario: &str, name: &str, target: &[&str]) -> Outcome<Vec<f64>> {
    let mode = match name {
        "rmcp-default" => Mode::Default,
        _ => Mode::Best,
    };
    match (scenario, target) {
        ("stream", &[address, n, size, chunk]) => {
            let args = args(n, size, chunk)?;
            match name {
                "ours" => ours::stream(&ours::http(address).await?, args).await,
                "raw" => raw::stream(address, args).await,
                _ => rmcp::stream(&rmcp::http(address, mode).await?, args).await,
            }
        }
        ("stdio", &[n, size]) => {
            let args = args(n, size, "0")?;
            match name {
                "ours" => ours::stream(&ours::stdio().await?, args).await,
                _ => rmcp::stream(&rmcp::stdio().await?, args).await,
            }
        }
        ("calls", &[n, inflight]) => {
            let (n, inflight) = (n.parse()?, inflight.parse()?);
            match name {
                "ours" => ours::calls(&ours::stdio().await?, n, inflight).await,
                _ => rmcp::calls(&rmcp::stdio().await?, n, inflight).await,
            }
        }
        ("connect" | "handshake", addresses) => {
            let discovers = scenario == "connect";
            let started = Instant::now();
            // What is connected stays so until the clock was read.
            let (tools, took, _connected): (usize, _, Box<dyn Any>) = match name {
                "ours" => {
                    let (tools, hub) = ours::connect(addresses, discovers).await?;
                    (tools, started.elapsed(), Box::new(hub))
                }
                "raw" => {
                    let (tools, connections) = raw::connect(addresses, discovers).await?;
                    (tools, started.elapsed(), Box::new(connections))
                }
                _ => {
                    let (tools, clients) = rmcp::connect(addresses, mode).await?;
                    (tools, started.elapsed(), Box::new(clients))
                }
            };
            let expected = 2 * addresses.len();
            if tools != expected {
                return Err(format!("{tools} tools where there are {expected}").into());
            }
            Ok(vec![took.as_secs_f64() * 1e3])
        }
        _ => Err(format!("no such scenario: {scenario} {target:?}").into()),
    }
}

fn args(n: &str, size: &str, chunk: &str) -> Outcome<wire::Stream> {
    Ok(wire::Stream {
        n: n.parse()?,
        size: size.parse()?,
        interval_us: 0,
        chunk: chunk.parse()?,
    })
}

/// The arguments of `stream`, and those of a call to warm up with.
fn json_args(args: wire::Stream) -> [Value; 2] {
    [args.n / 10, args.n].map(|n| json!({"n": n, "size": args.size, "chunk": args.chunk}))
}

fn url(address: &str) -> String {
    format!("http://{address}/mcp")
}

/// The command of the server at the other end of a stdio link.
fn raw_stdio() -> Outcome<Vec<String>> {
    child::command(child::LOAD, &["server", "stdio", "raw"])
}

/// How long to look out for events after the result.
const LOOKOUT: Duration = Duration::from_millis(100);

/// What was seen of a call.
struct Tally {
    size: usize,
    events: u64,
    last: f64,
    out_of_order: u64,
    late: u64,
    ended: bool,
    started: Instant,
    cpu: Duration,
    took: Duration,
}

impl Tally {
    fn new(size: usize) -> Self {
        Self {
            size,
            events: 0,
            last: 0.0,
            out_of_order: 0,
            late: 0,
            ended: false,
            started: Instant::now(),
            cpu: clock::cpu(),
            took: Duration::ZERO,
        }
    }

    /// One event, taken apart.
    fn event(&mut self, number: f64, text: &str) {
        assert_eq!(text.len(), self.size, "an event with another text");
        self.events += 1;
        self.out_of_order += u64::from(number != self.last + 1.0);
        self.late += u64::from(self.ended);
        self.last = number;
    }

    /// The result.
    fn result(&mut self, text: &str) {
        assert_eq!(text, "done", "another result");
        self.ended = true;
        self.took = self.started.elapsed();
    }

    fn figures(&self, args: wire::Stream) -> Outcome<Vec<f64>> {
        let cpu = clock::cpu() - self.cpu;
        if self.events != args.n {
            return Err(format!("{} of {} events came", self.events, args.n).into());
        }
        let n = args.n as f64;
        Ok(vec![
            cpu.as_secs_f64() * 1e6 / n,
            n / self.took.as_secs_f64(),
            self.out_of_order as f64 / n * 100.0,
            self.late as f64 / n * 100.0,
        ])
    }
}
