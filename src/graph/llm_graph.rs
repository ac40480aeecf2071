//! A graph that was found right.

use std::fmt;
use std::sync::Arc;

use super::builder::LlmGraphBuilder;
use super::context::NodeContext;
use super::mermaid;
use super::output::NodeFuture;
use super::run::GraphRun;
use super::state::GraphState;
use crate::event::Node;

/// Where a graph begins: the edge from here names its first node.
pub const START: &str = "__START__";

/// Where a run of a graph ends: an edge may lead here.
pub const END: &str = "__END__";

/// An agent as a graph: nodes that emit events and change a state of the type `S`, and edges that
/// say which node is next.
///
/// Cheap to clone; a graph may be run many times, also at once.
///
/// A run goes from [`START`] along the edges to [`END`]. A node without an edge is the last one. A
/// node that fails or panics ends no run: its failure becomes an `error` event under its name, is
/// kept in [`GraphState::errors`], and the run goes on by the node's edges.
///
/// ```
/// use agent_hub_kit::{END, LlmGraph, START};
///
/// #[derive(Default)]
/// struct Draft {
///     text: String,
///     attempts: u32,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let graph = LlmGraph::<Draft>::builder()
///     .add_node("write", async |mut draft, ctx| {
///         draft.attempts += 1;
///         for word in ["good", " ", "enough"].into_iter().take(draft.attempts as usize + 1) {
///             ctx.text(word).await?;
///             draft.text.push_str(word);
///         }
///         Ok(())
///     })
///     .add_node("check", async |draft, ctx| {
///         ctx.log(draft.text.len()).await?;
///         Ok(())
///     })
///     .add_edge(START, "write")
///     .add_edge("write", "check")
///     .add_conditional_edge("check", |draft| draft.text.len() < 10, [(true, "write"), (false, END)])
///     .build()?;
///
/// let mut run = graph.run(Draft::default());
/// while let Some(event) = run.next().await {
///     println!("{}: {} ({:?})", event.kind, event.content.value(), event.node);
/// }
/// let draft = run.finish().await?;
/// assert_eq!((draft.attempts, draft.errors().len()), (2, 0));
/// # Ok(())
/// # }
/// ```
pub struct LlmGraph<S> {
    steps: Arc<[Step<S>]>,
    first: Target,
}

/// A node with what follows it.
pub(super) struct Step<S> {
    pub(super) name: Node,
    pub(super) work: Box<Work<S>>,
    pub(super) next: Next<S>,
}

/// What a node does.
pub(super) type Work<S> = dyn Fn(GraphState<S>, NodeContext) -> NodeFuture + Send + Sync;

/// What follows a node.
pub(super) enum Next<S> {
    By(Box<Choice<S>>, Box<[(String, Target)]>),
    To(Target),
}

/// The key of the signal that picks the next node.
pub(super) type Choice<S> = dyn Fn(&GraphState<S>) -> String + Send + Sync;

/// Where an edge leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    End,
    Step(usize),
}

impl<S> Next<S> {
    /// Where the run goes on. A signal that no edge knows ends it.
    pub(super) fn target(&self, state: &GraphState<S>) -> Target {
        match self {
            Self::By(choice, edges) => {
                let signal = choice(state);
                let edge = edges.iter().find(|(key, _)| *key == signal);
                edge.map_or(Target::End, |(_, target)| *target)
            }
            Self::To(target) => *target,
        }
    }
}

impl<S: Send + 'static> LlmGraph<S> {
    /// Begins a graph.
    pub fn builder() -> LlmGraphBuilder<S> {
        LlmGraphBuilder::new()
    }

    /// A run of the graph with a state of its own. It begins when it is first read.
    pub fn run(&self, state: S) -> GraphRun<S> {
        GraphRun::new(self.clone(), state)
    }
}

impl<S> LlmGraph<S> {
    pub(super) fn new(steps: Vec<Step<S>>, first: Target) -> Self {
        Self {
            steps: steps.into(),
            first,
        }
    }

    /// The graph as a [Mermaid](https://mermaid.js.org) flowchart, for documentation and for
    /// models: a node that branches is a rhombus, its edges carry their keys.
    ///
    /// ```
    /// use agent_hub_kit::{END, LlmGraph, START};
    ///
    /// let graph = LlmGraph::<u32>::builder()
    ///     .add_node("count", async |mut n, _ctx| *n += 1)
    ///     .add_edge(START, "count")
    ///     .add_conditional_edge("count", |n| **n < 3, [(true, "count"), (false, END)])
    ///     .build()?;
    /// let lines = r#"graph TD
    ///   __START__(START)
    ///   __END__(END)
    ///   count{"count"}
    ///   __START__ --> count
    ///   count -- true --> count
    ///   count -- false --> __END__
    /// "#;
    /// assert_eq!(graph.to_mermaid(), lines);
    /// # Ok::<(), agent_hub_kit::Error>(())
    /// ```
    pub fn to_mermaid(&self) -> String {
        mermaid::flowchart(&self.steps, self.first)
    }

    pub(super) fn first(&self) -> Target {
        self.first
    }

    pub(super) fn step(&self, index: usize) -> Option<&Step<S>> {
        self.steps.get(index)
    }
}

impl<S> Clone for LlmGraph<S> {
    fn clone(&self) -> Self {
        Self {
            steps: self.steps.clone(),
            first: self.first,
        }
    }
}

impl<S> fmt::Debug for LlmGraph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&Node> = self.steps.iter().map(|step| &step.name).collect();
        f.debug_struct("LlmGraph")
            .field("nodes", &names)
            .finish_non_exhaustive()
    }
}
