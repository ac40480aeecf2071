//! A process that is started here, with all that it starts itself.
//!
//! Owns its process group, so that nothing is left of it; must not know what it is for.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr};

use super::guard::Guard;

/// Dropped, it and its group are killed.
pub(super) struct Process {
    child: Child,
    /// `None` once nothing is left of it, as its number may then be somebody else's.
    group: Option<Pid>,
    guard: Arc<Guard>,
}

impl Process {
    /// In a group of its own, which Ctrl-C in a terminal does not reach.
    pub(super) fn start(mut command: Command, guard: &Arc<Guard>) -> io::Result<Self> {
        command.process_group(0);
        let child = tokio::process::Command::from(command)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let group = id.and_then(Pid::from_raw);
        if let Some(group) = group {
            guard.begin(group);
        }
        Ok(Self {
            child,
            group,
            guard: guard.clone(),
        })
    }

    pub(super) fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits until it has ended, and kills what it left behind.
    ///
    /// Cancel safe.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.end();
        status
    }

    /// Asks all of the group to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn end(&mut self) {
        self.kill();
        if let Some(group) = self.group.take() {
            self.guard.end(group);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It fails when the group is gone already, which is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
