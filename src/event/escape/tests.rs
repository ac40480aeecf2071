use proptest::prelude::*;
use serde_json::Value;

use super::super::samples::{nearly_json, texts, values};
use super::*;

fn once(text: &str) -> String {
    let mut out = Vec::new();
    escape_into(&mut out, text);
    String::from_utf8(out).unwrap()
}

fn twice(text: &str) -> String {
    let mut out = Vec::new();
    DoubleEscape(&mut out).text(text);
    String::from_utf8(out).unwrap()
}

/// What serde_json writes between the quotes.
fn by_serde(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap();
    quoted[1..quoted.len() - 1].to_owned()
}

#[test]
fn each_escape_is_written_as_json_wants_it() {
    for (text, single, double) in [
        ("", "", ""),
        ("plain", "plain", "plain"),
        ("\"", r#"\""#, r#"\\\""#),
        ("\\", r"\\", r"\\\\"),
        ("/", "/", "/"),
        ("\x08\x0c\n\r\t", r"\b\f\n\r\t", r"\\b\\f\\n\\r\\t"),
        (
            "\0\x01\x0b",
            r"\u0000\u0001\u000b",
            r"\\u0000\\u0001\\u000b",
        ),
        (
            "\x10\x1f\x7f",
            "\\u0010\\u001f\x7f",
            "\\\\u0010\\\\u001f\x7f",
        ),
        ("あ\u{2028}😀", "あ\u{2028}😀", "あ\u{2028}😀"),
        ("a\"b\nc", r#"a\"b\nc"#, r#"a\\\"b\\nc"#),
    ] {
        assert_eq!(once(text), single, "{text:?} once");
        assert_eq!(twice(text), double, "{text:?} twice");
    }
}

#[test]
fn what_is_appended_leaves_the_rest_alone() {
    let mut out = b"\"".to_vec();
    escape_into(&mut out, "a\"");
    DoubleEscape(&mut out).text("\"");
    DoubleEscape(&mut out).json("\"");
    assert_eq!(out, br#""a\"\\\"\""#);
}

#[test]
fn clean_bytes_end_at_the_first_special_one_wherever_it_stands() {
    for special in (0..0x20).chain([b'"', b'\\']) {
        for at in 0..200 {
            // 0x21 lies beside the quote, and follows it to catch a borrow between bytes.
            let mut bytes = vec![b'!'; 200];
            bytes[at] = special;
            assert_eq!(clean_len(&bytes), at, "{special:#x} at {at}");
            assert_eq!(clean_len(&bytes[..at]), at, "nothing in {at} bytes");
        }
    }
    for clean in (0x20..=0xff).filter(|b| !b"\"\\".contains(b)) {
        assert_eq!(clean_len(&[clean; 150]), 150, "{clean:#x}");
    }
}

#[test]
fn each_escape_is_read_and_what_is_none_stays() {
    for (inner, text) in [
        (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\x08\x0c\n\r\t"),
        (r"\u0041\u00e9\u00E9\u3042", "Aééあ"),
        (r"a\u0000b", "a\0b"),
        (r"\ud83d\ude00", "😀"),
        (r"\uD83D\uDE00!", "😀!"),
        (r"\udbff\udfff", "\u{10ffff}"),
        // Lone halves: one U+FFFD each.
        (r"\ud83d", "\u{fffd}"),
        (r"\ude00", "\u{fffd}"),
        (r"a\ud83db", "a\u{fffd}b"),
        (r"\ud83d\ud83d", "\u{fffd}\u{fffd}"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
        (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
        (r"\ud83d\n", "\u{fffd}\n"),
        (r"\ud83d\u0041", "\u{fffd}A"),
        (r"\ud83dあ", "\u{fffd}あ"),
        (r"\ufffd", "\u{fffd}"),
        // No escapes, which a JSON check would have refused.
        (r"\", r"\"),
        (r"a\x", r"a\x"),
        (r"\あ", r"\あ"),
        (r"\u", r"\u"),
        (r"\u12", r"\u12"),
        (r"\u+123", r"\u+123"),
        (r"\u123あ", r"\u123あ"),
        (r"\ud83d\u12", "\u{fffd}\\u12"),
    ] {
        assert_eq!(unescape(inner), text, "{inner}");
    }
}

#[test]
fn a_text_without_escapes_is_borrowed_and_one_with_them_allocated_once() {
    for inner in ["", "plain", "あ/\x7f"] {
        assert!(matches!(unescape(inner), Cow::Borrowed(text) if text.as_ptr() == inner.as_ptr()));
    }
    let inner = r"\ud800\ud800\u0041\n".repeat(50);
    let Cow::Owned(text) = unescape(&inner) else {
        panic!("nothing was unescaped")
    };
    assert!(text.capacity() <= inner.len(), "it grew");
}

#[test]
fn json_that_a_value_cannot_hold_is_mended() {
    let long = "9".repeat(400);
    for (raw, mended) in [
        (r#"["\ud800"]"#.to_owned(), r#"["\ufffd"]"#.to_owned()),
        (
            r#"{"\udfff":"a\uD800b"}"#.to_owned(),
            r#"{"\ufffd":"a\ufffdb"}"#.to_owned(),
        ),
        (
            r#""\ud83d\ude00\ude00\n""#.to_owned(),
            r#""\ud83d\ude00\ufffd\n""#.to_owned(),
        ),
        ("1e999".to_owned(), r#""1e999""#.to_owned()),
        (
            r#"[-1e400, 1,{"n":1E+999}]"#.to_owned(),
            r#"["-1e400", 1,{"n":"1E+999"}]"#.to_owned(),
        ),
        (format!("[{long}.5]"), format!("[\"{long}.5\"]")),
        (format!("-{long}"), format!("\"-{long}\"")),
        // Inside a string a number is text, also after an escaped quote.
        (
            r#"["\"1e999", 1e999]"#.to_owned(),
            r#"["\"1e999", "1e999"]"#.to_owned(),
        ),
        (
            r#"["あ\\", "\ud800"]"#.to_owned(),
            r#"["あ\\", "\ufffd"]"#.to_owned(),
        ),
    ] {
        assert_eq!(mend_json(&raw), mended, "{raw}");
        assert!(
            serde_json::from_str::<Value>(&raw).is_err(),
            "{raw} needs no mending"
        );
        assert!(serde_json::from_str::<Value>(&mended).is_ok(), "{mended}");
    }
}

#[test]
fn json_that_a_value_can_hold_is_borrowed() {
    for raw in [
        "null",
        r#"{"a":[1,-2.5,1e300,-0],"b":"\ud83d\ude00\u00e9"}"#,
        r#""1e999""#,
        r#"["\\ud800"]"#,
        "1.7976931348623157e308",
        "123456789012345678901234567890",
        "1e-999",
    ] {
        assert!(serde_json::from_str::<Value>(raw).is_ok(), "{raw}");
        assert!(
            matches!(mend_json(raw), Cow::Borrowed(same) if same == raw),
            "{raw}"
        );
    }
}

proptest! {
    #[test]
    fn an_escaped_text_is_serde_jsons_and_reads_back(text in texts()) {
        let single = once(&text);
        prop_assert_eq!(&single, &by_serde(&text));
        prop_assert_eq!(unescape(&single), text);
    }

    #[test]
    fn a_doubly_escaped_text_is_escaped_twice(text in texts()) {
        let double = twice(&text);
        prop_assert_eq!(&double, &by_serde(&by_serde(&text)));
        prop_assert_eq!(unescape(&double), once(&text));
    }

    #[test]
    fn a_serializer_into_double_escape_writes_json_escaped_once_more(value in values()) {
        let mut out = Vec::new();
        serde_json::to_writer(DoubleEscape(&mut out), &value).unwrap();
        prop_assert_eq!(String::from_utf8(out).unwrap(), by_serde(&value.to_string()));
    }

    #[test]
    fn json_string_escapes_read_as_serde_json_reads_them(units in prop::collection::vec(any::<u16>(), 0..8)) {
        let inner: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
        prop_assert_eq!(unescape(&inner), String::from_utf16_lossy(&units));
        if let Ok(text) = serde_json::from_str::<String>(&format!("\"{inner}\"")) {
            prop_assert_eq!(unescape(&inner), text);
        }
    }

    #[test]
    fn mending_takes_anything_and_changes_only_what_needs_it(raw in prop_oneof![nearly_json(), texts()]) {
        let mended = mend_json(&raw);
        if serde_json::from_str::<Value>(&raw).is_ok() {
            prop_assert!(matches!(mended, Cow::Borrowed(_)));
        } else if serde_json::from_str::<&serde_json::value::RawValue>(&raw).is_ok() {
            prop_assert!(serde_json::from_str::<Value>(&mended).is_ok(), "{}", mended);
        }
    }
}
