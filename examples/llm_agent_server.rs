//! A language model behind a streaming tool: any `Llm` will do, here one that needs no network.
//!
//!     cargo run --example llm_agent_server --features llm
//!     cargo run --example llm_agent_client
//!
//! `LLM_AGENT_PORT` says where it listens.
#![allow(clippy::print_stdout)] // whoever starts it looks for its URL

use std::time::Duration;

use agent_hub_kit::{
    ChatChunk, ChatRequest, DummyLlm, Llm, McpServer, Tool, ToolContext, ToolError,
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct AskArgs {
    /// what to ask the model
    user_request: String,
}

async fn ask(model: impl Llm, args: AskArgs, ctx: ToolContext) -> Result<String, ToolError> {
    let stream = ctx.streamer("answer");
    let request = ChatRequest::new()
        .system("Answer in one sentence.")
        .user(args.user_request);
    let mut whole = String::new();
    // A call that is cancelled drops the answer, which stops the model.
    let mut answer = model.chat(request);
    while let Some(chunk) = answer.next().await {
        match chunk? {
            ChatChunk::Think(thought) => stream.think(thought).await?,
            ChatChunk::Text(text) => {
                stream.text(&text).await?;
                whole.push_str(&text);
            }
            _ => {}
        }
    }
    Ok(whole)
}

#[tokio::main]
async fn main() -> agent_hub_kit::Result<()> {
    let port = std::env::var("LLM_AGENT_PORT").unwrap_or_else(|_| "8201".into());
    let model = DummyLlm::new().delay(Duration::from_millis(30));
    let tool = Tool::typed::<AskArgs>("ask").description("Ask a language model");
    let server = McpServer::builder("llm-agent", "0.1.0")
        .tool_with(tool, model, ask)
        .build();
    let bound = server.bind(format!("127.0.0.1:{port}")).await?;
    println!("{}", bound.url());
    bound.serve().await
}
