//! A server and a client of the official SDK, `rmcp`.
//!
//! ```text
//! rust-peer server http [PORT]           Streamable HTTP; 0, the default, takes any free port
//! rust-peer server stdio
//! rust-peer client ERA TARGET list                            {"tools": [...], "version": "2025-11-25"}
//! rust-peer client ERA TARGET call TOOL ARGS [TOOL ARGS]...   in one session, one after the other; for each
//!                                                             {"progress": .., "total": .., "message": ..} each,
//!                                                             then {"result": text, "is_error": bool}
//!                                                             or {"error": code, "message": ..}
//! rust-peer client ERA TARGET cancel TOOL ARGS [TOOL ARGS]... as call, but cancels the first call after its third
//!                                                             progress message: {"cancelled": true} in place of a
//!                                                             result
//! ```
//!
//! Over HTTP the server says `listening on http://127.0.0.1:PORT/mcp` on stderr when it is ready.
//! Tools that see their own cancellation append a line to the file that `INTEROP_LOG` names. ERA is
//! `legacy`, the handshake, or `modern`, for which a probe looks. TARGET is a URL or
//! `stdio:COMMAND ARGS...`, one argument, in which quotes work as in a shell. The client tells what
//! it saw, one JSON object a line, in order of arrival.

mod client;
mod server;

type Anything = Box<dyn std::error::Error + Send + Sync>;

// rmcp gives each notification to a task of its own. They keep their order, among each other and
// before the response, only where tasks are polled in the order in which they are woken: on one
// thread, and in a task, since the future of `main` goes before them.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Anything> {
    tokio::spawn(async { run(std::env::args().skip(1).collect()).await }).await?
}

async fn run(args: Vec<String>) -> Result<(), Anything> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["server", "http"] => server::http("0").await,
        ["server", "http", port] => server::http(port).await,
        ["server", "stdio"] => server::stdio().await,
        ["client", era, target, ref scenario @ ..] => client::run(era, target, scenario).await,
        _ => {
            Err("usage: rust-peer server http [PORT] | server stdio | client ERA TARGET ..".into())
        }
    }
}
