//! The handshake revisions, 2024-11-05 to 2025-11-25.
//!
//! Owns what only they have: `initialize`, sessions, cancelling by notification. Must not know of
//! any other era.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::frame::{Head, SessionId};
use super::super::tool::Tool;
use super::super::types::{
    ContentBlock, Implementation, InitializeParams, InitializeResult, ToolOutput,
};
use super::super::version::ProtocolVersion;
use super::{
    Completion, Denial, Dialect, HttpCancel, Loss, Method, Opened, ServerWords, Stage,
    SubscriptionWords, Unopened,
};
use crate::wire::jsonrpc::{self, Code, ErrorObject, RawJson, RequestId};

#[derive(Debug)]
pub(super) struct Legacy;

impl Dialect for Legacy {
    fn opening(&self, id: &RequestId, client: &Implementation) -> (Head, Bytes) {
        let params = json!({
            "protocolVersion": ProtocolVersion::NEWEST_LEGACY.as_str(),
            "capabilities": {},
            "clientInfo": client,
        });
        // The head stays empty: the version is what the answer will say.
        let body = jsonrpc::encode_request(id, "initialize", &params);
        (Head::default(), body)
    }

    fn opened(&self, result: &RawJson) -> Result<Opened, Unopened> {
        let result: InitializeResult<'_> = result
            .object()
            .map_err(|e| Unopened::Odd(format!("an odd answer to initialize: {e}")))?;
        let known = ProtocolVersion::parse(&result.protocol_version);
        let Some(version) = known.filter(|version| version.is_legacy()) else {
            return Err(Unopened::Versions(vec![result.protocol_version]));
        };
        Ok(Opened::new(version, result.capabilities))
    }

    fn confirmation(&self) -> Option<Bytes> {
        let confirmation = jsonrpc::encode_notification("notifications/initialized", None::<&()>);
        Some(confirmation)
    }

    fn head(&self, version: ProtocolVersion, session: Option<&SessionId>) -> Head {
        Head {
            version: Some(version.as_str().to_owned()),
            session_id: session.cloned(),
            ..Head::default()
        }
    }

    fn address(&self, _head: &mut Head, _method: &'static str, _name: Option<&str>) {}

    fn request_meta(&self, _version: ProtocolVersion, _client: &Implementation) -> String {
        String::new()
    }

    fn has_sessions(&self) -> bool {
        true
    }

    fn http_cancel(&self) -> HttpCancel {
        HttpCancel::Notification
    }

    /// The status says so, never a code: "Session Management" of the transport's specification. Some
    /// servers answer 400. A server of another era has codes of its own, and misses its `_meta`.
    fn loss(&self, denial: &Denial<'_>) -> Option<Loss> {
        let says =
            |word: &str| denial.status == 400 && denial.body.to_ascii_lowercase().contains(word);
        let is_lost = denial.has_session && (denial.status == 404 || says("session"));
        let is_stranger = matches!(
            denial.code,
            Some(Code::HEADER_MISMATCH | Code::UNSUPPORTED_VERSION)
        );
        match is_lost || is_stranger {
            true => Some(Loss::Sure),
            false => says("io.modelcontextprotocol/").then_some(Loss::Likely),
        }
    }

    fn mirrors_arguments(&self) -> bool {
        false
    }

    fn answers_requests(&self) -> bool {
        true
    }

    fn listen(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    fn freshness(&self, _page: &RawJson) -> Duration {
        Duration::ZERO
    }

    fn completion(&self, _result: &RawJson) -> Completion {
        Completion::Complete
    }

    fn method(&self, name: &str) -> Option<Method> {
        Some(match name {
            "initialize" => Method::Initialize,
            "ping" => Method::Ping,
            "tools/call" => Method::CallTool,
            "tools/list" => Method::ListTools,
            _ => return None,
        })
    }

    fn open(
        &self,
        params: Option<&RawJson>,
        server: &ServerWords,
    ) -> Result<(Option<ProtocolVersion>, String), ErrorObject> {
        let params: InitializeParams = jsonrpc::parse_params(params)?;
        let version = ProtocolVersion::parse(&params.protocol_version)
            .filter(|version| version.is_legacy())
            .unwrap_or(ProtocolVersion::NEWEST_LEGACY);
        let mut result = json!({
            "protocolVersion": version.as_str(),
            "capabilities": server.capabilities(),
            "serverInfo": server.info,
        });
        if let (Some(text), Some(result)) = (&server.instructions, result.as_object_mut()) {
            result.insert("instructions".to_owned(), Value::from(text.as_str()));
        }
        Ok((Some(version), result.to_string()))
    }

    fn takes_batches(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::V2025_03_26
    }

    fn primes_streams(&self, version: ProtocolVersion) -> bool {
        version >= ProtocolVersion::V2025_11_25
    }

    fn write_tool(&self, _version: ProtocolVersion, tool: &Tool, out: &mut String) {
        // Older peers ignore members they do not know, but reject an output schema of a root type
        // other than object.
        tool.write(out, !tool.has_plain_output());
    }

    fn list_result(&self, tools: &str, next: Option<&str>, _server: &ServerWords) -> String {
        match next {
            None => format!("{{\"tools\":[{tools}]}}"),
            Some(cursor) => {
                let cursor = Value::from(cursor);
                format!("{{\"tools\":[{tools}],\"nextCursor\":{cursor}}}")
            }
        }
    }

    fn call_result(
        &self,
        version: ProtocolVersion,
        mut output: ToolOutput,
        _server: &ServerWords,
    ) -> String {
        for block in &mut output.content {
            carry(version, block);
        }
        let keeps = |value: &Value| value.is_object() && version >= ProtocolVersion::V2025_06_18;
        output.structured = output.structured.filter(keeps);
        Value::Object(output.members()).to_string()
    }

    fn subscription(
        &self,
        _id: &RequestId,
        _params: Option<&RawJson>,
        _server: &ServerWords,
    ) -> Result<Option<SubscriptionWords>, ErrorObject> {
        Ok(None)
    }

    fn http_status(&self, code: Code, _stage: Stage) -> u16 {
        match code {
            Code::PARSE | Code::INVALID_REQUEST => 400,
            _ => 200,
        }
    }
}

/// A block that this revision does not know yet becomes a text that says where the content is.
fn carry(version: ProtocolVersion, block: &mut ContentBlock) {
    let text = match block.kind() {
        "audio" if version < ProtocolVersion::V2025_03_26 => {
            format!("[audio, {}]", block.member("mimeType"))
        }
        "resource_link" if version < ProtocolVersion::V2025_06_18 => block.member("uri").to_owned(),
        _ => return,
    };
    *block = ContentBlock::text(text);
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::mcp::types::CacheScope;

    fn words() -> ServerWords {
        let info = Implementation {
            name: "echo".to_owned(),
            version: "0.1.0".to_owned(),
        };
        ServerWords {
            info,
            instructions: Some("be kind".to_owned()),
            list_changed: false,
            tools_ttl_ms: 0,
            cache_scope: CacheScope::Public,
        }
    }

    fn raw(json: &'static str) -> RawJson {
        RawJson::from_static(json)
    }

    // Covers R-401.
    #[test]
    fn opening_asks_for_the_newest_revision() {
        let client = Implementation {
            name: "hub".to_owned(),
            version: "0.1.0".to_owned(),
        };
        let (_, opening) = Legacy.opening(&RequestId::Number(1), &client);
        let sent: Value = serde_json::from_slice(&opening).unwrap();
        assert_eq!(
            sent,
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "hub", "version": "0.1.0"},
            }})
        );
    }

    // Covers R-402.
    #[test]
    fn a_supported_revision_is_echoed_and_any_other_gets_the_newest() {
        let table = [
            (raw(r#"{"protocolVersion":"2024-11-05"}"#), Ok("2024-11-05")),
            (
                raw(r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#),
                Ok("2025-06-18"),
            ),
            (raw(r#"{"protocolVersion":"2026-07-28"}"#), Ok("2025-11-25")),
            (raw(r#"{"protocolVersion":"x"}"#), Ok("2025-11-25")),
            (raw(r#"{"protocolVersion":7}"#), Err(-32602)),
            (raw("{}"), Err(-32602)),
            (raw("[]"), Err(-32602)),
        ];
        for (params, expected) in table {
            let answer = Legacy.open(Some(&params), &words());
            match (answer, expected) {
                (Ok((version, result)), Ok(expected)) => {
                    assert_eq!(version.unwrap().as_str(), expected, "{params:?}");
                    let result: Value = serde_json::from_str(&result).unwrap();
                    assert_eq!(
                        result,
                        json!({"protocolVersion": expected, "capabilities": {"tools": {}},
                            "serverInfo": {"name": "echo", "version": "0.1.0"},
                            "instructions": "be kind"})
                    );
                }
                (Err(e), Err(code)) => assert_eq!(e.code.0, code, "{params:?}"),
                (answer, _) => panic!("{params:?}: {answer:?}"),
            }
        }
    }

    // Covers R-409.
    #[test]
    fn tools_that_may_change_are_declared() {
        let dynamic = ServerWords {
            list_changed: true,
            ..words()
        };
        let params = raw(r#"{"protocolVersion":"2025-11-25"}"#);
        let (_, result) = Legacy.open(Some(&params), &dynamic).unwrap();
        let result: Value = serde_json::from_str(&result).unwrap();
        assert_eq!(
            result["capabilities"],
            json!({"tools": {"listChanged": true}})
        );
    }

    // Covers R-403, R-1804.
    #[test]
    fn an_older_revision_is_accepted_and_an_unknown_one_is_told() {
        for version in ProtocolVersion::known(true) {
            let text = format!(r#"{{"protocolVersion":"{version}","serverInfo":7}}"#);
            let result = RawJson::serialized(&serde_json::from_str::<Value>(&text).unwrap());
            let opened = Legacy.opened(&result.unwrap()).unwrap();
            assert_eq!(opened.version, version);
        }
        for (capabilities, list_changed) in [
            (r#"{"tools":{"listChanged":true}}"#, true),
            (
                r#"{"extensions":{"a/b":{}},"new":7,"tools":{"listChanged":true,"x":1}}"#,
                true,
            ),
            (r#"{"tools":{"listChanged":false}}"#, false),
            (r#"{"tools":{"listChanged":"true"}}"#, false),
            (r#"{"tools":{}}"#, false),
            (r#"{"tools":true}"#, false),
            ("{}", false),
            ("null", false),
            ("1e999", false),
        ] {
            let text =
                format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities}}}"#);
            let opened = Legacy
                .opened(&RawJson::serialized(&RawValue::from_string(text).unwrap()).unwrap())
                .unwrap();
            assert_eq!(opened.list_changed, list_changed, "{capabilities}");
        }
        let refused = Legacy
            .opened(&raw(r#"{"protocolVersion":"1999-01-01"}"#))
            .unwrap_err();
        assert_eq!(refused, Unopened::Versions(vec!["1999-01-01".to_owned()]));
        assert!(Legacy.opened(&raw("{}")).is_err());
    }

    // Covers R-408, R-512, R-707, R-709.
    #[test]
    fn a_result_carries_only_what_the_revision_knows() {
        let output = ToolOutput::new()
            .block(ContentBlock::audio(b"a", "audio/wav"))
            .block(ContentBlock::resource_link("file:///x", "x"))
            .structured(json!({"n": 1}));
        let result = |version| -> Value {
            serde_json::from_str(&Legacy.call_result(version, output.clone(), &words())).unwrap()
        };
        let oldest = result(ProtocolVersion::V2024_11_05);
        assert_eq!(
            oldest,
            json!({"content": [{"type": "text", "text": "[audio, audio/wav]"},
                {"type": "text", "text": "file:///x"}]})
        );
        let newest = result(ProtocolVersion::V2025_11_25);
        assert_eq!(newest["structuredContent"], json!({"n": 1}));
        assert_eq!(newest["content"][0]["type"], "audio");
        assert_eq!(newest["content"][1]["type"], "resource_link");
        assert_eq!(
            result(ProtocolVersion::V2025_03_26)["structuredContent"],
            Value::Null
        );
        let plain = ToolOutput::new().structured(7);
        let plain = Legacy.call_result(ProtocolVersion::V2025_11_25, plain, &words());
        assert_eq!(plain, r#"{"content":[]}"#);
    }

    // Covers R-606.
    #[test]
    fn a_plain_output_schema_is_left_out() {
        let tool = Tool::new("t").output_schema(json!({"type": "array"}));
        let mut out = String::new();
        Legacy.write_tool(ProtocolVersion::V2025_11_25, &tool, &mut out);
        assert_eq!(
            out,
            r#"{"name":"t","description":"","inputSchema":{"type":"object"}}"#
        );
    }
}
