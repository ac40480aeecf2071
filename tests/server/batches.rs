//! Arrays of messages, which one revision has.

use serde_json::{Value, json};

use crate::fixture::{
    Gate, Live, Served, Session, builder, call, echo, endless, gated, limits, on_both_runtimes,
    post, quiet_call, serve,
};
use crate::raw::soon;

const PING: &str = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

async fn session_of(served: &Served, version: &str) -> Session {
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": version, "capabilities": {}}});
    let opened = post(served.addr, &[], body.to_string()).await;
    let id = opened.head.header("mcp-session-id").unwrap().to_owned();
    Session {
        addr: served.addr,
        id,
    }
}

/// `id code` of each answer.
fn shown(answers: &Value) -> Vec<String> {
    let one = |answer: &Value| format!("{} {}", answer["id"], answer["error"]["code"]);
    match answers {
        Value::Array(all) => all.iter().map(one).collect(),
        single => vec![format!("single {}", one(single))],
    }
}

// Covers R-115, R-116.
#[tokio::test]
async fn each_array_is_answered_as_its_revision_says() {
    let served = serve(echo(builder())).await;
    let echo = quiet_call(1, "echo", json!({"text": "a"}));
    let again = echo.replace(r#""id":1"#, r#""id":2"#);
    let initialize = r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let refused = || (400, vec!["single null -32600"]);
    // body, in 2025-03-26
    let table = [
        (format!("[{PING}]"), (200, vec![r#""p" null"#])),
        (
            format!("[{echo},{NOTE},{PING},{again}]"),
            (200, vec!["1 null", r#""p" null"#, "2 null"]),
        ),
        (format!("[{NOTE},{answer}]"), (202, vec![])),
        (
            format!("[1,{PING},{{}}]"),
            (200, vec!["null -32600", r#""p" null"#, "null -32600"]),
        ),
        ("[1]".to_owned(), (200, vec!["null -32600"])),
        (
            format!("[{initialize},{PING}]"),
            (200, vec!["3 -32600", r#""p" null"#]),
        ),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"no/such"}]"#.to_owned(),
            (200, vec!["1 -32601"]),
        ),
        ("[]".to_owned(), refused()),
        (format!("[{}1]", "1,".repeat(1000)), refused()),
    ];
    let session = session_of(&served, "2025-03-26").await;
    for (body, (status, answers)) in &table {
        let mut answer = session.post(body).await;
        assert_eq!(answer.head.status, *status, "{body:.200}");
        if *status == 202 {
            assert_eq!(answer.body().await, "", "{body}");
        } else {
            assert_eq!(shown(&answer.json().await), *answers, "{body:.200}");
        }
    }
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let session = session_of(&served, version).await;
        for (body, _) in &table {
            let mut answer = session.post(body).await;
            assert_eq!(answer.head.status, 400, "{version}: {body:.200}");
            let answers = answer.json().await;
            assert_eq!(
                shown(&answers),
                ["single null -32600"],
                "{version}: {body:.200}"
            );
        }
        assert_eq!(session.ping().await, 200);
    }
}

// Covers R-1303.
#[tokio::test]
async fn no_array_opens_a_session_or_finds_one_that_is_not_there() {
    let served = serve(echo(builder())).await;
    let initialize = r#"[{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}]"#;
    for (headers, status) in [(&[][..], 400), (&[("Mcp-Session-Id", "x")][..], 404)] {
        let mut answer = post(served.addr, headers, initialize).await;
        assert_eq!(answer.head.status, status);
        assert_eq!(answer.head.header("mcp-session-id"), None);
        assert_eq!(shown(&answer.json().await), ["single null -32600"]);
    }
}

async fn calls_in_a_batch_run_side_by_side_and_their_order_stays() {
    let gate = Gate::new();
    let served = serve(echo(gated(builder(), &gate))).await;
    let session = session_of(&served, "2025-03-26").await;
    let body = format!(
        "[{},{}]",
        call(1, "gated", json!({})),
        call(2, "echo", json!({"text": "a"}))
    );
    let (mut answer, ()) = soon(async {
        tokio::join!(session.post(body), async {
            gate.reached().await;
            let twice = quiet_call(1, "echo", json!({"text": "b"}));
            let answer = session.post(twice).await.json().await;
            assert_eq!(answer["error"]["code"], -32600, "the first one runs");
            gate.open();
        })
    })
    .await;
    let answers = answer.json().await;
    assert_eq!(shown(&answers), ["1 null", "2 null"]);
    assert_eq!(answers[0]["result"]["content"][0]["text"], "released");
}

async fn a_cancelled_call_of_a_batch_has_no_answer_in_it() {
    let live = Live::new();
    let served = serve(endless(builder(), &live)).await;
    let session = session_of(&served, "2025-03-26").await;
    for (others, status) in [(format!(",{PING}"), 200), (String::new(), 202)] {
        let body = format!("[{}{others}]", call(1, "endless", json!({})));
        let (answer, ()) = soon(async {
            tokio::join!(session.post(body), async {
                live.reach(1).await;
                session.cancel(1).await;
            })
        })
        .await;
        assert_eq!(answer.head.status, status);
        live.reach(0).await;
    }
}

on_both_runtimes!(
    calls_in_a_batch_run_side_by_side_and_their_order_stays,
    a_cancelled_call_of_a_batch_has_no_answer_in_it,
);

#[tokio::test]
async fn a_client_that_hangs_up_on_a_batch_leaves_its_calls_alone() {
    let live = Live::new();
    let served = serve(endless(builder(), &live).cancel_on_disconnect(true)).await;
    let session = session_of(&served, "2025-03-26").await;
    let body = format!("[{}]", call(1, "endless", json!({})));
    let mut raw = crate::raw::Raw::connect(served.addr).await;
    raw.send(session.bytes(body)).await;
    live.reach(1).await;
    drop(raw);
    live.reach(0).await;
}

#[tokio::test]
async fn the_bound_on_calls_holds_within_a_batch() {
    let served = serve(echo(builder()).limits(limits(|limits| limits.max_session_calls = 0))).await;
    let session = session_of(&served, "2025-03-26").await;
    let body = format!("[{},{PING}]", quiet_call(1, "echo", json!({"text": "a"})));
    let answers = session.post(body).await.json().await;
    assert_eq!(shown(&answers), ["1 -32603", r#""p" null"#]);
}
