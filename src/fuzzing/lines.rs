//! Newline framing.

use bytes::Bytes;

use super::{bound, splits};
use crate::error::Error;
use crate::session::progress::Framing;
use crate::wire::lines::LineDecoder;

/// Any split of a stream gives the same lines, those a look at the whole would find; a line over
/// the bound is told once and held by nobody; what was framed as a line is one.
///
/// The first byte picks the bound, the second one the split.
pub fn lines(input: &[u8]) {
    let [pick, seed, body @ ..] = input else {
        return;
    };
    let max_bytes = bound(*pick);
    if MARK.starts_with(body) && body.len() > max_bytes {
        // What may be the start of a mark counts only when it turns out to be none.
        return;
    }
    let expected = expected(body, max_bytes);
    for pieces in splits(body, *seed) {
        assert_eq!(read(&pieces, max_bytes), expected, "{pieces:?}");
    }
    round_trip(body, *seed);
}

/// A line, or one that was over the bound.
type Line = Result<Bytes, &'static str>;

const MARK: &[u8] = b"\xEF\xBB\xBF";

const OVER: Line = Err("max_server_message_bytes");

fn read(pieces: &[Bytes], max_bytes: usize) -> Vec<Line> {
    let mut decoder = LineDecoder::new("max_server_message_bytes", max_bytes);
    let mut lines = Vec::new();
    for piece in pieces {
        decoder.push(piece.clone());
        loop {
            match decoder.next_line() {
                Ok(Some(line)) => lines.push(Ok(line)),
                Ok(None) => break,
                Err(Error::Limit { what, .. }) => lines.push(Err(what)),
                Err(other) => panic!("{other:?}"),
            }
        }
        // The CR of a line end may be there already.
        let held = decoder.held_bytes();
        assert!(held <= max_bytes + 1, "{held} held, {max_bytes} allowed");
    }
    lines.extend(decoder.finish().map(Ok));
    lines
}

fn expected(body: &[u8], max_bytes: usize) -> Vec<Line> {
    let body = body.strip_prefix(MARK).unwrap_or(body);
    let mut lines = Vec::new();
    for line in body.split(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > max_bytes {
            lines.push(OVER);
        } else if !line.trim_ascii().is_empty() {
            lines.push(Ok(Bytes::copy_from_slice(line)));
        }
    }
    lines
}

fn round_trip(body: &[u8], seed: u8) {
    let messages: Vec<Line> = body
        .split(|b| matches!(b, b'\n' | b'\r'))
        .filter(|line| !line.trim_ascii().is_empty())
        .map(|line| Ok(Bytes::copy_from_slice(line)))
        .collect();
    // A mark at the start of a stream is none of its text.
    let mut stream = b"\n".to_vec();
    for message in messages.iter().flatten() {
        Framing::Line.write(&mut stream, message);
    }
    for pieces in splits(&stream, seed) {
        assert_eq!(read(&pieces, body.len()), messages);
    }
}
