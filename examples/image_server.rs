//! A tool that takes images: it says how large each is, and gives a thumbnail of it.
//!
//!     cargo run --example image_server --features image
//!     agent-hub call http://127.0.0.1:8001/mcp look --image photo.jpg
#![allow(clippy::print_stdout)] // whoever starts it looks for its URL

use std::io::Cursor;

use agent_hub_kit::{
    DataUri, EventStreamer, McpServer, Result, Tool, ToolContext, ToolError,
    encode_image_to_data_uri,
};
use image::{ImageReader, Limits};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct LookArgs {
    /// the images to look at
    images: Option<Vec<DataUri>>,
}

fn look(uri: &DataUri, stream: &EventStreamer) -> Result<(), ToolError> {
    let mut reader = ImageReader::new(Cursor::new(uri.decode())).with_guessed_format()?;
    // A few bytes may say that they are a billion pixels.
    let mut limits = Limits::default();
    (limits.max_image_width, limits.max_image_height) = (Some(10_000), Some(10_000));
    limits.max_alloc = Some(256 << 20);
    reader.limits(limits);
    let format = reader.format().map_or("", |format| format.to_mime_type());
    let image = reader.decode()?;
    let (width, height) = (image.width(), image.height());
    stream.blocking_log(format!("{width} x {height} pixels, {format}"))?;
    let thumbnail = image.thumbnail(width.min(64), height.min(64));
    stream.blocking_image(encode_image_to_data_uri(thumbnail)?)?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8001".into());
    let tool = Tool::typed::<LookArgs>("look").description("Look at images");
    let server = McpServer::builder("image-server", "0.1.0")
        .tool(tool, async |args: LookArgs, ctx: ToolContext| {
            let images = args.images.unwrap_or_default();
            // To decode takes its time, for which all else would wait.
            ctx.spawn_blocking(move |stream| {
                for (n, image) in images.iter().enumerate() {
                    look(image, &stream)
                        .map_err(|e| ToolError::new(format!("images[{n}]: {e}")))?;
                }
                Ok(format!("{} images", images.len()))
            })
            .await
        })
        .build();
    let bound = server.bind(format!("127.0.0.1:{port}")).await?;
    println!("{}", bound.url());
    bound.serve().await
}
