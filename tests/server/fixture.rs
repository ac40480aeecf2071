//! A server on a free port, a session on it, and tools that let the test hold the strings.

use std::net::SocketAddr;
use std::sync::Arc;

use agent_hub_kit::{
    Limits, McpServer, McpServerBuilder, RawArgs, Result, ServerHandle, Tool, ToolContext,
    ToolError,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::raw::{Answer, Raw, soon};

pub const BOTH: &str = "application/json, text/event-stream";

/// Runs each test on both kinds of runtime.
macro_rules! on_both_runtimes {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            #[tokio::test]
            async fn on_one_thread() {
                super::$name().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_several_threads() {
                super::$name().await;
            }
        }
    )*};
}
pub(crate) use on_both_runtimes;

pub fn builder() -> McpServerBuilder {
    McpServer::builder("test", "0.1.0")
}

/// The defaults with a few changes.
pub fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

/// A server that serves.
pub struct Served {
    pub addr: SocketAddr,
    pub handle: ServerHandle,
    pub serving: JoinHandle<Result<()>>,
}

pub async fn serve(builder: McpServerBuilder) -> Served {
    serve_built(&builder.build()).await
}

pub async fn serve_built(server: &McpServer) -> Served {
    let bound = server.bind("127.0.0.1:0").await.unwrap();
    let (addr, handle) = (bound.local_addr(), bound.handle());
    Served {
        addr,
        handle,
        serving: tokio::spawn(bound.serve()),
    }
}

impl Served {
    /// Opens a session.
    pub async fn session(&self) -> Session {
        let opened = self.initialize().await;
        assert_eq!(opened.head.status, 200, "{}", opened.head.text);
        let id = opened.head.header("mcp-session-id").unwrap().to_owned();
        Session {
            addr: self.addr,
            id,
        }
    }

    pub async fn initialize(&self) -> Answer {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "raw", "version": "0"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        post(self.addr, &[], body.to_string()).await
    }
}

/// The bytes of a POST with these headers beside the usual ones.
pub fn post_bytes(addr: SocketAddr, headers: &[(&str, &str)], body: &str) -> String {
    use std::fmt::Write as _;
    let mut head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {addr}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n",
        body.len()
    );
    if !headers.iter().any(|(name, _)| *name == "Accept") {
        write!(head, "Accept: {BOTH}\r\n").unwrap();
    }
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    head + "\r\n" + body
}

pub async fn post(addr: SocketAddr, headers: &[(&str, &str)], body: impl AsRef<str>) -> Answer {
    let mut raw = Raw::connect(addr).await;
    raw.send(post_bytes(addr, headers, body.as_ref())).await;
    raw.answer().await
}

/// The answer to a request over a connection of its own.
pub async fn ask(served: &Served, request: impl AsRef<[u8]>) -> Answer {
    let mut raw = Raw::connect(served.addr).await;
    raw.send(request).await;
    raw.answer().await
}

/// A request without a body.
pub fn bare(line: &str, headers: &[(&str, &str)]) -> String {
    let headers: Vec<_> = headers
        .iter()
        .map(|(n, v)| format!("{n}: {v}\r\n"))
        .collect();
    let headers = headers.concat();
    format!("{line} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{headers}\r\n")
}

/// A session, each request of it over a connection of its own.
#[derive(Debug, Clone)]
pub struct Session {
    pub addr: SocketAddr,
    pub id: String,
}

impl Session {
    pub fn headers(&self) -> [(&str, &str); 2] {
        [
            ("Mcp-Session-Id", &self.id),
            ("MCP-Protocol-Version", "2025-11-25"),
        ]
    }

    pub fn bytes(&self, body: impl AsRef<str>) -> String {
        post_bytes(self.addr, &self.headers(), body.as_ref())
    }

    pub async fn post(&self, body: impl AsRef<str>) -> Answer {
        post(self.addr, &self.headers(), body).await
    }

    pub async fn post_accepting(&self, accept: &str, body: impl AsRef<str>) -> Answer {
        let [id, version] = self.headers();
        post(self.addr, &[id, version, ("Accept", accept)], body).await
    }

    /// Sends a call with its id as its progress token, and waits for the answer's head.
    pub async fn call(&self, id: i64, tool: &str, arguments: Value) -> Answer {
        self.post(call(id, tool, arguments)).await
    }

    /// The result of a call that streams nothing.
    pub async fn result(&self, tool: &str, arguments: Value) -> Value {
        let mut answer = self.post(quiet_call(1, tool, arguments)).await;
        let mut message = answer.only().await;
        assert_eq!(message["id"], 1, "{message}");
        message["result"].take()
    }

    /// The result of a call that asks for no progress, once the server has a place for it.
    pub async fn result_when_free(&self, tool: &str, arguments: Value) -> Value {
        let body = quiet_call(9, tool, arguments);
        soon(async {
            loop {
                let mut answer = self.post(&body).await;
                let mut message = answer.only().await;
                if answer.head.status != 503 {
                    return message["result"].take();
                }
            }
        })
        .await
    }

    pub async fn cancel(&self, id: i64) {
        let note = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id},
        });
        let mut answer = self.post(note.to_string()).await;
        assert_eq!((answer.head.status, &*answer.body().await), (202, ""));
    }

    pub async fn ping(&self) -> u16 {
        let mut answer = self
            .post(r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#)
            .await;
        answer.body().await;
        answer.head.status
    }

    /// Opens its own stream.
    pub async fn stream(&self) -> Answer {
        let Self { addr, id } = self;
        let mut raw = Raw::connect(*addr).await;
        raw.send(format!(
            "GET /mcp HTTP/1.1\r\nHost: {addr}\r\nMcp-Session-Id: {id}\r\n\
             MCP-Protocol-Version: 2025-11-25\r\nAccept: text/event-stream\r\n\r\n"
        ))
        .await;
        let stream = raw.answer().await;
        assert!(stream.head.is_sse(), "{}", stream.head.text);
        stream
    }

    pub async fn delete(&self) -> Answer {
        let Self { addr, id } = self;
        let mut raw = Raw::connect(*addr).await;
        raw.send(format!(
            "DELETE /mcp HTTP/1.1\r\nHost: {addr}\r\nMcp-Session-Id: {id}\r\n\r\n"
        ))
        .await;
        raw.answer().await
    }
}

/// A call with its id as its progress token.
pub fn call(id: i64, tool: &str, arguments: Value) -> String {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": {"progressToken": id}},
    })
    .to_string()
}

/// A call that asks for no progress.
pub fn quiet_call(id: i64, tool: &str, arguments: Value) -> String {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    })
    .to_string()
}

/// The event in a progress notification.
pub fn event_of(message: &Value) -> Value {
    let text = message["params"]["message"]
        .as_str()
        .unwrap_or_else(|| panic!("not progress with a message: {message}"));
    serde_json::from_str(text).unwrap()
}

/// Counts the handlers that are at work.
#[derive(Debug, Clone)]
pub struct Live(Arc<watch::Sender<usize>>);

/// A handler at work.
#[derive(Debug)]
pub struct Alive(Live);

impl Live {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    pub fn enter(&self) -> Alive {
        self.0.send_modify(|count| *count += 1);
        Alive(self.clone())
    }

    pub fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until so many are at work.
    pub async fn reach(&self, expected: usize) {
        let mut changes = self.0.subscribe();
        soon(changes.wait_for(|count| *count == expected))
            .await
            .unwrap();
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// A tool that sends one event and then never ends by itself. `live` counts its handlers.
pub fn endless(builder: McpServerBuilder, live: &Live) -> McpServerBuilder {
    builder.tool_with(
        Tool::new("endless").description("never ends"),
        live.clone(),
        async |live: Live, _: RawArgs, ctx: ToolContext| {
            let _alive = live.enter();
            ctx.streamer("endless").text("begun").await?;
            std::future::pending::<()>().await;
            Ok(())
        },
    )
}

/// A tool that is silent until the test lets it go, and then says so.
pub fn gated(builder: McpServerBuilder, gate: &Gate) -> McpServerBuilder {
    builder.tool_with(
        Tool::new("gated").description("waits for the test"),
        gate.clone(),
        async |gate: Gate, _: RawArgs, _: ToolContext| {
            gate.passed().await;
            Ok("released")
        },
    )
}

/// What a tool waits for.
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<(bool, usize)>>);

impl Gate {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new((false, 0))))
    }

    pub fn open(&self) {
        self.0.send_modify(|(open, _)| *open = true);
    }

    /// Waits until somebody stands before it.
    pub async fn reached(&self) {
        let mut looks = self.0.subscribe();
        looks.wait_for(|(_, came)| *came > 0).await.unwrap();
    }

    pub async fn passed(&self) {
        self.0.send_modify(|(_, came)| *came += 1);
        self.0
            .subscribe()
            .wait_for(|(open, _)| *open)
            .await
            .unwrap();
    }
}

/// Something a tool tells the test.
pub fn channel<T>() -> (Told<T>, mpsc::UnboundedReceiver<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Told(sender), receiver)
}

pub struct Told<T>(mpsc::UnboundedSender<T>);

impl<T> Clone for Told<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Told<T> {
    pub fn tell(&self, news: T) {
        let _ = self.0.send(news);
    }
}

/// A tool without streaming.
pub fn echo(builder: McpServerBuilder) -> McpServerBuilder {
    builder.tool(
        Tool::new("echo").description("repeats a text"),
        async |args: EchoArgs, _: ToolContext| Ok::<_, ToolError>(args.text),
    )
}

#[derive(serde::Deserialize)]
pub struct EchoArgs {
    pub text: String,
}
