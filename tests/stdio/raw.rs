//! A client that knows lines and little else: what it writes is what the test wrote, and what it
//! reads is what the server wrote.

use std::process::{ExitStatus, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// The program that these tests serve. Cargo builds it with them, into a folder beside theirs.
pub fn program() -> std::path::PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.set_file_name("examples");
    path.push("stdio_server");
    assert!(
        path.exists(),
        "no {}: cargo build --examples",
        path.display()
    );
    path
}

pub fn command(grace: &str) -> Command {
    let mut command = Command::new(program());
    command.arg(grace).kill_on_drop(true);
    command
}

/// A server that runs.
pub struct Raw {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Raw {
    pub fn start() -> Self {
        Self::start_with_grace("5000")
    }

    /// Its calls may go on for so many milliseconds after the end of its input.
    pub fn start_with_grace(grace: &str) -> Self {
        Self::spawn(command(grace))
    }

    /// The same on threads of its own.
    pub fn start_on_threads(grace: &str) -> Self {
        let mut command = command(grace);
        command.env("THREADS", "2");
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: Some(BufReader::new(child.stdout.take().unwrap())),
            stderr: BufReader::new(child.stderr.take().unwrap()).lines(),
            child,
        }
    }

    /// One that is open.
    pub async fn opened() -> Self {
        let mut raw = Self::start();
        raw.open().await;
        raw
    }

    pub async fn open(&mut self) {
        self.write(&initialize(0)).await;
        let answer = self.json().await;
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{answer}"
        );
        self.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
    }

    /// Writes one line.
    pub async fn write(&mut self, line: &str) {
        self.write_bytes(format!("{line}\n").as_bytes()).await;
    }

    pub async fn write_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).await.unwrap();
        stdin.flush().await.unwrap();
    }

    /// The next line, without its end; "" at the end of the output.
    pub async fn line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().unwrap();
        stdout.read_line(&mut line).await.unwrap();
        assert!(line.is_empty() || line.ends_with('\n'), "cut: {line}");
        line.truncate(line.len().saturating_sub(1));
        line
    }

    pub async fn json(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// The next line of stderr.
    pub async fn said(&mut self) -> String {
        self.stderr.next_line().await.unwrap().unwrap_or_default()
    }

    /// Reads stderr up to this line.
    pub async fn until_said(&mut self, what: &str) {
        self.until_all_said(&[what]).await;
    }

    /// Reads stderr until each of these lines was there, in whatever order.
    pub async fn until_all_said(&mut self, what: &[&str]) {
        let mut missing = what.to_vec();
        while !missing.is_empty() {
            match self.stderr.next_line().await.unwrap() {
                Some(line) => missing.retain(|what| *what != line),
                None => panic!("stderr ended without {missing:?}"),
            }
        }
    }

    pub fn signal(&self, name: &str) {
        crate::process::signal(self.child.id().unwrap(), name);
    }

    /// Reads stdout to its end and waits for the exit.
    pub async fn end(mut self) -> (String, ExitStatus) {
        let mut rest = String::new();
        if let Some(stdout) = &mut self.stdout {
            stdout.read_to_string(&mut rest).await.unwrap();
        }
        (rest, self.child.wait().await.unwrap())
    }

    /// Closes its stdin, and waits for its end, which must be a good one.
    pub async fn close(mut self) -> String {
        self.stdin = None;
        let (rest, status) = self.end().await;
        assert!(status.success(), "{status}: {rest}");
        rest
    }
}

pub fn initialize(id: impl Into<Value>) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "raw", "version": "0"},
    });
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "initialize", "params": params}).to_string()
}

/// A call with its id as its progress token.
pub fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> String {
    let id = id.into();
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

/// A call that wants no events.
pub fn quiet(id: impl Into<Value>, tool: &str, arguments: Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params}).to_string()
}

/// The same request as one that needs no session.
pub fn stated(request: &str) -> String {
    let mut request: Value = serde_json::from_str(request).unwrap();
    let meta = &mut request["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    request.to_string()
}

pub fn cancel(id: impl Into<Value>) -> String {
    let params = json!({"requestId": id.into()});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
}

/// The text of a call's result.
pub fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
}
