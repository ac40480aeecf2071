//! What a model is, and what it answers.

use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::request::ChatRequest;
use crate::error::{Error, Result};

/// A language model.
///
/// Yours is one method, given a stream from wherever its tokens come:
///
/// ```
/// use std::convert::Infallible;
/// use agent_hub_kit::{ChatRequest, ChatStream, Llm};
///
/// struct Parrot;
///
/// impl Llm for Parrot {
///     fn chat(&self, request: ChatRequest) -> ChatStream {
///         let last = request.messages.into_iter().next_back();
///         let words = last.map(|message| Ok::<_, Infallible>(message.text));
///         ChatStream::new(futures_util::stream::iter(words))
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// assert_eq!(Parrot.chat("hello".into()).collect_text().await?, "hello");
/// # Ok(())
/// # }
/// ```
///
/// A model that is a synchronous loop in this process runs on a thread of its own:
/// [`ChatStream::blocking`].
pub trait Llm: Send + Sync {
    /// Answers the last message of a conversation.
    ///
    /// Lazy: nothing is asked before the stream is first polled.
    ///
    /// # Cancel safety
    /// Dropping the stream before its end stops the model, as far as it can be stopped.
    fn chat(&self, request: ChatRequest) -> ChatStream;
}

impl<L: Llm + ?Sized> Llm for Arc<L> {
    fn chat(&self, request: ChatRequest) -> ChatStream {
        (**self).chat(request)
    }
}

impl<L: Llm + ?Sized> Llm for Box<L> {
    fn chat(&self, request: ChatRequest) -> ChatStream {
        (**self).chat(request)
    }
}

/// A piece of an answer. Texts and thoughts come in the order of the model; what is said about the
/// answer comes after them, if it is known at all.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ChatChunk {
    /// Why the answer ended; at most once.
    Finish(FinishReason),
    /// A piece of the answer itself, never empty.
    Text(String),
    /// A piece of what the model thought before it, never empty.
    Think(String),
    /// What the answer cost; at most once.
    Usage(Usage),
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// A filter of the model's provider cut it.
    ContentFilter,
    /// It is as long as was allowed, or as the model can.
    Length,
    /// Another reason, in the words of the model's server.
    Other(Box<str>),
    /// The model had said all.
    Stop,
}

/// Tokens that an answer cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Read by the model.
    pub prompt_tokens: u64,
    /// Written by it, thoughts included.
    pub completion_tokens: u64,
}

impl Usage {
    /// Tokens that were read and written.
    pub fn new(prompt_tokens: u64, completion_tokens: u64) -> Self {
        Self {
            prompt_tokens,
            completion_tokens,
        }
    }
}

/// A text is a piece of the answer.
impl From<String> for ChatChunk {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A text is a piece of the answer.
impl From<&str> for ChatChunk {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The answer of a model, as it comes. Ends with `None`, or with its first error.
///
/// ```
/// use agent_hub_kit::{ChatChunk, DummyLlm, Llm};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let mut answer = DummyLlm::new().chat("What is a hub?".into());
/// while let Some(chunk) = answer.next().await {
///     match chunk? {
///         ChatChunk::Text(text) => print!("{text}"),
///         ChatChunk::Think(thought) => eprint!("{thought}"),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// [`next`](Self::next) is cancel safe. Dropping the stream before its end stops the model.
#[must_use = "a model is asked when its answer is read"]
pub struct ChatStream {
    /// `None` after the end, so that what was held is let go.
    chunks: Option<Pin<Box<dyn Stream<Item = Result<ChatChunk>> + Send>>>,
}

impl ChatStream {
    /// An answer out of any stream of chunks, or of texts. An error that is not of this crate becomes
    /// [`Error::Model`]; whatever it is, it is the last that is read of `chunks`. Empty texts and
    /// thoughts are left out.
    pub fn new<S, C, E>(chunks: S) -> Self
    where
        S: Stream<Item = Result<C, E>> + Send + 'static,
        C: Into<ChatChunk>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Self {
            chunks: Some(Box::pin(Chunks { chunks })),
        }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// What the model or the way to it failed with; then the stream has ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<ChatChunk>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// The longest text that [`collect_text`](Self::collect_text) gathers, in bytes: more than
    /// models say, and as JSON still within the largest message that a client takes by default.
    pub const MAX_TEXT_LEN: usize = 8 * 1024 * 1024;

    /// The whole answer, without the thoughts.
    ///
    /// # Errors
    /// As [`next`](Self::next), and [`Error::Limit`] over [`MAX_TEXT_LEN`](Self::MAX_TEXT_LEN),
    /// which a model that does not end reaches; what came before is lost.
    ///
    /// # Cancel safety
    /// Dropping the future drops the stream.
    pub async fn collect_text(mut self) -> Result<String> {
        let mut whole = String::new();
        while let Some(chunk) = self.next().await {
            if let ChatChunk::Text(text) = chunk? {
                Self::gather(&mut whole, &text)?;
            }
        }
        Ok(whole)
    }

    /// Adds a piece to what has come of an answer.
    ///
    /// # Errors
    /// [`Error::Limit`] over [`MAX_TEXT_LEN`](Self::MAX_TEXT_LEN); then nothing was added.
    pub(crate) fn gather(whole: &mut String, piece: &str) -> Result<()> {
        if whole.len() + piece.len() > Self::MAX_TEXT_LEN {
            return Err(Error::limit("ChatStream::MAX_TEXT_LEN", Self::MAX_TEXT_LEN));
        }
        whole.push_str(piece);
        Ok(())
    }
}

impl Stream for ChatStream {
    type Item = Result<ChatChunk>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(chunks) = &mut self.chunks else {
            return Poll::Ready(None);
        };
        let chunk = ready!(chunks.as_mut().poll_next(cx));
        if !matches!(chunk, Some(Ok(_))) {
            self.chunks = None;
        }
        Poll::Ready(chunk)
    }
}

impl fmt::Debug for ChatStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatStream")
            .field("ended", &self.chunks.is_none())
            .finish()
    }
}

pin_project_lite::pin_project! {
    /// Somebody's stream, in our words.
    struct Chunks<S> {
        #[pin]
        chunks: S,
    }
}

impl<S, C, E> Stream for Chunks<S>
where
    S: Stream<Item = Result<C, E>>,
    C: Into<ChatChunk>,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    type Item = Result<ChatChunk>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut chunks = self.project().chunks;
        loop {
            let chunk = match ready!(chunks.as_mut().poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(Error::model(error.into())))),
                Some(Ok(chunk)) => chunk.into(),
            };
            if let ChatChunk::Text(text) | ChatChunk::Think(text) = &chunk
                && text.is_empty()
            {
                continue;
            }
            return Poll::Ready(Some(Ok(chunk)));
        }
    }
}
