//! Any messages in any order.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::mcp::classify::classify_line;

fn messages() -> impl Strategy<Value = Vec<String>> {
    let id = || {
        prop::sample::select(vec![
            "1", "2", "3", r#""1""#, r#""x""#, "0", "1.0", "null", "[1]",
        ])
    };
    let method = prop::sample::select(vec![
        "initialize",
        "ping",
        "server/discover",
        "subscriptions/listen",
        "tools/list",
        "tools/call",
        "no/such",
        "notifications/cancelled",
        "notifications/initialized",
    ]);
    let params = prop::sample::select(vec![
        "null",
        "{}",
        "[]",
        "7",
        r#"{"name":"echo"}"#,
        r#"{"name":"echo","arguments":{"a":1},"_meta":{"progressToken":1}}"#,
        r#"{"name":"echo","arguments":[]}"#,
        r#"{"name":"none"}"#,
        r#"{"cursor":"p"}"#,
        r#"{"protocolVersion":"2025-11-25"}"#,
        r#"{"notifications":{"toolsListChanged":true}}"#,
    ]);
    let stated = prop::sample::select(vec![
        ("tools/call", r#""name":"echo","#),
        ("tools/call", r#""name":"none","#),
        ("tools/list", ""),
        ("ping", ""),
        ("subscriptions/listen", ""),
        (
            "subscriptions/listen",
            r#""notifications":{"toolsListChanged":true},"#,
        ),
        ("subscriptions/listen", r#""notifications":{},"#),
    ]);
    let version = prop::sample::select(vec!["2026-07-28", "2026-07-28", "2025-11-25"]);
    let stated = (id(), stated, version).prop_map(|(id, (method, members), version)| {
        let meta = format!(
            r#""io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{{}}"#
        );
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}"_meta":{{{meta}}}}}}}"#
        )
    });
    let call = id().prop_map(|id| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo"}}}}"#)
    });
    let cancel = id().prop_map(|id| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
    });
    let any_request = (id(), method.clone(), params.clone()).prop_map(|(id, method, params)| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    });
    let any_note = (method, params.clone()).prop_map(|(method, params)| {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
    });
    let answer = (id(), params).prop_map(|(id, value)| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{value},"error":{value}}}"#)
    });
    let noise = "\\PC{0,30}".prop_map(|text| format!(r#"{{"jsonrpc":"2.0",{text}}}"#));
    let one = prop_oneof![
        4 => call,
        4 => stated,
        2 => cancel,
        3 => any_request,
        2 => any_note,
        1 => answer,
        1 => noise,
    ];
    proptest::collection::vec(one, 0..40)
}

/// The id of a response and whether it is well formed.
fn answered(body: &[u8]) -> Option<RequestId> {
    match jsonrpc::decode(&Bytes::copy_from_slice(body), 128) {
        Ok(Incoming::One(Message::Response(Response { id, outcome }))) => {
            assert!(!matches!(outcome, Outcome::Malformed(_)));
            id
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    // Covers R-108, R-711.
    #[test]
    fn each_request_has_one_answer_and_each_call_one_end(
        messages in messages(),
        finish in proptest::collection::vec(any::<bool>(), 40),
        max_session_calls in 0..4usize,
    ) {
        let mut facts = facts_with(Limits { max_session_calls, ..Limits::default() });
        Arc::make_mut(&mut facts.words).list_changed = true;
        let mut session = session();
        let mut running: HashSet<RequestId> = HashSet::new();
        let mut listening: HashSet<RequestId> = HashSet::new();
        for (json, finish) in messages.iter().zip(finish) {
            let bytes = Bytes::copy_from_slice(json.as_bytes());
            let Ok(Incoming::One(message)) = jsonrpc::decode(&bytes, 128) else {
                continue;
            };
            let asked = match &message {
                Message::Request(request) => Some(request.id.clone()),
                _ => None,
            };
            let is_answer = matches!(message, Message::Response(_));
            let stated = match classify_line(&message) {
                Ok(stated) => stated,
                Err(rejection) => {
                    prop_assert_eq!(rejection.id, asked, "{}", json);
                    continue;
                }
            };
            match (session.handle_message(message, stated.as_ref(), &facts), asked) {
                (Reaction::Listen(listen), Some(id)) => {
                    prop_assert_eq!(&listen.id, &id);
                    prop_assert!(!running.contains(&id), "{} ran already", id);
                    prop_assert_eq!(answered(&listen.words.ended), Some(id.clone()));
                    if listen.words.changed.is_some() {
                        prop_assert!(listening.len() < max_session_calls);
                        prop_assert!(listening.insert(id.clone()), "{} listened already", id);
                    }
                }
                (Reaction::Call(call), Some(id)) => {
                    prop_assert_eq!(&call.id, &id);
                    prop_assert!(!listening.contains(&id), "{} listens already", id);
                    prop_assert!(call.arguments.is_object() && call.tool < facts.tools.len());
                    prop_assert!(running.len() < max_session_calls);
                    prop_assert!(running.insert(id.clone()), "{} ran already", id);
                    let body = call.reply.result(ToolOutput::new());
                    prop_assert_eq!(answered(&body), Some(id));
                }
                (Reaction::Answer { body, .. }, Some(id)) => {
                    prop_assert_eq!(answered(&body), Some(id), "{}", json);
                }
                (Reaction::Busy(body), Some(id)) => {
                    let full = [running.len(), listening.len()];
                    prop_assert!(full.contains(&max_session_calls), "{}", json);
                    prop_assert_eq!(answered(&body), Some(id));
                }
                (Reaction::Accept, None) => {}
                (Reaction::Cancel(id), None) => {
                    let was_there = running.remove(&id) || listening.remove(&id);
                    prop_assert!(was_there, "{} was not running", id);
                }
                (Reaction::Answer { status, .. }, None) => {
                    prop_assert!(is_answer && status == 400, "{}", json);
                }
                (reaction, asked) => prop_assert!(false, "{json}: {asked:?} {reaction:?}"),
            }
            if finish && let Some(id) = running.iter().next().cloned() {
                session.finish(&id);
                running.remove(&id);
            }
            prop_assert_eq!(&session.calls, &running);
            prop_assert_eq!(&session.subscriptions, &listening);
        }
    }
}
