//! How events get from a node to whoever reads the run.
//!
//! Owns the events that wait to be read, one of each call that emits; must not know what a node
//! is. A call is done when its event was read, as a generator goes on after its `yield` was taken:
//! so an event is out before the node goes on, and a node that is not read waits.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::{Error, Result};
use crate::event::StreamEvent;

#[derive(Default)]
pub(super) struct Handover(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// In the order in which they were put. As many as there are calls that wait.
    events: VecDeque<(u64, StreamEvent)>,
    next_number: u64,
    writers: Vec<Waker>,
    reader: Option<Waker>,
    closed: bool,
}

impl Handover {
    /// Takes the next event. Who waited for that goes on.
    pub(super) fn take(&self, cx: &Context<'_>) -> Option<StreamEvent> {
        let mut waiting = self.lock();
        waiting.reader = None;
        let (_, event) = waiting.events.pop_front()?;
        let writers = std::mem::take(&mut waiting.writers);
        drop(waiting);
        // Whoever reads polls the node when it wants more.
        for writer in writers.iter().filter(|w| !w.will_wake(cx.waker())) {
            writer.wake_by_ref();
        }
        Some(event)
    }

    /// As [`take`](Self::take), for when the node waits too: the reader is woken by an event that
    /// a task of the node's puts.
    pub(super) fn poll_take(&self, cx: &Context<'_>) -> Poll<StreamEvent> {
        match self.take(cx) {
            Some(event) => Poll::Ready(event),
            None => {
                let mut waiting = self.lock();
                if waiting.events.is_empty() {
                    waiting.reader = Some(cx.waker().clone());
                } else {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }

    /// Hands `event` over. Dropping the future before it is ready takes the event back, unless it
    /// was read.
    pub(super) fn put(&self, event: StreamEvent) -> Put<'_> {
        Put {
            handover: self,
            stage: Stage::Fresh(Some(event)),
        }
    }

    /// Puts an event behind those that wait, and waits for nothing. For whoever reads.
    pub(super) fn append(&self, event: StreamEvent) {
        self.lock().push(event);
    }

    /// No more events but `last`: what waits is dropped, and who waits learns of it.
    pub(super) fn close(&self, last: Option<StreamEvent>) {
        let mut waiting = self.lock();
        waiting.closed = true;
        let events = std::mem::take(&mut waiting.events);
        if let Some(last) = last {
            waiting.push(last);
        }
        let writers = std::mem::take(&mut waiting.writers);
        drop(waiting);
        drop(events);
        writers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn push(&mut self, event: StreamEvent) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.events.push_back((number, event));
        number
    }

    fn holds(&self, number: u64) -> bool {
        self.events.iter().any(|(n, _)| *n == number)
    }
}

/// A call that emits an event.
pub(super) struct Put<'a> {
    handover: &'a Handover,
    stage: Stage,
}

enum Stage {
    Fresh(Option<StreamEvent>),
    Queued(u64),
}

impl Future for Put<'_> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut waiting = this.handover.lock();
        if waiting.closed {
            return Poll::Ready(Err(Error::closed("stream")));
        }
        match &mut this.stage {
            Stage::Fresh(event) => {
                let Some(event) = event.take() else {
                    return Poll::Ready(Ok(()));
                };
                this.stage = Stage::Queued(waiting.push(event));
            }
            Stage::Queued(number) if !waiting.holds(*number) => {
                this.stage = Stage::Fresh(None);
                return Poll::Ready(Ok(()));
            }
            Stage::Queued(_) => {}
        }
        if !waiting.writers.iter().any(|w| w.will_wake(cx.waker())) {
            waiting.writers.push(cx.waker().clone());
        }
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
        Poll::Pending
    }
}

impl Drop for Put<'_> {
    fn drop(&mut self) {
        if let Stage::Queued(number) = self.stage {
            let mut waiting = self.handover.lock();
            let at = waiting.events.iter().position(|(n, _)| *n == number);
            let event = at.and_then(|at| waiting.events.remove(at));
            drop(waiting);
            drop(event);
        }
    }
}
