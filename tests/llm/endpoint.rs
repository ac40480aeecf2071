//! An endpoint that says what the test says, byte by byte.

use std::time::Duration;

use agent_hub_kit::{ChatChunk, ChatStream, Error, OpenAiLlm, OpenAiLlmBuilder};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Bounds a test whose bug is that it waits for ever.
pub(super) async fn on_time<T>(test: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(Duration::from_secs(30), test).await;
    outcome.expect("nothing happened for 30 s")
}

pub(super) struct Endpoint(TcpListener);

/// The endpoint's end of one connection.
pub(super) struct Wire(TcpStream);

/// A request as it was on the wire.
pub(super) struct Seen {
    pub(super) head: String,
    pub(super) body: Value,
}

impl Endpoint {
    pub(super) async fn bind() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.local_addr().unwrap())
    }

    pub(super) fn builder(&self) -> OpenAiLlmBuilder {
        OpenAiLlm::builder(self.url("/v1"), "test-model")
    }

    pub(super) fn llm(&self) -> OpenAiLlm {
        self.builder().build().unwrap()
    }

    pub(super) async fn accept(&self) -> Wire {
        let (stream, _) = self.0.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        Wire(stream)
    }

    /// Answers one request with these bytes and hangs up.
    pub(super) async fn answer(&self, bytes: impl AsRef<[u8]>) -> Seen {
        let mut wire = self.accept().await;
        let seen = wire.read().await.unwrap();
        wire.write(bytes).await;
        wire.end().await;
        seen
    }
}

impl Wire {
    /// The next request; `None` if the client hung up instead.
    pub(super) async fn read(&mut self) -> Option<Seen> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let len = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .map_or(0, |(_, len)| len.parse().unwrap());
        let mut body = vec![0; len];
        self.0.read_exact(&mut body).await.unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        Some(Seen { head, body })
    }

    pub(super) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // A client that has hung up is no fault of the test's.
        let _ = self.0.write_all(bytes.as_ref()).await;
        let _ = self.0.flush().await;
    }

    pub(super) async fn hung_up(&mut self) -> bool {
        !matches!(self.0.read(&mut [0]).await, Ok(1..))
    }

    /// Says that no more will come.
    pub(super) async fn end_writing(&mut self) {
        let _ = self.0.shutdown().await;
    }

    /// Hangs up. The request was read to its end, so no byte of the answer is lost to a reset.
    pub(super) async fn end(mut self) {
        let _ = self.0.shutdown().await;
    }
}

impl Seen {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(n, value)| n.eq_ignore_ascii_case(name).then_some(value))
    }
}

/// The head of a stream that ends with its connection.
pub(super) const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

/// A whole answer with a body of a given type.
pub(super) fn whole(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

/// Chunks whose deltas are these, each as one event.
pub(super) fn deltas(deltas: &[&str]) -> String {
    deltas
        .iter()
        .map(|delta| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n"))
        .collect()
}

pub(super) const STOP: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
pub(super) const DONE: &str = "data: [DONE]\n\n";

/// All that a stream gives, up to its error: neighbours of a kind joined, as
/// `text: .. | think: .. | stop | 3+4`.
pub(super) async fn read(mut stream: ChatStream) -> (String, Option<Error>) {
    let mut told: Vec<String> = Vec::new();
    let mut error = None;
    while let Some(chunk) = on_time(stream.next()).await {
        let (kind, said) = match chunk {
            Ok(ChatChunk::Text(text)) => ("text: ", text),
            Ok(ChatChunk::Think(text)) => ("think: ", text),
            Ok(ChatChunk::Finish(reason)) => ("", format!("{reason:?}")),
            Ok(ChatChunk::Usage(u)) => ("", format!("{}+{}", u.prompt_tokens, u.completion_tokens)),
            Ok(other) => panic!("{other:?}"),
            Err(e) => {
                error = Some(e);
                continue;
            }
        };
        match told.last_mut() {
            Some(last) if !kind.is_empty() && last.starts_with(kind) => last.push_str(&said),
            _ => told.push(format!("{kind}{said}")),
        }
    }
    (told.join(" | "), error)
}
