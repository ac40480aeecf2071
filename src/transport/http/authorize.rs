//! Who sends a request: by the bearer tokens of the server, or by what a hook of the user says.
//!
//! Knows the head of a request and RFC 6750, "The OAuth 2.0 Authorization Framework: Bearer Token
//! Usage"; must not know hosts, origins or what is asked for. Credentials come in the
//! `Authorization` header alone, and are never shown.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Extensions, Method, StatusCode, Uri};
use tokio::time::timeout;

use super::super::BoxFuture;
use super::refusal::Refusal;
use super::tokens::Tokens;
use crate::error::Error;
use crate::mcp::frame::Principal;

/// The head of an HTTP request, for [`authorize`](crate::McpServerBuilder::authorize). `Debug`
/// shows neither headers nor the query, which may hold secrets.
#[derive(Clone)]
pub struct RequestHead {
    parts: Parts,
    peer: Option<SocketAddr>,
}

impl RequestHead {
    /// The method.
    pub fn method(&self) -> &Method {
        &self.parts.method
    }

    /// The target, as it was sent.
    pub fn uri(&self) -> &Uri {
        &self.parts.uri
    }

    /// All headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// What outer layers of the app attached, if the server is
    /// [mounted](crate::McpServer::into_service) in one: its own word on who sent the request, or
    /// axum's `ConnectInfo`.
    pub fn extensions(&self) -> &Extensions {
        &self.parts.extensions
    }

    /// The address of the peer: of a proxy, if there is one before the server. `None` if the server
    /// is [mounted](crate::McpServer::into_service) in an app, which has the connection.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// The token of an `Authorization: Bearer` header; `None` if there is no such header, or if it
    /// is not to be understood.
    pub fn bearer_token(&self) -> Option<&str> {
        let token = bearer(self.headers()).ok().flatten()?;
        std::str::from_utf8(token).ok()
    }
}

impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead")
            .field("method", self.method())
            .field("path", &self.uri().path())
            .field("peer_addr", &self.peer)
            .finish_non_exhaustive()
    }
}

/// Why a request is refused, as [`authorize`](crate::McpServerBuilder::authorize) says it.
///
/// The client is told by status, by the `WWW-Authenticate` header and by a JSON-RPC error.
///
/// ```
/// use agent_hub_kit::Denied;
///
/// let denied = Denied::forbidden().scope("tools:call").description("this token may only list");
/// assert_eq!(denied.to_string(), "this token may only list");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    kind: Kind,
    scope: Option<String>,
    description: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Forbidden,
    Malformed,
    Unauthorized,
    Unavailable,
}

impl Denied {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            scope: None,
            description: None,
        }
    }

    /// Status 401: there are no credentials, or they are wrong or expired. The client may come back
    /// with others. If there was a bearer token, the header says `error="invalid_token"`.
    pub fn unauthorized() -> Self {
        Self::new(Kind::Unauthorized)
    }

    /// Status 403: the credentials are good, but not for this. The header says
    /// `error="insufficient_scope"`.
    pub fn forbidden() -> Self {
        Self::new(Kind::Forbidden)
    }

    /// Status 400: the credentials are not to be understood. The header says
    /// `error="invalid_request"`.
    pub fn malformed() -> Self {
        Self::new(Kind::Malformed)
    }

    /// Status 503, with `Retry-After`: it cannot be found out now.
    pub fn unavailable() -> Self {
        Self::new(Kind::Unavailable)
    }

    /// The scope that is needed, in the place of
    /// [`challenge_scope`](crate::McpServerBuilder::challenge_scope).
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }

    /// A text for whoever reads the client's error. It reaches a client that is not let in: it
    /// should hold no secret.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (&self.description, self.kind) {
            (Some(text), _) => text,
            (None, Kind::Forbidden) => "the credentials do not suffice for this request",
            (None, Kind::Malformed) => {
                "the Authorization header cannot be read: send `Authorization: Bearer TOKEN`, once"
            }
            (None, Kind::Unauthorized) => {
                "credentials are needed: send `Authorization: Bearer TOKEN` with a valid token"
            }
            (None, Kind::Unavailable) => {
                "whether the credentials are valid cannot be found out now: try again later"
            }
        })
    }
}

impl std::error::Error for Denied {}

/// The hook of the user.
pub(crate) type Hook =
    Arc<dyn Fn(RequestHead) -> BoxFuture<'static, Result<Principal, Denied>> + Send + Sync>;

/// How one server finds out who asks, and what it tells those that it does not let in.
pub(crate) struct Authorization {
    judge: Judge,
    challenge: Challenge,
}

pub(crate) enum Judge {
    Hook(Hook),
    Tokens(Tokens),
}

/// What a client is told of where to get credentials.
#[derive(Debug, Clone, Default)]
pub(crate) struct Challenge {
    pub(crate) resource_metadata: Option<String>,
    pub(crate) scope: Option<String>,
}

impl Authorization {
    /// # Errors
    /// [`Error::Config`] for a challenge that no header can carry.
    pub(crate) fn new(judge: Judge, challenge: Challenge) -> Result<Self, Error> {
        for (name, text) in [
            ("challenge_resource_metadata", &challenge.resource_metadata),
            ("challenge_scope", &challenge.scope),
        ] {
            let is_quotable = |text: &str| text == quotable(text) && !text.is_empty();
            if let Some(text) = text.as_ref().filter(|text| !is_quotable(text)) {
                return Err(Error::config(format!(
                    "{text:?} in {name} cannot stand in a WWW-Authenticate header"
                )));
            }
        }
        Ok(Self { judge, challenge })
    }

    /// Finds out who sent a request, within `patience`. Its body is not needed for that.
    ///
    /// # Cancel safety
    /// Dropped, it drops what the hook was doing.
    pub(crate) async fn admit(
        &self,
        parts: &Parts,
        peer: Option<SocketAddr>,
        patience: Duration,
    ) -> Result<Option<Principal>, Refusal> {
        let decided = match &self.judge {
            Judge::Tokens(tokens) => bearer(&parts.headers).and_then(|sent| {
                let found = sent.and_then(|sent| tokens.find(sent));
                found.ok_or_else(Denied::unauthorized)
            }),
            Judge::Hook(hook) => {
                let parts = parts.clone();
                let asking = Asking::begin(hook, RequestHead { parts, peer });
                let Ok(answer) = timeout(patience, asking).await else {
                    return Err(Refusal::slow_authorization(patience));
                };
                answer.ok_or_else(Refusal::broken_authorization)?.map(Some)
            }
        };
        decided.map_err(|denied| {
            // What is of another scheme was not looked at (RFC 6750, 3.1).
            let shown = !matches!(bearer(&parts.headers), Ok(None));
            self.challenge.refusal(&denied, shown)
        })
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").finish_non_exhaustive()
    }
}

impl Challenge {
    /// `shown`: the request had credentials of the scheme that is asked for.
    fn refusal(&self, denied: &Denied, shown: bool) -> Refusal {
        let (status, error) = match denied.kind {
            Kind::Forbidden => (StatusCode::FORBIDDEN, Some("insufficient_scope")),
            Kind::Malformed => (StatusCode::BAD_REQUEST, Some("invalid_request")),
            Kind::Unauthorized if shown => (StatusCode::UNAUTHORIZED, Some("invalid_token")),
            // RFC 6750, 3.1: who sent nothing is told nothing of an error.
            Kind::Unauthorized => (StatusCode::UNAUTHORIZED, None),
            Kind::Unavailable => return Refusal::no_authorization(denied.to_string()),
        };
        let described = denied.description.as_deref().filter(|_| error.is_some());
        let parameters: Vec<_> = [
            ("error", error),
            ("error_description", described),
            ("scope", denied.scope.as_deref().or(self.scope.as_deref())),
            ("resource_metadata", self.resource_metadata.as_deref()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}=\"{}\"", quotable(value?))))
        .collect();
        let header = format!("Bearer {}", parameters.join(", "));
        let header = HeaderValue::try_from(header.trim_end());
        let header = header.unwrap_or(HeaderValue::from_static("Bearer"));
        Refusal::challenge(status, header, denied.to_string())
    }
}

/// The text with nothing in it that a quoted string of that header cannot hold.
fn quotable(text: &str) -> String {
    let plain = |c| match c {
        '"' => '\'',
        '\\' => '/',
        ' '..='~' => c,
        _ => '?',
    };
    text.chars().map(plain).collect()
}

/// The token that a request shows. Of another scheme than `Bearer` there is none.
fn bearer(headers: &HeaderMap) -> Result<Option<&[u8]>, Denied> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Denied::malformed());
    }
    let value = value.as_bytes().trim_ascii();
    let end = value.iter().position(|b| *b == b' ');
    let (scheme, token) = value.split_at(end.unwrap_or(value.len()));
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Ok(None);
    }
    let token = token.trim_ascii();
    match token.is_empty() || token.iter().any(u8::is_ascii_whitespace) {
        true => Err(Denied::malformed()),
        false => Ok(Some(token)),
    }
}

/// The hook at work; `None` if it panicked, which fails the request and nothing else.
struct Asking(Option<BoxFuture<'static, Result<Principal, Denied>>>);

impl Asking {
    fn begin(hook: &Hook, head: RequestHead) -> Self {
        Self(catch_unwind(AssertUnwindSafe(|| hook(head))).ok())
    }
}

impl Future for Asking {
    type Output = Option<Result<Principal, Denied>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        match polled {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    }
}

impl Drop for Asking {
    /// What it owns may panic then as well.
    fn drop(&mut self) {
        let future = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
    }
}

#[cfg(test)]
mod tests;
