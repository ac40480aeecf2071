//! Servers that are ready to run, and to be built upon.

mod echo;

pub use echo::build_echo_server;
