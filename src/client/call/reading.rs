//! One request of a call and what comes back: a head, a refusal, messages, or nothing.
//!
//! Owns what becomes of the reply; must not know how a tool is found or what has to happen before a
//! request is made again.

use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::repeating::Repeat;
use super::{CallStream, Flight, State};
use crate::client::driver::{MAX_ASIDE_BYTES, judge};
use crate::client::inbox::Inbox;
use crate::client::resume::{Resumed, resume};
use crate::error::{Error, Result};
use crate::event::StreamEvent;
use crate::session::call::{Judged, Returned};
use crate::session::client::{Owner, Refusal, Step, early_end};
use crate::transport::{Messages, Reply, ReplyHead, Sent};
use crate::wire::jsonrpc::{self, Incoming};

impl CallStream {
    /// Makes progress until there is an event in `ready` or nothing more to do now.
    pub(super) fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(event) = self.take_event() {
                self.ready.push_back(event);
                return Poll::Ready(());
            }
            match &mut self.state {
                State::Idle => match self.start() {
                    Ok(state) => self.state = state,
                    Err(e) => return self.fail(e),
                },
                State::Repeating(prepared) => match ready!(prepared.as_mut().poll(cx)) {
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
                    Poll::Ready(Some(Ok(message))) => self.handle_message(message),
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

    pub(super) fn fail_for(&mut self, reason: &'static str, error: Error) -> Poll<()> {
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
        self.end_unless(None, inbox, event);
    }

    /// The same, unless the request can be made again.
    fn end_unless(&mut self, repeat: Option<Repeat>, inbox: Option<&Inbox>, event: StreamEvent) {
        if let Some(inbox) = inbox {
            self.ready.extend(std::iter::from_fn(|| inbox.pop()));
        }
        if self.ready.back().is_some_and(StreamEvent::is_terminal) {
            return;
        }
        match repeat.and_then(|repeat| self.repeat(repeat)) {
            Some(state) => self.state = state,
            None => self.ready.push_back(event),
        }
    }

    /// An event that came another way than by this call's own reply.
    fn take_event(&mut self) -> Option<StreamEvent> {
        let flight = self.flight()?;
        let event = flight.inbox.pop()?;
        if !event.is_terminal() {
            return Some(event);
        }
        let returned = flight.inbox.take_returned();
        // The session gave the call up already: nothing is to be told.
        self.give_up("ended");
        match returned.and_then(|state| self.repeat(Repeat::Returned(state))) {
            Some(state) => self.state = state,
            None => return Some(event),
        }
        None
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
        let (repeat, event) = match refusal {
            Refusal::SessionLost {
                generation,
                unless_still,
                event,
            } => {
                let doubt = unless_still.zip(event.error().cloned());
                (Some(Repeat::Reopened(connection, generation, doubt)), event)
            }
            Refusal::Mismatch(event) => {
                let error = event.error().cloned();
                (
                    error.map(|error| Repeat::Relisted(connection, error)),
                    event,
                )
            }
            Refusal::Call(event) => (None, event),
            // The call was over already; its end is in the inbox.
            Refusal::Noted => (None, call.fail(early_end())),
        };
        self.end_unless(repeat, Some(&inbox), event);
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

    fn handle_message(&mut self, message: Bytes) {
        let State::Reading(_, flight) = &mut self.state else {
            return;
        };
        let message = match flight.progress.decode(message) {
            Ok((id, event)) if id == flight.call.id => return self.receive(event),
            Ok((id, event)) => {
                let connection = &flight.connection;
                return connection.input(|session| session.handle_progress(id, event));
            }
            Err(message) => message,
        };
        let max_depth = flight.connection.limits.max_json_depth;
        let owner = Owner::Request(flight.call.id);
        match jsonrpc::decode(&message, max_depth) {
            Ok(Incoming::One(message)) => match flight.call.judge(message) {
                Judged::Event(event) => self.receive(event),
                Judged::Returned(returned) => self.handle_returned(returned),
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
                .input(|session| session.handle_message(&message, owner)),
        }
    }

    /// The reply has ended with the wish that the request be made again.
    fn handle_returned(&mut self, Returned { state, event }: Returned) {
        if let State::Reading(messages, flight) = std::mem::replace(&mut self.state, State::Done) {
            flight.connection.finish(flight.call.id);
            messages.finish();
            let event = flight.connection.hide_in_event(event);
            self.end_unless(Some(Repeat::Returned(state)), Some(&flight.inbox), event);
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
}
