//! `https` from end to end: the hub and a model, each against a server behind TLS.
//!
//! What a system trusts is read from its environment, which a test must not change for others. So
//! this program runs itself again, with the variable set.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_hub_kit::{
    AgentHubClient, Era, Error, Limits, Llm, McpServer, McpServerBuilder, OpenAiLlm, RawArgs,
    RootCertificates, ServerTls, Tool, ToolContext,
};
use rcgen::{CertificateParams, CertifiedKey, KeyPair, date_time_ymd, generate_simple_self_signed};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::ring::default_provider};

/// Set where this program runs for the second time: the ports of the servers, and whom it trusts.
const PORTS: &str = "AGENT_HUB_KIT_TEST_PORTS";

#[tokio::test]
async fn https_is_spoken_with_those_whom_the_system_trusts() {
    if let Ok(told) = std::env::var(PORTS) {
        let [tools, model, silent, how] = told.split(' ').collect::<Vec<_>>().try_into().unwrap();
        return ask(tools, model, silent, how).await;
    }
    let server = certified();
    let bound = greeter().build().bind("127.0.0.1:0").await.unwrap();
    let tools = behind_tls(&server, bound.local_addr().port(), false).await;
    tokio::spawn(bound.serve());
    let model = behind_tls(&server, scripted_model().await, false).await;
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

fn greeter() -> McpServerBuilder {
    McpServer::builder("greeter", "0").tool(
        Tool::new("greet"),
        async |_: RawArgs, ctx: ToolContext| {
            ctx.streamer("n").text("hel").await?;
            Ok("hello")
        },
    )
}

/// A server of ours that speaks TLS as who `certified` is; its port, and what it serves with.
async fn greeter_by_tls(certified: &CertifiedKey<KeyPair>) -> agent_hub_kit::Bound {
    let (cert, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    let tls = ServerTls::from_pem(cert, key).unwrap();
    greeter()
        .tls(tls)
        .build()
        .bind("127.0.0.1:0")
        .await
        .unwrap()
}

/// A hub that trusts who signed `certified`.
fn hub_for(certified: &CertifiedKey<KeyPair>) -> AgentHubClient {
    let roots = RootCertificates::from_pem(certified.cert.pem()).unwrap();
    AgentHubClient::builder().extra_roots(&roots).build()
}

async fn on_time<T>(test: impl IntoFuture<Output = T>) -> T {
    let outcome = tokio::time::timeout(Duration::from_secs(30), test).await;
    outcome.expect("nothing happened for 30 s")
}

#[test]
fn what_users_hold_crosses_threads() {
    fn crosses_threads<T: Send + Sync + Clone + std::fmt::Debug + 'static>() {}
    crosses_threads::<RootCertificates>();
    crosses_threads::<ServerTls>();
}

#[tokio::test]
async fn our_hub_speaks_with_our_server_in_both_eras() {
    let own = generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]);
    let own = own.unwrap();
    let bound = greeter_by_tls(&own).await;
    let (url, port, handle) = (
        bound.url().to_owned(),
        bound.local_addr().port(),
        bound.handle(),
    );
    assert_eq!(url, format!("https://127.0.0.1:{port}/mcp"));
    let serving = tokio::spawn(bound.serve());
    let by_name = format!("https://localhost:{port}/mcp");
    let table = [
        (Era::Auto, &by_name),
        (Era::Legacy, &url),
        (Era::Modern, &url),
    ];
    for (era, url) in table {
        let hub = hub_for(&own);
        let connecting = hub.connect_http("greeter", url).era(era);
        on_time(connecting).await.unwrap();
        let calls = (0..5).map(|_| async {
            let mut events = hub.call_tool_stream("greet", ());
            let event = events.next().await.unwrap();
            assert_eq!(event.text(), Some("hel"), "{era:?}");
            assert_eq!(hub.call_tool("greet", ()).await.unwrap(), "hello");
        });
        on_time(futures_util::future::join_all(calls)).await;
        on_time(hub.close()).await;
    }
    let hub = hub_for(&own);
    on_time(hub.connect_http("greeter", &url)).await.unwrap();
    handle.shutdown();
    on_time(serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn who_is_not_trusted_is_not_connected_and_the_error_says_what_to_do() {
    let right = certified();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_before = date_time_ymd(1990, 1, 1);
    params.not_after = date_time_ymd(1991, 1, 1);
    let signing_key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&signing_key).unwrap();
    let expired = CertifiedKey { cert, signing_key };
    // case, who answers, whom we trust, host, what is told
    let table = [
        (
            "unknown issuer",
            &right,
            &certified(),
            "localhost",
            "`extra_roots`",
        ),
        ("expired", &expired, &expired, "localhost", "it has expired"),
        (
            "wrong name",
            &right,
            &right,
            "127.0.0.1",
            "for other names; check the URL",
        ),
    ];
    for (case, server, trusted, host, part) in table {
        let bound = greeter_by_tls(server).await;
        let port = bound.local_addr().port();
        let serving = tokio::spawn(bound.serve());
        let url = format!("https://{host}:{port}/mcp");
        let error = on_time(hub_for(trusted).connect_http("g", url))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{case}: {error:?}");
        let told = chain(&error);
        assert!(
            told.contains(&format!("certificate of {host}:{port}")) && told.contains(part),
            "{case}: {told}"
        );
        serving.abort();
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_without_a_restart() {
    let (older, newer) = (certified(), certified());
    let tls = |of: &CertifiedKey<KeyPair>| {
        ServerTls::from_pem(of.cert.pem(), of.signing_key.serialize_pem()).unwrap()
    };
    let shown = tls(&older);
    let server = greeter().tls(shown.clone()).build();
    let bound = server.bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/mcp", bound.local_addr().port());
    tokio::spawn(bound.serve());
    let (before, after) = (hub_for(&older), hub_for(&newer));
    on_time(before.connect_http("g", &url)).await.unwrap();
    assert!(on_time(after.connect_http("g", &url)).await.is_err());
    shown.renew(&tls(&newer));
    on_time(after.connect_http("g", &url)).await.unwrap();
    // On the connection that it has.
    assert_eq!(
        on_time(before.call_tool("greet", ())).await.unwrap(),
        "hello"
    );
}

#[tokio::test]
async fn the_wrong_scheme_is_told() {
    let bound = greeter_by_tls(&certified()).await;
    let secured = bound.local_addr();
    tokio::spawn(bound.serve());
    let bound = greeter().build().bind("127.0.0.1:0").await.unwrap();
    let clear = bound.local_addr();
    tokio::spawn(bound.serve());
    let table = [
        (format!("http://{secured}/mcp"), "write https:// in the URL"),
        (format!("https://{clear}/mcp"), "write http://"),
    ];
    for (url, part) in table {
        let hub = hub_for(&certified());
        let error = on_time(hub.connect_http("g", &url)).await.unwrap_err();
        let told = chain(&error);
        assert!(told.contains(part), "{url}: {told}");
    }
}

#[tokio::test]
async fn those_who_agree_on_nothing_keep_nobody_out() {
    let own = certified();
    let bound = greeter_by_tls(&own).await;
    let address = bound.local_addr();
    tokio::spawn(bound.serve());
    let mut silent = Vec::new();
    for says in [
        &b""[..],
        b"\x16",
        b"\x16\x03\x01\x02\x00\x01",
        b"\0\0\0\0",
        b"GET /",
    ]
    .repeat(10)
    {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(says).await.unwrap();
        silent.push(socket);
    }
    let hub = hub_for(&own);
    let url = format!("https://localhost:{}/mcp", address.port());
    on_time(hub.connect_http("g", url)).await.unwrap();
    assert_eq!(on_time(hub.call_tool("greet", ())).await.unwrap(), "hello");
    // They count, as others do.
    let mut limits = Limits::default();
    limits.max_connections = 1;
    let tls = ServerTls::from_pem(own.cert.pem(), own.signing_key.serialize_pem()).unwrap();
    let server = greeter().tls(tls).limits(limits).build();
    let bound = server.bind("127.0.0.1:0").await.unwrap();
    let address = bound.local_addr();
    tokio::spawn(bound.serve());
    let mut first = TcpStream::connect(address).await.unwrap();
    first.write_all(b"\x16").await.unwrap();
    let hub = hub_for(&own);
    let url = format!("https://localhost:{}/mcp", address.port());
    let refused = on_time(hub.connect_http("g", &*url)).await.unwrap_err();
    let told = chain(&refused);
    assert!(told.contains("max_connections"), "{told}");
    assert!(refused.is_retryable());
    drop(first);
    let connected = async {
        while hub.connect_http("g", &*url).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    on_time(connected).await;
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_of_ours_is_told_of() {
    let own = certified();
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    let provider = Arc::new(default_provider());
    let wants = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let key = own.signing_key.serialize_der().try_into().unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(wants.build().unwrap())
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let _ = acceptor.accept(socket).await;
        }
    });
    let hub = hub_for(&own);
    let url = format!("https://localhost:{port}/mcp");
    let told = chain(&on_time(hub.connect_http("g", url)).await.unwrap_err());
    assert!(told.contains("CertificateRequired"), "{told}");
}

#[tokio::test]
async fn a_model_is_asked_that_extra_roots_vouch_for() {
    let own = certified();
    let port = behind_tls(&own, scripted_model().await, false).await;
    let ask = async |trusted: &CertifiedKey<KeyPair>| {
        let roots = RootCertificates::from_pem(trusted.cert.pem()).unwrap();
        let model = OpenAiLlm::builder(format!("https://localhost:{port}/v1"), "m");
        let model = model.extra_roots(&roots).build().unwrap();
        on_time(model.chat("Hi".into()).collect_text()).await
    };
    assert_eq!(ask(&own).await.unwrap(), "from behind TLS");
    let told = chain(&ask(&certified()).await.unwrap_err());
    assert!(told.contains("is not trusted"), "{told}");
}

#[test]
fn what_is_wrong_with_certificates_and_keys_is_told() {
    let (own, other) = (certified(), certified());
    let (cert, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let other_key = other.signing_key.serialize_pem();
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let older = key.replacen("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\n", 1);
    let cut = |text: &str| text.lines().take(3).collect::<Vec<_>>().join("\n");
    let (cut_cert, cut_key) = (cut(&cert), cut(&key));
    let garbled = |text: &str| text.replacen("\nM", "\n*", 1);
    let (garbled_cert, garbled_key) = (garbled(&cert), garbled(&key));
    let no_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let chain = format!("{}{cert}", other.cert.pem());
    let table: [(&str, &str, &str, &str); 12] = [
        ("nothing", "", &key, "there is no certificate in"),
        (
            "a key for a certificate",
            &key,
            &key,
            "there is no certificate in",
        ),
        (
            "a certificate for a key",
            &cert,
            &cert,
            "there is no private key in",
        ),
        (
            "another key",
            &cert,
            &other_key,
            "is not that of the first certificate",
        ),
        ("the wrong order", &chain, &key, "has to come first"),
        ("encrypted", &cert, &encrypted, "is encrypted"),
        ("encrypted as of old", &cert, &older, "is encrypted"),
        ("a cut certificate", &cut_cert, &key, "has no end"),
        ("a cut key", &cert, &cut_key, "has no end"),
        (
            "a garbled certificate",
            &garbled_cert,
            &key,
            "is not base64",
        ),
        ("no certificate inside", no_der, &key, "cannot be used"),
        ("no key inside", &cert, no_key, "cannot be used"),
    ];
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let of_this = |name: &str| folder.join(format!("{name}-{}.pem", std::process::id()));
    let (cert_file, key_file) = (of_this("cert"), of_this("key"));
    let secret = key.lines().nth(1).unwrap();
    for (case, cert, key, part) in table {
        std::fs::write(&cert_file, cert).unwrap();
        std::fs::write(&key_file, key).unwrap();
        let from_text = ServerTls::from_pem(cert, key).unwrap_err();
        let from_files = ServerTls::from_pem_files(&cert_file, &key_file).unwrap_err();
        for error in [&from_text, &from_files] {
            assert!(matches!(error, Error::Config { .. }), "{case}: {error:?}");
            let told = format!("{error} {error:?}");
            assert!(told.contains(part), "{case}: {told}");
            assert!(!told.contains(secret), "{case}: {told}");
        }
        let told = from_files.to_string();
        assert!(told.contains(".pem`"), "{case}: {told}");
    }
    assert!(ServerTls::from_pem(&cert, &garbled_key).is_err());
    std::fs::write(&cert_file, format!("{cert}{key}")).unwrap();
    let tls = ServerTls::from_pem_files(&cert_file, &cert_file).unwrap();
    assert_eq!(format!("{tls:?}"), "ServerTls { .. }");
    let builder = format!("{:?}", greeter().tls(tls));
    assert!(!builder.contains(secret), "{builder}");
    let roots = RootCertificates::from_pem_file(&cert_file).unwrap();
    assert_eq!(format!("{roots:?}"), "RootCertificates(1)");
    std::fs::write(&cert_file, no_der).unwrap();
    let told = RootCertificates::from_pem_file(&cert_file)
        .unwrap_err()
        .to_string();
    assert!(told.contains("certificate 1 in the file `"), "{told}");
    std::fs::remove_file(&cert_file).unwrap();
    std::fs::remove_file(key_file).unwrap();
    for error in [
        RootCertificates::from_pem_file(&cert_file).unwrap_err(),
        ServerTls::from_pem_files(&cert_file, &cert_file).unwrap_err(),
    ] {
        let told = error.to_string();
        assert!(told.contains(&*cert_file.to_string_lossy()), "{told}");
        assert!(told.contains("could not be read"), "{told}");
    }
}

/// A port that speaks TLS, and sends on to another one what it hears.
async fn behind_tls(certified: &CertifiedKey<KeyPair>, port: u16, cuts: bool) -> u16 {
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
                match cuts {
                    false => drop(copy_bidirectional(&mut outer, &mut inner).await),
                    true => pass_without_end(outer, inner).await,
                }
            });
        }
    });
    own
}

/// Passes all bytes, and then hangs up without the word of TLS that this is the end.
async fn pass_without_end(outer: impl AsyncRead + AsyncWrite, mut inner: TcpStream) {
    let (mut from, mut to) = tokio::io::split(outer);
    let (mut answers, mut requests) = inner.split();
    tokio::select! {
        _ = tokio::io::copy(&mut answers, &mut to) => to.flush().await.unwrap(),
        _ = tokio::io::copy(&mut from, &mut requests) => {}
    }
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

/// A port that answers requests that hold these words, each on a connection that it closes then: with
/// JSON of a known length, or with events that only the close ends. All others are accepted.
async fn scripted(answers: &'static [(&'static str, &'static str)]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut asked = String::new();
                // All that is asked here ends with the brace of its JSON, and no piece before it does.
                while !asked.ends_with("}}") && !asked.ends_with("\"}") {
                    let mut piece = [0; 4096];
                    let count @ 1.. = stream.read(&mut piece).await.unwrap() else {
                        return;
                    };
                    asked += std::str::from_utf8(piece.get(..count).unwrap()).unwrap();
                }
                let answer = answers.iter().find(|(word, _)| asked.contains(word));
                let (status, head, body) = match answer {
                    None => ("202 Accepted", "Content-Length: 0".to_owned(), ""),
                    Some((_, json)) if json.starts_with('{') => {
                        let length = json.len();
                        let head =
                            format!("Content-Type: application/json\r\nContent-Length: {length}");
                        ("200 OK", head, *json)
                    }
                    Some((_, events)) => (
                        "200 OK",
                        "Content-Type: text/event-stream".to_owned(),
                        *events,
                    ),
                };
                let answer =
                    format!("HTTP/1.1 {status}\r\nConnection: close\r\n{head}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        }
    });
    port
}

/// Events may end with their connection. What ends without the word of TLS that it does was cut, by
/// whoever stands between.
#[tokio::test]
async fn a_stream_that_is_cut_does_not_count_as_ended() {
    const ANSWERS: &[(&str, &str)] = &[
        (
            "\"initialize\"",
            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"0"}}}"#,
        ),
        (
            "\"tools/list\"",
            r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"greet","inputSchema":{"type":"object"}}]}}"#,
        ),
        ("\"tools/call\"", ": begins\n\n"),
        (
            "/chat/completions",
            "data: {\"choices\":[{\"delta\":{\"content\":\"do not \"}}]}\n\n",
        ),
    ];
    let own = certified();
    let inner = scripted(ANSWERS).await;
    for cuts in [false, true] {
        let port = behind_tls(&own, inner, cuts).await;
        let hub = hub_for(&own);
        let url = format!("https://localhost:{port}/mcp");
        let connecting = hub.connect_http("s", url).era(Era::Legacy);
        on_time(connecting).await.unwrap();
        let called = on_time(hub.call_tool("greet", ())).await.map(drop);
        let roots = RootCertificates::from_pem(own.cert.pem()).unwrap();
        let model = OpenAiLlm::builder(format!("https://localhost:{port}/v1"), "m");
        let model = model.extra_roots(&roots).build().unwrap();
        let asked = on_time(model.chat("Hi".into()).collect_text()).await;
        for error in [called.unwrap_err(), asked.map(drop).unwrap_err()] {
            let told = chain(&error);
            assert!(matches!(error, Error::Transport { .. }), "{told}");
            assert_eq!(told.contains("close_notify"), cuts, "{told}");
        }
    }
}
