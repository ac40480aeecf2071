//! Calls in flight, and what comes on each other's replies.

use super::*;

// Covers R-701, R-801.
#[test]
fn a_call_is_one_request_with_its_arguments_as_they_are() {
    let place = place(Some("add"));
    let table = [
        // tool, arguments, events, params
        (
            "add",
            "{}",
            true,
            r#"{"name":"add","arguments":{},"_meta":{"progressToken":2}}"#,
        ),
        ("add", "{}", false, r#"{"name":"add","arguments":{}}"#),
        (
            "a\"b\n",
            r#"{"x":1e999, "y":"\ud83d","x":2}"#,
            true,
            r#"{"name":"a\"b\n","arguments":{"x":1e999, "y":"\ud83d","x":2},"_meta":{"progressToken":2}}"#,
        ),
    ];
    for (tool, arguments, events, params) in table {
        let mut session = opened();
        let spec = CallSpec {
            tool,
            arguments: &RawJson::from_static(arguments),
            events,
            timeout: None,
            wraps_result: true,
            mirrored: &[],
            state: None,
            place: &place,
        };
        let CallStart { call, frame } = session.call(&spec, start()).unwrap();
        assert_eq!((call.id, call.wraps_result, &call.place), (2, true, &place));
        assert_eq!(frame.verb, Verb::Post);
        let expected =
            format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{params}}}"#);
        assert_eq!(frame.body, expected);
        assert_eq!(outputs(&mut session), [""; 0], "the caller sends it");
    }
}

// Covers R-113, R-711, R-806.
#[test]
fn messages_for_a_call_find_it_on_any_reply() {
    let progress = |token: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1,"message":"hi"}}}}"#
        )
    };
    let mut session = opened();
    let (a, b) = (
        begin(&mut session, None, start()),
        begin(&mut session, None, start()),
    );
    assert_eq!((a.call.id, b.call.id), (2, 3));
    let others = Owner::Request(2);
    for token in ["3", r#""3""#, "3.0"] {
        assert_eq!(
            received(&mut session, others, &progress(token)),
            [r#"call 3: text "hi""#]
        );
    }
    for token in ["4", "1", "0", r#""""#, r#""x""#, "3.5", "null", "[3]"] {
        assert_eq!(
            received(&mut session, others, &progress(token)),
            [""; 0],
            "{token}"
        );
    }
    assert_eq!(
        received(
            &mut session,
            Owner::Nobody,
            r#"{"jsonrpc":"2.0","id":"3","result":{}}"#
        ),
        ["call 3: result null"]
    );
    // It is over: progress, a duplicate and an error that come late are dropped.
    assert_eq!(received(&mut session, others, &progress("3")), [""; 0]);
    for late in [
        r#"{"jsonrpc":"2.0","id":3,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":"3"}"#,
    ] {
        assert_eq!(received(&mut session, others, late), [""; 0], "{late}");
        assert_eq!(
            received(&mut session, Owner::Request(3), late),
            [""; 0],
            "{late}"
        );
    }
    session.handle_end(Owner::Request(3), None);
    assert_eq!(outputs(&mut session), [""; 0]);
    // The other one is not touched by any of it.
    assert_eq!(
        answered(&mut session, 2, r#""result":{"content":[]}"#),
        ["call 2: result null"]
    );
}

#[test]
fn a_list_has_no_progress() {
    let mut session = opened();
    session.list(Asker::User);
    outputs(&mut session);
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}"#;
    assert_eq!(received(&mut session, Owner::Request(2), progress), [""; 0]);
}

// Covers R-110.
#[test]
fn an_error_without_a_usable_id_ends_the_call_whose_reply_it_is_in() {
    for id in [
        "",
        r#""id":null,"#,
        r#""id":"server-error","#,
        r#""id":0,"#,
        r#""id":77,"#,
    ] {
        let mut session = opened();
        begin(&mut session, None, start());
        begin(&mut session, None, start());
        let error = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":5,"message":"m"}}}}"#);
        assert_eq!(
            received(&mut session, Owner::Nobody, &error),
            [""; 0],
            "{id}"
        );
        assert_eq!(
            received(&mut session, Owner::Request(3), &error),
            ["call 3: terminal_error alpha/add: the server answered error 5: m"],
            "{id}"
        );
        // A result needs the id, for it could be anybody's.
        let result = format!(r#"{{"jsonrpc":"2.0",{id}"result":{{}}}}"#);
        assert_eq!(
            received(&mut session, Owner::Request(2), &result),
            [""; 0],
            "{id}"
        );
    }
}

// Covers R-411, R-912, R-1104, R-1801.
#[test]
fn requests_of_the_server_are_answered_with_their_id_as_it_was() {
    let mut session = opened();
    begin(&mut session, None, start());
    let post = "POST 2025-11-25 s-1 nobody: ";
    for id in [
        "0",
        "-5",
        "2",
        "9007199254740993",
        r#""2""#,
        r#""\u0041\n""#,
        r#""""#,
    ] {
        // With and without params; the server's ids have nothing to do with ours.
        for params in ["", r#","params":{}"#, r#","params":null"#] {
            let ping = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"{params}}}"#);
            assert_eq!(
                received(&mut session, Owner::Request(2), &ping),
                [format!(
                    r#"{post}{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#
                )]
            );
        }
        for method in [
            "roots/list",
            "sampling/createMessage",
            "elicitation/create",
            "x",
        ] {
            let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
            assert_eq!(
                received(&mut session, Owner::Request(2), &request),
                [format!(
                    r#"{post}{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"method not found"}}}}"#
                )]
            );
        }
    }
    // What cannot be answered is not.
    let odd = r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#;
    let told = received(&mut session, Owner::Request(2), odd);
    assert!(
        told.len() == 1 && told[0].starts_with("warning"),
        "{told:?}"
    );
    for note in ["notifications/cancelled", "notifications/message", "x"] {
        for params in [r#","params":{"requestId":2}"#, r#","params":{}"#, ""] {
            let note = format!(r#"{{"jsonrpc":"2.0","method":"{note}"{params}}}"#);
            assert_eq!(received(&mut session, Owner::Request(2), &note), [""; 0]);
        }
    }
    assert_eq!(
        answered(&mut session, 2, r#""result":{}"#),
        ["call 2: result null"]
    );
}

// Covers R-117.
#[test]
fn an_array_of_messages_is_taken_apart() {
    let mut session = opened();
    begin(&mut session, None, start());
    let batch = r#"[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1,"message":"a"}},7,{"jsonrpc":"2.0","id":2,"result":{}}]"#;
    let told = received(&mut session, Owner::Request(2), batch);
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[0], r#"call 2: text "a""#);
    assert!(told[1].starts_with("warning"));
    assert_eq!(told[2], "call 2: result null");
}

// Covers R-901.
#[test]
fn a_cancel_is_sent_once_and_only_for_a_call_in_flight() {
    let mut session = opened();
    let cancel = |id: i64, reason| {
        format!(
            r#"POST 2025-11-25 s-1 nobody ends {id}: {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"{reason}"}}}}"#
        )
    };
    let id = begin(&mut session, None, start()).call.id;
    session.cancel(id, "user");
    assert_eq!(outputs(&mut session), [cancel(2, "user")]);
    session.cancel(id, "user");
    session.handle_end(Owner::Request(id), None);
    assert_eq!(answered(&mut session, id, r#""result":{}"#), [""; 0]);
    assert_eq!(outputs(&mut session), [""; 0]);

    // Not after its end, whichever it was.
    for end in [
        (|session, id| session.finish(id)) as fn(&mut ClientSession, i64),
        |session, id| _ = answered(session, id, r#""result":{}"#),
        |session, id| session.handle_end(Owner::Request(id), None),
        |session, id| _ = session.handle_refusal(Owner::Request(id), 500, None, ""),
    ] {
        let id = begin(&mut session, Some(Duration::from_secs(1)), start())
            .call
            .id;
        end(&mut session, id);
        outputs(&mut session);
        session.cancel(id, "user");
        assert_eq!(session.poll_timeout(), None);
        session.handle_timeout(start() + Duration::from_secs(9));
        assert_eq!(outputs(&mut session), [""; 0]);
    }
    // Nor for what never was.
    session.cancel(99, "user");
    session.cancel(-1, "user");
    assert_eq!(outputs(&mut session), [""; 0]);
}

#[test]
fn a_cancel_has_nobody_to_go_to_while_the_connection_reopens() {
    let mut session = opened();
    let id = begin(&mut session, None, start()).call.id;
    session.open(start());
    outputs(&mut session);
    session.cancel(id, "user");
    assert_eq!(outputs(&mut session), [""; 0]);
}

// Covers R-911.
#[test]
fn a_call_times_out_at_its_deadline_and_not_before() {
    let now = start();
    let ms = Duration::from_millis;
    let mut session = opened();
    assert_eq!(session.poll_timeout(), None);
    let late = begin(&mut session, Some(ms(20)), now).call.id;
    let soon = begin(&mut session, Some(ms(10)), now).call.id;
    let never = begin(&mut session, None, now).call.id;
    // So far away that no clock gets there.
    begin(&mut session, Some(Duration::MAX), now);
    assert_eq!(session.poll_timeout(), Some(now + ms(10)));
    session.handle_timeout(now + ms(10) - Duration::from_nanos(1));
    assert_eq!(outputs(&mut session), [""; 0]);
    session.handle_timeout(now + ms(10));
    assert_eq!(
        outputs(&mut session),
        [
            format!(
                r#"POST 2025-11-25 s-1 nobody ends {soon}: {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{soon},"reason":"timeout"}}}}"#
            ),
            format!("call {soon}: terminal_error alpha/add: no end within the timeout of 10ms"),
        ]
    );
    assert_eq!(session.poll_timeout(), Some(now + ms(20)));
    assert_eq!(answered(&mut session, soon, r#""result":{}"#), [""; 0]);
    session.cancel(soon, "user");
    session.handle_end(Owner::Request(soon), None);
    assert_eq!(outputs(&mut session), [""; 0]);
    session.handle_timeout(now + ms(1_000_000));
    let told = outputs(&mut session);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].starts_with(&format!("call {late}: terminal_error")));
    assert_eq!(session.poll_timeout(), None);
    assert_eq!(
        answered(&mut session, never, r#""result":{}"#),
        [format!("call {never}: result null")]
    );
}

// Covers R-1211.
#[test]
fn a_reply_that_ends_early_ends_its_call() {
    for (error, why) in [
        (None, "the connection closed before the response"),
        (Some(Error::transport("reset")), "reset"),
    ] {
        let mut session = opened();
        let id = begin(&mut session, None, start()).call.id;
        session.handle_end(Owner::Request(id), error);
        assert_eq!(
            outputs(&mut session),
            [format!("call {id}: terminal_error alpha/add: {why}")]
        );
        session.handle_end(Owner::Request(id), None);
        assert_eq!(outputs(&mut session), [""; 0]);
    }
}

#[test]
fn nesting_is_bounded_by_the_limit() {
    let mut session = client_with(Limits {
        max_json_depth: 8,
        ..Limits::default()
    });
    open(&mut session, 1, "2025-11-25", None);
    begin(&mut session, None, start());
    let deep = |n: usize| format!(r#""result":{{"x":{}{}}}"#, "[".repeat(n), "]".repeat(n));
    let told = answered(&mut session, 2, &deep(7));
    assert_eq!(
        told,
        ["warning: skipped a message: JSON nested deeper than 8, the `max_json_depth`"]
    );
    assert_eq!(answered(&mut session, 2, &deep(6)), ["call 2: result null"]);
}
