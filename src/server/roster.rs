//! Who is there to be told of something.
//!
//! Owns the names of those who may have gone meanwhile; must not know what they are told. Keeps
//! nobody, and forgets who is gone, so that it stays as long as the number of those who are there.

use std::sync::{Arc, Weak};

#[derive(Debug)]
pub(super) struct Roster<T> {
    names: Vec<Weak<T>>,
    /// With so many names it is time to look who is gone.
    full: usize,
}

/// So many names are few, whoever is gone.
const FEW: usize = 32;

impl<T> Roster<T> {
    pub(super) fn enter(&mut self, name: &Arc<T>) {
        if self.names.len() >= self.full {
            self.names.retain(|name| name.strong_count() > 0);
            // At least as many come before the next look as it had to look at and stay.
            self.full = (self.names.len() * 2).max(FEW);
            self.names.shrink_to(self.full);
        }
        self.names.push(Arc::downgrade(name));
    }

    /// Those who are there.
    pub(super) fn present(&self) -> Vec<Arc<T>> {
        self.names.iter().filter_map(Weak::upgrade).collect()
    }
}

impl<T> Default for Roster<T> {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            full: FEW,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enters this many that go at once, and counts how often it was looked who is gone.
    fn looks(roster: &mut Roster<()>, entries: usize) -> usize {
        (0..entries)
            .filter(|_| {
                let before = roster.names.len();
                roster.enter(&Arc::new(()));
                roster.names.len() <= before
            })
            .count()
    }

    #[test]
    fn who_comes_and_goes_costs_little_however_many_stay() {
        for count in [0, 1, FEW - 1, FEW, 127, 128, 1000, 1023, 1024, 1025] {
            let mut roster = Roster::default();
            let staying: Vec<_> = (0..count).map(|_| Arc::new(())).collect();
            for name in &staying {
                roster.enter(name);
            }
            let entries = 10 * (count + FEW);
            let looks = looks(&mut roster, entries);
            assert!(
                looks * count <= 2 * entries,
                "{looks} looks at {count} who stay"
            );
            assert!(roster.names.len() <= 2 * count + FEW, "{count}");
            assert_eq!(roster.present().len(), count);
        }
    }

    #[test]
    fn a_crowd_that_is_gone_leaves_no_room_behind() {
        let mut roster = Roster::default();
        let crowd: Vec<_> = (0..10_000).map(|_| Arc::new(())).collect();
        for name in &crowd {
            roster.enter(name);
        }
        drop(crowd);
        looks(&mut roster, 20_000);
        assert!(
            roster.names.capacity() <= 2 * FEW,
            "{}",
            roster.names.capacity()
        );
    }
}
