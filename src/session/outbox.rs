//! The outgoing bytes of one call.
//!
//! Owns their order, the bound on what waits, and the rule that nothing follows the response. Must
//! not know what runs the tool or what carries the bytes. One short lock a call, never held while
//! waking anybody; events are encoded straight into the buffer that goes out.

use std::collections::BTreeMap;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use self::tape::Tape;
use super::progress::{Framing, ProgressFrame};
use crate::error::Error;
use crate::wire::chunk::{Chunk, Spare};

pub(crate) mod tape;

#[derive(Debug)]
pub(crate) struct Outbox {
    framing: Framing,
    /// How this call's events begin; without one they go nowhere.
    frame: Option<ProgressFrame>,
    max_bytes: usize,
    max_event_bytes: usize,
    spare: Arc<Spare>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    phase: Phase,
    /// How often a reader left.
    departures: u64,
    /// The last progress number; numbers of a call rise strictly.
    last: Option<f64>,
    reader: Option<Waker>,
    /// The call's own task, which asks whether anybody reads.
    owner: Option<Waker>,
    /// Writers that wait for room, and whoever waits for the end.
    waiting: [Waiting; 2],
    form: Form,
    /// Keeps what is said for a reader that comes back.
    tape: Option<Box<Tape>>,
}

/// The form of the answer. What comes first decides: an event or the end of the window (a stream),
/// or the tool's end (one JSON body).
#[derive(Debug)]
enum Form {
    Undecided,
    Json { status: u16, body: Vec<u8> },
    Stream,
}

/// What the reader is to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// One body, and nothing more.
    Json { status: u16, body: Vec<u8> },
    /// A stream, read by [`Outbox::poll_chunk`].
    Stream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The reader is gone but the call goes on; what it says is dropped, or only kept on tape.
    Detached,
    /// The response was written, or there will be none.
    Ended,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Taken, or dropped because nobody listens.
    Done,
    /// Not taken: too much waits. Try again after [`Outbox::room`].
    Full,
}

/// Who reads an outbox from its beginning.
const FIRST_READER: u64 = 0;

/// The first growth of the buffer, so that a call of a few tokens stays small.
const FIRST_BYTES: usize = 1024;

impl Outbox {
    pub(crate) fn new(
        framing: Framing,
        frame: Option<ProgressFrame>,
        max_bytes: usize,
        max_event_bytes: usize,
    ) -> Self {
        let state = State {
            bytes: Vec::new(),
            phase: Phase::Open,
            departures: 0,
            last: None,
            reader: None,
            owner: None,
            waiting: Default::default(),
            form: Form::Undecided,
            tape: None,
        };
        Self {
            framing,
            frame,
            // With a bound of none, not even the first event would find room.
            max_bytes: max_bytes.max(1),
            max_event_bytes,
            spare: Arc::new(Spare::default()),
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one event: `write` appends the message's inside, escaped for its string.
    pub(crate) fn push_event(
        &self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<Pushed, Error> {
        self.push(next_number, None, Some(write))
    }

    /// Writes a plain progress notification. A number that does not rise, or is none, is replaced
    /// by the next one that does.
    pub(crate) fn push_progress(
        &self,
        number: f64,
        total: Option<f64>,
        write: Option<impl FnOnce(&mut Vec<u8>) -> Result<(), Error>>,
    ) -> Result<Pushed, Error> {
        let rising = |last: Option<f64>| {
            if number.abs() <= MAX_NUMBER && last.is_none_or(|last| number > last) {
                number
            } else {
                next_number(last)
            }
        };
        let total = total.filter(|total| total.is_finite());
        self.push(rising, total, write)
    }

    fn push(
        &self,
        number: impl FnOnce(Option<f64>) -> f64,
        total: Option<f64>,
        write: Option<impl FnOnce(&mut Vec<u8>) -> Result<(), Error>>,
    ) -> Result<Pushed, Error> {
        let mut state = self.lock();
        let Some(frame) = &self.frame else {
            return if state.phase == Phase::Ended {
                Err(Error::closed("stream"))
            } else {
                Ok(Pushed::Done)
            };
        };
        if state.tape.is_some() {
            return self.push_taped(state, frame, number, total, write);
        }
        match state.phase {
            Phase::Ended => return Err(Error::closed("stream")),
            Phase::Detached => return Ok(Pushed::Done),
            Phase::Open if state.bytes.len() >= self.max_bytes => return Ok(Pushed::Full),
            Phase::Open => {}
        }
        let number = number(state.last);
        if state.bytes.capacity() == 0 {
            state.bytes = self.spare.take();
            state.bytes.reserve(FIRST_BYTES);
        }
        let draft = Draft::begin(&mut state.bytes);
        frame.write(draft.bytes, number, total, write)?;
        if draft.size() > self.max_event_bytes {
            return Err(Error::limit("max_event_bytes", self.max_event_bytes));
        }
        draft.keep();
        state.last = Some(number);
        state.form = Form::Stream;
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        Ok(Pushed::Done)
    }

    /// Writes one whole message, however much waits. For an outbox that carries the answers of a
    /// shared link, whose reader is kept from falling behind by [`room`](Self::room).
    pub(crate) fn push_message(&self, message: &[u8]) {
        let mut state = self.lock();
        if state.phase != Phase::Open {
            return;
        }
        self.framing.write(&mut state.bytes, message);
        let reader = state.reader.take();
        drop(state);
        wake(reader);
    }

    /// Ready when an event would be taken, or refused for good.
    pub(crate) fn room(&self) -> Wait<'_> {
        Wait::new(self, What::Room)
    }

    /// Writes the response, which is one JSON-RPC message, and ends the stream. `status` is what
    /// HTTP says if the answer is this one body.
    pub(crate) fn end(&self, status: u16, response: Vec<u8>) {
        self.finish(Some((status, response)));
    }

    /// Ends the stream without a response: the call was cancelled.
    pub(crate) fn abandon(&self) {
        self.finish(None);
    }

    fn finish(&self, response: Option<(u16, Vec<u8>)>) {
        let mut state = self.lock();
        let State {
            bytes,
            phase,
            form,
            tape,
            ..
        } = &mut *state;
        match (mem::replace(phase, Phase::Ended), response, tape) {
            (Phase::Ended, ..) => return,
            (Phase::Open, Some((status, body)), _) if matches!(form, Form::Undecided) => {
                *form = Form::Json { status, body };
            }
            (phase, response, Some(tape)) => {
                let body = response.as_ref().map(|(_, body)| &**body);
                tape.finish(bytes, phase == Phase::Open, body);
            }
            (Phase::Open, Some((_, body)), None) => self.framing.write(bytes, &body),
            _ => {}
        }
        let woken = state.take_all();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// The reader is gone. What waits is dropped, and so is what comes, unless it is on tape.
    pub(crate) fn detach(&self) {
        self.detach_reader(FIRST_READER);
    }

    fn detach_reader(&self, reader: u64) {
        let mut state = self.lock();
        if state.is_replaced(reader) {
            return;
        }
        // With no word sent there is no event to go on after.
        let tape = match state.form {
            Form::Undecided => state.tape.take(),
            _ => None,
        };
        let unread = mem::take(&mut state.bytes);
        let reader = state.reader.take();
        let mut woken = Vec::new();
        if state.phase == Phase::Open {
            state.depart();
            woken.extend(state.owner.take());
            woken.extend(state.waiting(What::Room).take());
        }
        drop(state);
        drop((unread, reader, tape));
        woken.into_iter().for_each(Waker::wake);
    }

    /// For the call's own task: ready when the reader is gone or the stream has ended, with how
    /// many readers have gone so far.
    pub(crate) fn poll_unread(&self, cx: &mut Context<'_>) -> Poll<u64> {
        self.poll_owner(cx, |phase| phase != Phase::Open)
    }

    /// For the call's own task: ready when the stream has ended.
    pub(crate) fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_owner(cx, |phase| phase == Phase::Ended).map(drop)
    }

    fn poll_owner(&self, cx: &mut Context<'_>, reached: impl Fn(Phase) -> bool) -> Poll<u64> {
        let mut state = self.lock();
        if reached(state.phase) {
            return Poll::Ready(state.departures);
        }
        listen(&mut state.owner, cx);
        Poll::Pending
    }

    /// Ready when the stream has ended.
    pub(crate) fn ended(&self) -> Wait<'_> {
        Wait::new(self, What::End)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.lock().phase == Phase::Ended
    }

    /// True if events of this call reach somebody, or may do so later.
    pub(crate) fn is_active(&self) -> bool {
        self.frame.is_some() && {
            let state = self.lock();
            match state.phase {
                Phase::Open => true,
                Phase::Detached => state.tape.is_some(),
                Phase::Ended => false,
            }
        }
    }

    /// For the reader: the form of the answer, once it is known.
    pub(crate) fn poll_answer(&self, cx: &mut Context<'_>) -> Poll<Answer> {
        let mut state = self.lock();
        if matches!(state.form, Form::Undecided) && state.phase == Phase::Open {
            listen(&mut state.reader, cx);
            return Poll::Pending;
        }
        Poll::Ready(state.decide())
    }

    /// For the reader: the form of the answer, now. With nothing said yet it is a stream.
    pub(crate) fn decide(&self) -> Answer {
        self.lock().decide()
    }

    /// For the reader: all that waits; `None` when the stream has ended.
    pub(crate) fn poll_chunk(&self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        self.poll_reader(FIRST_READER, cx)
    }

    fn poll_reader(&self, reader: u64, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        let mut state = self.lock();
        if state.is_replaced(reader) {
            return Poll::Ready(None);
        }
        if state.bytes.is_empty() {
            if state.phase != Phase::Open {
                return Poll::Ready(None);
            }
            listen(&mut state.reader, cx);
            return Poll::Pending;
        }
        let bytes = mem::replace(&mut state.bytes, self.spare.take());
        let writers = state.waiting(What::Room).take();
        drop(state);
        writers.for_each(Waker::wake);
        Poll::Ready(Some(Chunk::recycled(bytes, self.spare.clone())))
    }

    /// For the reader: how much is still to be read of a stream that has ended.
    pub(crate) fn left_behind(&self) -> Option<usize> {
        let state = self.lock();
        (state.phase == Phase::Ended).then_some(state.bytes.len())
    }

    /// For the reader: true once there is nothing more to read.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_read_out(FIRST_READER)
    }

    fn is_read_out(&self, reader: u64) -> bool {
        let state = self.lock();
        state.bytes.is_empty() && state.phase != Phase::Open || state.is_replaced(reader)
    }
}

impl State {
    /// What the wait is for has come.
    fn has(&self, what: What, max_bytes: usize) -> bool {
        match what {
            What::Room => self.phase != Phase::Open || self.bytes.len() < max_bytes,
            What::End => self.phase == Phase::Ended,
        }
    }

    fn waiting(&mut self, what: What) -> &mut Waiting {
        let [room, end] = &mut self.waiting;
        match what {
            What::Room => room,
            What::End => end,
        }
    }

    fn depart(&mut self) {
        self.phase = Phase::Detached;
        self.departures += 1;
    }

    fn decide(&mut self) -> Answer {
        match mem::replace(&mut self.form, Form::Stream) {
            Form::Json { status, body } => Answer::Json { status, body },
            Form::Undecided => {
                self.begin_tape();
                Answer::Stream
            }
            Form::Stream => Answer::Stream,
        }
    }

    /// Everybody who waits for anything.
    fn take_all(&mut self) -> Vec<Waker> {
        let alone = [self.reader.take(), self.owner.take()];
        let [room, end] = &mut self.waiting;
        alone
            .into_iter()
            .flatten()
            .chain(room.take())
            .chain(end.take())
            .collect()
    }
}

/// The next whole number.
fn next_number(last: Option<f64>) -> f64 {
    last.map_or(1.0, |last| last.floor() + 1.0)
}

/// A number above it is not passed on: whole numbers up to twice as much are exact, so a call always
/// has numbers left to rise to.
const MAX_NUMBER: f64 = (1u64 << 52) as f64;

/// A frame that is being written: taken back unless it is kept, also when the payload's own
/// serialiser panics.
struct Draft<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Draft<'a> {
    fn begin(bytes: &'a mut Vec<u8>) -> Self {
        let start = bytes.len();
        Self { bytes, start }
    }

    fn size(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// What was written after the first `skipped` bytes.
    fn written(&self, skipped: usize) -> &[u8] {
        self.bytes.get(self.start + skipped..).unwrap_or_default()
    }

    fn keep(mut self) {
        self.start = self.bytes.len();
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        self.bytes.truncate(self.start);
    }
}

#[derive(Debug, Clone, Copy)]
enum What {
    Room,
    End,
}

/// Tasks that wait for the same thing, by the key of each one's [`Wait`].
#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Waiting {
    fn enter(&mut self, key: &mut Option<u64>, cx: &Context<'_>) {
        let key = *key.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        let known = self.wakers.get(&key);
        if !known.is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.wakers.insert(key, cx.waker().clone());
        }
    }

    fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        mem::take(&mut self.wakers).into_values()
    }
}

/// A wait that leaves nothing behind when it is dropped.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Wait<'a> {
    outbox: &'a Outbox,
    what: What,
    key: Option<u64>,
}

impl<'a> Wait<'a> {
    fn new(outbox: &'a Outbox, what: What) -> Self {
        Self {
            outbox,
            what,
            key: None,
        }
    }
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { outbox, what, key } = &mut *self;
        let mut state = outbox.lock();
        if state.has(*what, outbox.max_bytes) {
            return Poll::Ready(());
        }
        state.waiting(*what).enter(key, cx);
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.outbox.lock().waiting(self.what).wakers.remove(&key);
            drop(waker);
        }
    }
}

fn listen(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) if waker.will_wake(cx.waker()) => {}
        _ => *place = Some(cx.waker().clone()),
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
