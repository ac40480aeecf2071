//! A peer's client against our echo specialist.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::peer::{Client, Link, Row};
use crate::tools::echo_and_hold;

for_each_peer!(served [
    the_tools_are_listed,
    every_envelope_comes_before_the_result,
    bad_arguments_are_a_tool_error_that_says_why,
    an_unknown_tool_is_a_protocol_error,
    a_cancel_drops_the_tool_and_the_session_lives_on,
]);

/// Runs the scenario with the peer's client, which finds our server.
async fn served(row: Row, _name: &str, scenario: impl AsyncFnOnce(&Client)) {
    let (target, _serving) = our_server(row.link).await;
    if let Some(client) = Client::of(row, "client", target) {
        scenario(&client).await;
    }
}

/// What a peer's client is told of our server.
pub(crate) async fn our_server(link: Link) -> (String, Option<Serving>) {
    match link {
        Link::Http => {
            let (url, serving) = serve_http().await;
            (url, Some(serving))
        }
        // The client starts it and ends it.
        Link::Stdio => (format!("stdio:'{}'", own_server().display()), None),
    }
}

/// Cargo builds it with the tests, into a folder beside theirs.
fn own_server() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.set_file_name("examples");
    path.push(format!(
        "interop_stdio_server{}",
        std::env::consts::EXE_SUFFIX
    ));
    assert!(
        path.exists(),
        "no {}: cargo build --examples",
        path.display()
    );
    path
}

async fn serve_http() -> (String, Serving) {
    let bound = echo_and_hold().bind("127.0.0.1:0").await.unwrap();
    let url = bound.url().to_owned();
    let serving = tokio::spawn(async move { bound.serve().await.unwrap() });
    (url, Serving(serving))
}

/// Ends a server's task with the test.
pub(crate) struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn result(text: &str) -> Value {
    json!({"result": text, "is_error": false})
}

async fn the_tools_are_listed(client: &Client) {
    let seen = client.run(&["list"]).await;
    let tools = ["echo", "hold", "released", "all_types"];
    let expected = json!({"tools": tools, "version": client.era.version()});
    assert_eq!(seen, [expected]);
}

async fn every_envelope_comes_before_the_result(client: &Client) {
    let text = "Hé👋llo \"you\" \\ \n\t こんにちは ".repeat(20);
    let args = json!({"text": text}).to_string();
    let seen = client.run(&["call", "echo", &args]).await;

    let (last, progress) = seen.split_last().unwrap();
    assert_eq!(*last, result(&text));
    let numbers: Vec<f64> = progress
        .iter()
        .map(|p| p["progress"].as_f64().unwrap())
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let envelopes: Vec<Value> = progress
        .iter()
        .map(|p| serde_json::from_str(p["message"].as_str().unwrap()).unwrap())
        .collect();
    for envelope in &envelopes {
        assert_eq!(envelope["v"], 1, "{envelope}");
        assert!(envelope["node"].is_string(), "{envelope}");
    }
    assert_eq!(envelopes[0]["type"], "log");
    assert!(
        envelopes[1..]
            .iter()
            .all(|envelope| envelope["type"] == "text")
    );
    let tokens: Vec<&str> = envelopes[1..]
        .iter()
        .map(|e| e["content"].as_str().unwrap())
        .collect();
    let characters: Vec<String> = text.chars().map(String::from).collect();
    assert_eq!(tokens, characters);
}

async fn bad_arguments_are_a_tool_error_that_says_why(client: &Client) {
    let cases = [
        (r#"{"delay_ms": 1}"#, "text"),
        (r#"{"text": 7}"#, "string"),
        (r#"{"text": "a", "delay_ms": "soon"}"#, "soon"),
    ];
    let mut scenario = vec!["call"];
    scenario.extend(cases.iter().flat_map(|(args, _)| ["echo", args]));
    let seen = client.run(&scenario).await;
    assert_eq!(seen.len(), cases.len(), "{seen:?}");
    for (seen, (args, why)) in seen.iter().zip(cases) {
        assert_eq!(seen["is_error"], true, "{args}: {seen}");
        let text = seen["result"].as_str().unwrap();
        assert!(text.contains(why), "{args}: {text}");
    }
}

async fn an_unknown_tool_is_a_protocol_error(client: &Client) {
    let seen = client.run(&["call", "ecko", "{}"]).await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0]["error"], -32602, "{seen:?}");
}

async fn a_cancel_drops_the_tool_and_the_session_lives_on(client: &Client) {
    // A session's end drops its calls too: that the cancel did it, `released` shows within the session.
    let seen = client
        .run(&["cancel", "hold", "{}", "released", "{}"])
        .await;
    assert_eq!(seen.len(), 3 + 2, "{seen:?}");
    assert!(seen[..3].iter().all(|seen| seen["message"].is_string()));
    assert_eq!(
        seen[3..],
        [json!({"cancelled": true}), result("released")],
        "{seen:?}"
    );
}
