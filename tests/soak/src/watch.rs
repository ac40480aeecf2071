//! Whether a figure stays level, and what the system knows of processes.

use std::fs;
use std::time::Duration;

/// How much a figure may rise from the fifth of the run after the warm-up to the last fifth: by a tenth
/// and a constant.
pub struct Rule {
    pub what: &'static str,
    pub constant: u64,
}

/// The medians that were compared, and whether they may differ so.
pub struct Level {
    pub early: u64,
    pub late: u64,
    pub kept: bool,
}

impl Rule {
    /// Single peaks do not count, a steady rise does. The first fifth is the warm-up.
    pub fn level(&self, samples: &[u64]) -> Option<Level> {
        let fifth = samples.len() / 5;
        if fifth < 3 {
            return None;
        }
        let early = median(&samples[fifth..2 * fifth]);
        let late = median(&samples[samples.len() - fifth..]);
        Some(Level {
            early,
            late,
            kept: late <= early + early / 10 + self.constant,
        })
    }
}

fn median(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// A process that another one started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    pub pid: i32,
    pub zombie: bool,
}

/// The children of a process.
pub fn children(of: u32) -> Vec<Child> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let fields = stat(pid as u32)?;
        (fields.get(1)?.parse() == Ok(of)).then(|| Child {
            pid,
            zombie: fields[0] == "Z",
        })
    })
    .collect()
}

/// What `/proc/PID/stat` says after the name of the program, which may hold spaces.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}

/// The processor time of a process, that of its children that have ended included.
pub fn cpu(pid: u32) -> Duration {
    let fields = stat(pid).unwrap_or_default();
    let ticks = fields.get(11..15).into_iter().flatten();
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10) // the kernel's interface counts in 1/100 s
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        what: "KiB",
        constant: 4_096,
    };

    fn kept(samples: impl IntoIterator<Item = u64>) -> Option<bool> {
        let samples: Vec<u64> = samples.into_iter().collect();
        RULE.level(&samples).map(|level| level.kept)
    }

    #[test]
    fn a_leak_is_seen_and_noise_is_not() {
        for (case, samples, wanted) in [
            ("too short to tell", vec![30_000; 14], None),
            ("flat", vec![30_000; 120], Some(true)),
            (
                "a warm-up",
                (0..120)
                    .map(|i| if i < 24 { i * 1_000 } else { 30_000 })
                    .collect(),
                Some(true),
            ),
            (
                "peaks",
                (0..120)
                    .map(|i| if i % 3 == 0 { 90_000 } else { 30_000 })
                    .collect(),
                Some(true),
            ),
            (
                "within the bound",
                (0..120).map(|i| 30_000 + i * 50).collect(),
                Some(true),
            ),
            (
                "a steady rise",
                (0..120).map(|i| 30_000 + i * 150).collect(),
                Some(false),
            ),
            (
                "a step that stays",
                (0..120)
                    .map(|i| if i < 60 { 30_000 } else { 40_000 })
                    .collect(),
                Some(false),
            ),
            (
                "a fall",
                (0..120).map(|i| 60_000 - i * 200).collect(),
                Some(true),
            ),
        ] {
            assert_eq!(kept(samples), wanted, "{case}");
        }
    }
}
