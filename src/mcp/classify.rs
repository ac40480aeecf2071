//! Which rules a message falls under, judged once at the edge.
//!
//! Owns the order of the questions; must not know how any answer is made. A request that says of
//! itself what it follows is judged by that, whatever its method is and whatever came before.

use serde_json::value::RawValue;

use super::era::{Dialect, dialect};
use super::frame::{Head, SessionId};
use super::members::members;
use super::types::{StatedMeta, SubjectParams};
use super::value;
use super::version::ProtocolVersion;
use crate::wire::jsonrpc::{
    Code, ErrorObject, Incoming, Message, Object, RawJson, Request, RequestId,
};

/// Where a message goes.
#[derive(Debug)]
pub(crate) enum Route {
    /// Nothing comes of it.
    Nowhere,
    /// It belongs to no session: it opens one, or needs none.
    Open(&'static dyn Dialect),
    /// It belongs to the session named in its head.
    Session(SessionId),
    /// It stands for itself.
    Stated(Stated),
}

/// What a request says of itself. It holds for that request alone.
#[derive(Debug, Clone)]
pub(crate) struct Stated {
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) version: ProtocolVersion,
    /// What its client can do: an object.
    pub(crate) capabilities: RawJson,
    /// The arguments that came in headers; `None` where there are no headers.
    pub(crate) params: Option<Vec<(Box<str>, Box<str>)>>,
}

impl Stated {
    /// The first of these capabilities that its client does not declare.
    pub(crate) fn lacks<'n>(&self, needed: &'n [String]) -> Option<&'n str> {
        if needed.is_empty() {
            return None;
        }
        let mut needed = needed.iter().map(String::as_str);
        let declared = members(self.capabilities.as_str(), needed.clone());
        needed.find(|name| {
            let said = declared.as_ref().and_then(|declared| *declared.get(name)?);
            !said.is_some_and(|said| said.get().starts_with('{'))
        })
    }
}

/// A message that goes nowhere, and what its sender is told.
#[derive(Debug)]
pub(crate) struct Rejection {
    pub(crate) status: u16,
    pub(crate) id: Option<RequestId>,
    pub(crate) error: ErrorObject,
}

impl Rejection {
    fn new(status: u16, id: Option<&RequestId>, error: ErrorObject) -> Box<Self> {
        let id = id.cloned();
        Box::new(Self { status, id, error })
    }
}

/// Judges one POST.
pub(crate) fn classify(head: &Head, incoming: &Incoming) -> Result<Route, Box<Rejection>> {
    let request = match incoming {
        Incoming::One(Message::Request(request)) => Some(request),
        _ => None,
    };
    let reject = |code, message: String| {
        let id = request.map(|request| &request.id);
        Rejection::new(400, id, ErrorObject::new(code, message))
    };
    match incoming {
        Incoming::One(Message::Request(request)) => {
            if let Some(stated) = stated(request, Some(head))? {
                return Ok(Route::Stated(stated));
            }
        }
        Incoming::One(Message::Notification(note)) => {
            // There is nothing that one of its own could tell a server.
            if let Ok(Some(_)) = Statement::read(note.params.as_ref()) {
                return Ok(Route::Nowhere);
            }
        }
        Incoming::One(Message::Response(_)) | Incoming::Batch(_) => {}
    }
    let version = sole(head).map_err(|text| reject(Code::INVALID_REQUEST, text.to_owned()))?;
    let legacy = dialect(ProtocolVersion::NEWEST_LEGACY);
    let opens = request.is_some_and(|request| *request.method == *"initialize");
    if opens && head.session_id.is_none() {
        return Ok(Route::Open(legacy));
    }
    if let Some(version) = version {
        match (ProtocolVersion::parse(version), incoming) {
            (Some(version), _) if version.is_legacy() => {}
            (Some(_), Incoming::One(Message::Notification(_))) => return Ok(Route::Nowhere),
            (Some(_), Incoming::One(Message::Request(_))) => {
                return Err(reject(Code::INVALID_PARAMS, lacks(VERSION)));
            }
            (Some(_), _) => {
                let text = "only requests are taken in this revision";
                return Err(reject(Code::INVALID_REQUEST, text.to_owned()));
            }
            (None, _) => return Err(reject(Code::INVALID_PARAMS, unsupported(version))),
        }
    }
    if let Some(id) = &head.session_id {
        return Ok(Route::Session(id.clone()));
    }
    if request.is_some_and(|request| *request.method == *"ping") {
        return Ok(Route::Open(legacy));
    }
    Err(reject(Code::INVALID_REQUEST, MISSING_SESSION.to_owned()))
}

/// Judges one line: what a request says of itself, if it does.
pub(crate) fn classify_line(message: &Message) -> Result<Option<Stated>, Box<Rejection>> {
    match message {
        Message::Request(request) => stated(request, None),
        Message::Notification(_) | Message::Response(_) => Ok(None),
    }
}

/// The version in a head that may repeat itself, but not differ.
fn sole(head: &Head) -> Result<Option<&str>, &'static str> {
    if head.session_conflict {
        return Err("the request has different values of Mcp-Session-Id: send one");
    }
    let Some(version) = head.version.as_deref() else {
        return Ok(None);
    };
    // What came twice was joined.
    let mut values = version.split(',').map(str::trim);
    let first = values.next();
    match values.all(|value| Some(value) == first) {
        true => Ok(first),
        false => Err("the request has different values of MCP-Protocol-Version: send one"),
    }
}

/// `params` that say by which revision they are to be judged.
struct Statement<'a> {
    subject: SubjectParams<'a>,
    version: &'a RawValue,
    capabilities: Option<&'a RawValue>,
}

impl<'a> Statement<'a> {
    /// `None` if nothing is said; an error if that cannot be made out.
    fn read(params: Option<&'a RawJson>) -> serde_json::Result<Option<Self>> {
        let Some(params) = params.filter(|params| params.is_object()) else {
            return Ok(None);
        };
        let subject: SubjectParams<'a> = params.object()?;
        let meta = match subject.meta.map(RawValue::get) {
            Some(meta) if meta.starts_with('{') => StatedMeta::read(meta)?,
            _ => StatedMeta::default(),
        };
        let StatedMeta {
            version,
            capabilities,
        } = meta;
        Ok(version.map(|version| Self {
            subject,
            version,
            capabilities,
        }))
    }
}

/// What a request says of itself, checked in the order in which the transport's specification has
/// it: what is in the body, whether the head says the same, whether the revision is known.
fn stated(request: &Request, head: Option<&Head>) -> Result<Option<Stated>, Box<Rejection>> {
    let reject = |error| Err(Rejection::new(400, Some(&request.id), error));
    let invalid = |text: String| reject(ErrorObject::new(Code::INVALID_PARAMS, text));
    let params = request.params.as_ref();
    let statement = match Statement::read(params) {
        Ok(statement) => statement,
        Err(e) => return invalid(format!("invalid params: {e}")),
    };
    let (Some(statement), Some(params)) = (statement, params) else {
        return Ok(None);
    };
    let Ok(version) = serde_json::from_str::<String>(statement.version.get()) else {
        return invalid(format!("_meta: {VERSION} is not a string"));
    };
    let capabilities = match statement.capabilities {
        Some(raw) if raw.get().starts_with('{') => params.part(raw),
        Some(_) => return invalid(format!("_meta: {CAPABILITIES} is not an object")),
        None => return invalid(lacks(CAPABILITIES)),
    };
    if let Some(head) = head
        && let Err(text) = agrees(head, &version, request, &statement.subject)
    {
        return reject(ErrorObject::new(Code::HEADER_MISMATCH, text));
    }
    let known = ProtocolVersion::parse(&version).filter(|version| !version.is_legacy());
    let Some(known) = known else {
        return reject(unsupported_version(&version));
    };
    Ok(Some(Stated {
        dialect: dialect(known),
        version: known,
        capabilities,
        params: head.map(|head| head.params.clone()),
    }))
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn lacks(member: &str) -> String {
    format!("_meta lacks {member}")
}

/// Whether the head says what the body says.
fn agrees(
    head: &Head,
    version: &str,
    request: &Request,
    subject: &SubjectParams<'_>,
) -> Result<(), String> {
    let same = |header: &str, sent: Option<&str>, body: &str| match sent {
        None => Err(format!(
            "{header} is missing; the body says {}",
            quoted(body)
        )),
        Some(sent) if sent == body => Ok(()),
        Some(sent) => Err(format!(
            "{header} is {}, the body says {}",
            quoted(sent),
            quoted(body)
        )),
    };
    if head.repeated {
        return Err("Mcp-Method or Mcp-Name was sent twice".to_owned());
    }
    same("MCP-Protocol-Version", head.version.as_deref(), version)?;
    same("Mcp-Method", head.method.as_deref(), &request.method)?;
    let name = match &*request.method {
        "prompts/get" | "tools/call" => subject.name,
        "resources/read" => subject.uri,
        _ => return Ok(()),
    };
    // A name that is no string is judged with the parameters.
    let Some(name) = name.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok()) else {
        return Ok(());
    };
    let sent = head.name.as_deref().map(value::decode).transpose();
    let sent = sent.map_err(|e| format!("Mcp-Name cannot be read: {e}"))?;
    same("Mcp-Name", sent.as_deref(), &name)
}

fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 100;
    format!("{:?}", text.chars().take(MAX_CHARS).collect::<String>())
}

fn unsupported_version(requested: &str) -> ErrorObject {
    let supported: Vec<&str> = ProtocolVersion::known(false)
        .map(ProtocolVersion::as_str)
        .collect();
    let requested: String = requested.chars().take(100).collect();
    let text = format!("unsupported protocol version {requested:?}");
    let data = serde_json::json!({ "supported": supported, "requested": requested });
    ErrorObject {
        data: RawJson::serialized(&data).ok(),
        ..ErrorObject::new(Code::UNSUPPORTED_VERSION, text)
    }
}

const MISSING_SESSION: &str =
    "missing session: send initialize first, then its Mcp-Session-Id with every request";

/// Judges one GET or DELETE: the session that it is about.
pub(crate) fn classify_verb(head: &Head) -> Result<&SessionId, Box<Rejection>> {
    let reject = |status, code, text: String| {
        let error = ErrorObject::new(code, text);
        Err(Rejection::new(status, None, error))
    };
    let version = match sole(head) {
        Ok(version) => version,
        Err(text) => return reject(400, Code::INVALID_REQUEST, text.to_owned()),
    };
    if let Some(version) = version {
        match ProtocolVersion::parse(version) {
            Some(version) if version.is_legacy() => {}
            Some(_) => {
                let text = "there are no sessions in this revision: only POST is taken";
                return reject(405, Code::INVALID_REQUEST, text.to_owned());
            }
            None => return reject(400, Code::INVALID_PARAMS, unsupported(version)),
        }
    }
    match &head.session_id {
        Some(id) => Ok(id),
        None => reject(400, Code::INVALID_REQUEST, MISSING_SESSION.to_owned()),
    }
}

/// What to say of a version that nobody here speaks.
fn unsupported(version: &str) -> String {
    let text: String = version.chars().take(40).collect();
    format!(
        "unsupported MCP-Protocol-Version {text:?}; supported: {}",
        ProtocolVersion::ALL.map(ProtocolVersion::as_str).join(", ")
    )
}

#[cfg(test)]
mod tests;
