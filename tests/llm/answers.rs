//! What is made of answers that are whole.

use agent_hub_kit::{ChatMessage, ChatRequest, Llm, OpenAiLlm};
use serde_json::json;

use super::endpoint::{DONE, Endpoint, STOP, STREAM, deltas, on_time, read, whole};

#[tokio::test]
async fn an_answer_is_streamed() {
    let endpoint = Endpoint::bind().await;
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
    let body = deltas(&[
        r#"{"role":"assistant","content":""}"#,
        r#"{"reasoning_content":"a "}"#,
        r#"{"reasoning_content":"hub?"}"#,
        r#"{"content":"The "}"#,
        r#"{"content":"middle."}"#,
    ]);
    let answer = format!("{STREAM}{body}{STOP}{usage}{DONE}");
    let llm = endpoint.llm();
    let request = ChatRequest::new().user("What is a hub?");
    let (seen, (told, error)) =
        on_time(async { tokio::join!(endpoint.answer(answer), read(llm.chat(request))) }).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(told, "think: a hub? | text: The middle. | Stop | 3+4");
    assert!(
        seen.head
            .starts_with("POST /v1/chat/completions HTTP/1.1\r\n")
    );
    assert_eq!(seen.field("authorization"), None);
    assert_eq!(seen.field("content-type"), Some("application/json"));
    let expected = json!({
        "model": "test-model",
        "messages": [{ "role": "user", "content": "What is a hub?" }],
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn all_that_was_asked_is_sent() {
    let endpoint = Endpoint::bind().await;
    let llm = endpoint
        .builder()
        .api_key("k3y-k3y-k3y")
        .header("x-title", "test")
        .system("Be short.")
        .temperature(0.5)
        .max_tokens(10)
        .parameter("top_p", 0.9)
        .parameter("stream_options", ())
        .build()
        .unwrap();
    let shown = ChatMessage::user("And this?").image("data:image/png;base64,AAAA");
    let request = ChatRequest::new()
        .user("Hi")
        .assistant("Hello.")
        .message(shown.image("https://h/i.png"))
        .temperature(0.2);
    let answer = format!("{STREAM}{STOP}{DONE}");
    let (seen, _) =
        on_time(async { tokio::join!(endpoint.answer(answer), read(llm.chat(request))) }).await;
    assert_eq!(seen.field("authorization"), Some("Bearer k3y-k3y-k3y"));
    assert_eq!(seen.field("x-title"), Some("test"));
    let expected = json!({
        "model": "test-model",
        "messages": [
            { "role": "system", "content": "Be short." },
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": "Hello." },
            { "role": "user", "content": [
                { "type": "text", "text": "And this?" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
                { "type": "image_url", "image_url": { "url": "https://h/i.png" } },
            ] },
        ],
        "stream": true,
        "temperature": 0.2,
        "max_tokens": 10,
        "top_p": 0.9,
    });
    assert_eq!(seen.body, expected);
}

/// What a fresh model makes of one answer.
async fn told_of(answer: &str) -> String {
    let endpoint = Endpoint::bind().await;
    let llm = endpoint.llm();
    let chat = read(llm.chat("Hi".into()));
    let (_, (told, error)) = on_time(async { tokio::join!(endpoint.answer(answer), chat) }).await;
    assert!(error.is_none(), "{answer}\n{error:?}");
    told
}

#[tokio::test]
async fn what_servers_send_is_understood() {
    let parts = r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"}]}"#;
    let stop = |delta: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{delta},\"finish_reason\":\"stop\"}}]}}\n\n")
    };
    // events, what is told of them
    let table = [
        (deltas(&[r#"{"content":"a"}"#]) + STOP, "text: a | Stop"),
        (deltas(&[r#"{"content":"a"}"#]) + DONE, "text: a"),
        (
            deltas(&[r#"{"content":"a"}"#]) + STOP.trim_end(),
            "text: a | Stop",
        ),
        (DONE.to_owned(), ""),
        (
            deltas(&[r#"{"content":null,"reasoning":"a"}"#, r#"{"content":"b"}"#]) + DONE,
            "think: a | text: b",
        ),
        (
            deltas(&[r#"{"reasoning":"same","reasoning_content":"same"}"#]) + DONE,
            "think: same",
        ),
        (deltas(&[parts]) + DONE, "think: hm | text: yes"),
        (
            deltas(&[r#"{"refusal":"I must not.","tool_calls":[{"index":0}]}"#]) + DONE,
            "text: I must not.",
        ),
        (
            deltas(&["null", r#"{"content":"a","unknown":{"deep":[1]}}"#]) + DONE,
            "text: a",
        ),
        (
            // A reason with every chunk ends nothing.
            stop(r#"{"content":"a"}"#) + &stop(r#"{"content":"b"}"#) + DONE,
            "text: ab | Stop",
        ),
        (
            deltas(&[r#"{"content":"a"}"#]) + &STOP.replace("stop", "length") + DONE,
            "text: a | Length",
        ),
        (
            STOP.replace("stop", "content_filter") + DONE,
            "ContentFilter",
        ),
        (
            STOP.replace("stop", "tool_calls") + DONE,
            "Other(\"tool_calls\")",
        ),
        (
            // Usage that grows with every chunk is told once.
            "data: {\"choices\":null,\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n\
             data: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n"
                .to_owned()
                + DONE,
            "1+2",
        ),
        (
            "data: {\"usage\":{},\"choices\":[]}\n\n".to_owned() + STOP + DONE,
            "Stop | 0+0",
        ),
        (
            // Comments, other line ends, no space, names, and a second choice nobody asked for.
            ": processing\r\n\r\nevent: delta\r\nid: 1\r\n\
             data:{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"}},{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\r\n\r\n\
             data:[DONE]\r\n\r\n"
                .to_owned(),
            "text: a",
        ),
        (
            // Choices that are none, or nobody asked for, and counts that are no counts.
            "data: {\"choices\":[null,{\"index\":null,\"delta\":{\"content\":\"a\"}},{\"delta\":{\"content\":\"no\"}}],\
             \"usage\":{\"prompt_tokens\":1e999,\"completion_tokens\":-1}}\n\n\
             data: {\"choices\":[],\"usage\":{\"prompt_tokens\":null,\"completion_tokens\":7,\"more\":[]}}\n\n"
                .to_owned()
                + STOP
                + DONE,
            "text: a | Stop | 0+7",
        ),
        (
            deltas(&[r#"{"content":["a","b",{"text":"c"},{"thinking":"d"},{"text":""},{"text":"e"}]}"#]) + DONE,
            "text: abc | think: d | text: e",
        ),
        (
            deltas(&[r#"{"content":"Say <think>no</think> and <thin king <"}"#]) + DONE,
            "text: Say  | think: no | text:  and <thin king <",
        ),
        (
            deltas(&[r#"{"content":"<think>\n\n</think>\n\nHi"}"#]) + DONE,
            "text: Hi",
        ),
        (
            deltas(&[r#"{"content":"<think>for ever"}"#]) + STOP,
            "think: for ever | Stop",
        ),
    ];
    for (events, expected) in table {
        assert_eq!(
            told_of(&(STREAM.to_owned() + &events)).await,
            expected,
            "{events}"
        );
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_stream_is_understood() {
    let body = r#"{"object":"chat.completion","choices":[{"index":0,"finish_reason":"stop",
        "message":{"role":"assistant","content":"<think>hm</think>\nyes","reasoning_content":"so"}}],
        "usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#;
    let expected = "think: sohm | text: yes | Stop | 3+4";
    for headers in ["Content-Type: application/json; charset=utf-8\r\n", ""] {
        let answer = whole("200 OK", headers, body);
        assert_eq!(told_of(&answer).await, expected, "`{headers}`");
    }
}

#[tokio::test]
async fn thoughts_are_told_apart_wherever_the_text_is_cut() {
    let content = "<think>one < two</thi</think> three <b> <think>四</think>five";
    let expected = "think: one < two</thi | text: three <b>  | think: 四 | text: five";
    let quoted = |text: &str| format!("{{\"content\":{}}}", serde_json::to_string(text).unwrap());
    for (at, _) in content.char_indices() {
        let (first, second) = content.split_at(at);
        let body = deltas(&[&quoted(first), &quoted(second)]);
        let told = told_of(&format!("{STREAM}{body}{STOP}")).await;
        assert_eq!(told, format!("{expected} | Stop"), "cut at {at}");
    }
    let single: Vec<String> = content.chars().map(|c| quoted(&c.to_string())).collect();
    let single: Vec<&str> = single.iter().map(String::as_str).collect();
    let told = told_of(&format!("{STREAM}{}{DONE}", deltas(&single))).await;
    assert_eq!(told, expected, "one character at a time");
}

#[tokio::test]
async fn an_answer_is_the_same_wherever_its_bytes_are_cut() {
    let endpoint = Endpoint::bind().await;
    let llm = endpoint.llm();
    let body = deltas(&[r#"{"content":"<think>é</think>"}"#, r#"{"content":"四"}"#]) + STOP + DONE;
    // One connection for all: each answer ends, and the next request follows on it.
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk =
        |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let served = async {
        let mut wire = endpoint.accept().await;
        for at in 1..body.len() {
            wire.read().await.unwrap();
            let (first, second) = body.as_bytes().split_at(at);
            wire.write(head).await;
            wire.write(chunk(first)).await;
            tokio::task::yield_now().await;
            wire.write([&chunk(second)[..], b"0\r\n\r\n"].concat())
                .await;
        }
    };
    let asked = async {
        for at in 1..body.len() {
            let (told, error) = read(llm.chat("Hi".into())).await;
            assert_eq!(told, "think: é | text: 四 | Stop", "cut at {at}");
            assert!(error.is_none(), "cut at {at}: {error:?}");
        }
    };
    on_time(async { tokio::join!(served, asked) }).await;
}

#[tokio::test]
async fn a_chunk_is_given_as_soon_as_it_has_come() {
    let endpoint = Endpoint::bind().await;
    let llm = endpoint.llm();
    let mut answer = llm.chat("Hi".into());
    let (mut wire, first) = on_time(async {
        let served = async {
            let mut wire = endpoint.accept().await;
            wire.read().await.unwrap();
            wire.write(STREAM.to_owned() + &deltas(&[r#"{"content":"one"}"#]))
                .await;
            wire
        };
        tokio::join!(served, answer.next())
    })
    .await;
    assert_eq!(first.unwrap().unwrap(), "one".into());
    wire.write(deltas(&[r#"{"content":"two"}"#])).await;
    let second = on_time(answer.next()).await;
    assert_eq!(second.unwrap().unwrap(), "two".into());
}

#[tokio::test]
async fn a_base_url_is_taken_as_it_is_meant() {
    // base URL, what is asked for
    let table = [
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("", "/chat/completions"),
        ("/", "/chat/completions"),
        ("/a/b//", "/a/b/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/x?api-version=1", "/x/chat/completions?api-version=1"),
    ];
    for (base, path) in table {
        let endpoint = Endpoint::bind().await;
        let llm = OpenAiLlm::builder(endpoint.url(base), "m").build().unwrap();
        let answer = format!("{STREAM}{DONE}");
        let chat = read(llm.chat("Hi".into()));
        let (seen, _) = on_time(async { tokio::join!(endpoint.answer(answer), chat) }).await;
        let line = seen.head.lines().next().unwrap();
        assert_eq!(line, format!("POST {path} HTTP/1.1"), "`{base}`");
    }
}
