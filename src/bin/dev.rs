//! `agent-hub dev`: rebuilds and restarts a server when its files change, and keeps its socket
//! meanwhile.
//!
//! The socket is ours for as long as we run; each server gets a copy of it. A new one takes the
//! place of the old one when it is up, and not before: until then the old one answers, and where
//! there is none, connections wait.

#[path = "dev/batch.rs"]
mod batch;
#[path = "dev/family.rs"]
mod family;
#[path = "dev/guard.rs"]
mod guard;
#[path = "dev/ignored.rs"]
mod ignored;
#[path = "dev/process.rs"]
mod process;
#[path = "dev/rounds.rs"]
mod rounds;
#[path = "dev/server.rs"]
mod server;
#[path = "dev/watch.rs"]
mod watch;

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::args::DevArgs;
use crate::failure::Failure;
use crate::shown::visible;
use crate::signals::Signals;
use family::Family;
use watch::Changes;

pub(crate) struct Plan {
    command: Vec<OsString>,
    build: Option<Vec<String>>,
    watched: Vec<PathBuf>,
    host: String,
    port: u16,
}

impl Plan {
    pub(crate) fn new(args: DevArgs) -> Result<Self, Failure> {
        let build = args.build.as_deref().map(split).transpose()?;
        let mut watched = args.watch;
        if watched.is_empty() {
            watched.push(PathBuf::from("."));
        }
        Ok(Self {
            command: args.command,
            build,
            watched,
            host: args.host,
            port: args.port,
        })
    }

    /// The server's program, if it is named by a path: where a search would find it, nobody builds.
    fn program(&self) -> Option<PathBuf> {
        let program = Path::new(self.command.first()?);
        let parent = program.parent().filter(|parent| *parent != Path::new(""))?;
        Some(parent.canonicalize().ok()?.join(program.file_name()?))
    }
}

fn split(build: &str) -> Result<Vec<String>, Failure> {
    let words = shell_words::split(build)
        .map_err(|e| Failure::usage(format!("the command of --build: {e}"), ""))?;
    match words.first().is_none_or(String::is_empty) {
        true => Err(Failure::usage("--build names no command", "")),
        false => Ok(words),
    }
}

pub(crate) async fn run(plan: Plan) -> Result<(), Failure> {
    // Before anybody is told that we are there, so that a signal always finds us ready.
    let mut signals = Signals::listen().map_err(Failure::System)?;
    let socket = bind(&plan.host, plan.port).await?;
    // With a build the program is its output. Without one, somebody else builds it.
    let program = plan.program();
    let (file, exempt) = match plan.build {
        Some(_) => (None, program),
        None => (program, None),
    };
    let changes = Changes::of(&plan.watched, file, exempt)?;
    let address = socket.local_addr().map_err(Failure::System)?;
    say(&format!("holding {address}"));
    let mut family = Family::new().map_err(Failure::System)?;
    let outcome = tokio::select! {
        outcome = rounds::run(&plan, &socket, changes, &mut family) => outcome.map(|never| match never {}),
        () = signals.recv() => {
            say("ending; again to end at once");
            Ok(())
        }
    };
    // Connections that wait are refused from here on.
    drop(socket);
    tokio::select! {
        () = family.end() => outcome,
        () = signals.recv() => {
            family.kill().await;
            Err(Failure::Cancelled)
        }
    }
}

async fn bind(host: &str, port: u16) -> Result<TcpListener, Failure> {
    let bound = tokio::net::TcpListener::bind((host.trim_matches(['[', ']']), port)).await;
    bound
        .and_then(tokio::net::TcpListener::into_std)
        .map_err(|error| Failure::Refused {
            what: format!("cannot listen on {host}, port {port}"),
            error,
            advice: "another --port, or --port 0 for any that is free",
        })
}

fn say(what: &str) {
    let _ = writeln!(io::stderr(), "dev: {}", visible(what));
}
