//! The request that has the peer tell of changes: it is acknowledged, and then open until one side
//! ends it.
//!
//! Owns what its messages mean; must not know when it is made again.

use super::super::resume::is_passing;
use super::{ClientSession, Event, Owner, Work};
use crate::mcp::frame::{Frame, Verb};
use crate::mcp::types::{AcknowledgedParams, CancelledParams};
use crate::wire::jsonrpc::{self, Code, ErrorObject, Outcome, RawJson, RequestId};

impl ClientSession {
    /// Asks the peer to tell of changed tools, if it has said that it can and this is how it does.
    /// The caller sends the frame; the end is an [`Event::Unsubscribed`].
    pub(crate) fn listen(&mut self) -> Option<(i64, Frame)> {
        if !self.opened()?.list_changed {
            return None;
        }
        let (method, params) = self.dialect.listen()?;
        let id = self
            .pending
            .insert(None, |_| Work::Listen { honoured: None });
        let mut params = params.to_owned();
        self.add_meta(&mut params, None);
        let mut head = self.head();
        self.dialect.address(&mut head, method, None);
        let frame = Frame {
            verb: Verb::Post,
            head,
            body: jsonrpc::encode_raw_request(&RequestId::Number(id), method, &params),
        };
        Some((id, frame))
    }

    /// Nobody wants to be told any more.
    pub(crate) fn forget_listen(&mut self, id: i64) {
        if self.take_listen(id).is_some() {
            self.send_cancel(id, "no longer wanted");
        }
    }

    /// Its end was missed: the peer is told that this is one.
    pub(super) fn call_off(&mut self, id: i64) {
        if matches!(self.pending.work(id), Some(Work::Listen { .. })) {
            self.send_cancel(id, "an answer could not be read");
        }
    }

    /// Whether the peer agreed, if that request is pending; it no longer is.
    fn take_listen(&mut self, id: i64) -> Option<Option<bool>> {
        let Some(&mut Work::Listen { honoured }) = self.pending.work(id) else {
            return None;
        };
        self.pending.remove(id);
        Some(honoured)
    }

    pub(super) fn handle_acknowledged(&mut self, params: Option<&RawJson>, owner: Owner) {
        let Some(params) = params.and_then(|raw| raw.object::<AcknowledgedParams>().ok()) else {
            return;
        };
        let is_listen = |work: &Work| matches!(work, Work::Listen { .. });
        let id = match (params.subscription(), owner) {
            (Some(id), _) => self.pending.find(&id),
            // Said without the id, it can mean no other.
            (None, Owner::Request(id)) => Some(id),
            (None, _) => self.pending.find_work(is_listen),
        };
        let work = id.and_then(|id| self.pending.work(id));
        let Some(Work::Listen { honoured }) = work else {
            return;
        };
        let now = params.honours_tools();
        let before = honoured.replace(now);
        if now && before != Some(true) {
            self.tell(Event::Subscribed);
        }
    }

    /// The peer called a request off: its own way to end a subscription.
    pub(super) fn handle_cancelled(&mut self, params: Option<&RawJson>) {
        let id = params
            .and_then(|raw| raw.object::<CancelledParams>().ok())
            .and_then(|params| self.pending.find(&params.request_id));
        if let Some(id) = id
            && let Some(honoured) = self.take_listen(id)
        {
            self.end_listen(id, honoured == Some(true));
        }
    }

    /// The request was answered, which is its end.
    pub(super) fn handle_listened(&mut self, id: i64, outcome: Outcome) {
        let Some(honoured) = self.take_listen(id) else {
            return;
        };
        let again = match outcome {
            // One that agreed to nothing would be asked for ever.
            Outcome::Result(_) => honoured == Some(true),
            Outcome::Error(e) => is_passing_error(&e),
            Outcome::Malformed(_) => true,
        };
        self.end_listen(id, again);
    }

    pub(super) fn end_listen(&mut self, id: i64, again: bool) {
        self.tell(Event::Unsubscribed { id, again });
    }
}

/// Whether a request that was refused may fare better later.
pub(super) fn may_fare_better(status: u16, rpc: Option<&ErrorObject>) -> bool {
    rpc.map_or_else(|| is_passing(status), is_passing_error)
}

/// Whether it is not the request itself that is wrong.
fn is_passing_error(error: &ErrorObject) -> bool {
    !matches!(
        error.code,
        Code::METHOD_NOT_FOUND
            | Code::INVALID_PARAMS
            | Code::INVALID_REQUEST
            | Code::HEADER_MISMATCH
            | Code::MISSING_CAPABILITY
            | Code::UNSUPPORTED_VERSION
    )
}
