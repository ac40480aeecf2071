//! The hub: many connections, one registry.
//!
//! Owns which servers are connected; must not know what carries their frames.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::call::CallStream;
use super::call_tool::CallTool;
use super::config::AgentHubClientBuilder;
use super::connection::Connection;
use super::driver::now;
use super::events::{Observer, ServerChange};
use super::join::join_all;
use super::known::Known;
use super::registry::{Registry, SharedTools, ToolRef};
use super::status::ServerStatus;
use super::suggest::listed;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::mcp::types::{Implementation, ToolDescription};
use crate::session::client::Asker;
use crate::transport::BoxFuture;
use crate::transport::tls::Trust;
use crate::wire::jsonrpc::RawJson;

/// Many MCP servers as one: finds their tools, calls them by name, streams what they say.
///
/// Cheap to clone: clones are the same hub. When the last clone is dropped everything ends at
/// once: running calls fail and servers see a disconnect. [`close`](Self::close) ends it in order.
///
/// ```
/// use agent_hub_kit::{AgentHubClient, EventKind};
/// # use agent_hub_kit::{McpServer, RawArgs, Tool, ToolContext, testing};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// # let server = McpServer::builder("my-app", "0.1.0")
/// #     .tool(Tool::new("echo"), async |_: RawArgs, ctx: ToolContext| {
/// #         ctx.streamer("my-app").text("hi").await?;
/// #         Ok("hi")
/// #     })
/// #     .build();
/// let hub = AgentHubClient::builder().build();
/// // hub.connect_http("my-app", "http://127.0.0.1:8001/mcp").await?;
/// # testing::connect_memory(&hub, "my-app", &server).await?;
/// let mut events = hub.call_tool_stream("echo", serde_json::json!({ "text": "hi" }));
/// while let Some(event) = events.next().await {
///     match event.kind {
///         EventKind::Text => print!("{}", event.text().unwrap_or_default()),
///         EventKind::Result => println!(" = {}", event.content.value()),
///         _ => {}
///     }
/// }
/// hub.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AgentHubClient(Arc<Hub>);

/// What all clones of a hub share.
pub(crate) struct Hub {
    pub(super) client: Implementation,
    limits: Limits,
    pub(super) observer: Observer,
    pub(super) follows_list_changes: bool,
    pub(super) trust: Trust,
    registry: Mutex<Registry>,
    /// Outlives the connections, so that a server is not asked each time.
    known: Mutex<Known>,
    calls: AtomicU64,
    lists: AtomicU64,
}

impl Hub {
    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn resolve(
        &self,
        tool: &str,
        server: Option<&str>,
    ) -> Result<(ToolRef, Arc<Connection>)> {
        self.registry().resolve(tool, server)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a server for its tools and keeps the answer.
    async fn list(&self, connection: &Arc<Connection>) -> Result<Vec<ToolRef>> {
        let list = self.next_list();
        self.keep_list(connection, list, connection.list(Asker::User).await)
    }

    /// Numbers a list that is asked for now.
    pub(super) fn next_list(&self) -> u64 {
        self.lists.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps what a server listed, or tells why it could not.
    pub(super) fn keep_list(
        &self,
        connection: &Arc<Connection>,
        list: u64,
        tools: Result<Vec<ToolDescription>>,
    ) -> Result<Vec<ToolRef>> {
        let name = connection.name();
        match tools {
            Ok(tools) => {
                let tools = named(name, tools);
                let shared = self.registry().update(connection, list, tools.clone());
                self.warn_of_shared(name, &shared);
                Ok(tools)
            }
            Err(e) => {
                self.registry().note(connection, e.clone());
                self.observer
                    .warn(name, &format!("its tools could not be listed: {e}"));
                Err(e)
            }
        }
    }

    /// A call was told that a tool which the server listed is unknown to it.
    pub(super) fn distrust_tools(&self, server: &str) {
        let connection = self.registry().connection(server);
        if let Some(connection) = connection {
            connection.distrust_tools();
        }
    }

    /// Ends connections that were taken out of the registry, in order and in parallel.
    ///
    /// # Cancel safety
    /// Dropping the future ends them at once.
    pub(super) async fn close_all(&self, connections: Vec<Arc<Connection>>) {
        join_all(
            connections
                .iter()
                .map(|connection| -> BoxFuture<'_, ()> { Box::pin(connection.close()) }),
        )
        .await;
        for connection in &connections {
            let name = connection.name();
            self.observer.change(name, ServerChange::Disconnected);
        }
    }

    /// Says which tools have become ambiguous.
    pub(super) fn warn_of_shared(&self, server: &Arc<str>, shared: &SharedTools) {
        if shared.count > 0 && self.observer.is_set() {
            let names: Vec<_> = shared.first.iter().map(ToolRef::qualified_name).collect();
            let text = format!(
                "other servers offer tools of the same name, which are called by server and name: \
                 {}",
                listed(&names, shared.count)
            );
            self.observer.warn(server, &text);
        }
    }
}

pub(super) fn named(server: &Arc<str>, tools: Vec<ToolDescription>) -> Vec<ToolRef> {
    tools
        .into_iter()
        .map(|tool| ToolRef::new(server, tool))
        .collect()
}

impl Drop for Hub {
    fn drop(&mut self) {
        let connections = self.registry().close();
        for connection in connections {
            connection.abort();
        }
        self.observer.abort();
    }
}

impl AgentHubClient {
    /// Begins a hub.
    pub fn builder() -> AgentHubClientBuilder {
        AgentHubClientBuilder::new()
    }

    pub(super) fn new(builder: AgentHubClientBuilder) -> Self {
        let observer = builder.observer();
        let AgentHubClientBuilder {
            client,
            limits,
            follows_list_changes,
            trust,
            ..
        } = builder;
        let registry = Mutex::new(Registry::default());
        let known = Mutex::new(Known::new(limits.max_known_servers));
        Self(Arc::new(Hub {
            client,
            limits,
            observer,
            follows_list_changes,
            trust,
            registry,
            known,
            calls: AtomicU64::new(1),
            lists: AtomicU64::new(1),
        }))
    }

    pub(crate) fn shared(&self) -> &Arc<Hub> {
        &self.0
    }

    /// Disconnects a server: its tools are gone, its running calls end with `terminal_error`, it is
    /// told goodbye. Other servers are untouched. One that failed is forgotten, and a connect that
    /// is under way ends with [`Error::Closed`].
    ///
    /// # Errors
    /// [`Error::UnknownServer`] if there is none of that name.
    ///
    /// # Cancel safety
    /// Dropping the future disconnects at once, without the goodbye.
    pub async fn disconnect(&self, name: &str) -> Result<()> {
        let removed = self.0.registry().remove(name);
        let Some(connection) = removed else {
            return Err(Error::UnknownServer {
                server: name.into(),
            });
        };
        self.0.close_all(connection.into_iter().collect()).await;
        Ok(())
    }

    /// Ends everything in order: running calls are cancelled on their servers, sessions are given
    /// up, connections closed. Nothing can be connected or called afterwards. Takes at most
    /// [`Limits::close_timeout`].
    ///
    /// # Cancel safety
    /// Dropping the future ends everything at once.
    pub async fn close(&self) {
        let (started, limit) = (now(), self.0.limits.close_timeout);
        let connections = self.0.registry().close();
        self.0.close_all(connections).await;
        let spent = now().saturating_duration_since(started);
        self.0.observer.close(limit.saturating_sub(spent)).await;
    }

    /// Asks every connected server for its tools again, in parallel. The answer is in connection
    /// order. A server that fails keeps the list it had, and the observer is told.
    ///
    /// # Cancel safety
    /// Cancel safe: lists that came in by then are kept.
    pub async fn list_tools(&self) -> Vec<(String, Vec<ToolRef>)> {
        let connections = self.0.registry().connections();
        join_all(
            connections
                .iter()
                .map(|(name, connection)| -> BoxFuture<'_, _> {
                    Box::pin(async move {
                        let tools = self.0.list(connection).await;
                        let tools = tools.unwrap_or_else(|_| self.0.registry().tools(name));
                        (name.to_string(), tools)
                    })
                }),
        )
        .await
    }

    /// Asks one server for its tools again.
    ///
    /// # Errors
    /// [`Error::UnknownServer`] if none of that name is connected, and why it could not be listed:
    /// then it keeps the list it had.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list_tools_from(&self, server: &str) -> Result<Vec<ToolRef>> {
        let connection = self.0.registry().connection(server);
        let Some(connection) = connection else {
            return Err(Error::UnknownServer {
                server: server.into(),
            });
        };
        self.0.list(&connection).await
    }

    /// How every server is doing, in connection order; also those that could not be connected, if
    /// [`OnError`](crate::OnError) said to go on without them.
    pub fn servers(&self) -> Vec<ServerStatus> {
        self.0.registry().statuses()
    }

    /// What a tool name means, or why a call of it would fail: names that are near, the servers that
    /// offer it, or the server that is down. For people; no server is asked.
    ///
    /// ```
    /// let hub = agent_hub_kit::AgentHubClient::builder().build();
    /// assert!(hub.diagnose_tool("ecko").contains("no server is connected"));
    /// ```
    pub fn diagnose_tool(&self, name: &str) -> String {
        self.0.registry().diagnose(name)
    }

    /// The tool of that name; the first in connection order if several servers offer it. What was
    /// last listed counts, no server is asked.
    pub fn find_tool(&self, name: &str) -> Option<ToolRef> {
        self.find_tools(name).into_iter().next()
    }

    /// The tool of that name on one server.
    pub fn find_tool_on(&self, server: &str, name: &str) -> Option<ToolRef> {
        self.0.registry().find_on(server, name)
    }

    /// All tools of that name, in connection order.
    pub fn find_tools(&self, name: &str) -> Vec<ToolRef> {
        self.0.registry().find_all(name)
    }

    /// Calls a tool and waits for its result.
    ///
    /// `name` is the tool's name, or `server/tool`. `arguments` is anything that serialises to a
    /// JSON object; `()` or null means none.
    ///
    /// ```no_run
    /// # async fn f(hub: agent_hub_kit::AgentHubClient) -> agent_hub_kit::Result<()> {
    /// use std::time::Duration;
    ///
    /// let answer = hub
    ///     .call_tool("ask", serde_json::json!({ "question": "why?" }))
    ///     .timeout(Duration::from_secs(60))
    ///     .await?;
    /// println!("{answer}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Tool`] if the tool failed, [`Error::Cancelled`] if it was cancelled, and whatever
    /// else kept the call from ending with a result.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call on the server.
    pub fn call_tool(&self, name: &str, arguments: impl Serialize) -> CallTool {
        CallTool::new(self.call_tool_stream(name, arguments))
    }

    /// Calls a tool and gives its events as they come. Every failure, an unknown tool included, is
    /// the stream's one terminal event.
    ///
    /// See [`call_tool`](Self::call_tool) for the arguments and [`CallStream`] for the rest.
    pub fn call_tool_stream(&self, name: &str, arguments: impl Serialize) -> CallStream {
        let arguments = read_arguments(name, &arguments);
        let call_id = self.0.calls.fetch_add(1, Ordering::Relaxed);
        let hub = Arc::downgrade(&self.0);
        CallStream::new(hub, self.0.observer.clone(), call_id, name, arguments)
    }
}

fn read_arguments(tool: &str, arguments: &impl Serialize) -> Result<RawJson> {
    match RawJson::serialized(arguments) {
        Ok(arguments) if arguments.is_object() => Ok(arguments),
        Ok(arguments) if arguments.is_null() => Ok(RawJson::from_static("{}")),
        Ok(_) => Err(Error::config(format!(
            "the arguments of `{tool}` must be a JSON object"
        ))),
        Err(e) => Err(Error::config(format!(
            "the arguments of `{tool}` cannot be written as JSON: {e}"
        ))),
    }
}

impl fmt::Debug for AgentHubClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AgentHubClient")
            .field(&self.0.registry().connections().len())
            .finish()
    }
}
