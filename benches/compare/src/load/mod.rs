//! What contestants are put under, one function for each kind of row. Each starts its contestant,
//! warms it up and gives one value for each figure of the row.

mod check;
pub(crate) mod http;
mod stdio;

use std::time::Instant;

use futures_util::future::try_join_all;
use tokio::task::{JoinHandle, yield_now};

use crate::child::{Contestant, LOAD, MEASURED};
use crate::{Outcome, clock, wire};
use check::{Arrival, Check};
use http::Connection;

/// Calls of `stream` over HTTP, `calls` at once, `n` events in all: CPU s a million, events/s.
pub(crate) async fn http_events(name: &str, n: u64, size: usize, calls: u64) -> Outcome<Vec<f64>> {
    let (server, addresses) = Contestant::serve(MEASURED, &["server", "http", name]).await?;
    let mut connections = vec![open(&addresses).await?];
    for _ in 1..calls {
        connections.push(connections[0].another().await?);
    }
    let each = n / calls;
    http_calls(&mut connections, each / 10 + 1, size).await?;
    let _awake = Awake::stay();
    let (cpu, started) = (server.cpu()?, Instant::now());
    http_calls(&mut connections, each, size).await?;
    let (cpu, took) = (server.cpu()? - cpu, started.elapsed().as_secs_f64());
    let n = (each * calls) as f64;
    Ok(vec![cpu * 1e6 / n, n / took])
}

async fn http_calls(connections: &mut [Connection], n: u64, size: usize) -> Outcome {
    let calls = (1..).zip(connections).map(|(id, connection)| async move {
        let mut check = Check::sized(size);
        connection
            .post(&wire::stream(id, "stream", n, size, 0))
            .await?;
        connection.events(&mut check).await?;
        check.finish(n).map(drop)
    });
    try_join_all(calls).await.map(drop)
}

/// `n` calls of `echo` over 16 connections: CPU us a call, calls/s.
pub(crate) async fn http_echo(name: &str, n: u64) -> Outcome<Vec<f64>> {
    const CONNECTIONS: u64 = 16;
    let (server, addresses) = Contestant::serve(MEASURED, &["server", "http", name]).await?;
    let mut connections = vec![open(&addresses).await?];
    for _ in 1..CONNECTIONS {
        connections.push(connections[0].another().await?);
    }
    let each = n / CONNECTIONS;
    echoes(&mut connections, each / 10 + 1).await?;
    let _awake = Awake::stay();
    let (cpu, started) = (server.cpu()?, Instant::now());
    echoes(&mut connections, each).await?;
    let (cpu, took) = (server.cpu()? - cpu, started.elapsed().as_secs_f64());
    let n = (each * CONNECTIONS) as f64;
    Ok(vec![cpu * 1e6 / n, n / took])
}

async fn echoes(connections: &mut [Connection], n: u64) -> Outcome {
    let calls = (0..)
        .zip(connections)
        .map(|(first, connection)| async move {
            for id in first * n..(first + 1) * n {
                connection.echo(id).await?;
            }
            Outcome::Ok(())
        });
    try_join_all(calls).await.map(drop)
}

/// Calls of a tool that gives a token each 5 ms: us to the first, without the work that it took, and
/// us that a token takes, both medians.
pub(crate) async fn pace(name: &str, runtime: &str, tool: &str, calls: u64) -> Outcome<Vec<f64>> {
    const EACH: u64 = 10;
    const INTERVAL_US: u64 = 5_000;
    let work_us = if tool == "compute" { INTERVAL_US } else { 0 };
    let role = ["server", "http", name, runtime];
    let (_server, addresses) = Contestant::serve(MEASURED, &role).await?;
    let mut connection = open(&addresses).await?;
    let (mut firsts, mut lags) = (Vec::new(), Vec::new());
    // The first call is there to warm up.
    for id in 0..=calls {
        let request = wire::stream(id, tool, EACH, 1, INTERVAL_US);
        let (mut check, posted) = (Check::timed(), clock::wall_ns());
        connection.post(&request).await?;
        connection.events(&mut check).await?;
        let arrivals = check.finish(EACH)?;
        if id > 0 {
            let lag = |arrival: &Arrival| arrival.came.saturating_sub(arrival.sent) as f64 / 1e3;
            lags.extend(arrivals.iter().map(lag));
            let first = arrivals.first().ok_or("no event came")?.came - posted;
            firsts.push(first as f64 / 1e3 - work_us as f64);
        }
    }
    Ok(vec![median(firsts), median(lags)])
}

/// One call of `stream` over stdio: CPU s a million, events/s.
pub(crate) async fn stdio_events(name: &str, n: u64, size: usize) -> Outcome<Vec<f64>> {
    let mut server = Contestant::start(MEASURED, &["server", "stdio", name])?;
    let mut link = stdio::Link::open(&mut server).await?;
    let mut figures = Vec::new();
    for n in [n / 10, n] {
        let mut check = Check::sized(size);
        let (cpu, started) = (server.cpu()?, Instant::now());
        let request = wire::stream(n, "stream", n, size, 0);
        link.events(&request, &mut check).await?;
        let (cpu, took) = (server.cpu()? - cpu, started.elapsed().as_secs_f64());
        check.finish(n)?;
        figures = vec![cpu * 1e6 / n as f64, n as f64 / took];
    }
    Ok(figures)
}

/// `n` calls of `echo` over stdio, some at once: calls/s.
pub(crate) async fn stdio_echo(name: &str, n: u64, inflight: u64) -> Outcome<Vec<f64>> {
    let mut server = Contestant::start(MEASURED, &["server", "stdio", name])?;
    let mut link = stdio::Link::open(&mut server).await?;
    link.echo(n / 10, inflight).await?;
    Ok(vec![n as f64 / link.echo(n, inflight).await?])
}

/// A client that reads one call's stream from a raw server.
pub(crate) async fn client(name: &str, n: u64, size: usize, chunk: usize) -> Outcome<Vec<f64>> {
    let (_server, addresses) = Contestant::serve(LOAD, &["server", "http", "raw"]).await?;
    let address = addresses.first().ok_or("no address")?;
    let [n, size, chunk] = [n.to_string(), size.to_string(), chunk.to_string()];
    let role = ["client", "stream", name, address, &n, &size, &chunk];
    Contestant::figures(MEASURED, &role).await
}

/// A client that connects to 100 raw servers, in its own way or with the handshake.
pub(crate) async fn connect(name: &str, scenario: &str) -> Outcome<Vec<f64>> {
    let role = ["server", "http", "raw", "single", "100"];
    let (_server, addresses) = Contestant::serve(LOAD, &role).await?;
    let mut role = vec!["client", scenario, name];
    role.extend(addresses.iter().map(String::as_str));
    Contestant::figures(MEASURED, &role).await
}

/// A client of a raw stdio server, which it starts itself.
pub(crate) async fn stdio_client(name: &str, scenario: &str, args: Vec<u64>) -> Outcome<Vec<f64>> {
    let args: Vec<String> = args.iter().map(u64::to_string).collect();
    let mut role = vec!["client", scenario, name];
    role.extend(args.iter().map(String::as_str));
    Contestant::figures(MEASURED, &role).await
}

/// Keeps the load from sleeping. A server that is slower than the load would else pay for waking it
/// at each write, which costs more than the write on a virtual machine, and a faster one would not.
struct Awake(JoinHandle<()>);

impl Awake {
    fn stay() -> Self {
        Self(tokio::spawn(async {
            loop {
                yield_now().await;
            }
        }))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn open(addresses: &[String]) -> Outcome<Connection> {
    let mut connection = Connection::open(addresses.first().ok_or("no address")?).await?;
    connection.handshake().await?;
    // A wrong answer shows before anything is timed.
    connection.echo(1).await?;
    Ok(connection)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    values.get(middle).copied().unwrap_or(f64::NAN)
}
