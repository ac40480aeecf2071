//! Progress notifications on their way from a stream to a caller.

use bytes::Bytes;
use bytestring::ByteString;

use super::envelope::Envelope;
use super::{json, splits};
use crate::event::{self, Content, Node, StreamEvent};
use crate::session::progress::{Framing, ProgressDecoder, ProgressFrame, decode_progress};
use crate::wire::jsonrpc::{self, Incoming, Message, RequestId};
use crate::wire::lines::LineDecoder;
use crate::wire::sse::SseDecoder;

/// Frames give the events that serde_json would have read in them one by one, however they are
/// split and whichever link they came over; and what was written as an event is read back.
///
/// The first byte decides the split. Each line is a frame: JSON as it stands there, or, after a
/// `=`, an event that is to be written, as `=kind|node|text`.
pub fn fast_path(input: &[u8]) {
    let [seed, lines @ ..] = input else {
        return;
    };
    let mut sse = Vec::new();
    let mut frames = Vec::new();
    for line in lines.split(|b| matches!(b, b'\n' | b'\r')) {
        // A mark at the start of a stream is none of its text.
        let is_frame = !line.trim_ascii().is_empty() && !line.starts_with(b"\xEF");
        let line = match std::str::from_utf8(line) {
            Ok(text) if text.starts_with('=') => event_of(text, frames.len()),
            _ if is_frame => line.to_vec(),
            _ => continue,
        };
        Framing::Sse.write(&mut sse, &line);
        frames.push(Bytes::from(line));
    }
    let seen = progress_agrees(&frames);
    for pieces in splits(&sse, *seed) {
        let arrived = over_sse(&pieces);
        assert_eq!(arrived, frames);
        assert_eq!(read_all(&arrived), seen);
    }
    let line = frames.join(&b'\n');
    for pieces in splits(&line, *seed) {
        let arrived = over_lines(&pieces);
        assert_eq!(arrived, frames);
        assert_eq!(read_all(&arrived), seen);
    }
}

/// Checks that the frames of one stream, read one after the other as a client reads them, give the
/// events that a slow reading of each gives by itself; and gives these events.
fn progress_agrees(frames: &[Bytes]) -> Vec<Option<Seen>> {
    let seen = read_all(frames);
    for (frame, seen) in frames.iter().zip(&seen) {
        if let Some(expected) = Seen::slowly(frame) {
            assert_eq!(*seen, expected, "{}", String::from_utf8_lossy(frame));
        }
    }
    seen
}

fn read_all(frames: &[Bytes]) -> Vec<Option<Seen>> {
    let mut reader = Reader(ProgressDecoder::new(MAX_DEPTH));
    frames.iter().map(|frame| reader.read(frame)).collect()
}

/// What reads the frames of one stream: fast where it can, and then as the general path does.
struct Reader(ProgressDecoder);

impl Reader {
    /// `None` for what is no progress of anybody.
    fn read(&mut self, frame: &Bytes) -> Option<Seen> {
        let general = Self::read_generally(frame);
        if let Ok((id, event)) = self.0.decode(frame.clone()) {
            let mut fast = Seen::new(&RequestId::Number(id), &event);
            // It knows the number alone, whoever wrote that as a string.
            if let Some(general) = &general
                && general.token.trim_matches('"') == fast.token
            {
                fast.token.clone_from(&general.token);
            }
            assert_eq!(general, Some(fast), "{}", String::from_utf8_lossy(frame));
        }
        general
    }

    fn read_generally(frame: &Bytes) -> Option<Seen> {
        match jsonrpc::decode(frame, MAX_DEPTH) {
            Ok(Incoming::One(Message::Notification(note))) if *note.method == *METHOD => {
                let (token, event) = decode_progress(note.params.as_ref()?)?;
                Some(Seen::new(&token, &event))
            }
            _ => None,
        }
    }
}

const MAX_DEPTH: usize = 128;
const METHOD: &str = "notifications/progress";

/// What a caller sees of a notification.
#[derive(Debug, PartialEq)]
struct Seen {
    token: String,
    kind: String,
    content: String,
    node: Option<String>,
    number: f64,
    total: Option<f64>,
    message: Option<String>,
}

impl Seen {
    fn new(token: &RequestId, event: &StreamEvent) -> Self {
        let progress = event.progress().expect("numbers of a notification");
        Self {
            token: token.to_string(),
            kind: event.kind.to_string(),
            content: event.content.raw().into_owned(),
            node: event.node.as_ref().map(|node| node.as_str().to_owned()),
            number: progress.number,
            total: progress.total,
            message: event.raw().map(std::borrow::Cow::into_owned),
        }
    }

    /// By serde_json; the outer `None` where that cannot tell.
    #[expect(
        clippy::option_option,
        reason = "nothing seen is not the same as not known"
    )]
    fn slowly(frame: &[u8]) -> Option<Option<Self>> {
        let text = std::str::from_utf8(frame).ok();
        let object = text.and_then(json::json).filter(|json| {
            let is_object = json.starts_with('{');
            is_object && json::depth(json) <= MAX_DEPTH
        });
        let Some(object) = object else {
            return Some(None);
        };
        json::members(object)?;
        let known = ["jsonrpc", "id", "method", "params", "result", "error"];
        let Some(members) = json::unique(object, &known) else {
            return Some(None);
        };
        let member = |name: &str| members.get(name).copied();
        let is_other = ["id", "result", "error"]
            .iter()
            .any(|n| member(n).is_some());
        let method = member("method").map(serde_json::from_str::<String>);
        let is_progress = matches!(method, Some(Ok(method)) if method == METHOD);
        if is_other || !is_progress || member("jsonrpc") != Some("\"2.0\"") {
            return Some(None);
        }
        match member("params").filter(|params| params.starts_with('{')) {
            Some(params) => Self::read_params(params),
            None => Some(None),
        }
    }

    #[expect(
        clippy::option_option,
        reason = "nothing seen is not the same as not known"
    )]
    fn read_params(params: &str) -> Option<Option<Self>> {
        json::members(params)?;
        let known = ["progressToken", "progress", "total", "message"];
        let Some(members) = json::unique(params, &known) else {
            return Some(None);
        };
        let member = |name: &str| members.get(name).copied();
        let number = |name: &str| member(name).filter(|json| is_number(json));
        let Some(token) = member("progressToken").and_then(read_token) else {
            return Some(None);
        };
        let message = member("message").and_then(json::text);
        let envelope = match &message {
            Some(message) => Envelope::read(message)?,
            None => {
                let total = number("total").map_or(String::new(), |n| format!(",\"total\":{n}"));
                let progress = number("progress").unwrap_or("null");
                Envelope {
                    kind: "progress".to_owned(),
                    content: format!("{{\"progress\":{progress}{total}}}"),
                    node: None,
                }
            }
        };
        let kind = match &*envelope.kind {
            end if event::TERMINAL_EVENT_TYPES.contains(&end) => format!("peer:{end}"),
            _ => envelope.kind,
        };
        let value = |name: &str| number(name).map(|json| json.parse().expect("a number"));
        Some(Some(Self {
            token,
            kind,
            content: envelope.content,
            node: envelope.node,
            number: value("progress").unwrap_or_default(),
            total: value("total"),
            message,
        }))
    }
}

fn is_number(json: &str) -> bool {
    json.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

/// A string, or a whole number however it is spelled.
fn read_token(json: &str) -> Option<String> {
    if json.starts_with('"') {
        let is_token = json.len() <= 1024 && serde_json::from_str::<String>(json).is_ok();
        return is_token.then(|| json.to_owned());
    }
    if !is_number(json) {
        return None;
    }
    json::whole(json).map(|number| number.to_string())
}

/// An event as the server writes it, checked to be read as it was meant.
fn event_of(line: &str, number: usize) -> Vec<u8> {
    let mut parts = line.trim_start_matches('=').splitn(3, '|');
    let kind = parts.next().unwrap_or_default();
    let node = parts.next().filter(|node| !node.is_empty());
    let text = parts.next().unwrap_or_default();
    let token = RequestId::Number(7);
    let frame = ProgressFrame::new(Framing::Line, &token);
    let mut out = Vec::new();
    let write = |out: &mut Vec<u8>| {
        event::write_text_envelope(out, kind, text, node);
        Ok(())
    };
    let (number, total) = (number as f64, node.map(|_| 0.5));
    frame.write(&mut out, number, total, Some(write)).unwrap();
    assert_eq!(out.pop(), Some(b'\n'));

    let read = Reader::read_generally(&Bytes::copy_from_slice(&out));
    let message = event::encode_envelope(kind, text, node).unwrap();
    let quoted = serde_json::to_string(&message).unwrap();
    let inside = quoted.trim_start_matches('"').strip_suffix('"').unwrap();
    let content = Content::text(text.to_owned());
    let kind = event::EventKind::from_envelope_type(kind);
    let node = node.map(|name| Node::from(name.to_owned()));
    let sent = StreamEvent::notified(
        kind,
        content,
        node,
        (number, total),
        Some(ByteString::from(inside).into()),
    );
    assert_eq!(read, Some(Seen::new(&token, &sent)));
    out
}

fn over_sse(pieces: &[Bytes]) -> Vec<Bytes> {
    let mut decoder = SseDecoder::new("max_client_message_bytes", usize::MAX);
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.push(piece.clone());
        while let Some(event) = decoder.next_event().unwrap() {
            frames.push(event.data);
        }
    }
    assert_eq!(decoder.finish(), None);
    frames
}

fn over_lines(pieces: &[Bytes]) -> Vec<Bytes> {
    let mut decoder = LineDecoder::new("max_client_message_bytes", usize::MAX);
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.push(piece.clone());
        while let Some(line) = decoder.next_line().unwrap() {
            frames.push(line);
        }
    }
    frames.extend(decoder.finish());
    frames
}
