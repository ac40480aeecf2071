//! Lines over anything that reads and writes bytes.
//!
//! Owns the buffers of one direction each; must not know what a line says. Reading and writing are
//! separate, so that neither ever waits for the other.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Sent;
use crate::error::Error;
use crate::mcp::frame::{Frame, Verb};
use crate::wire::lines::LineDecoder;

/// What one read takes at most: a pipe holds as much.
const READ_BYTES: usize = 64 * 1024;

/// Below this much room a read is not worth its system call.
const MIN_READ_BYTES: usize = 4 * 1024;

/// The lines that a peer sends.
pub(crate) struct Lines<R> {
    io: R,
    decoder: LineDecoder,
    buffer: BytesMut,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `max_bytes`; `what` names that limit.
    pub(crate) fn new(io: R, what: &'static str, max_bytes: usize) -> Self {
        Self {
            io,
            decoder: LineDecoder::new(what, max_bytes),
            buffer: BytesMut::new(),
            ended: false,
        }
    }

    /// The next line, without its end; `None` at the end of the stream. A line over the bound is
    /// an error of its own, and the lines after it follow.
    pub(crate) fn poll_line(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, LineError>>> {
        loop {
            if let Some(line) = self.decoder.next_line().map_err(LineError::TooLong)? {
                return Poll::Ready(Some(Ok(line)));
            }
            if self.ended {
                return Poll::Ready(self.decoder.finish().map(Ok));
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) => self.ended = true,
                Ok(count) => self.decoder.push(self.buffer.split_to(count).freeze()),
                Err(e) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(LineError::Broken(e))));
                }
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buffer.len() < MIN_READ_BYTES {
            // Zeroed once for each buffer; the rest of it is used by the reads that follow.
            self.buffer = BytesMut::zeroed(READ_BYTES);
        }
        let mut room = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut room))?;
        Poll::Ready(Ok(room.filled().len()))
    }
}

/// Why there is no line.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The stream broke and has ended.
    Broken(io::Error),
    /// One line was too long and is skipped.
    TooLong(Error),
}

/// Lines that wait to be written, in order. Cheap to clone; the clones are one queue.
#[derive(Debug, Clone)]
pub(crate) struct LineQueue(Arc<Mutex<Waiting>>);

#[derive(Debug)]
struct Waiting {
    lines: VecDeque<Bytes>,
    bytes: usize,
    max_bytes: usize,
    closed: bool,
    writer: Option<Waker>,
}

impl LineQueue {
    /// A queue that holds about `max_bytes`, what it costs to keep a line included.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Waiting {
            lines: VecDeque::new(),
            bytes: 0,
            max_bytes,
            closed: false,
            writer: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one line, without its end. It waits for nothing.
    ///
    /// # Errors
    /// [`Error::Limit`] if the peer takes what waits too slowly, [`Error::Closed`] once nothing is
    /// written any more.
    pub(crate) fn push(&self, line: Bytes) -> Result<(), Error> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(Error::closed("connection"));
        }
        let bytes = waiting.bytes + line.len() + size_of::<Bytes>();
        // One line alone may always wait: it was within the bound of a message.
        if !waiting.lines.is_empty() && bytes > waiting.max_bytes {
            return Err(Error::limit("max_client_message_bytes", waiting.max_bytes));
        }
        waiting.bytes = bytes;
        waiting.lines.push_back(line);
        let writer = waiting.writer.take();
        drop(waiting);
        if let Some(writer) = writer {
            writer.wake();
        }
        Ok(())
    }

    /// Nothing is added any more; what waits is still written.
    pub(crate) fn close(&self) {
        let writer = {
            let mut waiting = self.lock();
            waiting.closed = true;
            waiting.writer.take()
        };
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// All that waits, as one piece; `None` when the queue is closed and empty.
    fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let mut waiting = self.lock();
        if waiting.lines.is_empty() {
            if waiting.closed {
                return Poll::Ready(None);
            }
            waiting.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut piece = Vec::with_capacity(waiting.bytes);
        for line in waiting.lines.drain(..) {
            piece.extend_from_slice(&line);
            piece.push(b'\n');
        }
        waiting.bytes = 0;
        Poll::Ready(Some(piece))
    }
}

/// Puts what a link over lines is to send into its queue, of which there is none unless it is open.
///
/// # Errors
/// Those of [`LineQueue::push`]; a peer that takes no more is none, since the end of its lines, which
/// is near, says why.
pub(crate) fn send_line(queue: Option<&LineQueue>, frame: Frame) -> Result<Sent, Error> {
    match (frame.verb, queue) {
        // There is no session to give up but the link itself.
        (Verb::Delete | Verb::Get, _) => Ok(Sent::Shared),
        (Verb::Post, Some(queue)) => match queue.push(frame.body) {
            Ok(()) | Err(Error::Closed { .. }) => Ok(Sent::Shared),
            Err(e) => Err(e),
        },
        (Verb::Post, None) => Err(Error::closed("connection")),
    }
}

/// Writes a queue to its end.
///
/// # Errors
/// The first failed write; the queue is closed then.
pub(crate) async fn write_lines<W: AsyncWrite + Unpin>(
    mut io: W,
    queue: LineQueue,
) -> io::Result<()> {
    while let Some(piece) = std::future::poll_fn(|cx| queue.poll_take(cx)).await {
        if let Err(e) = write_all(&mut io, piece.as_slice()).await {
            queue.close();
            return Err(e);
        }
    }
    Ok(())
}

/// Writes all of `bytes` and flushes.
pub(crate) async fn write_all<W: AsyncWrite + Unpin>(
    io: &mut W,
    mut bytes: impl Buf,
) -> io::Result<()> {
    std::future::poll_fn(|cx| {
        while bytes.has_remaining() {
            match ready!(Pin::new(&mut *io).poll_write(cx, bytes.chunk()))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => bytes.advance(written),
            }
        }
        Pin::new(&mut *io).poll_flush(cx)
    })
    .await
}
