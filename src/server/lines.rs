//! One client over lines: its session, and the answers of its calls on one shared output.
//!
//! Owns the order of reading and writing: reading never waits for a tool, and for the client only
//! when it takes no answers at all. Must not know what the lines pass over.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::batch::{Batch, NO_BATCH};
use super::calls::{Session, Step};
use super::driver::{Host, answer_batch};
use super::notice::Listener;
use super::subscription::Subscription;
use crate::error::{Error, Result};
use crate::mcp::classify::{Rejection, classify_line};
use crate::mcp::era::opening_dialect;
use crate::session::outbox::Outbox;
use crate::session::progress::Framing;
use crate::session::server::{CallRequest, Reaction, ServerSession, list_changed, shutting_down};
use crate::transport::Source as _;
use crate::transport::stream::{LineError, Lines, write_all};
use crate::wire::chunk::Chunk;
use crate::wire::jsonrpc::{self, Code, ErrorObject, Incoming, RequestId};

/// Serves one client until its input ends or `stop` says so; then running calls may end for
/// [`Limits::shutdown_timeout`](crate::Limits::shutdown_timeout). `stop` ready once more ends them
/// at once.
pub(super) async fn serve(
    host: &Host,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    mut stop: impl AsyncFnMut(),
) -> Result<()> {
    let session = host.session(ServerSession::new(opening_dialect()), None);
    let outlet = Arc::new(Outlet::new(host, session.listen()));
    let mut writing = pin!(write(&outlet, output));
    tokio::select! {
        read = read(host, &session, &outlet, input) => read?,
        written = &mut writing => return written_well(written),
        () = stop() => {}
    }
    session.hang_up();
    let grace = host.limits().shutdown_timeout;
    tokio::select! {
        _ = timeout(grace, poll_fn(|cx| outlet.poll_idle(cx))) => {}
        written = &mut writing => return written_well(written),
        () = stop() => {}
    }
    session.end(Some(&shutting_down()));
    outlet.close();
    // A client that takes nothing any more is not waited for.
    match timeout(host.limits().close_timeout, writing).await {
        Ok(written) => written_well(written),
        Err(_) => Ok(()),
    }
}

/// A client that closed its end is a client that left.
fn written_well(written: io::Result<()>) -> Result<()> {
    match written {
        Err(e) if !is_gone(&e) => Err(Error::transport_by("could not write to the client", e)),
        _ => Ok(()),
    }
}

/// A socket says so in a way of its own if the client left something unread.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

async fn read(
    host: &Host,
    session: &Arc<Session>,
    outlet: &Arc<Outlet>,
    input: impl AsyncRead + Unpin,
) -> Result<()> {
    let max_bytes = host.limits().max_server_message_bytes;
    let mut lines = Lines::new(input, "max_server_message_bytes", max_bytes);
    loop {
        outlet.answers.room().await;
        poll_fn(|cx| outlet.poll_room(cx)).await;
        match poll_fn(|cx| lines.poll_line(cx)).await {
            None => return Ok(()),
            Some(Err(LineError::Broken(e))) if is_gone(&e) => return Ok(()),
            Some(Ok(line)) => handle_line(host, session, outlet, line),
            Some(Err(LineError::TooLong(e))) => {
                outlet.answer_error(None, ErrorObject::new(Code::INVALID_REQUEST, e.to_string()));
            }
            Some(Err(LineError::Broken(e))) => {
                return Err(Error::transport_by("could not read from the client", e));
            }
        }
    }
}

fn handle_line(host: &Host, session: &Arc<Session>, outlet: &Arc<Outlet>, line: Bytes) {
    let decoded = jsonrpc::decode(&line, host.limits().max_json_depth);
    // Text that is no JSON at all is noise, which is not answered: two peers that answer each
    // other's noise would never end.
    let noise = !matches!(line.trim_ascii_start().first(), Some(b'{' | b'['));
    // What outlives this is held by who needs it.
    drop(line);
    let message = match decoded {
        Ok(Incoming::One(message)) => message.with_own_id(),
        Ok(Incoming::Batch(members)) if session.takes_batches() => {
            if let Some(batch) = Batch::begin(host, session, members) {
                let answer = Arc::new(Outbox::new(Framing::Line, None, 1, 0));
                let _ = answer.decide();
                outlet.add(Stream::Call(answer.clone()));
                answer_batch(batch, answer);
            }
            return;
        }
        Ok(Incoming::Batch(_)) => {
            let error = ErrorObject::new(Code::INVALID_REQUEST, NO_BATCH);
            return outlet.answer_error(None, error);
        }
        Err(_) if noise => return,
        Err(invalid) => {
            let error = ErrorObject::new(invalid.code, invalid.detail);
            return outlet.answer_error(invalid.id.as_ref(), error);
        }
    };
    let admit = |call: &CallRequest| {
        let admitted = host.admit(call, Framing::Line, true)?;
        // There is one form of answer here.
        let _ = admitted.0.decide();
        Some(admitted)
    };
    let stated = match classify_line(&message) {
        Ok(stated) => stated,
        Err(rejection) => {
            let Rejection { id, error, .. } = *rejection;
            return outlet.answer_error(id.as_ref(), error);
        }
    };
    let offer = host.offer();
    match session.handle_message(message, stated.as_ref(), &offer.facts, admit) {
        Step::Run(call, begun) => {
            outlet.add(Stream::Call(begun.outbox().clone()));
            let outbox = begun.outbox().clone();
            if let Some(work) = offer.work(call, &outbox, session.principal()) {
                host.leave_to_task(work, begun);
            }
        }
        Step::Settled(Reaction::Listen(listen)) => {
            match Subscription::begin(host, session, listen, Framing::Line) {
                Ok(subscription) => outlet.add(Stream::Subscription(subscription)),
                Err(busy) => outlet.answers.push_message(&busy),
            }
        }
        Step::Settled(Reaction::Answer { body, .. } | Reaction::Busy(body)) => {
            outlet.answers.push_message(&body);
        }
        Step::Settled(_) | Step::Over => {}
    }
}

/// The shared output: answers that were ready at once, and the streams of running calls.
struct Outlet {
    answers: Outbox,
    /// Calls that have ended and bytes of theirs that may wait to be written.
    max_ended: usize,
    max_bytes: usize,
    /// Hears of changed tools, if they may change.
    changes: Option<Listener>,
    streams: Mutex<Streams>,
}

/// What says something over time.
enum Stream {
    Call(Arc<Outbox>),
    Subscription(Subscription),
}

impl Stream {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        match self {
            Self::Call(outbox) => outbox.poll_chunk(cx),
            Self::Subscription(subscription) => subscription.poll_chunk(cx),
        }
    }

    /// How much is still to be written of one that has ended.
    fn left_behind(&self) -> Option<usize> {
        match self {
            Self::Call(outbox) => outbox.left_behind(),
            Self::Subscription(subscription) => subscription.left_behind(),
        }
    }
}

#[derive(Default)]
struct Streams {
    /// Whose turn is next comes first.
    open: VecDeque<Stream>,
    writer: Option<Waker>,
    /// Who waits for answers to be taken.
    reader: Option<Waker>,
    /// Who waits for the calls to end.
    idle: Option<Waker>,
    /// Bytes were taken and are being written.
    writing: bool,
}

impl Outlet {
    fn new(host: &Host, changes: Option<Listener>) -> Self {
        let limits = host.limits();
        Self {
            answers: Outbox::new(Framing::Line, None, limits.max_server_message_bytes, 0),
            max_ended: limits.max_session_calls.max(1),
            max_bytes: limits.max_server_message_bytes.max(1),
            changes,
            streams: Mutex::default(),
        }
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, stream: Stream) {
        let mut streams = self.streams();
        streams.open.push_back(stream);
        let writer = streams.writer.take();
        drop(streams);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Ready unless the client leaves too much unread of calls that have ended, which no longer
    /// count as calls in flight.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut streams = self.streams();
        let ended = streams.open.iter().filter_map(Stream::left_behind);
        let (count, bytes) = ended.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        if count < self.max_ended && bytes < self.max_bytes {
            return Poll::Ready(());
        }
        streams.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn answer_error(&self, id: Option<&RequestId>, error: ErrorObject) {
        let mut body = Vec::new();
        jsonrpc::encode_error(&mut body, id, &error);
        self.answers.push_message(&body);
    }

    /// No more answers; what waits is still written.
    fn close(&self) {
        self.answers.abandon();
        let writer = self.streams().writer.take();
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// The next bytes to write, of the answers first and of the calls in turn; `None` when there is
    /// nothing and will be nothing.
    fn poll_chunk(&self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        let answers = self.answers.poll_chunk(cx);
        if let Poll::Ready(Some(chunk)) = answers {
            return Poll::Ready(Some(chunk));
        }
        if let Some(changes) = &self.changes
            && changes.poll_changed(cx) == Poll::Ready(true)
        {
            let mut line = Vec::new();
            Framing::Line.write(&mut line, &list_changed());
            return Poll::Ready(Some(Chunk::once(line)));
        }
        let mut streams = self.streams();
        streams.writing = false;
        let count = streams.open.len();
        let mut taken = None;
        // Dropped only when nothing is locked any more.
        let mut ended = Vec::new();
        for _ in 0..count {
            let Some(mut stream) = streams.open.pop_front() else {
                break;
            };
            match stream.poll_chunk(cx) {
                Poll::Ready(Some(chunk)) => taken = Some(chunk),
                Poll::Ready(None) => {
                    ended.push(stream);
                    continue;
                }
                Poll::Pending => {}
            }
            streams.open.push_back(stream);
            if taken.is_some() {
                streams.writing = true;
                break;
            }
        }
        let is_idle = streams.open.is_empty() && taken.is_none();
        let over = is_idle && matches!(answers, Poll::Ready(None));
        let idle = streams.idle.take_if(|_| is_idle);
        let reader = match taken.is_some() || streams.open.len() < count {
            true => streams.reader.take(),
            false => None,
        };
        if taken.is_none() && !over {
            streams.writer = Some(cx.waker().clone());
        }
        drop(streams);
        drop(ended);
        for waker in [idle, reader].into_iter().flatten() {
            waker.wake();
        }
        match taken {
            Some(chunk) => Poll::Ready(Some(chunk)),
            None if over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Ready when no call runs and all answers were written.
    fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut streams = self.streams();
        if streams.open.is_empty() && !streams.writing {
            return Poll::Ready(());
        }
        streams.idle = Some(cx.waker().clone());
        Poll::Pending
    }
}

async fn write(outlet: &Outlet, mut output: impl AsyncWrite + Unpin) -> io::Result<()> {
    while let Some(chunk) = poll_fn(|cx| outlet.poll_chunk(cx)).await {
        write_all(&mut output, chunk).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
