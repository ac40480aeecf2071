//! Connecting servers over Streamable HTTP.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::connect::{Candidate, OnError, Policy};
use super::header_provider::{HeaderProvider, HeaderRequest, header};
use super::hub::AgentHubClient;
use super::registry::ToolRef;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::mcp::version::Era;
use crate::transport::http::client::{HttpConfig, HttpLink};
use crate::transport::{BoxFuture, Link};

impl AgentHubClient {
    /// Connects a server by its URL, which is used as it is written, and gives its tools. `https`
    /// needs the feature `tls` and trusts whom the system trusts, or, where the environment variable
    /// `SSL_CERT_FILE` names one, the roots in that file; and those that the hub was given by
    /// `AgentHubClientBuilder::extra_roots`.
    ///
    /// ```no_run
    /// # async fn f(hub: agent_hub_kit::AgentHubClient) -> agent_hub_kit::Result<()> {
    /// use std::time::Duration;
    ///
    /// let tools = hub
    ///     .connect_http("weather", "http://127.0.0.1:8001/mcp")
    ///     .connect_timeout(Duration::from_secs(5))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Connect`] if it cannot be reached or does not speak the protocol, and
    /// [`Error::Config`] for a bad URL, unless [`on_error`](ConnectHttp::on_error) says otherwise;
    /// [`Error::Config`] for a name in use or a bad header.
    ///
    /// # Cancel safety
    /// Dropping the future gives the connection up; the name is free again, or what it was.
    pub fn connect_http(&self, name: impl Into<String>, url: impl Into<String>) -> ConnectHttp {
        ConnectHttp {
            name: name.into(),
            url: url.into(),
            replace: false,
            options: Options::new(self),
        }
    }

    /// Connects a server anew, under the name and in the place that it has:
    /// [`connect_http`](Self::connect_http) with [`replace`](ConnectHttp::replace). An unknown name
    /// is connected.
    ///
    /// # Errors
    /// Those of [`connect_http`](Self::connect_http); then the connection that it had is kept.
    ///
    /// # Cancel safety
    /// Dropping the future keeps the connection that it had, unless the new one is ready: then the
    /// old one is closed without goodbye.
    pub fn reconnect_http(&self, name: impl Into<String>, url: impl Into<String>) -> ConnectHttp {
        self.connect_http(name, url).replace(true)
    }

    /// Connects servers in parallel, given as names and URLs, and gives the tools of each. The order
    /// of the servers is the one given, whoever answers first; each can be used as soon as it is
    /// connected.
    ///
    /// ```no_run
    /// # async fn f(hub: agent_hub_kit::AgentHubClient) -> agent_hub_kit::Result<()> {
    /// use agent_hub_kit::OnError;
    ///
    /// let tools = hub
    ///     .connect_all_http([
    ///         ("weather", "http://127.0.0.1:8001/mcp"),
    ///         ("search", "http://127.0.0.1:8002/mcp"),
    ///     ])
    ///     .on_error(OnError::Warn)
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::ConnectMany`] with every server that failed; those that were connected are
    /// disconnected again. With another [`on_error`](ConnectAllHttp::on_error) a server that fails
    /// has no tools, and only what is wrong on this side is an error, before anything is sent: a
    /// name in use or given twice, or a bad header, is [`Error::Config`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up those that are not connected yet, and, if a failure would be an
    /// error, also the others.
    pub fn connect_all_http<N, U>(
        &self,
        endpoints: impl IntoIterator<Item = (N, U)>,
    ) -> ConnectAllHttp
    where
        N: Into<String>,
        U: Into<String>,
    {
        let endpoints = endpoints.into_iter();
        ConnectAllHttp {
            endpoints: endpoints
                .map(|(name, url)| (name.into(), url.into()))
                .collect(),
            options: Options::new(self),
        }
    }
}

/// A connection that is made when it is awaited. See
/// [`connect_http`](AgentHubClient::connect_http).
#[must_use = "a server is connected when this is awaited"]
pub struct ConnectHttp {
    name: String,
    url: String,
    replace: bool,
    options: Options,
}

/// Connections that are made when this is awaited. See
/// [`connect_all_http`](AgentHubClient::connect_all_http).
#[must_use = "servers are connected when this is awaited"]
pub struct ConnectAllHttp {
    endpoints: Vec<(String, String)>,
    options: Options,
}

impl ConnectHttp {
    /// Sends a header with every request to this server, and to no other origin. Its value is
    /// never shown in errors or logs.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.options.header(name.as_ref(), value.as_ref());
        self
    }

    /// Sends `Authorization: Bearer` with every request to this server, and no other
    /// `Authorization`.
    pub fn bearer_token(mut self, token: impl AsRef<str>) -> Self {
        self.options.bearer_token(token.as_ref());
        self
    }

    /// Has code of yours make headers for each request to this server: a POST, the stream that tells
    /// of changes, the goodbye. They take the place of [`header`](Self::header)s of the same name,
    /// are sent to no other origin, and are never shown in errors or logs. Given again, the last one
    /// counts.
    ///
    /// When the server answers 401, the provider is asked once more, with
    /// [`is_refused`](HeaderRequest::is_refused), and the request is sent once more: it was not run.
    /// A call whose events have begun to come is never sent again. Calls that run at once ask at
    /// once, so what a provider renews it should renew for all of them, behind a lock.
    ///
    /// A provider that fails, panics, takes longer than [`Limits::header_provider_timeout`] or gives
    /// what cannot be sent fails the request with [`Error::HeaderProvider`], whose source says why.
    /// Nothing was sent then, or it was refused; other calls go on.
    ///
    /// ```no_run
    /// # async fn fetch_token() -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # async fn f(hub: agent_hub_kit::AgentHubClient) -> agent_hub_kit::Result<()> {
    /// use std::sync::Arc;
    /// use tokio::sync::Mutex;
    ///
    /// let token = Arc::new(Mutex::new(None::<String>));
    /// hub.connect_http("weather", "https://weather.example/mcp")
    ///     .header_provider(move |request| {
    ///         let token = token.clone();
    ///         async move {
    ///             let mut token = token.lock().await;
    ///             if token.is_none() || request.is_refused() {
    ///                 *token = Some(fetch_token().await?);
    ///             }
    ///             let token = token.as_deref().unwrap_or_default();
    ///             Ok([("authorization", format!("Bearer {token}"))])
    ///         }
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// The provider's future is dropped when the call that it is for is.
    pub fn header_provider<F, Fut, H, N, V>(mut self, provide: F) -> Self
    where
        F: Fn(HeaderRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<H, Box<dyn StdError + Send + Sync>>> + Send + 'static,
        H: IntoIterator<Item = (N, V)>,
        N: AsRef<str>,
        V: AsRef<str>,
    {
        self.options.provider = Some(HeaderProvider::new(provide));
        self
    }

    /// The longest that connecting may take as a whole. Default
    /// [`Limits::connect_timeout`].
    pub fn connect_timeout(mut self, after: Duration) -> Self {
        self.options.limits.connect_timeout = after;
        self
    }

    /// Looks first whether anybody listens there, for so long at most, so that a server that is
    /// down is known sooner. All addresses of its host are tried. Not done by default.
    pub fn probe_timeout(mut self, after: Duration) -> Self {
        self.options.probe = Some(after);
        self
    }

    /// Which era of the protocol to speak. Default [`Era::Auto`]: it is found out, and remembered
    /// for the next connection to the same origin and path
    /// ([`Limits::max_known_servers`]). What is spoken then is in
    /// [`ServerStatus::protocol_version`](crate::ServerStatus::protocol_version).
    pub fn era(mut self, era: Era) -> Self {
        self.options.era = era;
        self
    }

    /// What to do if it fails. Default [`OnError::Raise`].
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.options.on_error = on_error;
        self
    }

    /// Takes the place of a server of the same name, if there is one. Its connection is closed once
    /// the new one is ready, and its running calls end with `terminal_error`; if the new one fails,
    /// it stays. Default false: a name in use is an error.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }
}

impl ConnectAllHttp {
    /// Sends a header with every request to these servers. Its value is never shown in errors or
    /// logs.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.options.header(name.as_ref(), value.as_ref());
        self
    }

    /// Sends `Authorization: Bearer` with every request to these servers: each of them learns the
    /// token.
    pub fn bearer_token(mut self, token: impl AsRef<str>) -> Self {
        self.options.bearer_token(token.as_ref());
        self
    }

    /// As [`ConnectHttp::header_provider`], one provider for all of these servers:
    /// [`HeaderRequest::server`] tells which one it is asked for.
    ///
    /// ```no_run
    /// # async fn f(hub: agent_hub_kit::AgentHubClient) -> agent_hub_kit::Result<()> {
    /// let tools = hub
    ///     .connect_all_http([
    ///         ("weather", "https://weather.example/mcp"),
    ///         ("search", "https://search.example/mcp"),
    ///     ])
    ///     .header_provider(async |request| {
    ///         let token = std::env::var(format!("{}_TOKEN", request.server().to_uppercase()))?;
    ///         Ok([("authorization", format!("Bearer {token}"))])
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn header_provider<F, Fut, H, N, V>(mut self, provide: F) -> Self
    where
        F: Fn(HeaderRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<H, Box<dyn StdError + Send + Sync>>> + Send + 'static,
        H: IntoIterator<Item = (N, V)>,
        N: AsRef<str>,
        V: AsRef<str>,
    {
        self.options.provider = Some(HeaderProvider::new(provide));
        self
    }

    /// The longest that connecting one server, and so all of them, may take. Default
    /// [`Limits::connect_timeout`].
    pub fn connect_timeout(mut self, after: Duration) -> Self {
        self.options.limits.connect_timeout = after;
        self
    }

    /// As [`ConnectHttp::probe_timeout`].
    pub fn probe_timeout(mut self, after: Duration) -> Self {
        self.options.probe = Some(after);
        self
    }

    /// Which era of the protocol to speak. Default [`Era::Auto`]: it is found out, and remembered
    /// for the next connection to the same origin and path
    /// ([`Limits::max_known_servers`]). What is spoken then is in
    /// [`ServerStatus::protocol_version`](crate::ServerStatus::protocol_version).
    pub fn era(mut self, era: Era) -> Self {
        self.options.era = era;
        self
    }

    /// What to do if some fail. Default [`OnError::Raise`].
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.options.on_error = on_error;
        self
    }
}

/// What one connect and many have in common.
struct Options {
    hub: AgentHubClient,
    headers: Vec<(HeaderName, HeaderValue)>,
    provider: Option<HeaderProvider>,
    fault: Option<Error>,
    limits: Limits,
    probe: Option<Duration>,
    era: Era,
    on_error: OnError,
}

impl Options {
    fn new(hub: &AgentHubClient) -> Self {
        Self {
            hub: hub.clone(),
            headers: Vec::new(),
            provider: None,
            fault: None,
            limits: hub.shared().limits().clone(),
            probe: None,
            era: Era::default(),
            on_error: OnError::default(),
        }
    }

    fn header(&mut self, name: &str, value: &str) {
        match header(name, value) {
            Ok(header) => self.headers.push(header),
            Err(fault) => drop(self.fault.get_or_insert(fault)),
        }
    }

    fn bearer_token(&mut self, token: &str) {
        self.headers.retain(|(name, _)| name != AUTHORIZATION);
        self.header(AUTHORIZATION.as_str(), &format!("Bearer {token}"));
    }

    /// # Errors
    /// For a header that cannot be sent.
    fn check(&self) -> Result<()> {
        match &self.fault {
            Some(fault) => Err(fault.clone()),
            None => HttpLink::check_headers(self.headers.iter().map(|(name, _)| name)),
        }
    }

    fn candidate(&self, name: String, url: &str) -> Candidate {
        let name: Arc<str> = name.into();
        let config = HttpConfig {
            headers: self.headers.clone(),
            provide: self.provider.as_ref().map(|provider| provider.of(&name)),
            trust: self.hub.shared().trust.clone(),
        };
        let link = HttpLink::new(url, config, &self.limits);
        let probe = self.probe;
        Candidate {
            name,
            target: HttpLink::target_of(url).into(),
            link: Box::pin(async move {
                let link = link?;
                if let Some(after) = probe {
                    link.probe(after).await?;
                }
                Ok(Box::new(link) as Box<dyn Link>)
            }),
            limits: self.limits.clone(),
            era: self.era,
        }
    }
}

impl IntoFuture for ConnectHttp {
    type Output = Result<Vec<ToolRef>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { options, .. } = self;
            options.check()?;
            let policy = Policy {
                on_error: options.on_error,
                replace: self.replace,
            };
            let candidate = options.candidate(self.name, &self.url);
            options.hub.shared().connect(candidate, policy).await
        })
    }
}

impl IntoFuture for ConnectAllHttp {
    type Output = Result<Vec<(String, Vec<ToolRef>)>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { options, endpoints } = self;
            options.check()?;
            let policy = Policy {
                on_error: options.on_error,
                replace: false,
            };
            let candidates = endpoints
                .into_iter()
                .map(|(name, url)| options.candidate(name, &url))
                .collect();
            options.hub.shared().connect_all(candidates, policy).await
        })
    }
}

impl fmt::Debug for ConnectHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectHttp")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ConnectAllHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.endpoints.iter().map(|(name, _)| name);
        f.debug_struct("ConnectAllHttp")
            .field("names", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
