//! The state of a run, and how it comes back from a node.

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use crate::event::Node;

/// The state of a run: yours, by [`Deref`], and the failures so far.
///
/// A node has it for itself while it runs; what it changed stays changed when the node fails. It
/// goes back to the run when it is dropped, so a node must not keep it: a run whose state is gone
/// ends with [`Error::Config`](crate::Error::Config).
///
/// ```
/// use agent_hub_kit::{GraphState, LlmGraph, START};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let graph = LlmGraph::<Vec<u32>>::builder()
///     .add_node("count", async |mut numbers: GraphState<Vec<u32>>, _ctx| {
///         let next = numbers.len() as u32;
///         numbers.push(next);
///     })
///     .add_edge(START, "count")
///     .build()?;
/// let done = graph.run(vec![7]).finish().await?;
/// assert!(done.errors().is_empty());
/// assert_eq!(done.into_inner(), [7, 1]);
/// # Ok(())
/// # }
/// ```
pub struct GraphState<S> {
    /// Always there; an option only so that it can be taken out of what has a destructor.
    state: Option<S>,
    errors: Vec<NodeFailure>,
    home: Option<Arc<Home<S>>>,
}

/// Where the state of a run is put when a node is done with it.
pub(super) struct Home<S>(Mutex<Option<(S, Vec<NodeFailure>)>>);

impl<S> Home<S> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(None)))
    }

    /// The state, if it came back.
    pub(super) fn take(&self) -> Option<GraphState<S>> {
        let (state, errors) = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        Some(GraphState {
            state: Some(state),
            errors,
            home: None,
        })
    }
}

impl<S> GraphState<S> {
    pub(super) fn new(state: S) -> Self {
        Self {
            state: Some(state),
            errors: Vec::new(),
            home: None,
        }
    }

    /// The same, which will go to `home`.
    pub(super) fn lent(mut self, home: &Arc<Home<S>>) -> Self {
        self.home = Some(home.clone());
        self
    }

    pub(super) fn record(&mut self, failure: NodeFailure) {
        self.errors.push(failure);
    }

    /// What failed so far, in order.
    pub fn errors(&self) -> &[NodeFailure] {
        &self.errors
    }

    /// Your state alone. For when a run has ended: a node that takes its state ends the run.
    #[expect(
        clippy::expect_used,
        reason = "only this takes it, and consumes the rest"
    )]
    pub fn into_inner(mut self) -> S {
        self.state.take().expect("a state that was not taken")
    }
}

impl<S> Deref for GraphState<S> {
    type Target = S;

    #[expect(clippy::expect_used, reason = "only what consumes the whole takes it")]
    fn deref(&self) -> &S {
        self.state.as_ref().expect("a state that was not taken")
    }
}

impl<S> DerefMut for GraphState<S> {
    #[expect(clippy::expect_used, reason = "only what consumes the whole takes it")]
    fn deref_mut(&mut self) -> &mut S {
        self.state.as_mut().expect("a state that was not taken")
    }
}

impl<S> Drop for GraphState<S> {
    fn drop(&mut self) {
        if let (Some(home), Some(state)) = (self.home.take(), self.state.take()) {
            let back = (state, mem::take(&mut self.errors));
            *home.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(back);
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for GraphState<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphState")
            .field("state", &**self)
            .field("errors", &self.errors)
            .finish()
    }
}

/// A node that failed, and why.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// use agent_hub_kit::{LlmGraph, NodeError, START};
///
/// let graph = LlmGraph::<()>::builder()
///     .add_node("fetch", async |_state, _ctx| Err(NodeError::new("no network")))
///     .add_edge(START, "fetch")
///     .build()?;
/// let done = graph.run(()).finish().await?;
/// assert_eq!(done.errors()[0].to_string(), "error in fetch: no network");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeFailure {
    /// The node.
    pub node: Node,
    /// What it said of its failure. Of a panic only that it was one: its text is for whoever reads
    /// stderr.
    pub message: String,
}

impl fmt::Display for NodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error in {}: {}", self.node, self.message)
    }
}
