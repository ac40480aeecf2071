//! How a node ends.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::event::describe;

/// A node at work.
pub(super) type NodeFuture = Pin<Box<dyn Future<Output = Result<(), NodeError>> + Send>>;

/// Why a node failed.
///
/// `?` turns any [`std::error::Error`] into one, with its causes in the text; that is why it does
/// not implement that trait itself.
///
/// ```
/// use agent_hub_kit::NodeError;
///
/// fn parse(text: &str) -> Result<i64, NodeError> {
///     if text.is_empty() {
///         return Err(NodeError::new("there is no number"));
///     }
///     Ok(text.parse::<i64>()?)
/// }
/// assert_eq!(parse("").unwrap_err().to_string(), "there is no number");
/// assert!(parse("x").unwrap_err().to_string().contains("invalid digit"));
/// ```
#[derive(Clone)]
pub struct NodeError(String);

impl NodeError {
    /// A failure in words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// A failure from something that can be shown but is no [`std::error::Error`].
    pub fn from_display(error: impl fmt::Display) -> Self {
        Self::new(error.to_string())
    }
}

impl<E: std::error::Error> From<E> for NodeError {
    fn from(error: E) -> Self {
        Self(describe(&error))
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeError({self})")
    }
}

/// What a node returns: nothing, or a `Result<(), NodeError>`. Sealed.
pub trait NodeOutput: sealed::Sealed {
    /// Whether the node failed.
    #[doc(hidden)]
    fn into_result(self) -> Result<(), NodeError>;
}

impl NodeOutput for () {
    fn into_result(self) -> Result<(), NodeError> {
        Ok(())
    }
}

// The only `Result`: so a closure that ends with `Ok(())` need not say which error `?` turns into.
impl NodeOutput for Result<(), NodeError> {
    fn into_result(self) -> Result<(), NodeError> {
        self
    }
}

mod sealed {
    #[expect(
        unnameable_types,
        reason = "what nobody can name, nobody can implement"
    )]
    pub trait Sealed {}
    impl Sealed for () {}
    impl Sealed for Result<(), super::NodeError> {}
}
