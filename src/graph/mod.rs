//! Agents as graphs of steps: nodes that speak while they run, edges that pick the next one.
//!
//! Owns the graph, its run and what a node gets; must not know MCP, tools or a runtime: a run is a
//! stream that whoever reads it drives.

mod builder;
mod context;
mod handover;
mod llm_graph;
mod mermaid;
mod output;
mod run;
mod state;

pub use builder::LlmGraphBuilder;
pub use context::NodeContext;
pub use llm_graph::{END, LlmGraph, START};
pub use output::{NodeError, NodeOutput};
pub use run::GraphRun;
pub use state::{GraphState, NodeFailure};

#[cfg(test)]
mod tests;
