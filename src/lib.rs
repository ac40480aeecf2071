//! Agents call each other over MCP with token-level streaming.

// Each floor is laid before what stands on it.
#![allow(dead_code, unused_imports)]

mod error;
mod limits;
mod wire;
pub use error::{Error, Place, Result, Source};
pub use limits::Limits;
