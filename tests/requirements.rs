//! Holds the wire requirements against the tests: each row of `requirements/manifest.txt` is named
//! by a test, and each that a test names has a row. It reads text: whether a test bites is for
//! people to see.
//!
//! A test names what it checks directly above its attributes, in rising order:
//! `// Covers R-nnn, R-nnn.` So does a scenario that a macro of [`SCENARIOS`] makes tests of.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test may fail loudly

#[path = "floors/tokens.rs"]
#[allow(dead_code, reason = "floors.rs needs more of it")]
mod tokens;

use std::{collections::BTreeMap, fs, path::Path};

use tokens::{Tokens, at, skip, tokens};

/// Rows that are not built yet. Their first test takes them out of here.
const PENDING: &[u16] = &[];
/// Make a test of each function that is named in their arguments.
const SCENARIOS: &[&str] = &["for_each_peer", "on_both_runtimes"];
const SIDES: &str = "client server both";
const LEVELS: &[&str] = &["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "OUR"];
const REVISIONS: &str = "all handshake stateless 2024-11-05 2025-03-26 2025-06-18 2025-11-25 \
                         2024-11-05.. 2025-03-26.. 2025-06-18.. 2026-07-28";
const SOURCES: &[&str] = &[
    "https://modelcontextprotocol.io/specification/",
    "https://www.jsonrpc.org/specification",
    "https://html.spec.whatwg.org/",
];

/// `R-104` as its number.
fn id(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("R-")?;
    let fits = matches!(digits.len(), 3 | 4) && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| fits)
}

/// The rows by id, with their sides; adds what is wrong with them to `found`.
fn rows<'a>(manifest: &'a str, found: &mut Vec<String>) -> BTreeMap<u16, &'a str> {
    let mut rows = BTreeMap::new();
    for (line, row) in (1..).zip(manifest.lines()) {
        if row.starts_with('#') {
            continue;
        }
        let mut report = |rule: &str| found.push(format!("manifest.txt:{line}: {rule}"));
        let Ok([name, side, revisions, level, link, text]) =
            <[&str; 6]>::try_from(row.split(" | ").collect::<Vec<_>>())
        else {
            report("a row has six columns");
            continue;
        };
        let Some(id) = id(name) else {
            report("an id is R- and three or four digits");
            continue;
        };
        if rows.last_key_value().is_some_and(|(last, _)| *last >= id) {
            report("ids rise from row to row");
        }
        let known = |list: &str, word: &str| list.split_whitespace().any(|known| known == word);
        if !known(SIDES, side)
            || !revisions.split(", ").all(|one| known(REVISIONS, one))
            || !LEVELS.contains(&level)
        {
            report("a side, a revision or a level that does not exist");
        }
        if !SOURCES.iter().any(|source| link.starts_with(source)) {
            report("a link leads to a specification");
        }
        if !text.ends_with('.') || text.len() > 120 {
            report("the behaviour is one short sentence");
        }
        rows.insert(id, side);
    }
    rows
}

/// The name of the function after line `line`, and whether its attributes make it a test.
fn function<'a>(tokens: &Tokens<'a>, line: usize) -> Option<(&'a str, bool)> {
    let mut next = tokens.iter().position(|token| token.0 > line)?;
    let mut is_test = false;
    while at(tokens, next) == "#" {
        let end = skip(tokens, next + 1);
        let mut last = next + 1;
        while !matches!(at(tokens, last + 1), "(" | "=" | "]" | "") {
            last += 1;
        }
        match at(tokens, last) {
            "ignore" => return None,
            name => is_test |= name == "test",
        }
        next = end;
    }
    next += usize::from(at(tokens, next) == "async");
    (at(tokens, next) == "fn").then(|| (at(tokens, next + 1), is_test))
}

fn is_scenario(tokens: &Tokens<'_>, name: &str) -> bool {
    (0..tokens.len()).any(|i| {
        SCENARIOS.contains(&at(tokens, i))
            && at(tokens, i + 1) == "!"
            && (i + 2..skip(tokens, i + 2)).any(|arg| at(tokens, arg) == name)
    })
}

/// The ids that the tests of a file name, each with its line; adds breaches to `found`.
fn named(file: &str, source: &str, found: &mut Vec<String>) -> Vec<(u16, usize)> {
    let (tokens, mut named) = (tokens(source), Vec::new());
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    for (index, text) in lines.iter().enumerate() {
        let line = index + 1;
        let mut report = |rule: &str| found.push(format!("{file}:{line}: {rule}"));
        let Some(list) = text.strip_prefix("// Covers R-") else {
            if mentions(text) {
                report("a requirement is named elsewhere than above a test");
            }
            continue;
        };
        let ids: Option<Vec<u16>> = list.strip_suffix('.').and_then(|list| {
            list.split(", R-")
                .map(|one| id(&format!("R-{one}")))
                .collect()
        });
        let Some(ids) = ids.filter(|ids| ids.is_sorted_by(|a, b| a < b)) else {
            report("not `// Covers R-nnn, R-nnn.` in rising order");
            continue;
        };
        let below = lines[line..]
            .iter()
            .take_while(|text| text.starts_with("//"))
            .count();
        let follows = lines.get(line + below).is_some_and(|text| !text.is_empty());
        match function(&tokens, line).filter(|_| follows) {
            Some((name, is_test)) if is_test || is_scenario(&tokens, name) => {
                named.extend(ids.into_iter().map(|id| (id, line)));
            }
            Some((name, _)) => report(&format!("`{name}` is no test")),
            None => report("no test follows"),
        }
    }
    named
}

/// Whether an id stands somewhere in a line.
fn mentions(text: &str) -> bool {
    text.match_indices("R-").any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let digits = text[at + 2..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        digits >= 3 && !before.is_some_and(char::is_alphanumeric)
    })
}

/// Whose side a test can show.
fn side(file: &str) -> &'static str {
    match (file.contains("client"), file.contains("server")) {
        (true, false) => "client",
        (false, true) => "server",
        _ => "both",
    }
}

/// Every breach of manifest and tests together; a file is its path and its text.
fn check(manifest: &str, pending: &[u16], files: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    let rows = rows(manifest, &mut found);
    let mut seen: BTreeMap<u16, Vec<(&str, usize)>> = BTreeMap::new();
    for (file, source) in files {
        for (id, line) in named(file, source, &mut found) {
            seen.entry(id).or_default().push((file, line));
        }
    }
    for (id, places) in &seen {
        let (file, line) = places[0];
        if !rows.contains_key(id) {
            found.push(format!("{file}:{line}: R-{id} is not in the manifest"));
        } else if pending.contains(id) {
            found.push(format!("{file}:{line}: R-{id} is pending, but has a test"));
        }
    }
    for id in pending.iter().filter(|id| !rows.contains_key(id)) {
        found.push(format!("R-{id} is pending, but not in the manifest"));
    }
    for (id, of) in rows.iter().filter(|row| !pending.contains(row.0)) {
        for one in ["client", "server"]
            .into_iter()
            .filter(|one| *of == *one || *of == "both")
        {
            let shows =
                |(file, _): &(&str, usize)| matches!(side(file), s if s == one || s == "both");
            if !seen.get(id).is_some_and(|places| places.iter().any(shows)) {
                found.push(format!("R-{id} has no test of the {one}"));
            }
        }
    }
    found
}

/// All Rust files below `folder`, except those of this test and what peers bring along.
fn read(root: &Path, folder: &str, files: &mut Vec<(String, String)>) {
    for path in fs::read_dir(root.join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let name = path.file_name().unwrap().to_string_lossy();
        let file = format!("{folder}/{name}");
        if file.starts_with("tests/requirements") || name.starts_with('.') {
            continue;
        }
        if path.is_dir() && !matches!(&*name, "peers" | "conformance") {
            read(root, &file, files);
        } else if file.ends_with(".rs") {
            files.push((file, fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_requirement_has_a_test_and_every_test_names_one_that_is_known() {
    let mut files = Vec::new();
    for folder in ["src", "tests", "examples"] {
        read(Path::new(env!("CARGO_MANIFEST_DIR")), folder, &mut files);
    }
    files.sort();
    let found = check(include_str!("requirements/manifest.txt"), PENDING, &files);
    let list = found.join("\n");
    assert!(found.is_empty(), "{} breaches:\n{list}", found.len());
}

#[test]
fn planted_markers_are_judged_and_nothing_else() {
    let planted = include_str!("requirements/planted.txt").lines();
    for case in planted.filter(|line| !line.starts_with('#')) {
        let [text, wanted] = case.split(" | ").collect::<Vec<_>>().try_into().unwrap();
        let mut found = Vec::new();
        let named = named("a.rs", &text.replace("\\n", "\n"), &mut found);
        let ids: Vec<String> = named
            .iter()
            .map(|(id, line)| format!("{id}@{line}"))
            .collect();
        let right = match (wanted.split_once(": "), &found[..]) {
            (None, []) if ids.is_empty() => wanted == "none",
            (None, []) => ids.join(" ") == wanted,
            (Some((line, rule)), [one]) => {
                ids.is_empty() && one.contains(&format!(":{line}: ")) && one.contains(rule)
            }
            _ => false,
        };
        assert!(right, "{case}\nfound {found:?} and {ids:?}");
    }
}

#[test]
fn each_breach_of_a_manifest_is_found_and_nothing_else() {
    let row = |id: &str, side: &str| {
        format!("{id} | {side} | all | MUST | https://www.jsonrpc.org/specification | It does.")
    };
    let test = |ids: &str| format!("// Covers {ids}.\n#[test]\nfn t() {{}}");
    let good = row("R-101", "both");
    // The row in place of `good`, what the tests of each side name, and the breach, if any.
    let table = [
        (good.clone(), "R-101", "R-101", ""),
        (row("R-101", "client"), "R-101", "", ""),
        (row("R-101", "server"), "", "R-101", ""),
        (good.clone(), "R-101", "", "R-101 has no test of the server"),
        (good.clone(), "", "R-101", "R-101 has no test of the client"),
        (
            row("R-101", "client"),
            "",
            "R-101",
            "R-101 has no test of the client",
        ),
        (
            good.clone(),
            "R-101, R-102",
            "R-101",
            "src/client/tests.rs:1: R-102 is not in",
        ),
        (
            good.clone(),
            "R-101",
            "R-101, R-900",
            "src/server/tests.rs:1: R-900 is pending",
        ),
        (
            format!("{good}\n{good}"),
            "R-101",
            "R-101",
            "manifest.txt:2: ids rise",
        ),
        (
            row("R-950", "both"),
            "R-950",
            "R-950",
            "manifest.txt:2: ids rise",
        ),
        (row("R-12", "both"), "", "", "manifest.txt:1: an id is"),
        (row("R-101", "peer"), "", "R-101", "manifest.txt:1: a side"),
        (
            good.replace("| all", "| 2025"),
            "R-101",
            "R-101",
            "manifest.txt:1: a side",
        ),
        (
            good.replace("MUST", "must"),
            "R-101",
            "R-101",
            "manifest.txt:1: a side",
        ),
        (
            good.replace("https", "http"),
            "R-101",
            "R-101",
            "manifest.txt:1: a link",
        ),
        (
            good.replace("does.", "does"),
            "R-101",
            "R-101",
            "manifest.txt:1: the behaviour",
        ),
        (
            good.replace("does", &"does".repeat(30)),
            "R-101",
            "R-101",
            "manifest.txt:1: the behav",
        ),
        (
            good.replace(" | It does.", ""),
            "",
            "",
            "manifest.txt:1: a row has six",
        ),
    ];
    for (rows, client, server, wanted) in table {
        let files: Vec<(String, String)> = [("client", client), ("server", server)]
            .into_iter()
            .filter(|(_, ids)| !ids.is_empty())
            .map(|(side, ids)| (format!("src/{side}/tests.rs"), test(ids)))
            .collect();
        let manifest = format!("{rows}\n{}", row("R-900", "both"));
        let found = check(&manifest, &[900], &files);
        let right = match &found[..] {
            [] => wanted.is_empty(),
            [one] => !wanted.is_empty() && one.contains(wanted),
            _ => false,
        };
        assert!(right, "{rows}\nwanted {wanted}, found {found:?}");
    }
    let found = check("", &[900], &[]);
    assert_eq!(found, ["R-900 is pending, but not in the manifest"]);
}
