//! A server's side of one session: what each message of the client asks for.
//!
//! Owns which calls are in flight and what every message is answered with; must not know how a
//! tool runs or what carries the answer.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, json};

use super::progress::read_token;
use crate::limits::Limits;
use crate::mcp::classify::Stated;
use crate::mcp::era::{Dialect, Method, ServerWords, Stage, SubscriptionWords};
use crate::mcp::param;
use crate::mcp::tool::Tool;
use crate::mcp::types::{CallParams, CancelledParams, RequestMeta, ToolOutput};
use crate::mcp::version::ProtocolVersion;
use crate::wire::jsonrpc::{
    self, Code, ErrorObject, Message, Object, Outcome, RawJson, Request, RequestId, Response,
};

/// What all sessions of a server share.
#[derive(Debug, Clone)]
pub(crate) struct ServerFacts {
    pub(crate) words: Arc<ServerWords>,
    /// In the order they were added; names are unique.
    pub(crate) tools: Vec<Tool>,
    /// How many of them a page of the list holds.
    pub(crate) tools_per_page: usize,
    pub(crate) limits: Limits,
}

/// One client's session; also what is in flight of requests that stand for themselves.
#[derive(Debug)]
pub(crate) struct ServerSession {
    dialect: &'static dyn Dialect,
    phase: Phase,
    /// The client has said that it knows the session to be open.
    confirmed: bool,
    calls: HashSet<RequestId>,
    subscriptions: HashSet<RequestId>,
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
    /// Stop this call or subscription, which gets no response. It is out of the session already.
    Cancel(RequestId),
    /// Tell of changes, then tell [`ServerSession::finish`].
    Listen(ListenRequest),
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

/// A subscription to be served.
#[derive(Debug)]
pub(crate) struct ListenRequest {
    pub(crate) id: RequestId,
    pub(crate) words: SubscriptionWords,
}

/// How the response of a call is spelled.
#[derive(Debug, Clone)]
pub(crate) struct ReplyWords {
    id: RequestId,
    terms: Terms,
    server: Arc<ServerWords>,
}

/// The rules that a request is judged by.
#[derive(Debug, Clone, Copy)]
struct Terms {
    dialect: &'static dyn Dialect,
    version: ProtocolVersion,
}

impl ReplyWords {
    /// The response that carries a tool's result.
    pub(crate) fn result(&self, output: ToolOutput) -> Vec<u8> {
        let mut body = Vec::new();
        let Terms { dialect, version } = self.terms;
        let result = dialect.call_result(version, output, &self.server);
        jsonrpc::encode_result(&mut body, &self.id, &result);
        body
    }

    /// The response that carries an error, and its HTTP status if none was sent yet.
    pub(crate) fn error(&self, error: &ErrorObject) -> (u16, Vec<u8>) {
        error_answer(self.terms.dialect, Some(&self.id), error, Stage::Work)
    }
}

fn error_answer(
    dialect: &'static dyn Dialect,
    id: Option<&RequestId>,
    error: &ErrorObject,
    stage: Stage,
) -> (u16, Vec<u8>) {
    let mut body = Vec::new();
    jsonrpc::encode_error(&mut body, id, error);
    (dialect.http_status(error.code, stage), body)
}

impl ServerSession {
    /// A session that its client's first message opens.
    pub(crate) fn new(dialect: &'static dyn Dialect) -> Self {
        Self {
            dialect,
            phase: Phase::Fresh,
            confirmed: false,
            calls: HashSet::new(),
            subscriptions: HashSet::new(),
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

    /// Whether a stream may end before its answer, and begins with an event that says so.
    pub(crate) fn primes_streams(&self) -> bool {
        match self.phase {
            Phase::Fresh => false,
            Phase::Open(version) => self.dialect.primes_streams(version),
        }
    }

    /// Judges one message of the client. `stated` is what a request says of itself; it is judged
    /// by that alone, and leaves the session as it is.
    pub(crate) fn handle_message(
        &mut self,
        message: Message,
        stated: Option<&Stated>,
        facts: &ServerFacts,
    ) -> Reaction {
        match message {
            Message::Request(request) => self.handle_request(&request, stated, facts),
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
                let (status, body) = error_answer(self.dialect, id.as_ref(), &error, Stage::Check);
                Reaction::Answer { status, body }
            }
            Message::Response(_) => Reaction::Accept,
        }
    }

    fn handle_request(
        &mut self,
        request: &Request,
        stated: Option<&Stated>,
        facts: &ServerFacts,
    ) -> Reaction {
        let (dialect, phase) = match stated {
            Some(stated) => (stated.dialect, Phase::Open(stated.version)),
            None => (self.dialect, self.phase),
        };
        let params = request.params.as_ref();
        let check = |code, text: &'static str| Refused::Check(ErrorObject::new(code, text));
        let answer = match (dialect.method(&request.method), phase) {
            (None, _) => Err(Refused::Check(unknown_method(request))),
            _ if params.is_some_and(|params| !params.is_object()) => {
                Err(check(Code::INVALID_PARAMS, "`params` is not an object"))
            }
            (Some(Method::Ping), _) => Ok("{}".to_owned()),
            (Some(Method::Discover), _) => self.open(dialect, params, facts),
            (Some(Method::Initialize), Phase::Fresh) => self.open(dialect, params, facts),
            (Some(Method::Initialize), Phase::Open(_)) => {
                Err(check(Code::INVALID_REQUEST, "the session is open already"))
            }
            (Some(Method::CallTool | Method::ListTools | Method::Listen), Phase::Fresh) => {
                Err(check(
                    Code::INVALID_PARAMS,
                    "the session is not open: send initialize first, or say in _meta which \
                     protocol version the request follows",
                ))
            }
            (Some(Method::Listen), Phase::Open(_)) => match self.listen(dialect, request, facts) {
                Ok(listen) => return Reaction::Listen(listen),
                Err(refused) => Err(refused),
            },
            (Some(Method::ListTools), Phase::Open(version)) => {
                Self::list(Terms { dialect, version }, params, facts)
            }
            (Some(Method::CallTool), Phase::Open(version)) => {
                match self.call(Terms { dialect, version }, request, stated, facts) {
                    Ok(call) => return Reaction::Call(call),
                    Err(refused) => Err(refused),
                }
            }
        };
        let (error, stage) = match answer {
            Ok(result) => {
                let body = result_answer(&request.id, &result);
                return Reaction::Answer { status: 200, body };
            }
            Err(Refused::Busy) => {
                return Reaction::Busy(busy(&request.id, "max_session_calls"));
            }
            Err(Refused::Check(error)) => (error, Stage::Check),
            Err(Refused::Work(error)) => (error, Stage::Work),
        };
        let (status, body) = error_answer(dialect, Some(&request.id), &error, stage);
        Reaction::Answer { status, body }
    }

    fn open(
        &mut self,
        dialect: &'static dyn Dialect,
        params: Option<&RawJson>,
        facts: &ServerFacts,
    ) -> Result<String, Refused> {
        let (version, result) = dialect.open(params, &facts.words).map_err(Refused::Check)?;
        if let Some(version) = version {
            self.phase = Phase::Open(version);
        }
        Ok(result)
    }

    fn list(
        terms: Terms,
        params: Option<&RawJson>,
        facts: &ServerFacts,
    ) -> Result<String, Refused> {
        struct ListParams(Option<String>);
        impl<'a> Object<'a> for ListParams {
            fn read(json: &'a str) -> serde_json::Result<Self> {
                let [cursor] = jsonrpc::given(json, ["cursor"])?;
                let cursor = cursor.map(|raw| jsonrpc::value(raw, "cursor"));
                cursor.transpose().map(Self)
            }
        }
        let ListParams(cursor) = jsonrpc::parse_params(params).map_err(Refused::Check)?;
        // A cursor names the tool that its page begins with: it holds while tools come and go, and
        // means nothing once that one is gone.
        let begins = |cursor: String| facts.tools.iter().position(|tool| tool.name() == cursor);
        let start = match cursor {
            None => 0,
            Some(cursor) => begins(cursor).ok_or_else(|| {
                Refused::Work(ErrorObject::new(Code::INVALID_PARAMS, "unknown cursor"))
            })?,
        };
        let mut rest = facts.tools.iter().skip(start);
        let mut tools = String::new();
        for tool in rest.by_ref().take(facts.tools_per_page.max(1)) {
            if !tools.is_empty() {
                tools.push(',');
            }
            terms.dialect.write_tool(terms.version, tool, &mut tools);
        }
        let next = rest.next().map(Tool::name);
        Ok(terms.dialect.list_result(&tools, next, &facts.words))
    }

    fn call(
        &mut self,
        terms: Terms,
        request: &Request,
        stated: Option<&Stated>,
        facts: &ServerFacts,
    ) -> Result<CallRequest, Refused> {
        let refused = |code, text: String| Refused::Check(ErrorObject::new(code, text));
        let invalid = |text: String| refused(Code::INVALID_PARAMS, text);
        let Some(params) = &request.params else {
            return Err(invalid("`params` is missing; it names the tool".to_owned()));
        };
        let parsed: CallParams<'_> = params
            .object()
            .map_err(|e| invalid(format!("invalid params: {e}")))?;
        let arguments = parsed
            .arguments
            .map_or(RawJson::from_static("{}"), |raw| params.part(raw));
        if !arguments.is_object() {
            return Err(invalid("`arguments` is not an object".to_owned()));
        }
        let mut tools = facts.tools.iter().enumerate();
        let Some((place, tool)) = tools.find(|(_, tool)| tool.name() == parsed.name) else {
            let name: String = parsed.name.chars().take(200).collect();
            let text = format!("unknown tool: {name}");
            return Err(Refused::Work(ErrorObject::new(Code::INVALID_PARAMS, text)));
        };
        if let Some(stated) = stated {
            suits(tool, &arguments, stated).map_err(Refused::Check)?;
        }
        self.check_free(&request.id)?;
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
            terms,
            server: facts.words.clone(),
        };
        Ok(CallRequest {
            id: request.id.clone(),
            tool: place,
            arguments,
            token,
            reply,
        })
    }

    fn listen(
        &mut self,
        dialect: &'static dyn Dialect,
        request: &Request,
        facts: &ServerFacts,
    ) -> Result<ListenRequest, Refused> {
        let words = dialect
            .subscription(&request.id, request.params.as_ref(), &facts.words)
            .map_err(Refused::Check)?
            .ok_or_else(|| Refused::Check(unknown_method(request)))?;
        self.check_free(&request.id)?;
        // What is over at once is never in flight.
        if words.changed.is_some() {
            if self.subscriptions.len() >= facts.limits.max_session_calls {
                return Err(Refused::Busy);
            }
            self.subscriptions.insert(request.id.clone());
        }
        let id = request.id.clone();
        Ok(ListenRequest { id, words })
    }

    fn check_free(&self, id: &RequestId) -> Result<(), Refused> {
        if !self.calls.contains(id) && !self.subscriptions.contains(id) {
            return Ok(());
        }
        let text = format!("a request with the id {id} is in flight already");
        let error = ErrorObject::new(Code::INVALID_REQUEST, text);
        Err(Refused::Check(error))
    }

    /// Only a call in flight with the very id is stopped; all else is ignored, as the
    /// cancellation page of the specification wants.
    fn handle_cancel(&mut self, params: Option<&RawJson>) -> Reaction {
        match jsonrpc::parse_params::<CancelledParams>(params) {
            Ok(cancelled) if self.finish(&cancelled.request_id) => {
                Reaction::Cancel(cancelled.request_id)
            }
            _ => Reaction::Accept,
        }
    }

    /// A call or a subscription has ended. False if there was none of that id.
    pub(crate) fn finish(&mut self, id: &RequestId) -> bool {
        self.calls.remove(id) || self.subscriptions.remove(id)
    }
}

/// Whether a request that says so much of itself may call this tool.
fn suits(tool: &Tool, arguments: &RawJson, stated: &Stated) -> Result<(), ErrorObject> {
    if let Some(sent) = &stated.params {
        param::check(tool.param_headers(), arguments, sent)
            .map_err(|text| ErrorObject::new(Code::HEADER_MISMATCH, text))?;
    }
    let needed = tool.capabilities();
    let Some(missing) = stated.lacks(needed) else {
        return Ok(());
    };
    // Collecting would sort first, which is a lot of code for a few words.
    let mut named = Map::new();
    for capability in needed {
        named.insert(capability.clone(), json!({}));
    }
    let text = format!("the tool needs a client with the capability `{missing}`");
    Err(ErrorObject {
        data: RawJson::serialized(&json!({ "requiredCapabilities": named })).ok(),
        ..ErrorObject::new(Code::MISSING_CAPABILITY, text)
    })
}

/// Why a request is not done.
enum Refused {
    Busy,
    /// The request is not in order.
    Check(ErrorObject),
    /// What it asks for cannot be had.
    Work(ErrorObject),
}

/// The response of a server that has no room; `limit` says of what.
pub(crate) fn busy(id: &RequestId, limit: &'static str) -> Vec<u8> {
    let mut body = Vec::new();
    let error = ErrorObject {
        data: RawJson::serialized(&json!({ "limit": limit })).ok(),
        ..ErrorObject::new(Code::INTERNAL, "server busy")
    };
    jsonrpc::encode_error(&mut body, Some(id), &error);
    body
}

/// Why a server that ends does not finish a call, or begin one.
pub(crate) fn shutting_down() -> ErrorObject {
    ErrorObject::new(Code::INTERNAL, "the server is shutting down")
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
