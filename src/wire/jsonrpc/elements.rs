//! The elements of an array, one by one.
//!
//! Owns that what is not looked at costs nothing: an element may be two bytes long, and a list of
//! them many times as much as its text. Must not know what an element is.

use std::fmt;
use std::ops::ControlFlow;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Gives the elements of the array `text` to `take` until that has had enough.
///
/// # Errors
/// When it is no array.
pub(crate) fn elements<'a>(
    text: &'a str,
    take: impl FnMut(&'a RawValue) -> ControlFlow<()>,
) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    Elements(take).deserialize(&mut json)?;
    json.end()
}

/// The strings of the array `text`, of which a peer means us to know a few.
///
/// # Errors
/// When it is no array.
pub(crate) fn strings(text: &str) -> serde_json::Result<Vec<String>> {
    const MAX_STRINGS: usize = 100;
    let mut strings = Vec::new();
    elements(text, |element| {
        strings.extend(serde_json::from_str::<String>(element.get()));
        match strings.len() < MAX_STRINGS {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    Ok(strings)
}

struct Elements<F>(F);

impl<'a, F: FnMut(&'a RawValue) -> ControlFlow<()>> DeserializeSeed<'a> for Elements<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'a, F: FnMut(&'a RawValue) -> ControlFlow<()>> Visitor<'a> for Elements<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(element) = seq.next_element()? {
            if (self.0)(element).is_break() {
                break;
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}
