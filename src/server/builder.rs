//! A server and how it is put together.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::arguments::read_arguments;
use super::context::ToolContext;
use super::driver::Host;
use super::guard::Guard;
use super::offer::{Offer, taken};
use super::output::{IntoToolOutput, ToolError};
use super::promised::Promised;
use super::work::{CallFuture, Handler};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::mcp::era::ServerWords;
use crate::mcp::tool::Tool;
use crate::mcp::types::CacheScope;
use crate::mcp::types::Implementation;
use crate::session::server::ServerFacts;
use crate::transport::tls::ServerTls;
use crate::wire::jsonrpc::RawJson;

/// A server: tools, and what it says of itself. Cheap to clone; clones are the same server.
///
/// ```no_run
/// use agent_hub_kit::{McpServer, Tool, ToolContext};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct EchoArgs {
///     /// text to repeat
///     text: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let server = McpServer::builder("my-app", "0.1.0")
///     .tool(
///         Tool::typed::<EchoArgs>("echo").description("Repeat a text, a character at a time"),
///         async |args: EchoArgs, ctx: ToolContext| {
///             let stream = ctx.streamer("my-app");
///             for ch in args.text.chars() {
///                 stream.text(ch).await?;
///             }
///             Ok(args.text)
///         },
///     )
///     .build();
/// server.serve_http("127.0.0.1:8001").await
/// # }
/// ```
#[derive(Clone)]
pub struct McpServer {
    pub(super) host: Arc<Host>,
    pub(super) settings: Arc<Settings>,
}

/// What an HTTP server needs to know beside its tools.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) path: String,
    pub(super) check_access: bool,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    pub(super) guard: Guard,
    pub(super) tls: Option<ServerTls>,
    /// What is wrong with the server, told when it is to serve.
    pub(super) fault: Option<Error>,
}

/// Puts an [`McpServer`] together.
#[must_use = "a builder does nothing until it is built"]
pub struct McpServerBuilder {
    words: ServerWords,
    tools: Vec<Tool>,
    handlers: Vec<Arc<dyn Handler>>,
    limits: Limits,
    tools_per_page: usize,
    cache_scope: Option<CacheScope>,
    cancel_on_disconnect: bool,
    sse_replay: bool,
    pub(super) settings: Settings,
}

impl McpServer {
    /// Begins a server with the name and version that it tells its clients.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> McpServerBuilder {
        let info = Implementation {
            name: name.into(),
            version: version.into(),
        };
        McpServerBuilder {
            words: ServerWords {
                info,
                instructions: None,
                list_changed: false,
                tools_ttl_ms: 0,
                cache_scope: CacheScope::default(),
            },
            tools: Vec::new(),
            handlers: Vec::new(),
            limits: Limits::default(),
            tools_per_page: usize::MAX,
            cache_scope: None,
            cancel_on_disconnect: false,
            sse_replay: false,
            settings: Settings {
                path: "/mcp".to_owned(),
                check_access: true,
                allowed_hosts: Vec::new(),
                allowed_origins: Vec::new(),
                guard: Guard::default(),
                tls: None,
                fault: None,
            },
        }
    }

    /// Adds a tool while the server serves, at the end of its list, and tells every client that
    /// the tools have changed. See [`McpServerBuilder::tool`].
    ///
    /// # Errors
    /// [`Error::Config`] if the server was built without
    /// [`dynamic_tools`](McpServerBuilder::dynamic_tools), for a name that is taken, and for what
    /// is wrong with the tool.
    pub fn add_tool<A, R, F, Fut>(&self, tool: Tool, handler: F) -> Result<()>
    where
        A: DeserializeOwned + 'static,
        R: IntoToolOutput + 'static,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let handler = Typed::erased(&tool, handler);
        self.host.change(|offer| offer.add(&tool, &handler))
    }

    /// Takes a tool out while the server serves, and tells every client that the tools have
    /// changed. Calls of it that run go on.
    ///
    /// # Errors
    /// [`Error::Config`] if the server was built without
    /// [`dynamic_tools`](McpServerBuilder::dynamic_tools), or has no such tool.
    pub fn remove_tool(&self, name: &str) -> Result<()> {
        self.host.change(|offer| offer.remove(name))
    }

    /// The first thing that was wrong when the server was put together.
    pub(crate) fn check(&self) -> Result<()> {
        self.settings.fault.clone().map_or(Ok(()), Err)
    }
}

impl McpServerBuilder {
    /// Adds a tool and what runs when it is called.
    ///
    /// `A` is the type of the arguments, read from the object that the caller sends;
    /// [`RawArgs`] takes any. A handler with state of its own is added by
    /// [`tool_with`](Self::tool_with). A name that is taken or not allowed is told when the server
    /// is to serve.
    ///
    /// The handler's future is dropped when the call is cancelled. A panic in it fails the call
    /// and nothing else.
    pub fn tool<A, R, F, Fut>(mut self, tool: Tool, handler: F) -> Self
    where
        A: DeserializeOwned + 'static,
        R: IntoToolOutput + 'static,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        self.handlers.push(Typed::erased(&tool, handler));
        self.tools.push(tool);
        self
    }

    /// Adds a tool whose handler has state: each call gets a clone of it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use agent_hub_kit::{McpServer, RawArgs, Tool, ToolContext};
    ///
    /// let server = McpServer::builder("counter", "0.1.0")
    ///     .tool_with(
    ///         Tool::new("count").description("Count the calls"),
    ///         Arc::new(AtomicU64::new(0)),
    ///         async |calls: Arc<AtomicU64>, _args: RawArgs, _ctx: ToolContext| {
    ///             Ok(format!("call {}", calls.fetch_add(1, Ordering::Relaxed)))
    ///         },
    ///     )
    ///     .build();
    /// # let _ = server;
    /// ```
    pub fn tool_with<S, A, R, F, Fut>(self, tool: Tool, state: S, handler: F) -> Self
    where
        S: Clone + Send + Sync + 'static,
        A: DeserializeOwned + 'static,
        R: IntoToolOutput + 'static,
        F: Fn(S, A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        self.tool(tool, move |args: A, ctx| handler(state.clone(), args, ctx))
    }

    /// Whether tools may be added and removed while the server serves, by
    /// [`McpServer::add_tool`] and [`McpServer::remove_tool`]. Off by default; with it clients are
    /// told that the tools may change, and may keep a stream open to hear of it.
    pub fn dynamic_tools(mut self, dynamic: bool) -> Self {
        self.words.list_changed = dynamic;
        self
    }

    /// How many tools one page of the tool list holds, at least one. All by default.
    pub fn tools_per_page(mut self, tools: usize) -> Self {
        self.tools_per_page = tools;
        self
    }

    /// For how long a client may use the list of tools without asking again, in whole
    /// milliseconds: a hint for revisions since 2026-07-28. Default zero; what is over 2^53-1, the
    /// largest whole number that every client can read, is cut to it. With
    /// [`dynamic_tools`](Self::dynamic_tools) clients that listen learn of a change at once.
    pub fn tools_ttl(mut self, ttl: Duration) -> Self {
        const MAX_MS: u64 = (1 << 53) - 1;
        let ms = u64::try_from(ttl.as_millis()).unwrap_or(MAX_MS);
        self.words.tools_ttl_ms = ms.min(MAX_MS);
        self
    }

    /// Who may share a kept list of tools, as revisions since 2026-07-28 tell it. Default
    /// [`CacheScope::Public`]: all clients are given the same list; of a server that asks for
    /// credentials, [`CacheScope::Private`].
    pub fn cache_scope(mut self, scope: CacheScope) -> Self {
        self.cache_scope = Some(scope);
        self
    }

    /// What a client's model should know before it uses these tools.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.words.instructions = Some(text.into());
        self
    }

    /// The bounds to keep.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether a call in a session ends when its client hangs up. By default it goes on for
    /// [`Limits::detached_call_timeout`], since hanging up is no cancel in the protocol's
    /// handshake revisions. In those without sessions it is the cancel, and ends a call always.
    pub fn cancel_on_disconnect(mut self, cancel: bool) -> Self {
        self.cancel_on_disconnect = cancel;
        self
    }

    /// Whether a client of the handshake revisions whose connection broke in the middle of a
    /// streamed answer can come back for the rest. Off by default.
    ///
    /// Each event over HTTP gets an id then, and a copy of it is kept in its session: at most
    /// [`Limits::max_replay_events`] and [`Limits::max_replay_bytes`], of which the oldest go first.
    /// A call whose client is away goes on for [`Limits::detached_call_timeout`] and is heard in
    /// full; its answer is kept until newer events or the end of the session take its place. A
    /// client that comes back with the id of the last event it saw (a GET with `Last-Event-ID`,
    /// as [`AgentHubClient`](crate::AgentHubClient) sends it) reads what followed, once and in
    /// order, and then what is still to come; if some of it is gone, it is told so by status 400.
    /// The newest such reader takes the place of the one before it.
    ///
    /// From revision 2025-11-25 on each stream begins with an empty event, and a tool may end its
    /// stream by [`ToolContext::close_sse_stream`]. Without replay no event has an id. The stream
    /// that tells of changed tools has none in any case: its client just opens it anew.
    ///
    /// Excludes [`cancel_on_disconnect`](Self::cancel_on_disconnect).
    pub fn sse_replay(mut self, replay: bool) -> Self {
        self.sse_replay = replay;
        self
    }

    /// The path of the endpoint. Default `/mcp`.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.settings.path = path.into();
        if !self.settings.path.starts_with('/') {
            let fault = format!(
                "the path {:?} does not start with a slash",
                self.settings.path
            );
            self.fail(Error::config(fault));
        }
        self
    }

    /// Names under which this server may be asked for, as they stand in the `Host` header: behind a
    /// proxy, or when it listens on more than loopback. On a loopback address they are further ones
    /// beside those of this machine; on any other, where every name is answered otherwise, they are
    /// the only ones, so that `localhost` has to be among them if it is used. An entry without a port
    /// allows every port.
    pub fn allowed_hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.settings
            .allowed_hosts
            .extend(hosts.into_iter().map(Into::into));
        self
    }

    /// Web origins (`https://app.example`) whose pages may call this server, and see its answers:
    /// browsers are told so (CORS). On a loopback address a page of this machine is not refused
    /// either, but what browsers ask for first, and the answers, are only for those named here.
    /// Cookies are not asked for; a page sends its token as `Authorization`.
    pub fn allowed_origins<O: Into<String>>(
        mut self,
        origins: impl IntoIterator<Item = O>,
    ) -> Self {
        self.settings
            .allowed_origins
            .extend(origins.into_iter().map(Into::into));
        self
    }

    /// Turns the check of the `Host` and `Origin` headers off. They keep web pages from reaching a
    /// server on this machine (DNS rebinding); turn them off only behind something that checks. Only
    /// pages of [`allowed_origins`](Self::allowed_origins) may still see the answers.
    pub fn allow_any_host_and_origin(mut self) -> Self {
        self.settings.check_access = false;
        self
    }

    /// The server. What is wrong with it (a tool name twice, a schema that is none) is told when
    /// it is to serve.
    pub fn build(mut self) -> McpServer {
        let mut names = HashSet::new();
        let faults: Vec<Error> = self
            .tools
            .iter()
            .filter_map(|tool| match tool.check() {
                Ok(()) if !names.insert(tool.name()) => Some(taken(tool.name())),
                checked => checked.err(),
            })
            .collect();
        if let Some(fault) = faults.into_iter().next() {
            self.fail(fault);
        }
        if self.sse_replay && self.cancel_on_disconnect {
            self.fail(Error::config(
                "sse_replay lets a client that hung up come back to its call, \
                 which cancel_on_disconnect ends: choose one of them",
            ));
        }
        self.words.cache_scope = match (self.cache_scope, self.settings.guard.admits_all()) {
            (Some(scope), _) => scope,
            (None, true) => CacheScope::Public,
            (None, false) => CacheScope::Private,
        };
        let facts = ServerFacts {
            words: Arc::new(self.words),
            tools: self.tools,
            tools_per_page: self.tools_per_page,
            limits: self.limits,
        };
        let offer = Offer::new(facts, self.handlers);
        McpServer {
            host: Arc::new(Host::new(offer, self.cancel_on_disconnect, self.sse_replay)),
            settings: Arc::new(self.settings),
        }
    }

    pub(super) fn guard_mut(&mut self) -> &mut Guard {
        &mut self.settings.guard
    }

    fn fail(&mut self, fault: Error) {
        self.settings.fault.get_or_insert(fault);
    }
}

/// The arguments of a call as the JSON object that was sent.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct RawArgs(Box<RawValue>);

impl RawArgs {
    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The arguments as a type of yours.
    ///
    /// # Errors
    /// When they have another shape; `?` in a handler tells the caller.
    pub fn deserialize<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ToolError> {
        read_arguments(self.0.get(), None)
    }
}

/// A handler with the types that were erased.
struct Typed<F, A, R> {
    handler: Arc<F>,
    schema: RawJson,
    promised: Promised,
    types: std::marker::PhantomData<fn(A) -> R>,
}

impl<F, Fut, A, R> Typed<F, A, R>
where
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    A: DeserializeOwned + 'static,
    R: IntoToolOutput + 'static,
{
    fn erased(tool: &Tool, handler: F) -> Arc<dyn Handler> {
        Arc::new(Self {
            handler: Arc::new(handler),
            schema: tool.accepted().clone(),
            promised: Promised::by(tool),
            types: std::marker::PhantomData,
        })
    }
}

impl<F, Fut, A, R> Handler for Typed<F, A, R>
where
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    A: DeserializeOwned + 'static,
    R: IntoToolOutput + 'static,
{
    fn call(&self, arguments: RawJson, ctx: ToolContext) -> CallFuture {
        let (handler, promised) = (self.handler.clone(), self.promised.clone());
        let schema = self.schema.clone();
        Box::pin(async move {
            // The JSON is a part of the request, which goes before the handler begins to wait.
            let future = {
                let (json, schema) = (arguments, schema);
                handler(read_arguments(json.as_str(), Some(&schema))?, ctx)
            };
            let output = future.await?.into_tool_output()?;
            if !output.is_error {
                promised.check(output.structured.as_ref())?;
            }
            Ok(output)
        })
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offer = self.host.offer();
        f.debug_struct("McpServer")
            .field("name", &offer.facts.words.info.name)
            .field("tools", &offer.facts.tools.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for McpServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerBuilder")
            .field("name", &self.words.info.name)
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use bytes::Bytes;
    use serde_json::Value;

    use super::super::context::Running;
    use super::*;
    use crate::session::outbox::Outbox;
    use crate::session::progress::Framing;
    use crate::wire::jsonrpc::{self, Incoming, Message};

    /// The bytes of a request, and word of when they are gone.
    struct Owner(mpsc::Sender<()>);

    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            br#"{"jsonrpc":"2.0","id":"an id","method":"m","params":{"text":"much"}}"#
        }
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    /// The request may be large, and the call long.
    #[tokio::test]
    async fn a_running_handler_holds_nothing_of_its_request() {
        let (sender, gone) = mpsc::channel();
        let decoded = jsonrpc::decode(&Bytes::from_owner(Owner(sender)), 128);
        let Ok(Incoming::One(Message::Request(request))) = decoded else {
            panic!("it is a request");
        };
        let (id, arguments) = (request.id.into_owned(), request.params.unwrap());
        drop(request.method);
        let handler = Typed {
            handler: Arc::new(async |_: Value, _: ToolContext| {
                std::future::pending::<()>().await;
                Ok(())
            }),
            schema: Tool::new("t").accepted().clone(),
            promised: Promised::by(&Tool::new("t")),
            types: std::marker::PhantomData,
        };
        let outbox = Arc::new(Outbox::new(Framing::Sse, None, 1, 1));
        let ctx = ToolContext::new(Arc::new(Running::new(outbox, None)), "t".into());
        let mut call = handler.call(arguments, ctx);
        assert!(gone.try_recv().is_err());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut cx).is_pending());
        assert!(gone.try_recv().is_ok());
        assert_eq!(id.to_string(), "\"an id\"");
    }
}
