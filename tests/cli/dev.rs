//! `agent-hub dev`: a server that is built and restarted while it is used.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use agent_hub_kit::{AgentHubClient, Era};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Lines};
use tokio::process::ChildStderr;

use super::*;

/// A project in a folder of its own: `src` is watched, `build.sh` builds `server`.
struct Project(PathBuf);

/// Fails while there is a file `src/broken`. The server comes about by a rename, as a linker or an
/// editor writes it.
const BUILD: &str = r#"
echo "built with $(cat src/main)" >> builds
if [ -e src/broken ]; then echo "error: it does not compile" >&2; exit 1; fi
cp src/main server.new && chmod +x server.new && mv server.new server
"#;

impl Project {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("agent-hub-dev-{}-{number}", std::process::id());
        let project = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(project.0.join("src")).unwrap();
        project.write("build.sh", BUILD);
        project.write("src/main", &echo_script(""));
        project
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn builds(&self) -> usize {
        let builds = fs::read_to_string(self.0.join("builds")).unwrap_or_default();
        builds.matches("built with").count()
    }

    fn start(&self, args: &[&str]) -> Dev {
        let mut command = Command::new(BINARY);
        command.current_dir(&self.0).args(["dev", "--port", "0"]);
        command.args(args);
        let mut child = started(command);
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Dev {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// `dev` as most use it, and the URL once the first server is up.
    async fn serve(&self) -> (Dev, String) {
        let args = ["--watch", "src", "--build", "sh build.sh", "--", "./server"];
        let mut dev = self.start(&args);
        let url = dev.url().await;
        dev.wait_for("dev: the server is up").await;
        (dev, url)
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that says its number first. Its port is not the one that it is asked to take.
fn echo_script(before: &str) -> String {
    format!("#!/bin/sh\necho \"pid $$\" >&2\n{before}\nexec {BINARY} echo --port 1\n")
}

struct Dev {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    seen: Vec<String>,
}

impl Dev {
    /// The rest of the next line that begins so.
    async fn wait_for(&mut self, start: &str) -> String {
        let found = timeout(PATIENCE, async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                self.seen.push(line.clone());
                if let Some(rest) = line.strip_prefix(start) {
                    return Some(rest.to_owned());
                }
            }
            None
        });
        let found = found.await.ok().flatten();
        found.unwrap_or_else(|| panic!("no {start:?} in {:#?}", self.seen))
    }

    async fn url(&mut self) -> String {
        self.wait_for("listening on ").await
    }

    async fn pid(&mut self) -> u32 {
        self.wait_for("pid ").await.parse().unwrap()
    }

    /// Ends it, and gives what it said since.
    async fn stop(mut self, name: &str) -> (Option<i32>, Vec<String>) {
        signal(&self.child, name);
        let status = timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
        let mut rest = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            rest.push(line);
        }
        (status.code(), rest)
    }
}

/// One request over a connection of its own; the head of its answer.
async fn fresh(url: &str, number: usize) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let (headers, body) = match number % 2 {
        0 => (
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n",
            json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"text": "a"}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
            }}}),
        ),
        _ => (
            "",
            json!({"jsonrpc": "2.0", "id": number, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "raw", "version": "0"}}}),
        ),
    };
    let body = body.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\n\
         Content-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    if let Err(error) = stream.read_to_string(&mut answer).await {
        return format!("{error} after {answer:?}");
    }
    answer
}

/// Calls over connections that are kept, one after the other; how many there were.
async fn keep_calling(hub: AgentHubClient, tool: &str, over: Arc<AtomicBool>) -> usize {
    let mut calls = 0;
    while !over.load(Ordering::Relaxed) {
        let text = format!("call {calls}");
        let said = hub.call_tool(tool, json!({"text": text})).await;
        let said = said.unwrap_or_else(|e| panic!("{tool}, {text}: {e:?}"));
        assert_eq!(said, text);
        calls += 1;
    }
    calls
}

#[tokio::test]
async fn no_request_fails_while_the_server_is_rebuilt() {
    let project = Project::new();
    let (mut dev, url) = project.serve().await;
    let hub = AgentHubClient::builder().build();
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for (name, era) in [("legacy", Era::Legacy), ("modern", Era::Modern)] {
        hub.connect_http(name, &url).era(era).await.unwrap();
        for _ in 0..2 {
            let (hub, over, tool) = (hub.clone(), over.clone(), format!("{name}/echo"));
            callers.spawn(async move { keep_calling(hub, &tool, over).await });
        }
    }
    let strangers = tokio::spawn({
        let (url, over) = (url.clone(), over.clone());
        async move {
            let mut count = 0;
            while count < 200 || !over.load(Ordering::Relaxed) {
                let answer = fresh(&url, count).await;
                assert!(
                    answer.starts_with("HTTP/1.1 200 OK\r\n"),
                    "{count}: {answer}"
                );
                count += 1;
            }
        }
    });
    project.write("src/a", "1");
    dev.wait_for("dev: the new server is up").await;
    project.write("src/broken", "");
    dev.wait_for("dev: the build failed (exit status: 1); the old server stays")
        .await;
    fs::remove_file(project.0.join("src/broken")).unwrap();
    dev.wait_for("dev: the new server is up").await;
    over.store(true, Ordering::Relaxed);
    while let Some(calls) = callers.join_next().await {
        assert!(calls.unwrap() > 0);
    }
    strangers.await.unwrap();
    assert_eq!(project.builds(), 4, "{:#?}", dev.seen);
    hub.close().await;
    let (code, _) = dev.stop("-INT").await;
    assert_eq!(code, Some(0));
}
