//! One call of a client, from the tool's side and from the reader's.

use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};

use super::super::json;
use super::assert_answers;
use crate::error::Error;
use crate::event;
use crate::mcp::types::{ContentBlock, ToolOutput};
use crate::session::outbox::{Answer, Outbox, Pushed};
use crate::session::progress::{Framing, ProgressFrame};
use crate::session::server::{CallRequest, ReplyWords};
use crate::wire::jsonrpc::{Code, ErrorObject, RequestId};
use crate::wire::lines::LineDecoder;
use crate::wire::sse::SseDecoder;

const MAX_WAITING: usize = 512;
const MAX_EVENT: usize = 1024;

type Write = fn(&mut Vec<u8>) -> Result<(), Error>;

pub(super) struct Running {
    pub(super) id: RequestId,
    reply: ReplyWords,
    token: Option<RequestId>,
    framing: Framing,
    outbox: Outbox,
    /// What was taken: the text of each event, nothing for plain progress.
    said: Vec<Option<String>>,
    /// How many of them a reader that has gone had a chance to see.
    is_detached: bool,
    is_decided: bool,
    read: Vec<u8>,
    json: Option<Vec<u8>>,
}

impl Running {
    pub(super) fn new(call: CallRequest, framing: Framing) -> Self {
        let frame = |token: &RequestId| ProgressFrame::new(framing, token);
        let frame = call.token.as_ref().map(frame);
        Self {
            id: call.id,
            reply: call.reply,
            token: call.token,
            framing,
            outbox: Outbox::new(framing, frame, MAX_WAITING, MAX_EVENT),
            said: Vec::new(),
            is_detached: false,
            is_decided: false,
            read: Vec::new(),
            json: None,
        }
    }

    pub(super) fn say(&mut self, text: &str) {
        let outcome = self.outbox.push_event(|out| {
            event::write_text_envelope(out, "text", text, None);
            Ok(())
        });
        self.took(outcome, Some(text));
    }

    pub(super) fn progress(&mut self, number: f64, total: Option<f64>) {
        let outcome = self.outbox.push_progress(number, total, None::<Write>);
        self.took(outcome, None);
    }

    fn took(&mut self, outcome: Result<Pushed, Error>, text: Option<&str>) {
        match outcome {
            Ok(Pushed::Done) if self.token.is_some() && !self.is_detached => {
                self.said.push(text.map(str::to_owned));
            }
            Ok(Pushed::Done) => {}
            Ok(Pushed::Full) => assert!(self.token.is_some() && !self.is_detached),
            Err(Error::Limit { .. }) => {
                // A control byte in the text takes seven; the token is as long as a client likes.
                let token = self
                    .token
                    .as_ref()
                    .map_or(0, |token| token.to_string().len());
                let most = 256 + token + 7 * text.map_or(0, str::len);
                assert!(most > MAX_EVENT, "an event of {most} bytes is too large");
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    pub(super) fn detach(&mut self) {
        self.outbox.detach();
        self.is_detached = true;
    }

    /// Takes all that is there.
    pub(super) fn read(&mut self) {
        self.take(0);
    }

    fn take(&mut self, response: usize) {
        let mut cx = Context::from_waker(Waker::noop());
        if !self.is_decided {
            match self.outbox.poll_answer(&mut cx) {
                Poll::Ready(Answer::Json { status, body }) => {
                    assert!((200..500).contains(&status));
                    self.json = Some(body);
                }
                Poll::Ready(Answer::Stream) => {}
                Poll::Pending => return assert!(self.said.is_empty()),
            }
            self.is_decided = true;
        }
        while let Poll::Ready(Some(chunk)) = self.outbox.poll_chunk(&mut cx) {
            let most = MAX_WAITING + MAX_EVENT + response;
            assert!(chunk.remaining() <= most, "{} waited", chunk.remaining());
            self.read.extend_from_slice(chunk.chunk());
        }
    }

    /// The tool is done.
    pub(super) fn end(mut self, has_failed: bool) {
        let (status, body) = match has_failed {
            true => self.reply.error(&ErrorObject::new(Code::INTERNAL, "a\nb")),
            false => {
                let output = ToolOutput::new().block(ContentBlock::text("done\n"));
                (200, self.reply.result(output))
            }
        };
        assert_answers(&body, Some(&self.id));
        self.outbox.end(status, body.clone());
        self.late();
        self.take(body.len() + 64);
        let answer = Some(body).filter(|_| !self.is_detached);
        self.check(answer.as_deref());
    }

    /// The client does not want it any more.
    pub(super) fn cancel(mut self) {
        self.outbox.abandon();
        self.late();
        self.take(0);
        self.check(None);
    }

    /// What the tool says now is refused, and changes nothing.
    fn late(&self) {
        let late = self.outbox.push_event(|_| Ok(()));
        assert!(matches!(late, Err(Error::Closed { .. })));
        self.outbox.end(200, b"late".to_vec());
        self.outbox.abandon();
        self.outbox.push_message(b"late");
        assert!(self.outbox.is_ended() && !self.outbox.is_active());
    }

    /// What the reader got: each event in order, then the answer, if there is one.
    fn check(self, answer: Option<&[u8]>) {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(self.outbox.poll_chunk(&mut cx).is_ready());
        assert!(self.outbox.is_drained());
        let mut frames = self.frames();
        if let Some(body) = &self.json {
            assert!(frames.is_empty() && self.said.is_empty());
            return assert_eq!(Some(&body[..]), answer);
        }
        if let Some(answer) = answer {
            let last = frames.pop();
            assert_eq!(last.as_deref(), Some(answer), "no answer");
        }
        let is_whole = frames.len() == self.said.len();
        assert!(is_whole || self.is_detached && frames.len() < self.said.len());
        let mut last = f64::NEG_INFINITY;
        for (frame, text) in frames.iter().zip(&self.said) {
            let frame = std::str::from_utf8(frame).expect("a text");
            let member = |object, key: &str| {
                let members: Vec<(String, &str)> = json::members(object).expect("an object");
                let mut named = members.into_iter().filter(|(name, _)| name == key);
                named.next().map(|(_, json)| json)
            };
            let params = member(frame, "params").expect("params");
            let token = self.token.as_ref().map(ToString::to_string);
            assert_eq!(member(params, "progressToken"), token.as_deref());
            // Read exactly: two numbers may be as close as numbers can be.
            let number: f64 = member(params, "progress").unwrap().parse().unwrap();
            assert!(number > last, "{number} after {last}");
            last = number;
            let message = member(params, "message").and_then(json::text);
            let read = message.as_deref().map(event::decode_envelope);
            let read = read
                .as_ref()
                .map(|envelope| envelope.content.as_str().expect("a text"));
            assert_eq!(read, text.as_deref());
        }
    }

    fn frames(&self) -> Vec<Bytes> {
        let mut frames = Vec::new();
        match self.framing {
            Framing::Line => {
                let mut decoder = LineDecoder::new("max_client_message_bytes", usize::MAX);
                decoder.push(Bytes::copy_from_slice(&self.read));
                while let Some(line) = decoder.next_line().unwrap() {
                    frames.push(line);
                }
                assert_eq!(decoder.finish(), None, "a frame that is cut");
            }
            Framing::Sse => {
                let mut decoder = SseDecoder::new("max_client_message_bytes", usize::MAX);
                decoder.push(Bytes::copy_from_slice(&self.read));
                while let Some(event) = decoder.next_event().unwrap() {
                    frames.push(event.data);
                }
                assert_eq!(decoder.finish(), None, "a frame that is cut");
            }
        }
        frames
    }
}
