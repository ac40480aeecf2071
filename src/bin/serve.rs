//! Serving a specialist until it is told to stop.

use std::io::{self, Write};
use std::pin::pin;

use agent_hub_kit::McpServerBuilder;

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::signals::Signals;

pub(crate) async fn run(
    server: McpServerBuilder,
    port: u16,
    args: ServeArgs,
) -> Result<(), Failure> {
    if args.stdio {
        // It has signals of its own. Whoever started it hears nothing but messages.
        let served = server.build().serve_stdio().await;
        return served.map_err(|e| Failure::serving(e, ""));
    }
    // Before anybody is told that the server is there, so that a signal always finds it ready.
    let mut signals = Signals::listen().map_err(Failure::System)?;
    let mut server = server
        .allowed_hosts(args.allow_hosts)
        .allowed_origins(args.allow_origins);
    let asks_nobody = args.bearer.is_none();
    if let Some(token) = args.bearer {
        server = server.bearer_token(token.into_inner());
    }
    let server = server.build();
    let address = match args.host.contains(':') && !args.host.starts_with('[') {
        true => format!("[{}]:{}", args.host, port),
        false => format!("{}:{}", args.host, port),
    };
    let bound = server
        .bind(address)
        .await
        .map_err(|e| Failure::serving(e, "another --port, or --port 0 for any that is free"))?;
    let _ = writeln!(io::stderr(), "listening on {}", bound.url());
    if asks_nobody && !bound.local_addr().ip().to_canonical().is_loopback() {
        let warning =
            "warning: whoever reaches this address may call; --bearer-env asks for a token";
        let _ = writeln!(io::stderr(), "{warning}");
    }
    let handle = bound.handle();
    let mut serving = pin!(bound.serve());
    loop {
        tokio::select! {
            served = &mut serving => return served.map_err(|e| Failure::serving(e, "")),
            // The second one ends it at once.
            () = signals.recv() => handle.shutdown(),
        }
    }
}
