//! What one event costs on its way in and on its way out, without any I/O.
//!
//! The codecs are private, and a benchmark is no reason to publish them: their sources are compiled
//! into this program as they are. They know nothing of the floors above, so that just works.
//!
//! Run with `cargo bench --bench decode`.

// Only a part of what is compiled here is used, and lints are for where it is at home.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    unnameable_types,
    missing_docs
)]
#![allow(unfulfilled_lint_expectations)]

#[path = "../src/error.rs"]
mod error;
#[path = "../src/event/mod.rs"]
mod event;
#[path = "../src/limits.rs"]
mod limits;
#[path = "../src/mcp/mod.rs"]
mod mcp;
#[path = "../src/session/mod.rs"]
mod session;
#[path = "../src/wire/mod.rs"]
mod wire;

use bytes::Bytes;
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};

use event::{StreamEvent, write_text_envelope};
use session::progress::{Framing, ProgressDecoder, ProgressFrame, decode_progress};
use wire::jsonrpc::{self, Incoming, Message, RequestId};
use wire::sse::SseDecoder;

fn main() {
    divan::main();
}

/// Events of one pass.
const EVENTS: usize = 256;

/// What an event says.
#[derive(Debug, Clone, Copy)]
enum Text {
    FourBytes,
    OneKib,
    OneKibJapanese,
    /// One byte in four has to be escaped.
    Escapes,
}

const TEXTS: [Text; 4] = [
    Text::FourBytes,
    Text::OneKib,
    Text::OneKibJapanese,
    Text::Escapes,
];

impl Text {
    fn text(self) -> String {
        match self {
            Self::FourBytes => "word".to_owned(),
            Self::OneKib => "All is clear here. ".chars().cycle().take(1024).collect(),
            Self::OneKibJapanese => "あいうえお".chars().cycle().take(341).collect(),
            Self::Escapes => "ab\"\n".chars().cycle().take(64).collect(),
        }
    }
}

fn stream(framing: Framing, text: &str) -> Vec<Vec<u8>> {
    let frame = ProgressFrame::new(framing, &RequestId::Number(7));
    (1..=EVENTS)
        .map(|number| {
            let mut out = Vec::new();
            write(&frame, &mut out, number, text);
            out
        })
        .collect()
}

fn write(frame: &ProgressFrame, out: &mut Vec<u8>, number: usize, text: &str) {
    let envelope = |out: &mut Vec<u8>| {
        write_text_envelope(out, "text", text, Some("my-agent"));
        Ok(())
    };
    let _ = frame.write(out, number as f64, None, Some(envelope));
}

/// How the bytes of a stream arrive.
#[derive(Debug, Clone, Copy)]
enum Chunks {
    /// Each event alone.
    Event,
    /// As full as a read.
    Whole,
    /// Cut inside of events.
    Split,
}

fn chunks(how: Chunks, text: Text) -> Vec<Bytes> {
    let events = stream(Framing::Sse, &text.text());
    let size = match how {
        // As a reader gives them out: slices of a larger buffer.
        Chunks::Event => {
            let mut all = Bytes::from(events.concat());
            return events
                .iter()
                .map(|event| all.split_to(event.len()))
                .collect();
        }
        Chunks::Whole => 16 * 1024,
        Chunks::Split => events.iter().map(Vec::len).sum::<usize>() * 3 / (2 * EVENTS),
    };
    let mut all = Bytes::from(events.concat());
    let mut chunks = Vec::new();
    while !all.is_empty() {
        chunks.push(all.split_to(size.min(all.len())));
    }
    chunks
}

fn decode(chunks: &[Bytes], mut read: impl FnMut(Bytes) -> Option<StreamEvent>) -> usize {
    let mut decoder = SseDecoder::new("a bench", 1 << 20);
    let mut events = 0;
    for chunk in chunks {
        decoder.push(chunk.clone());
        while let Ok(Some(event)) = decoder.next_event() {
            events += usize::from(black_box(read(event.data)).is_some());
        }
    }
    assert_eq!(events, EVENTS);
    events
}

fn general(message: Bytes) -> Option<StreamEvent> {
    match jsonrpc::decode(&message, 128) {
        Ok(Incoming::One(Message::Notification(note))) => {
            decode_progress(note.params.as_ref()?).map(|(_, event)| event)
        }
        _ => None,
    }
}

fn bench_decode<R: FnMut(Bytes) -> Option<StreamEvent>>(
    bencher: Bencher<'_, '_>,
    how: Chunks,
    text: Text,
    reader: fn() -> R,
) {
    let chunks = chunks(how, text);
    let bytes: usize = chunks.iter().map(Bytes::len).sum();
    bencher
        .counter(ItemsCount::new(EVENTS))
        .counter(BytesCount::new(bytes))
        .bench(|| decode(black_box(&chunks), reader()));
}

/// As the reader of a call does it.
fn steady() -> impl FnMut(Bytes) -> Option<StreamEvent> {
    let mut decoder = ProgressDecoder::new(128);
    move |message| decoder.decode(message).ok().map(|(_, event)| event)
}

/// Without what is remembered from one event to the next.
fn scan() -> impl FnMut(Bytes) -> Option<StreamEvent> {
    |message| {
        ProgressDecoder::new(128)
            .decode(message)
            .ok()
            .map(|(_, event)| event)
    }
}

#[divan::bench(args = TEXTS)]
fn decode_whole(bencher: Bencher<'_, '_>, text: Text) {
    bench_decode(bencher, Chunks::Whole, text, steady);
}

#[divan::bench(args = TEXTS)]
fn decode_event(bencher: Bencher<'_, '_>, text: Text) {
    bench_decode(bencher, Chunks::Event, text, steady);
}

#[divan::bench(args = TEXTS)]
fn decode_split(bencher: Bencher<'_, '_>, text: Text) {
    bench_decode(bencher, Chunks::Split, text, steady);
}

#[divan::bench(args = TEXTS)]
fn decode_scan(bencher: Bencher<'_, '_>, text: Text) {
    bench_decode(bencher, Chunks::Whole, text, scan);
}

#[divan::bench(args = TEXTS)]
fn decode_general(bencher: Bencher<'_, '_>, text: Text) {
    bench_decode(bencher, Chunks::Whole, text, || general);
}

/// The least that any reader does: finds the ends of events.
#[divan::bench(args = TEXTS)]
fn reference_find_ends(bencher: Bencher<'_, '_>, text: Text) {
    let chunks = chunks(Chunks::Whole, text);
    bencher.counter(ItemsCount::new(EVENTS)).bench(|| {
        chunks
            .iter()
            .flat_map(|chunk| memchr::memchr_iter(b'\n', black_box(chunk)))
            .count()
    });
}

#[divan::bench(args = TEXTS)]
fn encode(bencher: Bencher<'_, '_>, text: Text) {
    let frame = ProgressFrame::new(Framing::Sse, &RequestId::Number(7));
    let text = text.text();
    let mut out = Vec::new();
    bencher
        .counter(ItemsCount::new(EVENTS))
        .counter(BytesCount::new(EVENTS * text.len()))
        .bench_local(|| {
            out.clear();
            for number in 1..=EVENTS {
                write(&frame, &mut out, number, black_box(&text));
            }
            black_box(out.len())
        });
}

/// The same bytes put together by hand, of a text that is known to need no escapes.
#[divan::bench(args = TEXTS)]
fn reference_copy(bencher: Bencher<'_, '_>, text: Text) {
    use std::io::Write as _;
    let text = text.text();
    let mut out = Vec::new();
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        out.clear();
        for number in 1..=EVENTS {
            let _ = write!(
                out,
                "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":7,\"progress\":{number},\"message\":\"{{\\\"v\\\":1,\\\"type\\\":\\\"text\\\",\\\"content\\\":\\\"{}\\\",\\\"node\\\":\\\"my-agent\\\"}}\"}}}}\n\n",
                black_box(&text)
            );
        }
        black_box(out.len())
    });
}
