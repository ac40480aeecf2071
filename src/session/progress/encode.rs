//! An event to a finished SSE frame or line, in one pass.
//!
//! Owns the notification around the envelope; must not know what waits in the buffer before it.

use crate::error::Error;
use crate::wire::jsonrpc::RequestId;
use crate::wire::sse;

/// How a message is framed on the way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// As one line.
    Line,
    /// As one SSE event.
    Sse,
}

impl Framing {
    fn head(self) -> &'static [u8] {
        match self {
            Self::Line => b"",
            Self::Sse => sse::EVENT_HEAD,
        }
    }

    fn tail(self) -> &'static [u8] {
        match self {
            Self::Line => b"\n",
            Self::Sse => sse::EVENT_TAIL,
        }
    }

    /// Appends one message. JSON on one line needs no more than a head and a tail.
    pub(crate) fn write(self, out: &mut Vec<u8>, message: &[u8]) {
        match self {
            Self::Line => {
                out.extend_from_slice(message);
                out.push(b'\n');
            }
            Self::Sse => sse::encode_event(out, message),
        }
    }
}

/// The start of a call's notifications: all that does not change from one to the next.
#[derive(Debug)]
pub(crate) struct ProgressFrame {
    head: Box<[u8]>,
    framing: Framing,
}

impl ProgressFrame {
    pub(crate) fn new(framing: Framing, token: &RequestId) -> Self {
        let mut head = framing.head().to_vec();
        head.extend_from_slice(
            br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#,
        );
        head.extend_from_slice(token.to_string().as_bytes());
        head.extend_from_slice(br#","progress":"#);
        Self {
            head: head.into(),
            framing,
        }
    }

    /// Appends one notification; `write` appends the inside of its message. A total that is no
    /// finite number is left out.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        number: f64,
        total: Option<f64>,
        write: Option<impl FnOnce(&mut Vec<u8>) -> Result<(), Error>>,
    ) -> Result<(), Error> {
        out.extend_from_slice(&self.head);
        write_number(out, number);
        if let Some(total) = total.filter(|total| total.is_finite()) {
            out.extend_from_slice(br#","total":"#);
            write_number(out, total);
        }
        if let Some(write) = write {
            out.extend_from_slice(br#","message":""#);
            write(out)?;
            out.push(b'"');
        }
        out.extend_from_slice(b"}}");
        out.extend_from_slice(self.framing.tail());
        Ok(())
    }
}

/// JSON has no infinities; what cannot be said is 0.
fn write_number(out: &mut Vec<u8>, number: f64) {
    // Exactly representable, so the cast loses nothing; integers are the hot path.
    if number.fract() == 0.0 && number.abs() < 9e15 {
        write_integer(out, number as i64);
    } else if number.is_finite() {
        let _ = serde_json::to_writer(out, &number);
    } else {
        out.push(b'0');
    }
}

/// The formatter of the standard library takes as long as all the rest of an event.
fn write_integer(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    let mut rest = number.unsigned_abs();
    let start = out.len();
    loop {
        out.push(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}
