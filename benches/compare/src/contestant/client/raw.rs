//! A client that only reads: it counts the lines that a stream has.

use futures_util::future::try_join_all;
use memchr::memchr_iter;

use super::Tally;
use crate::load::http::Connection;
use crate::{Outcome, wire};

/// The end of a body in chunks.
const END: &[u8] = b"\r\n0\r\n\r\n";

pub(super) async fn stream(address: &str, args: wire::Stream) -> Outcome<Vec<f64>> {
    let mut connection = Connection::open(address).await?;
    connection.handshake().await?;
    call(&mut connection, args, args.n / 10).await?;
    let tally = call(&mut connection, args, args.n).await?;
    tally.figures(args)
}

async fn call(connection: &mut Connection, args: wire::Stream, n: u64) -> Outcome<Tally> {
    let mut tally = Tally::new(args.size);
    let (mut lines, mut tail) = (0, Vec::new());
    let request = wire::raw_stream(1, n, args.size, args.chunk);
    connection.post(&request).await?;
    connection
        .raw(|bytes| {
            lines += memchr_iter(b'\n', bytes).count() as u64;
            tail.extend_from_slice(&bytes[bytes.len().saturating_sub(END.len())..]);
            tail.drain(..tail.len().saturating_sub(END.len()));
            tail == END
        })
        .await?;
    // An event has three lines, the chunk that it is in two more.
    if lines < 3 * n {
        return Err(format!("{lines} lines for {n} events").into());
    }
    tally.events = n;
    tally.result("done");
    Ok(tally)
}

pub(super) async fn connect(
    addresses: &[&str],
    discovers: bool,
) -> Outcome<(usize, Vec<Connection>)> {
    let connected = try_join_all(addresses.iter().map(|address| async move {
        let mut connection = Connection::open(address).await?;
        if discovers {
            connection.discover().await?;
        } else {
            connection.handshake().await?;
        }
        Outcome::Ok((connection.tools().await?, connection))
    }));
    let (tools, connections): (Vec<usize>, _) = connected.await?.into_iter().unzip();
    Ok((tools.iter().sum(), connections))
}
