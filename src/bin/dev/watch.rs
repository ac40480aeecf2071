//! Tells what changes in the folders of a project, once it has come to rest.
//!
//! Watches each folder that counts by itself: one watch for a whole tree would also be told all that
//! a build writes. Must not know what follows from a change.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::batch::{Batch, now};
use super::ignored::Rules;
use crate::failure::Failure;

pub(super) struct Changes {
    watcher: RecommendedWatcher,
    events: mpsc::Receiver<(Instant, notify::Result<Event>)>,
    /// An event found no room, so that nobody knows what has changed.
    has_lost: Arc<AtomicBool>,
    roots: Vec<PathBuf>,
    rules: Rules,
    /// Single files that count whatever names them.
    files: BTreeSet<PathBuf>,
    /// Files that do not count whatever names them.
    exempt: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
    pending: Option<Batch>,
}

/// Some 100 bytes each. What has no room is found by looking at all folders again.
const MAX_QUEUED_EVENTS: usize = 4_096;

impl Changes {
    /// Watches folders with all that lies in them, and single files.
    ///
    /// # Errors
    /// A path that is not there, and a system that watches no more.
    pub(super) fn of(
        places: &[PathBuf],
        files: impl IntoIterator<Item = PathBuf>,
        exempt: impl IntoIterator<Item = PathBuf>,
    ) -> Result<Self, Failure> {
        let (send, events) = mpsc::channel(MAX_QUEUED_EVENTS);
        let has_lost = Arc::new(AtomicBool::new(false));
        let lost = has_lost.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let is_of_reading = |event: &Event| matches!(event.kind, EventKind::Access(_));
            if !event.as_ref().is_ok_and(is_of_reading) && send.try_send((now(), event)).is_err() {
                lost.store(true, Ordering::Relaxed);
            }
        })
        .map_err(|e| unwatched(Path::new("."), e))?;
        let (mut roots, mut files) = (Vec::new(), BTreeSet::from_iter(files));
        for place in places {
            let found = place.canonicalize().map_err(|e| {
                let what = format!("cannot watch {}: {e}", place.display());
                Failure::usage(what, "a --watch DIR that is there")
            })?;
            match found.is_dir() {
                true => roots.push(found),
                false => drop(files.insert(found)),
            }
        }
        let mut changes = Self {
            watcher,
            events,
            has_lost,
            rules: Rules::new(roots.clone()),
            roots,
            files,
            exempt: BTreeSet::from_iter(exempt),
            folders: BTreeSet::new(),
            pending: None,
        };
        changes.rescan()?;
        Ok(changes)
    }

    /// The next changes, at rest.
    ///
    /// Cancel safe: what was not told yet is told next time.
    pub(super) async fn next(&mut self) -> Result<Batch, Failure> {
        loop {
            let due = self.pending.as_ref().map(Batch::due);
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some((at, event)) => self.note(at, event)?,
                    None => std::future::pending().await,
                },
                () = sleep_until(due.unwrap_or_else(now)), if due.is_some() => {
                    if let Some(batch) = self.pending.take() {
                        return Ok(batch);
                    }
                }
            }
        }
    }

    fn note(&mut self, at: Instant, event: notify::Result<Event>) -> Result<(), Failure> {
        let has_lost = self.has_lost.swap(false, Ordering::Relaxed);
        let event = event.map_err(|e| unwatched(Path::new("."), e))?;
        if has_lost || event.need_rescan() {
            self.rules.forget();
            self.rescan()?;
            self.add(at, Path::new("many files"));
        }
        for path in &event.paths {
            self.note_path(at, path, event.kind)?;
        }
        Ok(())
    }

    fn note_path(&mut self, at: Instant, path: &Path, kind: EventKind) -> Result<(), Failure> {
        if self.files.contains(path) {
            self.add(at, path);
            return Ok(());
        }
        let comes_or_goes = matches!(
            kind,
            EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
        );
        if comes_or_goes && self.roots.iter().any(|root| root == path) {
            self.rules.forget();
            self.rescan()?;
            self.add(at, path);
            return Ok(());
        }
        let is_inside = path.parent().is_some_and(|p| self.folders.contains(p));
        if !is_inside || self.exempt.contains(path) || self.rules.ignore(path) {
            return Ok(());
        }
        if Rules::is_ignore_file(path) {
            self.rules.forget();
            self.rescan()?;
        }
        if !path.is_dir() || path.is_symlink() {
            self.folders.remove(path);
            self.add(at, path);
        } else if matches!(
            kind,
            EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_))
        ) {
            // What was written before the watch began has no event of its own.
            let mut found = Vec::new();
            self.scan(path, &mut found)?;
            for path in found {
                self.add(at, &path);
            }
        }
        Ok(())
    }

    fn add(&mut self, at: Instant, path: &Path) {
        let batch = self.pending.get_or_insert_with(|| Batch::new(at));
        batch.add(at, path);
    }

    /// Watches what counts by now, and no more what does not.
    fn rescan(&mut self) -> Result<(), Failure> {
        let before = std::mem::take(&mut self.folders);
        for root in self.roots.clone() {
            self.scan(&root, &mut Vec::new())?;
        }
        let folders_of_files = parents(&self.files);
        let folders_of_roots = parents(&self.roots);
        for folder in before.difference(&self.folders) {
            if !folders_of_files.contains(folder) && !folders_of_roots.contains(folder) {
                // It fails for what is gone.
                let _ = self.watcher.unwatch(folder);
            }
        }
        for folder in folders_of_files {
            if !self.folders.contains(&folder) && folder.is_dir() {
                self.begin(&folder)?;
            }
        }
        // A root that goes and comes back, as a checkout may have it, is told by what holds it.
        for folder in folders_of_roots.difference(&self.folders) {
            // Where that is not ours to see, the root will have to stay.
            let _ = self.watcher.watch(folder, RecursiveMode::NonRecursive);
        }
        Ok(())
    }

    /// Watches a folder and those in it that count; adds the files that do to `found`.
    fn scan(&mut self, top: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
        let mut open = vec![top.to_owned()];
        while let Some(folder) = open.pop() {
            // Watched first: what is written from then on is told, and what was before is found. A
            // second watch on the same folder takes the place of the first.
            self.begin(&folder)?;
            let Ok(entries) = folder.read_dir() else {
                continue;
            };
            for entry in entries.flatten() {
                let path = entry.path();
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if self.exempt.contains(&path) || self.rules.ignore(&path) {
                    continue;
                }
                match is_folder {
                    true => open.push(path),
                    false => found.push(path),
                }
            }
            self.folders.insert(folder);
        }
        Ok(())
    }

    fn begin(&mut self, folder: &Path) -> Result<(), Failure> {
        match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
            Err(e) if folder.is_dir() => Err(unwatched(folder, e)),
            _ => Ok(()),
        }
    }
}

fn parents<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> BTreeSet<PathBuf> {
    let parents = paths.into_iter().filter_map(|path| path.parent());
    parents.map(Path::to_owned).collect()
}

fn unwatched(folder: &Path, error: notify::Error) -> Failure {
    let advice = match error.kind {
        notify::ErrorKind::MaxFilesWatch => "a smaller --watch DIR, or a higher fs.inotify limit",
        _ => "another --watch DIR",
    };
    let what = format!("cannot watch {}", folder.display());
    Failure::Refused {
        what,
        error: io::Error::other(error),
        advice,
    }
}
