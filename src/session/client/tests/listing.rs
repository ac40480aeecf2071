//! Tool lists, page by page.

use super::*;

/// The pages of a list: what each request asks for, and what it is answered with.
fn listed(limits: Limits, pages: &[(&str, &str)]) -> Vec<String> {
    let mut session = client_with(limits);
    open(&mut session, 1, "2025-11-25", Some(SESSION));
    assert_eq!(session.list(Asker::User), 2);
    let mut told = Vec::new();
    let mut follows = outputs(&mut session);
    for (id, (params, answer)) in (2..).zip(pages) {
        let asked = follows.pop().expect("a request");
        let expected = format!(
            r#"POST 2025-11-25 s-1 request {id}: {{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{params}}}"#
        );
        assert_eq!(asked, expected, "{answer}");
        told.extend(follows);
        session.handle_head(Owner::Request(id), 200, None);
        follows = answered(&mut session, id, answer);
        // The end of a page's reply ends no list.
        session.handle_end(Owner::Request(id), None);
        assert_eq!(outputs(&mut session), [""; 0]);
    }
    told.extend(follows);
    told
}

fn page(names: &[&str], rest: &str) -> String {
    let tools: Vec<String> = names
        .iter()
        .map(|name| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#))
        .collect();
    format!(r#""result":{{"tools":[{}]{rest}}}"#, tools.join(","))
}

// Covers R-410, R-601.
#[test]
fn pages_are_asked_for_until_there_is_no_cursor() {
    let table = [
        (
            vec![("{}", page(&["a", "b"], ""))],
            vec!["listed 2: [a, b]"],
        ),
        (
            vec![("{}", page(&["a"], r#","nextCursor":null"#))],
            vec!["listed 2: [a]"],
        ),
        (vec![("{}", page(&[], ""))], vec!["listed 2: []"]),
        (
            vec![("{}", r#""result":{}"#.to_owned())],
            vec!["listed 2: []"],
        ),
        (
            vec![("{}", r#""result":{"tools":null}"#.to_owned())],
            vec!["listed 2: []"],
        ),
        (
            vec![
                ("{}", page(&["a"], r#","nextCursor":"p2""#)),
                (r#"{"cursor":"p2"}"#, page(&[], r#","nextCursor":"\"\n""#)),
                (r#"{"cursor":"\"\n"}"#, page(&["b"], "")),
            ],
            vec!["listed 2: [a, b]"],
        ),
        // An empty string is a cursor like any other.
        (
            vec![
                ("{}", page(&["a"], r#","nextCursor":"""#)),
                (r#"{"cursor":""}"#, page(&["b"], "")),
            ],
            vec!["listed 2: [a, b]"],
        ),
        // A server without tools may not know the method.
        (
            vec![("{}", r#""error":{"code":-32601,"message":"no"}"#.to_owned())],
            vec!["listed 2: []"],
        ),
        (
            vec![(
                "{}",
                r#""error":{"code":-32602,"message":"bad"}"#.to_owned(),
            )],
            vec!["listed 2: []"],
        ),
        // What cannot be helped.
        (
            vec![(
                "{}",
                r#""error":{"code":-32603,"message":"boom"}"#.to_owned(),
            )],
            vec!["listed 2: alpha: the server answered error -32603: boom"],
        ),
        (
            vec![("{}", r#""error":"boom""#.to_owned())],
            vec!["listed 2: alpha: the peer broke the protocol: an `error` that is no object"],
        ),
        (
            vec![("{}", r#""result":[[{"name":"a"}]]"#.to_owned())],
            vec![
                "listed 2: alpha: the peer broke the protocol: an odd answer to tools/list: an \
                 array where an object has to be",
            ],
        ),
    ];
    for (pages, expected) in table {
        let pages: Vec<(&str, &str)> = pages.iter().map(|(p, a)| (*p, &**a)).collect();
        assert_eq!(listed(Limits::default(), &pages), expected, "{pages:?}");
    }
}

// Covers R-601.
#[test]
fn a_cursor_that_comes_twice_cuts_the_list() {
    for cursor in ["p", ""] {
        let again = page(&["a"], &format!(r#","nextCursor":"{cursor}""#));
        let params = format!(r#"{{"cursor":"{cursor}"}}"#);
        let other = page(&["b"], &format!(r#","nextCursor":"{cursor}""#));
        let told = listed(Limits::default(), &[("{}", &again), (&params, &other)]);
        assert_eq!(
            told,
            [
                "warning: the tool list has a cursor twice and is cut there",
                "listed 2: [a, b]"
            ]
        );
    }
}

// Covers R-601.
#[test]
fn a_list_without_end_hits_a_limit() {
    let limits = Limits {
        max_tool_pages: 3,
        ..Limits::default()
    };
    let pages: Vec<(String, String)> = (0..3)
        .map(|n| {
            let params = match n {
                0 => "{}".to_owned(),
                n => format!(r#"{{"cursor":"{n}"}}"#),
            };
            (params, page(&[], &format!(r#","nextCursor":"{}""#, n + 1)))
        })
        .collect();
    let pages: Vec<(&str, &str)> = pages.iter().map(|(p, a)| (&**p, &**a)).collect();
    assert_eq!(
        listed(limits.clone(), &pages),
        ["listed 2: alpha: the limit `max_tool_pages` of 3 was hit"]
    );
    // As many pages as are allowed.
    let last = page(&["a"], "");
    let fine = [pages[0], pages[1], (pages[2].0, &*last)];
    assert_eq!(listed(limits, &fine), ["listed 2: [a]"]);
}

#[test]
fn too_many_tools_hit_a_limit_and_bad_ones_count() {
    let limits = Limits {
        max_tools: 3,
        ..Limits::default()
    };
    let too_many = "listed 2: alpha: the limit `max_tools` of 3 was hit";
    let fine = page(&["a", "b", "c"], "");
    assert_eq!(
        listed(limits.clone(), &[("{}", &fine)]),
        ["listed 2: [a, b, c]"]
    );
    let more = page(&["a", "b", "c", "d"], "");
    assert_eq!(listed(limits.clone(), &[("{}", &more)]), [too_many]);
    let first = page(&["a", "b"], r#","nextCursor":"p""#);
    let second = page(&["c", "d"], "");
    let told = listed(
        limits.clone(),
        &[("{}", &first), (r#"{"cursor":"p"}"#, &second)],
    );
    assert_eq!(told, [too_many]);
    let bad = r#""result":{"tools":[1,2,3,4,5,6]}"#;
    let told = listed(limits, &[("{}", bad)]);
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[3], too_many);
}

// Covers R-607.
#[test]
fn a_bad_entry_spoils_no_other() {
    // Entry, whether it is kept, and the warning if not.
    let table = [
        (r#"{"name":"t"}"#, None),
        (r#"{"name":"t","inputSchema":null}"#, None),
        (r#"{"name":"t","inputSchema":{"type":"string"}}"#, None),
        (r#"{"name":"t","inputSchema":{"$schema":"x"}}"#, None),
        (
            r#"{"name":"t","inputSchema":{"properties":{"required":["a"]}}}"#,
            None,
        ),
        (r#"{"name":"t","description":null,"inputSchema":{}}"#, None),
        (r#"{"name":"t","description":7,"x":1e999}"#, None),
        (r#"{"name":"t t 😀"}"#, None),
        (r#"{"inputSchema":{}}"#, Some("it has no name")),
        (r#"{"name":null}"#, Some("it has no name")),
        (r#"{"name":7}"#, Some("it has no name")),
        (r#"{"name":"\ud83d"}"#, Some("it has no name")),
        (r#"{"name":""}"#, Some("its name is empty")),
        (r#"{"name":"t","name":"u"}"#, Some("it has a member twice")),
        ("7", Some("it is not an object")),
        ("null", Some("it is not an object")),
        (r#"["t"]"#, Some("it is not an object")),
    ];
    for (entry, warning) in table {
        let answer = format!(r#""result":{{"tools":[{{"name":"good"}},{entry}]}}"#);
        let told = listed(Limits::default(), &[("{}", &answer)]);
        match warning {
            None => assert_eq!(told.len(), 1, "{entry}: {told:?}"),
            Some(why) => assert_eq!(
                told,
                [
                    format!("warning: tool 1 of page 1 is left out: {why}"),
                    "listed 2: [good]".to_owned()
                ],
                "{entry}"
            ),
        }
        assert!(
            told.last().unwrap().starts_with("listed 2: [good"),
            "{entry}"
        );
    }
    let twice = page(&["a", "b", "a"], "");
    assert_eq!(
        listed(Limits::default(), &[("{}", &twice)]),
        ["warning: tool `a` is listed twice", "listed 2: [a, b]"]
    );
}

// Covers R-607, R-609.
#[test]
fn odd_schemas_come_through_as_they_were_sent() {
    let mut session = opened();
    session.list(Asker::User);
    outputs(&mut session);
    let tool = r#"{"name":"t", "inputSchema":{"$defs":{"x":{"minimum":1e999}}, "x-own":1},"outputSchema":7,"_meta":{"a":[1]},"annotations":{"title":"T"},"icons":[]}"#;
    let answer = format!(r#"{{"jsonrpc":"2.0","id":2,"result":{{"tools":[{tool}]}}}}"#);
    session.handle_message(&answer.into(), Owner::Request(2));
    let Some(Output::Event(Event::Listed {
        tools: Ok(list), ..
    })) = session.poll_output()
    else {
        panic!("a list");
    };
    let [found] = &list.tools[..] else {
        panic!("one tool")
    };
    let raw = |member: &Option<RawJson>| member.as_ref().map(|raw| raw.as_str().to_owned());
    assert_eq!(found.raw.as_str(), tool);
    assert_eq!(
        raw(&found.input_schema).as_deref(),
        Some(r#"{"$defs":{"x":{"minimum":1e999}}, "x-own":1}"#)
    );
    assert_eq!(raw(&found.output_schema).as_deref(), Some("7"));
    assert_eq!(raw(&found.meta).as_deref(), Some(r#"{"a":[1]}"#));
    assert_eq!(found.title.as_deref(), Some("T"));
}

// Covers R-602.
#[test]
fn a_refused_cursor_starts_the_list_again_once() {
    let refused = r#""error":{"code":-32602,"message":"unknown cursor"}"#;
    let first = page(&["a"], r#","nextCursor":"p""#);
    let whole = page(&["b", "c"], "");
    let told = listed(
        Limits::default(),
        &[
            ("{}", &first),
            (r#"{"cursor":"p"}"#, refused),
            ("{}", &whole),
        ],
    );
    assert_eq!(told, ["listed 2: [b, c]"]);
    let told = listed(
        Limits::default(),
        &[
            ("{}", &first),
            (r#"{"cursor":"p"}"#, refused),
            ("{}", &first),
            (r#"{"cursor":"p"}"#, refused),
        ],
    );
    assert_eq!(
        told,
        ["listed 2: alpha: the server answered error -32602: unknown cursor"]
    );
}

#[test]
fn a_list_ends_once_however_its_reply_does() {
    let mut session = opened();
    for (id, error, why) in [
        (2, None, "the connection closed before the response"),
        (3, Some(Error::transport("reset")), "reset"),
    ] {
        session.list(Asker::User);
        outputs(&mut session);
        session.handle_end(Owner::Request(id), error);
        assert_eq!(
            outputs(&mut session),
            [format!("listed {id}: alpha: {why}")]
        );
        assert_eq!(answered(&mut session, id, &page(&["late"], "")), [""; 0]);
        session.handle_end(Owner::Request(id), None);
        assert_eq!(outputs(&mut session), [""; 0]);
    }
    // Nor can it be cancelled or finished like a call.
    session.list(Asker::User);
    outputs(&mut session);
    session.cancel(4, "user");
    session.finish(4);
    assert_eq!(outputs(&mut session), [""; 0]);
    assert_eq!(
        answered(&mut session, 4, &page(&["a"], "")),
        ["listed 4: [a]"]
    );
}

#[test]
fn a_page_that_comes_while_the_connection_reopens_ends_the_list() {
    let mut session = opened();
    session.list(Asker::User);
    session.open(start());
    outputs(&mut session);
    assert_eq!(
        answered(&mut session, 2, &page(&["a"], r#","nextCursor":"p""#)),
        ["listed 2: alpha: connection closed"]
    );
}

#[test]
fn a_page_names_the_session_that_it_is_asked_in() {
    let mut session = opened();
    session.list(Asker::User);
    outputs(&mut session);
    open(&mut session, 3, "2025-11-25", Some("s-2"));
    let more = page(&["a"], r#","nextCursor":"p""#);
    let asked = answered(&mut session, 2, &more);
    assert!(
        asked[0].starts_with("POST 2025-11-25 s-2 request 4: "),
        "{asked:?}"
    );
    session.handle_refusal(Owner::Request(4), 404, None, "");
    assert_eq!(
        outputs(&mut session),
        ["listed 2: alpha: the server answered HTTP 404 lost 2"]
    );
}

#[test]
fn lists_at_once_are_told_apart() {
    let mut session = opened();
    let (one, two) = (session.list(Asker::User), session.list(Asker::User));
    outputs(&mut session);
    assert_eq!(
        answered(&mut session, two, &page(&["b"], "")),
        ["listed 3: [b]"]
    );
    assert_eq!(
        answered(&mut session, one, &page(&["a"], "")),
        ["listed 2: [a]"]
    );
}

// Covers R-410.
#[test]
fn only_a_server_without_tools_may_say_that_the_parameters_are_bad() {
    for (capabilities, told) in [
        ("{}", "listed 2: []"),
        (r#"{"tools":null}"#, "listed 2: []"),
        (
            r#"{"tools":{}}"#,
            "listed 2: alpha: the server answered error -32602: bad",
        ),
    ] {
        let mut session = client();
        session.open(start());
        outputs(&mut session);
        let result =
            format!(r#""result":{{"protocolVersion":"2025-11-25","capabilities":{capabilities}}}"#);
        session.handle_head(Owner::Request(1), 200, None);
        answered(&mut session, 1, &result);
        session.handle_head(Owner::Confirmation, 202, None);
        session.list(Asker::User);
        outputs(&mut session);
        let refused = r#""error":{"code":-32602,"message":"bad"}"#;
        assert_eq!(answered(&mut session, 2, refused), [told], "{capabilities}");
    }
}
