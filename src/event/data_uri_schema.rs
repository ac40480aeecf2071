//! How a tool tells that an argument is a data URI.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::DataUri;

impl JsonSchema for DataUri {
    fn schema_name() -> Cow<'static, str> {
        "DataUri".into()
    }

    fn schema_id() -> Cow<'static, str> {
        "agent_hub_kit::DataUri".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "uri",
            "pattern": "^data:",
            "description": "a data URI, such as data:image/png;base64,..",
        })
    }
}
