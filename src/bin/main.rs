//! The `agent-hub` command: the library's public API for the shell.

mod args;
mod call;
mod demo;
#[cfg(unix)]
mod dev;
#[cfg(not(unix))]
#[path = "no_dev.rs"]
mod dev;
mod failure;
mod images;
mod llm;
mod screen;
mod serve;
mod shown;
mod signals;
mod target;
mod tools;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use agent_hub_kit::specialists::build_echo_server;
use clap::Parser;

use args::{Cli, Command};
use failure::Failure;

/// For what ends with the runtime.
const LAST_MOMENT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(&mut io::stderr());
            ExitCode::from(failure.code())
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    // What can be wrong with the command line is told before anything is started. Standard input is
    // read here too, while Ctrl-C still ends the process by itself.
    let task: std::pin::Pin<Box<dyn Future<Output = Result<(), Failure>>>> = match command {
        Command::Call(args) => Box::pin(call::run(call::Plan::new(args)?)),
        Command::Demo => Box::pin(demo::run()),
        Command::Dev(args) => Box::pin(dev::run(dev::Plan::new(args)?)),
        Command::Echo(args) => Box::pin(serve::run(build_echo_server(), args.port, args.serve)),
        Command::Llm(args) => {
            let server = llm::server(&args)?;
            Box::pin(serve::run(server, args.port, args.serve))
        }
        Command::Tools(args) => Box::pin(tools::run(tools::Plan::new(args)?)),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::System)?;
    let outcome = runtime.block_on(task);
    // What its threads hold is dropped first, or a child that was just given up would be left behind.
    // A name lookup may hang on a thread of its own; nobody waits longer for that.
    runtime.shutdown_timeout(LAST_MOMENT);
    outcome
}
