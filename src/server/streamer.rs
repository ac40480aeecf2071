//! The methods by which a tool speaks while it runs.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::Buf as _;
use futures_core::Stream;
use serde::Serialize;

use super::context::{Running, ToolContext};
use super::output::ToolError;
use crate::error::{Error, Result};
use crate::event::{
    EventKind, IntoNode, Node, StreamEvent, TERMINAL_EVENT_TYPES, TextChunk,
    write_content_envelope, write_json_envelope, write_text_envelope,
};
use crate::session::outbox::Pushed;
use crate::wire::chunk::Chunk;

/// Sends events of one call to its caller, in the order of the calls to its methods.
///
/// Cheap to clone; clones may be used from other tasks while the call runs. When the caller asked
/// for no progress, the methods do nothing and succeed ([`is_active`](Self::is_active) tells).
/// When the reader is slower than the tool, the methods wait; how much may wait is
/// [`Limits::max_outbox_bytes`](crate::Limits::max_outbox_bytes).
///
/// Each method has a `blocking_` twin for code on a thread of its own, which waits by blocking
/// that thread; inside async code it panics, as tokio's `block_on` does.
///
/// # Errors
/// Every method gives [`Error::Closed`] with `what` = `"stream"` once the call has ended (the
/// handler returned, or the call was cancelled), [`Error::Limit`] for an event over
/// [`Limits::max_event_bytes`](crate::Limits::max_event_bytes), and [`Error::Config`] for a payload
/// that cannot be written as JSON. Nothing is sent then.
///
/// # Cancel safety
/// Dropping the future of a method before it is ready sends the event whole or not at all.
#[derive(Clone)]
pub struct EventStreamer {
    running: Arc<Running>,
    node: Option<Node>,
}

/// A method for a payload that is any value, and its blocking twin.
macro_rules! payload_methods {
    ($($(#[$doc:meta])* $name:ident, $blocking:ident, $kind:literal;)*) => {$(
        $(#[$doc])*
        pub async fn $name(&self, payload: impl Serialize) -> Result<()> {
            self.emit_payload($kind, &payload).await
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") for a thread of its own.")]
        pub fn $blocking(&self, payload: impl Serialize) -> Result<()> {
            self.emit_payload_blocking($kind, &payload)
        }
    )*};
}

impl EventStreamer {
    /// The streamer of a call, without a node.
    pub fn new(ctx: &ToolContext) -> Self {
        Self {
            running: ctx.running().clone(),
            node: None,
        }
    }

    /// The same streamer with its events under `node`.
    pub fn node(mut self, node: impl IntoNode) -> Self {
        self.node = node.into_node();
        self
    }

    /// A streamer for events under another node; `None` for events under none. A `&'static str`
    /// costs no allocation.
    pub fn with_node(&self, node: impl IntoNode) -> Self {
        Self {
            running: self.running.clone(),
            node: node.into_node(),
        }
    }

    /// True while events reach somebody: the caller asked for them, is still there, and the call
    /// runs.
    pub fn is_active(&self) -> bool {
        self.running.outbox.is_active()
    }

    /// True once the call has ended or was cancelled: nothing more can be sent.
    pub fn is_closed(&self) -> bool {
        self.running.outbox.is_ended()
    }

    /// A piece of the answer.
    pub async fn text(&self, chunk: impl TextChunk) -> Result<()> {
        self.emit(|node, out| write_text(out, "text", &chunk, node))
            .await
    }

    /// [`text`](Self::text) for a thread of its own.
    pub fn blocking_text(&self, chunk: impl TextChunk) -> Result<()> {
        self.emit_blocking(|node, out| write_text(out, "text", &chunk, node))
    }

    /// A piece of the reasoning before the answer.
    pub async fn think(&self, chunk: impl TextChunk) -> Result<()> {
        self.emit(|node, out| write_text(out, "think", &chunk, node))
            .await
    }

    /// [`think`](Self::think) for a thread of its own.
    pub fn blocking_think(&self, chunk: impl TextChunk) -> Result<()> {
        self.emit_blocking(|node, out| write_text(out, "think", &chunk, node))
    }

    payload_methods! {
        /// A line of diagnosis for people.
        log, blocking_log, "log";
        /// An image, as a data URI or a URL.
        image, blocking_image, "image";
        /// A mesh, as a data URI or a URL.
        stl, blocking_stl, "stl";
        /// A video, as a data URI or a URL.
        video, blocking_video, "video";
        /// The state of a face or a voice.
        emotion, blocking_emotion, "emotion_data";
        /// Something went wrong and the tool goes on. A tool that gives up returns an error
        /// instead.
        error, blocking_error, "error";
    }

    /// An event of any type.
    ///
    /// # Errors
    /// Beside those of every method, [`Error::Config`] for a type that ends a stream
    /// ([`TERMINAL_EVENT_TYPES`]): a tool ends its stream by returning.
    pub async fn send(&self, kind: &str, payload: impl Serialize) -> Result<()> {
        check_kind(kind)?;
        self.emit_payload(kind, &payload).await
    }

    /// [`send`](Self::send) for a thread of its own.
    pub fn blocking_send(&self, kind: &str, payload: impl Serialize) -> Result<()> {
        check_kind(kind)?;
        self.emit_payload_blocking(kind, &payload)
    }

    /// Passes an event of another call, or of a graph's run, on with its kind, content and node as
    /// they are; without a node it goes under this streamer's. Of the terminal events only a
    /// failure is passed on, as an `error` event: this tool's own end is still to come. A graph's
    /// `answer_text`, the type that graphs of llm-graph-kit give a piece of their answer, becomes
    /// `text`.
    pub async fn forward_event(&self, event: &StreamEvent) -> Result<()> {
        let kind = match &event.kind {
            EventKind::Result | EventKind::Cancelled => return Ok(()),
            EventKind::TerminalError => "error",
            EventKind::Other(kind) if kind.as_str() == "answer_text" && event.is_made_here() => {
                "text"
            }
            kind => kind.as_str(),
        };
        let own = event.node.as_ref().map(Node::as_str);
        self.emit(|node, out| write_content_envelope(out, kind, &event.content, own.or(node)))
            .await
    }

    /// Passes all events of another call, or of a graph's run, on, as
    /// [`forward_event`](Self::forward_event) does, and gives back the terminal event, if there was
    /// one. Lend it a run (`forward(&mut run)`) to have its state afterwards.
    ///
    /// # Errors
    /// Those of every method; `stream` is dropped then, which cancels its call.
    pub async fn forward(
        &self,
        stream: impl Stream<Item = StreamEvent>,
    ) -> Result<Option<StreamEvent>> {
        let mut stream = std::pin::pin!(stream);
        let mut last = None;
        while let Some(event) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
            self.forward_event(&event).await?;
            if event.is_terminal() {
                last = Some(event);
            }
        }
        Ok(last)
    }

    /// Encodes a payload before the outbox is locked: its `Serialize` is somebody else's code.
    async fn emit_payload(&self, kind: &str, payload: &impl Serialize) -> Result<()> {
        let envelope = self.envelope(kind, payload)?;
        self.emit(|_, out| out.extend_from_slice(envelope.chunk()))
            .await
    }

    fn emit_payload_blocking(&self, kind: &str, payload: &impl Serialize) -> Result<()> {
        let envelope = self.envelope(kind, payload)?;
        self.emit_blocking(|_, out| out.extend_from_slice(envelope.chunk()))
    }

    /// Empty if nobody would see it.
    fn envelope(&self, kind: &str, payload: &impl Serialize) -> Result<Chunk> {
        let scratch = &self.running.scratch;
        let mut bytes = scratch.take();
        if self.is_active() {
            let node = self.node.as_ref().map(Node::as_str);
            write_json_envelope(&mut bytes, kind, payload, node)?;
        }
        Ok(Chunk::recycled(bytes, scratch.clone()))
    }

    async fn emit(&self, write: impl Fn(Option<&str>, &mut Vec<u8>)) -> Result<()> {
        while self.try_emit(&write)? == Pushed::Full {
            self.running.outbox.room().await;
        }
        self.running.breathe().await;
        Ok(())
    }

    fn emit_blocking(&self, write: impl Fn(Option<&str>, &mut Vec<u8>)) -> Result<()> {
        while self.try_emit(&write)? == Pushed::Full {
            self.running.block_on(self.running.outbox.room());
        }
        Ok(())
    }

    fn try_emit(&self, write: &impl Fn(Option<&str>, &mut Vec<u8>)) -> Result<Pushed> {
        let node = self.node.as_ref().map(Node::as_str);
        self.running.outbox.push_event(|out| {
            write(node, out);
            Ok(())
        })
    }
}

fn write_text(out: &mut Vec<u8>, kind: &str, chunk: &impl TextChunk, node: Option<&str>) {
    chunk.with_str(|text| write_text_envelope(out, kind, text, node));
}

fn check_kind(kind: &str) -> Result<()> {
    if TERMINAL_EVENT_TYPES.contains(&kind) {
        return Err(Error::config(format!(
            "an event of type `{kind}` ends a stream; return from the tool instead"
        )));
    }
    Ok(())
}

impl fmt::Debug for EventStreamer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStreamer")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// Sends each chunk as a text event and returns the whole text.
///
/// # Errors
/// Those of [`EventStreamer::text`].
pub async fn stream_text_iter<C: TextChunk>(
    stream: &EventStreamer,
    chunks: impl IntoIterator<Item = C>,
) -> Result<String> {
    let mut whole = String::new();
    for chunk in chunks {
        chunk.with_str(|text| whole.push_str(text));
        stream.text(chunk).await?;
    }
    Ok(whole)
}

/// As [`stream_text_iter`], for chunks that arrive over time.
///
/// # Errors
/// Those of [`EventStreamer::text`].
pub async fn stream_text_stream<C: TextChunk>(
    stream: &EventStreamer,
    chunks: impl Stream<Item = C>,
) -> Result<String> {
    let mut chunks = std::pin::pin!(chunks);
    let mut whole = String::new();
    while let Some(chunk) = poll_fn(|cx| chunks.as_mut().poll_next(cx)).await {
        chunk.with_str(|text| whole.push_str(text));
        stream.text(chunk).await?;
    }
    Ok(whole)
}

/// As [`stream_text_iter`], for chunks that may fail: the first failure ends it.
///
/// # Errors
/// The first failed chunk, or those of [`EventStreamer::text`].
pub async fn try_stream_text_iter<C: TextChunk, E: Into<ToolError>>(
    stream: &EventStreamer,
    chunks: impl IntoIterator<Item = Result<C, E>>,
) -> Result<String, ToolError> {
    let mut whole = String::new();
    for chunk in chunks {
        let chunk = chunk.map_err(Into::into)?;
        chunk.with_str(|text| whole.push_str(text));
        stream.text(chunk).await?;
    }
    Ok(whole)
}

/// As [`stream_text_stream`], for chunks that may fail: the first failure ends it.
///
/// # Errors
/// The first failed chunk, or those of [`EventStreamer::text`].
pub async fn try_stream_text_stream<C: TextChunk, E: Into<ToolError>>(
    stream: &EventStreamer,
    chunks: impl Stream<Item = Result<C, E>>,
) -> Result<String, ToolError> {
    let mut chunks = std::pin::pin!(chunks);
    let mut whole = String::new();
    while let Some(chunk) = poll_fn(|cx| chunks.as_mut().poll_next(cx)).await {
        let chunk = chunk.map_err(Into::into)?;
        chunk.with_str(|text| whole.push_str(text));
        stream.text(chunk).await?;
    }
    Ok(whole)
}

#[cfg(test)]
mod tests;
