//! What errors say, and what nothing may say.

use std::error::Error as _;

use agent_hub_kit::{AgentHubClient, Error, HubEvent, StreamEvent};
use serde_json::json;

use crate::connect::chain;
use crate::peer::{
    self, Answer, Peer, Request, answer, error, initialized, json as json_answer, polite,
    with_session,
};
use crate::{Seen, read, run};

#[test]
fn each_error_of_a_call_names_server_and_tool_and_tells_each_text_once() {
    run(async || {
        type Script = fn(&Request) -> Answer;
        let scripts: [(&str, Script); 8] = [
            ("an error", |request| {
                json_answer(&error(&request.id(), -1, "no")).into()
            }),
            ("a refusal", |_| answer("500 Oops", "", "why").into()),
            ("a refusal without words", |_| {
                peer::empty("500 Oops").into()
            }),
            ("an early end", |_| peer::sse(&[]).into()),
            ("a cut reply", |_| {
                Answer::Last(format!("{}5\r\nda", peer::SSE_HEAD).into())
            }),
            ("no reply", |_| Answer::Last(Vec::new())),
            ("nonsense", |_| Answer::Last(b"SMTP ready\r\n".to_vec())),
            ("a failing tool", |request| {
                let body =
                    json!({"jsonrpc": "2.0", "id": request.id(), "result": {"isError": true}});
                json_answer(&body.to_string()).into()
            }),
        ];
        for (case, script) in scripts {
            let peer = Peer::calls(script).await;
            let hub = peer.hub().await;
            let failed = hub.call_tool("echo", ()).await.unwrap_err();
            let texts = chain(&failed);
            assert!(texts[0].starts_with("p/echo: "), "{case}: {texts:?}");
            assert_eq!(
                (failed.server(), failed.tool()),
                (Some("p"), Some("echo")),
                "{case}"
            );
            let events = read(&mut hub.call_tool_stream("echo", ())).await;
            let text = events[0].text().unwrap_or_default();
            if !failed.is_tool() {
                assert_eq!(text, texts.join(": "), "{case}: the event tells all");
            }
        }
        let peer = Peer::polite().await;
        let hub = peer.hub().await;
        peer.stop().await;
        let refused = hub.call_tool("echo", ()).await.unwrap_err();
        let texts = chain(&refused);
        assert!(
            texts[0].starts_with("p/echo: could not connect to 127.0.0.1:"),
            "{texts:?}"
        );
        assert!(texts[1].contains("refused"), "{texts:?}");
        assert!(refused.is_retryable());
    });
}

const HEADER: &str = "h3ader-s3cret";
const BEARER: &str = "b3arer-s3cret";
const SESSION: &str = "s3ssion-s3cret";
const QUERY: &str = "qu3ry-s3cret";

/// Everything that can be printed of an error.
fn printed(error: &Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(" {error} {error:?}");
        cause = error.source();
    }
    text
}

fn printed_event(event: &StreamEvent) -> String {
    let error = event.error().map(printed).unwrap_or_default();
    let json = serde_json::to_string(event).unwrap();
    format!("{event:?} {json} {error}")
}

fn assert_no_secret(case: &str, text: &str) {
    for secret in [HEADER, BEARER, SESSION, QUERY] {
        assert!(!text.contains(secret), "{case}: {secret} in {text}");
    }
}

// Covers R-1304, R-1704.
#[test]
fn no_secret_is_ever_shown() {
    run(async || {
        // Some servers quote what they were sent.
        let echo = |request: &Request| {
            let headers = ["authorization", "x-key", "mcp-session-id"];
            let quoted: Vec<&str> = headers
                .iter()
                .filter_map(|name| request.header(name))
                .collect();
            format!("{} {}", request.line, quoted.join(" "))
        };
        type Script = Box<dyn Fn(&Request) -> Answer + Send + Sync>;
        let scripts: Vec<(&str, Script)> = vec![
            ("a result", Box::new(polite)),
            (
                "a refusal",
                Box::new(move |r| answer("500 Oops", "", &echo(r)).into()),
            ),
            (
                "a lost session",
                Box::new(move |r| {
                    answer("404 Not Found", "", &format!("no session {}", echo(r))).into()
                }),
            ),
            (
                "unauthorized",
                Box::new(move |r| {
                    answer(
                        "401 Unauthorized",
                        &format!("WWW-Authenticate: Bearer x=\"{}\"\r\n", echo(r)),
                        "",
                    )
                    .into()
                }),
            ),
            (
                "an error",
                Box::new(move |r| {
                    let data = json!({"sent": [echo(r)]});
                    let body = json!({"jsonrpc": "2.0", "id": r.id(), "error": {"code": -1, "message": echo(r), "data": data}});
                    json_answer(&body.to_string()).into()
                }),
            ),
            (
                "an error in a refusal",
                Box::new(move |r| {
                    let body = error(&r.id(), -1, &echo(r));
                    answer(
                        "400 Bad Request",
                        "Content-Type: application/json\r\n",
                        &body,
                    )
                    .into()
                }),
            ),
            (
                "a redirect",
                Box::new(move |r| {
                    let location = format!(
                        "Location: http://user:{BEARER}@elsewhere/{}?k={QUERY}\r\n",
                        r.header("mcp-session-id").unwrap_or_default()
                    );
                    answer("302 Found", &location.replace(SESSION, "x"), "").into()
                }),
            ),
            ("no reply", Box::new(|_| Answer::Last(Vec::new()))),
            (
                "no message",
                Box::new(move |r| peer::sse(&[format!("\"{}\"", echo(r))]).into()),
            ),
        ];
        for (case, script) in scripts {
            let peer = Peer::start(move |request| match &*request.what() {
                "initialize" => with_session(SESSION, &initialized(request)).into(),
                "tools/call" => script(request),
                _ => polite(request),
            })
            .await;
            let seen = Seen::default();
            let builder = seen.builder();
            assert_no_secret(case, &format!("{builder:?}"));
            let hub = builder.build();
            let connect = hub
                .connect_http("p", format!("{}?key={QUERY}", peer.url()))
                .header("X-Key", HEADER)
                .bearer_token(BEARER);
            assert_no_secret(case, &format!("{connect:?} {connect:#?}"));
            connect.await.unwrap();
            let call = hub.call_tool("echo", ());
            assert_no_secret(case, &format!("{call:?}"));
            if let Err(failed) = call.await {
                assert_no_secret(case, &printed(&failed));
            }
            let mut stream = hub.call_tool_stream("stream", ());
            let mut events = Vec::new();
            while let Some(event) = stream.next().await {
                assert_no_secret(case, &format!("{stream:?} {hub:?}"));
                events.push(event);
            }
            hub.list_tools().await;
            hub.close().await;
            for event in &events {
                assert_no_secret(case, &printed_event(event));
            }
            for event in seen.all() {
                assert_no_secret(case, &format!("{event:?}"));
                if let HubEvent::Call { event, .. } = &event {
                    assert_no_secret(case, &printed_event(event));
                }
            }
            let sent = &peer.seen_of("tools/call")[0];
            assert_eq!(sent.header("x-key"), Some(HEADER), "the secrets were sent");
            assert_eq!(sent.header("mcp-session-id"), Some(SESSION));
        }
    });
}

#[test]
fn no_secret_is_shown_when_connecting_fails() {
    run(async || {
        let answers: [fn(&Request) -> Answer; 4] = [
            |request| {
                answer(
                    "401 Unauthorized",
                    "",
                    request.header("authorization").unwrap(),
                )
                .into()
            },
            |request| answer("500 Oops", "", request.header("x-key").unwrap()).into(),
            |request| {
                json_answer(&error(&request.id(), -1, request.header("x-key").unwrap())).into()
            },
            |_| Answer::Last(Vec::new()),
        ];
        for script in answers {
            let peer = Peer::start(script).await;
            let hub = AgentHubClient::builder().build();
            let failed = hub
                .connect_http("p", format!("{}?key={QUERY}", peer.url()))
                .header("X-Key", HEADER)
                .bearer_token(BEARER)
                .await
                .unwrap_err();
            assert_no_secret("connecting", &printed(&failed));
            peer.stop().await;
        }
    });
}

// Covers R-1707.
#[test]
fn a_long_or_dirty_text_of_the_server_is_cut_and_cleaned() {
    run(async || {
        let giant = format!("\u{1b}[2J\r\nline\t{}", "x".repeat(5_000_000));
        let message = giant.clone();
        let peer = Peer::calls(
            move |request| match request.json()["params"]["name"].as_str() {
                Some("stream") => json_answer(&error(&request.id(), -1, &message)).into(),
                _ => answer("500 Oops", "", &message).into(),
            },
        )
        .await;
        let hub = peer.hub().await;
        for tool in ["stream", "echo"] {
            let failed = hub.call_tool(tool, ()).await.unwrap_err();
            let text = failed.to_string();
            assert!(text.len() < 20_000, "{tool}: {} bytes", text.len());
            assert!(text.contains("line"), "{tool}");
            let dirty: Vec<char> = text.chars().filter(|c| c.is_control()).collect();
            assert!(dirty.is_empty(), "{tool}: {dirty:?}");
        }
        // Of a tool's name, in a warning.
        let named = giant.clone();
        let peer = Peer::start(move |request| match &*request.what() {
            "tools/list" => json_answer(&peer::listed(&request.id(), &[&named, &named])).into(),
            _ => polite(request),
        })
        .await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        let warnings = seen.warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].len() < 2_000 && !warnings[0].contains('\u{1b}'));
        // A name that is no name, in an error.
        let unknown = hub.call_tool("nope", ()).await.unwrap_err().to_string();
        assert!(unknown.len() < 5_000, "{} bytes", unknown.len());
    });
}
