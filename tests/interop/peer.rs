//! The programs of `peers/` as child processes, ended when they are dropped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, StdioCommand};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Generous: a test that takes as long has hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Names the file in which a server's tools write down their cancellation.
const LOG: &str = "INTEROP_LOG";

/// An official SDK and its generation. The programs of all take the same arguments and say the same
/// lines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    Python1,
    Python2,
    TypeScript1,
    TypeScript2,
    Rust3,
}

/// What carries the messages between a peer and us.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Link {
    Http,
    Stdio,
}

/// What a peer and we are to speak.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// A row of the matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) peer: Peer,
    pub(crate) link: Link,
    pub(crate) era: Era,
}

impl Row {
    /// What our client is told. It finds the era out, except that it would find the other one.
    fn asked(self) -> agent_hub_kit::Era {
        match (self.era, self.peer) {
            (Era::Legacy, Peer::Python2 | Peer::TypeScript2 | Peer::Rust3) => {
                agent_hub_kit::Era::Legacy
            }
            _ => agent_hub_kit::Era::Auto,
        }
    }
}

impl Era {
    /// What both sides agree on.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }

    /// The word for it in a peer's arguments.
    fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

impl Peer {
    /// What its server makes of the tool `fail` that fails with `message`.
    pub(crate) fn failure(self, message: &str) -> String {
        match self {
            Self::Python1 | Self::Python2 => format!("Error executing tool fail: {message}"),
            Self::TypeScript1 | Self::TypeScript2 | Self::Rust3 => message.to_owned(),
        }
    }

    /// The tools of its server in the order in which it lists them.
    pub(crate) fn tools(self) -> [&'static str; 6] {
        let mut tools = [
            "echo",
            "stream",
            "plain_progress",
            "all_types",
            "fail",
            "sleep",
        ];
        if matches!(self, Self::Rust3) {
            tools.sort_unstable(); // this SDK does
        }
        tools
    }

    /// Its `server`, its `client` or another of its programs. `None` if it is not installed.
    fn program(self, role: &str) -> Option<Program> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
        let python = |venv: &str| {
            let binary = here.join(venv).join("bin/python");
            let script = here.join("peers/python").join(format!("{role}.py"));
            (binary, vec![script.into_os_string()])
        };
        let node = |generation: &str| {
            let script = here.join("peers/typescript").join(format!("{role}.mjs"));
            (
                PathBuf::from("node"),
                vec![script.into_os_string(), generation.into()],
            )
        };
        let (variable, (binary, args)) = match self {
            Self::Python1 => ("INTEROP_PYTHON_1", python(".venv-1")),
            Self::Python2 => ("INTEROP_PYTHON_2", python(".venv-2")),
            Self::TypeScript1 => ("INTEROP_NODE", node("sdk1")),
            Self::TypeScript2 => ("INTEROP_NODE", node("sdk2")),
            Self::Rust3 => {
                let binary = here.join("peers/rust/target/debug/rust-peer");
                ("INTEROP_RUST", (binary, vec![role.into()]))
            }
        };
        let installed = match self {
            Self::TypeScript1 | Self::TypeScript2 => here.join("peers/typescript/node_modules"),
            Self::Python1 | Self::Python2 | Self::Rust3 => binary.clone(),
        };
        let binary = match std::env::var_os(variable) {
            Some(named) => (!named.is_empty()).then(|| named.into()),
            None => installed.exists().then_some(binary),
        };
        let Some(binary) = binary else {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "no {self:?} peer: run tests/run.sh"
            );
            eprintln!("SKIPPED: no {self:?} peer; tests/run.sh installs it");
            return None;
        };
        Some(Program { binary, args })
    }
}

struct Program {
    binary: PathBuf,
    args: Vec<OsString>,
}

impl Program {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(&self.args);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }
}

/// A peer's client program, and the server it talks to.
pub(crate) struct Client {
    pub(crate) era: Era,
    program: Program,
    target: String,
}

impl Client {
    /// `None` if the peer is not installed.
    pub(crate) fn of(row: Row, role: &str, target: String) -> Option<Self> {
        let program = row.peer.program(role)?;
        let era = row.era;
        Some(Self {
            program,
            era,
            target,
        })
    }

    /// Runs a scenario to its end: what the client saw, in order.
    pub(crate) async fn run(&self, scenario: &[&str]) -> Vec<Value> {
        let mut command = self.program.command();
        command.arg(self.era.word());
        command.arg(&self.target).args(scenario);
        command.stderr(Stdio::inherit());
        let output = timeout(PATIENCE, command.output())
            .await
            .expect("the client ends")
            .expect("the program starts");
        let said = String::from_utf8(output.stdout).unwrap();
        let status = output.status;
        assert!(status.success(), "{status} after:\n{said}");
        said.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// A peer's server, ready.
pub(crate) struct Server {
    pub(crate) row: Row,
    place: Place,
    log: PathBuf,
}

/// Where a server is found.
enum Place {
    /// The process is ours.
    Http { url: String, _child: Child },
    /// The hub starts it.
    Stdio(StdioCommand),
}

impl Server {
    /// `None` if the peer is not installed. `name` is unlike that of any other test's server.
    pub(crate) async fn start(row: Row, role: &str, name: &str) -> Option<Self> {
        let log = format!("{}.log", name.replace("::", "-"));
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(log);
        std::fs::write(&log, "").unwrap();
        let program = row.peer.program(role)?;
        let place = match row.link {
            Link::Http => {
                let mut command = program.command();
                let (url, child) = listening(command.arg("http").env(LOG, &log)).await;
                Place::Http { url, _child: child }
            }
            Link::Stdio => Place::Stdio(
                StdioCommand::new(program.binary)
                    .args(program.args)
                    .arg("stdio")
                    .env(LOG, &log),
            ),
        };
        Some(Self { row, place, log })
    }

    /// Connects the hub to it under `name`, in the era of the row.
    pub(crate) async fn connect(&self, hub: &AgentHubClient, name: &str) {
        let era = self.row.asked();
        match &self.place {
            Place::Http { url, .. } => hub.connect_http(name, url).era(era).await.unwrap(),
            Place::Stdio(command) => {
                let connecting = hub.connect_stdio(name, command.clone()).era(era);
                connecting.await.unwrap()
            }
        };
        let servers = hub.servers();
        let server = servers.iter().find(|server| *server.name == *name);
        let version = server.unwrap().protocol_version;
        assert_eq!(version, Some(self.row.era.version()), "{:?}", self.row);
    }

    /// What its tools wrote down of their own cancellation.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

/// Starts a server and waits for the URL it listens on.
async fn listening(command: &mut Command) -> (String, Child) {
    let mut child = command
        .stdout(Stdio::null()) // uvicorn's log of requests would stand amid what the tests say
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let ready = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some(url) = told(&line) {
                return url;
            }
            eprintln!("server: {line}");
        }
        panic!("the server ended before it listened");
    };
    let url = timeout(PATIENCE, ready).await.expect("the server listens");
    // A pipe that nobody reads would block it once it is full.
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            eprintln!("server: {line}");
        }
    });
    (url, child)
}

/// The URL in a line of the programs here, or of uvicorn under a program that has no such line.
fn told(line: &str) -> Option<String> {
    if let Some(url) = line.strip_prefix("listening on ") {
        return Some(url.to_owned());
    }
    let (_, said) = line.split_once("Uvicorn running on ")?;
    Some(format!("{}/mcp", said.split(' ').next()?))
}
