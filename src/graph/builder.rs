//! How a graph is put together, and found right or wrong.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::context::NodeContext;
use super::llm_graph::{Choice, END, LlmGraph, Next, START, Step, Target, Work};
use super::output::NodeOutput;
use super::state::GraphState;
use crate::error::{Error, Result};
use crate::event::Node;

/// Puts an [`LlmGraph`] together. Nodes and edges may come in any order.
#[must_use = "a builder does nothing until it is built"]
pub struct LlmGraphBuilder<S> {
    nodes: Vec<(Node, Box<Work<S>>)>,
    edges: Vec<Edge<S>>,
}

struct Edge<S> {
    from: Node,
    to: To<S>,
}

enum To<S> {
    Choice(Box<Choice<S>>, Vec<(String, Node)>),
    Node(Node),
}

impl<S: Send + 'static> LlmGraphBuilder<S> {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            edges: Vec::new(),
        }
    }

    /// Adds a node: a name, and what it does with the state of the run.
    ///
    /// The node has the state for itself until it returns, and emits events by its
    /// [`NodeContext`]. It returns nothing, or a `Result<(), NodeError>`, where `?` takes any error.
    /// Its future is dropped when the run is.
    pub fn add_node<F, Fut, R>(mut self, name: impl Into<Node>, node: F) -> Self
    where
        F: Fn(GraphState<S>, NodeContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: NodeOutput,
    {
        let node = Arc::new(node);
        let work = move |state, ctx| {
            let node = node.clone();
            Box::pin(async move { node(state, ctx).await.into_result() }) as _
        };
        self.nodes.push((name.into(), Box::new(work)));
        self
    }

    /// Adds a node that has something of its own, a model or a hub: each visit gets a clone of it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use agent_hub_kit::{LlmGraph, START};
    ///
    /// # fn main() -> agent_hub_kit::Result<()> {
    /// let words: Arc<[&str]> = Arc::new(["a", "model's", "words"]);
    /// let graph = LlmGraph::<String>::builder()
    ///     .add_node_with("speak", words, async |words, mut said, ctx| {
    ///         for word in words.iter() {
    ///             ctx.text(*word).await?;
    ///             said.push_str(word);
    ///         }
    ///         Ok(())
    ///     })
    ///     .add_edge(START, "speak")
    ///     .build()?;
    /// # let _ = graph;
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_node_with<T, F, Fut, R>(self, name: impl Into<Node>, own: T, node: F) -> Self
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(T, GraphState<S>, NodeContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: NodeOutput,
    {
        self.add_node(name, move |state, ctx| node(own.clone(), state, ctx))
    }

    /// Adds an edge: after `from`, or from [`START`], the run goes on at `to`, or at [`END`].
    pub fn add_edge(mut self, from: impl Into<Node>, to: impl Into<Node>) -> Self {
        self.edges.push(Edge {
            from: from.into(),
            to: To::Node(to.into()),
        });
        self
    }

    /// Adds edges of which one is taken: after `from`, `signal` looks at the state, and the run
    /// goes on at the target of the key that is the signal. It ends at a signal that is no key.
    ///
    /// A signal and a key are anything that can be shown (a text, a number, a bool, an enum with
    /// [`Display`](fmt::Display)), and equal when they are shown alike. After a node that failed
    /// the signal is asked for too: [`GraphState::errors`] tells.
    ///
    /// ```
    /// # use agent_hub_kit::{END, LlmGraph, START};
    /// # fn main() -> agent_hub_kit::Result<()> {
    /// # let graph = LlmGraph::<u32>::builder()
    /// #     .add_node("guess", async |mut n, _| *n += 40)
    /// #     .add_node("praise", async |_, _| ())
    /// #     .add_edge(START, "guess")
    /// .add_conditional_edge(
    ///     "guess",
    ///     |score| if **score < 80 { "again" } else { "enough" },
    ///     [("again", "guess"), ("enough", "praise")],
    /// )
    /// #     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_conditional_edge<G, K, N>(
        mut self,
        from: impl Into<Node>,
        signal: impl Fn(&GraphState<S>) -> G + Send + Sync + 'static,
        targets: impl IntoIterator<Item = (K, N)>,
    ) -> Self
    where
        G: fmt::Display,
        K: fmt::Display,
        N: Into<Node>,
    {
        let targets = targets.into_iter();
        self.edges.push(Edge {
            from: from.into(),
            to: To::Choice(
                Box::new(move |state| signal(state).to_string()),
                targets.map(|(k, n)| (k.to_string(), n.into())).collect(),
            ),
        });
        self
    }

    /// The graph.
    ///
    /// # Errors
    /// [`Error::Config`] for what is wrong with it: no edge from [`START`], an edge to or from a
    /// node that there is not, a node twice, two edges (plain or conditional) from one node, one
    /// key twice, a node with the name of [`START`] or [`END`] or without a name, an edge from
    /// [`END`] or to [`START`]. A node that no edge leads to is none of these.
    pub fn build(self) -> Result<LlmGraph<S>> {
        let mut places = HashMap::new();
        for (place, (name, _)) in self.nodes.iter().enumerate() {
            match name.as_str() {
                "" => {
                    return Err(Error::config(
                        "a node of the graph has no name: give it one",
                    ));
                }
                START | END => {
                    return Err(Error::config(format!(
                        "the name `{name}` of a node is reserved: choose another one"
                    )));
                }
                _ if places.insert(name.clone(), place).is_some() => {
                    return Err(Error::config(format!(
                        "the node `{name}` was added twice: give each node a name of its own"
                    )));
                }
                _ => {}
            }
        }
        let places = Places(places);
        let mut first = None;
        let mut nexts: Vec<Option<Next<S>>> = self.nodes.iter().map(|_| None).collect();
        for edge in self.edges {
            let from = &edge.from;
            let next = places.next(from, edge.to)?;
            let taken = match (from.as_str(), next) {
                (START, Next::By(..)) => {
                    return Err(Error::config(
                        "the edge from START is conditional: add a plain edge to a node that \
                         decides",
                    ));
                }
                (START, Next::To(target)) => first.replace(target).is_some(),
                (_, next) => {
                    let slot = nexts.get_mut(places.source(from)?);
                    slot.is_some_and(|slot| slot.replace(next).is_some())
                }
            };
            if taken {
                let from = match from.as_str() {
                    START => "START",
                    name => name,
                };
                return Err(Error::config(format!(
                    "two edges lead away from `{from}`: join them into one conditional edge"
                )));
            }
        }
        let first = first.ok_or_else(|| {
            Error::config("no edge leads away from START: add_edge(START, ..) names the first node")
        })?;
        let steps = self.nodes.into_iter().zip(nexts);
        let steps = steps.map(|((name, work), next)| Step {
            name,
            work,
            next: next.unwrap_or(Next::To(Target::End)),
        });
        Ok(LlmGraph::new(steps.collect(), first))
    }
}

/// The nodes of a graph by name.
struct Places(HashMap<Node, usize>);

impl Places {
    /// What an edge says of where a run goes on.
    fn next<S>(&self, from: &Node, to: To<S>) -> Result<Next<S>> {
        let (choice, edges) = match to {
            To::Node(to) => return Ok(Next::To(self.target(from, &to, None)?)),
            To::Choice(choice, edges) => (choice, edges),
        };
        let mut targets: Vec<(String, Target)> = Vec::with_capacity(edges.len());
        for (key, to) in edges {
            if targets.iter().any(|(known, _)| *known == key) {
                return Err(Error::config(format!(
                    "the conditional edge from `{from}` has the key `{key}` twice: give each \
                     signal one target"
                )));
            }
            let target = self.target(from, &to, Some(&key))?;
            targets.push((key, target));
        }
        Ok(Next::By(choice, targets.into()))
    }

    fn target(&self, from: &Node, to: &Node, key: Option<&str>) -> Result<Target> {
        let place = self.0.get(to);
        match (to.as_str(), place) {
            (END, _) => Ok(Target::End),
            (_, Some(place)) => Ok(Target::Step(*place)),
            (name, None) => {
                let key = key.map_or_else(String::new, |key| format!(" for the key `{key}`"));
                Err(self.unknown(&format!("the edge from `{from}`{key} leads to"), name))
            }
        }
    }

    fn source(&self, from: &Node) -> Result<usize> {
        match self.0.get(from) {
            Some(place) => Ok(*place),
            None => Err(self.unknown("an edge leads away from", from.as_str())),
        }
    }

    fn unknown(&self, what: &str, name: &str) -> Error {
        let why = match name {
            START => "where a run begins: choose a node, or END",
            END => "where a run ends: only edges to it make sense",
            _ => "no node of the graph",
        };
        let mut known: Vec<&str> = self.0.keys().map(Node::as_str).collect();
        known.sort_unstable();
        let known = known.join(", ");
        Error::config(format!(
            "{what} `{name}`, which is {why}; its nodes: {known}"
        ))
    }
}

impl<S> fmt::Debug for LlmGraphBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&Node> = self.nodes.iter().map(|(name, _)| name).collect();
        f.debug_struct("LlmGraphBuilder")
            .field("nodes", &names)
            .finish_non_exhaustive()
    }
}
