//! Which server offers which tool.
//!
//! Owns the order of the servers and the rules by which a name finds its tool; must not know how a
//! tool is called.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::connection::Connection;
use super::status::{ServerState, ServerStatus};
use super::suggest::{Known, MAX_NAMES, Standing, hint, one_line};
use crate::error::{Error, Place, Result};
use crate::event::{Content, describe};
use crate::mcp::param::ParamHeader;
use crate::mcp::types::ToolDescription;
use crate::wire::jsonrpc::RawJson;

/// A tool of a connected server. Cheap to clone.
///
/// Schemas, annotations and all other members are kept as the server sent them, so that they can
/// be handed to a model unchanged. Descriptions are the server's words: untrusted data.
#[derive(Clone)]
pub struct ToolRef(Arc<Described>);

struct Described {
    server: Arc<str>,
    name: Arc<str>,
    title: Option<String>,
    description: Option<String>,
    input_schema: Content,
    output_schema: Content,
    annotations: Content,
    meta: Content,
    raw: Content,
    wraps_result: bool,
    mirrored: Box<[ParamHeader]>,
    place: Place,
}

impl ToolRef {
    pub(super) fn new(server: &Arc<str>, tool: ToolDescription) -> Self {
        let keep = |raw: Option<RawJson>| {
            raw.map_or(Content::NULL, |raw| Content::json(raw.into_shared()))
        };
        let wraps_result = tool.wraps_result();
        let name: Arc<str> = tool.name.into();
        Self(Arc::new(Described {
            server: server.clone(),
            title: tool.title,
            description: tool.description,
            input_schema: keep(tool.input_schema),
            output_schema: keep(tool.output_schema),
            annotations: keep(tool.annotations),
            meta: keep(tool.meta),
            raw: Content::json(tool.raw.into_shared()),
            wraps_result,
            mirrored: tool.mirrored,
            place: Place::new(server, Some(&name)),
            name,
        }))
    }

    /// The name given to the server.
    pub fn server(&self) -> &str {
        &self.0.server
    }

    /// The tool's name on its server.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// `server/tool`: names this tool whatever other servers offer.
    pub fn qualified_name(&self) -> String {
        format!("{}/{}", self.0.server, self.0.name)
    }

    /// A name for people.
    pub fn title(&self) -> Option<&str> {
        self.0.title.as_deref()
    }

    /// What the tool does, in the server's words.
    pub fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// The JSON Schema of the arguments, as sent.
    pub fn input_schema(&self) -> &Content {
        &self.0.input_schema
    }

    /// The JSON Schema of the structured result, as sent; null if there is none.
    pub fn output_schema(&self) -> &Content {
        &self.0.output_schema
    }

    /// Hints about the tool, as sent and untrusted; null if there are none.
    pub fn annotations(&self) -> &Content {
        &self.0.annotations
    }

    /// The tool's `_meta`, as sent; null if there is none.
    pub fn meta(&self) -> &Content {
        &self.0.meta
    }

    /// The whole description as sent, with members that this crate does not know.
    pub fn raw(&self) -> &Content {
        &self.0.raw
    }

    pub(super) fn shared_names(&self) -> (Arc<str>, Arc<str>) {
        (self.0.server.clone(), self.0.name.clone())
    }

    pub(super) fn place(&self) -> &Place {
        &self.0.place
    }

    pub(super) fn wraps_result(&self) -> bool {
        self.0.wraps_result
    }

    /// The arguments that it wants in headers too.
    pub(super) fn mirrored(&self) -> &[ParamHeader] {
        &self.0.mirrored
    }
}

impl fmt::Debug for ToolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolRef({}/{})", self.0.server, self.0.name)
    }
}

/// The servers of a hub, in the order in which connecting them began.
#[derive(Debug, Default)]
pub(super) struct Registry {
    /// By their place in the order.
    servers: BTreeMap<u64, Server>,
    places: HashMap<Arc<str>, u64>,
    /// What is offered under each tool name, by the place of the server.
    offers: HashMap<Arc<str>, BTreeMap<u64, ToolRef>>,
    /// Numbers places and attempts.
    last_number: u64,
    closed: bool,
}

#[derive(Debug)]
struct Server {
    name: Arc<str>,
    target: Arc<str>,
    /// Who is connecting it just now, and may fill the place.
    attempt: Option<u64>,
    live: Option<Live>,
    error: Option<Error>,
}

#[derive(Debug)]
struct Live {
    connection: Arc<Connection>,
    tools: Vec<ToolRef>,
    /// Which list they are from.
    listed: u64,
}

/// What became of a server that was given a connection.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) shared: SharedTools,
    /// The connection that it had.
    pub(super) old: Option<Arc<Connection>>,
}

/// Tools of a server that others offer too, beside those of the others.
#[derive(Debug, Default)]
pub(super) struct SharedTools {
    pub(super) count: usize,
    /// As many as are told: many servers of one kind share all of their tools.
    pub(super) first: Vec<ToolRef>,
}

impl Registry {
    /// Takes a place in the order for a server that is to be connected, or the one that it has.
    /// Gives the number of this attempt.
    pub(super) fn reserve(
        &mut self,
        name: &Arc<str>,
        target: &Arc<str>,
        replace: bool,
    ) -> Result<u64> {
        if self.closed {
            return Err(Error::closed("hub"));
        }
        if name.is_empty() {
            return Err(Error::config("a server needs a name"));
        }
        self.last_number += 1;
        let attempt = self.last_number;
        match self.server_mut(name) {
            Some(server) if server.attempt.is_some() => Err(Error::config(format!(
                "the server name `{name}` is in use: it is being connected just now"
            ))),
            Some(server) if server.live.is_some() && !replace => Err(Error::config(format!(
                "the server name `{name}` is in use; disconnect it first, replace it, or choose \
                 another"
            ))),
            Some(server) => {
                server.attempt = Some(attempt);
                if server.live.is_none() {
                    server.target = target.clone();
                }
                Ok(attempt)
            }
            None => {
                self.places.insert(name.clone(), attempt);
                let server = Server {
                    name: name.clone(),
                    target: target.clone(),
                    attempt: Some(attempt),
                    live: None,
                    error: None,
                };
                self.servers.insert(attempt, server);
                Ok(attempt)
            }
        }
    }

    /// Ends an attempt that came to nothing. A place with neither a connection nor an error to tell
    /// of is given up; `keep` makes a place for the error. False if the place is another's, or
    /// gone.
    pub(super) fn give_up(
        &mut self,
        name: &str,
        attempt: u64,
        error: Option<&Error>,
        keep: bool,
    ) -> bool {
        let Some(server) = self.attempted(name, attempt) else {
            return false;
        };
        server.attempt = None;
        if error.is_some() && (keep || server.live.is_some() || server.error.is_some()) {
            server.error = error.cloned();
        }
        if server.live.is_none() && server.error.is_none() {
            self.remove(name);
        }
        true
    }

    /// Fills a place that was taken; gives the connection back if the place is another's, or gone.
    pub(super) fn fill(
        &mut self,
        attempt: u64,
        target: &Arc<str>,
        connection: Arc<Connection>,
        tools: Vec<ToolRef>,
    ) -> Result<Filled, Arc<Connection>> {
        let name = connection.name().clone();
        let Some(server) = self.attempted(&name, attempt) else {
            return Err(connection);
        };
        server.attempt = None;
        server.error = None;
        server.target = target.clone();
        let old = server.live.replace(Live {
            connection,
            tools: tools.clone(),
            listed: 0,
        });
        let (old, old_tools) = old.map(|live| (live.connection, live.tools)).unzip();
        self.offer(&name, &old_tools.unwrap_or_default(), &tools);
        Ok(Filled {
            shared: self.shared(&tools),
            old,
        })
    }

    /// Forgets a server, whatever its state; `None` if there is none, or the connection it had.
    pub(super) fn remove(&mut self, name: &str) -> Option<Option<Arc<Connection>>> {
        let place = *self.places.get(name)?;
        let live = self.servers.get_mut(&place)?.live.take();
        let (connection, tools) = live.map(|live| (live.connection, live.tools)).unzip();
        self.offer(name, &tools.unwrap_or_default(), &[]);
        self.servers.remove(&place);
        self.places.remove(name);
        Some(connection)
    }

    /// Forgets a server if this is still its connection.
    pub(super) fn remove_connection(&mut self, connection: &Arc<Connection>) -> bool {
        let name = connection.name();
        let same = self.live_of(connection).is_some();
        same && self.remove(name).is_some()
    }

    /// Takes everything out; nothing can be connected afterwards.
    pub(super) fn close(&mut self) -> Vec<Arc<Connection>> {
        let Self { servers, .. } = std::mem::take(self);
        self.closed = true;
        servers
            .into_values()
            .filter_map(|server| server.live)
            .map(|live| live.connection)
            .collect()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Every connected server, in order.
    pub(super) fn connections(&self) -> Vec<(Arc<str>, Arc<Connection>)> {
        self.live()
            .map(|(name, live)| (name.clone(), live.connection.clone()))
            .collect()
    }

    pub(super) fn connection(&self, name: &str) -> Option<Arc<Connection>> {
        let live = self.server(name)?.live.as_ref()?;
        Some(live.connection.clone())
    }

    /// Every server, in order.
    pub(super) fn statuses(&self) -> Vec<ServerStatus> {
        self.servers.values().map(Server::status).collect()
    }

    /// Replaces the tools of a server, if it is still the same connection and no later list was
    /// quicker. Gives those tools that are new and shared.
    pub(super) fn update(
        &mut self,
        connection: &Arc<Connection>,
        listed: u64,
        tools: Vec<ToolRef>,
    ) -> SharedTools {
        let Some(server) = self.live_of(connection) else {
            return SharedTools::default();
        };
        server.error = None;
        let Some(live) = server.live.as_mut().filter(|live| live.listed < listed) else {
            return SharedTools::default();
        };
        live.listed = listed;
        let old = std::mem::replace(&mut live.tools, tools.clone());
        self.offer(connection.name(), &old, &tools);
        let old: HashSet<&str> = old.iter().map(ToolRef::name).collect();
        let new: Vec<ToolRef> = tools
            .into_iter()
            .filter(|tool| !old.contains(tool.name()))
            .collect();
        self.shared(&new)
    }

    /// Keeps what went wrong with a connection that is kept.
    pub(super) fn note(&mut self, connection: &Arc<Connection>, error: Error) {
        if let Some(server) = self.live_of(connection) {
            server.error = Some(error);
        }
    }

    /// Offers the new tools of a server in place of the old ones.
    fn offer(&mut self, server: &str, old: &[ToolRef], new: &[ToolRef]) {
        let Some(&place) = self.places.get(server) else {
            return;
        };
        for tool in old {
            if let Some(offers) = self.offers.get_mut(tool.name()) {
                offers.remove(&place);
                if offers.is_empty() {
                    self.offers.remove(tool.name());
                }
            }
        }
        for tool in new {
            let (_, name) = tool.shared_names();
            let offers = self.offers.entry(name).or_default();
            offers.entry(place).or_insert_with(|| tool.clone());
        }
    }

    fn shared(&self, tools: &[ToolRef]) -> SharedTools {
        let offers = tools
            .iter()
            .filter_map(|tool| self.offers.get(tool.name()))
            .filter(|offers| offers.len() > 1);
        SharedTools {
            count: offers.clone().map(BTreeMap::len).sum(),
            first: offers
                .flat_map(BTreeMap::values)
                .take(MAX_NAMES)
                .cloned()
                .collect(),
        }
    }

    pub(super) fn tools(&self, name: &str) -> Vec<ToolRef> {
        let live = self.server(name).and_then(|server| server.live.as_ref());
        live.map(|live| live.tools.clone()).unwrap_or_default()
    }

    /// All tools of that name, in connection order.
    pub(super) fn find_all(&self, name: &str) -> Vec<ToolRef> {
        let offers = self.offers.get(name);
        offers.map_or_else(Vec::new, |offers| offers.values().cloned().collect())
    }

    pub(super) fn find_on(&self, server: &str, name: &str) -> Option<ToolRef> {
        let place = self.places.get(server)?;
        self.offers.get(name)?.get(place).cloned()
    }

    /// The one tool that a name means, and where it runs.
    pub(super) fn resolve(
        &self,
        name: &str,
        server: Option<&str>,
    ) -> Result<(ToolRef, Arc<Connection>)> {
        if self.closed {
            return Err(Error::closed("hub"));
        }
        let tool = match server {
            Some(server) if self.connection(server).is_none() => {
                return Err(Error::UnknownServer {
                    server: server.into(),
                });
            }
            Some(server) => self.find_on(server, name).or_else(|| {
                let own = name.strip_prefix(server)?.strip_prefix('/')?;
                self.find_on(server, own)
            }),
            None => match self.find_qualified(name) {
                Some(tool) => Some(tool),
                None => self.find_only(name)?,
            },
        };
        let Some(tool) = tool else {
            return Err(Error::UnknownTool {
                tool: name.into(),
                hint: hint(&self.known(), name, server).into(),
            });
        };
        match self.connection(tool.server()) {
            Some(connection) => Ok((tool, connection)),
            None => Err(Error::UnknownServer {
                server: tool.server().into(),
            }),
        }
    }

    /// What a name means, or why it means nothing, in words.
    pub(super) fn diagnose(&self, name: &str) -> String {
        match self.resolve(name, None) {
            Ok((tool, _)) => one_line(&format!(
                "`{name}` is the tool {} and can be called",
                tool.qualified_name()
            )),
            Err(e) => e.to_string(),
        }
    }

    /// The tool that `server/tool` names; both parts may hold slashes.
    fn find_qualified(&self, name: &str) -> Option<ToolRef> {
        name.match_indices('/')
            .find_map(|(slash, _)| self.find_on(name.get(..slash)?, name.get(slash + 1..)?))
    }

    fn find_only(&self, name: &str) -> Result<Option<ToolRef>> {
        let mut found = self.find_all(name);
        if found.len() > 1 {
            let candidates = found.iter().map(ToolRef::qualified_name).collect();
            return Err(Error::AmbiguousTool {
                tool: name.into(),
                candidates,
            });
        }
        Ok(found.pop())
    }

    fn known(&self) -> Vec<Known<'_>> {
        self.servers.values().map(Server::known).collect()
    }

    fn server(&self, name: &str) -> Option<&Server> {
        self.servers.get(self.places.get(name)?)
    }

    fn server_mut(&mut self, name: &str) -> Option<&mut Server> {
        self.servers.get_mut(self.places.get(name)?)
    }

    fn attempted(&mut self, name: &str, attempt: u64) -> Option<&mut Server> {
        self.server_mut(name)
            .filter(|server| server.attempt == Some(attempt))
    }

    /// The server whose connection this is.
    fn live_of(&mut self, connection: &Arc<Connection>) -> Option<&mut Server> {
        self.server_mut(connection.name()).filter(|server| {
            let live = server.live.as_ref();
            live.is_some_and(|live| Arc::ptr_eq(&live.connection, connection))
        })
    }

    fn live(&self) -> impl Iterator<Item = (&Arc<str>, &Live)> {
        self.servers
            .values()
            .filter_map(|server| Some((&server.name, server.live.as_ref()?)))
    }
}

impl Server {
    fn known(&self) -> Known<'_> {
        let tools = self.live.iter().flat_map(|live| &live.tools);
        Known {
            server: &self.name,
            standing: match (&self.live, &self.error) {
                (Some(_), _) => Standing::Up,
                (None, Some(error)) if self.attempt.is_none() => Standing::Down(describe(error)),
                (None, _) => Standing::Connecting,
            },
            tools: tools.map(ToolRef::name).collect(),
        }
    }

    fn status(&self) -> ServerStatus {
        let live = self.live.as_ref();
        ServerStatus {
            name: self.name.clone(),
            target: self.target.clone(),
            state: match live {
                Some(_) => ServerState::Connected,
                None if self.attempt.is_some() => ServerState::Connecting,
                None => ServerState::Failed,
            },
            last_error: self.error.clone(),
            tools: live.map_or(0, |live| live.tools.len()),
            protocol_version: live.and_then(|live| live.connection.protocol_version()),
        }
    }
}
