//! Models against endpoints that write their bytes by hand.

#![allow(clippy::unwrap_used, clippy::panic)]

mod answers;
mod endpoint;
