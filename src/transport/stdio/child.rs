//! A server as a child process: its link.
//!
//! Owns the child's three pipes and their tasks; must not know what a line says. Lines that are no
//! JSON are skipped, stderr is always drained, and the last of both is kept for error texts.

use std::collections::VecDeque;
use std::fmt;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Sleep, sleep, timeout};

use super::command::StdioCommand;
use super::process::{Pipes, Process};
use crate::error::Error;
use crate::limits::Limits;
use crate::mcp::frame::Frame;
use crate::transport::stream::{LineError, LineQueue, Lines, send_line, write_lines};
use crate::transport::{BoxFuture, Link, Messages, Sent};

/// What is kept of a child's stderr and of the noise on its stdout.
const TAIL_BYTES: usize = 4 * 1024;

/// How long the end of a child is waited for once its stdout has ended, to tell how it went.
const EXIT_PATIENCE: Duration = Duration::from_millis(500);

/// A server that is started when the link is opened, and again when it is opened again.
pub(crate) struct ChildLink {
    command: StdioCommand,
    target: String,
    limits: Limits,
    running: Mutex<Option<Running>>,
}

/// A child that was started.
struct Running {
    outgoing: LineQueue,
    process: Arc<Process>,
    tasks: [AbortHandle; 2],
}

impl Drop for Running {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl ChildLink {
    pub(crate) fn new(command: StdioCommand, limits: &Limits) -> Result<Self, Error> {
        if command.is_empty() {
            return Err(Error::config("the command names no program"));
        }
        Ok(Self {
            target: command.shown(),
            command,
            limits: limits.clone(),
            running: Mutex::new(None),
        })
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the child; one that still runs is ended.
    fn start(&self) -> Result<Output, Error> {
        let (process, pipes) = Process::start(&self.command, self.limits.child_stop_timeout)
            .map_err(|e| {
                let cwd = self.command.cwd_shown();
                let place = cwd.map_or(String::new(), |cwd| format!(" in {cwd}"));
                Error::transport_by(format!("could not start `{}`{place}", self.target), e)
            })?;
        let Pipes {
            stdin,
            stdout,
            stderr,
        } = pipes;
        let process = Arc::new(process);
        let outgoing = LineQueue::new(self.limits.max_client_message_bytes);
        let tail = Arc::new(Tail::default());
        let (breaks, broken) = oneshot::channel();
        let end = End::Awaited(Box::pin(gone(process.exit(), broken)));
        let writing = tokio::spawn(write(stdin, outgoing.clone(), breaks)).abort_handle();
        let (drains, drained) = oneshot::channel();
        let draining = tokio::spawn(drain(stderr, tail.clone(), drains)).abort_handle();
        let sent = outgoing.clone();
        let running = Running {
            outgoing,
            process: process.clone(),
            tasks: [writing, draining],
        };
        let old = self.running().replace(running);
        drop(old);
        Ok(Output {
            lines: Lines::new(
                stdout,
                "max_client_message_bytes",
                self.limits.max_client_message_bytes,
            ),
            exit: process.exit(),
            process,
            tail,
            drained: Some(drained),
            noise: Tail::default(),
            outgoing: sent,
            target: self.target.clone(),
            end,
        })
    }
}

impl Link for ChildLink {
    fn is_shared(&self) -> bool {
        true
    }

    fn open(&self) -> Result<Option<Box<dyn Messages>>, Error> {
        let output: Box<dyn Messages> = Box::new(self.start()?);
        Ok(Some(output))
    }

    fn send(&self, frame: Frame) -> BoxFuture<'static, Result<Sent, Error>> {
        let running = self.running();
        let queue = running.as_ref().map(|running| &running.outgoing);
        Box::pin(std::future::ready(send_line(queue, frame)))
    }

    fn sweep(&self) {}

    fn close(&self) {
        let running = self.running().take();
        if let Some(running) = running {
            running.process.kill();
        }
    }

    /// Closes the child's stdin once all was written, and sees to it that the child ends.
    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let ending = self.running().as_ref().map(|running| {
                running.outgoing.close();
                running.process.stop();
                running.process.exit()
            });
            if let Some(mut exit) = ending {
                let _ = exit.wait_for(Option::is_some).await;
            }
            self.close();
        })
    }

    fn target(&self) -> &str {
        &self.target
    }

    fn peer(&self) -> Option<u64> {
        Some(self.command.fingerprint())
    }
}

impl fmt::Debug for ChildLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildLink")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// Writes to the child until there is no more to say, then closes its stdin. Tells if the child
/// takes no more.
async fn write(stdin: ChildStdin, outgoing: LineQueue, broken: oneshot::Sender<()>) {
    if write_lines(stdin, outgoing).await.is_err() {
        let _ = broken.send(());
    }
}

/// The child exited, or takes no more.
async fn gone(mut exit: watch::Receiver<Option<ExitStatus>>, broken: oneshot::Receiver<()>) {
    let broken = async {
        if broken.await.is_err() {
            // All was written.
            pending().await
        }
    };
    tokio::select! {
        _ = exit.wait_for(Option::is_some) => {}
        () = broken => {}
    }
}

/// Reads stderr to its end, so that the child never waits for it.
async fn drain(mut stderr: ChildStderr, tail: Arc<Tail>, _drains: oneshot::Sender<()>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = std::future::poll_fn(|cx| {
            let mut room = ReadBuf::new(&mut buffer);
            ready!(Pin::new(&mut stderr).poll_read(cx, &mut room))?;
            Poll::Ready(Ok::<_, io::Error>(room.filled().len()))
        });
        match read.await {
            Ok(0) | Err(_) => return,
            Ok(count) => tail.add(buffer.get(..count).unwrap_or_default()),
        }
    }
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
struct Tail(Mutex<VecDeque<u8>>);

impl Tail {
    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let skipped = bytes.len().saturating_sub(TAIL_BYTES);
        kept.extend(bytes.iter().skip(skipped));
        let excess = kept.len().saturating_sub(TAIL_BYTES);
        kept.drain(..excess);
    }

    /// As text of a few lines for an error.
    fn shown(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let visible = |c: char| {
            if c.is_control() && c != '\n' && c != '\t' {
                ' '
            } else {
                c
            }
        };
        text.trim().chars().map(visible).collect()
    }
}

/// What the child says on stdout.
struct Output {
    lines: Lines<ChildStdout>,
    exit: watch::Receiver<Option<ExitStatus>>,
    process: Arc<Process>,
    tail: Arc<Tail>,
    /// Ready, with an error, when all of stderr is in the tail.
    drained: Option<oneshot::Receiver<()>>,
    noise: Tail,
    outgoing: LineQueue,
    target: String,
    end: End,
}

/// How far the end of a child has come.
enum End {
    /// It lives. Ready when it has exited or takes no more.
    Awaited(BoxFuture<'static, ()>),
    /// It exited or takes no more, but somebody holds its stdout open. Ready when that was waited
    /// for.
    Leaving(Pin<Box<Sleep>>),
    /// It says no more. Ready when it has exited and all of its stderr was read, or that was waited
    /// for.
    Silent(BoxFuture<'static, ()>),
}

impl Messages for Output {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            let over = match &mut self.end {
                End::Silent(exited) => {
                    ready!(exited.as_mut().poll(cx));
                    return Poll::Ready(None);
                }
                // What it said before its end comes first.
                End::Awaited(_) | End::Leaving(_) => match self.lines.poll_line(cx) {
                    Poll::Ready(Some(Ok(line))) if is_message(&line) => {
                        return Poll::Ready(Some(Ok(line)));
                    }
                    Poll::Ready(Some(Ok(line))) => {
                        self.noise.add(&line);
                        self.noise.add(b"\n");
                        continue;
                    }
                    Poll::Ready(Some(Err(LineError::TooLong(e)))) => {
                        return Poll::Ready(Some(Err(e)));
                    }
                    Poll::Ready(Some(Err(LineError::Broken(_))) | None) => true,
                    Poll::Pending => false,
                },
            };
            match &mut self.end {
                End::Awaited(gone) if !over => {
                    ready!(gone.as_mut().poll(cx));
                    self.end = End::Leaving(Box::pin(sleep(EXIT_PATIENCE)));
                }
                End::Leaving(waited) if !over => {
                    ready!(waited.as_mut().poll(cx));
                    return Poll::Ready(None);
                }
                _ => {
                    let (mut exit, drained) = (self.exit.clone(), self.drained.take());
                    let told = async move {
                        let _ = exit.wait_for(Option::is_some).await;
                        if let Some(drained) = drained {
                            let _ = drained.await;
                        }
                    };
                    self.end = End::Silent(Box::pin(async move {
                        let _ = timeout(EXIT_PATIENCE, told).await;
                    }));
                }
            }
            // A child that hears or says nothing any more is of no use.
            self.outgoing.close();
            self.process.stop();
        }
    }

    fn poll_excerpt(&mut self, _max: usize, _cx: &mut Context<'_>) -> Poll<String> {
        let status = match *self.exit.borrow() {
            Some(status) => format!("`{}` ended with {status}", self.target),
            None => format!(
                "`{}` closed its {}",
                self.target,
                match self.end {
                    End::Silent(_) => "stdout",
                    End::Awaited(_) | End::Leaving(_) => "stdin",
                }
            ),
        };
        let mut text = status;
        for (what, tail) in [
            ("stderr", self.tail.shown()),
            ("stdout", self.noise.shown()),
        ] {
            if !tail.is_empty() {
                text.push_str(&format!("; the end of its {what}:\n{tail}"));
            }
        }
        Poll::Ready(text)
    }

    fn finish(self: Box<Self>) {}
}

impl Drop for Output {
    fn drop(&mut self) {
        // Nobody listens to the child any more.
        self.outgoing.close();
        self.process.stop();
    }
}

/// A line that could be a message: JSON text of an object or an array.
fn is_message(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), Some(b'{' | b'['))
}
