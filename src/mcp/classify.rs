//! Which rules an HTTP request falls under, judged once at the edge.
//!
//! Owns the order of the questions; must not know how any answer is made.

use super::era::{Dialect, dialect};
use super::frame::{Head, SessionId};
use super::version::ProtocolVersion;
use crate::wire::jsonrpc::{Code, ErrorObject, Incoming, Message, RequestId};

/// Where a message goes.
#[derive(Debug)]
pub(crate) enum Route {
    /// It belongs to no session: it opens one, or needs none.
    Open(&'static dyn Dialect),
    /// It belongs to the session named in its head.
    Session(SessionId),
}

/// A message that goes nowhere.
#[derive(Debug)]
pub(crate) struct Rejection {
    pub(crate) status: u16,
    pub(crate) id: Option<RequestId>,
    pub(crate) error: ErrorObject,
}

/// Judges one POST.
pub(crate) fn classify(head: &Head, incoming: &Incoming) -> Result<Route, Box<Rejection>> {
    let request = match incoming {
        Incoming::One(Message::Request(request)) => Some(request),
        _ => None,
    };
    let reject = |code, message: String| {
        Box::new(Rejection {
            status: 400,
            id: request.map(|request| request.id.clone()),
            error: ErrorObject::new(code, message),
        })
    };
    let legacy = dialect(ProtocolVersion::NEWEST_LEGACY);
    let opens = request.is_some_and(|request| *request.method == *"initialize");
    if opens && head.session_id.is_none() {
        return Ok(Route::Open(legacy));
    }
    if let Some(text) = unsupported(head) {
        return Err(reject(Code::INVALID_PARAMS, text));
    }
    if let Some(id) = &head.session_id {
        return Ok(Route::Session(id.clone()));
    }
    if request.is_some_and(|request| *request.method == *"ping") {
        return Ok(Route::Open(legacy));
    }
    Err(reject(Code::INVALID_REQUEST, MISSING_SESSION.to_owned()))
}

const MISSING_SESSION: &str =
    "missing session: send initialize first, then its Mcp-Session-Id with every request";

/// Judges one GET: the session whose stream it asks for.
pub(crate) fn classify_stream(head: &Head) -> Result<&SessionId, Box<Rejection>> {
    let (code, text) = match (unsupported(head), &head.session_id) {
        (None, Some(id)) => return Ok(id),
        (Some(text), _) => (Code::INVALID_PARAMS, text),
        (None, None) => (Code::INVALID_REQUEST, MISSING_SESSION.to_owned()),
    };
    Err(Box::new(Rejection {
        status: 400,
        id: None,
        error: ErrorObject::new(code, text),
    }))
}

/// What to say of a version that nobody here speaks.
fn unsupported(head: &Head) -> Option<String> {
    let version = head.version.as_ref()?;
    if ProtocolVersion::parse(version).is_some() {
        return None;
    }
    let text: String = version.chars().take(40).collect();
    Some(format!(
        "unsupported MCP-Protocol-Version {text:?}; supported: {}",
        ProtocolVersion::ALL.map(ProtocolVersion::as_str).join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::jsonrpc;

    #[test]
    fn each_post_goes_where_its_message_and_head_say() {
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
        let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}"#;
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let table = [
            // body, version, session, expected
            (initialize, None, None, "open"),
            (initialize, Some("2025-11-25"), None, "open"),
            (initialize, Some("2026-07-28"), None, "open"),
            (initialize, None, Some("a"), "session a"),
            (ping, None, None, "open"),
            (ping, None, Some("a"), "session a"),
            (call, Some("2025-11-25"), Some("a"), "session a"),
            (call, Some("2024-11-05"), Some("a"), "session a"),
            (call, Some("1999-01-01"), Some("a"), "400 -32602 Some(2)"),
            (call, None, None, "400 -32600 Some(2)"),
            (note, None, None, "400 -32600 None"),
            ("[1]", None, None, "400 -32600 None"),
        ];
        for (body, version, session, expected) in table {
            let head = Head {
                version: version.map(str::to_owned),
                session_id: session.and_then(SessionId::parse),
                ..Head::default()
            };
            let incoming = jsonrpc::decode(&Bytes::from(body), 128).unwrap();
            let seen = match classify(&head, &incoming) {
                Ok(Route::Open(_)) => "open".to_owned(),
                Ok(Route::Session(id)) => format!("session {}", id.as_str()),
                Err(r) => format!("{} {} {:?}", r.status, r.error.code.0, r.id),
            };
            assert_eq!(seen, expected, "{body} {version:?} {session:?}");
        }
    }
}
