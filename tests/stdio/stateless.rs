//! Children that know neither handshake nor sessions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, EventKind, HubEvent, ServerChange};

use crate::{child, hub_with, process, read, run, said, shown};

/// Such a server, which notes each line that comes in a file. `told` says a notification.
const STATELESS: &str = r#"
note_line() { printf '%s\n' "$line" >>"$file"; }
told() { say '{"jsonrpc":"2.0","method":"notifications/'"$1"'","params":{'"$2"'}}'; }
meta() { printf '"_meta":{"io.modelcontextprotocol/subscriptionId":%s}' "$1"; }
discovered() {
    answer '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}'
}
listen() {
    subscription=$id
    told subscriptions/acknowledged '"notifications":{"toolsListChanged":true},'"$(meta "$id")"
}
lists=0
tools() {
    lists=$((lists + 1))
    answer '{"resultType":"complete","tools":[{"name":"list'"$lists"'"},{"name":"t"},{"name":"u"}]}'
}
serve() {
    while next; do
        note_line
        case $line in
            *'"method":"server/discover"'*) discovered ;;
            *'"method":"subscriptions/listen"'*) listen ;;
            *'"method":"tools/list"'*) tools ;;
            *'"method":"tools/call"'*) call ;;
            *) note ;;
        esac
    done
}
"#;

/// What a child heard, over all its lives.
struct Heard(std::path::PathBuf);

impl Heard {
    fn new() -> (Self, String) {
        let path = std::env::temp_dir().join(process::marker());
        std::fs::write(&path, "").unwrap();
        let note = format!("file='{}'\n{STATELESS}", path.display());
        (Self(path), note)
    }

    fn lines(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(&self.0).unwrap();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines = whole.lines().filter(|line| !line.is_empty());
        lines.map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    fn of(&self, method: &str) -> Vec<serde_json::Value> {
        let mut lines = self.lines();
        lines.retain(|line| line["method"] == method);
        lines
    }

    async fn wait_for(&self, method: &str, count: usize) -> Vec<serde_json::Value> {
        loop {
            let found = self.of(method);
            if found.len() >= count {
                return found;
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn found(hub: &AgentHubClient, tool: &str) {
    while hub.find_tool(tool).is_none() {
        tokio::task::yield_now().await;
    }
}

type Seen = Arc<Mutex<Vec<HubEvent>>>;

fn watched() -> (AgentHubClient, Seen) {
    let seen = Seen::default();
    let events = seen.clone();
    let hub = AgentHubClient::builder()
        .on_event(move |event| events.lock().unwrap().push(event.clone()))
        .build();
    (hub, seen)
}

// Covers R-501, R-904.
#[test]
fn a_call_stands_for_itself_and_a_cancel_is_a_message() {
    run(async || {
        let (heard, note) = Heard::new();
        let (hub, _) = watched();
        let script = r#"
            call() { case $line in *'"u"'*) progress "$id" 1 a ;; *) text ok ;; esac; }
        "#;
        child::connect(&hub, &(note + script)).await;
        assert_eq!(hub.call_tool("t", ()).await.unwrap(), "ok");
        let mut waiting = hub.call_tool_stream("u", ());
        assert_eq!(waiting.next().await.unwrap().text(), Some("a"));
        waiting.cancel();
        let events = read(&mut waiting).await;
        assert_eq!(events[0].kind, EventKind::Cancelled);
        let mut late = hub
            .call_tool_stream("u", ())
            .timeout(Duration::from_millis(300));
        assert_eq!(read(&mut late).await.len(), 2);
        let cancels = heard.wait_for("notifications/cancelled", 2).await;
        let calls = heard.of("tools/call");
        for (cancel, call) in cancels.iter().zip(&calls[1..]) {
            assert_eq!(cancel["params"]["requestId"], call["id"]);
            assert_eq!(cancel["params"]["_meta"], serde_json::Value::Null);
        }
        for line in heard.lines().iter().filter(|line| !line["id"].is_null()) {
            let version = &line["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
            assert_eq!(version, "2026-07-28", "{line}");
        }
        assert_eq!(heard.of("initialize").len(), 0);
    });
}

// Covers R-1105.
#[test]
fn a_question_of_the_child_is_not_answered() {
    run(async || {
        let (heard, note) = Heard::new();
        let (hub, seen) = watched();
        let script = r#"
            call() { say '{"jsonrpc":"2.0","id":1,"method":"ping"}'; text ok; }
        "#;
        child::connect(&hub, &(note + script)).await;
        assert_eq!(hub.call_tool("t", ()).await.unwrap(), "ok");
        hub.close().await;
        assert!(heard.lines().iter().all(|line| line["method"].is_string()));
        let warned = seen.lock().unwrap().iter().any(
            |event| matches!(event, HubEvent::Warning { text, .. } if text.contains("\"ping\"")),
        );
        assert!(warned);
    });
}

// Covers R-1108.
#[test]
fn a_call_that_the_child_wants_again_is_made_again() {
    run(async || {
        let (heard, note) = Heard::new();
        let (hub, _) = watched();
        let script = r#"
            call() {
                case $line in
                    *'"u"'*) answer '{"resultType":"input_required","requestState":"s","inputRequests":{"a":{"method":"roots/list"}}}' ;;
                    *'"requestState":"x\u0000y"'*) text ok ;;
                    *) progress "$id" 1 a; answer '{"resultType":"input_required","requestState":"x\u0000y"}' ;;
                esac
            }
        "#;
        child::connect(&hub, &(note + script)).await;
        let mut stream = hub.call_tool_stream("t", ());
        let events = read(&mut stream).await;
        assert_eq!(shown(&events), ["text \"a\"", "result \"ok\""]);
        let calls = heard.of("tools/call");
        assert_eq!(calls.len(), 2);
        assert_ne!(calls[0]["id"], calls[1]["id"]);
        let error = hub.call_tool("u", ()).await.unwrap_err();
        assert!(said(&error).contains("wants roots/list"), "{error}");
        assert_eq!(heard.of("tools/call").len(), 3);
    });
}

// Covers R-1008, R-1009, R-1011.
#[test]
fn a_child_is_listened_to_in_each_of_its_lives() {
    run(async || {
        let (heard, note) = Heard::new();
        let (hub, seen) = watched();
        let script = r#"
            call() {
                case $line in *'"u"'*) exit 3 ;; esac
                case $line in
                    *sloppy*) told tools/list_changed '' ;;
                    *) told tools/list_changed "$(meta "$subscription")" ;;
                esac
                text ok
            }
        "#;
        child::connect(&hub, &(note + script)).await;
        // What changed before it was acknowledged is not told.
        found(&hub, "list2").await;
        hub.call_tool("t", ()).await.unwrap();
        found(&hub, "list3").await;
        hub.call_tool("t", serde_json::json!({"sloppy": 1}))
            .await
            .unwrap();
        found(&hub, "list4").await;
        assert_eq!(heard.of("subscriptions/listen").len(), 1);
        hub.call_tool("u", ()).await.unwrap_err();
        // Its lists count from one again.
        hub.call_tool("t", ()).await.unwrap();
        let listens = heard.wait_for("subscriptions/listen", 2).await;
        assert_ne!(listens[0]["id"], listens[1]["id"]);
        let before = heard.of("tools/list").len();
        hub.call_tool("t", ()).await.unwrap();
        heard.wait_for("tools/list", before + 1).await;
        hub.close().await;
        let cancels = heard.of("notifications/cancelled");
        assert_eq!(cancels.len(), 1, "{cancels:?}");
        assert_eq!(cancels[0]["params"]["requestId"], listens[1]["id"]);
        assert_eq!(heard.of("subscriptions/listen").len(), 2);
        let told = |wanted: ServerChange| {
            let is = |event: &&HubEvent| matches!(event, HubEvent::Server { change, .. } if *change == wanted);
            seen.lock().unwrap().iter().filter(is).count()
        };
        // The one after the restart may come before the acknowledgement, and is not told then.
        assert!((3..=4).contains(&told(ServerChange::ToolsChanged)));
        assert_eq!(told(ServerChange::Reopened), 1);
    });
}

// Covers R-1007, R-1008.
#[test]
fn a_subscription_that_the_child_ends_is_made_again_or_not() {
    // What a child does, and whether it is asked again.
    let table = [
        (
            r#"listen() { told subscriptions/acknowledged '"notifications":{"toolsListChanged":true},'"$(meta "$id")"; answer '{}'; }"#,
            true,
        ),
        (
            r#"listen() { told subscriptions/acknowledged '"notifications":{"toolsListChanged":true},'"$(meta "$id")"; told cancelled '"requestId":'"$id"; }"#,
            true,
        ),
        (
            r#"listen() { say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32603,"message":"busy"}}'; }"#,
            true,
        ),
        (
            r#"listen() { say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"no"}}'; }"#,
            false,
        ),
        (
            r#"listen() { told subscriptions/acknowledged '"notifications":{},'"$(meta "$id")"; answer '{}'; }"#,
            false,
        ),
    ];
    run(async || {
        for (script, again) in table {
            let (heard, note) = Heard::new();
            let hub = hub_with(|limits| limits.resume_delay = Duration::ZERO);
            child::connect(&hub, &(note + script + "\ncall() { text ok; }")).await;
            if again {
                let listens = heard.wait_for("subscriptions/listen", 3).await;
                assert_ne!(listens[0]["id"], listens[1]["id"], "{script}");
            } else {
                heard.wait_for("subscriptions/listen", 1).await;
                for _ in 0..20 {
                    assert_eq!(hub.call_tool("t", ()).await.unwrap(), "ok", "{script}");
                }
                assert_eq!(heard.of("subscriptions/listen").len(), 1, "{script}");
            }
            hub.close().await;
        }
    });
}
