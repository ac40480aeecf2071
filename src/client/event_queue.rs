//! Events on their way to an observer that takes its time.
//!
//! Owns what waits and the task that hands it over; must not know what the events mean. Telling
//! never waits: what an observer is too slow for is dropped and counted.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::driver;
use super::events::HubEvent;
use crate::limits::Limits;
use crate::transport::BoxFuture;

pub(super) type ObserveAside = dyn Fn(HubEvent) -> BoxFuture<'static, ()> + Send + Sync;

pub(super) struct EventQueue {
    observe: Arc<ObserveAside>,
    max: usize,
    max_bytes: usize,
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<HubEvent>,
    bytes: usize,
    /// How many were dropped since the last one was handed over.
    dropped: u64,
    /// Nothing more comes in.
    ended: bool,
    task: Option<JoinHandle<()>>,
}

impl EventQueue {
    pub(super) fn new(observe: Arc<ObserveAside>, limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            observe,
            max: limits.max_queued_hub_events.max(1),
            max_bytes: limits.max_queued_hub_bytes,
            waiting: Mutex::default(),
            wake: Notify::new(),
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an event. The task starts with the first one, since a hub may be built outside of a
    /// runtime, and again if its runtime has ended.
    pub(super) fn push(self: &Arc<Self>, event: HubEvent) {
        let mut waiting = self.waiting();
        if waiting.ended {
            return;
        }
        // An event of a few bytes would keep the large piece alive in which it came.
        let event = event.into_owned();
        let weight = event.weight();
        let mut missed = Vec::new();
        // One alone may always wait.
        while let Some(oldest) = waiting.make_room(self.max, self.max_bytes.saturating_sub(weight))
        {
            missed.push(oldest);
        }
        waiting.bytes += weight;
        waiting.events.push_back(event);
        let runs = waiting
            .task
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if !runs && Handle::try_current().is_ok() {
            waiting.task = Some(driver::observe(self.clone()));
        }
        drop(waiting);
        drop(missed);
        self.wake.notify_one();
    }

    /// The next event to hand over; `None` when there is none and none will come.
    async fn next(&self) -> Option<HubEvent> {
        loop {
            {
                let mut waiting = self.waiting();
                match std::mem::take(&mut waiting.dropped) {
                    0 => {}
                    count => return Some(dropped(count)),
                }
                match waiting.pop() {
                    None if waiting.ended => return None,
                    None => {}
                    event => return event,
                }
            }
            self.wake.notified().await;
        }
    }

    /// Hands events over, one after the other. A panic in the observer costs it one event.
    pub(super) async fn run(&self) {
        while let Some(event) = self.next().await {
            let seen = catch_unwind(AssertUnwindSafe(|| (self.observe)(event)));
            if let Ok(mut seen) = seen {
                let seen = std::future::poll_fn(|cx| poll_caught(&mut seen, cx));
                seen.await;
            }
        }
    }

    /// Takes nothing more and waits, but not for long, until all is handed over.
    ///
    /// # Cancel safety
    /// Dropping the future ends the task at once.
    pub(super) async fn close(&self, patience: Duration) {
        let task = {
            let mut waiting = self.waiting();
            waiting.ended = true;
            waiting.task.take()
        };
        self.wake.notify_one();
        if let Some(task) = task {
            let mut task = AbortOnDrop(task);
            let _ = timeout(patience, &mut task.0).await;
        }
    }

    /// Ends the task now; what waits is gone.
    pub(super) fn abort(&self) {
        let left = {
            let mut waiting = self.waiting();
            let ended = Waiting {
                ended: true,
                ..Waiting::default()
            };
            std::mem::replace(&mut *waiting, ended)
        };
        if let Some(task) = &left.task {
            task.abort();
        }
    }
}

impl Waiting {
    fn pop(&mut self) -> Option<HubEvent> {
        let event = self.events.pop_front()?;
        self.bytes -= event.weight();
        Some(event)
    }

    /// Drops the oldest event if there is no room for one more beside `bytes` of them.
    fn make_room(&mut self, events: usize, bytes: usize) -> Option<HubEvent> {
        if self.events.len() < events && self.bytes <= bytes {
            return None;
        }
        let oldest = self.pop()?;
        self.dropped += 1;
        Some(oldest)
    }
}

fn dropped(count: u64) -> HubEvent {
    HubEvent::Warning {
        server: "".into(),
        text: format!("{count} events were dropped: the observer is slower than what happens"),
    }
}

fn poll_caught(seen: &mut BoxFuture<'static, ()>, cx: &mut Context<'_>) -> Poll<()> {
    catch_unwind(AssertUnwindSafe(|| seen.as_mut().poll(cx))).unwrap_or(Poll::Ready(()))
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
