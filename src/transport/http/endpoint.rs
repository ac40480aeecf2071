//! Where a link leads: the configured URL, and where a redirect may take a request from there.
//!
//! Owns the text of URLs; must not know connections. No text that leaves this file holds a query,
//! user name or password.

use http::HeaderValue;
use http::uri::{PathAndQuery, Uri};

use super::super::tls;
use crate::error::Error;

/// The server and the path that one link talks to.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) origin: Origin,
    /// As configured, slash and query included; not shown, since a query may hold a key.
    pub(super) path: PathAndQuery,
    pub(super) host_header: HeaderValue,
    /// The URL without its query.
    pub(super) shown: Box<str>,
}

/// Whom credentials may be sent to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) scheme: Scheme,
    /// In lower case; an IPv6 address in its brackets.
    host: Box<str>,
    pub(super) port: u16,
}

/// How bytes go to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Endpoint {
    /// Takes a configured URL.
    ///
    /// # Errors
    /// [`Error::Config`] says what is wrong with it and what to write instead.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let shown = shown(url);
        // What of a broken URL is a password cannot be told.
        let named = match url.contains('@') {
            true => "the URL".to_owned(),
            false => format!("the URL `{shown}`"),
        };
        let bad = |why: &str| Error::config(format!("{named} cannot be used: {why}"));
        let Some((scheme, _)) = url.split_once("://") else {
            return Err(bad("write it in full, as in http://127.0.0.1:8001/mcp"));
        };
        match Scheme::parse(scheme) {
            Some(Scheme::Http) => {}
            Some(Scheme::Https) => tls::check().map_err(bad)?,
            None => return Err(bad("its scheme is neither http nor https")),
        }
        let uri: Uri = url.parse().map_err(|error| bad(&format!("{error}")))?;
        let origin = Origin::of(&uri).map_err(bad)?;
        let host_header = origin.to_string();
        Ok(Self {
            host_header: HeaderValue::try_from(host_header)
                .map_err(|_| bad("its host does not fit in a header"))?,
            path: path_of(&uri),
            origin,
            shown: shown.into(),
        })
    }

    /// The path to ask next when a request for `from` was redirected to `location`; `None` if that
    /// is no place of this origin.
    pub(super) fn follow(&self, from: &PathAndQuery, location: &str) -> Option<PathAndQuery> {
        let location = location.split('#').next().unwrap_or_default();
        let absolute = match location.strip_prefix("//") {
            Some(rest) => format!("{}://{rest}", self.origin.scheme.as_str()),
            None if has_scheme(location) => location.to_owned(),
            None => return resolve(from, location).parse().ok(),
        };
        let uri: Uri = absolute.parse().ok()?;
        (Origin::of(&uri).ok()? == self.origin).then(|| path_of(&uri))
    }
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        [Self::Http, Self::Https]
            .into_iter()
            .find(|scheme| text.eq_ignore_ascii_case(scheme.as_str()))
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Where a URL leads that names no port.
    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Origin {
    fn of(uri: &Uri) -> Result<Self, &'static str> {
        let scheme = uri
            .scheme_str()
            .and_then(Scheme::parse)
            .ok_or("its scheme is neither http nor https")?;
        let authority = uri.authority().ok_or("it names no host")?;
        if authority.as_str().contains('@') {
            return Err(
                "it holds credentials; take them out and set a header instead, such as Authorization",
            );
        }
        let host = authority.host();
        if host.is_empty() {
            return Err("it names no host");
        }
        let literal = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        if literal.is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_err()) {
            return Err("there is no IPv6 address between its brackets");
        }
        let port = match authority.as_str().get(host.len()..) {
            None | Some("" | ":") => scheme.port(),
            Some(rest) => rest
                .strip_prefix(':')
                .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .filter(|port| *port != 0)
                .ok_or("its port is not a number from 1 to 65535")?,
        };
        Ok(Self {
            scheme,
            host: host.to_ascii_lowercase().into(),
            port,
        })
    }

    /// The host as in a URL: an IPv6 address in its brackets.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The host for a name lookup: an IPv6 address without its brackets.
    pub(super) fn lookup_name(&self) -> &str {
        self.host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(&self.host)
    }
}

/// As in a `Host` header: the port only if it is not the scheme's own.
impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            port if port == self.scheme.port() => f.write_str(&self.host),
            port => write!(f, "{}:{port}", self.host),
        }
    }
}

/// A URL as it may stand in an error text: nothing after the path, no user name or password, no
/// control character, and not too long.
pub(super) fn shown(url: &str) -> String {
    const MAX_CHARS: usize = 200;
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match url.find("//") {
        Some(at) => url.split_at(at + 2),
        None => ("", url),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    [scheme, host, path]
        .iter()
        .flat_map(|part| part.chars())
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_CHARS)
        .collect()
}

fn path_of(uri: &Uri) -> PathAndQuery {
    uri.path_and_query()
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/"))
}

/// RFC 3986, section 4.2: a colon before any slash or question mark ends a scheme.
fn has_scheme(reference: &str) -> bool {
    reference
        .split(['/', '?'])
        .next()
        .is_some_and(|first| first.contains(':'))
}

/// A reference without scheme and host against the path that it was found at (RFC 3986, section
/// 5.2.2).
fn resolve(from: &PathAndQuery, reference: &str) -> String {
    let (path, query) = reference.split_at(reference.find('?').unwrap_or(reference.len()));
    let path = if path.is_empty() {
        if query.is_empty() {
            return from.to_string();
        }
        from.path().to_owned()
    } else if path.starts_with('/') {
        path.to_owned()
    } else {
        let folder = from
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        format!("{folder}/{path}")
    };
    without_dots(&path) + query
}

/// RFC 3986, section 5.2.4, for a path that begins with a slash.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            name => kept.push(name),
        }
    }
    let mut clean = format!("/{}", kept.join("/"));
    if (path.ends_with("/.") || path.ends_with("/..")) && !clean.ends_with('/') {
        clean.push('/');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_verbatim() {
        // URL, lookup name, port, path and query, Host header
        let table = [
            (
                "http://127.0.0.1:8001/mcp",
                "127.0.0.1",
                8001,
                "/mcp",
                "127.0.0.1:8001",
            ),
            ("http://h/mcp/", "h", 80, "/mcp/", "h"),
            ("http://h:80/a//b?k=1&l", "h", 80, "/a//b?k=1&l", "h"),
            ("HTTP://LocalHost:9", "localhost", 9, "/", "localhost:9"),
            ("http://[::1]:8001/mcp", "::1", 8001, "/mcp", "[::1]:8001"),
            ("http://[::1]", "::1", 80, "/", "[::1]"),
            ("http://h:/x", "h", 80, "/x", "h"),
            ("http://h?k=1", "h", 80, "/?k=1", "h"),
        ];
        for (url, name, port, path, host) in table {
            let endpoint = Endpoint::parse(url).unwrap_or_else(|e| panic!("{url}: {e}"));
            assert_eq!(endpoint.origin.lookup_name(), name, "{url}");
            assert_eq!(endpoint.origin.port, port, "{url}");
            assert_eq!(endpoint.path.to_string(), path, "{url}");
            assert_eq!(endpoint.host_header, host, "{url}");
        }
    }

    #[test]
    fn a_bad_url_is_told_apart() {
        let table = [
            ("", "write it in full"),
            ("localhost:8001/mcp", "write it in full"),
            ("ftp://h/mcp", "its scheme is neither http nor https"),
            ("http://", "`http://` cannot be used"),
            ("http:///mcp", "`http:///mcp` cannot be used"),
            ("http://h:99999/", "its port is not a number"),
            ("http://h:0/", "its port is not a number"),
            ("http://h:+1/", "its port is not a number"),
            ("http://a b/", "cannot be used"),
            ("http://[::g]/", "cannot be used"),
            ("http://[::1/", "cannot be used"),
            ("http://me:secret@h/mcp", "set a header instead"),
            ("http://me@h/mcp?key=secret", "set a header instead"),
            ("http:/me:secret@h/", "write it in full"),
            ("http://me:secret/1@h/", "its port is not a number"),
        ];
        for (url, part) in table {
            let error = Endpoint::parse(url).expect_err(url);
            assert!(matches!(error, Error::Config { .. }), "{url}");
            let text = error.to_string();
            assert!(text.contains(part), "{url}: {text}");
            assert!(!text.contains("secret") && !text.contains("me:"), "{text}");
        }
    }

    #[test]
    fn https_is_taken_where_there_is_tls() {
        match (tls::check(), Endpoint::parse("HTTPS://Api.example/v1")) {
            (Ok(()), endpoint) => {
                let endpoint = endpoint.unwrap();
                assert_eq!(endpoint.origin.port, 443);
                assert_eq!(endpoint.host_header, "api.example");
                let next = |location| endpoint.follow(&endpoint.path, location);
                assert!(next("//api.example:443/a").is_some());
                assert!(next("http://api.example:443/a").is_none());
                assert!(next("http://api.example/a").is_none());
                let other = Endpoint::parse("https://h:80/").unwrap();
                assert_eq!(other.host_header, "h:80");
            }
            (Err(why), endpoint) => {
                let text = endpoint.unwrap_err().to_string();
                assert!(text.contains(why) && why.contains("`tls`"), "{text}");
            }
        }
    }

    #[test]
    fn a_redirect_is_followed_within_the_origin_only() {
        let endpoint = Endpoint::parse("http://h:8001/a/mcp?k=1").unwrap();
        let table = [
            ("/mcp/", Some("/mcp/")),
            ("/mcp?k=2", Some("/mcp?k=2")),
            ("mcp/", Some("/a/mcp/")),
            ("./x", Some("/a/x")),
            ("../x/../y", Some("/y")),
            ("..", Some("/")),
            ("b/..", Some("/a/")),
            ("../../../z", Some("/z")),
            ("?k=2", Some("/a/mcp?k=2")),
            ("", Some("/a/mcp?k=1")),
            ("#top", Some("/a/mcp?k=1")),
            ("http://h:8001/b?x=/../y", Some("/b?x=/../y")),
            ("http://H:8001", Some("/")),
            ("//h:8001/b", Some("/b")),
            ("/b?to=http://other/", Some("/b?to=http://other/")),
            ("http://h:8002/b", None),
            ("http://h/b", None),
            ("https://h:8001/b", None),
            ("http://me@h:8001/b", None),
            ("//other/b", None),
            ("http://h:8001.evil.example/", None),
            ("mailto:a@b", None),
            ("/a b", None),
        ];
        for (location, expected) in table {
            let next = endpoint.follow(&endpoint.path, location);
            let next = next.as_ref().map(PathAndQuery::as_str);
            assert_eq!(next, expected, "`{location}`");
        }
    }

    #[test]
    fn a_shown_url_holds_no_secret() {
        let table = [
            ("http://u:p@h/mcp?k=1#f", "http://h/mcp"),
            ("u:p@h/mcp", "h/mcp"),
            ("/a/b?k", "/a/b"),
            ("http://h/a@b", "http://h/a@b"),
            ("http://h/a\r\nb", "http://h/a  b"),
        ];
        for (url, text) in table {
            assert_eq!(shown(url), text, "{url}");
        }
    }
}
