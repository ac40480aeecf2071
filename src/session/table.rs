//! The HTTP sessions of handshake-era clients.
//!
//! Owns who is in, for how long, and who makes room, and that a session is there for its owner only:
//! to know its id is not enough. Must not know what a session holds. Ids are secrets, so they are
//! made by the caller, who has a source of randomness.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::mcp::frame::{Principal, SessionId};

#[derive(Debug)]
pub(crate) struct SessionTable<T> {
    max: usize,
    idle_timeout: Duration,
    sessions: HashMap<SessionId, Seat<T>>,
    /// Oldest use first.
    order: BTreeMap<u64, SessionId>,
    uses: u64,
}

#[derive(Debug)]
struct Seat<T> {
    value: T,
    use_number: u64,
    used: Instant,
}

/// A session that is looked at by the table.
pub(crate) trait Occupied {
    /// True while something runs in the session, so that it is neither idle nor expired.
    fn is_busy(&self) -> bool;

    /// When what ran in it ended last.
    fn freed(&self) -> Option<Instant>;

    /// Who opened it, where that is asked for and has a name.
    fn owner(&self) -> Option<&Principal>;
}

impl<T: Occupied> SessionTable<T> {
    pub(crate) fn new(max: usize, idle_timeout: Duration) -> Self {
        let (sessions, order) = (HashMap::new(), BTreeMap::new());
        Self {
            max,
            idle_timeout,
            sessions,
            order,
            uses: 0,
        }
    }

    /// Adds a session. If the table is full, the one that was idle longest makes room and is given
    /// back; if all are busy, the new one is.
    pub(crate) fn insert(&mut self, id: SessionId, value: T, now: Instant) -> Result<Option<T>, T> {
        let evicted = if self.sessions.len() < self.max {
            None
        } else {
            let idle = self.order.values().find(|id| {
                self.sessions
                    .get(*id)
                    .is_some_and(|seat| !seat.value.is_busy())
            });
            match idle.cloned() {
                Some(idle) => self.remove(&idle),
                None => return Err(value),
            }
        };
        self.uses += 1;
        self.order.insert(self.uses, id.clone());
        self.sessions.insert(
            id,
            Seat {
                value,
                use_number: self.uses,
                used: now,
            },
        );
        Ok(evicted)
    }

    /// The session of that id, if it is that of `who`; it counts as used now.
    pub(crate) fn touch(
        &mut self,
        id: &SessionId,
        who: Option<&Principal>,
        now: Instant,
    ) -> Option<&T> {
        self.is_of(id, who).then(|| self.renew(id, now)).flatten()
    }

    /// Takes out the session of that id, if it is that of `who`.
    pub(crate) fn take(&mut self, id: &SessionId, who: Option<&Principal>) -> Option<T> {
        self.is_of(id, who).then(|| self.remove(id)).flatten()
    }

    fn is_of(&self, id: &SessionId, who: Option<&Principal>) -> bool {
        let seat = self.sessions.get(id);
        seat.is_some_and(|seat| seat.value.owner() == who)
    }

    fn renew(&mut self, id: &SessionId, now: Instant) -> Option<&T> {
        let seat = self.sessions.get_mut(id)?;
        if let Some(id) = self.order.remove(&seat.use_number) {
            self.uses += 1;
            self.order.insert(self.uses, id);
            seat.use_number = self.uses;
        }
        seat.used = now;
        Some(&seat.value)
    }

    fn remove(&mut self, id: &SessionId) -> Option<T> {
        let seat = self.sessions.remove(id)?;
        self.order.remove(&seat.use_number);
        Some(seat.value)
    }

    /// Takes out the sessions that were idle too long.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<T> {
        let mut expired = Vec::new();
        let mut busy = Vec::new();
        for id in self.order.values() {
            let Some(seat) = self.sessions.get(id) else {
                continue;
            };
            let is_recent = |used| now.saturating_duration_since(used) < self.idle_timeout;
            if is_recent(seat.used) {
                break;
            }
            if seat.value.is_busy() {
                busy.push(id.clone());
            } else if !seat.value.freed().is_some_and(is_recent) {
                expired.push(id.clone());
            }
        }
        for id in busy {
            self.renew(&id, now);
        }
        expired.iter().filter_map(|id| self.remove(id)).collect()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.sessions.values().map(|seat| &seat.value)
    }

    /// Takes out all sessions.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.order.clear();
        self.sessions.drain().map(|(_, seat)| seat.value).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "any moment will do as a start")]
mod tests {
    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "a start for times that are only compared"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    #[derive(Debug, PartialEq)]
    struct Guest(&'static str, bool);

    impl Occupied for Guest {
        fn is_busy(&self) -> bool {
            self.1
        }

        fn freed(&self) -> Option<Instant> {
            None
        }

        fn owner(&self) -> Option<&Principal> {
            None
        }
    }

    fn id(text: &str) -> SessionId {
        SessionId::parse(text).unwrap()
    }

    #[test]
    fn the_session_that_was_idle_longest_makes_room() {
        let now = start();
        let mut table = SessionTable::new(3, Duration::from_secs(60));
        for (name, busy) in [("a", true), ("b", false), ("c", false)] {
            assert_eq!(table.insert(id(name), Guest(name, busy), now), Ok(None));
        }
        table.touch(&id("b"), None, now);
        let evicted = table.insert(id("d"), Guest("d", false), now).unwrap();
        assert_eq!(evicted, Some(Guest("c", false)));
        assert!(table.touch(&id("c"), None, now).is_none());
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn a_full_table_of_busy_sessions_refuses() {
        let now = start();
        let mut table = SessionTable::new(1, Duration::from_secs(60));
        table.insert(id("a"), Guest("a", true), now).unwrap();
        assert_eq!(
            table.insert(id("b"), Guest("b", false), now),
            Err(Guest("b", false))
        );
    }

    #[test]
    fn idle_sessions_expire_and_busy_ones_stay() {
        let now = start();
        let at = |s| now + Duration::from_secs(s);
        let mut table = SessionTable::new(9, Duration::from_secs(60));
        table.insert(id("old"), Guest("old", false), now).unwrap();
        table.insert(id("busy"), Guest("busy", true), now).unwrap();
        table
            .insert(id("new"), Guest("new", false), at(30))
            .unwrap();
        assert!(table.expire(at(59)).is_empty());
        assert_eq!(table.expire(at(60)), [Guest("old", false)]);
        assert_eq!(table.expire(at(89)), []);
        assert_eq!(table.expire(at(90)), [Guest("new", false)]);
        assert_eq!(table.drain(), [Guest("busy", true)]);
    }

    // Covers R-1308.
    #[test]
    fn a_session_is_there_for_its_owner_only() {
        struct Owned(Option<Principal>);
        impl Occupied for Owned {
            fn is_busy(&self) -> bool {
                false
            }
            fn freed(&self) -> Option<Instant> {
                None
            }
            fn owner(&self) -> Option<&Principal> {
                self.0.as_ref()
            }
        }
        let now = start();
        let late = now + Duration::from_secs(59);
        let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
        let whose = [None, Some(&alice), Some(&bob)];
        for owner in whose {
            for who in whose {
                let mut table = SessionTable::new(9, Duration::from_secs(60));
                let owned = Owned(owner.cloned());
                table.insert(id("a"), owned, now).ok().unwrap();
                let case = format!("{who:?} asks for that of {owner:?}");
                let is_found = table.touch(&id("a"), who, late).is_some();
                assert_eq!(is_found, who == owner, "{case}");
                // A stranger does not keep it alive either.
                let expired = table.expire(late + Duration::from_secs(1)).len();
                assert_eq!(expired, usize::from(who != owner), "{case}");
                table
                    .insert(id("b"), Owned(owner.cloned()), now)
                    .ok()
                    .unwrap();
                assert_eq!(table.take(&id("b"), who).is_some(), who == owner, "{case}");
                assert_eq!(
                    table.take(&id("b"), owner).is_some(),
                    who != owner,
                    "{case}"
                );
            }
        }
    }

    #[test]
    fn the_end_of_what_ran_counts_as_use() {
        struct Freed(Instant);
        impl Occupied for Freed {
            fn is_busy(&self) -> bool {
                false
            }
            fn freed(&self) -> Option<Instant> {
                Some(self.0)
            }
            fn owner(&self) -> Option<&Principal> {
                None
            }
        }
        let now = Instant::now();
        let at = |s| now + Duration::from_secs(s);
        let mut table = SessionTable::new(9, Duration::from_secs(60));
        table.insert(id("late"), Freed(at(50)), now).ok().unwrap();
        table.insert(id("early"), Freed(at(10)), now).ok().unwrap();
        assert_eq!(table.expire(at(69)).len(), 0);
        assert_eq!(table.expire(at(70)).len(), 1);
        assert!(table.sessions.contains_key(&id("late")));
        assert_eq!(table.expire(at(109)).len(), 0);
        assert_eq!(table.expire(at(110)).len(), 1);
    }
}
