//! What is made of answers that are whole.

use agent_hub_kit::{ChatMessage, ChatRequest, Llm};
use serde_json::json;

use super::endpoint::{DONE, Endpoint, STOP, STREAM, deltas, on_time, read};

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
