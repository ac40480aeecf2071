//! Time of the machine and of processes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use crate::Outcome;

/// What a process has computed so far, user and system, all threads.
pub(crate) fn cpu_of(process: u32) -> Outcome<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(process.try_into()?))?;
    Ok(clock.now()?.into())
}

/// The same of this process.
pub(crate) fn cpu() -> Duration {
    let now = ClockId::CLOCK_PROCESS_CPUTIME_ID.now();
    now.expect("each process has this clock").into()
}

/// Wall clock in nanoseconds, the same in all processes.
pub(crate) fn wall_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("the clock is past 1970").as_nanos();
    now.try_into().expect("the clock is before 2554")
}
