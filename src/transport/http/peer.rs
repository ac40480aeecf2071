//! One HTTP server, seen from the side that calls: where it is, the connections to it, what goes
//! with every request, and where it sends requests on to.
//!
//! Must not know what is asked.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use http::uri::PathAndQuery;
use http_body_util::Full;

use super::connect::Connector;
use super::endpoint::{Endpoint, shown};
use super::pool::{Pool, is_unasked};
use super::provider::{Occasion, Provide, Provider};
use super::reply::Body;
use crate::error::{Error, Place};
use crate::limits::Limits;
use crate::transport::Media;

/// A server, and one path of it.
pub(super) struct HttpPeer {
    pub(super) endpoint: Endpoint,
    /// Configured headers and `Host`: on each request. They may hold credentials.
    pub(super) headers: HeaderMap,
    /// What of that, and of the URL, must not be shown.
    secrets: Arc<[Arc<str>]>,
    provider: Option<Provider>,
    pub(super) pool: Arc<Pool>,
    pub(super) max_message_bytes: usize,
    max_redirects: usize,
}

/// More than by chance. A server that ends each connection before it reads from it is broken.
const MAX_CROSSINGS: usize = 3;

impl HttpPeer {
    /// Nothing is sent yet.
    pub(super) fn new(
        endpoint: Endpoint,
        connector: Connector,
        configured: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        limits: &Limits,
    ) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, endpoint.host_header.clone());
        let query = endpoint.path.query().into_iter();
        let parts = query.clone().flat_map(|query| query.split('&'));
        let values = parts.filter_map(|part| part.split_once('=').map(|(_name, value)| value));
        let mut secrets: Vec<Arc<str>> = query.chain(values).map(Arc::from).collect();
        for (name, mut value) in configured {
            value.set_sensitive(true);
            if name == header::HOST {
                headers.insert(name, value);
            } else {
                secrets.extend(secrets_in(&value));
                headers.append(name, value);
            }
        }
        Self {
            endpoint,
            headers,
            secrets: secrets.into(),
            provider: None,
            pool: Arc::new(Pool::new(connector, limits)),
            max_message_bytes: limits.max_client_message_bytes,
            max_redirects: limits.max_redirects,
        }
    }

    /// Has further headers made for each request. `is_written` tells which ones are not to be among
    /// them, since we write them.
    pub(super) fn asking(
        mut self,
        provide: Arc<Provide>,
        is_written: fn(&HeaderName) -> bool,
        limits: &Limits,
    ) -> Self {
        let secrets = self.secrets.clone();
        self.provider = Some(Provider::new(provide, is_written, secrets, limits));
        self
    }

    /// Credentials that are sent, or were lately, and must never be shown.
    pub(super) fn secrets(&self) -> Arc<[Arc<str>]> {
        match &self.provider {
            None => self.secrets.clone(),
            Some(provider) => provider.secrets(),
        }
    }

    /// Sends a request and waits for the head of its answer. `request` makes it for a path, with
    /// headers to begin with, once more for each redirect, and each time that it crossed the end of
    /// its connection. A server that refuses headers which were made for this request gets it once
    /// more with others.
    pub(super) async fn ask(
        &self,
        request: impl Fn(PathAndQuery, HeaderMap) -> Result<Request<Full<Bytes>>, Error>,
    ) -> Result<(Parts, Body), Error> {
        let mut path = self.endpoint.path.clone();
        let (mut redirects, mut crossings) = (0, 0);
        let mut occasion = Occasion::Request;
        let mut made = match &self.provider {
            None => None,
            Some(provider) => Some(provider.headers(&self.headers, occasion).await?),
        };
        loop {
            let headers = made.as_ref().unwrap_or(&self.headers).clone();
            let request = request(path.clone(), headers)?;
            let (parts, answer) = self.pool.send(request, &self.endpoint.shown).await?;
            if crossings < MAX_CROSSINGS && is_unasked(&parts) {
                crossings += 1;
                continue;
            }
            let status = parts.status.as_u16();
            if status == 401
                && occasion == Occasion::Request
                && let Some(provider) = &self.provider
            {
                self.pool.take_ended(answer);
                occasion = Occasion::Refusal;
                made = Some(provider.headers(&self.headers, occasion).await?);
                continue;
            }
            if !is_redirect(status) {
                return Ok((parts, Body::new(answer, self.pool.clone())));
            }
            // A body that a redirect has is for browsers; what has come of it is thrown away.
            self.pool.take_ended(answer);
            path = self.redirect(&parts, &path, redirects)?;
            redirects += 1;
        }
    }

    /// The path to ask next. Only 307 and 308 promise that method and body stay, and only the same
    /// origin may see our headers.
    fn redirect(
        &self,
        parts: &Parts,
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
                "more than {} redirects (`max_redirects`), the last one to {}; check the URL",
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
            retry_after: None,
        })
    }
}

/// Refuses headers that HTTP itself lives by, or of which `is_written` tells that we write them.
///
/// # Errors
/// [`Error::Config`] for the first one.
pub(super) fn check_headers<'a>(
    names: impl IntoIterator<Item = &'a HeaderName>,
    is_written: impl Fn(&HeaderName) -> bool,
) -> Result<(), Error> {
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
    let mut names = names.into_iter();
    match names.find(|name| OURS.contains(name) || is_written(name)) {
        None => Ok(()),
        Some(name) => Err(Error::config(format!(
            "the header `{name}` cannot be set: the transport writes it itself"
        ))),
    }
}

/// By the media type alone, its parameters ignored; `None` if none was given.
pub(super) fn media_type(headers: &HeaderMap) -> Option<Media> {
    let value = headers.get(header::CONTENT_TYPE)?.as_bytes();
    let essence = value.split(|byte| *byte == b';').next()?.trim_ascii();
    Some(match essence {
        b"" => return None,
        _ if essence.eq_ignore_ascii_case(b"application/json") => Media::Json,
        _ if essence.eq_ignore_ascii_case(b"text/event-stream") => Media::Sse,
        _ => Media::Other,
    })
}

/// A header's value, and the token in it if it names a scheme before.
pub(super) fn secrets_in(value: &HeaderValue) -> impl Iterator<Item = Arc<str>> {
    let text = value.to_str().unwrap_or_default();
    let token = text.split_once(' ').map(|(_scheme, token)| token);
    [Some(text), token].into_iter().flatten().map(Arc::from)
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

fn keeps_method(status: u16) -> bool {
    matches!(status, 307 | 308)
}
