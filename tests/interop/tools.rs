//! The server that a peer's client talks to.

use std::sync::Arc;

use agent_hub_kit::{EventStreamer, McpServer, RawArgs, Result, Tool, ToolContext, specialists};
use serde_json::json;
use tokio::sync::Notify;

/// Our echo, with three tools beside it: `hold` never ends by itself, `released` ends when a call of
/// `hold` was dropped, and `all_types` sends one event of every type.
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
        .tool(
            Tool::new("all_types"),
            async |_: RawArgs, ctx: ToolContext| {
                every_type(&ctx).await?;
                Ok("answered")
            },
        )
        .build()
}

/// Each by its own method; `gesture` is a type of this tool's own.
async fn every_type(ctx: &ToolContext) -> Result<()> {
    let nowhere = EventStreamer::new(ctx);
    let stream = nowhere.with_node("draw");
    let face = stream.with_node("顔 \"face\"");
    nowhere.log("asked").await?;
    stream.with_node("plan").think("まず考える…").await?;
    face.text("こんにちは 👋🏽 \"you\" \\ / \u{8}\u{c}\n\r\t \u{1}\u{7f} \u{2028} é")
        .await?;
    stream.image("data:image/png;base64,iVBORw0KGgo=").await?;
    stream.stl("data:model/stl;base64,c29saWQgYQ==").await?;
    let video = json!({"url": "https://example.org/a.mp4?b=1&c=2", "seconds": 1.25});
    stream.video(video).await?;
    let feeling = json!({"joy": 0.75, "悲しみ": 0, "keys": ["😀", null, true]});
    face.emotion(feeling).await?;
    face.error("the camera is off, so I go on without it")
        .await?;
    let moves = json!([1, -2.5, {"deep": {"er": []}}, ""]);
    nowhere.send("gesture", moves).await
}

/// Tells that it was dropped.
struct Held(Arc<Notify>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}
