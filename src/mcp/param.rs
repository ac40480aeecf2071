//! Arguments that travel in headers too, so that a proxy can route a call without reading its body.
//!
//! Owns whether headers and arguments say the same. Must not know HTTP types, nor what a tool does
//! with an argument.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::members::members;
use super::value;
use crate::wire::jsonrpc::{self, RawJson};

mod schema;

/// How the name of such a header starts, in the lower case that HTTP libraries want.
pub(crate) const PREFIX: &str = "mcp-param-";

/// An argument that a tool wants mirrored in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParamHeader {
    /// `Mcp-Param-` and the name as annotated.
    name: Box<str>,
    /// The keys from the arguments down to the value: at least one. Shared, since many annotations
    /// may stand below one long key.
    path: Box<[Arc<str>]>,
    kind: Kind,
}

/// What the schema says the argument is. No other type can be mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Integer,
    String,
}

impl ParamHeader {
    fn is_named(&self, header: &str) -> bool {
        self.name.eq_ignore_ascii_case(header)
    }

    fn key(&self, depth: usize) -> Option<&str> {
        self.path.get(depth).map(|key| &**key)
    }
}

/// Client: the headers (`Mcp-Param-Name`, encoded value) that these arguments need.
pub(crate) fn headers(of: &[ParamHeader], arguments: &RawJson) -> Vec<(Box<str>, Box<str>)> {
    let header = |(param, given): (&ParamHeader, Given<'_>)| {
        let value = match &given {
            Given::Integer(number) => number.to_string().into(),
            Given::Text(text) => value::encode(text).into(),
            Given::Absent | Given::Unfit | Given::Unsafe => return None,
        };
        Some((param.name.clone(), value))
    };
    given(of, arguments)
        .into_iter()
        .filter_map(header)
        .collect()
}

/// Server: whether `sent` says what the arguments say. It holds full header names in lower case and
/// values without white space around them; a header that came twice stands there twice. Headers
/// that no annotation names are ignored. The error is for the peer to read.
pub(crate) fn check(
    of: &[ParamHeader],
    arguments: &RawJson,
    sent: &[(Box<str>, Box<str>)],
) -> Result<(), String> {
    for (param, given) in given(of, arguments) {
        let mut values = sent.iter().filter(|(name, _)| param.is_named(name));
        let value = values.next().map(|(_, value)| &**value);
        let verdict = if values.next().is_some() {
            Err("was sent twice")
        } else {
            given.agrees(value)
        };
        verdict.map_err(|why| {
            let path = shown(&param.path.join("."));
            format!("{} {why} (argument {path})", param.name)
        })?;
    }
    Ok(())
}

/// What the arguments hold for one header.
enum Given<'a> {
    /// Not there, or null.
    Absent,
    Integer(i64),
    /// A string, or `true` or `false`.
    Text(Cow<'a, str>),
    /// Not of the type in the schema: for the tool's own check to refuse.
    Unfit,
    /// A number that not every peer reads alike, or a fraction.
    Unsafe,
}

impl<'a> Given<'a> {
    fn read(kind: Kind, raw: Option<&'a RawValue>) -> Self {
        let token = match raw.map(RawValue::get) {
            None | Some("null") => return Self::Absent,
            Some(token) => token,
        };
        match kind {
            Kind::Boolean if matches!(token, "true" | "false") => Self::Text(token.into()),
            Kind::Integer if token.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
                integer(token).map_or(Self::Unsafe, Self::Integer)
            }
            Kind::String if token.starts_with('"') => match jsonrpc::text(token) {
                Ok(text) => Self::Text(text),
                Err(_) => Self::Unfit,
            },
            _ => Self::Unfit,
        }
    }

    /// Whether a header's value says the same.
    fn agrees(&self, value: Option<&str>) -> Result<(), &'static str> {
        let Some(value) = value else {
            return match self {
                Self::Absent | Self::Unfit => Ok(()),
                Self::Integer(_) | Self::Text(_) => Err("is missing"),
                Self::Unsafe => Err(UNSAFE),
            };
        };
        let value = value::decode(value)?;
        let same = match self {
            Self::Absent => return Err("was sent, but its argument is absent or null"),
            Self::Integer(number) => integer(&value) == Some(*number),
            Self::Text(text) => value == *text,
            Self::Unfit => return Err("was sent, but its argument has another type"),
            Self::Unsafe => return Err(UNSAFE),
        };
        if same {
            Ok(())
        } else {
            Err("does not match its argument")
        }
    }
}

/// The integer that a JSON number stands for, also one written as `42.0` or `4.2e1`.
fn integer(token: &str) -> Option<i64> {
    // A header may hold what JSON has no word for, such as `042`.
    serde_json::from_str::<&RawValue>(token).ok()?;
    let number = jsonrpc::integer(token)?;
    (-MAX_INTEGER..=MAX_INTEGER)
        .contains(&number)
        .then_some(number)
}

/// The value for each header, found in one pass over each object on the way there.
fn given<'h, 'a>(
    of: &'h [ParamHeader],
    arguments: &'a RawJson,
) -> Vec<(&'h ParamHeader, Given<'a>)> {
    let mut found = Vec::with_capacity(of.len());
    if !of.is_empty() {
        find(of, 0, Some(arguments.as_str()), &mut found);
    }
    found
}

/// `of` has the same keys above `depth`; `object` is what stands there.
fn find<'h, 'a>(
    of: &'h [ParamHeader],
    depth: usize,
    object: Option<&'a str>,
    found: &mut Vec<(&'h ParamHeader, Given<'a>)>,
) {
    let wanted = of.iter().filter_map(|param| param.key(depth));
    // Anything but an object that can be read has no members.
    let members = object.and_then(|json| members(json, wanted));
    for group in of.chunk_by(|a, b| a.key(depth) == b.key(depth)) {
        let Some((first, rest)) = group.split_first() else {
            continue;
        };
        let Some(key) = first.key(depth) else {
            continue;
        };
        let member = members.as_ref().and_then(|members| *members.get(key)?);
        // A property may have a header of its own beside those below it, and then before them.
        let below = if first.path.len() == depth + 1 {
            found.push((first, Given::read(first.kind, member)));
            rest
        } else {
            group
        };
        if !below.is_empty() {
            find(below, depth + 1, member.map(RawValue::get), found);
        }
    }
}

/// Quoted and escaped, and cut to what a message can bear.
fn shown(name: &str) -> String {
    match name.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((cut, _)) => format!("{:?}...", name.get(..cut).unwrap_or_default()),
        None => format!("{name:?}"),
    }
}

const UNSAFE: &str = "cannot carry its argument: no integer within 2^53-1 of zero";
/// The largest integer that a peer with nothing but double floats still tells from its neighbours.
const MAX_INTEGER: i64 = (1 << 53) - 1;
const MAX_SHOWN_CHARS: usize = 64;

#[cfg(test)]
mod tests;
