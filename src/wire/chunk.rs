//! Outgoing bytes in a buffer that goes back to where it came from.
//!
//! Owns the buffer and its way home; must not know what the bytes mean. A fresh `Bytes` per write
//! costs an allocation and a free each; a pair of recycled vectors costs neither.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Buf;

/// A place for one vector that is not in use.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Option<Vec<u8>>>);

/// What a returned vector may hold on to; a larger one is freed.
const MAX_SPARE_BYTES: usize = 128 * 1024;

impl Spare {
    /// The spare vector, empty, or a new one.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .unwrap_or_default()
    }

    fn give(&self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= MAX_SPARE_BYTES {
            bytes.clear();
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
        }
    }
}

/// Bytes on their way out.
#[derive(Debug)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    read: usize,
    home: Option<Arc<Spare>>,
}

impl Chunk {
    /// Bytes whose vector goes back to `home` once they are written.
    pub(crate) fn recycled(bytes: Vec<u8>, home: Arc<Spare>) -> Self {
        Self {
            bytes,
            read: 0,
            home: Some(home),
        }
    }

    /// Bytes that are written once and freed.
    pub(crate) fn once(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            read: 0,
            home: None,
        }
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.len() - self.read
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.get(self.read..).unwrap_or_default()
    }

    fn advance(&mut self, count: usize) {
        assert!(
            count <= self.remaining(),
            "advanced past the end of a chunk"
        );
        self.read += count;
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self.chunk()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_chunk_gives_its_vector_back() {
        let spare = Arc::new(Spare::default());
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(b"abc");
        let at = bytes.as_ptr();
        let mut chunk = Chunk::recycled(bytes, spare.clone());
        chunk.advance(1);
        assert_eq!((chunk.remaining(), chunk.chunk()), (2, &b"bc"[..]));
        drop(chunk);
        let back = spare.take();
        assert_eq!((back.as_ptr(), back.len()), (at, 0));
    }

    #[test]
    fn a_vector_over_the_cap_is_not_kept() {
        let spare = Arc::new(Spare::default());
        drop(Chunk::recycled(
            Vec::with_capacity(MAX_SPARE_BYTES + 1),
            spare.clone(),
        ));
        assert_eq!(spare.take().capacity(), 0);
    }
}
