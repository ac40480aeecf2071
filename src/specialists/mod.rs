//! Servers that are ready to run, and to be built upon.

mod echo;
mod llm;

pub use echo::build_echo_server;
pub use llm::build_llm_server;
