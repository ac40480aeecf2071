//! The server half through its public API and raw bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a test may fail loudly"
)]

#[path = "server/fixture.rs"]
mod fixture;
#[path = "server/raw.rs"]
mod raw;
#[path = "server/stated.rs"]
mod stated;

#[path = "server/authorization.rs"]
mod authorization;
#[path = "server/batches.rs"]
mod batches;
#[path = "server/bounds.rs"]
mod bounds;
#[path = "server/building.rs"]
mod building;
#[path = "server/changes.rs"]
mod changes;
#[path = "server/ending.rs"]
mod ending;
#[path = "server/eras.rs"]
mod eras;
#[path = "server/forms.rs"]
mod forms;
#[path = "server/handlers.rs"]
mod handlers;
#[path = "server/hanging_up.rs"]
mod hanging_up;
#[path = "server/headers.rs"]
mod headers;
#[path = "server/hostile.rs"]
mod hostile;
#[path = "server/lifecycle.rs"]
mod lifecycle;
#[path = "server/mounted.rs"]
mod mounted;
#[path = "server/pace.rs"]
mod pace;
#[path = "server/pages.rs"]
mod pages;
#[path = "server/remains.rs"]
mod remains;
#[path = "server/replay.rs"]
mod replay;
#[path = "server/shutdown.rs"]
mod shutdown;
#[path = "server/stateless.rs"]
mod stateless;
#[path = "server/streaming.rs"]
mod streaming;
#[path = "server/subscriptions.rs"]
mod subscriptions;
