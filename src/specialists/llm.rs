//! The specialist that asks a language model.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::Error;
use crate::event::{DataUri, describe};
use crate::graph::{GraphState, LlmGraph, NodeContext, NodeError, START};
use crate::llm::{ChatChunk, ChatMessage, ChatRequest, ChatStream, FinishReason, Llm, Usage};
use crate::mcp::tool::Tool;
use crate::server::{McpServer, McpServerBuilder, ToolContext, ToolError};

#[derive(Deserialize, JsonSchema)]
struct AskArgs {
    /// What to ask the model.
    user_request: String,
    /// What to show it, if it can see.
    images: Option<Vec<DataUri>>,
}

/// A builder for the server of a language model, to which more tools can be added.
///
/// Its tool `ask` takes `user_request` and `images` (data URIs of images), and returns the whole
/// answer. It is a graph of two nodes: `prepare` logs what is asked, `answer` streams what the
/// model thinks and says, a piece an event, and logs what it cost, if the model tells. What the
/// model fails with is the tool's failure, after what came before it; so is an answer over
/// [`ChatStream::MAX_TEXT_LEN`].
///
/// A call that is cancelled drops the answer, which stops the model.
///
/// ```no_run
/// # async fn f() -> agent_hub_kit::Result<()> {
/// use agent_hub_kit::{OpenAiLlm, specialists::build_llm_server};
///
/// let model = OpenAiLlm::builder("http://127.0.0.1:8080/v1", "gemma-3-270m").build()?;
/// build_llm_server(model).build().serve_http("127.0.0.1:8002").await
/// # }
/// ```
pub fn build_llm_server(llm: impl Llm + 'static) -> McpServerBuilder {
    McpServer::builder("llm-specialist", env!("CARGO_PKG_VERSION")).tool_with(
        Tool::typed::<AskArgs>("ask")
            .title("Ask")
            .description("Asks a language model, and streams its answer as it comes"),
        graph(Arc::new(llm)),
        ask,
    )
}

/// One call.
struct Ask {
    args: AskArgs,
    request: ChatRequest,
    answer: String,
    /// Not a failure of the node, which would be an event beside the tool's own error.
    failure: Option<Error>,
}

#[expect(clippy::expect_used, reason = "always the same graph")]
fn graph(llm: Arc<dyn Llm>) -> LlmGraph<Ask> {
    LlmGraph::builder()
        .add_node("prepare", prepare)
        .add_node_with("answer", llm, answer)
        .add_edge(START, "prepare")
        .add_edge("prepare", "answer")
        .build()
        .expect("a sound graph")
}

async fn ask(graph: LlmGraph<Ask>, args: AskArgs, ctx: ToolContext) -> Result<String, ToolError> {
    check(&args)?;
    let mut run = graph.run(Ask {
        args,
        request: ChatRequest::new(),
        answer: String::new(),
        failure: None,
    });
    ctx.streamer(None::<String>).forward(&mut run).await?;
    let done = run.finish().await?;
    if let Some(failed) = done.errors().first() {
        return Err(ToolError::new(failed.to_string()));
    }
    let ask = done.into_inner();
    match ask.failure {
        Some(error) => Err(ToolError::new(told(&error))),
        None => Ok(ask.answer),
    }
}

fn check(args: &AskArgs) -> Result<(), ToolError> {
    let images = args.images.as_deref().unwrap_or_default();
    if args.user_request.trim().is_empty() && images.is_empty() {
        return Err(ToolError::new("`user_request` is empty: ask something"));
    }
    for (index, image) in images.iter().enumerate() {
        if !image.media_type().starts_with("image/") {
            let kind = image.media_type();
            return Err(ToolError::new(format!(
                "`images[{index}]` is {kind}: give data URIs of images, as data:image/png;base64,.."
            )));
        }
    }
    Ok(())
}

async fn prepare(mut ask: GraphState<Ask>, ctx: NodeContext) -> Result<(), NodeError> {
    let images = ask.args.images.take().unwrap_or_default();
    let text = std::mem::take(&mut ask.args.user_request);
    let mut log = format!("asked {} characters", text.chars().count());
    if !images.is_empty() {
        log += &format!(", shown {} images", images.len());
    }
    let message = ChatMessage::user(text);
    let message = images
        .iter()
        .fold(message, |m, image| m.image(image.as_str()));
    ask.request = message.into();
    ctx.log(log).await?;
    Ok(())
}

async fn answer(
    llm: Arc<dyn Llm>,
    mut ask: GraphState<Ask>,
    ctx: NodeContext,
) -> Result<(), NodeError> {
    let (mut finish, mut usage) = (None, None);
    let mut chunks = llm.chat(std::mem::take(&mut ask.request));
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(ChatChunk::Text(text)) => {
                if let Err(error) = ChatStream::gather(&mut ask.answer, &text) {
                    // The model may never end.
                    ask.failure = Some(error);
                    break;
                }
                ctx.text(text).await?;
            }
            Ok(ChatChunk::Think(thought)) => ctx.think(thought).await?,
            Ok(ChatChunk::Finish(reason)) => finish = Some(reason),
            Ok(ChatChunk::Usage(cost)) => usage = Some(cost),
            Err(error) => ask.failure = Some(error),
        }
    }
    if let Some(log) = closing(finish.as_ref(), usage) {
        ctx.log(log).await?;
    }
    Ok(())
}

/// What a reader of the answer wants to know of its end.
fn closing(finish: Option<&FinishReason>, usage: Option<Usage>) -> Option<String> {
    let cut = match finish {
        None | Some(FinishReason::Stop) => None,
        Some(FinishReason::Length) => Some("cut: as long as was allowed".to_owned()),
        Some(FinishReason::ContentFilter) => Some("cut by a content filter".to_owned()),
        Some(FinishReason::Other(reason)) => Some(format!("ended: {reason}")),
    };
    let cost = usage.map(|usage| {
        let Usage {
            prompt_tokens: read,
            completion_tokens: written,
        } = usage;
        format!("{read} tokens read, {written} written")
    });
    match (cut, cost) {
        (Some(cut), Some(cost)) => Some(format!("{cut}; {cost}")),
        (cut, cost) => cut.or(cost),
    }
}

/// A model's failure in words, and what to do where those do not say.
fn told(error: &Error) -> String {
    let advice = match error {
        Error::Transport { .. } => "; look whether the model's server runs, then ask again",
        Error::Timeout { .. } => "; ask again, or for less",
        _ => "",
    };
    format!(
        "the model gave no whole answer: {}{advice}",
        describe(error)
    )
}
