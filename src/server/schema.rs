//! Schemas from Rust types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::mcp::tool::Tool;

impl Tool {
    /// A tool whose arguments are the type `A`: its schema says so to the caller.
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
        Self::new(name).input_schema(schema_of::<A>())
    }

    /// Sets the output schema to that of `R`. The handler then returns [`Json<R>`](crate::Json).
    pub fn output<R: JsonSchema>(self) -> Self {
        self.output_schema(schema_of::<R>())
    }
}

fn schema_of<T: JsonSchema>() -> Schema {
    let mut schema = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>();
    // A unit or a flattened map has no type of its own, but arguments are always an object.
    if schema.get("type").is_none() {
        schema.insert("type".to_owned(), "object".into());
    }
    schema
}
