//! A client's subscription: word of each change of the tools, until one side ends it.
//!
//! Owns the order of its messages: what is granted first, its result last. Must not know what
//! carries them. However often the tools change, one word waits.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::calls::{Begun, Session};
use super::driver::Host;
use super::notice::{Listener, Notice};
use crate::session::outbox::Outbox;
use crate::session::progress::Framing;
use crate::session::server::{ListenRequest, busy};
use crate::transport::Source;
use crate::wire::chunk::Chunk;

/// The reading end of a subscription. Dropped, nobody hears of anything any more.
pub(super) struct Subscription {
    /// What comes first and what comes last.
    outbox: Arc<Outbox>,
    framing: Framing,
    /// `None` if nothing was granted: then it is over at once.
    changes: Option<Changes>,
}

struct Changes {
    listener: Listener,
    changed: Bytes,
    _begun: Begun,
}

impl Subscription {
    /// Begins to listen. The error is the response if there is no place for one more.
    pub(super) fn begin(
        host: &Host,
        session: &Arc<Session>,
        listen: ListenRequest,
        framing: Framing,
    ) -> Result<Self, Vec<u8>> {
        let outbox = Arc::new(Outbox::new(framing, None, 1, 0));
        // There is one form of answer here.
        let _ = outbox.decide();
        outbox.push_message(&listen.words.acknowledged);
        let Some(changed) = listen.words.changed.clone() else {
            outbox.end(200, listen.words.ended);
            return Ok(Self {
                outbox,
                framing,
                changes: None,
            });
        };
        let id = listen.id.clone();
        let begun = host.subscribe().and_then(|(notice, place)| {
            let begun = session.subscribe(listen, &outbox, place)?;
            Some((notice, begun))
        });
        let Some((notice, begun)) = begun else {
            session.turn_away(&id);
            return Err(busy(&id, "max_subscriptions"));
        };
        Ok(Self {
            outbox,
            framing,
            changes: Some(Changes {
                listener: Notice::listen(&notice),
                changed,
                _begun: begun,
            }),
        })
    }

    /// See [`Outbox::left_behind`].
    pub(super) fn left_behind(&self) -> Option<usize> {
        self.outbox.left_behind()
    }
}

impl Source for Subscription {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        let said = self.outbox.poll_chunk(cx);
        let Some(changes) = self.changes.as_ref().filter(|_| said.is_pending()) else {
            return said;
        };
        match changes.listener.poll_changed(cx) {
            Poll::Ready(true) => {
                let mut framed = Vec::new();
                self.framing.write(&mut framed, &changes.changed);
                Poll::Ready(Some(Chunk::once(framed)))
            }
            // Its end is for the outbox to tell.
            Poll::Ready(false) | Poll::Pending => Poll::Pending,
        }
    }

    fn is_end(&self) -> bool {
        self.outbox.is_drained()
    }
}
