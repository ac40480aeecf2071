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

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(*name, value);
        }
        headers
    }

    fn granted() -> Cors {
        Cors::Granted(HeaderValue::from_static("https://app.example"))
    }

    #[test]
    fn all_headers_of_the_protocol_are_allowed_and_those_asked_for() {
        let own = REQUEST_HEADERS;
        for (asked, more) in [
            (&[][..], ""),
            (&["content-type,mcp-name"][..], ""),
            (
                &["Mcp-Param-Region, MCP-Param-Dry"][..],
                ", mcp-param-region, mcp-param-dry",
            ),
            (&["x-a", " X-B ,x-a,accept"][..], ", x-a, x-b"),
            (&["*", "a b,", ",,x-c"][..], ", *, x-c"),
            (&["x-\u{e9}, x-d"][..], ""),
        ] {
            let fields: Vec<_> = asked
                .iter()
                .map(|names| (&ACCESS_CONTROL_REQUEST_HEADERS, *names))
                .collect();
            let allowed = allowed_headers(&head(&fields));
            assert_eq!(allowed, format!("{own}{more}"), "{asked:?}");
        }
        let many: Vec<_> = (0..10_000).map(|n| format!("x-{n}")).collect();
        let allowed = allowed_headers(&head(&[(&ACCESS_CONTROL_REQUEST_HEADERS, &many.join(","))]));
        assert!(allowed.len() < MAX_NAMES_BYTES + 20, "{}", allowed.len());
    }

    #[test]
    fn only_a_page_that_may_is_answered_beforehand() {
        for cors in [Cors::NotAsked, Cors::Off] {
            assert!(cors.preflight(&HeaderMap::new()).is_none(), "{cors:?}");
        }
        for (asked, allows) in [
            (&[][..], None),
            (&[(&REQUEST_PRIVATE_NETWORK, "true")], Some("true")),
        ] {
            let answer = granted().preflight(&head(asked)).unwrap();
            assert_eq!(answer.status(), StatusCode::NO_CONTENT);
            let allow = answer.headers().get(ALLOW_PRIVATE_NETWORK);
            assert_eq!(allow.and_then(|v| v.to_str().ok()), allows, "{asked:?}");
        }
    }

    #[test]
    fn what_a_cache_may_keep_says_that_it_depends_on_the_page() {
        for (cors, is_cacheable, origin, vary) in [
            (granted(), true, true, true),
            (granted(), false, true, true),
            (Cors::NotAsked, true, false, true),
            (Cors::NotAsked, false, false, false),
            (Cors::Off, true, false, false),
        ] {
            let mut headers = HeaderMap::new();
            cors.stamp(&mut headers, is_cacheable);
            let case = format!("{cors:?}, {is_cacheable}");
            assert_eq!(
                headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN),
                origin,
                "{case}"
            );
            assert_eq!(
                headers.contains_key(ACCESS_CONTROL_EXPOSE_HEADERS),
                origin,
                "{case}"
            );
            assert_eq!(headers.contains_key(VARY), vary, "{case}");
        }
    }
}
