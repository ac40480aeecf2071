//! What a client sends and takes, by its `Content-Type` and `Accept` headers.
//!
//! Knows media ranges; must not know what is answered when they do not fit.

use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::super::Accept;

/// True if the body is declared as plain JSON: parameters and case do not count, a coding does.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let is_json = |value| media_type(value).eq_ignore_ascii_case("application/json");
    let identity = |value: &str| value.trim().eq_ignore_ascii_case("identity");
    headers.contains_key(CONTENT_TYPE)
        && texts(headers, CONTENT_TYPE).all(|text| text.is_some_and(is_json))
        && texts(headers, CONTENT_ENCODING).all(|text| text.is_some_and(identity))
}

/// The forms of answer that the `Accept` header leaves; `None` if it excludes both.
///
/// The most specific range that names a form decides (RFC 9110, "Accept"). Of two forms with the
/// same weight the one named first is liked better: the RFC leaves that open, and it is what most
/// servers do. No header, or one that cannot be read, excludes nothing.
pub(crate) fn accepted(headers: &HeaderMap) -> Option<Accept> {
    if is_usual(headers) {
        return Some(Accept {
            sse: true,
            prefers_sse: false,
        });
    }
    let ranges = || {
        texts(headers, ACCEPT)
            .flatten()
            .flat_map(|text| text.split(','))
            .filter(|range| !range.trim().is_empty())
    };
    if ranges().next().is_none() {
        return Some(Accept {
            sse: true,
            prefers_sse: false,
        });
    }
    // The weight, and which range gives it.
    let liking = |kind, subtype| {
        let (mut rank, mut weight, mut place) = (0, 0, 0);
        for (index, range) in ranges().enumerate() {
            let (found, q) = (specificity(range, kind, subtype), quality(range));
            if found > rank || found == rank && rank > 0 && q > weight {
                (rank, weight, place) = (found, q, index);
            }
        }
        (weight, place)
    };
    let (json, json_place) = liking("application", "json");
    let (sse, sse_place) = liking("text", "event-stream");
    (json > 0 || sse > 0).then_some(Accept {
        sse: sse > 0,
        prefers_sse: sse > json || sse == json && sse_place < json_place,
    })
}

/// True for what nearly all MCP clients send, letter for letter: reading it takes as long as
/// reading the message.
fn is_usual(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(ACCEPT).into_iter();
    let first = values.next();
    first.is_some_and(|value| value == "application/json, text/event-stream")
        && values.next().is_none()
}

/// 3 for the type itself, 2 for `kind/*`, 1 for `*/*`, 0 for another one.
fn specificity(range: &str, kind: &str, subtype: &str) -> u8 {
    // A lone `*` is what some Java clients send for `*/*`.
    let (range_kind, range_subtype) = media_type(range).split_once('/').unwrap_or(("*", "*"));
    match (range_kind, range_subtype) {
        ("*", "*") if media_type(range).starts_with('*') => 1,
        (a, "*") if a.eq_ignore_ascii_case(kind) => 2,
        (a, b) if a.eq_ignore_ascii_case(kind) && b.eq_ignore_ascii_case(subtype) => 3,
        _ => 0,
    }
}

/// From 0 for what is excluded to [`MAX_QUALITY`]; a weight that is none excludes nothing.
fn quality(range: &str) -> u32 {
    let mut parameters = range
        .split(';')
        .skip(1)
        .filter_map(|text| text.split_once('='));
    parameters
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
        .and_then(|(_, value)| weight(value.trim()))
        .filter(|q| *q <= MAX_QUALITY)
        .unwrap_or(MAX_QUALITY)
}

/// A weight of 1, in the unit of the finest difference that can be told: weights have three digits
/// at most, and more are not told apart.
const MAX_QUALITY: u32 = 1000;

/// A decimal fraction in that unit. What is more than nothing stays so.
fn weight(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let whole: u32 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let digits = fraction.bytes().chain([b'0'; 3]).take(3);
    let thousandths = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    let is_some = fraction.bytes().any(|digit| digit != b'0');
    let weight = whole.checked_mul(MAX_QUALITY)?.checked_add(thousandths)?;
    Some(weight.max(u32::from(is_some)))
}

fn media_type(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}

/// The values of a header; `None` for one that is not visible ASCII.
fn texts(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = Option<&str>> {
    headers
        .get_all(name)
        .into_iter()
        .map(|value: &HeaderValue| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    // Covers R-1203.
    #[test]
    fn every_legal_spelling_of_json_is_taken() {
        for (values, taken) in [
            (&["application/json"][..], true),
            (&["application/json; charset=utf-8"], true),
            (&["Application/JSON"], true),
            (&["application/json;charset=\"UTF-8\""], true),
            (&[" application/json "], true),
            (&["application/json", "application/json"], true),
            (&[], false),
            (&[""], false),
            (&["text/plain"], false),
            (&["text/plain; a=application/json"], false),
            (&["application/json5"], false),
            (&["application"], false),
            (&["application/json", "text/plain"], false),
            (&["application/json\u{e9}"], false),
        ] {
            assert_eq!(is_json(&headers(CONTENT_TYPE, values)), taken, "{values:?}");
        }
    }

    #[test]
    fn a_coded_body_is_no_plain_json() {
        for (coding, taken) in [("identity", true), ("Identity", true), ("gzip", false)] {
            let mut headers = headers(CONTENT_TYPE, &["application/json"]);
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
            assert_eq!(is_json(&headers), taken, "{coding}");
        }
    }

    // Covers R-1203.
    #[test]
    fn the_form_liked_best_is_known_unless_both_are_excluded() {
        let (both, json, sse, none) = ("JSON, or SSE", "JSON", "SSE", "none");
        for (values, forms) in [
            (&[][..], both),
            (&[""], both),
            (&["*/*"], both),
            (&["*"], both),
            (&["*; q=.2"], both),
            (&["application/*, text/*"], both),
            (&["application/json, text/event-stream"], both),
            (&["APPLICATION/JSON, Text/Event-Stream"], both),
            (&["application/json;q=0.9, text/event-stream;q=0.1"], both),
            (&["application/json", "text/event-stream"], both),
            (&["text/html, */*;q=0.1"], both),
            (&["text/event-stream;q=0.5, */*;q=0.5, application/*"], both),
            (&["text/event-stream;q=0.9, application/json;q=2"], both),
            (&["application/json;q=high"], json),
            (&["application/json;q=0.001"], json),
            (&["application/json; charset=utf-8"], json),
            (&["application/*"], json),
            (&["*/*, text/event-stream;q=0"], json),
            (&["*/*, text/event-stream ; Q=0.000"], json),
            (&["*/*;q=0, application/json"], json),
            (&["text/*;q=0, */*"], json),
            (&["text/event-stream"], sse),
            (&["text/event-stream, application/json"], sse),
            (&["text/event-stream", "application/json"], sse),
            (&["text/event-stream, */*"], sse),
            (&["application/json;q=0.1, text/event-stream;q=0.9"], sse),
            (&["text/*"], sse),
            (&["application/json;q=0, */*"], sse),
            (&["text/html"], none),
            (&["*/*;q=0"], none),
            (&["application/xml, text/html;q=0.9"], none),
            (&["application/json;q=0, text/event-stream;q=0.0"], none),
            (&["json"], none),
            (&["application/json/x"], none),
        ] {
            let found = match accepted(&headers(ACCEPT, values)) {
                Some(accept) if accept.prefers_sse => sse,
                Some(accept) if accept.sse => both,
                Some(_) => json,
                None => none,
            };
            assert_eq!(found, forms, "{values:?}");
        }
    }
}
