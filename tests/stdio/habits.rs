//! What a hub does with any server, done with children.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Error, HubEvent, OnError, ServerState, StdioCommand, ToolRef};
use serde_json::{Value, json};

use crate::{hub, process, raw, read, run_in_both_eras, said, shown};

const TOOLS: [&str; 8] = [
    "echo", "wait", "hold", "count", "late", "clock", "stuck", "panic",
];

fn server() -> StdioCommand {
    StdioCommand::new(raw::program()).arg(process::marker())
}

fn nothing() -> StdioCommand {
    StdioCommand::new("/nowhere/no-such-program")
}

fn names(tools: &[ToolRef]) -> Vec<&str> {
    tools.iter().map(ToolRef::name).collect()
}

#[test]
fn connect_stdio_gives_the_tools_and_keeps_the_order() {
    run_in_both_eras(async |era| {
        let hub = hub();
        for name in ["b", "a"] {
            assert_eq!(
                names(&hub.connect_stdio(name, server()).era(era).await.unwrap()),
                TOOLS
            );
        }
        let lists = hub.list_tools().await;
        let order: Vec<_> = lists.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(order, ["b", "a"]);
        assert!(lists.iter().all(|(_, tools)| names(tools) == TOOLS));
        assert_eq!(names(&hub.list_tools_from("a").await.unwrap()), TOOLS);
        let unknown = hub.list_tools_from("c").await.unwrap_err();
        assert!(
            matches!(unknown, Error::UnknownServer { .. }),
            "{unknown:?}"
        );
        hub.close().await;
    });
}

#[test]
fn on_error_says_what_a_failure_is() {
    run_in_both_eras(async |era| {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let seen = warnings.clone();
        let hub = AgentHubClient::builder()
            .on_event(move |event| {
                if let HubEvent::Warning { server, .. } = event {
                    seen.lock().unwrap().push(server.to_string());
                }
            })
            .build();
        let raised = hub.connect_stdio("raised", nothing()).await.unwrap_err();
        assert!(
            said(&raised).contains("/nowhere/no-such-program"),
            "{raised:?}"
        );
        for (name, on_error) in [("skipped", OnError::Skip), ("warned", OnError::Warn)] {
            let tools = hub.connect_stdio(name, nothing()).on_error(on_error).await;
            assert!(tools.unwrap().is_empty(), "{name}");
        }
        assert_eq!(*warnings.lock().unwrap(), ["warned"]);
        hub.connect_stdio("well", server()).era(era).await.unwrap();
        let states: Vec<_> = hub
            .servers()
            .into_iter()
            .map(|server| {
                (
                    server.name.to_string(),
                    server.state,
                    server.last_error.is_some(),
                )
            })
            .collect();
        let failed = |name: &str| (name.to_owned(), ServerState::Failed, true);
        let well = ("well".to_owned(), ServerState::Connected, false);
        assert_eq!(states, [failed("skipped"), failed("warned"), well]);
        assert_eq!(
            hub.call_tool("echo", json!({"text": "a"})).await.unwrap(),
            "a"
        );
        hub.close().await;
    });
}

#[test]
fn replace_keeps_the_old_child_until_the_new_one_is_ready() {
    run_in_both_eras(async |era| {
        let hub = hub();
        hub.connect_stdio("p", server()).era(era).await.unwrap();
        let taken = hub.connect_stdio("p", server()).era(era).await.unwrap_err();
        assert!(matches!(taken, Error::Config { .. }), "{taken:?}");
        hub.connect_stdio("p", nothing())
            .replace(true)
            .await
            .unwrap_err();
        let mut held = hub.call_tool_stream("hold", ());
        assert_eq!(held.next().await.unwrap().text(), Some("held"));
        hub.connect_stdio("p", server())
            .era(era)
            .replace(true)
            .await
            .unwrap();
        let end = read(&mut held).await;
        assert_eq!(end[0].kind.as_str(), "terminal_error", "{end:?}");
        assert_eq!(
            hub.call_tool("echo", json!({"text": "a"})).await.unwrap(),
            "a"
        );
        hub.close().await;
    });
}

#[test]
fn disconnect_ends_the_calls_of_that_server_alone() {
    run_in_both_eras(async |era| {
        let hub = hub();
        for name in ["a", "b"] {
            hub.connect_stdio(name, server()).era(era).await.unwrap();
        }
        let mut held: Vec<_> = ["a/hold", "b/hold"]
            .map(|tool| hub.call_tool_stream(tool, ()))
            .into();
        for call in &mut held {
            assert_eq!(call.next().await.unwrap().text(), Some("held"));
        }
        hub.disconnect("a").await.unwrap();
        assert_eq!(read(&mut held[0]).await[0].kind.as_str(), "terminal_error");
        held[1].cancel();
        assert_eq!(shown(&read(&mut held[1]).await), ["cancelled null"]);
        let gone = hub.disconnect("a").await.unwrap_err();
        assert!(matches!(gone, Error::UnknownServer { .. }), "{gone:?}");
        hub.close().await;
    });
}

#[test]
fn a_tool_is_found_by_its_name_and_its_server() {
    run_in_both_eras(async |era| {
        let hub = hub();
        for name in ["a", "b"] {
            hub.connect_stdio(name, server()).era(era).await.unwrap();
        }
        assert_eq!(hub.find_tool("echo").unwrap().server(), "a");
        assert_eq!(hub.find_tool_on("b", "echo").unwrap().server(), "b");
        assert_eq!(hub.find_tools("echo").len(), 2);
        assert!(
            hub.diagnose_tool("ecoh").contains("a/echo"),
            "{}",
            hub.diagnose_tool("ecoh")
        );
        let ambiguous = hub
            .call_tool("echo", json!({"text": "a"}))
            .await
            .unwrap_err();
        let Error::AmbiguousTool { candidates, .. } = &ambiguous else {
            panic!("{ambiguous:?}")
        };
        assert_eq!(**candidates, ["a/echo", "b/echo"]);
        let text = json!({"text": "a"});
        assert_eq!(hub.call_tool("b/echo", &text).await.unwrap(), "a");
        assert_eq!(hub.call_tool("echo", &text).server("a").await.unwrap(), "a");
        hub.close().await;
    });
}

#[test]
fn a_call_has_its_options() {
    run_in_both_eras(async |era| {
        let hub = hub();
        hub.connect_stdio("p", server()).era(era).await.unwrap();
        let typed = hub
            .call_tool("echo", json!({"text": "a"}))
            .typed::<String>();
        assert_eq!(typed.await.unwrap(), "a");
        let counted = hub.call_tool_stream("count", json!({"n": 2, "size": 1}));
        assert_eq!(counted.collect_text().await.unwrap(), "1 x2 x");
        let short = Duration::from_millis(50);
        for (what, call) in [
            ("timeout", hub.call_tool("hold", ()).timeout(short)),
            (
                "idle_timeout",
                hub.call_tool("hold", ()).idle_timeout(short),
            ),
        ] {
            let late = call.await.unwrap_err();
            assert!(said(&late).contains(what), "{late:?}");
        }
        let failed = hub.call_tool("panic", ()).await.unwrap_err();
        assert!(failed.is_tool(), "{failed:?}");
        hub.close().await;
    });
}

#[test]
fn an_observer_sees_every_event_as_it_is_read() {
    run_in_both_eras(async |era| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (inline, later) = (seen.clone(), Arc::new(Mutex::new(Vec::new())));
        let queued = later.clone();
        let hub = AgentHubClient::builder()
            .on_event(move |event| {
                if let HubEvent::Call { event, .. } = event {
                    inline.lock().unwrap().push(event.content.value());
                }
            })
            .build();
        hub.connect_stdio("p", server()).era(era).await.unwrap();
        read(&mut hub.call_tool_stream("count", json!({"n": 1, "size": 1}))).await;
        assert_eq!(*seen.lock().unwrap(), [json!("1 x"), json!("counted")]);
        let waiting = AgentHubClient::builder()
            .on_event_async(move |event| {
                let queued = queued.clone();
                async move {
                    if let HubEvent::Call { event, .. } = event {
                        queued.lock().unwrap().push(event.content.value());
                    }
                }
            })
            .build();
        waiting.connect_stdio("p", server()).era(era).await.unwrap();
        read(&mut waiting.call_tool_stream("count", json!({"n": 1, "size": 1}))).await;
        waiting.close().await;
        assert_eq!(
            *later.lock().unwrap(),
            [json!("1 x"), Value::from("counted")]
        );
        hub.close().await;
    });
}
