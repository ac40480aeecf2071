//! `agent-hub llm`: what its command line may be, and what becomes of a call.

use super::endpoint::{DONE, Endpoint, STOP, STREAM, deltas, on_time, whole};
use super::*;

/// `agent-hub llm` before an endpoint of the test's, with its URL.
async fn start_llm(endpoint: &Endpoint, more: &[&str], key: &str) -> (Child, String) {
    let mut command = Command::new(BINARY);
    command
        .args(["llm", "--port", "0", "--backend", "openai", "--model", "m"])
        .args(["--base-url", &endpoint.url("/v1")])
        .args(more)
        .env("TEST_MODEL_KEY", key);
    listening(started(command)).await
}

const HI: &str = r#"{"user_request":"Hi"}"#;

#[tokio::test]
async fn the_dummy_model_answers_over_http_and_stdio() {
    let (_llm, url) = listening(start(&["llm", "--port", "0"])).await;
    let child = format!("stdio:{BINARY} llm --stdio --backend dummy");
    for target in [&*url, &*child] {
        let call = run(&["call", target, "ask", HI]).await;
        let wanted = (Some(0), "You said: Hi\n");
        assert_eq!((call.code, &*call.out), wanted, "{target}");
        let wanted = "prepare: asked 2 characters\n1 messages, 0 images\n\
                      answer: 1 tokens read, 8 written\n";
        assert_eq!(call.err, wanted, "{target}");
    }
}

#[tokio::test]
async fn what_the_command_line_says_reaches_the_endpoint() {
    let endpoint = Endpoint::bind().await;
    let options = [
        ["--key-env", "TEST_MODEL_KEY"],
        ["--system", "Be short."],
        ["--temperature", "0.5"],
        ["--max-tokens", "9"],
    ];
    let (_llm, url) = start_llm(&endpoint, options.as_flattened(), "k3y-k3y-k3y").await;
    let answer = STREAM.to_owned() + &deltas(&[r#"{"content":"Yes."}"#]) + STOP + DONE;
    let call = ["call", &*url, "ask", HI];
    let call = run(&call);
    let (seen, call) = on_time(async { tokio::join!(endpoint.answer(answer), call) }).await;
    assert_eq!((call.code, &*call.out), (Some(0), "Yes.\n"), "{}", call.err);
    assert_eq!(seen.field("authorization"), Some("Bearer k3y-k3y-k3y"));
    let body = json!({
        "model": "m",
        "messages": [
            { "role": "system", "content": "Be short." },
            { "role": "user", "content": "Hi" },
        ],
        "stream": true,
        "stream_options": { "include_usage": true },
        "temperature": 0.5,
        "max_tokens": 9,
    });
    assert_eq!(seen.body, body);
}

#[tokio::test]
async fn a_refusal_is_told_with_what_where_and_what_to_do() {
    let endpoint = Endpoint::bind().await;
    let key = ["--key-env", "TEST_MODEL_KEY"];
    let (_llm, url) = start_llm(&endpoint, &key, "k3y-k3y-k3y").await;
    let answer = whole("401 Unauthorized", "", "who is k3y-k3y-k3y?");
    let call = ["call", &*url, "ask", HI];
    let call = run(&call);
    let (_, call) = on_time(async { tokio::join!(endpoint.answer(answer), call) }).await;
    assert_eq!((call.code, &*call.out), (Some(1), ""), "{}", call.err);
    let place = endpoint.url("/v1/chat/completions");
    for wanted in ["401", &place, "check the API key in TEST_MODEL_KEY"] {
        assert!(call.err.contains(wanted), "{wanted} in {}", call.err);
    }
    assert!(!call.err.contains("k3y"), "{}", call.err);
}

#[tokio::test]
async fn a_signal_to_the_caller_hangs_up_on_the_endpoint() {
    let endpoint = Endpoint::bind().await;
    let (_llm, url) = start_llm(&endpoint, &[], "").await;
    let mut call = start(&["call", &url, "ask", HI]);
    let mut wire = on_time(endpoint.accept()).await;
    on_time(wire.read()).await.unwrap();
    wire.write(STREAM.to_owned() + &deltas(&[r#"{"content":"a"}"#]))
        .await;
    let mut first = [0];
    let out = call.stdout.as_mut().unwrap();
    on_time(out.read_exact(&mut first)).await.unwrap();
    signal(&call, "-INT");
    assert!(on_time(wire.hung_up()).await);
    assert_eq!(end(call).await.code, Some(130));
}

#[tokio::test]
async fn a_wrong_command_line_is_told_before_anything_is_served() {
    let openai = ["--backend", "openai"];
    let url = ["--base-url", "http://127.0.0.1:9/v1"];
    let model = ["--model", "m"];
    for (words, wanted) in [
        (
            &[&url][..],
            &["--base-url is for", "add --backend openai"][..],
        ),
        (&[&model], &["--model is for", "add --backend openai"]),
        (&[&["--key-env", "HOME"]], &["--key-env is for"]),
        (&[&["--system", "x"]], &["--system is for"]),
        (&[&["--temperature", "1"]], &["--temperature is for"]),
        (&[&["--max-tokens", "1"]], &["--max-tokens is for"]),
        (&[&openai], &["needs --base-url", "try: --base-url http"]),
        (&[&openai, &url], &["needs --model", "try: --model"]),
        (
            &[&openai, &url, &model, &["--key-env", "NOT_THERE_9"]],
            &["`NOT_THERE_9`", "is not set", "try: "],
        ),
        (
            &[&openai, &["--base-url", "ftp://h/v1"], &model],
            &["neither http nor https", "try: "],
        ),
        (&[&["--backend", "gpt"]], &["dummy, openai"]),
        (
            &[&openai, &url, &model, &["--temperature", "-1"]],
            &["a number from 0 on"],
        ),
        (&[&openai, &url, &model, &["--max-tokens", "0"]], &["1.."]),
        (&[&["--stdio", "--port=1"]], &["--stdio"]),
    ] {
        let words: Vec<&str> = words
            .iter()
            .flat_map(|words| words.iter().copied())
            .collect();
        let ended = run(&[&["llm"], &words[..]].concat()).await;
        assert_eq!((ended.code, &*ended.out), (Some(2), ""), "{words:?}");
        for wanted in wanted {
            assert!(ended.err.contains(wanted), "{wanted} in {}", ended.err);
        }
    }
}

#[tokio::test]
async fn the_help_says_where_the_specialists_listen() {
    for (command, port, more) in [
        ("echo", "[default: 8001]", ""),
        ("llm", "[default: 8002]", "--key-env OPENAI_API_KEY"),
    ] {
        let help = run(&[command, "-h"]).await;
        assert_eq!(help.code, Some(0), "{command}");
        for wanted in [port, more] {
            assert!(help.out.contains(wanted), "{wanted} in {}", help.out);
        }
    }
}
