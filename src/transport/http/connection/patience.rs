//! What state a connection is in, and for how long it may stay there.
//!
//! | waits for | bound | counted from |
//! |---|---|---|
//! | a request's head | `header_read_timeout` | the accept, or the head's first byte |
//! | the next request | `idle_connection_timeout` | the last byte written |
//! | the first request, or the next one, while the server drains | `FRESH_GRACE`, `IDLE_GRACE` | the shutdown, or the last byte written |
//! | the request's body, its exchange, the answer's next bytes | none here | |
//! | the same, and more was sent ahead than is read ahead | `CROWDED_TIMEOUT` | then, or the last byte written |
//! | the reader | `stalled_reader_timeout` | the last byte taken |
//! | the client to hang up | `LINGER_TIMEOUT` | the close |
//!
//! A head of which a part came together with the request before it counts as not begun until more
//! of it comes. Must not know how bytes are read or written.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::super::clock::from_now;
use crate::limits::Limits;

/// Time for a client to read why it was refused before its connection is gone: enough for a slow
/// round trip, short enough for a shutdown.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for a request that is on its way when the server begins to drain, on a connection that is
/// just open: whoever opens one means to use it, and may be slow.
const FRESH_GRACE: Duration = Duration::from_secs(1);

/// The same on a connection that was used before. Most are simply kept, and a server that is told to
/// stop should not wait for them; a round trip on a local network is far shorter.
const IDLE_GRACE: Duration = Duration::from_millis(100);

/// Time for the answer to a request behind which so much was sent that the end behind it cannot be
/// seen: enough for short requests that were all sent at once. After it the client counts as gone.
const CROWDED_TIMEOUT: Duration = Duration::from_millis(500);

/// What the parts of one connection tell each other. They are polled in turn, by one task; atomics
/// are the cheapest way to say so to the compiler.
#[derive(Debug, Default)]
pub(super) struct State {
    phase: AtomicU8,
    /// The last write did not take everything.
    is_blocked: AtomicBool,
    /// Bytes were written since `Patience` looked.
    has_written: AtomicBool,
    /// There is no room to read more ahead.
    is_crowded: AtomicBool,
    /// The head that is being read says its body's length in two ways.
    is_ambiguous: AtomicBool,
    /// A request was answered that was not read to its end.
    is_refused: AtomicBool,
    /// Each answer that begins from now on is the last one of its connection.
    is_draining: AtomicBool,
    /// Heads that were read to their end.
    heads: AtomicUsize,
}

/// Accepted, no byte yet.
const FRESH: u8 = 0;
/// Part of a head is there.
const HEAD: u8 = 1;
/// A request is being read, run or answered.
const BUSY: u8 = 2;
/// Between two requests.
const IDLE: u8 = 3;
/// Nothing more will be written.
const CLOSING: u8 = 4;

impl State {
    /// Bytes came. The number of the head they belong to; `None` for a body, and for what is sent
    /// ahead of its turn.
    pub(super) fn note_read(&self) -> Option<usize> {
        match self.phase.load(Relaxed) {
            FRESH | IDLE => self.phase.store(HEAD, Relaxed),
            HEAD => {}
            _ => return None,
        }
        Some(self.heads.load(Relaxed))
    }

    pub(super) fn note_ambiguous_head(&self) {
        self.is_ambiguous.store(true, Relaxed);
    }

    /// A head is complete; true if it is ambiguous.
    pub(super) fn begin_request(&self) -> bool {
        self.phase.store(BUSY, Relaxed);
        let heads = self.heads.load(Relaxed);
        self.heads.store(heads.wrapping_add(1), Relaxed);
        self.is_ambiguous.swap(false, Relaxed)
    }

    /// The answer to this request is the last one, since the rest of it is not read.
    pub(super) fn refuse_request(&self) {
        self.is_refused.store(true, Relaxed);
    }

    /// The server shuts down.
    pub(super) fn drain(&self) {
        self.is_draining.store(true, Relaxed);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Relaxed)
    }

    /// A request is being read, run or answered.
    pub(super) fn is_busy(&self) -> bool {
        self.phase.load(Relaxed) == BUSY
    }

    /// The answer is with hyper as a whole, or given up.
    pub(super) fn end_request(&self) {
        self.phase.store(IDLE, Relaxed);
    }

    pub(super) fn note_write(&self, outcome: &Poll<io::Result<usize>>) {
        self.is_blocked.store(outcome.is_pending(), Relaxed);
        if outcome.is_ready() {
            self.has_written.store(true, Relaxed);
        }
    }

    pub(super) fn note_ahead(&self, is_full: bool) {
        self.is_crowded.store(is_full, Relaxed);
    }

    pub(super) fn note_flush(&self, outcome: &Poll<io::Result<()>>) {
        self.is_blocked.store(outcome.is_pending(), Relaxed);
    }

    /// Nothing more will be written; true if the client may still be sending a request that was
    /// refused, by us or by hyper for its head.
    pub(super) fn close(&self) -> bool {
        if self.phase.swap(CLOSING, Relaxed) == HEAD {
            self.refuse_request();
        }
        self.is_refused.load(Relaxed)
    }

    fn waits(&self) -> Wait {
        match self.phase.load(Relaxed) {
            CLOSING => Wait::Close,
            _ if self.is_blocked.load(Relaxed) => Wait::Reader,
            FRESH if self.is_draining() => Wait::FirstOrLeave,
            IDLE if self.is_draining() => Wait::NextOrLeave,
            FRESH | HEAD => Wait::Head,
            IDLE => Wait::Request,
            _ if self.is_crowded.load(Relaxed) => Wait::Room,
            _ => Wait::Nothing,
        }
    }
}

/// What a connection waits for, where that has a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Close,
    FirstOrLeave,
    Head,
    NextOrLeave,
    Nothing,
    Reader,
    Request,
    Room,
}

/// With what a connection ends that waited for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// Nobody hears or says anything that makes sense.
    Broken,
    /// Nothing was asked for long.
    Idle,
    /// No byte of a request has come to a server that leaves, though one may be on its way.
    Unasked,
}

/// Ends a connection that waits for too long.
///
/// One timer serves all bounds and all requests: it is moved only when it goes off early or a
/// shorter wait begins, so that a request costs a look at the clock and no more.
#[derive(Debug)]
pub(super) struct Patience<'a> {
    state: &'a State,
    limits: &'a Limits,
    wait: Wait,
    due: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl<'a> Patience<'a> {
    /// For a connection that was just accepted.
    pub(super) fn new(state: &'a State, limits: &'a Limits) -> Self {
        let due = from_now(limits.header_read_timeout);
        Self {
            state,
            limits,
            wait: Wait::Head,
            due: Some(due),
            timer: Box::pin(sleep_until(due)),
        }
    }

    /// Ready when patience is lost. To be called after each poll of the connection.
    pub(super) fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<Lost> {
        let wait = self.state.waits();
        if wait != self.wait || self.state.has_written.load(Relaxed) {
            self.state.has_written.store(false, Relaxed);
            self.wait = wait;
            let bound = match wait {
                Wait::Close => Some(LINGER_TIMEOUT),
                Wait::FirstOrLeave => Some(FRESH_GRACE),
                Wait::Head => Some(self.limits.header_read_timeout),
                Wait::NextOrLeave => Some(IDLE_GRACE),
                Wait::Nothing => None,
                Wait::Reader => Some(self.limits.stalled_reader_timeout),
                Wait::Request => Some(self.limits.idle_connection_timeout),
                Wait::Room => Some(CROWDED_TIMEOUT),
            };
            self.due = bound.map(from_now);
        }
        let Some(due) = self.due else {
            return Poll::Pending;
        };
        if self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if due <= self.timer.deadline() {
                return Poll::Ready(match self.wait {
                    Wait::FirstOrLeave | Wait::NextOrLeave => Lost::Unasked,
                    Wait::Request => Lost::Idle,
                    _ => Lost::Broken,
                });
            }
            self.timer.as_mut().reset(due);
        }
    }
}
