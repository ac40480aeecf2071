//! Moves frames between peers and decides nothing.
//!
//! Knows links, heads and bytes; must not know sessions, events, eras or tool names. This file
//! holds the two contracts: [`Link`] for the side that calls, [`Exchange`] for the side that
//! answers.

#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(feature = "stdio")]
pub(crate) mod stdio;
#[cfg(feature = "stdio")]
pub(crate) mod stream;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
pub(crate) mod tls;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use crate::error::Error;
use crate::mcp::frame::{Frame, Head, Principal, SessionId, Verb};
use crate::wire::chunk::Chunk;
use crate::wire::sse::Position;

/// A future in a box, for the object-safe contract.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A live channel to one peer, seen from the side that calls.
pub(crate) trait Link: Send + Sync + fmt::Debug {
    /// Whether all answers come on one channel, which [`open`](Self::open) gives, or each with its
    /// own frame.
    fn is_shared(&self) -> bool {
        false
    }

    /// Opens the channel of a shared link, anew if it was open. `None` for other links.
    fn open(&self) -> Result<Option<Box<dyn Messages>>, Error> {
        Ok(None)
    }

    /// Sends one frame. Resolves when the head of the answer is there. A shared link takes the frame
    /// before this returns, and the future is ready.
    ///
    /// # Cancel safety
    /// Dropping the future gives the request up: the peer may or may not have it.
    fn send(&self, frame: Frame) -> BoxFuture<'static, Result<Sent, Error>>;

    /// Ends the peer, if it is this link's to end, in order. Bounded in time.
    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Lets go of idle resources that are too old or dead. Called now and then by the owner.
    fn sweep(&self);

    /// Lets go of all idle resources; nothing is kept from now on.
    fn close(&self);

    /// Where it leads, for error texts: never holds credentials.
    fn target(&self) -> &str;

    /// What tells the peer from others, so that what was found out of it can be kept; `None` if
    /// nothing can be.
    fn peer(&self) -> Option<u64> {
        None
    }

    /// Credentials that are sent, or were lately, and must never be shown, also where the peer quotes
    /// them.
    fn secrets(&self) -> Arc<[Arc<str>]> {
        Arc::default()
    }
}

/// What sending a frame gave.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The answer to this frame.
    Reply(Reply),
    /// The answer comes on the channel that all share.
    Shared,
}

/// The answer to one frame: its head, and its messages to be pulled.
pub(crate) struct Reply {
    pub(crate) head: ReplyHead,
    pub(crate) messages: Box<dyn Messages>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("head", &self.head)
            .finish_non_exhaustive()
    }
}

/// What a link knows of an answer before its body.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplyHead {
    /// The HTTP status.
    pub(crate) status: u16,
    /// What the body is.
    pub(crate) media: Media,
    pub(crate) session_id: Option<SessionId>,
    /// The `WWW-Authenticate` header, for 401 and 403.
    pub(crate) authenticate: Option<String>,
}

impl ReplyHead {
    /// Whether messages can be read from the body, as far as the head tells.
    pub(crate) fn holds_messages(&self) -> bool {
        self.media != Media::Other
    }
}

/// What a reply's body holds, judged by media type alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Media {
    /// One JSON value.
    Json,
    /// Anything else, or nothing: no messages in it.
    #[default]
    Other,
    /// SSE events.
    Sse,
}

/// The messages of one reply, in the order they come.
pub(crate) trait Messages: Send {
    /// The next JSON-RPC message (or array of them) as bytes; `None` at the end. After an error a
    /// body gives `None`; a shared channel may go on, since the error was of one message.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>>;

    /// Reads a body that holds no messages, up to `max` bytes; bytes beyond are left. Meant for
    /// statuses without an answer; gives what there is when the body fails midway. Of a shared
    /// channel that has ended: how that came.
    fn poll_excerpt(&mut self, max: usize, cx: &mut Context<'_>) -> Poll<String>;

    /// How far it has come, for asking a peer that counts its events to go on.
    fn position(&self) -> Position {
        Position::default()
    }

    /// Says that the reader has all it waited for. The link may then wait for the end of the body
    /// and use its connection again, where a reply that is just dropped before its end hangs up:
    /// for a peer that is a cancel.
    fn finish(self: Box<Self>);
}

/// What a client sent, seen from the side that answers.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) verb: Verb,
    pub(crate) head: Head,
    /// Who sent it, where that is asked for and has a name.
    pub(crate) principal: Option<Principal>,
    pub(crate) accept: Accept,
    pub(crate) body: Bytes,
}

/// The forms of answer that a client takes: JSON, unless it says that it likes SSE better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accept {
    /// It takes SSE.
    pub(crate) sse: bool,
    /// It takes no JSON, or likes SSE better, also where one message is the whole answer.
    pub(crate) prefers_sse: bool,
}

/// What goes back to a client.
pub(crate) struct Outbound {
    /// The HTTP status.
    pub(crate) status: u16,
    /// Sent as a header when there is one.
    pub(crate) session_id: Option<SessionId>,
    /// Sent as `Retry-After`, in whole seconds.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: OutboundBody,
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// The three forms of an answer.
pub(crate) enum OutboundBody {
    Empty,
    Json(Bytes),
    /// SSE frames, ready to be written.
    Stream(Box<dyn Source>),
}

/// Where the bytes of a streamed answer come from. Dropped when the client is gone or the stream
/// has ended.
pub(crate) trait Source: Send {
    /// All that is ready, in one chunk; `None` when the stream has ended.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>>;

    /// True once `poll_chunk` can only give `None`.
    fn is_end(&self) -> bool;
}

/// The side that answers: one call for each frame that a client sent.
pub(crate) trait Exchange: Send + Sync + 'static {
    /// Whether a client may ask for a stream of its own.
    fn has_streams(&self) -> bool {
        false
    }

    /// Whether a client may ask for the rest of a stream that it had.
    fn resumes_streams(&self) -> bool {
        false
    }

    /// # Cancel safety
    /// Dropped when the client hangs up before the answer's head is ready.
    fn exchange(&self, inbound: Inbound) -> impl Future<Output = Outbound> + Send;
}

impl<E: Exchange> Exchange for Arc<E> {
    fn has_streams(&self) -> bool {
        (**self).has_streams()
    }

    fn resumes_streams(&self) -> bool {
        (**self).resumes_streams()
    }

    fn exchange(&self, inbound: Inbound) -> impl Future<Output = Outbound> + Send {
        (**self).exchange(inbound)
    }
}
