use std::collections::HashMap;
use std::num::{NonZeroI8, NonZeroU8, NonZeroU64};

use serde::de::DeserializeOwned;

use super::*;
use crate::event::DataUri;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its shape counts")]
struct Item {
    count: u32,
    colour: Option<Colour>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Blue,
    Green,
    Red,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only its shape counts")]
struct Args {
    items: Vec<Item>,
    images: Option<Vec<DataUri>>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "shape", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its shape counts")]
enum Shape {
    Circle { radius: f64 },
    Square { side: f64 },
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its shape counts")]
enum Either {
    Number(u8),
    Text(String),
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only its shape counts")]
enum Outer {
    Move { by: i16 },
    Stop,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only its shape counts")]
struct Flat {
    id: u8,
    #[serde(flatten)]
    more: HashMap<String, u8>,
}

/// Reads into a type and fails; the arguments; what is said.
type Case = (fn(&str) -> String, &'static str, &'static str);

fn fault<T: DeserializeOwned + fmt::Debug>(json: &str) -> String {
    let error = read_arguments::<T>(json, None).expect_err(json).to_string();
    assert!(error.chars().count() < 700, "{json}: {error}");
    error
}

#[test]
fn a_misfit_names_the_field_what_belongs_there_and_what_came() {
    for (json, wanted) in [
        (
            r#"{"items":[{"count":1},{"count":2},{"count":"three"}]}"#,
            r#"invalid argument `items[2].count`: expected a whole number of 0 or more, but got the string "three""#,
        ),
        (
            r#"{"items":[{"count":-1}]}"#,
            "invalid argument `items[0].count`: expected a whole number from 0 to 4294967295, but got the number -1",
        ),
        (
            r#"{"items":[{"count":1.5}]}"#,
            "invalid argument `items[0].count`: expected a whole number from 0 to 4294967295, but got the number 1.5",
        ),
        (
            r#"{"items":[{"count":null}]}"#,
            "invalid argument `items[0].count`: expected a whole number of 0 or more, but got null",
        ),
        (
            r#"{"items":[{"count":true}]}"#,
            "invalid argument `items[0].count`: expected a whole number of 0 or more, but got true",
        ),
        (
            r#"{"items":[{"count":[]}]}"#,
            "invalid argument `items[0].count`: expected a whole number of 0 or more, but got an array",
        ),
        (
            r#"{"items":[{}]}"#,
            "invalid argument `items[0].count`: it is required, but missing",
        ),
        (
            "{}",
            "invalid argument `items`: it is required, but missing",
        ),
        (
            r#"{"items":[],"items":[]}"#,
            "invalid argument `items`: it is given twice",
        ),
        (
            r#"{"items":[{"count":1,"more":2}]}"#,
            "invalid argument `items[0].more`: it is unknown; known here: `count` or `colour`",
        ),
        (
            r#"{"items":[{"count":1,"a`, expected b":2}]}"#,
            "invalid argument `items[0].a`, expected b`: it is unknown; known here: `count` or `colour`",
        ),
        (
            r#"{"items":[{"count":1,"colour":"pink"}]}"#,
            r#"invalid argument `items[0].colour`: expected one of `blue`, `green`, `red`, but got "pink""#,
        ),
        (
            r#"{"items":[{"count":1,"colour":3}]}"#,
            "invalid argument `items[0].colour`: expected a string or an object, but got a number",
        ),
        (
            r#"{"items":{"count":1}}"#,
            "invalid argument `items`: expected an array, but got an object",
        ),
        (
            r#"{"items":[7]}"#,
            "invalid argument `items[0]`: expected an object, but got the number 7",
        ),
        (
            r#"{"items":[{"count":", expected a map at line 1 column 2"}]}"#,
            r#"invalid argument `items[0].count`: expected a whole number of 0 or more, but got the string ", expected a map at line 1 column 2""#,
        ),
        (
            r#"{"items":[],"images":["data:,x","photo.png"]}"#,
            r#"invalid argument `images[1]`: expected a data URI, such as "data:image/png;base64,..", but got the string "photo.png": it does not start with `data:`"#,
        ),
        (
            r#"{"items":[],"images":[{"url":"data:,"}]}"#,
            r#"invalid argument `images[0]`: expected a data URI, such as "data:image/png;base64,..", but got an object"#,
        ),
        (
            r#"{"items":[],"images":"data:,"}"#,
            r#"invalid argument `images`: expected an array, but got the string "data:,""#,
        ),
    ] {
        assert_eq!(fault::<Args>(json), wanted, "{json}");
    }
}

#[test]
fn every_kind_has_a_name_in_json() {
    let cases: [Case; 26] = [
        (
            fault::<bool>,
            "1",
            "expected true or false, but got the number 1",
        ),
        (fault::<f64>, "true", "expected a number, but got true"),
        (
            fault::<char>,
            r#""ab""#,
            r#"expected a character, but got the string "ab""#,
        ),
        (
            fault::<String>,
            "{}",
            "expected a string, but got an object",
        ),
        (
            fault::<u8>,
            "300",
            "expected a whole number from 0 to 255, but got the number 300",
        ),
        (
            fault::<u64>,
            "-5",
            "expected a whole number from 0 to 18446744073709551615, but got the number -5",
        ),
        (fault::<u128>, "-5", "number out of range"),
        (
            fault::<usize>,
            "{}",
            "expected a whole number of 0 or more, but got an object",
        ),
        (
            fault::<i8>,
            "128",
            "expected a whole number from -128 to 127, but got the number 128",
        ),
        (
            fault::<i64>,
            "[]",
            "expected a whole number, but got an array",
        ),
        (
            fault::<NonZeroU8>,
            "0",
            "expected a whole number from 1 to 255, but got the number 0",
        ),
        (
            fault::<NonZeroU64>,
            "null",
            "expected a whole number of 1 or more, but got null",
        ),
        (
            fault::<NonZeroI8>,
            "0",
            "expected a whole number from -128 to 127 other than 0, but got the number 0",
        ),
        (
            fault::<HashMap<String, u8>>,
            "[]",
            "expected an object, but got an array",
        ),
        (
            fault::<(u8, u8)>,
            "[1]",
            "expected an array of 2, but got 1",
        ),
        (
            fault::<(u8, u8)>,
            "{}",
            "expected an array of 2, but got an object",
        ),
        (
            fault::<[u8; 3]>,
            "[1]",
            "expected an array of length 3, but got 1",
        ),
        (fault::<()>, "{}", "expected null, but got an object"),
        (
            fault::<Either>,
            "[]",
            "it fits none of the forms that it may have",
        ),
        (fault::<f32>, "1e999", "number out of range"),
        (
            fault::<Outer>,
            "7",
            "expected a string or an object, but got a number",
        ),
        (
            fault::<Outer>,
            "\n [ 1 ]",
            "expected a string or an object, but got an array",
        ),
        (
            fault::<Outer>,
            "\n\n  true",
            "expected a string or an object, but got true",
        ),
        (
            fault::<Outer>,
            "null",
            "expected a string or an object, but got null",
        ),
        (
            fault::<Shape>,
            "7",
            "expected an object, but got the number 7",
        ),
        (
            fault::<std::net::IpAddr>,
            r#""x""#,
            "invalid IP address syntax",
        ),
    ];
    for (fault, json, wanted) in cases {
        assert_eq!(
            fault(json),
            format!("invalid arguments: {wanted}"),
            "{json}"
        );
    }
}

#[test]
fn what_hides_the_way_to_a_field_still_tells_what_is_wrong() {
    let cases: [Case; 8] = [
        (
            fault::<Shape>,
            r#"{"shape":"circle"}"#,
            "argument `radius`: it is required, but missing",
        ),
        (
            fault::<Shape>,
            r#"{"shape":"oval"}"#,
            r#"argument `shape`: expected `circle` or `square`, but got "oval""#,
        ),
        (
            fault::<Shape>,
            r#"{"side":1}"#,
            "argument `shape`: it is required, but missing",
        ),
        (
            fault::<Shape>,
            r#"{"shape":"circle","radius":"wide"}"#,
            r#"arguments: expected a number, but got the string "wide""#,
        ),
        (
            fault::<Outer>,
            r#"{"Move":{"by":99999}}"#,
            "argument `Move.by`: expected a whole number from -32768 to 32767, but got the number 99999",
        ),
        (
            fault::<Empty>,
            r#"{"a":1}"#,
            "argument `a`: it is unknown, as any would be here",
        ),
        (
            fault::<Flat>,
            r#"{"id":1,"a":"b"}"#,
            r#"arguments: expected a whole number of 0 or more, but got the string "b""#,
        ),
        (
            fault::<Vec<u8>>,
            "{\"a\":1",
            "arguments: expected an array, but got an object",
        ),
    ];
    for (fault, json, wanted) in cases {
        assert_eq!(fault(json), format!("invalid {wanted}"), "{json}");
    }
}

#[test]
fn what_the_caller_sent_comes_back_clipped() {
    let long = "é".repeat(100_000);
    for json in [
        format!(r#"{{"items":[{{"count":"{long}"}}]}}"#),
        format!(r#"{{"items":[{{"count":1,"{long}":1}}]}}"#),
        format!(r#"{{"items":[{{"count":1,"colour":"{long}"}}]}}"#),
        format!(r#"{{"items":[],"images":["{long}"]}}"#),
        format!(r#"{{"items":[],"images":["data:{long}"]}}"#),
        format!(r#"{{"items":[],"images":["data:a/b;{long},"]}}"#),
    ] {
        let said = fault::<Args>(&json);
        assert!(said.contains("éé") && said.contains(".."), "{said}");
    }
    let deep =
        fault::<HashMap<String, HashMap<String, u8>>>(&format!(r#"{{"{long}":{{"a\nb":"x"}}}}"#));
    assert!(deep.contains(r"...a\nb`: expected"), "{deep}");
}

#[test]
fn what_is_missing_is_told_with_the_kind_that_the_schema_names() {
    let schema = r##"{
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Item"}]}},
            "round": {"$ref": "#/$defs/round"}
        },
        "$defs": {
            "Item": {"type": "object", "properties": {"count": {"type": "integer"}}},
            "round": {"$ref": "#/$defs/round"}
        }
    }"##;
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its shape counts")]
    struct Round {
        items: Vec<u8>,
        round: u8,
    }
    let told = |json, schema: &str, read: fn(&str, Option<&RawJson>) -> String| {
        let schema = RawJson::serialized(
            &serde_json::value::RawValue::from_string(schema.to_owned()).unwrap(),
        );
        read(json, Some(&schema.unwrap()))
    };
    let args = |json: &str, schema: Option<&RawJson>| {
        read_arguments::<Args>(json, schema)
            .unwrap_err()
            .to_string()
    };
    let round = |json: &str, schema: Option<&RawJson>| {
        read_arguments::<Round>(json, schema)
            .unwrap_err()
            .to_string()
    };
    for (said, wanted) in [
        (
            told("{}", schema, args),
            "`items`: expected an array, but it is missing",
        ),
        (
            told(r#"{"items":[{}]}"#, schema, args),
            "`items[0].count`: expected a whole number, but it is missing",
        ),
        (
            told(r#"{"items":[]}"#, schema, round),
            "`round`: it is required, but missing",
        ),
        (
            told("{}", r#"{"type":"object"}"#, args),
            "`items`: it is required, but missing",
        ),
        (
            told("{}", "7", args),
            "`items`: it is required, but missing",
        ),
    ] {
        assert_eq!(said, format!("invalid argument {wanted}"));
    }
}
