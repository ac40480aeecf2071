//! Keeps the hub's list of a server's tools up to date.
//!
//! Knows the signs that a list is old; must not know how a list is asked for.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::connection::Connection;
use super::events::ServerChange;
use crate::error::{Error, Result};
use crate::event::StreamEvent;
use crate::session::client::Asker;

/// Lists the tools of a server again. The connection's task runs one at a time, and the pause after
/// it bounds what a server costs that says so at each look.
pub(super) async fn refresh(connection: Arc<Connection>) {
    const PAUSE: Duration = Duration::from_millis(250);
    // One that is opened again is listed then. To start a child is for whoever needs it.
    if connection.session(|session| session.opened().is_none()) {
        return;
    }
    // The hub's status and its observer tell of a failure.
    let _ = relist(&connection).await;
    sleep(PAUSE).await;
}

/// Lists the tools of a server again and gives them to the hub.
pub(super) async fn relist(connection: &Arc<Connection>) -> Result<()> {
    let hub = || connection.hub.upgrade().ok_or_else(|| Error::closed("hub"));
    let list = hub()?.next_list();
    // No hub is held meanwhile: this must not keep it from ending.
    let listed = connection.list(Asker::Hub).await;
    let hub = hub()?;
    hub.keep_list(connection, list, listed)?;
    hub.observer
        .change(connection.name(), ServerChange::ToolsListed);
    Ok(())
}

/// Whether a call ended with its server saying that it has no such tool: as an error with the code
/// of bad parameters, or, as some servers do, as a failure of the tool.
pub(super) fn says_unknown_tool(event: &StreamEvent) -> bool {
    const INVALID_PARAMS: i64 = -32602;
    let text = match event.error() {
        Some(Error::Rpc { code, message, .. }) if *code == INVALID_PARAMS => message,
        Some(Error::Tool { content, .. }) => content.as_str().unwrap_or_default(),
        _ => return false,
    };
    let start = text.get(.."unknown tool".len());
    start.is_some_and(|start| start.eq_ignore_ascii_case("unknown tool"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;

    //
    #[test]
    fn only_a_server_that_says_so_does_not_know_a_tool() {
        let rpc = |code, message: &str| Error::Rpc {
            place: Place::default(),
            code,
            message: message.into(),
            data: None,
        };
        let tool = |content: serde_json::Value| Error::Tool {
            place: Place::default(),
            content: content.into(),
        };
        let table = [
            (rpc(-32602, "Unknown tool: echo"), true),
            (rpc(-32602, "unknown tool"), true),
            (rpc(-32602, "bad argument"), false),
            (rpc(-32603, "Unknown tool: echo"), false),
            (rpc(-32602, "unknown töol"), false),
            (tool("Unknown tool: echo".into()), true),
            (tool("the unknown tool".into()), false),
            (tool(serde_json::json!(["Unknown tool"])), false),
            (Error::closed("connection"), false),
        ];
        for (error, expected) in table {
            let said = error.to_string();
            let event = StreamEvent::failure(error);
            assert_eq!(says_unknown_tool(&event), expected, "{said}");
        }
    }
}
