//! Answers what HTTP clients send.
//!
//! Owns the sessions of a server over HTTP and the form of each answer; must not know sockets.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};

use super::batch::{Batch, NO_BATCH};
use super::calls::{Begun, Session, Step, now};
use super::driver::{Host, Reader};
use super::notice::Listener;
use super::offer::Offer;
use super::replay::resumed;
use super::roster::Roster;
use super::subscription::Subscription;
use crate::mcp::classify::{Rejection, Route, Stated, classify, classify_verb};
use crate::mcp::era::Dialect;
use crate::mcp::frame::{Head, Principal, SessionId, Verb};
use crate::session::outbox::Answer;
use crate::session::progress::Framing;
use crate::session::server::{
    self as machine, CallRequest, ListenRequest, Reaction, ServerSession,
};
use crate::session::table::SessionTable;
use crate::transport::{Accept, Exchange, Inbound, Outbound, OutboundBody, Source};
use crate::wire::chunk::Chunk;
use crate::wire::jsonrpc::{
    self, Code, ErrorObject, Incoming, Invalid, Message, Request, RequestId,
};

/// Answers the frames that HTTP clients send.
pub(crate) struct HttpHost {
    host: Arc<Host>,
    sessions: Mutex<SessionTable<Arc<Session>>>,
    /// Requests in flight that belong to none of them; `None` once all of them were ended.
    lone: Mutex<Option<Roster<Session>>>,
    /// A stream that only waits for changes ends as it begins.
    ends_streams: AtomicBool,
    new_id: fn() -> Option<SessionId>,
}

impl HttpHost {
    /// `new_id` makes session ids: secrets of 128 random bits, or `None` when the system has no
    /// randomness to give.
    pub(super) fn new(host: Arc<Host>, new_id: fn() -> Option<SessionId>) -> Self {
        let limits = host.limits();
        let sessions = SessionTable::new(limits.max_sessions, limits.session_idle_timeout);
        Self {
            host,
            sessions: Mutex::new(sessions),
            lone: Mutex::new(Some(Roster::default())),
            ends_streams: AtomicBool::new(false),
            new_id,
        }
    }

    fn sessions(&self) -> MutexGuard<'_, SessionTable<Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets idle sessions expire, for as long as it is polled.
    pub(super) async fn expire_sessions(&self) {
        let pause = self.host.limits().session_idle_timeout / 4;
        loop {
            sleep(pause.max(Duration::from_millis(100))).await;
            self.expire();
        }
    }

    fn expire(&self) {
        let expired = self.sessions().expire(now());
        for session in expired {
            session.end(None);
        }
    }

    /// Ends every running call with an error that says so.
    pub(super) fn end_calls(&self) {
        let error = machine::shutting_down();
        let sessions = self.sessions().drain();
        let lone = self.lone().take().unwrap_or_default();
        for session in sessions.into_iter().chain(lone.present()) {
            session.end(Some(&error));
        }
    }

    fn lone(&self) -> MutexGuard<'_, Option<Roster<Session>>> {
        self.lone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn delete(&self, head: &Head, who: Option<&Principal>) -> Outbound {
        let id = match classify_verb(head) {
            Ok(id) => id,
            Err(rejection) => return rejected(*rejection),
        };
        let session = self.sessions().take(id, who);
        match session {
            Some(session) => {
                session.end(None);
                outbound(200, OutboundBody::Empty)
            }
            None => session_not_found(None),
        }
    }

    /// Answers a message without a session, and makes one if the message opened it.
    fn open(
        &self,
        dialect: &'static dyn Dialect,
        request: Request,
        who: Option<Principal>,
        accept: Accept,
    ) -> Outbound {
        let request_id = request.id.clone();
        let mut machine = ServerSession::new(dialect);
        let offer = self.host.offer();
        let reaction = machine.handle_message(Message::Request(request), None, &offer.facts);
        let body = match reaction {
            Reaction::Answer { body, .. } if machine.is_open() => body,
            reaction => return self.settled(reaction, accept, None),
        };
        let session = self.host.session(machine, who);
        let Some(id) = (self.new_id)() else {
            let error = ErrorObject::new(Code::INTERNAL, "no randomness for a session id");
            return error_outbound(500, Some(&request_id), &error);
        };
        let inserted = self.sessions().insert(id.clone(), session.clone(), now());
        match inserted {
            Ok(evicted) => {
                if let Some(evicted) = evicted {
                    evicted.end(None);
                }
                let mut answer = body_outbound(200, body, accept, Some(&session));
                answer.session_id = Some(id);
                answer
            }
            Err(_) => busy(machine::busy(&request_id, "max_sessions")),
        }
    }

    /// Answers a request that stands for itself. It is its own session, which ends with the answer
    /// and so when nobody reads that any more.
    async fn alone(
        &self,
        message: Message,
        stated: Stated,
        who: Option<Principal>,
        accept: Accept,
    ) -> Outbound {
        let machine = ServerSession::new(stated.dialect);
        let session = Arc::new(Session::new(machine, who, None, None));
        let id = match &message {
            Message::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let over = || error_outbound(503, id.as_ref(), &machine::shutting_down());
        match &mut *self.lone() {
            Some(lone) => lone.enter(&session),
            None => return over(),
        }
        let admit = |call: &CallRequest| self.host.admit(call, Framing::Sse, accept.sse);
        let offer = self.host.offer();
        let step = session.handle_message(message, Some(&stated), &offer.facts, admit);
        // It is a part of the request, which goes before the call begins to wait.
        drop(stated);
        match step {
            Step::Over => over(),
            Step::Run(call, begun) => {
                let alone = Some(session.clone());
                self.run(offer, call, begun, &session, alone, accept).await
            }
            Step::Settled(Reaction::Listen(listen)) => self.subscribe(&session, listen, accept),
            Step::Settled(reaction) => self.settled(reaction, accept, None),
        }
    }

    /// Opens the stream of a subscription.
    fn subscribe(&self, session: &Arc<Session>, listen: ListenRequest, accept: Accept) -> Outbound {
        if !accept.sse {
            let text = "a subscription is a stream: send `Accept: text/event-stream`";
            let error = ErrorObject::new(Code::INVALID_REQUEST, text);
            return error_outbound(406, Some(&listen.id), &error);
        }
        match Subscription::begin(&self.host, session, listen, Framing::Sse) {
            Ok(subscription) => {
                self.end_late_stream(session);
                stream_outbound(Alone {
                    subscription,
                    _session: session.clone(),
                })
            }
            Err(body) => busy(body),
        }
    }

    /// Opens the stream of a session, on which it hears that the tools have changed, or goes on
    /// with one of a call.
    fn stream(&self, head: &Head, who: Option<&Principal>) -> Outbound {
        let id = match classify_verb(head) {
            Ok(id) => id,
            Err(rejection) => return rejected(*rejection),
        };
        let Some(session) = self.sessions().touch(id, who, now()).cloned() else {
            return session_not_found(None);
        };
        if let Some(last_event_id) = &head.last_event_id {
            return match session.resume(last_event_id) {
                Some(stream) => outbound(200, OutboundBody::Stream(resumed(stream))),
                None => {
                    let error = ErrorObject::new(Code::INVALID_REQUEST, NOTHING_TO_RESUME);
                    error_outbound(400, None, &error)
                }
            };
        }
        match session.listen() {
            Some(listener) => {
                self.end_late_stream(&session);
                stream_outbound(Changes(listener))
            }
            None => session_not_found(None),
        }
    }

    /// Ends the streams that would keep a server from ending, those included that are yet to come.
    pub(super) fn end_streams(&self) {
        self.ends_streams.store(true, Ordering::SeqCst);
        let sessions: Vec<_> = self.sessions().values().cloned().collect();
        let lone = self.lone().as_ref().map(Roster::present);
        for session in sessions.into_iter().chain(lone.unwrap_or_default()) {
            session.hang_up();
        }
    }

    /// Ends a stream that has begun, if [`end_streams`](Self::end_streams) may have come too early
    /// to see it.
    fn end_late_stream(&self, session: &Session) {
        if self.ends_streams.load(Ordering::SeqCst) {
            session.hang_up();
        }
    }

    /// Answers an array of messages, in a session of a revision that has such.
    async fn batch(
        &self,
        route: &Route,
        members: Vec<Result<Message, Invalid>>,
        who: Option<&Principal>,
        accept: Accept,
    ) -> Outbound {
        let session = match route {
            Route::Session(id) => match self.sessions().touch(id, who, now()) {
                Some(session) => session.clone(),
                None => return session_not_found(None),
            },
            Route::Nowhere | Route::Open(_) | Route::Stated(_) => return no_batch(),
        };
        if !session.takes_batches() {
            return no_batch();
        }
        let Some(batch) = Batch::begin(&self.host, &session, members) else {
            return session_not_found(None);
        };
        match batch.answer().await {
            Some(body) => body_outbound(200, body, accept, Some(&session)),
            None => outbound(202, OutboundBody::Empty),
        }
    }

    /// A reaction that needs no task.
    fn settled(&self, reaction: Reaction, accept: Accept, session: Option<&Session>) -> Outbound {
        match reaction {
            Reaction::Answer { status, body } => body_outbound(status, body, accept, session),
            Reaction::Busy(body) => busy(body),
            Reaction::Accept | Reaction::Call(_) | Reaction::Cancel(_) | Reaction::Listen(_) => {
                outbound(202, OutboundBody::Empty)
            }
        }
    }

    async fn run(
        &self,
        offer: Arc<Offer>,
        call: CallRequest,
        begun: Begun,
        session: &Session,
        alone: Option<Arc<Session>>,
        accept: Accept,
    ) -> Outbound {
        let outbox = begun.outbox().clone();
        if accept.sse {
            session.tape(&outbox);
        }
        // From here on a client that hangs up is noticed, whatever this future is doing.
        let reader = Reader::new(outbox.clone(), alone);
        let work = offer.work(call, &outbox, session.principal());
        // Held no longer: the call may be long, and what was offered large.
        drop(offer);
        let Some(mut work) = work else {
            return outbound(500, OutboundBody::Empty);
        };
        // A tool that is ready at once needs neither a task nor a timer.
        match poll_fn(|cx| Poll::Ready(Pin::new(&mut work).poll(cx))).await {
            Poll::Ready((status, body)) => begun.end(status, body),
            Poll::Pending => self.host.leave_to_task(work, begun),
        }
        let window = accept.sse.then_some(self.host.limits().answer_window);
        let answer = match timeout_if(window, poll_fn(|cx| outbox.poll_answer(cx))).await {
            Some(answer) => answer,
            None => outbox.decide(),
        };
        match answer {
            Answer::Json { status, body } => body_outbound(status, body, accept, Some(session)),
            Answer::Stream if accept.sse => stream_outbound(reader),
            // Cancelled before there was an answer, and the client takes no stream to end.
            Answer::Stream => outbound(204, OutboundBody::Empty),
        }
    }
}

fn rejected(rejection: Rejection) -> Outbound {
    let Rejection { status, id, error } = rejection;
    error_outbound(status, id.as_ref(), &error)
}

const NOTHING_TO_RESUME: &str = "this stream cannot be gone on with: \
    its Last-Event-ID is unknown, or not all that followed is kept";

fn no_batch() -> Outbound {
    let error = ErrorObject::new(Code::INVALID_REQUEST, NO_BATCH);
    error_outbound(400, None, &error)
}

impl Exchange for HttpHost {
    fn has_streams(&self) -> bool {
        self.host.tells_changes()
    }

    fn resumes_streams(&self) -> bool {
        self.host.replays()
    }

    async fn exchange(&self, inbound: Inbound) -> Outbound {
        // A server that is mounted elsewhere has no loop of its own that would look.
        self.expire();
        let Inbound {
            verb,
            head,
            principal,
            accept,
            body,
        } = inbound;
        let who = principal.as_ref();
        match verb {
            Verb::Delete => return self.delete(&head, who),
            Verb::Get => return self.stream(&head, who),
            Verb::Post => {}
        }
        let decoded = jsonrpc::decode(&body, self.host.limits().max_json_depth);
        // What outlives this is held by who needs it.
        drop(body);
        let incoming = match decoded {
            Ok(incoming) => incoming,
            Err(invalid) => {
                let error = ErrorObject::new(invalid.code, invalid.detail);
                return error_outbound(400, invalid.id.as_ref(), &error);
            }
        };
        let route = match classify(&head, &incoming) {
            Ok(route) => route,
            Err(rejection) => return rejected(*rejection),
        };
        let message = match incoming {
            Incoming::One(message) => message,
            Incoming::Batch(members) => return self.batch(&route, members, who, accept).await,
        };
        match (route, message.with_own_id()) {
            (Route::Open(dialect), Message::Request(request)) => {
                self.open(dialect, request, principal, accept)
            }
            (Route::Session(id), message) => {
                let session = self.sessions().touch(&id, who, now()).cloned();
                let id = match &message {
                    Message::Request(request) => Some(request.id.clone()),
                    _ => None,
                };
                let Some(session) = session else {
                    return session_not_found(id.as_ref());
                };
                let admit = |call: &CallRequest| self.host.admit(call, Framing::Sse, accept.sse);
                let offer = self.host.offer();
                match session.handle_message(message, None, &offer.facts, admit) {
                    Step::Over => session_not_found(id.as_ref()),
                    Step::Run(call, begun) => {
                        self.run(offer, call, begun, &session, None, accept).await
                    }
                    Step::Settled(reaction) => self.settled(reaction, accept, Some(&session)),
                }
            }
            (Route::Stated(stated), message) => {
                self.alone(message, stated, principal, accept).await
            }
            (Route::Nowhere | Route::Open(_), _) => outbound(202, OutboundBody::Empty),
        }
    }
}

/// A session's own stream.
struct Changes(Listener);

impl Source for Changes {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        self.0.poll_changed(cx).map(|changed| {
            changed.then(|| {
                let mut framed = Vec::new();
                Framing::Sse.write(&mut framed, &machine::list_changed());
                Chunk::once(framed)
            })
        })
    }

    fn is_end(&self) -> bool {
        self.0.is_over()
    }
}

async fn timeout_if<F: Future>(after: Option<Duration>, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    // Most answers are there already; a timer costs more than a look.
    if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        return Some(done);
    }
    match after {
        Some(after) => timeout(after, future).await.ok(),
        None => Some(future.await),
    }
}

fn outbound(status: u16, body: OutboundBody) -> Outbound {
    Outbound {
        status,
        session_id: None,
        retry_after: None,
        body,
    }
}

/// One message as the whole answer, in the form that the client likes best.
fn body_outbound(
    status: u16,
    body: Vec<u8>,
    accept: Accept,
    session: Option<&Session>,
) -> Outbound {
    if !accept.prefers_sse || status >= 400 {
        return outbound(status, OutboundBody::Json(body.into()));
    }
    let whole = session.and_then(|session| session.whole_stream(&body));
    let framed = whole.unwrap_or_else(|| {
        let mut framed = Vec::new();
        Framing::Sse.write(&mut framed, &body);
        framed
    });
    outbound(
        status,
        OutboundBody::Stream(Box::new(Once(Some(Chunk::once(framed))))),
    )
}

fn stream_outbound(source: impl Source + 'static) -> Outbound {
    outbound(200, OutboundBody::Stream(Box::new(source)))
}

fn error_outbound(status: u16, id: Option<&RequestId>, error: &ErrorObject) -> Outbound {
    let mut body = Vec::new();
    jsonrpc::encode_error(&mut body, id, error);
    outbound(status, OutboundBody::Json(Bytes::from(body)))
}

/// A lost session: a client that sees this status opens a new one.
fn session_not_found(id: Option<&RequestId>) -> Outbound {
    let error = ErrorObject::new(Code::INVALID_REQUEST, "session not found");
    error_outbound(404, id, &error)
}

fn busy(body: Vec<u8>) -> Outbound {
    let mut answer = outbound(503, OutboundBody::Json(body.into()));
    answer.retry_after = Some(Duration::from_secs(1));
    answer
}

/// A subscription with the session that ends with it.
struct Alone {
    subscription: Subscription,
    _session: Arc<Session>,
}

impl Source for Alone {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        self.subscription.poll_chunk(cx)
    }

    fn is_end(&self) -> bool {
        self.subscription.is_end()
    }
}

/// A stream of one chunk.
pub(super) struct Once(pub(super) Option<Chunk>);

impl Source for Once {
    fn poll_chunk(&mut self, _cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        Poll::Ready(self.0.take())
    }

    fn is_end(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for HttpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHost")
            .field("sessions", &self.sessions().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
