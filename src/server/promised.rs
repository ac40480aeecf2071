//! What a tool's output schema promises, held against what its handler returns.
//!
//! Owns the check of what every client can count on: that there is structured content, and what is
//! required at its root. Must not know how results are written.

use std::sync::Arc;

use serde_json::Value;

use super::output::ToolError;
use crate::mcp::tool::Tool;

/// What the output schema of a tool says of its structured content, as far as it is checked.
#[derive(Debug, Clone)]
pub(super) enum Promised {
    Nothing,
    /// With these members at least.
    Object(Arc<[String]>),
    Something,
}

impl Promised {
    pub(super) fn by(tool: &Tool) -> Self {
        match tool.has_output_schema() {
            false => Self::Nothing,
            true if tool.has_plain_output() => Self::Something,
            true => Self::Object(tool.required_output().into()),
        }
    }

    /// A client may fail a call whose result breaks the promise, without a word of why: so it is told
    /// as a failure of the tool.
    pub(super) fn check(&self, structured: Option<&Value>) -> Result<(), ToolError> {
        let fault = match (self, structured) {
            (Self::Nothing, _) | (Self::Something, Some(_)) => return Ok(()),
            (_, None) => "returned no structured content".to_owned(),
            (Self::Object(required), Some(Value::Object(found))) => {
                let mut required = required.iter();
                match required.find(|name| !found.contains_key(*name)) {
                    None => return Ok(()),
                    Some(name) => format!("returned structured content without {name:?}"),
                }
            }
            (Self::Object(_), Some(_)) => {
                "returned structured content that is no object".to_owned()
            }
        };
        Err(ToolError::new(format!(
            "the tool has an output schema but {fault}"
        )))
    }
}
