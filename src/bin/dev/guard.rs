//! Ends what we started when we cannot do so ourselves any more.
//!
//! Owns a small process that outlives us by a moment; must not know what it guards.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::Pid;

/// Hears of each process group, and kills those that are left when it hears no more. Asking the
/// kernel for a signal at our death would need unsafe code.
pub(super) struct Guard {
    shell: Child,
    /// `None` only while it is dropped.
    groups: Mutex<Option<ChildStdin>>,
}

const SCRIPT: &str = r#"
trap '' HUP INT TERM
while read -r what group; do
    kept=
    for known in $groups; do
        [ "$known" = "$group" ] || kept="$kept $known"
    done
    [ "$what" = end ] || kept="$kept $group"
    groups=$kept
done
for group in $groups; do
    kill -KILL "-$group" 2>/dev/null
done
"#;

impl Guard {
    /// # Errors
    /// There is no shell, or no room for it.
    pub(super) fn start() -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let groups = Mutex::new(shell.stdin.take());
        Ok(Self { shell, groups })
    }

    pub(super) fn begin(&self, group: Pid) {
        self.tell("begin", group);
    }

    /// Nothing is left of it, and its number may be somebody else's from now on.
    pub(super) fn end(&self, group: Pid) {
        self.tell("end", group);
    }

    fn tell(&self, what: &str, group: Pid) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(groups) = &mut *groups {
            // A guard that was killed is missed only if we are killed too.
            let _ = groups.write_all(format!("{what} {}\n", group.as_raw_nonzero()).as_bytes());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        *self.groups.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.shell.wait();
    }
}
