//! How a hub is put together.

use std::fmt;
use std::sync::Arc;

use super::event_queue::ObserveAside;
use super::events::{HubEvent, Observe, Observer};
use super::hub::AgentHubClient;
use crate::limits::Limits;
use crate::mcp::types::Implementation;
use crate::transport::tls::Trust;

/// Puts an [`AgentHubClient`] together.
#[must_use = "a builder does nothing until it is built"]
pub struct AgentHubClientBuilder {
    pub(super) client: Implementation,
    pub(super) limits: Limits,
    pub(super) follows_list_changes: bool,
    pub(super) trust: Trust,
    inline: Option<Arc<Observe>>,
    aside: Option<Arc<ObserveAside>>,
}

impl AgentHubClientBuilder {
    pub(super) fn new() -> Self {
        let client = Implementation {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Self {
            client,
            limits: Limits::default(),
            follows_list_changes: true,
            trust: Trust::default(),
            inline: None,
            aside: None,
        }
    }

    /// Watches everything that happens: each event of each call as it is read, and what becomes of
    /// the servers. Runs inline, so it should be quick; a panic in it disturbs no call.
    ///
    /// ```
    /// use agent_hub_kit::{AgentHubClient, HubEvent};
    ///
    /// let hub = AgentHubClient::builder()
    ///     .on_event(|event: &HubEvent| eprintln!("{event:?}"))
    ///     .build();
    /// # let _ = hub;
    /// ```
    pub fn on_event(mut self, observe: impl Fn(&HubEvent) + Send + Sync + 'static) -> Self {
        self.inline = Some(Arc::new(observe));
        self
    }

    /// As [`on_event`](Self::on_event), for an observer that takes its time: it runs in the hub's
    /// own task, one event after the other. At most [`Limits::max_queued_hub_events`] and
    /// [`Limits::max_queued_hub_bytes`] wait for it; beyond that the oldest is dropped, and a [`HubEvent::Warning`] says how many were. A panic in
    /// it costs it one event. It is stopped when the last clone of the hub is dropped;
    /// [`close`](AgentHubClient::close) lets it catch up for a moment.
    ///
    /// ```
    /// use agent_hub_kit::{AgentHubClient, HubEvent};
    ///
    /// let (sender, events) = tokio::sync::mpsc::channel(8);
    /// let hub = AgentHubClient::builder()
    ///     .on_event_async(move |event: HubEvent| {
    ///         let sender = sender.clone();
    ///         async move {
    ///             let _ = sender.send(event).await;
    ///         }
    ///     })
    ///     .build();
    /// # let _ = (hub, events);
    /// ```
    pub fn on_event_async<F, Fut>(mut self, observe: F) -> Self
    where
        F: Fn(HubEvent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.aside = Some(Arc::new(move |event| Box::pin(observe(event))));
        self
    }

    pub(super) fn observer(&self) -> Observer {
        Observer::new(self.inline.clone(), self.aside.clone(), &self.limits)
    }

    /// The bounds to keep.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether the hub listens to servers that tell when their tools change. On by default: over
    /// HTTP it costs a connection to each such server, which is taken up again whenever it ends. Without it the change is still
    /// learnt when it is told on the stream of a call, or when a call meets an unknown tool.
    pub fn follow_list_changes(mut self, follow: bool) -> Self {
        self.follows_list_changes = follow;
        self
    }

    /// What the hub tells servers of itself. Default: the name and version of this crate.
    pub fn client_info(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.client = Implementation {
            name: name.into(),
            version: version.into(),
        };
        self
    }

    /// The hub, without any server yet.
    pub fn build(self) -> AgentHubClient {
        AgentHubClient::new(self)
    }
}

impl fmt::Debug for AgentHubClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentHubClientBuilder")
            .field("client", &self.client.name)
            .field("observer", &self.observer())
            .finish_non_exhaustive()
    }
}
