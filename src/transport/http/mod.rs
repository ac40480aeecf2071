//! Streamable HTTP over hyper's HTTP/1.

#[cfg(feature = "server")]
mod accept;
#[cfg(feature = "server")]
pub(crate) mod access;
#[cfg(feature = "server")]
pub(crate) mod body;
#[cfg(feature = "client")]
pub(crate) mod client;
mod clock;
#[cfg(feature = "server")]
mod collect;
#[cfg(feature = "client")]
mod connect;
#[cfg(feature = "server")]
pub(crate) mod connection;
#[cfg(feature = "client")]
mod endpoint;
#[cfg(feature = "client")]
mod pool;
#[cfg(feature = "server")]
mod refusal;
#[cfg(feature = "client")]
mod reply;
#[cfg(feature = "server")]
pub(crate) mod server;
#[cfg(feature = "server")]
pub(crate) mod service;
#[cfg(test)]
#[cfg(feature = "server")]
mod toy;
