//! The escapes of JSON strings, written and read.
//!
//! Owns the spelling of characters inside quotes; must not know what a text means, nor JSON's
//! grammar beyond what tells a string and a number from the rest.

use std::borrow::Cow;
use std::io;

use serde_json::Number;

/// The text of a JSON string, given what stands between its quotes.
///
/// An escaped surrogate without its other half becomes U+FFFD. What is no escape stays as it is.
pub(crate) fn unescape(inner: &str) -> Cow<'_, str> {
    let Some((clean, mut rest)) = split_at_backslash(inner) else {
        return Cow::Borrowed(inner);
    };
    // No escape is shorter than what it stands for, so this is the only allocation.
    let mut text = String::with_capacity(inner.len());
    text.push_str(clean);
    loop {
        let (escaped, after) = match read_escape(rest) {
            Some((Escaped::Char(c), after)) => (c, after),
            Some((Escaped::LoneSurrogate, after)) => (char::REPLACEMENT_CHARACTER, after),
            None => ('\\', rest),
        };
        text.push(escaped);
        let Some((clean, next)) = split_at_backslash(after) else {
            text.push_str(after);
            return Cow::Owned(text);
        };
        text.push_str(clean);
        rest = next;
    }
}

fn split_at_backslash(text: &str) -> Option<(&str, &str)> {
    let at = memchr::memchr(b'\\', text.as_bytes())?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// What an escape stands for.
enum Escaped {
    Char(char),
    /// Half of a UTF-16 pair, which no `char` can be.
    LoneSurrogate,
}

/// Reads one escape, of which the backslash is gone already; gives what follows it too.
fn read_escape(rest: &str) -> Option<(Escaped, &str)> {
    let mut chars = rest.chars();
    let c = match chars.next()? {
        same @ ('"' | '\\' | '/') => same,
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return read_unicode_escape(chars.as_str()),
        _ => return None,
    };
    Some((Escaped::Char(c), chars.as_str()))
}

fn read_unicode_escape(rest: &str) -> Option<(Escaped, &str)> {
    let (unit, after) = read_hex4(rest)?;
    if let 0xd800..0xdc00 = unit
        && let Some((low @ 0xdc00..0xe000, after)) = after.strip_prefix("\\u").and_then(read_hex4)
        && let Some(c) = char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
    {
        return Some((Escaped::Char(c), after));
    }
    let escaped = char::from_u32(unit).map_or(Escaped::LoneSurrogate, Escaped::Char);
    Some((escaped, after))
}

/// Four hex digits. (`from_str_radix` alone would take a sign.)
fn read_hex4(text: &str) -> Option<(u32, &str)> {
    let (digits, after) = text.split_at_checked(4)?;
    let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    let unit = u32::from_str_radix(digits, 16).ok()?;
    hex.then_some((unit, after))
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
            b'\\' if in_string => match read_escape(rest) {
                Some((Escaped::Char(_), after)) => (1 + rest.len() - after.len(), None),
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
pub(super) fn clean_len(bytes: &[u8]) -> usize {
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
