//! JSON read slowly, to compare with: by serde_json, and by hand where a Rust value cannot hold
//! what stands there.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The one JSON value that a text is, without the space around it.
pub(super) fn json(text: &str) -> Option<&str> {
    serde_json::from_str::<&RawValue>(text)
        .ok()
        .map(RawValue::get)
}

/// How deep JSON nests.
pub(super) fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut is_quoted = false;
    let mut chars = json.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '"' => is_quoted = !is_quoted,
            '{' | '[' if !is_quoted => depth += 1,
            '}' | ']' if !is_quoted => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The whole number that a JSON number is; with a point or an exponent only one that every peer
/// reads alike.
pub(super) fn whole(json: &str) -> Option<i64> {
    let is_safe = |number: &i64| number.unsigned_abs() < 9_000_000_000_000_000;
    json.parse().ok().or_else(|| moved(json).filter(is_safe))
}

/// The point is moved to where the exponent wants it, and nothing but zeros may stand behind.
fn moved(json: &str) -> Option<i64> {
    let (decimal, exponent) = json.split_once(['e', 'E']).unwrap_or((json, "0"));
    // One that no 64 bits hold is not looked at, whatever it is of.
    let exponent = i128::from(exponent.parse::<i64>().ok()?);
    let (before, behind) = decimal.split_once('.').unwrap_or((decimal, ""));
    let digits = format!("{}{behind}", before.trim_start_matches('-'));
    let leading = digits.len() - digits.trim_start_matches('0').len();
    if leading == digits.len() {
        return Some(0);
    }
    let point = i128::try_from(digits.len() - behind.len()).ok()? + exponent;
    let sign = if json.starts_with('-') { "-" } else { "" };
    let significant = usize::try_from(point).ok()?.checked_sub(leading)?;
    if significant > 19 {
        return None;
    }
    let digits = &digits[leading..];
    let (before, behind) = digits.split_at(significant.min(digits.len()));
    let is_whole = behind.bytes().all(|digit| digit == b'0');
    let number = format!("{sign}{before:0<significant$}");
    is_whole.then(|| number.parse().ok())?
}

/// The text of a JSON value that is a string, U+FFFD for a lone surrogate.
pub(super) fn text(json: &str) -> Option<String> {
    let mut chars = json.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut units: Vec<u16> = Vec::new();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next()? {
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16).ok()?);
                    continue;
                }
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                same => same,
            },
            c => c,
        };
        units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    }
    Some(String::from_utf16_lossy(&units))
}

/// The members of a JSON object, in order; `None` if one has a key that is no Rust text.
pub(super) fn members(json: &str) -> Option<Vec<(String, &str)>> {
    let Members(members) = serde_json::from_str(json).ok()?;
    Some(members)
}

/// The same by key; the last one of a key counts. `None` also if any of these stands twice.
pub(super) fn unique<'a>(json: &'a str, keys: &[&str]) -> Option<HashMap<String, &'a str>> {
    let members = members(json)?;
    let count = |key| members.iter().filter(|(name, _)| name == key).count();
    if keys.iter().any(|key| count(key) > 1) {
        return None;
    }
    Some(members.into_iter().collect())
}

struct Members<'a>(Vec<(String, &'a str)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                    members.push((key, value.get()));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}
