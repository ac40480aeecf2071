//! What a peer says to a client.

use arbitrary::Arbitrary;

use crate::mcp::version::ProtocolVersion;
use crate::wire::jsonrpc::RequestId;

/// A message about a request.
#[derive(Debug, Clone, Arbitrary)]
pub(super) enum Says<'a> {
    Acknowledged(bool),
    AskedForMore(bool),
    CalledOff,
    Changed,
    Discovered {
        version: u8,
        list_changed: bool,
    },
    Error(u8),
    ErrorOfNobody,
    Initialized {
        version: u8,
        list_changed: bool,
    },
    Malformed,
    Page {
        tools: u8,
        next: Option<u8>,
    },
    Progress(&'a str),
    Raw(&'a str),
    Request(bool),
    Result(&'a str),
    /// The id is spelled as a text.
    ResultForText,
    ToolFailure,
    Unsupported(u8),
}

impl Says<'_> {
    pub(super) fn message(&self, id: i64) -> String {
        let answer = |member: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},{member}}}"#);
        let result = |members: &str| answer(&format!(r#""result":{{{members}}}"#));
        let note = |method: &str, params: &str| {
            let method = format!("notifications/{method}");
            format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{params}}}}}"#)
        };
        let capabilities =
            |changes: bool| format!(r#""capabilities":{{"tools":{{"listChanged":{changes}}}}}"#);
        match self {
            Self::Acknowledged(honours) => note(
                "subscriptions/acknowledged",
                &format!(
                    r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{{"toolsListChanged":{honours}}}"#
                ),
            ),
            Self::AskedForMore(true) => {
                result(r#""resultType":"input_required","requestState":"s""#)
            }
            Self::AskedForMore(false) => {
                result(r#""resultType":"input_required","inputRequests":{"a":{"method":"m"}}"#)
            }
            Self::CalledOff => note("cancelled", &format!(r#""requestId":{id}"#)),
            Self::Changed => note("tools/list_changed", ""),
            Self::Discovered {
                version,
                list_changed,
            } => {
                let changes = capabilities(*list_changed);
                result(&format!(
                    r#""supportedVersions":["{}"],{changes}"#,
                    spelled(*version)
                ))
            }
            Self::Error(pick) => {
                const CODES: [i64; 10] = [
                    -32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022, -32800, 1,
                ];
                let code = CODES[usize::from(*pick) % CODES.len()];
                answer(&format!(r#""error":{{"code":{code},"message":"m"}}"#))
            }
            Self::ErrorOfNobody => {
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}"#.to_owned()
            }
            Self::Initialized {
                version,
                list_changed,
            } => {
                let changes = capabilities(*list_changed);
                result(&format!(
                    r#""protocolVersion":"{}",{changes}"#,
                    spelled(*version)
                ))
            }
            Self::Malformed => format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#),
            Self::Page { tools, next } => {
                let tools: Vec<_> = (0..tools % 8)
                    .map(|n| format!(r#"{{"name":"{}"}}"#, n % 6))
                    .collect();
                let next = next.map_or(String::new(), |n| format!(r#","nextCursor":"{}""#, n % 4));
                result(&format!(r#""tools":[{}]{next}"#, tools.join(",")))
            }
            Self::Progress(text) => {
                let message = serde_json::Value::from(*text);
                note(
                    "progress",
                    &format!(r#""progressToken":{id},"progress":1,"message":{message}"#),
                )
            }
            Self::Raw(text) => (*text).to_owned(),
            Self::Request(true) => answer(r#""method":"ping""#),
            Self::Request(false) => answer(r#""method":"sampling/createMessage","params":{}"#),
            Self::Result(members) => result(members),
            Self::ResultForText => format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{}}}}"#),
            Self::ToolFailure => result(r#""isError":true,"content":[]"#),
            Self::Unsupported(version) => answer(&format!(
                r#""error":{{"code":-32022,"message":"m","data":{{"supported":["{}"]}}}}"#,
                spelled(*version)
            )),
        }
    }
}

/// A version, known or not.
fn spelled(pick: u8) -> &'static str {
    let known = ProtocolVersion::ALL.get(usize::from(pick) % 6);
    known.map_or("1999-01-01", |version| version.as_str())
}

/// The number of one of our own ids.
pub(super) fn ids(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::Text { .. } => None,
    }
}
