//! Endpoints that refuse, break off, or say what nobody can read.

use std::error::Error as _;
use std::time::Duration;

use agent_hub_kit::{ChatRequest, Error, Limits, Llm, OpenAiLlm};

use super::endpoint::{DONE, Endpoint, STOP, STREAM, deltas, on_time, read, whole};

const KEY: &str = "sk-s3cret-s3cret";
const JSON: &str = "Content-Type: application/json\r\n";

/// What comes of an answer before its error, and the error.
async fn failure_of(answer: impl AsRef<[u8]>) -> (String, Error) {
    let endpoint = Endpoint::bind().await;
    let llm = endpoint.builder().api_key(KEY).build().unwrap();
    let chat = read(llm.chat("Hi".into()));
    let (_, (told, error)) = on_time(async { tokio::join!(endpoint.answer(answer), chat) }).await;
    let error = error.unwrap_or_else(|| panic!("no error after {told}"));
    assert!(
        error.server().unwrap().ends_with("/v1/chat/completions"),
        "{error}"
    );
    (told, error)
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        text += &format!(": {e}");
        cause = e.source();
    }
    text
}

/// Status, headers, body, parts of the text, seconds to wait, whether to try again.
type Refusal<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], Option<f32>, bool);

#[tokio::test]
async fn a_refusal_says_what_to_do() {
    let oai = r#"{"error":{"message":"No such luck.","type":"x","param":null,"code":null}}"#;
    let echoed = format!(r#"{{"error":{{"message":"the key {KEY} is wrong"}}}}"#);
    let long = format!("<html>{}</html>", "x".repeat(100_000));
    #[rustfmt::skip]
    let table: [Refusal<'_>; 16] = [
        ("401 Unauthorized", JSON, oai, &["No such luck; check the API key"], None, false),
        ("401 Unauthorized", JSON, &echoed, &["the key [hidden] is wrong"], None, false),
        ("403 Forbidden", "", "", &["check the API key"], None, false),
        ("404 Not Found", JSON, r#"{"detail":"Not Found"}"#, &["Not Found; check the base URL", "`test-model`"], None, false),
        ("404 Not Found", JSON, r#"{"error":"model not found"}"#, &["model not found"], None, false),
        ("400 Bad Request", JSON, r#"[{"error":{"message":"in a list"}}]"#, &["in a list; check the request"], None, false),
        ("422 Unprocessable", JSON, r#"{"detail":[{"loc":["body"]}]}"#, &["loc"], None, false),
        ("429 Too Many Requests", "Retry-After: 20\r\n", oai, &["No such luck; try again after 20s"], Some(20.0), true),
        ("429 Too Many Requests", "retry-after-ms: 1500\r\nRetry-After: 2\r\n", "", &["after 1.5s"], Some(1.5), true),
        ("429 Too Many Requests", "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", "", &["after Wed, 21 Oct 2015"], None, true),
        ("429 Too Many Requests", "Retry-After: -1\r\n", "", &["try again"], None, true),
        ("429 Too Many Requests", "", "", &["try again later"], None, true),
        ("500 Internal Server Error", "Content-Type: text/event-stream\r\n", oai, &["No such luck; try again later"], None, true),
        ("502 Bad Gateway", "Content-Type: text/html\r\n", &long, &["HTTP 502: <html>xx", "..; try again later"], None, true),
        ("503 Service Unavailable", "Retry-After: 1\r\n", "busy\nnow", &["busy now; try again after 1s"], Some(1.0), true),
        ("302 Found", "Location: https://other/v1\r\n", "", &["a redirect to https://other/v1"], None, false),
    ];
    for (status, headers, body, parts, wait, retryable) in table {
        let (told, error) = failure_of(whole(status, headers, body)).await;
        let text = error.to_string();
        assert_eq!(told, "", "{status}");
        let code = status.split(' ').next().unwrap();
        assert!(
            text.contains(&format!("the server answered HTTP {code}")),
            "{text}"
        );
        for part in parts {
            assert!(text.contains(part), "{status} {body:.200}\n{text}");
        }
        assert!(text.len() < 1_000 && !text.contains(KEY), "{text}");
        let wait = wait.map(Duration::from_secs_f32);
        assert_eq!(error.retry_after(), wait, "{text}");
        assert_eq!(error.is_retryable(), retryable, "{text}");
    }
}

#[tokio::test]
async fn an_error_in_a_stream_ends_it_after_what_came() {
    // the last event, the status that it is the same as, a part of the text
    let table = [
        (
            r#"data: {"error":{"message":"boom","type":"server_error","code":null}}"#,
            500,
            "boom",
        ),
        (
            r#"data: {"error":{"message":"boom","code":502},"choices":[]}"#,
            502,
            "boom",
        ),
        (
            r#"data: {"error":{"message":"boom","code":"429"}}"#,
            429,
            "boom",
        ),
        (
            r#"data: {"error":{"message":"boom","code":"rate_limit_exceeded"}}"#,
            429,
            "boom",
        ),
        (
            r#"data: {"error":{"message":"boom","type":"invalid_request_error","code":9000}}"#,
            400,
            "boom",
        ),
        (
            r#"data: {"error":{"message":"boom","type":"overloaded_error"}}"#,
            503,
            "boom",
        ),
        (r#"data: {"error":"boom"}"#, 500, "boom"),
        (r#"data: {"error":{"why":"boom"}}"#, 500, "boom"),
        (
            r#"data: {"object":"error","message":"boom","type":"BadRequestError","code":400}"#,
            400,
            "boom",
        ),
        (
            "event: error\ndata: {\"error\":{\"message\":\"boom\"}}",
            500,
            "boom",
        ),
        (
            r#"data: {"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
            500,
            "in the middle",
        ),
    ];
    for (event, status, part) in table {
        let body = deltas(&[r#"{"content":"so far <"}"#]);
        let (told, error) = failure_of(format!("{STREAM}{body}{event}\n\n{DONE}")).await;
        assert_eq!(told, "text: so far <", "{event}");
        let text = error.to_string();
        assert!(
            matches!(error, Error::Http { status: s, .. } if s == status),
            "{event}\n{text}"
        );
        assert!(
            text.contains(part) && text.contains("in the middle of its answer"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_after_what_came() {
    let chunked =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let sized =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n";
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
    let came = deltas(&[r#"{"content":"a"}"#, r#"{"content":"b<thi"}"#]);
    let framed = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let told = "text: ab<thi";
    // what is sent before the endpoint hangs up, what comes of it
    let table = [
        (format!("{STREAM}{came}"), told),
        (format!("{STREAM}{came}data: {{\"choi"), told),
        (format!("{STREAM}{came}data: {{\"choices\":[]}}\n"), told),
        (format!("{STREAM}{came}: only a comment\n\n"), told),
        (STREAM.to_owned(), ""),
        (format!("{chunked}{}", framed(&came)), told),
        (format!("{chunked}{}0\r\n\r\n", framed(&came)), told),
        (format!("{chunked}ffff\r\n{came}"), told),
        (format!("{sized}{came}"), told),
        (format!("{json}{{\"choices\":[{{\"mess"), ""),
        (json.to_owned(), ""),
        ("HTTP/1.1 200 OK\r\nContent-".to_owned(), ""),
        (String::new(), ""),
    ];
    for (answer, expected) in table {
        let (told, error) = failure_of(&answer).await;
        assert_eq!(told, expected, "{answer}");
        assert!(
            matches!(error, Error::Transport { .. }),
            "{answer}\n{error:?}"
        );
        assert!(error.is_retryable());
    }
}

#[tokio::test]
async fn what_goes_wrong_after_the_end_takes_nothing_from_an_answer() {
    let endpoint = Endpoint::bind().await;
    let llm = endpoint.llm();
    let sized =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n";
    let body = deltas(&[r#"{"content":"all of it"}"#]);
    for rest in [
        "",
        "data: {\"usa",
        "data: nonsense\n\n",
        "data: {\"error\":\"late\"}\n\n",
    ] {
        let answer = format!("{sized}{body}{STOP}{rest}");
        let chat = read(llm.chat("Hi".into()));
        let (_, (told, error)) =
            on_time(async { tokio::join!(endpoint.answer(answer), chat) }).await;
        assert_eq!(told, "text: all of it | Stop", "`{rest}`");
        assert!(error.is_none(), "`{rest}`: {error:?}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_named() {
    let html = "Content-Type: text/html\r\n";
    // answer, parts of the text
    let table: &[(String, &[&str])] = &[
        (
            whole("200 OK", html, "<html>Welcome"),
            &["text/html", "/v1", "Welcome"],
        ),
        (
            whole("200 OK", "", "hello"),
            &["nothing that it names", "hello"],
        ),
        (whole("204 No Content", "", ""), &["HTTP 204"]),
        (
            whole(
                "200 OK",
                "Content-Encoding: gzip\r\nContent-Type: text/event-stream\r\n",
                "\x1f",
            ),
            &["compresses"],
        ),
        (
            format!("{STREAM}data: nonsense\n\n"),
            &["cannot be read", "nonsense"],
        ),
        (
            format!("{STREAM}data: {{\"choices\":7}}\n\n"),
            &["cannot be read", "choices"],
        ),
        (format!("{STREAM}data: [1]\n\n"), &["cannot be read", "[1]"]),
        (
            format!("{STREAM}data: {}\n\n", "[".repeat(300)),
            &["cannot be read"],
        ),
        (whole("200 OK", JSON, "nonsense"), &["cannot be read"]),
    ];
    for (answer, parts) in table {
        let (told, error) = failure_of(answer).await;
        assert_eq!(told, "", "{answer}");
        assert!(
            matches!(error, Error::Protocol { .. }),
            "{answer}\n{error:?}"
        );
        let text = error.to_string();
        for part in *parts {
            assert!(text.contains(part), "{answer}\n{text}");
        }
        assert!(!error.is_retryable());
    }
    let (_, error) = failure_of("SSH-2.0-x\r\n\r\n").await;
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
}

#[tokio::test]
async fn a_chunk_has_a_bound() {
    let endpoint = Endpoint::bind().await;
    let mut limits = Limits::default();
    limits.max_client_message_bytes = 1_000;
    let llm = endpoint.builder().limits(limits).build().unwrap();
    let long = "x".repeat(2_000);
    let came = deltas(&[r#"{"content":"a"}"#]);
    let table = [
        (format!("{STREAM}{came}data: {long}"), "text: a"),
        (format!("{STREAM}{came}: {long}"), "text: a"),
        (whole("200 OK", JSON, &format!("\"{long}\"")), ""),
    ];
    for (answer, expected) in table {
        let chat = read(llm.chat("Hi".into()));
        let (_, (told, error)) =
            on_time(async { tokio::join!(endpoint.answer(&answer), chat) }).await;
        assert_eq!(told, expected, "{answer}");
        let what = match error {
            Some(Error::Limit {
                what, max: 1_000, ..
            }) => what,
            other => panic!("{answer}\n{other:?}"),
        };
        assert_eq!(what, "max_client_message_bytes");
    }
}

#[tokio::test]
async fn an_endpoint_that_falls_silent_is_given_up() {
    // what is sent before
    for (sent, expected) in [
        (String::new(), ""),
        (STREAM.to_owned(), ""),
        (
            STREAM.to_owned() + &deltas(&[r#"{"content":"a"}"#]),
            "text: a",
        ),
    ] {
        let endpoint = Endpoint::bind().await;
        let short = Duration::from_millis(200);
        let llm = endpoint.builder().idle_timeout(short).build().unwrap();
        let served = async {
            let mut wire = endpoint.accept().await;
            wire.read().await.unwrap();
            wire.write(&sent).await;
            assert!(wire.hung_up().await, "`{sent}`");
        };
        let chat = read(llm.chat("Hi".into()));
        let ((), (told, error)) = on_time(async { tokio::join!(served, chat) }).await;
        assert_eq!(told, expected, "`{sent}`");
        let what = match error {
            Some(Error::Timeout { what, .. }) => what,
            other => panic!("`{sent}`: {other:?}"),
        };
        assert_eq!(what, "idle_timeout", "`{sent}`");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_named() {
    let endpoint = Endpoint::bind().await;
    let url = endpoint.url("/v1");
    drop(endpoint);
    let llm = OpenAiLlm::builder(&url, "m").build().unwrap();
    let (_, error) = read(llm.chat("Hi".into())).await;
    let error = error.unwrap();
    let text = chain(&error);
    assert!(
        matches!(error, Error::Transport { .. }) && error.is_retryable(),
        "{text}"
    );
    assert!(text.contains("could not connect to 127.0.0.1:"), "{text}");
}

#[tokio::test]
async fn a_request_that_cannot_work_is_not_sent() {
    let llm = OpenAiLlm::builder("http://127.0.0.1:1", "m")
        .build()
        .unwrap();
    for (request, part) in [
        (ChatRequest::new(), "at least one message"),
        (
            ChatRequest::new().user("Hi").temperature(f64::NAN),
            "temperature",
        ),
    ] {
        let (_, error) = read(llm.chat(request)).await;
        let error = error.unwrap();
        assert!(matches!(error, Error::Config { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_setting_that_cannot_work_is_told_when_building() {
    let base = "http://127.0.0.1:1/v1";
    let builder = || OpenAiLlm::builder(base, "m");
    let unset = "AGENT_HUB_KIT_TEST_UNSET";
    let table = [
        (
            OpenAiLlm::builder("localhost:8080", "m"),
            "write it in full",
        ),
        (
            OpenAiLlm::builder("http://me:s3cret@h/v1", "m"),
            "set a header instead",
        ),
        (builder().api_key_env(unset), unset),
        (builder().temperature(f64::NAN), "temperature"),
        (builder().api_key("sk-s3cret\n"), "authorization"),
        (builder().header("a b", "c"), "\"a b\" is no header name"),
        (
            builder().header("Content-Length", "2"),
            "`content-length` cannot be set",
        ),
        (
            builder().header("Transfer-Encoding", "chunked"),
            "`transfer-encoding` cannot be set",
        ),
        (builder().parameter("model", "x"), "`model` cannot be set"),
        (builder().parameter("x", f64::NAN), ""),
    ];
    for (builder, part) in table {
        match builder.build() {
            Ok(_) => assert_eq!(part, ""),
            Err(error) => {
                let text = error.to_string();
                assert!(matches!(error, Error::Config { .. }), "{text}");
                assert!(!part.is_empty() && text.contains(part), "{part}: {text}");
                assert!(!text.contains("s3cret"), "{text}");
            }
        }
    }
}

#[test]
fn a_key_is_not_shown() {
    let builder = OpenAiLlm::builder("http://h/v1?key=s3cret-too", "some-model").api_key(KEY);
    let built = format!("{builder:?} {:?}", builder_built(KEY));
    assert!(built.contains("some-model"), "{built}");
    assert!(!built.contains("s3cret"), "{built}");
}

fn builder_built(key: &str) -> OpenAiLlm {
    let builder = OpenAiLlm::builder("http://h/v1?key=s3cret-too", "some-model");
    builder.api_key(key).build().unwrap()
}

#[tokio::test]
async fn a_refusal_whose_body_does_not_come_is_a_refusal_all_the_same() {
    for headers in ["", JSON, "Content-Type: text/html\r\n"] {
        let endpoint = Endpoint::bind().await;
        let short = Duration::from_millis(200);
        let llm = endpoint.builder().idle_timeout(short).build().unwrap();
        let served = async {
            let mut wire = endpoint.accept().await;
            wire.read().await.unwrap();
            let head = "HTTP/1.1 429 Oh\r\nRetry-After: 20\r\nContent-Length: 9\r\n";
            wire.write(format!("{head}{headers}\r\n{{")).await;
            assert!(wire.hung_up().await, "{headers}");
        };
        let chat = read(llm.chat("Hi".into()));
        let ((), (_, error)) = on_time(async { tokio::join!(served, chat) }).await;
        let error = error.expect("a refusal");
        assert!(matches!(error, Error::Http { status: 429, .. }), "{error}");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(20)));
    }
}

#[tokio::test]
async fn a_key_that_is_cut_with_an_error_text_is_not_shown() {
    let echo = format!("{}{KEY} and more", "x ".repeat(245));
    let fault = format!(r#"{{"error":{{"message":"{echo}"}}}}"#);
    let table = [
        whole("401 Unauthorized", JSON, &fault),
        whole("401 Unauthorized", "", &echo),
        whole("200 OK", "Content-Type: text/html\r\n", &echo),
        whole("200 OK", &format!("Content-Type: text/{echo}\r\n"), ""),
        whole("429 Oh", &format!("Retry-After: {echo}\r\n"), ""),
        format!("{STREAM}data: {fault}\n\n"),
        format!("{STREAM}data: {echo}\n\n"),
        format!("{STREAM}data: \"{echo}\"\n\n"),
    ];
    for answer in table {
        let text = chain(&failure_of(&answer).await.1);
        assert!(!text.contains("sk-"), "{answer}\n{text}");
        assert!(text.chars().count() < 2_000, "{answer}\n{text}");
    }
}

#[tokio::test]
async fn a_key_that_is_one_of_several_parts_of_a_query_is_not_shown() {
    let endpoint = Endpoint::bind().await;
    let url = endpoint.url("/v1?a=1&key=q-s3cret-s3cret&b=2");
    let llm = OpenAiLlm::builder(url, "m").build().unwrap();
    let refused = whole("403 Forbidden", "", "no such key: q-s3cret-s3cret");
    let chat = read(llm.chat("Hi".into()));
    let (_, (_, error)) = on_time(async { tokio::join!(endpoint.answer(refused), chat) }).await;
    let text = chain(&error.unwrap());
    assert!(text.contains("no such key: [hidden]"), "{text}");
}
