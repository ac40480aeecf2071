//! JSON-RPC messages.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use super::json;
use crate::wire::jsonrpc::{
    self, Code, ErrorObject, Incoming, Invalid, Message, Outcome, RawJson, Request, RequestId,
};

/// Bytes are the message, the batch or the fault that a slow reading by serde_json makes of them;
/// and what was encoded decodes to the same, ids as they were spelled.
///
/// The first byte picks how deep JSON may nest.
pub fn jsonrpc(input: &[u8]) {
    let [max_depth, bytes @ ..] = input else {
        return;
    };
    let max_depth = usize::from(*max_depth % 129);
    let decoded = jsonrpc::decode(&Bytes::copy_from_slice(bytes), max_depth);
    if let Some(expected) = expected(bytes, max_depth) {
        match (&decoded, expected) {
            (Err(_), Expected::Fault) => {}
            (Ok(Incoming::One(message)), Expected::One(expected)) => {
                assert_eq!(Said::of(message), expected);
            }
            // A fault within a single message leaves no message.
            (Err(invalid), Expected::One(expected)) => assert_eq!(Said::invalid(invalid), expected),
            (Ok(Incoming::Batch(members)), Expected::Batch(expected)) => {
                let member = |member: &Result<Message, Invalid>| match member {
                    Ok(message) => Said::of(message),
                    Err(invalid) => Said::invalid(invalid),
                };
                let members: Vec<Said> = members.iter().map(member).collect();
                assert_eq!(members.len(), expected.len());
                for (member, expected) in members.into_iter().zip(expected) {
                    assert_eq!(member, expected.unwrap_or_else(|| member.clone()));
                }
            }
            (decoded, expected) => panic!("{decoded:?}, where {expected:?} was expected"),
        }
    }
    match decoded {
        Ok(Incoming::One(message)) => round_trip(&message, max_depth),
        Ok(Incoming::Batch(members)) => {
            assert!((1..=1_000).contains(&members.len()));
            for message in members.iter().flatten() {
                round_trip(message, max_depth);
            }
        }
        Err(_) => {}
    }
}

/// A message in words that can be compared. Ids are as they are spelled.
#[derive(Debug, Clone, PartialEq)]
enum Said {
    Error(Option<String>, i64, String, Option<Value>),
    /// With the id, if it could be read.
    Fault(Option<String>),
    Malformed(Option<String>),
    Notification(String, Option<Value>),
    Request(String, String, Option<Value>),
    Result(Option<String>, Value),
}

impl Said {
    fn of(message: &Message) -> Self {
        let value = |json: &RawJson| json.deserialize::<Value>().unwrap();
        match message {
            Message::Notification(note) => {
                Self::Notification(note.method.to_string(), note.params.as_ref().map(value))
            }
            Message::Request(request) => Self::Request(
                request.id.to_string(),
                request.method.to_string(),
                request.params.as_ref().map(value),
            ),
            Message::Response(response) => {
                let id = response.id.as_ref().map(ToString::to_string);
                match &response.outcome {
                    Outcome::Error(error) => Self::Error(
                        id,
                        error.code.0,
                        error.message.to_string(),
                        error.data.as_ref().map(value),
                    ),
                    Outcome::Malformed(_) => Self::Malformed(id),
                    Outcome::Result(result) => Self::Result(id, value(result)),
                }
            }
        }
    }

    fn invalid(invalid: &Invalid) -> Self {
        Self::Fault(invalid.id.as_ref().map(ToString::to_string))
    }

    /// What one JSON value says; `None` where serde_json cannot tell.
    fn read(message: &str) -> Option<Self> {
        if !message.starts_with('{') {
            return Some(Self::Fault(None));
        }
        json::members(message)?;
        let Some(members) = json::unique(message, &MEMBERS) else {
            return Some(Self::Fault(None));
        };
        let member = |name: &str| members.get(name).copied();
        let speaks = member("jsonrpc") == Some("\"2.0\"");
        let Some(method) = member("method") else {
            return Self::read_response(&members, speaks);
        };
        let id = member("id").map(read_id);
        let known = id.clone().flatten();
        let Ok(method) = serde_json::from_str::<String>(method) else {
            return Some(Self::Fault(known));
        };
        let answers = member("result").is_some() || member("error").is_some();
        if !speaks || answers || id == Some(None) {
            return Some(Self::Fault(known));
        }
        let params = member("params").filter(|json| *json != "null");
        let params = params.map(|json| serde_json::from_str(json).unwrap());
        Some(match known {
            Some(id) => Self::Request(id, method, params),
            None => Self::Notification(method, params),
        })
    }

    fn read_response(members: &HashMap<String, &str>, speaks: bool) -> Option<Self> {
        let member = |name: &str| members.get(name).copied();
        let (result, error) = (member("result"), member("error"));
        if member("id").is_none() && result.is_none() && error.is_none() {
            return Some(Self::Fault(None));
        }
        let id = member("id").and_then(|json| {
            let whole = || json::whole(json).map(|number| number.to_string());
            read_id(json).or_else(whole)
        });
        let error = error.filter(|json| *json != "null");
        let value = |json: &str| serde_json::from_str::<Value>(json).unwrap();
        Some(match (result, error) {
            _ if !speaks => Self::Malformed(id),
            (Some(result), Some(_)) if result != "null" => Self::Malformed(id),
            (_, Some(error)) => {
                if !error.starts_with('{') {
                    return Some(Self::Malformed(id));
                }
                let Some(fields) = json::unique(error, &["code", "message", "data"]) else {
                    return Some(Self::Malformed(id));
                };
                let field = |name: &str| fields.get(name).copied().filter(|json| *json != "null");
                let Some(code) = field("code").and_then(json::whole) else {
                    return Some(Self::Malformed(id));
                };
                let message = field("message").unwrap_or("\"\"");
                let message = serde_json::from_str(message).unwrap_or_else(|_| message.to_owned());
                Self::Error(id, code, message, field("data").map(value))
            }
            (Some(result), None) => Self::Result(id, value(result)),
            (None, None) => Self::Malformed(id),
        })
    }
}

const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// A request's id, as it is spelled from then on.
fn read_id(json: &str) -> Option<String> {
    if json.len() > 1024 {
        return None;
    }
    match serde_json::from_str::<Value>(json).unwrap() {
        Value::String(_) => Some(json.to_owned()),
        Value::Number(number) if number.is_i64() => Some(number.to_string()),
        // A float to serde_json, but spelled as an integer.
        Value::Number(_) if json == "-0" => Some("0".to_owned()),
        _ => None,
    }
}

#[derive(Debug)]
enum Expected {
    /// Each member that can be told.
    Batch(Vec<Option<Said>>),
    Fault,
    One(Said),
}

/// `None` where serde_json cannot tell.
fn expected(bytes: &[u8], max_depth: usize) -> Option<Expected> {
    let Some(message) = std::str::from_utf8(bytes).ok().and_then(json::json) else {
        return Some(Expected::Fault);
    };
    if json::depth(message) > max_depth {
        return Some(Expected::Fault);
    }
    if serde_json::from_str::<Value>(message).is_err() {
        return None;
    }
    if !message.starts_with('[') {
        return Said::read(message).map(Expected::One);
    }
    let members: Vec<&RawValue> = serde_json::from_str(message).unwrap();
    if !(1..=1_000).contains(&members.len()) {
        return Some(Expected::Fault);
    }
    let members = members.iter().map(|member| Said::read(member.get()));
    Some(Expected::Batch(members.collect()))
}

fn round_trip(message: &Message, max_depth: usize) {
    let mut bytes = Vec::new();
    match message {
        Message::Notification(note) => {
            let method = "notifications/progress";
            bytes.extend(jsonrpc::encode_notification(method, note.params.as_ref()));
        }
        Message::Request(Request { id, params, .. }) => {
            let params = params.as_ref().map_or("{}", RawJson::as_str);
            bytes.extend(jsonrpc::encode_raw_request(id, "tools/call", params));
        }
        Message::Response(response) => match (&response.id, &response.outcome) {
            (Some(id), Outcome::Result(result)) => {
                jsonrpc::encode_result(&mut bytes, id, result.as_str());
            }
            (id, Outcome::Error(error)) => jsonrpc::encode_error(&mut bytes, id.as_ref(), error),
            _ => return,
        },
    }
    // What was allowed where it stood may now be one deeper.
    match jsonrpc::decode(&Bytes::from(bytes), max_depth + 2) {
        Ok(Incoming::One(read)) => assert_same(&read, message),
        other => panic!("{message:?} became {other:?}"),
    }
}

/// The same but for the method, to the letter.
fn assert_same(read: &Message, message: &Message) {
    let id = |id: &Option<RequestId>| id.as_ref().map(ToString::to_string);
    match (read, message) {
        (Message::Notification(read), Message::Notification(message)) => {
            assert_eq!(read.params, message.params);
            assert_one_line(read.params.as_ref());
        }
        (Message::Request(read), Message::Request(message)) => {
            assert_eq!(read.id.to_string(), message.id.to_string());
            assert_eq!(read.id, message.id);
            let params = message.params.as_ref().map_or("{}", RawJson::as_str);
            assert_eq!(read.params.as_ref().map(RawJson::as_str), Some(params));
        }
        (Message::Response(read), Message::Response(message)) => {
            assert_eq!(id(&read.id), id(&message.id));
            match (&read.outcome, &message.outcome) {
                (Outcome::Result(read), Outcome::Result(message)) => assert_eq!(read, message),
                (Outcome::Error(read), Outcome::Error(message)) => {
                    let parts = |error: &ErrorObject| {
                        let Code(code) = error.code;
                        (code, error.message.to_string(), error.data.clone())
                    };
                    assert_eq!(parts(read), parts(message));
                }
                other => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    }
}

/// What goes out in a line has none inside, and says the same.
fn assert_one_line(json: Option<&RawJson>) {
    let Some(json) = json else { return };
    let line = RawJson::serialized(json).unwrap();
    assert!(!line.as_str().contains(['\n', '\r']), "{line:?}");
    let value = |json: &RawJson| json.deserialize::<Value>().ok();
    assert_eq!(value(&line), value(json));
}
