use super::*;

fn access(bind: &str, hosts: &[&str], origins: &[&str]) -> Access {
    let owned = |list: &[&str]| list.iter().map(|&s| s.to_owned()).collect::<Vec<_>>();
    Access::new(
        Check::On,
        Some(bind.parse().unwrap()),
        &owned(hosts),
        &owned(origins),
    )
    .unwrap()
}

fn ask(access: &Access, headers: &[(http::HeaderName, &str)]) -> Result<(), Barred> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    grant(access, &map).map(drop)
}

fn grant(access: &Access, headers: &HeaderMap) -> Result<Cors, Barred> {
    access.check(&Uri::from_static("/mcp"), Version::HTTP_11, headers)
}

const LOOPBACK: &str = "127.0.0.1:8001";
const ANY: &str = "0.0.0.0:8001";

// Covers R-1702.
#[test]
fn a_loopback_bind_takes_loopback_names_and_the_allowed_hosts() {
    let allowed = [
        "mcp.example.com",
        "ported.example.com:8443",
        "10.0.0.7",
        "[fe80::1]:80",
    ];
    for (host, taken) in [
        ("127.0.0.1", true),
        ("127.0.0.1:8001", true),
        ("127.0.0.1:1", true),
        ("127.8.9.10", true),
        ("localhost", true),
        ("localhost:", true),
        ("LOCALHOST:8001", true),
        ("localhost.", true),
        ("LocalHost.:9", true),
        ("[::1]", true),
        ("[::1]:8001", true),
        ("[0:0:0:0:0:0:0:1]:8001", true),
        ("[::ffff:127.0.0.1]", true),
        ("mcp.example.com", true),
        ("MCP.Example.com:443", true),
        ("mcp.example.com.:443", true),
        ("ported.example.com:8443", true),
        ("ported.example.com", false),
        ("ported.example.com:443", false),
        ("10.0.0.7:1", true),
        ("[fe80::1]:80", true),
        ("[fe80::1]:81", false),
        ("evil.example", false),
        ("127.0.0.1.evil.example", false),
        ("localhost.evil.example", false),
        ("evil.example#localhost", false),
        ("user@localhost", false),
        ("localhost:80:80", false),
        ("localhost:+80", false),
        ("localhost:80000", false),
        ("localhost..", false),
        ("localhost\u{e9}", false),
        ("[::1", false),
        ("[::1]x", false),
        ("[localhost]", false),
        ("0.0.0.0", false),
        ("127.1", false),
        ("2130706433", false),
        ("", false),
        (".", false),
    ] {
        let expected = match taken {
            true => Ok(()),
            false => Err(Barred::Host(host.as_bytes().to_vec())),
        };
        for bind in [LOOPBACK, "[::1]:8001", "127.3.2.1:0"] {
            let found = ask(&access(bind, &allowed, &[]), &[(HOST, host)]);
            assert_eq!(found, expected, "Host `{host}` at {bind}");
        }
    }
}

#[test]
fn another_bind_checks_the_host_only_against_a_list() {
    for (hosts, host, taken) in [
        (&[][..], "anything.example", true),
        (&[], "", true),
        (&["mcp.example.com"], "mcp.example.com:1", true),
        (&["mcp.example.com"], "localhost", false),
        (&["mcp.example.com"], "evil.example", false),
    ] {
        let found = ask(&access(ANY, hosts, &[]), &[(HOST, host)]).is_ok();
        assert_eq!(found, taken, "{hosts:?}, Host `{host}`");
    }
    let mounted = Access::new(Check::On, None, &[], &[]).unwrap();
    assert_eq!(ask(&mounted, &[(HOST, "any.example")]), Ok(()));
}

// Covers R-1701.
#[test]
fn an_origin_is_checked_when_there_is_one() {
    let allowed = [
        "http://app.example",
        "HTTPS://Other.example:8443/",
        "tauri://localhost",
    ];
    for (origin, loopback, any) in [
        ("http://localhost", true, false),
        ("http://localhost:3000", true, false),
        ("https://127.0.0.1:1", true, false),
        ("http://[::1]:5173", true, false),
        ("HTTP://LOCALHOST", true, false),
        ("http://app.example", true, true),
        ("http://APP.example:80", true, true),
        ("http://app.example:8080", false, false),
        ("https://app.example", false, false),
        ("https://other.example:8443", true, true),
        ("tauri://localhost", true, true),
        ("app://localhost", false, false),
        ("http://evil.example", false, false),
        ("http://localhost.evil.example", false, false),
        ("http://localhost/", false, false),
        ("http://localhost@evil.example", false, false),
        ("localhost", false, false),
        ("null", false, false),
        ("", false, false),
        ("http://", false, false),
        ("http://localhost\u{e9}", false, false),
    ] {
        for (bind, taken) in [(LOOPBACK, loopback), (ANY, any)] {
            let found = ask(
                &access(bind, &[], &allowed),
                &[(HOST, "localhost"), (ORIGIN, origin)],
            );
            let expected = match taken {
                true => Ok(()),
                false => Err(Barred::Origin(origin.as_bytes().to_vec())),
            };
            assert_eq!(found, expected, "Origin `{origin}` at {bind}");
        }
    }
}

// Covers R-1701.
#[test]
fn each_of_several_origins_must_be_allowed() {
    let found = ask(
        &access(LOOPBACK, &[], &[]),
        &[
            (HOST, "localhost"),
            (ORIGIN, "http://localhost"),
            (ORIGIN, "http://evil.example"),
        ],
    );
    assert_eq!(found, Err(Barred::Origin(b"http://evil.example".to_vec())));
}

#[test]
fn a_host_is_named_exactly_once() {
    let access = access(LOOPBACK, &[], &[]);
    assert_eq!(ask(&access, &[]), Err(Barred::NoHost));
    let twice = [(HOST, "localhost"), (HOST, "localhost")];
    assert_eq!(ask(&access, &twice), Err(Barred::AmbiguousHost));
    assert_eq!(ask(&Access::open(), &[]), Err(Barred::NoHost));
    let old = access.check(
        &Uri::from_static("/mcp"),
        Version::HTTP_10,
        &HeaderMap::new(),
    );
    assert_eq!(old, Ok(Cors::Off));
}

#[test]
fn an_absolute_target_outranks_the_header() {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("localhost"));
    let evil = Uri::from_static("http://evil.example/mcp");
    let found = access(LOOPBACK, &[], &[]).check(&evil, Version::HTTP_11, &headers);
    assert_eq!(found, Err(Barred::Host(b"evil.example".to_vec())));
}

#[test]
fn an_open_server_lets_everybody_ask() {
    let headers = [(HOST, "evil.example"), (ORIGIN, "null")];
    assert_eq!(ask(&Access::open(), &headers), Ok(()));
}

#[test]
fn an_entry_that_could_never_match_is_refused() {
    for host in [
        "",
        "*",
        "*.example.com",
        "http://example.com",
        "example.com/",
        "a:b",
        "a b",
    ] {
        let found = Access::new(Check::On, None, &[host.to_owned()], &[]);
        assert!(matches!(found, Err(Error::Config { .. })), "host `{host}`");
    }
    for origin in [
        "",
        "*",
        "null",
        "example.com",
        "https://",
        "https://a/b",
        "https://*.a",
    ] {
        let found = Access::new(Check::On, None, &[], &[origin.to_owned()]);
        assert!(
            matches!(found, Err(Error::Config { .. })),
            "origin `{origin}`"
        );
    }
}

fn origin(origins: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("localhost"));
    for origin in origins {
        headers.append(ORIGIN, HeaderValue::from_str(origin).unwrap());
    }
    headers
}

// Covers R-1701.
#[test]
fn an_answer_is_for_the_page_that_is_named_and_alone() {
    let granted = |origin: &'static str| Ok(Cors::Granted(HeaderValue::from_static(origin)));
    let barred = |origin: &str| Err(Barred::Origin(origin.as_bytes().to_vec()));
    let listed = &["https://app.example"][..];
    let unchecked = |bind: &str, origins: &[&str]| {
        let origins: Vec<_> = origins.iter().map(|&o| o.to_owned()).collect();
        Access::new(Check::Off, Some(bind.parse().unwrap()), &[], &origins).unwrap()
    };
    for (case, access, sent, expected) in [
        (
            "no page",
            access(LOOPBACK, &[], &[]),
            &[][..],
            Ok(Cors::Off),
        ),
        (
            "no page, listed",
            access(ANY, &[], listed),
            &[],
            Ok(Cors::NotAsked),
        ),
        (
            "no page, none listed",
            access(ANY, &[], &[]),
            &[],
            Ok(Cors::Off),
        ),
        (
            "local",
            access(LOOPBACK, &[], listed),
            &["http://localhost:5173"],
            Ok(Cors::NotAsked),
        ),
        (
            "local, listed",
            access(LOOPBACK, &[], &["http://localhost:5173"]),
            &["http://localhost:5173"],
            granted("http://localhost:5173"),
        ),
        (
            "local, elsewhere",
            access(ANY, &[], listed),
            &["http://localhost:5173"],
            barred("http://localhost:5173"),
        ),
        (
            "as it was sent",
            access(ANY, &[], &["https://APP.example:443/"]),
            &["https://app.example:443"],
            granted("https://app.example:443"),
        ),
        (
            "two",
            access(LOOPBACK, &[], listed),
            &["http://localhost", "https://app.example"],
            Ok(Cors::NotAsked),
        ),
        (
            "unchecked, listed",
            unchecked(ANY, listed),
            &["https://app.example"],
            granted("https://app.example"),
        ),
        (
            "unchecked, local",
            unchecked(LOOPBACK, &[]),
            &["http://localhost"],
            Ok(Cors::NotAsked),
        ),
        (
            "unchecked, another",
            unchecked(LOOPBACK, listed),
            &["https://other.example"],
            Ok(Cors::NotAsked),
        ),
        (
            "open",
            Access::open(),
            &["http://localhost"],
            Ok(Cors::NotAsked),
        ),
    ] {
        assert_eq!(grant(&access, &origin(sent)), expected, "{case}");
    }
}
