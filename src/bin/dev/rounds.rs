//! What follows from what: a build from a change, a new server from a build, the end of the old one
//! from a new one that is up.
//!
//! Must not know how processes are ended, or how changes are noticed.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::TcpListener;
use std::pin::pin;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::time::sleep;

use super::batch::{Batch, Suspects, now};
use super::family::{Ended, Family};
use super::process::Process;
use super::watch::Changes;
use super::{Plan, say, server};
use crate::failure::Failure;

/// For a server to say that it is listening. Some load a model first.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Builds, starts and waits for changes, for ever.
pub(super) async fn run(
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
                let own = own.shown();
                say(&format!(
                    "{own} changes with each build, which is not run again for it"
                ));
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
    let status = match Process::start(command, &family.guard) {
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
    let up = match server::start(&plan.command, socket, &family.guard) {
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
                break format!(
                    "did not say `listening on` on standard error within {} s",
                    START_TIMEOUT.as_secs()
                );
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

fn shown(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}
