use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytestring::ByteString;
use futures_util::stream;
use serde_json::Value;

use super::*;
use crate::error::Place;
use crate::event::Content;
use crate::session::outbox::Outbox;
use crate::session::progress::{Framing, ProgressFrame};
use crate::wire::jsonrpc::RequestId;

/// A streamer, and what reads its events.
fn streaming() -> (EventStreamer, Arc<Outbox>) {
    streaming_within(1 << 20)
}

fn streaming_within(max_bytes: usize) -> (EventStreamer, Arc<Outbox>) {
    let frame = ProgressFrame::new(Framing::Sse, &RequestId::Number(7));
    let outbox = Arc::new(Outbox::new(Framing::Sse, Some(frame), max_bytes, 1 << 20));
    let running = Arc::new(Running::new(outbox.clone(), None));
    let ctx = ToolContext::new(running, "t".into());
    (ctx.streamer("own"), outbox)
}

/// The envelopes that wait, as they stand in their notifications.
fn sent(outbox: &Outbox) -> Vec<String> {
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(chunk)) = outbox.poll_chunk(&mut cx) else {
        return Vec::new();
    };
    let text = String::from_utf8(chunk.chunk().to_vec()).unwrap();
    text.split_terminator("\n\n")
        .map(|frame| {
            let (_, data) = frame.split_once("data: ").unwrap();
            let message: Value = serde_json::from_str(data).unwrap();
            message["params"]["message"].as_str().unwrap().to_owned()
        })
        .collect()
}

/// An event as another server sent it.
fn event(message: &str) -> StreamEvent {
    let message = ByteString::from(message);
    let (kind, content, node) = crate::event::decode_shared(&message);
    let mut quoted = Vec::new();
    crate::event::escape_into(&mut quoted, &message);
    let quoted = ByteString::try_from(quoted).unwrap();
    StreamEvent::notified(kind, content, node, (1.0, None), Some(quoted.into()))
}

fn failure() -> StreamEvent {
    StreamEvent::failure(Error::Timeout {
        place: Place::default(),
        what: "timeout",
        after: Duration::from_secs(1),
    })
}

#[tokio::test]
async fn a_forwarded_event_keeps_its_kind_its_content_and_its_node() {
    let (stream, outbox) = streaming();
    let table = [
        (
            r#"{"v":1,"type":"text","content":"あ\n","node":"far"}"#,
            None,
        ),
        (
            r#"{"v":1,"type":"think","content":"hm","node":"far"}"#,
            None,
        ),
        // JSON byte by byte: spaces, order, numbers that no other type holds.
        (
            r#"{"v":1,"type":"emotion_data","content":{ "b":1e999, "a":[ 1.0 ,-0]},"node":"far"}"#,
            None,
        ),
        (
            r#"{"v":1,"type":"custom","content":null,"node":"far"}"#,
            None,
        ),
        // Without a node it goes under this streamer's.
        (
            r#"{"v":1,"type":"log","content":"x"}"#,
            Some(r#"{"v":1,"type":"log","content":"x","node":"own"}"#),
        ),
        (
            "no envelope",
            Some(r#"{"v":1,"type":"text","content":"no envelope","node":"own"}"#),
        ),
        // A peer cannot end our stream, and neither can its peer.
        (
            r#"{"v":1,"type":"result","content":1,"node":"far"}"#,
            Some(r#"{"v":1,"type":"peer:result","content":1,"node":"far"}"#),
        ),
        // A newer envelope goes on as the one that is written here.
        (
            r#"{"v":2,"type":"text","content":"a","node":"far","more":1}"#,
            Some(r#"{"v":1,"type":"text","content":"a","node":"far"}"#),
        ),
    ];
    for (message, expected) in table {
        stream.forward_event(&event(message)).await.unwrap();
        assert_eq!(sent(&outbox), [expected.unwrap_or(message)]);
    }
    let bare = stream.with_node(None::<Node>);
    bare.forward_event(&event(r#"{"type":"log","content":"x"}"#))
        .await
        .unwrap();
    assert_eq!(sent(&outbox), [r#"{"v":1,"type":"log","content":"x"}"#]);
}

#[tokio::test]
async fn of_the_terminal_events_only_a_failure_is_forwarded() {
    let (stream, outbox) = streaming();
    let result = StreamEvent::result(Content::text("done"), Content::NULL);
    let cancelled = StreamEvent::failure(Error::Cancelled {
        place: Place::default(),
    });
    for (event, expected) in [
        (result, None),
        (cancelled, None),
        (failure(), Some(("error", "own"))),
    ] {
        assert!(event.is_terminal());
        stream.forward_event(&event).await.unwrap();
        let sent = sent(&outbox);
        let seen: Option<Value> = sent.first().map(|text| serde_json::from_str(text).unwrap());
        assert_eq!(
            seen.as_ref()
                .map(|e| (e["type"].as_str().unwrap(), e["node"].as_str().unwrap())),
            expected,
            "{event:?}"
        );
        if let Some(envelope) = seen {
            assert_eq!(envelope["content"].as_str(), event.content.as_str());
        }
    }
}

#[tokio::test]
async fn forward_passes_all_on_and_gives_the_terminal_event_back() {
    let (stream, outbox) = streaming();
    let events = [
        event(r#"{"type":"text","content":"a"}"#),
        event(r#"{"type":"text","content":"b"}"#),
        failure(),
    ];
    let last = stream.forward(stream::iter(events.clone())).await.unwrap();
    assert!(last.is_some_and(|event| event.error().is_some()));
    assert_eq!(sent(&outbox).len(), 3);
    let cut = stream.forward(stream::iter(events[..2].to_vec())).await;
    assert!(cut.unwrap().is_none());
    outbox.abandon();
    let late = stream.forward(stream::iter(events)).await;
    assert!(matches!(late, Err(Error::Closed { what: "stream", .. })));
}

#[test]
fn a_thread_waits_until_there_is_room() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let (stream, outbox) = streaming_within(1);
    let (sender, told) = mpsc::channel();
    let taken = Arc::new(AtomicBool::new(false));
    let sending = std::thread::spawn({
        let taken = taken.clone();
        move || {
            stream.blocking_text("first").unwrap();
            sender.send(()).unwrap();
            stream.blocking_text("second").unwrap();
            assert!(taken.load(Ordering::SeqCst));
        }
    });
    told.recv().unwrap();
    // Time for it to go on although it must not.
    for _ in 0..1000 {
        std::thread::yield_now();
    }
    taken.store(true, Ordering::SeqCst);
    assert_eq!(sent(&outbox).len(), 1);
    sending.join().unwrap();
    assert_eq!(sent(&outbox).len(), 1);
}

/// Does what its closure says when it is woken, as executors do that run a task where it is woken.
struct Woken<F>(F);

impl<F: Fn() + Send + Sync> Wake for Woken<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// Fails instead of hanging when `test` deadlocks.
fn within_time(test: impl FnOnce() + Send + 'static) {
    let (sender, done) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        test();
        let _ = sender.send(());
    });
    done.recv_timeout(Duration::from_secs(20))
        .expect("a deadlock");
}

#[test]
fn whoever_is_woken_may_look_at_the_stream() {
    type End = fn(&Outbox);
    let ends: [End; 4] = [
        Outbox::abandon,
        Outbox::detach,
        |outbox| outbox.end(200, b"{}".to_vec()),
        |outbox| drop(sent(outbox)),
    ];
    for end in ends {
        within_time(move || {
            // Full after one event, so that there are readers, writers and watchers to wake.
            let (stream, outbox) = streaming_within(1);
            let (sender, woken) = mpsc::channel();
            let look = {
                let (outbox, sender) = (outbox.clone(), std::sync::Mutex::new(sender));
                move || {
                    let ended = (outbox.is_ended(), outbox.is_active());
                    sender.lock().unwrap().send(ended).unwrap();
                }
            };
            let waker = Waker::from(Arc::new(Woken(look)));
            let mut cx = Context::from_waker(&waker);
            assert!(outbox.poll_chunk(&mut cx).is_pending());
            stream.blocking_text("x").unwrap();
            let (mut room, mut ended) = (pin!(outbox.room()), pin!(outbox.ended()));
            assert!(room.as_mut().poll(&mut cx).is_pending());
            assert!(ended.as_mut().poll(&mut cx).is_pending());
            end(&outbox);
            assert!(woken.try_iter().count() >= 1);
        });
    }
}

#[test]
fn a_crowd_of_watchers_may_look_at_the_stream() {
    within_time(|| {
        let (_stream, outbox) = streaming();
        let mut waits = Vec::new();
        for _ in 0..1000 {
            let look = {
                let outbox = outbox.clone();
                move || assert!(!outbox.is_ended())
            };
            let waker = Waker::from(Arc::new(Woken(look)));
            let mut cx = Context::from_waker(&waker);
            waits.push(Box::pin(outbox.ended()));
            assert!(
                waits
                    .last_mut()
                    .unwrap()
                    .as_mut()
                    .poll(&mut cx)
                    .is_pending()
            );
        }
    });
}

#[test]
fn a_payload_may_use_the_stream_it_is_sent_on() {
    struct Talker(EventStreamer);
    impl Serialize for Talker {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.0
                .blocking_text("within")
                .map_err(serde::ser::Error::custom)?;
            serializer.serialize_str("after")
        }
    }
    within_time(|| {
        let (stream, outbox) = streaming();
        stream.blocking_log(Talker(stream.clone())).unwrap();
        let sent = sent(&outbox);
        assert!(
            sent[0].contains("within") && sent[1].contains("after"),
            "{sent:?}"
        );
    });
}

#[test]
fn a_payload_is_not_looked_at_when_nobody_would_see_it() {
    struct Grenade;
    impl Serialize for Grenade {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("pulled");
        }
    }
    within_time(|| {
        let (stream, outbox) = streaming();
        outbox.detach();
        stream.blocking_log(Grenade).unwrap();
        outbox.abandon();
        let late = stream.blocking_log(Grenade);
        assert!(matches!(late, Err(Error::Closed { .. })), "{late:?}");
    });
}
