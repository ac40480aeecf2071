//! A call whose events nobody reads: only its result counts.

use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::call::CallStream;
use crate::error::{Error, Place, Result};
use crate::event::StreamEvent;
use crate::transport::BoxFuture;

/// A call that is made when it is awaited. See
/// [`call_tool`](crate::AgentHubClient::call_tool).
#[derive(Debug)]
#[must_use = "a call is made when it is awaited"]
pub struct CallTool(CallStream);

/// As [`CallTool`], with the result as a type of yours.
#[derive(Debug)]
#[must_use = "a call is made when it is awaited"]
pub struct CallTyped<T>(CallTool, PhantomData<fn() -> T>);

impl CallTool {
    pub(super) fn new(stream: CallStream) -> Self {
        Self(stream)
    }

    /// Names the server whose tool is meant.
    pub fn server(self, name: impl Into<String>) -> Self {
        Self(self.0.server(name))
    }

    /// The longest that the whole call may take. None by default.
    pub fn timeout(self, after: Duration) -> Self {
        Self(self.0.timeout(after))
    }

    /// The longest that nothing may be heard of the tool: each of its events starts the time anew.
    /// None by default.
    pub fn idle_timeout(self, after: Duration) -> Self {
        Self(self.0.idle_timeout(after))
    }

    /// Reads the result as a type: the structured content if it fits, else the content as
    /// [`call_tool`](crate::AgentHubClient::call_tool) gives it.
    ///
    /// # Errors
    /// Beside those of the call, [`Error::Protocol`] if the result has another shape.
    pub fn typed<T: DeserializeOwned>(self) -> CallTyped<T> {
        CallTyped(self, PhantomData)
    }

    /// The result, and where it comes from.
    async fn end(self) -> Result<(StreamEvent, Place)> {
        let mut stream = self.0.without_events();
        while let Some(event) = stream.next().await {
            match event.error() {
                Some(error) => return Err(error.clone()),
                None if event.is_terminal() => return Ok((event, stream.place())),
                None => {}
            }
        }
        Err(Error::closed("stream"))
    }
}

impl IntoFuture for CallTool {
    type Output = Result<Value>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.end().await?.0.content.value()) })
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for CallTyped<T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (event, place) = self.0.end().await?;
            #[derive(serde::Deserialize)]
            #[serde(rename_all = "camelCase", bound = "T: DeserializeOwned")]
            struct Whole<T> {
                structured_content: T,
            }
            if let Some(result) = event.tool_result()
                && let Ok(whole) = result.deserialize::<Whole<T>>()
            {
                return Ok(whole.structured_content);
            }
            let content = &event.content;
            let read = content.deserialize().or_else(|e| match content.as_str() {
                // A server that sends JSON as a text.
                Some(text) => serde_json::from_str(text).map_err(|_| e),
                None => Err(e),
            });
            read.map_err(|e| e.at(&place))
        })
    }
}
