//! Who is woken when, and by whom.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;

/// A task that counts how often it was woken.
#[derive(Default)]
struct Sleeper(AtomicUsize);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Sleeper {
    fn new() -> (Arc<Self>, Waker) {
        let sleeper = Arc::new(Self::default());
        let waker = Waker::from(sleeper.clone());
        (sleeper, waker)
    }

    fn woken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn the_reader_is_woken_once_when_something_comes() {
    let outbox = outbox(1 << 16);
    let (reader, waker) = Sleeper::new();
    let mut cx = Context::from_waker(&waker);
    for round in 1..4 {
        assert!(outbox.poll_chunk(&mut cx).is_pending());
        assert!(outbox.poll_chunk(&mut cx).is_pending());
        pushed(&outbox, "a");
        pushed(&outbox, "b");
        pushed(&outbox, "c");
        assert_eq!(reader.woken(), round);
        assert_eq!(drained(&outbox).len(), 3);
    }
    assert!(outbox.poll_chunk(&mut cx).is_pending());
    outbox.abandon();
    assert_eq!(reader.woken(), 4);
}

#[test]
fn the_reader_is_woken_where_it_was_polled_last() {
    let outbox = outbox(1 << 16);
    let (before, old) = Sleeper::new();
    let (after, new) = Sleeper::new();
    assert!(
        outbox
            .poll_chunk(&mut Context::from_waker(&old))
            .is_pending()
    );
    assert!(
        outbox
            .poll_chunk(&mut Context::from_waker(&new))
            .is_pending()
    );
    pushed(&outbox, "a");
    assert_eq!((before.woken(), after.woken()), (0, 1));
}

#[test]
fn whoever_waits_for_the_answer_is_woken_by_what_decides_it() {
    for decide in [
        (|outbox| pushed(outbox, "a")) as fn(&Outbox),
        |outbox| outbox.end(200, b"{}".to_vec()),
        |outbox| outbox.abandon(),
    ] {
        let outbox = outbox(1 << 16);
        let (waiter, waker) = Sleeper::new();
        assert!(
            outbox
                .poll_answer(&mut Context::from_waker(&waker))
                .is_pending()
        );
        decide(&outbox);
        assert_eq!(waiter.woken(), 1);
        assert!(outbox.poll_answer(&mut ignored()).is_ready());
    }
}

#[test]
fn every_writer_is_woken_when_a_chunk_is_taken() {
    let outbox = outbox(1);
    pushed(&outbox, "a");
    let writers: Vec<_> = (0..200).map(|_| Sleeper::new()).collect();
    let mut waits: Vec<_> = writers.iter().map(|_| Box::pin(outbox.room())).collect();
    let poll_all = |waits: &mut Vec<Pin<Box<Wait<'_>>>>| {
        let ready = waits
            .iter_mut()
            .zip(&writers)
            .filter_map(|(wait, (_, waker))| {
                wait.as_mut()
                    .poll(&mut Context::from_waker(waker))
                    .is_ready()
                    .then_some(())
            });
        ready.count()
    };
    for _ in 0..3 {
        assert_eq!(poll_all(&mut waits), 0);
    }
    assert!(
        writers.iter().all(|(writer, _)| writer.woken() == 0),
        "woken without a reason"
    );
    assert_eq!(drained(&outbox), ["1 a"]);
    assert!(writers.iter().all(|(writer, _)| writer.woken() == 1));

    // One is quicker than the others, which wait again and are woken again.
    pushed(&outbox, "b");
    assert_eq!(poll_all(&mut waits), 0);
    assert_eq!(drained(&outbox), ["2 b"]);
    assert!(writers.iter().all(|(writer, _)| writer.woken() == 2));
    assert_eq!(poll_all(&mut waits), writers.len());
}

#[test]
fn there_is_room_once_nobody_reads_or_the_call_has_ended() {
    for change in [
        (|outbox| outbox.detach()) as fn(&Outbox),
        |outbox| outbox.end(200, b"{}".to_vec()),
        |outbox| outbox.abandon(),
    ] {
        let outbox = outbox(1);
        pushed(&outbox, "a");
        let (writer, waker) = Sleeper::new();
        let mut room = pin!(outbox.room());
        assert!(
            room.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        change(&outbox);
        assert_eq!(writer.woken(), 1);
        assert!(room.as_mut().poll(&mut ignored()).is_ready());
    }
}

#[test]
fn a_writer_that_gave_up_leaves_no_waker_behind() {
    let outbox = outbox(1);
    pushed(&outbox, "a");
    for wait in [Outbox::room, Outbox::ended] {
        let (gone, waker) = Sleeper::new();
        for _ in 0..1000 {
            let mut wait = pin!(wait(&outbox));
            assert!(
                wait.as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
        }
        drop(waker);
        assert_eq!(Arc::strong_count(&gone), 1);
    }
    // Nor does one that was woken and then gave up.
    let (woken, waker) = Sleeper::new();
    {
        let mut room = pin!(outbox.room());
        assert!(
            room.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        chunk(&outbox);
        assert_eq!(woken.woken(), 1);
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&woken), 1);
}

#[test]
fn only_the_end_wakes_those_who_wait_for_it() {
    let outbox = outbox(1 << 16);
    let (watcher, waker) = Sleeper::new();
    let mut ended = pin!(outbox.ended());
    assert!(
        ended
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    pushed(&outbox, "a");
    drained(&outbox);
    outbox.detach();
    assert_eq!(watcher.woken(), 0);
    outbox.abandon();
    assert_eq!(watcher.woken(), 1);
    assert!(ended.as_mut().poll(&mut ignored()).is_ready());
    assert!(
        pin!(outbox.ended())
            .as_mut()
            .poll(&mut ignored())
            .is_ready()
    );
}

#[test]
fn the_call_learns_that_nobody_reads() {
    for change in [(|outbox| outbox.detach()) as fn(&Outbox), |outbox| {
        outbox.abandon()
    }] {
        let outbox = outbox(1 << 16);
        let (owner, waker) = Sleeper::new();
        assert!(
            outbox
                .poll_unread(&mut Context::from_waker(&waker))
                .is_pending()
        );
        change(&outbox);
        assert_eq!(owner.woken(), 1);
        assert!(outbox.poll_unread(&mut ignored()).is_ready());
    }
}

/// Notes whether the lock was free when it was woken.
struct Looker(Arc<Outbox>, AtomicUsize);

impl Wake for Looker {
    fn wake(self: Arc<Self>) {
        assert!(self.0.state.try_lock().is_ok(), "woken under the lock");
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn nobody_is_woken_under_the_lock() {
    // Who is woken: the reader, the writer, who waits for the end, and the call's own task.
    for (change, full, woken) in [
        ((|outbox| pushed(outbox, "b")) as fn(&Outbox), false, 1),
        (|outbox| _ = chunk(outbox), true, 1),
        (|outbox| outbox.detach(), true, 2),
        (|outbox| outbox.end(200, b"{}".to_vec()), true, 3),
        (|outbox| outbox.abandon(), false, 3),
    ] {
        let outbox = Arc::new(outbox(1));
        let looker = Arc::new(Looker(outbox.clone(), AtomicUsize::new(0)));
        let waker = Waker::from(looker.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(outbox.poll_unread(&mut cx).is_pending());
        let mut ended = pin!(outbox.ended());
        assert!(ended.as_mut().poll(&mut cx).is_pending());
        let mut room = pin!(outbox.room());
        if full {
            pushed(&outbox, "a");
            assert!(room.as_mut().poll(&mut cx).is_pending());
        } else {
            assert!(outbox.poll_chunk(&mut cx).is_pending());
        }
        change(&outbox);
        assert_eq!(looker.1.load(Ordering::Relaxed), woken);
    }
}
