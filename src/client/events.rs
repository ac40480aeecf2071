//! What an observer of the hub sees.

use std::fmt;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::event_queue::{EventQueue, ObserveAside};
use crate::event::StreamEvent;
use crate::limits::Limits;

/// Something that happened in a hub.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum HubEvent {
    /// An event of a call, as its reader got it.
    #[non_exhaustive]
    Call {
        /// The server that runs the tool.
        server: Arc<str>,
        /// The tool.
        tool: Arc<str>,
        /// Tells the calls of this hub apart.
        call_id: u64,
        /// The event.
        event: StreamEvent,
    },
    /// Something changed about a server.
    #[non_exhaustive]
    Server {
        /// Its name.
        server: Arc<str>,
        /// What changed.
        change: ServerChange,
    },
    /// Something is odd and was worked around.
    #[non_exhaustive]
    Warning {
        /// The server it is about; empty if it is about the hub.
        server: Arc<str>,
        /// What is odd.
        text: String,
    },
}

impl HubEvent {
    /// A copy that shares no buffer with the message it came in.
    pub(super) fn into_owned(mut self) -> Self {
        if let Self::Call { event, .. } = &mut self {
            *event = event.clone().into_owned();
        }
        self
    }

    /// Bytes that this event keeps alive, about.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Call { event, .. } => event.weight(),
                Self::Server { .. } => 0,
                Self::Warning { text, .. } => text.len(),
            }
    }
}

/// What changed about a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerChange {
    /// It was connected and its tools are known.
    Connected,
    /// It was disconnected.
    Disconnected,
    /// It lost the session and was opened again.
    Reopened,
    /// A new connection took the place of the one it had, which is closed.
    Replaced,
    /// It says that its tools changed. They are listed again.
    ToolsChanged,
    /// Its tools were listed again, because they have changed or may have.
    ToolsListed,
}

/// Whoever watches, if anybody does.
#[derive(Clone, Default)]
pub(super) struct Observer {
    inline: Option<Arc<Observe>>,
    aside: Option<Arc<EventQueue>>,
}

pub(super) type Observe = dyn Fn(&HubEvent) + Send + Sync;

impl Observer {
    pub(super) fn new(
        inline: Option<Arc<Observe>>,
        aside: Option<Arc<ObserveAside>>,
        limits: &Limits,
    ) -> Self {
        Self {
            inline,
            aside: aside.map(|observe| EventQueue::new(observe, limits)),
        }
    }

    pub(super) fn is_set(&self) -> bool {
        self.inline.is_some() || self.aside.is_some()
    }

    /// Tells the observer. What it does with it, a panic included, disturbs nobody.
    pub(super) fn tell(&self, event: impl FnOnce() -> HubEvent) {
        if !self.is_set() {
            return;
        }
        let event = event();
        if let Some(observe) = &self.inline {
            let _ = catch_unwind(AssertUnwindSafe(|| observe(&event)));
        }
        if let Some(aside) = &self.aside {
            aside.push(event);
        }
    }

    pub(super) fn warn(&self, server: &Arc<str>, text: &str) {
        self.tell(|| HubEvent::Warning {
            server: server.clone(),
            text: shown(text),
        });
    }

    /// For what the user asked to be warned of: with nobody to tell, standard error is told.
    pub(super) fn warn_aloud(&self, server: &Arc<str>, text: &str) {
        if self.is_set() {
            self.warn(server, text);
        } else {
            // Nothing can be said of a standard error that is closed.
            let _ = writeln!(std::io::stderr(), "{}", shown(text));
        }
    }

    pub(super) fn change(&self, server: &Arc<str>, change: ServerChange) {
        self.tell(|| HubEvent::Server {
            server: server.clone(),
            change,
        });
    }

    /// Nothing more will happen: waits, but not for long, until all is told.
    ///
    /// # Cancel safety
    /// Dropping the future drops what is not told yet.
    pub(super) async fn close(&self, patience: Duration) {
        if let Some(aside) = &self.aside {
            aside.close(patience).await;
        }
    }

    /// Nothing more is told aside.
    pub(super) fn abort(&self) {
        if let Some(aside) = &self.aside {
            aside.abort();
        }
    }
}

/// A warning may quote its server, so it is cut, and is one line whatever was quoted.
fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 1_000;
    text.chars()
        .take(MAX_CHARS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Observer({})",
            if self.is_set() { "set" } else { "none" }
        )
    }
}
