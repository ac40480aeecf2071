//! Which files and folders do not count: what ignore files name, what a build leaves, what an editor
//! needs for a moment.
//!
//! Must not know how a change is noticed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The ignore files of the folders that were asked about, read once.
pub(super) struct Rules {
    roots: Vec<PathBuf>,
    of_user: Gitignore,
    by_folder: HashMap<PathBuf, Gitignore>,
}

/// In each folder; the later one decides.
const FILES: [&str; 2] = [".gitignore", ".ignore"];

impl Rules {
    /// For all that lies in `roots`, which count themselves, whatever names them.
    pub(super) fn new(roots: Vec<PathBuf>) -> Self {
        Self {
            roots,
            of_user: Gitignore::global().0,
            by_folder: HashMap::new(),
        }
    }

    pub(super) fn is_ignore_file(path: &Path) -> bool {
        path.file_name()
            .is_some_and(|name| FILES.iter().any(|file| name == *file))
    }

    /// Reads the ignore files anew.
    pub(super) fn forget(&mut self) {
        self.by_folder.clear();
    }

    /// Whether a path does not count by itself; its parents are asked about before. What is gone may
    /// have been a folder as well.
    pub(super) fn ignore(&mut self, path: &Path) -> bool {
        if self.roots.iter().any(|root| root == path) {
            return false;
        }
        if is_scratch(path) || self.is_of_tools(path) {
            return true;
        }
        let kinds = match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => &[true][..],
            Ok(_) => &[false],
            Err(_) => &[true, false],
        };
        kinds.iter().any(|is_folder| self.names(path, *is_folder))
    }

    /// The nearest ignore file that says something decides.
    fn names(&mut self, path: &Path, is_folder: bool) -> bool {
        for folder in path.ancestors().skip(1) {
            let rules = self
                .by_folder
                .entry(folder.to_owned())
                .or_insert_with(|| read(folder));
            match rules.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None if folder.join(".git").exists() => break,
                Match::None => {}
            }
        }
        self.of_user.matched(path, is_folder).is_ignore()
    }

    /// A repository's own folder, and those that a build fills. Cargo marks its own, wherever it is.
    fn is_of_tools(&self, path: &Path) -> bool {
        let is_named = |name| path.file_name().is_some_and(|given| given == name);
        let is_in_root = || self.roots.iter().any(|root| path.parent() == Some(root));
        is_named(".git") || is_named("target") && is_in_root() || path.join("CACHEDIR.TAG").exists()
    }
}

/// What the ignore files of one folder say. A line that cannot be read is as if it were not there.
fn read(folder: &Path) -> Gitignore {
    let mut rules = GitignoreBuilder::new(folder);
    for file in [".git/info/exclude"].iter().chain(&FILES) {
        let file = folder.join(file);
        if file.exists() {
            let _ = rules.add(file);
        }
    }
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}

/// What editors and file browsers write beside a file and take away again.
fn is_scratch(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_numbered = name == "4913"; // vim asks whether the folder can be written
    let has_end = [".swp", ".swo", ".swx", "~", "___jb_tmp___", "___jb_old___"];
    is_numbered
        || name == ".DS_Store"
        || name.starts_with(".#")
        || name.starts_with('#') && name.ends_with('#')
        || has_end.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    #[test]
    fn what_does_not_count_is_known() {
        let top = std::env::temp_dir().join(format!("agent-hub-ignored-{}", std::process::id()));
        let root = top.join("repo/crate");
        for folder in [
            ".git",
            "crate/src/target",
            "crate/target",
            "crate/build",
            "crate/out",
        ] {
            fs::create_dir_all(top.join("repo").join(folder)).unwrap();
        }
        fs::write(top.join(".gitignore"), "*.rs\n").unwrap();
        fs::write(top.join("repo/.gitignore"), "*.log\nout/\n/crate/made.rs\n").unwrap();
        fs::write(root.join(".gitignore"), "!kept.log\n*.txt\n").unwrap();
        fs::write(root.join(".ignore"), "!told.txt\n").unwrap();
        fs::write(root.join("build/CACHEDIR.TAG"), "").unwrap();
        let mut rules = Rules::new(vec![root.clone()]);
        for (path, ignored) in [
            ("src/main.rs", false),
            ("src", false),
            ("src/target", false),
            ("Cargo.toml", false),
            (".env", false),
            ("made.rs", true),
            ("a.log", true),
            ("src/a.log", true),
            ("kept.log", false),
            ("a.txt", true),
            ("told.txt", false),
            ("out", true),
            ("gone/out", true),
            ("target", true),
            ("build", true),
            (".git", true),
            ("src/.main.rs.swp", true),
            ("src/main.rs~", true),
            ("src/4913", true),
            ("src/.#main.rs", true),
            ("src/#main.rs#", true),
            ("", false),
        ] {
            assert_eq!(rules.ignore(&root.join(path)), ignored, "{path}");
        }
        fs::write(root.join(".ignore"), "*.rs\n").unwrap();
        assert!(!rules.ignore(&root.join("src/main.rs")), "read once");
        rules.forget();
        assert!(rules.ignore(&root.join("src/main.rs")), "read anew");
        fs::remove_dir_all(&top).unwrap();
    }
}
