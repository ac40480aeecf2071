//! What to say of a tool name that means nothing.
//!
//! Knows names only; must not know connections.

use strsim::jaro_winkler;

/// A server of the hub, as far as its names matter.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) server: &'a str,
    pub(super) standing: Standing,
    pub(super) tools: Vec<&'a str>,
}

/// Whether a server's tools can be known.
#[derive(Debug)]
pub(super) enum Standing {
    Connecting,
    /// With the reason.
    Down(String),
    Up,
}

/// What there is instead of the tool `wanted`, on `server` if one was named, in words.
pub(super) fn hint(known: &[Known<'_>], wanted: &str, server: Option<&str>) -> String {
    // A name in front of a slash that is a server's is meant to be one.
    let named = |known: &&Known<'_>| match server {
        Some(server) => server == known.server,
        None => rest_after(wanted, known.server).is_some(),
    };
    let meant = known.iter().find(named);
    let asked = match meant {
        Some(meant) => std::slice::from_ref(meant),
        None => known,
    };
    let up = || {
        asked
            .iter()
            .filter(|known| matches!(known.standing, Standing::Up))
    };
    let qualified = || {
        let tools = |known: &Known<'_>| {
            let named = |tool: &&str| format!("{}/{tool}", known.server);
            known.tools.iter().map(named).collect::<Vec<_>>()
        };
        up().flat_map(tools)
    };
    let mut said = Vec::new();
    if meant.is_none()
        && let Some((unknown, _)) = wanted.split_once('/')
        && up().next().is_some()
    {
        said.push(format!("no server `{unknown}` is connected"));
    }
    let mut there_are = match (qualified().next(), up().next()) {
        (Some(_), _) => {
            let names: Vec<_> = qualified().collect();
            format!("there are: {}", listed(&names, names.len()))
        }
        (None, Some(_)) => "there are no tools".to_owned(),
        (None, None) if meant.is_some() => String::new(),
        (None, None) => "no server is connected".to_owned(),
    };
    let own = meant.and_then(|meant| rest_after(wanted, meant.server));
    let near = near(asked, own.unwrap_or(wanted));
    if !near.is_empty() {
        there_are = format!("did you mean {}? {there_are}", near.join(" or "));
    }
    said.push(there_are);
    said.extend(missing(asked));
    said.retain(|clause| !clause.is_empty());
    one_line(&said.join("; "))
}

/// The servers whose tools nobody knows now.
fn missing(known: &[Known<'_>]) -> Vec<String> {
    const MAX_SERVERS: usize = 3;
    let clause = |known: &Known<'_>| match &known.standing {
        Standing::Connecting => Some(format!(
            "the server `{}` is still being connected",
            known.server
        )),
        Standing::Down(why) => Some(format!("the server `{}` is down: {why}", known.server)),
        Standing::Up => None,
    };
    let mut clauses: Vec<String> = known.iter().filter_map(clause).collect();
    let more = clauses.len().saturating_sub(MAX_SERVERS);
    if more > 0 {
        clauses.truncate(MAX_SERVERS);
        clauses.push(format!("{more} more servers are not connected"));
    }
    clauses
}

/// The qualified names that look most like the one that was wanted, the best first.
fn near(known: &[Known<'_>], wanted: &str) -> Vec<String> {
    /// What a slip of the finger leaves of a short name, as "ecko" for "echo".
    const MIN_LIKENESS: f64 = 0.82;
    const MAX_NAMES: usize = 3;
    let wanted = folded(wanted);
    let (on, bare) = wanted.rsplit_once('/').unwrap_or(("", &wanted));
    let mut found: Vec<(f64, String)> = Vec::new();
    for Known { server, tools, .. } in known {
        // Says only which of two tools that are alike comes first.
        let near_server = jaro_winkler(on, &folded(server)) / 100.0;
        for tool in tools {
            let name = folded(tool);
            let likeness = jaro_winkler(bare, &name).max(jaro_winkler(&wanted, &name));
            if likeness >= MIN_LIKENESS {
                found.push((likeness + near_server, format!("{server}/{tool}")));
            }
        }
    }
    // A stable sort: among equals the order of the servers decides.
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.truncate(MAX_NAMES);
    found.into_iter().map(|(_, name)| name).collect()
}

/// For comparing: case does not matter, and no name is compared beyond a length that bounds the
/// work, which grows with the square of it.
fn folded(name: &str) -> String {
    const MAX_CHARS: usize = 100;
    let lower = name.chars().take(MAX_CHARS).flat_map(char::to_lowercase);
    lower.map(|c| if c == '-' { '_' } else { c }).collect()
}

fn rest_after<'a>(name: &'a str, server: &str) -> Option<&'a str> {
    name.strip_prefix(server)?.strip_prefix('/')
}

/// How many names are said at most.
pub(super) const MAX_NAMES: usize = 20;

/// A few of the names, in words: of `count`, `first` has those that come first.
pub(super) fn listed(first: &[String], count: usize) -> String {
    let shown = first.get(..MAX_NAMES).unwrap_or(first);
    match count.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A text that may quote a server, on one line and cut.
pub(super) fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 2_000;
    text.chars()
        .take(MAX_CHARS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up<'a>(server: &'a str, tools: &[&'a str]) -> Known<'a> {
        Known {
            server,
            standing: Standing::Up,
            tools: tools.to_vec(),
        }
    }

    fn down(server: &str) -> Known<'_> {
        Known {
            server,
            standing: Standing::Down("refused".to_owned()),
            tools: Vec::new(),
        }
    }

    #[test]
    fn a_hint_names_what_may_have_been_meant_and_who_is_down() {
        let connecting = |server| Known {
            server,
            standing: Standing::Connecting,
            tools: Vec::new(),
        };
        // what is known, what was wanted and on which server, what is said
        let table: [(&[Known<'_>], &str, Option<&str>, &str); 15] = [
            (&[], "echo", None, "no server is connected"),
            (&[up("p", &[])], "echo", None, "there are no tools"),
            (
                &[up("p", &["echo", "hold"])],
                "ecko",
                None,
                "did you mean p/echo? there are: p/echo, p/hold",
            ),
            (
                &[up("p", &["Get-Weather"])],
                "get_weather",
                None,
                "did you mean p/Get-Weather? there are: p/Get-Weather",
            ),
            (
                &[up("p", &["echo"])],
                "translate",
                None,
                "there are: p/echo",
            ),
            (
                &[up("p", &["search"]), up("q", &["research", "serch"])],
                "serach",
                None,
                "did you mean q/serch or p/search or q/research? there are: p/search, q/research, \
                 q/serch",
            ),
            (
                &[up("p", &["echo"]), up("q", &["echo"])],
                "p/ecko",
                None,
                "did you mean p/echo? there are: p/echo",
            ),
            (
                &[up("p", &["echo"]), up("q", &["echo"])],
                "ecko",
                Some("q"),
                "did you mean q/echo? there are: q/echo",
            ),
            (
                &[up("weather", &["now"])],
                "wether/now",
                None,
                "no server `wether` is connected; did you mean weather/now? there are: weather/now",
            ),
            (
                &[up("p", &["echo"])],
                "zzz/echo",
                None,
                "no server `zzz` is connected; did you mean p/echo? there are: p/echo",
            ),
            (
                &[down("p"), up("q", &["x"])],
                "p/echo",
                None,
                "the server `p` is down: refused",
            ),
            (
                &[down("p"), up("q", &["x"])],
                "echo",
                None,
                "there are: q/x; the server `p` is down: refused",
            ),
            (
                &[down("p")],
                "echo",
                None,
                "no server is connected; the server `p` is down: refused",
            ),
            (
                &[connecting("p")],
                "p/echo",
                None,
                "the server `p` is still being connected",
            ),
            (
                &[down("a"), down("b"), down("c"), down("d"), down("e")],
                "x",
                None,
                "no server is connected; the server `a` is down: refused; the server `b` is down: \
                 refused; the server `c` is down: refused; 2 more servers are not connected",
            ),
        ];
        for (known, wanted, server, says) in table {
            assert_eq!(hint(known, wanted, server), says, "{wanted} of {known:?}");
        }
    }

    // Covers R-1707.
    #[test]
    fn what_a_server_calls_its_tools_cannot_break_or_flood_a_hint() {
        let giant = format!("e\ncho{}", "o".repeat(100_000));
        let said = hint(&[up("p", &[&giant])], "echo", None);
        assert!(said.len() < 5_000 && !said.contains('\n'), "{}", said.len());
        let names: Vec<String> = (0..10_000).map(|n| format!("tool_{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let said = hint(&[up("p", &names)], "tool", None);
        assert!(said.contains("and 9980 more"), "{said}");
    }
}
