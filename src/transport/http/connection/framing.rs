//! Finds a request head that says its body's length in two ways.
//!
//! hyper obeys `Transfer-Encoding`, hides the `Content-Length` and closes the connection after the
//! answer, as RFC 9112 ("Message Body Length") asks at the least. Such a request is what somebody
//! sends to have two servers read it differently, so it is refused; only the raw head still shows
//! it.
//!
//! Knows the shape of a head; must not know what it asks for.

use memchr::memchr;

/// Looks at one head as it comes, in any split. Keeps no more of it than the start of a line.
#[derive(Debug, Default)]
pub(crate) struct HeadScan {
    line: [u8; MAX_NAME_BYTES],
    line_len: usize,
    has_lines: bool,
    is_over: bool,
    has_length: bool,
    has_coding: bool,
}

const LENGTH: &[u8] = b"content-length:";
const CODING: &[u8] = b"transfer-encoding:";
const MAX_NAME_BYTES: usize = CODING.len();

impl HeadScan {
    /// Takes the next bytes; those after the head's end are not looked at.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while !self.is_over && !bytes.is_empty() {
            let end = memchr(b'\n', bytes);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            let room = self.line.get_mut(self.line_len..).unwrap_or_default();
            let kept = room.len().min(line.len());
            for (to, from) in room.iter_mut().zip(line) {
                *to = *from;
            }
            self.line_len += kept;
            if end.is_some() {
                self.end_line();
            }
            bytes = rest.get(1..).unwrap_or_default();
        }
    }

    pub(crate) fn is_ambiguous(&self) -> bool {
        self.has_length && self.has_coding
    }

    fn end_line(&mut self) {
        let line = self.line.get(..self.line_len).unwrap_or_default();
        let starts_with = |name: &[u8]| {
            line.get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        if matches!(line, b"" | b"\r") {
            // Empty lines before the first one do not count (RFC 9112, "Message Parsing").
            self.is_over = self.has_lines;
        } else {
            self.has_lines = true;
            self.has_length |= starts_with(LENGTH);
            self.has_coding |= starts_with(CODING);
        }
        self.line_len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_with_both_is_found_in_any_split() {
        for (head, ambiguous) in [
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                true,
            ),
            (
                "POST / HTTP/1.1\r\ntransfer-encoding:x\r\nCONTENT-LENGTH:1\r\n\r\n",
                true,
            ),
            (
                "\r\n\nPOST / HTTP/1.1\nContent-Length: 1\nTransfer-Encoding: a\n\n",
                true,
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nTransfer-Encoding: a\r\n",
                false,
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
                false,
            ),
            (
                "POST / HTTP/1.1\r\nA: Content-Length: 1\r\nTransfer-Encoding: a\r\n\r\n",
                false,
            ),
            (
                "POST / HTTP/1.1\r\nX-Content-Length: 1\r\nTransfer-Encoding: a\r\n\r\n",
                false,
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encodings: a\r\n\r\n",
                false,
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: a",
                false,
            ),
        ] {
            for size in 1..=head.len() {
                let mut scan = HeadScan::default();
                for piece in head.as_bytes().chunks(size) {
                    scan.feed(piece);
                }
                assert_eq!(
                    scan.is_ambiguous(),
                    ambiguous,
                    "{head:?} in pieces of {size}"
                );
            }
        }
    }
}
