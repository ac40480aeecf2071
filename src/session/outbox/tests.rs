use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::{Buf, Bytes};
use serde_json::Value;

use super::*;
use crate::wire::jsonrpc::RequestId;
use crate::wire::sse::SseDecoder;

mod numbers;
mod sequences;
mod wakers;

const MAX_EVENT_BYTES: usize = 4096;

type Writer = fn(&mut Vec<u8>) -> Result<(), Error>;

/// The writer of a notification without a message.
const SILENT: Option<Writer> = None;

fn outbox(max_bytes: usize) -> Outbox {
    let frame = ProgressFrame::new(Framing::Sse, &RequestId::Number(5));
    Outbox::new(Framing::Sse, Some(frame), max_bytes, MAX_EVENT_BYTES)
}

fn unheard() -> Outbox {
    Outbox::new(Framing::Sse, None, 1 << 16, MAX_EVENT_BYTES)
}

fn push(outbox: &Outbox, text: &str) -> Result<Pushed, Error> {
    outbox.push_event(|out| {
        out.extend_from_slice(text.as_bytes());
        Ok(())
    })
}

fn pushed(outbox: &Outbox, text: &str) {
    assert_eq!(push(outbox, text).unwrap(), Pushed::Done, "{text}");
}

fn ignored() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// All that waits, in one chunk; `None` at the end. Panics if the reader would have to wait.
fn chunk(outbox: &Outbox) -> Option<Bytes> {
    match outbox.poll_chunk(&mut ignored()) {
        Poll::Ready(chunk) => chunk.map(|mut chunk| chunk.copy_to_bytes(chunk.remaining())),
        Poll::Pending => panic!("nothing waits"),
    }
}

fn waits(outbox: &Outbox) -> bool {
    outbox.poll_chunk(&mut ignored()).is_pending()
}

/// The messages of SSE bytes that hold whole frames and nothing else.
fn messages(bytes: Bytes) -> Vec<Value> {
    assert!(
        bytes.is_empty() || bytes.ends_with(b"\n\n"),
        "a frame without an end: {bytes:?}"
    );
    let mut decoder = SseDecoder::new("a test", 1 << 20);
    decoder.push(bytes);
    let mut messages = Vec::new();
    while let Some(event) = decoder.next_event().unwrap() {
        assert_eq!(&event.name[..], b"message");
        messages.push(serde_json::from_slice(&event.data).expect("whole JSON"));
    }
    assert_eq!(decoder.finish(), None);
    messages
}

/// What is in a chunk, shortly: `number text` for a notification, else the message.
fn shown(bytes: Bytes) -> Vec<String> {
    let one = |message: &Value| {
        let params = &message["params"];
        if params["progressToken"] != 5 {
            return message.to_string();
        }
        let mut line = params["progress"].to_string();
        for member in ["total", "message"] {
            if let Some(value) = params.get(member) {
                line.push(' ');
                line.push_str(
                    &value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned),
                );
            }
        }
        line
    };
    messages(bytes).iter().map(one).collect()
}

/// The progress numbers as they are spelled: a parsed one may be off in its last digit.
fn numbers(bytes: &Bytes) -> Vec<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    let after = text.split("\"progress\":").skip(1);
    after
        .map(|rest| rest.split([',', '}']).next().unwrap().to_owned())
        .collect()
}

fn drained(outbox: &Outbox) -> Vec<String> {
    shown(chunk(outbox).expect("something waits"))
}

fn is_closed<T: std::fmt::Debug>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Closed { what: "stream", .. }))
}

// Covers R-711.
#[test]
fn events_and_the_response_keep_their_order() {
    let outbox = outbox(1 << 16);
    pushed(&outbox, "a");
    pushed(&outbox, "b");
    assert_eq!(drained(&outbox), ["1 a", "2 b"]);
    assert!(waits(&outbox));
    pushed(&outbox, "c");
    outbox.end(200, br#"{"id":1}"#.to_vec());
    assert!(!outbox.is_drained());
    assert_eq!(drained(&outbox), ["3 c", r#"{"id":1}"#]);
    assert!(outbox.is_drained());
    assert!(chunk(&outbox).is_none());
}

#[test]
fn an_event_is_written_byte_for_byte() {
    let outbox = outbox(1 << 16);
    pushed(&outbox, "a");
    outbox.end(200, br#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_vec());
    let expected = "event: message\n\
        data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":\
        {\"progressToken\":5,\"progress\":1,\"message\":\"a\"}}\n\n\
        event: message\n\
        data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";
    assert_eq!(chunk(&outbox).unwrap(), expected);
}

// Covers R-711, R-804.
#[test]
fn nothing_follows_the_end() {
    for end in [
        (|outbox| outbox.end(200, br#"{"id":1}"#.to_vec())) as fn(&Outbox),
        |outbox| outbox.abandon(),
    ] {
        let outbox = outbox(1 << 16);
        pushed(&outbox, "a");
        assert!(outbox.is_active() && !outbox.is_ended());
        end(&outbox);
        assert!(!outbox.is_active() && outbox.is_ended());
        assert!(is_closed(push(&outbox, "late")));
        assert!(is_closed(outbox.push_progress(9.0, None, SILENT)));
        let first = drained(&outbox);
        assert_eq!(first[0], "1 a");
        // A second end changes nothing, whichever it is.
        outbox.end(500, br#"{"id":2}"#.to_vec());
        outbox.abandon();
        outbox.detach();
        assert!(outbox.is_ended());
        assert!(chunk(&outbox).is_none(), "{first:?}");
    }
}

#[test]
fn an_abandoned_call_has_no_response() {
    let outbox = outbox(1 << 16);
    pushed(&outbox, "a");
    outbox.abandon();
    assert_eq!(drained(&outbox), ["1 a"]);
    assert!(chunk(&outbox).is_none());
}

// Covers R-807.
#[test]
fn over_the_mark_events_are_not_taken_until_a_chunk_is() {
    let outbox = outbox(200);
    pushed(&outbox, "a");
    pushed(&outbox, "b");
    let mut called = false;
    let full = outbox.push_event(|_| {
        called = true;
        Ok(())
    });
    assert_eq!(full.unwrap(), Pushed::Full);
    assert!(!called, "an event that is not taken is not written");
    assert_eq!(
        outbox.push_progress(7.0, None, SILENT).unwrap(),
        Pushed::Full
    );
    assert_eq!(drained(&outbox), ["1 a", "2 b"]);
    pushed(&outbox, "c");
    assert_eq!(drained(&outbox), ["3 c"]);
}

#[test]
fn the_mark_itself_is_full() {
    let probe = outbox(1 << 16);
    pushed(&probe, "a");
    let size = chunk(&probe).unwrap().len();
    for (mark, room) in [(size - 1, false), (size, false), (size + 1, true)] {
        let outbox = outbox(mark);
        pushed(&outbox, "a");
        let outcome = push(&outbox, "b").unwrap();
        assert_eq!(outcome == Pushed::Done, room, "{mark} of {size}");
    }
}

#[test]
fn the_response_is_taken_over_the_mark_too() {
    let outbox = outbox(1);
    pushed(&outbox, "a");
    assert_eq!(push(&outbox, "b").unwrap(), Pushed::Full);
    outbox.end(200, br#"{"id":1}"#.to_vec());
    assert_eq!(drained(&outbox), ["1 a", r#"{"id":1}"#]);
}

#[test]
fn a_bound_of_nothing_still_takes_one_event() {
    let outbox = outbox(0);
    pushed(&outbox, "a");
    assert_eq!(push(&outbox, "b").unwrap(), Pushed::Full);
}

#[test]
fn without_a_reader_events_are_dropped_and_succeed() {
    let outbox = outbox(64);
    pushed(&outbox, "unread");
    outbox.detach();
    assert!(!outbox.is_active() && !outbox.is_ended());
    for _ in 0..100 {
        pushed(&outbox, "dropped");
    }
    assert_eq!(
        outbox.push_progress(1.0, None, SILENT).unwrap(),
        Pushed::Done
    );
    outbox.end(200, br#"{"id":1}"#.to_vec());
    assert!(is_closed(push(&outbox, "late")));
    assert!(chunk(&outbox).is_none());
}

// Covers R-804.
#[test]
fn without_a_token_events_go_nowhere_and_succeed() {
    let outbox = unheard();
    assert!(!outbox.is_active());
    let mut written = false;
    let event = outbox.push_event(|_| {
        written = true;
        Ok(())
    });
    assert_eq!(event.unwrap(), Pushed::Done);
    assert!(!written);
    assert_eq!(
        outbox.push_progress(1.0, None, SILENT).unwrap(),
        Pushed::Done
    );
    assert!(waits(&outbox));
    outbox.end(200, br#"{"id":1}"#.to_vec());
    assert!(is_closed(push(&outbox, "late")));
    assert!(is_closed(outbox.push_progress(2.0, None, SILENT)));
    let answer = outbox.poll_answer(&mut ignored());
    let body = br#"{"id":1}"#.to_vec();
    assert_eq!(answer, Poll::Ready(Answer::Json { status: 200, body }));
}

// Covers R-1204.
#[test]
fn what_comes_first_decides_the_form_of_the_answer() {
    let body = || br#"{"id":1}"#.to_vec();
    // The end.
    let ended = outbox(1 << 16);
    assert!(ended.poll_answer(&mut ignored()).is_pending());
    ended.end(503, body());
    let json = Answer::Json {
        status: 503,
        body: body(),
    };
    assert_eq!(ended.poll_answer(&mut ignored()), Poll::Ready(json));
    assert!(
        chunk(&ended).is_none(),
        "a body that was given is not streamed again"
    );

    // An event.
    let spoke = outbox(1 << 16);
    pushed(&spoke, "a");
    spoke.end(200, body());
    assert_eq!(
        spoke.poll_answer(&mut ignored()),
        Poll::Ready(Answer::Stream)
    );
    assert_eq!(drained(&spoke), ["1 a", r#"{"id":1}"#]);

    // A cancel: a stream without a response.
    let cancelled = outbox(1 << 16);
    cancelled.abandon();
    assert_eq!(
        cancelled.poll_answer(&mut ignored()),
        Poll::Ready(Answer::Stream)
    );
    assert!(chunk(&cancelled).is_none());

    // The end of the window.
    let silent = outbox(1 << 16);
    assert_eq!(silent.decide(), Answer::Stream);
    silent.end(200, body());
    assert_eq!(drained(&silent), [r#"{"id":1}"#]);
    assert!(chunk(&silent).is_none());

    // The end of the window just after the tool's own.
    let late = outbox(1 << 16);
    late.end(200, body());
    assert_eq!(
        late.decide(),
        Answer::Json {
            status: 200,
            body: body()
        }
    );
}

#[test]
fn an_event_that_failed_decides_nothing() {
    let outbox = outbox(1 << 16);
    outbox
        .push_event(|_| Err(Error::config("no JSON")))
        .unwrap_err();
    assert!(outbox.poll_answer(&mut ignored()).is_pending());
    outbox.end(200, br#"{"id":1}"#.to_vec());
    assert!(matches!(outbox.decide(), Answer::Json { .. }));
}

// Covers R-809.
#[test]
fn an_event_over_the_limit_is_refused_and_nothing_is_written() {
    let outbox = outbox(1 << 16);
    pushed(&outbox, "a");
    // The largest that fits: the limit counts the whole frame.
    let frame = chunk(&outbox).unwrap().len() - "a".len();
    for (size, fits) in [
        (MAX_EVENT_BYTES - frame, true),
        (MAX_EVENT_BYTES - frame + 1, false),
    ] {
        let text = "x".repeat(size);
        match push(&outbox, &text) {
            Ok(Pushed::Done) => assert!(fits, "{size}"),
            Err(Error::Limit { what, max, .. }) => {
                assert!(!fits, "{size}");
                assert_eq!((what, max), ("max_event_bytes", MAX_EVENT_BYTES as u64));
            }
            other => panic!("{other:?}"),
        }
    }
    pushed(&outbox, "b");
    let [large, small] = &drained(&outbox)[..] else {
        panic!("two events")
    };
    assert!(large.starts_with("2 x"));
    assert_eq!(small, "3 b");
}

#[test]
fn an_error_or_a_panic_while_writing_leaves_nothing_behind() {
    let outbox = outbox(1 << 16);
    pushed(&outbox, "a");
    let half = |out: &mut Vec<u8>| out.extend_from_slice(b"half an event");
    let failed = outbox.push_event(|out| {
        half(out);
        Err(Error::config("no JSON"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no JSON");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        outbox.push_event(|out| {
            half(out);
            // Not `panic!`: its message would be in the output of every run.
            std::panic::resume_unwind(Box::new("a serialiser that panics"))
        })
    }));
    assert!(panicked.is_err());
    let failed = outbox.push_progress(
        50.0,
        None,
        Some(|out: &mut Vec<u8>| {
            half(out);
            Err(Error::config("no JSON"))
        }),
    );
    assert!(failed.is_err());
    // The number of what was not sent is free.
    pushed(&outbox, "b");
    assert_eq!(drained(&outbox), ["1 a", "2 b"]);
}

#[test]
fn the_buffer_goes_round_instead_of_being_made_anew() {
    let outbox = outbox(1 << 16);
    let mut places = std::collections::HashSet::new();
    for _ in 0..100 {
        pushed(&outbox, "a");
        let Poll::Ready(Some(chunk)) = outbox.poll_chunk(&mut ignored()) else {
            panic!("a chunk");
        };
        places.insert(chunk.chunk().as_ptr());
    }
    assert!(places.len() <= 2, "{} buffers", places.len());
}
