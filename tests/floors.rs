//! Guards the layout: reads `src/` and fails where a module names one that it must not know, or a
//! word stands where it has no business. It reads text, not types: what a macro builds escapes it,
//! and in an inline module `super` counts from the file.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test may fail loudly

#[path = "floors/tokens.rs"]
mod tokens;

use std::{fs, path::Path};

use tokens::{Tokens, at, drop_tests, skip, tokens};

/// Module, floor, and what it may name beside itself. Floor 6 may also name all below it.
#[rustfmt::skip]
const FLOORS: &[(&str, u8, &str)] = &[
    ("error", 0, ""),
    ("limits", 0, ""),
    ("event", 1, "error limits"),
    ("wire", 1, "error limits"),
    ("image", 1, "error limits event::data_uri"),
    ("graph", 1, "error event"),
    ("mcp", 2, "error limits wire"),
    ("session", 3, "error limits event wire mcp"),
    ("transport", 4, "error limits wire mcp::frame mcp::headers"),
    ("client", 5, "error limits event wire mcp session transport"),
    ("server", 5, "error limits event image wire mcp session transport"),
    ("llm", 5, "error limits wire transport"),
    ("testing", 6, "gateway specialists"),
    ("fuzzing", 6, ""), // drives what lies below, as tests do, and is in no build that is used
    ("gateway", 6, ""),
    ("specialists", 6, ""),
    ("bin", 6, "gateway specialists"),
];
/// Where the eras are told apart, where the user's choice of one is only passed on, and where
/// fuzzers play the peers of both.
const ERAS: &str =
    "mcp/version.rs mcp/classify.rs mcp/era/ session/negotiate.rs client/config.rs bin/ fuzzing/";
const SPAWNERS: &str = "client/driver.rs server/driver.rs llm/blocking.rs transport/";
const MAX_LINES: usize = 600;

/// The path at `index`, seen from module `from`; of a `use` tree each branch.
fn paths<'a>(tokens: &Tokens<'a>, mut index: usize, mut from: Vec<&'a str>) -> Vec<String> {
    loop {
        match at(tokens, index) {
            "{" => {
                let (end, mut found) = (skip(tokens, index) - 1, Vec::new());
                while index < end {
                    found.extend(paths(tokens, index + 1, from.clone()));
                    index += 1;
                    while index < end && at(tokens, index) != "," {
                        index = skip(tokens, index);
                    }
                }
                return found;
            }
            "crate" => from.clear(),
            "super" => drop(from.pop()),
            "self" | "" | "}" => {}
            name => from.push(name),
        }
        if at(tokens, index + 1) != ":" || at(tokens, index + 2) != ":" {
            return vec![from.join("::")];
        }
        index += 3;
    }
}

/// Whether the `cfg` at `index` puts anything but a `mod` or a `pub use` under a feature.
fn gates_code(tokens: &Tokens<'_>, index: usize) -> bool {
    let macro_call = usize::from(at(tokens, index + 1) == "!");
    let mut next = skip(tokens, index + 1 + macro_call);
    let asks = |word| (index..next).any(|i| at(tokens, i) == word);
    if !asks("feature") || asks("expect") || asks("allow") || asks("doc_cfg") {
        return false; // to quiet a lint or to label a page changes no code
    }
    next += 1;
    while at(tokens, next) == "#" {
        next = skip(tokens, next + 1);
    }
    let public = usize::from(at(tokens, next) == "pub");
    next += public;
    if at(tokens, next) == "(" {
        next = skip(tokens, next);
    }
    at(tokens, next) != "mod" && (public == 0 || at(tokens, next) != "use")
}

/// A revision, as `2025-11-25` or `V2025_11_25`, or the name of an era.
fn names_era(token: &str) -> bool {
    let digits = token
        .replace(|c: char| c.is_ascii_digit(), "0")
        .replace('_', "-");
    let word = token.to_lowercase();
    word.contains("legacy") || word.contains("modern") || digits.contains("0000-00-00")
}

/// Every breach in one file, `file` being its path inside `src/`.
fn check(file: &str, source: &str) -> Vec<String> {
    let mut tokens = tokens(source);
    let lines = source.lines().count() - drop_tests(&mut tokens);
    let module: Vec<&str> = file
        .trim_end_matches(".rs")
        .trim_end_matches("/mod")
        .split('/')
        .collect();
    let place = |list: &str| list.split(' ').any(|place| file.starts_with(place));
    let own = FLOORS.iter().find(|(name, ..)| *name == module[0]);
    let &(name, floor, listed) = own.unwrap_or(&("lib", 7, ""));
    let may_name = |path: &str| {
        let below = FLOORS.iter().filter(|(_, f, _)| floor == 6 && *f < 6);
        let mut known = below.map(|m| m.0).chain([name]).chain(listed.split(' '));
        path.is_empty() || known.any(|m| format!("{path}::").starts_with(&format!("{m}::")))
    };
    let mut found = Vec::new();
    let mut report = |line, rule: &str| found.push(format!("src/{file}:{line}: {rule}"));
    if own.is_none() && file != "lib.rs" {
        report(1, "a module that stands on no floor");
    }
    if lines > MAX_LINES {
        report(1, &format!("{lines} lines without the tests"));
    }
    for (index, &(line, token)) in tokens.iter().enumerate() {
        let before = index.checked_sub(1).map_or("", |i| at(&tokens, i));
        if matches!(token, "crate" | "super") && before != ":" && floor < 7 && name != "bin" {
            let named = paths(&tokens, index, module.clone());
            for path in named.iter().filter(|path| !may_name(path)) {
                let stray = !FLOORS.iter().any(|m| path.split("::").next() == Some(m.0));
                let hint = if stray { ": name its own module" } else { "" };
                report(line, &format!("`{name}` may not name `{path}`{hint}"));
            }
        }
        match token {
            "tokio" if floor < 4 => report(line, "tokio below floor 4"),
            "hyper" | "hyper_util" if !place("transport/http/") => {
                report(line, "hyper outside transport/http")
            }
            "spawn" | "spawn_blocking" | "spawn_local"
                if floor < 6 && before != "fn" && !place(SPAWNERS) =>
            {
                report(line, "a spawn outside drivers, transports and floor 6");
            }
            "cfg" | "cfg_attr" if gates_code(&tokens, index) => {
                report(line, "a feature gates more than `mod` or `pub use`")
            }
            _ if names_era(token) && !place(ERAS) => {
                report(line, "an era is named outside the seam")
            }
            _ => {}
        }
    }
    found
}

#[test]
fn every_module_keeps_to_its_floor() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut found) = (vec![src.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let file = path
                .strip_prefix(&src)
                .unwrap()
                .to_string_lossy()
                .replace('\\', "/");
            // A module of tests, and what it is split into.
            if file.ends_with("tests.rs") || file.ends_with("/tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if file.ends_with(".rs") {
                found.extend(check(&file, &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let list = found.join("\n");
    assert!(found.is_empty(), "{} breaches:\n{list}", found.len());
}

#[test]
fn planted_breaches_are_found_and_nothing_else() {
    let planted = include_str!("floors/planted.txt").lines();
    for case in planted.filter(|line| !line.starts_with('#')) {
        let [file, text, wanted] = case.split(" | ").collect::<Vec<_>>().try_into().unwrap();
        let text = text
            .replace("\\n", "\n")
            .replace("{600 lines}", &"\n".repeat(MAX_LINES));
        let found = check(file, &text);
        let right = match (wanted.split_once(' '), &found[..]) {
            (None, found) => found.is_empty(),
            (Some((line, rule)), [one]) => {
                one.contains(&format!("{file}:{line}: ")) && one.contains(rule)
            }
            _ => false,
        };
        assert!(right, "{case}\nfound {found:?}");
    }
}
