//! The stateless revisions, 2026-07-28 and later.
//!
//! Owns what only they have: requests that say of themselves what they follow, results that say
//! whether they are the end, subscriptions, cancelling by hanging up. Must not know of any other
//! era.

use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::super::frame::{Head, SessionId};
use super::super::members::members;
use super::super::tool::Tool;
use super::super::types::{CacheScope, DiscoverResult, Implementation, ListenParams, ToolOutput};
use super::super::value;
use super::super::version::ProtocolVersion;
use super::{
    Completion, Denial, Dialect, HttpCancel, Loss, Method, Opened, ServerWords, Stage,
    SubscriptionWords, Unopened, clipped,
};
use crate::wire::jsonrpc::{self, Code, ErrorObject, RawJson, RequestId};

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// What a subscription may ask for.
const TOOLS: &str = "toolsListChanged";

#[derive(Debug)]
pub(super) struct Modern;

impl Dialect for Modern {
    fn opening(&self, id: &RequestId, client: &Implementation) -> (Head, Bytes) {
        let version = ProtocolVersion::NEWEST_MODERN;
        let mut head = self.head(version, None);
        self.address(&mut head, "server/discover", None);
        let meta = self.request_meta(version, client);
        let params = format!("{{\"_meta\":{{{meta}}}}}");
        let body = jsonrpc::encode_raw_request(id, "server/discover", &params);
        (head, body)
    }

    fn opened(&self, result: &RawJson) -> Result<Opened, Unopened> {
        let result: DiscoverResult<'_> = result
            .object()
            .map_err(|e| Unopened::Odd(format!("an odd answer to server/discover: {e}")))?;
        let listed = |version: &ProtocolVersion| {
            let mut supported = result.supported_versions.iter();
            supported.any(|text| text == version.as_str())
        };
        let Some(version) = ProtocolVersion::known(false).find(listed) else {
            return Err(Unopened::Versions(result.supported_versions));
        };
        Ok(Opened::new(version, result.capabilities))
    }

    fn confirmation(&self) -> Option<Bytes> {
        None
    }

    fn head(&self, version: ProtocolVersion, _session: Option<&SessionId>) -> Head {
        Head {
            version: Some(version.as_str().to_owned()),
            ..Head::default()
        }
    }

    fn address(&self, head: &mut Head, method: &'static str, name: Option<&str>) {
        head.method = Some(method.into());
        head.name = name.map(|name| value::encode(name).into());
    }

    fn request_meta(&self, version: ProtocolVersion, client: &Implementation) -> String {
        let client = json!(client);
        format!(
            "\"io.modelcontextprotocol/protocolVersion\":\"{version}\",\
             \"io.modelcontextprotocol/clientCapabilities\":{{}},\
             \"io.modelcontextprotocol/clientInfo\":{client}"
        )
    }

    fn has_sessions(&self) -> bool {
        false
    }

    fn http_cancel(&self) -> HttpCancel {
        HttpCancel::HangUp
    }

    /// A server of another era misses its session, or the handshake.
    fn loss(&self, denial: &Denial<'_>) -> Option<Loss> {
        let body = denial.body.to_ascii_lowercase();
        let misses = ["initialize", "session"]
            .iter()
            .any(|word| body.contains(word));
        match denial.code {
            Some(Code::UNSUPPORTED_VERSION) => Some(Loss::Sure),
            _ if matches!(denial.status, 400 | 404 | 422) && misses => Some(Loss::Likely),
            _ => None,
        }
    }

    fn mirrors_arguments(&self) -> bool {
        true
    }

    fn answers_requests(&self) -> bool {
        false
    }

    fn listen(&self) -> Option<(&'static str, &'static str)> {
        let params = r#"{"notifications":{"toolsListChanged":true}}"#;
        Some(("subscriptions/listen", params))
    }

    fn freshness(&self, page: &RawJson) -> Duration {
        /// What is kept for a day is kept for a session's life.
        const MAX_MS: f64 = 24.0 * 60.0 * 60.0 * 1000.0;
        let ttl = jsonrpc::given(page.as_str(), ["ttlMs"]).ok();
        let ttl: Option<Value> = ttl.and_then(|[ttl]| serde_json::from_str(ttl?.get()).ok());
        let whole = |ms: &f64| *ms >= 0.0 && ms.fract() == 0.0;
        let ms = ttl.and_then(|ttl| ttl.as_f64()).filter(whole);
        Duration::from_secs_f64(ms.unwrap_or_default().min(MAX_MS) / 1000.0)
    }

    fn completion(&self, result: &RawJson) -> Completion {
        let names = ["resultType", "inputRequests", "requestState"];
        let [kind, requests, state] = match jsonrpc::given(result.as_str(), names) {
            Ok(members) => members,
            Err(e) => return Completion::Odd(format!("an odd result: {e}")),
        };
        let Some(kind) = kind.map(RawValue::get) else {
            return Completion::Complete;
        };
        match jsonrpc::text(kind).as_deref() {
            Ok("complete") => Completion::Complete,
            Ok("input_required") => {
                let state = state.map(RawValue::get);
                Completion::InputRequired {
                    methods: requests.map(methods).unwrap_or_default(),
                    state: state.filter(|json| json.starts_with('"')).map(Box::from),
                }
            }
            _ => Completion::Odd(format!("a result of the unknown type {}", clipped(kind))),
        }
    }

    fn method(&self, name: &str) -> Option<Method> {
        Some(match name {
            "server/discover" => Method::Discover,
            "subscriptions/listen" => Method::Listen,
            "tools/call" => Method::CallTool,
            "tools/list" => Method::ListTools,
            _ => return None,
        })
    }

    fn open(
        &self,
        _params: Option<&RawJson>,
        server: &ServerWords,
    ) -> Result<(Option<ProtocolVersion>, String), ErrorObject> {
        let versions: Vec<&str> = ProtocolVersion::known(false)
            .map(ProtocolVersion::as_str)
            .collect();
        let mut result = json!({
            "supportedVersions": versions,
            "capabilities": server.capabilities(),
        });
        if let Some(members) = result.as_object_mut() {
            if let Some(text) = &server.instructions {
                members.insert("instructions".to_owned(), text.as_str().into());
            }
            complete(members, server);
        }
        cacheable(&mut result, server);
        Ok((None, result.to_string()))
    }

    fn takes_batches(&self, _version: ProtocolVersion) -> bool {
        false
    }

    fn primes_streams(&self, _version: ProtocolVersion) -> bool {
        false
    }

    fn write_tool(&self, _version: ProtocolVersion, tool: &Tool, out: &mut String) {
        tool.write(out, true);
    }

    fn list_result(&self, tools: &str, next: Option<&str>, server: &ServerWords) -> String {
        let mut rest = json!({});
        if let (Some(cursor), Some(members)) = (next, rest.as_object_mut()) {
            members.insert("nextCursor".to_owned(), cursor.into());
        }
        if let Some(members) = rest.as_object_mut() {
            complete(members, server);
        }
        cacheable(&mut rest, server);
        let rest = rest.to_string();
        // The tools are written already and stay as they are.
        format!("{{\"tools\":[{tools}],{}", rest.trim_start_matches('{'))
    }

    fn call_result(
        &self,
        _version: ProtocolVersion,
        output: ToolOutput,
        server: &ServerWords,
    ) -> String {
        let mut members = output.members();
        complete(&mut members, server);
        Value::Object(members).to_string()
    }

    fn subscription(
        &self,
        id: &RequestId,
        params: Option<&RawJson>,
        server: &ServerWords,
    ) -> Result<Option<SubscriptionWords>, ErrorObject> {
        if !server.list_changed {
            return Ok(None);
        }
        let params: ListenParams<'_> = jsonrpc::parse_params(params)?;
        let invalid = |text| Err(ErrorObject::new(Code::INVALID_PARAMS, text));
        let Some(asked) = members(params.notifications.get(), [TOOLS].into_iter()) else {
            return invalid("invalid params: notifications is not an object");
        };
        let tools = asked.get(TOOLS).copied().flatten().map(RawValue::get);
        let granted = match tools {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return invalid("invalid params: toolsListChanged is not a boolean"),
        };
        let notifications = match granted {
            true => json!({ TOOLS: true }),
            false => json!({}),
        };
        let note = |method: &str, mut params: Value| {
            if let Some(members) = params.as_object_mut() {
                members.insert("_meta".to_owned(), json!({ SUBSCRIPTION_ID: id }));
            }
            jsonrpc::encode_notification(method, Some(&params))
        };
        let mut ended = Map::new();
        ended.insert("_meta".to_owned(), json!({ SUBSCRIPTION_ID: id }));
        complete(&mut ended, server);
        let mut last = Vec::new();
        jsonrpc::encode_result(&mut last, id, &Value::Object(ended).to_string());
        Ok(Some(SubscriptionWords {
            acknowledged: note(
                "notifications/subscriptions/acknowledged",
                json!({ "notifications": notifications }),
            ),
            changed: granted.then(|| note("notifications/tools/list_changed", json!({}))),
            ended: last,
        }))
    }

    fn http_status(&self, code: Code, stage: Stage) -> u16 {
        match (stage, code) {
            (Stage::Check, Code::METHOD_NOT_FOUND) => 404,
            // Only a tool may know that it needs more of its client.
            (_, Code::MISSING_CAPABILITY) => 400,
            (Stage::Check, Code::INTERNAL) | (Stage::Work, _) => 200,
            (Stage::Check, _) => 400,
        }
    }
}

/// The methods of the requests that a server wants answered, each once.
fn methods(requests: &RawValue) -> Vec<String> {
    /// Who reads the error gains nothing by more.
    const MAX_NAMED: usize = 8;
    let Ok(requests) = serde_json::from_str::<Map<String, Value>>(requests.get()) else {
        return vec!["something that cannot be read".to_owned()];
    };
    let method = |request: &Value| request.get("method").and_then(Value::as_str).map(clipped);
    let named = requests
        .values()
        .map(|request| method(request).unwrap_or_else(|| "a request without a method".to_owned()));
    let mut named: Vec<String> = named.collect();
    named.sort_unstable();
    named.dedup();
    named.truncate(MAX_NAMED);
    named
}

/// What every result of this era says.
fn complete(members: &mut Map<String, Value>, server: &ServerWords) {
    members.insert("resultType".to_owned(), "complete".into());
    let meta = members.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(SERVER_INFO.to_owned(), json!(server.info));
    }
}

/// What every result says that may be kept.
fn cacheable(result: &mut Value, server: &ServerWords) {
    let Some(members) = result.as_object_mut() else {
        return;
    };
    members.insert("ttlMs".to_owned(), server.tools_ttl_ms.into());
    let scope = match server.cache_scope {
        CacheScope::Public => "public",
        CacheScope::Private => "private",
    };
    members.insert("cacheScope".to_owned(), scope.into());
}
