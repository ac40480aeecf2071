//! An HTTP client that knows bytes and little else: what it sends is what the test wrote, and what
//! it reads is what the server sent.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use memchr::memmem;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// No wait of a test is longer; what waits for an event waits no longer than the event.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for `future`, but not for ever.
pub async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it should have happened long ago")
}

/// One connection.
#[derive(Debug)]
pub struct Raw {
    stream: TcpStream,
    /// Read from the socket, not yet looked at.
    unread: Vec<u8>,
}

/// The head of an answer.
#[derive(Debug)]
pub struct Head {
    pub status: u16,
    pub text: String,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.text.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub fn is_sse(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }
}

impl Raw {
    pub async fn connect(addr: SocketAddr) -> Self {
        let stream = soon(TcpStream::connect(addr)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }

    /// A client whose kernel takes little before the server has to wait.
    pub async fn connect_narrow(addr: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Self::over(soon(socket.connect(addr)).await.unwrap())
    }

    pub fn over(stream: TcpStream) -> Self {
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A server that refuses early may have closed; the answer says so.
        let _ = soon(self.stream.write_all(bytes.as_ref())).await;
    }

    /// Reads more; false at the end.
    async fn fill(&mut self) -> bool {
        self.unread.reserve(64 << 10);
        soon(self.stream.read_buf(&mut self.unread))
            .await
            .unwrap_or(0)
            > 0
    }

    /// Reads up to and including `mark`; `None` if the connection ends before it.
    async fn until(&mut self, mark: &[u8]) -> Option<String> {
        let mut searched = 0;
        loop {
            if let Some(at) = memmem::find(&self.unread[searched..], mark) {
                let rest = self.unread.split_off(searched + at + mark.len());
                let text = std::mem::replace(&mut self.unread, rest);
                return Some(String::from_utf8(text).unwrap());
            }
            searched = self.unread.len().saturating_sub(mark.len() - 1);
            if !self.fill().await {
                return None;
            }
        }
    }

    async fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count {
            assert!(self.fill().await, "the connection ended within a body");
        }
        let rest = self.unread.split_off(count);
        std::mem::replace(&mut self.unread, rest)
    }

    pub async fn head(&mut self) -> Head {
        let text = self.until(b"\r\n\r\n").await.expect("an answer");
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        Head { status, text }
    }

    /// Reads the answer's head, and makes its body readable.
    pub async fn answer(mut self) -> Answer {
        let head = self.head().await;
        let left = match head.header("content-length") {
            Some(length) => Left::Bytes(length.parse().unwrap()),
            None if head.header("transfer-encoding") == Some("chunked") => Left::Chunks,
            None => Left::Bytes(0),
        };
        Answer {
            head,
            raw: self,
            left,
            body: Vec::new(),
        }
    }

    /// Says that nothing more is sent.
    pub async fn stop_sending(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Hangs up so that the server sees a reset.
    pub fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Reads whatever comes until the connection ends.
    pub async fn rest(&mut self) -> Vec<u8> {
        while self.fill().await {}
        std::mem::take(&mut self.unread)
    }

    /// True if the server closes the connection without a further byte.
    pub async fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.fill().await
    }
}

#[derive(Debug)]
enum Left {
    Bytes(usize),
    Chunks,
    Nothing,
}

/// An answer whose body is read as the test wants it.
#[derive(Debug)]
pub struct Answer {
    pub head: Head,
    raw: Raw,
    left: Left,
    /// Body bytes not yet handed over.
    body: Vec<u8>,
}

impl Answer {
    /// Reads a piece of the body; false at its end.
    async fn pull(&mut self) -> bool {
        match self.left {
            Left::Nothing => false,
            Left::Bytes(count) => {
                let bytes = self.raw.exactly(count).await;
                self.left = Left::Nothing;
                self.body.extend(bytes);
                count > 0
            }
            Left::Chunks => {
                let size = self.raw.until(b"\r\n").await.expect("a chunk");
                let size = usize::from_str_radix(size.trim(), 16).unwrap();
                let bytes = self.raw.exactly(size + 2).await;
                self.body.extend(&bytes[..size]);
                if size == 0 {
                    self.left = Left::Nothing;
                }
                size > 0
            }
        }
    }

    /// The whole rest of the body.
    pub async fn body(&mut self) -> String {
        soon(async { while self.pull().await {} }).await;
        String::from_utf8(std::mem::take(&mut self.body)).unwrap()
    }

    pub async fn json(&mut self) -> Value {
        let body = self.body().await;
        serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e} in {body:?}"))
    }

    /// The one message of an answer, whichever form it has: a slow machine decides that too.
    pub async fn only(&mut self) -> Value {
        if !self.head.is_sse() {
            return self.json().await;
        }
        let mut messages = self.messages().await;
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.remove(0)
    }

    /// The next SSE event or comment with its blank line; `None` at the end of the body.
    pub async fn frame(&mut self) -> Option<String> {
        let mut searched = 0;
        loop {
            if let Some(at) = memmem::find(&self.body[searched..], b"\n\n") {
                let rest = self.body.split_off(searched + at + 2);
                let frame = std::mem::replace(&mut self.body, rest);
                return Some(String::from_utf8(frame).unwrap());
            }
            searched = self.body.len().saturating_sub(1);
            if !self.pull().await {
                assert!(self.body.is_empty(), "a cut frame: {:?}", self.body);
                return None;
            }
        }
    }

    pub async fn frames(&mut self) -> Vec<String> {
        soon(async {
            let mut frames = Vec::new();
            while let Some(frame) = self.frame().await {
                frames.push(frame);
            }
            frames
        })
        .await
    }

    /// The next message on the stream.
    pub async fn message(&mut self) -> Option<Value> {
        self.frame().await.map(|frame| message_of(&frame))
    }

    pub async fn messages(&mut self) -> Vec<Value> {
        let frames = self.frames().await;
        frames.iter().map(|frame| message_of(frame)).collect()
    }

    /// The last message, of whatever form the answer is.
    pub async fn last(&mut self) -> Value {
        match self.head.is_sse() {
            true => self.messages().await.pop().expect("a message"),
            false => self.json().await,
        }
    }

    /// The connection, for the next request.
    pub fn into_raw(self) -> Raw {
        self.raw
    }
}

/// The message in an SSE event of the one form that this server writes.
pub fn message_of(frame: &str) -> Value {
    frame
        .strip_prefix("event: message\ndata: ")
        .and_then(|rest| rest.strip_suffix("\n\n"))
        .and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_else(|| panic!("not an event with a message: {frame:?}"))
}
