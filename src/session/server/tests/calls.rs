//! Calls: how they begin, what may stand in them, and how they are cancelled.

use super::*;

fn call(params: &str) -> String {
    format!(r#""method":"tools/call","params":{params}"#)
}

/// Begins a call under the id `id`.
fn begin(session: &mut ServerSession, facts: &ServerFacts, id: &str) {
    let json = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"stream"}}}}"#
    );
    let begun = reaction(session, facts, &json);
    assert_eq!(begun, format!("call {id} tool 1 {{}} token -"));
}

// Covers R-702.
#[test]
fn a_call_names_its_tool_and_has_an_object_of_arguments() {
    let table = [
        // params, reaction
        (r#"{"name":"echo"}"#, "call 7 tool 0 {} token -"),
        (
            r#"{"name":"echo","arguments":{}}"#,
            "call 7 tool 0 {} token -",
        ),
        (
            r#"{"name":"echo","arguments":null}"#,
            "call 7 tool 0 {} token -",
        ),
        (
            r#"{"arguments":{"n":1e999, "t":"\ud83d"},"x":[],"name":"str\u0065am"}"#,
            r#"call 7 tool 1 {"n":1e999, "t":"\ud83d"} token -"#,
        ),
    ];
    for (params, expected) in table {
        let (mut session, facts) = (session(), facts());
        assert_eq!(
            asked(&mut session, &facts, &call(params)),
            expected,
            "{params}"
        );
        assert!(session.calls.contains(&id("7")));
        assert_eq!(session.calls.len(), 1);
    }
}

// Covers R-107, R-201, R-702, R-703.
#[test]
fn a_call_that_cannot_be_run_is_refused_and_not_in_flight() {
    let (mut session, facts) = (session(), facts());
    let long = "é".repeat(1000);
    let cut = "é".repeat(200);
    let table = [
        (
            r#"{"name":"strem"}"#.to_owned(),
            "unknown tool: strem".to_owned(),
        ),
        (
            r#"{"name":"Echo"}"#.to_owned(),
            "unknown tool: Echo".to_owned(),
        ),
        (r#"{"name":""}"#.to_owned(), "unknown tool: ".to_owned()),
        (
            format!(r#"{{"name":"{long}"}}"#),
            format!("unknown tool: {cut}"),
        ),
        (
            r#"{"name":"echo","arguments":"{\"text\":\"a\"}"}"#.to_owned(),
            "`arguments` is not an object".to_owned(),
        ),
        (
            r#"{"name":"echo","arguments":[1]}"#.to_owned(),
            "`arguments` is not an object".to_owned(),
        ),
        (
            r#"{"name":"echo","arguments":7}"#.to_owned(),
            "`arguments` is not an object".to_owned(),
        ),
        (
            "{}".to_owned(),
            "invalid params: missing field `name`".to_owned(),
        ),
        (
            r#"{"name":null}"#.to_owned(),
            "invalid params: missing field `name`".to_owned(),
        ),
        (
            r#"{"name":"echo","name":"echo"}"#.to_owned(),
            "invalid params: duplicate field `name` at line 1 column 21".to_owned(),
        ),
        (
            r#"["echo"]"#.to_owned(),
            "`params` is not an object".to_owned(),
        ),
        (
            r#""echo""#.to_owned(),
            "`params` is not an object".to_owned(),
        ),
        (
            "null".to_owned(),
            "`params` is missing; it names the tool".to_owned(),
        ),
    ];
    for (params, text) in table {
        assert_eq!(
            asked(&mut session, &facts, &call(&params)),
            error(200, "7", -32602, &text),
            "{params}"
        );
        assert_eq!(session.calls.len(), 0, "{params}");
    }
    assert_eq!(
        asked(&mut session, &facts, r#""method":"tools/call""#),
        error(200, "7", -32602, "`params` is missing; it names the tool")
    );
}

// Covers R-802.
#[test]
fn a_token_is_a_string_or_an_integer_and_goes_back_as_it_came() {
    let long = format!(r#""{}""#, "x".repeat(2000));
    let table = [
        (r#"{"progressToken":0}"#, "0"),
        (r#"{"progressToken":""}"#, r#""""#),
        (r#"{"progressToken":"0"}"#, r#""0""#),
        (r#"{"progressToken":"a\u0062\"c"}"#, r#""a\u0062\"c""#),
        (r#"{"progressToken":-1}"#, "-1"),
        (
            r#"{"progressToken":9223372036854775807}"#,
            "9223372036854775807",
        ),
        (r#"{"x":1,"progressToken":5,"y":{}}"#, "5"),
        // None of ours to judge, so there is no progress.
        (r#"{"progressToken":null}"#, "-"),
        (r#"{"progressToken":1.5}"#, "-"),
        (r#"{"progressToken":1.0}"#, "-"),
        (r#"{"progressToken":true}"#, "-"),
        (r#"{"progressToken":{"a":1}}"#, "-"),
        (r#"{"progressToken":[1]}"#, "-"),
        (r#"{"progressToken":9223372036854775808}"#, "-"),
        ("{}", "-"),
        ("null", "-"),
        ("7", "-"),
        ("[5]", "-"),
        (r#""progressToken""#, "-"),
    ];
    for (meta, token) in table {
        let (mut session, facts) = (session(), facts());
        let params = format!(r#"{{"name":"echo","_meta":{meta}}}"#);
        assert_eq!(
            asked(&mut session, &facts, &call(&params)),
            format!("call 7 tool 0 {{}} token {token}"),
            "{meta}"
        );
    }
    let (mut session, facts) = (session(), facts());
    let params = format!(r#"{{"name":"echo","_meta":{{"progressToken":{long}}}}}"#);
    let begun = asked(&mut session, &facts, &call(&params));
    assert_eq!(begun, "call 7 tool 0 {} token -");
}

// Covers R-1307.
#[test]
fn an_id_in_flight_cannot_be_used_again_until_its_call_ends() {
    let (mut session, facts) = (session(), facts());
    for (first, second) in [("7", r#""7""#), (r#""x""#, "8")] {
        begin(&mut session, &facts, first);
        let again = format!(
            r#"{{"jsonrpc":"2.0","id":{first},"method":"tools/call","params":{{"name":"echo"}}}}"#
        );
        let text = format!("a request with the id {first} is in flight already");
        assert_eq!(
            reaction(&mut session, &facts, &again),
            error(400, first, -32600, &text.replace('"', "\\\""))
        );
        // A spelling of another type is another id.
        begin(&mut session, &facts, second);
        // What needs no task may have any id.
        let ping = format!(r#"{{"jsonrpc":"2.0","id":{first},"method":"ping"}}"#);
        assert_eq!(reaction(&mut session, &facts, &ping), result(first, "{}"));
        session.finish(&id(first));
        begin(&mut session, &facts, first);
        session.finish(&id(first));
        session.finish(&id(second));
        session.finish(&id(second));
        assert_eq!(session.calls.len(), 0);
    }
}

#[test]
fn another_spelling_of_the_same_text_is_the_same_id() {
    let (mut session, facts) = (session(), facts());
    begin(&mut session, &facts, r#""a""#);
    let again = r#"{"jsonrpc":"2.0","id":"\u0061","method":"tools/call","params":{"name":"echo"}}"#;
    assert!(reaction(&mut session, &facts, again).starts_with("400 "));
    let cancel =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\u0061"}}"#;
    assert!(reaction(&mut session, &facts, cancel).starts_with("cancel "));
    assert_eq!(session.calls.len(), 0);
}

// Covers R-1707.
#[test]
fn a_full_session_says_that_it_is_busy() {
    let facts = facts_with(Limits {
        max_session_calls: 2,
        ..Limits::default()
    });
    let mut session = session();
    begin(&mut session, &facts, "1");
    begin(&mut session, &facts, "2");
    let third = call(r#"{"name":"echo"}"#);
    let refused = format!("busy {}", busy_error("7", "max_session_calls"));
    assert_eq!(asked(&mut session, &facts, &third), refused);
    assert_eq!(session.calls.len(), 2);
    // What is wrong anyway is no matter of room.
    let unknown = asked(&mut session, &facts, &call(r#"{"name":"x"}"#));
    assert_eq!(unknown, error(200, "7", -32602, "unknown tool: x"));
    session.finish(&id("1"));
    assert_eq!(
        asked(&mut session, &facts, &third),
        "call 7 tool 0 {} token -"
    );
}

// Covers R-907.
#[test]
fn a_cancel_stops_the_very_call_and_nothing_else() {
    let (mut session, facts) = (session(), facts());
    begin(&mut session, &facts, "3");
    begin(&mut session, &facts, r#""4""#);
    begin(&mut session, &facts, "5");
    session.finish(&id("5"));
    let cancel =
        |params: &str| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled"{params}}}"#);
    for params in [
        // Unknown, finished, and of the other type.
        r#","params":{"requestId":9}"#,
        r#","params":{"requestId":5}"#,
        r#","params":{"requestId":"3"}"#,
        r#","params":{"requestId":4}"#,
        r#","params":{"requestId":3.0}"#,
        // Without an id.
        "",
        r#","params":null"#,
        r#","params":{}"#,
        r#","params":{"reason":"3"}"#,
        r#","params":{"requestId":null}"#,
        r#","params":{"requestId":[3]}"#,
        r#","params":{"requestId":{"id":3}}"#,
        r#","params":{"requestId":true}"#,
        r#","params":[3]"#,
        r#","params":3"#,
        r#","params":{"requestId":3,"requestId":3}"#,
    ] {
        assert_eq!(
            reaction(&mut session, &facts, &cancel(params)),
            "accept",
            "{params}"
        );
        assert_eq!(session.calls.len(), 2, "{params}");
    }
    let three = cancel(r#","params":{"reason":"user","requestId":3,"_meta":{}}"#);
    assert_eq!(reaction(&mut session, &facts, &three), "cancel 3");
    assert!(!session.calls.contains(&id("3")) && session.calls.contains(&id(r#""4""#)));
    assert_eq!(
        reaction(&mut session, &facts, &three),
        "accept",
        "a second cancel"
    );
    let four = cancel(r#","params":{"requestId":"4"}"#);
    assert_eq!(reaction(&mut session, &facts, &four), r#"cancel "4""#);
    assert_eq!(session.calls.len(), 0);
}

#[test]
fn a_reason_is_for_people_and_may_be_anything() {
    for reason in ["null", "7", "{}", r#""\ud83d""#, "1e999"] {
        let (mut session, facts) = (session(), facts());
        begin(&mut session, &facts, "3");
        let cancel = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":3,"reason":{reason}}}}}"#
        );
        assert_eq!(
            reaction(&mut session, &facts, &cancel),
            "cancel 3",
            "{reason}"
        );
    }
}

// Covers R-408, R-707.
#[test]
fn a_call_is_answered_as_its_session_speaks() {
    let facts = facts();
    let output = ToolOutput::new()
        .structured(serde_json::json!({"n": 1}))
        .failed();
    for (version, expected) in [
        ("2025-03-26", r#"{"content":[],"isError":true}"#),
        (
            "2025-06-18",
            r#"{"content":[],"isError":true,"structuredContent":{"n":1}}"#,
        ),
    ] {
        let mut session = session_of(version);
        let json = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}"#;
        let Reaction::Call(call) = session.handle_message(message(json), None, &facts) else {
            panic!("{version}");
        };
        let body = String::from_utf8(call.reply.result(output.clone())).unwrap();
        assert_eq!(format!("200 {body}"), result("7", expected), "{version}");
    }
}
