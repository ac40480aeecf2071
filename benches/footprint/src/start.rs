//! The time from spawning a server to its first answer.

use std::path::PathBuf;
use std::time::Instant;

use crate::Anything;
use crate::server::Server;

const RUNS: usize = 101;

/// Medians in ms, of runs that take turns.
pub fn medians(servers: &[PathBuf; 3]) -> Result<[f64; 3], Anything> {
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..RUNS {
        for (program, times) in servers.iter().zip(&mut times) {
            let start = Instant::now();
            let server = Server::start(program)?;
            server.connect()?.open_session()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[RUNS / 2]
    }))
}
