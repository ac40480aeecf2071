//! The escapes of JSON strings, written and read.
//!
//! Owns the spelling of characters inside quotes; must not know what a text means, nor JSON's
//! grammar beyond what tells a string and a number from the rest.

use std::borrow::Cow;
use std::io;

use memchr::memchr;
use serde_json::Number;

/// The text of a JSON string, given what stands between its quotes.
///
/// An escaped surrogate without its other half becomes U+FFFD. What is no escape stays as it is.
pub(crate) fn unescape(inner: &str) -> Cow<'_, str> {
    unescape_pieces::<false>(inner)
}

/// The text of a JSON string that stands in JSON that itself stands in a JSON string: what
/// [`unescape`] gives when it is applied twice.
pub(crate) fn unescape_twice(inner: &str) -> Cow<'_, str> {
    unescape_pieces::<true>(inner)
}

fn unescape_pieces<const TWICE: bool>(inner: &str) -> Cow<'_, str> {
    if memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    // Counted first: a text of just its length needs no second allocation to be shared.
    let mut len = 0;
    for_each_piece::<TWICE>(inner, |piece| len += piece.len());
    let mut text = String::with_capacity(len);
    for_each_piece::<TWICE>(inner, |piece| text.push_str(piece));
    Cow::Owned(text)
}

/// Gives out the text in pieces: runs that need no change, and single characters.
fn for_each_piece<const TWICE: bool>(mut rest: &str, mut piece: impl FnMut(&str)) {
    let mut buffer = [0; 4];
    while let Some((clean, from_backslash)) = split_at_backslash(rest) {
        piece(clean);
        if let Some((text, after)) = read_usual_escape::<TWICE>(from_backslash) {
            piece(text);
            rest = after;
            continue;
        }
        let mut chars = Unescaped(from_backslash);
        let mut c = chars.next();
        if TWICE
            && c == Some('\\')
            && let Some((escaped, after)) = read_escape(chars.clone())
        {
            (c, chars) = (Some(escaped.into()), after);
        }
        if let Some(c) = c {
            piece(c.encode_utf8(&mut buffer));
        }
        rest = chars.0;
    }
    piece(rest);
}

fn split_at_backslash(text: &str) -> Option<(&str, &str)> {
    text.split_at_checked(memchr(b'\\', text.as_bytes())?)
}

/// One of the escapes that texts are full of, and what follows it: the same as by the general way.
fn read_usual_escape<const TWICE: bool>(text: &str) -> Option<(&'static str, &str)> {
    let (letter, len) = match *text.as_bytes() {
        [b'\\', b'\\', b'\\', letter @ (b'"' | b'\\'), ..] if TWICE => (letter, 4),
        [b'\\', b'\\', letter @ (b'n' | b'r' | b't'), ..] if TWICE => (letter, 3),
        [b'\\', letter, ..] if !TWICE => (letter, 2),
        _ => return None,
    };
    let escaped = match letter {
        b'"' => "\"",
        b'\\' => "\\",
        b'n' => "\n",
        b'r' => "\r",
        b't' => "\t",
        _ => return None,
    };
    Some((escaped, text.get(len..)?))
}

/// The characters of a text, its escapes read. A backslash that begins none stands for itself.
#[derive(Clone)]
struct Unescaped<'a>(&'a str);

impl Iterator for Unescaped<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let mut chars = self.0.chars();
        let mut c = chars.next()?;
        if c == '\\'
            && let Some((escaped, after)) = read_escape(chars.clone())
        {
            (c, chars) = (escaped.into(), after);
        }
        self.0 = chars.as_str();
        Some(c)
    }
}

/// What an escape stands for.
enum Escaped {
    Char(char),
    /// Half of a UTF-16 pair, which no `char` can be.
    LoneSurrogate,
}

impl From<Escaped> for char {
    fn from(escaped: Escaped) -> Self {
        match escaped {
            Escaped::Char(c) => c,
            Escaped::LoneSurrogate => Self::REPLACEMENT_CHARACTER,
        }
    }
}

/// Reads one escape, of which the backslash is gone already; gives what follows it too.
fn read_escape<I: Iterator<Item = char> + Clone>(mut chars: I) -> Option<(Escaped, I)> {
    let c = match chars.next()? {
        same @ ('"' | '\\' | '/') => same,
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return read_unicode_escape(chars),
        _ => return None,
    };
    Some((Escaped::Char(c), chars))
}

fn read_unicode_escape<I: Iterator<Item = char> + Clone>(mut chars: I) -> Option<(Escaped, I)> {
    let unit = read_hex4(&mut chars)?;
    let mut after = chars.clone();
    if let 0xd800..0xdc00 = unit
        && after.next() == Some('\\')
        && after.next() == Some('u')
        && let Some(low @ 0xdc00..0xe000) = read_hex4(&mut after)
        && let Some(c) = char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
    {
        return Some((Escaped::Char(c), after));
    }
    let escaped = char::from_u32(unit).map_or(Escaped::LoneSurrogate, Escaped::Char);
    Some((escaped, chars))
}

fn read_hex4(chars: &mut impl Iterator<Item = char>) -> Option<u32> {
    (0..4).try_fold(0, |unit, _| Some(unit << 4 | chars.next()?.to_digit(16)?))
}

/// A JSON text as a [`serde_json::Value`] can hold it: lone surrogates become `\ufffd`, a number
/// that is out of range becomes a string of its digits.
pub(crate) fn mend_json(raw: &str) -> Cow<'_, str> {
    let mut mended = String::new();
    // What of `raw` stands in `mended`, mended.
    let mut done = 0;
    let mut in_string = false;
    let mut at = 0;
    while let Some(&byte) = raw.as_bytes().get(at) {
        let rest = raw.get(at + 1..).unwrap_or_default();
        let (len, instead) = match byte {
            b'"' => {
                in_string = !in_string;
                (1, None)
            }
            b'\\' if in_string => match read_escape(rest.chars()) {
                Some((Escaped::Char(_), after)) => (1 + rest.len() - after.as_str().len(), None),
                Some((Escaped::LoneSurrogate, _)) => (6, Some(r"\ufffd".to_owned())),
                None => (1, None),
            },
            b'-' | b'0'..=b'9' if !in_string => {
                let number = number_at(raw, at);
                let fits = serde_json::from_str::<Number>(number).is_ok();
                (number.len(), (!fits).then(|| format!("\"{number}\"")))
            }
            _ => (1, None),
        };
        if let Some(instead) = instead {
            mended.push_str(raw.get(done..at).unwrap_or_default());
            mended.push_str(&instead);
            done = at + len;
        }
        at += len;
    }
    if done == 0 {
        return Cow::Borrowed(raw);
    }
    mended.push_str(raw.get(done..).unwrap_or_default());
    Cow::Owned(mended)
}

fn number_at(raw: &str, at: usize) -> &str {
    let rest = raw.get(at..).unwrap_or_default();
    let end = rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
    rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
}

/// Appends a text as it stands inside a JSON string.
pub(crate) fn escape_into(out: &mut Vec<u8>, text: &str) {
    escape::<false>(out, text.as_bytes());
}

/// Writes what stands in a JSON string that itself stands in a JSON string, in one pass.
///
/// [`text`](Self::text) takes a text that has no escapes yet; [`json`](Self::json) takes JSON, whose
/// strings have them once, and so does the [`io::Write`] that a serializer needs.
pub(crate) struct DoubleEscape<'a>(pub(crate) &'a mut Vec<u8>);

impl DoubleEscape<'_> {
    pub(crate) fn text(&mut self, text: &str) {
        escape::<true>(self.0, text.as_bytes());
    }

    pub(crate) fn json(&mut self, json: &str) {
        escape::<false>(self.0, json.as_bytes());
    }
}

impl io::Write for DoubleEscape<'_> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        escape::<false>(self.0, json);
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn escape<const TWICE: bool>(out: &mut Vec<u8>, mut rest: &[u8]) {
    loop {
        let (clean, from_special) = rest.split_at(clean_len(rest));
        out.extend_from_slice(clean);
        let Some((&byte, after)) = from_special.split_first() else {
            return;
        };
        push_escape::<TWICE>(out, byte);
        rest = after;
    }
}

/// The second time round, each backslash and quote of the first escape gets a backslash.
fn push_escape<const TWICE: bool>(out: &mut Vec<u8>, byte: u8) {
    let backslash: &[u8] = if TWICE { br"\\" } else { br"\" };
    out.extend_from_slice(backslash);
    let letter = match byte {
        b'"' if TWICE => return out.extend_from_slice(br#"\""#),
        b'\\' => return out.extend_from_slice(backslash),
        b'"' => b'"',
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let low = byte & 0x0f;
            let digit = if low < 10 {
                b'0' + low
            } else {
                b'a' + low - 10
            };
            return out.extend_from_slice(&[b'u', b'0', b'0', b'0' + (byte >> 4), digit]);
        }
    };
    out.push(letter);
}

/// How many bytes at the start stand in a JSON string as they are: up to the first quote,
/// backslash or control byte.
///
/// Looks only as far as that byte, so that a text with many of them costs no more than its length.
/// Words first, since most events are a token of a few bytes; then blocks.
pub(crate) fn clean_len(bytes: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let (head, tail) = bytes.split_at(bytes.len().min(16));
    let clean = clean_words(head);
    if clean < head.len() || tail.is_empty() {
        return clean;
    }
    // No early exit within a block: the compiler makes vector compares of it.
    let dirty = |block: &[u8; BLOCK]| block.iter().fold(false, |any, &b| any | is_special(b));
    let blocks = tail.as_chunks().0.iter().take_while(|block| !dirty(block));
    let (_, tail) = tail.split_at(BLOCK * blocks.count());
    bytes.len() - tail.len() + clean_words(tail)
}

/// [`clean_len`] by eight bytes at a time.
fn clean_words(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks();
    for (i, word) in words.iter().enumerate() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return 8 * i + special.trailing_zeros() as usize / 8;
        }
    }
    let end = tail.iter().position(|&b| is_special(b));
    8 * words.len() + end.unwrap_or(tail.len())
}

fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

/// Marks the special bytes of a word in their top bits. Only the lowest mark is exact: a
/// subtraction borrows from the bytes above it.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound));
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | is(b'"') | is(b'\\')) & !word & (ONES << 7)
}

#[cfg(test)]
mod tests;
