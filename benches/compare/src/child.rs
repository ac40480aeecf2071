//! Contestants as pinned child processes, which end when their handle is dropped.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::Outcome;
use crate::clock;

/// The first word of a command line that makes this program a contestant.
pub(crate) const ROLE: &str = "contestant";
/// Where what is measured runs.
pub(crate) const MEASURED: &str = "0";
/// Where the rest runs.
pub(crate) const LOAD: &str = "1";

/// The words that start a contestant on a core.
pub(crate) fn command(core: &str, role: &[&str]) -> Outcome<Vec<String>> {
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or("the program's path is not UTF-8")?;
    let words = ["taskset", "-c", core, program, ROLE];
    Ok(words
        .iter()
        .chain(role)
        .map(|word| word.to_string())
        .collect())
}

/// Keeps this process and its threads to a core.
pub(crate) async fn pin_self(core: &str) -> Outcome {
    let process = std::process::id().to_string();
    let mut command = Command::new("taskset");
    command.args(["-c", "-p", core, &process]);
    let output = command
        .output()
        .await
        .map_err(|e| format!("taskset (of util-linux) is needed: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("two cores are needed: {}", said.trim()).into())
}

#[derive(Debug)]
pub(crate) struct Contestant {
    pub(crate) child: Child,
    process: u32,
}

impl Contestant {
    pub(crate) fn start(core: &str, role: &[&str]) -> Outcome<Self> {
        let words = command(core, role)?;
        let (program, args) = words.split_first().ok_or("no command")?;
        let mut command = Command::new(program);
        command.args(args).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|e| format!("could not start {program}: {e}"))?;
        let process = child.id().ok_or("a child ended at once")?;
        Ok(Self { child, process })
    }

    /// Starts a server and waits for its addresses.
    pub(crate) async fn serve(core: &str, role: &[&str]) -> Outcome<(Self, Vec<String>)> {
        let mut server = Self::start(core, role)?;
        let mut lines = BufReader::new(server.stdout()?).lines();
        let line = lines.next_line().await?;
        let line = line.ok_or_else(|| format!("{role:?} ended before it listened"))?;
        Ok((server, line.split(' ').map(str::to_owned).collect()))
    }

    /// Runs a client to its end and reads its figures, separated by spaces.
    pub(crate) async fn figures(core: &str, role: &[&str]) -> Outcome<Vec<f64>> {
        let mut client = Self::start(core, role)?;
        let mut said = String::new();
        client.stdout()?.read_to_string(&mut said).await?;
        let status = client.child.wait().await?;
        if !status.success() {
            return Err(format!("{role:?} failed: {status}").into());
        }
        let figures = said.split_whitespace().map(str::parse);
        Ok(figures.collect::<Result<_, _>>()?)
    }

    pub(crate) fn stdout(&mut self) -> Outcome<ChildStdout> {
        let stdout = self.child.stdout.take();
        Ok(stdout.ok_or("its output was taken already")?)
    }

    /// Seconds it has computed so far.
    pub(crate) fn cpu(&self) -> Outcome<f64> {
        Ok(clock::cpu_of(self.process)?.as_secs_f64())
    }
}
