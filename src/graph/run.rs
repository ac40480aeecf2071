//! A graph at work.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::context::NodeContext;
use super::handover::Handover;
use super::llm_graph::{LlmGraph, Target};
use super::output::{NodeError, NodeFuture};
use super::state::{GraphState, Home, NodeFailure};
use crate::error::{Error, Result};
use crate::event::{Content, EventKind, Node, StreamEvent};

/// A run of an [`LlmGraph`]: a stream of its nodes' events, as they are emitted, and then its
/// state, by [`finish`](Self::finish).
///
/// Nothing happens unless it is read: whoever reads it drives the nodes, on any runtime, and a
/// node waits until its event was read. Dropping it drops the node that runs.
///
/// A run that cannot end well (over [`max_steps`](Self::max_steps), or its state is gone) has a
/// `terminal_error` as its last event, under the node at which it stopped; one that ends well has
/// no terminal event.
///
/// As the work of a tool, whose caller sees the events as they come:
///
/// ```
/// use agent_hub_kit::{LlmGraph, McpServer, RawArgs, START, Tool, ToolContext};
///
/// # fn main() -> agent_hub_kit::Result<()> {
/// let graph = LlmGraph::<String>::builder()
///     .add_node("answer", async |mut said, ctx| {
///         ctx.text("42").await?;
///         said.push_str("42");
///         Ok(())
///     })
///     .add_edge(START, "answer")
///     .build()?;
/// let server = McpServer::builder("deep-thought", "0.1.0")
///     .tool_with(
///         Tool::new("ask"),
///         graph,
///         async |graph: LlmGraph<String>, _args: RawArgs, ctx: ToolContext| {
///             let mut run = graph.run(String::new()).max_steps(20);
///             ctx.streamer("deep-thought").forward(&mut run).await?;
///             Ok(run.finish().await?.into_inner())
///         },
///     )
///     .build();
/// # let _ = server;
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// Dropping the future of [`next`](Self::next) loses no event.
#[must_use = "a run does nothing unless it is read"]
pub struct GraphRun<S> {
    graph: LlmGraph<S>,
    max_steps: usize,
    steps: usize,
    handover: Arc<Handover>,
    home: Arc<Home<S>>,
    /// There while no node has it, until a run that ended well gave it away.
    state: Option<GraphState<S>>,
    stage: Stage,
}

enum Stage {
    Before(Target),
    In(usize, NodeFuture),
    Ended(Option<Error>),
}

/// No part of it is pinned in place.
impl<S> Unpin for GraphRun<S> {}

impl<S: Send + 'static> GraphRun<S> {
    pub(super) fn new(graph: LlmGraph<S>, state: S) -> Self {
        Self {
            stage: Stage::Before(graph.first()),
            graph,
            max_steps: MAX_STEPS,
            steps: 0,
            handover: Arc::default(),
            home: Home::new(),
            state: Some(GraphState::new(state)),
        }
    }

    /// How many nodes may run, each visit counted, so that a loop without an end is found. Default
    /// 100. A run that would go on after that ends with [`Error::Limit`].
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.max_steps = steps;
        self
    }

    /// The next event; `None` after the last one.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Runs to the end, without the events that were not read, and gives the state and what
    /// failed.
    ///
    /// # Errors
    /// [`Error::Limit`] with `what` = `"max_steps"`; [`Error::Config`] if a node kept the state, or
    /// a conditional edge's signal panicked.
    ///
    /// # Cancel safety
    /// Dropping the future drops the run.
    pub async fn finish(mut self) -> Result<GraphState<S>> {
        while self.next().await.is_some() {}
        let stage = std::mem::replace(&mut self.stage, Stage::Ended(None));
        match (stage, self.state.take()) {
            (Stage::Ended(None), Some(state)) => Ok(state),
            (Stage::Ended(Some(error)), _) => Err(error),
            _ => Err(Error::closed("run")),
        }
    }

    /// Begins a node.
    fn enter(&mut self, place: usize) {
        let Some(step) = self.graph.step(place) else {
            return self.end();
        };
        if self.steps >= self.max_steps {
            let node = step.name.clone();
            return self.fail(Error::limit("max_steps", self.max_steps), node);
        }
        let Some(state) = self.state.take() else {
            return self.end();
        };
        self.steps += 1;
        let ctx = NodeContext::new(self.handover.clone(), step.name.clone());
        let node = (step.work)(state.lent(&self.home), ctx);
        self.stage = Stage::In(place, node);
    }

    /// Goes on after a node, by its edges, also when it failed.
    fn leave(&mut self, place: usize, ended: Result<(), NodeError>) {
        let Some(step) = self.graph.step(place) else {
            return self.end();
        };
        let node = step.name.clone();
        let Some(mut state) = self.home.take() else {
            let kept = format!(
                "the node `{node}` kept the state of the run after it had ended: drop it, or move \
                 only a copy elsewhere"
            );
            return self.fail(Error::config(kept), node);
        };
        if let Err(error) = ended {
            let message = error.to_string();
            let content = Content::text(message.clone());
            self.handover.append(StreamEvent::made_here(
                EventKind::Error,
                content,
                Some(node.clone()),
            ));
            let failed = node.clone();
            state.record(NodeFailure {
                node: failed,
                message,
            });
        }
        match catch_unwind(AssertUnwindSafe(|| step.next.target(&state))) {
            Ok(target) => {
                self.state = Some(state);
                self.stage = Stage::Before(target);
            }
            Err(_) => {
                let fault = format!("the signal of the conditional edge from `{node}` panicked");
                self.fail(Error::config(fault), node);
            }
        }
    }

    fn fail(&mut self, error: Error, node: Node) {
        let mut event = StreamEvent::failure(error.clone());
        event.node = Some(node);
        self.handover.close(Some(event));
        self.stage = Stage::Ended(Some(error));
    }

    fn end(&mut self) {
        self.handover.close(None);
        self.stage = Stage::Ended(None);
    }
}

impl<S: Send + 'static> Stream for GraphRun<S> {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        loop {
            // What a node emitted comes before what follows it.
            if let Some(event) = self.handover.take() {
                return Poll::Ready(Some(event));
            }
            match &mut self.stage {
                Stage::Before(Target::End) => self.end(),
                Stage::Before(Target::Step(place)) => {
                    let place = *place;
                    self.enter(place);
                }
                Stage::In(place, node) => {
                    let place = *place;
                    let ended = match catch_unwind(AssertUnwindSafe(|| node.as_mut().poll(cx))) {
                        Ok(Poll::Pending) => {
                            return self.handover.poll_take(cx).map(Some);
                        }
                        Ok(Poll::Ready(ended)) => ended,
                        Err(_) => Err(NodeError::new("the node panicked")),
                    };
                    // The state comes back with what the node owned.
                    self.end_node();
                    self.leave(place, ended);
                }
                Stage::Ended(_) => return Poll::Ready(None),
            }
        }
    }
}

impl<S> GraphRun<S> {
    /// Drops what the node owned. Its destructors may panic as the node did.
    fn end_node(&mut self) {
        if let Stage::In(..) = self.stage {
            let node = std::mem::replace(&mut self.stage, Stage::Ended(None));
            let _ = catch_unwind(AssertUnwindSafe(|| drop(node)));
        }
    }
}

impl<S> Drop for GraphRun<S> {
    fn drop(&mut self) {
        self.end_node();
        self.handover.close(None);
    }
}

impl<S> fmt::Debug for GraphRun<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphRun")
            .field("graph", &self.graph)
            .field("steps", &self.steps)
            .field("max_steps", &self.max_steps)
            .finish_non_exhaustive()
    }
}

/// As in llm-graph-kit: more than a loop that improves a draft needs.
const MAX_STEPS: usize = 100;
