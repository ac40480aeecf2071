//! What a client is told whose request never became a message.
//!
//! Knows statuses and their texts; must not know how they came about. The body is a JSON-RPC error
//! without an id, since no id was read (MCP specification, "Transports", "Sending Messages").

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ALLOW, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{Method, Response, StatusCode};

use super::super::OutboundBody;
use super::access::Barred;
use super::body::AnswerBody;

/// A status, a text that says what to do, and a header that says it to machines.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    message: String,
    header: Option<(HeaderName, HeaderValue)>,
}

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The methods that are offered, for answers that say so.
pub(crate) fn allowed(has_streams: bool) -> HeaderValue {
    HeaderValue::from_static(match has_streams {
        true => "POST, GET, DELETE",
        false => "POST, DELETE",
    })
}

impl Refusal {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            header: None,
        }
    }

    pub(crate) fn accept_stream() -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            "the Accept header excludes a stream: send `Accept: text/event-stream`",
        )
    }

    pub(crate) fn accept() -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            "the Accept header excludes every form of answer: \
             send `Accept: application/json, text/event-stream`",
        )
    }

    pub(crate) fn ambiguous_length() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "the request has both a Content-Length and a Transfer-Encoding: send one of them",
        )
    }

    /// The hook that says who asks failed. Its panic is for its developer.
    pub(crate) fn broken_authorization() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server failed to find out whose request this is",
        )
    }

    pub(crate) fn broken_body() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "the body of the request could not be read to its end",
        )
    }

    /// There is no room for the request now; `what` is the limit.
    pub(crate) fn busy(what: &str) -> Self {
        Self {
            header: Some((RETRY_AFTER, HeaderValue::from_static("1"))),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("server busy: its `{what}` is reached, try again later"),
            )
        }
    }

    /// Whoever asks has to show other credentials, as the header says.
    pub(crate) fn challenge(status: StatusCode, header: HeaderValue, message: String) -> Self {
        Self {
            header: Some((WWW_AUTHENTICATE, header)),
            ..Self::new(status, message)
        }
    }

    pub(crate) fn content_type(headers: &HeaderMap) -> Self {
        let sent = match headers.get(CONTENT_TYPE) {
            Some(value) => quoted(value.as_bytes()),
            None => "missing".to_owned(),
        };
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!(
                "the Content-Type is {sent}: send the message as `application/json`, \
                 without a Content-Encoding"
            ),
        )
    }

    pub(crate) fn barred(barred: Barred) -> Self {
        match barred {
            Barred::AmbiguousHost => Self::new(
                StatusCode::BAD_REQUEST,
                "the request has more than one Host header: send one",
            ),
            Barred::Host(host) => Self::new(
                StatusCode::FORBIDDEN,
                format!(
                    "the host {} is not allowed: connect by a name that the server knows, \
                     or add this one to the server's `allowed_hosts`",
                    quoted(&host)
                ),
            ),
            Barred::NoHost => Self::new(
                StatusCode::BAD_REQUEST,
                "the request has no Host header: HTTP/1.1 requires one",
            ),
            Barred::Origin(origin) => Self::new(
                StatusCode::FORBIDDEN,
                format!(
                    "the origin {} is not allowed: add it to the server's `allowed_origins`",
                    quoted(&origin)
                ),
            ),
        }
    }

    pub(crate) fn method(method: &Method, has_streams: bool) -> Self {
        let message = format!(
            "the method {} is not offered: send each message as a POST of its own",
            quoted(method.as_str().as_bytes())
        );
        Self {
            header: Some((ALLOW, allowed(has_streams))),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, message)
        }
    }

    /// It cannot be found out now who asks.
    pub(crate) fn no_authorization(message: String) -> Self {
        Self {
            header: Some((RETRY_AFTER, HeaderValue::from_static("1"))),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
        }
    }

    pub(crate) fn path(asked: &str, offered: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            format!(
                "there is nothing at {}: the MCP endpoint is at `{offered}`",
                quoted(asked.as_bytes())
            ),
        )
    }

    pub(crate) fn slow_authorization(patience: Duration) -> Self {
        Self::no_authorization(format!(
            "the server did not find out within {patience:?} whose request this is: \
             its `authorize_timeout`"
        ))
    }

    pub(crate) fn slow_body(patience: Duration) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            format!(
                "nothing more of the request's body came within {patience:?}, the server's \
                 `body_read_timeout`"
            ),
        )
    }

    pub(crate) fn trickled_body(min: usize) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            format!(
                "the request's body came slower than {min} bytes a second, the server's \
                 `min_body_rate`"
            ),
        )
    }

    pub(crate) fn too_large(max: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the message is larger than {max} bytes: send a smaller one, or raise the \
                 server's `max_server_message_bytes`"
            ),
        )
    }

    pub(crate) fn into_response(self) -> Response<AnswerBody> {
        let message = serde_json::Value::from(self.message);
        let code = match self.status.is_server_error() {
            true => -32603,
            false => -32600,
        };
        let error = format!(
            r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":{message}}}}}"#
        );
        let body = OutboundBody::Json(Bytes::from(error));
        let mut response = Response::new(AnswerBody::new(body, Duration::MAX));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        if let Some((name, value)) = self.header {
            headers.insert(name, value);
        }
        response
    }
}

/// What a client sent, fit to be shown: short, visible ASCII, in backticks.
fn quoted(sent: &[u8]) -> String {
    const MAX_BYTES: usize = 100;
    let mut text = String::with_capacity(sent.len().min(MAX_BYTES) + 5);
    text.push('`');
    for &byte in sent.iter().take(MAX_BYTES) {
        text.push(match byte {
            b'`' => '\'',
            b' '..=b'~' => byte.into(),
            _ => '?',
        });
    }
    if sent.len() > MAX_BYTES {
        text.push_str("...");
    }
    text.push('`');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_sent_is_shown_short_and_visible() {
        for (sent, shown) in [
            (&b"/x"[..], "`/x`".to_owned()),
            (b"", "``".to_owned()),
            (b"a`b\r\n\x1b[0m\xff", "`a'b???[0m?`".to_owned()),
            (&[b'x'; 100], format!("`{}`", "x".repeat(100))),
            (&[b'x'; 5000], format!("`{}...`", "x".repeat(100))),
        ] {
            assert_eq!(quoted(sent), shown, "{sent:?}");
        }
    }
}
