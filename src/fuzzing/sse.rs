//! The event stream decoder and encoder.

use std::time::Duration;

use bytes::Bytes;

use super::{bound, splits};
use crate::error::Error;
use crate::wire::sse::{Position, SseDecoder, encode_event, encode_id, encode_priming};

/// Any split of a stream gives the same events, which are those of the standard; no more is held
/// than the bound allows; what was encoded decodes to the same.
///
/// The first byte picks the bound, the second one the split.
pub fn sse(input: &[u8]) {
    let [pick, seed, body @ ..] = input else {
        return;
    };
    let max_bytes = bound(*pick);
    let [seen, others @ ..] = splits(body, *seed).map(|pieces| read(&pieces, max_bytes));
    for other in others {
        assert_eq!(other, seen, "another split");
    }
    if max_bytes > body.len() {
        assert_eq!(seen.events, expected(body), "the standard's events");
    }
    round_trip(body, *seed);
}

/// All that a decoder says.
#[derive(Debug, PartialEq)]
struct Seen {
    events: Vec<Event>,
    /// The bound was hit.
    is_limited: bool,
    /// What no blank line followed.
    rest: Option<Event>,
    position: Position,
}

/// An event, and the id to go on after once it was seen.
#[derive(Debug, PartialEq)]
struct Event {
    name: Bytes,
    data: Bytes,
    last_id: String,
}

fn read(pieces: &[Bytes], max_bytes: usize) -> Seen {
    let mut decoder = SseDecoder::new("max_client_message_bytes", max_bytes);
    let (mut events, mut is_limited) = (Vec::new(), false);
    for piece in pieces {
        decoder.push(piece.clone());
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => {
                    assert!(!is_limited, "an event after the end");
                    assert!(event.data.len() <= max_bytes, "an event over the bound");
                    events.push(Event {
                        name: event.name,
                        data: event.data,
                        last_id: decoder.last_event_id().unwrap_or_default().to_owned(),
                    });
                }
                Ok(None) => break,
                Err(Error::Limit { .. }) => {
                    assert!(!is_limited, "a limit is told once");
                    is_limited = true;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        // A line may be longer than its data, by the name of the field.
        let most = max_bytes + "data: ".len();
        let held = decoder.held_bytes();
        assert!(held <= most, "{held} bytes held, {max_bytes} allowed");
    }
    let rest = decoder.finish();
    assert!(!is_limited || rest.is_none(), "an event after the end");
    let rest = rest.map(|event| Event {
        name: event.name,
        data: event.data,
        last_id: decoder.last_event_id().unwrap_or_default().to_owned(),
    });
    Seen {
        events,
        is_limited,
        rest,
        position: decoder.position(),
    }
}

/// The standard, line by line over the whole stream. Data that is nothing but line ends is dropped,
/// and ids that cannot be sent back are ignored.
fn expected(body: &[u8]) -> Vec<Event> {
    let mut rest = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let mut events = Vec::new();
    let (mut name, mut id, mut last_id) = (Vec::new(), String::new(), String::new());
    let mut data: Vec<Vec<u8>> = Vec::new();
    while let Some(end) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
        let line = &rest[..end];
        let next = end
            + if rest[end..].starts_with(b"\r\n") {
                2
            } else {
                1
            };
        rest = &rest[next..];
        if line.is_empty() {
            last_id.clone_from(&id);
            let joined = std::mem::take(&mut data).join(&b'\n');
            let name = std::mem::take(&mut name);
            if joined.iter().any(|b| *b != b'\n') {
                events.push(Event {
                    name: name.into(),
                    data: joined.into(),
                    last_id: last_id.clone(),
                });
            }
            continue;
        }
        let colon = line.iter().position(|b| *b == b':');
        let (field, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => data.push(value.to_vec()),
            b"event" => name = value.to_vec(),
            b"id" if value.len() <= 1024 && !value.contains(&0) => {
                if let Ok(text) = std::str::from_utf8(value) {
                    id = text.to_owned();
                }
            }
            _ => {}
        }
    }
    events
}

fn round_trip(body: &[u8], seed: u8) {
    let lines = || {
        body.split(|b| matches!(b, b'\n' | b'\r'))
            .filter(|line| !line.is_empty())
    };
    let mut stream = Vec::new();
    let retry = Duration::from_millis(u64::from(seed));
    encode_priming(&mut stream, format_args!("s{seed}-0"), retry);
    for (index, line) in lines().enumerate() {
        encode_id(&mut stream, format_args!("s{seed}-{}", index + 1));
        encode_event(&mut stream, line);
    }
    let count = lines().count();
    for pieces in splits(&stream, seed) {
        // Lines of ids count as well.
        let seen = read(&pieces, body.len() + 64);
        assert!(seen.events.iter().map(|event| &event.data[..]).eq(lines()));
        assert!(seen.events.iter().all(|event| event.name == "message"));
        assert_eq!((seen.is_limited, seen.rest), (false, None));
        assert_eq!(seen.position.retry, Some(retry));
        let last = seen.position.last_event_id;
        assert_eq!(last.as_deref(), Some(&*format!("s{seed}-{count}")));
    }
}
