//! Streams of calls that a client may come back to.
//!
//! Owns the numbers of a call's events, and whose turn it is to read them; must not know what
//! carries a stream. While a reader is there its bytes wait in the outbox as ever, and the tape has
//! a copy; without one only the tape has them. The lock of an outbox is taken before that of a
//! replay.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{Draft, Form, Outbox, Phase, Pushed, State, What, wake};
use crate::error::Error;
use crate::limits::Limits;
use crate::session::progress::{Framing, ProgressFrame};
use crate::session::replay::{EventId, Ring};
use crate::wire::chunk::Chunk;
use crate::wire::sse::{encode_id, encode_priming};

/// What is kept of one session's streams.
#[derive(Debug)]
pub(crate) struct Replay {
    ring: Mutex<Ring<Weak<Outbox>>>,
    retry: Duration,
    /// Shared by all sessions, so that an id of another one is never taken for one's own.
    streams: Arc<AtomicU64>,
}

/// What a client gets that goes on with a stream.
#[derive(Debug)]
pub(crate) enum Resumed {
    /// All there will ever be.
    Rest(Vec<u8>),
    /// What follows, and what is still to come.
    Stream(Reading),
}

/// The reader of a stream that was gone on with; a newer one takes its place.
#[derive(Debug)]
pub(crate) struct Reading {
    outbox: Arc<Outbox>,
    reader: u64,
}

/// How one call's events are kept.
#[derive(Debug)]
pub(super) struct Tape {
    replay: Arc<Replay>,
    outbox: Weak<Outbox>,
    stream: u64,
    /// The number of the newest event.
    last: u64,
    /// The client knows, or may know, that the stream can be gone on with.
    begun: bool,
    /// The stream begins with an event that says nothing, and may end before its call.
    primes: bool,
    /// How many readers came after the first.
    readers: u64,
}

impl Replay {
    pub(crate) fn new(limits: &Limits, streams: Arc<AtomicU64>) -> Self {
        let ring = Ring::new(limits.max_replay_events, limits.max_replay_bytes);
        Self {
            ring: Mutex::new(ring),
            retry: limits.replay_retry,
            streams,
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring<Weak<Outbox>>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_stream(&self) -> u64 {
        self.streams.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keeps what a call says from now on. To be called before it says anything.
    pub(crate) fn tape(self: &Arc<Self>, outbox: &Arc<Outbox>, primes: bool) {
        let tape = Tape {
            replay: self.clone(),
            outbox: Arc::downgrade(outbox),
            stream: self.next_stream(),
            last: 0,
            begun: false,
            primes,
            readers: 0,
        };
        outbox.lock().tape = Some(Box::new(tape));
    }

    /// A stream that consists of one message.
    pub(crate) fn whole(&self, message: &[u8], primes: bool) -> Vec<u8> {
        let stream = self.next_stream();
        let mut bytes = Vec::new();
        if primes {
            encode_priming(&mut bytes, EventId { stream, number: 0 }, self.retry);
        }
        let start = bytes.len();
        let id = EventId { stream, number: 1 };
        write_message(&mut bytes, id, message);
        let mut ring = self.ring();
        ring.begin(stream, Weak::new());
        ring.record(id, bytes.get(start..).unwrap_or_default());
        ring.finish(stream);
        bytes
    }

    /// Goes on with a stream after the event of that id; `None` if it is unknown, or if not all
    /// that follows is kept.
    pub(crate) fn resume(&self, last_event_id: &str) -> Option<Resumed> {
        let after = EventId::parse(last_event_id)?;
        let outbox = self.ring().reader(after.stream)?.upgrade();
        match outbox {
            Some(outbox) => {
                let reader = outbox.replace_reader(after)?;
                Some(Resumed::Stream(Reading { outbox, reader }))
            }
            // The call has ended and nobody reads its answer any more.
            None => self.ring().rest(after).map(Resumed::Rest),
        }
    }

    /// The session has ended.
    pub(crate) fn clear(&self) {
        self.ring().clear();
    }
}

fn write_message(out: &mut Vec<u8>, id: EventId, message: &[u8]) {
    encode_id(out, id);
    Framing::Sse.write(out, message);
}

impl Tape {
    fn id(&self, number: u64) -> EventId {
        EventId {
            stream: self.stream,
            number,
        }
    }

    /// Appends what stands before the first event.
    fn write_lead(&self, out: &mut Vec<u8>) {
        if self.primes && !self.begun {
            encode_priming(out, self.id(0), self.replay.retry);
        }
    }

    fn begin(&mut self) {
        if !mem::replace(&mut self.begun, true) {
            self.replay.ring().begin(self.stream, self.outbox.clone());
        }
    }

    /// Keeps the next event.
    fn record(&mut self, frame: &[u8]) {
        self.begin();
        self.last += 1;
        self.replay.ring().record(self.id(self.last), frame);
    }

    /// The call is over: with a response, or without one, when there is nothing to come back for.
    pub(super) fn finish(&mut self, bytes: &mut Vec<u8>, is_read: bool, response: Option<&[u8]>) {
        let Some(response) = response else {
            return self.replay.ring().forget(self.stream);
        };
        let draft = Draft::begin(bytes);
        write_message(draft.bytes, self.id(self.last + 1), response);
        self.record(draft.written(0));
        self.replay.ring().finish(self.stream);
        if is_read {
            draft.keep();
        }
    }
}

impl Outbox {
    /// As [`push_event`](Self::push_event), of a call whose events are kept.
    pub(super) fn push_taped(
        &self,
        mut state: MutexGuard<'_, State>,
        frame: &ProgressFrame,
        number: impl FnOnce(Option<f64>) -> f64,
        total: Option<f64>,
        write: Option<impl FnOnce(&mut Vec<u8>) -> Result<(), Error>>,
    ) -> Result<Pushed, Error> {
        let State {
            bytes,
            phase,
            last,
            form,
            tape,
            ..
        } = &mut *state;
        let Some(tape) = tape else {
            return Ok(Pushed::Done);
        };
        match phase {
            Phase::Ended => return Err(Error::closed("stream")),
            Phase::Open if bytes.len() >= self.max_bytes => return Ok(Pushed::Full),
            Phase::Detached | Phase::Open => {}
        }
        let number = number(*last);
        let draft = Draft::begin(bytes);
        tape.write_lead(draft.bytes);
        let lead = draft.size();
        encode_id(draft.bytes, tape.id(tape.last + 1));
        let head = draft.size();
        frame.write(draft.bytes, number, total, write)?;
        if draft.size() - head > self.max_event_bytes {
            return Err(Error::limit("max_event_bytes", self.max_event_bytes));
        }
        tape.record(draft.written(lead));
        *last = Some(number);
        *form = Form::Stream;
        match phase {
            Phase::Open => draft.keep(),
            Phase::Detached | Phase::Ended => drop(draft),
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        Ok(Pushed::Done)
    }

    /// Ends the stream of a call that goes on, after what was said so far: its reader has to come
    /// back for the rest. False if it could not, or may not have to, or if there is none.
    pub(crate) fn close_stream(&self) -> bool {
        let mut state = self.lock();
        let may_close = state.tape.as_ref().is_some_and(|tape| tape.primes);
        if state.phase != Phase::Open || !may_close {
            return false;
        }
        state.decide();
        state.depart();
        let woken = state.take_readers();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        true
    }

    /// A reader that begins after an event; the one before it has nothing more to read.
    fn replace_reader(&self, after: EventId) -> Option<u64> {
        let mut state = self.lock();
        let tape = state.tape.as_mut()?;
        let rest = tape.replay.ring().rest(after)?;
        tape.readers += 1;
        let reader = tape.readers;
        let unread = mem::replace(&mut state.bytes, rest);
        if state.phase == Phase::Detached {
            state.phase = Phase::Open;
        }
        let woken = state.take_readers();
        drop(state);
        drop(unread);
        woken.into_iter().for_each(Waker::wake);
        Some(reader)
    }
}

impl State {
    /// Whether another reader has taken the place of this one.
    pub(super) fn is_replaced(&self, reader: u64) -> bool {
        self.tape
            .as_ref()
            .is_some_and(|tape| tape.readers != reader)
    }

    /// The answer has become a stream.
    pub(super) fn begin_tape(&mut self) {
        if self.phase == Phase::Open
            && let Some(tape) = &mut self.tape
        {
            tape.write_lead(&mut self.bytes);
            tape.begin();
        }
    }

    /// Everybody to whom it matters whether there is a reader.
    fn take_readers(&mut self) -> Vec<Waker> {
        let alone = [self.reader.take(), self.owner.take()];
        let writers = self.waiting(What::Room).take();
        alone.into_iter().flatten().chain(writers).collect()
    }
}

impl Reading {
    /// All that waits; `None` when there will be nothing more for this reader.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        self.outbox.poll_reader(self.reader, cx)
    }

    /// True once there is nothing more to read.
    pub(crate) fn is_drained(&self) -> bool {
        self.outbox.is_read_out(self.reader)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.outbox.detach_reader(self.reader);
    }
}

#[cfg(test)]
mod tests;
