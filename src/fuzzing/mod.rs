//! What must hold of any input: one function a fuzz target, which panics where it does not.
//!
//! Owns the properties; must not know who makes the inputs up. Fuzzers do, and tests give the
//! seeds in `fuzz/seeds` to the same functions. No part of the crate that is used: compiled only
//! for tests and with `--cfg fuzzing`.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a property that does not hold panics"
)]

use bytes::Bytes;

mod client_session;
mod envelope;
mod fast_path;
mod headers;
mod json;
mod jsonrpc;
mod lines;
mod server_session;
mod sse;

#[cfg(test)]
mod tests;

pub use client_session::{ClientCase, client_session};
pub use envelope::envelope;
pub use fast_path::fast_path;
pub use headers::headers;
pub use jsonrpc::jsonrpc;
pub use lines::lines;
pub use server_session::{ServerCase, server_session};
pub use sse::sse;

/// How a body may arrive: whole, byte by byte, and in pieces of sizes that `seed` decides. The
/// pieces of one share their buffer, those of another have one each.
fn splits(body: &[u8], seed: u8) -> [Vec<Bytes>; 4] {
    let whole = Bytes::copy_from_slice(body);
    let mut rest = whole.clone();
    let mut state = u32::from(seed);
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = (state >> 24) as usize % 24 + usize::from(seed % 2);
        pieces.push(rest.split_to(size.min(rest.len())));
    }
    let own = |piece: &Bytes| Bytes::copy_from_slice(piece);
    let apart = pieces.iter().map(own).collect();
    // A long one byte by byte would take longer than it shows.
    let size = body.len().div_ceil(256).max(1);
    let bytes = body.chunks(size).map(Bytes::copy_from_slice).collect();
    [vec![whole], pieces, apart, bytes]
}

/// A bound that a fuzzer picks: small ones that inputs reach, and one that none does.
fn bound(pick: u8) -> usize {
    match pick {
        0..128 => pick.into(),
        _ => 1 << 20,
    }
}
