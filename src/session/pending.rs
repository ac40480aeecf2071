//! Requests that wait for their answer: ids, tokens and deadlines in one table.
//!
//! Owns the numbering; must not know what a request asks. An id is a counter, never used again, so
//! a late answer finds nothing. A call's progress token is its id.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use crate::wire::jsonrpc::RequestId;

#[derive(Debug)]
pub(super) struct Pending<T> {
    next: i64,
    entries: HashMap<i64, Entry<T>>,
    deadlines: BTreeSet<(Instant, i64)>,
}

#[derive(Debug)]
struct Entry<T> {
    work: T,
    deadline: Option<Instant>,
}

impl<T> Pending<T> {
    pub(super) fn new() -> Self {
        Self {
            next: 1,
            entries: HashMap::new(),
            deadlines: BTreeSet::new(),
        }
    }

    /// Numbers a request and keeps what it is about.
    pub(super) fn insert(&mut self, deadline: Option<Instant>, work: impl FnOnce(i64) -> T) -> i64 {
        let id = self.next;
        self.next += 1;
        self.entries.insert(
            id,
            Entry {
                work: work(id),
                deadline,
            },
        );
        self.deadlines.extend(deadline.map(|at| (at, id)));
        id
    }

    /// The request that a peer's id means, if it is pending: an exact match, or the same number
    /// spelled as a string.
    pub(super) fn find(&self, id: &RequestId) -> Option<i64> {
        id.as_number().filter(|id| self.entries.contains_key(id))
    }

    /// Whether a number was ever one of our ids.
    pub(super) fn was_issued(&self, id: i64) -> bool {
        (1..self.next).contains(&id)
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.entries.contains_key(&id)
    }

    /// The ids of all that is pending, oldest first.
    pub(super) fn ids(&self) -> Vec<i64> {
        let mut ids: Vec<i64> = self.entries.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn work(&mut self, id: i64) -> Option<&mut T> {
        self.entries.get_mut(&id).map(|entry| &mut entry.work)
    }

    /// One whose work is as asked for.
    pub(super) fn find_work(&self, is_it: impl Fn(&T) -> bool) -> Option<i64> {
        let mut entries = self.entries.iter();
        let (id, _) = entries.find(|(_, entry)| is_it(&entry.work))?;
        Some(*id)
    }

    pub(super) fn remove(&mut self, id: i64) -> Option<T> {
        let entry = self.entries.remove(&id)?;
        if let Some(at) = entry.deadline {
            self.deadlines.remove(&(at, id));
        }
        Some(entry.work)
    }

    /// All that is pending, oldest first; nothing is afterwards.
    pub(super) fn drain(&mut self) -> Vec<(i64, T)> {
        self.deadlines.clear();
        let mut all: Vec<_> = self
            .entries
            .drain()
            .map(|(id, entry)| (id, entry.work))
            .collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Takes out one request whose deadline has come.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<(i64, T)> {
        let (_, id) = *self.deadlines.first().filter(|(at, _)| *at <= now)?;
        self.remove(id).map(|work| (id, work))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "a start for times that are only compared"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    //
    #[test]
    fn ids_are_never_used_again() {
        let mut pending = Pending::new();
        let first = pending.insert(None, |id| id);
        assert_eq!(pending.remove(first), Some(first));
        let second = pending.insert(None, |id| id);
        assert_ne!(first, second);
        assert_eq!(pending.find(&RequestId::Number(first)), None);
        assert_eq!(pending.find(&RequestId::Number(second)), Some(second));
        let issued: Vec<i64> = (-2..9).filter(|id| pending.was_issued(*id)).collect();
        assert_eq!(issued, [first, second]);
    }

    #[test]
    fn deadlines_expire_in_order_and_only_once() {
        let now = start();
        let at = |s| now + Duration::from_secs(s);
        let mut pending = Pending::new();
        let late = pending.insert(Some(at(2)), |_| "late");
        let soon = pending.insert(Some(at(1)), |_| "soon");
        let done = pending.insert(Some(at(0)), |_| "done");
        pending.insert(None, |_| "never");
        pending.remove(done);
        assert_eq!(pending.next_deadline(), Some(at(1)));
        assert_eq!(pending.pop_expired(now), None);
        assert_eq!(pending.pop_expired(at(3)), Some((soon, "soon")));
        assert_eq!(pending.pop_expired(at(3)), Some((late, "late")));
        assert_eq!(pending.pop_expired(at(3)), None);
        assert_eq!(pending.drain().len(), 1);
    }
}
