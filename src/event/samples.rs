//! Random texts and values for the property tests of this floor.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Value;

/// Any text; one with something to escape is as likely as one without.
pub(super) fn texts() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec!['"', '\\', '/', '\0', '\x01', '\n', '\r', '\u{7f}']);
    let c = prop_oneof![
        4 => prop::char::range(' ', '~'),
        1 => any::<char>(),
        1 => special,
        1 => prop::char::range('\0', '\x1f'),
    ];
    prop_oneof![
        "[a-z ]{0,150}",
        vec(c, 0..150).prop_map(|chars| chars.into_iter().collect()),
    ]
}

/// Any JSON value that survives a round trip through text.
pub(super) fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 4.0)),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(texts(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A text that is JSON, or nearly so: tokens in any order, or JSON with one character changed.
pub(super) fn nearly_json() -> impl Strategy<Value = String> {
    let tokens = vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\n",
        "\"",
        "\\",
        "null",
        "true",
        "false",
        "0",
        "-1",
        "2.5",
        "1e9",
        "1e999",
        "-",
        ".",
        "E+",
        "\"type\"",
        "\"content\"",
        "\"node\"",
        "\"v\"",
        "\"text\"",
        "\"\\ud800\"",
        "\"\\u00e9\"",
        "\\u",
        "あ",
        "\t",
        "\x01",
    ];
    let soup = vec(prop::sample::select(tokens), 0..12).prop_map(|tokens| tokens.concat());
    let change = prop::sample::select(vec![
        None,
        Some('"'),
        Some('\\'),
        Some('{'),
        Some('}'),
        Some('['),
        Some(','),
        Some('0'),
        Some('\n'),
    ]);
    let changed =
        (values(), any::<prop::sample::Index>(), change).prop_map(|(value, at, change)| {
            let mut text = serde_json::json!({ "type": "x", "content": value }).to_string();
            let (at, old) = text
                .char_indices()
                .nth(at.index(text.chars().count()))
                .unwrap();
            let new = change.map(String::from).unwrap_or_default();
            text.replace_range(at..at + old.len_utf8(), &new);
            text
        });
    prop_oneof![soup, changed]
}
