//! The arguments of a call, read into the type that a handler takes.
//!
//! Owns what the caller is told when they do not fit, in words that a model can act on; must not
//! know tools or what runs.

mod wanted;

use std::fmt;

use serde::Deserialize;
use serde_path_to_error::{Path, Segment};

use super::output::ToolError;
use crate::wire::jsonrpc::RawJson;

/// `schema` is what the caller was told of them, if that is known.
pub(super) fn read_arguments<'a, T: Deserialize<'a>>(
    json: &'a str,
    schema: Option<&RawJson>,
) -> Result<T, ToolError> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|e| misfit(json, schema, e.path(), e.inner()))
}

/// Says which field is wrong, what belongs there and what came. Apart from what there is one of for
/// each type of arguments.
fn misfit(
    json: &str,
    schema: Option<&RawJson>,
    path: &Path,
    error: &serde_json::Error,
) -> ToolError {
    let text = error.to_string();
    let fault = match without_position(&text) {
        // The JSON is sound, so that this is of an enum and nothing else.
        "expected value" => Fault {
            member: None,
            what: no_variant(json, error.line(), error.column()),
        },
        text => match missing(text) {
            Some(name) => {
                let schema = schema.and_then(|schema| schema.deserialize().ok());
                let kind = schema.and_then(|schema| wanted::kind(&schema, path, name));
                Fault {
                    member: Some(name),
                    what: match kind {
                        Some(kind) => format!("expected {kind}, but it is missing"),
                        None => "it is required, but missing".to_owned(),
                    },
                }
            }
            None => told(text),
        },
    };
    let path = spelled(path, fault.member);
    let what = fault.what;
    ToolError::new(match path.is_empty() {
        true => format!("invalid arguments: {what}"),
        false => format!("invalid argument `{path}`: {what}"),
    })
}

/// The position counts bytes of the caller's JSON, which nobody sees.
fn without_position(text: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.rsplit_once(" at line ") {
        Some((before, place))
            if place
                .split_once(" column ")
                .is_some_and(|(line, column)| is_number(line) && is_number(column)) =>
        {
            before
        }
        _ => text,
    }
}

/// What is told of a value that no enum can be. Its position counts from one.
fn no_variant(json: &str, line: usize, column: usize) -> String {
    let line = json.split('\n').nth(line.wrapping_sub(1));
    let came = line.and_then(|line| line.as_bytes().get(column.wrapping_sub(1)));
    let came = match came {
        Some(b'[') => "an array",
        Some(b't') => "true",
        Some(b'f') => "false",
        Some(b'n') => "null",
        _ => "a number",
    };
    format!("expected {}, but got {came}", kind("string or map", false))
}

/// The member that is missing.
fn missing(text: &str) -> Option<&str> {
    text.strip_prefix("missing field `")?.strip_suffix('`')
}

struct Fault<'a> {
    /// The member that it is about, which the path may lack.
    member: Option<&'a str>,
    what: String,
}

/// What serde says, in the words of JSON. Names and values in it are the caller's, and may hold what
/// serde writes around them: so they reach to the last place that fits.
fn told(text: &str) -> Fault<'_> {
    let about = |member, what| Fault {
        member: Some(member),
        what,
    };
    if let Some(name) = text.strip_prefix("duplicate field `") {
        let name = name.strip_suffix('`').unwrap_or(name);
        return about(name, "it is given twice".to_owned());
    }
    if let Some(rest) = text.strip_prefix("unknown field `") {
        if let Some((name, known)) = rest.rsplit_once("`, expected ") {
            let known = Clipped(known, MAX_TEXT);
            return about(name, format!("it is unknown; known here: {known}"));
        }
        if let Some(name) = rest.strip_suffix("`, there are no fields") {
            return about(name, "it is unknown, as any would be here".to_owned());
        }
    }
    let what = match text.rsplit_once(", expected ") {
        _ if text.starts_with("data did not match any variant of untagged enum") => {
            "it fits none of the forms that it may have".to_owned()
        }
        Some((came, wanted)) => mismatch(came, wanted).unwrap_or_else(|| clipped(text)),
        None => clipped(text),
    };
    Fault { member: None, what }
}

/// `came` is what serde calls the value, with what is wrong about it before it.
fn mismatch(came: &str, wanted: &str) -> Option<String> {
    if let Some(variant) = came.strip_prefix("unknown variant `") {
        let variant = variant.strip_suffix('`').unwrap_or(variant);
        let start: String = variant.chars().take(MAX_VALUE).collect();
        let more = if start.len() < variant.len() {
            ".."
        } else {
            ""
        };
        let wanted = Clipped(wanted, MAX_TEXT);
        return Some(format!("expected {wanted}, but got {start:?}{more}"));
    }
    if let Some(len) = came.strip_prefix("invalid length ") {
        return Some(format!("expected {}, but got {len}", kind(wanted, false)));
    }
    let came = came
        .strip_prefix("invalid type: ")
        .or_else(|| came.strip_prefix("invalid value: "))?;
    let is_number = came.starts_with("integer ") || came.starts_with("floating point ");
    let wanted = kind(wanted, is_number);
    Some(format!("expected {wanted}, but got {}", value(came)))
}

/// The value that came, which serde gives with its Rust kind.
fn value(came: &str) -> String {
    let quoted = |start| came.strip_prefix(start)?.strip_suffix('`');
    if let Some(text) = came.strip_prefix("string \"") {
        let text = text.strip_suffix('"').unwrap_or(text);
        return format!("the string \"{}\"", Clipped(text, MAX_VALUE));
    }
    if let Some(number) = quoted("integer `").or_else(|| quoted("floating point `")) {
        return format!("the number {number}");
    }
    if let Some(boolean) = quoted("boolean `") {
        return boolean.to_owned();
    }
    match came {
        "map" => "an object".to_owned(),
        "sequence" => "an array".to_owned(),
        "null" | "unit value" | "Option value" => "null".to_owned(),
        other => clipped(other),
    }
}

/// What belongs there. The bounds of a number matter only to who gave one.
fn kind(wanted: &str, came_number: bool) -> String {
    let (nonzero, primitive) = match wanted.strip_prefix("a nonzero ") {
        Some(primitive) => (true, primitive),
        None => (false, wanted),
    };
    let least = if nonzero { "1" } else { "0" };
    let bounds: Option<(&str, &str)> = match primitive {
        "u8" => Some((least, "255")),
        "u16" => Some((least, "65535")),
        "u32" => Some((least, "4294967295")),
        "u64" => Some((least, "18446744073709551615")),
        "usize" | "u128" => Some((least, "")),
        "i8" => Some(("-128", "127")),
        "i16" => Some(("-32768", "32767")),
        "i32" => Some(("-2147483648", "2147483647")),
        "i64" => Some(("-9223372036854775808", "9223372036854775807")),
        "isize" | "i128" => Some(("", "")),
        _ => None,
    };
    let is_signed = primitive.starts_with('i');
    let except = if nonzero && is_signed {
        " other than 0"
    } else {
        ""
    };
    match bounds {
        Some((min, max)) if came_number && !max.is_empty() => {
            format!("a whole number from {min} to {max}{except}")
        }
        Some((min @ ("0" | "1"), _)) => format!("a whole number of {min} or more"),
        Some(_) => format!("a whole number{except}"),
        None => kind_of_others(wanted),
    }
}

fn kind_of_others(wanted: &str) -> String {
    let known = match wanted {
        "a boolean" => "true or false",
        "f32" | "f64" => "a number",
        "a borrowed string" => "a string",
        "a sequence" => "an array",
        "a map" => "an object",
        "unit" => "null",
        "string or map" => "a string or an object",
        _ if wanted.starts_with("tuple") || wanted.starts_with("a tuple") => "an array",
        _ if wanted.starts_with("struct") || wanted.starts_with("internally tagged enum ") => {
            "an object"
        }
        _ if wanted.starts_with("enum ") => "a string or an object",
        _ => return clipped(wanted),
    };
    // How many there should be stands at the end.
    match wanted
        .rsplit_once(" with ")
        .or_else(|| wanted.rsplit_once(" of size "))
    {
        Some((_, count)) if known == "an array" => {
            let count = count.split(' ').next().unwrap_or_default();
            format!("an array of {count}")
        }
        _ => known.to_owned(),
    }
}

/// The way to the field, and to a member of it that the way does not hold.
fn spelled(path: &Path, member: Option<&str>) -> String {
    let mut out = String::new();
    let mut last = None;
    for segment in path {
        let name = match segment {
            Segment::Map { key } => key,
            Segment::Enum { variant } => variant,
            Segment::Seq { index } => {
                out.push_str(&format!("[{index}]"));
                last = None;
                continue;
            }
            Segment::Unknown => "?",
        };
        add(&mut out, name);
        last = Some(name);
    }
    if let Some(member) = member.filter(|member| last != Some(*member)) {
        add(&mut out, member);
    }
    match out.char_indices().nth(MAX_TEXT) {
        Some(_) => clipped(&out),
        None => out,
    }
}

fn add(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.extend(name.escape_debug().take(MAX_VALUE));
    if name.chars().nth(MAX_VALUE).is_some() {
        path.push_str("..");
    }
}

fn clipped(text: &str) -> String {
    Clipped(text, MAX_TEXT).to_string()
}

/// At most so many characters of a text.
struct Clipped<'a>(&'a str, usize);

impl fmt::Display for Clipped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(self.1);
        match end.and_then(|(end, _)| self.0.get(..end)) {
            Some(start) => write!(f, "{start}.."),
            None => f.write_str(self.0),
        }
    }
}

/// Characters of the caller's own value, or of a name: what it sent it knows.
const MAX_VALUE: usize = 60;
/// Characters of what is said otherwise, which is ours or the tool's.
const MAX_TEXT: usize = 400;

#[cfg(test)]
mod tests;
