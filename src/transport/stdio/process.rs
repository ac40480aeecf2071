//! A child process and its end.
//!
//! Owns the process group, so that what the child started ends with it; must not know what the
//! child says.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::command::StdioCommand;

/// A running child. Dropped, it and its group are killed at once.
#[derive(Debug)]
pub(super) struct Process {
    stop: watch::Sender<bool>,
    exit: watch::Receiver<Option<ExitStatus>>,
    group: Arc<Group>,
    watcher: AbortHandle,
}

/// The three ends of a child.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Process {
    /// Starts the command in a process group of its own.
    pub(super) fn start(command: &StdioCommand, grace: Duration) -> io::Result<(Self, Pipes)> {
        let mut command = command.to_command();
        command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a pipe to the child is missing");
        let pipes = Pipes {
            stdin: child.stdin.take().ok_or_else(missing)?,
            stdout: child.stdout.take().ok_or_else(missing)?,
            stderr: child.stderr.take().ok_or_else(missing)?,
        };
        let group = Arc::new(Group::of(&child));
        let (stop, stopped) = watch::channel(false);
        let (exited, exit) = watch::channel(None);
        let watcher =
            tokio::spawn(watch_over(child, group.clone(), stopped, exited, grace)).abort_handle();
        Ok((
            Self {
                stop,
                exit,
                group,
                watcher,
            },
            pipes,
        ))
    }

    /// Tells the child to end, in stages, after its stdin was closed. Waits for nothing.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// How the child ended, once it has.
    pub(super) fn exit(&self) -> watch::Receiver<Option<ExitStatus>> {
        self.exit.clone()
    }
}

impl Process {
    /// Kills the child and its group at once. It is not left to the task, which may get no turn any
    /// more when this process ends.
    pub(super) fn kill(&self) {
        self.group.kill();
        self.watcher.abort();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn watch_over(
    mut child: Child,
    group: Arc<Group>,
    mut stopped: watch::Receiver<bool>,
    exited: watch::Sender<Option<ExitStatus>>,
    grace: Duration,
) {
    let told = tokio::select! {
        status = child.wait() => Some(status),
        _ = stopped.wait_for(|stop| *stop) => None,
    };
    let status = match told {
        Some(status) => status,
        None => end(&mut child, &group, grace).await,
    };
    // What the child left behind in its group has nobody to speak to any more.
    group.kill();
    group.forget();
    exited.send_replace(status.ok());
}

/// The stages of the lifecycle page of the specification: closed stdin, SIGTERM, SIGKILL.
async fn end(child: &mut Child, group: &Group, grace: Duration) -> io::Result<ExitStatus> {
    if let Ok(status) = timeout(grace, child.wait()).await {
        return status;
    }
    group.terminate();
    if let Ok(status) = timeout(grace, child.wait()).await {
        return status;
    }
    group.kill();
    child.kill().await?;
    child.wait().await
}

/// The process group of a child; killed when dropped.
#[derive(Debug)]
struct Group {
    #[cfg(unix)]
    id: Mutex<Option<rustix::process::Pid>>,
}

#[cfg(unix)]
impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self {
            id: Mutex::new(id.and_then(rustix::process::Pid::from_raw)),
        }
    }

    fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }

    /// The leader was reaped, so its number may be somebody else's soon.
    fn forget(&self) {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn signal(&self, signal: rustix::process::Signal) {
        // Held meanwhile, so that it is not forgotten and given to somebody else.
        let id = self.id.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = *id {
            // It fails when the group is gone already, which is what was wanted.
            let _ = rustix::process::kill_process_group(id, signal);
        }
    }
}

#[cfg(not(unix))]
impl Group {
    fn of(_child: &Child) -> Self {
        Self {}
    }

    fn terminate(&self) {}

    fn kill(&self) {}

    fn forget(&self) {}
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
