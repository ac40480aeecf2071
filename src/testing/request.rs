//! What a peer was asked.
//!
//! Owns how one request is read, over HTTP or lines; must not know what is answered.

use std::fmt;
use std::io;

use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use super::http1::{Body, Head, read_line};

/// The largest message that a peer of a test reads, twice what a server takes by default.
pub(super) const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// How messages are told apart on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Http,
    Lines,
}

/// A message as a [`ScriptedPeer`](super::ScriptedPeer) read it.
///
/// ```
/// # use agent_hub_kit::{AgentHubClient, testing::{Script, ScriptedPeer}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let peer = ScriptedPeer::start(Script::new().offer(["greet"])).await?;
/// let hub = AgentHubClient::builder().build();
/// hub.connect_http("peer", peer.url()).bearer_token("secret").await?;
/// for request in peer.requests() {
///     assert_eq!(request.header("authorization"), Some("Bearer secret"));
///     println!("{} {}", request.method(), request.json());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct PeerRequest {
    head: Head,
    body: Bytes,
    json: Value,
    connection: usize,
}

impl PeerRequest {
    /// The next one; `None` if the client hung up.
    pub(super) async fn read(
        io: &mut (impl AsyncBufRead + Unpin),
        framing: Framing,
        connection: usize,
    ) -> io::Result<Option<Self>> {
        let (head, body) = match framing {
            Framing::Http => {
                let Some(head) = Head::read(io).await? else {
                    return Ok(None);
                };
                let body = head.body(Body::NONE)?;
                (head, body.read(io, MAX_MESSAGE_BYTES).await?)
            }
            Framing::Lines => match read_line(io, MAX_MESSAGE_BYTES).await? {
                Some(line) => (Head::default(), line.into_bytes()),
                None => return Ok(None),
            },
        };
        Ok(Some(Self {
            json: serde_json::from_slice(&body).unwrap_or_default(),
            head,
            body: body.into(),
            connection,
        }))
    }

    /// The JSON-RPC method; `"response"` for an answer of the client's, and the HTTP method for a
    /// request without a message: `"GET"` or `"DELETE"`.
    pub fn method(&self) -> &str {
        match self.json.get("method").and_then(Value::as_str) {
            Some(method) => method,
            None if self.json.is_null() => self.head.line.split(' ').next().unwrap_or_default(),
            None => "response",
        }
    }

    /// The JSON-RPC message; null if there is none, or none that can be read.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The bytes of the message.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The value of an HTTP header, whose name may be in any case; `None` over lines.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// On which connection it came, counted from 0.
    pub fn connection(&self) -> usize {
        self.connection
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// A message that nothing answers.
    pub(super) fn is_notification(&self) -> bool {
        let is_message = !self.json.is_null();
        is_message && (self.json.get("id").is_none() || self.json.get("method").is_none())
    }

    pub(super) fn id(&self) -> Option<&Value> {
        self.json.get("id")
    }

    pub(super) fn progress_token(&self) -> Option<&Value> {
        self.json.pointer("/params/_meta/progressToken")
    }

    /// What it costs to keep, about.
    pub(super) fn cost(&self) -> usize {
        // The tree of a message takes several times its text.
        8 * self.body.len() + 1024
    }

    /// For a sentence: the method, and the message cut short.
    pub(super) fn shown(&self) -> String {
        const MAX_CHARS: usize = 400;
        let text = String::from_utf8_lossy(&self.body);
        let cut: String = text.chars().take(MAX_CHARS).collect();
        let more = if cut.len() < text.len() { ".." } else { "" };
        format!("`{}`: {cut}{more}", self.method())
    }
}

impl fmt::Debug for PeerRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerRequest")
            .field("method", &self.method())
            .field("json", &self.json)
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

/// Resolves when the client has hung up. One that says more instead has not.
pub(super) async fn hung_up(io: &mut (impl AsyncBufRead + Unpin)) {
    match io.fill_buf().await {
        Ok(bytes) if !bytes.is_empty() => std::future::pending().await,
        _ => {}
    }
}
