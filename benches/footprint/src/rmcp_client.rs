//! What `edge_client` does, on the official SDK: `rmcp_client URL TEXT`.

use rmcp::model::{CallToolRequestParams, ProgressNotificationParam};
use rmcp::service::NotificationContext;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use serde_json::Value;

type Anything = Box<dyn std::error::Error + Send + Sync>;

struct Printer;

impl ClientHandler for Printer {
    async fn on_progress(
        &self,
        seen: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let message = seen.message.unwrap_or_default();
        let event: Value = serde_json::from_str(&message).unwrap_or_default();
        print!("{}", event["content"].as_str().unwrap_or_default());
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Anything> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(text)) = (args.next(), args.next()) else {
        return Err("usage: rmcp_client URL TEXT".into());
    };
    let client = Printer
        .serve(StreamableHttpClientTransport::from_uri(url))
        .await?;
    let mut arguments = serde_json::Map::new();
    arguments.insert("text".into(), text.into());
    let params = CallToolRequestParams::new("echo").with_arguments(arguments);
    let result = client.call_tool(params).await?;
    for block in &result.content {
        println!("\n{}", block.as_text().map_or("", |text| &text.text));
    }
    client.cancel().await?;
    Ok(())
}
