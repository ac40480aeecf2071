//! The end of a connection.

use super::*;

const GOODBYE: &str = "DELETE 2025-11-25 s-1 nobody: ";

// Covers R-413, R-1312.
#[test]
fn closing_cancels_every_call_and_then_gives_the_session_up() {
    let mut session = opened();
    let first = begin(&mut session, None, start()).call.id;
    session.list(Asker::User);
    outputs(&mut session);
    let second = begin(&mut session, Some(Duration::from_secs(1)), start())
        .call
        .id;
    assert_eq!((first, second), (2, 4));
    session.close();
    let cancel = |id| {
        format!(
            r#"POST 2025-11-25 s-1 nobody ends {id}: {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"closed"}}}}"#
        )
    };
    assert_eq!(
        outputs(&mut session),
        [
            cancel(2),
            "call 2: terminal_error alpha/add: connection closed".to_owned(),
            "listed 3: alpha: connection closed".to_owned(),
            cancel(4),
            "call 4: terminal_error alpha/add: connection closed".to_owned(),
            GOODBYE.to_owned(),
        ]
    );
    assert_eq!(session.poll_timeout(), None);
    // All that comes later is dropped.
    assert_eq!(answered(&mut session, 2, r#""result":{}"#), [""; 0]);
    for owner in [2, 3, 4] {
        session.handle_end(Owner::Request(owner), None);
        session.handle_refusal(Owner::Request(owner), 404, None, "");
    }
    session.cancel(2, "user");
    session.finish(4);
    session.handle_timeout(start() + Duration::from_secs(9));
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    // What is no message is not even warned of.
    for late in [ping, "{", "[7]", r#"{"jsonrpc":"2.0"}"#] {
        assert_eq!(
            received(&mut session, Owner::Request(2), late),
            [""; 0],
            "{late}"
        );
    }
    session.close();
    assert_eq!(outputs(&mut session), [""; 0]);
}

// Covers R-413, R-1312.
#[test]
fn a_session_without_an_id_needs_no_goodbye() {
    let mut session = client();
    open(&mut session, 1, "2025-11-25", None);
    session.close();
    assert_eq!(outputs(&mut session), [""; 0]);

    let mut session = client();
    session.close();
    assert_eq!(outputs(&mut session), [""; 0]);
}

#[test]
fn closing_while_it_opens_ends_the_opening_once() {
    let closed = "not opened: alpha: connection closed";
    // While the answer is awaited; its id, if any, was never ours.
    let mut session = client();
    session.open(start());
    outputs(&mut session);
    session.handle_head(Owner::Request(1), 200, session_id(SESSION));
    session.close();
    assert_eq!(outputs(&mut session), [closed]);
    assert_eq!(
        answered(&mut session, 1, &initialized("2025-11-25")),
        [""; 0]
    );
    session.handle_end(Owner::Request(1), None);
    session.handle_refusal(Owner::Request(1), 500, None, "");
    assert_eq!(outputs(&mut session), [""; 0]);

    // While it is confirmed.
    let mut session = client();
    session.open(start());
    outputs(&mut session);
    session.handle_head(Owner::Request(1), 200, session_id(SESSION));
    answered(&mut session, 1, &initialized("2025-11-25"));
    session.close();
    assert_eq!(outputs(&mut session), [closed, GOODBYE]);
    session.handle_head(Owner::Confirmation, 202, None);
    session.handle_refusal(Owner::Confirmation, 500, None, "");
    session.handle_end(Owner::Confirmation, None);
    assert_eq!(outputs(&mut session), [""; 0]);
    assert!(session.opened().is_none());
}

#[test]
fn a_closed_connection_stays_closed() {
    let mut session = opened();
    session.close();
    outputs(&mut session);
    session.open(start());
    assert_eq!(
        outputs(&mut session),
        ["not opened: alpha: connection closed"]
    );
    let id = session.list(Asker::User);
    assert_eq!(
        outputs(&mut session),
        [format!("listed {id}: alpha: connection closed")]
    );
    assert!(session.is_closed() && session.opened().is_none());
}
