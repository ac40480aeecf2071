//! The calls that the official conformance suite waits for. The suite runs
//! `conformance_client URL` against a server of its own and names the scenario in the environment;
//! see `tests/conformance/run.sh`.

use std::collections::BTreeMap;

use agent_hub_kit::AgentHubClient;
use serde::Deserialize;
use serde_json::{Value, json};

/// What the suite wants to be called.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    tool_calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    name: String,
    arguments: Value,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().next_back().ok_or("give a URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let hub = AgentHubClient::builder().build();
    hub.connect_http("suite", url).await?; // lists the tools as well
    match scenario.as_str() {
        "initialize" | "json-schema-ref-no-deref" | "request-metadata" => {}
        "tools_call" => {
            hub.call_tool("add_numbers", json!({ "a": 5, "b": 3 }))
                .await?;
        }
        "sse-retry" => {
            hub.call_tool("test_reconnection", ()).await?;
        }
        "json-schema-2020-12-preservation" => {
            let tool = hub.find_tool("json_schema_2020_12_tool");
            let tool = tool.ok_or("the tool with the schema is not listed")?;
            let arguments = BTreeMap::from([("schema", tool.input_schema())]);
            hub.call_tool("json_schema_echo", arguments).await?;
        }
        "http-standard-headers" => {
            hub.call_tool("test_headers", ()).await?;
        }
        "http-custom-headers" => {
            let context = std::env::var("MCP_CONFORMANCE_CONTEXT")?;
            let context: Context = serde_json::from_str(&context)?;
            for call in context.tool_calls {
                hub.call_tool(&call.name, call.arguments).await?;
            }
        }
        "http-invalid-tool-headers" => {
            for tool in hub.list_tools().await.iter().flat_map(|(_, tools)| tools) {
                hub.call_tool(tool.name(), ()).await?;
            }
        }
        other => return Err(format!("unknown scenario: {other}").into()),
    }
    hub.close().await;
    Ok(())
}
