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
#[path = "dev/ignored.rs"]
mod ignored;
#[path = "dev/process.rs"]
mod process;
#[path = "dev/server.rs"]
mod server;
#[path = "dev/watch.rs"]
mod watch;

use std::convert::Infallible;
use std::ffi::OsString;
use std::future::pending;
use std::io::{self, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::sleep;

use crate::args::DevArgs;
use crate::failure::Failure;
use crate::shown::visible;
use crate::signals::Signals;
use batch::{Batch, Suspects, now};
use family::{Ended, Family};
use process::Process;
use watch::Changes;

pub(crate) struct Plan {
    command: Vec<OsString>,
    build: Option<Vec<String>>,
    watched: Vec<PathBuf>,
    host: String,
    port: u16,
}

/// For a server to say that it is listening. Some load a model first.
const START_TIMEOUT: Duration = Duration::from_secs(60);

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
    let mut family = Family::default();
    let outcome = tokio::select! {
        outcome = rounds(&plan, &socket, changes, &mut family) => outcome.map(|never| match never {}),
        () = signals.recv() => Ok(()),
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

/// Builds, starts and waits for changes, for ever.
async fn rounds(
    plan: &Plan,
    socket: &TcpListener,
    mut changes: Changes,
    family: &mut Family,
) -> Result<Infallible, Failure> {
    let mut suspects = Suspects::default();
    loop {
        let is_built = match &plan.build {
            Some(words) => build(words, family).await,
            None => true,
        };
        let built_at = now();
        let mut batch = match is_built {
            true => start(plan, socket, &mut changes, family).await?,
            false => None,
        };
        while batch.is_none() {
            batch = tokio::select! {
                batch = changes.next() => Some(batch?),
                ended = family.ended() => {
                    tell_end(ended);
                    None
                }
            };
            let builds = plan.build.is_some();
            if let Some(own) = batch.take_if(|batch| builds && suspects.accuse(batch, built_at)) {
                say(&format!(
                    "{} is written by the build, and watched no more",
                    own.shown()
                ));
                changes.exempt(own.paths);
            }
        }
        if let Some(batch) = &batch {
            say(&format!("changed: {}", batch.shown()));
        }
    }
}

/// True if it went well.
async fn build(words: &[String], family: &mut Family) -> bool {
    say(&format!("building: {}", shell_words::join(words)));
    let Some((program, args)) = words.split_first() else {
        return true;
    };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    let status = match Process::start(command) {
        Ok(process) => {
            family.next = Some(process);
            loop {
                match family.ended().await {
                    Ended::Next(status) => break status,
                    ended => tell_end(ended),
                }
            }
        }
        Err(error) => Err(error),
    };
    let is_built = status.as_ref().is_ok_and(|status| status.success());
    if !is_built {
        say(&format!(
            "the build failed ({}); {}",
            shown(status),
            remains(family)
        ));
    }
    is_built
}

/// Starts a server and lets the old one go once it is up. What changes before that ends the wait.
async fn start(
    plan: &Plan,
    socket: &TcpListener,
    changes: &mut Changes,
    family: &mut Family,
) -> Result<Option<Batch>, Failure> {
    let up = match server::start(&plan.command, socket) {
        Ok(started) => {
            family.next = Some(started.process);
            started.is_up
        }
        Err(error) => {
            let program = plan.command.first().map(|word| word.display().to_string());
            let program = program.unwrap_or_default();
            say(&format!(
                "cannot start {program} ({error}); {}",
                remains(family)
            ));
            return Ok(None);
        }
    };
    let mut is_up = pin!(async {
        if up.await.is_err() {
            // It has closed its standard error without a word.
            pending::<()>().await;
        }
    });
    let mut late = pin!(sleep(START_TIMEOUT));
    let why = loop {
        tokio::select! {
            () = &mut is_up => {
                say(match family.replace() {
                    true => "the new server is up; the old one ends",
                    false => "the server is up",
                });
                return Ok(None);
            }
            ended = family.ended() => match ended {
                Ended::Next(status) => {
                    break format!("ended ({}) before it was listening", shown(status));
                }
                ended => tell_end(ended),
            },
            () = &mut late => {
                break format!("was not listening after {} s", START_TIMEOUT.as_secs());
            }
            batch = changes.next() => {
                family.give_up_next();
                return batch.map(Some);
            }
        }
    };
    family.give_up_next();
    say(&format!("the new server {why}; {}", remains(family)));
    Ok(None)
}

fn tell_end(ended: Ended) {
    let (Ended::Current(status) | Ended::Next(status)) = ended;
    say(&format!(
        "the server ended ({}); waiting for a change",
        shown(status)
    ));
}

fn remains(family: &Family) -> &'static str {
    match family.current {
        Some(_) => "the old server stays",
        None => "connections wait for one that is up",
    }
}

fn shown(status: io::Result<std::process::ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}

fn say(what: &str) {
    let _ = writeln!(io::stderr(), "dev: {}", visible(what));
}
