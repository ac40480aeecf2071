//! HTTP/1.1 by hand: what a peer reads and writes when no library may tidy its bytes up.
//!
//! Owns heads and the framing of bodies; must not know what a body says. Only for tests: it takes
//! what well-behaved peers send, and reports the rest.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// The longest head, as in most servers.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// What is read of a body at once.
const PIECE_BYTES: usize = 16 * 1024;

pub(super) const SSE_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
pub(super) const LAST_CHUNK: &str = "0\r\n\r\n";

/// The head of a request or of an answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    /// `POST /mcp HTTP/1.1`, or `HTTP/1.1 200 OK`.
    pub(super) line: String,
    /// Names as they were written, in order.
    pub(super) headers: Vec<(String, String)>,
}

impl Head {
    /// The next head; `None` if the other side hung up instead.
    pub(super) async fn read(io: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Self>> {
        let mut head = Self::default();
        let mut left = MAX_HEAD_BYTES;
        loop {
            let Some(line) = read_line(io, left).await? else {
                let is_new = head.line.is_empty();
                return is_new.then_some(None).ok_or_else(|| torn("a head"));
            };
            left = left.saturating_sub(line.len() + 2);
            if head.line.is_empty() {
                head.line = line;
            } else if line.is_empty() {
                return Ok(Some(head));
            } else if let Some((name, value)) = line.split_once(':') {
                let header = (name.to_owned(), value.trim().to_owned());
                head.headers.push(header);
            } else {
                return Err(bad(format!("{line:?} is no header")));
            }
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let same = |(written, _): &&(String, String)| written.eq_ignore_ascii_case(name);
        self.headers.iter().find(same).map(|(_, value)| &**value)
    }

    /// Sets a header, in the place that it has.
    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        let same = |(written, _): &&mut (String, String)| written.eq_ignore_ascii_case(name);
        match self.headers.iter_mut().find(same) {
            Some((_, old)) => *old = value,
            None => self.headers.push((name.to_owned(), value)),
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.headers
            .retain(|(written, _)| !written.eq_ignore_ascii_case(name));
    }

    /// How long the body is; `otherwise` where no header says.
    pub(super) fn body(&self, otherwise: Body) -> io::Result<Body> {
        let is_chunked = |value: &str| value.to_ascii_lowercase().contains("chunked");
        if self.header("Transfer-Encoding").is_some_and(is_chunked) {
            return Ok(Body::Chunked { left: 0 });
        }
        match self.header("Content-Length") {
            None => Ok(otherwise),
            Some(text) => match text.parse() {
                Ok(left) => Ok(Body::Known { left }),
                Err(_) => Err(bad(format!("{text:?} is no length"))),
            },
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            bytes += &format!("{name}: {value}\r\n");
        }
        bytes += "\r\n";
        bytes.into_bytes()
    }
}

/// What is still to come of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// `left` of the chunk that is being read.
    Chunked {
        left: usize,
    },
    Known {
        left: usize,
    },
    UntilClosed,
}

impl Body {
    pub(super) const NONE: Self = Self::Known { left: 0 };

    /// The next piece of data; `None` at the end.
    pub(super) async fn next(
        &mut self,
        io: &mut (impl AsyncBufRead + Unpin),
    ) -> io::Result<Option<Vec<u8>>> {
        if let Self::Chunked { left: left @ 0 } = self {
            let size = read_line(io, MAX_HEAD_BYTES).await?;
            let size = size.ok_or_else(|| torn("a body"))?;
            let digits = size.split(';').next().unwrap_or_default().trim();
            *left = usize::from_str_radix(digits, 16)
                .map_err(|_| bad(format!("{size:?} is no size of a chunk")))?;
            if *left == 0 {
                while read_line(io, MAX_HEAD_BYTES)
                    .await?
                    .is_some_and(|trailer| !trailer.is_empty())
                {}
                *self = Self::NONE;
            }
        }
        let wanted = match *self {
            Self::Known { left: 0 } => return Ok(None),
            Self::Chunked { left } | Self::Known { left } => left.min(PIECE_BYTES),
            Self::UntilClosed => PIECE_BYTES,
        };
        let mut piece = vec![0; wanted];
        let count = io.read(&mut piece).await?;
        piece.truncate(count);
        match self {
            Self::UntilClosed if count == 0 => return Ok(None),
            Self::UntilClosed => {}
            _ if count == 0 => return Err(torn("a body")),
            Self::Known { left } => *left -= count,
            Self::Chunked { left } => {
                *left -= count;
                if *left == 0 {
                    read_line(io, MAX_HEAD_BYTES).await?;
                }
            }
        }
        Ok(Some(piece))
    }

    /// All of it, at most `max` bytes.
    pub(super) async fn read(
        mut self,
        io: &mut (impl AsyncBufRead + Unpin),
        max: usize,
    ) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next(io).await? {
            whole.extend(piece);
            if whole.len() > max {
                return Err(bad(format!("a body of more than {max} bytes")));
            }
        }
        Ok(whole)
    }
}

/// Up to the next line's end, which is left out; `None` at the end of the stream.
pub(super) async fn read_line(
    io: &mut (impl AsyncBufRead + Unpin),
    max: usize,
) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let room = u64::try_from(max).unwrap_or(u64::MAX);
    io.take(room).read_until(b'\n', &mut line).await?;
    if line.is_empty() && max > 0 {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(bad(format!("a line that has not ended after {max} bytes")));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    let line = String::from_utf8(line);
    line.map(Some).map_err(|_| bad("a line that is no UTF-8"))
}

pub(super) fn chunk(data: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{:x}\r\n", data.len()).into_bytes();
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// An answer with a body of known length; `content_type` empty for none.
pub(super) fn answer(status: &str, content_type: &str, body: &str) -> Vec<u8> {
    let mut head = Head {
        line: format!("HTTP/1.1 {status}"),
        headers: Vec::new(),
    };
    if !content_type.is_empty() {
        head.set("Content-Type", content_type);
    }
    head.set("Content-Length", body.len().to_string());
    let mut bytes = head.to_bytes();
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

fn bad(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

fn torn(what: &str) -> io::Error {
    let text = format!("the other side hung up inside {what}");
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}
