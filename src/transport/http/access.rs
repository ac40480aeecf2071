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

use crate::error::Error;

/// The rules of one server.
#[derive(Debug, Clone)]
pub(crate) enum Access {
    Checked {
        /// Reached by loopback names only.
        loopback: bool,
        /// `host` or `host:port`, each readable as an [`Authority`].
        hosts: Vec<String>,
        /// As browsers write them, without a default port.
        origins: Vec<String>,
    },
    /// Everybody may ask: the check is off, or browsers cannot reach this server.
    Open,
}

/// Why a request was refused; holds what it asked for, as sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Denied {
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
        Ok(Self::Checked {
            loopback: bind.is_some_and(|address| address.ip().to_canonical().is_loopback()),
            hosts: hosts.to_vec(),
            origins,
        })
    }

    /// Checks one request.
    pub(crate) fn check(
        &self,
        uri: &Uri,
        version: Version,
        headers: &HeaderMap,
    ) -> Result<(), Denied> {
        let host = requested_host(uri, version, headers)?;
        let Self::Checked {
            loopback,
            hosts,
            origins,
        } = self
        else {
            return Ok(());
        };
        if (*loopback || !hosts.is_empty())
            && let Some(host) = host
        {
            let allowed = std::str::from_utf8(host)
                .ok()
                .and_then(Authority::parse)
                .is_some_and(|asked| {
                    *loopback && asked.is_loopback()
                        || hosts
                            .iter()
                            .filter_map(|text| Authority::parse(text))
                            .any(|allowed| allowed.covers(&asked))
                });
            if !allowed {
                return Err(Denied::Host(host.to_vec()));
            }
        }
        for origin in headers.get_all(ORIGIN) {
            let allowed = origin
                .to_str()
                .ok()
                .and_then(plain_origin)
                .is_some_and(|o| {
                    *loopback && is_loopback_origin(o)
                        || origins
                            .iter()
                            .any(|allowed| allowed.eq_ignore_ascii_case(o))
                });
            if !allowed {
                return Err(Denied::Origin(origin.as_bytes().to_vec()));
            }
        }
        Ok(())
    }
}

/// The host that a request names. A target in absolute form outranks the header (RFC 9112,
/// "absolute-form"); HTTP/1.0 may name none, and browsers do not speak it.
fn requested_host<'a>(
    uri: &'a Uri,
    version: Version,
    headers: &'a HeaderMap,
) -> Result<Option<&'a [u8]>, Denied> {
    let mut values = headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
    let host = values.next();
    if values.next().is_some() {
        return Err(Denied::AmbiguousHost);
    }
    if host.is_none() && version == Version::HTTP_11 {
        return Err(Denied::NoHost);
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

fn is_loopback_origin(origin: &str) -> bool {
    origin.split_once("://").is_some_and(|(scheme, rest)| {
        (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
            && Authority::parse(rest).is_some_and(|authority| authority.is_loopback())
    })
}

#[cfg(test)]
mod tests;
