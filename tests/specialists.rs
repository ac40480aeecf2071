//! The LLM specialist, from a call of its tool to the bytes that an endpoint sees, and back.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may fail loudly

#[allow(dead_code)] // the tests of models use the rest
#[path = "llm/endpoint.rs"]
mod endpoint;

use std::io;
use std::sync::Arc;

use agent_hub_kit::specialists::build_llm_server;
use agent_hub_kit::{
    AgentHubClient, ChatChunk, ChatRequest, ChatStream, DummyLlm, FinishReason, Llm, McpServer,
    OpenAiLlm, RawArgs, Tool, ToolContext, testing,
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio::sync::Notify;

use endpoint::{DONE, Endpoint, STOP, STREAM, deltas, on_time, whole};

async fn hub_of(server: &McpServer) -> AgentHubClient {
    let hub = AgentHubClient::builder().build();
    testing::connect_memory(&hub, "llm", server).await.unwrap();
    hub
}

/// All events of a call of `ask`, each as `[type, content, node]`.
async fn asked(llm: impl Llm + 'static, args: Value) -> Vec<Value> {
    let hub = hub_of(&build_llm_server(llm).build()).await;
    let mut events = hub.call_tool_stream("ask", args);
    let mut seen = Vec::new();
    while let Some(event) = on_time(events.next()).await {
        let event = serde_json::to_value(event).unwrap();
        seen.push(json!([event["type"], event["content"], event["node"]]));
    }
    hub.close().await;
    seen
}

#[tokio::test]
async fn an_answer_streams_under_its_nodes_and_is_the_result() {
    let endpoint = Endpoint::bind().await;
    let body = deltas(&[
        r#"{"reasoning_content":"hm"}"#,
        r#"{"content":"The "}"#,
        r#"{"content":"middle."}"#,
    ]);
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
    let answer = format!("{STREAM}{body}{STOP}{usage}{DONE}");
    let args = json!({
        "user_request": "What is this?",
        "images": ["data:image/png;base64,AAAA", "data:image/svg+xml,%3Csvg/%3E"],
    });
    let call = asked(endpoint.llm(), args);
    let (seen, events) = on_time(async { tokio::join!(endpoint.answer(answer), call) }).await;
    let wanted = [
        json!(["log", "asked 13 characters, shown 2 images", "prepare"]),
        json!(["think", "hm", "answer"]),
        json!(["text", "The ", "answer"]),
        json!(["text", "middle.", "answer"]),
        json!(["log", "3 tokens read, 4 written", "answer"]),
        json!(["result", "The middle.", null]),
    ];
    assert_eq!(events, wanted);
    let wanted = json!([{ "role": "user", "content": [
        { "type": "text", "text": "What is this?" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
        { "type": "image_url", "image_url": { "url": "data:image/svg+xml,%3Csvg/%3E" } },
    ]}]);
    assert_eq!(seen.body["messages"], wanted);
}

#[tokio::test]
async fn what_the_endpoint_fails_with_is_the_tools_error_after_what_came() {
    let begun = deltas(&[r#"{"content":"The "}"#]);
    let fault = "data: {\"error\":{\"message\":\"no memory\",\"code\":500}}\n\n";
    let said = r#"{"error":{"message":"bad key k3y-k3y-k3y"}}"#;
    for (case, answer, came, wanted) in [
        (
            "refused",
            whole(
                "401 Unauthorized",
                "Content-Type: application/json\r\n",
                said,
            ),
            false,
            &["401", "bad key [hidden]", "check the API key"][..],
        ),
        (
            "busy",
            whole("429 Too Many Requests", "Retry-After: 7\r\n", ""),
            false,
            &["429", "try again after 7s"],
        ),
        (
            "failed midway",
            format!("{STREAM}{begun}{fault}"),
            true,
            &["500", "no memory", "in the middle of its answer"],
        ),
        (
            "cut",
            format!("{STREAM}{begun}"),
            true,
            &["ended before the model had finished", "ask again"],
        ),
    ] {
        let endpoint = Endpoint::bind().await;
        let llm = endpoint.builder().api_key("k3y-k3y-k3y").build().unwrap();
        let call = asked(llm, json!({ "user_request": "Hi" }));
        let (_, events) = on_time(async { tokio::join!(endpoint.answer(answer), call) }).await;
        let mut wanted_events = vec![json!(["log", "asked 2 characters", "prepare"])];
        if came {
            wanted_events.push(json!(["text", "The ", "answer"]));
        }
        let (last, before) = events.split_last().unwrap();
        assert_eq!(before, wanted_events, "{case}");
        assert_eq!(last[0], "terminal_error", "{case}");
        let told = last[1].as_str().unwrap();
        let place = endpoint.url("/v1/chat/completions");
        for wanted in wanted.iter().chain([&&*place]) {
            assert!(told.contains(wanted), "{case}: {wanted:?} in {told}");
        }
        assert!(!told.contains("k3y"), "{case}: {told}");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_told_with_what_to_do() {
    // Nobody listens here, and nobody else is given the port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/v1", socket.local_addr().unwrap());
    let llm = OpenAiLlm::builder(&url, "m").build().unwrap();
    let events = asked(llm, json!({ "user_request": "Hi" })).await;
    let told = events.last().unwrap()[1].as_str().unwrap();
    for wanted in [&*url, "look whether the model's server runs"] {
        assert!(told.contains(wanted), "{wanted:?} in {told}");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_hangs_up_at_once() {
    let endpoint = Endpoint::bind().await;
    let hub = hub_of(&build_llm_server(endpoint.llm()).build()).await;
    let mut events = hub.call_tool_stream("ask", json!({ "user_request": "Hi" }));
    let spoken = async { while events.next().await.unwrap().kind.as_str() != "text" {} };
    let served = async {
        let mut wire = endpoint.accept().await;
        wire.read().await.unwrap();
        wire.write(STREAM.to_owned() + &deltas(&[r#"{"content":"a"}"#]))
            .await;
        wire
    };
    let (mut wire, ()) = on_time(async { tokio::join!(served, spoken) }).await;
    drop(events);
    assert!(on_time(wire.hung_up()).await);
    hub.close().await;
}

#[tokio::test]
async fn arguments_that_cannot_be_asked_are_told() {
    for (args, wanted) in [
        (json!({}), "user_request"),
        (json!({ "user_request": " \n" }), "`user_request` is empty"),
        (
            json!({ "user_request": "Hi", "images": ["data:image/png;base64,A"] }),
            "images[0]",
        ),
        (
            json!({ "user_request": "Hi", "images": ["data:image/png,x", "data:,x"] }),
            "`images[1]` is text/plain",
        ),
        (
            json!({ "user_request": "Hi", "images": ["http://127.0.0.1/a.png"] }),
            "it does not start with `data:`",
        ),
    ] {
        let events = asked(DummyLlm::new(), args.clone()).await;
        assert_eq!(events.len(), 1, "{args}: {events:?}");
        assert_eq!(events[0][0], "terminal_error", "{args}");
        let told = events[0][1].as_str().unwrap();
        assert!(told.contains(wanted), "{args}: {told}");
    }
    // An image may speak for itself.
    let shown = json!({ "user_request": "", "images": ["data:image/png,x"] });
    let events = asked(DummyLlm::new(), shown).await;
    assert_eq!(events.last().unwrap()[1], "You said: ");
}

/// What a model is made of: its chunks, or a panic.
struct Made(fn() -> Vec<Result<ChatChunk, io::Error>>);

impl Llm for Made {
    fn chat(&self, _: ChatRequest) -> ChatStream {
        ChatStream::new(stream::iter((self.0)()))
    }
}

#[tokio::test]
async fn a_model_of_ones_own_ends_as_it_ends() {
    let ends: [(&str, Made, Value); 5] = [
        (
            "without a word",
            Made(Vec::new),
            json!([["result", "", null]]),
        ),
        (
            "at the longest",
            Made(|| vec![Ok("a".into()), Ok(ChatChunk::Finish(FinishReason::Length))]),
            json!([
                ["text", "a", "answer"],
                ["log", "cut: as long as was allowed", "answer"],
                ["result", "a", null],
            ]),
        ),
        (
            "filtered",
            Made(|| vec![Ok(ChatChunk::Finish(FinishReason::ContentFilter))]),
            json!([
                ["log", "cut by a content filter", "answer"],
                ["result", "", null]
            ]),
        ),
        (
            "with an error",
            Made(|| vec![Ok("a".into()), Err(io::Error::other("no luck"))]),
            json!([
                ["text", "a", "answer"],
                [
                    "terminal_error",
                    "the model gave no whole answer: the model failed: no luck",
                    null
                ],
            ]),
        ),
        (
            "with a panic",
            Made(|| panic!("a test's")),
            json!([
                ["error", "the node panicked", "answer"],
                ["terminal_error", "error in answer: the node panicked", null],
            ]),
        ),
    ];
    for (case, llm, wanted) in ends {
        let events = asked(llm, json!({ "user_request": "Hi" })).await;
        assert_eq!(Value::from(&events[1..]), wanted, "{case}");
    }
}

/// A model that never ends.
struct Endless;

impl Llm for Endless {
    fn chat(&self, _: ChatRequest) -> ChatStream {
        let piece = "x".repeat(ChatStream::MAX_TEXT_LEN / 4);
        ChatStream::new(stream::repeat_with(move || {
            Ok::<_, io::Error>(piece.clone())
        }))
    }
}

#[tokio::test]
async fn a_model_that_never_ends_is_stopped() {
    let events = on_time(asked(Endless, json!({ "user_request": "Hi" }))).await;
    let (last, before) = events.split_last().unwrap();
    let texts = before.iter().filter(|event| event[0] == "text").count();
    assert_eq!(texts, 4, "what fits has come");
    assert_eq!(last[0], "terminal_error");
    let text = last[1].as_str().unwrap();
    assert!(text.contains("ChatStream::MAX_TEXT_LEN"), "{text}");
}

/// A model that says nothing before it is let.
struct Waits(Arc<Notify>);

impl Llm for Waits {
    fn chat(&self, _: ChatRequest) -> ChatStream {
        let go = self.0.clone();
        ChatStream::new(stream::once(Box::pin(async move {
            go.notified().await;
            Ok::<_, io::Error>("done")
        })))
    }
}

#[tokio::test]
async fn a_call_waits_for_no_other_and_more_tools_can_be_added() {
    let go = Arc::new(Notify::new());
    let let_go = async |go: Arc<Notify>, _: RawArgs, _: ToolContext| {
        go.notify_waiters();
        Ok("let go")
    };
    let server = build_llm_server(Waits(go.clone()))
        .tool_with(Tool::new("let_go"), go, let_go)
        .build();
    let hub = hub_of(&server).await;
    let ask = || hub.call_tool_stream("ask", json!({ "user_request": "Hi" }));
    let (mut one, mut two) = (ask(), ask());
    // Both ask before one is answered: the log comes from the step before.
    for call in [&mut one, &mut two] {
        assert_eq!(on_time(call.next()).await.unwrap().kind.as_str(), "log");
    }
    let answered = async { tokio::join!(one.collect_text(), two.collect_text()) };
    let freed = async {
        loop {
            hub.call_tool("let_go", ()).await.unwrap();
        }
    };
    let texts = on_time(async {
        tokio::select! {
            texts = answered => texts,
            () = freed => unreachable!(),
        }
    })
    .await;
    assert_eq!(
        (texts.0.unwrap(), texts.1.unwrap()),
        ("done".into(), "done".into())
    );
    hub.close().await;
}
