use serde_json::json;

use super::*;

fn json_of(raw: &str) -> Content {
    Content::json(ByteString::from(raw))
}

#[test]
fn json_is_taken_as_what_it_is() {
    let text = |text: &'static str| Content::text(text);
    let json = |raw: &'static str| Content(Repr::Json(ByteString::from_static(raw)));
    for (raw, content) in [
        ("null", Content::NULL),
        (" \t\r\nnull\n", Content::NULL),
        (r#""null""#, text("null")),
        (r#""""#, text("")),
        (r#"  "あ" "#, text("あ")),
        (r#"" a ""#, text(" a ")),
        (r#""a\n\u0022""#, text("a\n\"")),
        (r#""\ud83d\ude00\ud83d""#, text("😀\u{fffd}")),
        ("\n{ \"a\" : 1 }\n", json("{ \"a\" : 1 }")),
        ("[]", json("[]")),
        ("1.0", json("1.0")),
        ("false", json("false")),
    ] {
        assert_eq!(json_of(raw), content, "{raw}");
        assert_eq!(json_of(raw).is_null(), content == Content::NULL, "{raw}");
    }
}

#[test]
fn a_content_shares_the_buffer_it_came_in_until_it_is_owned() {
    for raw in [r#" "abc" "#, " [1,2] "] {
        let buffer = ByteString::from(raw);
        let content = Content::json(buffer.clone());
        let at = |content: &Content| match &content.0 {
            Repr::Null => panic!("{raw} became null"),
            Repr::Text(bytes) | Repr::Json(bytes) => bytes.as_ptr(),
        };
        assert!(
            buffer.as_bytes().as_ptr_range().contains(&at(&content)),
            "{raw}"
        );
        let owned = content.clone().into_owned();
        assert_eq!(owned, content, "{raw}");
        assert!(
            !buffer.as_bytes().as_ptr_range().contains(&at(&owned)),
            "{raw}"
        );
    }
    assert_eq!(Content::NULL.into_owned(), Content::NULL);
}

#[test]
fn raw_json_is_exactly_what_was_sent() {
    let digits = "9".repeat(400);
    for raw in [
        &*digits,
        "1e999",
        "1.00",
        "-0",
        r#"{"b":"\ud800\/é\u00e9",  "a":1, "a":2}"#,
    ] {
        assert_eq!(json_of(raw).raw(), raw);
    }
    assert_eq!(Content::NULL.raw(), "null");
    // A text has one spelling, that of this crate.
    assert_eq!(
        json_of(r#""\u0041\/\ud800\u0001""#).raw(),
        "\"A/\u{fffd}\\u0001\""
    );
}

#[test]
fn a_value_is_mended_where_it_has_to_be() {
    let digits = "9".repeat(400);
    for (raw, value) in [
        ("null", Value::Null),
        (r#""\ud800""#, json!("\u{fffd}")),
        (
            r#"["\ud800\udc00","\ud800x","\udc00"]"#,
            json!(["\u{10000}", "\u{fffd}x", "\u{fffd}"]),
        ),
        (
            r#"{"\udfff":{"a":"\uD800\ud800"}}"#,
            json!({"\u{fffd}": {"a": "\u{fffd}\u{fffd}"}}),
        ),
        ("1e999", json!("1e999")),
        ("[-1e400,1,\"\\udead\"]", json!(["-1e400", 1, "\u{fffd}"])),
        (&digits, json!(digits)),
        // Nothing to mend.
        (r#"{"a":[1,2.5,"é"]}"#, json!({"a": [1, 2.5, "é"]})),
        (r#""1e999""#, json!("1e999")),
    ] {
        assert_eq!(json_of(raw).value(), value, "{raw}");
    }
}

#[test]
fn a_content_becomes_a_type() {
    assert_eq!(json_of("[1,2]").deserialize::<Vec<u8>>().unwrap(), [1, 2]);
    assert_eq!(json_of(r#""a""#).deserialize::<String>().unwrap(), "a");
    assert_eq!(Content::NULL.deserialize::<Option<u8>>().unwrap(), None);
    assert_eq!(
        json_of(r#"["\ud800"]"#)
            .deserialize::<Vec<String>>()
            .unwrap(),
        ["\u{fffd}"]
    );
    let error = json_of("[1e999]").deserialize::<Vec<u8>>().unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
    // The first error, in the words of what was sent.
    assert!(error.to_string().contains("out of range"), "{error}");
}

#[test]
fn a_serialized_content_is_the_json_it_came_as_on_one_line() {
    for (raw, written) in [
        ("null", "null"),
        (r#""\u0041\n""#, r#""A\n""#),
        (
            r#"{"b": 1.00, "a":"\ud800"}"#,
            r#"{"b": 1.00, "a":"\ud800"}"#,
        ),
        ("[1e999]", "[1e999]"),
        (
            "{\r\n  \"a\": [\n    1,\n    \"\\n\"\n  ]\n}",
            r#"{  "a": [    1,    "\n"  ]}"#,
        ),
    ] {
        assert_eq!(
            serde_json::to_string(&json_of(raw)).unwrap(),
            written,
            "{raw}"
        );
    }
    let value = serde_json::to_value(json_of(r#"{"a":[1,null]}"#)).unwrap();
    assert_eq!(value, json!({"a": [1, null]}));
}
