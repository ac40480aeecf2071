//! One HTTP request to one exchange and back.
//!
//! Knows what HTTP itself asks of a request: where it goes, who may ask, its form and its size.
//! Must not know what a message says, nor whose connection it came over.

use std::fmt;
use std::net::SocketAddr;
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
use super::authorize::Authorization;
use super::body::AnswerBody;
use super::collect::collect;
use super::cors::Cors;
use super::refusal::{JSON, Refusal, allowed};
use crate::limits::Limits;
use crate::mcp::frame::{Head, Verb};
use crate::mcp::headers::{LAST_EVENT_ID, SESSION_ID};

/// hyper's own trait, for what is served by a hyper that is not ours.
pub(crate) use hyper::service::Service as HyperService;

/// Answers requests to one path, or to any, by one exchange. Clones share it.
pub(crate) struct HttpService<E> {
    shared: Arc<Shared<E>>,
    /// There is no place for who asks.
    is_full: bool,
    /// Whose connection it is, if that is known.
    peer: Option<SocketAddr>,
}

struct Shared<E> {
    exchange: E,
    /// `None` where somebody else has looked at the path.
    path: Option<Box<str>>,
    access: Access,
    /// `None` if nobody is asked for credentials.
    authorization: Option<Authorization>,
    limits: Limits,
}

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

impl<E: Exchange> HttpService<E> {
    /// `path` begins with a slash and is matched exactly; with none, every path is served.
    pub(crate) fn new(
        exchange: E,
        path: Option<&str>,
        access: Access,
        authorization: Option<Authorization>,
        limits: &Limits,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                exchange,
                path: path.map(Into::into),
                access,
                authorization,
                limits: limits.clone(),
            }),
            is_full: false,
            peer: None,
        }
    }

    /// The same for connections over `max_connections`: it only says so.
    pub(crate) fn full(&self) -> Self {
        Self {
            is_full: true,
            ..self.clone()
        }
    }

    pub(crate) fn exchange(&self) -> &E {
        &self.shared.exchange
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Refuses a request for a reason that its connection has.
    pub(crate) fn refuse<B>(&self, request: &Request<B>, refusal: Refusal) -> Response<AnswerBody> {
        let access = &self.shared.access;
        let checked = access.check(request.uri(), request.version(), request.headers());
        let mut response = refusal.into_response();
        checked
            .unwrap_or(Cors::Off)
            .stamp(response.headers_mut(), request.method() != Method::POST);
        response
    }

    fn refuse_full<B>(&self, request: &Request<B>) -> Response<AnswerBody> {
        let mut response = self.refuse(request, Refusal::busy("max_connections"));
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
        response
    }

    /// Answers one request.
    ///
    /// # Cancel safety
    /// Dropping the future gives the request up and drops the exchange.
    pub(crate) async fn call<B>(&self, request: Request<B>) -> Response<AnswerBody>
    where
        B: Body<Data: Buf>,
    {
        if self.is_full {
            return self.refuse_full(&request);
        }
        let (parts, body) = request.into_parts();
        let (version, is_post) = (parts.version, parts.method == Method::POST);
        let mut body = pin!(body);
        let access = &self.shared.access;
        let (mut response, is_read) = match access.check(&parts.uri, version, &parts.headers) {
            Err(barred) => (Refusal::barred(barred).into_response(), false),
            Ok(cors) => {
                let (mut response, is_read) = self.answer(&cors, parts, body.as_mut()).await;
                cors.stamp(response.headers_mut(), !is_post);
                (response, is_read)
            }
        };
        // What is left of the body stands where the next request would begin.
        if !is_read && !body.is_end_stream() && version <= Version::HTTP_11 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        response
    }

    /// Answers a request that may come from where it comes from; true if its body was read.
    async fn answer<B>(
        &self,
        cors: &Cors,
        parts: Parts,
        body: Pin<&mut B>,
    ) -> (Response<AnswerBody>, bool)
    where
        B: Body<Data: Buf>,
    {
        if parts.method == Method::OPTIONS
            && let Some(preflight) = cors.preflight(&parts.headers)
        {
            return (preflight, false);
        }
        match self.admit(parts, body).await {
            Ok(inbound) => {
                let is_read = inbound.verb == Verb::Post;
                let outbound = self.shared.exchange.exchange(inbound).await;
                (self.respond(outbound), is_read)
            }
            Err(refusal) => (refusal.into_response(), false),
        }
    }

    /// Checks a request in the order of what it costs to look, and reads its body.
    async fn admit<B>(&self, parts: Parts, body: Pin<&mut B>) -> Result<Inbound, Refusal>
    where
        B: Body<Data: Buf>,
    {
        let Shared {
            exchange,
            path,
            authorization,
            limits,
            ..
        } = &*self.shared;
        let headers = &parts.headers;
        if let Some(path) = path
            && parts.uri.path() != &**path
        {
            return Err(Refusal::path(parts.uri.path(), path));
        }
        let principal = match authorization {
            Some(authorization) => {
                let patience = limits.authorize_timeout;
                authorization.admit(&parts, self.peer, patience).await?
            }
            None => None,
        };
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
            Verb::Post => collect(body, limits).await?,
            Verb::Delete | Verb::Get => Bytes::new(),
        };
        Ok(Inbound {
            verb,
            head,
            principal,
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
            headers.insert(ALLOW, allowed(self.shared.exchange.has_streams()));
        }
        if let Some(wait) = outbound.retry_after {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, seconds.into());
        }
        let body = AnswerBody::new(outbound.body, self.shared.limits.keep_alive_interval);
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(outbound.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = headers;
        response
    }
}

impl<E> HttpService<E> {
    /// The service for the connection of this peer.
    pub(crate) fn for_peer(&self, peer: Option<SocketAddr>) -> Self {
        Self {
            peer,
            ..self.clone()
        }
    }
}

impl<E> Clone for HttpService<E> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            ..*self
        }
    }
}

impl<E> fmt::Debug for HttpService<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService")
            .field("path", &self.shared.path)
            .field("access", &self.shared.access)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
