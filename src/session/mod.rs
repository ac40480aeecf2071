//! The protocol's state machines, without I/O.
//!
//! Bytes and verbs go in, frames and events come out; time and secrets are handed in. Nothing here
//! knows tokio, hyper, or which era is spoken: what differs is asked of a
//! [`Dialect`](crate::mcp::era::Dialect).
//!
//! After every input the driver takes all outputs. An output has one of three shapes: send this
//! frame, stop reading this reply, give the caller this event.
//!
//! A client's connection:
//!
//! ```text
//!          open()            answer             confirmed
//!   New ───────────▶ Opening ───────▶ Confirming ───────▶ Open
//!    ▲                │ ▲ └── nothing to confirm ──────────▲│
//!    │                │ └─ refused: the other era's opening │
//!    │                │ refused         │ failed            │ session lost
//!    └────────────────┴─────────────────┴───────────────────┘
//!                                 close() from anywhere: Closed
//! ```
//!
//! A call, on either side:
//!
//! ```text
//!   Open ──event──▶ Open
//!     │ response, failure, cancel, timeout, connection lost: whichever is first
//!     ▼
//!   Ended          all that comes later is dropped
//! ```
//!
//! What becomes of malformed input:
//!
//! | input | as client | as server |
//! |---|---|---|
//! | not JSON, not UTF-8, nested too deep | skipped; the reply's end fails its request | error -32700 |
//! | JSON that is no message | skipped | error -32600 |
//! | a malformed answer to a pending request | that request fails | error -32600 |
//! | an error whose id was never given out | fails the request whose reply it is in; on a shared channel answers the question what is spoken | – |
//! | an answer to nothing | dropped | accepted, no effect |
//! | progress for nobody, or without a usable token | dropped | ignored |
//! | an envelope that is none | a text event with the whole message | – |
//! | an unknown notification | ignored | ignored |
//! | an unknown request | error -32601 | error -32601 |
//! | a cancel for nothing, or without an id | ignored | ignored |

pub(crate) mod call;
pub(crate) mod client;
pub(crate) mod negotiate;
pub(crate) mod outbox;
mod pending;
pub(crate) mod progress;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod server;
pub(crate) mod table;
pub(crate) mod tools;
