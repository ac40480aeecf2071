//! A model for tests and demonstrations.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use tokio::time::{Sleep, sleep};

use super::request::{ChatRequest, Role};
use super::stream::{ChatChunk, ChatStream, FinishReason, Llm, Usage};
use crate::error::Result;

/// A model that needs no network and no file, and says the same to the same request: it thinks
/// about how much it was told, and says the user's last message back.
///
/// ```
/// use agent_hub_kit::{DummyLlm, Llm};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let answer = DummyLlm::new().chat("Hello".into()).collect_text().await?;
/// assert_eq!(answer, "You said: Hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DummyLlm {
    delay: Duration,
}

impl DummyLlm {
    /// A model that answers at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// A pause before each chunk, so that the stream can be seen. Default none.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

impl Llm for DummyLlm {
    fn chat(&self, request: ChatRequest) -> ChatStream {
        let thought = thought(&request);
        let answer = answer(&request);
        let thoughts = pieces(&thought).map(ChatChunk::Think);
        let texts = pieces(&answer).map(ChatChunk::Text);
        let mut chunks: VecDeque<_> = thoughts.chain(texts).collect();
        let prompt = request.messages.iter();
        let prompt = prompt.map(|message| pieces(&message.text).count()).sum();
        chunks.extend([
            ChatChunk::Finish(FinishReason::Stop),
            ChatChunk::Usage(Usage::new(count(prompt), count(chunks.len()))),
        ]);
        ChatStream::new(Pieces {
            chunks,
            delay: self.delay,
            pause: None,
        })
    }
}

/// How much there is of everything that was asked.
fn thought(request: &ChatRequest) -> String {
    let images: usize = request.messages.iter().map(|m| m.images.len()).sum();
    let mut thought = format!("{} messages, {images} images", request.messages.len());
    if let Some(temperature) = request.temperature {
        thought += &format!(", temperature {temperature}");
    }
    if let Some(tokens) = request.max_tokens {
        thought += &format!(", at most {tokens} tokens");
    }
    thought
}

fn answer(request: &ChatRequest) -> String {
    let mut asked = request.messages.iter().rev();
    match asked.find(|message| message.role == Role::User) {
        Some(message) => format!("You said: {}", message.text),
        None => "You said nothing".to_owned(),
    }
}

/// A text as a model would write it: a few characters at a time.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    const CHARS: usize = 4;
    let mut chars = text.chars();
    std::iter::from_fn(move || {
        let piece: String = chars.by_ref().take(CHARS).collect();
        (!piece.is_empty()).then_some(piece)
    })
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

struct Pieces {
    chunks: VecDeque<ChatChunk>,
    delay: Duration,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Stream for Pieces {
    type Item = Result<ChatChunk>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let delay = self.delay;
        if !delay.is_zero() && !self.chunks.is_empty() {
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(delay)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        Poll::Ready(self.chunks.pop_front().map(Ok))
    }
}
