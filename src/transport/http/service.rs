//! One HTTP request to one exchange and back.
//!
//! Knows what HTTP itself asks of a request: where it goes, who may ask, its form and its size.
//! Must not know what a message says, nor whose connection it came over.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body;

use super::super::{Accept, Exchange, Inbound, Outbound, OutboundBody};
use super::accept::{accepted, is_json};
use super::access::Access;
use super::body::AnswerBody;
use super::collect::collect;
use super::refusal::{JSON, Refusal, allowed};
use crate::limits::Limits;
use crate::mcp::frame::{Head, Verb};
use crate::mcp::headers::{LAST_EVENT_ID, SESSION_ID};

/// hyper's own trait, for what is served by a hyper that is not ours.
pub(crate) use hyper::service::Service as HyperService;

/// Answers requests to one path, or to any, by one exchange. Clones share it.
pub(crate) struct HttpService<E>(Arc<Shared<E>>);

struct Shared<E> {
    exchange: E,
    /// `None` where somebody else has looked at the path.
    path: Option<Box<str>>,
    access: Access,
    limits: Limits,
}

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

impl<E: Exchange> HttpService<E> {
    /// `path` begins with a slash and is matched exactly; with none, every path is served.
    pub(crate) fn new(exchange: E, path: Option<&str>, access: Access, limits: &Limits) -> Self {
        Self(Arc::new(Shared {
            exchange,
            path: path.map(Into::into),
            access,
            limits: limits.clone(),
        }))
    }

    pub(crate) fn exchange(&self) -> &E {
        &self.0.exchange
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Answers one request.
    ///
    /// # Cancel safety
    /// Dropping the future gives the request up and drops the exchange.
    pub(crate) async fn call<B>(&self, request: Request<B>) -> Response<AnswerBody>
    where
        B: Body<Data: Buf>,
    {
        let (parts, body) = request.into_parts();
        let version = parts.version;
        let mut body = pin!(body);
        let (mut response, is_read) = match self.admit(parts, body.as_mut()).await {
            Ok(inbound) => {
                let is_read = inbound.verb == Verb::Post;
                let outbound = self.0.exchange.exchange(inbound).await;
                (self.respond(outbound), is_read)
            }
            Err(refusal) => (refusal.into_response(), false),
        };
        // What is left of the body stands where the next request would begin.
        if !is_read && !body.is_end_stream() && version <= Version::HTTP_11 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        response
    }

    /// Checks a request in the order of what it costs to look, and reads its body.
    async fn admit<B>(&self, parts: Parts, body: Pin<&mut B>) -> Result<Inbound, Refusal>
    where
        B: Body<Data: Buf>,
    {
        let Shared {
            exchange,
            path,
            access,
            limits,
        } = &*self.0;
        let headers = &parts.headers;
        if let Some(path) = path
            && parts.uri.path() != &**path
        {
            return Err(Refusal::path(parts.uri.path(), path));
        }
        access
            .check(&parts.uri, parts.version, headers)
            .map_err(Refusal::denied)?;
        let resumes = || {
            let after = headers.get(LAST_EVENT_ID);
            after.is_some_and(|id| !id.as_bytes().trim_ascii().is_empty())
        };
        let has_streams = exchange.has_streams() || exchange.resumes_streams() && resumes();
        let verb = match parts.method {
            Method::POST => Verb::Post,
            Method::DELETE => Verb::Delete,
            Method::GET if has_streams => Verb::Get,
            _ => return Err(Refusal::method(&parts.method, has_streams)),
        };
        let accept = match verb {
            Verb::Post if !is_json(headers) => return Err(Refusal::content_type(headers)),
            Verb::Post => accepted(headers).ok_or_else(Refusal::accept)?,
            Verb::Get => accepted(headers)
                .filter(|accept| accept.sse)
                .ok_or_else(Refusal::accept_stream)?,
            Verb::Delete => Accept {
                sse: true,
                prefers_sse: false,
            },
        };
        // A value that is no text is passed on as one that nobody issued, rather than as none.
        let head = Head::read(
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.to_str().unwrap_or("\u{fffd}"))),
        );
        let body = match verb {
            Verb::Post => {
                let max = limits.max_server_message_bytes;
                collect(body, max, limits.body_read_timeout).await?
            }
            Verb::Delete | Verb::Get => Bytes::new(),
        };
        Ok(Inbound {
            verb,
            head,
            accept,
            body,
        })
    }

    fn respond(&self, outbound: Outbound) -> Response<AnswerBody> {
        let mut headers = HeaderMap::new();
        match &outbound.body {
            OutboundBody::Empty => {}
            OutboundBody::Json(_) => {
                headers.insert(CONTENT_TYPE, JSON);
            }
            OutboundBody::Stream(_) => {
                let sse = HeaderValue::from_static("text/event-stream");
                headers.insert(CONTENT_TYPE, sse);
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                // Proxies that know this header pass each event on at once.
                headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
            }
        }
        if let Some(id) = &outbound.session_id
            && let Ok(value) = HeaderValue::from_str(id.as_str())
        {
            headers.insert(HeaderName::from_static(SESSION_ID), value);
        }
        if outbound.status == 405 {
            headers.insert(ALLOW, allowed(self.0.exchange.has_streams()));
        }
        if let Some(wait) = outbound.retry_after {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, seconds.into());
        }
        let body = AnswerBody::new(outbound.body, self.0.limits.keep_alive_interval);
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(outbound.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = headers;
        response
    }
}

impl<E> Clone for HttpService<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E> fmt::Debug for HttpService<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService")
            .field("path", &self.0.path)
            .field("access", &self.0.access)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
