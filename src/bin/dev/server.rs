//! The server that is developed: how it is started with our socket, and how it says that it is up.
//!
//! Must not know when it is started or ended.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;

use command_fds::{CommandFdExt, FdMapping};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::sync::oneshot;

use super::guard::Guard;
use super::process::Process;

/// A server that was started, and what tells when it is up; that is gone if it never says so.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) is_up: oneshot::Receiver<()>,
}

/// The first descriptor that is passed on, by convention.
const FIRST_DESCRIPTOR: i32 = 3;

/// What a line of a server holds, in any case of letters, when it accepts connections.
const WORDS: &[u8] = b"listening on ";

/// Starts the program with a copy of the socket, under the convention of `LISTEN_FDS`. Its standard
/// error is ours, and is read for the words on the way.
pub(super) fn start(
    words: &[OsString],
    socket: &TcpListener,
    guard: &Arc<Guard>,
) -> io::Result<Started> {
    let (program, args) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env("LISTEN_FDS", "1")
        // Its own number is known only after it is forked. Unset it holds for whoever reads it.
        .env_remove("LISTEN_PID")
        .env_remove("LISTEN_FDS_FIRST_FD")
        .env_remove("LISTEN_FDNAMES")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .fd_mappings(vec![FdMapping {
            parent_fd: OwnedFd::from(socket.try_clone()?),
            child_fd: FIRST_DESCRIPTOR,
        }])
        .map_err(io::Error::other)?;
    let mut process = Process::start(command, guard)?;
    let (tell, is_up) = oneshot::channel();
    if let Some(stderr) = process.take_stderr() {
        tokio::spawn(pass_on(stderr, tell));
    }
    Ok(Started { process, is_up })
}

/// Copies what the server says, a line at a time, until it and all that share its standard error are
/// gone.
async fn pass_on(mut stderr: ChildStderr, tell: oneshot::Sender<()>) {
    let mut tell = Some(tell);
    let mut lines = Lines::default();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let whole = lines.add(buffer.get(..count).unwrap_or_default());
        let is_up = says_up(&whole);
        pass(&whole);
        if is_up && let Some(tell) = tell.take() {
            let _ = tell.send(());
        }
    }
    pass(&lines.begun);
}

fn pass(said: &[u8]) {
    // Nobody to hear it is no reason to block the server.
    let _ = io::stderr().write_all(said);
}

/// Puts lines together, so that they are not mixed with those of others.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
}

/// What is longer is passed on in pieces.
const MAX_LINE_BYTES: usize = 64 * 1024;

impl Lines {
    /// Takes the next bytes, and gives the lines that are whole. A bar that is drawn over and over
    /// ends each time with a carriage return.
    fn add(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.begun.extend_from_slice(bytes);
        let end = self.begun.iter().rposition(|b| matches!(b, b'\n' | b'\r'));
        let end = end.map_or(0, |end| end + 1);
        let end = match self.begun.len() - end > MAX_LINE_BYTES {
            true => self.begun.len(),
            false => end,
        };
        let rest = self.begun.split_off(end);
        std::mem::replace(&mut self.begun, rest)
    }
}

fn says_up(lines: &[u8]) -> bool {
    lines
        .windows(WORDS.len())
        .any(|words| words.eq_ignore_ascii_case(WORDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_found_in_any_split() {
        for (said, whole, found) in [
            ("listening on http://127.0.0.1:1/mcp\n", 36, true),
            ("INFO Listening on http://[::1]:1\nab", 33, true),
            ("bar\rbar\rlistening on x", 8, false),
            ("listening\n on x\n", 16, false),
            ("listening on x", 0, false),
            ("", 0, false),
        ] {
            for size in 1..=said.len().max(1) {
                let mut lines = Lines::default();
                let pieces = said.as_bytes().chunks(size).map(|piece| lines.add(piece));
                let pieces: Vec<_> = pieces.collect();
                let case = format!("{said:?} in pieces of {size}");
                assert_eq!(pieces.concat().len(), whole, "{case}");
                assert_eq!(pieces.iter().any(|piece| says_up(piece)), found, "{case}");
            }
        }
        let mut lines = Lines::default();
        let long = vec![b'x'; MAX_LINE_BYTES + 1];
        assert_eq!(lines.add(&long), long);
    }
}
