//! Which messages are about a call.

use super::*;

fn is_foreign(json: &str) -> bool {
    matches!(call(false).judge(message(json)), Judged::Foreign(_))
}

// Covers R-106.
#[test]
fn a_call_hears_its_own_answer_and_no_other() {
    let own = ["3", r#""3""#, "3.0"];
    for id in own {
        let json = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        assert_eq!(judged(&call(false), &json).kind, EventKind::Result, "{id}");
    }
    let foreign = [
        "4", "-3", "0", r#""4""#, r#""""#, r#""x3""#, r#""3.0""#, "3.5", "null", "[3]",
    ];
    for id in foreign {
        let json = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        assert!(is_foreign(&json), "{id}");
    }
    // Whose error it is without an id of ours depends on the reply that it came in.
    for json in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#,
    ] {
        assert!(is_foreign(json), "{json}");
    }
}

// Covers R-806.
#[test]
fn a_call_hears_its_own_progress_and_no_other() {
    let table = [
        ("3", true),
        (r#""3""#, true),
        ("3.0", true),
        ("4", false),
        ("0", false),
        (r#""""#, false),
        ("null", false),
        ("3.5", false),
    ];
    for (token, own) in table {
        // The order of members and unknown ones do not matter.
        for json in [
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1,"message":"a"}}}}"#
            ),
            format!(
                r#"{{"params":{{"x":1,"message":"a","progress":1,"progressToken":{token}}},"x":[],"jsonrpc":"2.0","method":"notifications/progress"}}"#
            ),
        ] {
            match call(false).judge(message(&json)) {
                Judged::Event(event) => {
                    assert!(own, "{json}");
                    assert_eq!(
                        (event.kind, event.content.as_str()),
                        (EventKind::Text, Some("a"))
                    );
                }
                Judged::Foreign(other) => {
                    assert!(!own, "{json}");
                    assert!(matches!(other, Message::Notification(_)), "{json}");
                }
                Judged::Returned(returned) => panic!("{json}: {returned:?}"),
            }
        }
    }
    for json in [
        r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":[3]}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/Progress","params":{"progressToken":3,"progress":1}}"#,
        r#"{"jsonrpc":"2.0","id":9,"method":"notifications/progress","params":{"progressToken":3,"progress":1}}"#,
    ] {
        assert!(is_foreign(json), "{json}");
    }
}
