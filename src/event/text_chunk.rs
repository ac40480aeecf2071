//! What a piece of text may be.

use std::borrow::Cow;

/// A piece of text: `char`, `&str`, `String` or `Cow<str>`. Sealed.
pub trait TextChunk: sealed::Sealed {
    /// Gives the text to `f`.
    #[doc(hidden)]
    fn with_str<R>(&self, f: impl FnOnce(&str) -> R) -> R;
}

impl TextChunk for char {
    fn with_str<R>(&self, f: impl FnOnce(&str) -> R) -> R {
        f(self.encode_utf8(&mut [0; 4]))
    }
}

impl TextChunk for &str {
    fn with_str<R>(&self, f: impl FnOnce(&str) -> R) -> R {
        f(self)
    }
}

impl TextChunk for String {
    fn with_str<R>(&self, f: impl FnOnce(&str) -> R) -> R {
        f(self)
    }
}

impl TextChunk for &String {
    fn with_str<R>(&self, f: impl FnOnce(&str) -> R) -> R {
        f(self)
    }
}

impl TextChunk for Cow<'_, str> {
    fn with_str<R>(&self, f: impl FnOnce(&str) -> R) -> R {
        f(self)
    }
}

mod sealed {
    #[expect(
        unnameable_types,
        reason = "what nobody can name, nobody can implement"
    )]
    pub trait Sealed {}
    impl Sealed for char {}
    impl Sealed for &str {}
    impl Sealed for String {}
    impl Sealed for &String {}
    impl Sealed for std::borrow::Cow<'_, str> {}
}
