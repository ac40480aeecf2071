//! MCP over the standard streams: of a child process, or our own.

#[cfg(feature = "client")]
pub(crate) mod child;
#[cfg(feature = "client")]
mod command;
#[cfg(feature = "server")]
pub(crate) mod own;
#[cfg(feature = "client")]
mod process;

#[cfg(feature = "client")]
pub use command::StdioCommand;
