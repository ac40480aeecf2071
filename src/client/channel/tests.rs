//! What events hold on to, on a channel whose bytes come from here.

use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

use super::*;
use crate::client::connect::{Candidate, Policy};
use crate::client::{AgentHubClient, CallStream};
use crate::limits::Limits;
use crate::mcp::frame::Frame;
use crate::mcp::version::Era;
use crate::transport::{BoxFuture, Link, Sent};

/// A server of one tool, that answers no call.
#[derive(Debug)]
struct Server {
    said: Mutex<Option<mpsc::UnboundedReceiver<Bytes>>>,
    say: mpsc::UnboundedSender<Bytes>,
    called: Arc<Mutex<Value>>,
}

struct Said(mpsc::UnboundedReceiver<Bytes>);

impl Messages for Said {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.0.poll_recv(cx).map(|message| message.map(Ok))
    }

    fn poll_excerpt(&mut self, _: usize, _: &mut Context<'_>) -> Poll<String> {
        Poll::Ready(String::new())
    }

    fn finish(self: Box<Self>) {}
}

impl Link for Server {
    fn is_shared(&self) -> bool {
        true
    }

    fn open(&self) -> Result<Option<Box<dyn Messages>>, Error> {
        let said = self.said.lock().unwrap().take().unwrap();
        Ok(Some(Box::new(Said(said))))
    }

    fn send(&self, frame: Frame) -> BoxFuture<'static, Result<Sent, Error>> {
        let message: Value = serde_json::from_slice(&frame.body).unwrap();
        let result = match message["method"].as_str() {
            Some("initialize") => Some(json!({"protocolVersion": "2025-11-25"})),
            Some("tools/list") => Some(json!({"tools": [{"name": "t"}]})),
            _ => None,
        };
        if let Some(result) = result {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            self.say.send(answer.to_string().into()).unwrap();
        } else if message["method"] == "tools/call" {
            *self.called.lock().unwrap() = message["id"].clone();
        }
        Box::pin(std::future::ready(Ok(Sent::Shared)))
    }

    fn sweep(&self) {}

    fn close(&self) {}

    fn target(&self) -> &'static str {
        "here"
    }
}

/// Lets everything happen that can.
async fn settled() {
    sleep(Duration::from_millis(1)).await;
}

/// A call under way, its id, and what says something to it.
async fn call(hub: &AgentHubClient) -> (CallStream, Value, mpsc::UnboundedSender<Bytes>) {
    let (say, said) = mpsc::unbounded_channel();
    let called = Arc::new(Mutex::new(Value::Null));
    let link = Server {
        said: Mutex::new(Some(said)),
        say: say.clone(),
        called: called.clone(),
    };
    let link = Box::new(link);
    let candidate = Candidate::over("p".into(), link, Limits::default(), Era::Legacy);
    let connected = hub.shared().connect(candidate, Policy::default()).await;
    connected.unwrap();
    let mut call = hub.call_tool_stream("t", ());
    let first = tokio::time::timeout(Duration::from_millis(1), call.next()).await;
    assert!(first.is_err(), "{first:?}");
    let id = called.lock().unwrap().take();
    (call, id, say)
}

/// What one read gave: an event and much else.
fn piece(id: &Value, text: &str) -> (Bytes, Bytes) {
    let line = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":1,"message":"{text}"}}}}"#
    );
    let mut piece = line.clone().into_bytes();
    piece.resize(64 * 1024, b'\n');
    let piece = Bytes::from(piece);
    let message = piece.slice(..line.len());
    (piece, message)
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_read_in_time_is_a_slice_of_what_was_read() {
    let hub = AgentHubClient::builder().build();
    let (mut call, id, say) = call(&hub).await;
    let (piece, message) = piece(&id, "hello");
    say.send(message).unwrap();
    let event = call.next().await.unwrap();
    let text = event.text().unwrap();
    assert_eq!(text, "hello");
    assert!(piece.as_ptr_range().contains(&text.as_ptr()));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_nobody_reads_lets_go_of_what_was_read_when_more_comes() {
    let hub = AgentHubClient::builder().build();
    let (mut call, id, say) = call(&hub).await;
    let (first, message) = piece(&id, "one");
    say.send(message).unwrap();
    settled().await;
    assert!(!first.is_unique(), "it was copied, though there was time");
    let (second, message) = piece(&id, "two");
    say.send(message).unwrap();
    settled().await;
    assert!(first.is_unique(), "it keeps 64 KiB alive");
    let (_, message) = piece(&json!("nobody's"), "three");
    say.send(message).unwrap();
    settled().await;
    assert!(second.is_unique(), "what comes is for another call");
    for text in ["one", "two"] {
        assert_eq!(call.next().await.unwrap().text(), Some(text));
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_keeps_no_more_alive_than_one_turn_takes() {
    let hub = AgentHubClient::builder().build();
    let (_unread, id, say) = call(&hub).await;
    let pieces: Vec<Bytes> = (0..3 * MAX_MESSAGES)
        .map(|_| {
            let (piece, message) = piece(&id, "x");
            say.send(message).unwrap();
            piece
        })
        .collect();
    settled().await;
    let held = pieces.iter().filter(|piece| !piece.is_unique()).count();
    assert!(held <= MAX_MESSAGES, "{held} pieces");
}
