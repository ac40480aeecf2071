//! The programs of `peers/` as child processes, ended when they are dropped.

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

/// An official SDK. The programs of all take the same arguments and say the same lines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    Python,
    TypeScript,
}

/// What carries the messages between a peer and us.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Link {
    Http,
    Stdio,
}

impl Peer {
    /// What its server makes of the tool `fail` that fails with `message`.
    pub(crate) fn failure(self, message: &str) -> String {
        match self {
            Self::Python => format!("Error executing tool fail: {message}"),
            Self::TypeScript => message.to_owned(),
        }
    }

    /// Its `server` or `client`, and what runs it. `None` if it is not installed.
    fn program(self, role: &str) -> Option<Program> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
        let venv_python = here.join(".venv/bin/python");
        let node_modules = here.join("peers/typescript/node_modules");
        let (variable, interpreter, installed, script) = match self {
            Self::Python => (
                "INTEROP_PYTHON",
                venv_python.clone(),
                venv_python,
                format!("peers/python/{role}.py"),
            ),
            Self::TypeScript => (
                "INTEROP_NODE",
                PathBuf::from("node"),
                node_modules,
                format!("peers/typescript/{role}.mjs"),
            ),
        };
        let interpreter = match std::env::var_os(variable) {
            Some(named) => (!named.is_empty()).then(|| named.into()),
            None => installed.exists().then_some(interpreter),
        };
        let Some(interpreter) = interpreter else {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "no {self:?} peer: run tests/run.sh"
            );
            eprintln!("SKIPPED: no {self:?} peer; tests/run.sh installs it");
            return None;
        };
        let script = here.join(script);
        Some(Program {
            interpreter,
            script,
        })
    }
}

struct Program {
    interpreter: PathBuf,
    script: PathBuf,
}

impl Program {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.arg(&self.script);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }
}

/// A peer's client, and the server it talks to.
pub(crate) struct Client {
    program: Program,
    target: String,
}

impl Client {
    /// `None` if the peer is not installed.
    pub(crate) fn of(peer: Peer, target: String) -> Option<Self> {
        let program = peer.program("client")?;
        Some(Self { program, target })
    }

    /// Runs a scenario to its end: what the client saw, in order.
    pub(crate) async fn run(&self, scenario: &[&str]) -> Vec<Value> {
        let mut command = self.program.command();
        command.arg(&self.target).args(scenario);
        command.stderr(Stdio::inherit());
        let output = timeout(PATIENCE, command.output())
            .await
            .expect("the client ends")
            .expect("the interpreter starts");
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
    pub(crate) peer: Peer,
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
    pub(crate) async fn start(peer: Peer, link: Link, name: &str) -> Option<Self> {
        let log = format!("{}.log", name.replace("::", "-"));
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(log);
        std::fs::write(&log, "").unwrap();
        let program = peer.program("server")?;
        let place = match link {
            Link::Http => {
                let mut command = program.command();
                let (url, child) = listening(command.arg("http").env(LOG, &log)).await;
                Place::Http { url, _child: child }
            }
            Link::Stdio => Place::Stdio(
                StdioCommand::new(program.interpreter)
                    .arg(program.script)
                    .arg("stdio")
                    .env(LOG, &log),
            ),
        };
        Some(Self { peer, place, log })
    }

    /// Connects the hub to it under `name`.
    pub(crate) async fn connect(&self, hub: &AgentHubClient, name: &str) {
        match &self.place {
            Place::Http { url, .. } => hub.connect_http(name, url).await.unwrap(),
            Place::Stdio(command) => hub.connect_stdio(name, command.clone()).await.unwrap(),
        };
    }

    /// What its tools wrote down of their own cancellation.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

/// Starts a server and waits for the URL it listens on.
async fn listening(command: &mut Command) -> (String, Child) {
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("the interpreter starts");
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let ready = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some(url) = line.strip_prefix("listening on ") {
                return url.to_owned();
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
