//! A server whose bytes are written by hand.
//!
//! It reads one HTTP request at a time, records it, and lets the test's script say what goes back.
//! Nothing of the crate under test stands on this side.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use agent_hub_kit::{AgentHubClient, ToolRef};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// A request as it was on the wire.
#[derive(Debug, Clone)]
pub struct Request {
    /// `POST /mcp HTTP/1.1`
    pub line: String,
    headers: HashMap<String, String>,
    /// The names as they were written, in order.
    pub header_names: Vec<String>,
    pub body: String,
    /// Which connection it came on, counted from 0.
    pub connection: usize,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The JSON-RPC message.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The JSON-RPC method, or the HTTP one of a request without a body; `"response"` for an
    /// answer of the client's.
    pub fn what(&self) -> String {
        match self.json() {
            Value::Null => self.line.split(' ').next().unwrap().to_owned(),
            message => match message["method"].as_str() {
                Some(method) => method.to_owned(),
                None => "response".to_owned(),
            },
        }
    }

    pub fn id(&self) -> Value {
        self.json()["id"].clone()
    }

    pub fn token(&self) -> Value {
        self.json()["params"]["_meta"]["progressToken"].clone()
    }
}

/// The ids of the first requests of a connection, where the question which era it is has the first
/// one.
pub const INITIALIZE: u64 = 2;
pub const FIRST_LIST: u64 = 3;
pub const FIRST_CALL: u64 = 4;

/// What a peer does after it read a request.
pub enum Answer {
    /// Hands the request and its connection to [`Peer::handed`].
    Hand,
    /// Writes and hangs up.
    Last(Vec<u8>),
    /// Writes and hangs up so that the client sees a reset.
    Reset(Vec<u8>),
    /// Writes and waits for the next request.
    Write(Vec<u8>),
}

impl From<String> for Answer {
    fn from(bytes: String) -> Self {
        Self::Write(bytes.into_bytes())
    }
}

type Script = dyn Fn(&Request) -> Answer + Send + Sync;

/// A listening server. Dropped, it closes all its sockets.
pub struct Peer {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    handed: tokio::sync::Mutex<mpsc::UnboundedReceiver<(Request, Wire)>>,
}

struct Shared {
    script: Box<Script>,
    /// The script answers `server/discover`; otherwise the peer knows nothing of it, and it is not
    /// recorded.
    is_asked: bool,
    requests: Mutex<Vec<Request>>,
    count: watch::Sender<usize>,
    hand: mpsc::UnboundedSender<(Request, Wire)>,
    tasks: Mutex<JoinSet<()>>,
}

impl Peer {
    pub async fn start(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), script).await
    }

    /// A peer that does all that is expected of it.
    pub async fn polite() -> Self {
        Self::start(polite).await
    }

    /// A peer whose calls are answered by `call`.
    pub async fn calls(call: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(move |request| match &*request.what() {
            "tools/call" => call(request),
            _ => polite(request),
        })
        .await
    }

    /// A peer whose script answers `server/discover` too.
    pub async fn asked(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap(), true, script).await
    }

    pub async fn start_at(
        address: SocketAddr,
        script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::listen(address, false, script).await
    }

    async fn listen(
        address: SocketAddr,
        is_asked: bool,
        script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (hand, handed) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            is_asked,
            requests: Mutex::default(),
            count: watch::Sender::new(0),
            hand,
            tasks: Mutex::default(),
        });
        shared.spawn(accept(listener, shared.clone()));
        Self {
            address,
            shared,
            handed: handed.into(),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// What they were, in order.
    pub fn heard(&self) -> Vec<String> {
        self.seen().iter().map(Request::what).collect()
    }

    /// Those of one kind.
    pub fn seen_of(&self, what: &str) -> Vec<Request> {
        let mut seen = self.seen();
        seen.retain(|request| request.what() == what);
        seen
    }

    /// Waits for the `count`th request of a kind and gives all of that kind.
    pub async fn wait_for(&self, what: &str, count: usize) -> Vec<Request> {
        let mut changes = self.shared.count.subscribe();
        loop {
            let seen = self.seen_of(what);
            if seen.len() >= count {
                return seen;
            }
            changes.changed().await.unwrap();
        }
    }

    /// The next connection that the script handed over, and the request on it.
    pub async fn handed(&self) -> (Request, Wire) {
        self.handed.lock().await.recv().await.unwrap()
    }

    /// Lets the script answer again on a connection that was handed over.
    pub fn resume(&self, wire: Wire) {
        self.shared.spawn(serve(wire, self.shared.clone()));
    }

    /// Hangs up everywhere and frees the port.
    pub async fn stop(self) -> SocketAddr {
        let mut tasks = std::mem::take(&mut *self.shared.tasks.lock().unwrap());
        tasks.shutdown().await;
        // Once this has come back, the runtime has looked at its sockets, and an idle connection is
        // known to be dead.
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(
            TcpStream::connect(other.local_addr().unwrap()),
            other.accept()
        );
        let (mut near, (mut far, _)) = (near.unwrap(), far.unwrap());
        far.write_all(b"?").await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), b'?');
        self.address
    }

    /// A hub with this peer connected as `p`.
    pub async fn hub(&self) -> AgentHubClient {
        let hub = AgentHubClient::builder().build();
        self.connect(&hub, "p").await;
        hub
    }

    pub async fn connect(&self, hub: &AgentHubClient, name: &str) -> Vec<ToolRef> {
        hub.connect_http(name, self.url()).await.unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.tasks.lock().unwrap().abort_all();
    }
}

impl Shared {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().unwrap().spawn(task);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    for number in 0.. {
        let (socket, _) = listener.accept().await.unwrap();
        let socket = BufReader::new(socket);
        shared.spawn(serve(Wire { socket, number }, shared.clone()));
    }
}

async fn serve(mut wire: Wire, shared: Arc<Shared>) {
    while let Some(request) = wire.read().await {
        if request.what() == "server/discover" && !shared.is_asked {
            if !wire.write(empty("404 Not Found").into_bytes()).await {
                return;
            }
            continue;
        }
        // First, so that it was seen also if the script panics, which nobody hears.
        shared.requests.lock().unwrap().push(request.clone());
        let answer = (shared.script)(&request);
        shared.count.send_modify(|count| *count += 1);
        match answer {
            Answer::Hand => {
                let _ = shared.hand.send((request, wire));
                return;
            }
            Answer::Last(bytes) => {
                wire.write(bytes).await;
                return;
            }
            Answer::Reset(bytes) => {
                wire.write(bytes).await;
                return wire.reset();
            }
            Answer::Write(bytes) => {
                if !wire.write(bytes).await {
                    return;
                }
            }
        }
    }
}

/// The peer's end of one connection.
pub struct Wire {
    pub socket: BufReader<TcpStream>,
    number: usize,
}

impl Wire {
    /// The next request; `None` if the client hung up.
    pub async fn read(&mut self) -> Option<Request> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            self.socket.read_line(&mut line).await.ok()?;
            match line.strip_suffix("\r\n")? {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let fields: Vec<(&str, &str)> = lines[1..]
            .iter()
            .map(|line| line.split_once(": ").unwrap())
            .collect();
        let headers: HashMap<String, String> = fields
            .iter()
            .map(|(name, value)| (name.to_lowercase(), (*value).to_owned()))
            .collect();
        assert_eq!(headers.len(), fields.len(), "a header twice: {lines:?}");
        let length = headers.get("content-length").map_or("0", |text| text);
        let mut body = vec![0; length.parse().unwrap()];
        self.socket.read_exact(&mut body).await.ok()?;
        Some(Request {
            line: lines[0].clone(),
            header_names: fields.iter().map(|(name, _)| name.to_lowercase()).collect(),
            headers,
            body: String::from_utf8(body).unwrap(),
            connection: self.number,
        })
    }

    /// False if the client hung up.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.socket.write_all(bytes.as_ref()).await.is_ok() && self.socket.flush().await.is_ok()
    }

    /// One chunk of a body.
    pub async fn send(&mut self, data: impl AsRef<str>) -> bool {
        self.write(chunk(data.as_ref())).await
    }

    /// Waits until the client hangs up; it must not say anything before.
    pub async fn hung_up(&mut self) {
        let mut rest = Vec::new();
        let _ = self.socket.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }

    /// Hangs up so that the client sees a reset.
    pub fn reset(self) {
        let socket = self.socket.into_inner();
        socket.set_zero_linger().unwrap();
    }
}

/// What a well-behaved server of the handshake era answers: a session, two tools, and for each call
/// a result, after some events if it has a token and the tool is `stream`.
pub fn polite(request: &Request) -> Answer {
    let id = request.id();
    match &*request.what() {
        "initialize" => with_session("s-1", &initialized(request)).into(),
        "tools/list" => json(&listed(&id, &["echo", "stream"])).into(),
        "tools/call" => match request.json()["params"]["name"].as_str() {
            Some("stream") => sse(&[
                progress(&request.token(), 1, &envelope("text", "a")),
                progress(&request.token(), 2, &envelope("text", "b")),
                result(&id, "ab"),
            ])
            .into(),
            _ => json(&result(&id, "done")).into(),
        },
        "DELETE" => empty("200 OK").into(),
        _ => empty("202 Accepted").into(),
    }
}

/// What a well-behaved server of the stateless era answers: the same tools.
pub fn stateless(request: &Request) -> Answer {
    let message = request.json();
    let result = match &*request.what() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "public"}),
        "tools/list" => {
            let tools = ["echo", "stream"]
                .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
            json!({"tools": tools, "ttlMs": 0, "cacheScope": "public"})
        }
        "tools/call" => match message["params"]["name"].as_str() {
            Some("stream") => {
                return sse(&[
                    progress(&request.token(), 1, &envelope("text", "a")),
                    progress(&request.token(), 2, &envelope("text", "b")),
                    complete(
                        &request.id(),
                        json!({"content": [{"type": "text", "text": "ab"}]}),
                    ),
                ])
                .into();
            }
            _ => json!({"content": [{"type": "text", "text": "done"}]}),
        },
        _ => return empty("404 Not Found").into(),
    };
    json(&complete(&request.id(), result)).into()
}

/// A result of the stateless era.
pub fn complete(id: &Value, mut result: Value) -> String {
    result["resultType"] = "complete".into();
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

pub fn initialized(request: &Request) -> String {
    let version = &request.json()["params"]["protocolVersion"];
    json!({"jsonrpc": "2.0", "id": request.id(), "result": {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "peer", "version": "1"},
    }})
    .to_string()
}

pub fn listed(id: &Value, tools: &[&str]) -> String {
    let tools: Vec<Value> = tools
        .iter()
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
        .collect();
    json!({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}}).to_string()
}

/// A result that is one text.
pub fn result(id: &Value, text: &str) -> String {
    let content = json!([{"type": "text", "text": text}]);
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}}).to_string()
}

pub fn error(id: &Value, code: i64, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

pub fn envelope(kind: &str, content: &str) -> String {
    json!({"v": 1, "type": kind, "content": content}).to_string()
}

pub fn progress(token: &Value, number: u64, message: &str) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
        "progressToken": token, "progress": number, "message": message,
    }})
    .to_string()
}

/// An answer with a body of known length.
pub fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
}

pub fn empty(status: &str) -> String {
    answer(status, "", "")
}

pub fn json(body: &str) -> String {
    answer("200 OK", "Content-Type: application/json\r\n", body)
}

pub fn with_session(id: &str, body: &str) -> String {
    let headers = format!("Content-Type: application/json\r\nMcp-Session-Id: {id}\r\n");
    answer("200 OK", &headers, body)
}

/// What a server says of a session that it does not know.
pub fn no_session() -> String {
    let body = error(&Value::Null, -32001, "Session not found");
    answer("404 Not Found", "Content-Type: application/json\r\n", &body)
}

pub const SSE_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
pub const END: &str = "0\r\n\r\n";

pub fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

/// One SSE event.
pub fn event(message: &str) -> String {
    format!("data: {message}\n\n")
}

/// A whole SSE answer, one chunk a message.
pub fn sse(messages: &[String]) -> String {
    let chunks: String = messages.iter().map(|text| chunk(&event(text))).collect();
    format!("{SSE_HEAD}{chunks}{END}")
}

/// A whole SSE answer with a body as given.
pub fn raw_sse(body: &str) -> String {
    format!("{SSE_HEAD}{}{END}", chunk(body))
}
