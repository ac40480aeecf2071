//! Prints what this project, rmcp and bare hyper cost on a small machine, as Markdown. Linux only.
//!
//!     cargo run --release --manifest-path benches/footprint/Cargo.toml [-- size memory start clean]
//!
//! `size`: KiB of each stripped program by what a panic does, and packages in its tree. `memory`:
//! growth of a server's RSS. `start`: from spawning a server to its first answer. These three without
//! arguments; `clean` as well where it is named, since it is slow: CPU seconds of a build from nothing.
//! `PANIC=abort` measures memory and start with that.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

mod builds;
mod memory;
mod server;
mod start;

use builds::{Panic, build, clean_build, kib, packages};

type Anything = Box<dyn std::error::Error>;

/// What is compared: the same program three times. The last figures are the bars: KiB, packages and
/// CPU seconds.
struct Row {
    what: &'static str,
    ours: &'static str,
    others: [Option<&'static str>; 2],
    wanted: [Option<u64>; 3],
}

const ROWS: [Row; 3] = [
    Row {
        what: "HTTP server",
        ours: "ours_server",
        others: [Some("rmcp_server"), Some("raw_server")],
        wanted: [Some(800), Some(40), Some(65)],
    },
    Row {
        what: "HTTP client",
        ours: "ours_client",
        others: [Some("rmcp_client"), Some("raw_client")],
        wanted: [Some(820), Some(42), None],
    },
    Row {
        what: "stdio server",
        ours: "ours_stdio",
        others: [None, None],
        wanted: [Some(500), None, None],
    },
];

const SERVERS: [&str; 3] = ["ours_server", "rmcp_server", "raw_server"];

/// One line of a table. A figure that is missing is shown as such.
fn line(what: &str, [ours, rmcp, raw]: [Option<f64>; 3], digits: usize, wanted: &str) {
    let figure = |value: Option<f64>| match value {
        Some(value) => format!("{value:.digits$}"),
        None => "-".to_owned(),
    };
    let ratio = |other: Option<f64>| match (ours, other) {
        (Some(ours), Some(other)) if other >= 0.05 => format!("{:.2}", ours / other),
        _ => "-".to_owned(),
    };
    println!(
        "| {what} | {} | {} | {} | {} | {} | {wanted} |",
        figure(ours),
        figure(rmcp),
        figure(raw),
        ratio(rmcp),
        ratio(raw),
    );
}

fn table(title: &str) {
    println!("\n| {title} | ours | rmcp | raw hyper | ours / rmcp | ours / raw | wanted |");
    println!("|---|---|---|---|---|---|---|");
}

fn at_most(wanted: Option<u64>) -> String {
    wanted.map_or("-".to_owned(), |most| format!("at most {most}"))
}

/// The figure of a row for ours, rmcp and raw.
fn figures(
    row: &Row,
    mut figure: impl FnMut(&'static str) -> Result<f64, Anything>,
) -> Result<[Option<f64>; 3], Anything> {
    let [rmcp, raw] = row.others;
    let mut figure = |name: Option<&'static str>| name.map(&mut figure).transpose();
    Ok([figure(Some(row.ours))?, figure(rmcp)?, figure(raw)?])
}

fn sizes() -> Result<(), Anything> {
    table("profile `edge`, stripped");
    for row in &ROWS {
        let [size, count, _] = row.wanted.map(at_most);
        for (panic, text) in [(Panic::Unwind, "KiB"), (Panic::Abort, "KiB, panic = abort")] {
            let found = figures(row, |name| kib(&build(name, panic)?))?;
            // The bars are for programs that abort.
            let wanted = match panic {
                Panic::Unwind => "-",
                Panic::Abort => &size,
            };
            line(&format!("{}, {text}", row.what), found, 0, wanted);
        }
        let found = figures(row, packages)?;
        line(&format!("{}, packages", row.what), found, 0, &count);
    }
    Ok(())
}

fn clean() -> Result<(), Anything> {
    table("build from nothing, profile `edge`");
    for row in &ROWS {
        let found = figures(row, clean_build)?;
        let [_, _, wanted] = row.wanted.map(at_most);
        line(&format!("{}, CPU s", row.what), found, 0, &wanted);
    }
    Ok(())
}

fn main() -> Result<(), Anything> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let known = ["size", "memory", "start", "clean"];
    if let Some(other) = args.iter().find(|arg| !known.contains(&arg.as_str())) {
        return Err(format!("no {other}: one of {known:?}").into());
    }
    let asked =
        |what: &str| args.iter().any(|arg| arg == what) || args.is_empty() && what != "clean";
    if asked("size") {
        sizes()?;
    }
    let panic = Panic::asked();
    if asked("memory") || asked("start") {
        let servers = SERVERS.map(|name| build(name, panic));
        let [ours, rmcp, raw] = servers;
        let servers = [ours?, rmcp?, raw?];
        if asked("memory") {
            table("memory of a server");
            memory::measure(&servers)?;
        }
        if asked("start") {
            table("start of a server");
            let found = start::medians(&servers)?;
            line(
                "spawn to first answer, ms",
                found.map(Some),
                2,
                "at most 1.1 of raw",
            );
        }
    }
    if asked("clean") {
        clean()?;
    }
    Ok(())
}
