//! Servers of the official SDK.

use std::sync::Arc;

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResult, ContentBlock, ProgressNotificationParam, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService, io};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt, tool, tool_handler, tool_router};
use tokio::net::TcpListener;

use super::{Mode, Texts, write_line};
use crate::{Outcome, wire};

struct Rmcp {
    tool_router: ToolRouter<Self>,
}

type Context = RequestContext<RoleServer>;

/// Sends a call's events; a call without a token gets none.
struct Reporter {
    context: Context,
    number: f64,
}

impl Reporter {
    fn new(context: Context) -> Self {
        Self {
            context,
            number: 0.0,
        }
    }

    async fn report(&mut self, text: &str) -> Result<(), ErrorData> {
        let token = self.context.meta.get_progress_token();
        let token = token.ok_or_else(|| ErrorData::internal_error("no token", None))?;
        self.number += 1.0;
        let mut param = ProgressNotificationParam::new(token, self.number);
        param.message = Some(wire::envelope(text));
        let sent = self.context.peer.notify_progress(param).await;
        sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

fn text(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

#[tool_router]
impl Rmcp {
    fn new() -> Self {
        let tool_router = Self::tool_router();
        Self { tool_router }
    }

    #[tool]
    async fn echo(&self, Parameters(args): Parameters<wire::Echo>) -> CallToolResult {
        text(&args.text)
    }

    #[tool]
    async fn stream(
        &self,
        Parameters(args): Parameters<wire::Stream>,
        context: Context,
    ) -> Result<CallToolResult, ErrorData> {
        let (mut reporter, mut texts) = (Reporter::new(context), Texts::new(args));
        while let Some(text) = texts.next().await {
            reporter.report(text).await?;
        }
        Ok(text("done"))
    }

    #[tool]
    async fn compute(
        &self,
        Parameters(args): Parameters<wire::Stream>,
        context: Context,
    ) -> Result<CallToolResult, ErrorData> {
        let (mut reporter, mut texts) = (Reporter::new(context), Texts::new(args));
        while let Some(text) = texts.compute() {
            reporter.report(text).await?;
        }
        Ok(text("done"))
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Rmcp {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

pub(super) async fn serve_http(mode: Mode) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    write_line(&listener.local_addr()?.to_string())?;
    let config = match mode {
        Mode::Best => StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true),
        Mode::Default => StreamableHttpServerConfig::default(),
    };
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(Rmcp::new()), sessions, config);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            // A client that is gone is no fault of the server's.
            let _ = connection.await;
        });
    }
}

pub(super) async fn serve_stdio(mode: Mode) -> Outcome {
    let serving = match mode {
        Mode::Best => Rmcp::new().serve(io::stdio_pipes()).await?,
        Mode::Default => Rmcp::new().serve(io::stdio()).await?,
    };
    serving.waiting().await?;
    Ok(())
}
