//! Servers of this crate.

use agent_hub_kit::{McpServer, Tool, ToolContext};

use super::{Texts, write_line};
use crate::{Outcome, wire};

fn server() -> McpServer {
    McpServer::builder("ours", "1")
        .tool(
            Tool::typed::<wire::Echo>("echo"),
            async |args: wire::Echo, _: ToolContext| Ok(args.text),
        )
        .tool(
            Tool::typed::<wire::Stream>("stream"),
            async |args: wire::Stream, ctx: ToolContext| {
                let (stream, mut texts) = (ctx.streamer(wire::NODE), Texts::new(args));
                while let Some(text) = texts.next().await {
                    stream.text(text).await?;
                }
                Ok("done")
            },
        )
        .tool(
            Tool::typed::<wire::Stream>("compute"),
            async |args: wire::Stream, ctx: ToolContext| {
                let (stream, mut texts) = (ctx.streamer(wire::NODE), Texts::new(args));
                while let Some(text) = texts.compute() {
                    stream.text(text).await?;
                }
                Ok("done")
            },
        )
        .build()
}

pub(super) async fn serve_http() -> Outcome {
    let bound = server().bind("127.0.0.1:0").await?;
    let url = bound.url();
    let address = url.strip_prefix("http://").unwrap_or(url);
    write_line(address.split('/').next().unwrap_or(address))?;
    Ok(bound.serve().await?)
}

pub(super) async fn serve_stdio() -> Outcome {
    Ok(server().serve_stdio().await?)
}
