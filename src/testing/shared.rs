//! The specialists that all tests of a process share.
//!
//! Owns their threads: a test's own runtime ends with the test, and with it all that it spawned. Must
//! not know what they answer.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;

use crate::llm::DummyLlm;
use crate::server::McpServer;
use crate::specialists::{build_echo_server, build_llm_server};

/// The URL of an echo server; see [`build_echo_server`]. It is started when it is first asked for,
/// is the same for all tests of the process, and ends with the process.
///
/// ```
/// use agent_hub_kit::{AgentHubClient, testing::echo_specialist_url};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let hub = AgentHubClient::builder().build();
/// hub.connect_http("echo", echo_specialist_url().await).await?;
/// assert_eq!(hub.call_tool("echo", json!({"text": "hi"})).await?, "hi");
/// # hub.close().await;
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// If this machine has no port or no thread left.
///
/// # Cancel safety
/// Cancel safe: it waits for nothing.
pub async fn echo_specialist_url() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| serve("echo-specialist", build_echo_server().build()))
}

/// The URL of a server of a [`DummyLlm`], which says the same to the same request; see
/// [`build_llm_server`]. It is started when it is first asked for, is the same for all tests of the
/// process, and ends with the process.
///
/// ```
/// use agent_hub_kit::{AgentHubClient, testing::llm_specialist_url};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let hub = AgentHubClient::builder().build();
/// hub.connect_http("llm", llm_specialist_url().await).await?;
/// let answer = hub.call_tool("ask", json!({"user_request": "Hello"})).await?;
/// assert_eq!(answer, "You said: Hello");
/// # hub.close().await;
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// If this machine has no port or no thread left.
///
/// # Cancel safety
/// Cancel safe: it waits for nothing.
pub async fn llm_specialist_url() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| serve("llm-specialist", build_llm_server(DummyLlm::new()).build()))
}

/// Serves on a thread that ends with the process, and gives the URL. Who connects before the thread
/// runs waits in the backlog.
#[expect(
    clippy::expect_used,
    reason = "a test can only end there, and says why"
)]
fn serve(name: &str, server: McpServer) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("the address of a listener");
    listener
        .set_nonblocking(true)
        .expect("a listener for tokio");
    let serving = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            server.serve_listener(listener).await
        });
        served.expect("a sound server");
    };
    let thread = std::thread::Builder::new().name(name.to_owned());
    // Not joined: it serves until the process ends.
    drop(thread.spawn(serving).expect("a thread"));
    format!("http://{address}/mcp")
}
