//! Connecting a server that is started as a child process.

use std::fmt;
use std::time::Duration;

use super::connect::{Candidate, OnError, Policy};
use super::hub::AgentHubClient;
use super::registry::ToolRef;
use crate::error::Result;
use crate::limits::Limits;
use crate::mcp::version::Era;
use crate::transport::BoxFuture;
use crate::transport::stdio::StdioCommand;
use crate::transport::stdio::child::ChildLink;

impl AgentHubClient {
    /// Starts a server as a child process, speaks to it over its standard streams, and gives its
    /// tools.
    ///
    /// The child is the head of a process group of its own, which ends with the connection: its
    /// stdin is closed, after [`Limits::child_stop_timeout`](crate::Limits) SIGTERM follows, and
    /// after as long again SIGKILL. A child that dies is started again by the next call, but not more
    /// than [`Limits::max_child_starts`](crate::Limits) times in a row without an answer. Its stderr
    /// is read, and the end of it is in every error; lines on its stdout that are no messages are
    /// skipped.
    ///
    /// ```no_run
    /// # async fn f(hub: agent_hub_kit::AgentHubClient) -> agent_hub_kit::Result<()> {
    /// use agent_hub_kit::StdioCommand;
    ///
    /// let tools = hub
    ///     .connect_stdio("files", StdioCommand::new("python").args(["files.py"]).env("ROOT", "/srv"))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Connect`](crate::Error::Connect) if it cannot be started or does not speak the
    /// protocol, unless [`on_error`](ConnectStdio::on_error) says otherwise;
    /// [`Error::Config`](crate::Error::Config) for a name in use or no command.
    ///
    /// # Cancel safety
    /// Dropping the future ends the child; the name is free again.
    pub fn connect_stdio(
        &self,
        name: impl Into<String>,
        command: impl Into<StdioCommand>,
    ) -> ConnectStdio {
        ConnectStdio {
            hub: self.clone(),
            name: name.into(),
            command: command.into(),
            limits: self.shared().limits().clone(),
            era: Era::default(),
            policy: Policy::default(),
        }
    }
}

/// A connection that is made when it is awaited. See
/// [`connect_stdio`](AgentHubClient::connect_stdio).
#[must_use = "a server is started when this is awaited"]
pub struct ConnectStdio {
    hub: AgentHubClient,
    name: String,
    command: StdioCommand,
    limits: Limits,
    era: Era,
    policy: Policy,
}

impl ConnectStdio {
    /// The longest that connecting may take as a whole. Default
    /// [`Limits::connect_timeout`].
    pub fn connect_timeout(mut self, after: Duration) -> Self {
        self.limits.connect_timeout = after;
        self
    }

    /// Which era of the protocol to speak. Default [`Era::Auto`]: it is found out, and remembered
    /// for the next connection to the same command
    /// ([`Limits::max_known_servers`]). What is spoken then is in
    /// [`ServerStatus::protocol_version`](crate::ServerStatus::protocol_version).
    pub fn era(mut self, era: Era) -> Self {
        self.era = era;
        self
    }

    /// What to do if it fails. Default [`OnError::Raise`].
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.policy.on_error = on_error;
        self
    }

    /// Takes the place of a server of the same name, if there is one. Its connection is closed once
    /// the new one is ready, and its running calls end with `terminal_error`; if the new one fails,
    /// it stays. Default false: a name in use is an error.
    pub fn replace(mut self, replace: bool) -> Self {
        self.policy.replace = replace;
        self
    }
}

impl IntoFuture for ConnectStdio {
    type Output = Result<Vec<ToolRef>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let link = ChildLink::new(self.command, &self.limits)?;
            let candidate =
                Candidate::over(self.name.into(), Box::new(link), self.limits, self.era);
            self.hub.shared().connect(candidate, self.policy).await
        })
    }
}

impl fmt::Debug for ConnectStdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectStdio")
            .field("name", &self.name)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}
