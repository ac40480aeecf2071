//! A peer without handshake and session: each request says all of itself.

use super::*;
use crate::mcp::param::ParamHeader;

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"hub","version":"0.1.0"}"#;

/// An open connection; its next request has the id 2.
fn discovered(is_shared: bool) -> ClientSession {
    let mut session = client_of(Era::Modern, is_shared, Limits::default());
    session.open(start());
    outputs(&mut session);
    session.handle_head(Owner::Request(1), 200, session_id(SESSION));
    assert_eq!(answered(&mut session, 1, DISCOVERED), ["opened"]);
    session
}

/// The request and the headers that it carries.
fn written(frame: &Frame) -> (String, String) {
    assert_eq!(frame.verb, Verb::Post);
    let mut headers = Vec::new();
    frame
        .head
        .write(|name, value| headers.push(format!("{name}: {value}")));
    let body = std::str::from_utf8(&frame.body).unwrap();
    (body.to_owned(), headers.join(", "))
}

fn sent(session: &mut ClientSession) -> Frame {
    match session.poll_output() {
        Some(Output::Send { frame, .. }) => frame,
        other => panic!("{other:?}"),
    }
}

fn spec<'a>(
    tool: &'a str,
    arguments: &'a RawJson,
    mirrored: &'a [ParamHeader],
    place: &'a Place,
) -> CallSpec<'a> {
    CallSpec {
        tool,
        arguments,
        events: true,
        timeout: None,
        wraps_result: false,
        mirrored,
        state: None,
        place,
    }
}

// Covers R-501, R-1401, R-1402.
#[test]
fn every_request_says_what_it_follows_and_names_no_session() {
    let mut session = discovered(false);
    session.list(Asker::User);
    let (list, headers) = written(&sent(&mut session));
    assert_eq!(
        list,
        format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{{"_meta":{{{META}}}}}}}"#
        )
    );
    assert_eq!(
        headers,
        "mcp-protocol-version: 2026-07-28, mcp-method: tools/list"
    );
    let page = r#""result":{"tools":[],"nextCursor":"p2"}"#;
    session.handle_head(Owner::Request(2), 200, session_id("s-2"));
    session.handle_message(
        &format!(r#"{{"jsonrpc":"2.0","id":2,{page}}}"#).into(),
        Owner::Request(2),
    );
    let (next, headers) = written(&sent(&mut session));
    assert!(
        next.ends_with(&format!(
            r#""params":{{"cursor":"p2","_meta":{{{META}}}}}}}"#
        )),
        "{next}"
    );
    assert_eq!(
        headers,
        "mcp-protocol-version: 2026-07-28, mcp-method: tools/list"
    );
    // the tool, and how it is named in a header
    for (tool, named) in [
        ("add", "add"),
        ("a b", "a b"),
        ("", ""),
        (" ä\n", "=?base64?IMOkCg==?="),
        ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
    ] {
        let (arguments, place) = (RawJson::from_static(r#"{"x":1}"#), place(Some(tool)));
        let start = session
            .call(&spec(tool, &arguments, &[], &place), start())
            .unwrap();
        let (call, headers) = written(&start.frame);
        let (id, name) = (start.call.id, serde_json::json!(tool));
        assert_eq!(
            call,
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":{name},"arguments":{{"x":1}},"_meta":{{"progressToken":{id},{META}}}}}}}"#
            )
        );
        assert_eq!(
            headers,
            format!("mcp-protocol-version: 2026-07-28, mcp-method: tools/call, mcp-name: {named}")
        );
        assert!(session.resume(id, "7".into()).is_none());
    }
    let (id, frame) = session.listen().unwrap();
    let (listen, headers) = written(&frame);
    assert_eq!(
        listen,
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true}},"_meta":{{{META}}}}}}}"#
        )
    );
    assert_eq!(
        headers,
        "mcp-protocol-version: 2026-07-28, mcp-method: subscriptions/listen"
    );
    assert!(session.stream().is_none());
    session.close();
    let left: Vec<String> = outputs(&mut session);
    assert!(!left.iter().any(|left| left.contains(" - ")), "{left:?}");
}

// Covers R-1105.
#[test]
fn a_server_that_asks_something_is_not_answered() {
    for is_shared in [false, true] {
        for method in ["ping", "sampling/createMessage", "roots/list"] {
            let mut session = discovered(is_shared);
            let start = begin(&mut session, None, start());
            let owner = match is_shared {
                true => Owner::Nobody,
                false => Owner::Request(start.call.id),
            };
            let request = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}"}}"#);
            assert_eq!(
                received(&mut session, owner, &request),
                [format!(
                    "warning: skipped a message: the server may not ask for {method:?}"
                )],
            );
            assert!(session.awaits(Owner::Request(start.call.id)));
        }
    }
}

// Covers R-507, R-1108.
#[test]
fn a_result_is_the_end_only_if_it_says_so() {
    let wants =
        "terminal_error alpha/add: the peer broke the protocol: input_required: the server wants";
    let table = [
        // members of the result beside its content, what follows
        ("", r#"call 2: result "hi""#.to_owned()),
        (r#""resultType":"complete","#, r#"call 2: result "hi""#.to_owned()),
        (
            r#""resultType":"complete","requestState":7,"inputRequests":"x","#,
            r#"call 2: result "hi""#.to_owned(),
        ),
        (
            r#""resultType":"input_required","requestState":"s\u0000\ud83d","#,
            format!(r#"returned 2 with "s\u0000\ud83d", else {wants} to be asked again and again"#),
        ),
        (
            r#""resultType":"input_required","requestState":"","inputRequests":{},"#,
            format!(r#"returned 2 with "", else {wants} to be asked again and again"#),
        ),
        (
            r#""resultType":"input_required","requestState":"s","inputRequests":{"a":{"method":"elicitation/create","params":{}},"b":{"method":"roots/list"},"c":{"method":"roots/list"}},"#,
            format!("call 2: {wants} elicitation/create, roots/list, which this client does not offer"),
        ),
        (
            r#""resultType":"input_required","inputRequests":{"a":{"method":7}},"#,
            format!("call 2: {wants} a request without a method, which this client does not offer"),
        ),
        (
            r#""resultType":"input_required","requestState":"s","inputRequests":[1],"#,
            format!("call 2: {wants} something that cannot be read, which this client does not offer"),
        ),
        (
            r#""resultType":"input_required","#,
            format!("call 2: {wants} to be asked again and again"),
        ),
        (
            r#""resultType":"input_required","requestState":7,"#,
            format!("call 2: {wants} to be asked again and again"),
        ),
        (
            r#""resultType":"later","#,
            r#"call 2: terminal_error alpha/add: the peer broke the protocol: a result of the unknown type "later""#.to_owned(),
        ),
        (
            r#""resultType":7,"#,
            "call 2: terminal_error alpha/add: the peer broke the protocol: a result of the unknown type 7".to_owned(),
        ),
    ];
    for (members, expected) in table {
        let mut session = discovered(true);
        begin(&mut session, None, start());
        let result = format!(
            r#"{{"jsonrpc":"2.0","id":2,"result":{{{members}"content":[{{"type":"text","text":"hi"}}]}}}}"#
        );
        assert_eq!(
            received(&mut session, Owner::Nobody, &result),
            [expected],
            "{members}"
        );
        assert_eq!(received(&mut session, Owner::Nobody, &result), [""; 0]);
    }
}

// Covers R-1108.
#[test]
fn what_the_server_wants_back_goes_back_as_it_came() {
    let mut session = discovered(false);
    let (arguments, place) = (RawJson::from_static("{}"), place(Some("add")));
    let again = CallSpec {
        state: Some(r#""s\u0000\ud83d""#),
        events: false,
        ..spec("add", &arguments, &[], &place)
    };
    let start = session.call(&again, start()).unwrap();
    let (body, _) = written(&start.frame);
    let expected = format!(
        r#""params":{{"name":"add","arguments":{{}},"requestState":"s\u0000\ud83d","_meta":{{{META}}}}}}}"#
    );
    assert!(body.ends_with(&expected), "{body}");
}

#[test]
fn a_list_fails_whose_result_is_not_its_end() {
    for (result, expected) in [
        (
            r#"{"tools":[],"resultType":"later"}"#,
            r#"a result of the unknown type "later""#,
        ),
        (
            r#"{"tools":[],"resultType":"input_required","requestState":"s"}"#,
            "input_required: the server wants to be asked again and again",
        ),
    ] {
        let mut session = discovered(false);
        session.list(Asker::User);
        outputs(&mut session);
        assert_eq!(
            answered(&mut session, 2, &format!(r#""result":{result}"#)),
            [format!(
                "listed 2: alpha: the peer broke the protocol: {expected}"
            )]
        );
    }
}

// Covers R-611, R-1410.
#[test]
fn a_tool_that_wants_impossible_headers_is_left_out_and_no_other() {
    let tool = |name: &str, annotation: &str| {
        format!(
            r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{"p":{{"type":"string","x-mcp-header":{annotation}}}}}}}}}"#
        )
    };
    let tools = [
        tool("a", r#""Region""#),
        tool("b", r#""a b""#),
        tool("c", "\"\""),
        r#"{"name":"d"}"#.to_owned(),
    ];
    let page = format!(r#""result":{{"tools":[{}]}}"#, tools.join(","));
    for is_shared in [false, true] {
        let mut session = discovered(is_shared);
        session.list(Asker::User);
        outputs(&mut session);
        let told = answered(&mut session, 2, &page);
        let (list, warnings) = told.split_last().unwrap();
        if is_shared {
            // There are no headers that could be wrong.
            assert_eq!((&**list, warnings.len()), ("listed 2: [a, b, c, d]", 0));
        } else {
            assert_eq!(list, "listed 2: [a, d]");
            let left_out = |name| format!("warning: tool `{name}` is left out: ");
            assert!(warnings[0].starts_with(&left_out("b")), "{warnings:?}");
            assert!(warnings[1].starts_with(&left_out("c")), "{warnings:?}");
            assert_eq!(warnings.len(), 2);
        }
    }
}

// Covers R-1409, R-1411.
#[test]
fn arguments_that_a_tool_names_travel_in_headers_too() {
    let schema = RawJson::from_static(
        r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"o":{"properties":{"deep":{"type":"boolean","x-mcp-header":"Deep"}}}}}"#,
    );
    let mirrored = ParamHeader::read_all(&schema).unwrap();
    let place = place(Some("add"));
    let table = [
        ("{}", ""),
        (
            r#"{"region":"us-west1","n":42,"o":{"deep":true}}"#,
            ", Mcp-Param-Region: us-west1, Mcp-Param-N: 42, Mcp-Param-Deep: true",
        ),
        (
            r#"{"region":"a\tb","n":null,"o":{"deep":"true"}}"#,
            ", Mcp-Param-Region: =?base64?YQli?=",
        ),
    ];
    for (arguments, expected) in table {
        let arguments = RawJson::from_static(arguments);
        let wanted = spec("add", &arguments, &mirrored, &place);
        let call = |session: &mut ClientSession| session.call(&wanted, start()).unwrap();
        let (_, headers) = written(&call(&mut discovered(false)).frame);
        let base = "mcp-protocol-version: 2026-07-28, mcp-method: tools/call, mcp-name: add";
        let sorted = |text: &str| {
            let mut parts: Vec<String> = text.split(", ").map(str::to_lowercase).collect();
            parts.sort();
            parts
        };
        assert_eq!(sorted(&headers), sorted(&format!("{base}{expected}")));
        for mut other in [discovered(true), opened()] {
            let (_, headers) = written(&call(&mut other).frame);
            assert!(!headers.contains("aram"), "{headers}");
        }
    }
}

#[test]
fn headers_that_no_server_would_read_are_an_error_and_nothing_is_sent() {
    let schema = RawJson::from_static(
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"B"}}}"#,
    );
    let mirrored = ParamHeader::read_all(&schema).unwrap();
    let max = Limits::default().max_param_header_bytes;
    let place = place(Some("add"));
    for (length, fits) in [(max - 22, true), (max - 21, false)] {
        let half = "x".repeat(length / 2);
        let rest = "x".repeat(length - length / 2);
        let arguments = serde_json::json!({ "a": half, "b": rest });
        let arguments = RawJson::serialized(&arguments).unwrap();
        let mut session = discovered(false);
        match session.call(&spec("add", &arguments, &mirrored, &place), start()) {
            Ok(_) => assert!(fits, "{length}"),
            Err(e) => {
                assert!(!fits, "{length}");
                let expected =
                    format!("alpha/add: the limit `max_param_header_bytes` of {max} was hit");
                assert_eq!(e.to_string(), expected);
            }
        }
        assert_eq!(session.pending_count(), usize::from(fits));
    }
}

// Covers R-1408.
#[test]
fn only_a_refusal_says_that_the_headers_were_wrong() {
    let refusal = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32020,"message":"no"}}"#;
    let said = "terminal_error alpha/add: the server answered error -32020: no";
    for (mut session, expected) in [
        (discovered(false), format!("list again, else {said}")),
        // A server of the other era by now.
        (opened(), format!("open again, else {said}")),
    ] {
        begin(&mut session, None, start());
        let owner = Owner::Request(2);
        assert_eq!(session.handle_head(owner, 400, None), Step::Refused);
        let shown = match session.handle_refusal(owner, 400, None, refusal) {
            Refusal::Call(event) => told(&event),
            Refusal::Mismatch(event) => format!("list again, else {}", told(&event)),
            Refusal::SessionLost { event, .. } => format!("open again, else {}", told(&event)),
            other => panic!("{other:?}"),
        };
        assert_eq!(shown, expected);
    }
    // An answer of the tool's own, on whatever link.
    for is_shared in [false, true] {
        let mut session = discovered(is_shared);
        begin(&mut session, None, start());
        let told = received(&mut session, Owner::Nobody, refusal);
        assert_eq!(told, [format!("call 2: {said}")]);
    }
}

// Covers R-903, R-904.
#[test]
fn a_call_is_cancelled_by_hanging_up_or_over_a_shared_link_by_a_message() {
    for is_shared in [false, true] {
        let told = |id: i64, reason: &str| match is_shared {
            true => vec![format!(
                r#"POST 2026-07-28 - nobody ends {id}: {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"{reason}"}}}}"#
            )],
            false => vec![],
        };
        let mut session = discovered(is_shared);
        begin(&mut session, None, start());
        session.cancel(2, "user");
        assert_eq!(outputs(&mut session), told(2, "user"));
        begin(&mut session, Some(Duration::from_secs(1)), start());
        session.handle_timeout(start() + Duration::from_secs(2));
        let mut expected = told(3, "timeout");
        expected
            .push("call 3: terminal_error alpha/add: no end within the timeout of 1s".to_owned());
        assert_eq!(outputs(&mut session), expected);
        begin(&mut session, None, start());
        session.close();
        let mut expected = told(4, "closed");
        expected.push("call 4: terminal_error alpha/add: connection closed".to_owned());
        assert_eq!(outputs(&mut session), expected);
    }
}

/// What a subscription is told, `#` being its id, and what comes of it.
fn heard(is_shared: bool, messages: &[&str]) -> Vec<String> {
    let mut session = discovered(is_shared);
    let (id, _) = session.listen().unwrap();
    let owner = match is_shared {
        true => Owner::Nobody,
        false => Owner::Request(id),
    };
    let mut told = Vec::new();
    for message in messages {
        let message = message.replace('#', &id.to_string());
        told.extend(received(&mut session, owner, &message));
    }
    told
}

const ACKNOWLEDGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":#}}}"#;
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":#}}}"#;
const ENDED: &str = r##"{"jsonrpc":"2.0","id":#,"result":{"resultType":"complete"}}"##;

// Covers R-1007, R-1008, R-1009, R-1011.
#[test]
fn a_subscription_is_acknowledged_tells_and_ends() {
    let sloppy = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true}}}"#;
    let nothing = r##"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":"#"}}}"##;
    let called_off =
        r##"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#}}"##;
    let error = |code: i64| {
        format!(r##"{{"jsonrpc":"2.0","id":#,"error":{{"code":{code},"message":"no"}}}}"##)
    };
    let again = "unsubscribed 2, to be asked again";
    let table: [(&str, Vec<&str>, Vec<&str>); 12] = [
        (
            "all that a server says",
            vec![ACKNOWLEDGED, CHANGED, CHANGED, ENDED, CHANGED],
            vec![
                "subscribed",
                "tools changed",
                "tools changed",
                again,
                "tools changed",
            ],
        ),
        (
            "the id as a text",
            vec![&*ACKNOWLEDGED.replace('#', "\"#\"").leak()],
            vec!["subscribed"],
        ),
        ("no id", vec![sloppy, ENDED], vec!["subscribed", again]),
        (
            "another's id",
            vec![ACKNOWLEDGED.replace('#', "7").leak(), ENDED],
            vec!["unsubscribed 2"],
        ),
        (
            "said twice",
            vec![ACKNOWLEDGED, ACKNOWLEDGED],
            vec!["subscribed"],
        ),
        (
            "nothing honoured",
            vec![nothing, ENDED],
            vec!["unsubscribed 2"],
        ),
        (
            "no word before the end",
            vec![ENDED],
            vec!["unsubscribed 2"],
        ),
        (
            "called off",
            vec![ACKNOWLEDGED, called_off, ENDED],
            vec!["subscribed", again],
        ),
        (
            "no such method",
            vec![error(-32601).leak()],
            vec!["unsubscribed 2"],
        ),
        ("too many", vec![error(-32603).leak()], vec![again]),
        ("of the server's own", vec![error(-1).leak()], vec![again]),
        (
            "malformed",
            vec![r##"{"jsonrpc":"2.0","id":#}"##],
            vec![again],
        ),
    ];
    for (case, messages, expected) in &table {
        for is_shared in [false, true] {
            assert_eq!(&heard(is_shared, messages), expected, "{case}, {is_shared}");
        }
    }
}

#[test]
fn a_subscription_that_breaks_or_is_refused_is_asked_for_again_if_that_may_help() {
    let refused = [
        (
            404,
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}"#,
            false,
        ),
        (
            500,
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"no"}}"#,
            true,
        ),
        (
            400,
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no"}}"#,
            false,
        ),
        (405, "", false),
        (404, "", false),
        (401, "", false),
        (503, "<html>", true),
        (429, "", true),
        (200, "<html>", false),
    ];
    for (status, body, again) in refused {
        let mut session = discovered(false);
        session.listen().unwrap();
        let owner = Owner::Request(2);
        session.handle_head(owner, status, None);
        assert!(matches!(
            session.handle_refusal(owner, status, None, body),
            Refusal::Noted
        ));
        let expected = match again {
            true => "unsubscribed 2, to be asked again",
            false => "unsubscribed 2",
        };
        assert_eq!(outputs(&mut session), [expected], "{status} {body}");
    }
    let mut session = discovered(false);
    session.listen().unwrap();
    session.handle_end(Owner::Request(2), None);
    let lost = ["unsubscribed 2, to be asked again"];
    assert_eq!(outputs(&mut session), lost);
    let mut session = discovered(true);
    session.listen().unwrap();
    session.handle_lost(&early_end());
    assert_eq!(outputs(&mut session), lost);
    assert!(session.listen().is_none(), "it is not open");
}

// Covers R-1009, R-1010.
#[test]
fn a_subscription_that_nobody_wants_is_called_off() {
    let cancel = |id: i64, reason: &str| {
        format!(
            r#"POST 2026-07-28 - nobody ends {id}: {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"{reason}"}}}}"#
        )
    };
    for is_shared in [false, true] {
        let mut session = discovered(is_shared);
        let cancels = |cancel: String| match is_shared {
            true => vec![cancel],
            false => vec![],
        };
        session.listen().unwrap();
        session.forget_listen(2);
        assert_eq!(
            outputs(&mut session),
            cancels(cancel(2, "no longer wanted"))
        );
        session.listen().unwrap();
        session.close();
        let mut expected = cancels(cancel(3, "closed"));
        expected.push("unsubscribed 3".to_owned());
        assert_eq!(outputs(&mut session), expected);
    }
    // One whose end may have been missed is called off as well.
    let mut session = discovered(true);
    session.listen().unwrap();
    session.handle_skipped(&early_end());
    let expected = [
        cancel(2, "an answer could not be read"),
        "unsubscribed 2, to be asked again".to_owned(),
    ];
    assert_eq!(outputs(&mut session), expected);
    // A server that tells without being asked, or has said that it never tells.
    assert!(opened().listen().is_none());
    let mut silent = client_of(Era::Modern, true, Limits::default());
    silent.open(start());
    outputs(&mut silent);
    let discovered = DISCOVERED.replace("true", "false");
    assert_eq!(answered(&mut silent, 1, &discovered), ["opened"]);
    assert!(silent.listen().is_none());
}

// Covers R-510.
#[test]
fn a_list_is_good_for_as_long_as_its_shortest_page() {
    let day = 24 * 60 * 60 * 1000;
    let table: &[(&[&str], u64)] = &[
        (&[""], 0),
        (&[r#","ttlMs":60000,"cacheScope":"public""#], 60_000),
        (&[r#","ttlMs":60000,"cacheScope":7"#], 60_000),
        (&[r#","ttlMs":6e4"#], 60_000),
        (&[r#","ttlMs":-1"#], 0),
        (&[r#","ttlMs":1.5"#], 0),
        (&[r#","ttlMs":"60000""#], 0),
        (&[r#","ttlMs":null"#], 0),
        (&[r#","ttlMs":99999999999999999999"#], day),
        (&[r#","ttlMs":1e999"#], 0),
        (
            &[r#","ttlMs":5000"#, r#","ttlMs":3000"#, r#","ttlMs":4000"#],
            3_000,
        ),
        (&[r#","ttlMs":5000"#, ""], 0),
    ];
    for (pages, expected) in table {
        let mut session = discovered(false);
        session.list(Asker::User);
        outputs(&mut session);
        for (nth, page) in pages.iter().enumerate() {
            let more = match nth + 1 < pages.len() {
                true => format!(r#","nextCursor":"{nth}""#),
                false => String::new(),
            };
            let id = i64::try_from(nth).unwrap() + 2;
            let answer =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[]{more}{page}}}}}"#);
            session.handle_message(&answer.into(), Owner::Request(id));
        }
        let list = std::iter::from_fn(|| session.poll_output()).find_map(|output| match output {
            Output::Event(Event::Listed { tools, .. }) => Some(tools.unwrap()),
            _ => None,
        });
        let ttl = list.unwrap().ttl;
        assert_eq!(u128::from(*expected), ttl.as_millis(), "{pages:?}");
    }
    // A server of the handshake era has no such words.
    let mut session = opened();
    session.list(Asker::User);
    outputs(&mut session);
    let answer = r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[],"ttlMs":5000}}"#;
    session.handle_message(&answer.into(), Owner::Request(2));
    let Some(Output::Event(Event::Listed { tools, .. })) = session.poll_output() else {
        panic!("a list");
    };
    assert!(tools.unwrap().ttl.is_zero());
}
