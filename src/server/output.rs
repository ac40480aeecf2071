//! What a handler may return.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::event::describe;
use crate::mcp::types::{ContentBlock, ToolOutput};
use crate::wire::jsonrpc::{Code, ErrorObject, RawJson};

/// What becomes the result of a tool.
///
/// Strings become one text block, `()` an empty result, [`Json`] and [`Value`] structured content
/// with its text beside it, [`ContentBlock`]s themselves; [`ToolOutput`] is full control.
pub trait IntoToolOutput {
    /// The result.
    ///
    /// # Errors
    /// When the value cannot be written as JSON; the tool then fails with that text.
    fn into_tool_output(self) -> Result<ToolOutput, ToolError>;
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self)
    }
}

impl IntoToolOutput for () {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::new())
    }
}

impl IntoToolOutput for String {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::new().block(ContentBlock::text(self)))
    }
}

impl IntoToolOutput for &str {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        self.to_owned().into_tool_output()
    }
}

impl IntoToolOutput for Cow<'_, str> {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        self.into_owned().into_tool_output()
    }
}

impl IntoToolOutput for ContentBlock {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::new().block(self))
    }
}

impl IntoToolOutput for Vec<ContentBlock> {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self.into_iter().fold(ToolOutput::new(), ToolOutput::block))
    }
}

impl IntoToolOutput for Value {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        let text = ContentBlock::text(self.to_string());
        Ok(ToolOutput::new().block(text).structured(self))
    }
}

/// Any value as structured content.
///
/// ```
/// use agent_hub_kit::{IntoToolOutput, Json};
///
/// #[derive(serde::Serialize)]
/// struct Sum { sum: i64 }
///
/// let output = Json(Sum { sum: 7 }).into_tool_output();
/// # assert!(output.is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a wrapper that is built by its name"
)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoToolOutput for Json<T> {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        serde_json::to_value(self.0)
            .map_err(|e| ToolError::new(format!("the result cannot be written as JSON: {e}")))?
            .into_tool_output()
    }
}

/// Why a tool failed.
///
/// `?` turns any [`std::error::Error`] into one, with its causes in the text; that is why it does
/// not implement that trait itself. The caller sees a result with `isError`, which a model can act
/// on, unless it is a [`protocol`](Self::protocol) error.
///
/// ```
/// use agent_hub_kit::ToolError;
///
/// fn parse(text: &str) -> Result<i64, ToolError> {
///     if text.is_empty() {
///         return Err(ToolError::new("give a number"));
///     }
///     Ok(text.parse::<i64>()?)
/// }
/// assert!(parse("x").unwrap_err().to_string().contains("invalid digit"));
/// ```
#[derive(Clone)]
pub struct ToolError(Kind);

#[derive(Clone)]
enum Kind {
    Output(ToolOutput),
    Protocol(Box<ErrorObject>),
}

impl ToolError {
    /// A failure in words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(Kind::Output(
            ToolOutput::new()
                .block(ContentBlock::text(message))
                .failed(),
        ))
    }

    /// A failure from something that can be shown but is no [`std::error::Error`].
    pub fn from_display(error: impl fmt::Display) -> Self {
        Self::new(error.to_string())
    }

    /// A failure with content of its own: the output is marked as failed.
    pub fn with_output(output: ToolOutput) -> Self {
        Self(Kind::Output(output.failed()))
    }

    /// A JSON-RPC error instead of a result: for callers that broke the protocol, not for tools
    /// that failed. Codes of your own lie outside -32768 to -32000.
    pub fn protocol(code: i64, message: impl Into<String>) -> Self {
        Self(Kind::Protocol(Box::new(ErrorObject::new(
            Code(code),
            message.into(),
        ))))
    }

    /// The same with a `data` member.
    pub fn protocol_with_data(code: i64, message: impl Into<String>, data: Value) -> Self {
        let mut error = ErrorObject::new(Code(code), message.into());
        error.data = RawJson::serialized(&data).ok();
        Self(Kind::Protocol(Box::new(error)))
    }
}

/// What is sent for how a handler ended: a result, or an error. A result that says it failed is
/// never without a word.
pub(super) fn into_answer(ended: Result<ToolOutput, ToolError>) -> Result<ToolOutput, ErrorObject> {
    let mut output = match ended {
        Ok(output) | Err(ToolError(Kind::Output(output))) => output,
        Err(ToolError(Kind::Protocol(error))) => return Err(*error),
    };
    let silent = |block: &ContentBlock| block.kind() == "text" && block.member("text").is_empty();
    if output.is_error && output.content.iter().all(silent) {
        output.content = vec![ContentBlock::text("the tool failed without a message")];
    }
    Ok(output)
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(describe(&error))
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Output(output) => {
                let mut separator = "";
                for block in output.content.iter().filter(|block| block.kind() == "text") {
                    write!(f, "{separator}{}", block.member("text"))?;
                    separator = "\n";
                }
                Ok(())
            }
            Kind::Protocol(error) => write!(f, "error {}: {}", error.code.0, error.message),
        }
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolError({self})")
    }
}
