//! Events of one call that did not come through its own reply.
//!
//! Owns their order and their bound; must not know where they come from.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use tokio::sync::Notify;

use super::driver::now;
use crate::error::Error;
use crate::event::StreamEvent;
use crate::limits::Limits;

/// Of a timeout, of the end of the connection, from another call's reply, or from the channel that
/// all calls share. Nothing follows a terminal event.
#[derive(Debug)]
pub(super) struct Inbox {
    max_events: usize,
    /// Who set that bound.
    bounded_by: &'static str,
    max_bytes: usize,
    /// Who waits for room, on a link that can be made to wait.
    feeder: Option<Arc<Notify>>,
    /// Spares a look into the queue, which is empty nearly always.
    filled: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<StreamEvent>,
    /// How many of the last ones may be slices of what was read.
    slices: usize,
    bytes: usize,
    ended: bool,
    /// The server wants the call made again, with this beside its arguments.
    returned: Option<Box<str>>,
    /// There was no room for more, and since then not much was read: when the last of it was.
    full_since: Option<Instant>,
    reader: Option<Waker>,
}

/// What became of an event.
#[derive(Debug)]
pub(super) enum Pushed {
    /// It waits for the reader, who is to be woken once no lock is held.
    Done(Option<Waker>),
    /// The same, and nothing more should come until there is room again.
    Full(Option<Waker>),
}

impl Inbox {
    /// `feeder` is told when a full queue has room again; without one a full queue refuses.
    pub(super) fn new(
        limits: &Limits,
        capacity: Option<usize>,
        feeder: Option<Arc<Notify>>,
    ) -> Self {
        let (max_events, bounded_by) = match capacity {
            Some(capacity) => (capacity, "queue_capacity"),
            None => (limits.max_queued_events, "max_queued_events"),
        };
        // What can wait has to fit one by one.
        let least = usize::from(feeder.is_some());
        Self {
            max_events: max_events.max(least),
            bounded_by,
            max_bytes: limits.max_queued_bytes,
            feeder,
            filled: AtomicBool::new(false),
            queue: Mutex::default(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. On a link that can be made to wait it stays a slice of what was read, until
    /// [`settle`](Self::settle) is called.
    ///
    /// # Errors
    /// The limit that leaves no room. A terminal event always has room.
    pub(super) fn push(&self, event: StreamEvent) -> Result<Pushed, Error> {
        let event = match self.feeder {
            None if !event.is_terminal() => event.into_owned(),
            _ => event,
        };
        let weight = event.weight();
        let mut queue = self.queue();
        if queue.ended {
            return Ok(Pushed::Done(None));
        }
        if event.is_terminal() {
            queue.ended = true;
        } else if self.feeder.is_none() {
            self.check(queue.events.len() + 1, queue.bytes + weight)?;
        }
        queue.bytes += weight;
        queue.events.push_back(event);
        queue.slices += 1;
        self.filled.store(true, Ordering::Release);
        let full = !queue.ended && self.check(queue.events.len() + 1, queue.bytes).is_err();
        if !full {
            queue.full_since = None;
        } else if queue.full_since.is_none() {
            queue.full_since = Some(now());
        }
        let reader = queue.reader.take();
        Ok(match full {
            true => Pushed::Full(reader),
            false => Pushed::Done(reader),
        })
    }

    /// Copies the events that nobody has read yet: one of a few bytes would keep the large piece
    /// alive in which it came.
    pub(super) fn settle(&self) {
        if !self.filled.load(Ordering::Acquire) {
            return;
        }
        let mut queue = self.queue();
        let settled = queue.events.len().saturating_sub(queue.slices);
        for event in queue.events.range_mut(settled..) {
            if !event.is_terminal() {
                *event = event.clone().into_owned();
            }
        }
        queue.slices = 0;
    }

    /// Adds an end that is none if the call is made again.
    pub(super) fn push_returned(
        &self,
        event: StreamEvent,
        state: Box<str>,
    ) -> Result<Pushed, Error> {
        let mut queue = self.queue();
        if !queue.ended {
            queue.returned = Some(state);
        }
        drop(queue);
        self.push(event)
    }

    /// Why the terminal event that was read may be none.
    pub(super) fn take_returned(&self) -> Option<Box<str>> {
        self.queue().returned.take()
    }

    /// Whether so much may wait.
    fn check(&self, events: usize, bytes: usize) -> Result<(), Error> {
        if events > self.max_events {
            return Err(Error::limit(self.bounded_by, self.max_events));
        }
        if bytes > self.max_bytes {
            return Err(Error::limit("max_queued_bytes", self.max_bytes));
        }
        Ok(())
    }

    /// The limit that leaves no room, as long as there is none, and since when nothing was read.
    pub(super) fn is_full(&self) -> Option<(Error, Instant)> {
        let queue = self.queue();
        let since = queue.full_since?;
        let limit = self.check(queue.events.len() + 1, queue.bytes).err()?;
        Some((limit, since))
    }

    /// The next event, if there is one at hand.
    pub(super) fn pop(&self) -> Option<StreamEvent> {
        if !self.filled.load(Ordering::Acquire) {
            return None;
        }
        let mut queue = self.queue();
        let event = queue.events.pop_front();
        match &event {
            Some(event) => queue.bytes -= event.weight(),
            None => self.filled.store(false, Ordering::Release),
        }
        if queue.full_since.is_none() {
            return event;
        }
        // Half of it, so that a reader is not fed event by event.
        let roomy = queue.events.len() <= self.max_events / 2 && queue.bytes <= self.max_bytes / 2;
        queue.full_since = (!roomy).then(now);
        if roomy {
            drop(queue);
            if let Some(feeder) = &self.feeder {
                feeder.notify_one();
            }
        }
        event
    }

    /// Asks to be woken by the next event. False if there is one already, which wakes nobody.
    pub(super) fn listen(&self, cx: &Context<'_>) -> bool {
        let mut queue = self.queue();
        if !queue.events.is_empty() {
            return false;
        }
        match &queue.reader {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => queue.reader = Some(cx.waker().clone()),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::event::{Content, EventKind};
    use crate::session::progress::ProgressDecoder;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn text(text: &str) -> StreamEvent {
        let content = Content::text(text.to_owned());
        StreamEvent::notified(EventKind::Text, content, None, (1.0, None), None)
    }

    fn end() -> StreamEvent {
        StreamEvent::failure(Error::closed("connection"))
    }

    fn limits(max_queued_events: usize, max_queued_bytes: usize) -> Limits {
        Limits {
            max_queued_events,
            max_queued_bytes,
            ..Limits::default()
        }
    }

    fn drain(inbox: &Inbox) -> Vec<&'static str> {
        std::iter::from_fn(|| inbox.pop())
            .map(|event| if event.is_terminal() { "end" } else { "text" })
            .collect()
    }

    #[test]
    fn nothing_follows_a_terminal_event() {
        let inbox = Inbox::new(&Limits::default(), None, None);
        for event in [text("a"), end(), text("late"), end()] {
            inbox.push(event).unwrap();
        }
        assert_eq!(drain(&inbox), ["text", "end"]);
        inbox.push(end()).unwrap();
        assert_eq!(drain(&inbox), [""; 0], "also after it was read");
    }

    #[test]
    fn an_end_may_come_with_the_wish_to_be_asked_again() {
        let inbox = Inbox::new(&Limits::default(), None, None);
        inbox.push(text("a")).unwrap();
        inbox.push_returned(end(), "1".into()).unwrap();
        inbox.push_returned(end(), "2".into()).unwrap();
        assert_eq!(drain(&inbox), ["text", "end"]);
        assert_eq!(inbox.take_returned().as_deref(), Some("1"));
        assert_eq!(inbox.take_returned(), None);
        let inbox = Inbox::new(&Limits::default(), None, None);
        inbox.push(end()).unwrap();
        inbox.push_returned(end(), "late".into()).unwrap();
        assert_eq!(inbox.take_returned(), None);
    }

    #[test]
    fn each_limit_is_named_and_a_terminal_event_has_room() {
        let weight = text("a").weight();
        // limits, how many fit, which limit is named
        let table = [
            (limits(2, usize::MAX), 2, "max_queued_events"),
            (limits(0, usize::MAX), 0, "max_queued_events"),
            (limits(9, 3 * weight), 3, "max_queued_bytes"),
            (limits(9, weight - 1), 0, "max_queued_bytes"),
        ];
        for (limits, fit, named) in table {
            let inbox = Inbox::new(&limits, None, None);
            for nth in 0..fit {
                assert!(inbox.push(text("a")).is_ok(), "{named}: {nth}");
            }
            let full = inbox.push(text("a")).unwrap_err();
            assert!(full.to_string().contains(named), "{full}");
            inbox.push(end()).unwrap();
            assert_eq!(drain(&inbox).len(), fit + 1, "{named}");
        }
    }

    #[test]
    fn a_slice_is_copied_at_once_or_when_the_queue_is_settled() {
        let line = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"hello"}}"#;
        for feeder in [None, Some(Arc::default())] {
            let is_fed = feeder.is_some();
            let inbox = Inbox::new(&Limits::default(), None, feeder);
            let [first, second] = [(); 2].map(|()| Bytes::from(line.as_bytes().to_vec()));
            let push = |line: &Bytes| {
                let decoded = ProgressDecoder::new(9).decode(line.clone());
                inbox.push(decoded.unwrap().1).unwrap();
            };
            push(&first);
            assert_eq!(first.is_unique(), !is_fed);
            inbox.settle();
            assert!(first.is_unique());
            push(&second);
            for left in [1, 0] {
                assert_eq!(inbox.pop().unwrap().text(), Some("hello"));
                assert_eq!(inbox.queue().events.len(), left);
            }
            assert!(second.is_unique());
            inbox.settle();
            assert_eq!(inbox.queue().bytes, 0, "what is copied weighs the same");
        }
    }

    #[test]
    fn room_comes_back_as_events_are_read() {
        let inbox = Inbox::new(&limits(1, text("abc").weight()), None, None);
        for _ in 0..3 {
            inbox.push(text("abc")).unwrap();
            assert_eq!(drain(&inbox), ["text"]);
        }
    }

    #[test]
    fn an_event_that_came_before_the_reader_listens_is_not_missed() {
        let inbox = Inbox::new(&Limits::default(), None, None);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let cx = Context::from_waker(&waker);
        assert!(inbox.pop().is_none());
        inbox.push(text("between")).unwrap();
        assert!(!inbox.listen(&cx), "there is an event to read");
        assert_eq!(drain(&inbox), ["text"]);
        assert!(inbox.listen(&cx));
        let Ok(Pushed::Done(Some(reader))) = inbox.push(text("after")) else {
            panic!("a reader to wake")
        };
        reader.wake();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_full_queue_with_a_feeder_takes_one_more_and_tells_when_half_is_read() {
        let feeder = Arc::new(Notify::new());
        let inbox = Inbox::new(&limits(4, usize::MAX), None, Some(feeder.clone()));
        for _ in 0..3 {
            assert!(matches!(inbox.push(text("a")), Ok(Pushed::Done(_))));
        }
        assert!(inbox.is_full().is_none());
        for _ in 0..2 {
            assert!(matches!(inbox.push(text("a")), Ok(Pushed::Full(_))));
        }
        let (limit, _) = inbox.is_full().unwrap();
        assert!(limit.to_string().contains("max_queued_events"), "{limit}");
        inbox.pop();
        assert!(inbox.is_full().is_some(), "the one too many was read");
        inbox.pop();
        assert!(inbox.is_full().is_none(), "there is room for one");
        let mut told = Box::pin(feeder.notified());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(told.as_mut().poll(&mut cx).is_pending());
        inbox.pop();
        told.await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_reads_however_slowly_starts_the_time_anew() {
        let second = Duration::from_secs(1);
        let begun = now();
        let since = |inbox: &Inbox| Some(inbox.is_full()?.1.duration_since(begun).as_secs());
        let inbox = Inbox::new(&limits(4, usize::MAX), None, Some(Arc::default()));
        for _ in 0..8 {
            inbox.push(text("a")).unwrap();
        }
        for read in 0..2 {
            assert_eq!(since(&inbox), Some(4 * read));
            tokio::time::advance(4 * second).await;
            inbox.pop();
        }
        assert_eq!(since(&inbox), Some(8));
        tokio::time::advance(second).await;
        inbox.push(text("a")).unwrap();
        assert_eq!(since(&inbox), Some(8), "what comes is not read");
        inbox.push(end()).unwrap();
        assert_eq!(since(&inbox), None, "nothing more can come");
    }

    #[test]
    fn a_queue_that_can_wait_takes_one_at_a_time() {
        for capacity in [0, 1] {
            let inbox = Inbox::new(&Limits::default(), Some(capacity), Some(Arc::default()));
            for _ in 0..3 {
                assert!(matches!(inbox.push(text("a")), Ok(Pushed::Full(_))));
                let (limit, _) = inbox.is_full().unwrap();
                assert!(limit.to_string().contains("queue_capacity"), "{limit}");
                assert_eq!(drain(&inbox), ["text"]);
                assert!(inbox.is_full().is_none(), "{capacity}");
            }
        }
    }
}
