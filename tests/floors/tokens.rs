//! Rust source as a flat list of tokens: enough to tell code from comments, literals and tests.

/// Words, literals and single signs, each with its line; no comments.
pub(crate) type Tokens<'a> = Vec<(usize, &'a str)>;

pub(crate) fn tokens(source: &str) -> Tokens<'_> {
    let (mut tokens, mut rest, mut line) = (Vec::new(), source, 1);
    while !rest.is_empty() {
        let (text, tail) = rest.split_at(token_len(rest));
        if !(text.starts_with("//") || text.starts_with("/*") || text.trim().is_empty()) {
            tokens.push((line, text));
        }
        line += text.matches('\n').count();
        rest = tail;
    }
    tokens
}

fn token_len(rest: &str) -> usize {
    let past = |from, end: &str| {
        rest[from..]
            .find(end)
            .map_or(rest.len(), |i| from + i + end.len())
    };
    let mut chars = rest.char_indices().skip(1);
    let raw = rest
        .trim_start_matches(['b', 'c'])
        .strip_prefix('r')
        .unwrap_or_default();
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    match rest.as_bytes()[0] {
        b'/' if rest.starts_with("//") => past(2, "\n"),
        b'/' if rest.starts_with("/*") => past(2, "*/"),
        b'b' | b'c' | b'r' if raw[hashes..].starts_with('"') => past(
            rest.len() - raw.len() + hashes + 1,
            &format!("\"{}", &raw[..hashes]),
        ),
        b'"' => loop {
            match chars.next() {
                Some((_, '\\')) => drop(chars.next()),
                Some((at, '"')) => break at + 1,
                Some(_) => {}
                None => break rest.len(),
            }
        },
        b'\'' if rest.starts_with("'\\") => past(3, "'"),
        b'\'' => chars
            .nth(1)
            .filter(|next| next.1 == '\'')
            .map_or(1, |(at, _)| at + 1),
        _ => match rest.find(|c: char| !c.is_alphanumeric() && c != '_') {
            Some(0) => chars.next().map_or(rest.len(), |(at, _)| at),
            end => end.unwrap_or(rest.len()),
        },
    }
}

pub(crate) fn at<'a>(tokens: &Tokens<'a>, index: usize) -> &'a str {
    tokens.get(index).map_or("", |token| token.1)
}

/// The index past one token, or past the whole group that it opens.
pub(crate) fn skip(tokens: &Tokens<'_>, mut index: usize) -> usize {
    let mut depth = 0;
    loop {
        depth += i32::from(matches!(at(tokens, index), "(" | "[" | "{"));
        depth -= i32::from(matches!(at(tokens, index), ")" | "]" | "}"));
        index += 1;
        if depth <= 0 || index >= tokens.len() {
            return index;
        }
    }
}

/// Takes out the items that exist only in tests; gives the number of their lines.
pub(crate) fn drop_tests(tokens: &mut Tokens<'_>) -> usize {
    let (mut lines, mut start) = (0, 0);
    while start < tokens.len() {
        let head: String = (start..start + 7).map(|i| at(tokens, i)).collect();
        if head != "#[cfg(test)]" && head != "#[cfg(all(test" {
            start += 1;
            continue;
        }
        let mut end = skip(tokens, start + 1);
        while !matches!(at(tokens, end), "{" | ";" | "}" | ")" | "]" | "") {
            end = skip(tokens, end);
        }
        end = skip(tokens, end).min(tokens.len());
        lines += 1 + tokens[end - 1].0 - tokens[start].0;
        tokens.drain(start..end);
    }
    lines
}
