//! One call as a stream of events.
//!
//! Owns what its reader is given, and the reply of its request, which it pulls itself: no task and
//! no channel stands between the bytes and the reader. Must not know how a session is opened.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_core::Stream;
use tokio::time::{Sleep, sleep};

use super::connection::Connection;
use super::driver::from_now;
use super::events::{HubEvent, Observer};
use super::hub::Hub;
use super::inbox::Inbox;
use super::outgoing::Retired;
use super::refresh::says_unknown_tool;
use super::registry::ToolRef;
use super::resume::Resuming;
use crate::error::{Error, Place, Result};
use crate::event::{EventKind, StreamEvent};
use crate::session::call::Call;
use crate::session::progress::ProgressDecoder;
use crate::session::resume::Resumption;
use crate::transport::{BoxFuture, Messages, ReplyHead, Sent};
use crate::wire::jsonrpc::RawJson;

mod reading;
mod repeating;

use repeating::Repeats;

/// The events of one call, in the order the tool sent them. The last one, and only that one, is
/// [terminal](StreamEvent::is_terminal); then the stream is `None`.
///
/// Lazy: nothing is sent before the first poll, and the time limits count from there. Reading slowly
/// slows the tool down, since nothing is read ahead of the reader.
///
/// When its time is over, or the hub or the connection goes, the stream ends with
/// `terminal_error`; one that nobody polls then hangs up when it is polled again or dropped. A
/// server without sessions learns only from that, over HTTP, that the call was cancelled.
///
/// # Cancel safety
/// [`next`](Self::next) is cancel safe. Dropping the stream before its end cancels the call on the
/// server.
#[must_use = "a call that is not read is never sent"]
pub struct CallStream {
    hub: Weak<Hub>,
    wanted: Wanted,
    observer: Observer,
    call_id: u64,
    state: State,
    /// Events that were received and not yet read.
    ready: VecDeque<StreamEvent>,
    idle: Option<Pin<Box<Sleep>>>,
    /// The reader waits, so `idle` counts.
    waits: bool,
    /// When the first request of this call was sent: the time for the whole call counts from
    /// there, also if it has to be repeated.
    started: Option<Instant>,
    tool: Option<ToolRef>,
    repeats: Repeats,
}

/// What to call and how.
#[derive(Debug)]
struct Wanted {
    tool: Box<str>,
    server: Option<Box<str>>,
    arguments: Result<RawJson>,
    events: bool,
    timeout: Option<Duration>,
    idle_timeout: Option<Duration>,
    queue_capacity: Option<usize>,
}

enum State {
    /// Nothing was sent yet.
    Idle,
    /// The request was not run, and is made again after this.
    Repeating(BoxFuture<'static, Result<()>>),
    /// The request is on its way.
    Sending(BoxFuture<'static, Result<Sent>>, Flight),
    /// The request is out, and its answer comes on the channel that all calls share.
    Waiting(Flight),
    /// The peer said no and says why.
    Refused(Box<(ReplyHead, Box<dyn Messages>)>, Flight),
    Reading(Box<dyn Messages>, Flight),
    /// The reply ended before the answer, and the rest of it is asked for.
    Resuming(Resuming, Flight),
    /// The terminal event is in `ready`, or was read.
    Done,
}

/// A call that the peer may know of.
struct Flight {
    connection: Arc<Connection>,
    call: Call,
    inbox: Arc<Inbox>,
    progress: ProgressDecoder,
    resumption: Resumption,
}

impl CallStream {
    pub(super) fn new(
        hub: Weak<Hub>,
        observer: Observer,
        call_id: u64,
        tool: &str,
        arguments: Result<RawJson>,
    ) -> Self {
        Self {
            hub,
            wanted: Wanted {
                tool: tool.into(),
                server: None,
                arguments,
                events: true,
                timeout: None,
                idle_timeout: None,
                queue_capacity: None,
            },
            observer,
            call_id,
            state: State::Idle,
            ready: VecDeque::new(),
            idle: None,
            waits: false,
            started: None,
            tool: None,
            repeats: Repeats::default(),
        }
    }

    /// Names the server whose tool is meant. Like the other options, for before the first poll.
    pub fn server(mut self, name: impl Into<String>) -> Self {
        self.wanted.server = Some(name.into().into());
        self
    }

    /// The longest that the whole call may take, connection and all. None by default: agents may
    /// think for hours. It counts also while nobody reads; a server that is told by hanging up then
    /// learns of it when the stream is polled again or dropped.
    pub fn timeout(mut self, after: Duration) -> Self {
        self.wanted.timeout = Some(after);
        self
    }

    /// The longest that a reader may wait for the next event. None by default. The reader's own
    /// pauses do not count, keep-alives do not help.
    pub fn idle_timeout(mut self, after: Duration) -> Self {
        self.wanted.idle_timeout = Some(after);
        self
    }

    /// How many events may wait unread. Default [`Limits::max_queued_events`](crate::Limits). Over
    /// stdio nothing is read from the server while a call's queue is full, and after
    /// [`Limits::stalled_queue_timeout`](crate::Limits) that call ends; over HTTP a call reads its
    /// own stream, so only events that arrive on another call's stream wait at all.
    pub fn queue_capacity(mut self, events: usize) -> Self {
        self.wanted.queue_capacity = Some(events);
        self
    }

    /// Does without events: the stream is the terminal event alone, and the tool is told so.
    pub(super) fn without_events(mut self) -> Self {
        self.wanted.events = self.observer.is_set() || self.wanted.idle_timeout.is_some();
        self
    }

    /// The next event; `None` after the terminal one.
    ///
    /// # Cancel safety
    /// Cancel safe: an event is not lost when the future is dropped.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Reads to the end and gives the text: all text events together, or the result if it is a
    /// text and there were none.
    ///
    /// # Errors
    /// Why the call did not end with a result.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call on the server.
    pub async fn collect_text(mut self) -> Result<String> {
        let mut text = String::new();
        let mut streamed = false;
        while let Some(event) = self.next().await {
            match event.kind {
                EventKind::Text => {
                    streamed = true;
                    text.push_str(event.text().unwrap_or_default());
                }
                EventKind::Result if !streamed => {
                    text.push_str(event.text().unwrap_or_default());
                }
                _ => {}
            }
            if let Some(error) = event.error() {
                return Err(error.clone());
            }
        }
        Ok(text)
    }

    /// Cancels the call: says so to the server and waits for nothing. Events that were received
    /// already can still be read, then one `cancelled`; a result that was not read yet loses to
    /// it. After the end this does nothing.
    pub fn cancel(&mut self) {
        if matches!(self.state, State::Done) && !self.ready.iter().any(StreamEvent::is_terminal) {
            return;
        }
        if let Some(flight) = self.flight() {
            let inbox = flight.inbox.clone();
            self.ready.extend(std::iter::from_fn(|| inbox.pop()));
        }
        self.ready.retain(|event| !event.is_terminal());
        let error = Error::Cancelled {
            place: Place::default(),
        };
        let end = StreamEvent::failure(error.at(&self.place()));
        self.ready.push_back(end);
        self.give_up("cancelled by the caller");
    }

    fn flight(&self) -> Option<&Flight> {
        match &self.state {
            State::Sending(_, flight)
            | State::Waiting(flight)
            | State::Refused(_, flight)
            | State::Reading(_, flight)
            | State::Resuming(_, flight) => Some(flight),
            State::Idle | State::Repeating(_) | State::Done => None,
        }
    }

    /// Where the call runs, as far as it is known.
    pub(super) fn place(&self) -> Place {
        self.tool
            .as_ref()
            .map_or_else(Place::default, |tool| tool.place().clone())
    }

    /// Server and tool as an observer knows them; as they were asked for, if they were not found.
    fn names(&self) -> (Arc<str>, Arc<str>) {
        match &self.tool {
            Some(tool) => tool.shared_names(),
            None => {
                let server = self.wanted.server.as_deref().unwrap_or_default();
                (server.into(), (&*self.wanted.tool).into())
            }
        }
    }

    /// Stops reading and tells the server.
    fn give_up(&mut self, reason: &'static str) {
        let (flight, reply) = match std::mem::replace(&mut self.state, State::Done) {
            State::Sending(sent, flight) => (flight, Some(Retired::Sending(sent))),
            State::Waiting(flight) | State::Resuming(_, flight) => (flight, None),
            State::Refused(refused, flight) => (flight, Some(Retired::Reading(refused.1))),
            State::Reading(messages, flight) => (flight, Some(Retired::Reading(messages))),
            State::Idle | State::Repeating(_) | State::Done => return,
        };
        flight.connection.cancel(flight.call.id, reason, reply);
    }

    /// Whether the reader has waited too long.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(after) = self.wanted.idle_timeout else {
            return Poll::Pending;
        };
        let idle = self.idle.get_or_insert_with(|| Box::pin(sleep(after)));
        if !std::mem::replace(&mut self.waits, true) {
            idle.as_mut().reset(from_now(after));
        }
        ready!(idle.as_mut().poll(cx));
        self.fail_for("idle timeout", Error::timeout("idle_timeout", after))
    }
}

impl Stream for CallStream {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        let this = &mut *self;
        if this.ready.is_empty() && this.advance(cx).is_pending() && this.poll_idle(cx).is_pending()
        {
            return Poll::Pending;
        }
        this.waits = false;
        let Some(event) = this.ready.pop_front() else {
            return Poll::Ready(None);
        };
        if says_unknown_tool(&event)
            && let Some((hub, tool)) = this.hub.upgrade().zip(this.tool.as_ref())
        {
            hub.distrust_tools(tool.server());
        }
        this.observer.tell(|| {
            let (server, tool) = this.names();
            HubEvent::Call {
                server,
                tool,
                call_id: this.call_id,
                event: event.clone(),
            }
        });
        Poll::Ready(Some(event))
    }
}

impl Drop for CallStream {
    fn drop(&mut self) {
        self.give_up("the caller went away");
    }
}

impl fmt::Debug for CallStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallStream")
            .field("tool", &self.wanted.tool)
            .field("done", &matches!(self.state, State::Done))
            .finish_non_exhaustive()
    }
}
