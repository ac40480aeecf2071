//! The server that a peer's client talks to.

use std::sync::Arc;

use agent_hub_kit::{McpServer, RawArgs, Tool, ToolContext, specialists};
use tokio::sync::Notify;

/// Our echo, with two tools beside it: `hold` never ends by itself, and `released` ends when a call
/// of `hold` was dropped.
pub(crate) fn echo_and_hold() -> McpServer {
    let dropped = Arc::new(Notify::new());
    let held = Arc::clone(&dropped);
    let hold = move |_: RawArgs, ctx: ToolContext| {
        let held = Held(Arc::clone(&held));
        async move {
            let stream = ctx.streamer("rust");
            for text in ["one", "two", "three"] {
                stream.text(text).await?;
            }
            std::future::pending::<()>().await;
            drop(held);
            Ok(())
        }
    };
    let released = move |_: RawArgs, _: ToolContext| {
        let dropped = Arc::clone(&dropped);
        async move {
            dropped.notified().await;
            Ok("released")
        }
    };
    specialists::build_echo_server()
        .tool(Tool::new("hold"), hold)
        .tool(Tool::new("released"), released)
        .build()
}

/// Tells that it was dropped.
struct Held(Arc<Notify>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}
