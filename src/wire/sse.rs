//! Server-sent events: bytes in, events out; and the encoder.
//!
//! Owns the event stream format of the HTML standard, section "Server-sent events". Must not know
//! what the data of an event means, nor who asks for the stream again when it breaks.

use std::fmt;
use std::io::Write as _;
use std::mem;
use std::time::Duration;

use bytes::Bytes;
use memchr::memchr2;

use super::input::{Input, append};
use crate::error::Error;

#[cfg(test)]
mod tests;

/// A comment that shows a silent stream to be alive.
pub(crate) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// What goes before an event's one line of data.
pub(crate) const EVENT_HEAD: &[u8] = b"event: message\ndata: ";

/// What goes after it.
pub(crate) const EVENT_TAIL: &[u8] = b"\n\n";

/// Appends one event. `data` is a single line, as JSON without white space between its tokens
/// always is.
pub(crate) fn encode_event(out: &mut Vec<u8>, data: &[u8]) {
    debug_assert!(
        memchr2(b'\n', b'\r', data).is_none(),
        "a line end inside the data would end its field"
    );
    out.reserve(EVENT_HEAD.len() + data.len() + EVENT_TAIL.len());
    out.extend_from_slice(EVENT_HEAD);
    out.extend_from_slice(data);
    out.extend_from_slice(EVENT_TAIL);
}

/// Appends what goes before an event that a client can go on after.
pub(crate) fn encode_id(out: &mut Vec<u8>, id: impl fmt::Display) {
    // Writing to a vector does not fail.
    let _ = writeln!(out, "id: {id}");
}

/// Appends an event that says nothing, but from where the stream can be gone on with, and after
/// which wait.
pub(crate) fn encode_priming(out: &mut Vec<u8>, id: impl fmt::Display, retry: Duration) {
    encode_id(out, id);
    let _ = write!(out, "retry: {}\ndata:\n\n", retry.as_millis());
}

/// One dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The `event` field; empty when there was none.
    pub(crate) name: Bytes,
    /// The `data` lines joined by LF; a slice of the input where it was one line in one piece.
    /// Not checked to be UTF-8.
    pub(crate) data: Bytes,
}

/// What a stream says about being asked for again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) last_event_id: Option<Box<str>>,
    pub(crate) retry: Option<Duration>,
}

/// Decodes one SSE body.
///
/// [`push`](Self::push) what came, take events until there is none, and [`finish`](Self::finish)
/// at the end of the body. Only a line that is cut by the end of a push is copied, and several
/// data lines of one event to join them.
#[derive(Debug)]
pub(crate) struct SseDecoder {
    what: &'static str,
    max_bytes: usize,
    state: State,
    input: Input,
    draft: Draft,
    last_event_id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Inside a line or before one.
    Line,
    /// After a line that ended with CR: an LF that follows belongs to the same line end.
    AfterCr,
    /// After a failure or the end of the body.
    Ended,
}

impl SseDecoder {
    /// A decoder that takes at most `max_bytes` of data for one event; `what` names that bound in
    /// the error. A line of any kind counts for the event it stands in until it has ended.
    pub(crate) fn new(what: &'static str, max_bytes: usize) -> Self {
        Self {
            what,
            max_bytes,
            state: State::Line,
            input: Input::new(),
            draft: Draft::default(),
            last_event_id: String::new(),
        }
    }

    /// Adds bytes of the body. This may be done at any time, but only bytes pushed after
    /// [`next_event`](Self::next_event) gave `None` are taken without a copy, and what nobody
    /// reads piles up here.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        if self.state != State::Ended {
            self.input.push(bytes);
        }
    }

    /// The next whole event, or `None` if it has not come yet.
    ///
    /// # Errors
    ///
    /// [`Error::Limit`] if an event is larger than the bound. It is given once; after that there
    /// are no more events, and bytes are dropped.
    pub(crate) fn next_event(&mut self) -> Result<Option<SseEvent>, Error> {
        loop {
            if let Some(event) = self.take_usual() {
                return Ok(Some(event));
            }
            let unread = self.input.unread();
            if self.state == State::AfterCr
                && let Some(first) = unread.first()
            {
                let count = usize::from(*first == b'\n');
                self.state = State::Line;
                self.input.skip(count);
                continue;
            }
            let found = memchr2(b'\n', b'\r', unread);
            let more = found.unwrap_or(unread.len());
            if self.input.cut().len() + more > self.draft.max_line(self.max_bytes) {
                return Err(self.fail());
            }
            let Some(end) = found else {
                self.input.hold();
                return Ok(None);
            };
            let (line, ending) = unread.split_at(end);
            if ending.first() == Some(&b'\r') {
                self.state = State::AfterCr;
            }
            if !self.input.cut().is_empty() {
                let line = self.input.take_line(end);
                self.draft.take_line(&line, &line);
            } else if line.is_empty() {
                self.input.skip_line(end);
                self.last_event_id.clone_from(&self.draft.id);
                if let Some(event) = self.draft.take_event() {
                    return Ok(Some(event));
                }
            } else {
                self.draft.take_line(unread, line);
                self.input.skip_line(end);
            }
            if self.draft.data_len() > self.max_bytes {
                return Err(self.fail());
            }
        }
    }

    /// What servers send nearly always, if it is here whole: a line of data and a blank one, maybe
    /// after the name of a message. All that is said of other events holds for these too.
    fn take_usual(&mut self) -> Option<SseEvent> {
        const HEAD: &[u8] = b"data: ";
        if self.state != State::Line || !self.input.cut().is_empty() || self.draft.data.is_some() {
            return None;
        }
        let unread = self.input.unread();
        let (is_named, rest) = match unread.strip_prefix(EVENT_HEAD) {
            Some(rest) => (true, rest),
            None => (false, unread.strip_prefix(HEAD)?),
        };
        let len = memchr2(b'\n', b'\r', rest)?;
        // With a bound below that, the name alone is over it.
        let bounded = EVENT_HEAD.len().max(len) <= self.max_bytes;
        if len == 0 || !bounded || !rest.get(len..)?.starts_with(EVENT_TAIL) {
            return None;
        }
        let head = unread.len() - rest.len();
        let data = self.input.take(head..head + len, EVENT_TAIL.len());
        self.last_event_id.clone_from(&self.draft.id);
        let mut name = mem::take(&mut self.draft.name);
        if is_named {
            name = Bytes::from_static(b"message");
        }
        Some(SseEvent { name, data })
    }

    /// Ends the body, and gives out the data that no blank line followed. The standard discards
    /// it, since it may be cut short; use it only if it proves to be whole. Data with an id of its
    /// own is left out if there is an earlier event to resume after: it will come again.
    ///
    /// To be called once [`next_event`](Self::next_event) has given `None`.
    pub(crate) fn finish(&mut self) -> Option<SseEvent> {
        debug_assert!(
            self.input.unread().is_empty(),
            "unread events would be lost"
        );
        self.state = State::Ended;
        let line = self.input.take_rest();
        // Other fields cannot show whether they are whole.
        if field(&line, b"data").is_some() {
            self.draft.take_line(&line, &line);
        }
        let whole = self.draft.data_len() <= self.max_bytes;
        let comes_again = self.last_event_id().is_some() && self.draft.id != self.last_event_id;
        self.draft.take_event().filter(|_| whole && !comes_again)
    }

    /// The id to resume after: that of the last dispatched event that had one, with data or not.
    pub(crate) fn last_event_id(&self) -> Option<&str> {
        Some(self.last_event_id.as_str()).filter(|id| !id.is_empty())
    }

    /// How long the peer asks to wait before the stream is opened again.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.draft.retry
    }

    /// How far the stream has come.
    pub(crate) fn position(&self) -> Position {
        Position {
            last_event_id: self.last_event_id().map(Box::from),
            retry: self.retry(),
        }
    }

    /// Of lines and data; name and id have bounds of their own.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn held_bytes(&self) -> usize {
        self.input.held_bytes() + self.draft.data_len()
    }

    fn fail(&mut self) -> Error {
        self.state = State::Ended;
        self.input.clear();
        self.draft.take_event();
        Error::limit(self.what, self.max_bytes)
    }
}

/// The event that is being gathered; id and retry outlive it.
#[derive(Debug, Default)]
struct Draft {
    name: Bytes,
    data: Option<Bytes>,
    id: String,
    retry: Option<Duration>,
}

impl Draft {
    /// Takes a line that is not blank; `buffer` is what it is a part of.
    fn take_line(&mut self, buffer: &Bytes, line: &[u8]) {
        if let Some(value) = field(line, b"data") {
            match &mut self.data {
                Some(data) => append(data, &[b"\n", value]),
                None => self.data = Some(buffer.slice_ref(value)),
            }
        } else if let Some(value) = field(line, b"event") {
            self.name = buffer.slice_ref(value);
        } else if let Some(value) = field(line, b"id") {
            // An id that is not text could not be sent back as it came.
            if value.len() <= MAX_ID_BYTES
                && !value.contains(&0)
                && let Ok(id) = str::from_utf8(value)
            {
                self.id.clear();
                self.id.push_str(id);
            }
        } else if let Some(value) = field(line, b"retry")
            && let Some(millis) = decimal(value)
        {
            self.retry = Some(Duration::from_millis(millis).min(MAX_RETRY));
        }
    }

    /// The event, if there is anything in its data; begins the next one.
    fn take_event(&mut self) -> Option<SseEvent> {
        let name = mem::take(&mut self.name);
        let data = self.data.take()?;
        let empty = data.iter().all(|byte| *byte == b'\n');
        (!empty).then_some(SseEvent { name, data })
    }

    fn data_len(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len)
    }

    /// How long a line may be without its data being too much for certain. The same bound holds for
    /// the start of a line and for all of it, or the split of the input would decide about an
    /// event.
    fn max_line(&self, max_bytes: usize) -> usize {
        max_bytes
            .saturating_sub(self.data_len())
            .saturating_add(b"data: ".len())
    }
}

/// The value of a line, if the line is of the field `name`.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

/// The value of a text of digits, which is all that the standard allows: no sign, no space.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(value.saturating_mul(10).saturating_add(digit))
    })
}

/// A longer id is ignored: it is kept for the life of the stream and goes out in a header, and
/// servers take header blocks of a few KiB.
const MAX_ID_BYTES: usize = 1024;

/// Longest wait that a peer may impose.
const MAX_RETRY: Duration = Duration::from_secs(5 * 60);
