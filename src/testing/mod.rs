//! Fixtures for tests of agents: a client and a server in one process, without a socket.

mod memory;

pub use memory::{ConnectMemory, connect_memory};
