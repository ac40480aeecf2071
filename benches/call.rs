//! What a call costs between a hub and one server: in memory, and as a child process.
//!
//! In memory both run on one thread, so what is measured is all the work of both sides and no
//! waiting. The child is this program once more.
//!
//! Run with `cargo bench --bench call`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a bench may fail loudly"
)]

mod load;

use std::fmt;

use agent_hub_kit::{AgentHubClient, StdioCommand, testing};
use divan::Bencher;
use load::{Client, Load};

/// The argument that makes this program the server.
const SERVE: &str = "serve-stdio";

fn main() {
    if std::env::args().nth(1).as_deref() == Some(SERVE) {
        let served = load::runtime().block_on(load::server().build().serve_stdio());
        return served.unwrap();
    }
    divan::main();
}

#[derive(Debug, Clone, Copy)]
enum Link {
    Memory,
    Stdio,
}

const LINKS: [Link; 2] = [Link::Memory, Link::Stdio];

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Stdio => "stdio",
        })
    }
}

impl Link {
    async fn connect(self, hub: &AgentHubClient) {
        let tools = match self {
            Self::Memory => testing::connect_memory(hub, "load", &load::server().build()).await,
            Self::Stdio => {
                let program = std::env::current_exe().unwrap();
                let server = StdioCommand::new(program).arg(SERVE);
                hub.connect_stdio("load", server).await
            }
        };
        assert_eq!(tools.unwrap().len(), 2);
    }

    fn client(self) -> Client {
        Client::connected(async |hub| self.connect(hub).await)
    }
}

#[divan::bench(args = LINKS, sample_count = 1_000, sample_size = 1)]
fn echo(bencher: Bencher<'_, '_>, link: Link) {
    link.client().bench_echo(bencher);
}

#[divan::bench(args = LINKS, sample_size = 1)]
fn echo_64_at_once(bencher: Bencher<'_, '_>, link: Link) {
    link.client().bench_echo_at_once(bencher);
}

#[divan::bench(args = Load::all(&LINKS), sample_count = 50, sample_size = 1)]
fn events(bencher: Bencher<'_, '_>, load: Load<Link>) {
    load.link.client().bench_events(bencher, load);
}
