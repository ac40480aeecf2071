//! The answer to one request, read by whoever waits for it.
//!
//! Owns the body and takes the messages out of it; must not know what a message says.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::pool::{Answer, Pool};
use crate::error::Error;
use crate::transport::{Media, Messages};
use crate::wire::sse::{Position, SseDecoder, SseEvent};

/// A body on its way in. Dropped before its end, it hangs up.
pub(super) struct Body {
    pool: Arc<Pool>,
    /// `None` once the body has ended or failed.
    answer: Option<Answer>,
    /// Read too early, by [`Body::sniff`].
    first: Option<Bytes>,
}

/// The messages of a body.
pub(super) struct BodyMessages {
    body: Body,
    form: Form,
    names: Names,
    /// How far it had come when it ended.
    last: Position,
    max_bytes: usize,
    excerpt: Vec<u8>,
}

/// Which SSE events are messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    Any,
    /// Those without a name, or named so.
    Message,
}

enum Form {
    /// No more messages.
    Done,
    Json(Collected),
    Sse(SseDecoder),
}

/// A body in one piece, without a copy if it came as one.
#[derive(Default)]
struct Collected {
    only: Bytes,
    /// Used from the second piece on.
    joined: Vec<u8>,
}

impl Body {
    pub(super) fn new(answer: Answer, pool: Arc<Pool>) -> Self {
        Self {
            pool,
            answer: Some(answer),
            first: None,
        }
    }

    /// Judges a body without a media type by its first byte that is not white space.
    pub(super) async fn sniff(&mut self) -> Result<Media, Error> {
        /// No JSON text begins with more white space than this.
        const MAX_BLANK_BYTES: usize = 64 * 1024;
        let mut blank = 0;
        while let Some(piece) = poll_fn(|cx| self.poll_piece(cx)).await {
            let piece = piece?;
            blank += piece.len();
            let start = piece.trim_ascii_start().first().copied();
            if start.is_some() || blank > MAX_BLANK_BYTES {
                self.first = Some(piece);
                return Ok(match start {
                    Some(b'{' | b'[') => Media::Json,
                    _ => Media::Other,
                });
            }
        }
        Ok(Media::Other)
    }

    /// The next bytes; `None` at the end. A connection whose body ended goes back to the pool.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let Some(answer) = &mut self.answer else {
            return Poll::Ready(None);
        };
        let piece = ready!(answer.poll_frame(cx));
        if !matches!(piece, Some(Ok(_))) {
            let answer = self.answer.take();
            if piece.is_none()
                && let Some(ended) = answer
            {
                self.pool.take_ended(ended);
            }
        }
        Poll::Ready(piece.map(|piece| piece.map_err(broken)))
    }

    fn hang_up(&mut self) {
        self.answer = None;
    }
}

/// An answer that has ended gives its connection back although nobody read it to its end: the
/// end of a 202, or the terminator that came together with the last message.
impl Drop for Body {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.pool.take_ended(answer);
        }
    }
}

impl BodyMessages {
    pub(super) fn new(body: Body, media: Media, max_bytes: usize) -> Self {
        Self {
            body,
            form: match media {
                Media::Json => Form::Json(Collected::default()),
                Media::Other => Form::Done,
                Media::Sse => Form::Sse(SseDecoder::new("max_client_message_bytes", max_bytes)),
            },
            names: Names::Message,
            last: Position::default(),
            max_bytes,
            excerpt: Vec::new(),
        }
    }

    /// With the SSE events of other names, or without.
    pub(super) fn taking(self, names: Names) -> Self {
        Self { names, ..self }
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            if let Form::Sse(decoder) = &mut self.form {
                while let Some(event) = decoder.next_event()? {
                    if self.names.take(&event) {
                        return Poll::Ready(Some(Ok(event.data)));
                    }
                }
            }
            let piece = match &self.form {
                Form::Done => return Poll::Ready(None),
                _ => ready!(self.body.poll_piece(cx)?),
            };
            let Some(piece) = piece else {
                self.last = self.position();
                let last = match std::mem::replace(&mut self.form, Form::Done) {
                    Form::Done => None,
                    Form::Json(collected) => collected.into_message(),
                    // The spec drops an event without its blank line; a peer that forgot it
                    // before it closed has sent its answer all the same.
                    Form::Sse(mut decoder) => {
                        let last = decoder.finish().filter(|event| self.names.take(event));
                        last.map(|event| event.data)
                    }
                };
                return Poll::Ready(last.map(Ok));
            };
            match &mut self.form {
                Form::Done => {}
                Form::Json(collected) => {
                    if collected.len() + piece.len() > self.max_bytes {
                        let limit = Error::limit("max_client_message_bytes", self.max_bytes);
                        return Poll::Ready(Some(Err(limit)));
                    }
                    collected.push(piece);
                }
                Form::Sse(decoder) => decoder.push(piece),
            }
        }
    }
}

impl Messages for BodyMessages {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let message = ready!(self.poll_message(cx));
        if matches!(message, Some(Err(_))) {
            self.last = self.position();
            self.form = Form::Done;
            self.body.hang_up();
        }
        Poll::Ready(message)
    }

    fn poll_excerpt(&mut self, max: usize, cx: &mut Context<'_>) -> Poll<String> {
        self.form = Form::Done;
        while self.excerpt.len() < max {
            match ready!(self.body.poll_piece(cx)) {
                Some(Ok(piece)) => {
                    let room = max - self.excerpt.len();
                    self.excerpt.extend(piece.iter().take(room));
                }
                Some(Err(_)) | None => break,
            }
        }
        Poll::Ready(excerpt(std::mem::take(&mut self.excerpt)))
    }

    fn position(&self) -> Position {
        match &self.form {
            Form::Sse(decoder) => decoder.position(),
            Form::Done | Form::Json(_) => self.last.clone(),
        }
    }

    fn finish(mut self: Box<Self>) {
        if let Some(answer) = self.body.answer.take() {
            self.body.pool.take_ending(answer);
        }
    }
}

impl Collected {
    fn len(&self) -> usize {
        self.only.len() + self.joined.len()
    }

    fn push(&mut self, piece: Bytes) {
        if self.len() == 0 {
            self.only = piece;
        } else {
            // Grows by doubling: the length that a peer promises reserves nothing.
            self.joined
                .extend_from_slice(&std::mem::take(&mut self.only));
            self.joined.extend_from_slice(&piece);
        }
    }

    fn into_message(self) -> Option<Bytes> {
        let whole = match self.joined.is_empty() {
            true => self.only,
            false => self.joined.into(),
        };
        (!whole.trim_ascii().is_empty()).then_some(whole)
    }
}

impl Names {
    /// An event that only sets an id is no message.
    fn take(self, event: &SseEvent) -> bool {
        let is_named = self == Self::Any || matches!(&event.name[..], b"" | b"message");
        is_named && !event.data.is_empty()
    }
}

/// Bytes of unknown kind as one line of text.
fn excerpt(mut bytes: Vec<u8>) -> String {
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        // The bound has cut a character in two.
        bytes.truncate(error.valid_up_to());
    }
    let text = String::from_utf8_lossy(&bytes);
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    line.trim().to_owned()
}

fn broken(error: hyper::Error) -> Error {
    Error::transport_by("the connection broke before the answer ended", error)
}
