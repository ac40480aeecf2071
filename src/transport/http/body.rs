//! The body of an answer: nothing, one JSON value, or what a source gives as it comes.
//!
//! Knows when a stream has been silent for too long; must not know what its bytes mean.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::super::{OutboundBody, Source};
use super::clock::from_now;
use crate::wire::chunk::Chunk;
use crate::wire::sse::KEEP_ALIVE;

/// The body of an answer, to be pulled by the HTTP connection.
#[derive(Debug)]
pub(crate) struct AnswerBody(Form);

enum Form {
    Empty,
    Json(Bytes),
    Stream {
        source: Box<dyn Source>,
        silence: Silence,
    },
}

/// One piece of an answer.
#[derive(Debug)]
pub(crate) enum AnswerBytes {
    Chunk(Chunk),
    Shared(Bytes),
}

impl AnswerBody {
    pub(crate) fn new(body: OutboundBody, keep_alive_interval: Duration) -> Self {
        Self(match body {
            OutboundBody::Empty => Form::Empty,
            OutboundBody::Json(bytes) => Form::Json(bytes),
            OutboundBody::Stream(source) => Form::Stream {
                source,
                silence: Silence::new(keep_alive_interval),
            },
        })
    }
}

impl Body for AnswerBody {
    type Data = AnswerBytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<AnswerBytes>, Infallible>>> {
        let bytes = match &mut self.0 {
            Form::Empty => None,
            Form::Json(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Form::Empty;
                Some(AnswerBytes::Shared(bytes))
            }
            Form::Stream { source, silence } => match source.poll_chunk(cx) {
                Poll::Ready(Some(chunk)) => {
                    silence.broken();
                    Some(AnswerBytes::Chunk(chunk))
                }
                Poll::Ready(None) => {
                    self.0 = Form::Empty;
                    None
                }
                Poll::Pending => {
                    ready!(silence.poll_too_long(cx));
                    Some(AnswerBytes::Shared(Bytes::from_static(KEEP_ALIVE)))
                }
            },
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    /// True as soon as the last chunk is out, so that it shares a write with what ends the body.
    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Form::Empty => true,
            Form::Json(_) => false,
            Form::Stream { source, .. } => source.is_end(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Form::Empty => SizeHint::with_exact(0),
            Form::Json(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Form::Stream { .. } => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Json(_) => "Json",
            Self::Stream { .. } => "Stream",
        })
    }
}

impl AnswerBytes {
    /// As bytes that anybody can hold, without copying them. Costs an allocation for what is to be
    /// given back once it is written.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Self::Chunk(chunk) => Bytes::from_owner(chunk),
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Buf for AnswerBytes {
    fn remaining(&self) -> usize {
        match self {
            Self::Chunk(chunk) => chunk.remaining(),
            Self::Shared(bytes) => bytes.remaining(),
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Chunk(chunk) => chunk.chunk(),
            Self::Shared(bytes) => bytes.chunk(),
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Chunk(chunk) => chunk.advance(count),
            Self::Shared(bytes) => bytes.advance(count),
        }
    }
}

/// How long nothing was sent. A chunk costs a flag here; the clock is read once for all chunks
/// that were ready together, and the timer moves only when it goes off.
struct Silence {
    interval: Duration,
    is_broken: bool,
    due: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    fn new(interval: Duration) -> Self {
        Self {
            // None at all would be a flood.
            interval: interval.max(Duration::from_millis(1)),
            is_broken: false,
            due: None,
            timer: None,
        }
    }

    fn broken(&mut self) {
        self.is_broken = true;
    }

    /// Ready when the interval has passed without a chunk; then it starts anew.
    fn poll_too_long(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = match self.due {
            Some(due) if !std::mem::take(&mut self.is_broken) => due,
            _ => from_now(self.interval),
        };
        self.due = Some(due);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if due <= timer.deadline() {
                self.due = None;
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    use super::super::toy::source;
    use super::*;

    #[test]
    fn a_stream_says_with_its_last_chunk_that_it_has_ended() {
        let (source, events, dropped) = source();
        events.send(b"1".to_vec()).unwrap();
        events.send(b"2".to_vec()).unwrap();
        drop(events);
        let interval = Duration::from_secs(15);
        let mut body = AnswerBody::new(OutboundBody::Stream(Box::new(source)), interval);
        for (chunk, is_end) in [("1", false), ("2", true)] {
            let frame = body.frame().now_or_never().unwrap().unwrap().unwrap();
            let mut data = frame.into_data().unwrap();
            assert_eq!(data.copy_to_bytes(data.remaining()), chunk);
            assert_eq!(body.is_end_stream(), is_end, "after {chunk}");
        }
        assert!(body.frame().now_or_never().unwrap().is_none());
        assert!(
            dropped.now_or_never().unwrap().is_err(),
            "the source is let go"
        );
    }

    #[test]
    fn json_has_a_length_and_one_frame() {
        let json = Bytes::from_static(b"{}");
        let mut body = AnswerBody::new(OutboundBody::Json(json), Duration::ZERO);
        assert_eq!(body.size_hint().exact(), Some(2));
        assert!(!body.is_end_stream());
        body.frame().now_or_never().unwrap().unwrap().unwrap();
        assert_eq!(body.size_hint().exact(), Some(0));
        assert!(body.is_end_stream());
    }
}
