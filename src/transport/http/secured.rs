//! A server-side connection that begins with TLS.
//!
//! Owns how long that may take, and what a client is told that speaks HTTP in the clear; must not
//! know certificates.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::super::Exchange;
use super::super::tls::ServerTls;
use super::connection::serve_io;
use super::server::{Shutdown, Stage};
use super::service::HttpService;

/// Agrees on TLS and then serves the connection until it ends. A client that does not come so far
/// within `tls_handshake_timeout`, or by the time that the server is told to stop, is hung up: it
/// has not asked anything yet.
///
/// # Cancel safety
/// Dropping the future closes the connection and drops what runs on it.
pub(super) async fn secured<E, Io>(
    io: Io,
    tls: &ServerTls,
    service: HttpService<E>,
    shutdown: &Shutdown,
) where
    E: Exchange,
    Io: AsyncRead + AsyncWrite + Unpin,
{
    let agreed = {
        let bound = service.limits().tls_handshake_timeout;
        let mut agreed = pin!(timeout(bound, async {
            match tls.accept(io).await {
                Ok(io) => Some(io),
                Err(io) => {
                    if let Some(mut io) = io {
                        // Whether it hears that is its own affair.
                        let _ = refuse_clear(&mut io).await;
                    }
                    None
                }
            }
        }));
        let mut draining = pin!(shutdown.reached(Stage::Draining));
        poll_fn(|cx| {
            if draining.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            agreed.as_mut().poll(cx).map(|agreed| agreed.ok().flatten())
        })
        .await
    };
    if let Some(io) = agreed {
        serve_io(io, service, shutdown).await;
    }
}

/// Answers whatever HTTP request comes in the clear, and takes what is left of it, so that the
/// answer is not lost by the close (RFC 9112, "Tear-down").
async fn refuse_clear<Io: AsyncRead + AsyncWrite + Unpin>(io: &mut Io) -> io::Result<()> {
    /// A request in one piece, and no more than that of one that goes on and on.
    const MAX_REST_BYTES: usize = 64 * 1024;
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this port speaks TLS alone: write https:// in the URL"}}"#;
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let mut io = Pin::new(io);
    let mut left = answer.as_bytes();
    poll_fn(|cx| {
        while !left.is_empty() {
            let written = ready!(io.as_mut().poll_write(cx, left))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            left = left.get(written..).unwrap_or_default();
        }
        io.as_mut().poll_shutdown(cx)
    })
    .await?;
    let mut rest = 0;
    poll_fn(|cx| {
        loop {
            match ready!(poll_some(io.as_mut(), cx))? {
                0 => return Poll::Ready(Ok(())),
                read => rest += read,
            }
            if rest > MAX_REST_BYTES {
                return Poll::Ready(Ok(()));
            }
        }
    })
    .await
}

/// Reads some bytes and drops them; zero at the end.
fn poll_some<Io: AsyncRead>(io: Pin<&mut Io>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let mut scrap = [0; 4096];
    let mut buf = ReadBuf::new(&mut scrap);
    ready!(io.poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

#[cfg(test)]
#[cfg(feature = "tls")]
mod tests;
