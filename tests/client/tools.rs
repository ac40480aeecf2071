//! Tool lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Error, Limits};
use serde_json::{Value, json};

use crate::connect::chain;
use crate::peer::{self, Answer, FIRST_LIST, Peer, error, json as json_answer, listed, polite};
use crate::{Seen, run};

/// A peer that answers `tools/list` with these `result`s, one after the other, the last for ever.
async fn listing(results: Vec<Value>) -> Peer {
    let count = AtomicUsize::new(0);
    Peer::start(move |request| match &*request.what() {
        "tools/list" => {
            let nth = count.fetch_add(1, Ordering::Relaxed).min(results.len() - 1);
            let body = json!({"jsonrpc": "2.0", "id": request.id(), "result": results[nth]});
            json_answer(&body.to_string()).into()
        }
        _ => polite(request),
    })
    .await
}

// Covers R-607.
#[test]
fn one_bad_tool_costs_no_other_and_is_told_with_server_and_place() {
    run(async || {
        let odd = json!([
            {"name": "good", "inputSchema": {"type": "object"}},
            {"name": "no schema"},
            {"name": "null schema", "inputSchema": null},
            {"name": "string schema", "inputSchema": {"type": "string"}},
            {"name": "only $schema", "inputSchema": {"$schema": "x"}},
            {"name": "odd required", "inputSchema": {"properties": {"required": ["a"]}}},
            {"name": "null description", "inputSchema": {}, "description": null},
            {"inputSchema": {}},
            {"name": "", "inputSchema": {}},
            {"name": "with space 😀", "inputSchema": {}},
            7,
            null,
            {"name": 7},
            {"name": "good", "inputSchema": {"type": "array"}},
            {"name": "last", "inputSchema": {}},
        ]);
        let peer = listing(vec![json!({"tools": odd})]).await;
        let seen = Seen::default();
        let hub = seen.hub();
        let tools = peer.connect(&hub, "p").await;
        let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
        let expected = [
            "good",
            "no schema",
            "null schema",
            "string schema",
            "only $schema",
            "odd required",
            "null description",
            "with space 😀",
            "last",
        ];
        assert_eq!(names, expected);
        for name in expected {
            assert_eq!(hub.call_tool(name, ()).await.unwrap(), "done", "{name}");
        }
        assert_eq!(tools[3].input_schema().value(), json!({"type": "string"}));
        assert_eq!(
            tools[0].input_schema().value(),
            json!({"type": "object"}),
            "the first counts"
        );
        let warnings = seen.warnings();
        for (warning, index) in warnings.iter().zip(["7", "8", "10", "11", "12", "`good`"]) {
            assert!(
                warning.starts_with("p: tool ") && warning.contains(index),
                "{warning}"
            );
        }
        assert_eq!(warnings.len(), 6, "{warnings:?}");
    });
}

// Covers R-111, R-511, R-607, R-1801.
#[test]
fn a_tool_is_kept_as_the_server_sent_it() {
    run(async || {
        let tool = r##"{"name":"t","title":"T","description":"d\n","inputSchema":{"$defs":{"x":{}},"$ref":"#/$defs/x","n":123456789012345678901,"z":1,"a":2},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"k":1},"icons":[{"src":"x"}],"new":null}"##;
        let peer = Peer::start(move |request| match &*request.what() {
            "tools/list" => json_answer(&format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":[{tool}]}}}}"#,
                request.id()
            ))
            .into(),
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let found = hub.find_tool("t").unwrap();
        assert_eq!((found.server(), found.name()), ("p", "t"));
        assert_eq!(
            (found.title(), found.description()),
            (Some("T"), Some("d\n"))
        );
        assert_eq!(
            found.input_schema().raw(),
            r##"{"$defs":{"x":{}},"$ref":"#/$defs/x","n":123456789012345678901,"z":1,"a":2}"##
        );
        assert_eq!(found.output_schema().raw(), r#"{"type":"object"}"#);
        assert_eq!(found.annotations().raw(), r#"{"readOnlyHint":true}"#);
        assert_eq!(found.meta().raw(), r#"{"k":1}"#);
        assert_eq!(found.raw().raw(), tool);
    });
}

// Covers R-601.
#[test]
fn all_pages_are_asked_for_and_an_empty_cursor_is_one() {
    run(async || {
        let page = |name: &str, next: Value| json!({"tools": [{"name": name}], "nextCursor": next});
        let pages = vec![
            page("a", json!("")),
            page("b", json!("p 2/あ")),
            json!({"tools": [], "nextCursor": "3"}),
            page("c", json!(null)),
        ];
        let peer = listing(pages).await;
        let hub = AgentHubClient::builder().build();
        let tools = peer.connect(&hub, "p").await;
        let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let asked: Vec<Value> = peer
            .seen_of("tools/list")
            .iter()
            .map(|request| request.json()["params"].clone())
            .collect();
        let expected = [
            json!({}),
            json!({"cursor": ""}),
            json!({"cursor": "p 2/あ"}),
            json!({"cursor": "3"}),
        ];
        assert_eq!(asked, expected);
    });
}

// Covers R-601.
#[test]
fn a_list_without_end_is_ended() {
    run(async || {
        // The same cursor again: cut there, with a warning.
        let peer = listing(vec![json!({"tools": [{"name": "a"}], "nextCursor": "x"})]).await;
        let seen = Seen::default();
        let hub = seen.hub();
        assert_eq!(peer.connect(&hub, "p").await.len(), 1);
        assert_eq!(peer.seen_of("tools/list").len(), 2);
        let warnings = seen.warnings();
        assert!(
            warnings.iter().any(|text| text.contains("cursor")),
            "{warnings:?}"
        );
        // Always another one: ends at a limit.
        let count = Arc::new(AtomicUsize::new(0));
        let peer = Peer::start(move |request| match &*request.what() {
            "tools/list" => {
                let next = count.fetch_add(1, Ordering::Relaxed).to_string();
                let result = json!({"tools": [], "nextCursor": next});
                json_answer(
                    &json!({"jsonrpc": "2.0", "id": request.id(), "result": result}).to_string(),
                )
                .into()
            }
            _ => polite(request),
        })
        .await;
        let mut limits = Limits::default();
        limits.max_tool_pages = 7;
        let hub = AgentHubClient::builder().limits(limits).build();
        let failed = hub.connect_http("p", peer.url()).await.unwrap_err();
        let texts = chain(&failed);
        assert!(
            texts[1].contains("max_tool_pages") && texts[1].contains('7'),
            "{texts:?}"
        );
        assert_eq!(peer.seen_of("tools/list").len(), 7);
        assert_eq!(peer.wait_for("DELETE", 1).await.len(), 1);
    });
}

#[test]
fn too_many_tools_are_a_limit_also_if_they_are_bad_ones() {
    run(async || {
        let named: Vec<String> = (0..11).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
        let million = vec!["7"; 1_000_000].join(",");
        for tools in [
            named.join(","),
            [r#"{"name":"same"}"#; 11].join(","),
            million,
        ] {
            let peer = Peer::start(move |request| match &*request.what() {
                "tools/list" => {
                    let id = request.id();
                    let body =
                        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{tools}]}}}}"#);
                    json_answer(&body).into()
                }
                _ => polite(request),
            })
            .await;
            let mut limits = Limits::default();
            limits.max_tools = 10;
            let seen = Seen::default();
            let hub = seen.builder().limits(limits).build();
            let failed = hub.connect_http("p", peer.url()).await.unwrap_err();
            let texts = chain(&failed);
            assert!(
                texts[1].contains("max_tools") && texts[1].contains("10"),
                "{texts:?}"
            );
            assert!(
                seen.warnings().len() <= 10,
                "{} warnings",
                seen.warnings().len()
            );
        }
    });
}

// Covers R-410.
#[test]
fn a_server_without_tools_is_connected() {
    run(async || {
        for answer in [
            error(&json!(FIRST_LIST), -32601, "Method not found"),
            r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[]}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":3,"result":{"tools":null}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":3,"result":{}}"#.to_owned(),
        ] {
            let shown = answer.clone();
            let peer = Peer::start(move |request| match &*request.what() {
                "tools/list" => json_answer(&answer).into(),
                _ => polite(request),
            })
            .await;
            let hub = AgentHubClient::builder().build();
            let tools = hub.connect_http("p", peer.url()).await;
            assert!(
                tools.as_ref().is_ok_and(Vec::is_empty),
                "{shown}: {tools:?}"
            );
            let unknown = hub.call_tool("echo", ()).await.unwrap_err();
            assert!(matches!(unknown, Error::UnknownTool { .. }));
        }
    });
}

#[test]
fn listing_again_replaces_what_was_known() {
    run(async || {
        let tools = |names: &[&str]| {
            let tools: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"tools": tools})
        };
        let peer = listing(vec![tools(&["a", "b"]), tools(&["b", "c"])]).await;
        let hub = peer.hub().await;
        assert!(hub.find_tool("a").is_some() && hub.find_tool("c").is_none());
        let listed = hub.list_tools().await;
        let names: Vec<&str> = listed[0].1.iter().map(|tool| tool.name()).collect();
        assert_eq!((&*listed[0].0, names), ("p", vec!["b", "c"]));
        assert!(hub.find_tool("a").is_none() && hub.find_tool("c").is_some());
    });
}

#[test]
fn one_server_that_fails_to_list_loses_no_tools_of_another() {
    run(async || {
        let broken = Arc::new(AtomicUsize::new(0));
        let failing = broken.clone();
        let bad = Peer::start(move |request| match &*request.what() {
            "tools/list" if failing.fetch_add(1, Ordering::Relaxed) > 0 => {
                peer::answer("500 Oops", "", "out of order").into()
            }
            _ => polite(request),
        })
        .await;
        let good = Peer::start(|request| match &*request.what() {
            "tools/list" => json_answer(&listed(&request.id(), &["x"])).into(),
            _ => polite(request),
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        bad.connect(&hub, "bad").await;
        good.connect(&hub, "good").await;
        let lists = hub.list_tools().await;
        let counts: Vec<(&str, usize)> = lists
            .iter()
            .map(|(name, tools)| (name.as_str(), tools.len()))
            .collect();
        assert_eq!(counts, [("bad", 2), ("good", 1)]);
        let warnings = seen.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for part in ["bad: ", "500", "out of order"] {
            assert!(warnings[0].contains(part), "{warnings:?}");
        }
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
    });
}

#[test]
fn a_tool_that_becomes_ambiguous_later_is_told_once() {
    run(async || {
        let tools = |names: &[&str]| {
            let tools: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"tools": tools})
        };
        let one = listing(vec![tools(&["a"])]).await;
        let two = listing(vec![tools(&["b"]), tools(&["b", "a"])]).await;
        let seen = Seen::default();
        let hub = seen.hub();
        one.connect(&hub, "one").await;
        two.connect(&hub, "two").await;
        assert_eq!(seen.warnings(), [""; 0]);
        hub.list_tools().await;
        hub.list_tools().await;
        let warnings = seen.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains("one/a") && warnings[0].contains("two/a"),
            "{warnings:?}"
        );
    });
}

#[test]
fn a_list_that_is_not_answered_ends_in_time_and_asks_for_no_more_pages() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "tools/list" if request.id() != FIRST_LIST => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let mut limits = Limits::default();
        limits.list_timeout = Duration::from_secs(2);
        let seen = Seen::default();
        let hub = seen.builder().limits(limits).build();
        peer.connect(&hub, "p").await;
        let lists = hub.list_tools().await;
        assert_eq!(lists[0].1.len(), 2, "it keeps the list it had");
        let warnings = seen.warnings();
        assert!(warnings[0].contains("list_timeout"), "{warnings:?}");
        // Nobody waits for the rest of it.
        let (list, mut wire) = peer.handed().await;
        let result = json!({"tools": [], "nextCursor": "more"});
        let page = json!({"jsonrpc": "2.0", "id": list.id(), "result": result});
        wire.write(json_answer(&page.to_string())).await;
        peer.resume(wire);
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        hub.close().await;
        assert_eq!(peer.seen_of("tools/list").len(), 2);
    });
}

#[test]
fn a_list_that_is_dropped_asks_for_no_more_pages() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "tools/list" if request.id() != FIRST_LIST => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let mut listing = Box::pin(hub.list_tools());
        let (list, mut wire) = tokio::select! {
            biased;
            lists = &mut listing => panic!("{lists:?}"),
            handed = peer.handed() => handed,
        };
        drop(listing);
        let result = json!({"tools": [], "nextCursor": "more"});
        let page = json!({"jsonrpc": "2.0", "id": list.id(), "result": result});
        wire.write(json_answer(&page.to_string())).await;
        peer.resume(wire);
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        hub.close().await;
        assert_eq!(peer.seen_of("tools/list").len(), 2);
        assert_eq!(peer.seen_of("DELETE").len(), 1);
    });
}

// Covers R-608.
#[test]
fn what_a_schema_refers_to_is_never_fetched() {
    run(async || {
        // It refers to the server that describes it, which would notice.
        let peer = Peer::start(|request| match &*request.what() {
            "tools/list" => {
                let url = format!("http://{}/schema", request.header("host").unwrap());
                let schema = json!({
                    "$schema": url, "$id": url, "$ref": url, "type": "object",
                    "properties": {"a": {"$ref": format!("{url}#/$defs/a")}, "b": {"$dynamicRef": url}},
                });
                let tool = json!({"name": "t", "inputSchema": schema, "outputSchema": schema});
                let result = json!({"tools": [tool]});
                let body = json!({"jsonrpc": "2.0", "id": request.id(), "result": result});
                json_answer(&body.to_string()).into()
            }
            "tools/call" => {
                let result = json!({"content": [], "structuredContent": {"a": 1}});
                let body = json!({"jsonrpc": "2.0", "id": request.id(), "result": result});
                json_answer(&body.to_string()).into()
            }
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let answer = hub.call_tool("t", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(answer, json!({"a": 1}));
        hub.list_tools().await;
        hub.close().await;
        for request in peer.seen() {
            assert!(request.line.contains(" /mcp "), "{}", request.line);
        }
    });
}

// Covers R-610.
#[test]
fn a_tool_that_wants_to_be_a_task_is_listed_and_called_as_any_other() {
    run(async || {
        let supports = ["required", "optional", "forbidden", "some new word"];
        let tools: Vec<Value> = supports
            .iter()
            .map(|support| json!({"name": support, "execution": {"taskSupport": support}}))
            .collect();
        let tools = json!({"tools": tools});
        let peer = Peer::start(move |request| {
            let id = request.id();
            let call = request.json();
            match (&*request.what(), call["params"]["name"].as_str()) {
                ("tools/list", _) => {
                    let body = json!({"jsonrpc": "2.0", "id": id, "result": tools});
                    json_answer(&body.to_string()).into()
                }
                ("tools/call", Some("required")) => {
                    json_answer(&error(&id, -32601, "only as a task")).into()
                }
                _ => polite(request),
            }
        })
        .await;
        let hub = peer.hub().await;
        for name in supports {
            match hub.call_tool(name, ()).await {
                Ok(answer) => assert!(answer == "done" && name != "required", "{name}"),
                Err(refused) => {
                    assert!(name == "required", "{name}: {refused}");
                    assert!(refused.to_string().contains("only as a task"), "{refused}");
                }
            }
        }
        let calls = peer.seen_of("tools/call");
        assert_eq!(calls.len(), supports.len());
        for call in calls {
            assert!(call.json()["params"].get("task").is_none(), "{}", call.body);
        }
    });
}
