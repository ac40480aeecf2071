//! Every field of `Limits`: its row in the README with a test that drives it, and its extremes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, CallStream, Era, Limits, McpServer, RawArgs, Tool, ToolContext, testing,
};
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Runtime};

/// What a field is set to.
#[derive(Debug, Clone, Copy)]
enum Value {
    Nothing,
    Least,
    All,
}

const ERAS: [Era; 3] = [Era::Legacy, Era::Modern, Era::Auto];
const VALUES: [Value; 3] = [Value::Nothing, Value::Least, Value::All];

trait Bound {
    fn of(value: Value) -> Self;
}

impl Bound for usize {
    fn of(value: Value) -> Self {
        match value {
            Value::Nothing => 0,
            Value::Least => 1,
            Value::All => Self::MAX,
        }
    }
}

impl Bound for Duration {
    fn of(value: Value) -> Self {
        match value {
            Value::Nothing => Self::ZERO,
            Value::Least => Self::from_nanos(1),
            Value::All => Self::MAX,
        }
    }
}

type Field = (&'static str, fn(&mut Limits, Value));

macro_rules! fields {
    ($($name:ident)*) => {
        &[$((stringify!($name), |limits, value| limits.$name = Bound::of(value))),*]
    };
}

/// In the order of the struct.
const FIELDS: &[Field] = fields!(
    max_json_depth
    connect_timeout
    tcp_connect_timeout
    discover_timeout
    max_known_servers
    list_timeout
    max_client_message_bytes
    max_tool_pages
    max_tools
    max_list_bytes
    max_param_header_bytes
    max_queued_events
    max_queued_bytes
    header_provider_timeout
    max_redirects
    max_idle_connections
    pool_idle_timeout
    cancel_timeout
    max_resume_attempts
    resume_delay
    max_resume_delay
    stalled_queue_timeout
    max_child_starts
    child_stop_timeout
    close_timeout
    max_queued_messages
    max_queued_hub_events
    max_queued_hub_bytes
    max_server_message_bytes
    max_event_bytes
    max_outbox_bytes
    answer_window
    keep_alive_interval
    max_sessions
    session_idle_timeout
    max_session_calls
    max_calls
    max_subscriptions
    detached_call_timeout
    max_replay_events
    max_replay_bytes
    replay_retry
    max_connections
    header_read_timeout
    authorize_timeout
    tls_handshake_timeout
    body_read_timeout
    min_body_rate
    idle_connection_timeout
    stalled_reader_timeout
    shutdown_timeout
);

/// The names of the fields, as `Debug` writes them: one without a row here is missed.
fn names() -> Vec<String> {
    let shown = format!("{:#?}", Limits::default());
    let names = shown.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("    ")?.split_once(": ")?;
        (!name.starts_with(' ')).then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn no_field_is_left_out() {
    let fields: Vec<_> = FIELDS.iter().map(|(name, _)| *name).collect();
    assert_eq!(fields, names());
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

/// The rows of a README's table of limits, `| limit | what happens | [test](file) |`: each limit
/// with its test and the file of that.
fn rows(readme: &str, section: &str) -> Vec<(String, String, String)> {
    let readme = read(readme).unwrap();
    let (_, section) = readme.split_once(section).unwrap();
    let section = section.split("\n## ").next().unwrap_or_default();
    let row = |line: &str| {
        let cells: Vec<_> = line.strip_prefix("| `")?.split(" | ").collect();
        let [limit, happens, test] = cells[..] else {
            panic!("three columns: {line}")
        };
        assert!(happens.trim().len() > 5, "{line}");
        let limit = limit.trim().strip_suffix('`').unwrap();
        let test = test.strip_suffix(" |").unwrap().trim();
        let (name, file) = test.split_once("](").unwrap();
        let (name, file) = (
            name.strip_prefix('[').unwrap(),
            file.strip_suffix(')').unwrap(),
        );
        Some((limit.to_owned(), name.to_owned(), file.to_owned()))
    };
    section.lines().filter_map(row).collect()
}

#[test]
fn each_limit_has_a_row_in_the_readme_and_a_test_that_drives_it() {
    let english = rows("README.md", "\n## Limits\n");
    let limits: Vec<_> = english.iter().map(|(limit, ..)| limit.clone()).collect();
    assert_eq!(limits, names(), "in the order of the struct");
    let tests: BTreeSet<_> = english.iter().map(|(_, name, _)| name).collect();
    assert!(tests.len() > limits.len() / 2, "{tests:?}");
    let mut sources = BTreeMap::new();
    for (limit, name, file) in &english {
        let source = sources
            .entry(file)
            .or_insert_with(|| read(file).unwrap_or_else(|| panic!("{limit}: no {file}")));
        let is_there = source.contains(&format!("fn {name}("));
        assert!(is_there, "{limit}: no test {name} in {file}");
        assert!(source.contains(limit), "{limit}: {file} never sets it");
    }
    assert_eq!(rows("README.ja.md", "\n## 上限\n"), english);
}

/// Does a little of everything with a hub and a server that keep these limits. How it ends is not
/// looked at, only that it does.
async fn exercise(limits: &Limits, eras: &[Era]) {
    let server = McpServer::builder("s", "1")
        .limits(limits.clone())
        .dynamic_tools(true)
        .sse_replay(true)
        .tool(Tool::new("say"), async |args: RawArgs, ctx: ToolContext| {
            for _ in 0..3 {
                ctx.streamer("n").text("word").await?;
            }
            Ok(args.as_str().len().to_string())
        })
        .tool(Tool::new("hold"), async |_: RawArgs, ctx: ToolContext| {
            ctx.streamer("n").text("held").await?;
            std::future::pending::<()>().await;
            Ok("never")
        })
        .build();
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(2_000), "]".repeat(2_000));
    let deep = RawValue::from_string(deep).ok();
    for &era in eras {
        let hub = AgentHubClient::builder()
            .limits(limits.clone())
            .on_event_async(async |_| {})
            .build();
        let _ = testing::connect_memory(&hub, "s", &server).era(era).await;
        let _ = hub.call_tool("say", ()).await;
        let _ = hub.call_tool("say", &deep).await;
        let _ = hub.list_tools().await;
        let hold = || hub.call_tool_stream("hold", ());
        let [mut cancelled, mut timed, mut dropped] =
            [hold(), hold().timeout(Duration::from_secs(1)), hold()];
        for call in [&mut cancelled, &mut timed, &mut dropped] {
            let _ = call.next().await;
        }
        cancelled.cancel();
        to_end(cancelled).await;
        to_end(timed).await;
        drop(dropped);
        hub.close().await;
    }
}

async fn to_end(mut call: CallStream) {
    while call.next().await.is_some() {}
}

fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

#[test]
fn no_extreme_panics_or_hangs() {
    let (begin, begun) = channel();
    let exercising = thread::spawn(move || {
        for (name, set) in FIELDS {
            for (nth, value) in VALUES.into_iter().enumerate() {
                begin.send((*name, value)).unwrap();
                let mut limits = Limits::default();
                set(&mut limits, value);
                paused().block_on(exercise(&limits, &[ERAS[nth % 2]]));
            }
        }
        for value in VALUES {
            begin.send(("all fields", value)).unwrap();
            let mut limits = Limits::default();
            FIELDS.iter().for_each(|(_, set)| set(&mut limits, value));
            paused().block_on(exercise(&limits, &ERAS));
        }
    });
    let mut current = None;
    loop {
        match begun.recv_timeout(Duration::from_secs(30)) {
            Ok(next) => current = Some(next),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            Err(_) => panic!("{current:?} hangs"),
        }
    }
    assert!(exercising.join().is_ok(), "{current:?} panics");
}
