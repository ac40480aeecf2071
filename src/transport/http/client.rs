//! The side that calls: frames out as requests, answers in as replies.
//!
//! Owns the headers of a request and what is read from the head of an answer; must not know what
//! a message or a status means to a session.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri};
use http_body_util::Full;

use super::connect::{Connector, Io, dial};
use super::endpoint::{Endpoint, shown};
use super::pool::Pool;
use super::reply::{Body, BodyMessages};
use crate::error::{Error, Place};
use crate::limits::Limits;
use crate::mcp::frame::{Frame, SessionId, Verb};
use crate::mcp::headers::{SESSION_ID, writes};
use crate::transport::{BoxFuture, Link, Media, Reply, ReplyHead, Sent};

/// A link to one Streamable HTTP endpoint.
pub(crate) struct HttpLink(Arc<Shared>);

struct Shared {
    endpoint: Endpoint,
    /// Configured headers and `Host`: on each request. They may hold credentials.
    headers: HeaderMap,
    secrets: Vec<Box<str>>,
    pool: Arc<Pool>,
    max_redirects: usize,
    max_message_bytes: usize,
}

impl HttpLink {
    /// A link to `url`, which is used as it is, slash and query included. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Config`] for a URL or a header that cannot work.
    pub(crate) fn new(
        url: &str,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let endpoint = Endpoint::parse(url)?;
        let connector = Connector::Tcp {
            origin: endpoint.origin.clone(),
            timeout: limits.tcp_connect_timeout,
        };
        Self::over(endpoint, connector, headers, limits)
    }

    /// A link whose connections come from `connect` instead of the network, to the path `/mcp`.
    pub(crate) fn in_memory<T: Io + 'static>(
        connect: impl Fn() -> Result<T, Error> + Send + Sync + 'static,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let endpoint = Endpoint::parse("http://localhost/mcp")?;
        let connect = move || connect().map(|io| Box::new(io) as Box<dyn Io>);
        Self::over(endpoint, Connector::InMemory(Box::new(connect)), [], limits)
    }

    /// # Errors
    /// [`Error::Config`] for a header that cannot be configured.
    pub(crate) fn check_headers<'a>(
        names: impl IntoIterator<Item = &'a HeaderName>,
    ) -> Result<(), Error> {
        match names.into_iter().find(|name| is_ours(name)) {
            None => Ok(()),
            Some(name) => Err(Error::config(format!(
                "the header `{name}` cannot be set: the transport writes it itself"
            ))),
        }
    }

    /// Where a URL leads, for people, also if it cannot be used: never holds credentials.
    pub(crate) fn target_of(url: &str) -> String {
        match Endpoint::parse(url) {
            Ok(endpoint) => endpoint.shown.into(),
            // What of a broken URL is a password cannot be told.
            Err(_) if url.contains('@') => "a URL that cannot be used".to_owned(),
            Err(_) => shown(url),
        }
    }

    /// Whether anybody listens there: opens a stream and closes it again.
    ///
    /// # Errors
    /// As a request that cannot be sent, after `timeout` at the latest.
    pub(crate) async fn probe(&self, timeout: Duration) -> Result<(), Error> {
        dial(&self.0.endpoint.origin, timeout, "probe_timeout")
            .await
            .map(drop)
    }

    fn over(
        endpoint: Endpoint,
        connector: Connector,
        configured: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, endpoint.host_header.clone());
        let mut secrets: Vec<Box<str>> = endpoint.path.query().map(Box::from).into_iter().collect();
        for (name, mut value) in configured {
            Self::check_headers([&name])?;
            value.set_sensitive(true);
            if name == header::HOST {
                headers.insert(name, value);
            } else {
                secrets.extend(secrets_in(&value));
                headers.append(name, value);
            }
        }
        Ok(Self(Arc::new(Shared {
            endpoint,
            headers,
            secrets,
            pool: Arc::new(Pool::new(connector, limits)),
            max_redirects: limits.max_redirects,
            max_message_bytes: limits.max_client_message_bytes,
        })))
    }
}

impl Link for HttpLink {
    fn send(&self, frame: Frame) -> BoxFuture<'static, Result<Sent, Error>> {
        let shared = self.0.clone();
        Box::pin(async move { shared.send(frame).await.map(Sent::Reply) })
    }

    fn sweep(&self) {
        self.0.pool.sweep();
    }

    fn close(&self) {
        self.0.pool.close();
    }

    fn target(&self) -> &str {
        &self.0.endpoint.shown
    }

    /// Origin and path. What stands behind a pipe of this process may be another one each time.
    fn peer(&self) -> Option<u64> {
        let Endpoint { origin, path, .. } = &self.0.endpoint;
        let mut hasher = DefaultHasher::new();
        (origin, path.path()).hash(&mut hasher);
        (!self.0.pool.is_in_memory()).then(|| hasher.finish())
    }

    fn secrets(&self) -> &[Box<str>] {
        &self.0.secrets
    }
}

/// A header's value, and the token in it if it names a scheme before.
fn secrets_in(value: &HeaderValue) -> impl Iterator<Item = Box<str>> {
    let text = value.to_str().unwrap_or_default();
    let token = text.split_once(' ').map(|(_scheme, token)| token);
    [Some(text), token].into_iter().flatten().map(Box::from)
}

impl fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLink")
            .field("target", &self.target())
            .finish_non_exhaustive()
    }
}

impl Shared {
    async fn send(&self, frame: Frame) -> Result<Reply, Error> {
        let mut path = self.endpoint.path.clone();
        let mut redirects = 0;
        loop {
            let request = self.request(&frame, path.clone())?;
            let (parts, answer) = self.pool.send(request, &self.endpoint.shown).await?;
            if !is_redirect(parts.status.as_u16()) {
                return self
                    .reply(parts, Body::new(answer, self.pool.clone()))
                    .await;
            }
            // A body that a redirect has is for browsers; what has come of it is thrown away.
            self.pool.take_ended(answer);
            path = self.redirect(&parts, &path, redirects)?;
            redirects += 1;
        }
    }

    fn request(&self, frame: &Frame, path: PathAndQuery) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::new(Full::new(frame.body.clone()));
        *request.uri_mut() = Uri::from(path);
        let mut headers = self.headers.clone();
        match frame.verb {
            Verb::Delete => *request.method_mut() = Method::DELETE,
            Verb::Get => {
                *request.method_mut() = Method::GET;
                let accept = HeaderValue::from_static("text/event-stream");
                headers.insert(header::ACCEPT, accept);
            }
            Verb::Post => {
                *request.method_mut() = Method::POST;
                // Both forms and no wildcard: deployed servers refuse anything else. hyper adds
                // the Content-Length.
                let accept = HeaderValue::from_static("application/json, text/event-stream");
                headers.insert(header::ACCEPT, accept);
                let json = HeaderValue::from_static("application/json");
                headers.insert(header::CONTENT_TYPE, json);
            }
        }
        let mut unfit = None;
        frame.head.write(|name, text| {
            let value = HeaderValue::from_bytes(text.as_bytes());
            match (HeaderName::from_bytes(name.as_bytes()), value) {
                (Ok(name), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(name, value);
                }
                _ => unfit = Some(name),
            }
        });
        if let Some(name) = unfit {
            return Err(Error::config(format!(
                "the value for `{name}` does not fit in an HTTP header"
            )));
        }
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// The path to ask next. Only 307 and 308 promise that method and body stay, and only the same
    /// origin may see our headers.
    fn redirect(
        &self,
        parts: &http::response::Parts,
        from: &PathAndQuery,
        redirects: usize,
    ) -> Result<PathAndQuery, Error> {
        let status = parts.status.as_u16();
        let location = parts
            .headers
            .get(header::LOCATION)
            .map(|value| String::from_utf8_lossy(value.as_bytes()));
        let next = location
            .as_deref()
            .and_then(|location| self.endpoint.follow(from, location));
        let why = match (location.as_deref(), next) {
            (None, _) => "a redirect that leads nowhere; check the URL".to_owned(),
            (Some(_), Some(next)) if keeps_method(status) && redirects < self.max_redirects => {
                return Ok(next);
            }
            (Some(location), Some(_)) if keeps_method(status) => format!(
                "more than {} redirects, the last one to {}; check the URL",
                self.max_redirects,
                shown(location)
            ),
            (Some(location), _) => format!(
                "a redirect to {}, which is not followed; if that is the right server, change \
                 the URL to it",
                shown(location)
            ),
        };
        Err(Error::Http {
            place: Place::default(),
            status,
            detail: why.into(),
        })
    }

    async fn reply(&self, parts: http::response::Parts, mut body: Body) -> Result<Reply, Error> {
        let status = parts.status.as_u16();
        let media = match media_type(&parts.headers) {
            Some(media) => media,
            None if parts.status.is_success() => body.sniff().await?,
            None => Media::Other,
        };
        let session_id = parts
            .headers
            .get(SESSION_ID)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| SessionId::parse(text.trim()));
        Ok(Reply {
            head: ReplyHead {
                status,
                media,
                session_id,
                authenticate: matches!(status, 401 | 403)
                    .then(|| joined(&parts.headers, &header::WWW_AUTHENTICATE))
                    .flatten(),
            },
            messages: Box::new(BodyMessages::new(body, media, self.max_message_bytes)),
        })
    }
}

/// Headers that this transport, or HTTP itself, lives by.
fn is_ours(name: &HeaderName) -> bool {
    const OURS: [HeaderName; 9] = [
        header::ACCEPT,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::CONTENT_TYPE,
        header::EXPECT,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    OURS.contains(name) || writes(name.as_str())
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

fn keeps_method(status: u16) -> bool {
    matches!(status, 307 | 308)
}

/// By the media type alone, its parameters ignored; `None` if none was given.
fn media_type(headers: &HeaderMap) -> Option<Media> {
    let value = headers.get(header::CONTENT_TYPE)?.as_bytes();
    let essence = value.split(|byte| *byte == b';').next()?.trim_ascii();
    Some(match essence {
        b"" => return None,
        _ if essence.eq_ignore_ascii_case(b"application/json") => Media::Json,
        _ if essence.eq_ignore_ascii_case(b"text/event-stream") => Media::Sse,
        _ => Media::Other,
    })
}

/// All values of a header as one list, which is what repeating it means.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values: Vec<_> = headers
        .get_all(name)
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    (!values.is_empty()).then(|| values.join(", "))
}

#[cfg(test)]
mod tests;
