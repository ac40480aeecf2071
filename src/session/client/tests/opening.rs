//! From nothing to an open connection, and back.

use super::*;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"hub","version":"0.1.0"},"protocolVersion":"2025-11-25"}}"#;
const CONFIRM: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A session whose opening request 1 was sent and has a good head.
fn opening() -> ClientSession {
    let mut session = client();
    session.open(start());
    assert_eq!(outputs(&mut session).len(), 1);
    session.handle_head(Owner::Request(1), 200, session_id(SESSION));
    session
}

// Covers R-401, R-404.
#[test]
fn opening_asks_and_confirms_and_then_is_open() {
    let mut session = client();
    assert_eq!(outputs(&mut session), [""; 0]);
    session.open(start());
    assert_eq!(
        outputs(&mut session),
        [format!("POST - - request 1: {INITIALIZE}")]
    );
    let step = session.handle_head(Owner::Request(1), 200, session_id(SESSION));
    assert_eq!(step, Step::Read);
    assert_eq!(outputs(&mut session), [""; 0]);
    let result = r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"2"},"instructions":"be kind"}"#;
    assert_eq!(
        answered(&mut session, 1, result),
        [format!("POST 2025-11-25 s-1 confirmation: {CONFIRM}")]
    );
    assert!(session.opened().is_none());
    let step = session.handle_head(Owner::Confirmation, 202, None);
    assert_eq!(step, Step::Ignore);
    assert_eq!(outputs(&mut session), ["opened"]);
    assert_eq!(session.generation(), 1);
    let opened = session.opened().unwrap();
    assert_eq!(opened.version.as_str(), "2025-11-25");
    // What comes late on the same replies changes nothing.
    assert_eq!(answered(&mut session, 1, result), [""; 0]);
    session.handle_end(Owner::Request(1), None);
    session.handle_end(Owner::Confirmation, Some(Error::transport("reset")));
    session.handle_head(Owner::Confirmation, 202, None);
    assert_eq!(outputs(&mut session), [""; 0]);
    assert_eq!(session.generation(), 1);
}

// Covers R-408, R-1301, R-1304.
#[test]
fn the_negotiated_version_and_the_session_stand_in_every_head() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        for name in [Some(SESSION), None] {
            let mut session = client();
            open(&mut session, 1, version, name);
            let name = name.unwrap_or("-");
            let head = format!("POST {version} {name} ");
            session.list(Asker::User);
            assert!(
                outputs(&mut session)[0].starts_with(&head),
                "{version} {name}"
            );
            let frame = begin(&mut session, None, start()).frame;
            assert_eq!(frame.head.version.as_deref(), Some(version));
            assert_eq!(
                frame.head.session_id,
                session_id(name).filter(|_| name != "-")
            );
            session.cancel(3, "user");
            assert!(outputs(&mut session)[0].starts_with(&head));
            let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            let pong = received(&mut session, Owner::Request(2), ping);
            assert!(pong[0].starts_with(&head), "{pong:?}");
            session.close();
            let goodbye = format!("DELETE {version} {name} nobody: ");
            assert_eq!(outputs(&mut session).contains(&goodbye), name != "-");
        }
    }
}

// Covers R-405, R-411, R-1101.
#[test]
fn what_comes_before_the_answer_does_not_take_its_place() {
    let mut session = opening();
    let own = Owner::Request(1);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}"#;
    let early = [
        (note.to_owned(), vec![]),
        (format!("[{note},{note}]"), vec![]),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.to_owned(),
            vec!["tools changed"],
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned(),
            vec![r#"POST - - nobody: {"jsonrpc":"2.0","id":1,"result":{}}"#],
        ),
        // Answers to what nobody asked.
        (r#"{"jsonrpc":"2.0","id":2,"result":{}}"#.to_owned(), vec![]),
        (
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#.to_owned(),
            vec![],
        ),
        (
            r#"{"jsonrpc":"2.0","id":"x","result":{}}"#.to_owned(),
            vec![],
        ),
    ];
    for (message, follows) in early {
        assert_eq!(received(&mut session, own, &message), follows, "{message}");
    }
    for noise in ["", "Server started", "{", "7"] {
        let follows = received(&mut session, own, noise);
        assert!(
            follows[0].starts_with("warning: skipped a message: "),
            "{follows:?}"
        );
        assert_eq!(follows.len(), 1);
    }
    let confirmed = answered(&mut session, 1, &initialized("2025-06-18"));
    assert_eq!(
        confirmed,
        [format!("POST 2025-06-18 s-1 confirmation: {CONFIRM}")]
    );
}

// Covers R-106.
#[test]
fn an_answer_is_known_by_its_number_however_it_is_spelled() {
    for id in ["1", r#""1""#, "1.0", r#""\u0031""#] {
        let mut session = opening();
        let message = format!(
            r#"{{{},"id":{id},"jsonrpc":"2.0"}}"#,
            initialized("2025-11-25")
        );
        let follows = received(&mut session, Owner::Request(1), &message);
        assert_eq!(follows.len(), 1, "{id}");
        assert!(follows[0].contains("confirmation"), "{id}: {follows:?}");
    }
}

// Covers R-110.
#[test]
fn an_error_with_an_id_that_was_never_ours_belongs_to_the_reply_it_is_in() {
    for id in [
        r#""id":null,"#,
        "",
        r#""id":"server-error","#,
        r#""id":0,"#,
        r#""id":-1,"#,
        r#""id":99,"#,
        r#""id":1,"#,
    ] {
        let mut session = opening();
        let message =
            format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32600,"message":"no"}}}}"#);
        assert_eq!(
            received(&mut session, Owner::Nobody, &message).len(),
            usize::from(id.contains(":1,")),
            "only its own id is enough elsewhere: {id}"
        );
        let mut session = opening();
        assert_eq!(
            received(&mut session, Owner::Request(1), &message),
            ["not opened: alpha: the server answered error -32600: no"],
            "{id}"
        );
    }
}

#[test]
fn a_late_error_of_an_earlier_request_is_not_ours() {
    let mut session = opening();
    session.handle_end(Owner::Request(1), None);
    session.open(start());
    outputs(&mut session);
    let late = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"late"}}"#;
    assert_eq!(received(&mut session, Owner::Request(2), late), [""; 0]);
    assert_eq!(
        answered(&mut session, 2, &initialized("2025-11-25")).len(),
        1
    );
}

// Covers R-403.
#[test]
fn an_opening_that_fails_says_why_and_can_be_tried_again() {
    let unknown = "the server speaks protocol version \"1999-01-01\"; this client knows \
                   2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05";
    let table = [
        (
            initialized("1999-01-01"),
            format!("alpha: the peer broke the protocol: {unknown}"),
        ),
        (
            r#""result":{}"#.to_owned(),
            "alpha: the peer broke the protocol: an odd answer to initialize: missing field \
             `protocolVersion`"
                .to_owned(),
        ),
        (
            r#""result":["2025-11-25",null,null]"#.to_owned(),
            "alpha: the peer broke the protocol: an odd answer to initialize: an array where an \
             object has to be"
                .to_owned(),
        ),
        (
            r#""error":{"code":-32602,"message":"Unsupported protocol version"}"#.to_owned(),
            "alpha: the server answered error -32602: Unsupported protocol version".to_owned(),
        ),
        (
            r#""x":1"#.to_owned(),
            "alpha: the peer broke the protocol: neither a `result` nor an `error`".to_owned(),
        ),
    ];
    for (members, why) in table {
        let mut session = opening();
        let goodbye = members
            .starts_with(r#""result""#)
            .then(|| "DELETE - s-1 nobody: ".to_owned());
        let told: Vec<String> = goodbye
            .into_iter()
            .chain([format!("not opened: {why}")])
            .collect();
        assert_eq!(answered(&mut session, 1, &members), told, "{members}");
        assert!(session.opened().is_none());
        // The reply's end has nothing to add.
        session.handle_end(Owner::Request(1), None);
        assert_eq!(outputs(&mut session), [""; 0]);
        open(&mut session, 2, "2025-11-25", None);
    }
}

#[test]
fn a_reply_that_ends_early_fails_the_opening_once() {
    for (error, why) in [
        (None, "the connection closed before the response"),
        (Some(Error::transport("reset")), "reset"),
    ] {
        let mut session = opening();
        session.handle_end(Owner::Request(1), error.clone());
        assert_eq!(outputs(&mut session), [format!("not opened: alpha: {why}")]);
        session.handle_end(Owner::Request(1), error.clone());
        assert_eq!(outputs(&mut session), [""; 0]);

        let mut session = opening();
        answered(&mut session, 1, &initialized("2025-11-25"));
        session.handle_end(Owner::Confirmation, error.clone());
        assert_eq!(
            outputs(&mut session),
            [
                "DELETE 2025-11-25 s-1 nobody: ".to_owned(),
                format!("not opened: alpha: {why}")
            ]
        );
        session.handle_end(Owner::Confirmation, error);
        assert_eq!(outputs(&mut session), [""; 0]);
        open(&mut session, 2, "2025-11-25", None);
    }
}

// Covers R-404, R-1209.
#[test]
fn any_good_status_confirms_and_any_other_fails() {
    for status in [200, 202, 204, 299] {
        let mut session = opening();
        answered(&mut session, 1, &initialized("2025-11-25"));
        let step = session.handle_head(Owner::Confirmation, status, None);
        assert_eq!(
            (step, outputs(&mut session)),
            (Step::Ignore, vec!["opened".to_owned()])
        );
    }
    for status in [199, 300, 400, 404, 500] {
        let mut session = opening();
        answered(&mut session, 1, &initialized("2025-11-25"));
        let step = session.handle_head(Owner::Confirmation, status, None);
        assert_eq!((step, outputs(&mut session)), (Step::Refused, vec![]));
        assert!(session.opened().is_none());
        session.handle_refusal(Owner::Confirmation, status, None, "no session");
        let goodbye = "DELETE 2025-11-25 s-1 nobody: ".to_owned();
        let why = format!("not opened: alpha: the server answered HTTP {status}: no session");
        assert_eq!(outputs(&mut session), [goodbye, why]);
        session.handle_refusal(Owner::Confirmation, status, None, "no session");
        assert_eq!(outputs(&mut session), [""; 0]);
    }
}

// Covers R-1304.
#[test]
fn a_session_id_counts_only_beside_a_successful_answer() {
    let named = |session: &mut ClientSession| {
        session.close();
        outputs(session)
            .iter()
            .any(|sent| sent.starts_with("DELETE"))
    };
    // Of an error.
    let mut session = opening();
    answered(&mut session, 1, r#""error":{"code":1,"message":"no"}"#);
    open(&mut session, 2, "2025-11-25", None);
    assert!(!named(&mut session));
    // Of a refusal.
    let mut session = client();
    session.open(start());
    outputs(&mut session);
    let step = session.handle_head(Owner::Request(1), 400, session_id(SESSION));
    assert_eq!(step, Step::Refused);
    session.handle_refusal(Owner::Request(1), 400, None, "");
    outputs(&mut session);
    open(&mut session, 2, "2025-11-25", None);
    assert!(!named(&mut session));
    // Of the late answer to an earlier opening.
    let mut session = opening();
    session.handle_end(Owner::Request(1), None);
    session.open(start());
    session.handle_head(Owner::Request(2), 200, None);
    session.handle_head(Owner::Request(1), 200, session_id(SESSION));
    answered(&mut session, 2, &initialized("2025-11-25"));
    session.handle_head(Owner::Confirmation, 202, None);
    assert!(!named(&mut session));
    // Of a later answer.
    let mut session = client();
    open(&mut session, 1, "2025-11-25", None);
    session.list(Asker::User);
    outputs(&mut session);
    session.handle_head(Owner::Request(2), 200, session_id(SESSION));
    answered(&mut session, 2, r#""result":{"tools":[]}"#);
    assert!(!named(&mut session));
    // Another one of a later answer.
    let mut session = opened();
    session.list(Asker::User);
    outputs(&mut session);
    session.handle_head(Owner::Request(2), 200, session_id("other"));
    answered(&mut session, 2, r#""result":{"tools":[]}"#);
    session.list(Asker::User);
    assert!(outputs(&mut session)[0].starts_with("POST 2025-11-25 s-1 "));
}

#[test]
fn opening_again_while_it_opens_changes_nothing() {
    let mut session = opening();
    session.open(start());
    assert_eq!(outputs(&mut session), [""; 0]);
    answered(&mut session, 1, &initialized("2025-11-25"));
    session.open(start());
    assert_eq!(outputs(&mut session), [""; 0]);
    session.handle_head(Owner::Confirmation, 202, None);
    assert_eq!(outputs(&mut session), ["opened"]);
}

// Covers R-1310.
#[test]
fn a_lost_session_is_opened_again_without_its_id() {
    let mut session = opened();
    open(&mut session, 2, "2025-11-25", Some("s-2"));
    assert_eq!(session.generation(), 2);
    session.list(Asker::User);
    assert!(outputs(&mut session)[0].starts_with("POST 2025-11-25 s-2 request 3: "));
}

// Covers R-407.
#[test]
fn the_opening_is_never_cancelled() {
    let mut session = opening();
    session.cancel(1, "user");
    session.finish(1);
    assert_eq!(session.poll_timeout(), None);
    session.handle_timeout(start() + Duration::from_secs(1_000_000));
    assert_eq!(outputs(&mut session), [""; 0]);
    // It is still pending, and goes on.
    assert_eq!(
        answered(&mut session, 1, &initialized("2025-11-25")).len(),
        1
    );
}

// Covers R-404, R-405.
#[test]
fn nothing_but_the_opening_is_asked_before_it_is_open() {
    let mut session = client();
    let place = place(Some("add"));
    let arguments = RawJson::from_static("{}");
    let spec = CallSpec {
        tool: "add",
        arguments: &arguments,
        events: true,
        timeout: None,
        wraps_result: false,
        mirrored: &[],
        state: None,
        place: &place,
    };
    for step in 0..3 {
        let error = session.call(&spec, start()).unwrap_err();
        assert_eq!(error.to_string(), "alpha/add: connection closed", "{step}");
        let id = session.list(Asker::User);
        let listed = outputs(&mut session);
        assert_eq!(
            listed,
            [format!("listed {id}: alpha: connection closed")],
            "{step}"
        );
        match step {
            0 => session.open(start()),
            _ => {
                received(
                    &mut session,
                    Owner::Nobody,
                    &format!(
                        r#"{{"jsonrpc":"2.0","id":2,{}}}"#,
                        initialized("2025-11-25")
                    ),
                );
            }
        }
        outputs(&mut session);
    }
}
