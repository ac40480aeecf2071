//! Opens byte streams to one server.
//!
//! Owns name lookup, the race between a server's addresses and where TLS begins; must not know HTTP.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::super::tls::Trust;
use super::endpoint::{Origin, Scheme};
use crate::error::Error;
use crate::limits::Limits;

/// A byte stream of any kind.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// How a new connection comes about.
pub(super) enum Connector {
    /// From a function, so that tests need no socket.
    InMemory(Box<dyn Fn() -> Result<Box<dyn Io>, Error> + Send + Sync>),
    Tcp {
        origin: Origin,
        /// Bounds the name lookup, all attempts and the start of TLS together.
        timeout: Duration,
        tls: Option<Trust>,
    },
}

impl Connector {
    pub(super) fn tcp(origin: &Origin, trust: &Trust, limits: &Limits) -> Self {
        Self::Tcp {
            origin: origin.clone(),
            timeout: limits.tcp_connect_timeout,
            tls: (origin.scheme == Scheme::Https).then(|| trust.clone()),
        }
    }

    /// # Errors
    /// [`Error::Transport`] names host and port, and has the cause as its source.
    pub(super) async fn connect(&self) -> Result<Box<dyn Io>, Error> {
        match self {
            Self::InMemory(connect) => connect(),
            Self::Tcp {
                origin,
                timeout,
                tls,
            } => {
                bounded(origin, *timeout, "tcp_connect_timeout", async {
                    let stream = reach(origin).await?;
                    // Nagle's algorithm holds a small request back until the last one is
                    // acknowledged. A socket that refuses the option is dead, as its first use
                    // shows.
                    let _ = stream.set_nodelay(true);
                    Ok(match tls {
                        None => Box::new(stream) as Box<dyn Io>,
                        Some(tls) => {
                            let (name, port) = (origin.lookup_name(), origin.port);
                            Box::new(tls.connect(name, port, stream).await?)
                        }
                    })
                })
                .await
            }
        }
    }
}

/// Opens a stream to whichever address of a host answers first; `what` is the name of the limit.
///
/// # Errors
/// Those of [`Connector::connect`].
pub(super) async fn dial(
    origin: &Origin,
    timeout: Duration,
    what: &'static str,
) -> Result<TcpStream, Error> {
    bounded(origin, timeout, what, reach(origin)).await
}

async fn reach(origin: &Origin) -> Result<TcpStream, Error> {
    let attempt = async { race(by_turns(addresses(origin).await?), TcpStream::connect).await };
    attempt
        .await
        .map_err(|error| Error::transport_by(unreached(origin), error))
}

async fn bounded<T>(
    origin: &Origin,
    timeout: Duration,
    limit: &'static str,
    attempt: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let outcome = tokio::time::timeout(timeout, attempt).await;
    outcome.unwrap_or_else(|_| {
        let late = Error::timeout(limit, timeout);
        Err(Error::transport_by(unreached(origin), late))
    })
}

fn unreached(origin: &Origin) -> String {
    format!("could not connect to {}:{}", origin.host(), origin.port)
}

/// What the resolver knows of a host. `localhost` has both loopback addresses whatever it knows
/// (RFC 6761, section 6.3): many hosts files name one of them, and servers bind the other.
async fn addresses(origin: &Origin) -> io::Result<Vec<SocketAddr>> {
    let (name, port) = (origin.lookup_name(), origin.port);
    let found = tokio::net::lookup_host((name, port)).await;
    if name != "localhost" {
        return Ok(found?.collect());
    }
    let mut addresses: Vec<SocketAddr> = found.into_iter().flatten().collect();
    for loopback in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        let address = SocketAddr::new(loopback, port);
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

/// Orders addresses so that the families take turns and the resolver's first choice stays first
/// (RFC 8305, section 4).
fn by_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_ipv4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv4() == first_is_ipv4);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut ordered = Vec::new();
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return ordered;
        }
        ordered.extend(pair.into_iter().flatten());
    }
}

/// Connects to whichever address answers first. An attempt starts when the one before it has
/// failed, or has had its head start; those that lose are dropped.
async fn race<F, T>(addresses: Vec<SocketAddr>, connect: impl Fn(SocketAddr) -> F) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let mut waiting = addresses.into_iter();
    let mut running: Vec<Pin<Box<F>>> = Vec::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut head_start = pin!(tokio::time::sleep(HEAD_START));
    poll_fn(|cx| {
        loop {
            let mut opened = None;
            let before = running.len();
            running.retain_mut(|attempt| match attempt.as_mut().poll(cx) {
                Poll::Pending => true,
                Poll::Ready(Ok(stream)) => {
                    opened = Some(stream);
                    false
                }
                Poll::Ready(Err(error)) => {
                    // That a host refused says more than that another address has no route.
                    if failure.kind() != io::ErrorKind::ConnectionRefused {
                        failure = error;
                    }
                    false
                }
            });
            if let Some(stream) = opened {
                return Poll::Ready(Ok(stream));
            }
            let failed = running.len() < before || before == 0;
            if !failed && head_start.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let Some(address) = waiting.next() else {
                if !running.is_empty() {
                    return Poll::Pending;
                }
                let none = io::Error::from(io::ErrorKind::NotFound);
                return Poll::Ready(Err(std::mem::replace(&mut failure, none)));
            };
            running.push(Box::pin(connect(address)));
            head_start.set(tokio::time::sleep(HEAD_START));
        }
    })
    .await
}

/// The delay that RFC 8305, section 8, recommends between two attempts.
const HEAD_START: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::super::endpoint::Endpoint;
    use super::*;

    #[test]
    fn families_take_turns_and_the_first_stays_first() {
        let table: &[(&[&str], &[&str])] = &[
            (&[], &[]),
            (&["[::1]:1", "1.1.1.1:1"], &["[::1]:1", "1.1.1.1:1"]),
            (
                &["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"],
                &["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"],
            ),
            (
                &["1.1.1.1:1", "1.1.1.2:1", "[::1]:1"],
                &["1.1.1.1:1", "[::1]:1", "1.1.1.2:1"],
            ),
        ];
        for (given, expected) in table {
            let addresses = given.iter().map(|text| text.parse().unwrap()).collect();
            let ordered: Vec<String> = by_turns(addresses).iter().map(|a| a.to_string()).collect();
            assert_eq!(&ordered, expected, "{given:?}");
        }
    }

    fn numbered(count: u16) -> Vec<SocketAddr> {
        (1..=count)
            .map(|port| ([127, 0, 0, 1], port).into())
            .collect()
    }

    fn refused() -> io::Error {
        io::ErrorKind::ConnectionRefused.into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_takes_too_long_names_place_and_limit() {
        use std::error::Error as _;
        let endpoint = Endpoint::parse("http://[::1]:9/").unwrap();
        let never = std::future::pending::<Result<(), Error>>();
        let error = bounded(
            &endpoint.origin,
            Duration::from_secs(1),
            "tcp_connect_timeout",
            never,
        )
        .await;
        let error = error.unwrap_err();
        assert_eq!(error.to_string(), "could not connect to [::1]:9");
        let cause = error.source().unwrap().to_string();
        assert!(cause.contains("tcp_connect_timeout"), "{cause}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_refuses_gives_way_at_once() {
        let winner = race(numbered(3), async |address| match address.port() {
            3 => Ok(address),
            _ => Err(refused()),
        });
        let winner = tokio::time::timeout(HEAD_START / 2, winner).await;
        assert_eq!(winner.unwrap().unwrap().port(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_says_nothing_does_not_eat_the_time() {
        let second = async |address: SocketAddr| match address.port() {
            2 => Ok(address),
            _ => std::future::pending().await,
        };
        let early = tokio::time::timeout(HEAD_START / 2, race(numbered(3), second)).await;
        assert!(early.is_err(), "the first had no head start");
        let winner = tokio::time::timeout(HEAD_START * 2, race(numbered(3), second)).await;
        assert_eq!(winner.unwrap().unwrap().port(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_first_address_still_wins_over_a_slower_one() {
        let winner = race(numbered(2), async |address| {
            tokio::time::sleep(2 * HEAD_START * u32::from(address.port())).await;
            Ok(address)
        });
        assert_eq!(winner.await.unwrap().port(), 1);
    }

    #[tokio::test]
    async fn with_no_address_left_the_most_telling_error_is_told() {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, NotFound};
        // what each address answers, what is told
        let table: [(&[io::ErrorKind], io::ErrorKind); 4] = [
            (&[], NotFound),
            (&[HostUnreachable], HostUnreachable),
            (&[ConnectionRefused, HostUnreachable], ConnectionRefused),
            (&[HostUnreachable, ConnectionRefused], ConnectionRefused),
        ];
        for (kinds, told) in table {
            let addresses = numbered(u16::try_from(kinds.len()).unwrap());
            let outcome = race(addresses, async |address| {
                Err::<(), _>(kinds[usize::from(address.port()) - 1].into())
            });
            assert_eq!(outcome.await.unwrap_err().kind(), told, "{kinds:?}");
        }
    }
}
