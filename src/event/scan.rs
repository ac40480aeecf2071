//! A JSON object taken apart into the raw text of its members, without decoding them.
//!
//! Owns JSON's grammar and the bound on nesting; must not know which members mean something. Apart
//! from serde_json because that refuses a lone surrogate escape and skips the bound in raw values,
//! and because this allocates nothing.

use super::escape::clean_len;

/// How deep JSON may nest, as in [`Limits::max_json_depth`](crate::Limits::max_json_depth) by
/// default. A bit of a `u128` for each level.
const MAX_DEPTH: u32 = u128::BITS;

/// Calls `member` with each key (the inside of its quotes) and value of the object that `text` is.
///
/// `None` if `text` is anything else, which may show after some members did.
pub(super) fn members<'a>(text: &'a str, mut member: impl FnMut(&'a str, &'a str)) -> Option<()> {
    let mut scan = Scanner { text, at: 0 };
    scan.space();
    scan.expect(b'{')?;
    if !scan.closes(b'}') {
        loop {
            let key = scan.key()?;
            member(key, scan.value()?);
            scan.space();
            match scan.next()? {
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
    }
    scan.space();
    scan.peek().is_none().then_some(())
}

/// The arrays and objects around a place.
struct Nest {
    depth: u32,
    /// The innermost one is the lowest bit; 1 is an object.
    objects: u128,
}

impl Nest {
    fn push(&mut self, object: bool) -> Option<()> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        Some(())
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// A value inside the outermost object.
    fn value(&mut self) -> Option<&'a str> {
        const OUTER: u32 = 1;
        let mut nest = Nest {
            depth: OUTER,
            objects: 0,
        };
        self.space();
        let start = self.at;
        loop {
            match self.next()? {
                b'"' => _ = self.string()?,
                b'{' => {
                    nest.push(true)?;
                    if !self.closes(b'}') {
                        self.key()?;
                        self.space();
                        continue;
                    }
                    nest.pop();
                }
                b'[' => {
                    nest.push(false)?;
                    if !self.closes(b']') {
                        continue;
                    }
                    nest.pop();
                }
                b't' => self.word("rue")?,
                b'f' => self.word("alse")?,
                b'n' => self.word("ull")?,
                first => self.number(first)?,
            }
            // A value has ended, and with it maybe those around it.
            loop {
                if nest.depth == OUTER {
                    return self.text.get(start..self.at);
                }
                self.space();
                match self.next()? {
                    b',' => break,
                    b'}' if nest.in_object() => nest.pop(),
                    b']' if !nest.in_object() => nest.pop(),
                    _ => return None,
                }
            }
            if nest.in_object() {
                self.key()?;
            }
            self.space();
        }
    }

    /// A key and its colon.
    fn key(&mut self) -> Option<&'a str> {
        self.space();
        self.expect(b'"')?;
        let key = self.string()?;
        self.space();
        self.expect(b':')?;
        Some(key)
    }

    /// The inside of a string whose first quote was read; reads the last one.
    fn string(&mut self) -> Option<&'a str> {
        let start = self.at;
        loop {
            self.at += clean_len(self.text.as_bytes().get(self.at..)?);
            match self.next()? {
                b'"' => return self.text.get(start..self.at - 1),
                b'\\' => match self.next()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        for _ in 0..4 {
                            self.next().filter(u8::is_ascii_hexdigit)?;
                        }
                    }
                    _ => return None,
                },
                _ => return None,
            }
        }
    }

    /// A number whose first character was read.
    fn number(&mut self, first: u8) -> Option<()> {
        match if first == b'-' { self.next()? } else { first } {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.eat(b'.') {
            self.next().filter(u8::is_ascii_digit)?;
            self.digits();
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.next().filter(u8::is_ascii_digit)?;
            self.digits();
        }
        Some(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn word(&mut self, rest: &str) -> Option<()> {
        let word = self.text.as_bytes().get(self.at..)?.get(..rest.len())?;
        self.at += rest.len();
        (word == rest.as_bytes()).then_some(())
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Whether an array or object that was just opened is empty.
    fn closes(&mut self, bracket: u8) -> bool {
        self.space();
        self.eat(bracket)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.eat(byte).then_some(())
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

#[cfg(test)]
mod tests;
