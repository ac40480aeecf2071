//! How a connection ends: in order, or at once.
//!
//! Owns the last words and the guards of what was given up; must not know what a message means.

use std::future::poll_fn;
use std::sync::{Arc, PoisonError};

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Connection, Shared};
use crate::client::outgoing::Outbox;
use crate::session::client::ClientSession;

impl Connection {
    /// Ends the connection in order: cancels are sent, then the session is given up.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection at once.
    pub(in crate::client) async fn close(self: &Arc<Self>) {
        let guard = AbortOnDrop(Some(self.clone()));
        self.input(ClientSession::close);
        self.shared().outgoing.close();
        self.wake.notify_one();
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task {
            let mut task = AbortTaskOnDrop(task);
            let _ = timeout(
                self.limits.close_timeout,
                poll_fn(|cx| std::pin::Pin::new(&mut task.0).poll(cx)),
            )
            .await;
        }
        self.link.stop().await;
        drop(guard);
    }

    /// Ends the connection now: every call fails, peers see a disconnect.
    pub(in crate::client) fn abort(&self) {
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task {
            task.abort();
        }
        self.input(ClientSession::close);
        let left = {
            let mut shared = self.shared();
            std::mem::replace(
                &mut *shared,
                Shared {
                    outgoing: Outbox::closed(),
                    ..Shared::default()
                },
            )
        };
        // Hangs up and wakes those who wait, outside the lock.
        drop(left);
        self.link.close();
    }
}

/// Ends a connection that did not come to be, or whose closing was given up.
pub(super) struct AbortOnDrop(pub(super) Option<Arc<Connection>>);

impl AbortOnDrop {
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.abort();
        }
    }
}

struct AbortTaskOnDrop(JoinHandle<()>);

impl Drop for AbortTaskOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
