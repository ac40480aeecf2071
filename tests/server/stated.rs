//! Requests that say of themselves which revision they follow, as a client without a session sends
//! them.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::fixture::post_bytes;
use crate::raw::{Answer, Raw};

pub const VERSION: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");

/// What such a request says in `_meta`.
pub fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
    })
}

/// The body of a request. Members of `_meta` in `params` are kept, and win.
pub fn body(id: impl Into<Value>, method: &str, mut params: Value) -> String {
    let mut said = meta();
    if let Some(more) = params["_meta"].take().as_object() {
        let said = said.as_object_mut().unwrap();
        said.extend(more.clone());
    }
    params["_meta"] = said;
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params}).to_string()
}

/// The bytes of a request with the headers that say the same as its body, and these.
pub fn bytes(addr: SocketAddr, body: &str, more: &[(&str, &str)]) -> String {
    let message: Value = serde_json::from_str(body).unwrap();
    let mut headers = vec![VERSION, ("Mcp-Method", message["method"].as_str().unwrap())];
    if let Some(name) = message["params"]["name"].as_str() {
        headers.push(("Mcp-Name", name));
    }
    headers.extend(more);
    post_bytes(addr, &headers, body)
}

/// Sends a request over a connection of its own and waits for the answer's head.
pub async fn ask(addr: SocketAddr, id: impl Into<Value>, method: &str, params: Value) -> Answer {
    ask_with(addr, &[], id, method, params).await
}

/// The same with further headers.
pub async fn ask_with(
    addr: SocketAddr,
    more: &[(&str, &str)],
    id: impl Into<Value>,
    method: &str,
    params: Value,
) -> Answer {
    let mut raw = Raw::connect(addr).await;
    raw.send(bytes(addr, &body(id, method, params), more)).await;
    raw.answer().await
}

/// `params` of a call that wants no progress.
pub fn quiet(tool: &str, arguments: Value) -> Value {
    json!({"name": tool, "arguments": arguments})
}

/// `params` of a call with a progress token.
pub fn streaming(tool: &str, arguments: Value) -> Value {
    json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "t"}})
}

/// `params` of a subscription to changed tools.
pub fn tools() -> Value {
    json!({"notifications": {"toolsListChanged": true}})
}
