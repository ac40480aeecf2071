//! The LLM specialist before an endpoint that speaks as OpenAI's, and a tool of our own beside it.
//!
//!     cargo run --example llm_agent_server_openai --features specialists,tls
//!     cargo run --example llm_agent_client
//!
//! `OPENAI_BASE_URL` and `OPENAI_MODEL` say who answers, `OPENAI_API_KEY` with which key, and
//! `LLM_AGENT_PORT` where it listens.
#![allow(clippy::print_stdout)] // whoever starts it looks for its URL

use std::env::var;

use agent_hub_kit::specialists::build_llm_server;
use agent_hub_kit::{OpenAiLlm, RawArgs, Tool, ToolContext};

#[tokio::main]
async fn main() -> agent_hub_kit::Result<()> {
    let port = var("LLM_AGENT_PORT").unwrap_or_else(|_| "8201".into());
    let base_url = var("OPENAI_BASE_URL").unwrap_or_else(|_| "http://127.0.0.1:8080/v1".into());
    let name = var("OPENAI_MODEL").unwrap_or_else(|_| "default".into());
    let mut model = OpenAiLlm::builder(&base_url, &name)
        .system("Answer in one sentence.")
        .max_tokens(500);
    if var("OPENAI_API_KEY").is_ok() {
        model = model.api_key_env("OPENAI_API_KEY");
    }
    let about = format!("{name} at {base_url}");
    let server = build_llm_server(model.build()?)
        .tool_with(
            Tool::new("about").description("Which model answers"),
            about,
            async |about: String, _: RawArgs, _: ToolContext| Ok(about),
        )
        .build();
    let bound = server.bind(format!("127.0.0.1:{port}")).await?;
    println!("{}", bound.url());
    bound.serve().await
}
