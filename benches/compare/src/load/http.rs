//! A raw HTTP/1.1 connection: parses no more than it takes to find messages.

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::check::Check;
use crate::{Outcome, wire};

/// How much is read at once.
const READ: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// All headers of a request but its length.
    head: String,
    input: Vec<u8>,
    /// Up to here the input is used.
    at: usize,
}

/// Where a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Before the line that says a chunk's length.
    Length,
    /// This much of a chunk is missing, and the line's end after it.
    Chunk(usize),
    /// This much of a body of known length is missing.
    Plain(usize),
    End,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n"
        );
        Ok(Self {
            stream,
            head,
            input: Vec::with_capacity(2 * READ),
            at: 0,
        })
    }

    /// Opens a session, if the server has sessions.
    pub(crate) async fn handshake(&mut self) -> Outcome {
        self.post(&wire::initialize()).await?;
        let head = self.response().await?.to_ascii_lowercase();
        let session = head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id:"));
        let part = Part::of(&head)?;
        if memmem::find(&self.body(part).await?, b"serverInfo").is_none() {
            return Err("an odd answer to initialize".into());
        }
        let version = wire::VERSION;
        self.head
            .push_str(&format!("mcp-protocol-version: {version}\r\n"));
        if let Some(session) = session {
            self.head
                .push_str(&format!("mcp-session-id: {}\r\n", session.trim()));
        }
        self.post(wire::INITIALIZED).await?;
        self.answer().await?;
        Ok(())
    }

    /// Learns what the server is, without a session.
    pub(crate) async fn discover(&mut self) -> Outcome {
        self.post(&wire::discover()).await?;
        match memmem::find(&self.answer().await?, b"supportedVersions") {
            Some(_) => Ok(()),
            None => Err("an odd answer to server/discover".into()),
        }
    }

    /// A connection of the same session.
    pub(crate) async fn another(&self) -> Outcome<Self> {
        let address = self.stream.peer_addr()?.to_string();
        let mut other = Self::open(&address).await?;
        other.head.clone_from(&self.head);
        Ok(other)
    }

    pub(crate) async fn post(&mut self, body: &str) -> Outcome {
        let (head, length) = (&self.head, body.len());
        let request = format!("{head}content-length: {length}\r\n\r\n{body}");
        Ok(self.stream.write_all(request.as_bytes()).await?)
    }

    /// The whole body of a response.
    pub(crate) async fn answer(&mut self) -> Outcome<Vec<u8>> {
        let part = Part::of(&self.response().await?)?;
        self.body(part).await
    }

    /// How many tools there are.
    pub(crate) async fn tools(&mut self) -> Outcome<usize> {
        self.post(&wire::list(1)).await?;
        let answer = self.answer().await?;
        Ok(memmem::find_iter(&answer, br#""inputSchema""#).count())
    }

    /// Calls `echo`. The id is not in use on another connection of the session.
    pub(crate) async fn echo(&mut self, id: u64) -> Outcome {
        self.post(&wire::echo(id)).await?;
        let answer = self.answer().await?;
        match memmem::find(&answer, wire::ECHO.as_bytes()) {
            Some(_) => Ok(()),
            None => Err(format!("another echo: {}", String::from_utf8_lossy(&answer)).into()),
        }
    }

    /// Reads a stream to its end.
    pub(crate) async fn events(&mut self, check: &mut Check) -> Outcome {
        let mut part = Part::of(&self.response().await?)?;
        loop {
            while let Some(bytes) = part.take(&self.input, &mut self.at)? {
                check.feed(bytes);
            }
            check.read()?;
            if part == Part::End {
                return Ok(());
            }
            self.fill().await?;
        }
    }

    /// Reads without looking at what it is, until told that it was the end.
    pub(crate) async fn raw(&mut self, mut is_end: impl FnMut(&[u8]) -> bool) -> Outcome {
        loop {
            self.fill().await?;
            self.at = self.input.len();
            if is_end(&self.input) {
                return Ok(());
            }
        }
    }

    async fn body(&mut self, mut part: Part) -> Outcome<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            while let Some(bytes) = part.take(&self.input, &mut self.at)? {
                body.extend_from_slice(bytes);
            }
            if part == Part::End {
                return Ok(body);
            }
            self.fill().await?;
        }
    }

    /// The head of a response, which is no error.
    async fn response(&mut self) -> Outcome<String> {
        loop {
            if let Some(end) = memmem::find(&self.input[self.at..], b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.input[self.at..self.at + end]);
                let head = head.into_owned();
                self.at += end + 4;
                if head.starts_with("HTTP/1.1 20") {
                    return Ok(head);
                }
                let body = self.body(Part::of(&head)?).await?;
                let body = String::from_utf8_lossy(&body).into_owned();
                return Err(format!("refused: {head}\n{body}").into());
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Outcome {
        self.input.drain(..self.at);
        self.at = 0;
        self.input.reserve(READ);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err("the server hung up".into()),
            _ => Ok(()),
        }
    }
}

impl Part {
    fn of(head: &str) -> Outcome<Self> {
        let head = head.to_ascii_lowercase();
        let value = |name| head.lines().find_map(|line: &str| line.strip_prefix(name));
        if let Some(length) = value("content-length:") {
            return Ok(Self::Plain(length.trim().parse()?));
        }
        let is_chunked = value("transfer-encoding:").is_some();
        Ok(if is_chunked { Self::Length } else { Self::End })
    }

    /// The next piece of the body that has come; none if more has to be read first.
    fn take<'a>(&mut self, input: &'a [u8], at: &mut usize) -> Outcome<Option<&'a [u8]>> {
        loop {
            let rest = &input[*at..];
            match *self {
                Self::End | Self::Plain(0) => {
                    *self = Self::End;
                    return Ok(None);
                }
                Self::Plain(left) => {
                    let size = left.min(rest.len());
                    *self = Self::Plain(left - size);
                    *at += size;
                    return Ok((size > 0).then(|| &rest[..size]));
                }
                Self::Chunk(left) if left > 2 => {
                    let size = (left - 2).min(rest.len());
                    *self = Self::Chunk(left - size);
                    *at += size;
                    return Ok((size > 0).then(|| &rest[..size]));
                }
                Self::Chunk(left) => {
                    let size = left.min(rest.len());
                    *at += size;
                    if size < left {
                        *self = Self::Chunk(left - size);
                        return Ok(None);
                    }
                    *self = Self::Length;
                }
                Self::Length => {
                    let Some(end) = memchr::memchr(b'\n', rest) else {
                        return Ok(None);
                    };
                    let line = rest[..end].strip_suffix(b"\r").ok_or("a bare line feed")?;
                    let length = hex(line).ok_or("no chunk length")?;
                    if length == 0 && rest.len() < end + 3 {
                        return Ok(None);
                    }
                    *at += end + 1;
                    *self = Self::Chunk(length + 2);
                    if length == 0 {
                        *at += 2;
                        *self = Self::End;
                    }
                }
            }
        }
    }
}

fn hex(digits: &[u8]) -> Option<usize> {
    let digits = digits.iter().map(|&digit| char::from(digit).to_digit(16));
    digits
        .into_iter()
        .try_fold(0, |length, digit| Some(length * 16 + digit? as usize))
}
