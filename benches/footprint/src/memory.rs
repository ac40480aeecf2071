//! Growth of a server's RSS by what it holds.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::server::Server;
use crate::{Anything, line};

const CALLS: usize = 1_000;

/// Nothing is freed or filled any more when the RSS stays as it is for so long.
const CALM: Duration = Duration::from_millis(500);

fn settled(server: &Server) -> Result<f64, Anything> {
    let mut last = server.rss()?;
    loop {
        sleep(CALM);
        let now = server.rss()?;
        if (now - last).abs() < 1.0 {
            return Ok(now);
        }
        last = now;
    }
}

/// Measures one program, in KiB.
type Figure = fn(&Path) -> Result<f64, Anything>;

pub fn measure(servers: &[PathBuf; 3]) -> Result<(), Anything> {
    let rows: [(&str, Figure, usize, &str); 5] = [
        ("idle, KiB", idle, 0, "at most 3000"),
        (
            "KiB a session, of 1,000 idle ones",
            |path| sessions(path, 1_000),
            2,
            "at most 1",
        ),
        (
            "KiB a session, of 10,000 idle ones",
            |path| sessions(path, 10_000),
            2,
            "at most 1",
        ),
        ("KiB an open call, of 1,000", calls, 1, "at most 17"),
        ("a stalled reader, KiB in all", stalled, 0, "at most 1024"),
    ];
    for (what, figure, digits, wanted) in rows {
        let [ours, rmcp, raw] = servers;
        let found = [figure(ours)?, figure(rmcp)?, figure(raw)?];
        line(what, found.map(Some), digits, wanted);
    }
    Ok(())
}

/// After one answer.
fn idle(program: &Path) -> Result<f64, Anything> {
    let server = Server::start(program)?;
    server.connect()?.open_session()?;
    settled(&server)
}

/// Sessions that are opened one after the other on one connection, which stays.
fn sessions(program: &Path, count: usize) -> Result<f64, Anything> {
    let server = Server::start(program)?;
    let mut client = server.connect()?;
    client.open_session()?;
    let before = settled(&server)?;
    for _ in 0..count {
        client.open_session()?;
    }
    Ok((settled(&server)? - before) / count as f64)
}

/// Calls that have sent one event, each on a connection and in a session of its own; the sessions
/// are there before.
fn calls(program: &Path) -> Result<f64, Anything> {
    let server = Server::start(program)?;
    let mut opener = server.connect()?;
    let mut sessions = Vec::new();
    for _ in 0..CALLS {
        sessions.push(opener.open_session()?);
    }
    let before = settled(&server)?;
    let mut open = Vec::new();
    for session in sessions {
        let mut client = server.connect()?;
        let arguments = r#"{"text":"one event","times":2,"delay_ms":600000}"#;
        client.call(session.as_deref(), arguments)?;
        client.wait_for("one event")?;
        open.push(client);
    }
    Ok((settled(&server)? - before) / CALLS as f64)
}

/// One call with more to say than any buffer holds, 1 KiB an event, whose reader reads nothing.
fn stalled(program: &Path) -> Result<f64, Anything> {
    let server = Server::start(program)?;
    let mut client = server.connect()?;
    let session = client.open_session()?;
    let before = settled(&server)?;
    let text = "x".repeat(1024);
    client.call(
        session.as_deref(),
        &format!(r#"{{"text":"{text}","times":1000000}}"#),
    )?;
    Ok(settled(&server)? - before)
}
