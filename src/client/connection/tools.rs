//! The tools of a server, as its connection lists them, and how it learns that they changed.
//!
//! Owns when a list is good and when it is to be asked for again; must not know what the hub makes
//! of it.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Connection;
use crate::client::driver;
use crate::error::{Error, Result};
use crate::mcp::types::ToolDescription;
use crate::session::client::{Asker, Owner};
use crate::session::tools::ToolList;

/// How the hub's list of tools stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    #[default]
    Good,
    /// The tools may have changed without a word.
    Doubted,
    /// The server said that it is out of date.
    Stale,
}

impl Connection {
    /// Asks for the tools. A session that the peer lost is opened anew, once.
    pub(in crate::client) async fn list(&self, asker: Asker) -> Result<Vec<ToolDescription>> {
        let lost = self.session(|s| s.opened().is_none().then(|| s.generation()));
        if let Some(generation) = lost {
            self.reopen_to_list(generation).await?;
        }
        let (tools, lost) = self.list_once(asker).await;
        let Some(generation) = lost else { return tools };
        self.reopen_to_list(generation).await?;
        self.list_once(asker).await.0
    }

    /// Opens the session anew for a list, which is then no reason to ask for another one: a server
    /// that ends at each list would be started for ever.
    async fn reopen_to_list(&self, generation: u64) -> Result<()> {
        let standing = self.shared().standing;
        let opened = self.reopen(generation).await;
        self.shared().standing = standing;
        opened.map_err(|e| e.at(&self.place))
    }

    async fn list_once(&self, asker: Asker) -> (Result<Vec<ToolDescription>>, Option<u64>) {
        let (sender, waiter) = oneshot::channel();
        let began = driver::now();
        let id = self.input(|session| {
            let id = session.list(asker);
            self.shared().listing.insert(id, sender);
            id
        });
        let _forgotten = ForgottenOnDrop(self, id);
        let limit = self.limits.list_timeout;
        let error = match timeout(limit, waiter).await {
            Ok(Ok((Ok(ToolList { tools, ttl }), lost))) => {
                self.shared().fresh_until = began.checked_add(ttl);
                return (Ok(tools), lost);
            }
            Ok(Ok((Err(e), lost))) => return (Err(e), lost),
            Ok(Err(_)) => Error::closed("connection"),
            Err(_) => Error::timeout("list_timeout", limit),
        };
        (Err(error.at(&self.place)), None)
    }

    /// The hub's list of tools is this connection's from now on, and is kept up to date.
    pub(in crate::client) fn follow_tools(&self) {
        self.shared().followed = true;
        self.wake.notify_one();
    }

    /// The list of tools is out of date.
    pub(in crate::client) fn distrust_tools(&self) {
        let mut shared = self.shared();
        shared.standing = Standing::Stale;
        shared.fresh_until = None;
        drop(shared);
        self.wake.notify_one();
    }

    /// The tools may have changed without a word.
    pub(super) fn doubt_tools(&self) {
        let mut shared = self.shared();
        shared.standing = shared.standing.max(Standing::Doubted);
        drop(shared);
        self.wake.notify_one();
    }

    /// Whether the tools are to be listed again, which is then as good as done.
    pub(in crate::client) fn take_stale(&self) -> bool {
        let mut shared = self.shared();
        if !shared.followed || shared.outgoing.is_closing() {
            return false;
        }
        match std::mem::take(&mut shared.standing) {
            Standing::Good => false,
            Standing::Doubted => {
                let now = driver::now();
                shared.fresh_until.is_none_or(|until| until <= now)
            }
            Standing::Stale => true,
        }
    }

    /// Has the server tell of changed tools for as long as it does. Gives whether it may be asked
    /// again; `None` if there is nothing to be asked for.
    ///
    /// # Cancel safety
    /// Dropping the future ends it, and tells the server.
    pub(in crate::client) async fn listen(self: &Arc<Self>) -> Option<bool> {
        let (sender, ended) = oneshot::channel();
        let (id, sent) = self.input(|session| {
            let (id, frame) = session.listen()?;
            self.shared().listening.insert(id, sender);
            Some((id, self.link.send(frame)))
        })?;
        let _forgotten = UnheardOnDrop(self, id);
        driver::exchange(self, sent, Owner::Request(id)).await;
        ended.await.ok()
    }
}

/// Ends a list that nobody waits for any more.
struct ForgottenOnDrop<'a>(&'a Connection, i64);

impl Drop for ForgottenOnDrop<'_> {
    fn drop(&mut self) {
        let Self(connection, id) = *self;
        let waiter = connection.shared().listing.remove(&id);
        if waiter.is_some() {
            connection.input(|session| session.forget_list(id));
        }
    }
}

/// Ends what nobody listens to any more.
struct UnheardOnDrop<'a>(&'a Connection, i64);

impl Drop for UnheardOnDrop<'_> {
    fn drop(&mut self) {
        let Self(connection, id) = *self;
        let waiter = connection.shared().listening.remove(&id);
        if waiter.is_some() {
            connection.input(|session| session.forget_listen(id));
        }
    }
}
