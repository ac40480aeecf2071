//! The `agent-hub` command as a user runs it: the real binary, real sockets, real signals.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)] // a test may fail loudly, and may look at the clock

#[path = "cli/access.rs"]
mod access;
#[path = "cli/dev.rs"]
mod dev;
#[allow(dead_code)] // the tests of models use the rest
#[path = "llm/endpoint.rs"]
mod endpoint;
#[path = "cli/images.rs"]
mod images;
#[path = "cli/llm.rs"]
mod llm;
#[path = "cli/passed.rs"]
mod passed;

use std::future::pending;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use agent_hub_kit::specialists::build_echo_server;
use agent_hub_kit::{ContentBlock, Json, RawArgs, Tool, ToolContext, ToolError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

/// Far longer than anything here takes: a test that hangs fails.
const PATIENCE: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_agent-hub");

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.args(args);
    started(command)
}

fn started(mut command: Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn end(child: Child) -> Ended {
    let output = timeout(PATIENCE, child.wait_with_output())
        .await
        .expect("the command ends by itself")
        .unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

async fn run(args: &[&str]) -> Ended {
    end(start(args)).await
}

async fn run_fed(args: &[&str], input: &[u8]) -> Ended {
    let mut child = Command::new(BINARY)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).await.unwrap();
    end(child).await
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().expect("it still runs").to_string();
    let killed = std::process::Command::new("kill")
        .args([name, &pid])
        .status();
    assert!(killed.unwrap().success(), "kill {name} {pid}");
}

/// `agent-hub echo` with its URL.
async fn start_echo(args: &[&str]) -> (Child, String) {
    listening(start(&[&["echo", "--port", "0"], args].concat())).await
}

/// A server that was started, with its URL.
async fn listening(mut child: Child) -> (Child, String) {
    let mut line = String::new();
    let mut err = BufReader::new(child.stderr.as_mut().unwrap());
    timeout(PATIENCE, err.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    let url = line.strip_prefix("listening on ").expect(&line).trim_end();
    (child, url.to_owned())
}

/// A server of the test's own, with tools that misbehave.
struct Served {
    url: String,
    addr: SocketAddr,
    task: JoinHandle<agent_hub_kit::Result<()>>,
    /// The tools whose call was dropped.
    dropped: mpsc::UnboundedReceiver<String>,
}

impl Served {
    async fn wait_for_drop(&mut self) -> String {
        let dropped = timeout(PATIENCE, self.dropped.recv()).await;
        dropped.expect("the call is dropped").unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct TellsDrop(mpsc::UnboundedSender<String>, String);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        let _ = self.0.send(self.1.clone());
    }
}

async fn serve() -> Served {
    let (tell, dropped) = mpsc::unbounded_channel();
    let bound = build_echo_server()
        .tool_with(Tool::new("hold"), tell.clone(), hold)
        .tool_with(Tool::new("flood"), tell.clone(), flood)
        .tool_with(Tool::new("bulk"), tell, bulk)
        .tool(Tool::new("voices"), voices)
        .tool(
            Tool::new("sum").description("Adds up\n\n  \x1b[2Jand more"),
            async |_: RawArgs, _: ToolContext| Ok(Json(json!({ "sum": 7 }))),
        )
        .tool(Tool::new("nothing"), async |_: RawArgs, _: ToolContext| {
            Ok(())
        })
        .tool(Tool::new("given"), async |args: RawArgs, _: ToolContext| {
            Ok(args.as_str().to_owned())
        })
        .tool(Tool::new("fail"), async |_: RawArgs, _: ToolContext| {
            Err::<(), _>(ToolError::new("no luck\x1b[2J"))
        })
        .build()
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    Served {
        url: bound.url().to_owned(),
        addr: bound.local_addr(),
        task: tokio::spawn(bound.serve()),
        dropped,
    }
}

async fn hold(
    tell: mpsc::UnboundedSender<String>,
    _: RawArgs,
    ctx: ToolContext,
) -> Result<(), ToolError> {
    let _guard = TellsDrop(tell, ctx.tool().to_owned());
    ctx.streamer("holder").text("one ").await?;
    pending().await
}

async fn flood(
    tell: mpsc::UnboundedSender<String>,
    _: RawArgs,
    ctx: ToolContext,
) -> Result<(), ToolError> {
    let _guard = TellsDrop(tell, ctx.tool().to_owned());
    let stream = ctx.streamer("flood");
    loop {
        stream.text("drop after drop ").await?;
    }
}

/// More in one event than a pipe holds.
async fn bulk(
    tell: mpsc::UnboundedSender<String>,
    _: RawArgs,
    ctx: ToolContext,
) -> Result<(), ToolError> {
    let _guard = TellsDrop(tell, ctx.tool().to_owned());
    ctx.streamer("bulk").text("x".repeat(1 << 22)).await?;
    pending().await
}

async fn voices(_: RawArgs, ctx: ToolContext) -> Result<Vec<ContentBlock>, ToolError> {
    let stream = ctx.streamer("choir");
    stream.think("hm").await?;
    stream.think("m").await?;
    stream.text("one\x1b[1m").await?;
    stream.log("a\nb").await?;
    stream.log(json!({ "n": 1 })).await?;
    stream.with_node(None::<String>).error("oh").await?;
    stream
        .image("data:image/png;base64,".to_owned() + &"A".repeat(100))
        .await?;
    stream.send("mood", json!({ "joy": 1 })).await?;
    ctx.progress(100.0, 200.0, None).await?;
    stream.text(" two").await?;
    Ok(vec![ContentBlock::text("one two")])
}

fn port_of(url: &str) -> u16 {
    let authority = url.trim_start_matches("http://").split('/').next().unwrap();
    authority.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// An address where nobody listens, and which nobody else is given while the socket is there.
fn nowhere() -> (String, TcpSocket) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    (
        format!("http://{}/mcp", socket.local_addr().unwrap()),
        socket,
    )
}

#[tokio::test]
async fn echo_streams_each_character_as_a_line_of_json() {
    let (_echo, url) = start_echo(&[]).await;
    let call = run(&["call", &url, "echo", r#"{"text":"Hé👋llo"}"#, "--json"]).await;
    let wanted = r#"{"type":"log","content":"received 6 characters","node":"echo"}
{"type":"text","content":"H","node":"echo"}
{"type":"text","content":"é","node":"echo"}
{"type":"text","content":"👋","node":"echo"}
{"type":"text","content":"l","node":"echo"}
{"type":"text","content":"l","node":"echo"}
{"type":"text","content":"o","node":"echo"}
{"type":"result","content":"Hé👋llo","node":null}
"#;
    assert_eq!(call.out, wanted);
    assert_eq!((call.code, &*call.err), (Some(0), ""));
}

#[tokio::test]
async fn text_goes_to_stdout_and_the_rest_to_stderr() {
    let served = serve().await;
    for (tool, arguments, out, err) in [
        (
            "echo",
            r#"{"text":"Hé👋llo"}"#,
            "Hé👋llo\n",
            "echo: received 6 characters\n",
        ),
        (
            "voices",
            "{}",
            "one\u{1b}[1m two\n",
            concat!(
                "hmm\nchoir: a\n  b\nchoir: {\"n\":1}\nvoices: error: oh\n",
                "choir: [image] data:image/png;base64,",
                "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA… (122 characters)\n",
                "choir: [mood] {\"joy\":1}\n",
                "voices: [progress] {\"progress\":100,\"total\":200}\n",
            ),
        ),
        ("sum", "{}", "{\"sum\":7}\n", ""),
        ("nothing", "{}", "", ""),
    ] {
        let call = run(&["call", &served.url, tool, arguments]).await;
        assert_eq!((&*call.out, &*call.err), (out, err), "{tool}");
        assert_eq!(call.code, Some(0), "{tool}");
    }
}

#[tokio::test]
async fn json_lines_end_with_the_terminal_event_whatever_happens() {
    let served = serve().await;
    for (args, code, last) in [
        (&["nothing"][..], 0, json!(["result", null])),
        (&["fail"], 1, json!(["terminal_error", "no luck\u{1b}[2J"])),
        (&["hold", "--timeout", "0.2"], 1, json!(["terminal_error"])),
        (&["no-such"], 1, json!(["terminal_error"])),
    ] {
        let call = run(&[&["call", &served.url, "--json"], args].concat()).await;
        assert_eq!(call.code, Some(code), "{args:?}");
        let lines: Vec<Value> = call
            .out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let end = lines.last().unwrap();
        assert_eq!(end["type"], last[0], "{args:?}");
        if last[1] != Value::Null {
            assert_eq!(end["content"], last[1], "{args:?}");
        }
        let terminal = |line: &&Value| line["content"] != "one ";
        assert_eq!(lines.iter().filter(terminal).count(), 1, "{args:?}");
    }
}

#[tokio::test]
async fn arguments_come_from_the_line_or_from_stdin_as_they_are() {
    let served = serve().await;
    let given = |json: &'static str| ["call", &served.url, "given", json].map(str::to_owned);
    for (args, input, out) in [
        (given("{ \"n\": 1e999 }"), "", "{ \"n\": 1e999 }\n"),
        // A message is a line.
        (given("-"), "{\"text\":\n \"é\"}\n", "{\"text\": \"é\"}\n"),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let call = run_fed(&args, input.as_bytes()).await;
        assert_eq!((call.code, &*call.out), (Some(0), out), "{}", call.err);
    }
    let call = run(&["call", &served.url, "given"]).await;
    assert_eq!((call.code, &*call.out), (Some(0), "{}\n"), "none at all");
    let call = run_fed(&["call", &served.url, "given", "-"], b"\"\xff\"").await;
    assert_eq!(call.code, Some(2), "not UTF-8: {}", call.err);
}

#[tokio::test]
async fn tools_are_shown_with_their_arguments() {
    let (_echo, url) = start_echo(&[]).await;
    let tools = run(&["tools", &url]).await;
    let wanted = "echo(text: string, delay_ms?: integer = 0)\n    \
                  Says a text back, one character at a time\n";
    assert_eq!(
        (tools.code, &*tools.out, &*tools.err),
        (Some(0), wanted, "")
    );
    let served = serve().await;
    let tools = run(&["tools", &served.url]).await;
    let wanted = "sum()\n    Adds up\n\n      ␛[2Jand more\n";
    assert!(tools.out.contains(wanted), "{}", tools.out);
}

#[tokio::test]
async fn the_exit_status_says_how_it_ended() {
    let served = serve().await;
    let (gone, _socket) = nowhere();
    let (url, gone) = (&*served.url, &*gone);
    let wrong_path = format!("http://{}/", served.addr);
    let name = served.addr.to_string();
    let listed = format!("there are: {name}/echo, {name}/hold");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--help"], 0, ""),
        (&["--version"], 0, ""),
        (&["call", url, "nothing"], 0, ""),
        (&["call", url, "nothing", "--server", &name], 0, ""),
        (&["call", url, &format!("{name}/nothing")], 0, ""),
        (&["call", url, "fail"], 1, "the tool failed: no luck [2J\n"),
        (&["call", url, "eco"], 1, &listed),
        (
            &["call", url, "hold", "--timeout", "0.2"],
            1,
            "the timeout of 200ms",
        ),
        (
            &["call", url, "hold", "--idle-timeout", "0.2"],
            1,
            "the idle_timeout of 200ms",
        ),
        (
            &["call", url, "echo", "{}"],
            1,
            "`text`: expected a string, but it is missing",
        ),
        (&[], 2, "Usage"),
        (&["call"], 2, "<TARGET>"),
        (&["call", url], 2, "<TOOL>"),
        (&["sing"], 2, "unrecognized subcommand"),
        (
            &["call", url, "echo", "{text:1}"],
            2,
            "the arguments are no JSON",
        ),
        (&["call", url, "echo", "[1]"], 2, "a JSON object"),
        (&["call", url, "echo", "--timeout", "0"], 2, "more than 0"),
        (
            &["call", url, "echo", "--timeout", "soon"],
            2,
            "give seconds",
        ),
        (&["call", url, "echo", "--server", "else"], 2, &name),
        (
            &["call", url, "echo", "--era", "2026-07-28"],
            2,
            "[possible values: auto, legacy, modern]",
        ),
        (&["tools", url, "--era"], 2, "--era <ERA>"),
        (
            &["call", url, "echo", "--header", "secret"],
            2,
            "'Name: value'",
        ),
        (
            &["call", url, "echo", "--header", "a b: c"],
            2,
            "is no header name",
        ),
        (
            &["call", url, "echo", "--header", "a: b\nc: d"],
            2,
            "cannot be sent",
        ),
        (&["call", "echo", "{}"], 2, "http://127.0.0.1:8001/mcp"),
        (&["tools", "ftp://host/"], 2, "http://127.0.0.1:8001/mcp"),
        (&["tools", "http://user:secret@host/"], 2, "credentials"),
        (&["echo", "--allow-host", "a b"], 2, "is no host name"),
        (&["echo", "--port", "65536"], 2, "65535"),
        (
            &["echo", "--host", "127.0.0.1", "--port", &name[10..]],
            1,
            "--port 0",
        ),
        (&["call", gone, "echo"], 3, "start the server"),
        (&["tools", gone], 3, "start the server"),
        (&["tools", &wrong_path], 3, "the MCP endpoint is at `/mcp`"),
    ];
    for (args, code, said) in cases {
        let ended = run(args).await;
        let Ended { out, err, .. } = &ended;
        assert_eq!(ended.code, Some(*code), "{args:?}\n{err}");
        assert!(err.contains(said), "{args:?}\n{err}");
        assert!(!err.contains("secret"), "{args:?}\n{err}");
        assert!(!err.contains('\u{1b}'), "{args:?}\n{err}");
        assert!(
            *code == 0 || out.is_empty() || out == "one \n",
            "{args:?}\n{out}"
        );
    }
}

#[tokio::test]
async fn a_signal_cancels_the_call_on_the_server() {
    let mut served = serve().await;
    for (name, json) in [("-INT", false), ("-TERM", false), ("-INT", true)] {
        let mut args = vec!["call", &*served.url, "hold"];
        args.extend(json.then_some("--json"));
        let mut call = start(&args);
        let mut first = [0; 4];
        let out = call.stdout.as_mut().unwrap();
        timeout(PATIENCE, out.read_exact(&mut first))
            .await
            .unwrap()
            .unwrap();
        let sent = Instant::now();
        signal(&call, name);
        assert_eq!(served.wait_for_drop().await, "hold");
        let took = sent.elapsed();
        assert!(took < Duration::from_secs(1), "{name}: {took:?}");
        let call = end(call).await;
        let out = String::from_utf8_lossy(&first) + &*call.out;
        let wanted = match json {
            false => "one \n",
            true => {
                "{\"type\":\"text\",\"content\":\"one \",\"node\":\"holder\"}\n\
                 {\"type\":\"cancelled\",\"content\":null,\"node\":null}\n"
            }
        };
        assert_eq!((call.code, &*out), (Some(130), wanted), "{name}");
        assert_eq!(call.err, "cancelled\n", "{name}");
    }
}

#[tokio::test]
async fn a_signal_ends_the_wait_for_a_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    for args in [&["call", &url, "echo"][..], &["tools", &url]] {
        let call = start(args);
        let accepted = timeout(PATIENCE, listener.accept()).await.unwrap();
        let _silent = accepted.unwrap();
        signal(&call, "-INT");
        let call = end(call).await;
        assert_eq!((call.code, &*call.out), (Some(130), ""), "{args:?}");
    }
}

/// A call whose output nobody reads: it is stuck in the middle of a write.
async fn stuck(served: &Served) -> (Child, BufReader<tokio::process::ChildStderr>) {
    let mut call = start(&["call", &served.url, "bulk"]);
    let mut first = [0; 4];
    let out = call.stdout.as_mut().unwrap();
    timeout(PATIENCE, out.read_exact(&mut first))
        .await
        .unwrap()
        .unwrap();
    let mut err = BufReader::new(call.stderr.take().unwrap());
    signal(&call, "-INT");
    let mut said = String::new();
    while !said.contains("again to end at once") {
        let read = timeout(PATIENCE, err.read_line(&mut said)).await.unwrap();
        assert_ne!(read.unwrap(), 0, "it ended: {said}");
    }
    (call, err)
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let served = serve().await;
    let (mut call, _err) = stuck(&served).await;
    let sent = Instant::now();
    signal(&call, "-INT");
    let status = timeout(PATIENCE, call.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(130));
    // By itself it would end after three seconds.
    let took = sent.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn one_signal_cancels_even_when_nobody_reads_the_output() {
    let mut served = serve().await;
    let (mut call, _err) = stuck(&served).await;
    assert_eq!(served.wait_for_drop().await, "bulk");
    let status = timeout(PATIENCE, call.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(130));
}

#[tokio::test]
async fn a_reader_that_leaves_cancels_the_call_without_a_word() {
    let mut served = serve().await;
    for (json, line) in [
        (
            "--json",
            "{\"type\":\"text\",\"content\":\"drop after drop \",\"node\":\"flood\"}\n",
        ),
        ("", "drop after "),
    ] {
        // The shell says nothing either: what the command itself ends with goes to its stderr.
        let script = format!(
            "{{ '{BINARY}' call '{}' flood {json}; echo $? >&2; }} | head -{}",
            served.url,
            if json.is_empty() { "c11" } else { "n1" }
        );
        let shell = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let ended = end(shell.unwrap()).await;
        assert_eq!((&*ended.out, &*ended.err), (line, "0\n"), "{json}");
        assert_eq!(served.wait_for_drop().await, "flood");
    }
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_of_a_call_is_an_error() {
    let served = serve().await;
    let mut call = start(&["call", &served.url, "hold"]);
    let mut first = [0; 4];
    let out = call.stdout.as_mut().unwrap();
    timeout(PATIENCE, out.read_exact(&mut first))
        .await
        .unwrap()
        .unwrap();
    served.task.abort();
    let call = end(call).await;
    assert_eq!((call.code, &*call.out), (Some(1), "\n"), "{}", call.err);
    assert!(call.err.starts_with("error: "), "{}", call.err);
    assert!(call.err.contains(&served.addr.to_string()), "{}", call.err);
    assert!(call.err.contains("the tool may have run"), "{}", call.err);
}

#[tokio::test]
async fn the_era_says_what_a_server_hears_first() {
    for command in ["tools", "call"] {
        for (era, first) in [
            (None, "server/discover"),
            (Some("auto"), "server/discover"),
            (Some("legacy"), "initialize"),
            (Some("modern"), "server/discover"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            let mut args = vec![command, &url];
            args.extend((command == "call").then_some("echo"));
            args.extend(era.iter().flat_map(|era| ["--era", era]));
            let ended = start(&args);
            // One answer says all: whoever may try something else comes again.
            let mut heard = Vec::new();
            while heard.len() < 2 {
                let accepted = timeout(PATIENCE, listener.accept()).await.unwrap();
                let (mut peer, _) = accepted.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"}") {
                    let read = timeout(PATIENCE, peer.read_buf(&mut request))
                        .await
                        .unwrap();
                    assert_ne!(read.unwrap(), 0);
                }
                let request = String::from_utf8(request).unwrap();
                let (_, method) = request.rsplit_once("\"method\":\"").unwrap();
                heard.push(method.split('"').next().unwrap().to_owned());
                let answer = b"HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n";
                peer.write_all(answer).await.unwrap();
                if matches!(era, Some("legacy" | "modern")) {
                    break;
                }
            }
            let ended = end(ended).await;
            assert_eq!(ended.code, Some(3), "{command} {era:?}: {}", ended.err);
            assert_eq!(heard[0], first, "{command} {era:?}");
            let last = heard.get(1).map(String::as_str);
            let fell_back = era.is_none_or(|era| era == "auto").then_some("initialize");
            assert_eq!(last, fell_back, "{command} {era:?}");
        }
    }
}

#[tokio::test]
async fn a_header_reaches_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let call = start(&[
        "tools",
        &url,
        "--header",
        "X-Key: a: b",
        "--header",
        "X-Two:2",
    ]);
    let accepted = timeout(PATIENCE, listener.accept()).await.unwrap();
    let (mut peer, _) = accepted.unwrap();
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = timeout(PATIENCE, peer.read_buf(&mut head)).await.unwrap();
        assert_ne!(read.unwrap(), 0);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    assert!(head.contains("\r\nx-key: a: b\r\n"), "{head}");
    assert!(head.contains("\r\nx-two: 2\r\n"), "{head}");
    let answer = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";
    peer.write_all(answer).await.unwrap();
    let call = end(call).await;
    assert_eq!(call.code, Some(3), "{}", call.err);
    assert!(call.err.contains("401"), "{}", call.err);
    assert!(call.err.contains("--header"), "{}", call.err);
    assert!(!call.err.contains("a: b"), "{}", call.err);
}

/// A peer that lists a tool without a name beside a good one, and never answers a goodbye.
async fn odd_peer() -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let peer = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(answer_oddly(stream));
        }
    });
    (url, peer)
}

async fn answer_oddly(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let from = head.len();
            if stream.read_line(&mut head).await.unwrap() == 0 {
                return;
            }
            let line = head[from..].to_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        if head.starts_with("DELETE") {
            return pending().await;
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let result = match body["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "odd", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [
                { "inputSchema": { "type": "object" } },
                { "name": "good", "inputSchema": { "type": "object" } },
            ] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": "done" }] }),
            _ => Value::Null,
        };
        let answer = json!({ "jsonrpc": "2.0", "id": body["id"], "result": result }).to_string();
        let head = match body["id"].is_null() {
            true => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
            false => format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: 1\r\n\
                 content-length: {}\r\n\r\n{answer}",
                answer.len()
            ),
        };
        stream.write_all(head.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_odd_about_a_server_is_told_and_its_silence_ends_nothing() {
    let (url, peer) = odd_peer().await;
    let started = Instant::now();
    for (args, out) in [
        (&["tools", &url][..], "good()\n"),
        (&["call", &url, "good"], "done\n"),
        (
            &["call", &url, "good", "--json"],
            "{\"type\":\"result\",\"content\":\"done\",\"node\":null}\n",
        ),
    ] {
        let ended = run(args).await;
        assert_eq!((ended.code, &*ended.out), (Some(0), out), "{}", ended.err);
        assert!(
            ended.err.starts_with("warning: 127.0.0.1:"),
            "{}",
            ended.err
        );
    }
    // Two seconds each for the goodbye.
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    peer.abort();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn output_that_cannot_be_written_is_an_error() {
    let served = serve().await;
    let full = std::fs::File::options().write(true).open("/dev/full");
    let call = Command::new(BINARY)
        .args(["call", &served.url, "sum"])
        .stdin(Stdio::null())
        .stdout(full.unwrap())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let call = end(call.unwrap()).await;
    assert_eq!(call.code, Some(1), "{}", call.err);
    let said = "error: standard output cannot be written\n  because: ";
    assert!(call.err.starts_with(said), "{}", call.err);
}

#[tokio::test]
async fn connecting_is_given_up_after_its_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let call = run(&["call", &url, "echo", "--connect-timeout", "0.2"]).await;
    assert_eq!(call.code, Some(3), "{}", call.err);
    assert!(call.err.contains("--connect-timeout"), "{}", call.err);
}

#[tokio::test]
async fn a_server_ends_in_order_and_frees_its_port() {
    for name in ["-TERM", "-INT"] {
        let (echo, url) = start_echo(&[]).await;
        signal(&echo, name);
        let ended = end(echo).await;
        assert_eq!(
            (ended.code, &*ended.out, &*ended.err),
            (Some(0), "", ""),
            "{name}"
        );
        let again = TcpListener::bind(("127.0.0.1", port_of(&url))).await;
        assert!(again.is_ok(), "{name}: {again:?}");
    }
}

/// One stream that runs when the signal comes, for either signal.
#[tokio::test]
async fn a_signal_lets_a_running_call_end_and_then_the_server() {
    for name in ["-TERM", "-INT"] {
        let (echo, url) = start_echo(&[]).await;
        let mut call = start(&["call", &url, "echo", r#"{"text":"abcd","delay_ms":100}"#]);
        let mut first = [0; 1];
        let out = call.stdout.as_mut().unwrap();
        let read = timeout(PATIENCE, out.read_exact(&mut first)).await;
        read.unwrap().unwrap();
        signal(&echo, name);
        let call = end(call).await;
        let said = (call.code, &*call.out);
        assert_eq!(said, (Some(0), "bcd\n"), "{name}: {}", call.err);
        let echo = end(echo).await;
        assert_eq!((echo.code, &*echo.err), (Some(0), ""), "{name}");
        let again = TcpListener::bind(("127.0.0.1", port_of(&url))).await;
        assert!(again.is_ok(), "{name}: {again:?}");
    }
}

#[tokio::test]
async fn a_second_signal_ends_a_busy_server_at_once() {
    let (echo, url) = start_echo(&[]).await;
    let mut call = start(&[
        "call",
        &url,
        "echo",
        r#"{"text":"one two","delay_ms":1000000}"#,
    ]);
    let mut first = [0; 1];
    let out = call.stdout.as_mut().unwrap();
    timeout(PATIENCE, out.read_exact(&mut first))
        .await
        .unwrap()
        .unwrap();
    signal(&echo, "-TERM");
    // The first signal has arrived when nobody new is let in.
    let closed = async {
        while TcpStream::connect(("127.0.0.1", port_of(&url)))
            .await
            .is_ok()
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, closed).await.unwrap();
    let sent = Instant::now();
    signal(&echo, "-TERM");
    let echo = end(echo).await;
    assert_eq!(echo.code, Some(0));
    // By itself it would wait five seconds for the call.
    let took = sent.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(end(call).await.code, Some(1));
}

#[tokio::test]
async fn a_server_answers_to_the_names_it_was_given() {
    let (_echo, url) = start_echo(&[
        "--allow-host",
        "agent.test",
        "--allow-origin",
        "https://app.test",
    ])
    .await;
    let (_plain, plain) = start_echo(&[]).await;
    for (url, host, origin, answered) in [
        (&url, "agent.test", "https://app.test", true),
        (&plain, "agent.test", "", false),
        (&plain, "localhost", "https://app.test", false),
        (&plain, "localhost", "", true),
    ] {
        let mut args = vec!["tools".to_owned(), url.clone()];
        args.extend(["--header".to_owned(), format!("Host: {host}")]);
        if !origin.is_empty() {
            args.extend(["--header".to_owned(), format!("Origin: {origin}")]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let tools = run(&args).await;
        assert_eq!(tools.code == Some(0), answered, "{args:?}\n{}", tools.err);
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_not_said_to_be_down() {
    let (_echo, url) = start_echo(&[]).await;
    let tools = run(&["tools", &url.replace("http://", "https://")]).await;
    assert_eq!(tools.code, Some(3), "{}", tools.err);
    assert!(tools.err.contains("write http://"), "{}", tools.err);
    assert!(!tools.err.contains("start the server"), "{}", tools.err);
}

#[tokio::test]
async fn the_demo_shows_a_conversation_and_ends_by_itself() {
    let demo = run(&["demo"]).await;
    assert_eq!(demo.code, Some(0), "{}", demo.err);
    let greeting = "Hello, I am a server of my own: 聞こえますか? 👋\n";
    for line in [
        "connected echo/echo at http://127.0.0.1:",
        "connected llm/ask at http://127.0.0.1:",
        &format!("\necho: {greeting}"),
        &format!("\nllm: You said: {greeting}"),
        "\n  T\n",
        "\n        You \n",
        "\n4 calls, ",
    ] {
        assert!(demo.out.contains(line), "{line:?} in\n{}", demo.out);
    }
    // Each speaks before the other has ended.
    let both = demo.out.split("both at once:\n").nth(1).unwrap();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let columns = [8, 2].map(|column| {
        let lines = both.lines().enumerate();
        let own = lines.filter(|(_, line)| indent(line) == column);
        own.map(|(at, _)| at).collect::<Vec<_>>()
    });
    let [llm, echo] = columns;
    assert!(llm[0] < echo[echo.len() - 1], "{both}");
    assert!(echo[0] < llm[llm.len() - 1], "{both}");
    assert!(
        demo.err.contains("echo: received 41 characters\n"),
        "{}",
        demo.err
    );
    assert!(
        demo.err.contains("prepare: asked 41 characters\n"),
        "{}",
        demo.err
    );
}

#[tokio::test]
async fn the_readme_shows_what_the_command_prints() {
    let (_echo, url) = start_echo(&[]).await;
    let readme = include_str!("../README.md");
    let block = readme.split("```console\n").nth(1).unwrap();
    let block = block.split("```").next().unwrap();
    let folder = Path::new(BINARY).parent().unwrap();
    let mut said = String::new();
    for command in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let here = command.replace("http://127.0.0.1:8001/mcp", &url);
        let script = format!("PATH='{}':$PATH; exec {here} 2>&1", folder.display());
        let shell = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let ended = end(shell.unwrap()).await;
        said.push_str(&format!("$ {command}\n{}{}", ended.out, ended.err));
    }
    assert_eq!(said, block);
}

/// A target that starts a program of this test's own: it says on stderr who it is, writes down its
/// process group and becomes `script`.
struct Started {
    target: String,
    group: PathBuf,
}

impl Started {
    /// `name` is unlike that of any other test's program.
    fn new(name: &str, script: &str) -> Self {
        let group = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.group"));
        let _ = std::fs::remove_file(&group);
        let script = format!("echo here is {name} >&2; echo $$ >$1; {script}");
        let target = format!("stdio:sh -c '{script}' sh '{}'", group.display());
        Self { target, group }
    }

    async fn group(&self) -> String {
        let written = async {
            loop {
                match std::fs::read_to_string(&self.group) {
                    Ok(group) if group.ends_with('\n') => return group.trim().to_owned(),
                    _ => tokio::task::yield_now().await,
                }
            }
        };
        timeout(PATIENCE, written).await.expect("it starts")
    }

    /// Waits until nothing is left of it; what was killed may take a moment.
    async fn assert_gone(&self) {
        let group = self.group().await;
        let gone = async {
            loop {
                let ps = Command::new("ps").args(["-eo", "pgid=,stat="]).output();
                let ps = String::from_utf8(ps.await.unwrap().stdout).unwrap();
                let is_alive = |line: &str| {
                    let mut words = line.split_whitespace();
                    // A zombie is dead, only nobody has looked.
                    words.next() == Some(&group) && !words.next().unwrap().starts_with('Z')
                };
                if !ps.lines().any(is_alive) {
                    return;
                }
            }
        };
        let gone = timeout(Duration::from_secs(10), gone).await;
        assert!(gone.is_ok(), "group {group} lives on");
    }
}

/// Our echo as a child.
fn echo_child() -> String {
    format!("stdio:'{BINARY}' echo --stdio")
}

// Covers R-1602.
#[tokio::test]
async fn a_child_streams_as_a_server_does_and_its_stdout_holds_only_messages() {
    let args = [
        "call",
        &echo_child(),
        "echo",
        r#"{"text":"こん👋"}"#,
        "--json",
    ];
    let call = run(&args).await;
    let wanted = r#"{"type":"log","content":"received 3 characters","node":"echo"}
{"type":"text","content":"こ","node":"echo"}
{"type":"text","content":"ん","node":"echo"}
{"type":"text","content":"👋","node":"echo"}
{"type":"result","content":"こん👋","node":null}
"#;
    assert_eq!((call.code, &*call.out, &*call.err), (Some(0), wanted, ""));

    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a\nb"},"_meta":{"progressToken":7}}}"#,
    ];
    let served = run_fed(&["echo", "--stdio"], (lines.join("\n") + "\n").as_bytes()).await;
    assert_eq!((served.code, &*served.err), (Some(0), ""));
    let said: Vec<Value> = served
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(said.len(), 1 + 4 + 1, "{said:?}");
    assert!(said.iter().all(|message| message["jsonrpc"] == "2.0"));
    assert_eq!((&said[0]["id"], &said[5]["id"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn several_servers_are_shown_and_called_by_name() {
    let (served, child) = (serve().await, echo_child());
    let (url, name) = (&*served.url, served.addr.to_string());
    let tools = run(&["tools", &child, url, &child]).await;
    assert_eq!(tools.code, Some(0), "{}", tools.err);
    let names: Vec<&str> = tools
        .out
        .lines()
        .filter(|line| !line.starts_with(' ') && line.contains("/echo("))
        .map(|line| line.split('(').next().unwrap())
        .collect();
    let qualified = [
        "agent-hub/echo".to_owned(),
        format!("{name}/echo"),
        "agent-hub-2/echo".to_owned(),
    ];
    assert_eq!(names, qualified, "in the order of the command line");

    let text = r#"{"text":"hi"}"#;
    let second = format!("{name}/echo");
    for args in [
        &["agent-hub-2/echo", text][..],
        &[&second, text],
        &["echo", text, "--server", "agent-hub"],
        &["echo", text, "--server", &name],
        &["given", text],
    ] {
        let call = run(&[&["call", &child, url, &child], args].concat()).await;
        assert_eq!(call.code, Some(0), "{args:?}\n{}", call.err);
        let said = if args[0] == "given" { text } else { "hi" };
        assert_eq!(call.out.trim_end(), said, "{args:?}");
    }

    let call = run(&["call", &child, url, &child, "echo", text]).await;
    assert_eq!((call.code, &*call.out), (Some(1), ""), "{}", call.err);
    assert!(call.err.contains(&qualified.join(", ")), "{}", call.err);
    assert!(call.err.contains("--server"), "{}", call.err);
}

#[tokio::test]
async fn tools_as_json_are_one_a_line_as_their_server_describes_them() {
    let (served, child) = (serve().await, echo_child());
    let tools = run(&["tools", "--json", &child, &served.url]).await;
    assert_eq!(tools.code, Some(0), "{}", tools.err);
    let lines: Vec<Value> = tools
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["server"], "agent-hub");
    assert_eq!(lines[0]["tool"]["name"], "echo");
    assert_eq!(lines[0]["tool"]["inputSchema"]["required"], json!(["text"]));
    assert_eq!(lines[1]["server"], json!(served.addr.to_string()));
    assert_eq!(lines[1]["tool"]["name"], "echo");
    let sum = lines.iter().find(|line| line["tool"]["name"] == "sum");
    let description = json!("Adds up\n\n  \u{1b}[2Jand more");
    assert_eq!(sum.unwrap()["tool"]["description"], description);
}

#[tokio::test]
async fn what_one_server_offers_is_shown_though_another_is_down() {
    let (gone, _socket) = nowhere();
    for flag in ["--json", "--connect-timeout=30"] {
        let tools = run(&["tools", "stdio:no-such-program", &echo_child(), &gone, flag]).await;
        assert_eq!(tools.code, Some(3), "{}", tools.err);
        assert!(tools.out.contains("echo"), "{}", tools.out);
        for said in [
            "`no-such-program`",
            "without a shell",
            &gone,
            "start the server",
        ] {
            assert!(tools.err.contains(said), "{said}\n{}", tools.err);
        }
    }
    let call = run(&["call", &echo_child(), &gone, "echo", r#"{"text":"a"}"#]).await;
    assert_eq!((call.code, &*call.out), (Some(3), ""), "{}", call.err);
}

#[tokio::test]
async fn a_command_line_with_children_can_be_wrong_in_many_ways() {
    let child = &*echo_child();
    let fails = &*Started::new("fails", "echo error: a >&2; echo x; exit 7").target;
    let cases: &[(&[&str], i32, &str)] = &[
        (&["echo", "--stdio", "--port", "1"], 2, "--port"),
        (&["echo", "--stdio", "--host", "::1"], 2, "--host"),
        (&["echo", "--allow-host", "a", "--stdio"], 2, "--allow-host"),
        (&["tools", "stdio:"], 2, "stdio:COMMAND ARGS"),
        (&["tools", "stdio:''"], 2, "names no command"),
        (&["tools", "stdio:a 'b"], 2, "missing closing quote"),
        (&["tools", child, "echo"], 2, "'stdio:COMMAND ARGS...'"),
        (&["tools", child, "--header", "a: secret"], 2, "no URL"),
        (&["call", child], 2, "<TOOL>"),
        (
            &["call", child, "ftp://secret/", "echo"],
            2,
            "none that is known",
        ),
        (&["call", child, "echo", "{}", "{}"], 2, "too many words"),
        (
            &["call", "localhost:1/mcp", "echo", "{}"],
            2,
            "a URL in full",
        ),
        (
            &["call", child, child, "echo", "--server", "else"],
            2,
            "agent-hub, agent-hub-2",
        ),
        (&["call", child, "eco"], 1, "there are: agent-hub/echo"),
        (&["call", "stdio:/no/such", "echo"], 3, "No such file"),
        (
            &["call", "stdio:true", "echo"],
            3,
            "`true` ended with exit status: 0",
        ),
        (&["call", fails, "echo"], 3, "exit status: 7"),
        (
            &["call", fails, "echo"],
            3,
            "here is fails\n    error: a; the end of its stdout:\n    x\n",
        ),
    ];
    for (args, code, said) in cases {
        let ended = run(args).await;
        assert_eq!(ended.code, Some(*code), "{args:?}\n{}", ended.err);
        assert!(ended.err.contains(said), "{args:?}\n{}", ended.err);
        assert!(!ended.err.contains("secret"), "{args:?}\n{}", ended.err);
        assert_eq!(ended.out, "", "{args:?}");
    }
}

/// Calls a tool of a child that streams one character and then takes its time.
async fn start_slow(started: &Started) -> Child {
    let mut call = start(&[
        "call",
        &started.target,
        "echo",
        r#"{"text":"xyz","delay_ms":1000000}"#,
    ]);
    let mut first = [0; 1];
    let out = call.stdout.as_mut().unwrap();
    timeout(PATIENCE, out.read_exact(&mut first))
        .await
        .unwrap()
        .unwrap();
    call
}

#[tokio::test]
async fn a_signal_ends_a_call_of_a_child_and_the_child() {
    let exec = format!("exec {BINARY} echo --stdio");
    // It outlives its server, and is deaf to SIGTERM.
    let deaf = format!("trap : TERM; {BINARY} echo --stdio; sleep 1000; sleep 1000");
    for (name, script) in [("signalled", &exec), ("deaf", &deaf)] {
        let started = Started::new(name, script);
        let call = start_slow(&started).await;
        signal(&call, "-INT");
        let call = end(call).await;
        assert_eq!(
            (call.code, &*call.out),
            (Some(130), "\n"),
            "{name}: {}",
            call.err
        );
        assert!(call.err.ends_with("cancelled\n"), "{name}: {}", call.err);
        started.assert_gone().await;
    }
}

#[tokio::test]
async fn a_second_signal_leaves_no_child_either() {
    let script = format!("trap : TERM; {BINARY} echo --stdio; sleep 1000; sleep 1000");
    let started = Started::new("deaf-twice", &script);
    let mut call = start_slow(&started).await;
    signal(&call, "-INT");
    let mut err = BufReader::new(call.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("again to end at once") {
        let read = timeout(PATIENCE, err.read_line(&mut said)).await.unwrap();
        assert_ne!(read.unwrap(), 0, "it ended: {said}");
    }
    let sent = Instant::now();
    signal(&call, "-INT");
    let status = timeout(PATIENCE, call.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(130));
    // By itself it would wait for the child for two seconds.
    let took = sent.elapsed();
    assert!(took < Duration::from_millis(1500), "{took:?}");
    started.assert_gone().await;
}

#[tokio::test]
async fn a_child_that_does_not_answer_is_given_up() {
    for (name, signalled) in [("silent", false), ("silent-signalled", true)] {
        let started = Started::new(name, "exec sleep 1000");
        let args = ["call", &started.target, "echo", "--connect-timeout", "2"];
        let call = start(if signalled { &args[..3] } else { &args });
        started.group().await;
        if signalled {
            signal(&call, "-INT");
        }
        let call = end(call).await;
        let (code, said) = match signalled {
            true => (130, "cancelled\n"),
            false => (3, "--connect-timeout"),
        };
        assert_eq!(call.code, Some(code), "{name}: {}", call.err);
        assert!(call.err.contains(said), "{name}: {}", call.err);
        started.assert_gone().await;
    }
}

#[tokio::test]
async fn a_child_that_dies_in_the_middle_of_a_call_is_an_error() {
    let started = Started::new("dies", &format!("exec {BINARY} echo --stdio"));
    let call = start_slow(&started).await;
    let group = started.group().await;
    let kill = std::process::Command::new("kill")
        .args(["-KILL", &group])
        .status();
    assert!(kill.unwrap().success());
    let call = end(call).await;
    assert_eq!((call.code, &*call.out), (Some(1), "\n"), "{}", call.err);
    for said in [
        "error: sh",
        "signal: 9",
        "here is dies",
        "the tool may have run",
    ] {
        assert!(call.err.contains(said), "{said}\n{}", call.err);
    }
}
