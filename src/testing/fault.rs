//! What can be wrong with a peer, or with the network before it.
//!
//! Owns the choice; must not know how it is carried out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What goes wrong with the answers of a peer. Each answer has the fault that is set when its request
/// comes; over lines, where answers share one stream, each line has the fault that is set when it
/// passes.
///
/// ```
/// use agent_hub_kit::testing::{Fault, HostilePeer};
/// # use agent_hub_kit::{AgentHubClient, Error};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let peer = HostilePeer::start(Fault::Garbage).await?;
/// let hub = AgentHubClient::builder().build();
/// let failed = hub.connect_http("hostile", peer.url()).await.unwrap_err();
/// assert!(matches!(failed, Error::Connect { .. }), "{failed:?}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Hangs up after so many bytes of an answer, its head included. A shorter answer is whole. Over
    /// lines: after so many bytes of all answers together.
    CutAfter(usize),
    /// Waits so long before each piece of an answer: its head, and what follows as it comes, for a
    /// stream about an event at a time. Over lines: before each line.
    Delay(Duration),
    /// Sends events of so many bytes instead of an answer, one each millisecond; of a call that asks
    /// for progress they are its progress. It ends when another fault is set, or none; or by hanging
    /// up after 64 MiB.
    Flood(usize),
    /// Sends bytes that are no protocol instead of an answer, and hangs up.
    Garbage,
    /// Sends what a client has to pass over, before the messages and between them: comments, events
    /// that are no JSON, notifications that nobody knows, and answers and progress that nobody waits
    /// for. The answer is whole.
    Noise,
    /// Takes a request and says nothing, ever, until the client hangs up.
    Silence,
    /// Answers under an id that was not asked under.
    WrongIds,
}

/// Which [`Fault`] a peer has now. Cheap to clone; the clones are one switch, so that a test can
/// connect in peace, break what it means to break, and see it heal.
///
/// A plain `Fault` stands for one that stays.
///
/// ```
/// use agent_hub_kit::testing::{Fault, Faults};
///
/// let faults = Faults::none();
/// faults.set(Fault::CutAfter(100));
/// assert_eq!(faults.current(), Some(Fault::CutAfter(100)));
/// faults.set(None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Option<Fault>>>);

impl Faults {
    /// Nothing goes wrong, for now.
    pub fn none() -> Self {
        Self::default()
    }

    /// Sets the fault of all answers whose requests come from now on; `None` ends it.
    pub fn set(&self, fault: impl Into<Option<Fault>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fault.into();
    }

    /// What goes wrong now.
    pub fn current(&self) -> Option<Fault> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(Arc::new(Mutex::new(Some(fault))))
    }
}

impl From<&Self> for Faults {
    fn from(faults: &Self) -> Self {
        faults.clone()
    }
}
