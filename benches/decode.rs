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

use event::{ContentRef, StreamEvent, decode_envelope, encode_envelope, write_text_envelope};
use session::progress::{Framing, ProgressDecoder, ProgressFrame, decode_progress};
use wire::jsonrpc::{self, Incoming, Message, RequestId};
use wire::lines::LineDecoder;
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

fn chunks(framing: Framing, how: Chunks, text: Text) -> Vec<Bytes> {
    let events = stream(framing, &text.text());
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

/// Takes a stream of SSE events apart; gives what each of them holds to `read`.
fn each_sse_event(chunks: &[Bytes], mut read: impl FnMut(Bytes)) {
    let mut decoder = SseDecoder::new("a bench", 1 << 20);
    for chunk in chunks {
        decoder.push(chunk.clone());
        while let Ok(Some(event)) = decoder.next_event() {
            read(event.data);
        }
    }
}

fn each_line(chunks: &[Bytes], mut read: impl FnMut(Bytes)) {
    let mut decoder = LineDecoder::new("a bench", 1 << 20);
    for chunk in chunks {
        decoder.push(chunk.clone());
        while let Ok(Some(line)) = decoder.next_line() {
            read(line);
        }
    }
}

/// A message so often as events are in a stream.
fn count(mut each: impl FnMut(&mut dyn FnMut(Bytes))) -> usize {
    let mut events = 0;
    each(&mut |message| {
        black_box(message);
        events += 1;
    });
    assert_eq!(events, EVENTS);
    events
}

fn decode(chunks: &[Bytes], mut read: impl FnMut(Bytes) -> Option<StreamEvent>) -> usize {
    let mut events = 0;
    each_sse_event(chunks, |message| {
        events += usize::from(black_box(read(message)).is_some());
    });
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
    let chunks = chunks(Framing::Sse, how, text);
    let (expected, mut read) = (text.text(), reader());
    decode(&chunks, |message| {
        let event = read(message)?;
        assert_eq!(event.text(), Some(&*expected));
        Some(event)
    });
    let bytes: usize = chunks.iter().map(Bytes::len).sum();
    bencher
        .counter(ItemsCount::new(EVENTS))
        .counter(BytesCount::new(bytes))
        .bench(|| decode(black_box(&chunks), reader()));
}

/// Short and long, in full reads and cut.
const FRAMED: [(Chunks, Text); 4] = [
    (Chunks::Whole, Text::FourBytes),
    (Chunks::Whole, Text::OneKib),
    (Chunks::Split, Text::FourBytes),
    (Chunks::Split, Text::OneKib),
];

fn bench_framing(
    bencher: Bencher<'_, '_>,
    framing: Framing,
    (how, text): (Chunks, Text),
    each: fn(&[Bytes], &mut dyn FnMut(Bytes)),
) {
    let chunks = chunks(framing, how, text);
    let bytes: usize = chunks.iter().map(Bytes::len).sum();
    bencher
        .counter(ItemsCount::new(EVENTS))
        .counter(BytesCount::new(bytes))
        .bench(|| count(|read| each(black_box(&chunks), read)));
}

/// The framing alone.
#[divan::bench(args = FRAMED)]
fn sse(bencher: Bencher<'_, '_>, input: (Chunks, Text)) {
    bench_framing(bencher, Framing::Sse, input, |chunks, read| {
        each_sse_event(chunks, read);
    });
}

#[divan::bench(args = FRAMED)]
fn lines(bencher: Bencher<'_, '_>, input: (Chunks, Text)) {
    bench_framing(bencher, Framing::Line, input, |chunks, read| {
        each_line(chunks, read);
    });
}

/// One message of each form.
#[derive(Debug, Clone, Copy)]
enum Form {
    Notification(Text),
    Request,
    Response(Text),
}

const FORMS: [Form; 5] = [
    Form::Request,
    Form::Response(Text::FourBytes),
    Form::Response(Text::OneKib),
    Form::Notification(Text::FourBytes),
    Form::Notification(Text::OneKib),
];

impl Form {
    fn message(self) -> Vec<u8> {
        match self {
            Self::Notification(text) => {
                let mut events = stream(Framing::Line, &text.text());
                let mut line = events.remove(0);
                line.truncate(line.len() - 1);
                line
            }
            Self::Request => br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{"progressToken":7}}}"#.to_vec(),
            Self::Response(text) => format!(
                r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[{{"type":"text","text":"{}"}}]}}}}"#,
                text.text()
            )
            .into_bytes(),
        }
    }

    fn is(self, message: &Message) -> bool {
        matches!(
            (self, message),
            (Self::Notification(_), Message::Notification(_))
                | (Self::Request, Message::Request(_))
                | (Self::Response(_), Message::Response(_))
        )
    }
}

/// Any message, by the decoder that takes them all.
#[divan::bench(args = FORMS)]
fn jsonrpc_message(bencher: Bencher<'_, '_>, form: Form) {
    let message = Bytes::from(form.message());
    let decoded = jsonrpc::decode(&message, 128);
    assert!(matches!(decoded, Ok(Incoming::One(message)) if form.is(&message)));
    bencher
        .counter(ItemsCount::new(1_usize))
        .counter(BytesCount::new(message.len()))
        .bench(|| jsonrpc::decode(black_box(&message), 128));
}

/// The envelope alone, as a text that is no part of a notification.
#[divan::bench(args = TEXTS)]
fn envelope(bencher: Bencher<'_, '_>, text: Text) {
    let text = text.text();
    let message = encode_envelope("text", &text, Some("my-agent")).unwrap_or_default();
    let decoded = decode_envelope(&message);
    assert!(matches!(decoded.content, ContentRef::Text(content) if content == text));
    bencher
        .counter(ItemsCount::new(1_usize))
        .counter(BytesCount::new(message.len()))
        .bench(|| black_box(decode_envelope(black_box(&message)).node.is_some()));
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
    let chunks = chunks(Framing::Sse, Chunks::Whole, text);
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
