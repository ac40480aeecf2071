//! What has changed together, and whose doing it is.
//!
//! Must not know how a change is noticed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

/// What has changed since things were last at rest.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) paths: BTreeSet<PathBuf>,
    began: Instant,
    last: Instant,
}

/// So long nothing more may change before it counts as at rest: editors write a file in several
/// steps, and a checkout many files.
const QUIET: Duration = Duration::from_millis(200);

/// What does not come to rest is told after this.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// One more than these are kept: they are only shown and compared.
const MAX_PATHS: usize = 256;

impl Batch {
    pub(super) fn new(at: Instant) -> Self {
        Self {
            paths: BTreeSet::new(),
            began: at,
            last: at,
        }
    }

    pub(super) fn add(&mut self, at: Instant, path: &Path) {
        self.last = at;
        if self.paths.len() <= MAX_PATHS {
            self.paths.insert(path.to_owned());
        }
    }

    /// When it is to be told.
    pub(super) fn due(&self) -> Instant {
        (self.last + QUIET).min(self.began + MAX_WAIT)
    }

    /// A few of the paths, as seen from here.
    pub(super) fn shown(&self) -> String {
        const SHOWN: usize = 3;
        let here = std::env::current_dir().unwrap_or_default();
        let paths = self.paths.iter().take(SHOWN);
        let shown = paths.map(|path| {
            path.strip_prefix(&here)
                .unwrap_or(path)
                .display()
                .to_string()
        });
        let shown = shown.collect::<Vec<_>>().join(", ");
        match self.paths.len().saturating_sub(SHOWN) {
            0 => shown,
            more => format!("{shown} and {more} more"),
        }
    }
}

/// Files that changed while a build ran: saved by somebody, or written by the build itself. One that
/// writes into the folders that are watched would be run for ever.
#[derive(Default)]
pub(super) struct Suspects {
    paths: BTreeSet<PathBuf>,
    times: usize,
    /// Those that the build writes, as it seems. What somebody edits after all is none of them.
    known: BTreeSet<PathBuf>,
}

impl Suspects {
    /// True if these changes are those of the build that ended at `built_at`.
    pub(super) fn accuse(&mut self, batch: &Batch, built_at: Instant) -> bool {
        if batch.began > built_at + SETTLING || batch.paths.len() > MAX_PATHS {
            self.times = 0;
            self.known.retain(|path| !batch.paths.contains(path));
            return false;
        }
        if batch.paths.is_subset(&self.known) {
            return true;
        }
        if batch.paths != self.paths {
            self.paths.clone_from(&batch.paths);
            self.times = 0;
        }
        self.times += 1;
        let is_own = self.times > MAX_OWN_CHANGES;
        if is_own {
            self.known.append(&mut self.paths);
        }
        is_own
    }
}

/// Changes are told a moment after they were made.
const SETTLING: Duration = Duration::from_millis(50);

/// After so many builds in a row during which the same files changed and no other, it is the build
/// that writes them.
const MAX_OWN_CHANGES: usize = 3;

#[expect(
    clippy::disallowed_methods,
    reason = "changes are told apart by when they come"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}
