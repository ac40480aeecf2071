//! Newline framing: one message a line.
//!
//! Owns the search for line ends and the cap on a line. Must not know what a line holds, nor
//! which of them are messages.

use bytes::Bytes;
use memchr::memchr;

use super::input::Input;
use crate::error::Error;

#[cfg(test)]
mod tests;

/// Decodes a stream of lines that end with LF or CRLF.
///
/// Blank lines are skipped. [`push`](Self::push) what came, take lines until there is none, and
/// [`finish`](Self::finish) at the end of the stream. Only a line that is cut by the end of a push
/// is copied.
#[derive(Debug)]
pub(crate) struct LineDecoder {
    what: &'static str,
    max_bytes: usize,
    state: State,
    input: Input,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Line,
    /// Inside a line over the cap, which was reported already.
    TooLong,
}

impl LineDecoder {
    /// A decoder of lines of at most `max_bytes`, the line end not counted; `what` names that
    /// bound in the error.
    pub(crate) fn new(what: &'static str, max_bytes: usize) -> Self {
        Self {
            what,
            max_bytes,
            state: State::Line,
            input: Input::new(),
        }
    }

    /// Adds bytes of the stream. This may be done at any time, but only bytes pushed after
    /// [`next_line`](Self::next_line) gave `None` are taken without a copy, and what nobody reads
    /// piles up here.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.input.push(bytes);
    }

    /// The next line without its end, or `None` if it has not come whole yet.
    ///
    /// # Errors
    ///
    /// [`Error::Limit`], once for each line over the cap. The line is skipped, and those after it
    /// are given out as usual.
    pub(crate) fn next_line(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let unread = self.input.unread();
            let found = memchr(b'\n', unread);
            if self.state == State::TooLong {
                self.skip(found);
                if found.is_none() {
                    return Ok(None);
                }
                continue;
            }
            let (piece, _) = unread.split_at(found.unwrap_or(unread.len()));
            if line_len(self.input.cut(), piece) > self.max_bytes {
                self.skip(found);
                return Err(Error::limit(self.what, self.max_bytes));
            }
            let Some(end) = found else {
                self.input.hold();
                return Ok(None);
            };
            if let Some(line) = without_cr(self.input.take_line(end)) {
                return Ok(Some(line));
            }
        }
    }

    /// Ends the stream, and gives out a last line that has no end.
    ///
    /// To be called once [`next_line`](Self::next_line) has given `None`.
    pub(crate) fn finish(&mut self) -> Option<Bytes> {
        debug_assert!(self.input.unread().is_empty(), "unread lines would be lost");
        without_cr(self.input.take_rest())
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn held_bytes(&self) -> usize {
        self.input.held_bytes()
    }

    /// Drops what there is of a line over the cap.
    fn skip(&mut self, end: Option<usize>) {
        match end {
            Some(end) => {
                self.input.skip_line(end);
                self.state = State::Line;
            }
            None => {
                self.input.clear();
                self.state = State::TooLong;
            }
        }
    }
}

/// The length of a line that came in two pieces. A CR at its end is not counted: it may be the
/// first half of the line end.
fn line_len(cut: &[u8], piece: &[u8]) -> usize {
    let last = piece.last().or_else(|| cut.last());
    cut.len() + piece.len() - usize::from(last == Some(&b'\r'))
}

/// The line without the CR of its end, or `None` if it is blank.
fn without_cr(mut line: Bytes) -> Option<Bytes> {
    if line.last() == Some(&b'\r') {
        line.truncate(line.len() - 1);
    }
    (!line.trim_ascii().is_empty()).then_some(line)
}
