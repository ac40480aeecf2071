//! In place of the guard in a build without HTTP: nobody is asked.

/// No unit, so that it is made as the other one is.
#[derive(Debug, Clone, Default)]
pub(super) struct Guard(());

impl Guard {
    pub(super) fn admits_all(&self) -> bool {
        true
    }
}
