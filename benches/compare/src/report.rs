//! The table.

use std::fmt;
use std::process::Command;

use crate::Outcome;
use crate::rows::Bar;

/// Medians.
#[derive(Debug, Default)]
pub(crate) struct Figure {
    pub(crate) ours: Option<f64>,
    pub(crate) best: Option<f64>,
    pub(crate) default: Option<f64>,
    pub(crate) raw: Option<f64>,
}

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) what: &'static str,
    pub(crate) bars: &'static [Bar],
    pub(crate) figure: Figure,
}

/// What was measured where, and the head of the table.
pub(crate) fn head(rounds: usize) -> Outcome<String> {
    let cpus = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown CPU", |model| {
        model.trim_start_matches([' ', '\t', ':'])
    });
    let cores = cpus
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let rustc = rustc.unwrap_or_else(|_| "rustc unknown".to_owned());
    Ok(format!(
        "{model}, {cores} cores, Linux {}, {}; median of {rounds} rounds, server and load on a core \
         each\n\n\
         | what | this crate | rmcp best | rmcp default | raw | to best | to default | to raw | wanted | met |\n\
         |---|---|---|---|---|---|---|---|---|---|",
        kernel.trim(),
        rustc.trim(),
    ))
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figure {
            ours,
            best,
            default,
            raw,
        } = self.figure;
        write!(f, "| {} |", self.what)?;
        for value in [ours, best, default, raw] {
            write!(f, " {} |", number(value))?;
        }
        for other in [best, default, raw] {
            write!(f, " {} |", number(ratio(ours, other)))?;
        }
        let wanted: Vec<String> = self.bars.iter().map(Bar::to_string).collect();
        let met = match self.bars {
            [] => "",
            bars if bars.iter().all(|bar| bar.is_met(&self.figure)) => "yes",
            _ => "**no**",
        };
        write!(f, " {} | {met} |", wanted.join(", "))
    }
}

impl Bar {
    fn is_met(self, figure: &Figure) -> bool {
        let Figure {
            ours, best, raw, ..
        } = *figure;
        let (value, limit, at_most) = match self {
            Self::AtMost(limit) => (ours, limit, true),
            Self::AtLeast(limit) => (ours, limit, false),
            Self::AtMostOfRaw(limit) => (ratio(ours, raw), limit, true),
            Self::AtLeastOfRaw(limit) => (ratio(ours, raw), limit, false),
            Self::AtMostOfBest(limit) => (ratio(ours, best), limit, true),
            Self::AtLeastOfBest(limit) => (ratio(ours, best), limit, false),
        };
        value.is_some_and(|value| {
            if at_most {
                value <= limit
            } else {
                value >= limit
            }
        })
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AtMost(limit) => write!(f, "at most {}", number(Some(limit))),
            Self::AtLeast(limit) => write!(f, "at least {}", number(Some(limit))),
            Self::AtMostOfRaw(limit) => write!(f, "at most {limit}x raw"),
            Self::AtLeastOfRaw(limit) => write!(f, "at least {limit}x raw"),
            Self::AtMostOfBest(limit) => write!(f, "at most {limit}x best"),
            Self::AtLeastOfBest(limit) => write!(f, "at least {limit}x best"),
        }
    }
}

fn ratio(value: Option<f64>, of: Option<f64>) -> Option<f64> {
    Some(value? / of?).filter(|ratio| ratio.is_finite())
}

/// Three digits, or all of a whole number.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 1e6 => format!("{:.2} M", value / 1e6),
        Some(value) if value >= 1e4 => format!("{:.0} k", value / 1e3),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(0.0) => "0".to_owned(),
        Some(value) if value < 0.1 => format!("{value:.3}"),
        Some(value) => format!("{value:.2}"),
    }
}
