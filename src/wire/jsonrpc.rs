//! JSON-RPC 2.0 messages: bytes to values and back.
//!
//! Owns the shape of a message; must not know any method. A message is decoded flat, by which
//! members are present, and everything below that level stays raw JSON: a slice of the bytes it
//! came in. The rules are those of <https://www.jsonrpc.org/specification>.

use std::borrow::Cow;

use bytes::Bytes;
use bytestring::ByteString;
use memchr::memchr2;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

mod batch;
mod elements;
mod id;
mod integer;
mod members;

pub(crate) use elements::{elements, strings};
pub(crate) use id::RequestId;
pub(crate) use integer::integer;
pub(crate) use members::{Object, given, members, misfit, required, required_text, text, value};

/// One JSON-RPC message.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    Notification(Notification),
    Request(Request),
    Response(Response),
}

impl Message {
    /// Lets a request's id go from the bytes it came in: it is kept for as long as its call runs,
    /// which the rest of a large request need not be.
    pub(crate) fn with_own_id(self) -> Self {
        match self {
            Self::Request(request) => Self::Request(Request {
                id: request.id.into_owned(),
                ..request
            }),
            other => other,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Notification {
    pub(crate) method: ByteString,
    pub(crate) params: Option<RawJson>,
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) method: ByteString,
    pub(crate) params: Option<RawJson>,
}

#[derive(Debug, Clone)]
pub(crate) struct Response {
    /// `None` for null, a missing id, and an id of a type that no request of ours has.
    pub(crate) id: Option<RequestId>,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Error(ErrorObject),
    /// Neither a result nor an error that can be read; the text says what is wrong.
    Malformed(&'static str),
    Result(RawJson),
}

/// What one body or line holds.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// An array of messages, each judged for itself. Never empty.
    Batch(Vec<Result<Message, Invalid>>),
    One(Message),
}

/// Why bytes are no message.
#[derive(Debug, Clone)]
pub(crate) struct Invalid {
    pub(crate) code: Code,
    /// The request's id, if it could be read.
    pub(crate) id: Option<RequestId>,
    pub(crate) detail: Cow<'static, str>,
}

impl Invalid {
    fn request(id: Option<RequestId>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: Code::INVALID_REQUEST,
            id,
            detail: detail.into(),
        }
    }
}

/// A JSON value as it stands on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawJson(ByteString);

impl RawJson {
    /// The caller vouches that `json` is one JSON value.
    pub(crate) const fn from_static(json: &'static str) -> Self {
        Self(ByteString::from_static(json))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_shared(self) -> ByteString {
        self.0
    }

    pub(crate) fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    pub(crate) fn is_null(&self) -> bool {
        *self.0 == *"null"
    }

    pub(crate) fn deserialize<'a, T: Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }

    /// Reads an object of the protocol.
    pub(crate) fn object<'a, T: Object<'a>>(&'a self) -> serde_json::Result<T> {
        T::read(&self.0)
    }

    /// A part of this value, as found by parsing it with borrowed raw values.
    pub(crate) fn part(&self, part: &RawValue) -> Self {
        Self(self.0.slice_ref(part.get()))
    }

    /// As [`part`](Self::part), for a text within the value.
    pub(crate) fn slice(&self, part: &str) -> ByteString {
        self.0.slice_ref(part)
    }

    /// A value as JSON on one line. What is raw in it may have line breaks, which can only stand
    /// between tokens; where a message is a line, one would end it.
    pub(crate) fn serialized(value: &impl Serialize) -> serde_json::Result<Self> {
        let mut text = serde_json::to_string(value)?;
        if memchr2(b'\n', b'\r', text.as_bytes()).is_some() {
            text.retain(|c| !matches!(c, '\n' | '\r'));
        }
        Ok(Self(text.into()))
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// A JSON-RPC error code. Unknown ones survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i64);

impl Code {
    pub(crate) const PARSE: Self = Self(-32700);
    pub(crate) const INVALID_REQUEST: Self = Self(-32600);
    pub(crate) const METHOD_NOT_FOUND: Self = Self(-32601);
    pub(crate) const INVALID_PARAMS: Self = Self(-32602);
    pub(crate) const INTERNAL: Self = Self(-32603);
    /// What stands in HTTP headers is not what stands in the body.
    pub(crate) const HEADER_MISMATCH: Self = Self(-32020);
    /// The request cannot be served to a client without some capability.
    pub(crate) const MISSING_CAPABILITY: Self = Self(-32021);
    pub(crate) const UNSUPPORTED_VERSION: Self = Self(-32022);
    /// What some peers answer for a call that was cancelled.
    pub(crate) const CANCELLED: Self = Self(-32800);
}

/// The `error` member of a response.
#[derive(Debug, Clone)]
pub(crate) struct ErrorObject {
    pub(crate) code: Code,
    pub(crate) message: Cow<'static, str>,
    pub(crate) data: Option<RawJson>,
}

impl ErrorObject {
    pub(crate) fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }
}

impl Serialize for ErrorObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 2 + usize::from(self.data.is_some());
        let mut object = serializer.serialize_struct("Error", fields)?;
        object.serialize_field("code", &self.code.0)?;
        object.serialize_field("message", &self.message)?;
        if let Some(data) = &self.data {
            object.serialize_field("data", data)?;
        }
        object.end()
    }
}

/// The members of a message, raw. A member that is null counts as present.
struct Members<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'a> Object<'a> for Members<'a> {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let names = ["jsonrpc", "id", "method", "params", "result", "error"];
        let [jsonrpc, id, method, params, result, error] = members(json, names)?;
        Ok(Self {
            jsonrpc,
            id,
            method,
            params,
            result,
            error,
        })
    }
}

fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// Decodes one body or line.
///
/// `max_depth` bounds the nesting everywhere in it, raw values included.
pub(crate) fn decode(bytes: &Bytes, max_depth: usize) -> Result<Incoming, Invalid> {
    let parse_error = |detail: Cow<'static, str>| Invalid {
        code: Code::PARSE,
        id: None,
        detail,
    };
    let text = ByteString::try_from(bytes.clone())
        .map_err(|_| parse_error("the message is not UTF-8".into()))?;
    if !depth_within(text.as_bytes(), max_depth) {
        return Err(parse_error(
            format!("JSON nested deeper than {max_depth}, the `max_json_depth`").into(),
        ));
    }
    if !text.trim_start().starts_with('[') {
        return decode_one(&text).map(Incoming::One);
    }
    Ok(Incoming::Batch(
        batch::members(&text)?
            .into_iter()
            .map(|m| decode_one(&text.slice_ref(m.get())))
            .collect(),
    ))
}

fn decode_one(text: &ByteString) -> Result<Message, Invalid> {
    let members = Members::read(text).map_err(|e| {
        let code = if e.is_data() {
            Code::INVALID_REQUEST
        } else {
            Code::PARSE
        };
        Invalid {
            code,
            id: None,
            detail: format!("the message is not valid JSON-RPC: {e}").into(),
        }
    })?;
    let slice = |raw: &RawValue| text.slice_ref(raw.get());
    let Some(method) = members.method else {
        return decode_response(&members, slice);
    };
    let id = members
        .id
        .map(|raw| RequestId::parse(&slice(raw)))
        .transpose();
    let known_id = id.as_ref().ok().cloned().flatten();
    let Ok(method) = string(&slice(method)) else {
        return Err(Invalid::request(known_id, "`method` is not a string"));
    };
    if members.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return Err(Invalid::request(known_id, "`jsonrpc` is not \"2.0\""));
    }
    if members.result.is_some() || members.error.is_some() {
        return Err(Invalid::request(
            known_id,
            "a request with a `result` or an `error`",
        ));
    }
    let params = members
        .params
        .filter(|raw| !is_null(raw))
        .map(|raw| RawJson(slice(raw)));
    match id.map_err(|detail| Invalid::request(None, detail))? {
        Some(id) => Ok(Message::Request(Request { id, method, params })),
        None => Ok(Message::Notification(Notification { method, params })),
    }
}

fn decode_response(
    members: &Members<'_>,
    slice: impl Fn(&RawValue) -> ByteString,
) -> Result<Message, Invalid> {
    if members.id.is_none() && members.result.is_none() && members.error.is_none() {
        return Err(Invalid::request(
            None,
            "neither `method` nor `result` nor `error`",
        ));
    }
    let id = members
        .id
        .and_then(|raw| RequestId::parse_answered(&slice(raw)));
    let outcome = match (members.result, members.error.filter(|raw| !is_null(raw))) {
        _ if members.jsonrpc.map(RawValue::get) != Some("\"2.0\"") => {
            Outcome::Malformed("`jsonrpc` is not \"2.0\"")
        }
        (Some(result), Some(_)) if !is_null(result) => {
            Outcome::Malformed("both a `result` and an `error`")
        }
        (_, Some(error)) => decode_error(error, slice),
        (Some(result), None) => Outcome::Result(RawJson(slice(result))),
        (None, None) => Outcome::Malformed("neither a `result` nor an `error`"),
    };
    Ok(Message::Response(Response { id, outcome }))
}

fn decode_error(raw: &RawValue, slice: impl Fn(&RawValue) -> ByteString) -> Outcome {
    let Ok([code, message, data]) = given(raw.get(), ["code", "message", "data"]) else {
        return Outcome::Malformed("an `error` that is no object");
    };
    let Some(code) = code.and_then(|raw| safe_integer(raw.get())) else {
        return Outcome::Malformed("an `error` without an integer `code`");
    };
    // Whatever stands where the text should be is shown rather than lost.
    let message = message.map_or(Cow::Borrowed(""), |raw| {
        Cow::Owned(serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned()))
    });
    let data = data.map(|raw| RawJson(slice(raw)));
    Outcome::Error(ErrorObject {
        code: Code(code),
        message,
        data,
    })
}

/// What a JSON string says: a slice of it, unless an escape stands in it.
fn string(json: &ByteString) -> serde_json::Result<ByteString> {
    text(json).map(|text| match text {
        Cow::Borrowed(text) => json.slice_ref(text),
        Cow::Owned(text) => text.into(),
    })
}

/// An integer that may be written as a fraction, if no peer that counts in doubles misreads it then.
fn safe_integer(json: &str) -> Option<i64> {
    const MAX: u64 = 9_000_000_000_000_000;
    let is_safe = |number: &i64| number.unsigned_abs() < MAX;
    json.parse().ok().or_else(|| integer(json).filter(is_safe))
}

/// Whether brackets outside strings nest at most `max` deep.
pub(crate) fn depth_within(json: &[u8], max: usize) -> bool {
    let (mut depth, mut quoted) = (0usize, false);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => {
                bytes.next();
            }
            b'{' | b'[' if !quoted => {
                depth += 1;
                if depth > max {
                    return false;
                }
            }
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}

/// `params` of a type of ours; absent reads as an empty object.
pub(crate) fn parse_params<'a, T: Object<'a>>(
    params: Option<&'a RawJson>,
) -> Result<T, ErrorObject> {
    let parsed = match params {
        Some(raw) if raw.is_object() => raw.object(),
        Some(_) => {
            return Err(ErrorObject::new(
                Code::INVALID_PARAMS,
                "`params` is not an object",
            ));
        }
        None => T::read("{}"),
    };
    parsed.map_err(|e| ErrorObject::new(Code::INVALID_PARAMS, format!("invalid params: {e}")))
}

/// A request as bytes.
pub(crate) fn encode_request(id: &RequestId, method: &str, params: &impl Serialize) -> Bytes {
    let mut out = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"").into_bytes();
    push_member(&mut out, "params", params);
    out.push(b'}');
    out.into()
}

/// As [`encode_request`], for params that are JSON already.
pub(crate) fn encode_raw_request(id: &RequestId, method: &str, params: &str) -> Bytes {
    let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":");
    let mut out = Vec::with_capacity(head.len() + params.len() + 1);
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(params.as_bytes());
    out.push(b'}');
    out.into()
}

/// A notification as bytes; without `params` if there are none.
pub(crate) fn encode_notification(method: &str, params: Option<&impl Serialize>) -> Bytes {
    let mut out = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"").into_bytes();
    if let Some(params) = params {
        push_member(&mut out, "params", params);
    }
    out.push(b'}');
    out.into()
}

/// Appends the response that carries `result`, which is JSON already.
pub(crate) fn encode_result(out: &mut Vec<u8>, id: &RequestId, result: &str) {
    out.extend_from_slice(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":").as_bytes());
    out.extend_from_slice(result.as_bytes());
    out.push(b'}');
}

/// Appends the response that carries `error`; an id that could not be read is null.
pub(crate) fn encode_error(out: &mut Vec<u8>, id: Option<&RequestId>, error: &ErrorObject) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    match id {
        Some(id) => out.extend_from_slice(id.to_string().as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
    push_member(out, "error", error);
    out.push(b'}');
}

/// Appends `,"name":value`; a value that cannot be written (a map with keys that are no strings)
/// becomes an empty object, so that the message stays valid. Callers check what users hand in.
fn push_member(out: &mut Vec<u8>, name: &str, value: &impl Serialize) {
    out.extend_from_slice(format!(",\"{name}\":").as_bytes());
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"{}");
    }
}

#[cfg(test)]
mod tests;
