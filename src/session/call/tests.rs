use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::*;
use crate::event::EventKind;
use crate::mcp::era::opening_dialect;
use crate::wire::jsonrpc::{self, Incoming};

mod hearing;

fn call(wraps_result: bool) -> Call {
    let (server, tool) = (Arc::from("alpha"), Arc::from("add"));
    Call {
        id: 3,
        dialect: opening_dialect(),
        wraps_result,
        place: Place::new(&server, Some(&tool)),
    }
}

fn message(json: &str) -> Message {
    match jsonrpc::decode(&Bytes::copy_from_slice(json.as_bytes()), 128) {
        Ok(Incoming::One(message)) => message,
        other => panic!("{json}: {other:?}"),
    }
}

/// What the call's caller sees of a message; panics if it is not about the call.
fn judged(call: &Call, json: &str) -> StreamEvent {
    match call.judge(message(json)) {
        Judged::Event(event) => event,
        other => panic!("{json}: {other:?}"),
    }
}

/// The end of a call whose result is `result`.
fn ended(wraps_result: bool, result: &str) -> StreamEvent {
    let json = format!(r#"{{"jsonrpc":"2.0","id":3,"result":{result}}}"#);
    let event = judged(&call(wraps_result), &json);
    assert!(event.is_terminal(), "{result}");
    assert!(event.progress().is_none(), "{result}");
    event
}

const NO_MESSAGE: &str = r#""the tool failed without a message""#;

// Covers R-706, R-709, R-1802.
#[test]
fn the_content_of_a_result_is_what_matters_of_it() {
    let table = [
        // result, content
        // Structured content comes first.
        (r#"{"structuredContent":{"a":1}}"#, r#"{"a":1}"#),
        (r#"{"content":null,"structuredContent":{}}"#, "{}"),
        (
            r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1}}"#,
            r#"{"a":1}"#,
        ),
        (r#"{"structuredContent":[1,2]}"#, "[1,2]"),
        (r#"{"structuredContent":"text"}"#, r#""text""#),
        (r#"{"structuredContent":0}"#, "0"),
        (r#"{"structuredContent":false}"#, "false"),
        // A null one is none.
        (
            r#"{"content":[{"type":"text","text":"x"}],"structuredContent":null}"#,
            r#""x""#,
        ),
        // Wrapped, but the tool does not say that it wraps.
        (r#"{"structuredContent":{"result":5}}"#, r#"{"result":5}"#),
        // No block.
        ("{}", "null"),
        (r#"{"_meta":{}}"#, "null"),
        (r#"{"content":null}"#, "null"),
        (r#"{"content":[]}"#, "null"),
        // Texts only.
        (r#"{"content":[{"type":"text","text":"a"}]}"#, r#""a""#),
        (r#"{"content":[{"type":"text","text":""}]}"#, r#""""#),
        (
            r#"{"content":[{"type":"text","text":"a"},{"text":"b","type":"text","annotations":{"priority":1}}]}"#,
            r#""a\nb""#,
        ),
        (
            r#"{"content":[{"type":"text","text":"a","annotations":{"audience":["robot"],"priority":"high"}}]}"#,
            r#""a""#,
        ),
        // A text that happens to be JSON is a text.
        (
            r#"{"content":[{"type":"text","text":"{\"n\":1}"}]}"#,
            r#""{\"n\":1}""#,
        ),
        (
            r#"{"content":[{"type":"text","text":"\ud83d\ude00 \ud83d"}]}"#,
            "\"😀 \u{fffd}\"",
        ),
        (
            r#"{"content":[{"type":"text","text":"a","_meta":{"n":1e999}}]}"#,
            r#""a""#,
        ),
        // Anything else is given as it is.
        (
            r#"{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}"#,
            r#"[{"type":"image","data":"AA==","mimeType":"image/png"}]"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"a"},{"type":"new","x": 1e999}]}"#,
            r#"[{"type":"text","text":"a"},{"type":"new","x": 1e999}]"#,
        ),
        (r#"{"content":[{"type":"text"}]}"#, r#"[{"type":"text"}]"#),
        (
            r#"{"content":[{"type":"text","text":7}]}"#,
            r#"[{"type":"text","text":7}]"#,
        ),
        (r#"{"content":["a"]}"#, r#"["a"]"#),
        (r#"{"content":"a"}"#, r#""a""#),
        (
            r#"{"content":{"type":"text","text":"a"}}"#,
            r#"{"type":"text","text":"a"}"#,
        ),
        (r#"{"content":7}"#, "7"),
        // An `isError` that is not true.
        (
            r#"{"content":[{"type":"text","text":"a"}],"isError":false}"#,
            r#""a""#,
        ),
        (
            r#"{"content":[{"type":"text","text":"a"}],"isError":null}"#,
            r#""a""#,
        ),
        (
            r#"{"content":[{"type":"text","text":"a"}],"isError":"true"}"#,
            r#""a""#,
        ),
    ];
    for (result, content) in table {
        let event = ended(false, result);
        assert_eq!(event.kind, EventKind::Result, "{result}");
        assert_eq!(event.content.raw(), content, "{result}");
        assert!(event.error().is_none(), "{result}");
        assert_eq!(event.tool_result().unwrap().raw(), result);
        assert_eq!(event.raw().unwrap(), result);
    }
}

#[test]
fn a_wrapped_result_is_unwrapped_only_if_the_tool_wraps() {
    let table = [
        // structured content, content if the tool wraps
        (r#"{"result":5}"#, "5"),
        (r#"{"result":[1, 1e999]}"#, "[1, 1e999]"),
        (r#"{"result":"a\nb"}"#, r#""a\nb""#),
        (r#"{"result":"\ud83d"}"#, "\"\u{fffd}\""),
        (r#"{"result":{"result":5}}"#, r#"{"result":5}"#),
        (r#"{"result":null}"#, "null"),
        (r#"{"r\u0065sult":5}"#, "5"),
        // Not the one member.
        (r#"{"result":5,"more":6}"#, r#"{"result":5,"more":6}"#),
        (r#"{"other":5}"#, r#"{"other":5}"#),
        ("{}", "{}"),
        ("[5]", "[5]"),
        (r#""result""#, r#""result""#),
    ];
    for (structured, content) in table {
        let result = format!(r#"{{"structuredContent":{structured}}}"#);
        let event = ended(true, &result);
        assert_eq!(event.content.raw(), content, "{structured}");
        assert_eq!(event.tool_result().unwrap().raw(), result);
        let plain = ended(false, &result);
        assert_eq!(
            plain.content.value(),
            Content::json(structured.into()).value()
        );
    }
}

#[test]
fn a_failure_of_the_tool_always_says_something() {
    let table = [
        (
            r#"{"content":[{"type":"text","text":"no such city"}],"isError":true}"#,
            r#""no such city""#,
        ),
        (
            r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"isError":true}"#,
            r#""a\nb""#,
        ),
        (r#"{"isError":true}"#, NO_MESSAGE),
        (r#"{"content":[],"isError":true}"#, NO_MESSAGE),
        (r#"{"content":null,"isError":true}"#, NO_MESSAGE),
        (
            r#"{"content":[{"type":"text","text":" \n"}],"isError":true}"#,
            NO_MESSAGE,
        ),
        (
            r#"{"content":[{"type":"image","data":"","mimeType":"image/png"}],"isError":true}"#,
            r#"[{"type":"image","data":"","mimeType":"image/png"}]"#,
        ),
        (
            r#"{"structuredContent":{"code":5},"isError":true}"#,
            r#"{"code":5}"#,
        ),
        // What failed is no result, so there is none to unwrap.
        (
            r#"{"structuredContent":{"result":5},"isError":true}"#,
            r#"{"result":5}"#,
        ),
    ];
    for (result, content) in table {
        let event = ended(true, result);
        assert_eq!(event.kind, EventKind::TerminalError, "{result}");
        assert_eq!(event.content.raw(), content, "{result}");
        assert_eq!(event.tool_result().unwrap().raw(), result);
        let Some(Error::Tool {
            place,
            content: told,
            ..
        }) = event.error()
        else {
            panic!("{result}: {:?}", event.error());
        };
        assert_eq!((place.server(), place.tool()), (Some("alpha"), Some("add")));
        assert_eq!(**told, event.content.value(), "{result}");
    }
}

// Covers R-101, R-1109.
#[test]
fn an_answer_that_is_none_ends_the_call() {
    let table = [
        // members of the answer, part of the error's text
        (
            r#""result":{},"error":{"code":1,"message":"m"}"#,
            "both a `result` and an `error`",
        ),
        (r#""x":1"#, "neither a `result` nor an `error`"),
        (r#""result":null"#, "not an object"),
        (r#""result":"text""#, "not an object"),
        (r#""result":[]"#, "not an object"),
        (r#""result":7"#, "not an object"),
        (r#""error":"boom""#, "an `error` that is no object"),
        (r#""error":{"message":"m"}"#, "an integer `code`"),
        (r#""result":{"content":[],"content":[]}"#, "duplicate field"),
        (r#""result":{"task":{"taskId":"1"}}"#, "a task result"),
    ];
    for (members, text) in table {
        let json = format!(r#"{{"jsonrpc":"2.0","id":3,{members}}}"#);
        let event = judged(&call(false), &json);
        assert_eq!(event.kind, EventKind::TerminalError, "{members}");
        let error = event.error().unwrap();
        assert!(
            matches!(error, Error::Protocol { .. }),
            "{members}: {error:?}"
        );
        assert!(error.to_string().contains(text), "{members}: {error}");
        assert!(
            event.text().unwrap().contains(text),
            "{members}: {:?}",
            event.text()
        );
        assert_eq!(
            (error.server(), error.tool()),
            (Some("alpha"), Some("add")),
            "{members}"
        );
        assert!(event.tool_result().is_none(), "{members}");
    }
    let fine = judged(
        &call(false),
        r#"{"jsonrpc":"2.0","id":3,"error":null,"result":{}}"#,
    );
    assert_eq!(fine.kind, EventKind::Result);
}

// Covers R-109.
#[test]
fn a_json_rpc_error_keeps_code_message_and_data() {
    let long = "é".repeat(5_000);
    let table = [
        (
            r#"{"code":-32602,"message":"unknown tool","data":{"hint":["a"]}}"#.to_owned(),
            (
                -32602,
                "unknown tool".to_owned(),
                Some(json!({"hint": ["a"]})),
            ),
        ),
        (
            r#"{"code":0,"message":""}"#.to_owned(),
            (0, String::new(), None),
        ),
        (
            r#"{"code":-1.0,"message":null,"data":null}"#.to_owned(),
            (-1, String::new(), None),
        ),
        // A number that no value can hold costs only itself.
        (
            r#"{"code":1,"message":"m","data":{"n":1e999,"t":"\ud83d"}}"#.to_owned(),
            (
                1,
                "m".to_owned(),
                Some(json!({"n": "1e999", "t": "\u{fffd}"})),
            ),
        ),
        (
            format!(r#"{{"code":1,"message":"{long}"}}"#),
            (1, "é".repeat(4_000), None),
        ),
    ];
    for (error, expected) in table {
        let json = format!(r#"{{"jsonrpc":"2.0","id":3,"error":{error}}}"#);
        let event = judged(&call(false), &json);
        assert_eq!(event.kind, EventKind::TerminalError);
        let Some(Error::Rpc {
            place,
            code,
            message,
            data,
            ..
        }) = event.error()
        else {
            panic!("{:?}", event.error());
        };
        assert_eq!((place.server(), place.tool()), (Some("alpha"), Some("add")));
        let seen = (*code, message.to_string(), data.as_deref().cloned());
        assert_eq!(seen, expected);
    }
}

// Covers R-908.
#[test]
fn the_code_for_a_cancel_ends_the_call_as_cancelled() {
    let event = judged(
        &call(false),
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32800,"message":"Request cancelled"}}"#,
    );
    assert_eq!(event.kind, EventKind::Cancelled);
    assert!(event.content.is_null() && event.is_terminal());
    let error = event.error().unwrap();
    assert!(error.is_cancelled());
    assert_eq!(error.tool(), Some("add"));
}

#[test]
fn a_failure_knows_where_it_happened_unless_a_lower_level_did() {
    let event = call(false).fail(Error::transport("reset"));
    let error = event.error().unwrap();
    assert_eq!(error.to_string(), "alpha/add: reset");
    let (other, tool) = (Arc::from("beta"), Arc::from("sub"));
    let event = call(false).fail(Error::transport("reset").at(&Place::new(&other, Some(&tool))));
    assert_eq!(event.error().unwrap().to_string(), "beta/sub: reset");
}

// Covers R-1803.
#[test]
fn big_numbers_keep_their_digits() {
    let result = r#"{"structuredContent":{"id":123456789012345678901234567890,"x":0.10}}"#;
    let event = ended(false, result);
    assert_eq!(
        event.content.raw(),
        r#"{"id":123456789012345678901234567890,"x":0.10}"#
    );
    let listed = ended(
        false,
        r#"{"content":[{"type":"n","v":123456789012345678901}]}"#,
    );
    assert_eq!(
        listed.content.raw(),
        r#"[{"type":"n","v":123456789012345678901}]"#
    );
}
