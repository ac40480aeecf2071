//! Which arguments an input schema wants mirrored.
//!
//! Owns where an annotation may stand and what it may say; must not know the arguments of a call.

use std::sync::Arc;

use serde_json::Value;

use super::{Kind, ParamHeader, shown};
use crate::wire::jsonrpc::RawJson;

impl ParamHeader {
    /// Those of an input schema, those below one property side by side. The error says which
    /// annotation is wrong, and why.
    pub(crate) fn read_all(schema: &RawJson) -> Result<Vec<Self>, String> {
        let text = schema.as_str();
        // An escape may hide the word. Nearly every schema ends here, unparsed.
        let in_sight = text.contains(ANNOTATION);
        if !in_sight && !text.contains("\\u") {
            return Ok(Vec::new());
        }
        let schema = match read(schema) {
            Ok(schema) => schema,
            Err(why) if in_sight => return Err(why),
            // Most likely there is none. If there is, the server misses its header and says so.
            Err(_) => return Ok(Vec::new()),
        };
        let mut walk = Walk::default();
        walk.schema(&schema, Reach::Properties)?;
        Ok(walk.found)
    }
}

/// How a part of a schema is reached from its root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// By `properties` alone, so that it speaks of one value of the arguments.
    Properties,
    /// By way of a list, a choice, a condition, a reference: it may speak of none, or of many.
    Stray,
}

/// Parses a schema, which takes up to twenty times the memory of its text.
fn read(schema: &RawJson) -> Result<Value, String> {
    if schema.as_str().len() > MAX_SCHEMA_BYTES {
        return Err(format!(
            "an input schema with {ANNOTATION} is longer than {MAX_SCHEMA_BYTES} bytes"
        ));
    }
    schema
        .deserialize()
        .map_err(|e| format!("the input schema cannot be read: {e}"))
}

/// A walk through a schema that was parsed, which bounds how deep it goes.
#[derive(Default)]
struct Walk {
    found: Vec<ParamHeader>,
    path: Vec<Arc<str>>,
}

impl Walk {
    fn schema(&mut self, schema: &Value, reach: Reach) -> Result<(), String> {
        let Value::Object(words) = schema else {
            return Ok(());
        };
        if let Some(name) = words.get(ANNOTATION) {
            self.annotation(name, words.get("type"), reach)
                .map_err(|why| {
                    let path = shown(&self.path.join("."));
                    format!("{ANNOTATION} at property {path} {why}")
                })?;
        }
        for (word, value) in words {
            match (word.as_str(), value) {
                (ANNOTATION | "const" | "default" | "enum" | "examples", _) => {}
                ("properties", Value::Object(properties)) => {
                    for (key, property) in properties {
                        self.path.push(key.as_str().into());
                        self.schema(property, reach)?;
                        self.path.pop();
                    }
                }
                (
                    "$defs" | "definitions" | "dependencies" | "dependentRequired"
                    | "dependentSchemas" | "patternProperties",
                    Value::Object(named),
                ) => named.values().try_for_each(|value| self.stray(value))?,
                _ => self.stray(value)?,
            }
        }
        Ok(())
    }

    /// Looks for annotations where none may be. A word that is not known here may hold schemas.
    fn stray(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.stray(item)),
            Value::Object(_) => self.schema(value, Reach::Stray),
            _ => Ok(()),
        }
    }

    fn annotation(
        &mut self,
        name: &Value,
        kind: Option<&Value>,
        reach: Reach,
    ) -> Result<(), String> {
        let name = match name.as_str() {
            None => return Err("is not a string".to_owned()),
            Some("") => return Err("is empty".to_owned()),
            Some(name) if name.len() > MAX_NAME_BYTES => {
                return Err(format!("is longer than {MAX_NAME_BYTES} bytes"));
            }
            Some(name) => name,
        };
        let fault = |why: &str| Err(format!("({}) {why}", shown(name)));
        if !name.bytes().all(is_token) {
            return fault("is no HTTP header name");
        }
        if self.path.is_empty() || reach == Reach::Stray {
            return fault("is not reached from the root by `properties` alone");
        }
        let kind = match kind.and_then(Value::as_str) {
            Some("boolean") => Kind::Boolean,
            Some("integer") => Kind::Integer,
            Some("string") => Kind::String,
            _ => return fault("needs the type string, integer or boolean"),
        };
        if self.found.len() == MAX_HEADERS {
            return fault(&format!(
                "is one more than the {MAX_HEADERS} a tool may have"
            ));
        }
        let header = format!("Mcp-Param-{name}");
        if self.found.iter().any(|param| param.is_named(&header)) {
            return fault("stands at another property too");
        }
        self.found.push(ParamHeader {
            name: header.into(),
            path: self.path.as_slice().into(),
            kind,
        });
        Ok(())
    }
}

/// A character of an RFC 9110 token.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

const ANNOTATION: &str = "x-mcp-header";
/// Headers of one tool: common HTTP servers take about 100 in a request, the standard ones included.
const MAX_HEADERS: usize = 64;
/// The name of one of them, so that all together stay within what HTTP servers take for a head.
const MAX_NAME_BYTES: usize = 128;
/// An input schema in which annotations are looked for.
const MAX_SCHEMA_BYTES: usize = 1 << 20;
