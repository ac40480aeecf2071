//! A client that tells what it saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rmcp::model::{CallToolRequestParams, ProgressNotificationParam, ProtocolVersion};
use rmcp::service::{NotificationContext, RunningService, ServiceError};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::Notify;

use crate::Anything;

const PROGRESS_BEFORE_CANCEL: u32 = 3;

fn say(seen: &Value) {
    println!("{seen}");
}

#[derive(Clone, Default)]
struct Teller {
    progress: Arc<AtomicU32>,
    enough: Arc<Notify>,
}

impl ClientHandler for Teller {
    async fn on_progress(
        &self,
        seen: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        say(&json!({"progress": seen.progress, "total": seen.total, "message": seen.message}));
        if self.progress.fetch_add(1, Ordering::Relaxed) + 1 == PROGRESS_BEFORE_CANCEL {
            self.enough.notify_one();
        }
    }
}

type Client = RunningService<RoleClient, Teller>;

async fn connect(era: &str, target: &str) -> Result<Client, Anything> {
    let lifecycle = match era {
        "legacy" => ClientLifecycleMode::Initialize,
        "modern" => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        },
        _ => return Err(format!("this SDK has no {era} era").into()),
    };
    let teller = Teller::default();
    let Some(command) = target.strip_prefix("stdio:") else {
        let link = StreamableHttpClientTransport::from_uri(target);
        return Ok(teller.serve_with_lifecycle(link, lifecycle).await?);
    };
    let mut words = shell_words::split(command)?.into_iter();
    let mut command = Command::new(words.next().ok_or("no command")?);
    command.args(words);
    let link = TokioChildProcess::new(command)?;
    Ok(teller.serve_with_lifecycle(link, lifecycle).await?)
}

async fn call(client: &Client, tool: &str, args: &str) -> Result<(), Anything> {
    let params = CallToolRequestParams::new(tool.to_owned());
    let params = params.with_arguments(serde_json::from_str(args)?);
    match client.call_tool(params).await {
        Ok(result) => {
            let texts = result.content.iter().filter_map(|block| block.as_text());
            let texts: Vec<&str> = texts.map(|text| text.text.as_str()).collect();
            let is_error = result.is_error == Some(true);
            say(&json!({"result": texts.join("\n"), "is_error": is_error}));
        }
        Err(ServiceError::McpError(error)) => {
            say(&json!({"error": error.code.0, "message": error.message}));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Dropping a call tells the server.
async fn cancel(client: &Client, tool: &str, args: &str) -> Result<(), Anything> {
    tokio::select! {
        called = call(client, tool, args) => called,
        () = client.service().enough.notified() => {
            say(&json!({"cancelled": true}));
            Ok(())
        }
    }
}

pub(crate) async fn run(era: &str, target: &str, scenario: &[&str]) -> Result<(), Anything> {
    let client = connect(era, target).await?;
    let mut rest = match *scenario {
        ["list"] => {
            let listed = client.list_all_tools().await?;
            let tools: Vec<&str> = listed.iter().map(|tool| &*tool.name).collect();
            let version = client
                .peer_info()
                .map(|info| info.protocol_version.to_string());
            say(&json!({"tools": tools, "version": version}));
            &[]
        }
        ["cancel", tool, args, ref rest @ ..] => {
            cancel(&client, tool, args).await?;
            rest
        }
        ["call", ref calls @ ..] => calls,
        _ => return Err(format!("unknown scenario: {scenario:?}").into()),
    };
    while let [tool, args, more @ ..] = rest {
        call(&client, tool, args).await?;
        rest = more;
    }
    client.cancel().await?;
    Ok(())
}
