//! Models against endpoints that write their bytes by hand, and models of a user's own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod endpoint;
mod failures;
mod own;
mod stopping;
