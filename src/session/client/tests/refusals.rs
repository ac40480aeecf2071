//! Replies whose status is no success.

use super::*;

fn refused(
    session: &mut ClientSession,
    owner: Owner,
    status: u16,
    authenticate: Option<&str>,
    body: &str,
) -> String {
    assert_eq!(session.handle_head(owner, status, None), Step::Refused);
    match session.handle_refusal(owner, status, authenticate, body) {
        Refusal::Call(event) => told(&event),
        Refusal::Mismatch(event) => format!("list again, else {}", told(&event)),
        Refusal::Noted => "noted".to_owned(),
        Refusal::SessionLost {
            generation, event, ..
        } => {
            format!("lost {generation}, else {}", told(&event))
        }
    }
}

const HTML: &str = "<html><head><title>500 Internal Server Error</title></head></html>";

// Covers R-204, R-1705.
#[test]
fn a_refused_call_says_what_the_server_said() {
    let long = "é".repeat(2_000);
    let cut = "é".repeat(300);
    let table = [
        // status, WWW-Authenticate, body, what the caller sees
        (
            401,
            Some("Bearer resource_metadata=\"https://h/x\""),
            "",
            "the server answered HTTP 401: WWW-Authenticate: Bearer resource_metadata=\"https://h/x\""
                .to_owned(),
        ),
        (
            401,
            Some("Bearer"),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#,
            "the server answered HTTP 401: no (WWW-Authenticate: Bearer)".to_owned(),
        ),
        (
            403,
            None,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not you"}}"#,
            "the server answered HTTP 403: not you".to_owned(),
        ),
        (401, None, "who are you", "the server answered HTTP 401: who are you".to_owned()),
        (403, None, "", "the server answered HTTP 403".to_owned()),
        (500, None, HTML, format!("the server answered HTTP 500: {HTML}")),
        (502, None, &long, format!("the server answered HTTP 502: {cut}")),
        (405, None, "", "the server answered HTTP 405".to_owned()),
        (302, None, "", "the server answered HTTP 302".to_owned()),
        // A JSON-RPC error wins at any status, whatever its id.
        (
            400,
            None,
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"unknown tool"}}"#,
            "the server answered error -32602: unknown tool".to_owned(),
        ),
        (
            500,
            None,
            r#" {"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"boom"}} "#,
            "the server answered error -32603: boom".to_owned(),
        ),
        (
            429,
            None,
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":1,"message":"slow down"}}"#,
            "the server answered error 1: slow down".to_owned(),
        ),
        // JSON that is no such error is shown as it is.
        (
            400,
            None,
            r#"{"error":"invalid_request"}"#,
            r#"the server answered HTTP 400: {"error":"invalid_request"}"#.to_owned(),
        ),
        (
            400,
            None,
            r#"{"jsonrpc":"2.0","id":2,"result":{}}"#,
            r#"the server answered HTTP 400: {"jsonrpc":"2.0","id":2,"result":{}}"#.to_owned(),
        ),
    ];
    for (status, authenticate, body, expected) in table {
        let mut session = opened();
        let id = begin(&mut session, None, start()).call.id;
        let owner = Owner::Request(id);
        assert_eq!(
            refused(&mut session, owner, status, authenticate, body),
            format!("terminal_error alpha/add: {expected}")
        );
        // Only once, and there is nothing else to do about it.
        assert_eq!(
            refused(&mut session, owner, status, authenticate, body),
            "noted"
        );
        session.cancel(id, "user");
        session.handle_end(owner, None);
        assert_eq!(outputs(&mut session), [""; 0], "{status} {body}");

        session.list(Asker::User);
        outputs(&mut session);
        let owner = Owner::Request(id + 1);
        assert_eq!(
            refused(&mut session, owner, status, authenticate, body),
            "noted"
        );
        assert_eq!(
            outputs(&mut session),
            [format!("listed {}: alpha: {expected}", id + 1)]
        );

        let mut session = client();
        session.open(start());
        outputs(&mut session);
        let owner = Owner::Request(1);
        assert_eq!(
            refused(&mut session, owner, status, authenticate, body),
            "noted"
        );
        let told = outputs(&mut session);
        let expected = format!("not opened: alpha: {expected}");
        // What it may mean of an opening stands behind it.
        assert!(
            told.len() == 1 && told[0].starts_with(&expected),
            "{told:?}"
        );
    }
}

#[test]
fn the_error_of_a_refusal_keeps_its_data() {
    let mut session = opened();
    let id = begin(&mut session, None, start()).call.id;
    let body =
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"m","data":{"hint":["a"]}}}"#;
    let refusal = session.handle_refusal(Owner::Request(id), 400, None, body);
    let Refusal::Call(event) = refusal else {
        panic!("{refusal:?}")
    };
    let Some(Error::Rpc { code, data, .. }) = event.error() else {
        panic!("{event:?}")
    };
    assert_eq!(*code, -32602);
    assert_eq!(data.as_deref(), Some(&serde_json::json!({"hint": ["a"]})));
}

// Covers R-1209.
#[test]
fn what_nobody_waits_for_is_only_noted() {
    let mut session = opened();
    assert_eq!(session.handle_head(Owner::Nobody, 500, None), Step::Ignore);
    let refusal = session.handle_refusal(Owner::Nobody, 404, None, "session");
    assert!(matches!(refusal, Refusal::Noted));
    assert_eq!(
        refused(&mut session, Owner::Request(99), 404, None, ""),
        "noted"
    );
    assert_eq!(outputs(&mut session), [""; 0]);
}

// Covers R-202, R-1310, R-1311.
#[test]
fn a_lost_session_is_seen_only_where_its_id_was_sent() {
    let not_found =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
    let table = [
        // status, body, lost
        (404, "", true),
        (404, not_found, true),
        (404, HTML, true),
        (400, "Bad Request: No valid session ID provided", true),
        (400, not_found, true),
        (400, "bad arguments", false),
        (410, "session", false),
        (403, "session", false),
        (500, not_found, false),
    ];
    for (status, body, lost) in table {
        for name in [Some(SESSION), None] {
            let mut session = client();
            open(&mut session, 1, "2025-11-25", name);
            let id = begin(&mut session, None, start()).call.id;
            let seen = refused(&mut session, Owner::Request(id), status, None, body);
            let expected = lost && name.is_some();
            assert_eq!(
                seen.starts_with("lost 1, else terminal_error alpha/add: "),
                expected,
                "{seen}"
            );
            // Its request is over: it is repeated under another id.
            session.handle_end(Owner::Request(id), None);
            assert_eq!(outputs(&mut session), [""; 0]);

            session.list(Asker::User);
            outputs(&mut session);
            assert_eq!(
                refused(&mut session, Owner::Request(id + 1), status, None, body),
                "noted"
            );
            let told = outputs(&mut session);
            assert_eq!(told.len(), 1);
            assert_eq!(told[0].ends_with(" lost 1"), expected, "{told:?}");
        }
    }
}

#[test]
fn requests_of_a_lost_session_know_which_one_it_was() {
    let mut session = opened();
    let early: Vec<i64> = (0..2)
        .map(|_| begin(&mut session, None, start()).call.id)
        .collect();
    let list = session.list(Asker::User);
    outputs(&mut session);
    // The first to learn of it opens again; the second comes while that is under way.
    assert!(refused(&mut session, Owner::Request(early[0]), 404, None, "").starts_with("lost 1,"));
    session.open(start());
    outputs(&mut session);
    assert!(refused(&mut session, Owner::Request(early[1]), 404, None, "").starts_with("lost 1,"));
    // The third comes when it is done, and must not cost the new session.
    session.handle_head(Owner::Request(5), 200, session_id("s-2"));
    answered(&mut session, 5, &initialized("2025-11-25"));
    session.handle_head(Owner::Confirmation, 202, None);
    assert_eq!(outputs(&mut session), ["opened"]);
    refused(&mut session, Owner::Request(list), 404, None, "");
    assert!(outputs(&mut session)[0].ends_with(" lost 1"));
    let late = begin(&mut session, None, start()).call.id;
    assert!(refused(&mut session, Owner::Request(late), 404, None, "").starts_with("lost 2,"));
}
