//! One call as a stream of events.
//!
//! Owns the reply of its request and pulls it itself: no task and no channel stands between the
//! bytes and the reader. Must not know how a tool is found or a session opened.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::Stream;
use tokio::time::{Sleep, sleep, timeout};

use super::connection::{Begun, Connection};
use super::driver::{MAX_ASIDE_BYTES, from_now, judge, now};
use super::events::{HubEvent, Observer};
use super::hub::Hub;
use super::inbox::Inbox;
use super::outgoing::Retired;
use super::refresh::says_unknown_tool;
use super::registry::ToolRef;
use super::resume::{Resumed, Resuming, resume};
use crate::error::{Error, Place, Result};
use crate::event::{EventKind, StreamEvent};
use crate::session::call::{Call, Judged};
use crate::session::client::{CallSpec, Owner, Refusal, Step, early_end};
use crate::session::resume::Resumption;
use crate::transport::{BoxFuture, Messages, Reply, ReplyHead, Sent};
use crate::wire::jsonrpc::{self, Incoming, RawJson};

/// The events of one call, in the order the tool sent them. The last one, and only that one, is
/// [terminal](StreamEvent::is_terminal); then the stream is `None`.
///
/// Lazy: nothing is sent before the first poll, and the time limits count from there. Reading slowly
/// slows the tool down, since nothing is read ahead of the reader.
///
/// When the hub or the connection goes, the stream ends with `terminal_error`; one that nobody
/// polls then hangs up when it is polled again or dropped.
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
    repeated: bool,
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
    /// The peer lost the session; it is being opened anew.
    Reopening(BoxFuture<'static, Result<()>>),
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
            repeated: false,
        }
    }

    /// Names the server whose tool is meant. Like the other options, for before the first poll.
    pub fn server(mut self, name: impl Into<String>) -> Self {
        self.wanted.server = Some(name.into().into());
        self
    }

    /// The longest that the whole call may take, connection and all. None by default: agents may
    /// think for hours. It counts also while nobody reads.
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
            State::Idle | State::Reopening(_) | State::Done => None,
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
            State::Idle | State::Reopening(_) | State::Done => return,
        };
        flight.connection.cancel(flight.call.id, reason, reply);
    }

    /// Finds the tool and sends the request.
    fn start(&mut self) -> Result<State> {
        let hub = self.hub.upgrade().ok_or_else(|| Error::closed("hub"))?;
        let arguments = self.wanted.arguments.as_ref().map_err(Clone::clone)?;
        let (tool, connection) = hub.resolve(&self.wanted.tool, self.wanted.server.as_deref())?;
        let started = *self.started.get_or_insert_with(now);
        let spec = CallSpec {
            tool: tool.name(),
            arguments,
            events: self.wanted.events,
            timeout: self.wanted.timeout,
            wraps_result: tool.wraps_result(),
            place: tool.place(),
        };
        let begun = connection.begin(&spec, started, self.wanted.queue_capacity);
        self.tool = Some(tool);
        let (call, sent, inbox) = match begun? {
            Begun::Lost(generation) => return Ok(self.reopening(connection, generation)),
            Begun::Started(call, sent, inbox) => (call, sent, inbox),
        };
        if self.wanted.timeout.is_some() {
            // The task keeps the deadline, so that it holds also while nobody reads.
            connection.wake.notify_one();
        }
        Ok(State::Sending(
            sent,
            Flight {
                connection,
                call,
                inbox,
                resumption: Resumption::default(),
            },
        ))
    }

    /// The connection is being opened anew, by this call or another one.
    fn reopening(&self, connection: Arc<Connection>, generation: u64) -> State {
        let (limit, left) = (self.wanted.timeout, self.left());
        State::Reopening(Box::pin(reopened(connection, generation, limit, left)))
    }

    /// What is left of the time for the whole call.
    fn left(&self) -> Option<Duration> {
        let spent = now().saturating_duration_since(self.started?);
        Some(self.wanted.timeout?.saturating_sub(spent))
    }

    /// Makes progress until there is an event in `ready` or nothing more to do now.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(event) = self.flight().and_then(|flight| flight.inbox.pop()) {
                if event.is_terminal() {
                    // The session gave the call up already: nothing is to be told.
                    self.give_up("ended");
                }
                self.ready.push_back(event);
                return Poll::Ready(());
            }
            match &mut self.state {
                State::Idle => match self.start() {
                    Ok(state) => self.state = state,
                    Err(e) => return self.fail(e),
                },
                State::Reopening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(()) => self.state = State::Idle,
                    Err(e) => return self.fail(e),
                },
                State::Sending(sent, flight) => match sent.as_mut().poll(cx) {
                    Poll::Ready(Ok(Sent::Reply(Reply { head, messages }))) => {
                        self.handle_head(head, messages);
                    }
                    Poll::Ready(Ok(Sent::Shared)) => self.handle_sent(),
                    Poll::Ready(Err(e)) => return self.fail(e),
                    Poll::Pending if flight.inbox.listen(cx) => return Poll::Pending,
                    Poll::Pending => {}
                },
                State::Waiting(flight) => {
                    if flight.inbox.listen(cx) {
                        return Poll::Pending;
                    }
                }
                State::Refused(refused, flight) => {
                    let (head, messages) = &mut **refused;
                    match messages.poll_excerpt(MAX_ASIDE_BYTES, cx) {
                        Poll::Ready(body) => {
                            let (status, authenticate) = (head.status, head.authenticate.take());
                            self.handle_refusal(status, authenticate.as_deref(), &body);
                        }
                        Poll::Pending if flight.inbox.listen(cx) => return Poll::Pending,
                        Poll::Pending => {}
                    }
                }
                State::Reading(messages, flight) => match messages.poll_next(cx) {
                    Poll::Ready(Some(Ok(message))) => self.handle_message(&message),
                    Poll::Ready(end) => {
                        let error = end.and_then(Result::err).unwrap_or_else(early_end);
                        if let Err(e) = self.resume(error) {
                            return self.fail(e);
                        }
                    }
                    Poll::Pending if flight.inbox.listen(cx) => return Poll::Pending,
                    Poll::Pending => {}
                },
                State::Resuming(resuming, flight) => match resuming.as_mut().poll(cx) {
                    Poll::Ready(Ok(resumed)) => self.handle_resumed(resumed),
                    Poll::Ready(Err(e)) => return self.fail(e),
                    Poll::Pending if flight.inbox.listen(cx) => return Poll::Pending,
                    Poll::Pending => {}
                },
                State::Done => return Poll::Ready(()),
            }
            if !self.ready.is_empty() {
                return Poll::Ready(());
            }
        }
    }

    /// Ends the call with a failure of this side; nothing more is read.
    fn fail(&mut self, error: Error) -> Poll<()> {
        if let State::Sending(_, flight) = &self.state {
            // The peer has not answered: either it has no request, or it sees this one go away.
            flight.connection.finish(flight.call.id);
        }
        // What broke was the reply; the tool may still run.
        self.fail_for("the reply broke", error)
    }

    fn fail_for(&mut self, reason: &'static str, error: Error) -> Poll<()> {
        let inbox = self.flight().map(|flight| flight.inbox.clone());
        self.give_up(reason);
        self.state = State::Done;
        let end = StreamEvent::failure(error.at(&self.place()));
        self.end(inbox.as_deref(), end);
        Poll::Ready(())
    }

    /// Ends with `event`, after what came another way: that came before, and the end may be among
    /// it. The session knows no such call any more, so nothing comes after.
    fn end(&mut self, inbox: Option<&Inbox>, event: StreamEvent) {
        if let Some(inbox) = inbox {
            self.ready.extend(std::iter::from_fn(|| inbox.pop()));
        }
        if !self.ready.back().is_some_and(StreamEvent::is_terminal) {
            self.ready.push_back(event);
        }
    }

    fn handle_sent(&mut self) {
        if let State::Sending(_, flight) = std::mem::replace(&mut self.state, State::Done) {
            self.state = State::Waiting(flight);
        }
    }

    fn handle_head(&mut self, head: ReplyHead, messages: Box<dyn Messages>) {
        let State::Sending(_, flight) = std::mem::replace(&mut self.state, State::Done) else {
            return;
        };
        let owner = Owner::Request(flight.call.id);
        self.state = match judge(&flight.connection, owner, &head) {
            Step::Refused => State::Refused(Box::new((head, messages)), flight),
            Step::Ignore | Step::Read => State::Reading(messages, flight),
        };
    }

    fn handle_refusal(&mut self, status: u16, authenticate: Option<&str>, body: &str) {
        let State::Refused(refused, flight) = std::mem::replace(&mut self.state, State::Done)
        else {
            return;
        };
        // What comes beyond the excerpt is hung up.
        drop(refused);
        let Flight {
            connection,
            call,
            inbox,
            ..
        } = flight;
        let owner = Owner::Request(call.id);
        let body = &connection.hide(body);
        let authenticate = authenticate.map(|text| connection.hide(text));
        let authenticate = authenticate.as_deref();
        let refusal =
            connection.input(|session| session.handle_refusal(owner, status, authenticate, body));
        connection.finish(call.id);
        let end = match refusal {
            Refusal::SessionLost { generation, event } => {
                if !std::mem::replace(&mut self.repeated, true) {
                    self.state = self.reopening(connection, generation);
                    return;
                }
                event
            }
            Refusal::Call(event) => event,
            // The call was over already; its end is in the inbox.
            Refusal::Noted => call.fail(early_end()),
        };
        self.end(Some(&inbox), end);
    }

    /// The reply ended with `error` before the answer: asks for the rest, or gives the error back.
    fn resume(&mut self, error: Error) -> Result<()> {
        let State::Reading(ended, flight) = &mut self.state else {
            return Err(error);
        };
        let (id, resumption) = (flight.call.id, std::mem::take(&mut flight.resumption));
        let resuming = resume(&flight.connection, id, resumption, ended.as_ref(), error)?;
        if let State::Reading(_, flight) = std::mem::replace(&mut self.state, State::Done) {
            self.state = State::Resuming(resuming, flight);
        }
        Ok(())
    }

    fn handle_resumed(&mut self, resumed: Resumed) {
        if let State::Resuming(_, mut flight) = std::mem::replace(&mut self.state, State::Done) {
            flight.resumption = resumed.resumption;
            self.state = State::Reading(resumed.messages, flight);
        }
    }

    fn handle_message(&mut self, message: &Bytes) {
        let State::Reading(_, flight) = &self.state else {
            return;
        };
        let max_depth = flight.connection.limits.max_json_depth;
        let owner = Owner::Request(flight.call.id);
        match jsonrpc::decode(message, max_depth) {
            Ok(Incoming::One(message)) => match flight.call.judge(message) {
                Judged::Event(event) => self.receive(event),
                Judged::Foreign(message) => {
                    flight
                        .connection
                        .input(|session| session.handle_decoded(message, owner));
                }
            },
            // A batch, or bytes that are no message: the session knows what becomes of them, and
            // what is for this call comes back through the inbox.
            _ => flight
                .connection
                .input(|session| session.handle_message(message, owner)),
        }
    }

    /// An event of this call's own reply.
    fn receive(&mut self, event: StreamEvent) {
        if event.is_terminal()
            && let State::Reading(messages, flight) =
                std::mem::replace(&mut self.state, State::Done)
        {
            flight.connection.finish(flight.call.id);
            messages.finish();
            let end = flight.connection.hide_in_event(event);
            self.end(Some(&flight.inbox), end);
        } else {
            self.ready.push_back(event);
        }
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

/// Opens a lost session anew, within what is left of the call's time.
async fn reopened(
    connection: Arc<Connection>,
    generation: u64,
    limit: Option<Duration>,
    left: Option<Duration>,
) -> Result<()> {
    let opening = connection.reopen(generation);
    match limit.zip(left) {
        Some((limit, left)) => timeout(left, opening)
            .await
            .unwrap_or_else(|_| Err(Error::timeout("timeout", limit))),
        None => opening.await,
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
