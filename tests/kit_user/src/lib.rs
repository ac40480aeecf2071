//! An agent of a user of the kit: it asks a model, and has an answer also when the model has none.

use agent_hub_kit::{AgentHubClient, EventKind, Result};
use serde_json::json;

/// What the agent says when it cannot think.
pub const FALLBACK: &str = "Ask me later.";

/// Asks the model behind `hub`, and gives its answer as it came, piece by piece, and whole.
///
/// # Errors
/// If the call fails in a way that trying again would not help.
pub async fn answer(hub: &AgentHubClient, question: &str) -> Result<(Vec<String>, String)> {
    let mut pieces = Vec::new();
    let mut events = hub.call_tool_stream("ask", json!({"user_request": question}));
    while let Some(event) = events.next().await {
        if event.kind == EventKind::Text {
            pieces.extend(event.text().map(str::to_owned));
        }
        if let Some(failed) = event.error() {
            return match failed.is_retryable() {
                true => Ok((pieces, FALLBACK.to_owned())),
                false => Err(failed.clone()),
            };
        }
        if event.is_terminal() {
            return Ok((
                pieces,
                event
                    .content
                    .value()
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            ));
        }
    }
    Ok((pieces, FALLBACK.to_owned()))
}
