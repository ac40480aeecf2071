//! One hub with servers of both eras over both links at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_hub_kit::{EventKind, McpServer, OnError, RawArgs, StdioCommand, Tool, ToolContext};
use futures_util::future::join_all;

use crate::peer::{
    self, Answer, Peer, SSE_HEAD, envelope, event, listed, polite, progress, result,
};
use crate::{child, hub, process, raw, read, run, run_once, said, shown};

/// Counts the calls that run.
struct Run(Arc<AtomicUsize>);

impl Drop for Run {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Our server, with a tool that streams and one that waits until it is given up.
fn server(running: Arc<AtomicUsize>) -> McpServer {
    McpServer::builder("ours", "1")
        .tool(Tool::new("count"), async |_: RawArgs, ctx: ToolContext| {
            for nth in 1..=3 {
                ctx.streamer("n").text(format!("{nth} x")).await?;
            }
            Ok("counted")
        })
        .tool(Tool::new("hold"), move |_: RawArgs, ctx: ToolContext| {
            let running = running.clone();
            async move {
                running.fetch_add(1, Ordering::SeqCst);
                let _run = Run(running);
                ctx.streamer("n").text("held").await?;
                std::future::pending::<()>().await;
                Ok("never")
            }
        })
        .build()
}

/// The same of the handshake era, by hand.
async fn old_peer() -> Peer {
    Peer::start(|request| {
        let (id, token) = (request.id(), request.token());
        let said = |nth: u64, text: &str| progress(&token, nth, &envelope("text", text));
        match (&*request.what(), request.json()["params"]["name"].as_str()) {
            ("tools/list", _) => peer::json(&listed(&id, &["count", "hold"])).into(),
            ("tools/call", Some("hold")) => {
                let held = peer::chunk(&event(&said(1, "held")));
                Answer::Write(format!("{SSE_HEAD}{held}").into_bytes())
            }
            ("tools/call", _) => {
                let texts = (1..=3).map(|nth| said(nth, &format!("{nth} x")));
                let end = result(&id, "counted");
                peer::sse(&texts.chain([end]).collect::<Vec<_>>()).into()
            }
            _ => polite(request),
        }
    })
    .await
}

const OLD_CHILD: &str = r#"
    tools() { answer '{"tools":[{"name":"count"},{"name":"hold"},{"name":"cancels"}]}'; }
    note() { case $line in *notifications/cancelled*) cancels=$((cancels + 1)) ;; esac; }
    call() {
        case $line in
            *'"hold"'*) progress "$id" 1 held ;;
            *'"cancels"'*) text "$cancels" ;;
            *) for nth in 1 2 3; do progress "$id" "$nth" "$nth x"; done; text counted ;;
        esac
    }
    cancels=0
"#;

// Covers R-302, R-303.
#[test]
fn one_hub_holds_both_eras_over_both_links() {
    run(async || {
        let running = Arc::new(AtomicUsize::new(0));
        let new_http = server(running.clone()).bind("127.0.0.1:0").await.unwrap();
        let new_url = new_http.url().to_owned();
        let serving = tokio::spawn(new_http.serve());
        let old_http = old_peer().await;
        let (old_child, old_marker) = child::script(OLD_CHILD);
        let new_marker = process::marker();
        let new_child = StdioCommand::new(raw::program()).arg(&new_marker);

        let hub = hub();
        let (a, b, c, d) = tokio::join!(
            hub.connect_http("old-http", old_http.url()).into_future(),
            hub.connect_http("new-http", new_url).into_future(),
            hub.connect_stdio("old-child", old_child).into_future(),
            hub.connect_stdio("new-child", new_child).into_future(),
        );
        for connected in [a, b, c, d] {
            connected.unwrap();
        }
        let servers = hub.servers().into_iter();
        let spoken = servers.map(|server| (server.name.to_string(), server.protocol_version));
        let names = ["old-http", "new-http", "old-child", "new-child"];
        for (name, version) in spoken {
            let expected = match name.starts_with("old") {
                true => "2025-11-25",
                false => "2026-07-28",
            };
            assert_eq!(version, Some(expected), "{name}");
        }
        // On each, forty calls that wait, streams beside them, and the end of those that wait.
        let busy = names.map(async |name| {
            let call = |tool| hub.call_tool_stream(tool, ()).server(name);
            let mut held: Vec<_> = (0..40).map(|_| call("hold")).collect();
            for call in &mut held {
                let first = call.next().await.unwrap();
                assert_eq!(first.text(), Some("held"), "{name}: {first:?}");
            }
            let counted = [r#"text "1 x""#, r#"text "2 x""#, r#"text "3 x""#];
            let arguments = serde_json::json!({"n": 3, "size": 1});
            for _ in 0..5 {
                let mut stream = hub.call_tool_stream("count", &arguments).server(name);
                let events = shown(&read(&mut stream).await);
                assert_eq!(events[..3], counted, "{name}");
                assert_eq!(events[3..], [r#"result "counted""#], "{name}");
            }
            for (nth, mut call) in held.into_iter().enumerate() {
                if nth % 2 == 0 {
                    call.cancel();
                    let end = read(&mut call).await;
                    assert_eq!(end.last().unwrap().kind, EventKind::Cancelled, "{name}");
                }
            }
        });
        join_all(busy).await;
        // Each server was told, in the way of its era and its link.
        old_http.wait_for("notifications/cancelled", 40).await;
        while running.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        let cancels = hub.call_tool("cancels", ()).server("old-child");
        assert_eq!(cancels.await.unwrap(), "40");
        // No more than 64 run at once there.
        let more = (0..60).map(|_| hub.call_tool_stream("hold", ()).server("new-child"));
        let firsts = more.map(async |mut call| call.next().await.unwrap());
        for first in join_all(firsts).await {
            assert_eq!(first.text(), Some("held"), "{first:?}");
        }
        hub.close().await;
        serving.abort();
        process::gone(&old_marker, &[]).await;
        process::gone(&new_marker, &[]).await;
    });
}

/// How long the others wait for a call that floods the pipe they share is counted in its events: what
/// both ends of the pipe hold, and a few turns.
#[test]
fn a_call_that_floods_a_pipe_delays_no_other() {
    run_once(async || {
        const FEW: usize = 10_000;
        let hub = hub();
        let child = StdioCommand::new(raw::program());
        hub.connect_stdio("s", child).await.unwrap();
        let heard = Arc::new(AtomicUsize::new(0));
        let count = heard.clone();
        let arguments = serde_json::json!({"n": 100_000_000, "size": 1});
        let mut flood = hub.call_tool_stream("count", arguments);
        let reading = tokio::spawn(async move {
            while flood.next().await.is_some_and(|event| !event.is_terminal()) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        while heard.load(Ordering::Relaxed) < FEW {
            tokio::task::yield_now().await;
        }
        for _ in 0..20 {
            let before = heard.load(Ordering::Relaxed);
            let echo = hub.call_tool("echo", serde_json::json!({"text": "here"}));
            assert_eq!(echo.await.unwrap(), "here");
            let waited = heard.load(Ordering::Relaxed) - before;
            assert!(waited < FEW, "{waited} events");
        }
        reading.abort();
        let _ = reading.await;
        hub.close().await;
    });
}

/// What cannot be reached, each in its own way, beside what can.
#[test]
fn one_healthy_server_is_of_use_whatever_the_others_are() {
    run(async || {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = format!("http://{}/mcp", free.local_addr().unwrap());
        drop(free);
        for on_error in [OnError::Skip, OnError::Warn, OnError::Raise] {
            let hub = hub();
            let (child, marker) = child::script("");
            let no_host = "http://no-such-host.invalid/mcp";
            let no_program = StdioCommand::new("/nowhere/no-such-program");
            let (a, b, c, d) = tokio::join!(
                hub.connect_http("refused", &*refused)
                    .on_error(on_error)
                    .into_future(),
                hub.connect_http("no-host", no_host)
                    .on_error(on_error)
                    .into_future(),
                hub.connect_stdio("no-program", no_program)
                    .on_error(on_error)
                    .into_future(),
                hub.connect_stdio("well", child)
                    .on_error(on_error)
                    .into_future(),
            );
            assert_eq!(d.unwrap().len(), 2);
            for (failed, why) in [(a, "refused"), (b, "no-such-host"), (c, "No such file")] {
                match failed {
                    Ok(none) => assert!(none.is_empty() && on_error != OnError::Raise),
                    Err(error) => {
                        let text = said(&error);
                        assert!(on_error == OnError::Raise && text.contains(why), "{text}");
                    }
                }
            }
            let states: Vec<_> = hub
                .servers()
                .iter()
                .map(|server| (server.name.to_string(), server.last_error.clone()))
                .collect();
            if on_error == OnError::Raise {
                assert_eq!(states.len(), 1, "{states:?}");
            } else {
                for ((_, why), says) in states.iter().zip(["refused", "no-such-host", "No such"]) {
                    let text = said(why.as_ref().unwrap());
                    assert!(text.contains(says), "{text}");
                }
                assert_eq!(states.len(), 4, "{states:?}");
            }
            assert_eq!(hub.call_tool("t", ()).await.unwrap(), "4");
            hub.close().await;
            process::gone(&marker, &[]).await;
        }
    });
}
