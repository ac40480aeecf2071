//! Headers that are made anew for each request.
//!
//! Owns how long that may take, what comes of a failure, and what was given lately, so that it is
//! not shown; must not know who makes them.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;

use super::peer::{check_headers, secrets_in};
use crate::error::{Error, Source};
use crate::limits::Limits;
use crate::transport::BoxFuture;

/// Makes the headers of one request.
pub(crate) type Provide = dyn Fn(Occasion) -> BoxFuture<'static, Provided> + Send + Sync;

/// What it made, or why it could not.
pub(crate) type Provided = Result<Vec<(HeaderName, HeaderValue)>, Source>;

/// Why headers are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// The server answered 401 to the headers that were made before.
    Refusal,
    /// A request is to be sent.
    Request,
}

/// The headers of one peer that are made for each request.
pub(super) struct Provider {
    provide: Arc<Provide>,
    timeout: Duration,
    is_written: fn(&HeaderName) -> bool,
    /// How many of the secrets are there for good.
    configured: usize,
    secrets: Mutex<Arc<[Arc<str>]>>,
}

/// Values that were given lately and are not shown. Answers to requests that went out with older
/// ones may still come.
const MAX_SECRETS: usize = 256;

impl Provider {
    /// `is_written` tells which headers the transport writes itself; `secrets` are those of every
    /// request.
    pub(super) fn new(
        provide: Arc<Provide>,
        is_written: fn(&HeaderName) -> bool,
        secrets: Arc<[Arc<str>]>,
        limits: &Limits,
    ) -> Self {
        Self {
            provide,
            timeout: limits.header_provider_timeout,
            is_written,
            configured: secrets.len(),
            secrets: Mutex::new(secrets),
        }
    }

    /// All headers of a request: `configured`, where those that are made take the place of others
    /// of their name. In a box, since most requests have no such part.
    pub(super) fn headers<'a>(
        &'a self,
        configured: &'a HeaderMap,
        occasion: Occasion,
    ) -> BoxFuture<'a, Result<HeaderMap, Error>> {
        Box::pin(async move {
            let made = timeout(self.timeout, guarded(&*self.provide, occasion)).await;
            let late = |_| {
                let late = Error::timeout("header_provider_timeout", self.timeout);
                Err(Source::from(Box::from(late)))
            };
            let made = made.unwrap_or_else(late).map_err(Error::header_provider)?;
            check_headers(made.iter().map(|(name, _)| name), self.is_written)
                .map_err(|error| Error::header_provider(Arc::new(error)))?;
            let mut headers = configured.clone();
            for (name, _) in &made {
                headers.remove(name);
            }
            let (hosts, made): (Vec<_>, Vec<_>) =
                made.into_iter().partition(|(name, _)| *name == HOST);
            self.keep(made.iter().map(|(_, value)| value));
            for (name, mut value) in made {
                value.set_sensitive(true);
                headers.append(name, value);
            }
            // There is one only, and it is no secret.
            headers.extend(hosts.into_iter().next_back());
            Ok(headers)
        })
    }

    /// Whatever must not be shown.
    pub(super) fn secrets(&self) -> Arc<[Arc<str>]> {
        self.lock().clone()
    }

    fn keep<'a>(&self, values: impl Iterator<Item = &'a HeaderValue>) {
        let mut kept = self.lock();
        let mut added: Vec<Arc<str>> = Vec::new();
        for secret in values.flat_map(secrets_in) {
            if !kept.contains(&secret) && !added.contains(&secret) {
                added.push(secret);
            }
        }
        if added.is_empty() {
            return;
        }
        let (configured, lately) = kept.split_at_checked(self.configured).unwrap_or_default();
        let lately = added.iter().chain(lately).take(MAX_SECRETS);
        *kept = configured.iter().chain(lately).cloned().collect();
    }

    fn lock(&self) -> MutexGuard<'_, Arc<[Arc<str>]>> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A panic is a failure as any other. Its text is for its developer, who has it on stderr.
async fn guarded(provide: &Provide, occasion: Occasion) -> Provided {
    let panicked = |_| Err(Source::from(Box::from("it panicked")));
    let mut making = match catch_unwind(AssertUnwindSafe(|| provide(occasion))) {
        Ok(making) => Guarded(Some(making)),
        Err(panic) => return panicked(panic),
    };
    poll_fn(|cx| match &mut making.0 {
        None => Poll::Pending,
        Some(making) => match catch_unwind(AssertUnwindSafe(|| making.as_mut().poll(cx))) {
            Ok(polled) => polled,
            Err(panic) => Poll::Ready(panicked(panic)),
        },
    })
    .await
}

/// What is being made; it may panic when it is dropped as well, most likely if it did before.
struct Guarded(Option<BoxFuture<'static, Provided>>);

impl Drop for Guarded {
    fn drop(&mut self) {
        let making = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(making)));
    }
}
