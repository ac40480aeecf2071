//! What a server says of one of its tools.

use serde::Serialize;
use serde_json::{Map, Value};

use super::param::ParamHeader;
use crate::error::Error;
use crate::wire::jsonrpc::RawJson;

/// A tool's name, description and schemas.
///
/// ```
/// use agent_hub_kit::Tool;
/// use serde_json::json;
///
/// let tool = Tool::new("add")
///     .description("Add two numbers")
///     .input_schema(json!({
///         "type": "object",
///         "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
///         "required": ["a", "b"],
///     }));
/// # assert_eq!(tool.name(), "add");
/// ```
#[derive(Debug, Clone)]
pub struct Tool {
    name: String,
    description: String,
    members: Map<String, Value>,
    input_schema: RawJson,
    output_schema: Option<RawJson>,
    param_headers: Vec<ParamHeader>,
    capabilities: Vec<String>,
    any_name: bool,
    fault: Option<String>,
}

impl Tool {
    /// A tool that takes any object as its arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            members: Map::new(),
            input_schema: RawJson::from_static(r#"{"type":"object"}"#),
            output_schema: None,
            param_headers: Vec::new(),
            capabilities: Vec::new(),
            any_name: false,
            fault: None,
        }
    }

    /// What the tool does, for the model that may call it.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// A name for people.
    pub fn title(self, text: impl Into<String>) -> Self {
        self.with("title", Value::String(text.into()))
    }

    /// The JSON Schema of the arguments: an object with `"type": "object"` at its root. Kept as it
    /// is written. Without one, any object is taken.
    ///
    /// A property with `"x-mcp-header": "Name"` is an argument that HTTP clients of revisions since
    /// 2026-07-28 mirror in the header `Mcp-Param-Name`, so that a proxy can route by it; a request
    /// whose header and argument differ is refused. It has the type `string`, `integer` or
    /// `boolean`, and is reached from the root by `properties` alone. Headers are logged along the
    /// way: no secret belongs there.
    pub fn input_schema(mut self, schema: impl Serialize) -> Self {
        if let Some(schema) = self.object(schema, "input schema") {
            if Self::root_type(&schema).as_deref() != Some("object") {
                self.fail("the input schema needs \"type\": \"object\" at its root");
            }
            match ParamHeader::read_all(&schema) {
                Ok(headers) => self.param_headers = headers,
                Err(why) => self.fail(&why),
            }
            self.input_schema = schema;
        }
        self
    }

    /// The JSON Schema of the structured result. With one, every result that is no failure must
    /// carry structured content.
    pub fn output_schema(mut self, schema: impl Serialize) -> Self {
        if let Some(schema) = self.object(schema, "output schema") {
            self.output_schema = Some(schema);
        }
        self
    }

    /// Names a capability, such as `sampling`, without which a client cannot use the tool. Clients
    /// of revisions since 2026-07-28 declare theirs with each request; a call that lacks one that
    /// is needed is refused with the error -32021, which names all of them, before the tool runs.
    /// Clients of older revisions are not asked.
    pub fn requires_client_capability(mut self, capability: impl Into<String>) -> Self {
        self.capabilities.push(capability.into());
        self
    }

    /// Sets any further member: `annotations`, `icons`, `_meta`.
    pub fn with(mut self, member: impl Into<String>, value: impl Into<Value>) -> Self {
        self.members.insert(member.into(), value.into());
        self
    }

    /// Allows a name outside `A-Z a-z 0-9 _ - .` or longer than 128 characters, which some clients
    /// refuse.
    pub fn allow_any_name(mut self) -> Self {
        self.any_name = true;
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The input schema.
    pub(crate) fn accepted(&self) -> &RawJson {
        &self.input_schema
    }

    /// Its arguments that travel in headers too.
    pub(crate) fn param_headers(&self) -> &[ParamHeader] {
        &self.param_headers
    }

    /// What it needs of a client.
    pub(crate) fn capabilities(&self) -> &[String] {
        &self.capabilities
    }

    pub(crate) fn has_output_schema(&self) -> bool {
        self.output_schema.is_some()
    }

    /// The output schema's root type is not an object: only newer revisions can say so.
    pub(crate) fn has_plain_output(&self) -> bool {
        self.output_schema
            .as_ref()
            .is_some_and(|schema| Self::root_type(schema).as_deref() != Some("object"))
    }

    /// The properties that the output schema requires at its root.
    pub(crate) fn required_output(&self) -> Vec<String> {
        #[derive(serde::Deserialize)]
        struct Root {
            required: Option<Vec<String>>,
        }
        let schema = self.output_schema.as_ref();
        let root = schema.and_then(|schema| schema.deserialize::<Root>().ok());
        root.and_then(|root| root.required).unwrap_or_default()
    }

    /// What is wrong with this tool, so that it cannot be offered.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let name = &self.name;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() {
            return Err(Error::config("a tool needs a name"));
        }
        if !self.any_name && (name.len() > 128 || !name.chars().all(plain)) {
            return Err(Error::config(format!(
                "the tool name {name:?} is not 1 to 128 of A-Z a-z 0-9 _ - . (allow_any_name() \
                 permits it)"
            )));
        }
        match &self.fault {
            Some(fault) => Err(Error::config(format!("tool `{name}`: {fault}"))),
            None => Ok(()),
        }
    }

    /// Appends the tool as `tools/list` carries it.
    pub(crate) fn write(&self, out: &mut String, with_output_schema: bool) {
        out.push('{');
        let mut separator = "";
        let mut member = |name: &str, json: &str| {
            out.push_str(separator);
            separator = ",";
            out.push_str(&Value::from(name).to_string());
            out.push(':');
            out.push_str(json);
        };
        member("name", &Value::from(self.name.as_str()).to_string());
        member(
            "description",
            &Value::from(self.description.as_str()).to_string(),
        );
        member("inputSchema", self.input_schema.as_str());
        if let Some(schema) = self.output_schema.as_ref().filter(|_| with_output_schema) {
            member("outputSchema", schema.as_str());
        }
        for (name, value) in &self.members {
            member(name, &value.to_string());
        }
        out.push('}');
    }

    fn object(&mut self, schema: impl Serialize, what: &str) -> Option<RawJson> {
        match RawJson::serialized(&schema) {
            Ok(schema) if schema.is_object() => return Some(schema),
            Ok(_) => self.fail(&format!("the {what} is not a JSON object")),
            Err(e) => self.fail(&format!("the {what} is not JSON: {e}")),
        }
        None
    }

    pub(crate) fn fail(&mut self, fault: &str) {
        self.fault.get_or_insert_with(|| fault.to_owned());
    }

    fn root_type(schema: &RawJson) -> Option<String> {
        let schema: Map<String, Value> = schema.deserialize().ok()?;
        schema.get("type")?.as_str().map(str::to_owned)
    }
}
