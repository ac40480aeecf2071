//! Streamable HTTP over hyper's HTTP/1.

#[cfg(feature = "server")]
mod accept;
#[cfg(feature = "server")]
pub(crate) mod access;
#[cfg(feature = "server")]
pub(crate) mod authorize;
#[cfg(feature = "server")]
pub(crate) mod body;
#[cfg(feature = "client")]
pub(crate) mod client;
mod clock;
#[cfg(feature = "server")]
mod collect;
#[cfg(any(feature = "client", feature = "llm"))]
mod connect;
#[cfg(feature = "server")]
pub(crate) mod connection;
#[cfg(feature = "server")]
mod cors;
#[cfg(any(feature = "client", feature = "llm"))]
mod endpoint;
#[cfg(all(unix, feature = "server"))]
pub(crate) mod passed;
#[cfg(all(not(unix), feature = "server"))]
#[path = "none_passed.rs"]
pub(crate) mod passed;
#[cfg(any(feature = "client", feature = "llm"))]
mod peer;
#[cfg(any(feature = "client", feature = "llm"))]
mod pool;
#[cfg(feature = "llm")]
pub(crate) mod post;
#[cfg(any(feature = "client", feature = "llm"))]
pub(crate) mod provider;
#[cfg(feature = "server")]
mod refusal;
#[cfg(any(feature = "client", feature = "llm"))]
mod reply;
#[cfg(feature = "server")]
mod secured;
#[cfg(feature = "server")]
pub(crate) mod server;
#[cfg(feature = "server")]
pub(crate) mod service;
#[cfg(feature = "server")]
pub(crate) mod tokens;
#[cfg(test)]
#[cfg(feature = "server")]
mod toy;
