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
    events: VecDeque<Queued>,
    next_number: u64,
    reader: Option<Waker>,
    closed: bool,
}

/// An event, and the call that waits until it is read.
struct Queued {
    number: u64,
    event: StreamEvent,
    writer: Option<Waker>,
}

impl Handover {
    /// Takes the next event. Who waited for that goes on.
    pub(super) fn take(&self) -> Option<StreamEvent> {
        let mut waiting = self.lock();
        waiting.reader = None;
        let Queued { event, writer, .. } = waiting.events.pop_front()?;
        drop(waiting);
        // Also where that is the very task that reads: it may do more than read the run.
        if let Some(writer) = writer {
            writer.wake();
        }
        Some(event)
    }

    /// As [`take`](Self::take), for when the node waits too: the reader is woken by an event that
    /// a task of the node's puts.
    pub(super) fn poll_take(&self, cx: &Context<'_>) -> Poll<StreamEvent> {
        match self.take() {
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
        self.lock().push(event, None);
    }

    /// No more events but `last`: what waits is dropped, and who waits learns of it.
    pub(super) fn close(&self, last: Option<StreamEvent>) {
        let mut waiting = self.lock();
        waiting.closed = true;
        let events = std::mem::take(&mut waiting.events);
        if let Some(last) = last {
            waiting.push(last, None);
        }
        drop(waiting);
        let writers = events.into_iter().filter_map(|queued| queued.writer);
        writers.for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn push(&mut self, event: StreamEvent, writer: Option<Waker>) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.events.push_back(Queued {
            number,
            event,
            writer,
        });
        number
    }

    fn find(&mut self, number: u64) -> Option<&mut Queued> {
        self.events
            .iter_mut()
            .find(|queued| queued.number == number)
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
                let writer = Some(cx.waker().clone());
                this.stage = Stage::Queued(waiting.push(event, writer));
            }
            Stage::Queued(number) => match waiting.find(*number) {
                Some(Queued {
                    writer: Some(writer),
                    ..
                }) => writer.clone_from(cx.waker()),
                Some(_) => {}
                None => {
                    this.stage = Stage::Fresh(None);
                    return Poll::Ready(Ok(()));
                }
            },
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
            let at = waiting.events.iter().position(|q| q.number == number);
            let queued = at.and_then(|at| waiting.events.remove(at));
            drop(waiting);
            drop(queued);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::event::{Content, EventKind};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_event_that_is_read_or_given_up_leaves_no_waker_behind_and_wakes_only_its_own() {
        let handover = Handover::default();
        let event = || StreamEvent::made_here(EventKind::Log, Content::text("a"), None);
        let counts: [Arc<Count>; 3] = Default::default();
        let [first, second, given_up] = counts.clone().map(Waker::from);
        let mut one = pin!(handover.put(event()));
        let mut two = pin!(handover.put(event()));
        assert!(
            one.as_mut()
                .poll(&mut Context::from_waker(&first))
                .is_pending()
        );
        assert!(
            two.as_mut()
                .poll(&mut Context::from_waker(&second))
                .is_pending()
        );
        {
            let put = pin!(handover.put(event()));
            assert!(put.poll(&mut Context::from_waker(&given_up)).is_pending());
        }
        drop(given_up);
        assert_eq!(Arc::strong_count(&counts[2]), 1, "its waker is kept");
        assert!(handover.take().is_some());
        let woken = counts
            .each_ref()
            .map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!(woken, [1, 0, 0]);
        handover.close(None);
        assert_eq!(
            counts[1].0.load(Ordering::Relaxed),
            1,
            "the end was not told"
        );
    }
}
