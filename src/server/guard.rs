//! Who may ask a server over HTTP, and what it tells those that it does not let in.
//!
//! Owns the credentials until the server serves; must not know requests.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::builder::McpServerBuilder;
use crate::error::{Error, Result};
use crate::mcp::frame::Principal;
use crate::transport::http::authorize::{
    Authorization, Challenge, Denied, Hook, Judge, RequestHead,
};
use crate::transport::http::tokens::Tokens;

/// What the builder was told.
#[derive(Clone, Default)]
pub(super) struct Guard {
    /// There may be none of them, which lets nobody in.
    tokens: Option<Vec<(Option<Principal>, String)>>,
    hook: Option<Hook>,
    challenge: Challenge,
}

impl Guard {
    pub(super) fn admits_all(&self) -> bool {
        self.hook.is_none() && self.tokens.is_none()
    }

    /// What asks for credentials; `None` if nothing does.
    pub(super) fn authorization(&self) -> Result<Option<Authorization>> {
        let judge = match (&self.hook, &self.tokens) {
            (None, None) => {
                let Challenge {
                    resource_metadata,
                    scope,
                } = &self.challenge;
                return match resource_metadata.is_some() || scope.is_some() {
                    true => Err(Error::config(
                        "there is a challenge and nothing that asks for credentials: \
                         add bearer_token or authorize",
                    )),
                    false => Ok(None),
                };
            }
            (Some(hook), None) => Judge::Hook(hook.clone()),
            (None, Some(tokens)) => Judge::Tokens(Tokens::new(tokens)?),
            (Some(_), Some(_)) => {
                return Err(Error::config(
                    "bearer_token and authorize exclude each other: let authorize check the tokens",
                ));
            }
        };
        Authorization::new(judge, self.challenge.clone()).map(Some)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("tokens", &self.tokens.as_ref().map(Vec::len))
            .field("hook", &self.hook.is_some())
            .field("challenge", &self.challenge)
            .finish()
    }
}

/// Who may ask.
impl McpServerBuilder {
    /// Lets only clients ask over HTTP that send this token, as `Authorization: Bearer`. May be
    /// repeated: each of the tokens is good, so that one can take the place of another.
    ///
    /// Others are refused by status 401 before anything of their request is read but its head. All
    /// clients with a token of this kind are one: to tell them apart there is
    /// [`bearer_tokens`](Self::bearer_tokens). A client over stdio or in memory is not asked.
    /// Without TLS, or a proxy that has it, whoever listens on the network reads the token.
    ///
    /// A token is of visible ASCII, of any length. It is compared in constant time, and never shown.
    /// What is wrong with it is [`Error::Config`](crate::Error::Config) when the server is to serve.
    ///
    /// ```
    /// # use agent_hub_kit::McpServer;
    /// # let token = String::from("0f6d5c");
    /// let server = McpServer::builder("guarded", "0.1.0").bearer_token(token).build();
    /// # server.into_service().unwrap();
    /// ```
    pub fn bearer_token(mut self, token: impl Into<String>) -> Self {
        let tokens = self.guard_mut().tokens.get_or_insert_default();
        tokens.push((None, token.into()));
        self
    }

    /// As [`bearer_token`](Self::bearer_token), with the name of the principal that each token is
    /// of. A principal may have several. A list without any is
    /// [`Error::Config`](crate::Error::Config) when the server is to serve: it would let nobody in.
    ///
    /// A handler sees the name as [`ToolContext::principal`](crate::ToolContext::principal). A
    /// session belongs to the principal that opened it: to all others it does not exist.
    ///
    /// ```
    /// # use agent_hub_kit::{McpServer, RawArgs, Tool, ToolContext};
    /// let server = McpServer::builder("guarded", "0.1.0")
    ///     .bearer_tokens([("alice", "0f6d5c"), ("bob", "a41b77")])
    ///     .tool(Tool::new("whoami"), async |_: RawArgs, ctx: ToolContext| {
    ///         Ok(ctx.principal().unwrap_or("nobody").to_owned())
    ///     })
    ///     .build();
    /// # server.into_service().unwrap();
    /// ```
    pub fn bearer_tokens<P, T>(mut self, tokens: impl IntoIterator<Item = (P, T)>) -> Self
    where
        P: Into<Principal>,
        T: Into<String>,
    {
        let tokens = tokens.into_iter().map(|(p, t)| (Some(p.into()), t.into()));
        let known = self.guard_mut().tokens.get_or_insert_default();
        known.extend(tokens);
        self
    }

    /// Asks this hook who sends each request over HTTP, before its body is read and after its
    /// `Host` and `Origin` were found good. In the place of
    /// [`bearer_tokens`](Self::bearer_tokens), where these do not suffice.
    ///
    /// The hook sees the head of the request, and says the principal or why there is none. It is
    /// asked anew for every request, also for those that open a stream, go on with one or end a
    /// session, and not again while a stream is open. It may take
    /// [`Limits::authorize_timeout`](crate::Limits::authorize_timeout). If it panics, the request
    /// is refused by status 500, and nothing else comes of it. It is not asked for the preflight
    /// of a browser, which has no credentials.
    ///
    /// ```
    /// use agent_hub_kit::{Denied, McpServer, Principal, RequestHead};
    ///
    /// # async fn user_of(token: &str) -> Result<Option<String>, std::io::Error> { Ok(None) }
    /// let server = McpServer::builder("guarded", "0.1.0")
    ///     .authorize(async |head: RequestHead| {
    ///         let token = head.bearer_token().ok_or_else(Denied::unauthorized)?;
    ///         let user = user_of(token).await.map_err(|_| Denied::unavailable())?;
    ///         user.map(Principal::from).ok_or_else(Denied::unauthorized)
    ///     })
    ///     .build();
    /// # server.into_service().unwrap();
    /// ```
    ///
    /// # Cancel safety
    /// The hook's future is dropped when the client hangs up, or when its time is over.
    pub fn authorize<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(RequestHead) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Principal, Denied>> + Send + 'static,
    {
        let hook: Hook = Arc::new(move |head| Box::pin(hook(head)));
        self.guard_mut().hook = Some(hook);
        self
    }

    /// Where clients that are refused learn how to get a token: the URL of the server's protected
    /// resource metadata (RFC 9728), told as `resource_metadata` in `WWW-Authenticate`. That
    /// document is not served here.
    ///
    /// ```
    /// # use agent_hub_kit::McpServer;
    /// let server = McpServer::builder("guarded", "0.1.0")
    ///     .bearer_token("0f6d5c")
    ///     .challenge_resource_metadata("https://a.example/.well-known/oauth-protected-resource")
    ///     .build();
    /// # server.into_service().unwrap();
    /// ```
    pub fn challenge_resource_metadata(mut self, url: impl Into<String>) -> Self {
        self.guard_mut().challenge.resource_metadata = Some(url.into());
        self
    }

    /// The scopes that a token needs, with spaces between them, told as `scope` in
    /// `WWW-Authenticate`. Whether a token has them is for [`authorize`](Self::authorize) to see.
    ///
    /// ```
    /// # use agent_hub_kit::McpServer;
    /// let server = McpServer::builder("guarded", "0.1.0")
    ///     .bearer_token("0f6d5c")
    ///     .challenge_scope("tools:list tools:call")
    ///     .build();
    /// # server.into_service().unwrap();
    /// ```
    pub fn challenge_scope(mut self, scope: impl Into<String>) -> Self {
        self.guard_mut().challenge.scope = Some(scope.into());
        self
    }
}
