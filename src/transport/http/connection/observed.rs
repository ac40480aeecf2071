//! The bytes of a connection on their way between the socket and hyper.
//!
//! Notes what state they show, and closes so that the last answer is not lost. Must not know what
//! follows from it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::HeadScan;
use super::patience::State;

/// Tells the state of a connection what goes through.
#[derive(Debug)]
pub(super) struct Observed<Io> {
    io: Io,
    state: Arc<State>,
    scan: HeadScan,
    /// The number of the head that the scan is for.
    scanned_head: usize,
    /// Once the writing side is closed: bytes that were read and dropped.
    lingered: Option<usize>,
    max_lingering_bytes: usize,
    /// Read on hyper's behalf, and not yet taken by it.
    ahead: Vec<u8>,
    /// hyper waits for bytes, and so learns of their end.
    is_awaited: bool,
}

/// How much of the next requests is read while one runs, so that the end behind it is seen. For a
/// client that sends more than this ahead, patience is short.
const MAX_AHEAD_BYTES: usize = 16 * 1024;

/// To a client whose request crosses the end of its connection, this is an answer that lets it ask
/// again on another one: no request was received (RFC 9110, "408 Request Timeout"), and nothing says
/// why to wait. To all others it is the end of a connection that they do not use.
const UNASKED: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\nretry-after: 0\r\n\
    content-length: 0\r\n\r\n";

impl<Io> Observed<Io> {
    /// After a refusal up to `max_lingering_bytes` are read and dropped.
    pub(super) fn new(io: Io, state: Arc<State>, max_lingering_bytes: usize) -> Self {
        Self {
            io,
            state,
            scan: HeadScan::default(),
            scanned_head: 0,
            lingered: None,
            max_lingering_bytes,
            ahead: Vec::new(),
            is_awaited: false,
        }
    }

    fn note_read(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // A head that was sent ahead of its turn is not looked at; if it is ambiguous, hyper
        // closes the connection after its answer.
        let Some(head) = self.state.note_read() else {
            return;
        };
        if self.scanned_head != head {
            self.scanned_head = head;
            self.scan = HeadScan::default();
        }
        self.scan.feed(bytes);
        if self.scan.is_ambiguous() {
            self.state.note_ambiguous_head();
        }
    }
}

impl<Io: AsyncRead + Unpin> Observed<Io> {
    /// Looks whether the client is still there. hyper does so itself while a request runs, but not
    /// once it holds a byte of the next one.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.is_awaited || !self.state.is_busy() {
            return Ok(());
        }
        while self.ahead.len() < MAX_AHEAD_BYTES {
            let mut scrap = [0; 1024];
            let mut buf = ReadBuf::new(&mut scrap);
            if Pin::new(&mut self.io).poll_read(cx, &mut buf)?.is_pending() {
                break;
            }
            if buf.filled().is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.ahead.extend_from_slice(buf.filled());
        }
        self.note_ahead();
        Ok(())
    }

    /// Hands over what was read ahead; false if there is nothing.
    fn take_ahead(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let count = self.ahead.len().min(buf.remaining());
        buf.put_slice(self.ahead.get(..count).unwrap_or_default());
        self.ahead.drain(..count);
        if self.ahead.is_empty() {
            self.ahead = Vec::new();
        }
        self.note_ahead();
        count > 0
    }

    fn note_ahead(&self) {
        self.state.note_ahead(self.ahead.len() >= MAX_AHEAD_BYTES);
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin> Observed<Io> {
    /// Says that no request was read here, and none will be; then closes as after a refusal, since
    /// one may be on its way.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) async fn say_unasked(mut self) -> io::Result<()> {
        let mut rest = UNASKED;
        while !rest.is_empty() {
            let count = poll_fn(|cx| Pin::new(&mut self.io).poll_write(cx, rest)).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = rest.get(count..).unwrap_or_default();
        }
        poll_fn(|cx| Pin::new(&mut self.io).poll_flush(cx)).await?;
        self.state.refuse_request();
        poll_fn(|cx| Pin::new(&mut self).poll_shutdown(cx)).await
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Observed<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        self.is_awaited = false;
        if !self.take_ahead(buf) {
            let outcome = Pin::new(&mut self.io).poll_read(cx, buf);
            self.is_awaited = outcome.is_pending();
            ready!(outcome)?;
        }
        self.note_read(buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Observed<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_gone(cx)?;
        let outcome = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.state.note_write(&outcome);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_gone(cx)?;
        let outcome = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.state.note_write(&outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_gone(cx)?;
        let outcome = Pin::new(&mut self.io).poll_flush(cx);
        self.state.note_flush(&outcome);
        outcome
    }

    /// Closes the writing side; after a refused request it then reads on for a while. A socket
    /// closed with unread bytes in it is reset, and the client may lose the answer that says why
    /// (RFC 9112, "Tear-down").
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let mut lingered = match this.lingered {
            Some(lingered) => lingered,
            None => {
                let has_more_to_say = this.state.close();
                ready!(Pin::new(&mut this.io).poll_shutdown(cx))?;
                if !has_more_to_say {
                    return Poll::Ready(Ok(()));
                }
                0
            }
        };
        loop {
            this.lingered = Some(lingered);
            let mut scrap = [0; 4096];
            let mut buf = ReadBuf::new(&mut scrap);
            ready!(Pin::new(&mut this.io).poll_read(cx, &mut buf))?;
            lingered += buf.filled().len();
            if buf.filled().is_empty() || lingered > this.max_lingering_bytes {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
