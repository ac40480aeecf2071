//! Waiting for many futures at once, in one task.
//!
//! Owns who was woken; must not know what the futures do.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::transport::BoxFuture;

/// Waits for all, concurrently; the results are in the order of the futures. A wake costs a look at
/// the future that it was for and at no other one: a hub may wait for a thousand servers.
pub(super) async fn join_all<'a, T>(futures: impl Iterator<Item = BoxFuture<'a, T>>) -> Vec<T> {
    let woken = Arc::new(Woken::default());
    let mut entries: Vec<Entry<'a, T>> = futures
        .enumerate()
        .map(|(index, future)| Entry {
            state: State::Running(future),
            wake: Arc::new(WakeOne {
                index,
                is_woken: AtomicBool::new(true),
                all: woken.clone(),
            }),
        })
        .collect();
    let mut running = entries.len();
    let mut due: Vec<usize> = (0..running).collect();
    poll_fn(|cx| {
        due.extend(woken.take(cx.waker()));
        for index in due.drain(..) {
            if let Some(entry) = entries.get_mut(index)
                && entry.ends()
            {
                running -= 1;
            }
        }
        if running == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    let ended = |entry: Entry<'a, T>| match entry.state {
        State::Ended(result) => Some(result),
        State::Running(_) => None,
    };
    entries.into_iter().filter_map(ended).collect()
}

struct Entry<'a, T> {
    state: State<'a, T>,
    wake: Arc<WakeOne>,
}

enum State<'a, T> {
    Ended(T),
    Running(BoxFuture<'a, T>),
}

impl<T> Entry<'_, T> {
    /// Whether the future ends now.
    fn ends(&mut self) -> bool {
        let State::Running(future) = &mut self.state else {
            return false;
        };
        // Before the poll, so that no wake during it is lost.
        self.wake.is_woken.store(false, Ordering::SeqCst);
        let waker = Waker::from(self.wake.clone());
        let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) else {
            return false;
        };
        self.state = State::Ended(result);
        true
    }
}

/// The futures to look at, and the task that does so.
#[derive(Default)]
struct Woken(Mutex<(Vec<usize>, Option<Waker>)>);

impl Woken {
    fn take(&self, task: &Waker) -> Vec<usize> {
        let mut woken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        woken.1 = Some(task.clone());
        std::mem::take(&mut woken.0)
    }
}

struct WakeOne {
    index: usize,
    /// It is on the list already.
    is_woken: AtomicBool,
    all: Arc<Woken>,
}

impl Wake for WakeOne {
    fn wake(self: Arc<Self>) {
        if self.is_woken.swap(true, Ordering::SeqCst) {
            return;
        }
        let task = {
            let mut woken = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
            woken.0.push(self.index);
            woken.1.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn results_keep_the_order_whoever_ends_first() {
        assert_eq!(join_all(std::iter::empty::<BoxFuture<'_, ()>>()).await, []);
        let (senders, waits): (Vec<_>, Vec<_>) = (0..5).map(|_| oneshot::channel()).unzip();
        let joined = join_all(
            waits
                .into_iter()
                .map(|wait| -> BoxFuture<'_, u32> { Box::pin(async { wait.await.unwrap() }) }),
        );
        let ends = async {
            for (number, sender) in (0..5).zip(senders).rev() {
                sender.send(number).unwrap();
                tokio::task::yield_now().await;
            }
        };
        assert_eq!(tokio::join!(joined, ends).0, [0, 1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn only_a_future_that_was_woken_is_looked_at() {
        let looks = AtomicUsize::new(0);
        let (senders, waits): (Vec<_>, Vec<_>) = (0..100).map(|_| oneshot::channel::<()>()).unzip();
        let joined = join_all(waits.into_iter().map(|mut wait| -> BoxFuture<'_, ()> {
            let looks = &looks;
            Box::pin(poll_fn(move |cx| {
                looks.fetch_add(1, Ordering::Relaxed);
                std::pin::Pin::new(&mut wait).poll(cx).map(drop)
            }))
        }));
        let ends = async {
            for sender in senders {
                sender.send(()).unwrap();
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(joined, ends);
        assert_eq!(looks.into_inner(), 200, "one at the start, one at the end");
    }

    #[tokio::test]
    async fn a_future_that_wakes_itself_goes_on() {
        let joined = join_all((0..3).map(|turns| -> BoxFuture<'_, ()> {
            Box::pin(async move {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            })
        }));
        assert_eq!(joined.await.len(), 3);
    }
}
