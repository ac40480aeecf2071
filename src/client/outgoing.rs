//! Messages that wait to be sent, and replies that wait for their cancel to be delivered.
//!
//! Owns their order and their bound; must not know who sends them or what they say.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::error::Result;
use crate::mcp::frame::{Frame, Verb};
use crate::session::client::Owner;
use crate::transport::{BoxFuture, Messages, Sent};

#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Outgoing>,
    retired: HashMap<i64, Retired>,
    /// Calls whose cancel is queued or under way.
    ending: HashSet<i64>,
    closing: bool,
}

/// A message for the connection's task to send.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) frame: Frame,
    pub(super) owner: Owner,
    pub(super) ends: Option<i64>,
}

/// What is left of a cancelled call; nothing reads it, dropping it hangs up.
pub(super) enum Retired {
    Reading(#[expect(dead_code, reason = "kept to be dropped")] Box<dyn Messages>),
    Sending(#[expect(dead_code, reason = "kept to be dropped")] BoxFuture<'static, Result<Sent>>),
}

/// What more can be under way.
pub(super) struct Room {
    /// A message that an answer is waited for.
    pub(super) to_ask: bool,
    /// A message that the peer is only told.
    pub(super) to_tell: bool,
    /// None of the latter is under way.
    pub(super) idle: bool,
}

/// Nothing is left to send, and nothing will be.
#[derive(Debug)]
pub(super) struct Over;

impl Outgoing {
    /// A cancel or an answer to the peer.
    fn is_best_effort(&self) -> bool {
        self.owner == Owner::Nobody && self.frame.verb == Verb::Post
    }
}

impl Outbox {
    /// Of a connection that has ended.
    pub(super) fn closed() -> Self {
        Self {
            closing: true,
            ..Self::default()
        }
    }

    /// Queues a message. If `max` of best effort wait already, the oldest of them is dropped; gives
    /// the reply that waited for it, to be hung up.
    pub(super) fn push(&mut self, outgoing: Outgoing, max: usize) -> Option<Retired> {
        let waiting = self.waiting.iter().filter(|w| w.is_best_effort()).count();
        let overflow = if outgoing.is_best_effort() && waiting >= max {
            let oldest = self.waiting.iter().position(Outgoing::is_best_effort);
            oldest.and_then(|oldest| self.waiting.remove(oldest))
        } else {
            None
        };
        self.ending.extend(outgoing.ends);
        self.waiting.push_back(outgoing);
        self.hang_up(overflow?.ends?)
    }

    /// The next message of a kind that there is room for.
    pub(super) fn next(&mut self, room: &Room) -> Result<Option<Outgoing>, Over> {
        if self.waiting.is_empty() && self.closing && room.idle {
            return Err(Over);
        }
        let next = self.waiting.iter().position(|waiting| match waiting.owner {
            Owner::Nobody => room.to_tell,
            Owner::Confirmation | Owner::Request(_) => room.to_ask,
        });
        let Some(next) = next else { return Ok(None) };
        // The goodbye is the last word.
        let goodbye = |next: &Outgoing| next.frame.verb == Verb::Delete;
        if self.waiting.get(next).is_some_and(goodbye) && !room.idle {
            return Ok(None);
        }
        Ok(self.waiting.remove(next))
    }

    /// Keeps the reply of a call that was given up until its cancel was delivered. Gives it back if
    /// none is being sent: the connection is closed, or the call was over.
    pub(super) fn retire(&mut self, id: i64, reply: Option<Retired>) -> Option<Retired> {
        if self.ending.contains(&id) {
            self.retired.extend(reply.map(|reply| (id, reply)));
            return None;
        }
        reply
    }

    /// A cancel was delivered, or could not be. Gives the reply to be hung up.
    pub(super) fn hang_up(&mut self, id: i64) -> Option<Retired> {
        self.ending.remove(&id);
        self.retired.remove(&id)
    }

    /// All that waits, which is not for the next channel of a shared link.
    pub(super) fn take(&mut self) -> Self {
        let empty = Self {
            closing: self.closing,
            ..Self::default()
        };
        std::mem::replace(self, empty)
    }

    /// From now on only what is to be said before the end is sent.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.waiting
            .retain(|waiting| waiting.owner == Owner::Nobody);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.waiting.len(), self.retired.len(), self.ending.len()]
    }
}
