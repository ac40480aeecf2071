//! What a client says to a server.

use arbitrary::Arbitrary;
use serde_json::Value;

use crate::mcp::frame::Head;
use crate::mcp::value;
use crate::mcp::version::ProtocolVersion;
use crate::wire::jsonrpc::Message;

/// A message of a client.
#[derive(Debug, Clone, Arbitrary)]
pub(super) enum Says<'a> {
    Answer { id: u8, is_malformed: bool },
    Batch(Vec<Request<'a>>),
    Note { method: u8, id: u8 },
    Raw(&'a str),
    Request(Request<'a>),
}

#[derive(Debug, Clone, Arbitrary)]
pub(super) struct Request<'a> {
    id: u8,
    method: u8,
    params: Params<'a>,
    /// By which revision it wants to be judged, and whether it says what its client can do.
    stated: Option<(u8, bool)>,
    token: Option<u8>,
}

#[derive(Debug, Clone, Arbitrary)]
enum Params<'a> {
    Call {
        tool: u8,
        text: Option<&'a str>,
    },
    Cursor(u8),
    Listen(bool),
    None,
    /// Members.
    Raw(&'a str),
    Version(u8),
}

impl Says<'_> {
    pub(super) fn message(&self) -> String {
        match self {
            Self::Answer { id, is_malformed } => {
                let member = if *is_malformed { "results" } else { "result" };
                format!(r#"{{"jsonrpc":"2.0","id":{},"{member}":{{}}}}"#, spell(*id))
            }
            Self::Batch(requests) => {
                let members: Vec<_> = requests.iter().map(Request::message).collect();
                format!("[{}]", members.join(","))
            }
            Self::Note { method, id } => {
                const METHODS: [&str; 4] = ["cancelled", "initialized", "progress", "no/such"];
                let method = METHODS[usize::from(*method) % METHODS.len()];
                let id = spell(*id);
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{"requestId":{id},"reason":7}}}}"#
                )
            }
            Self::Raw(text) => (*text).to_owned(),
            Self::Request(request) => request.message(),
        }
    }
}

impl Request<'_> {
    fn message(&self) -> String {
        const METHODS: [&str; 8] = [
            "initialize",
            "tools/call",
            "tools/list",
            "ping",
            "server/discover",
            "subscriptions/listen",
            "no/such",
            "resources/read",
        ];
        let method = METHODS[usize::from(self.method) % METHODS.len()];
        let id = spell(self.id);
        let mut members = Vec::new();
        match &self.params {
            Params::Call { tool, text } => {
                const TOOLS: [&str; 4] = ["echo", "mirror", "ask", "none"];
                let tool = TOOLS[usize::from(*tool) % TOOLS.len()];
                members.push(format!(r#""name":"{tool}""#));
                let text =
                    text.map(|text| format!(r#""arguments":{{"text":{}}}"#, Value::from(text)));
                members.extend(text);
            }
            Params::Cursor(pick) => {
                let cursor = ["echo", "mirror", "none"][usize::from(*pick) % 3];
                members.push(format!(r#""cursor":"{cursor}""#));
            }
            Params::Listen(wants) => {
                members.push(format!(r#""notifications":{{"toolsListChanged":{wants}}}"#));
            }
            Params::None => {}
            Params::Raw(text) => members.push((*text).to_owned()),
            Params::Version(pick) => {
                members.push(format!(r#""protocolVersion":"{}""#, version(*pick)));
            }
        }
        let mut meta = Vec::new();
        if let Some((pick, declares)) = self.stated {
            let version = version(pick);
            meta.push(format!(
                r#""io.modelcontextprotocol/protocolVersion":"{version}""#
            ));
            let declared = if declares { r#"{"sampling":{}}"# } else { "{}" };
            meta.push(format!(
                r#""io.modelcontextprotocol/clientCapabilities":{declared}"#
            ));
        }
        meta.extend(
            self.token
                .map(|id| format!(r#""progressToken":{}"#, spell(id))),
        );
        if !meta.is_empty() {
            members.push(format!(r#""_meta":{{{}}}"#, meta.join(",")));
        }
        let params = members.join(",");
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
    }
}

/// Ids as clients write them, some that mean the same and some that none may have.
fn spell(pick: u8) -> &'static str {
    const IDS: [&str; 12] = [
        "1",
        "2",
        r#""1""#,
        r#""\u0031""#,
        "0",
        "-0",
        "-5",
        r#""""#,
        r#""a\n\"\/""#,
        "9223372036854775807",
        "1.0",
        "null",
    ];
    IDS[usize::from(pick) % IDS.len()]
}

/// A version, known or not.
fn version(pick: u8) -> &'static str {
    let known = ProtocolVersion::ALL.get(usize::from(pick) % 6);
    known.map_or("1999-01-01", |version| version.as_str())
}

/// The head that a client writes beside a message: nothing, or what the message says of itself.
pub(super) fn head(message: &Message) -> Head {
    let Message::Request(request) = message else {
        return Head::default();
    };
    let params = request.params.as_ref();
    let params = params.and_then(|params| params.deserialize::<Value>().ok());
    let Some(params) = params.filter(Value::is_object) else {
        return Head::default();
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let version = text(&params["_meta"]["io.modelcontextprotocol/protocolVersion"]);
    if version.is_none() {
        return Head::default();
    }
    let subject = match &*request.method {
        "resources/read" => &params["uri"],
        _ => &params["name"],
    };
    let name = text(subject).map(|name| value::encode(&name).into());
    let argument = text(&params["arguments"]["text"]);
    let mirrored = argument.map(|text| ("mcp-param-text".into(), value::encode(&text).into()));
    Head {
        version,
        method: Some((*request.method).into()),
        name,
        params: mirrored.into_iter().collect(),
        ..Head::default()
    }
}
