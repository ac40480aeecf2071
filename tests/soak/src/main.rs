//! Loads clients and servers for a while, with everything that goes wrong outside, and counts what each
//! call sent and received. Linux only.
//!
//!     cargo run --release --manifest-path tests/soak/Cargo.toml -- --seconds N
//!         [--clients 200] [--rate 1000] [--seed S]
//!
//! `--rate` is calls a second, of all clients together. The clients are one process and the servers
//! another, so that each is seen alone; a third server is a process that is killed, and each child of a
//! client is one. The first process starts the others, disturbs them and watches. It ends by itself,
//! with status 1 if anything was lost, out of order, left over or growing. The seed decides what is done,
//! not when: two runs differ as two machines do.
//!
//! `--leak BYTES` makes the clients keep so much of each step, to see that a run finds it.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

mod call;
mod client;
mod controller;
mod dice;
mod own;
mod process;
mod report;
mod server;
mod tools;
mod vandal;
mod verdict;
mod watch;

use std::collections::BTreeMap;
use std::time::Duration;

use report::Setup;
use tokio::runtime::Builder;

const USAGE: &str = "usage: soak --seconds N [--clients 200] [--rate 1000] [--seed S]";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mode = args.first().map(String::as_str);
    let mut runtime = match mode {
        Some("client" | "server") => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    let runtime = runtime.worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let setup = || args.get(1).and_then(|json| serde_json::from_str(json).ok());
    match mode {
        Some("client") => runtime.block_on(client::run(setup().expect("a setup"))),
        Some("server") => runtime.block_on(server::serve(setup().expect("a setup"))),
        Some("battered") => runtime.block_on(vandal::batter_stdio()),
        Some("stdio") => runtime.block_on(server::serve_stdio()),
        _ => {
            let Some((seconds, setup)) = parse(&args) else {
                eprintln!("{USAGE}");
                std::process::exit(2);
            };
            let kept = runtime.block_on(controller::run(seconds, setup));
            std::process::exit(i32::from(!kept));
        }
    }
}

fn parse(args: &[String]) -> Option<(Duration, Setup)> {
    let mut given = BTreeMap::new();
    for pair in args.chunks(2) {
        let [name, value] = pair else { return None };
        given.insert(name.strip_prefix("--")?, value.parse::<u64>().ok()?);
    }
    let seconds = given.remove("seconds")?;
    let setup = Setup {
        clients: given.remove("clients").unwrap_or(200),
        rate: given.remove("rate").unwrap_or(1_000),
        seed: given.remove("seed").unwrap_or(1),
        servers: BTreeMap::new(),
        leak: given.remove("leak").unwrap_or(0) as usize,
    };
    given
        .is_empty()
        .then(|| (Duration::from_secs(seconds), setup))
}
