//! The server that is developed: how it is started with our socket, and how it says that it is up.
//!
//! Must not know when it is started or ended.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use command_fds::{CommandFdExt, FdMapping};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::sync::oneshot;

use super::process::Process;

/// A server that was started, and what tells when it is up; that is gone if it never says so.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) is_up: oneshot::Receiver<()>,
}

/// The first descriptor that is passed on, by convention.
const FIRST_DESCRIPTOR: i32 = 3;

/// What a server says, in any case of letters, when it accepts connections.
const WORDS: &[u8] = b"listening on ";

/// Starts the program with a copy of the socket, under the convention of `LISTEN_FDS`. Its standard
/// error is ours, and is read for the words on the way.
pub(super) fn start(words: &[OsString], socket: &TcpListener) -> io::Result<Started> {
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
    let mut process = Process::start(command)?;
    let (tell, is_up) = oneshot::channel();
    if let Some(stderr) = process.take_stderr() {
        tokio::spawn(pass_on(stderr, tell));
    }
    Ok(Started { process, is_up })
}

/// Copies what the server says until it and all that share its standard error are gone.
async fn pass_on(mut stderr: ChildStderr, tell: oneshot::Sender<()>) {
    let mut tell = Some(tell);
    let mut words = Words::default();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let said = buffer.get(..count).unwrap_or_default();
        // Nobody to hear it is no reason to block the server.
        let _ = io::stderr().write_all(said);
        if words.are_in(said)
            && let Some(tell) = tell.take()
        {
            let _ = tell.send(());
        }
    }
}

/// Looks for the words in what comes in pieces.
#[derive(Default)]
struct Words {
    /// How many of their bytes the last piece ended with.
    matched: usize,
}

impl Words {
    fn are_in(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            let byte = byte.to_ascii_lowercase();
            // Their first letter stands in them once, so that it is enough to begin again here.
            self.matched = match WORDS.get(self.matched) == Some(&byte) {
                true => self.matched + 1,
                false => usize::from(WORDS.first() == Some(&byte)),
            };
            if self.matched == WORDS.len() {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_found_in_any_split() {
        for (said, found) in [
            ("listening on http://127.0.0.1:1/mcp\n", true),
            ("2026-01-01 INFO Listening on http://[::1]:1\n", true),
            ("lilistening on x", true),
            ("a\nlistening\nlistening on x", true),
            ("listening", false),
            ("listening on", false),
            ("listening at x", false),
            ("", false),
        ] {
            for size in 1..=said.len().max(1) {
                let mut words = Words::default();
                let pieces = said.as_bytes().chunks(size);
                let is_found = pieces.map(|piece| words.are_in(piece)).any(|found| found);
                assert_eq!(is_found, found, "{said:?} in pieces of {size}");
            }
        }
    }
}
