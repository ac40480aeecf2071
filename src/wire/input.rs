//! Received bytes on their way to becoming lines.
//!
//! Owns what was pushed and not yet taken, and the start of a line that goes on in a later push.
//! Must not know how a line ends or what it means: the decoders search, and tell what to take.

use std::mem;
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Pushed bytes, without the byte order mark that text may begin with.
///
/// Only bytes in [`unread`](Self::unread) need searching: once [`hold`](Self::hold) has set them
/// aside they are never shown again, so a line in many pushes costs no more than one in few.
#[derive(Debug)]
pub(super) struct Input {
    unread: Bytes,
    /// The start of the line that `unread` goes on with; holds no line end.
    cut: Bytes,
    /// What of the byte order mark may still come; empty once the text has begun.
    bom: &'static [u8],
}

impl Input {
    pub(super) fn new() -> Self {
        Self {
            unread: Bytes::new(),
            cut: Bytes::new(),
            bom: BOM,
        }
    }

    /// Adds bytes. They are copied only if earlier ones are still unread.
    pub(super) fn push(&mut self, mut bytes: Bytes) {
        while let [expected, later @ ..] = self.bom
            && let Some(first) = bytes.first()
        {
            if first == expected {
                bytes.advance(1);
                self.bom = later;
            } else {
                self.cut = self.take_half_mark();
            }
        }
        if self.unread.is_empty() {
            self.unread = bytes;
        } else {
            append(&mut self.unread, &[&bytes]);
        }
    }

    /// The bytes to search for the end of the line.
    pub(super) fn unread(&self) -> &Bytes {
        &self.unread
    }

    /// The start of the line, from earlier pushes.
    pub(super) fn cut(&self) -> &[u8] {
        &self.cut
    }

    /// Sets all unread bytes aside: they hold no line end. The first piece is kept as it is, for
    /// the line end alone may be missing; later ones are copied behind it.
    pub(super) fn hold(&mut self) {
        let unread = mem::take(&mut self.unread);
        if self.cut.is_empty() {
            self.cut = unread;
        } else {
            append(&mut self.cut, &[&unread]);
        }
    }

    /// The line that ends before the unread byte `end`, which goes as well.
    pub(super) fn take_line(&mut self, end: usize) -> Bytes {
        let mut line = self.unread.split_to(end + 1);
        line.truncate(end);
        if !self.cut.is_empty() {
            append(&mut self.cut, &[&line]);
            line = mem::take(&mut self.cut);
        }
        line
    }

    /// A part of the unread bytes. What stands before it goes as well, and `tail` bytes after it.
    pub(super) fn take(&mut self, part: Range<usize>, tail: usize) -> Bytes {
        let mut bytes = self.unread.split_to(part.end + tail);
        bytes.truncate(part.end);
        bytes.advance(part.start);
        bytes
    }

    /// Forgets the line that ends before the unread byte `end`, and that byte.
    pub(super) fn skip_line(&mut self, end: usize) {
        self.cut = Bytes::new();
        self.skip(end + 1);
    }

    /// Forgets `count` unread bytes.
    pub(super) fn skip(&mut self, count: usize) {
        self.unread.advance(count);
        if self.unread.is_empty() {
            // An empty slice would keep its buffer alive.
            self.unread = Bytes::new();
        }
    }

    /// What was dropped, if it is text that only began like a mark. The text has begun then.
    fn take_half_mark(&mut self) -> Bytes {
        let missing = mem::take(&mut self.bom).len();
        let dropped = BOM.len() - missing;
        match BOM.get(..dropped) {
            Some(half) if missing > 0 => Bytes::from_static(half),
            _ => Bytes::new(),
        }
    }

    /// The line that nothing ends, at the end of the input.
    pub(super) fn take_rest(&mut self) -> Bytes {
        if !self.bom.is_empty() {
            return self.take_half_mark();
        }
        self.hold();
        mem::take(&mut self.cut)
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn held_bytes(&self) -> usize {
        self.unread.len() + self.cut.len()
    }

    /// Forgets all bytes.
    pub(super) fn clear(&mut self) {
        self.unread = Bytes::new();
        self.cut = Bytes::new();
    }
}

/// Lengthens `head`, in place if nothing else refers to its buffer.
pub(super) fn append(head: &mut Bytes, tail: &[&[u8]]) {
    let more = tail.iter().map(|part| part.len()).sum::<usize>();
    if more == 0 {
        return;
    }
    let mut joined = mem::take(head).try_into_mut().unwrap_or_else(|shared| {
        let mut copy = BytesMut::with_capacity(shared.len() + more);
        copy.extend_from_slice(&shared);
        copy
    });
    for part in tail {
        joined.extend_from_slice(part);
    }
    *head = joined.freeze();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_in_many_pushes_is_moved_a_few_times_only() {
        const PUSHES: usize = 10 * 1024;
        let mut input = Input::new();
        let (mut moves, mut place) = (0, input.cut().as_ptr());
        for _ in 0..PUSHES {
            input.push(Bytes::from(vec![b'x'; 1024]));
            assert_eq!(input.unread().len(), 1024, "searched bytes came back");
            input.hold();
            if input.cut().as_ptr() != place {
                (moves, place) = (moves + 1, input.cut().as_ptr());
            }
        }
        assert_eq!(input.take_rest().len(), PUSHES * 1024);
        assert!(moves < 64, "the line was moved {moves} times");
    }

    #[test]
    fn pushes_that_nobody_reads_are_moved_a_few_times_only() {
        const PUSHES: usize = 10 * 1024;
        let mut input = Input::new();
        let (mut moves, mut place) = (0, input.unread().as_ptr());
        for _ in 0..PUSHES {
            input.push(Bytes::from(vec![b'x'; 1024]));
            if input.unread().as_ptr() != place {
                (moves, place) = (moves + 1, input.unread().as_ptr());
            }
        }
        assert_eq!(input.unread().len(), PUSHES * 1024);
        assert!(moves < 64, "the input was moved {moves} times");
    }

    #[test]
    fn a_byte_order_mark_is_dropped_once_and_only_at_the_start() {
        let cases: [(&[&[u8]], &[u8]); 12] = [
            (&[b"\xEF\xBB\xBFa"], b"a"),
            (&[b"\xEF\xBB\xBF\xEF\xBB\xBFa"], b"\xEF\xBB\xBFa"),
            (&[b"a\xEF\xBB\xBF"], b"a\xEF\xBB\xBF"),
            (&[b"\xEF", b"\xBB", b"", b"\xBF", b"a"], b"a"),
            (&[b"\xEF\xBB", b"a"], b"\xEF\xBBa"),
            (&[b"\xEF", b"\xEF\xBB\xBFa"], b"\xEF\xEF\xBB\xBFa"),
            (&[b"\xEFa"], b"\xEFa"),
            (&[b"", b"a"], b"a"),
            (&[b"\xEF\xBB\xBF"], b""),
            (&[b"\xEF\xBB"], b"\xEF\xBB"),
            (&[b"\xEF", b"\xBB"], b"\xEF\xBB"),
            (&[], b""),
        ];
        for (pushes, rest) in cases {
            let mut input = Input::new();
            for push in pushes {
                input.push(Bytes::copy_from_slice(push));
                input.hold();
            }
            assert_eq!(input.take_rest(), rest, "{pushes:?}");
        }
    }
}
