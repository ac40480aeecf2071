//! What servers were found to speak.
//!
//! Owns who is remembered, and for how long; must not know what follows from it.

use std::collections::VecDeque;

use crate::mcp::version::ProtocolVersion;

/// The revisions of servers that were asked, newest finding last.
#[derive(Debug)]
pub(super) struct Known {
    /// By what tells the server from others: [`Link::peer`](crate::transport::Link::peer).
    found: VecDeque<(u64, ProtocolVersion)>,
    max: usize,
}

impl Known {
    pub(super) fn new(max: usize) -> Self {
        Self {
            found: VecDeque::new(),
            max,
        }
    }

    pub(super) fn find(&self, peer: u64) -> Option<ProtocolVersion> {
        let (_, version) = self.found.iter().find(|(known, _)| *known == peer)?;
        Some(*version)
    }

    /// Remembers a finding; one beyond the bound takes the place of the oldest.
    pub(super) fn add(&mut self, peer: u64, version: ProtocolVersion) {
        self.forget(peer);
        self.found.push_back((peer, version));
        if self.found.len() > self.max {
            self.found.pop_front();
        }
    }

    /// A finding led to nothing.
    pub(super) fn forget(&mut self, peer: u64) {
        self.found.retain(|(known, _)| *known != peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_finding_counts_and_the_oldest_makes_room() {
        let [old, new] = [
            ProtocolVersion::NEWEST_LEGACY,
            ProtocolVersion::NEWEST_MODERN,
        ];
        let mut known = Known::new(2);
        assert_eq!(known.find(1), None);
        known.add(1, old);
        known.add(2, old);
        known.add(1, new);
        assert_eq!((known.find(1), known.find(2)), (Some(new), Some(old)));
        known.add(3, new);
        assert_eq!((known.find(1), known.find(2)), (Some(new), None));
        known.forget(2);
        known.forget(3);
        assert_eq!((known.find(1), known.find(3)), (Some(new), None));
        let mut none = Known::new(0);
        none.add(1, old);
        assert_eq!(none.find(1), None);
    }
}
