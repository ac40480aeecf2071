//! The objects of the protocol that this crate reads and writes.
//!
//! Knows their members; must not know in which revision they may be sent: that is a dialect's.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::param::ParamHeader;
use crate::wire::jsonrpc::{self, Object, RawJson, RequestId, given, required, required_text};

/// Who a client or a server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Implementation {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// What a client asks for in `initialize`, as far as a server uses it.
#[derive(Debug)]
pub(crate) struct InitializeParams {
    pub(crate) protocol_version: String,
}

impl<'a> Object<'a> for InitializeParams {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let [version] = given(json, ["protocolVersion"])?;
        let protocol_version = required_text(version, "protocolVersion")?.into_owned();
        Ok(Self { protocol_version })
    }
}

/// The answer to `initialize`, read leniently.
#[derive(Debug)]
pub(crate) struct InitializeResult<'a> {
    pub(crate) protocol_version: String,
    /// Whatever stands there.
    pub(crate) capabilities: Option<&'a RawValue>,
}

impl<'a> Object<'a> for InitializeResult<'a> {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let [version, capabilities] = given(json, ["protocolVersion", "capabilities"])?;
        Ok(Self {
            protocol_version: required_text(version, "protocolVersion")?.into_owned(),
            capabilities,
        })
    }
}

/// `params` of `tools/call`, as a server reads them; the raw parts borrow from the message.
#[derive(Debug)]
pub(crate) struct CallParams<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) arguments: Option<&'a RawValue>,
    pub(crate) meta: Option<&'a RawValue>,
}

impl<'a> Object<'a> for CallParams<'a> {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let [name, arguments, meta] = given(json, ["name", "arguments", "_meta"])?;
        Ok(Self {
            name: required_text(name, "name")?,
            arguments,
            meta,
        })
    }
}

/// The part of a request's `_meta` that a server uses. The token may be of any JSON type here.
#[derive(Debug)]
pub(crate) struct RequestMeta<'a> {
    pub(crate) progress_token: Option<&'a RawValue>,
}

impl<'a> Object<'a> for RequestMeta<'a> {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let [progress_token] = given(json, ["progressToken"])?;
        Ok(Self { progress_token })
    }
}

/// The part of a request's `_meta` by which it stands for itself, of whatever JSON types. A member
/// that is null is there.
#[derive(Debug, Default)]
pub(crate) struct StatedMeta<'a> {
    pub(crate) version: Option<&'a RawValue>,
    pub(crate) capabilities: Option<&'a RawValue>,
}

impl<'a> Object<'a> for StatedMeta<'a> {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let names = [
            "io.modelcontextprotocol/protocolVersion",
            "io.modelcontextprotocol/clientCapabilities",
        ];
        let [version, capabilities] = jsonrpc::members(json, names)?;
        Ok(Self {
            version,
            capabilities,
        })
    }
}

/// `params` of a request, as far as it says what the request is about.
#[derive(Debug)]
pub(crate) struct SubjectParams<'a> {
    pub(crate) name: Option<&'a RawValue>,
    pub(crate) uri: Option<&'a RawValue>,
    pub(crate) meta: Option<&'a RawValue>,
}

impl<'a> Object<'a> for SubjectParams<'a> {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let [name, uri, meta] = given(json, ["name", "uri", "_meta"])?;
        Ok(Self { name, uri, meta })
    }
}

/// `params` of `subscriptions/listen`: what a client wants to hear of.
#[derive(Debug)]
pub(crate) struct ListenParams<'a> {
    pub(crate) notifications: &'a RawValue,
}

impl<'a> Object<'a> for ListenParams<'a> {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let [notifications] = jsonrpc::members(json, ["notifications"])?;
        let notifications = required(notifications, "notifications")?;
        Ok(Self { notifications })
    }
}

/// The answer to `server/discover`, read leniently.
#[derive(Debug)]
pub(crate) struct DiscoverResult<'a> {
    pub(crate) supported_versions: Vec<String>,
    /// Whatever stands there.
    pub(crate) capabilities: Option<&'a RawValue>,
}

impl<'a> Object<'a> for DiscoverResult<'a> {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let [versions, capabilities] = given(json, ["supportedVersions", "capabilities"])?;
        let versions = required(versions, "supportedVersions")?;
        Ok(Self {
            supported_versions: jsonrpc::value(versions, "supportedVersions")?,
            capabilities,
        })
    }
}

/// `params` of `notifications/cancelled`. The reason is for people: an odd one spoils no cancel, so
/// it is not read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CancelledParams {
    pub(crate) request_id: RequestId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<Cow<'static, str>>,
}

impl<'a> Object<'a> for CancelledParams {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let [id] = given(json, ["requestId"])?;
        Ok(Self {
            request_id: jsonrpc::value(required(id, "requestId")?, "requestId")?,
            reason: None,
        })
    }
}

/// `params` of `notifications/subscriptions/acknowledged`, of whatever JSON types.
#[derive(Debug)]
pub(crate) struct AcknowledgedParams {
    notifications: Value,
    meta: Value,
}

impl<'a> Object<'a> for AcknowledgedParams {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let [notifications, meta] = given(json, ["notifications", "_meta"])?;
        Ok(Self {
            notifications: anything(notifications)?,
            meta: anything(meta)?,
        })
    }
}

impl AcknowledgedParams {
    /// Which request is acknowledged.
    pub(crate) fn subscription(&self) -> Option<RequestId> {
        let id = self.meta.get("io.modelcontextprotocol/subscriptionId")?;
        RequestId::deserialize(id).ok()
    }

    /// Whether the server will tell of changed tools.
    pub(crate) fn honours_tools(&self) -> bool {
        self.notifications.get("toolsListChanged") == Some(&Value::Bool(true))
    }
}

/// `params` of `notifications/progress`, raw: tokens and numbers come in many spellings.
#[derive(Debug)]
pub(crate) struct ProgressParams<'a> {
    pub(crate) progress_token: &'a RawValue,
    pub(crate) progress: Option<&'a RawValue>,
    pub(crate) total: Option<&'a RawValue>,
    pub(crate) message: Option<&'a RawValue>,
}

impl<'a> Object<'a> for ProgressParams<'a> {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let names = ["progressToken", "progress", "total", "message"];
        let [token, progress, total, message] = given(json, names)?;
        Ok(Self {
            progress_token: required(token, "progressToken")?,
            progress,
            total,
            message,
        })
    }
}

/// One page of `tools/list`, its tools raw so that a bad one spoils no other.
#[derive(Debug)]
pub(crate) struct ToolsPage<'a> {
    tools: Option<&'a RawValue>,
    pub(crate) next_cursor: Option<String>,
}

impl<'a> Object<'a> for ToolsPage<'a> {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let [tools, next_cursor] = given(json, ["tools", "nextCursor"])?;
        Ok(Self {
            // Null is what some servers write for an empty list.
            tools: tools.filter(|raw| raw.get() != "null"),
            next_cursor: next_cursor
                .map(|raw| jsonrpc::value(raw, "nextCursor"))
                .transpose()?,
        })
    }
}

impl<'a> ToolsPage<'a> {
    /// Gives the tools to `take` until that has had enough.
    pub(crate) fn tools(
        &self,
        take: impl FnMut(&'a RawValue) -> ControlFlow<()>,
    ) -> serde_json::Result<()> {
        match self.tools {
            Some(tools) => {
                jsonrpc::elements(tools.get(), take).map_err(|e| jsonrpc::misfit("tools", &e))
            }
            None => Ok(()),
        }
    }
}

/// A tool as a server describes it. Everything but the name is as it was sent.
#[derive(Debug, Clone)]
pub(crate) struct ToolDescription {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) input_schema: Option<RawJson>,
    pub(crate) output_schema: Option<RawJson>,
    pub(crate) annotations: Option<RawJson>,
    pub(crate) meta: Option<RawJson>,
    /// The arguments that it wants in headers too; none where headers do not repeat arguments.
    pub(crate) mirrored: Box<[ParamHeader]>,
    pub(crate) raw: RawJson,
}

impl ToolDescription {
    /// Reads one entry of a page; says why if it cannot be used.
    pub(crate) fn read(raw: RawJson) -> Result<Self, &'static str> {
        if !raw.is_object() {
            return Err("it is not an object");
        }
        let names = [
            "name",
            "title",
            "description",
            "inputSchema",
            "outputSchema",
            "annotations",
            "_meta",
        ];
        let members = given(raw.as_str(), names).map_err(|_| "it has a member twice")?;
        let [
            name,
            title,
            description,
            input_schema,
            output_schema,
            annotations,
            meta,
        ] = members;
        let text = |member: Option<&RawValue>| {
            member.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok())
        };
        let keep = |member: Option<&RawValue>| member.map(|part| raw.part(part));
        let annotated_title = annotations.and_then(|annotations| {
            let annotations: Value = serde_json::from_str(annotations.get()).ok()?;
            annotations.get("title")?.as_str().map(str::to_owned)
        });
        let name = text(name).ok_or("it has no name")?;
        if name.is_empty() {
            return Err("its name is empty");
        }
        Ok(Self {
            name,
            title: text(title).or(annotated_title),
            description: text(description),
            input_schema: keep(input_schema),
            output_schema: keep(output_schema),
            annotations: keep(annotations),
            meta: keep(meta),
            mirrored: Box::default(),
            raw: raw.clone(),
        })
    }

    /// Whether the output schema describes an object with the one property `result`: what servers
    /// wrap around a result that is no object.
    pub(crate) fn wraps_result(&self) -> bool {
        self.output_schema.as_ref().is_some_and(|schema| {
            let properties = given(schema.as_str(), ["properties"]).ok();
            let named: Option<BTreeMap<Cow<'_, str>, &RawValue>> =
                properties.and_then(|[named]| serde_json::from_str(named?.get()).ok());
            named.is_some_and(|named| named.len() == 1 && named.contains_key("result"))
        })
    }
}

/// The result of `tools/call`, as a client reads it: raw parts borrow from the message.
#[derive(Debug)]
pub(crate) struct CallResult<'a> {
    pub(crate) content: Option<&'a RawValue>,
    pub(crate) structured_content: Option<&'a RawValue>,
    pub(crate) is_error: Option<&'a RawValue>,
    pub(crate) task: Option<&'a RawValue>,
}

impl<'a> Object<'a> for CallResult<'a> {
    fn read(json: &'a str) -> serde_json::Result<Self> {
        let names = ["content", "structuredContent", "isError", "task"];
        let [content, structured_content, is_error, task] = given(json, names)?;
        Ok(Self {
            content,
            structured_content,
            is_error,
            task,
        })
    }
}

fn anything(json: Option<&RawValue>) -> serde_json::Result<Value> {
    json.map_or(Ok(Value::Null), |json| serde_json::from_str(json.get()))
}

/// One block of a tool's result: a text, an image, a sound, a resource or a link to one.
///
/// ```
/// use agent_hub_kit::ContentBlock;
///
/// let blocks = vec![ContentBlock::text("a red dot"), ContentBlock::image(b"\x89PNG", "image/png")];
/// # assert_eq!(blocks.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentBlock(Map<String, Value>);

impl ContentBlock {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of("text", [("text", text.into())])
    }

    /// An image: its bytes and its media type.
    pub fn image(bytes: impl AsRef<[u8]>, media_type: impl Into<String>) -> Self {
        Self::of(
            "image",
            [("data", base64(bytes)), ("mimeType", media_type.into())],
        )
    }

    /// A sound: its bytes and its media type.
    pub fn audio(bytes: impl AsRef<[u8]>, media_type: impl Into<String>) -> Self {
        Self::of(
            "audio",
            [("data", base64(bytes)), ("mimeType", media_type.into())],
        )
    }

    /// A text resource with its content.
    pub fn text_resource(
        uri: impl Into<String>,
        media_type: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        let resource = json!({
            "uri": uri.into(), "mimeType": media_type.into(), "text": text.into(),
        });
        Self::of("resource", [("resource", resource)])
    }

    /// A binary resource with its content.
    pub fn blob_resource(
        uri: impl Into<String>,
        media_type: impl Into<String>,
        bytes: impl AsRef<[u8]>,
    ) -> Self {
        let resource = json!({
            "uri": uri.into(), "mimeType": media_type.into(), "blob": base64(bytes),
        });
        Self::of("resource", [("resource", resource)])
    }

    /// A link to a resource that is not sent along.
    pub fn resource_link(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self::of(
            "resource_link",
            [("uri", uri.into()), ("name", name.into())],
        )
    }

    /// Sets any further member, such as `annotations`, `title` or `_meta`.
    pub fn with(mut self, member: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.insert(member.into(), value.into());
        self
    }

    fn of<V: Into<Value>, const N: usize>(kind: &str, members: [(&str, V); N]) -> Self {
        let mut block = Map::new();
        block.insert("type".to_owned(), kind.into());
        for (name, value) in members {
            block.insert(name.to_owned(), value.into());
        }
        Self(block)
    }

    pub(crate) fn kind(&self) -> &str {
        self.member("type")
    }

    pub(crate) fn member(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Who may be given a copy of the list of tools that one client was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheScope {
    /// Anyone. The default.
    #[default]
    Public,
    /// Nobody with other credentials.
    Private,
}

/// The whole result of a tool: blocks, structured content, and whether it failed.
///
/// Most handlers return something that becomes one by itself
/// ([`IntoToolOutput`](crate::IntoToolOutput)); this is for full control.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    pub(crate) content: Vec<ContentBlock>,
    pub(crate) structured: Option<Value>,
    pub(crate) is_error: bool,
    pub(crate) meta: Option<Map<String, Value>>,
}

impl ToolOutput {
    /// A result without any content.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a block.
    pub fn block(mut self, block: ContentBlock) -> Self {
        self.content.push(block);
        self
    }

    /// Sets the structured content. Protocol revisions before 2025-06-18 do not carry it, and
    /// those before 2026-07-28 carry only objects; a text block with the same JSON reaches
    /// everyone.
    pub fn structured(mut self, value: impl Into<Value>) -> Self {
        self.structured = Some(value.into());
        self
    }

    /// Marks the result as a failure that a model can act on.
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// The members of the result, all that there are.
    pub(crate) fn members(self) -> Map<String, Value> {
        let mut members = Map::new();
        let content = self.content.into_iter().map(|block| Value::Object(block.0));
        members.insert("content".to_owned(), content.collect());
        if let Some(structured) = self.structured {
            members.insert("structuredContent".to_owned(), structured);
        }
        if self.is_error {
            members.insert("isError".to_owned(), Value::Bool(true));
        }
        if let Some(meta) = self.meta {
            members.insert("_meta".to_owned(), Value::Object(meta));
        }
        members
    }

    /// Sets the `_meta` of the result. Keys need a prefix of your own, such as `example.com/x`.
    pub fn meta(mut self, meta: Map<String, Value>) -> Self {
        self.meta = Some(meta);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Covers R-708.
    #[test]
    fn each_kind_of_block_has_its_members() {
        // Two bytes that are spelled apart in the two alphabets, and are padded.
        let (bytes, spelled) = (b"\xfb\xff", "+/8=");
        let table = [
            (
                ContentBlock::text("a"),
                json!({"type": "text", "text": "a"}),
            ),
            (
                ContentBlock::image(bytes, "image/png"),
                json!({"type": "image", "data": spelled, "mimeType": "image/png"}),
            ),
            (
                ContentBlock::audio(bytes, "audio/wav"),
                json!({"type": "audio", "data": spelled, "mimeType": "audio/wav"}),
            ),
            (
                ContentBlock::resource_link("file:///x", "x").with("size", 3),
                json!({"type": "resource_link", "uri": "file:///x", "name": "x", "size": 3}),
            ),
            (
                ContentBlock::text_resource("file:///x", "text/plain", "a"),
                json!({"type": "resource", "resource":
                    {"uri": "file:///x", "mimeType": "text/plain", "text": "a"}}),
            ),
            (
                ContentBlock::blob_resource("file:///x", "image/png", bytes),
                json!({"type": "resource", "resource":
                    {"uri": "file:///x", "mimeType": "image/png", "blob": spelled}}),
            ),
        ];
        for (block, expected) in table {
            assert_eq!(serde_json::to_value(&block).unwrap(), expected);
        }
    }
}
