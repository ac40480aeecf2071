//! All processes that are under way, and their end.
//!
//! Must not know why one is started, or ended.

use std::future::pending;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::guard::Guard;
use super::process::Process;

/// Dropped, all of them are killed.
pub(super) struct Family {
    pub(super) guard: Arc<Guard>,
    /// The server that answers.
    pub(super) current: Option<Process>,
    /// A build, or a server that is not up yet.
    pub(super) next: Option<Process>,
    leaving: JoinSet<()>,
}

/// Which process has ended, and how.
pub(super) enum Ended {
    Current(io::Result<ExitStatus>),
    Next(io::Result<ExitStatus>),
}

/// A server has its own time for the calls that still run, mostly 5 s; what takes longer than this
/// is stuck.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

impl Family {
    /// # Errors
    /// The system has no room for what guards it.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            guard: Arc::new(Guard::start()?),
            current: None,
            next: None,
            leaving: JoinSet::new(),
        })
    }

    /// Waits until one of the two has ended; while there is none, for ever.
    ///
    /// Cancel safe.
    pub(super) async fn ended(&mut self) -> Ended {
        tokio::select! {
            status = end_of(&mut self.current) => Ended::Current(status),
            status = end_of(&mut self.next) => Ended::Next(status),
        }
    }

    /// The next one is up: it takes the place of the current one, which is let go. True if there was
    /// one.
    pub(super) fn replace(&mut self) -> bool {
        let old = std::mem::replace(&mut self.current, self.next.take());
        let was_there = old.is_some();
        self.let_go(old);
        was_there
    }

    /// The next one does not come up.
    pub(super) fn give_up_next(&mut self) {
        let next = self.next.take();
        self.let_go(next);
    }

    /// Asks all of them to end, and waits until they have.
    pub(super) async fn end(&mut self) {
        self.give_up_next();
        let current = self.current.take();
        self.let_go(current);
        while self.leaving.join_next().await.is_some() {}
    }

    /// Kills all of them.
    pub(super) async fn kill(&mut self) {
        self.next = None;
        self.current = None;
        self.leaving.shutdown().await;
    }

    fn let_go(&mut self, process: Option<Process>) {
        while self.leaving.try_join_next().is_some() {}
        if let Some(mut process) = process {
            process.terminate();
            self.leaving.spawn(async move {
                if timeout(DRAIN_TIMEOUT, process.wait()).await.is_err() {
                    process.kill();
                    let _ = process.wait().await;
                }
            });
        }
    }
}

async fn end_of(process: &mut Option<Process>) -> io::Result<ExitStatus> {
    let status = match process {
        Some(process) => process.wait().await,
        None => pending().await,
    };
    *process = None;
    status
}
