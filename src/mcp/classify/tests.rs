use bytes::Bytes;

use super::*;
use crate::wire::jsonrpc;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn incoming(body: &str) -> Incoming {
    jsonrpc::decode(&Bytes::copy_from_slice(body.as_bytes()), 128).unwrap()
}

/// Reads `Name: value` lines as a server would.
fn head(lines: &[&str]) -> Head {
    let fields: Vec<_> = lines
        .iter()
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_lowercase(), value)
        })
        .collect();
    Head::read(fields.iter().map(|(name, value)| (&**name, *value)))
}

fn refused(rejection: &Rejection) -> String {
    let id = rejection
        .id
        .as_ref()
        .map_or_else(|| "null".to_owned(), ToString::to_string);
    format!("{} {} id {id}", rejection.status, rejection.error.code.0)
}

fn routed(lines: &[&str], body: &str) -> String {
    match classify(&head(lines), &incoming(body)) {
        Ok(Route::Open(_)) => "open".to_owned(),
        Ok(Route::Nowhere) => "nowhere".to_owned(),
        Ok(Route::Stated(stated)) => format!("stated {}", stated.version),
        Ok(Route::Session(id)) => format!("session {}", id.as_str()),
        Err(rejection) => refused(&rejection),
    }
}

const V11: &str = "MCP-Protocol-Version: 2025-11-25";
const V26: &str = "MCP-Protocol-Version: 2026-07-28";
const V19: &str = "MCP-Protocol-Version: 1999-01-01";
const SESSION: &str = "Mcp-Session-Id: a";

// Covers R-311, R-312, R-313, R-1106, R-1302, R-1305, R-1405.
#[test]
fn what_says_nothing_of_itself_goes_where_its_head_says() {
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}"#;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let response = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
    let batch = r#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#;
    let table: &[(&str, &[&str], &str)] = &[
        (initialize, &[], "open"),
        (initialize, &[V11], "open"),
        (initialize, &[V26], "open"),
        (initialize, &[V19], "open"),
        (initialize, &[SESSION], "session a"),
        (initialize, &[SESSION, V26], "400 -32602 id 1"),
        (ping, &[], "open"),
        (ping, &[V11], "open"),
        (ping, &[V26], "400 -32602 id \"p\""),
        (ping, &[V19], "400 -32602 id \"p\""),
        (ping, &[SESSION], "session a"),
        (call, &[SESSION], "session a"),
        (call, &[SESSION, V11], "session a"),
        (call, &[SESSION, V11, V11], "session a"),
        (call, &[SESSION, SESSION, V11], "session a"),
        (call, &[SESSION, "MCP-Protocol-Version:"], "session a"),
        (
            call,
            &[SESSION, "MCP-Protocol-Version: 2024-11-05"],
            "session a",
        ),
        (call, &[SESSION, V26], "400 -32602 id 2"),
        (call, &[SESSION, V19], "400 -32602 id 2"),
        (
            call,
            &[SESSION, "MCP-Protocol-Version: 2025-11-25x"],
            "400 -32602 id 2",
        ),
        (call, &[SESSION, V11, V26], "400 -32600 id 2"),
        (call, &[SESSION, "Mcp-Session-Id: b"], "400 -32600 id 2"),
        (call, &["Mcp-Session-Id: a b"], "session -"),
        (call, &[], "400 -32600 id 2"),
        (call, &[V11], "400 -32600 id 2"),
        (call, &[V26], "400 -32602 id 2"),
        (call, &[V26, V26], "400 -32602 id 2"),
        (note, &[], "400 -32600 id null"),
        (note, &[SESSION], "session a"),
        (note, &[V26], "nowhere"),
        (note, &[V26, SESSION], "nowhere"),
        (note, &[V19], "400 -32602 id null"),
        (response, &[SESSION], "session a"),
        (response, &[V26], "400 -32600 id null"),
        (response, &[V26, SESSION], "400 -32600 id null"),
        (batch, &[SESSION], "session a"),
        (batch, &[V26], "400 -32600 id null"),
        (batch, &[V26, SESSION], "400 -32600 id null"),
        ("[1]", &[], "400 -32600 id null"),
    ];
    for (body, lines, expected) in table {
        assert_eq!(routed(lines, body), *expected, "{body} {lines:?}");
    }
}

/// A request that says of itself what follows, whose id is 9.
fn saying(method: &str, meta: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{method}","params":{{"_meta":{meta}}}}}"#)
}

// Covers R-311, R-313, R-315, R-502, R-503, R-1403, R-1404.
#[test]
fn what_a_request_says_of_itself_is_checked_in_order() {
    const METHOD: &str = "Mcp-Method: tools/list";
    let version = r#""io.modelcontextprotocol/protocolVersion""#;
    let capabilities = r#""io.modelcontextprotocol/clientCapabilities""#;
    let known = format!(r#"{version}:"2026-07-28""#);
    let able = format!("{capabilities}:{{}}");
    let missing = "400 -32602 id 9";
    let differs = "400 -32020 id 9";
    let table: &[(String, &[&str], &str)] = &[
        // Nothing is said of the version: the head decides.
        (format!("{{{able}}}"), &[], "400 -32600 id 9"),
        (format!("{{{able}}}"), &[SESSION], "session a"),
        (format!("{{{able}}}"), &[V26, METHOD], missing),
        ("{}".to_owned(), &[V26, METHOD], missing),
        ("null".to_owned(), &[V26, METHOD], missing),
        (r#""text""#.to_owned(), &[V26, METHOD], missing),
        (r#"["2026-07-28",{}]"#.to_owned(), &[SESSION], "session a"),
        // It is said badly, whatever the head says.
        (format!("{{{version}:null,{able}}}"), &[SESSION], missing),
        (format!("{{{version}:1,{able}}}"), &[V26, METHOD], missing),
        (format!("{{{version}:[],{able}}}"), &[], missing),
        (
            format!(r#"{{{version}:"2026-07-28",{known},{able}}}"#),
            &[V26, METHOD],
            missing,
        ),
        (format!("{{{known}}}"), &[V26, METHOD], missing),
        (format!("{{{known}}}"), &[SESSION], missing),
        (
            format!("{{{known},{capabilities}:null}}"),
            &[V26, METHOD],
            missing,
        ),
        (
            format!("{{{known},{capabilities}:[]}}"),
            &[V26, METHOD],
            missing,
        ),
        (
            format!(r#"{{{known},{capabilities}:"{{}}"}}"#),
            &[V26, METHOD],
            missing,
        ),
        // It is said well, and the head has to agree.
        (
            format!("{{{known},{able}}}"),
            &[V26, METHOD],
            "stated 2026-07-28",
        ),
        (
            format!("{{ {able} , {known} }}"),
            &["mcp-protocol-version: 2026-07-28 ", "MCP-METHOD:tools/list"],
            "stated 2026-07-28",
        ),
        (
            // A client's name is for show.
            format!(r#"{{{known},{able},"io.modelcontextprotocol/clientInfo":7}}"#),
            &[V26, METHOD],
            "stated 2026-07-28",
        ),
        (
            format!("{{{known},{able}}}"),
            &[
                V26,
                METHOD,
                SESSION,
                "Mcp-Session-Id: b",
                "Last-Event-ID: 1",
            ],
            "stated 2026-07-28",
        ),
        (format!("{{{known},{able}}}"), &[], differs),
        (format!("{{{known},{able}}}"), &[SESSION], differs),
        (format!("{{{known},{able}}}"), &[METHOD], differs),
        (format!("{{{known},{able}}}"), &[V11, METHOD], differs),
        (format!("{{{known},{able}}}"), &[V26, V26, METHOD], differs),
        (format!("{{{known},{able}}}"), &[V26, V11, METHOD], differs),
        (
            format!("{{{known},{able}}}"),
            &["MCP-Protocol-Version: \u{fffd}", METHOD],
            differs,
        ),
        (format!("{{{known},{able}}}"), &[V26], differs),
        (
            format!("{{{known},{able}}}"),
            &[V26, "Mcp-Method:"],
            differs,
        ),
        (
            format!("{{{known},{able}}}"),
            &[V26, "Mcp-Method: Tools/List"],
            differs,
        ),
        (
            format!("{{{known},{able}}}"),
            &[V26, METHOD, METHOD],
            differs,
        ),
        (
            format!("{{{known},{able}}}"),
            &[V26, "Mcp-Method: tools/call"],
            differs,
        ),
        // They agree on something that is not spoken here.
        (
            format!(r#"{{{version}:"1999-01-01",{able}}}"#),
            &[V19, METHOD],
            "400 -32022 id 9",
        ),
        (
            format!(r#"{{{version}:"1999-01-01",{able}}}"#),
            &[V26, METHOD],
            differs,
        ),
        (
            format!(r#"{{{version}:"2025-11-25",{able}}}"#),
            &[V11, METHOD],
            "400 -32022 id 9",
        ),
        (
            format!(r#"{{{version}:"2025-11-25",{able}}}"#),
            &[V11, METHOD, SESSION],
            "400 -32022 id 9",
        ),
        (
            format!(r#"{{{version}:"DRAFT-2026-v1",{able}}}"#),
            &["MCP-Protocol-Version: DRAFT-2026-v1", METHOD],
            "400 -32022 id 9",
        ),
        (
            format!(r#"{{{version}:"",{able}}}"#),
            &["MCP-Protocol-Version:", METHOD],
            differs,
        ),
    ];
    for (meta, lines, expected) in table {
        let body = saying("tools/list", meta);
        assert_eq!(routed(lines, &body), *expected, "{body} {lines:?}");
    }
}

// Covers R-311, R-313, R-412, R-513.
#[test]
fn no_method_is_special_in_a_request_that_says_what_it_follows() {
    for method in ["initialize", "ping", "server/discover", "no/such"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{META}}}}}"#);
        let name = format!("Mcp-Method: {method}");
        assert_eq!(routed(&[V26, &name], &body), "stated 2026-07-28", "{body}");
    }
}

// Covers R-1214, R-1404.
#[test]
fn the_name_in_the_head_is_the_one_in_the_body() {
    let good = "stated 2026-07-28";
    let differs = "400 -32020 id 1";
    let call = |name: &str| (r#"tools/call"#, format!(r#""name":{name},"#));
    let table: &[((&str, String), &[&str], &str)] = &[
        (call(r#""x""#), &["Mcp-Name: x"], good),
        (call(r#""x""#), &["Mcp-Name:   x  "], good),
        (call(r#""\u0078""#), &["mcp-name:x"], good),
        (call(r#""x""#), &["Mcp-Name: =?base64?eA==?="], good),
        (call(r#""世界""#), &["Mcp-Name: =?base64?5LiW55WM?="], good),
        (call(r#""""#), &["Mcp-Name:"], good),
        (call(r#""""#), &["Mcp-Name: =?base64??="], good),
        (call(r#""x""#), &[], differs),
        (call(r#""x""#), &["Mcp-Name:"], differs),
        (call(r#""x""#), &["Mcp-Name: X"], differs),
        (call(r#""x""#), &["Mcp-Name: y"], differs),
        (call(r#""x""#), &["Mcp-Name: x", "Mcp-Name: x"], differs),
        (call(r#""x""#), &["Mcp-Name: =?base64?eA=?="], differs),
        (call(r#""x""#), &["Mcp-Name: =?BASE64?eA==?="], differs),
        (call(r#""x""#), &["Mcp-Name: \u{fffd}"], differs),
        // Whoever has none, or an odd one, is told so with the parameters.
        (call("7"), &["Mcp-Name: 7"], good),
        (("tools/call", String::new()), &["Mcp-Name: x"], good),
        (("tools/list", String::new()), &["Mcp-Name: x"], good),
        (
            ("prompts/get", r#""name":"p","#.to_owned()),
            &["Mcp-Name: p"],
            good,
        ),
        (("prompts/get", r#""name":"p","#.to_owned()), &[], differs),
        (
            (
                "resources/read",
                r#""uri":"file:///a","name":"b","#.to_owned(),
            ),
            &["Mcp-Name: file:///a"],
            good,
        ),
        (
            (
                "resources/read",
                r#""uri":"file:///a","name":"b","#.to_owned(),
            ),
            &["Mcp-Name: b"],
            differs,
        ),
        // What stands twice cannot be made out.
        (
            ("tools/call", r#""name":"x","name":"x","#.to_owned()),
            &["Mcp-Name: x"],
            "400 -32602 id 1",
        ),
        (
            ("tools/call", format!(r#""name":"x",{META},"#)),
            &["Mcp-Name: x"],
            "400 -32602 id 1",
        ),
    ];
    for ((method, members), lines, expected) in table {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{members}{META}}}}}"#
        );
        let method = format!("Mcp-Method: {method}");
        let lines = [&[V26, &*method], *lines].concat();
        assert_eq!(routed(&lines, &body), *expected, "{body} {lines:?}");
    }
}

// Covers R-1405.
#[test]
fn a_notification_that_says_what_it_follows_goes_nowhere() {
    for method in ["notifications/cancelled", "notifications/initialized", "x"] {
        let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{META}}}}}"#);
        let name = format!("Mcp-Method: {method}");
        for lines in [&[][..], &[SESSION, V11], &[V26, &name], &[V19]] {
            assert_eq!(routed(lines, &body), "nowhere", "{body} {lines:?}");
        }
    }
}

// Covers R-314, R-503.
#[test]
fn a_version_that_is_not_spoken_is_answered_with_those_that_are() {
    let long = "é".repeat(5000);
    for (asked, shown) in [("1999-01-01", "1999-01-01"), (&*long, &*"é".repeat(100))] {
        let meta = META.replace("2026-07-28", asked);
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{{meta}}}}}"#);
        let Incoming::One(message) = incoming(&body) else {
            panic!("one message");
        };
        let rejection = classify_line(&message).unwrap_err();
        let data: serde_json::Value = rejection.error.data.unwrap().deserialize().unwrap();
        let expected = serde_json::json!({ "supported": ["2026-07-28"], "requested": shown });
        assert_eq!(data, expected);
    }
}

// Covers R-311, R-317.
#[test]
fn over_lines_there_is_no_head_to_agree_with() {
    let table = [
        (
            saying("tools/list", &format!("{{{}}}", &META[9..META.len() - 1])),
            "stated",
        ),
        (saying("tools/list", "{}"), "plain"),
        (saying("tools/list", "[]"), "plain"),
        (
            saying(
                "tools/list",
                r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#,
            ),
            "400 -32602 id 9",
        ),
        (
            saying(
                "tools/list",
                r#"{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}"#,
            ),
            "400 -32022 id 9",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[]}"#.to_owned(),
            "plain",
        ),
        (
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":1,{META}}}}}"#
            ),
            "plain",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(),
            "plain",
        ),
    ];
    for (body, expected) in table {
        let Incoming::One(message) = incoming(&body) else {
            panic!("one message");
        };
        let seen = match classify_line(&message) {
            Ok(Some(stated)) => {
                assert!(stated.params.is_none(), "{body}");
                "stated".to_owned()
            }
            Ok(None) => "plain".to_owned(),
            Err(rejection) => refused(&rejection),
        };
        assert_eq!(seen, expected, "{body}");
    }
}

#[test]
fn a_capability_is_declared_by_an_object() {
    let declared = r#"{"sampling":{},"roots":null,"elicitation":true,"a":{"b":{}}}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{{}}}}}"#,
        META.replace("{}", declared)
    );
    let Incoming::One(message) = incoming(&body) else {
        panic!("one message");
    };
    let stated = classify_line(&message).unwrap().unwrap();
    let table = [
        ("sampling", true),
        ("roots", false),
        ("elicitation", false),
        ("tasks", false),
        ("a", true),
        ("b", false),
    ];
    for (name, expected) in table {
        let needed = ["sampling".to_owned(), name.to_owned()];
        assert_eq!(stated.lacks(&needed).is_none(), expected, "{name}");
    }
    assert_eq!(stated.lacks(&[]), None);
}

// Covers R-1403.
#[test]
fn a_verb_other_than_post_is_about_a_session() {
    let table: &[(&[&str], &str)] = &[
        (&[], "400 -32600 id null"),
        (&[V11], "400 -32600 id null"),
        (&[SESSION], "a"),
        (&[SESSION, V11], "a"),
        (&[SESSION, V11, V11], "a"),
        (&[SESSION, SESSION], "a"),
        (&[SESSION, V19], "400 -32602 id null"),
        (&[SESSION, V26], "405 -32600 id null"),
        (&[V26], "405 -32600 id null"),
        (&[V26, V26], "405 -32600 id null"),
        (&[SESSION, V11, V26], "400 -32600 id null"),
        (&[SESSION, "Mcp-Session-Id: b"], "400 -32600 id null"),
    ];
    for (lines, expected) in table {
        let head = head(lines);
        let seen = match classify_verb(&head) {
            Ok(id) => id.as_str().to_owned(),
            Err(rejection) => refused(&rejection),
        };
        assert_eq!(seen, *expected, "{lines:?}");
    }
}
