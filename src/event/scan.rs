//! JSON taken apart into raw text, without decoding it.
//!
//! Owns JSON's grammar and the bound on nesting; must not know which members mean something. Apart
//! from serde_json because that refuses a lone surrogate escape and skips the bound in raw values,
//! because it reads no JSON inside of a JSON string, and because this allocates nothing.

use super::escape::clean_len;

/// How deep JSON may nest, as in [`Limits::max_json_depth`](crate::Limits::max_json_depth) by
/// default. A bit of a `u128` for each level.
const MAX_DEPTH: u32 = u128::BITS;

/// Calls `member` with each key (the inside of its quotes) and value of the object that `text` is.
///
/// `None` if `text` is anything else, which may show after some members did.
pub(super) fn members<'a>(text: &'a str, mut member: impl FnMut(&'a str, &'a str)) -> Option<()> {
    let mut scan = Scanner::<false>::new(text, MAX_DEPTH as usize);
    scan.object(|scan, key| {
        member(key, scan.value()?);
        Some(())
    })?;
    scan.end()
}

/// A place in a JSON text, which moves on by what is read.
///
/// What is `QUOTED` stands in a string of other JSON, where each quote and backslash has a backslash
/// before it. Of the other spellings that the string allows, some are refused although they are
/// right: nobody writes them.
#[derive(Debug, Clone)]
pub(crate) struct Scanner<'a, const QUOTED: bool> {
    text: &'a str,
    at: usize,
    /// How many arrays and objects are around the place, and how many may be.
    depth: u32,
    max_depth: u32,
}

impl<'a, const QUOTED: bool> Scanner<'a, QUOTED> {
    /// The start of a text, in which JSON may nest `max_depth` deep, or less than that.
    pub(crate) fn new(text: &'a str, max_depth: usize) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
            max_depth: u32::try_from(max_depth).map_or(MAX_DEPTH, |max| max.min(MAX_DEPTH)),
        }
    }

    /// Reads an object: calls `member` with each key (the inside of its quotes), to read the value.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a str) -> Option<()>,
    ) -> Option<()> {
        self.space();
        self.expect(b'{')?;
        self.depth += 1;
        if self.depth > self.max_depth {
            return None;
        }
        if !self.closes(b'}') {
            loop {
                let key = self.key()?;
                member(self, key)?;
                self.space();
                match self.next()? {
                    b',' => {}
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        self.depth -= 1;
        Some(())
    }

    /// Reads what may follow the outermost value.
    pub(crate) fn end(&mut self) -> Option<()> {
        self.space();
        self.peek().is_none().then_some(())
    }

    /// Reads a value of any kind.
    pub(crate) fn value(&mut self) -> Option<&'a str> {
        self.space();
        let (start, outer) = (self.at, self.depth);
        // The innermost array or object is the lowest bit; 1 is an object.
        let mut objects: u128 = 0;
        loop {
            match self.token()? {
                b'"' => _ = self.string()?,
                b'{' => {
                    objects = self.enter(objects, true)?;
                    if !self.closes(b'}') {
                        self.key()?;
                        self.space();
                        continue;
                    }
                    objects = self.leave(objects);
                }
                b'[' => {
                    objects = self.enter(objects, false)?;
                    if !self.closes(b']') {
                        continue;
                    }
                    objects = self.leave(objects);
                }
                b't' => self.word("rue")?,
                b'f' => self.word("alse")?,
                b'n' => self.word("ull")?,
                first => self.number(first)?,
            }
            // A value has ended, and with it maybe those around it.
            loop {
                if self.depth == outer {
                    return self.text.get(start..self.at);
                }
                self.space();
                match self.next()? {
                    b',' => break,
                    b'}' if objects & 1 == 1 => objects = self.leave(objects),
                    b']' if objects & 1 == 0 => objects = self.leave(objects),
                    _ => return None,
                }
            }
            if objects & 1 == 1 {
                self.key()?;
            }
            self.space();
        }
    }

    fn enter(&mut self, objects: u128, object: bool) -> Option<u128> {
        if self.depth == self.max_depth {
            return None;
        }
        self.depth += 1;
        Some(objects << 1 | u128::from(object))
    }

    fn leave(&mut self, objects: u128) -> u128 {
        self.depth -= 1;
        objects >> 1
    }

    /// A key and its colon.
    fn key(&mut self) -> Option<&'a str> {
        self.space();
        if self.token()? != b'"' {
            return None;
        }
        let key = self.string()?;
        self.space();
        self.expect(b':')?;
        Some(key)
    }

    /// The inside of a string whose first quote was read; reads the last one.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        let start = self.at;
        loop {
            self.at += clean_len(self.text.as_bytes().get(self.at..)?);
            let end = self.at;
            match self.next()? {
                b'"' if !QUOTED => return self.text.get(start..end),
                b'\\' if QUOTED => match self.next()? {
                    b'"' => return self.text.get(start..end),
                    b'\\' => self.escape()?,
                    b'/' => {}
                    // Below that, it could be a quote or a backslash.
                    b'u' => _ = self.hex4().filter(|unit| *unit >= 0x80)?,
                    _ => return None,
                },
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    /// An escape whose backslash was read.
    fn escape(&mut self) -> Option<()> {
        match self.next()? {
            b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => self.hex4().map(|_| ()),
            b'\\' if QUOTED => matches!(self.next()?, b'"' | b'\\' | b'/').then_some(()),
            b'"' | b'\\' if !QUOTED => Some(()),
            _ => None,
        }
    }

    fn hex4(&mut self) -> Option<u32> {
        (0..4).try_fold(0, |unit, _| {
            Some(unit << 4 | char::from(self.next()?).to_digit(16)?)
        })
    }

    /// The byte that begins a value or a key.
    fn token(&mut self) -> Option<u8> {
        match self.next()? {
            b'\\' if QUOTED => self.next().filter(|byte| *byte == b'"'),
            b'"' if QUOTED => None,
            byte => Some(byte),
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
        loop {
            match self.peek() {
                Some(b' ') => self.at += 1,
                Some(b'\t' | b'\n' | b'\r') if !QUOTED => self.at += 1,
                Some(b'\\') if QUOTED => {
                    let Some(b't' | b'n' | b'r') = self.text.as_bytes().get(self.at + 1) else {
                        return;
                    };
                    self.at += 2;
                }
                _ => return,
            }
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

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

impl<'a> Scanner<'a, false> {
    /// Reads a string; gives the inside of its quotes.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        self.space();
        self.expect(b'"')?;
        self.string()
    }

    /// Whether a string comes next whose inside begins as an object does; `None` if it comes to
    /// nothing that can be told so easily.
    pub(crate) fn quotes_object(&self) -> Option<bool> {
        let mut ahead = self.clone();
        ahead.space();
        ahead.expect(b'"')?;
        let mut inside = ahead.inside();
        inside.space();
        match inside.peek()? {
            b'\\' => None,
            byte => Some(byte == b'{'),
        }
    }

    /// Reads a string whose inside is JSON again, by `read`; gives that inside too.
    pub(crate) fn quoted<R>(
        &mut self,
        read: impl FnOnce(&mut Scanner<'a, true>) -> Option<R>,
    ) -> Option<(&'a str, R)> {
        self.space();
        self.expect(b'"')?;
        let mut inside = self.inside();
        let read = read(&mut inside)?;
        inside.space();
        let inner = self.text.get(self.at..inside.at)?;
        self.at = inside.at;
        self.expect(b'"')?;
        Some((inner, read))
    }

    fn inside(&self) -> Scanner<'a, true> {
        Scanner {
            text: self.text,
            at: self.at,
            depth: 0,
            max_depth: MAX_DEPTH,
        }
    }
}

#[cfg(test)]
mod tests;
