//! Language models: chat messages in, a stream of chunks out.
//!
//! Owns what a model is, and how endpoints that speak as OpenAI's are asked. Must not know MCP, nor
//! the hub and the servers that models are put behind.

mod blocking;
mod dummy;
mod openai;
mod request;
mod stream;
mod think;
#[cfg(feature = "tls")]
mod tls;

pub use blocking::ChatSink;
pub use dummy::DummyLlm;
pub use openai::{OpenAiLlm, OpenAiLlmBuilder};
pub use request::{ChatMessage, ChatRequest, Role};
pub use stream::{ChatChunk, ChatStream, FinishReason, Llm, Usage};
