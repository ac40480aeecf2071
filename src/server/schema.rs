//! Schemas from Rust types.
//!
//! Owns what a type says of the arguments and of the result of a tool; must not know how either is
//! read or written.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::mcp::tool::Tool;

impl Tool {
    /// A tool whose arguments are the type `A`: its schema (JSON Schema 2020-12) says so to the
    /// caller.
    ///
    /// `A` is a struct, or an enum or map that is written as an object; for any other type the
    /// server tells when it is to serve. Arguments that do not fit never reach the handler: the
    /// caller is told which field is wrong, what belongs there and what came.
    ///
    /// ```
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct EchoArgs {
    ///     /// text to repeat
    ///     text: String,
    /// }
    ///
    /// let tool = agent_hub_kit::Tool::typed::<EchoArgs>("echo").description("Repeat a text");
    /// # assert_eq!(tool.name(), "echo");
    /// ```
    pub fn typed<A: JsonSchema>(name: impl Into<String>) -> Self {
        let mut schema = SchemaSettings::draft2020_12()
            .into_generator()
            .into_root_schema_for::<A>();
        // An enum or a flattened map has no type of its own, but arguments are always an object.
        if schema.get("type").is_none() {
            schema.insert("type".to_owned(), "object".into());
        }
        Self::new(name).input_schema(schema)
    }

    /// Sets the output schema to that of `R`. The handler then returns [`Json<R>`](crate::Json).
    ///
    /// Clients of revisions before 2026-07-28 are told it only if `R` is always written as an object.
    ///
    /// ```
    /// use agent_hub_kit::{Json, McpServer, RawArgs, Tool, ToolContext};
    ///
    /// #[derive(serde::Serialize, schemars::JsonSchema)]
    /// struct Sum { sum: i64 }
    ///
    /// let server = McpServer::builder("adder", "0.1.0")
    ///     .tool(
    ///         Tool::new("add").output::<Sum>(),
    ///         async |_: RawArgs, _: ToolContext| Ok(Json(Sum { sum: 7 })),
    ///     )
    ///     .build();
    /// # let _ = server;
    /// ```
    pub fn output<R: JsonSchema>(self) -> Self {
        let mut schema = SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator()
            .into_root_schema_for::<R>();
        if schema.get("type").is_none() && is_object(schema.as_value(), schema.as_value(), 0) {
            schema.insert("type".to_owned(), "object".into());
        }
        self.output_schema(schema)
    }
}

/// Whether all that fits this part of a schema is an object.
fn is_object(part: &Value, root: &Value, depth: usize) -> bool {
    let each = |keyword| part.get(keyword).and_then(Value::as_array);
    let inside = |part: &Value| is_object(part, root, depth + 1);
    if depth > MAX_DEPTH {
        return false;
    }
    if let Some(kind) = part.get("type") {
        return kind == "object";
    }
    if let Some(place) = part.get("$ref").and_then(Value::as_str) {
        let target = place.strip_prefix('#').and_then(|at| root.pointer(at));
        return target.is_some_and(inside);
    }
    if let Some(branches) = each("oneOf").or_else(|| each("anyOf")) {
        return !branches.is_empty() && branches.iter().all(inside);
    }
    each("allOf").is_some_and(|parts| parts.iter().any(inside))
}

/// Enums in enums: more are not met, and a type may be made of itself.
const MAX_DEPTH: usize = 16;

#[cfg(test)]
#[expect(dead_code, reason = "only the shape of the types counts")]
mod tests {
    use std::collections::HashMap;

    use serde::Serialize;
    use serde_json::json;

    use super::*;

    fn listed(tool: &Tool) -> Value {
        let mut out = String::new();
        tool.write(&mut out, true);
        serde_json::from_str(&out).unwrap()
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    struct Found {
        /// how many there are
        page_count: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<Box<Self>>,
        #[serde(default)]
        tags: Vec<String>,
    }

    #[test]
    fn a_result_is_described_as_it_is_written() {
        let schema = &listed(&Tool::new("t").output::<Found>())["outputSchema"];
        assert_eq!(
            schema["$schema"],
            "https://json-schema.org/draft/2020-12/schema"
        );
        assert_eq!(schema["type"], "object");
        // What may be absent on the way in is always there on the way out.
        assert_eq!(schema["required"], json!(["pageCount", "tags"]));
        let count = &schema["properties"]["pageCount"];
        assert_eq!(count["description"], "how many there are");
        assert_eq!(
            Tool::new("t").output::<Found>().required_output(),
            ["pageCount", "tags"]
        );
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(tag = "kind")]
    enum Tagged {
        Full { count: u8 },
        Nested(Inner),
    }

    #[derive(Serialize, JsonSchema)]
    struct Inner {
        count: u8,
    }

    #[derive(Serialize, JsonSchema)]
    enum Mixed {
        Full { count: u8 },
        None,
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(untagged)]
    enum Untagged {
        Map(HashMap<String, u8>),
        Struct(Inner),
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(transparent)]
    struct Outer(Tagged);

    #[derive(Serialize, JsonSchema)]
    #[serde(untagged)]
    enum Recursive {
        Leaf(Inner),
        More(Box<Self>),
    }

    #[test]
    fn only_what_is_always_an_object_says_so_at_its_root() {
        for (tool, wanted) in [
            (Tool::new("found").output::<Found>(), Some(json!("object"))),
            (
                Tool::new("tagged").output::<Tagged>(),
                Some(json!("object")),
            ),
            (Tool::new("outer").output::<Outer>(), Some(json!("object"))),
            (
                Tool::new("untagged").output::<Untagged>(),
                Some(json!("object")),
            ),
            (
                Tool::new("map").output::<HashMap<String, u8>>(),
                Some(json!("object")),
            ),
            (
                Tool::new("list").output::<Vec<Inner>>(),
                Some(json!("array")),
            ),
            (Tool::new("text").output::<String>(), Some(json!("string"))),
            (Tool::new("mixed").output::<Mixed>(), None),
            (Tool::new("option").output::<Option<Inner>>(), None),
            (Tool::new("any").output::<Value>(), None),
            (Tool::new("recursive").output::<Recursive>(), None),
        ] {
            let schema = &listed(&tool)["outputSchema"];
            assert_eq!(schema.get("type"), wanted.as_ref(), "{schema}");
            assert!(tool.check().is_ok(), "{schema}");
            assert_eq!(
                tool.has_plain_output(),
                wanted != Some(json!("object")),
                "{schema}"
            );
        }
    }

    #[test]
    fn arguments_are_an_object_or_no_tool() {
        for (tool, fault) in [
            (Tool::typed::<Inner>("t"), None),
            (Tool::typed::<Tagged>("t"), None),
            (Tool::typed::<Mixed>("t"), None),
            (Tool::typed::<HashMap<String, Value>>("t"), None),
            (Tool::typed::<Value>("t"), None),
            (
                Tool::typed::<String>("t"),
                Some("\"type\": \"object\" at its root"),
            ),
            (
                Tool::typed::<Vec<u8>>("t"),
                Some("\"type\": \"object\" at its root"),
            ),
        ] {
            let schema = listed(&tool)["inputSchema"].clone();
            let said = tool.check().err().map(|error| error.to_string());
            match fault {
                None => {
                    assert_eq!(said, None, "{schema}");
                    assert_eq!(schema["type"], "object");
                }
                Some(fault) => assert!(said.is_some_and(|said| said.contains(fault)), "{schema}"),
            }
        }
    }
}
