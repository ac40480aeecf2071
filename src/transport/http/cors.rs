//! What a browser lets a page see of an answer.
//!
//! Knows the headers of the CORS protocol (WHATWG Fetch, "CORS protocol"); must not know which
//! origins are allowed. An origin is named, never `*`, and no answer allows cookies: what a client
//! of this protocol shows stands in headers that it sets itself.

use std::time::Duration;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    HeaderMap, HeaderName, HeaderValue, VARY,
};
use http::{Response, StatusCode};

use super::super::OutboundBody;
use super::body::AnswerBody;

/// What stands in an answer for browsers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cors {
    /// The page of this origin, as it was sent, may see the answer.
    Granted(HeaderValue),
    /// Nothing, though a page might have got something.
    NotAsked,
    /// No page is allowed anything.
    Off,
}

/// What a page may send without asking for each: a preflight is remembered by name.
const REQUEST_HEADERS: &str = "accept, authorization, content-type, last-event-id, mcp-method, \
                               mcp-name, mcp-protocol-version, mcp-session-id";

/// What a page may see beside the few headers that it always may.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after, allow",
);

/// A day, in seconds; browsers cut it to what they think is sane.
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");

/// Asked for by some browsers before a page of the internet may reach this machine; others ask
/// their user instead.
const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

impl Cors {
    /// Writes it into the head of an answer. What no cache keeps need not say that it would have
    /// been another for another page.
    pub(crate) fn stamp(&self, headers: &mut HeaderMap, is_cacheable: bool) {
        match self {
            Self::Granted(origin) => {
                headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
                headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
            }
            Self::NotAsked if is_cacheable => {}
            Self::NotAsked | Self::Off => return,
        }
        headers.append(VARY, HeaderValue::from_static("origin"));
    }

    /// The answer to a browser that asks whether its page may, which it does without credentials;
    /// `None` if the page may not.
    pub(crate) fn preflight(&self, asked: &HeaderMap) -> Option<Response<AnswerBody>> {
        if !matches!(self, Self::Granted(_)) {
            return None;
        }
        let body = AnswerBody::new(OutboundBody::Empty, Duration::MAX);
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(asked));
        headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        if asked.contains_key(REQUEST_PRIVATE_NETWORK) {
            headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
        }
        Some(response)
    }
}

/// Those of the protocol, and those that were asked for: arguments of tools that travel in headers,
/// and what the server's own check may want to see.
fn allowed_headers(asked: &HeaderMap) -> HeaderValue {
    let mut allowed = REQUEST_HEADERS.to_owned();
    for names in asked.get_all(ACCESS_CONTROL_REQUEST_HEADERS) {
        // One that is no text names no header.
        for name in names.to_str().unwrap_or_default().split(',') {
            let Ok(name) = HeaderName::from_bytes(name.trim().as_bytes()) else {
                continue;
            };
            let is_known = allowed.split(", ").any(|known| known == name.as_str());
            if !is_known && allowed.len() < MAX_NAMES_BYTES {
                allowed.push_str(", ");
                allowed.push_str(name.as_str());
            }
        }
    }
    HeaderValue::try_from(allowed).unwrap_or(HeaderValue::from_static(REQUEST_HEADERS))
}

/// So that looking for what is there already stays cheap. No page sends as many.
const MAX_NAMES_BYTES: usize = 4096;
