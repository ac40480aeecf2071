//! Why an endpoint did not answer, in words that say what to do.

use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use serde_json::Value;

use super::Key;
use crate::error::{Error, Place};
use crate::transport::http::post::Posted;

/// How much of a body is read to find out why: endpoints explain themselves in less.
pub(super) const MAX_BYTES: usize = 16 * 1024;

/// How much of what an endpoint says is told on.
const MAX_CHARS: usize = 500;

/// How much of an error's text is: what the endpoint says, and what we say of it.
const MAX_DETAIL_CHARS: usize = 1500;

/// What an answer that cannot be read on means. `body` is its beginning. `hide` takes secrets out
/// of a text while they are whole: of one that is cut, the rest would not be known any more.
pub(super) fn error(
    answer: &Posted,
    body: &str,
    hide: &dyn Fn(&str) -> String,
    key: &Key,
    model: &str,
) -> Error {
    let status = answer.status;
    let excerpt = |text: &str| cut(&hide(text), MAX_CHARS);
    let said = match serde_json::from_str::<Value>(body) {
        Ok(body) => excerpt(&said(&body)),
        Err(_) => excerpt(body),
    };
    if status == 200 && is_compressed(answer) {
        return Error::protocol(
            "the endpoint compresses its answer, which nobody asked it to; look for a proxy before \
             it that does, or for a header of the request that allows it",
        );
    }
    if (200..300).contains(&status) {
        let kind = answer.headers.get(CONTENT_TYPE);
        let kind = kind.map(|kind| excerpt(&String::from_utf8_lossy(kind.as_bytes())));
        let kind = kind.unwrap_or_else(|| "nothing that it names".to_owned());
        return Error::protocol(format!(
            "HTTP {status} with {kind} where a stream of chunks was expected; check that the base \
             URL leads to an OpenAI-compatible endpoint, which mostly ends in /v1: {said}"
        ));
    }
    let retry_after = retry_after(&answer.headers);
    let advice = match (status, retry_after, key) {
        (401 | 403, _, Key::Variable(name)) => format!("check the API key in {name}"),
        (401 | 403, _, Key::Given) => "check the API key".to_owned(),
        (401 | 403, _, Key::Missing) => "no API key was given".to_owned(),
        (404, ..) => {
            format!("check the base URL, which mostly ends in /v1, and the model `{model}`")
        }
        (429 | 503, Some(after), _) => format!("try again after {after:?}"),
        (429 | 503, None, _) if answer.headers.contains_key(RETRY_AFTER) => {
            let date = answer.headers.get(RETRY_AFTER);
            let date = date.map_or(&b""[..], |date| date.as_bytes());
            format!(
                "try again after {}",
                excerpt(&String::from_utf8_lossy(date))
            )
        }
        (408 | 429 | 500.., ..) => "try again later".to_owned(),
        _ => "check the request".to_owned(),
    };
    Error::Http {
        place: Place::default(),
        status,
        detail: join(&said, &advice).into(),
        retry_after,
    }
}

/// Whether the body is in a form that nobody here reads.
pub(super) fn is_compressed(answer: &Posted) -> bool {
    let coding = answer.headers.get(CONTENT_ENCODING);
    coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// What an error in the middle of a stream means. It has no status of its own, so that of an answer
/// that would have said the same stands for it.
pub(super) fn midway(fault: &Value) -> Error {
    let code = fault.get("code");
    let number = code.and_then(|code| match code {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    });
    let named = |words: &[&str]| {
        [code, fault.get("type")]
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .any(|name| words.iter().any(|word| name.contains(word)))
    };
    let status = match number {
        Some(number @ 400..600) => number as u16,
        _ if named(&["rate_limit", "quota"]) => 429,
        _ if named(&["authentication", "api_key"]) => 401,
        _ if named(&["invalid_request", "context_length"]) => 400,
        _ if named(&["overloaded"]) => 503,
        _ => 500,
    };
    Error::Http {
        place: Place::default(),
        status,
        detail: join("in the middle of its answer", &said(fault)).into(),
        retry_after: None,
    }
}

/// The words in an error's JSON, whichever of the usual forms it has.
fn said(body: &Value) -> String {
    let body = match body {
        Value::Array(items) => items.first().unwrap_or(&Value::Null),
        other => other,
    };
    let fault = body.get("error").filter(|fault| !fault.is_null());
    let fault = fault.unwrap_or(body);
    let words = ["message", "detail", "error"]
        .into_iter()
        .filter_map(|name| fault.get(name))
        .chain([fault])
        .find_map(Value::as_str);
    match (words, fault) {
        (Some(words), _) => words.to_owned(),
        (None, Value::Null) => String::new(),
        (None, other) => other.to_string(),
    }
}

/// The wait that an endpoint asks for, if it says so in numbers; dates need a clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| {
        let text = headers.get(name)?.to_str().ok()?.trim();
        text.parse::<f64>().ok()
    };
    let millis = number("retry-after-ms").map(|millis| millis / 1000.0);
    let seconds = millis.or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn join(first: &str, second: &str) -> String {
    match (first, second) {
        ("", text) | (text, "") => text.to_owned(),
        _ => {
            let clause = first.strip_suffix('.').filter(|rest| !rest.ends_with('.'));
            format!("{}; {second}", clause.unwrap_or(first))
        }
    }
}

/// The text of an error as it is told.
pub(super) fn detail(text: &str, hide: &dyn Fn(&str) -> String) -> String {
    cut(&hide(text), MAX_DETAIL_CHARS)
}

fn cut(text: &str, max_chars: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}..", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
