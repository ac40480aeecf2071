//! Progress notifications: an event to a finished SSE frame or line in one pass, and back.
//!
//! Owns the notification around the envelope; must not know who sends it when.

mod decode;
mod encode;
mod fast;

pub(crate) use decode::{decode_progress, read_token};
pub(crate) use encode::{Framing, ProgressFrame};
pub(crate) use fast::ProgressDecoder;

#[cfg(test)]
mod tests;
