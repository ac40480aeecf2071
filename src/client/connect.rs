//! Bringing servers into the hub.
//!
//! Owns what becomes of a place in the order while its server is connected, and afterwards; must not
//! know what carries its frames.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::timeout;

use super::connection::Connection;
use super::driver::now;
use super::events::ServerChange;
use super::hub::{Hub, named};
use super::join::join_all;
use super::registry::{Filled, ToolRef};
use crate::error::{Error, Result};
use crate::event::describe;
use crate::limits::Limits;
use crate::mcp::version::Era;
use crate::session::negotiate::Negotiation;
use crate::transport::{BoxFuture, Link};

/// What to do when a server cannot be connected. What is wrong on this side is an error in any
/// case: a name that is empty or in use, a header that cannot be sent, a hub that is closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// It is the error of the connect. The default.
    #[default]
    Raise,
    /// Go on without it: it has no tools, and
    /// [`servers`](crate::AgentHubClient::servers) says why.
    Skip,
    /// As [`Skip`](Self::Skip), and warn the observer; without one, standard error gets a line.
    Warn,
}

/// What a connect was told beside name and place.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Policy {
    pub(crate) on_error: OnError,
    /// A server of that name may be connected already.
    pub(crate) replace: bool,
}

/// A server to connect.
pub(crate) struct Candidate {
    pub(crate) name: Arc<str>,
    /// Where it is, for people.
    pub(crate) target: Arc<str>,
    /// Its link, or why there is none.
    pub(crate) link: BoxFuture<'static, Result<Box<dyn Link>>>,
    pub(crate) limits: Limits,
    pub(crate) era: Era,
}

impl Candidate {
    /// One whose link is there.
    pub(crate) fn over(name: Arc<str>, link: Box<dyn Link>, limits: Limits, era: Era) -> Self {
        Self {
            name,
            target: link.target().into(),
            link: Box::pin(std::future::ready(Ok(link))),
            limits,
            era,
        }
    }
}

/// What a server brought.
struct Joined {
    connection: Arc<Connection>,
    tools: Vec<ToolRef>,
}

impl Hub {
    /// Connects one server and adds its tools. The place in the order is taken when this is first
    /// polled.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        candidate: Candidate,
        policy: Policy,
    ) -> Result<Vec<ToolRef>> {
        let place = self.reserve(&candidate, policy)?;
        let joined = place.fill(candidate).await?;
        Ok(joined.map(|joined| joined.tools).unwrap_or_default())
    }

    /// Connects servers in parallel. They take their places in the order given, and each can be
    /// used once it is connected. If one fails and that counts, those that were connected are
    /// disconnected again.
    pub(crate) async fn connect_all(
        self: &Arc<Self>,
        candidates: Vec<Candidate>,
        policy: Policy,
    ) -> Result<Vec<(String, Vec<ToolRef>)>> {
        let raises = policy.on_error == OnError::Raise;
        let mut places = Vec::new();
        for candidate in candidates {
            match self.reserve(&candidate, policy) {
                Err(e) if !raises || self.registry().is_closed() => return Err(e),
                place => places.push((candidate, place)),
            }
        }
        let together = Together {
            hub: self,
            joined: Mutex::default(),
        };
        let outcomes = join_all(places.into_iter().map(|(candidate, place)| {
            let together = &together;
            let outcome: BoxFuture<'_, _> = Box::pin(async move {
                let name = candidate.name.to_string();
                let filled = match place {
                    Ok(place) => place.fill(candidate).await,
                    Err(e) => Err(e),
                };
                let tools = filled.map(|joined| {
                    let Some(Joined { connection, tools }) = joined else {
                        return Vec::new();
                    };
                    if raises {
                        together.add(connection);
                    }
                    tools
                });
                (name, tools)
            });
            outcome
        }))
        .await;
        let (mut lists, mut failures) = (Vec::new(), Vec::new());
        for (name, outcome) in outcomes {
            match outcome {
                Ok(tools) => lists.push((name, tools)),
                Err(e) => failures.push((name, e)),
            }
        }
        if failures.is_empty() {
            together.keep();
            return Ok(lists);
        }
        together.disconnect().await;
        Err(match failures.first() {
            // Not a failure of a server.
            Some((_, e @ Error::Closed { .. })) if self.registry().is_closed() => e.clone(),
            _ => Error::ConnectMany {
                failures: failures.into(),
            },
        })
    }

    fn reserve(self: &Arc<Self>, candidate: &Candidate, policy: Policy) -> Result<Reserved> {
        let Candidate { name, target, .. } = candidate;
        let attempt = self.registry().reserve(name, target, policy.replace)?;
        Ok(Reserved {
            hub: self.clone(),
            name: name.clone(),
            attempt,
            on_error: policy.on_error,
        })
    }

    async fn open(
        self: &Arc<Self>,
        candidate: Candidate,
    ) -> Result<(Arc<Connection>, Vec<ToolRef>)> {
        let Candidate {
            name,
            target,
            link,
            limits,
            era,
        } = candidate;
        let (started, limit) = (now(), limits.connect_timeout);
        let opened = async {
            let late = |_| Error::timeout("connect_timeout", limit);
            let link = timeout(limit, link).await.map_err(late)??;
            let left = limit.saturating_sub(now().saturating_duration_since(started));
            let known = link.peer().and_then(|peer| self.known().find(peer));
            let (client, negotiation) = (self.client.clone(), Negotiation::new(era, known));
            let name = name.clone();
            Connection::connect(name, link, client, limits, negotiation, left, self).await
        };
        match opened.await {
            Ok((connection, tools)) => Ok((connection, named(&name, tools))),
            // Not a failure of the server: its name says where it stands.
            Err(e @ (Error::Closed { .. } | Error::Config { .. })) => Err(e),
            Err(e) => Err(Error::Connect {
                server: name,
                target,
                source: Arc::new(e.without_place()),
            }),
        }
    }
}

/// A place in the order that is given up again if nothing comes of it.
struct Reserved {
    hub: Arc<Hub>,
    name: Arc<str>,
    attempt: u64,
    on_error: OnError,
}

impl Reserved {
    /// Connects the server; `None` if that failed and does not count.
    async fn fill(self, candidate: Candidate) -> Result<Option<Joined>> {
        let target = candidate.target.clone();
        let (connection, tools) = match self.hub.open(candidate).await {
            Ok(opened) => opened,
            Err(e) => return self.fail(e).map(|()| None),
        };
        let filled = {
            let mut registry = self.hub.registry();
            let filled = registry.fill(self.attempt, &target, connection.clone(), tools.clone());
            filled.map_err(|connection| (connection, registry.is_closed()))
        };
        match filled {
            Ok(Filled { shared, old }) => {
                connection.follow_tools();
                let change = match old {
                    Some(_) => ServerChange::Replaced,
                    None => ServerChange::Connected,
                };
                self.hub.observer.change(&self.name, change);
                self.hub.warn_of_shared(&self.name, &shared);
                if let Some(old) = old {
                    old.close().await;
                }
                Ok(Some(Joined { connection, tools }))
            }
            Err((connection, hub_closed)) => {
                // It was disconnected, or the hub was closed, meanwhile.
                connection.close().await;
                Err(Error::closed(if hub_closed { "hub" } else { "connection" }))
            }
        }
    }

    fn fail(&self, error: Error) -> Result<()> {
        let keep = self.on_error != OnError::Raise;
        let place_was_there =
            self.hub
                .registry()
                .give_up(&self.name, self.attempt, Some(&error), keep);
        if !keep || !place_was_there {
            return Err(error);
        }
        if self.on_error == OnError::Warn {
            self.hub.observer.warn_aloud(&self.name, &describe(&error));
        }
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Does nothing once the attempt has ended.
        self.hub
            .registry()
            .give_up(&self.name, self.attempt, None, false);
    }
}

/// Servers that come all or not at all.
struct Together<'a> {
    hub: &'a Arc<Hub>,
    joined: Mutex<Vec<Arc<Connection>>>,
}

impl Together<'_> {
    fn add(&self, connection: Arc<Connection>) {
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        joined.push(connection);
    }

    fn take(&self) -> Vec<Arc<Connection>> {
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connections = std::mem::take(&mut *joined);
        connections.retain(|connection| self.hub.registry().remove_connection(connection));
        connections
    }

    fn keep(self) {
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        joined.clear();
    }

    async fn disconnect(self) {
        self.hub.close_all(self.take()).await;
    }
}

impl Drop for Together<'_> {
    fn drop(&mut self) {
        for connection in self.take() {
            connection.abort();
            let name = connection.name();
            self.hub.observer.change(name, ServerChange::Disconnected);
        }
    }
}
