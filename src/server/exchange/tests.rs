use std::sync::atomic::AtomicUsize;
use std::task::Waker;

use serde_json::json;

use super::*;
use crate::server::{McpServer, RawArgs, ToolContext};

/// The bytes of a request, which are counted as long as anybody holds them.
struct Held(String, Arc<AtomicUsize>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

fn inbound(head: Head, body: String, held: &Arc<AtomicUsize>) -> Inbound {
    held.fetch_add(1, Ordering::SeqCst);
    Inbound {
        verb: Verb::Post,
        head,
        principal: None,
        accept: Accept {
            sse: true,
            prefers_sse: false,
        },
        body: Bytes::from_owner(Held(body, held.clone())),
    }
}

#[tokio::test]
async fn a_request_goes_before_its_call_begins_to_wait() {
    let server = McpServer::builder("test", "1")
        .tool(
            crate::Tool::new("waits"),
            async |_: RawArgs, _: ToolContext| {
                std::future::pending::<()>().await;
                Ok("never")
            },
        )
        .build();
    let host = HttpHost::new(server.host.clone(), || SessionId::parse("s"));
    let request = |method: &str, params: serde_json::Value| {
        json!({"jsonrpc": "2.0", "id": "text", "method": method, "params": params}).to_string()
    };
    let held = Arc::default();
    let open = request("initialize", json!({"protocolVersion": "2025-11-25"}));
    let opened = host.exchange(inbound(Head::default(), open, &held)).await;
    assert_eq!(opened.status, 200);
    let in_session = Head {
        session_id: opened.session_id.clone(),
        ..Head::default()
    };
    let alone = Head {
        version: Some("2026-07-28".to_owned()),
        method: Some("tools/call".into()),
        name: Some("waits".into()),
        ..Head::default()
    };
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
        "progressToken": "token",
    });
    for (case, head, meta) in [
        (
            "in a session",
            in_session,
            json!({"progressToken": "token"}),
        ),
        ("alone", alone, meta),
    ] {
        let params = json!({"name": "waits", "arguments": {"text": "long"}, "_meta": meta});
        let inbound = inbound(head, request("tools/call", params), &held);
        let mut exchange = pin!(host.exchange(inbound));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(exchange.as_mut().poll(&mut cx).is_pending(), "{case}");
        assert_eq!(held.load(Ordering::SeqCst), 0, "{case}");
    }
}
