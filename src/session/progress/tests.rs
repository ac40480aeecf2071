use serde_json::value::RawValue;

use super::*;
use crate::error::Error;
use crate::event::{self, EventKind, StreamEvent};
use crate::wire::jsonrpc::{RawJson, RequestId};

mod paths;
mod round_trip;

fn token(json: &str) -> RequestId {
    serde_json::from_str(json).unwrap()
}

fn params(json: &str) -> RawJson {
    let raw = RawValue::from_string(json.to_owned()).unwrap();
    RawJson::serialized(&raw).unwrap()
}

fn decoded(json: &str) -> Option<(RequestId, StreamEvent)> {
    decode_progress(&params(json))
}

/// What a message, given as it stands between the quotes, becomes.
fn event_of(inner: &str) -> StreamEvent {
    let json = format!(r#"{{"progressToken":1,"progress":3,"message":"{inner}"}}"#);
    decoded(&json).unwrap().1
}

#[test]
fn a_notification_is_written_as_one_sse_event() {
    let table = [
        // token, number, total, message, what stands in the params
        ("0", 1.0, None, Some("a"), r#"0,"progress":1,"message":"a""#),
        (r#""""#, 1.0, None, None, r#""","progress":1"#),
        (r#""a\"b""#, 2.0, None, None, r#""a\"b","progress":2"#),
        (r#""\u0041""#, 2.0, None, None, r#""\u0041","progress":2"#),
        (
            "9223372036854775807",
            0.0,
            None,
            None,
            r#"9223372036854775807,"progress":0"#,
        ),
        ("-1", 0.5, Some(1.0), None, r#"-1,"progress":0.5,"total":1"#),
        (
            "1",
            1e300,
            Some(2.5),
            Some(""),
            r#"1,"progress":1e+300,"total":2.5,"message":"""#,
        ),
        ("1", -3.0, None, None, r#"1,"progress":-3"#),
        (
            "1",
            9007199254740991.0,
            None,
            None,
            r#"1,"progress":9007199254740991.0"#,
        ),
        (
            "1",
            8999999999999999.0,
            None,
            None,
            r#"1,"progress":8999999999999999"#,
        ),
        // What JSON cannot say.
        ("1", 1.0, Some(f64::NAN), None, r#"1,"progress":1"#),
        ("1", 1.0, Some(f64::INFINITY), None, r#"1,"progress":1"#),
    ];
    for (name, number, total, message, inside) in table {
        let frame = ProgressFrame::new(Framing::Sse, &token(name));
        let mut out = b"before".to_vec();
        let write = message.map(|text: &str| {
            move |out: &mut Vec<u8>| {
                out.extend_from_slice(text.as_bytes());
                Ok(())
            }
        });
        frame.write(&mut out, number, total, write).unwrap();
        let expected = format!(
            "beforeevent: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\
             \"params\":{{\"progressToken\":{inside}}}}}\n\n"
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            expected,
            "{name} {number:?}"
        );
    }
}

#[test]
fn a_response_is_framed_as_it_is() {
    let mut out = b"before".to_vec();
    Framing::Sse.write(&mut out, br#"{"id":1}"#);
    assert_eq!(out, b"beforeevent: message\ndata: {\"id\":1}\n\n");
}

#[test]
fn an_error_of_the_writer_is_given_back() {
    let frame = ProgressFrame::new(Framing::Sse, &token("1"));
    let write = Some(|_: &mut Vec<u8>| Err(Error::config("no JSON")));
    let error = frame.write(&mut Vec::new(), 1.0, None, write).unwrap_err();
    assert_eq!(error.to_string(), "no JSON");
}

// Covers R-806, R-1803.
#[test]
fn a_token_is_a_string_or_an_integer_however_it_is_spelled() {
    let table = [
        ("0", Some("0"), Some(0)),
        ("7", Some("7"), Some(7)),
        (r#""7""#, Some(r#""7""#), Some(7)),
        (r#""\u0037""#, Some(r#""\u0037""#), Some(7)),
        ("7.0", Some("7"), Some(7)),
        ("7e0", Some("7"), Some(7)),
        (r#""""#, Some(r#""""#), None),
        (r#""seven""#, Some(r#""seven""#), None),
        ("7.5", None, None),
        ("1e300", None, None),
        ("null", None, None),
        ("true", None, None),
        ("[7]", None, None),
        (r#"{"a":7}"#, None, None),
    ];
    for (spelled, shown, number) in table {
        let json = format!(r#"{{"progressToken":{spelled},"progress":1}}"#);
        let read = decoded(&json).map(|(token, _)| token);
        assert_eq!(
            read.as_ref().map(ToString::to_string).as_deref(),
            shown,
            "{spelled}"
        );
        assert_eq!(
            read.and_then(|token| token.as_number()),
            number,
            "{spelled}"
        );
    }
}

// Covers R-802.
#[test]
fn the_token_of_a_request_is_no_fraction() {
    for (spelled, expected) in [
        ("0", Some("0")),
        (r#""""#, Some(r#""""#)),
        (r#""x""#, Some(r#""x""#)),
        ("-4", Some("-4")),
        ("1.0", None),
        ("1.5", None),
        ("null", None),
        ("false", None),
        ("{}", None),
    ] {
        let raw = RawValue::from_string(spelled.to_owned()).unwrap();
        let read = read_token(&raw).map(|token| token.to_string());
        assert_eq!(read.as_deref(), expected, "{spelled}");
    }
}

#[test]
fn params_without_a_token_are_for_nobody() {
    for json in [
        "{}",
        "[]",
        "[1,1]",
        "7",
        "null",
        r#"{"progress":1}"#,
        r#"{"token":1,"progress":1}"#,
        r#"{"progressToken":1,"progressToken":2,"progress":1}"#,
    ] {
        assert!(decoded(json).is_none(), "{json}");
    }
}

#[test]
fn a_progress_without_a_message_has_its_numbers_as_they_were_spelled() {
    let table = [
        // members, content, number, total
        (r#""progress":1"#, r#"{"progress":1}"#, 1.0, None),
        (r#""progress":1.0"#, r#"{"progress":1.0}"#, 1.0, None),
        (r#""progress":-0.50"#, r#"{"progress":-0.50}"#, -0.5, None),
        (r#""progress":1E+2"#, r#"{"progress":1E+2}"#, 100.0, None),
        (
            r#""progress":9007199254740993"#,
            r#"{"progress":9007199254740993}"#,
            9007199254740992.0,
            None,
        ),
        (
            r#""progress":50,"total":100.0"#,
            r#"{"progress":50,"total":100.0}"#,
            50.0,
            Some(100.0),
        ),
        (
            r#""progress":1e999"#,
            r#"{"progress":1e999}"#,
            f64::INFINITY,
            None,
        ),
        (
            r#""progress":1,"total":null"#,
            r#"{"progress":1}"#,
            1.0,
            None,
        ),
        (
            r#""progress":1,"total":"9""#,
            r#"{"progress":1}"#,
            1.0,
            None,
        ),
        (r#""x":1"#, r#"{"progress":null}"#, 0.0, None),
        (r#""progress":null"#, r#"{"progress":null}"#, 0.0, None),
        (r#""progress":"1""#, r#"{"progress":null}"#, 0.0, None),
        (r#""progress":[1]"#, r#"{"progress":null}"#, 0.0, None),
        // A message that is no text is none.
        (
            r#""progress":1,"message":null"#,
            r#"{"progress":1}"#,
            1.0,
            None,
        ),
        (
            r#""progress":1,"message":7"#,
            r#"{"progress":1}"#,
            1.0,
            None,
        ),
        (
            r#""progress":1,"message":{"type":"text"}"#,
            r#"{"progress":1}"#,
            1.0,
            None,
        ),
    ];
    for (members, content, number, total) in table {
        let (_, event) = decoded(&format!(r#"{{"progressToken":1,{members}}}"#)).unwrap();
        assert_eq!(event.kind, EventKind::Progress, "{members}");
        assert_eq!(event.content.raw(), content, "{members}");
        assert_eq!(event.raw(), None, "{members}");
        assert_eq!(event.node, None, "{members}");
        assert!(!event.is_terminal(), "{members}");
        let progress = event.progress().unwrap();
        assert_eq!(
            (progress.number, progress.total),
            (number, total),
            "{members}"
        );
    }
}

#[test]
fn a_message_is_an_envelope_or_a_text() {
    let mib = "x".repeat(1 << 20);
    let table = [
        // inside of the message's string, kind, content as JSON, node
        (
            r#"{\"v\":1,\"type\":\"text\",\"content\":\"hi\",\"node\":\"n\"}"#.to_owned(),
            "text",
            r#""hi""#.to_owned(),
            Some("n"),
        ),
        (
            r#"{\"node\":\"n\",\"content\":{\"a\":[1,1e999]},\"type\":\"mine\"}"#.to_owned(),
            "mine",
            r#"{"a":[1,1e999]}"#.to_owned(),
            Some("n"),
        ),
        (
            r#"{\"type\":\"done\"}"#.to_owned(),
            "done",
            "null".to_owned(),
            None,
        ),
        // An envelope cannot end a call.
        (
            r#"{\"type\":\"result\",\"content\":1}"#.to_owned(),
            "peer:result",
            "1".to_owned(),
            None,
        ),
        // Plain text, and JSON that is no envelope.
        (
            "Loading 3 files".to_owned(),
            "text",
            r#""Loading 3 files""#.to_owned(),
            None,
        ),
        (String::new(), "text", r#""""#.to_owned(), None),
        (
            r#"{\"content\":\"no type\"}"#.to_owned(),
            "text",
            r#""{\"content\":\"no type\"}""#.to_owned(),
            None,
        ),
        (
            r#"{\"type\":7}"#.to_owned(),
            "text",
            r#""{\"type\":7}""#.to_owned(),
            None,
        ),
        ("[1]".to_owned(), "text", r#""[1]""#.to_owned(), None),
        (
            r#"{\"type\":\"text\""#.to_owned(),
            "text",
            r#""{\"type\":\"text\"""#.to_owned(),
            None,
        ),
        // Escapes of the outer string, of the inner one, and of both.
        (
            r"a\nb\t\u00e9\\".to_owned(),
            "text",
            r#""a\nb\té\\""#.to_owned(),
            None,
        ),
        (
            r#"{\"type\":\"text\",\"content\":\"a\\nb\\\"c\\\\\"}"#.to_owned(),
            "text",
            r#""a\nb\"c\\""#.to_owned(),
            None,
        ),
        (
            r#"\u007b\u0022type\u0022:\u0022text\u0022,\u0022content\u0022:\u0022hi\u0022}"#
                .to_owned(),
            "text",
            r#""hi""#.to_owned(),
            None,
        ),
        // Emoji as it is, as a pair of escapes, and halves of a pair.
        (
            r#"{\"type\":\"text\",\"content\":\"😀\"}"#.to_owned(),
            "text",
            r#""😀""#.to_owned(),
            None,
        ),
        (
            r"\ud83d\ude00".to_owned(),
            "text",
            r#""😀""#.to_owned(),
            None,
        ),
        (
            r#"{\"type\":\"text\",\"content\":\"\\ud83d\\ude00\"}"#.to_owned(),
            "text",
            r#""😀""#.to_owned(),
            None,
        ),
        (
            r"a\ud83d!".to_owned(),
            "text",
            "\"a\u{fffd}!\"".to_owned(),
            None,
        ),
        (
            r#"{\"type\":\"text\",\"content\":\"\\ude00!\"}"#.to_owned(),
            "text",
            "\"\u{fffd}!\"".to_owned(),
            None,
        ),
        // Long.
        (
            format!(r#"{{\"type\":\"text\",\"content\":\"{mib}\"}}"#),
            "text",
            format!("\"{mib}\""),
            None,
        ),
        (mib.clone(), "text", format!("\"{mib}\""), None),
    ];
    for (inner, kind, content, node) in table {
        let event = event_of(&inner);
        let case: String = inner.chars().take(80).collect();
        assert_eq!(event.kind.as_str(), kind, "{case}");
        assert!(event.content.raw() == content, "{case}");
        assert_eq!(
            event.node.as_ref().map(|node| node.as_str()),
            node,
            "{case}"
        );
        assert_eq!(event.progress().unwrap().number, 3.0, "{case}");
        assert!(!event.is_terminal(), "{case}");
        // What was sent is kept, with the escapes of the notification undone.
        let sent = event::unescape(&inner).into_owned();
        assert!(event.raw().unwrap() == sent, "{case}");
    }
}

#[test]
fn content_without_escapes_of_its_own_is_a_slice_of_the_message() {
    let whole = params(r#"{"progressToken":1,"progress":3,"message":"plain text"}"#);
    let (_, event) = decode_progress(&whole).unwrap();
    let bytes = whole.as_str().as_bytes().as_ptr_range();
    assert!(bytes.contains(&event.text().unwrap().as_ptr()));
    let message = event.raw().unwrap();
    assert!(bytes.contains(&message.as_ptr()));
}
