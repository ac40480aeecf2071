//! How a node speaks.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use futures_core::Stream;
use serde::Serialize;

use super::handover::Handover;
use crate::error::{Error, Result};
use crate::event::{Content, EventKind, Node, StreamEvent, TERMINAL_EVENT_TYPES, TextChunk};

/// A node while it runs: what it calls to emit events, which come out of the run's stream under
/// its name.
///
/// Cheap to clone. Each method is done when its event was read: a node goes on only as fast as its
/// run is read, and runs only while that is. The methods have the names of those of
/// `EventStreamer`.
///
/// ```
/// use agent_hub_kit::{Error, LlmGraph, NodeContext, START};
///
/// /// Parts of a node that run at once share it.
/// async fn look_up(ctx: &NodeContext, what: &str) -> Result<(), Error> {
///     ctx.log(format!("looking up {what}")).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let graph = LlmGraph::<()>::builder()
///     .add_node("research", async |_state, ctx| {
///         tokio::try_join!(look_up(&ctx, "birds"), look_up(&ctx, "bees"))?;
///         Ok(())
///     })
///     .add_edge(START, "research")
///     .build()?;
/// let mut run = graph.run(());
/// let first = run.next().await.expect("an event");
/// assert_eq!(first.text(), Some("looking up birds"));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Every method gives [`Error::Closed`] once the run has ended, which only a task that the node
/// left behind can see, and [`Error::Config`] for a payload that cannot be written as JSON.
///
/// # Cancel safety
/// Dropping the future of a method before it is ready emits the event whole or not at all.
#[derive(Clone)]
pub struct NodeContext {
    handover: Arc<Handover>,
    node: Node,
}

/// A method for a payload that is any value.
macro_rules! payload_methods {
    ($($(#[$doc:meta])* $name:ident, $kind:ident;)*) => {$(
        $(#[$doc])*
        pub async fn $name(&self, payload: impl Serialize) -> Result<()> {
            self.emit(EventKind::$kind, Content::of(&payload)?).await
        }
    )*};
}

impl NodeContext {
    pub(super) fn new(handover: Arc<Handover>, node: Node) -> Self {
        Self { handover, node }
    }

    /// The name of the node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// A piece of the answer.
    pub async fn text(&self, chunk: impl TextChunk) -> Result<()> {
        self.emit(EventKind::Text, text_of(&chunk)).await
    }

    /// A piece of the reasoning before the answer.
    pub async fn think(&self, chunk: impl TextChunk) -> Result<()> {
        self.emit(EventKind::Think, text_of(&chunk)).await
    }

    payload_methods! {
        /// A line of diagnosis for people.
        log, Log;
        /// An image, as a data URI or a URL.
        image, Image;
        /// A mesh, as a data URI or a URL.
        stl, Stl;
        /// A video, as a data URI or a URL.
        video, Video;
        /// The state of a face or a voice.
        emotion, EmotionData;
        /// Something went wrong and the node goes on. A node that gives up returns an error
        /// instead.
        error, Error;
    }

    /// An event of any type.
    ///
    /// # Errors
    /// Beside those of every method, [`Error::Config`] for a type that ends a stream
    /// ([`TERMINAL_EVENT_TYPES`]): a node ends by returning.
    pub async fn send(&self, kind: &str, payload: impl Serialize) -> Result<()> {
        if TERMINAL_EVENT_TYPES.contains(&kind) {
            return Err(Error::config(format!(
                "an event of type `{kind}` ends a stream; return from the node instead"
            )));
        }
        let kind = EventKind::from_envelope_type(kind);
        self.emit(kind, Content::of(&payload)?).await
    }

    /// Passes all events of a stream on, such as those of an agent that the node calls, and gives
    /// back the terminal one. An event without a node goes under this one. Of the terminal events
    /// only a failure is passed on, as an `error` event: the node may still mend it.
    ///
    /// # Errors
    /// Those of every method; `stream` is dropped then, which cancels its call.
    pub async fn forward(
        &self,
        stream: impl Stream<Item = StreamEvent>,
    ) -> Result<Option<StreamEvent>> {
        let mut stream = pin!(stream);
        let mut last = None;
        while let Some(mut event) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
            let node = event.node.get_or_insert_with(|| self.node.clone()).clone();
            if !event.is_terminal() {
                self.handover.put(event).await?;
                continue;
            }
            if event.kind == EventKind::TerminalError {
                let content = event.content.clone();
                let error = StreamEvent::made_here(EventKind::Error, content, Some(node));
                self.handover.put(error).await?;
            }
            last = Some(event);
        }
        Ok(last)
    }

    async fn emit(&self, kind: EventKind, content: Content) -> Result<()> {
        let event = StreamEvent::made_here(kind, content, Some(self.node.clone()));
        self.handover.put(event).await
    }
}

fn text_of(chunk: &impl TextChunk) -> Content {
    chunk.with_str(|text| Content::text(text))
}

impl fmt::Debug for NodeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeContext")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}
