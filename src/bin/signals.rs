//! Ctrl-C and its kin.

use std::future::pending;
use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_hub_kit::AgentHubClient;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::failure::Failure;

#[cfg(unix)]
pub(crate) use unix::Signals;

#[cfg(not(unix))]
pub(crate) use other::Signals;

/// Watches for signals while a command uses `hub`. The first one is told to the command, which then
/// ends in order; the second one ends the process at once. So does a command that does not end,
/// since it may be stuck on a terminal or a pipe that nobody reads: then the hub is closed for it,
/// so that the call is cancelled on the server.
pub(crate) fn watch(hub: AgentHubClient) -> Result<Arc<Stop>, Failure> {
    let mut signals = Signals::listen().map_err(Failure::System)?;
    let stop = Arc::new(Stop::default());
    let told = stop.clone();
    tokio::spawn(async move {
        signals.recv().await;
        told.stop.notify_one();
        let ending = async {
            sleep(NOTICE_AFTER).await;
            let _ = io::Write::write_all(&mut io::stderr(), NOTICE);
            sleep(PATIENCE).await;
            if told.is_closing.load(Ordering::Relaxed) {
                // It is not stuck, and closing has a bound of its own.
                pending::<()>().await;
            }
            hub.close().await;
        };
        tokio::select! {
            () = signals.recv() => {}
            () = ending => {}
        }
        // Closing that is given up leaves no child behind, whoever began it.
        told.end.notify_one();
        let _ = timeout(Duration::ZERO, hub.close()).await;
        sleep(LAST_MOMENT).await;
        process::exit(Failure::Cancelled.code().into());
    });
    Ok(stop)
}

/// What the signals say to a command.
#[derive(Default)]
pub(crate) struct Stop {
    stop: Notify,
    end: Notify,
    is_closing: AtomicBool,
}

impl Stop {
    /// Waits for the first signal, for one waiter.
    pub(crate) async fn notified(&self) {
        self.stop.notified().await;
    }

    /// Closes the hub, in order unless a second signal comes.
    pub(crate) async fn close(&self, hub: &AgentHubClient) {
        self.is_closing.store(true, Ordering::Relaxed);
        tokio::select! {
            () = hub.close() => {}
            () = self.end.notified() => {}
        }
    }
}

/// A cancel that is quicker needs no word.
const NOTICE_AFTER: Duration = Duration::from_millis(300);

const NOTICE: &[u8] = b"\ncancelling; again to end at once\n";

/// How long a command may take to begin its end.
const PATIENCE: Duration = Duration::from_secs(3);

/// For a command that was told to end at once and is not stuck.
const LAST_MOMENT: Duration = Duration::from_millis(200);

#[cfg(unix)]
mod unix {
    use std::io;

    use tokio::signal::unix::{Signal, SignalKind, signal};

    /// SIGINT and SIGTERM, which no longer end the process from here on.
    pub(crate) struct Signals {
        interrupt: Signal,
        terminate: Signal,
    }

    impl Signals {
        pub(crate) fn listen() -> io::Result<Self> {
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
            })
        }

        pub(crate) async fn recv(&mut self) {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
            }
        }
    }
}

#[cfg(not(unix))]
mod other {
    use std::io;

    /// Ctrl-C.
    pub(crate) struct Signals;

    impl Signals {
        pub(crate) fn listen() -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) async fn recv(&mut self) {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
