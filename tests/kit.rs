//! What a user of the Python kit looks for by name on the serving side, one test a row of the README's
//! table: each name does what it says. How it behaves at its edges is in the tests of its part.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test may fail loudly

use std::error::Error as _;
use std::time::Duration;

use agent_hub_kit::specialists::{build_echo_server, build_llm_server};
use agent_hub_kit::{
    AgentHubClient, ChatRequest, DataUri, DummyLlm, END, ENVELOPE_VERSION, Error, EventKind,
    EventStreamer, ImageInput, LlmGraph, McpServer, McpServerBuilder, OpenAiLlm, RawArgs, START,
    StreamEvent, TERMINAL_EVENT_TYPES, Tool, ToolContext, ToolError, as_image_uris,
    decode_envelope, encode_envelope, encode_image_to_data_uri, stream_text_iter,
    stream_text_stream, testing, try_stream_text_iter, try_stream_text_stream,
};
use futures_util::{StreamExt, stream};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Deserialize, JsonSchema)]
struct EchoArgs {
    /// text to repeat
    text: String,
}

fn my_app() -> McpServerBuilder {
    McpServer::builder("my-app", "0.1.0").tool(
        Tool::typed::<EchoArgs>("echo").description("Repeat a text, one character at a time"),
        async |args: EchoArgs, ctx: ToolContext| {
            let stream = ctx.streamer("my-app");
            for ch in args.text.chars() {
                stream.text(ch).await?;
            }
            Ok(args.text)
        },
    )
}

/// A hub whose one server has the tool `run`, which is `run`.
async fn hub_of<F, Fut>(run: F) -> AgentHubClient
where
    F: Fn(RawArgs, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    let server = McpServer::builder("s", "1")
        .tool(Tool::new("run"), run)
        .build();
    connected(&server).await
}

async fn connected(server: &McpServer) -> AgentHubClient {
    let hub = AgentHubClient::builder().build();
    testing::connect_memory(&hub, "s", server).await.unwrap();
    hub
}

/// All events of a call, each as `[type, content, node]`.
async fn events(hub: &AgentHubClient, tool: &str, args: Value) -> Vec<Value> {
    let shown = |event| {
        let event = serde_json::to_value(event).unwrap();
        json!([event["type"], event["content"], event["node"]])
    };
    let all = hub.call_tool_stream(tool, args).map(shown).collect();
    tokio::time::timeout(Duration::from_secs(30), all)
        .await
        .unwrap()
}

#[tokio::test]
async fn mcp_server_builder_tool_and_build() {
    let hub = connected(&my_app().build()).await;
    let tool = hub.find_tool("echo").unwrap();
    let schema: Value = serde_json::from_str(&tool.input_schema().raw()).unwrap();
    assert_eq!(
        schema["properties"]["text"]["description"],
        "text to repeat"
    );
    let wanted = [
        json!(["text", "h", "my-app"]),
        json!(["text", "i", "my-app"]),
        json!(["result", "hi", null]),
    ];
    assert_eq!(events(&hub, "echo", json!({"text": "hi"})).await, wanted);
}

#[tokio::test]
async fn bind_serve_http_serve_listener_serve_stdio_path_and_into_service() {
    let hub = AgentHubClient::builder().build();
    let bound = my_app().build().bind("127.0.0.1:0").await.unwrap();
    let (url, handle) = (bound.url().to_owned(), bound.handle());
    assert_eq!(url, format!("http://{}/mcp", bound.local_addr()));
    let serving = tokio::spawn(bound.serve());
    hub.connect_http("bound", url).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let server = my_app().path("/x").build();
    let listening = tokio::spawn(async move { server.serve_listener(listener).await });
    hub.connect_http("listening", url).await.unwrap();
    // The port is taken, and says so before anything is served.
    let taken = hub.servers().len();
    assert_eq!(taken, 2);
    for name in ["bound/echo", "listening/echo"] {
        assert_eq!(
            hub.call_tool(name, json!({"text": "a"})).await.unwrap(),
            "a"
        );
    }
    hub.close().await;
    handle.shutdown();
    serving.await.unwrap().unwrap();
    listening.abort();
    my_app().build().into_service().unwrap();
    // Not run here: the first serves until the process ends, the second takes over its streams.
    let server = my_app().build();
    drop((server.serve_http("127.0.0.1:0"), server.serve_stdio()));
}

#[tokio::test]
async fn event_streamer_and_its_methods() {
    let inner = connected(&my_app().build()).await;
    let hub = hub_of(move |_: RawArgs, ctx: ToolContext| {
        let mut far = inner.call_tool_stream("echo", json!({"text": "ab"}));
        async move {
            let stream = EventStreamer::new(&ctx).node("n");
            assert!(stream.is_active() && !stream.is_closed());
            stream.text("text").await?;
            stream.think("think").await?;
            stream.log("log").await?;
            stream.image("data:,i").await?;
            stream.stl("data:,s").await?;
            stream.video("data:,v").await?;
            stream.emotion(json!({"joy": 1})).await?;
            stream.error("error").await?;
            stream.send("custom", [1]).await?;
            stream.with_node("m").text("other").await?;
            stream.forward_event(&far.next().await.unwrap()).await?;
            let last = stream.forward(&mut far).await?;
            assert_eq!(last.unwrap().kind, EventKind::Result);
            Ok("done".to_owned())
        }
    })
    .await;
    let wanted = [
        json!(["text", "text", "n"]),
        json!(["think", "think", "n"]),
        json!(["log", "log", "n"]),
        json!(["image", "data:,i", "n"]),
        json!(["stl", "data:,s", "n"]),
        json!(["video", "data:,v", "n"]),
        json!(["emotion_data", {"joy": 1}, "n"]),
        json!(["error", "error", "n"]),
        json!(["custom", [1], "n"]),
        json!(["text", "other", "m"]),
        json!(["text", "a", "my-app"]),
        json!(["text", "b", "my-app"]),
        json!(["result", "done", null]),
    ];
    assert_eq!(events(&hub, "run", json!({})).await, wanted);
}

#[tokio::test]
async fn stream_text_iter_and_stream_text_stream() {
    let hub = hub_of(async |_: RawArgs, ctx: ToolContext| {
        let s = ctx.streamer("n");
        let mut whole = stream_text_iter(&s, ["a", "b"]).await?;
        whole += &stream_text_stream(&s, stream::iter(['c', 'd'])).await?;
        let fine = ["e".to_owned()].map(Ok::<_, ToolError>);
        whole += &try_stream_text_iter(&s, fine).await?;
        let broken = [Ok("f"), Err(ToolError::new("the model is gone"))];
        let error = try_stream_text_stream(&s, stream::iter(broken)).await;
        assert!(error.is_err());
        Ok(whole)
    })
    .await;
    let seen = events(&hub, "run", json!({})).await;
    let texts: Vec<_> = seen.iter().map(|event| &event[1]).collect();
    assert_eq!(texts, ["a", "b", "c", "d", "e", "f", "abcde"]);
}

#[tokio::test]
async fn blocking_text_and_the_other_blocking_methods_and_spawn_blocking() {
    let hub = hub_of(async |_: RawArgs, ctx: ToolContext| {
        let said = ctx.spawn_blocking(|s| {
            s.blocking_text("text")?;
            s.blocking_think("think")?;
            s.blocking_log("log")?;
            s.blocking_image("data:,i")?;
            s.blocking_stl("data:,s")?;
            s.blocking_video("data:,v")?;
            s.blocking_emotion(json!({}))?;
            s.blocking_error("error")?;
            s.blocking_send("custom", 1)?;
            Ok("done".to_owned())
        });
        said.await
    })
    .await;
    let seen = events(&hub, "run", json!({})).await;
    let kinds: Vec<_> = seen
        .iter()
        .map(|event| event[0].as_str().unwrap())
        .collect();
    let wanted = "text think log image stl video emotion_data error custom result";
    assert_eq!(kinds.join(" "), wanted);
}

#[tokio::test]
async fn progress_of_a_tool_context() {
    let hub = hub_of(async |_: RawArgs, ctx: ToolContext| {
        ctx.progress(1.0, 4.0, None).await?;
        ctx.progress(2.0, 4.0, "half").await?;
        Ok(String::new())
    })
    .await;
    let seen: Vec<StreamEvent> = hub.call_tool_stream("run", ()).collect().await;
    assert_eq!(seen[0].kind, EventKind::Progress);
    assert_eq!(seen[0].content.value(), json!({"progress": 1, "total": 4}));
    assert_eq!(seen[1].text(), Some("half"));
}

#[tokio::test]
async fn stream_event_and_its_parts() {
    let hub = connected(&my_app().build()).await;
    let mut stream = hub.call_tool_stream("echo", json!({"text": "a"}));
    let event = stream.next().await.unwrap().into_owned();
    assert_eq!((&event.kind, event.text()), (&EventKind::Text, Some("a")));
    assert_eq!(event.node.as_ref().unwrap().as_str(), "my-app");
    assert!(!event.is_terminal() && event.error().is_none() && event.tool_result().is_none());
    assert_eq!(event.progress().unwrap().number, 1.0);
    let raw: Value = serde_json::from_str(&event.raw().unwrap()).unwrap();
    assert_eq!(
        raw,
        json!({"v": 1, "type": "text", "content": "a", "node": "my-app"})
    );
    let shown = json!({"type": "text", "content": "a", "node": "my-app"});
    assert_eq!(serde_json::to_value(&event).unwrap(), shown);
    let last = stream.next().await.unwrap();
    assert!(last.is_terminal() && last.tool_result().is_some());
    assert!(stream.next().await.is_none());
}

#[test]
fn envelope_version_terminal_event_types_encode_envelope_and_decode_envelope() {
    let text = encode_envelope("text", "あ", Some("my-agent")).unwrap();
    assert_eq!(
        text,
        r#"{"v":1,"type":"text","content":"あ","node":"my-agent"}"#
    );
    let envelope = decode_envelope(&text);
    assert_eq!(envelope.v, ENVELOPE_VERSION);
    assert_eq!(envelope.content.as_str(), Some("あ"));
    let mut types = TERMINAL_EVENT_TYPES;
    types.sort_unstable();
    assert_eq!(types, ["cancelled", "result", "terminal_error"]);
}

#[tokio::test]
async fn error_tells_a_tool_a_cancel_and_what_may_be_tried_again() {
    let hub = hub_of(async |_: RawArgs, _: ToolContext| Err(ToolError::new("no paper"))).await;
    let error = hub.call_tool("run", ()).await.unwrap_err();
    assert!(error.is_tool() && !error.is_cancelled() && !error.is_retryable());
    assert!(error.to_string().contains("no paper"), "{error}");
    let error = hub.call_tool("rum", ()).await.unwrap_err();
    assert!(matches!(error, Error::UnknownTool { .. }), "{error:?}");
    let refused = hub.connect_http("gone", "http://127.0.0.1:1/mcp").await;
    let error = refused.unwrap_err();
    assert!(
        error.is_retryable() && error.source().is_some(),
        "{error:?}"
    );
}

#[test]
fn as_image_uris_encode_image_to_data_uri_image_input_and_data_uri() {
    let folder = std::env::temp_dir();
    let file = folder.join(format!("agent-hub-kit-{}.gif", std::process::id()));
    std::fs::write(&file, b"GIF89a").unwrap();
    let uri = "data:image/gif;base64,R0lGODlh";
    let bytes: &[u8] = b"GIF89a";
    let inputs = [
        ImageInput::from(file.as_path()),
        ImageInput::from(file.clone()),
        ImageInput::from(bytes),
        ImageInput::from(bytes.to_vec()),
        ImageInput::from(bytes::Bytes::from_static(b"GIF89a")),
        ImageInput::from(uri),
    ];
    let uris = as_image_uris(inputs).unwrap();
    assert_eq!(json!(uris), json!(vec![uri; 6]));
    std::fs::remove_file(&file).unwrap();

    let uri: DataUri = encode_image_to_data_uri(bytes).unwrap();
    assert_eq!((uri.media_type(), &uri.decode()[..]), ("image/gif", bytes));
    assert_eq!(DataUri::parse(uri.as_str()).unwrap(), uri);
    let gone = encode_image_to_data_uri(file.as_path()).unwrap_err();
    assert!(gone.to_string().contains(file.to_str().unwrap()), "{gone}");
}

#[tokio::test]
async fn build_echo_server_and_build_llm_server_take_more_tools() {
    let more = || Tool::new("more");
    let tool = async |_: RawArgs, _: ToolContext| Ok("more");
    let echo = build_echo_server().tool(more(), tool).build();
    let llm = build_llm_server(DummyLlm::new()).tool(more(), tool).build();
    let hub = AgentHubClient::builder().build();
    testing::connect_memory(&hub, "echo", &echo).await.unwrap();
    testing::connect_memory(&hub, "llm", &llm).await.unwrap();
    let said = hub.call_tool("echo", json!({"text": "a"})).await.unwrap();
    assert_eq!(said, "a");
    let said = hub.call_tool("ask", json!({"user_request": "a"})).await;
    assert!(said.unwrap().as_str().unwrap().contains('a'));
    for tool in ["echo/more", "llm/more"] {
        assert_eq!(hub.call_tool(tool, ()).await.unwrap(), "more");
    }
}

#[tokio::test]
async fn echo_specialist_url_llm_specialist_url_free_port_and_test_server() {
    let hub = AgentHubClient::builder().build();
    let own = testing::TestServer::spawn(my_app().build()).await.unwrap();
    for (name, url) in [
        ("echo", testing::echo_specialist_url().await),
        ("llm", testing::llm_specialist_url().await),
        ("own", own.url()),
    ] {
        hub.connect_http(name, url).await.unwrap();
    }
    let said = hub.call_tool("llm/ask", json!({"user_request": "a"}));
    assert_eq!(said.await.unwrap(), "You said: a");
    for tool in ["echo/echo", "own/echo"] {
        let said = hub.call_tool(tool, json!({"text": "a"})).await;
        assert_eq!(said.unwrap(), "a", "{tool}");
    }
    let port = testing::free_port();
    TcpListener::bind(("127.0.0.1", port)).await.unwrap();
}

#[tokio::test]
async fn llm_graph() {
    let graph = LlmGraph::<u32>::builder()
        .add_node("count", async |mut state, ctx| {
            *state += 1;
            ctx.text("one more").await?;
            Ok(())
        })
        .add_edge(START, "count")
        .add_conditional_edge("count", |n| **n < 2, [(true, "count"), (false, END)])
        .build()
        .unwrap();
    assert!(graph.to_mermaid().contains("count"));
    let mut run = graph.run(0);
    assert_eq!(run.by_ref().count().await, 2);
    assert_eq!(*run.finish().await.unwrap(), 2);
}

#[tokio::test]
async fn llm_dummy_llm_and_open_ai_llm() {
    let mut answer = agent_hub_kit::Llm::chat(
        &DummyLlm::new(),
        ChatRequest::new().user("Say this back to me"),
    );
    let mut chunks = 0;
    while let Some(chunk) = answer.next().await {
        chunk.unwrap();
        chunks += 1;
    }
    assert!(chunks > 1);
    let llm = OpenAiLlm::builder("http://127.0.0.1:1/v1", "tiny")
        .build()
        .unwrap();
    let mut answer = agent_hub_kit::Llm::chat(&llm, ChatRequest::new().user("Hi"));
    let error = answer.next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
}
