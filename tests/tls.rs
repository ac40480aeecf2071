//! `https` from end to end: the hub and a model, each against a server behind TLS.
//!
//! What a system trusts is read from its environment, which a test must not change for others. So
//! this program runs itself again, with the variable set.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Error, Llm, McpServer, OpenAiLlm, RawArgs, Tool, ToolContext};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto::ring::default_provider};

/// Set where this program runs for the second time: the ports of the servers, and whom it trusts.
const PORTS: &str = "AGENT_HUB_KIT_TEST_PORTS";

#[tokio::test]
async fn https_is_spoken_with_those_whom_the_system_trusts() {
    if let Ok(told) = std::env::var(PORTS) {
        let [tools, model, silent, how] = told.split(' ').collect::<Vec<_>>().try_into().unwrap();
        return ask(tools, model, silent, how).await;
    }
    let server = certified();
    let greeter = McpServer::builder("greeter", "0")
        .tool(Tool::new("greet"), async |_: RawArgs, ctx: ToolContext| {
            ctx.streamer("n").text("hel").await?;
            Ok("hello")
        })
        .build();
    let bound = greeter.bind("127.0.0.1:0").await.unwrap();
    let tools = behind_tls(&server, bound.local_addr().port()).await;
    tokio::spawn(bound.serve());
    let model = behind_tls(&server, scripted_model().await).await;
    // Says nothing, and lets nobody go.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = (silent.local_addr().unwrap().port(), silent);
    let ports = format!("{tools} {model} {}", silent.0);
    let own = server.cert.pem();
    let roots = [
        ("trusting", &*own),
        ("doubting", &*certified().cert.pem()),
        ("rootless", ""),
    ];
    for (how, roots) in roots {
        let file = format!("roots-{}-{how}.pem", std::process::id());
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file);
        std::fs::write(&file, roots).unwrap();
        let mut again = Command::new(std::env::current_exe().unwrap());
        again
            .args([
                "--exact",
                "https_is_spoken_with_those_whom_the_system_trusts",
            ])
            .env(PORTS, format!("{ports} {how}"))
            .env("SSL_CERT_FILE", &file)
            .env_remove("SSL_CERT_DIR")
            .kill_on_drop(true);
        let ended = tokio::time::timeout(Duration::from_secs(60), again.output()).await;
        let output = ended.expect("it ends").unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{how}\n{said}"
        );
        std::fs::remove_file(file).unwrap();
    }
}

/// The second run.
async fn ask(tools: &str, model: &str, silent: &str, how: &str) {
    let hub = AgentHubClient::builder().build();
    let url = format!("https://localhost:{tools}/mcp");
    let connected = hub.connect_http("greeter", &url).await;
    let answer = ask_model(model, Duration::from_secs(10)).await;
    if how == "trusting" {
        connected.unwrap();
        let mut events = hub.call_tool_stream("greet", ());
        let event = events.next().await.unwrap();
        assert_eq!(event.text(), Some("hel"));
        assert_eq!(hub.call_tool("greet", ()).await.unwrap(), "hello");
        hub.close().await;
        assert_eq!(answer.unwrap(), "from behind TLS");
        let told = chain(
            &ask_model(silent, Duration::from_millis(200))
                .await
                .unwrap_err(),
        );
        let limit = "no end within the tcp_connect_timeout of 200ms";
        assert!(
            told.contains("could not connect") && told.contains(limit),
            "{told}"
        );
        return;
    }
    let parts = match how {
        "doubting" => ["the certificate of localhost:", "invalid peer certificate"],
        _ => ["no root certificates", "SSL_CERT_FILE"],
    };
    for error in [connected.unwrap_err(), answer.unwrap_err()] {
        let told = chain(&error);
        assert!(
            parts.iter().all(|part| told.contains(part)),
            "{how}: {told}"
        );
    }
}

async fn ask_model(port: &str, patience: Duration) -> Result<String, Error> {
    let model = OpenAiLlm::builder(format!("https://localhost:{port}/v1"), "m");
    let model = model.connect_timeout(patience).build().unwrap();
    model.chat("Hi".into()).collect_text().await
}

fn chain(error: &Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        told += &format!(": {e}");
        cause = e.source();
    }
    told
}

fn certified() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

/// A port that speaks TLS, and sends on to another one what it hears.
async fn behind_tls(certified: &CertifiedKey<KeyPair>, port: u16) -> u16 {
    let key = certified.signing_key.serialize_der().try_into().unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (outer, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust us leaves here.
                let Ok(mut outer) = acceptor.accept(outer).await else {
                    return;
                };
                let mut inner = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    own
}

/// A port that gives the same answer to whatever is asked.
async fn scripted_model() -> u16 {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
        Connection: close\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"from behind \"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"TLS\"},\"finish_reason\":\"stop\"}]}\n\n\
        data: [DONE]\n\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                stream.write_all(ANSWER.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        }
    });
    port
}
