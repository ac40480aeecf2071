//! What a scripted peer waits for and says.
//!
//! Owns the steps, how a message is compared with what was expected, and what is filled into an
//! answer; must not know sockets.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::request::PeerRequest;

/// How long the rest of a script is waited for, when its test is over.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a [`ScriptedPeer`](super::ScriptedPeer) waits for and answers, step by step.
///
/// Requests are taken in the order in which they come, on whichever connection. The steps between
/// two that expect are what is done about the first, on its connection. A request that nothing is
/// done about stays without an answer; a notification is accepted, as HTTP asks.
///
/// Nothing of this is checked: whatever a peer could send can be sent.
///
/// ```
/// use agent_hub_kit::testing::{Script, ScriptedPeer};
/// use agent_hub_kit::{AgentHubClient, Error};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let script = Script::new()
///     .offer(["greet"])
///     .expect("tools/call")
///     .answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\":")
///     .close();
/// let peer = ScriptedPeer::start(script).await?;
/// let hub = AgentHubClient::builder().build();
/// hub.connect_http("cut", peer.url()).await?;
/// let failed = hub.call_tool("greet", ()).await.unwrap_err();
/// assert!(matches!(failed, Error::Transport { .. }), "{failed:?}");
/// peer.finish().await
/// # }
/// ```
#[must_use = "a script does nothing until a peer is started with it"]
pub struct Script {
    pub(super) steps: VecDeque<Step>,
    pub(super) offered: Option<Vec<Value>>,
    pub(super) patience: Duration,
}

/// What an answer is made with.
type Answer = Box<dyn FnOnce(&PeerRequest) -> Vec<u8> + Send>;

pub(super) enum Step {
    Expect(Expected),
    Act(Action),
}

pub(super) enum Action {
    Close,
    ExpectClose,
    Hold,
    Json(Value),
    Raw(Answer),
    Stream { messages: Vec<Value>, ends: bool },
}

/// What a request has to be.
#[derive(Debug)]
pub(super) struct Expected {
    method: Option<String>,
    part: Value,
}

impl Default for Script {
    fn default() -> Self {
        Self::new()
    }
}

impl Script {
    /// A script without a step: whatever comes is unexpected.
    pub fn new() -> Self {
        Self {
            steps: VecDeque::new(),
            offered: None,
            patience: PATIENCE,
        }
    }

    /// Offers tools of these names, which take any arguments. A client is connected and told of
    /// them, and what it says beside its calls is accepted, all without a step; a step that expects
    /// it comes first.
    pub fn offer<T: Into<String>>(self, tools: impl IntoIterator<Item = T>) -> Self {
        let tool = |name: T| json!({"name": name.into(), "inputSchema": {"type": "object"}});
        self.offer_tools(tools.into_iter().map(tool))
    }

    /// As [`offer`](Self::offer), with tools as they are listed.
    pub fn offer_tools(mut self, tools: impl IntoIterator<Item = Value>) -> Self {
        self.offered.get_or_insert_default().extend(tools);
        self
    }

    /// How long [`finish`](super::ScriptedPeer::finish) waits for what is still expected. Default
    /// 5 seconds.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Waits for a message of this method, or for an HTTP request without one, by its own method
    /// (`"GET"`, `"DELETE"`). See [`PeerRequest::method`].
    pub fn expect(self, method: impl Into<String>) -> Self {
        self.wait_for(Some(method.into()), Value::Null)
    }

    /// Waits for a message that holds this: of an object the members given, of anything else the
    /// same value.
    ///
    /// ```
    /// # use agent_hub_kit::testing::Script;
    /// # use serde_json::json;
    /// # let _ =
    /// Script::new().offer(["greet"]).expect_json(json!({
    ///     "method": "tools/call",
    ///     "params": {"name": "greet", "arguments": {"whom": "you"}},
    /// }))
    /// # ;
    /// ```
    pub fn expect_json(self, part: Value) -> Self {
        self.wait_for(None, part)
    }

    /// Waits until the client hangs up the connection of the last request. What comes on other
    /// connections does not wait for it.
    pub fn expect_close(self) -> Self {
        self.act(Action::ExpectClose)
    }

    /// Writes these bytes, and nothing else.
    pub fn answer(self, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        self.answer_with(move |_| bytes)
    }

    /// Writes what `answer` makes of the request, and nothing else.
    pub fn answer_with<B: Into<Vec<u8>>>(
        self,
        answer: impl FnOnce(&PeerRequest) -> B + Send + 'static,
    ) -> Self {
        self.act(Action::Raw(Box::new(|request| answer(request).into())))
    }

    /// Answers with one message: as a JSON body, or as a line.
    ///
    /// What is not there is filled in: `jsonrpc`, the request's `id` in a `result` or `error`, and its
    /// token in a `notifications/progress`. What is there stays, if it is wrong as well.
    pub fn answer_json(self, message: Value) -> Self {
        self.act(Action::Json(message))
    }

    /// Answers with a whole SSE stream of messages, filled in as by [`answer_json`](Self::answer_json);
    /// with lines, if the client is connected by lines.
    pub fn answer_sse(self, messages: impl IntoIterator<Item = Value>) -> Self {
        self.stream(messages, true)
    }

    /// As [`answer_sse`](Self::answer_sse), without the end: more may follow.
    pub fn begin_sse(self, messages: impl IntoIterator<Item = Value>) -> Self {
        self.stream(messages, false)
    }

    /// Waits for [`ScriptedPeer::release`](super::ScriptedPeer::release).
    pub fn hold(self) -> Self {
        self.act(Action::Hold)
    }

    /// Hangs up.
    pub fn close(self) -> Self {
        self.act(Action::Close)
    }

    fn stream(self, messages: impl IntoIterator<Item = Value>, ends: bool) -> Self {
        let messages = messages.into_iter().collect();
        self.act(Action::Stream { messages, ends })
    }

    fn wait_for(mut self, method: Option<String>, part: Value) -> Self {
        let expected = Expected { method, part };
        self.steps.push_back(Step::Expect(expected));
        self
    }

    fn act(mut self, action: Action) -> Self {
        self.steps.push_back(Step::Act(action));
        self
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("steps", &self.steps.len())
            .finish_non_exhaustive()
    }
}

impl Expected {
    /// How a request differs from what was expected; `None` if it does not.
    pub(super) fn difference(&self, request: &PeerRequest) -> Option<String> {
        match &self.method {
            Some(method) if method != request.method() => Some(String::new()),
            _ => difference("", &self.part, request.json()),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.method {
            Some(method) => write!(f, "`{method}`"),
            None => write!(f, "{}", self.part),
        }
    }
}

/// Where `found` lacks a part of `wanted`.
fn difference(at: &str, wanted: &Value, found: &Value) -> Option<String> {
    match (wanted, found) {
        (Value::Null, _) if at.is_empty() => None,
        (Value::Object(wanted), Value::Object(found)) => wanted.iter().find_map(|(key, wanted)| {
            let at = format!("{at}/{key}");
            match found.get(key) {
                Some(found) => difference(&at, wanted, found),
                None => Some(format!("; `{at}` is missing")),
            }
        }),
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            let both = wanted.iter().zip(found).enumerate();
            both.into_iter().find_map(|(index, (wanted, found))| {
                difference(&format!("{at}/{index}"), wanted, found)
            })
        }
        _ if wanted == found => None,
        _ => Some(format!("; `{at}` is {found}, not {wanted}")),
    }
}

/// Fills in what a message has to repeat of its request.
pub(super) fn filled(mut message: Value, request: &PeerRequest) -> Value {
    let Value::Object(members) = &mut message else {
        return message;
    };
    members.entry("jsonrpc").or_insert_with(|| "2.0".into());
    if members.contains_key("result") || members.contains_key("error") {
        let id = members.entry("id");
        id.or_insert_with(|| request.id().cloned().unwrap_or_default());
    }
    if members.get("method").and_then(Value::as_str) == Some("notifications/progress")
        && let Some(Value::Object(params)) = members.get_mut("params")
        && let Some(token) = request.progress_token()
    {
        let own = params.entry("progressToken");
        own.or_insert_with(|| token.clone());
    }
    message
}

/// What a server says that offers `tools` and needs no script; `None` where it would need one.
/// It speaks whatever revision the client states.
pub(super) fn polite(tools: &[Value], request: &PeerRequest) -> Option<Polite> {
    let params = request.json().get("params");
    let result = match request.method() {
        "DELETE" => return Some(Polite::Accept("200 OK")),
        "GET" => return Some(Polite::Accept("405 Method Not Allowed")),
        _ if request.is_notification() => return Some(Polite::Accept("202 Accepted")),
        "initialize" => json!({
            "protocolVersion": params?.get("protocolVersion")?,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "scripted-peer", "version": env!("CARGO_PKG_VERSION")},
        }),
        "ping" => json!({}),
        "server/discover" => json!({
            "resultType": "complete",
            "supportedVersions": [params?.pointer("/_meta/io.modelcontextprotocol~1protocolVersion")?],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "scripted-peer", "version": env!("CARGO_PKG_VERSION")},
            "ttlMs": 0,
            "cacheScope": "private",
        }),
        "tools/list" => json!({
            "resultType": "complete",
            "tools": tools,
            "ttlMs": 0,
            "cacheScope": "private",
        }),
        _ => return None,
    };
    Some(Polite::Answer(json!({"result": result})))
}

/// What needs no script.
pub(super) enum Polite {
    /// An HTTP status, and no message.
    Accept(&'static str),
    Answer(Value),
}
