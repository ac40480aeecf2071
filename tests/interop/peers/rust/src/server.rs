//! A server whose tools stream progress as our clients expect it.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResult, ContentBlock, ProgressNotificationParam, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::Anything;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    n: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Failure {
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nap {
    seconds: f64,
}

struct RustPeer {
    tool_router: ToolRouter<Self>,
}

type Context = RequestContext<RoleServer>;

fn envelope(kind: &str, content: &Value) -> String {
    json!({"v": 1, "type": kind, "content": content, "node": "peer"}).to_string()
}

async fn report(
    context: &Context,
    progress: u32,
    total: Option<u32>,
    message: Option<String>,
) -> Result<(), ErrorData> {
    let Some(token) = context.meta.get_progress_token() else {
        return Ok(());
    };
    let mut param = ProgressNotificationParam::new(token, progress.into());
    param.total = total.map(Into::into);
    param.message = message;
    let sent = context.peer.notify_progress(param).await;
    sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn record_cancel(tool: &str) {
    if let Some(path) = std::env::var_os("INTEROP_LOG") {
        let mut log = OpenOptions::new()
            .append(true)
            .open(path)
            .expect("the log is there");
        writeln!(log, "cancelled {tool}").expect("the log takes a line");
    }
}

fn text(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

#[tool_router]
impl RustPeer {
    fn new() -> Self {
        let tool_router = Self::tool_router();
        Self { tool_router }
    }

    #[tool(description = "Give the text back, without events.")]
    async fn echo(&self, Parameters(args): Parameters<Text>) -> CallToolResult {
        text(&args.text)
    }

    #[tool(description = "Send n text events tok0, tok1, ... and say \"done\".")]
    async fn stream(
        &self,
        Parameters(Count { n }): Parameters<Count>,
        context: Context,
    ) -> Result<CallToolResult, ErrorData> {
        for i in 0..n {
            let message = envelope("text", &json!(format!("tok{i}")));
            report(&context, i + 1, Some(n), Some(message)).await?;
        }
        Ok(text("done"))
    }

    #[tool(description = "Report i of n for each i from 0, with no message.")]
    async fn plain_progress(
        &self,
        Parameters(Count { n }): Parameters<Count>,
        context: Context,
    ) -> Result<CallToolResult, ErrorData> {
        for i in 0..n {
            report(&context, i, Some(n), None).await?;
        }
        Ok(text("done"))
    }

    #[tool(description = "Send one event of every type; \"custom\" is a type of this tool's own.")]
    async fn all_types(&self, context: Context) -> Result<CallToolResult, ErrorData> {
        let events = json!({
            "text": "こんにちは 👋 \"quoted\" \\ \n",
            "think": "hmm",
            "log": "a line",
            "image": "data:image/png;base64,iVBORw0KGgo=",
            "stl": {"vertices": [[0, 0, 0.5]], "name": "tetra"},
            "video": {"url": "https://example.org/a.mp4", "seconds": 1.25},
            "emotion_data": {"joy": 0.75},
            "error": "only an event",
            "custom": [1, null, {"deep": true}],
        });
        let events = events.as_object().expect("it is one");
        for (i, (kind, content)) in (1..).zip(events) {
            let message = envelope(kind, content);
            report(&context, i, Some(9), Some(message)).await?;
        }
        Ok(text("done"))
    }

    #[tool(description = "Fail with the message.")]
    async fn fail(&self, Parameters(args): Parameters<Failure>) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text(args.message)])
    }

    #[tool(description = "Send one text event \"asleep\", then wait.")]
    async fn sleep(
        &self,
        Parameters(Nap { seconds }): Parameters<Nap>,
        context: Context,
    ) -> Result<CallToolResult, ErrorData> {
        report(&context, 1, None, Some(envelope("text", &json!("asleep")))).await?;
        tokio::select! {
            () = context.ct.cancelled() => record_cancel("sleep"),
            () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => {}
        }
        Ok(text("slept"))
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for RustPeer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

pub(crate) async fn http(port: &str) -> Result<(), Anything> {
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(RustPeer::new()), sessions, Default::default());
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            // A client that is gone is no fault of the server's.
            let _ = connection.await;
        });
    }
}

pub(crate) async fn stdio() -> Result<(), Anything> {
    let serving = RustPeer::new().serve(rmcp::transport::stdio()).await?;
    serving.waiting().await?;
    Ok(())
}
