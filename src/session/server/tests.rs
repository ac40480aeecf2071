use bytes::Bytes;

use super::*;
use crate::mcp::era::opening_dialect;
use crate::mcp::types::CacheScope;
use crate::mcp::types::Implementation;
use crate::wire::jsonrpc::Incoming;

mod calls;
mod sequences;

fn facts() -> ServerFacts {
    facts_with(Limits::default())
}

fn facts_with(limits: Limits) -> ServerFacts {
    let info = Implementation {
        name: "alpha".to_owned(),
        version: "1".to_owned(),
    };
    ServerFacts {
        words: Arc::new(ServerWords {
            info,
            instructions: None,
            list_changed: false,
            tools_ttl_ms: 0,
            cache_scope: CacheScope::Public,
        }),
        tools: vec![
            Tool::new("echo").description("says it back"),
            Tool::new("stream").output_schema(serde_json::json!({"type": "array"})),
        ],
        tools_per_page: usize::MAX,
        limits,
    }
}

fn message(json: &str) -> Message {
    match jsonrpc::decode(&Bytes::copy_from_slice(json.as_bytes()), 128) {
        Ok(Incoming::One(message)) => message,
        other => panic!("{json}: {other:?}"),
    }
}

fn id(json: &str) -> RequestId {
    serde_json::from_str(json).unwrap()
}

/// A session that speaks `version`.
fn session_of(version: &str) -> ServerSession {
    let json = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{version}"}}}}"#
    );
    let (session, _) = opened(&json);
    assert!(session.is_open(), "{json}");
    session
}

/// A new session and what it makes of its first message.
fn opened(json: &str) -> (ServerSession, Reaction) {
    let mut session = ServerSession::new(opening_dialect());
    let reaction = session.handle_message(message(json), None, &facts());
    (session, reaction)
}

fn session() -> ServerSession {
    session_of("2025-11-25")
}

/// A reaction on one line.
fn shown(reaction: &Reaction) -> String {
    let text = |body: &[u8]| std::str::from_utf8(body).unwrap().to_owned();
    match reaction {
        Reaction::Accept => "accept".to_owned(),
        Reaction::Answer { status, body } => format!("{status} {}", text(body)),
        Reaction::Busy(body) => format!("busy {}", text(body)),
        Reaction::Call(call) => {
            let token = call
                .token
                .as_ref()
                .map_or_else(|| "-".to_owned(), ToString::to_string);
            let arguments = call.arguments.as_str();
            format!(
                "call {} tool {} {arguments} token {token}",
                call.id, call.tool
            )
        }
        Reaction::Cancel(id) => format!("cancel {id}"),
        Reaction::Listen(listen) => {
            let changed = listen
                .words
                .changed
                .as_deref()
                .map_or_else(|| "-".to_owned(), text);
            let (first, last) = (&listen.words.acknowledged, &listen.words.ended);
            format!(
                "listen {} {} {changed} {}",
                listen.id,
                text(first),
                text(last)
            )
        }
    }
}

/// What a session makes of a message.
fn reaction(session: &mut ServerSession, facts: &ServerFacts, json: &str) -> String {
    shown(&session.handle_message(message(json), None, facts))
}

/// The same for a request whose id is 7.
fn asked(session: &mut ServerSession, facts: &ServerFacts, members: &str) -> String {
    reaction(
        session,
        facts,
        &format!(r#"{{"jsonrpc":"2.0","id":7,{members}}}"#),
    )
}

fn error(status: u16, id: &str, code: i64, message: &str) -> String {
    format!(
        r#"{status} {{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#
    )
}

fn result(id: &str, result: &str) -> String {
    format!(r#"200 {{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Ids as peers write them. Each goes back as it came.
fn ids() -> Vec<String> {
    let long = format!(r#""{}""#, "x".repeat(200));
    [
        r#""1""#,
        r#""init-1""#,
        r#""""#,
        "0",
        "-5",
        "4294967296",
        "9007199254740993",
        "9223372036854775807",
        r#""\u00e9\n\"\/""#,
        &long,
    ]
    .map(str::to_owned)
    .to_vec()
}

// Covers R-402, R-409, R-512, R-1804.
#[test]
fn a_session_opens_with_the_version_that_was_asked_for() {
    let table = [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ];
    for (asked, spoken) in table {
        let json = format!(
            r#"{{"jsonrpc":"2.0","id":"i","method":"initialize","params":{{"protocolVersion":"{asked}","capabilities":{{"extensions":{{"a/b":{{}}}},"sampling":7,"new":[]}},"x":1}}}}"#
        );
        let (session, reaction) = opened(&json);
        let expected = format!(
            r#"{{"jsonrpc":"2.0","id":"i","result":{{"capabilities":{{"tools":{{}}}},"protocolVersion":"{spoken}","serverInfo":{{"name":"alpha","version":"1"}}}}}}"#
        );
        assert_eq!(shown(&reaction), format!("200 {expected}"), "{asked}");
        assert!(session.is_open() && session.calls.is_empty(), "{asked}");
    }
}

// Covers R-107, R-402.
#[test]
fn an_opening_without_a_version_is_refused() {
    let table = [
        ("", "invalid params: missing field `protocolVersion`"),
        (
            r#","params":null"#,
            "invalid params: missing field `protocolVersion`",
        ),
        (
            r#","params":{"protocolVersion":7}"#,
            "invalid params: `protocolVersion`: invalid type: integer `7`, expected a string",
        ),
        (r#","params":["2025-11-25"]"#, "`params` is not an object"),
        (r#","params":"2025-11-25""#, "`params` is not an object"),
    ];
    for (params, text) in table {
        for id in ids() {
            let json = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize"{params}}}"#);
            let (session, refused) = opened(&json);
            assert_eq!(shown(&refused), error(200, &id, -32602, text), "{params}");
            assert!(!session.is_open(), "{params}");
        }
    }
}

// Covers R-406.
#[test]
fn a_second_initialize_is_refused_and_changes_nothing() {
    let (mut session, facts) = (session_of("2024-11-05"), facts());
    let again = r#""method":"initialize","params":{"protocolVersion":"2025-11-25"}"#;
    assert_eq!(
        asked(&mut session, &facts, again),
        error(400, "7", -32600, "the session is open already")
    );
    assert!(matches!(session.phase, Phase::Open(version) if version.as_str() == "2024-11-05"));
    assert_eq!(
        asked(&mut session, &facts, r#""method":"ping""#),
        result("7", "{}")
    );
}

// Covers R-101, R-104.
#[test]
fn every_request_is_answered_under_its_own_id() {
    let (mut session, facts) = (session(), facts());
    let method =
        |method: &str, id: &str| format!(r#"{{"method":"{method}","id":{id},"jsonrpc":"2.0"}}"#);
    for id in ids() {
        assert_eq!(
            reaction(&mut session, &facts, &method("ping", &id)),
            result(&id, "{}")
        );
        assert_eq!(
            reaction(&mut session, &facts, &method("no/such", &id)),
            error(200, &id, -32601, "method not found: no/such")
        );
        assert_eq!(
            reaction(&mut session, &facts, &method("initialize", &id)),
            error(400, &id, -32600, "the session is open already")
        );
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo"}}}}"#
        );
        let Reaction::Call(call) = session.handle_message(message(&call), None, &facts) else {
            panic!("{id}");
        };
        let output = ToolOutput::new();
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#);
        assert_eq!(
            String::from_utf8(call.reply.result(output)).unwrap(),
            expected
        );
        let (status, body) = call.reply.error(&ErrorObject::new(Code::INTERNAL, "boom"));
        let body = String::from_utf8(body).unwrap();
        assert_eq!(format!("{status} {body}"), error(200, &id, -32603, "boom"));
        assert_eq!(
            String::from_utf8(busy(&call.id, "max_calls")).unwrap(),
            busy_error(&id, "max_calls")
        );
        session.finish(&call.id);
    }
}

/// The response of a server without room.
fn busy_error(id: &str, limit: &str) -> String {
    let plain = &error(0, id, -32603, "server busy")[2..];
    plain.replace(
        "busy\"}",
        &format!(r#"busy","data":{{"limit":"{limit}"}}}}"#),
    )
}

// Covers R-107, R-411.
#[test]
fn a_ping_is_answered_unless_its_params_are_none() {
    let (mut session, facts) = (session(), facts());
    let pong = result("7", "{}");
    let odd = error(200, "7", -32602, "`params` is not an object");
    for (params, answer) in [
        ("", &pong),
        (r#","params":{}"#, &pong),
        (r#","params":{"x":[]}"#, &pong),
        (r#","params":null"#, &pong),
        (r#","params":[1]"#, &odd),
        (r#","params":7"#, &odd),
    ] {
        let ping = format!(r#""method":"ping"{params}"#);
        assert_eq!(&asked(&mut session, &facts, &ping), answer, "{params}");
    }
}

// Covers R-411.
#[test]
fn before_a_session_is_open_there_is_only_ping() {
    let closed = "the session is not open: send initialize first, or say in _meta which protocol \
                  version the request follows";
    for (method, expected) in [
        ("ping", result("7", "{}")),
        ("tools/list", error(200, "7", -32602, closed)),
        ("tools/call", error(200, "7", -32602, closed)),
        (
            "tools/lists",
            error(200, "7", -32601, "method not found: tools/lists"),
        ),
    ] {
        let (session, reaction) = opened(&format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{method}"}}"#
        ));
        assert_eq!(shown(&reaction), expected, "{method}");
        assert!(!session.is_open(), "{method}");
    }
}

// Covers R-201, R-1801.
#[test]
fn an_unknown_method_is_named_but_not_at_any_length() {
    let (mut session, facts) = (session(), facts());
    let long = "é".repeat(1000);
    let cut = "é".repeat(200);
    for (method, named) in [
        (r"tools\/lists", "tools/lists"),
        ("Ping", "Ping"),
        ("", ""),
        ("notifications/cancelled", "notifications/cancelled"),
        ("rpc.discover", "rpc.discover"),
        (&long, &cut),
    ] {
        assert_eq!(
            asked(&mut session, &facts, &format!(r#""method":"{method}""#)),
            error(200, "7", -32601, &format!("method not found: {named}")),
        );
    }
}

// Covers R-108, R-808.
#[test]
fn notifications_are_never_answered() {
    let (mut session, facts) = (session(), facts());
    for note in [
        "notifications/initialized",
        "notifications/roots/list_changed",
        "notifications/progress",
        "notifications/unheard-of",
        "ping",
        "tools/call",
        "initialize",
        "",
    ] {
        for params in [
            "",
            r#","params":null"#,
            r#","params":[]"#,
            r#","params":{"name":"echo"}"#,
        ] {
            let json = format!(r#"{{"jsonrpc":"2.0","method":"{note}"{params}}}"#);
            assert_eq!(reaction(&mut session, &facts, &json), "accept", "{json}");
        }
    }
    assert_eq!(session.calls.len(), 0);
}

// Covers R-1106.
#[test]
fn answers_of_the_client_have_no_effect_and_malformed_ones_are_refused() {
    let (mut session, facts) = (session(), facts());
    let table = [
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            "accept".to_owned(),
        ),
        (
            r#"{"jsonrpc":"2.0","id":"x","result":null}"#,
            "accept".to_owned(),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#,
            "accept".to_owned(),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1}"#,
            error(400, "1", -32600, "neither a `result` nor an `error`"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":"boom"}"#,
            error(400, "null", -32600, "an `error` that is no object"),
        ),
    ];
    for (json, expected) in table {
        assert_eq!(reaction(&mut session, &facts, json), expected, "{json}");
    }
}

// Covers R-111, R-512, R-602, R-603, R-604, R-606.
#[test]
fn the_tools_are_listed_in_order_and_on_one_page() {
    let facts = facts();
    let echo = r#"{"name":"echo","description":"says it back","inputSchema":{"type":"object"}}"#;
    // An output schema of another type than object is nothing for these revisions.
    let stream = r#"{"name":"stream","description":"","inputSchema":{"type":"object"}}"#;
    let all = result("7", &format!(r#"{{"tools":[{echo},{stream}]}}"#));
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut session = session_of(version);
        for params in [
            "",
            r#","params":{}"#,
            r#","params":null"#,
            r#","params":{"cursor":null}"#,
            r#","params":{"x":1}"#,
        ] {
            let list = format!(r#""method":"tools/list"{params}"#);
            assert_eq!(
                asked(&mut session, &facts, &list),
                all,
                "{version} {params}"
            );
        }
    }
    let (mut session, mut facts) = (session(), facts);
    for (params, text) in [
        (r#"{"cursor":""}"#, "unknown cursor"),
        (r#"{"cursor":"p2"}"#, "unknown cursor"),
        (
            r#"{"cursor":7}"#,
            "invalid params: `cursor`: invalid type: integer `7`, expected a string",
        ),
        ("[]", "`params` is not an object"),
        ("7", "`params` is not an object"),
    ] {
        let list = format!(r#""method":"tools/list","params":{params}"#);
        assert_eq!(
            asked(&mut session, &facts, &list),
            error(200, "7", -32602, text)
        );
    }
    facts.tools_per_page = 1;
    for (params, page) in [
        (
            "{}",
            format!(r#"{{"tools":[{echo}],"nextCursor":"stream"}}"#),
        ),
        (
            r#"{"cursor":"echo"}"#,
            format!(r#"{{"tools":[{echo}],"nextCursor":"stream"}}"#),
        ),
        (
            r#"{"cursor":"stream"}"#,
            format!(r#"{{"tools":[{stream}]}}"#),
        ),
    ] {
        let list = format!(r#""method":"tools/list","params":{params}"#);
        assert_eq!(
            asked(&mut session, &facts, &list),
            result("7", &page),
            "{params}"
        );
    }
    facts.tools.clear();
    let none = asked(&mut session, &facts, r#""method":"tools/list""#);
    assert_eq!(none, result("7", r#"{"tools":[]}"#));
}
