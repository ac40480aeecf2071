//! The raw end of a stdio link.

use std::time::Instant;

use memchr::{memchr, memmem};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};

use super::check::Check;
use crate::child::Contestant;
use crate::{Outcome, wire};

/// How much is read at once: what a pipe holds.
const READ: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Link {
    stdin: ChildStdin,
    stdout: ChildStdout,
    input: Vec<u8>,
}

#[derive(Deserialize)]
struct Answer {
    id: u64,
}

impl Link {
    /// Takes the streams of a server and shakes hands.
    pub(crate) async fn open(server: &mut Contestant) -> Outcome<Self> {
        let stdin = server
            .child
            .stdin
            .take()
            .ok_or("its input was taken already")?;
        let mut link = Self {
            stdin,
            stdout: server.stdout()?,
            input: Vec::new(),
        };
        link.send(&wire::initialize()).await?;
        let answer = link.line().await?;
        if memmem::find(&answer, b"serverInfo").is_none() {
            return Err("an odd answer to initialize".into());
        }
        link.send(wire::INITIALIZED).await?;
        Ok(link)
    }

    pub(crate) async fn events(&mut self, request: &str, check: &mut Check) -> Outcome {
        self.send(request).await?;
        while !check.ended() {
            self.fill().await?;
            check.feed(&self.input);
            self.input.clear();
            check.read()?;
        }
        Ok(())
    }

    /// Calls `echo` `n` times, up to `inflight` at once; gives the seconds that took.
    pub(crate) async fn echo(&mut self, n: u64, inflight: u64) -> Outcome<f64> {
        let started = Instant::now();
        let (mut sent, mut came) = (0, 0);
        let mut seen = vec![false; n as usize];
        let mut requests = String::new();
        while came < n {
            while sent < n && sent - came < inflight {
                requests.push_str(&wire::echo(sent));
                requests.push('\n');
                sent += 1;
            }
            self.stdin.write_all(requests.as_bytes()).await?;
            requests.clear();
            self.fill().await?;
            let mut at = 0;
            while let Some(end) = memchr(b'\n', &self.input[at..]) {
                let line = &self.input[at..at + end];
                let answer: Answer = serde_json::from_slice(line)?;
                let first = seen.get_mut(answer.id as usize);
                let first = first.is_some_and(|seen| !std::mem::replace(seen, true));
                if !first || memmem::find(line, wire::ECHO.as_bytes()).is_none() {
                    return Err(format!("an odd answer: {}", String::from_utf8_lossy(line)).into());
                }
                came += 1;
                at += end + 1;
            }
            self.input.drain(..at);
        }
        Ok(started.elapsed().as_secs_f64())
    }

    async fn send(&mut self, message: &str) -> Outcome {
        let line = format!("{message}\n");
        Ok(self.stdin.write_all(line.as_bytes()).await?)
    }

    async fn line(&mut self) -> Outcome<Vec<u8>> {
        loop {
            if let Some(end) = memchr(b'\n', &self.input) {
                return Ok(self.input.drain(..=end).collect());
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Outcome {
        self.input.reserve(READ);
        match self.stdout.read_buf(&mut self.input).await? {
            0 => Err("the server is gone".into()),
            _ => Ok(()),
        }
    }
}
