//! Who may ask: the `Host` and `Origin` of a request.
//!
//! Knows names and ports; must not know paths, methods or credentials. A server on a loopback
//! address is within reach of every web page that its user opens: a page that lets its own name
//! resolve to 127.0.0.1 is caught by its `Host`, one that calls across origins by its `Origin`
//! (MCP specification, "Transports", "Security Warning").

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::Version;
use http::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use http::uri::Uri;

use super::cors::Cors;
use crate::error::Error;

/// The rules of one server.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    check: Check,
    /// Reached by loopback names only.
    loopback: bool,
    /// `host` or `host:port`, each readable as an [`Authority`].
    hosts: Vec<String>,
    /// As browsers write them, without a default port.
    origins: Vec<String>,
}

/// What becomes of a request whose host or origin is not among those that are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// It is answered, though no page is let read the answer.
    Off,
    On,
}

/// Why a request was refused; holds what it asked for, as sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Barred {
    AmbiguousHost,
    Host(Vec<u8>),
    NoHost,
    Origin(Vec<u8>),
}

impl Access {
    /// The rules for a server bound to `bind`, or mounted in a server that somebody else bound.
    ///
    /// # Errors
    /// [`Error::Config`] for an entry that no request could ever match.
    pub(crate) fn new(
        check: Check,
        bind: Option<SocketAddr>,
        hosts: &[String],
        origins: &[String],
    ) -> Result<Self, Error> {
        for host in hosts {
            if Authority::parse(host).is_none() {
                return Err(Error::config(format!(
                    "`{host}` in allowed_hosts is no host name: write `example.com` or \
                     `example.com:8080`"
                )));
            }
        }
        let origins = origins
            .iter()
            .map(|origin| match plain_origin(origin.trim_end_matches('/')) {
                Some(plain) => Ok(plain.to_owned()),
                None => Err(Error::config(format!(
                    "`{origin}` in allowed_origins is no origin: write `https://example.com`"
                ))),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            check,
            loopback: bind.is_some_and(|address| address.ip().to_canonical().is_loopback()),
            hosts: hosts.to_vec(),
            origins,
        })
    }

    /// The rules where no browser comes: everybody may ask.
    pub(crate) fn open() -> Self {
        Self {
            check: Check::Off,
            loopback: false,
            hosts: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// Checks one request, and says what the page that it comes from may see of the answer.
    pub(crate) fn check(
        &self,
        uri: &Uri,
        version: Version,
        headers: &HeaderMap,
    ) -> Result<Cors, Barred> {
        let host = requested_host(uri, version, headers)?;
        if self.check == Check::On
            && let Some(host) = host
            && !self.allows_host(host)
        {
            return Err(Barred::Host(host.to_vec()));
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(first) = origins.next() else {
            return Ok(match self.origins.is_empty() {
                true => Cors::Off,
                false => Cors::NotAsked,
            });
        };
        let is_alone = origins.next().is_none();
        for origin in headers.get_all(ORIGIN) {
            if !self.allows_origin(origin) {
                return match self.check {
                    Check::Off => Ok(Cors::NotAsked),
                    Check::On => Err(Barred::Origin(origin.as_bytes().to_vec())),
                };
            }
        }
        // Pages of this machine may send what browsers send unasked, as any program here may. To
        // read the answers takes being named.
        Ok(match is_alone && self.names(first) {
            true => Cors::Granted(first.clone()),
            false => Cors::NotAsked,
        })
    }

    fn allows_host(&self, host: &[u8]) -> bool {
        if !self.loopback && self.hosts.is_empty() {
            return true;
        }
        let asked = std::str::from_utf8(host).ok().and_then(Authority::parse);
        asked.is_some_and(|asked| {
            let listed = || self.hosts.iter().filter_map(|text| Authority::parse(text));
            self.loopback && asked.is_loopback() || listed().any(|allowed| allowed.covers(&asked))
        })
    }

    fn allows_origin(&self, origin: &HeaderValue) -> bool {
        self.loopback && plain_text(origin).is_some_and(is_loopback_origin) || self.names(origin)
    }

    /// True if the user named it.
    fn names(&self, origin: &HeaderValue) -> bool {
        plain_text(origin).is_some_and(|origin| {
            let mut named = self.origins.iter();
            named.any(|named| named.eq_ignore_ascii_case(origin))
        })
    }
}

/// The host that a request names. A target in absolute form outranks the header (RFC 9112,
/// "absolute-form"); HTTP/1.0 may name none, and browsers do not speak it.
fn requested_host<'a>(
    uri: &'a Uri,
    version: Version,
    headers: &'a HeaderMap,
) -> Result<Option<&'a [u8]>, Barred> {
    let mut values = headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
    let host = values.next();
    if values.next().is_some() {
        return Err(Barred::AmbiguousHost);
    }
    if host.is_none() && version == Version::HTTP_11 {
        return Err(Barred::NoHost);
    }
    Ok(uri.authority().map(|a| a.as_str().as_bytes()).or(host))
}

/// `host[:port]`, taken apart.
struct Authority<'a> {
    host: HostName<'a>,
    port: Option<u16>,
}

enum HostName<'a> {
    Address(IpAddr),
    /// Without the dot that may end a full name.
    Name(&'a str),
}

impl<'a> Authority<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Some(Self {
                host: HostName::Address(address.into()),
                port: None,
            });
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                let address = address.parse::<Ipv6Addr>().ok()?;
                let port = match rest {
                    "" => "",
                    rest => rest.strip_prefix(':')?,
                };
                (HostName::Address(address.into()), port)
            }
            None => {
                let (name, port) = text.split_once(':').unwrap_or((text, ""));
                let name = name.strip_suffix('.').unwrap_or(name);
                let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
                if name.is_empty() || !name.bytes().all(is_name) {
                    return None;
                }
                match name.parse::<IpAddr>() {
                    Ok(address) => (HostName::Address(address), port),
                    Err(_) => (HostName::Name(name), port),
                }
            }
        };
        let port = match port {
            "" => None,
            // `parse` alone takes a sign.
            digits if digits.bytes().all(|b| b.is_ascii_digit()) => Some(digits.parse().ok()?),
            _ => return None,
        };
        Some(Self { host, port })
    }

    fn is_loopback(&self) -> bool {
        match self.host {
            HostName::Address(address) => address.to_canonical().is_loopback(),
            HostName::Name(name) => name.eq_ignore_ascii_case("localhost"),
        }
    }

    /// True if an entry of the allow list admits `asked`: without a port it admits any.
    fn covers(&self, asked: &Authority<'_>) -> bool {
        let same_host = match (&self.host, &asked.host) {
            (HostName::Address(a), HostName::Address(b)) => a == b,
            (HostName::Name(a), HostName::Name(b)) => a.eq_ignore_ascii_case(b),
            _ => false,
        };
        same_host && (self.port.is_none() || self.port == asked.port)
    }
}

/// An origin without its default port; `None` if it is none, as the `null` of a sandboxed page.
fn plain_origin(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    if scheme.is_empty() || rest.is_empty() || rest.contains(['/', ' ', '*']) {
        return None;
    }
    let default_port = match scheme {
        s if s.eq_ignore_ascii_case("http") => ":80",
        s if s.eq_ignore_ascii_case("https") => ":443",
        _ => return Some(text),
    };
    Authority::parse(rest)?;
    Some(text.strip_suffix(default_port).unwrap_or(text))
}

fn plain_text(origin: &HeaderValue) -> Option<&str> {
    origin.to_str().ok().and_then(plain_origin)
}

fn is_loopback_origin(origin: &str) -> bool {
    origin.split_once("://").is_some_and(|(scheme, rest)| {
        (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
            && Authority::parse(rest).is_some_and(|authority| authority.is_loopback())
    })
}

#[cfg(test)]
mod tests;
