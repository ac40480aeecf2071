//! What a server may write, and what it means to a call.

use agent_hub_kit::{Error, EventKind, StreamEvent};
use serde_json::{Value, json};

use crate::connect::chain;
use crate::peer::{
    self, Answer, Peer, Request, SSE_HEAD, answer, chunk, envelope, event, json as json_answer,
    progress, raw_sse, result, sse,
};
use crate::{Seen, read, run, shown};

/// Makes one call that is answered by `call` and reads all of it.
async fn called(call: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Vec<StreamEvent> {
    let peer = Peer::calls(call).await;
    let hub = peer.hub().await;
    let events = read(&mut hub.call_tool_stream("stream", ())).await;
    hub.close().await;
    events
}

/// The same, answered with a JSON body; `$id` in it stands for the request's id.
async fn answered(body: &str) -> Vec<StreamEvent> {
    let body = body.to_owned();
    called(move |request| json_answer(&body.replace("$id", &request.id().to_string())).into()).await
}

// Covers R-102, R-806.
#[test]
fn a_notification_is_known_by_its_members_whatever_their_order() {
    run(async || {
        let spellings = [
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$id,"progress":1,"message":"a"}}"#,
            r#"{"params":{"message":"a","progress":1,"progressToken":$id},"jsonrpc":"2.0","method":"notifications/progress"}"#,
            r#"{"x":[{"id":7}],"params":{"_meta":{},"progress":1.0,"total":null,"y":{},"progressToken":$id,"message":"a"},"method":"notifications/progress","jsonrpc":"2.0","z":null}"#,
            r#"  { "jsonrpc" : "2.0" , "method" : "notifications\/progress" , "params" : { "progressToken" : "$id" , "progress" : 1 , "message" : "\u0061" } }  "#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$id.0,"progress":1,"message":"a"}}"#,
        ];
        for spelling in spellings {
            let events = called(move |request| {
                let id = request.id();
                sse(&[spelling.replace("$id", &id.to_string()), result(&id, "end")]).into()
            })
            .await;
            assert_eq!(
                shown(&events),
                ["text \"a\"", "result \"end\""],
                "{spelling}"
            );
        }
    });
}

// Covers R-1317, R-1501, R-1502, R-1504.
#[test]
fn every_legal_spelling_of_an_sse_stream_is_read() {
    run(async || {
        type Spell = fn(&[String; 2]) -> String;
        let spellings: [(&str, Spell); 10] = [
            ("LF", |m| format!("data: {}\n\ndata: {}\n\n", m[0], m[1])),
            ("CRLF", |m| {
                format!("data: {}\r\n\r\ndata: {}\r\n\r\n", m[0], m[1])
            }),
            ("CR", |m| format!("data: {}\r\rdata: {}\r\r", m[0], m[1])),
            ("no space", |m| {
                format!("data:{}\n\ndata:{}\n\n", m[0], m[1])
            }),
            ("event after data", |m| {
                format!("data: {}\nevent: message\n\ndata: {}\n\n", m[0], m[1])
            }),
            ("ids and retry", |m| {
                format!(
                    "id: 1\nretry: 3000\ndata: {}\n\nid: 2\ndata: {}\n\n",
                    m[0], m[1]
                )
            }),
            ("priming", |m| {
                format!(
                    "id: 0\nretry: 3000\ndata:\n\nid: 0\ndata: \n\ndata: {}\n\ndata: {}\n\n",
                    m[0], m[1]
                )
            }),
            ("comments and unknown fields", |m| {
                format!(
                    ": hi\n\n:\nx: y\ndata: {}\n\n:\n\n:\n\ndata: {}\n\n",
                    m[0], m[1]
                )
            }),
            ("a byte order mark", |m| {
                format!("\u{feff}data: {}\n\ndata: {}\n\n", m[0], m[1])
            }),
            ("other events between", |m| {
                format!(
                    "event: ping\ndata: {{}}\n\ndata: {}\n\nevent: endpoint\ndata: /x\n\ndata: {}\n\n",
                    m[0], m[1]
                )
            }),
        ];
        for (case, spell) in spellings {
            let events = called(move |request| {
                let id = request.id();
                let first = progress(&request.token(), 1, &envelope("text", "a"));
                raw_sse(&spell(&[first, result(&id, "end")])).into()
            })
            .await;
            assert_eq!(shown(&events), ["text \"a\"", "result \"end\""], "{case}");
        }
    });
}

// Covers R-1503.
#[test]
fn a_message_may_be_spread_over_many_data_lines() {
    run(async || {
        let events = called(|request| {
            let message: Value = serde_json::from_str(&result(&request.id(), "a\nb")).unwrap();
            let pretty = serde_json::to_string_pretty(&message).unwrap();
            let lines: String = pretty
                .lines()
                .map(|line| format!("data: {line}\n"))
                .collect();
            raw_sse(&format!("{lines}\n")).into()
        })
        .await;
        assert_eq!(shown(&events), ["result \"a\\nb\""]);
    });
}

#[test]
fn large_messages_pass_with_the_defaults() {
    run(async || {
        let (two, eight) = ("t".repeat(2 << 20), "e".repeat(8 << 20));
        let (event_text, end_text) = (two.clone(), eight.clone());
        let events = called(move |request| {
            let first = progress(&request.token(), 1, &envelope("text", &event_text));
            sse(&[first, result(&request.id(), &end_text)]).into()
        })
        .await;
        assert!(events[0].text() == Some(&two) && events[1].text() == Some(&eight));
    });
}

// Covers R-201, R-1211.
#[test]
fn a_reply_that_ends_before_its_response_keeps_its_events_and_fails() {
    run(async || {
        type Reply = fn(&Value) -> Answer;
        let replies: [(&str, Reply, usize); 6] = [
            ("at once", |_| sse(&[]).into(), 0),
            (
                "after an event",
                |token| sse(&[progress(token, 1, "a")]).into(),
                1,
            ),
            (
                "after two",
                |token| sse(&[progress(token, 1, "a"), progress(token, 2, "a")]).into(),
                2,
            ),
            (
                "without the last chunk",
                |token| {
                    Answer::Last(
                        format!("{SSE_HEAD}{}", chunk(&event(&progress(token, 1, "a")))).into(),
                    )
                },
                1,
            ),
            (
                "within an event",
                |token| {
                    Answer::Last(
                        format!(
                            "{SSE_HEAD}{}",
                            chunk(&event(&progress(token, 1, "a"))[..20])
                        )
                        .into(),
                    )
                },
                0,
            ),
            ("an empty JSON body", |_| json_answer("").into(), 0),
        ];
        for (case, reply, count) in replies {
            let events = called(move |request| reply(&request.token())).await;
            assert_eq!(events.len(), count + 1, "{case}: {events:?}");
            let error = events[count].error().unwrap();
            assert!(
                matches!(error, Error::Transport { .. }),
                "{case}: {error:?}"
            );
            let texts = chain(error);
            assert!(texts[0].starts_with("p/stream: "), "{case}: {texts:?}");
            for event in &events[..count] {
                assert_eq!(event.text(), Some("a"), "{case}");
            }
        }
    });
}

// Covers R-1211.
#[test]
fn a_reply_that_ended_early_is_told_to_the_server_and_the_call_never_repeated() {
    run(async || {
        let peer = Peer::calls(|request| {
            let message = progress(&request.token(), 1, "a");
            raw_sse(&event(&message)).into()
        })
        .await;
        let hub = peer.hub().await;
        let events = read(&mut hub.call_tool_stream("stream", ())).await;
        assert_eq!(events.len(), 2);
        hub.close().await;
        // The tool may run on: an end of the reply is no end of the call.
        assert_eq!(peer.seen_of("notifications/cancelled").len(), 1);
        assert_eq!(peer.seen_of("tools/call").len(), 1);
        assert!(
            peer.seen()
                .iter()
                .all(|request| !request.line.starts_with("GET"))
        );
    });
}

// Covers R-1508.
#[test]
fn many_comments_and_empty_events_are_passed_over() {
    run(async || {
        let events = called(|request| {
            let noise = ":\n".repeat(300_000) + &"event: x\n\n".repeat(300_000);
            let messages = event(&result(&request.id(), "end"));
            format!(
                "{SSE_HEAD}{}{}{}",
                chunk(&noise),
                chunk(&messages),
                peer::END
            )
            .into()
        })
        .await;
        assert_eq!(shown(&events), ["result \"end\""]);
    });
}

// Covers R-106.
#[test]
fn an_answer_is_matched_by_its_number_however_it_is_spelled() {
    run(async || {
        let table = [
            ("$id", true),
            ("\"$id\"", true),
            ("$id.0", true),
            ("1", false),
            ("99", false),
            ("\"x\"", false),
            ("null", false),
            ("true", false),
            ("[$id]", false),
            ("{}", false),
        ];
        for (id, matches) in table {
            let body =
                r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"x"}]}}"#;
            let events = answered(&body.replace("ID", id)).await;
            let kind = match matches {
                true => EventKind::Result,
                false => EventKind::TerminalError,
            };
            assert_eq!(events[0].kind, kind, "{id}: {events:?}");
        }
    });
}

// Covers R-109, R-110, R-204.
#[test]
fn an_error_whose_id_was_made_up_belongs_to_the_request_it_answers() {
    run(async || {
        for id in [
            "\"id\":\"server-error\",",
            "\"id\":null,",
            "",
            "\"id\":$id,",
            "\"id\":\"$id\",",
        ] {
            for status in ["400 Bad Request", "200 OK", "404 Not Found"] {
                let peer = Peer::start(move |request| match &*request.what() {
                    "initialize" => json_answer(&peer::initialized(request)).into(),
                    "tools/call" => {
                        let id = id.replace("$id", &request.id().to_string());
                        let body = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32602,"message":"unknown tool","data":{{"hint":["a"]}}}}}}"#);
                        answer(status, "Content-Type: application/json\r\n", &body).into()
                    }
                    _ => peer::polite(request),
                })
                .await;
                let hub = peer.hub().await;
                let events = read(&mut hub.call_tool_stream("stream", ())).await;
                let Some(Error::Rpc {
                    code,
                    message,
                    data,
                    ..
                }) = events[0].error()
                else {
                    panic!("{id} at {status}: {events:?}")
                };
                assert_eq!(
                    (*code, &**message),
                    (-32602, "unknown tool"),
                    "{id} at {status}"
                );
                assert_eq!(
                    data.as_deref(),
                    Some(&json!({"hint": ["a"]})),
                    "{id} at {status}"
                );
                assert_eq!(
                    events[0].text().unwrap(),
                    "p/stream: the server answered error -32602: unknown tool"
                );
            }
        }
    });
}

// Covers R-111, R-706, R-709.
#[test]
fn every_shape_of_a_result_is_a_result_with_both_parts() {
    run(async || {
        // result, content of the event
        let table = [
            (json!({"structuredContent": {"a": 1}}), json!({"a": 1})),
            (json!({"content": []}), json!(null)),
            (json!({"content": null, "structuredContent": {}}), json!({})),
            (
                json!({"content": [{"type": "text", "text": "t"}], "structuredContent": {"a": 1}}),
                json!({"a": 1}),
            ),
            (json!({}), json!(null)),
            (json!({"_meta": {}}), json!(null)),
            (json!({"structuredContent": [1]}), json!([1])),
            (json!({"structuredContent": null}), json!(null)),
            (
                json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
                json!("a\nb"),
            ),
            (
                json!({"content": [{"type": "text", "text": "a"}, {"type": "new", "x": 1}]}),
                json!([{"type": "text", "text": "a"}, {"type": "new", "x": 1}]),
            ),
            (
                json!({"content": [{"type": "text", "text": "a"}], "isError": false}),
                json!("a"),
            ),
            (
                json!({"structuredContent": {"result": 7}}),
                json!({"result": 7}),
            ),
        ];
        for (sent, content) in table {
            let body = json!({"jsonrpc": "2.0", "id": 0, "result": sent}).to_string();
            let events = answered(&body.replace("\"id\":0", "\"id\":$id")).await;
            assert_eq!(events.len(), 1);
            assert_eq!(events[0].kind, EventKind::Result, "{sent}");
            assert_eq!(events[0].content.value(), content, "{sent}");
            assert_eq!(events[0].tool_result().unwrap().value(), sent);
            assert_eq!(
                serde_json::from_str::<Value>(&events[0].raw().unwrap()).unwrap(),
                sent
            );
            assert!(events[0].error().is_none() && events[0].progress().is_none());
        }
    });
}

// Covers R-101.
#[test]
fn a_malformed_answer_ends_its_call_at_once_and_no_other() {
    run(async || {
        // the members beside `jsonrpc`, what becomes of the call
        let table = [
            (
                r#""id":$id,"result":{},"error":{"code":1,"message":"m"}"#,
                "both",
            ),
            (r#""id":$id"#, "neither"),
            (r#""id":$id,"result":null"#, "not an object"),
            (r#""id":$id,"result":"text""#, "not an object"),
            (r#""id":$id,"result":[1]"#, "not an object"),
            (r#""id":$id,"error":"boom""#, "`error`"),
            (r#""id":$id,"error":{"message":"no code"}"#, "code"),
            (r#""id":$id,"error":null"#, "neither"),
        ];
        for (members, says) in table {
            let peer = Peer::calls(move |request| {
                let members = members.replace("$id", &request.id().to_string());
                match request.json()["params"]["name"].as_str() {
                    Some("stream") => {
                        json_answer(&format!("{{\"jsonrpc\":\"2.0\",{members}}}")).into()
                    }
                    _ => peer::polite(request),
                }
            })
            .await;
            let hub = peer.hub().await;
            let events = read(&mut hub.call_tool_stream("stream", ())).await;
            let error = events[0].error().unwrap();
            assert!(
                matches!(error, Error::Protocol { .. }),
                "{members}: {error:?}"
            );
            let text = error.to_string();
            assert!(
                text.starts_with("p/stream: ") && text.contains(says),
                "{members}: {text}"
            );
            assert_eq!(
                hub.call_tool("echo", ()).await.unwrap(),
                "done",
                "{members}"
            );
        }
        let tolerated = r#"{"jsonrpc":"2.0","id":$id,"error":null,"result":{"content":[]}}"#;
        assert_eq!(shown(&answered(tolerated).await), ["result null"]);
    });
}

// Covers R-204, R-1705.
#[test]
fn a_refusal_says_status_and_words() {
    run(async || {
        let long = format!("<html>{}</html>", "x".repeat(100_000));
        let table = [
            (
                "500 Oops",
                "Content-Type: text/html\r\n",
                "<h1>Internal\r\n\tServer Error</h1>",
                "HTTP 500: <h1>Internal   Server Error</h1>",
            ),
            ("202 Accepted", "", "", "HTTP 202"),
            (
                "200 OK",
                "Content-Type: text/html\r\n",
                "<html>hi</html>",
                "HTTP 200: <html>hi</html>",
            ),
            ("502 Bad Gateway", "", "", "HTTP 502"),
            ("503 Busy", "Retry-After: 5\r\n", "busy", "HTTP 503: busy"),
            (
                "401 Unauthorized",
                "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n",
                "",
                "HTTP 401: WWW-Authenticate: Bearer error=\"invalid_token\"",
            ),
            (
                "403 Forbidden",
                "Content-Type: application/json\r\n",
                "{\"detail\":\"no\"}",
                "HTTP 403: {\"detail\":\"no\"}",
            ),
            (
                "413 Too Large",
                "Content-Type: text/html\r\n",
                &long,
                "HTTP 413: <html>xxx",
            ),
            (
                "200 OK",
                "Content-Type: application/json\r\n",
                "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"busy\"}}",
                "error -32603: busy",
            ),
            (
                "429 Slow Down",
                "Content-Type: application/json\r\n",
                "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"quota\"}}",
                "error -1: quota",
            ),
        ];
        for (status, headers, body, says) in table {
            let response = answer(status, headers, body);
            let events = called(move |_| response.clone().into()).await;
            let texts = chain(events[0].error().unwrap());
            assert!(texts[0].starts_with("p/stream: "), "{texts:?}");
            assert!(texts[0].contains(says), "{status}: {texts:?}");
            assert!(texts[0].len() < 500, "{status}: {} bytes", texts[0].len());
        }
    });
}

#[test]
fn a_tool_that_fails_says_so_even_without_a_word() {
    run(async || {
        let table = [
            (
                json!({"isError": true, "content": []}),
                "the tool failed without a message",
            ),
            (
                json!({"isError": true}),
                "the tool failed without a message",
            ),
            (
                json!({"isError": true, "content": [{"type": "text", "text": " \n"}]}),
                "the tool failed without a message",
            ),
            (
                json!({"isError": true, "content": [{"type": "text", "text": "bad date"}]}),
                "bad date",
            ),
        ];
        for (sent, says) in table {
            let body = json!({"jsonrpc": "2.0", "id": 0, "result": sent}).to_string();
            let body = body.replace("\"id\":0", "\"id\":$id");
            let events = answered(&body).await;
            assert_eq!(events[0].kind, EventKind::TerminalError, "{sent}");
            assert_eq!(events[0].text(), Some(says), "{sent}");
            assert_eq!(events[0].tool_result().unwrap().value(), sent);
            let error = events[0].error().unwrap();
            assert!(error.is_tool());
            assert_eq!(
                error.to_string(),
                format!("p/stream: the tool failed: {says}")
            );
        }
        let structured = json!({"isError": true, "structuredContent": {"why": 1}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "result": structured}).to_string();
        let events = answered(&body.replace("\"id\":0", "\"id\":$id")).await;
        assert_eq!(events[0].content.value(), json!({"why": 1}));
    });
}

#[test]
fn a_failing_tool_is_an_error_of_call_tool() {
    run(async || {
        let peer = Peer::calls(|request| {
            let body = json!({"jsonrpc": "2.0", "id": request.id(), "result": {"isError": true, "content": [{"type": "text", "text": "no"}]}});
            json_answer(&body.to_string()).into()
        })
        .await;
        let error = peer.hub().await.call_tool("echo", ()).await.unwrap_err();
        let Error::Tool { content, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(**content, json!("no"));
        assert_eq!((error.server(), error.tool()), (Some("p"), Some("echo")));
    });
}

// Covers R-113, R-1101, R-1104, R-1506.
#[test]
fn what_is_not_for_the_call_is_passed_over_and_requests_are_answered() {
    run(async || {
        let peer = Peer::calls(|_| Answer::Hand).await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        let mut stream = hub.call_tool_stream("stream", ());
        let (request, mut wire) = tokio::select! {
            biased;
            event = stream.next() => panic!("{event:?}"),
            handed = peer.handed() => handed,
        };
        wire.write(SSE_HEAD).await;
        let passed_over = [
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/unheard/of"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":12345,"progress":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":null,"progress":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#,
            r#"{"jsonrpc":"2.0","id":12345,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"late"}}"#,
            "this is not JSON",
            "[]",
            "[7]",
            "{}",
            "7",
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":"ask","method":"sampling/createMessage","params":{"messages":[]}}"#,
            r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
        ];
        for message in passed_over {
            wire.send(event(message)).await;
        }
        // An id of the server's may be one of ours.
        let own = json!({"jsonrpc": "2.0", "id": request.id(), "method": "ping"}).to_string();
        wire.send(event(&own)).await;
        let message = progress(&request.token(), 1, &envelope("text", "a"));
        wire.send(event(&message)).await;
        assert_eq!(stream.next().await.unwrap().text(), Some("a"));
        let answers = peer.wait_for("response", 4).await;
        let mut bodies: Vec<String> = answers
            .iter()
            .map(|answer| answer.json().to_string())
            .collect();
        let mut expected = vec![
            json!({"jsonrpc": "2.0", "id": 7, "result": {}}).to_string(),
            json!({"jsonrpc": "2.0", "id": request.id(), "result": {}}).to_string(),
            json!({"jsonrpc": "2.0", "id": "ask", "error": {"code": -32601, "message": "method not found"}}).to_string(),
            json!({"jsonrpc": "2.0", "id": 9, "error": {"code": -32601, "message": "method not found"}}).to_string(),
        ];
        bodies.sort();
        expected.sort();
        assert_eq!(bodies, expected);
        for answer in answers {
            assert_eq!(answer.header("mcp-session-id"), Some("s-1"));
            assert_eq!(answer.header("mcp-protocol-version"), Some("2025-11-25"));
        }
        wire.send(event(&result(&request.id(), "end"))).await;
        assert_eq!(shown(&read(&mut stream).await), ["result \"end\""]);
        let warnings = seen.warnings();
        assert_eq!(
            warnings.len(),
            5,
            "one for each that is no message: {warnings:?}"
        );
        assert!(
            warnings
                .iter()
                .all(|warning| warning.starts_with("p: skipped a message: "))
        );
        let changed =
            |event: &agent_hub_kit::HubEvent| format!("{event:?}").contains("ToolsChanged");
        assert_eq!(seen.all().iter().filter(|event| changed(event)).count(), 1);
    });
}

// Covers R-117.
#[test]
fn a_batch_is_taken_apart() {
    run(async || {
        let events = called(|request| {
            let id = request.id();
            let batch = format!(
                "[{},7,{},{}]",
                progress(&request.token(), 1, &envelope("text", "a")),
                progress(&request.token(), 2, &envelope("text", "b")),
                result(&id, "end")
            );
            json_answer(&batch).into()
        })
        .await;
        assert_eq!(
            shown(&events),
            ["text \"a\"", "text \"b\"", "result \"end\""]
        );
    });
}

// Covers R-1207.
#[test]
fn a_media_type_is_read_without_its_parameters_and_guessed_if_it_is_missing() {
    run(async || {
        for headers in [
            "Content-Type: application/json; charset=utf-8\r\n",
            "Content-Type: Application/JSON\r\n",
            "content-type:application/json\r\n",
            "",
        ] {
            let events = called(move |request| {
                answer(
                    "200 OK",
                    headers,
                    &format!("\n {}", result(&request.id(), "end")),
                )
                .into()
            })
            .await;
            assert_eq!(shown(&events), ["result \"end\""], "{headers:?}");
        }
    });
}

#[test]
fn any_text_of_a_server_is_read_and_half_of_a_pair_is_mended() {
    let cjk = "漢字かな".repeat((1 << 20) / 12);
    // As JSON, and what it means.
    let table = [
        (r"\ud83d\ude00".to_owned(), "😀"),
        ("😀".to_owned(), "😀"),
        (r"\u0000".to_owned(), "\0"),
        (r"\u2028".to_owned(), "\u{2028}"),
        ("\u{2028}e\u{301}".to_owned(), "\u{2028}e\u{301}"),
        (cjk.clone(), &cjk),
        (r"\ud83d".to_owned(), "\u{fffd}"),
        (r"a\ude00b".to_owned(), "a\u{fffd}b"),
    ];
    run(async || {
        for (sent, expected) in &table {
            let sent = sent.clone();
            let events = called(move |request| {
                let (id, token) = (request.id(), request.token());
                // Once bare, once in an envelope, and once as the result.
                let quoted = Value::from(format!(r#"{{"v":1,"type":"text","content":"{sent}"}}"#));
                let progress = |n: u64, message: &str| {
                    format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{n},"message":{message}}}}}"#
                    )
                };
                let end = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{sent}"}}]}}}}"#
                );
                sse(&[
                    progress(1, &format!("\"{sent}\"")),
                    progress(2, &quoted.to_string()),
                    end,
                ])
                .into()
            })
            .await;
            assert_eq!(events.len(), 3, "{expected:.20}");
            for event in &events {
                assert!(event.text() == Some(expected), "{expected:.20}: {event:?}");
            }
            assert_eq!(events[2].kind, EventKind::Result);
        }
    });
}
