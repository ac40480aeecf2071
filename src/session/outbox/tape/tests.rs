use bytes::{Buf, Bytes};
use proptest::prelude::*;

use super::*;
use crate::wire::jsonrpc::RequestId;
use crate::wire::sse::SseDecoder;

fn replay(max_events: usize, max_bytes: usize) -> Arc<Replay> {
    let limits = Limits {
        max_replay_events: max_events,
        max_replay_bytes: max_bytes,
        ..Limits::default()
    };
    Arc::new(Replay::new(&limits, Arc::default()))
}

/// The events of this outbox are small.
fn outbox(max_bytes: usize) -> Arc<Outbox> {
    let frame = ProgressFrame::new(Framing::Sse, &RequestId::Number(5));
    Arc::new(Outbox::new(Framing::Sse, Some(frame), max_bytes, 200))
}

fn taped(replay: &Arc<Replay>, primes: bool) -> Arc<Outbox> {
    let outbox = outbox(1 << 16);
    replay.tape(&outbox, primes);
    outbox
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

fn polled(chunk: Poll<Option<Chunk>>) -> Poll<Option<String>> {
    chunk.map(|chunk| {
        chunk.map(|mut chunk| {
            let bytes = chunk.copy_to_bytes(chunk.remaining());
            String::from_utf8(bytes.into()).unwrap()
        })
    })
}

/// Of each event its id and its text or its response, `?` where there is no id.
fn shown(stream: &str) -> Vec<String> {
    let mut decoder = SseDecoder::new("a test", 1 << 20);
    decoder.push(Bytes::from(stream.to_owned()));
    let mut shown = Vec::new();
    while let Some(event) = decoder.next_event().unwrap() {
        let id = decoder.last_event_id().unwrap_or("?");
        let message: serde_json::Value = serde_json::from_slice(&event.data).unwrap();
        let text = match &message["params"]["message"] {
            serde_json::Value::String(text) => text.clone(),
            _ => message.to_string(),
        };
        shown.push(format!("{id} {text}"));
    }
    shown
}

fn first(outbox: &Outbox) -> Poll<Option<String>> {
    polled(outbox.poll_chunk(&mut Context::from_waker(Waker::noop())))
}

fn next(reading: &Reading) -> Poll<Option<String>> {
    polled(reading.poll_next(&mut Context::from_waker(Waker::noop())))
}

fn resumed(replay: &Replay, id: &str) -> Reading {
    match replay.resume(id) {
        Some(Resumed::Stream(reading)) => reading,
        other => panic!("{id}: {other:?}"),
    }
}

fn rest(replay: &Replay, id: &str) -> String {
    match replay.resume(id) {
        Some(Resumed::Rest(bytes)) => String::from_utf8(bytes).unwrap(),
        other => panic!("{id}: {other:?}"),
    }
}

#[test]
fn events_have_ids_and_some_revisions_a_first_event_that_says_nothing() {
    for (primes, lead) in [(true, "id: s1-0\nretry: 1000\ndata:\n\n"), (false, "")] {
        let replay = replay(9, 999);
        let outbox = taped(&replay, primes);
        pushed(&outbox, "a");
        outbox.end(200, b"{}".to_vec());
        let expected = format!(
            "{lead}id: s1-1\nevent: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\
             \"notifications/progress\",\"params\":{{\"progressToken\":5,\"progress\":1,\
             \"message\":\"a\"}}}}\n\nid: s1-2\nevent: message\ndata: {{}}\n\n"
        );
        assert_eq!(first(&outbox), Poll::Ready(Some(expected)));
        assert_eq!(first(&outbox), Poll::Ready(None));
        let whole = String::from_utf8(replay.whole(b"{}", primes)).unwrap();
        let lead = lead.replace("s1", "s2");
        assert_eq!(
            whole,
            format!("{lead}id: s2-1\nevent: message\ndata: {{}}\n\n")
        );
        assert_eq!(shown(&rest(&replay, "s2-0")), ["s2-1 {}"]);
    }
}

#[test]
fn an_event_that_fails_leaves_no_trace() {
    let replay = replay(9, 999);
    let outbox = taped(&replay, true);
    let failed = outbox.push_event(|out| {
        out.extend_from_slice(b"half");
        Err(Error::closed("test"))
    });
    assert!(failed.is_err());
    let large = push(&outbox, &"x".repeat(200)).unwrap_err();
    assert!(large.to_string().contains("max_event_bytes"), "{large}");
    assert!(first(&outbox).is_pending());
    assert!(replay.resume("s1-0").is_none(), "it has yet to begin");
    // The answer is still one body.
    outbox.end(200, b"{}".to_vec());
    let body = b"{}".to_vec();
    assert_eq!(
        outbox.decide(),
        super::super::Answer::Json { status: 200, body }
    );
    assert!(replay.resume("s1-0").is_none());
}

#[test]
fn a_reader_that_comes_back_reads_what_followed_and_what_comes() {
    let replay = replay(9, 9_999);
    let outbox = taped(&replay, true);
    for text in ["a", "b"] {
        pushed(&outbox, text);
    }
    assert!(first(&outbox).is_ready());
    outbox.detach();
    pushed(&outbox, "c");
    assert!(outbox.is_active());
    let reading = resumed(&replay, "s1-1");
    pushed(&outbox, "d");
    let Poll::Ready(Some(stream)) = next(&reading) else {
        panic!("something waits")
    };
    assert_eq!(shown(&stream), ["s1-2 b", "s1-3 c", "s1-4 d"]);
    assert!(next(&reading).is_pending() && !reading.is_drained());
    drop(reading);
    outbox.end(200, b"{}".to_vec());
    let reading = resumed(&replay, "s1-4");
    let Poll::Ready(Some(stream)) = next(&reading) else {
        panic!("something waits")
    };
    assert_eq!(shown(&stream), ["s1-5 {}"]);
    assert!(reading.is_drained());
    assert_eq!(next(&reading), Poll::Ready(None));
    drop((reading, outbox));
    // Its call is gone by now, and the ids stay.
    assert_eq!(shown(&rest(&replay, "s1-3")), ["s1-4 d", "s1-5 {}"]);
    assert_eq!(rest(&replay, "s1-5"), "");
}

#[test]
fn the_newest_reader_wins() {
    let replay = replay(9, 9_999);
    let outbox = taped(&replay, true);
    pushed(&outbox, "a");
    let second = resumed(&replay, "s1-0");
    assert_eq!(first(&outbox), Poll::Ready(None));
    assert!(outbox.is_drained() && !second.is_drained());
    outbox.detach();
    let third = resumed(&replay, "s1-1");
    assert_eq!(next(&second), Poll::Ready(None));
    drop(second);
    pushed(&outbox, "b");
    let Poll::Ready(Some(stream)) = next(&third) else {
        panic!("the end of an older reader harms no newer one")
    };
    assert_eq!(shown(&stream), ["s1-2 b"]);
    // A refused one takes nobody's place.
    for id in ["s1-3", "s2-0", "s0-0", "x", ""] {
        assert!(replay.resume(id).is_none(), "{id}");
    }
    assert!(next(&third).is_pending());
}

#[test]
fn a_reader_that_never_had_a_word_cannot_come_back() {
    let replay = replay(9, 999);
    let outbox = taped(&replay, true);
    outbox.detach();
    assert!(!outbox.is_active() && !outbox.close_stream());
    pushed(&outbox, "a");
    outbox.end(200, Vec::new());
    assert!(replay.resume("s1-0").is_none());
}

#[test]
fn a_call_without_an_answer_is_forgotten() {
    for left in [false, true] {
        let replay = replay(9, 999);
        let outbox = taped(&replay, true);
        pushed(&outbox, "a");
        if left {
            outbox.detach();
        }
        outbox.abandon();
        assert!(replay.resume("s1-0").is_none());
        let read = first(&outbox);
        assert!(read.is_ready());
        assert_eq!(first(&outbox), Poll::Ready(None));
    }
}

#[test]
fn a_stream_that_is_closed_ends_after_what_was_said_and_its_call_goes_on() {
    let replay = replay(9, 9_999);
    let outbox = taped(&replay, true);
    assert!(outbox.close_stream());
    assert_eq!(outbox.decide(), super::super::Answer::Stream);
    assert!(!outbox.close_stream(), "twice");
    pushed(&outbox, "a");
    let lead = "id: s1-0\nretry: 1000\ndata:\n\n".to_owned();
    assert!(!outbox.is_drained());
    assert_eq!(first(&outbox), Poll::Ready(Some(lead)));
    assert!(outbox.is_drained());
    assert_eq!(first(&outbox), Poll::Ready(None));
    outbox.detach();
    let reading = resumed(&replay, "s1-0");
    pushed(&outbox, "b");
    assert!(outbox.close_stream(), "it has a reader again");
    pushed(&outbox, "c");
    let Poll::Ready(Some(stream)) = next(&reading) else {
        panic!("something waits")
    };
    assert_eq!(shown(&stream), ["s1-1 a", "s1-2 b"]);
    assert_eq!(next(&reading), Poll::Ready(None));
    // It comes back before the old stream is quite over.
    let again = resumed(&replay, "s1-2");
    drop(reading);
    outbox.end(200, b"{}".to_vec());
    assert!(!outbox.close_stream(), "it is over");
    let Poll::Ready(Some(stream)) = next(&again) else {
        panic!("something waits")
    };
    assert_eq!(shown(&stream), ["s1-3 c", "s1-4 {}"]);
}

#[test]
fn a_stream_is_closed_only_where_its_client_would_come_back() {
    let unprimed = replay(9, 999);
    for outbox in [outbox(999), taped(&unprimed, false)] {
        pushed(&outbox, "a");
        assert!(!outbox.close_stream());
        assert!(first(&outbox).is_ready());
        assert!(first(&outbox).is_pending());
    }
}

#[test]
fn a_reader_that_is_slow_still_holds_the_tool_up_and_none_does_not() {
    let replay = replay(9, 9_999);
    let outbox = outbox(1);
    replay.tape(&outbox, true);
    pushed(&outbox, "a");
    assert_eq!(push(&outbox, "b").unwrap(), Pushed::Full);
    outbox.detach();
    pushed(&outbox, "b");
    pushed(&outbox, "c");
    let reading = resumed(&replay, "s1-1");
    assert_eq!(push(&outbox, "d").unwrap(), Pushed::Full);
    assert!(next(&reading).is_ready());
    pushed(&outbox, "d");
    assert!(outbox.close_stream());
    pushed(&outbox, "e");
}

#[test]
fn the_end_of_a_session_is_the_end_of_what_it_kept() {
    let replay = replay(9, 999);
    let outbox = taped(&replay, true);
    pushed(&outbox, "a");
    outbox.end(200, b"{}".to_vec());
    replay.clear();
    assert!(replay.resume("s1-0").is_none());
    // What was read already is read to its end.
    assert!(first(&outbox).is_ready());
}

#[derive(Debug, Clone)]
enum Op {
    Event,
    Close,
    End,
    /// The reader takes what waits; of it so much gets to the client, in percent, and if it is not
    /// all the connection is gone.
    Read(usize),
    Leave,
    ComeBack,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => Just(Op::Event),
        1 => Just(Op::Close),
        1 => Just(Op::End),
        3 => Just(Op::Read(100)),
        2 => (0..100_usize).prop_map(Op::Read),
        1 => Just(Op::Leave),
        3 => Just(Op::ComeBack),
    ];
    proptest::collection::vec(op, 0..60)
}

/// A client with at most one connection to its stream.
struct Client {
    replay: Arc<Replay>,
    outbox: Arc<Outbox>,
    reader: Option<Option<Reading>>,
    decoder: SseDecoder,
    heard: Vec<String>,
    last_event_id: String,
    refused: bool,
}

impl Client {
    fn read(&mut self, percent: usize) {
        let chunk = match &self.reader {
            None => return,
            Some(None) => first(&self.outbox),
            Some(Some(reading)) => next(reading),
        };
        match chunk {
            Poll::Pending => {}
            Poll::Ready(None) => self.leave(),
            Poll::Ready(Some(chunk)) => {
                let arrived = chunk.len() * percent / 100;
                self.decoder.push(Bytes::from(chunk).slice(..arrived));
                while let Some(event) = self.decoder.next_event().unwrap() {
                    self.heard.extend(shown(&format!(
                        "data: {}\n\n",
                        str::from_utf8(&event.data).unwrap()
                    )));
                }
                if let Some(id) = self.decoder.last_event_id() {
                    self.last_event_id = id.to_owned();
                }
                if percent < 100 {
                    self.leave();
                }
            }
        }
    }

    fn leave(&mut self) {
        if let Some(None) = self.reader.take() {
            self.outbox.detach();
        }
        self.decoder = SseDecoder::new("a test", 1 << 20);
    }

    /// Comes back, also where the server does not yet know that it was gone.
    fn come_back(&mut self) {
        self.decoder = SseDecoder::new("a test", 1 << 20);
        match self.replay.resume(&self.last_event_id) {
            Some(Resumed::Stream(reading)) => self.reader = Some(Some(reading)),
            Some(Resumed::Rest(_)) => panic!("the outbox is alive"),
            None => self.refused = true,
        }
    }
}

proptest! {
    /// Wherever its connections break: a client hears each event once and in order.
    #[test]
    fn a_client_hears_everything_once(ops in ops(), max_bytes in 1..500_usize, max_events in 1..80_usize) {
        let replay = replay(max_events, 1 << 20);
        let outbox = outbox(max_bytes);
        replay.tape(&outbox, true);
        let _ = outbox.decide();
        let mut client = Client {
            replay: replay.clone(),
            outbox: outbox.clone(),
            reader: Some(None),
            decoder: SseDecoder::new("a test", 1 << 20),
            heard: Vec::new(),
            last_event_id: "s1-0".to_owned(),
            refused: false,
        };
        let mut said = Vec::new();
        for op in ops {
            match op {
                Op::Event => {
                    let text = format!("e{}", said.len());
                    if matches!(push(&outbox, &text), Ok(Pushed::Done)) {
                        said.push(format!("? {text}"));
                    }
                }
                Op::Close => drop(outbox.close_stream()),
                Op::End => {
                    if !outbox.is_ended() {
                        outbox.end(200, br#"{"id":1}"#.to_vec());
                        said.push(r#"? {"id":1}"#.to_owned());
                    }
                }
                Op::Read(percent) => client.read(percent),
                Op::Leave => client.leave(),
                Op::ComeBack => client.come_back(),
            }
        }
        if !outbox.is_ended() {
            outbox.end(200, br#"{"id":1}"#.to_vec());
            said.push(r#"? {"id":1}"#.to_owned());
        }
        let all_kept = said.len() <= max_events;
        prop_assert!(!(client.refused && all_kept), "refused though all is kept");
        client.come_back();
        for _ in 0..2 {
            client.read(100);
        }
        let heard = &client.heard;
        prop_assert_eq!(&heard[..], &said[..heard.len()]);
        if all_kept {
            prop_assert_eq!(heard.len(), said.len());
        }
    }
}
