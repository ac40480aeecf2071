//! What everybody says: requests, and the events of the raw contestants.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The sender of all events.
pub(crate) const NODE: &str = "bench";
pub(crate) const VERSION: &str = "2025-11-25";
pub(crate) const ECHO: &str = "all is clear here";

/// An event as its receiver should find it.
pub(crate) fn envelope(text: &str) -> String {
    format!(r#"{{"v":1,"type":"text","content":"{text}","node":"{NODE}"}}"#)
}

/// The text of all events of a size.
pub(crate) fn text(size: usize) -> String {
    "x".repeat(size)
}

pub(crate) fn initialize() -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{VERSION}","capabilities":{{}},"clientInfo":{{"name":"load","version":"1"}}}}}}"#
    )
}

pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Asks the raw server, which looks at no more than the method.
pub(crate) fn discover() -> String {
    r#"{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{}}"#.to_owned()
}

pub(crate) fn list(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{}}}}"#)
}

pub(crate) fn echo(id: u64) -> String {
    call(id, "echo", &format!(r#"{{"text":"{ECHO}"}}"#))
}

/// A call of a tool that sends events, `n` of `size` characters.
pub(crate) fn stream(id: u64, tool: &str, n: u64, size: usize, interval_us: u64) -> String {
    let args = format!(r#"{{"n":{n},"size":{size},"interval_us":{interval_us}}}"#);
    call(id, tool, &args)
}

/// A call of the raw server's `stream`, which can be told how much to hand over at once.
pub(crate) fn raw_stream(id: u64, n: u64, size: usize, chunk: usize) -> String {
    let args = format!(r#"{{"n":{n},"size":{size},"chunk":{chunk}}}"#);
    call(id, "stream", &args)
}

fn call(id: u64, tool: &str, args: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{args},"_meta":{{"progressToken":{id}}}}}}}"#
    )
}

/// The result of a call.
pub(crate) fn result(id: &str, text: &str) -> String {
    response(
        id,
        &format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":"{text}"}}]}}"#),
    )
}

fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// The raw servers' answer to all requests but `stream`.
pub(crate) fn reply(id: &str, request: &Request<'_>) -> serde_json::Result<String> {
    Ok(match (request.method, request.params.name) {
        ("tools/call", Some("echo")) => {
            let args = request.params.arguments.map_or("{}", RawValue::get);
            result(id, &serde_json::from_str::<Echo>(args)?.text)
        }
        ("initialize", _) => response(
            id,
            &format!(
                r#"{{"protocolVersion":"{VERSION}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"raw","version":"1"}}}}"#
            ),
        ),
        ("server/discover", _) => response(
            id,
            r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#,
        ),
        ("tools/list", _) => response(
            id,
            r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"stream","inputSchema":{"type":"object"}}]}"#,
        ),
        _ => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#
        ),
    })
}

/// What the raw server reads of a request.
#[derive(Deserialize)]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    pub(crate) method: &'a str,
    #[serde(borrow, default)]
    pub(crate) params: Params<'a>,
}

#[derive(Deserialize, Default)]
pub(crate) struct Params<'a> {
    pub(crate) name: Option<&'a str>,
    #[serde(borrow)]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    pub(crate) token: Option<&'a RawValue>,
}

/// Arguments of `stream` and `compute`.
#[derive(Debug, Clone, Copy, Deserialize, schemars::JsonSchema)]
pub(crate) struct Stream {
    /// How many events.
    pub(crate) n: u64,
    /// Characters of each.
    pub(crate) size: usize,
    /// Time before each; with one, an event says when it was sent, in nanoseconds.
    #[serde(default)]
    pub(crate) interval_us: u64,
    /// For the raw server: bytes of events to hand over at once.
    #[serde(default)]
    pub(crate) chunk: usize,
}

/// Arguments of `echo`.
#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
pub(crate) struct Echo {
    pub(crate) text: String,
}

/// Progress notifications made by hand: what does not change is written once.
pub(crate) struct Frames {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Frames {
    /// `before` and `after` frame a message.
    pub(crate) fn new(before: &str, token: &str, after: &str) -> Self {
        let head = format!(
            r#"{before}{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":"#
        );
        let tail = format!(r#"\",\"node\":\"{NODE}\"}}"}}}}{after}"#);
        Self {
            head: head.into_bytes(),
            tail: tail.into_bytes(),
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, number: u64, text: &str) {
        out.reserve(self.head.len() + self.tail.len() + text.len() + 80);
        out.extend_from_slice(&self.head);
        write_number(out, number);
        out.extend_from_slice(br#","message":"{\"v\":1,\"type\":\"text\",\"content\":\""#);
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(&self.tail);
    }
}

fn write_number(out: &mut Vec<u8>, mut number: u64) {
    let start = out.len();
    loop {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out[start..].reverse();
}
