//! What is asked of the peer: calls, lists, the rest of a reply; and what is called off.
//!
//! Owns what a request says; must not know what an answer means.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;

use super::super::call::Call;
use super::super::tools::Listing;
use super::{Asker, CallSpec, CallStart, ClientSession, Live, Owner, Phase, Work, closed};
use crate::error::Error;
use crate::event::StreamEvent;
use crate::mcp::era::HttpCancel;
use crate::mcp::frame::{Frame, Head, Verb};
use crate::mcp::param;
use crate::mcp::types::CancelledParams;
use crate::wire::jsonrpc::{self, RequestId};

impl ClientSession {
    /// Asks for the tools, all pages. The answer is an [`Event::Listed`] with this id.
    pub(crate) fn list(&mut self, asker: Asker) -> i64 {
        let (named, mirrors) = (self.named(), self.mirrors());
        let id = self.pending.insert(None, |list| Work::List {
            list,
            asker,
            listing: Listing::new(mirrors),
            named,
        });
        match self.phase {
            Phase::Open(_) => self.ask_page(id, None),
            _ => self.end_list(id, Err(closed().at(&self.place))),
        }
        id
    }

    /// Nobody waits for this list any more: no further page is asked for.
    pub(crate) fn forget_list(&mut self, id: i64) {
        let is_it = |work: &Work| matches!(work, Work::List { list, .. } if *list == id);
        if let Some(page) = self.pending.find_work(is_it) {
            self.pending.remove(page);
        }
    }

    pub(super) fn ask_page(&mut self, id: i64, cursor: Option<&str>) {
        let mut params = match cursor {
            Some(cursor) => json!({ "cursor": cursor }).to_string(),
            None => "{}".to_owned(),
        };
        self.add_meta(&mut params, None);
        let body = jsonrpc::encode_raw_request(&RequestId::Number(id), "tools/list", &params);
        let mut head = self.head();
        self.dialect.address(&mut head, "tools/list", None);
        self.post(head, body, Owner::Request(id), None);
    }

    /// Begins a call. The frame is sent and its reply read by the caller, who tells the end
    /// through [`finish`](Self::finish), [`cancel`](Self::cancel) or a refusal.
    pub(crate) fn call(&mut self, spec: &CallSpec<'_>, now: Instant) -> Result<CallStart, Error> {
        let Phase::Open(_) = self.phase else {
            return Err(closed().at(spec.place));
        };
        let params = if self.mirrors() {
            param::headers(spec.mirrored, spec.arguments)
        } else {
            Vec::new()
        };
        self.check_size(&params).map_err(|e| e.at(spec.place))?;
        let named = self.named();
        let deadline = spec.timeout.and_then(|timeout| now.checked_add(timeout));
        let dialect = self.dialect;
        let rules = |id| Call {
            id,
            dialect,
            wraps_result: spec.wraps_result,
            place: spec.place.clone(),
        };
        let id = self.pending.insert(deadline, |id| Work::Call {
            call: rules(id),
            timeout: spec.timeout,
            named,
        });
        let mut head = self.head();
        self.dialect
            .address(&mut head, "tools/call", Some(spec.tool));
        head.params = params;
        let mut params = json!({ "name": spec.tool }).to_string();
        params.pop();
        params.push_str(",\"arguments\":");
        params.push_str(spec.arguments.as_str());
        if let Some(state) = spec.state {
            params.push_str(",\"requestState\":");
            params.push_str(state);
        }
        params.push('}');
        self.add_meta(&mut params, spec.events.then_some(id));
        let body = jsonrpc::encode_raw_request(&RequestId::Number(id), "tools/call", &params);
        Ok(CallStart {
            call: rules(id),
            frame: Frame {
                verb: Verb::Post,
                head,
                body,
            },
        })
    }

    /// Whether a call's headers repeat some of its arguments.
    pub(super) fn mirrors(&self) -> bool {
        !self.is_shared && self.dialect.mirrors_arguments()
    }

    /// Whether such headers can be expected to fit into what a server reads.
    fn check_size(&self, params: &[(Box<str>, Box<str>)]) -> Result<(), Error> {
        let max = self.limits.max_param_header_bytes;
        let sizes = params.iter().map(|(name, value)| name.len() + value.len());
        match sizes.sum::<usize>() > max {
            true => Err(Error::limit("max_param_header_bytes", max)),
            false => Ok(()),
        }
    }

    /// Adds the `_meta` of a request to its parameters, an object.
    pub(super) fn add_meta(&self, params: &mut String, token: Option<i64>) {
        let Phase::Open(Live { meta, .. }) = &self.phase else {
            return;
        };
        let token = token.map(|token| format!("\"progressToken\":{token}"));
        let members: Vec<&str> = [token.as_deref(), Some(meta.as_str())]
            .into_iter()
            .flatten()
            .filter(|members| !members.is_empty())
            .collect();
        if members.is_empty() {
            return;
        }
        params.pop();
        let comma = if params.len() > 1 { "," } else { "" };
        params.push_str(&format!("{comma}\"_meta\":{{{}}}}}", members.join(",")));
    }

    /// The frame that asks for the rest of a request's reply, after the event of that id. `None`
    /// if there is nothing to be had: the request is over, or the session it was sent in.
    pub(crate) fn resume(&mut self, id: i64, after: Box<str>) -> Option<Frame> {
        let (Work::Call { named, .. } | Work::List { named, .. }) = *self.pending.work(id)? else {
            return None;
        };
        let same = matches!(self.phase, Phase::Open(_)) && named == self.named();
        (same && self.dialect.has_sessions()).then(|| Frame {
            verb: Verb::Get,
            head: Head {
                last_event_id: Some(after),
                ..self.head()
            },
            body: Bytes::new(),
        })
    }

    /// The frame that asks for the session's own stream, if the peer has something to say there.
    pub(crate) fn stream(&self) -> Option<Frame> {
        let wanted = self.opened()?.list_changed && self.dialect.has_sessions();
        (wanted && !self.is_shared).then(|| Frame {
            verb: Verb::Get,
            head: self.head(),
            body: Bytes::new(),
        })
    }

    /// The call's terminal event was given to its caller.
    pub(crate) fn finish(&mut self, id: i64) {
        self.take_call(id);
    }

    /// Gives a call up and tells the peer.
    pub(crate) fn cancel(&mut self, id: i64, reason: &'static str) {
        if self.take_call(id).is_some() {
            self.send_cancel(id, reason);
        }
    }

    /// The same for a failure of this side; gives the call's terminal event. `None` if it is over.
    pub(crate) fn give_up(
        &mut self,
        id: i64,
        reason: &'static str,
        error: Error,
    ) -> Option<StreamEvent> {
        let call = self.take_call(id)?;
        self.send_cancel(id, reason);
        Some(call.fail(error))
    }

    /// Forgets a call, if it is one and pending: any other request has an end to be told.
    fn take_call(&mut self, id: i64) -> Option<Call> {
        if !matches!(self.pending.work(id), Some(Work::Call { .. })) {
            return None;
        }
        match self.pending.remove(id)? {
            Work::Call { call, .. } => Some(call),
            Work::List { .. } | Work::Listen { .. } | Work::Open => None,
        }
    }

    pub(super) fn send_cancel(&mut self, id: i64, reason: &'static str) {
        if !matches!(self.phase, Phase::Open(_)) {
            return;
        }
        match self.dialect.http_cancel() {
            // Whoever holds the reply drops it.
            HttpCancel::HangUp if !self.is_shared => {}
            HttpCancel::HangUp | HttpCancel::Notification => {
                let params = CancelledParams {
                    request_id: RequestId::Number(id),
                    reason: Some(reason.into()),
                };
                let body = jsonrpc::encode_notification("notifications/cancelled", Some(&params));
                self.post(self.head(), body, Owner::Nobody, Some(id));
            }
        }
    }
}
