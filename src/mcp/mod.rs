//! The words of MCP, as pure functions over bytes and values.
//!
//! Knows no clock, no task, and nothing of this crate's own events.

pub(crate) mod classify;
pub(crate) mod era;
pub(crate) mod frame;
pub(crate) mod headers;
mod members;
pub(crate) mod param;
pub(crate) mod tool;
pub(crate) mod types;
pub(crate) mod value;
pub(crate) mod version;
