use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::samples::{nearly_json, texts, values};
use super::*;
use crate::event::TERMINAL_EVENT_TYPES;

/// A decoded message: version, type, content as JSON, node.
type Parts = (u64, String, String, Option<String>);

fn parts(message: &str) -> Parts {
    let envelope = decode_envelope(message);
    assert_eq!(envelope.raw(), message);
    (
        envelope.v,
        envelope.kind.into_owned(),
        envelope.content.raw().into_owned(),
        envelope.node.map(Cow::into_owned),
    )
}

/// The message when a text or a value stands in the wire's quotes.
fn in_quotes(escaped: &[u8]) -> String {
    let quoted = format!("\"{}\"", std::str::from_utf8(escaped).unwrap());
    serde_json::from_str(&quoted).unwrap()
}

fn lies_in(part: &str, whole: &str) -> bool {
    whole.as_bytes().as_ptr_range().contains(&part.as_ptr())
}

#[test]
fn an_envelope_has_its_parts() {
    for (message, v, kind, content, node) in [
        (
            r#"{"v":1,"type":"text","content":"あ","node":"n"}"#,
            1,
            "text",
            r#""あ""#,
            Some("n"),
        ),
        (
            "\n{ \"type\" : \"log\" , \"content\" : [ 1 ] }\t",
            1,
            "log",
            "[ 1 ]",
            None,
        ),
        // Unknown members, absent ones, and any order.
        (
            r#"{"x":{"type":"no"},"node":"n","type":"a","y":[]}"#,
            1,
            "a",
            "null",
            Some("n"),
        ),
        (r#"{"type":"a","content":null}"#, 1, "a", "null", None),
        (r#"{"type":""}"#, 1, "", "null", None),
        // The last of several counts, even if the one before was of more use.
        (r#"{"type":"a","type":"b"}"#, 1, "b", "null", None),
        (r#"{"type":1,"type":"b"}"#, 1, "b", "null", None),
        (r#"{"type":"a","content":1,"content":2}"#, 1, "a", "2", None),
        (
            r#"{"type":"a","content":1,"content":null}"#,
            1,
            "a",
            "null",
            None,
        ),
        (
            r#"{"type":"a","node":"m","node":"n"}"#,
            1,
            "a",
            "null",
            Some("n"),
        ),
        (r#"{"type":"a","node":"m","node":5}"#, 1, "a", "null", None),
        (r#"{"type":"a","v":3,"v":2}"#, 2, "a", "null", None),
        // A node that is no string.
        (r#"{"type":"a","node":null}"#, 1, "a", "null", None),
        (r#"{"type":"a","node":["n"]}"#, 1, "a", "null", None),
        (r#"{"type":"a","node":""}"#, 1, "a", "null", Some("")),
        // Versions.
        (r#"{"type":"a","v":0}"#, 0, "a", "null", None),
        (
            r#"{"type":"a","v":7,"content":"b"}"#,
            7,
            "a",
            r#""b""#,
            None,
        ),
        (
            r#"{"type":"a","v":18446744073709551615}"#,
            u64::MAX,
            "a",
            "null",
            None,
        ),
        (
            r#"{"type":"a","v":99999999999999999999}"#,
            u64::MAX,
            "a",
            "null",
            None,
        ),
        (
            r#"{"type":"a","v":99999999999999999999.5}"#,
            1,
            "a",
            "null",
            None,
        ),
        (r#"{"type":"a","v":-1}"#, 1, "a", "null", None),
        (r#"{"type":"a","v":2.0}"#, 1, "a", "null", None),
        (r#"{"type":"a","v":"2"}"#, 1, "a", "null", None),
        (r#"{"type":"a","v":null}"#, 1, "a", "null", None),
        // Escapes, in keys too, and halves of a pair.
        (
            r#"{"\u0074ype":"\u0061","c\u006fntent":"\n","nod\u0065":"\""}"#,
            1,
            "a",
            r#""\n""#,
            Some("\""),
        ),
        (
            r#"{"type":"a","content":"\ud83d","node":"\udc00"}"#,
            1,
            "a",
            "\"\u{fffd}\"",
            Some("\u{fffd}"),
        ),
        (
            r#"{"type":"\ud800","content":"\ud83d\ude00"}"#,
            1,
            "\u{fffd}",
            r#""😀""#,
            None,
        ),
        (r#"{"\ud800":1,"type":"a"}"#, 1, "a", "null", None),
        // JSON stays as it was written.
        (
            r#"{"type":"a","content": {"b" :"\ud800\/", "c":1e999} }"#,
            1,
            "a",
            r#"{"b" :"\ud800\/", "c":1e999}"#,
            None,
        ),
        (r#"{"type":"a","content":1.0}"#, 1, "a", "1.0", None),
        (r#"{"type":"a","content":false}"#, 1, "a", "false", None),
        (
            r#"{"type":"a","content":"null"}"#,
            1,
            "a",
            r#""null""#,
            None,
        ),
    ] {
        let expected = (
            v,
            kind.to_owned(),
            content.to_owned(),
            node.map(str::to_owned),
        );
        assert_eq!(parts(message), expected, "{message}");
    }
}

#[test]
fn any_other_message_is_a_text() {
    let deep = format!(
        r#"{{"type":"log","content":{}{}}}"#,
        "[".repeat(128),
        "]".repeat(128)
    );
    let abyss = format!(r#"{{"type":"log","content":{}"#, "[".repeat(100_000));
    for message in [
        "",
        " ",
        "50 % done",
        "null",
        "42",
        r#""text""#,
        r#"[{"type":"log"}]"#,
        "{}",
        r#"{"content":"a"}"#,
        r#"{"type":null,"content":"a"}"#,
        r#"{"type":5,"content":"a","node":"n","v":9}"#,
        r#"{"type":"log","type":5}"#,
        r#"{"type":["log"]}"#,
        r#"{"Type":"log"}"#,
        r#"{"type":"log"} x"#,
        r#"{"type":"log"}{"type":"log"}"#,
        r#"{"type":"log""#,
        r#"{"type":"log",}"#,
        r#"{"type":"log","content":01}"#,
        r#"{"type":"log","content":"\x"}"#,
        "{\"type\":\"log\",\"content\":\"\n\"}",
        "\u{feff}{\"type\":\"log\"}",
        "{\"type\":\"log\"}\0",
        &deep,
        &abyss,
    ] {
        let envelope = decode_envelope(message);
        assert_eq!((envelope.v, &*envelope.kind), (1, "text"), "{message}");
        assert_eq!(
            envelope.content,
            ContentRef::Text(Cow::Borrowed(message)),
            "{message}"
        );
        assert_eq!(envelope.node, None, "{message}");
        assert_eq!(envelope.raw(), message);
    }
}

#[test]
fn the_deepest_envelope_has_a_value() {
    let content = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let message = format!(r#"{{"type":"log","content":{content}}}"#);
    let envelope = decode_envelope(&message);
    assert_eq!(envelope.content, ContentRef::Json(&content));
    assert!(envelope.content.value().is_array());
}

#[test]
fn a_content_that_a_value_cannot_hold_is_mended_in_it_and_exact_outside() {
    let raw = r#"{"a":"\ud800","n":[1e999,2]}"#;
    let message = format!(r#"{{"type":"x","content":{raw}}}"#);
    let content = decode_envelope(&message).content;
    assert_eq!(content.raw(), raw);
    let mended = json!({"a": "\u{fffd}", "n": ["1e999", 2]});
    assert_eq!(content.value(), mended);
    assert_eq!(
        (
            content.clone().into_owned().raw(),
            content.into_owned().value()
        ),
        (raw.into(), mended)
    );
}

#[test]
fn terminal_types_keep_their_name_but_end_nothing() {
    for name in TERMINAL_EVENT_TYPES {
        let message = encode_envelope(name, "x", None).unwrap();
        let envelope = decode_envelope(&message);
        assert_eq!(envelope.kind, name);
        for kind in [
            envelope.event_kind(),
            decode_shared(&message.clone().into()).0,
        ] {
            assert_eq!(kind.as_str(), format!("peer:{name}"));
            assert!(!kind.is_terminal(), "{name}");
        }
    }
    let message = encode_envelope("text", "x", None).unwrap();
    assert_eq!(decode_envelope(&message).event_kind(), EventKind::Text);
}

#[test]
fn fields_without_escapes_are_slices_of_the_message() {
    let message = r#"{"v":1,"type":"my_own","content":"あいう","node":"my-agent"}"#;
    let envelope = decode_envelope(message);
    let ContentRef::Text(Cow::Borrowed(text)) = envelope.content else {
        panic!("the text was copied")
    };
    let (Cow::Borrowed(kind), Some(Cow::Borrowed(node))) = (envelope.kind, envelope.node) else {
        panic!("the type or the node was copied")
    };
    for part in [kind, text, node] {
        assert!(lies_in(part, message), "{part}");
    }

    let message = ByteString::from(message);
    let (kind, content, node) = decode_shared(&message);
    for part in [
        kind.as_str(),
        content.as_str().unwrap(),
        node.as_ref().unwrap().as_str(),
    ] {
        assert!(lies_in(part, &message), "{part}");
    }

    // One field's escapes cost the others nothing.
    let message = ByteString::from(r#"{"type":"my\nown","content":[ 1 ],"node":"n"}"#);
    let (kind, content, node) = decode_shared(&message);
    assert_eq!(kind.as_str(), "my\nown");
    assert_eq!(content.raw(), "[ 1 ]");
    for part in [&*content.raw(), node.as_ref().unwrap().as_str()] {
        assert!(lies_in(part, &message), "{part}");
    }

    let message = ByteString::from("just a text");
    let (kind, content, node) = decode_shared(&message);
    assert_eq!((kind, node), (EventKind::Text, None));
    assert_eq!(content.as_str().unwrap().as_ptr(), message.as_ptr());
}

#[test]
fn an_envelope_is_compact_and_in_order() {
    for (kind, content, node, expected) in [
        (
            "text",
            json!("あ"),
            Some("my-agent"),
            r#"{"v":1,"type":"text","content":"あ","node":"my-agent"}"#,
        ),
        (
            "log",
            json!("a/\u{2028}\"\\\n"),
            None,
            "{\"v\":1,\"type\":\"log\",\"content\":\"a/\u{2028}\\\"\\\\\\n\"}",
        ),
        (
            "x\"",
            json!(null),
            Some(""),
            r#"{"v":1,"type":"x\"","content":null,"node":""}"#,
        ),
        (
            "x",
            json!({"b": [1, 2.5], "a": true}),
            None,
            r#"{"v":1,"type":"x","content":{"a":true,"b":[1,2.5]}}"#,
        ),
    ] {
        assert_eq!(encode_envelope(kind, &content, node).unwrap(), expected);
        let mut out = Vec::new();
        write_json_envelope(&mut out, kind, &content, node).unwrap();
        assert_eq!(in_quotes(&out), expected);
    }
    let mut out = b"{\"message\":\"".to_vec();
    write_text_envelope(&mut out, "text", "\"", Some("n"));
    let expected = r#"{"message":"{\"v\":1,\"type\":\"text\",\"content\":\"\\\"\",\"node\":\"n\"}"#;
    assert_eq!(std::str::from_utf8(&out).unwrap(), expected);
}

#[test]
fn a_content_that_is_no_json_is_an_error_and_leaves_no_trace() {
    let content = (vec![1; 100], std::collections::BTreeMap::from([((), 1)]));
    let error = encode_envelope("x", &content, None).unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
    let mut out = b"before".to_vec();
    let error = write_json_envelope(&mut out, "x", &content, Some("n")).unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
    assert_eq!(out, b"before");
}

#[test]
fn a_forwarded_content_is_as_it_came() {
    for content in [
        "null",
        r#""a\nb""#,
        "[1e999,\n \"\\ud800\"]",
        r#"{"a":"\\\""}"#,
    ] {
        let message = format!(r#"{{"v":1,"type":"x","content":{content},"node":"n"}}"#);
        let (kind, content, node) = decode_shared(&ByteString::from(&*message));
        let mut out = Vec::new();
        write_content_envelope(
            &mut out,
            kind.as_str(),
            &content,
            node.as_ref().map(Node::as_str),
        );
        assert_eq!(in_quotes(&out), message);
    }
}

proptest! {
    #[test]
    fn an_encoded_text_decodes_to_itself(kind in texts(), text in texts(), node in proptest::option::of(texts())) {
        let message = encode_envelope(&kind, &text, node.as_deref()).unwrap();
        let envelope = decode_envelope(&message);
        prop_assert_eq!(envelope.v, ENVELOPE_VERSION);
        prop_assert_eq!(&envelope.kind, &kind);
        prop_assert_eq!(envelope.content.as_str(), Some(&*text));
        prop_assert_eq!(envelope.node.as_deref(), node.as_deref());

        let mut out = Vec::new();
        write_text_envelope(&mut out, &kind, &text, node.as_deref());
        prop_assert_eq!(in_quotes(&out), message);
    }

    #[test]
    fn an_encoded_value_decodes_to_itself(kind in texts(), value in values(), node in proptest::option::of(texts())) {
        let message = encode_envelope(&kind, &value, node.as_deref()).unwrap();
        let envelope = decode_envelope(&message);
        prop_assert_eq!(&envelope.kind, &kind);
        prop_assert_eq!(envelope.content.value(), value.clone());
        prop_assert_eq!(envelope.content.raw(), value.to_string());
        prop_assert_eq!(envelope.node.as_deref(), node.as_deref());

        let mut out = Vec::new();
        write_json_envelope(&mut out, &kind, &value, node.as_deref()).unwrap();
        prop_assert_eq!(in_quotes(&out), &*message);
        out.clear();
        write_content_envelope(&mut out, &kind, &envelope.content.into_owned(), node.as_deref());
        prop_assert_eq!(in_quotes(&out), message);
    }

    #[test]
    fn an_object_decodes_as_serde_json_reads_it(
        known in proptest::collection::btree_map(
            proptest::sample::select(vec!["v", "type", "content", "node"]), values(), 0..4),
        kind in proptest::option::of(texts()),
        unknown in proptest::collection::btree_map(texts(), values(), 0..3),
        pretty in any::<bool>(),
    ) {
        let mut object = serde_json::Map::new();
        object.extend(unknown);
        object.extend(known.into_iter().map(|(key, value)| (key.to_owned(), value)));
        if let Some(kind) = kind {
            object.insert("type".to_owned(), kind.into());
        }
        let message = if pretty {
            serde_json::to_string_pretty(&object).unwrap()
        } else {
            serde_json::to_string(&object).unwrap()
        };
        let envelope = decode_envelope(&message);
        if let Some(kind) = object.get("type").and_then(Value::as_str) {
            prop_assert_eq!(envelope.kind, kind);
            prop_assert_eq!(envelope.v, object.get("v").and_then(Value::as_u64).unwrap_or(1));
            prop_assert_eq!(envelope.content.value(), object.get("content").cloned().unwrap_or_default());
            prop_assert_eq!(envelope.node.as_deref(), object.get("node").and_then(Value::as_str));
        } else {
            prop_assert_eq!(envelope.kind, "text");
            prop_assert_eq!(envelope.content.as_str(), Some(&*message));
        }
    }

    #[test]
    fn decoding_takes_any_text(message in prop_oneof![nearly_json(), texts(), any::<String>()]) {
        let shared = decode_shared(&ByteString::from(&*message));
        let envelope = decode_envelope(&message);
        prop_assert_eq!(envelope.event_kind(), shared.0);
        prop_assert_eq!(envelope.content.value(), shared.1.value());
        prop_assert_eq!(envelope.content.raw(), shared.1.raw());
        prop_assert_eq!(envelope.content.into_owned(), shared.1);
        prop_assert_eq!(envelope.node.as_deref(), shared.2.as_ref().map(Node::as_str));
    }

    #[test]
    fn decoding_takes_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let message = String::from_utf8_lossy(&bytes);
        let _ = decode_envelope(&message).content.value();
        let message = ByteString::from(format!(r#"{{"type":"x","content":"{message}"}}"#));
        let (_, content, _) = decode_shared(&message);
        let _ = content.value();
    }
}
