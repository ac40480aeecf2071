//! Fixtures for tests of agents: servers that are there, and peers that are not as they should be.
//!
//! - Something to call: [`echo_specialist_url`] and [`llm_specialist_url`], shared by all tests.
//! - A server of one's own: [`TestServer`], which can go and come back, or without a socket, also with
//!   tokio's clock paused, [`connect_memory`].
//! - A server whose every byte is the test's: [`ScriptedPeer`].
//! - A server, or its network, that fails: [`HostilePeer`], and [`ConnectMemory::faults`].
//!
//! All of it ends with its owner: what is dropped leaves no task and no socket.

mod fault;
mod hostile;
mod http1;
mod memory;
mod pipe;
mod request;
mod script;
mod scripted;
mod server;
mod shared;
mod spoil;

pub use fault::{Fault, Faults};
pub use hostile::HostilePeer;
pub use memory::{ConnectMemory, MemoryPeer, connect_memory};
pub use request::PeerRequest;
pub use script::Script;
pub use scripted::ScriptedPeer;
pub use server::{TestServer, free_port};
pub use shared::{echo_specialist_url, llm_specialist_url};

#[cfg(test)]
mod tests;
