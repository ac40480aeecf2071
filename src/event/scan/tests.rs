use proptest::prelude::*;
use serde_json::value::RawValue;

use super::super::samples::{nearly_json, texts};
use super::*;

fn list(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    members(text, |key, value| found.push((key, value)))?;
    Some(found)
}

#[test]
fn an_object_is_taken_apart_into_raw_members() {
    for (text, expected) in [
        ("{}", &[][..]),
        (" \t\r\n{ \n} ", &[]),
        (r#"{"a":1}"#, &[("a", "1")]),
        (
            r#"{ "a" : [ 1 , { "b" : "]}" } ] , "a":null }"#,
            &[("a", r#"[ 1 , { "b" : "]}" } ]"#), ("a", "null")],
        ),
        (
            r#"{"\u0061\"":"\ud800\\"}"#,
            &[(r#"\u0061\""#, r#""\ud800\\""#)],
        ),
        (
            r#"{"":"","e":[],"o":{},"t":true,"f":false}"#,
            &[
                ("", r#""""#),
                ("e", "[]"),
                ("o", "{}"),
                ("t", "true"),
                ("f", "false"),
            ],
        ),
        (
            r#"{"n":-0.0e+00,"m":10E-1,"k":[[],[{}]]}"#,
            &[("n", "-0.0e+00"), ("m", "10E-1"), ("k", "[[],[{}]]")],
        ),
    ] {
        assert_eq!(list(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn what_is_no_object_is_refused() {
    for text in [
        "",
        " ",
        "null",
        "[]",
        "1",
        r#""a""#,
        "{",
        "}",
        "{}}",
        "{} x",
        "{}{}",
        "\u{feff}{}",
        "{\u{a0}}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{,"a":1}"#,
        r#"{"a":1 "b":2}"#,
        r#"{"a" 1}"#,
        "{a:1}",
        "{'a':1}",
        r#"{"a":1]"#,
        r#"{"a":[1}"#,
        r#"{"a":[1,]}"#,
        r#"{"a":[,1]}"#,
        r#"{"a":[1 2]}"#,
        r#"{"a":{"b"}}"#,
        r#"{"a":{1:2}}"#,
        r#"{"a":{"b":1]}"#,
        r#"{"a":01}"#,
        r#"{"a":-}"#,
        r#"{"a":-a}"#,
        r#"{"a":1.}"#,
        r#"{"a":.5}"#,
        r#"{"a":+1}"#,
        r#"{"a":1e}"#,
        r#"{"a":1e+}"#,
        r#"{"a":0x1}"#,
        r#"{"a":tru}"#,
        r#"{"a":nullx}"#,
        r#"{"a":NaN}"#,
        r#"{"a":"b}"#,
        r#"{"a":"\x"}"#,
        r#"{"a":"\u12g4"}"#,
        r#"{"a":"\u123"}"#,
        "{\"a\":\"\n\"}",
        "{\"a\n\":1}",
        "{\"a\":\"\0\"}",
        r#"{"a":1} // b"#,
        r#"{"a":"\"#,
    ] {
        assert_eq!(list(text), None, "{text:?}");
    }
}

#[test]
fn nesting_is_bounded_whatever_it_is_made_of() {
    for (open, close, each) in [("[", "]", 1), ("{\"a\":", "}", 1), ("[{\"a\":", "}]", 2)] {
        let nested = |levels: usize| {
            let times = levels / each;
            format!("{{\"a\":{}0{}}}", open.repeat(times), close.repeat(times))
        };
        assert!(list(&nested(126)).is_some(), "{open} 127 deep");
        assert!(list(&nested(128)).is_none(), "{open} 129 deep");
    }
    let arrays = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    assert!(
        list(&arrays(127)).is_some(),
        "128 levels, the innermost empty"
    );
    assert!(
        list(&arrays(128)).is_none(),
        "129 levels, the innermost empty"
    );
    assert!(list(&arrays(100_000)).is_none());
    assert!(list(&"{\"a\":".repeat(100_000)).is_none(), "never closed");
    // What lies side by side does not add up.
    let wide = format!("{{\"a\":[{}0]}}", "[[]],".repeat(1_000));
    assert!(list(&wide).is_some());
}

proptest! {
    #[test]
    fn the_grammar_is_serde_jsons(text in prop_oneof![4 => nearly_json(), 1 => texts()]) {
        // A raw value takes lone surrogates and any depth, which these texts do not reach.
        let object = serde_json::from_str::<&RawValue>(&text).is_ok_and(|raw| raw.get().starts_with('{'));
        prop_assert_eq!(list(&text).is_some(), object);
    }
}
