//! What becomes of a peer's text before people see it.

use std::borrow::Cow;

use agent_hub_kit::Content;
use serde_json::Value;

/// A text that does nothing to a terminal: of the control characters only newline and tab stay,
/// the others become pictures of themselves. A carriage return before a newline is left out.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if harmless(c) => shown.push(c),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\x7f' => shown.push('\u{2421}'),
            c @ '\0'..'\x20' => shown.extend(char::from_u32(0x2400 + u32::from(c))),
            _ => shown.push(char::REPLACEMENT_CHARACTER),
        }
    }
    Cow::Owned(shown)
}

/// JSON without the control characters that it may hold as they are, which stand inside strings.
pub(crate) fn escaped(json: String) -> String {
    if !json.chars().any(char::is_control) {
        return json;
    }
    let mut line = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        match c.is_control() {
            true => line.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => line.push(c),
        }
    }
    line
}

/// A content in words: a text as it is, all else as JSON.
pub(crate) fn words(content: &Content) -> Cow<'_, str> {
    content
        .as_str()
        .map_or_else(|| content.raw(), Cow::Borrowed)
}

/// The beginning of a long text, and how long it is.
pub(crate) fn brief(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_BRIEF_CHARS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => {
            let start = text.get(..end).unwrap_or_default();
            Cow::Owned(format!("{start}… ({} characters)", text.chars().count()))
        }
    }
}

/// Cuts the long texts in a value, which are most often the bytes of an image.
pub(crate) fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MAX_SHOWN_BYTES => *text = brief(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        _ => {}
    }
}

/// About a line.
const MAX_BRIEF_CHARS: usize = 60;

/// About a screen. Longer texts inside a result are cut where people read it.
const MAX_SHOWN_BYTES: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        for (text, shown) in [
            ("a\tb\nc é👋", "a\tb\nc é👋"),
            ("\x1b]0;title\x07", "␛]0;title␇"),
            ("\0\x1f\x7f", "␀␟␡"),
            ("\u{9b}2J\u{85}", "\u{fffd}2J\u{fffd}"),
            ("a\r\nb\rc\r", "a\nb␍c␍"),
        ] {
            assert_eq!(visible(text), shown, "{text:?}");
        }
    }

    #[test]
    fn json_lines_hold_no_control_character() {
        for (json, line) in [
            ("{\"a\":\"é👋\\n\"}", "{\"a\":\"é👋\\n\"}"),
            ("\"\u{9b}2J\x7f\"", "\"\\u009b2J\\u007f\""),
        ] {
            assert_eq!(escaped(json.to_owned()), line);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "é".repeat(MAX_BRIEF_CHARS + 1);
        let cut = format!("{}… (61 characters)", "é".repeat(MAX_BRIEF_CHARS));
        assert_eq!(brief(&long), cut);
        let mut value = serde_json::json!([{ "data": "é".repeat(MAX_SHOWN_BYTES) }, "short", 1]);
        shorten(&mut value);
        let cut = format!("{}… (2000 characters)", "é".repeat(MAX_BRIEF_CHARS));
        assert_eq!(value, serde_json::json!([{ "data": cut }, "short", 1]));
    }
}
