//! Word for one client that the tools have changed.
//!
//! Owns when it is told and on which stream; must not know what carries it. However often the
//! tools change, one word waits, so nothing grows for a client that does not listen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::calls::now;

#[derive(Debug, Default)]
pub(super) struct Notice(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The client has completed the opening; before that it is told nothing.
    ready: bool,
    changed: bool,
    over: bool,
    /// How many streams have been opened: the newest is told.
    listeners: u64,
    /// The newest is still there.
    heard: bool,
    /// When it went.
    freed: Option<Instant>,
    waker: Option<Waker>,
}

impl Notice {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let waker = {
            let mut state = self.state();
            change(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The tools have changed.
    pub(super) fn raise(&self) {
        self.change(|state| state.changed = true);
    }

    /// The client is ready to be told.
    pub(super) fn confirm(&self) {
        if !self.state().ready {
            self.change(|state| state.ready = true);
        }
    }

    /// Nothing is told any more.
    pub(super) fn end(&self) {
        self.change(|state| state.over = true);
    }

    /// Ends the stream that listens now, if one does; another may come.
    pub(super) fn hang_up(&self) {
        self.change(|state| {
            state.listeners += 1;
            state.heard = false;
        });
    }

    /// A stream that is told from now on, and the one before no more.
    pub(super) fn listen(self: &Arc<Self>) -> Listener {
        let mut number = 0;
        self.change(|state| {
            state.listeners += 1;
            state.heard = true;
            number = state.listeners;
        });
        Listener {
            notice: self.clone(),
            number,
        }
    }

    pub(super) fn is_heard(&self) -> bool {
        self.state().heard
    }

    /// When the last stream went.
    pub(super) fn freed(&self) -> Option<Instant> {
        self.state().freed
    }
}

/// The stream that is told.
#[derive(Debug)]
pub(super) struct Listener {
    notice: Arc<Notice>,
    number: u64,
}

impl Listener {
    fn is_over_in(&self, state: &State) -> bool {
        state.over || state.listeners != self.number
    }

    /// Ready with true when there is something to tell, with false when there will be nothing.
    pub(super) fn poll_changed(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.notice.state();
        if self.is_over_in(&state) {
            return Poll::Ready(false);
        }
        if state.ready && state.changed {
            state.changed = false;
            return Poll::Ready(true);
        }
        match &state.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => state.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over_in(&self.notice.state())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.notice.state();
        if state.listeners == self.number {
            state.heard = false;
            state.freed = Some(now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(listener: &Listener) -> Poll<bool> {
        listener.poll_changed(&mut Context::from_waker(Waker::noop()))
    }

    // Covers R-405, R-1001.
    #[test]
    fn many_changes_are_told_once_and_not_before_the_client_is_ready() {
        let notice = Arc::new(Notice::default());
        let listener = notice.listen();
        assert_eq!(poll(&listener), Poll::Pending);
        notice.raise();
        assert_eq!(poll(&listener), Poll::Pending, "not ready");
        notice.confirm();
        notice.raise();
        assert_eq!(poll(&listener), Poll::Ready(true));
        assert_eq!(poll(&listener), Poll::Pending, "told");
        notice.raise();
        assert_eq!(poll(&listener), Poll::Ready(true), "again");
    }

    #[test]
    fn the_newest_stream_is_told_also_of_what_nobody_heard() {
        let notice = Arc::new(Notice::default());
        notice.confirm();
        notice.raise();
        assert!(!notice.is_heard());
        let old = notice.listen();
        let new = notice.listen();
        assert_eq!(poll(&old), Poll::Ready(false));
        assert!(old.is_over() && !new.is_over());
        assert_eq!(poll(&new), Poll::Ready(true));
        drop(old);
        assert!(notice.is_heard() && notice.freed().is_none());
        drop(new);
        assert!(!notice.is_heard() && notice.freed().is_some());
    }

    #[test]
    fn an_end_is_for_good_and_a_hang_up_is_not() {
        let notice = Arc::new(Notice::default());
        let listener = notice.listen();
        notice.hang_up();
        assert_eq!(poll(&listener), Poll::Ready(false));
        let listener = notice.listen();
        assert_eq!(poll(&listener), Poll::Pending);
        notice.end();
        assert_eq!(poll(&listener), Poll::Ready(false));
        assert_eq!(poll(&notice.listen()), Poll::Ready(false));
    }
}
