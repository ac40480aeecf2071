//! TLS over a byte stream, from either side.
//!
//! Owns whom a client trusts and what a server proves itself with; must not know HTTP, beyond the
//! name of the version that is spoken inside.

mod client;
mod pem;
mod roots;
mod server;

pub(crate) use client::{Trust, check};
pub use roots::RootCertificates;
pub use server::ServerTls;

/// What is spoken inside, as it is offered and agreed on (ALPN).
const HTTP_1_1: &[u8] = b"http/1.1";
