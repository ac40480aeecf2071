//! Lines in memory, seen from the side that calls.
//!
//! Owns the near end of a pipe and its writer; must not know what a line says. Lines that are no
//! JSON are skipped, as those of a child process are.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, split};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::memory::Pipes;
use crate::error::Error;
use crate::limits::Limits;
use crate::mcp::frame::Frame;
use crate::transport::stream::{LineError, LineQueue, Lines, send_line, write_lines};
use crate::transport::{BoxFuture, Link, Messages, Sent};

/// A peer at the other end of a pipe, anew whenever the link is opened.
pub(super) struct PipeLink {
    pipes: Pipes,
    max_message_bytes: usize,
    stop_timeout: Duration,
    writing: Mutex<Option<Writing>>,
}

/// What is written to the pipe that is open.
struct Writing {
    outgoing: LineQueue,
    task: JoinHandle<()>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PipeLink {
    pub(super) fn new(pipes: Pipes, limits: &Limits) -> Self {
        Self {
            pipes,
            max_message_bytes: limits.max_client_message_bytes,
            stop_timeout: limits.child_stop_timeout,
            writing: Mutex::new(None),
        }
    }

    fn writing(&self) -> MutexGuard<'_, Option<Writing>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link for PipeLink {
    fn is_shared(&self) -> bool {
        true
    }

    fn open(&self) -> Result<Option<Box<dyn Messages>>, Error> {
        let (input, mut output) = split(self.pipes.open());
        let max_bytes = self.max_message_bytes;
        let outgoing = LineQueue::new(max_bytes);
        let queue = outgoing.clone();
        let task = tokio::spawn(async move {
            // The reader learns of a pipe that broke.
            let _ = write_lines(&mut output, queue).await;
            let _ = output.shutdown().await;
        });
        let old = self.writing().replace(Writing {
            outgoing: outgoing.clone(),
            task,
        });
        drop(old);
        Ok(Some(Box::new(Incoming {
            lines: Lines::new(input, "max_client_message_bytes", max_bytes),
            outgoing,
        })))
    }

    fn send(&self, frame: Frame) -> BoxFuture<'static, Result<Sent, Error>> {
        let writing = self.writing();
        let queue = writing.as_ref().map(|writing| &writing.outgoing);
        Box::pin(std::future::ready(send_line(queue, frame)))
    }

    fn sweep(&self) {}

    fn close(&self) {
        let writing = self.writing().take();
        drop(writing);
    }

    /// Writes what waits and ends the pipe.
    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let writing = self.writing().take();
            if let Some(mut writing) = writing {
                writing.outgoing.close();
                let _ = timeout(self.stop_timeout, &mut writing.task).await;
            }
        })
    }

    fn target(&self) -> &str {
        "a pipe in memory"
    }
}

impl fmt::Debug for PipeLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeLink").finish_non_exhaustive()
    }
}

/// What the peer says.
struct Incoming {
    lines: Lines<ReadHalf<DuplexStream>>,
    outgoing: LineQueue,
}

impl Messages for Incoming {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            let line = match ready!(self.lines.poll_line(cx)) {
                Some(Ok(line)) => line,
                Some(Err(LineError::TooLong(e))) => return Poll::Ready(Some(Err(e))),
                Some(Err(LineError::Broken(_))) | None => {
                    // A peer that says nothing any more is of no use.
                    self.outgoing.close();
                    return Poll::Ready(None);
                }
            };
            if matches!(line.trim_ascii_start().first(), Some(b'{' | b'[')) {
                return Poll::Ready(Some(Ok(line)));
            }
        }
    }

    fn poll_excerpt(&mut self, _max: usize, _cx: &mut Context<'_>) -> Poll<String> {
        Poll::Ready("the pipe was closed".to_owned())
    }

    fn finish(self: Box<Self>) {}
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // Nobody listens to the peer any more.
        self.outgoing.close();
    }
}
