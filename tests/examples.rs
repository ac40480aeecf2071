//! The examples run, and both READMEs show them, and say the same, as they are.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may fail loudly

#[allow(dead_code)] // the tests of models use the rest
#[path = "llm/endpoint.rs"]
mod endpoint;

use std::io::Cursor;
use std::process::Stdio;
use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, DataUri, StdioCommand, as_image_uris, encode_image_to_data_uri,
};
use image::{DynamicImage, ImageFormat};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use endpoint::{DONE, Endpoint, STOP, STREAM, deltas, on_time};

const PATIENCE: Duration = Duration::from_secs(60);
const READMES: [&str; 2] = [
    include_str!("../README.md"),
    include_str!("../README.ja.md"),
];

/// Cargo builds the examples with the tests, into a folder beside theirs.
fn example(name: &str) -> Command {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.set_file_name("examples");
    path.push(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.exists(),
        "no {}: cargo build --examples",
        path.display()
    );
    let mut command = Command::new(path);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// The fenced blocks of a text: what stands behind the fence, and the lines.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut lines = text.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let block = lines.by_ref().take_while(|line| *line != "```");
            found.push((language, block.map(|line| format!("{line}\n")).collect()));
        }
    }
    found
}

/// Starts an example that serves, and gives it with the line that it says first.
async fn serving(name: &str, arg: &str) -> (Child, String) {
    let mut server = example(name);
    server.arg(arg);
    started(server).await
}

async fn started(mut server: Command) -> (Child, String) {
    let mut server = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    timeout(PATIENCE, out.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    (server, line.trim().to_owned())
}

/// Runs an example to its end: what it printed.
async fn printed(mut example: Command) -> String {
    let output = timeout(PATIENCE, example.output())
        .await
        .expect("it ends by itself")
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_quick_start_prints_what_the_readme_says() {
    let (_server, url) = serving("my_server", "0").await;
    let mut client = example("my_client");
    client.arg(url);
    let printed = printed(client).await;
    for readme in READMES {
        let blocks = blocks(readme);
        assert!(blocks.contains(&("text", printed.clone())), "{printed}");
    }
}

#[tokio::test]
async fn many_servers_names_what_is_down_and_what_is_ambiguous() {
    let wanted = r#"english: Connected
japanese: Connected
sleeping: Failed
which of ["english/greet", "japanese/greet"]?
english: "hello"
japanese: "こんにちは"
"#;
    assert_eq!(printed(example("many_servers")).await, wanted);
}

#[tokio::test]
async fn stdio_child_streams_from_itself() {
    let wanted = "text: \"one\"\ntext: \"two\"\ntext: \"three\"\nresult: \"done\"\n";
    assert_eq!(printed(example("stdio_child")).await, wanted);
}

#[tokio::test]
async fn graph_agent_tries_again() {
    let wanted = r#"Some("research") think: "what is known?"
Some("research") error: "the library is closed"
Some("write") text: "draft "
Some("write") text: "1"
Some("write") text: "draft "
Some("write") text: "2"
None result: "draft 2"
"#;
    assert_eq!(printed(example("graph_agent")).await, wanted);
}

#[tokio::test]
async fn local_model_streams_from_its_thread() {
    let wanted = r#"think: "on a thread of its own"
text: "by"
text: " "
text: "the"
text: " "
text: "sea"
result: "by the sea"
"#;
    assert_eq!(printed(example("local_model")).await, wanted);
}

/// Runs the client of the agents against one of them.
async fn llm_agent_client(url: &str, request: &str) -> String {
    let port = url.split([':', '/']).nth(4).unwrap();
    let mut client = example("llm_agent_client");
    client.env("LLM_AGENT_PORT", port).arg(request);
    printed(client).await
}

#[tokio::test]
async fn llm_agent_client_shows_what_llm_agent_server_thinks_and_says() {
    let mut server = example("llm_agent_server");
    server.env("LLM_AGENT_PORT", "0");
    let (_server, url) = started(server).await;
    let said = llm_agent_client(&url, "Hé👋").await;
    let wanted = "[think] 2 messages, 0 images\n[text] You said: Hé👋\n[result] You said: Hé👋\n";
    assert_eq!(said, wanted);
}

#[tokio::test]
async fn llm_agent_server_openai_asks_its_endpoint() {
    let endpoint = Endpoint::bind().await;
    let mut server = example("llm_agent_server_openai");
    server
        .env("LLM_AGENT_PORT", "0")
        .env("OPENAI_BASE_URL", endpoint.url("/v1"))
        .env("OPENAI_MODEL", "m")
        .env("OPENAI_API_KEY", "k3y-k3y-k3y");
    let (_server, url) = started(server).await;
    let answer = STREAM.to_owned() + &deltas(&[r#"{"content":"Yes."}"#]) + STOP + DONE;
    let client = llm_agent_client(&url, "Hi");
    let (seen, said) = on_time(async { tokio::join!(endpoint.answer(answer), client) }).await;
    let wanted = "[log] asked 2 characters\n[text] Yes.\n[result] Yes.\n";
    assert_eq!(said, wanted);
    assert_eq!(seen.field("authorization"), Some("Bearer k3y-k3y-k3y"));
    assert_eq!(seen.body["model"], "m");

    let hub = AgentHubClient::builder().build();
    hub.connect_http("agent", &url).await.unwrap();
    let about = hub.call_tool("about", ()).await.unwrap();
    assert_eq!(about, format!("m at {}", endpoint.url("/v1")));
    hub.close().await;
}

#[tokio::test]
async fn orchestrator_passes_on_what_comes_and_goes() {
    let said = printed(example("orchestrator")).await;
    let results = said
        .lines()
        .filter_map(|line| line.strip_prefix("None result: "));
    let wanted = [
        r#""cook: You said: Hi""#,
        r#""cook: You said: Hi; pilot: You said: Hi""#,
        r#""pilot: You said: Hi""#,
    ];
    assert_eq!(results.collect::<Vec<_>>(), wanted, "{said}");
    let both = said.split("None result: ").nth(1).unwrap();
    let first_and_last = |node: &str| {
        let lines = both.lines().enumerate();
        let mut own = lines.filter(|(_, line)| line.starts_with(&format!("Some(\"{node}\")")));
        let first = own.next().unwrap().0;
        (first, own.last().unwrap().0)
    };
    let (cook, pilot) = (
        first_and_last("cook/answer"),
        first_and_last("pilot/answer"),
    );
    assert!(
        cook.0 < pilot.1 && pilot.0 < cook.1,
        "one after the other: {both}"
    );
}

/// What a GET of a page gives, its head included.
async fn page(url: &str) -> String {
    let address = url.trim_start_matches("http://");
    let (address, path) = address.split_once('/').unwrap();
    let mut page = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    page.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = page.read_to_string(&mut answer);
    timeout(PATIENCE, read).await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn axum_mount_serves_its_page_and_its_tool() {
    let (_server, url) = serving("axum_mount", "0").await;
    let hub = AgentHubClient::builder().build();
    hub.connect_http("mounted", &url).await.unwrap();
    let said = hub.call_tool_stream("greet", ()).collect_text().await;
    assert_eq!(said.unwrap(), "hello from axum");
    hub.close().await;

    let answer = page(&url.replace("/agents/greeter", "/")).await;
    assert!(answer.ends_with("\r\n\r\nA page.\n"), "{answer}");
}

#[tokio::test]
async fn observe_counts_what_passes_by_server_tool_and_kind() {
    let (_observer, url) = serving("observe", "0").await;
    let answer = page(&url).await;
    assert!(
        answer.contains("content-type: text/plain; version=0.0.4\r\n"),
        "{answer}"
    );
    let wanted = r#"# TYPE agent_hub_events_total counter
agent_hub_events_total{server="echo",tool="echo",kind="log"} 1
agent_hub_events_total{server="echo",tool="echo",kind="result"} 1
agent_hub_events_total{server="echo",tool="echo",kind="text"} 5
agent_hub_events_total{server="the \"other\" one",tool="echo",kind="log"} 1
agent_hub_events_total{server="the \"other\" one",tool="echo",kind="result"} 1
agent_hub_events_total{server="the \"other\" one",tool="echo",kind="text"} 5
"#;
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, wanted);
}

/// A picture of one colour, in a format.
fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let mut data = Cursor::new(Vec::new());
    let pixels = DynamicImage::new_rgb8(width, height);
    pixels.write_to(&mut data, format).unwrap();
    data.into_inner()
}

/// A PNG that says to be so large. Its checksums are not looked at before its size is.
fn bomb(width: u32, height: u32) -> Vec<u8> {
    let mut png = picture(1, 1, ImageFormat::Png);
    let mut head = [0; 17];
    head[..4].copy_from_slice(b"IHDR");
    head[4..8].copy_from_slice(&width.to_be_bytes());
    head[8..12].copy_from_slice(&height.to_be_bytes());
    head[12..].copy_from_slice(&png[24..29]);
    png[12..29].copy_from_slice(&head);
    png[29..33].copy_from_slice(&crc(&head).to_be_bytes());
    png
}

/// As PNG has it.
fn crc(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1))
        })
    })
}

#[tokio::test]
async fn image_server_tells_sizes_and_gives_thumbnails() {
    let (_server, url) = serving("image_server", "0").await;
    let hub = AgentHubClient::builder().build();
    hub.connect_http("eyes", &url).await.unwrap();
    let images = as_image_uris([
        picture(640, 320, ImageFormat::Png),
        picture(2, 3, ImageFormat::Bmp),
        picture(100, 100, ImageFormat::Gif),
        picture(65, 1, ImageFormat::Jpeg),
        picture(10, 20, ImageFormat::WebP),
    ]);
    let args = json!({ "images": images.unwrap() });
    let mut events = hub.call_tool_stream("look", args);
    let mut seen = Vec::new();
    while let Some(event) = timeout(PATIENCE, events.next()).await.unwrap() {
        seen.push(match event.kind.as_str() {
            "image" => {
                let uri: DataUri = event.text().unwrap().parse().unwrap();
                let small = image::load_from_memory(&uri.decode()).unwrap();
                format!(
                    "{} of {} x {}",
                    uri.media_type(),
                    small.width(),
                    small.height()
                )
            }
            _ => event.text().unwrap().to_owned(),
        });
    }
    let wanted = [
        "640 x 320 pixels, image/png",
        "image/png of 64 x 32",
        "2 x 3 pixels, image/bmp",
        "image/png of 2 x 3",
        "100 x 100 pixels, image/gif",
        "image/png of 64 x 64",
        "65 x 1 pixels, image/jpeg",
        "image/png of 64 x 1",
        "10 x 20 pixels, image/webp",
        "image/png of 10 x 20",
        "5 images",
    ];
    assert_eq!(seen, wanted);
    assert_eq!(hub.call_tool("look", ()).await.unwrap(), "0 images");
    hub.close().await;
}

#[tokio::test]
async fn image_server_refuses_what_is_no_image_or_too_large_a_one() {
    let (_server, url) = serving("image_server", "0").await;
    let hub = AgentHubClient::builder().build();
    hub.connect_http("eyes", &url).await.unwrap();
    let good = picture(1, 1, ImageFormat::Png);
    let mut torn = picture(64, 64, ImageFormat::Jpeg);
    torn.truncate(torn.len() / 4);
    let uri = |data: &[u8]| encode_image_to_data_uri(data).unwrap().to_string();
    for (case, image, wanted) in [
        ("wide", uri(&bomb(1_000_000, 1)), "images[1]: "),
        ("large", uri(&bomb(10_000, 10_000)), "images[1]: "),
        ("torn", uri(&torn), "images[1]: "),
        ("cut", uri(&good[..20]), "images[1]: "),
        ("noise", uri(b"\x89PNG\r\n\x1a\nnoise"), "images[1]: "),
        ("text", "data:image/png,hello".to_owned(), "images[1]: "),
        ("empty", "data:,".to_owned(), "images[1]: "),
        (
            "path",
            "photo.png".to_owned(),
            "invalid argument `images[1]`: expected a data URI",
        ),
    ] {
        let args = json!({ "images": [uri(&good), image] });
        let error = timeout(PATIENCE, hub.call_tool("look", args))
            .await
            .unwrap();
        let error = error.expect_err(case);
        assert!(error.is_tool(), "{case}: {error:?}");
        assert!(error.to_string().contains(wanted), "{case}: {error}");
    }
    hub.close().await;
}

#[tokio::test]
async fn edge_client_prints_what_edge_echo_streams() {
    let (_server, url) = serving("edge_echo", "0").await;
    let mut client = example("edge_client");
    client.args([&url, "Hé👋llo"]);
    assert_eq!(printed(client).await, "Hé👋llo\n\"Hé👋llo\"\n");

    let hub = AgentHubClient::builder().build();
    hub.connect_http("edge", &url).await.unwrap();
    let thrice = json!({"text": "ab", "times": 3, "delay_ms": 1});
    let said = hub.call_tool_stream("echo", thrice).collect_text().await;
    assert_eq!(said.unwrap(), "ababab");
    let mistaken = hub.call_tool("echo", json!({"times": 3})).await;
    assert!(mistaken.unwrap_err().is_tool());
    hub.close().await;
}

#[tokio::test]
async fn edge_stdio_streams_a_character_at_a_time() {
    let hub = AgentHubClient::builder().build();
    let child = example("edge_stdio");
    let child = StdioCommand::new(child.as_std().get_program());
    hub.connect_stdio("edge", child).await.unwrap();
    let mut events = hub.call_tool_stream("echo", json!({"text": "aé👋"}));
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(format!("{}: {}", event.kind, event.content.value()));
    }
    let wanted = [
        r#"text: "a""#,
        r#"text: "é""#,
        r#"text: "👋""#,
        r#"result: "aé👋""#,
    ];
    assert_eq!(seen, wanted);
    hub.close().await;
}

#[tokio::test]
async fn load_client_counts_what_load_server_sends() {
    let mut server = example("load_server");
    server.args(["http", "0"]).stderr(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut line = String::new();
    let mut err = BufReader::new(server.stderr.take().unwrap());
    timeout(PATIENCE, err.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    let url = line.trim().strip_prefix("listening on ").expect(&line);
    let port = url.split([':', '/']).nth(4).unwrap();
    let stream = r#"{"n":1000,"size":3}"#;
    let paced = r#"{"n":3,"size":0,"interval_us":1000}"#;
    let child = example("load_server");
    let child = child.as_std().get_program().to_str().unwrap();
    for (args, wanted) in [
        (
            &["call", url, "stream", stream][..],
            json!({"events": 1000, "late": 0, "out_of_order": 0}),
        ),
        (
            &["call", url, "stream", paced],
            json!({"events": 3, "late": 0, "out_of_order": 0}),
        ),
        (
            &["stdio", "stream", stream, "--", child, "stdio"],
            json!({"events": 1000, "late": 0, "out_of_order": 0}),
        ),
        (&["echo", url, "10"], json!({"calls": 10})),
        (&["connect", port, "1"], json!({"servers": 1, "tools": 4})),
    ] {
        let mut client = example("load_client");
        client.args(args);
        let said = printed(client).await;
        let mut said: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        let seconds = said.as_object_mut().unwrap().remove("seconds").unwrap();
        assert!(seconds.as_f64().unwrap() > 0.0, "{args:?}");
        assert_eq!(said, wanted, "{args:?}");
    }
    let mut client = example("load_client");
    client.args(["rps", url, "1", "4"]);
    let said: Value = serde_json::from_str(printed(client).await.trim()).unwrap();
    assert!(said["calls"].as_u64().unwrap() > 4, "{said}");
    assert!(said["p50_us"].as_u64() <= said["p99_us"].as_u64(), "{said}");

    let mut client = example("load_client");
    client.args(["call", url, "fail", r#"{"message":"no luck"}"#]);
    let failed = timeout(PATIENCE, client.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("no luck"), "{said}");
}

#[test]
fn the_readmes_show_the_examples_as_they_are() {
    for (name, source) in [
        ("my_server", include_str!("../examples/my_server.rs")),
        ("my_client", include_str!("../examples/my_client.rs")),
        (
            "llm_agent_server",
            include_str!("../examples/llm_agent_server.rs"),
        ),
    ] {
        assert!(source.lines().count() <= 60, "{name} is no quick start");
        // Above it stands what only concerns the file.
        let code = source.find("\nuse ").and_then(|at| source.get(at + 1..));
        let block = ("rust,no_run", code.unwrap().to_owned());
        for readme in READMES {
            assert!(blocks(readme).contains(&block), "{name} differs");
        }
    }
}

#[test]
fn an_example_is_read_at_a_glance() {
    for (name, source) in [
        ("axum_mount", include_str!("../examples/axum_mount.rs")),
        ("edge_client", include_str!("../examples/edge_client.rs")),
        ("edge_echo", include_str!("../examples/edge_echo.rs")),
        ("edge_stdio", include_str!("../examples/edge_stdio.rs")),
        ("graph_agent", include_str!("../examples/graph_agent.rs")),
        ("image_server", include_str!("../examples/image_server.rs")),
        ("observe", include_str!("../examples/observe.rs")),
        ("many_servers", include_str!("../examples/many_servers.rs")),
        ("local_model", include_str!("../examples/local_model.rs")),
        (
            "llm_agent_client",
            include_str!("../examples/llm_agent_client.rs"),
        ),
        (
            "llm_agent_server_openai",
            include_str!("../examples/llm_agent_server_openai.rs"),
        ),
        ("orchestrator", include_str!("../examples/orchestrator.rs")),
        (
            "reload_server",
            include_str!("../examples/reload_server.rs"),
        ),
        ("stdio_child", include_str!("../examples/stdio_child.rs")),
    ] {
        assert!(source.lines().count() <= 60, "{name}");
    }
}

#[test]
fn both_readmes_have_the_same_blocks_and_tables() {
    let [english, japanese] = READMES;
    assert_eq!(blocks(english), blocks(japanese));
    let rows = |text: &str| text.lines().filter(|line| line.starts_with('|')).count();
    assert_eq!(rows(english), rows(japanese));
    let headings = |text: &str| text.lines().filter(|line| line.starts_with('#')).count();
    assert_eq!(headings(english), headings(japanese));
}
