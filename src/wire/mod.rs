//! Bytes to values and back: JSON-RPC, SSE, newline framing.
//!
//! Knows no word of MCP, reads no clock and runs no task. Each decoder takes bytes in any split,
//! gives values out, and treats "not yet" as a value.

pub(crate) mod chunk;
mod input;
pub(crate) mod jsonrpc;
pub(crate) mod lines;
pub(crate) mod sse;
