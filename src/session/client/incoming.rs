//! What the peer says: heads, refusals, messages, and the end of replies.
//!
//! Owns what each of them means to what is pending; must not know how a request is begun.

use bytes::Bytes;

use super::super::call::{End, Returned, input_required, rpc_error};
use super::super::negotiate::{Failure, Move};
use super::super::progress::decode_progress;
use super::super::tools::Page;
use super::listening::may_fare_better;
use super::{
    Asker, ClientSession, Event, Live, Named, Owner, Phase, Refusal, Step, Work, closed, early_end,
};
use crate::error::{Error, Place};
use crate::event::StreamEvent;
use crate::mcp::era::{Completion, Denial, Loss, Opened, dialect};
use crate::mcp::frame::{Head, SessionId};
use crate::wire::jsonrpc::{
    self, Code, ErrorObject, Incoming, Message, Outcome, Request, RequestId, Response,
};

/// How many messages that are none are told of each for itself.
const FIRST_SKIPPED: u64 = 8;

impl ClientSession {
    /// The head of a reply is there.
    pub(crate) fn handle_head(
        &mut self,
        owner: Owner,
        status: u16,
        session: Option<SessionId>,
    ) -> Step {
        let good = (200..300).contains(&status);
        match owner {
            Owner::Nobody => Step::Ignore,
            Owner::Confirmation if good => {
                self.confirmed();
                Step::Ignore
            }
            Owner::Confirmation => Step::Refused,
            Owner::Request(id) => {
                if let Phase::Opening {
                    id: opening,
                    session: candidate,
                    is_replied,
                    ..
                } = &mut self.phase
                    && *opening == id
                {
                    (*candidate, *is_replied) = (session, true);
                }
                if good { Step::Read } else { Step::Refused }
            }
        }
    }

    fn confirmed(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::New) {
            Phase::Confirming(live) => {
                self.generation += 1;
                self.tell(Event::Opened(Ok(())));
                Phase::Open(live)
            }
            other => other,
        };
    }

    /// A reply's status was no success. `body` is what it held, cut to a bound.
    pub(crate) fn handle_refusal(
        &mut self,
        owner: Owner,
        status: u16,
        authenticate: Option<&str>,
        body: &str,
    ) -> Refusal {
        let rpc = self.error_in(body);
        let error = refusal_error(status, authenticate, body, rpc.as_ref());
        let code = rpc.as_ref().map(|rpc| rpc.code);
        let lost = |named: Named| named.lost(status, code, body);
        match owner {
            Owner::Nobody => Refusal::Noted,
            Owner::Confirmation => {
                if matches!(self.phase, Phase::Confirming(_)) {
                    self.fail_opening(error);
                }
                Refusal::Noted
            }
            Owner::Request(id) => match self.pending.remove(id) {
                None => Refusal::Noted,
                Some(Work::Open) => {
                    let next = self.negotiation.handle_refusal(status, rpc, error);
                    self.go_on(next);
                    Refusal::Noted
                }
                Some(Work::List { list, named, .. }) => {
                    self.tell(Event::Listed {
                        id: list,
                        tools: Err(error.at(&self.place)),
                        lost: lost(named).map(|_| named.generation),
                    });
                    Refusal::Noted
                }
                Some(Work::Call { call, named, .. }) => {
                    let event = call.fail(error);
                    match lost(named) {
                        Some(loss) => Refusal::SessionLost {
                            generation: named.generation,
                            unless_still: named.version.filter(|_| loss == Loss::Likely),
                            event,
                        },
                        // That is found out before anything runs.
                        None if self.mirrors() && code == Some(Code::HEADER_MISMATCH) => {
                            Refusal::Mismatch(event)
                        }
                        None => Refusal::Call(event),
                    }
                }
                Some(Work::Listen { .. }) => {
                    self.end_listen(id, may_fare_better(status, rpc.as_ref()));
                    Refusal::Noted
                }
            },
        }
    }

    /// The JSON-RPC error that a refusal holds.
    fn error_in(&self, body: &str) -> Option<ErrorObject> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        match jsonrpc::decode(&body, self.limits.max_json_depth) {
            Ok(Incoming::One(Message::Response(Response {
                outcome: Outcome::Error(e),
                ..
            }))) => Some(e),
            _ => None,
        }
    }

    /// A message arrived, on the reply of `owner`.
    pub(crate) fn handle_message(&mut self, bytes: &Bytes, owner: Owner) {
        if self.is_closed() {
            return;
        }
        if let Ok((id, event)) = self.progress.decode(bytes.clone()) {
            return self.handle_progress(id, event);
        }
        match jsonrpc::decode(bytes, self.limits.max_json_depth) {
            Ok(Incoming::One(message)) => self.handle_decoded(message, owner),
            Ok(Incoming::Batch(members)) => {
                for member in members {
                    match member {
                        Ok(message) => self.handle_decoded(message, owner),
                        Err(invalid) => self.warn_of(&invalid.detail),
                    }
                }
            }
            Err(invalid) => self.warn_of(&invalid.detail),
        }
    }

    /// Told ever more seldom of a peer that says much that is no message.
    fn warn_of(&mut self, detail: &str) {
        self.skipped += 1;
        let so_far = match self.skipped {
            1..=FIRST_SKIPPED => String::new(),
            count if count.is_power_of_two() => format!(" ({count} so far)"),
            _ => return,
        };
        let text = format!("skipped a message: {detail}{so_far}");
        self.tell(Event::Warning(text));
    }

    /// As [`handle_message`](Self::handle_message), for a message that is decoded already.
    pub(crate) fn handle_decoded(&mut self, message: Message, owner: Owner) {
        if self.is_closed() {
            return;
        }
        match message {
            Message::Notification(note) => match &*note.method {
                "notifications/progress" => self.route_progress(Message::Notification(note)),
                "notifications/tools/list_changed" => self.tell(Event::ToolsChanged),
                "notifications/subscriptions/acknowledged" => {
                    self.handle_acknowledged(note.params.as_ref(), owner);
                }
                "notifications/cancelled" => self.handle_cancelled(note.params.as_ref()),
                _ => {}
            },
            Message::Request(request) => self.answer(&request),
            Message::Response(response) => self.route_response(response, owner),
        }
    }

    fn route_progress(&mut self, message: Message) {
        let Message::Notification(note) = &message else {
            return;
        };
        let token = note.params.as_ref().and_then(decode_progress);
        if let Some((token, event)) = token
            && let Some(id) = token.as_number()
        {
            self.handle_progress(id, event);
        }
    }

    /// As [`handle_message`](Self::handle_message), for an event of the call with this id, if there is
    /// one.
    pub(crate) fn handle_progress(&mut self, id: i64, event: StreamEvent) {
        if !self.is_closed()
            && let Some(Work::Call { .. }) = self.pending.work(id)
        {
            self.tell(Event::Call { id, event });
        }
    }

    fn route_response(&mut self, response: Response, owner: Owner) {
        let failed = !matches!(response.outcome, Outcome::Result(_));
        let number = response.id.as_ref().and_then(RequestId::as_number);
        let was_issued = number.is_some_and(|id| self.pending.was_issued(id));
        let id = match (&response.id, owner) {
            (Some(id), _) if let Some(id) = self.pending.find(id) => id,
            // An error whose id the peer could not read, or made up, belongs to the request whose
            // reply it is in. One with an id that we once used is late.
            (_, Owner::Request(own)) if failed && !was_issued => own,
            // On a channel that all share there is nothing else yet that it could be about.
            _ if failed
                && !was_issued
                && let Some(question) = self.question() =>
            {
                question
            }
            _ => return,
        };
        match self.pending.work(id) {
            Some(Work::Call { .. }) => self.answered += 1,
            Some(Work::List { asker, .. }) => self.answered += u64::from(*asker == Asker::User),
            Some(Work::Listen { .. } | Work::Open) | None => {}
        }
        match self.pending.work(id) {
            None => {}
            Some(Work::Open) => {
                self.pending.remove(id);
                self.handle_opened(id, response.outcome);
            }
            Some(Work::Call { .. }) => {
                if let Some(Work::Call { call, .. }) = self.pending.remove(id) {
                    self.tell(match call.end(response.outcome) {
                        End::Final(event) => Event::Call { id, event },
                        End::Returned(Returned { state, event }) => {
                            Event::Returned { id, state, event }
                        }
                    });
                }
            }
            Some(Work::Listen { .. }) => self.handle_listened(id, response.outcome),
            Some(Work::List { .. }) => self.handle_page(id, response.outcome),
        }
    }

    /// The question that waits for its answer, on a channel that all share.
    fn question(&self) -> Option<i64> {
        match self.phase {
            Phase::Opening {
                id,
                is_question: true,
                ..
            } if self.is_shared => Some(id),
            _ => None,
        }
    }

    fn handle_opened(&mut self, id: i64, outcome: Outcome) {
        let session = match &mut self.phase {
            Phase::Opening {
                id: opening,
                session,
                ..
            } if *opening == id => session.take(),
            _ => return,
        };
        let answered = matches!(outcome, Outcome::Result(_));
        match self.negotiation.handle_answer(outcome) {
            Move::Done(opened) => self.handle_agreed(opened, session),
            next => {
                if self.dialect.has_sessions() {
                    // The peer believes that it is open.
                    self.leave(Head {
                        session_id: session.filter(|_| answered),
                        ..Head::default()
                    });
                }
                self.go_on(next);
            }
        }
    }

    /// The peer and we know what is spoken.
    fn handle_agreed(&mut self, opened: Opened, session: Option<SessionId>) {
        self.dialect = dialect(opened.version);
        let session = session.filter(|_| self.dialect.has_sessions());
        if session.is_some() {
            self.last_session.clone_from(&session);
        }
        let meta = self.dialect.request_meta(opened.version, &self.client);
        self.phase = Phase::Confirming(Live {
            opened,
            session,
            meta,
        });
        match self.dialect.confirmation() {
            Some(body) => self.post(self.head(), body, Owner::Confirmation, None),
            None => self.confirmed(),
        }
    }

    /// What follows an opening that was not answered with agreement.
    pub(super) fn go_on(&mut self, next: Move) {
        match next {
            Move::Done(opened) => self.handle_agreed(opened, None),
            Move::Fail(error) => self.fail_opening(error),
            Move::Open(opening) => self.send_opening(&opening),
        }
    }

    fn fail_opening(&mut self, error: Error) {
        if !self.is_closed() {
            self.leave(self.head());
            self.phase = Phase::New;
        }
        self.tell(Event::Opened(Err(error.at(&self.place))));
    }

    fn handle_page(&mut self, id: i64, outcome: Outcome) {
        let result = match outcome {
            Outcome::Result(result) => result,
            // A server without tools may not know the method at all.
            Outcome::Error(e) if e.code == Code::METHOD_NOT_FOUND => {
                return self.end_list(id, Ok(()));
            }
            Outcome::Error(e) if e.code == Code::INVALID_PARAMS && self.restart_list(id) => return,
            // To some of those a method that they lack is a request with bad parameters.
            Outcome::Error(e)
                if e.code == Code::INVALID_PARAMS
                    && self.opened().is_some_and(|opened| !opened.has_tools)
                    && self.is_first_page(id) =>
            {
                return self.end_list(id, Ok(()));
            }
            Outcome::Error(e) => return self.end_list(id, Err(rpc_error(e))),
            Outcome::Malformed(detail) => return self.end_list(id, Err(Error::protocol(detail))),
        };
        match self.dialect.completion(&result) {
            Completion::Complete => {}
            Completion::InputRequired { methods, .. } => {
                return self.end_list(id, Err(input_required(&methods)));
            }
            Completion::Odd(detail) => return self.end_list(id, Err(Error::protocol(detail))),
        }
        let ttl = self.dialect.freshness(&result);
        let Some(Work::List { listing, .. }) = self.pending.work(id) else {
            return;
        };
        let page = listing.add(&result, ttl, &self.limits);
        for warning in listing.take_warnings() {
            self.tell(Event::Warning(warning));
        }
        match page {
            Ok(Page::Last) => self.end_list(id, Ok(())),
            Ok(Page::More(cursor)) => self.ask_again(id, Some(&cursor)),
            Err(e) => self.end_list(id, Err(e)),
        }
    }

    /// Whether nothing of a list has come yet, nor was it begun anew.
    fn is_first_page(&mut self, id: i64) -> bool {
        matches!(self.pending.work(id), Some(Work::List { listing, .. }) if listing.is_new())
    }

    /// A peer that refuses its own cursor has changed its list meanwhile.
    fn restart_list(&mut self, id: i64) -> bool {
        let again = match self.pending.work(id) {
            Some(Work::List { listing, .. }) => listing.restart(),
            _ => false,
        };
        if again {
            self.ask_again(id, None);
        }
        again
    }

    /// Asks for a page of a list that goes on. Each is a request of its own, so it has its own id,
    /// and is sent only while the connection is open.
    fn ask_again(&mut self, id: i64, cursor: Option<&str>) {
        if !matches!(self.phase, Phase::Open(_)) {
            return self.end_list(id, Err(closed().at(&self.place)));
        }
        let now_named = self.named();
        if let Some(mut work) = self.pending.remove(id) {
            if let Work::List { named, .. } = &mut work {
                *named = now_named;
            }
            let next = self.pending.insert(None, |_| work);
            self.ask_page(next, cursor);
        }
    }

    pub(super) fn end_list(&mut self, id: i64, end: Result<(), Error>) {
        if let Some(Work::List { list, listing, .. }) = self.pending.remove(id) {
            let tools = end
                .map(|()| listing.into_tools())
                .map_err(|e| e.at(&self.place));
            self.tell(Event::Listed {
                id: list,
                tools,
                lost: None,
            });
        }
    }

    /// Requests of the server: it may ask whether we live, and nothing else, since we declared no
    /// capability. Where it may ask nothing at all it gets no answer either.
    fn answer(&mut self, request: &Request) {
        if !self.dialect.answers_requests() {
            let method: String = request.method.chars().take(100).collect();
            return self.warn_of(&format!("the server may not ask for {method:?}"));
        }
        let mut body = Vec::new();
        if *request.method == *"ping" {
            jsonrpc::encode_result(&mut body, &request.id, "{}");
        } else {
            let error = ErrorObject::new(Code::METHOD_NOT_FOUND, "method not found");
            jsonrpc::encode_error(&mut body, Some(&request.id), &error);
        }
        self.post(self.head(), body.into(), Owner::Nobody, None);
    }

    /// The reply of `owner` ended, well or with `error`. A request that is still pending fails.
    pub(crate) fn handle_end(&mut self, owner: Owner, error: Option<Error>) {
        let error = error.unwrap_or_else(early_end);
        match owner {
            Owner::Nobody => {}
            Owner::Confirmation => {
                if matches!(self.phase, Phase::Confirming(_)) {
                    self.fail_opening(error);
                }
            }
            Owner::Request(id) => match self.pending.remove(id) {
                None => {}
                Some(Work::Open) => {
                    let replied = matches!(
                        self.phase,
                        Phase::Opening {
                            is_replied: true,
                            ..
                        }
                    );
                    let failure = match error {
                        Error::Timeout { .. } => Failure::Answerless,
                        _ if replied => Failure::Answerless,
                        _ => Failure::Unsent,
                    };
                    let next = self.negotiation.handle_failure(error, failure);
                    self.go_on(next);
                }
                Some(Work::List { list, .. }) => {
                    self.tell(Event::Listed {
                        id: list,
                        tools: Err(error.at(&self.place)),
                        lost: None,
                    });
                }
                Some(Work::Call { call, .. }) => {
                    self.tell(Event::Call {
                        id,
                        event: call.fail(error),
                    });
                }
                Some(Work::Listen { .. }) => self.end_listen(id, true),
            },
        }
    }

    /// The channel that all answers come on has ended. Whatever waits fails; the connection can be
    /// opened again. An opening that waits is followed by another one, if that may be answered.
    pub(crate) fn handle_lost(&mut self, error: &Error) {
        let opening = match self.phase {
            Phase::Opening { id, .. } => self.pending.remove(id),
            _ => None,
        };
        self.fail_pending(error);
        if self.is_closed() {
            return;
        }
        self.phase = Phase::New;
        if opening.is_some() {
            let next = self
                .negotiation
                .handle_failure(error.clone(), Failure::Gone);
            self.go_on(next);
        }
    }

    /// Nobody waits for the opening any more.
    pub(crate) fn give_up_opening(&mut self, error: &Error) {
        if let Phase::Opening { id, .. } = self.phase
            && self.pending.remove(id).is_some()
        {
            self.negotiation.doubt();
            self.fail_opening(error.clone());
        }
        self.handle_lost(error);
    }

    /// A message on the channel that all answers come on could not be taken, and it may have been
    /// anybody's answer: no call can be left to wait for it.
    pub(crate) fn handle_skipped(&mut self, error: &Error) {
        if let Phase::Opening { is_replied, .. } = &mut self.phase {
            *is_replied = true;
        }
        for id in self.pending.ids() {
            if let Some(event) = self.give_up(id, "an answer could not be read", error.clone()) {
                self.tell(Event::Call { id, event });
            } else {
                self.call_off(id);
                self.handle_end(Owner::Request(id), Some(error.clone()));
            }
        }
    }

    fn fail_pending(&mut self, error: &Error) {
        if matches!(self.phase, Phase::Confirming(_)) {
            self.handle_end(Owner::Confirmation, Some(error.clone()));
        }
        for id in self.pending.ids() {
            self.handle_end(Owner::Request(id), Some(error.clone()));
        }
    }

    /// A frame was handed to a shared link: nothing more will be heard of its delivery.
    pub(crate) fn handle_sent(&mut self, owner: Owner) {
        if owner == Owner::Confirmation {
            self.confirmed();
        }
    }
}

/// A JSON-RPC error in the body wins over the status, except where that is about who we are.
fn refusal_error(
    status: u16,
    authenticate: Option<&str>,
    body: &str,
    rpc: Option<&ErrorObject>,
) -> Error {
    const MAX_EXCERPT_CHARS: usize = 300;
    let excerpt = |text: &str| -> String { text.chars().take(MAX_EXCERPT_CHARS).collect() };
    match rpc {
        Some(rpc) if !matches!(status, 401 | 403) => rpc_error(rpc.clone()),
        _ => Error::Http {
            place: Place::default(),
            status,
            detail: {
                let said = rpc.map(|rpc| excerpt(&rpc.message));
                let said = said.filter(|said| !said.is_empty());
                match (authenticate.map(excerpt), said) {
                    (Some(challenge), Some(said)) => {
                        format!("{said} (WWW-Authenticate: {challenge})").into()
                    }
                    (Some(challenge), None) => format!("WWW-Authenticate: {challenge}").into(),
                    (None, Some(said)) => said.into(),
                    (None, None) => excerpt(body).into(),
                }
            },
            retry_after: None,
        },
    }
}

impl Named {
    /// Whether a refusal says that the peer knows nothing of the opening any more.
    fn lost(self, status: u16, code: Option<Code>, body: &str) -> Option<Loss> {
        dialect(self.version?).loss(&Denial {
            status,
            code,
            body,
            has_session: self.has_session,
        })
    }
}
