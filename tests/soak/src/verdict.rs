//! What a run has shown: a line now and again, and whether it is as it should be.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::call;
use crate::report::Report;
use crate::watch::{Child, Rule};

/// What is watched for growth, a row of samples each. The memory of both sides is that of the largest
/// events at work at once, so it has peaks of some MiB.
const RULES: [Rule; 9] = [
    Rule {
        what: "RSS of the clients, KiB",
        constant: 32 << 10,
    },
    Rule {
        what: "RSS of the servers, KiB",
        constant: 32 << 10,
    },
    Rule {
        what: "descriptors of the clients",
        constant: 200,
    },
    Rule {
        what: "descriptors of the servers",
        constant: 200,
    },
    Rule {
        what: "tasks of the clients",
        constant: 200,
    },
    Rule {
        what: "tasks of the servers",
        constant: 200,
    },
    Rule {
        what: "threads of the clients",
        constant: 8,
    },
    Rule {
        what: "sessions of a server",
        constant: 200,
    },
    Rule {
        what: "children of the clients",
        constant: 20,
    },
];

/// What has to have happened, or the run shows nothing: of the clients and of what disturbs them.
const ENDS: [&str; 8] = [
    "result",
    "failed",
    "cancelled",
    "dropped",
    "timeout",
    "cut",
    "battered",
    "ended with the hub",
];
const FAULTS: [&str; 8] = [
    "restarts",
    "kills of a server",
    "kills of a child",
    "stops of a child",
    "malformed",
    "stalled",
    "cuts",
    "battered",
];

/// So many samples in a row are no coincidence.
const UNWAITED: u32 = 10;

#[derive(Default)]
pub struct Findings {
    pub wrong: Vec<String>,
    samples: [Vec<u64>; RULES.len()],
    /// Children that have ended, and how often in a row nobody had waited for them.
    zombies: BTreeMap<i32, u32>,
}

impl Findings {
    pub fn sample(&mut self, clients: &Report, servers: &Report, children: &[Child]) {
        let figures = [
            clients.rss_kib,
            servers.rss_kib,
            clients.fds,
            servers.fds,
            clients.tasks,
            servers.tasks,
            clients.threads,
            servers.count("sessions"),
            children.len() as u64,
        ];
        for (row, figure) in self.samples.iter_mut().zip(figures) {
            row.push(figure);
        }
        let zombies = children.iter().filter(|child| child.zombie);
        let zombies: BTreeMap<i32, u32> = zombies
            .map(|child| (child.pid, self.zombies.get(&child.pid).map_or(1, |n| n + 1)))
            .collect();
        for (pid, _) in zombies.iter().filter(|(_, times)| **times == UNWAITED) {
            self.wrong
                .push(format!("child {pid} has ended and nobody waits for it"));
        }
        self.zombies = zombies;
    }

    pub fn heading() {
        println!(
            "{:>5} {:>8} {:>9} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>7} | {:>14} {:>11} {:>11} {:>5} {:>4} {:>5}",
            "s",
            "calls",
            "events",
            "result",
            "failed",
            "cancel",
            "drop",
            "time",
            "cut",
            "batter",
            "faults",
            "RSS KiB",
            "fds",
            "tasks",
            "sess",
            "proc",
            "wrong",
        );
    }

    pub fn line(
        since: Duration,
        clients: &Report,
        servers: &Report,
        own: &Report,
        children: usize,
    ) {
        let faults: u64 = FAULTS.iter().map(|fault| own.count(fault)).sum();
        let wrong: u64 = [clients, servers, own]
            .iter()
            .map(|report| report.count("wrong"))
            .sum();
        let pair = |ours: u64, theirs: u64| format!("{ours} {theirs}");
        println!(
            "{:>5} {:>8} {:>9} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>7} | {:>14} {:>11} {:>11} {:>5} {:>4} {:>5}",
            since.as_secs(),
            clients.count("calls"),
            clients.count("events"),
            clients.count("result"),
            clients.count("failed"),
            clients.count("cancelled"),
            clients.count("dropped"),
            clients.count("timeout"),
            clients.count("cut"),
            clients.count("battered"),
            faults,
            pair(clients.rss_kib, servers.rss_kib),
            pair(clients.fds, servers.fds),
            pair(clients.tasks, servers.tasks),
            servers.count("sessions"),
            children,
            wrong,
        );
    }

    /// Says what was found, and whether all is well.
    pub fn verdict(mut self, clients: &Report, servers: &Report, own: &Report) -> bool {
        let wrong = &mut self.wrong;
        for (name, report) in [("client", clients), ("server", servers), ("peer", own)] {
            wrong.extend(report.wrong.iter().map(|what| format!("{name}: {what}")));
            let more = report
                .count("wrong")
                .saturating_sub(report.wrong.len() as u64);
            if more > 0 {
                wrong.push(format!("{name}: {more} more"));
            }
        }
        for what in ["plain calls", "plain events"] {
            let (sent, received) = (servers.count(what), clients.count(what));
            if sent != received {
                wrong.push(format!(
                    "{what}: {sent} ended on the servers, {received} on the clients"
                ));
            }
        }
        let (before, after) = (
            servers.count("fds at the start"),
            servers.count("fds at the end"),
        );
        if after > before {
            wrong.push(format!(
                "the servers' descriptors: {before} before all clients, {after} after"
            ));
        }
        println!("\n{:<28} {:>10} {:>10}", "medians of", "2nd fifth", "last");
        for (rule, row) in RULES.iter().zip(&self.samples) {
            let Some(level) = rule.level(row) else {
                wrong.push("too short to see whether anything grows".to_owned());
                break;
            };
            println!("{:<28} {:>10} {:>10}", rule.what, level.early, level.late);
            if !level.kept {
                wrong.push(format!(
                    "{} grew from {} to {}",
                    rule.what, level.early, level.late
                ));
            }
        }
        for (report, names) in [(clients, ENDS), (own, FAULTS)] {
            for name in names.iter().filter(|name| report.count(name) == 0) {
                wrong.push(format!("no {name:?} in the whole run"));
            }
        }
        println!(
            "\nclients: {}\nservers: {}\npeers: {}",
            list(clients),
            list(servers),
            list(own)
        );
        for what in wrong.iter() {
            println!("soak: {what}");
        }
        let verdict = if wrong.is_empty() { "ok" } else { "FAILED" };
        let faults = call::FAULTS.map(|fault| format!("{} {fault}", clients.count(fault)));
        println!(
            "soak: {verdict}, {} calls, {} events, {}, {} wrong in all",
            clients.count("calls"),
            clients.count("events"),
            faults.join(", "),
            wrong.len()
        );
        wrong.is_empty()
    }
}

fn list(report: &Report) -> String {
    let counts = report.counts.iter();
    let counts: Vec<String> = counts
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    counts.join(", ")
}
