//! Serving over our own standard streams.
//!
//! Owns the signals that end such a process; must not know what passes over the streams.

use std::future::pending;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use super::builder::McpServer;
use super::lines;
use crate::error::{Error, Result};
use crate::transport::stdio::own;

impl McpServer {
    /// Serves the one client that started this process, over stdin and stdout, until stdin ends or
    /// SIGTERM or SIGINT comes. Running calls may end then for
    /// [`Limits::shutdown_timeout`](crate::Limits::shutdown_timeout); another signal ends them at
    /// once. Nothing else may write to stdout.
    ///
    /// Takes over both signals for the rest of the process's life.
    ///
    /// ```no_run
    /// # use agent_hub_kit::{McpServer, RawArgs, Tool, ToolContext};
    /// #[tokio::main(flavor = "current_thread")]
    /// async fn main() -> agent_hub_kit::Result<()> {
    ///     let server = McpServer::builder("greeter", "0.1.0")
    ///         .tool(Tool::new("greet"), async |_: RawArgs, _: ToolContext| Ok("hello"))
    ///         .build();
    ///     server.serve_stdio().await
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] for what is wrong with the server itself, [`Error::Transport`] if a
    /// stream breaks. A client that is gone is no error.
    ///
    /// # Cancel safety
    /// Dropping the future ends every call at once.
    pub async fn serve_stdio(&self) -> Result<()> {
        self.check()?;
        let stop = signals().map_err(|e| Error::transport_by("could not watch for signals", e))?;
        let (input, output) = own::streams();
        lines::serve(&self.host, input, output, stop).await
    }

    /// Serves one client over a pipe in memory until it ends.
    pub(crate) async fn serve_lines(
        &self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
    ) -> Result<()> {
        lines::serve(&self.host, input, output, async || pending().await).await
    }
}

/// Waits for SIGTERM or SIGINT, each time it is called.
#[cfg(unix)]
fn signals() -> io::Result<impl AsyncFnMut()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Waits for Ctrl-C, each time it is called.
#[cfg(not(unix))]
fn signals() -> io::Result<impl AsyncFnMut()> {
    Ok(async || {
        if tokio::signal::ctrl_c().await.is_err() {
            pending::<()>().await;
        }
    })
}
