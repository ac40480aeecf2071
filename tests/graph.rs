//! A graph and data URIs as an agent uses them: inside a tool, seen by whoever calls it.
#![allow(clippy::unwrap_used)] // a test may fail loudly

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, DataUri, END, GraphState, Json, LlmGraph, McpServer, NodeContext, NodeError,
    RawArgs, START, Tool, ToolContext, testing,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

async fn connected(server: McpServer) -> AgentHubClient {
    let hub = AgentHubClient::builder().build();
    testing::connect_memory(&hub, "agent", &server)
        .await
        .unwrap();
    hub
}

/// A server whose one tool `ask` runs a graph.
fn asking<S: Default + Send + 'static>(graph: LlmGraph<S>) -> McpServer {
    McpServer::builder("agent", "0.1.0")
        .tool_with(
            Tool::new("ask"),
            graph,
            async |graph: LlmGraph<S>, _: RawArgs, ctx: ToolContext| {
                let mut run = graph.run(S::default());
                ctx.streamer("agent").forward(&mut run).await?;
                let done = run.finish().await?;
                let errors = done.errors().iter().map(ToString::to_string);
                Ok(Json(json!({ "errors": errors.collect::<Vec<_>>() })))
            },
        )
        .build()
}

async fn answers(hub: &AgentHubClient) -> Vec<Value> {
    let mut events = hub.call_tool_stream("ask", ());
    let mut seen = Vec::new();
    while let Some(event) = timeout(PATIENCE, events.next()).await.unwrap() {
        seen.push(json!([
            event.kind.as_str(),
            event.content,
            event.node.as_ref().map(|n| n.as_str())
        ]));
    }
    seen
}

#[tokio::test]
async fn the_events_of_a_graph_reach_the_caller_of_its_tool() {
    let graph = LlmGraph::<u32>::builder()
        .add_node("look", async |_, ctx| {
            ctx.log("looking").await?;
            Err(NodeError::new("nothing there"))
        })
        .add_node("say", async |mut round: GraphState<u32>, ctx| {
            *round += 1;
            ctx.think("hm").await?;
            // As graphs of llm-graph-kit call their text.
            ctx.send("answer_text", format!("round {}", *round)).await?;
            ctx.send("mood", json!({"joy": 1})).await?;
            Ok(())
        })
        .add_edge(START, "look")
        .add_edge("look", "say")
        .add_conditional_edge("say", |round| **round < 2, [(true, "say"), (false, END)])
        .build()
        .unwrap();
    let hub = connected(asking(graph)).await;
    let wanted = [
        json!(["log", "looking", "look"]),
        json!(["error", "nothing there", "look"]),
        json!(["think", "hm", "say"]),
        json!(["text", "round 1", "say"]),
        json!(["mood", {"joy": 1}, "say"]),
        json!(["think", "hm", "say"]),
        json!(["text", "round 2", "say"]),
        json!(["mood", {"joy": 1}, "say"]),
        json!(["result", {"errors": ["error in look: nothing there"]}, null]),
    ];
    assert_eq!(answers(&hub).await, wanted);
    hub.close().await;
}

#[tokio::test]
async fn a_graph_over_its_steps_fails_its_tool() {
    let graph = LlmGraph::<()>::builder()
        .add_node("round", async |_, _| ())
        .add_edge(START, "round")
        .add_edge("round", "round")
        .build()
        .unwrap();
    let hub = connected(asking(graph)).await;
    let text = "the limit `max_steps` of 100 was hit";
    let wanted = [
        json!(["error", text, "round"]),
        json!(["terminal_error", text, null]),
    ];
    assert_eq!(answers(&hub).await, wanted);
    hub.close().await;
}

/// A graph that asks another agent: its events come through under their own nodes.
#[tokio::test]
async fn an_agent_in_a_node_keeps_its_own_kinds_and_nodes() {
    let inner = McpServer::builder("inner", "0.1.0")
        .tool(Tool::new("ask"), async |_: RawArgs, ctx: ToolContext| {
            ctx.streamer("deep").text("hi").await?;
            ctx.streamer(None::<String>)
                .send("answer_text", "not a graph's")
                .await?;
            Ok("done")
        })
        .build();
    let inner = connected(inner).await;
    let graph = LlmGraph::<()>::builder()
        .add_node_with(
            "ask",
            inner.clone(),
            async |inner: AgentHubClient, _, ctx| {
                let last = ctx.forward(inner.call_tool_stream("ask", ())).await?;
                ctx.log(last.map(|event| event.content)).await?;
                Ok(())
            },
        )
        .add_edge(START, "ask")
        .build()
        .unwrap();
    let hub = connected(asking(graph)).await;
    let wanted = [
        json!(["text", "hi", "deep"]),
        json!(["answer_text", "not a graph's", "ask"]),
        json!(["log", "done", "ask"]),
        json!(["result", {"errors": []}, null]),
    ];
    assert_eq!(answers(&hub).await, wanted);
    hub.close().await;
    inner.close().await;
}

#[tokio::test]
async fn cancelling_the_call_drops_the_node_that_runs() {
    let (alive, gone) = oneshot::channel::<()>();
    let alive = Arc::new(Mutex::new(Some(alive)));
    let graph = LlmGraph::<()>::builder()
        .add_node_with(
            "wait",
            alive,
            async |alive: Arc<Mutex<Option<oneshot::Sender<()>>>>, _, ctx: NodeContext| {
                let _alive = alive.lock().unwrap().take();
                ctx.text("here").await?;
                pending::<()>().await;
                Ok(())
            },
        )
        .add_edge(START, "wait")
        .build()
        .unwrap();
    let hub = connected(asking(graph)).await;
    let mut events = hub.call_tool_stream("ask", ());
    let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
    assert_eq!(event.text(), Some("here"));
    drop(events);
    assert!(timeout(PATIENCE, gone).await.unwrap().is_err());
    hub.close().await;
}

#[derive(Deserialize, JsonSchema)]
struct LookArgs {
    images: Option<Vec<DataUri>>,
}

#[tokio::test]
async fn a_data_uri_is_checked_before_the_tool_runs() {
    let server = McpServer::builder("eyes", "0.1.0")
        .tool(
            Tool::typed::<LookArgs>("look"),
            async |args: LookArgs, _: ToolContext| {
                let images = args.images.unwrap_or_default();
                let seen = images
                    .iter()
                    .map(|i| (i.media_type().to_owned(), i.decode().len()));
                Ok(Json(json!({ "seen": seen.collect::<Vec<_>>() })))
            },
        )
        .build();
    let hub = connected(server).await;
    let tool = hub.find_tool("look").unwrap();
    let schema = tool.input_schema().value();
    let item = &schema["properties"]["images"]["items"];
    assert_eq!(
        (&item["type"], &item["pattern"]),
        (&json!("string"), &json!("^data:"))
    );

    let good = json!({"images": ["data:image/png;base64,iVBORw0KGgo=", "data:,x"]});
    let seen = hub.call_tool("look", good).await.unwrap();
    assert_eq!(seen, json!({"seen": [["image/png", 8], ["text/plain", 1]]}));
    let bad = json!({"images": ["data:,x", "data:image/png;base64,iVBORw0KGgo"]});
    let error = hub.call_tool("look", bad).await.unwrap_err();
    assert!(error.is_tool(), "{error:?}");
    let wanted = "invalid argument `images[1]`: expected a data URI, such as \
                  \"data:image/png;base64,..\", but got the string \
                  \"data:image/png;base64,iVBORw0KGgo\": the base64 data is cut, or lacks its \
                  padding, at byte 33";
    assert!(error.to_string().contains(wanted), "{error}");
    hub.close().await;
}
