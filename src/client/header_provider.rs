//! Headers that a user's code makes for each request.
//!
//! Owns what that code is asked and what it gives; must not know when it is asked.

use std::error::Error as StdError;
use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};

use crate::error::{Error, Result, Source};
use crate::transport::BoxFuture;
use crate::transport::http::provider::{Occasion, Provide, Provided};

/// What a [header provider](crate::ConnectHttp::header_provider) is asked for: the headers of one
/// request to a server.
///
/// ```no_run
/// # async fn f(hub: agent_hub_kit::AgentHubClient) -> agent_hub_kit::Result<()> {
/// use agent_hub_kit::HeaderRequest;
///
/// hub.connect_http("weather", "https://weather.example/mcp")
///     .header_provider(async |request: HeaderRequest| {
///         eprintln!("{} wants a token, refused: {}", request.server(), request.is_refused());
///         Ok([("authorization", "Bearer ...")])
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct HeaderRequest {
    server: Arc<str>,
    occasion: Occasion,
}

impl HeaderRequest {
    /// The name given to the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// True if the server has just answered 401 to the headers that were made for this request: what
    /// is kept of them is of no use any more. The request is sent once more with what is given now,
    /// and a second 401 is the answer.
    pub fn is_refused(&self) -> bool {
        self.occasion == Occasion::Refusal
    }
}

/// Code that makes headers, whatever types it gives.
pub(super) struct HeaderProvider(Arc<Erased>);

type Erased = dyn Fn(HeaderRequest) -> BoxFuture<'static, Provided> + Send + Sync;

impl HeaderProvider {
    pub(super) fn new<F, Fut, H, N, V>(provide: F) -> Self
    where
        F: Fn(HeaderRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<H, Box<dyn StdError + Send + Sync>>> + Send + 'static,
        H: IntoIterator<Item = (N, V)>,
        N: AsRef<str>,
        V: AsRef<str>,
    {
        Self(Arc::new(move |request| {
            let making = provide(request);
            Box::pin(async move {
                let made = making.await?.into_iter();
                made.map(|(name, value)| header(name.as_ref(), value.as_ref()))
                    .collect::<Result<_>>()
                    .map_err(|error| Source::from(Box::from(error)))
            })
        }))
    }

    /// For the link to the server of this name.
    pub(super) fn of(&self, server: &Arc<str>) -> Arc<Provide> {
        let (provide, server) = (self.0.clone(), server.clone());
        Arc::new(move |occasion| {
            provide(HeaderRequest {
                server: server.clone(),
                occasion,
            })
        })
    }
}

/// # Errors
/// [`Error::Config`] says which part cannot be sent; nothing of the value is shown.
pub(super) fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue)> {
    match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
        (Ok(name), Ok(mut value)) => {
            value.set_sensitive(true);
            Ok((name, value))
        }
        (Err(_), _) => Err(Error::config(format!("{name:?} is no header name"))),
        (_, Err(_)) => Err(Error::config(format!(
            "the value of the header `{name}` cannot be sent"
        ))),
    }
}
