//! Streams that a client goes on with, as bodies of answers.
//!
//! Owns nothing but that form; must not know which events follow, nor who may ask for them.

use std::task::{Context, Poll};

use super::exchange::Once;
use crate::session::outbox::tape::{Reading, Resumed};
use crate::transport::Source;
use crate::wire::chunk::Chunk;

pub(super) fn resumed(stream: Resumed) -> Box<dyn Source> {
    match stream {
        Resumed::Rest(bytes) => {
            let rest = (!bytes.is_empty()).then(|| Chunk::once(bytes));
            Box::new(Once(rest))
        }
        Resumed::Stream(reading) => Box::new(reading),
    }
}

impl Source for Reading {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        self.poll_next(cx)
    }

    fn is_end(&self) -> bool {
        self.is_drained()
    }
}
