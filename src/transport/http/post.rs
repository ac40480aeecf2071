//! POSTs JSON to one endpoint that is no MCP server, and takes what it answers.
//!
//! Must not know what the JSON says.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::Full;

use super::connect::Connector;
use super::endpoint::Endpoint;
use super::peer::{HttpPeer, check_headers, media_type};
use super::reply::{BodyMessages, Names};
use crate::error::Error;
use crate::limits::Limits;
use crate::transport::tls::Trust;
use crate::transport::{Media, Messages};

/// An endpoint, and the connections to it.
pub(crate) struct HttpPost(HttpPeer);

/// An answer whose body is still to be read.
pub(crate) struct Posted {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) media: Media,
    /// Events of any name, or the one JSON value; nothing else can be read but an excerpt.
    pub(crate) messages: Box<dyn Messages>,
}

impl HttpPost {
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Config`] for a URL that cannot work, or a header that cannot be configured.
    pub(crate) fn new(
        url: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        trust: &Trust,
        limits: &Limits,
    ) -> Result<Self, Error> {
        check_headers(headers.iter().map(|(name, _)| name), |_| false)?;
        let endpoint = Endpoint::parse(url)?;
        let connector = Connector::tcp(&endpoint.origin, trust, limits);
        Ok(Self(HttpPeer::new(endpoint, connector, headers, limits)))
    }

    /// Resolves when the head of the answer is there.
    ///
    /// # Cancel safety
    /// Dropping the future, or the answer before its end, hangs up.
    pub(crate) async fn send(&self, body: Bytes) -> Result<Posted, Error> {
        let request = |path, mut headers: HeaderMap| {
            let mut request = Request::new(Full::new(body.clone()));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = Uri::from(path);
            let accept = HeaderValue::from_static("text/event-stream, application/json");
            headers.insert(header::ACCEPT, accept);
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
            *request.headers_mut() = headers;
            Ok(request)
        };
        // No clock does: whoever asks also clears away what the endpoint has hung up since.
        self.0.pool.sweep();
        let (parts, mut body) = self.0.ask(request).await?;
        let media = match media_type(&parts.headers) {
            Some(media) => media,
            // Why it refuses is read as it comes, if it comes at all.
            None if !parts.status.is_success() => Media::Other,
            None => body.sniff().await?,
        };
        let messages = BodyMessages::new(body, media, self.0.max_message_bytes);
        Ok(Posted {
            status: parts.status.as_u16(),
            headers: parts.headers,
            media,
            messages: Box::new(messages.taking(Names::Any)),
        })
    }

    /// Where it leads, for error texts: never holds credentials.
    pub(crate) fn target(&self) -> &str {
        &self.0.endpoint.shown
    }

    /// Credentials that are sent and must never be shown.
    pub(crate) fn secrets(&self) -> Arc<[Arc<str>]> {
        self.0.secrets()
    }
}
