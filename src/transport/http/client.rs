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
use super::peer::{HttpPeer, check_headers, media_type};
use super::provider::Provide;
use super::reply::{Body, BodyMessages};
use crate::error::Error;
use crate::limits::Limits;
use crate::mcp::frame::{Frame, SessionId, Verb};
use crate::mcp::headers::{SESSION_ID, writes};
use crate::transport::tls::Trust;
use crate::transport::{BoxFuture, Link, Media, Reply, ReplyHead, Sent};

/// A link to one Streamable HTTP endpoint.
pub(crate) struct HttpLink(Arc<HttpPeer>);

/// What a link is told beside its URL.
#[derive(Clone, Default)]
pub(crate) struct HttpConfig {
    /// Sent with every request.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Makes further ones for each request.
    pub(crate) provide: Option<Arc<Provide>>,
    pub(crate) trust: Trust,
}

impl HttpLink {
    /// A link to `url`, which is used as it is, slash and query included. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Config`] for a URL or a header that cannot work.
    pub(crate) fn new(url: &str, config: HttpConfig, limits: &Limits) -> Result<Self, Error> {
        let endpoint = Endpoint::parse(url)?;
        let connector = Connector::tcp(&endpoint.origin, &config.trust, limits);
        Self::over(endpoint, connector, config, limits)
    }

    /// A link whose connections come from `connect` instead of the network, to the path `/mcp`.
    pub(crate) fn in_memory<T: Io + 'static>(
        connect: impl Fn() -> Result<T, Error> + Send + Sync + 'static,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let endpoint = Endpoint::parse("http://localhost/mcp")?;
        let connect = move || connect().map(|io| Box::new(io) as Box<dyn Io>);
        let connector = Connector::InMemory(Box::new(connect));
        Self::over(endpoint, connector, HttpConfig::default(), limits)
    }

    /// # Errors
    /// [`Error::Config`] for a header that cannot be configured.
    pub(crate) fn check_headers<'a>(
        names: impl IntoIterator<Item = &'a HeaderName>,
    ) -> Result<(), Error> {
        check_headers(names, is_written)
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
        config: HttpConfig,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let HttpConfig {
            headers, provide, ..
        } = config;
        Self::check_headers(headers.iter().map(|(name, _)| name))?;
        let mut peer = HttpPeer::new(endpoint, connector, headers, limits);
        if let Some(provide) = provide {
            peer = peer.asking(provide, is_written, limits);
        }
        Ok(Self(Arc::new(peer)))
    }
}

impl Link for HttpLink {
    fn send(&self, frame: Frame) -> BoxFuture<'static, Result<Sent, Error>> {
        let peer = self.0.clone();
        Box::pin(async move { send(&peer, frame).await.map(Sent::Reply) })
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

    fn secrets(&self) -> Arc<[Arc<str>]> {
        self.0.secrets()
    }
}

impl fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLink")
            .field("target", &self.target())
            .finish_non_exhaustive()
    }
}

async fn send(peer: &HttpPeer, frame: Frame) -> Result<Reply, Error> {
    let (parts, body) = peer
        .ask(|path, headers| request(&frame, path, headers))
        .await?;
    reply(parts, body, peer.max_message_bytes).await
}

fn is_written(name: &HeaderName) -> bool {
    writes(name.as_str())
}

fn request(
    frame: &Frame,
    path: PathAndQuery,
    mut headers: HeaderMap,
) -> Result<Request<Full<Bytes>>, Error> {
    let mut request = Request::new(Full::new(frame.body.clone()));
    *request.uri_mut() = Uri::from(path);
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

async fn reply(
    parts: http::response::Parts,
    mut body: Body,
    max_bytes: usize,
) -> Result<Reply, Error> {
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
        messages: Box::new(BodyMessages::new(body, media, max_bytes)),
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
