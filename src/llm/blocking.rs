//! Models that are a loop on a thread, such as those of libraries without async.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::stream::{ChatChunk, ChatStream};
use crate::error::{Error, Result};

/// Chunks that wait for their reader before the model waits for it: enough that the two need not
/// take turns, and little for one that is stopped to have made for nobody.
const MAX_QUEUED_CHUNKS: usize = 16;

impl ChatStream {
    /// The answer of a synchronous model, which runs on a thread of its own from the first poll on.
    ///
    /// A model's loop ends itself when nobody listens any more: then sending fails, and `?` takes it
    /// out. It waits while its reader is slow.
    ///
    /// ```
    /// use agent_hub_kit::{ChatRequest, ChatStream, Llm};
    ///
    /// struct Local;
    ///
    /// impl Llm for Local {
    ///     fn chat(&self, request: ChatRequest) -> ChatStream {
    ///         ChatStream::blocking(move |out| {
    ///             // Here the library is asked for one token after the other.
    ///             for token in ["one", " ", "by", " ", "one"] {
    ///                 out.text(token)?;
    ///             }
    ///             Ok::<_, agent_hub_kit::Error>(())
    ///         })
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> agent_hub_kit::Result<()> {
    /// assert_eq!(Local.chat("count".into()).collect_text().await?, "one by one");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// What `model` fails with ends the answer, as with [`ChatStream::new`]; so does a panic.
    pub fn blocking<F, E>(model: F) -> Self
    where
        F: FnOnce(ChatSink) -> Result<(), E> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Self::new(Blocking::Ready(Some(move |out| {
            model(out).map_err(|error| Error::model(error.into()))
        })))
    }
}

/// Where a synchronous model puts its answer. See [`ChatStream::blocking`].
pub struct ChatSink(mpsc::Sender<ChatChunk>);

impl ChatSink {
    /// A piece of the answer. Blocks while its reader is slow.
    ///
    /// # Errors
    /// [`Error::Closed`] once nobody reads any more: the model is to stop.
    pub fn text(&self, text: impl Into<String>) -> Result<()> {
        self.send(ChatChunk::Text(text.into()))
    }

    /// A piece of what the model thinks. Blocks while its reader is slow.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn think(&self, text: impl Into<String>) -> Result<()> {
        self.send(ChatChunk::Think(text.into()))
    }

    /// Any chunk. Blocks while its reader is slow.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn send(&self, chunk: ChatChunk) -> Result<()> {
        let sent = self.0.blocking_send(chunk);
        sent.map_err(|_| Error::closed("stream"))
    }

    /// Whether nobody reads any more, for a loop that goes long without sending.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl fmt::Debug for ChatSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatSink")
            .field("closed", &self.is_closed())
            .finish()
    }
}

enum Blocking<F> {
    /// The model has not begun.
    Ready(Option<F>),
    Running {
        chunks: mpsc::Receiver<ChatChunk>,
        outcome: JoinHandle<Result<()>>,
    },
}

impl<F> Unpin for Blocking<F> {}

impl<F> Stream for Blocking<F>
where
    F: FnOnce(ChatSink) -> Result<()> + Send + 'static,
{
    type Item = Result<ChatChunk>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match &mut *self {
                Self::Ready(model) => {
                    let Some(model) = model.take() else {
                        return Poll::Ready(None);
                    };
                    let (sender, chunks) = mpsc::channel(MAX_QUEUED_CHUNKS);
                    let outcome = tokio::task::spawn_blocking(move || model(ChatSink(sender)));
                    *self = Self::Running { chunks, outcome };
                }
                Self::Running { chunks, outcome } => {
                    if let Some(chunk) = ready!(chunks.poll_recv(cx)) {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                    let ended = match ready!(Pin::new(outcome).poll(cx)) {
                        Ok(ended) => ended,
                        Err(died) => Err(Error::model(Box::new(Died::of(died)))),
                    };
                    *self = Self::Ready(None);
                    return Poll::Ready(ended.err().map(Err));
                }
            }
        }
    }
}

/// Why a model's thread gave no outcome.
#[derive(Debug)]
struct Died(Box<str>);

impl Died {
    fn of(error: tokio::task::JoinError) -> Self {
        let said = |panic: &(dyn Any + Send)| -> Option<String> {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            text.or_else(|| panic.downcast_ref::<String>().cloned())
        };
        Self(match error.try_into_panic() {
            Ok(panic) => match said(&*panic) {
                Some(text) => format!("it panicked: {text}").into(),
                None => "it panicked".into(),
            },
            Err(_) => "the runtime is shutting down".into(),
        })
    }
}

impl fmt::Display for Died {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Died {}
