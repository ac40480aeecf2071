//! A server's side of one session: what each message of the client asks for.
//!
//! Owns which calls are in flight and what every message is answered with; must not know how a
//! tool runs or what carries the answer.

use std::collections::HashSet;

use super::progress::read_token;
use crate::limits::Limits;
use crate::mcp::era::{Dialect, Method, ServerWords};
use crate::mcp::tool::Tool;
use crate::mcp::types::{CallParams, CancelledParams, RequestMeta, ToolOutput};
use crate::mcp::version::ProtocolVersion;
use crate::wire::jsonrpc::{
    self, Code, ErrorObject, Message, Outcome, RawJson, Request, RequestId, Response,
};

/// What all sessions of a server share.
#[derive(Debug, Clone)]
pub(crate) struct ServerFacts {
    pub(crate) words: ServerWords,
    /// In the order they were added; names are unique.
    pub(crate) tools: Vec<Tool>,
    /// How many of them a page of the list holds.
    pub(crate) tools_per_page: usize,
    pub(crate) limits: Limits,
}

/// One client's session.
#[derive(Debug)]
pub(crate) struct ServerSession {
    dialect: &'static dyn Dialect,
    phase: Phase,
    /// The client has said that it knows the session to be open.
    confirmed: bool,
    calls: HashSet<RequestId>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The client has yet to say which revision it speaks.
    Fresh,
    Open(ProtocolVersion),
}

/// What is to be done about a message.
#[derive(Debug)]
pub(crate) enum Reaction {
    /// Nothing to say: the message was taken.
    Accept,
    /// This is the response, with the HTTP status that goes with it.
    Answer { status: u16, body: Vec<u8> },
    /// There is no room for another call. This is the response, for a client that can still be
    /// told to come back later.
    Busy(Vec<u8>),
    /// Run a tool, then tell [`ServerSession::finish`].
    Call(CallRequest),
    /// Stop this call, which gets no response. It is out of the session already.
    Cancel(RequestId),
}

/// A tool to be run.
#[derive(Debug)]
pub(crate) struct CallRequest {
    pub(crate) id: RequestId,
    /// Its place in [`ServerFacts::tools`].
    pub(crate) tool: usize,
    /// An object.
    pub(crate) arguments: RawJson,
    /// Where its progress goes.
    pub(crate) token: Option<RequestId>,
    pub(crate) reply: ReplyWords,
}

/// How the response of a call is spelled.
#[derive(Debug, Clone)]
pub(crate) struct ReplyWords {
    id: RequestId,
    dialect: &'static dyn Dialect,
    version: ProtocolVersion,
}

impl ReplyWords {
    /// The response that carries a tool's result.
    pub(crate) fn result(&self, output: &ToolOutput) -> Vec<u8> {
        let mut body = Vec::new();
        let result = self.dialect.call_result(self.version, output);
        jsonrpc::encode_result(&mut body, &self.id, &result);
        body
    }

    /// The response that carries an error, and its HTTP status if none was sent yet.
    pub(crate) fn error(&self, error: &ErrorObject) -> (u16, Vec<u8>) {
        error_answer(self.dialect, Some(&self.id), error)
    }
}

fn error_answer(
    dialect: &'static dyn Dialect,
    id: Option<&RequestId>,
    error: &ErrorObject,
) -> (u16, Vec<u8>) {
    let mut body = Vec::new();
    jsonrpc::encode_error(&mut body, id, error);
    (dialect.http_status(error.code), body)
}

impl ServerSession {
    /// A session that its client's first message opens.
    pub(crate) fn new(dialect: &'static dyn Dialect) -> Self {
        Self {
            dialect,
            phase: Phase::Fresh,
            confirmed: false,
            calls: HashSet::new(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// Whether the client may be told what it did not ask for.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Whether an array is several messages here, rather than none.
    pub(crate) fn takes_batches(&self) -> bool {
        match self.phase {
            Phase::Fresh => false,
            Phase::Open(version) => self.dialect.takes_batches(version),
        }
    }

    /// Judges one message of the client.
    pub(crate) fn handle_message(&mut self, message: Message, facts: &ServerFacts) -> Reaction {
        match message {
            Message::Request(request) => self.handle_request(&request, facts),
            Message::Notification(note) => match &*note.method {
                "notifications/cancelled" => self.handle_cancel(note.params.as_ref()),
                "notifications/initialized" => {
                    self.confirmed = self.is_open();
                    Reaction::Accept
                }
                _ => Reaction::Accept,
            },
            // This server asks nothing, so no answer of a client has any effect.
            Message::Response(Response {
                id,
                outcome: Outcome::Malformed(detail),
            }) => {
                let error = ErrorObject::new(Code::INVALID_REQUEST, detail);
                let (status, body) = error_answer(self.dialect, id.as_ref(), &error);
                Reaction::Answer { status, body }
            }
            Message::Response(_) => Reaction::Accept,
        }
    }

    fn handle_request(&mut self, request: &Request, facts: &ServerFacts) -> Reaction {
        let method = self.dialect.method(&request.method);
        let answer = match (method, self.phase) {
            (None, _) => Err(unknown_method(request)),
            (Some(Method::Ping), _) => Ok("{}".to_owned()),
            (Some(Method::Initialize), Phase::Fresh) => self.open(request.params.as_ref(), facts),
            (Some(Method::Initialize), Phase::Open(_)) => Err(ErrorObject::new(
                Code::INVALID_REQUEST,
                "the session is open already",
            )),
            (Some(Method::CallTool | Method::ListTools), Phase::Fresh) => Err(ErrorObject::new(
                Code::INVALID_PARAMS,
                "the session is not open: send initialize first",
            )),
            (Some(Method::ListTools), Phase::Open(version)) => {
                self.list(version, request.params.as_ref(), facts)
            }
            (Some(Method::CallTool), Phase::Open(version)) => {
                match self.call(version, request, facts) {
                    Ok(call) => return Reaction::Call(call),
                    Err(Refused::Busy) => return Reaction::Busy(busy(&request.id)),
                    Err(Refused::Error(error)) => Err(error),
                }
            }
        };
        let (status, body) = match answer {
            Ok(result) => (200, result_answer(&request.id, &result)),
            Err(error) => error_answer(self.dialect, Some(&request.id), &error),
        };
        Reaction::Answer { status, body }
    }

    fn open(
        &mut self,
        params: Option<&RawJson>,
        facts: &ServerFacts,
    ) -> Result<String, ErrorObject> {
        let (version, result) = self.dialect.open(params, &facts.words)?;
        self.phase = Phase::Open(version);
        Ok(result)
    }

    fn list(
        &self,
        version: ProtocolVersion,
        params: Option<&RawJson>,
        facts: &ServerFacts,
    ) -> Result<String, ErrorObject> {
        #[derive(serde::Deserialize)]
        struct ListParams {
            #[serde(default)]
            cursor: Option<String>,
        }
        let params: ListParams = jsonrpc::parse_params(params)?;
        // A cursor names the tool that its page begins with: it holds while tools come and go, and
        // means nothing once that one is gone.
        let begins = |cursor: String| facts.tools.iter().position(|tool| tool.name() == cursor);
        let start = match params.cursor {
            None => 0,
            Some(cursor) => begins(cursor)
                .ok_or_else(|| ErrorObject::new(Code::INVALID_PARAMS, "unknown cursor"))?,
        };
        let mut rest = facts.tools.iter().skip(start);
        let mut tools = String::new();
        for tool in rest.by_ref().take(facts.tools_per_page.max(1)) {
            if !tools.is_empty() {
                tools.push(',');
            }
            self.dialect.write_tool(version, tool, &mut tools);
        }
        Ok(self
            .dialect
            .list_result(&tools, rest.next().map(Tool::name)))
    }

    fn call(
        &mut self,
        version: ProtocolVersion,
        request: &Request,
        facts: &ServerFacts,
    ) -> Result<CallRequest, Refused> {
        let refused = |code, text: String| Refused::Error(ErrorObject::new(code, text));
        let invalid = |text: String| refused(Code::INVALID_PARAMS, text);
        let Some(params) = &request.params else {
            return Err(invalid("`params` is missing; it names the tool".to_owned()));
        };
        if !params.is_object() {
            return Err(invalid("`params` is not an object".to_owned()));
        }
        let parsed: CallParams<'_> = params
            .deserialize()
            .map_err(|e| invalid(format!("invalid params: {e}")))?;
        let arguments = parsed
            .arguments
            .map_or(RawJson::from_static("{}"), |raw| params.part(raw));
        if !arguments.is_object() {
            return Err(invalid("`arguments` is not an object".to_owned()));
        }
        let Some(tool) = facts
            .tools
            .iter()
            .position(|tool| tool.name() == parsed.name)
        else {
            let name: String = parsed.name.chars().take(200).collect();
            return Err(invalid(format!("unknown tool: {name}")));
        };
        if self.calls.contains(&request.id) {
            let text = format!("a request with the id {} is in flight already", request.id);
            return Err(refused(Code::INVALID_REQUEST, text));
        }
        if self.calls.len() >= facts.limits.max_session_calls {
            return Err(Refused::Busy);
        }
        let token = parsed.meta.map(|meta| params.part(meta)).and_then(|meta| {
            meta.object::<RequestMeta<'_>>()
                .ok()?
                .progress_token
                .and_then(read_token)
        });
        self.calls.insert(request.id.clone());
        let reply = ReplyWords {
            id: request.id.clone(),
            dialect: self.dialect,
            version,
        };
        Ok(CallRequest {
            id: request.id.clone(),
            tool,
            arguments,
            token,
            reply,
        })
    }

    /// Only a call in flight with the very id is stopped; all else is ignored, as the
    /// cancellation page of the specification wants.
    fn handle_cancel(&mut self, params: Option<&RawJson>) -> Reaction {
        match jsonrpc::parse_params::<CancelledParams>(params) {
            Ok(cancelled) if self.calls.remove(&cancelled.request_id) => {
                Reaction::Cancel(cancelled.request_id)
            }
            _ => Reaction::Accept,
        }
    }

    /// A call has ended.
    pub(crate) fn finish(&mut self, id: &RequestId) {
        self.calls.remove(id);
    }
}

/// Why a call does not begin.
enum Refused {
    Busy,
    Error(ErrorObject),
}

/// The response of a server that has no room for another call.
pub(crate) fn busy(id: &RequestId) -> Vec<u8> {
    let mut body = Vec::new();
    let error = ErrorObject::new(Code::INTERNAL, "server busy");
    jsonrpc::encode_error(&mut body, Some(id), &error);
    body
}

/// Tells a client that the tools have changed.
pub(crate) fn list_changed() -> Vec<u8> {
    jsonrpc::encode_notification("notifications/tools/list_changed", None::<&()>).into()
}

fn unknown_method(request: &Request) -> ErrorObject {
    let name: String = request.method.chars().take(200).collect();
    ErrorObject::new(Code::METHOD_NOT_FOUND, format!("method not found: {name}"))
}

fn result_answer(id: &RequestId, result: &str) -> Vec<u8> {
    let mut body = Vec::new();
    jsonrpc::encode_result(&mut body, id, result);
    body
}

#[cfg(test)]
mod tests;
