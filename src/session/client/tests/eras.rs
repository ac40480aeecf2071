//! Finding out what the peer speaks, and noticing that it has changed.

use super::*;

const QUESTION: &str = r#""method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"hub","version":"0.1.0"}}}}"#;
const HANDSHAKE: &str = r#""method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"hub","version":"0.1.0"},"protocolVersion":"2025-11-25"}}"#;
const DISCOVERED: &str =
    r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;

fn asked(id: i64) -> String {
    format!(r#"POST 2026-07-28 - request {id}: {{"jsonrpc":"2.0","id":{id},{QUESTION}"#)
}

fn offered(id: i64) -> String {
    format!(r#"POST - - request {id}: {{"jsonrpc":"2.0","id":{id},{HANDSHAKE}"#)
}

fn unsure(is_shared: bool, change: impl FnOnce(&mut Limits)) -> ClientSession {
    let mut limits = Limits::default();
    change(&mut limits);
    let info = Implementation {
        name: "hub".to_owned(),
        version: "0.1.0".to_owned(),
    };
    let negotiation = Negotiation::new(Era::Auto, None);
    ClientSession::new(info, place(None), limits, is_shared, negotiation)
}

/// A session that has just asked, with the request 1.
fn asking(is_shared: bool) -> ClientSession {
    let mut session = unsure(is_shared, |_| {});
    session.open(start());
    assert_eq!(outputs(&mut session), [asked(1)]);
    session
}

/// An open stateless connection; its next request has the id 2.
fn stateless() -> ClientSession {
    let mut session = asking(false);
    session.handle_head(Owner::Request(1), 200, None);
    assert_eq!(answered(&mut session, 1, DISCOVERED), ["opened"]);
    session
}

#[test]
fn the_last_session_stays_a_secret_where_there_are_none() {
    const UNKNOWN: &str = r#""error":{"code":-32601,"message":"no"}"#;
    let mut session = asking(false);
    answered(&mut session, 1, UNKNOWN);
    session.handle_head(Owner::Request(2), 200, session_id(SESSION));
    answered(&mut session, 2, &initialized("2025-11-25"));
    session.handle_head(Owner::Confirmation, 202, None);
    assert_eq!(outputs(&mut session), ["opened"]);
    session.open(start());
    answered(&mut session, 3, UNKNOWN);
    assert_eq!(answered(&mut session, 4, DISCOVERED)[0], "opened");
    assert_eq!(session.opened().unwrap().version.as_str(), "2026-07-28");
    assert_eq!(session.last_session(), session_id(SESSION).as_ref());
}

// Covers R-302, R-306.
#[test]
fn an_answer_opens_at_once_and_its_session_counts_for_nothing() {
    for is_shared in [false, true] {
        let mut session = asking(is_shared);
        session.handle_head(Owner::Request(1), 200, session_id(SESSION));
        for early in [
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}"#,
            r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        ] {
            assert_eq!(
                received(&mut session, Owner::Request(1), early),
                [""; 0],
                "{early}"
            );
        }
        assert_eq!(answered(&mut session, 1, DISCOVERED), ["opened"]);
        assert_eq!(session.opened().unwrap().version.as_str(), "2026-07-28");
        session.list(Asker::User);
        let list = outputs(&mut session).remove(0);
        assert!(list.starts_with("POST 2026-07-28 - request 2: "), "{list}");
        session.close();
        let told = outputs(&mut session);
        assert!(
            !told.iter().any(|told| told.starts_with("DELETE")),
            "{told:?}"
        );
    }
}

// Covers R-304, R-305.
#[test]
fn silence_is_waited_for_so_long_and_never_cancelled() {
    let table = [
        (30_000, 5_000, 5_000),
        (8_000, 5_000, 4_000),
        (30_000, 700, 700),
    ];
    for is_shared in [false, true] {
        for (connect, discover, after) in table {
            let mut session = unsure(is_shared, |limits| {
                limits.connect_timeout = Duration::from_millis(connect);
                limits.discover_timeout = Duration::from_millis(discover);
            });
            let begun = start();
            session.open(begun);
            outputs(&mut session);
            let due = begun + Duration::from_millis(after);
            assert_eq!(session.poll_timeout(), Some(due), "{connect} {discover}");
            session.handle_timeout(due - Duration::from_millis(1));
            assert_eq!(outputs(&mut session), [""; 0]);
            session.handle_timeout(due);
            assert_eq!(outputs(&mut session), [offered(2)], "no cancel");
            assert_eq!(session.poll_timeout(), None);
            // Whatever comes for it now comes too late.
            for late in [DISCOVERED, r#""error":{"code":-32601,"message":"late"}"#] {
                assert_eq!(answered(&mut session, 1, late), [""; 0], "{late}");
            }
            let stray = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"late"}}"#;
            for owner in [Owner::Request(1), Owner::Nobody] {
                assert_eq!(received(&mut session, owner, stray), [""; 0]);
            }
            session.handle_end(Owner::Request(1), None);
            assert_eq!(outputs(&mut session), [""; 0]);
            let told = answered(&mut session, 2, &initialized("2025-11-25"));
            assert!(told[0].contains("notifications/initialized"), "{told:?}");
        }
    }
}

#[test]
fn a_question_that_is_repeated_has_no_more_time() {
    let mut session = asking(false);
    let due = session.poll_timeout();
    session.handle_head(Owner::Request(1), 400, session_id(SESSION));
    let again = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"v","data":{"supported":["2026-07-28"]}}}"#;
    session.handle_refusal(Owner::Request(1), 400, None, again);
    assert_eq!(outputs(&mut session), [asked(2)]);
    assert_eq!(session.poll_timeout(), due);
    session.handle_timeout(due.unwrap());
    assert_eq!(outputs(&mut session), [offered(3)]);
}

// Covers R-302.
#[test]
fn a_reply_without_an_answer_is_one_and_no_reply_is_none() {
    for error in [None, Some(Error::transport("reset"))] {
        let mut session = asking(false);
        session.handle_head(Owner::Request(1), 202, None);
        session.handle_end(Owner::Request(1), error.clone());
        assert_eq!(outputs(&mut session), [offered(2)]);
        let mut session = asking(false);
        session.handle_end(Owner::Request(1), error);
        let told = outputs(&mut session);
        assert!(
            told.len() == 1 && told[0].starts_with("not opened"),
            "{told:?}"
        );
        // The next attempt begins anew.
        session.open(start());
        assert_eq!(outputs(&mut session), [asked(2)]);
    }
}

// Covers R-302, R-306, R-1304.
#[test]
fn nothing_of_a_refused_question_is_left_for_the_handshake() {
    for (status, body) in [
        (400, ""),
        (404, "Not Found"),
        (500, "boom"),
        (200, "<html>"),
        (
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Missing session ID"}}"#,
        ),
    ] {
        let mut session = asking(false);
        session.handle_head(Owner::Request(1), status, session_id("stray"));
        session.handle_refusal(Owner::Request(1), status, None, body);
        assert_eq!(outputs(&mut session), [offered(2)], "{status}");
        session.handle_head(Owner::Request(2), 200, None);
        let told = answered(&mut session, 2, &initialized("2025-11-25"));
        assert!(
            told[0].starts_with("POST 2025-11-25 - confirmation"),
            "{told:?}"
        );
        session.handle_head(Owner::Confirmation, 202, None);
        session.close();
        let told = outputs(&mut session);
        assert!(
            !told.iter().any(|told| told.starts_with("DELETE")),
            "{told:?}"
        );
    }
}

// Covers R-308, R-309.
#[test]
fn a_child_hears_the_handshake_after_any_answer_and_another_one_if_it_has_gone() {
    type Does = fn(&mut ClientSession);
    let table: [(&str, Does); 5] = [
        ("an error", |session| {
            answered(session, 1, r#""error":{"code":-32601,"message":"no"}"#);
        }),
        ("an error for nobody", |session| {
            let stray = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what"}}"#;
            session.handle_message(&Bytes::from_static(stray.as_bytes()), Owner::Nobody);
        }),
        ("an error for somebody else", |session| {
            let stray = r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"message":"what"}}"#;
            session.handle_message(&Bytes::from_static(stray.as_bytes()), Owner::Nobody);
        }),
        ("a message that is too long", |session| {
            session.handle_skipped(&Error::limit("max_client_message_bytes", 9));
        }),
        ("its end", |session| {
            session.handle_lost(&Error::transport("it exited"));
        }),
    ];
    for (case, does) in table {
        let mut session = asking(true);
        let first = session.attempt();
        let mut told = Vec::new();
        does(&mut session);
        told.extend(outputs(&mut session));
        let sent = told.is_empty() || told == [offered(2)];
        assert!(sent, "{case}: {told:?}");
        // Its channel lives on, or is opened anew.
        assert_eq!(session.attempt() != first, case == "its end", "{case}");
        let told = answered(&mut session, 2, &initialized("2025-11-25"));
        assert!(
            told[0].contains("notifications/initialized"),
            "{case}: {told:?}"
        );
    }
}

// Covers R-307, R-309.
#[test]
fn a_child_that_holds_on_to_the_question_is_started_anew_for_it() {
    let mut session = asking(true);
    answered(&mut session, 1, r#""error":{"code":-32601,"message":"no"}"#);
    let first = session.attempt();
    let told = answered(&mut session, 2, r#""error":{"code":-32022,"message":"v"}"#);
    assert_eq!(told, [asked(3)]);
    assert_ne!(session.attempt(), first);
    assert_eq!(session.poll_timeout(), None, "nothing else is left to try");
    assert_eq!(answered(&mut session, 3, DISCOVERED), ["opened"]);
    // And stays known.
    session.handle_lost(&Error::transport("it exited"));
    session.open(start());
    assert_eq!(outputs(&mut session), [asked(4)]);
}

#[test]
fn whoever_closes_while_it_asks_hears_of_it_once() {
    for is_shared in [false, true] {
        let mut session = asking(is_shared);
        session.close();
        assert_eq!(
            outputs(&mut session),
            ["not opened: alpha: connection closed"]
        );
        session.handle_timeout(start() + Duration::from_secs(60));
        session.handle_end(Owner::Request(1), None);
        answered(&mut session, 1, DISCOVERED);
        session.handle_lost(&Error::transport("it exited"));
        assert_eq!(outputs(&mut session), [""; 0]);
    }
}

// Covers R-303.
#[test]
fn a_refusal_by_a_server_of_the_other_era_says_that_the_connection_is_lost() {
    const VERSION: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"v"}}"#;
    const HEADERS: &str =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"no Mcp-Method"}}"#;
    const META: &str = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"_meta lacks io.modelcontextprotocol/protocolVersion"}}"#;
    const SESSION_ID: &str = "Bad Request: Mcp-Session-Id header is required";
    // status, body, whether a stateless connection is lost by it, one with a handshake but without
    // a session
    let table = [
        (400, VERSION, true, true),
        (200, VERSION, true, true),
        (400, SESSION_ID, true, false),
        (400, "Server not initialized", true, false),
        (400, "send initialize first", true, false),
        (
            422,
            "Unexpected message, expect initialize request",
            true,
            false,
        ),
        (404, "Session not found", true, false),
        (400, HEADERS, false, true),
        (400, META, false, true),
        (404, "Not Found", false, false),
        (400, "bad arguments", false, false),
        (500, SESSION_ID, false, false),
        (401, SESSION_ID, false, false),
        (403, SESSION_ID, false, false),
    ];
    for (status, body, from_stateless, from_handshake) in table {
        for (is_stateless, lost) in [(true, from_stateless), (false, from_handshake)] {
            let mut session = match is_stateless {
                true => stateless(),
                false => {
                    let mut session = client();
                    open(&mut session, 1, "2025-11-25", None);
                    session
                }
            };
            let id = begin(&mut session, None, start()).call.id;
            let refusal = session.handle_refusal(Owner::Request(id), status, None, body);
            let is_lost = matches!(refusal, Refusal::SessionLost { generation: 1, .. });
            assert_eq!(is_lost, lost, "{is_stateless}, {status} {body}");
            let list = session.list(Asker::User);
            outputs(&mut session);
            session.handle_refusal(Owner::Request(list), status, None, body);
            let told = outputs(&mut session);
            assert_eq!(
                told[0].ends_with(" lost 1"),
                lost,
                "{is_stateless}, {told:?}"
            );
        }
    }
}

// Covers R-508.
#[test]
fn what_a_server_is_called_decides_nothing() {
    for info in [
        "",
        r#","_meta":7"#,
        r#","_meta":{"io.modelcontextprotocol/serverInfo":[]}"#,
        r#","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"2025-11-25","version":7}}"#,
        r#","serverInfo":{"name":"initialize","version":""}"#,
    ] {
        let mut session = asking(false);
        session.handle_head(Owner::Request(1), 200, None);
        let result = format!(
            r#""result":{{"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}}{info}}}"#
        );
        assert_eq!(answered(&mut session, 1, &result), ["opened"], "{info}");
        assert_eq!(session.opened().unwrap().version.as_str(), "2026-07-28");
    }
}
