//! What a tool's input schema says of a member that is missing, of which serde tells the name alone.
//!
//! Owns the way through a schema; must not know what is said to the caller.

use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// The kind of value that belongs to a member of what is at the path, as far as the schema says so
/// plainly.
pub(super) fn kind(schema: &Value, path: &Path, member: &str) -> Option<&'static str> {
    let mut part = resolved(schema, schema)?;
    for segment in path {
        part = match segment {
            // The path may end in the missing member itself.
            Segment::Map { key } if key == member => break,
            Segment::Map { key } => resolved(schema, part.get("properties")?.get(key)?)?,
            Segment::Seq { .. } => resolved(schema, part.get("items")?)?,
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    let member = resolved(schema, part.get("properties")?.get(member)?)?;
    Some(match member.get("type")?.as_str()? {
        "array" => "an array",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "null" => "null",
        "number" => "a number",
        "object" => "an object",
        "string" => "a string",
        _ => return None,
    })
}

/// The part that a reference inside the schema stands for. One may stand for another, and in a
/// circle; and of two branches, what may be null is the other.
fn resolved<'a>(schema: &'a Value, mut part: &'a Value) -> Option<&'a Value> {
    for _ in 0..MAX_HOPS {
        if let Some(place) = part.get("$ref") {
            part = schema.pointer(place.as_str()?.strip_prefix('#')?)?;
        } else if let Some(branches) = part.get("anyOf").and_then(Value::as_array) {
            let is_null = |branch: &&Value| branch.get("type").is_some_and(|t| t == "null");
            part = branches.iter().find(|branch| !is_null(branch))?;
        } else {
            return Some(part);
        }
    }
    None
}

const MAX_HOPS: usize = 8;
