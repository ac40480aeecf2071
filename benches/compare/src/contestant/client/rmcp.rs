//! The client of the official SDK.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::future::try_join_all;
use rmcp::model::{CallToolRequestParams, ProgressNotificationParam};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{LOOKOUT, Mode, Tally, json_args, raw_stdio, url};
use crate::{Outcome, wire};

/// What a user of the SDK makes of an event's message.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    content: &'a str,
}

#[derive(Clone)]
pub(super) struct Seen(Arc<Mutex<Tally>>);

impl Seen {
    fn with<T>(&self, look: impl FnOnce(&mut Tally) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientHandler for Seen {
    async fn on_progress(
        &self,
        seen: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let message = seen.message.expect("each event has a message");
        let envelope: Envelope<'_> = serde_json::from_str(&message).expect("it is an envelope");
        assert_eq!(envelope.kind, "text");
        self.with(|tally| tally.event(seen.progress, envelope.content));
    }
}

pub(super) type Client = RunningService<RoleClient, Seen>;

fn seen() -> Seen {
    Seen(Arc::new(Mutex::new(Tally::new(0))))
}

pub(super) async fn http(address: &str, mode: Mode) -> Outcome<Client> {
    let url = url(address);
    let link = match mode {
        Mode::Default => StreamableHttpClientTransport::from_uri(url),
        Mode::Best => StreamableHttpClientTransport::with_client(
            reqwest::Client::new(),
            StreamableHttpClientTransportConfig::with_uri(url),
        ),
    };
    Ok(seen().serve(link).await?)
}

pub(super) async fn stdio() -> Outcome<Client> {
    let words = raw_stdio()?;
    let (program, args) = words.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(args);
    Ok(seen().serve(TokioChildProcess::new(command)?).await?)
}

pub(super) async fn stream(client: &Client, args: wire::Stream) -> Outcome<Vec<f64>> {
    let [warm_up, measured] = json_args(args);
    call(client, args, warm_up).await?;
    call(client, args, measured).await?;
    client.service().with(|tally| tally.figures(args))
}

async fn call(client: &Client, args: wire::Stream, arguments: Value) -> Outcome {
    client
        .service()
        .with(|tally| *tally = Tally::new(args.size));
    let text = tool(client, "stream", arguments).await?;
    client.service().with(|tally| tally.result(&text));
    tokio::time::sleep(LOOKOUT).await;
    Ok(())
}

async fn tool(client: &Client, name: &'static str, arguments: Value) -> Outcome<String> {
    let Value::Object(arguments) = arguments else {
        return Err("arguments are an object".into());
    };
    let params = CallToolRequestParams::new(name).with_arguments(arguments);
    let result = client.call_tool(params).await?;
    let text = result.content.first().and_then(|block| block.as_text());
    Ok(text.ok_or("no text in the result")?.text.clone())
}

pub(super) async fn calls(client: &Client, n: u64, inflight: u64) -> Outcome<Vec<f64>> {
    let started = Instant::now();
    try_join_all((0..inflight).map(|_| async {
        for _ in 0..n / inflight {
            let text = tool(client, "echo", json!({ "text": wire::ECHO })).await?;
            if text != wire::ECHO {
                return Err(format!("another echo: {text}").into());
            }
        }
        Outcome::Ok(())
    }))
    .await?;
    Ok(vec![n as f64 / started.elapsed().as_secs_f64()])
}

pub(super) async fn connect(addresses: &[&str], mode: Mode) -> Outcome<(usize, Vec<Client>)> {
    let connected = try_join_all(addresses.iter().map(|address| async move {
        let client = http(address, mode).await?;
        let tools = client.list_all_tools().await?.len();
        Outcome::Ok((tools, client))
    }));
    let (tools, clients): (Vec<usize>, _) = connected.await?.into_iter().unzip();
    Ok((tools.iter().sum(), clients))
}
