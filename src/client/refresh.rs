//! Keeps the hub's list of a server's tools up to date.
//!
//! Knows the signs that a list is old, and how soon another may follow; must not know how a list is asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::connection::Connection;
use super::events::ServerChange;
use crate::error::{Error, Result};
use crate::event::StreamEvent;
use crate::session::client::Asker;

/// How soon a list may follow the last one. A server that gives a reason for another one at each
/// look is looked at ever more seldom.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Lists in a row, each of which was due as soon as the pause after the last one was over.
    row: u32,
    ended: Option<Instant>,
}

impl Pace {
    /// The pause after a list that begins now.
    pub(super) fn begin(&mut self, now: Instant, max: Duration) -> Duration {
        const PAUSE: Duration = Duration::from_millis(250);
        /// Changes that come one by one are soon all known.
        const QUICK: u32 = 8;
        let rest = self.ended.map(|ended| now.saturating_duration_since(ended));
        self.row = match rest.is_some_and(|rest| rest < PAUSE) {
            true => self.row.saturating_add(1),
            false => 0,
        };
        let doublings = self.row.saturating_sub(QUICK);
        let grown = PAUSE.saturating_mul(2_u32.saturating_pow(doublings));
        grown.min(max.max(PAUSE))
    }

    /// The pause after the last one is over.
    pub(super) fn handle_end(&mut self, now: Instant) {
        self.ended = Some(now);
    }
}

/// Lists the tools of a server again. The connection's task runs one at a time, and the pause after
/// it bounds what a server costs that says so at each look.
pub(super) async fn refresh(connection: Arc<Connection>, pause: Duration) {
    // One that is opened again is listed then. To start a child is for whoever needs it.
    if connection.session(|session| session.opened().is_none()) {
        return;
    }
    // The hub's status and its observer tell of a failure.
    let _ = relist(&connection).await;
    sleep(pause).await;
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

    #[test]
    fn a_server_that_always_has_changes_is_looked_at_ever_more_seldom() {
        let (mut now, max) = (crate::client::driver::now(), Duration::from_secs(30));
        let mut pace = Pace::default();
        let mut pauses = |rests: &[u64]| -> Vec<u128> {
            let mut pauses = Vec::new();
            for rest in rests {
                now += Duration::from_millis(*rest);
                let pause = pace.begin(now, max);
                now += pause;
                pace.handle_end(now);
                pauses.push(pause.as_millis());
            }
            pauses
        };
        assert_eq!(pauses(&[0; 9]), [250; 9]);
        let grown = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
        assert_eq!(pauses(&[0, 10, 0, 0, 0, 0, 0, 249]), grown);
        assert_eq!(pauses(&[250, 0, 250, 0]), [250; 4], "it was at rest");
        assert_eq!(Pace::default().begin(now, Duration::ZERO).as_millis(), 250);
    }

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
