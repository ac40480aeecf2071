//! Readers slower than their tools, tools slower than their readers, and threads that block.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agent_hub_kit::{
    Error, EventStreamer, McpServerBuilder, RawArgs, Tool, ToolContext, ToolError,
};
use serde_json::json;

use crate::fixture::{
    Session, Told, builder, call, channel, event_of, limits, on_both_runtimes, serve,
};
use crate::raw::{Answer, Raw, soon};

const PIECE: usize = 64 << 10;
const PIECES: usize = 800;
/// What may be between a tool and a reader that does not read: the outbox, hyper's buffer, and
/// what the system keeps for a socket.
const BETWEEN: usize = (20 << 20) / PIECE;

async fn narrow_call(session: &Session, tool: &str) -> Answer {
    let mut raw = Raw::connect_narrow(session.addr).await;
    raw.send(session.bytes(call(1, tool, json!({})))).await;
    raw.answer().await
}

/// Reads all pieces, and looks how far ahead the tool is each time.
async fn read_all(mut answer: Answer, sent: &AtomicUsize) {
    let mut furthest = 0;
    for read in 1..=PIECES {
        // Not parsed, which would take longer than all the rest.
        let frame = answer.frame().await.unwrap();
        assert!(frame.len() > PIECE, "{frame}");
        furthest = furthest.max(sent.load(Ordering::Relaxed).saturating_sub(read));
    }
    assert_eq!(answer.message().await.unwrap()["id"], 1);
    assert!(furthest < BETWEEN, "{furthest} pieces ahead");
}

fn eager(sent: Arc<AtomicUsize>, told: Told<()>) -> McpServerBuilder {
    let limits = limits(|l| l.max_outbox_bytes = 4096);
    builder()
        .limits(limits)
        .tool_with(
            Tool::new("waits"),
            (sent.clone(), told),
            async |(sent, told): (Arc<AtomicUsize>, Told<()>), _: RawArgs, ctx: ToolContext| {
                let stream = ctx.streamer("n");
                let piece = "x".repeat(PIECE);
                for _ in 0..PIECES {
                    // A wait that lasts is told, so that the test can begin to read.
                    let sending = stream.text(&piece);
                    let mut sending = std::pin::pin!(sending);
                    let patience = Duration::from_millis(20);
                    match tokio::time::timeout(patience, sending.as_mut()).await {
                        Ok(done) => done?,
                        Err(_) => {
                            told.tell(());
                            sending.await?;
                        }
                    }
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            },
        )
        .tool_with(
            Tool::new("blocks"),
            sent,
            async |sent: Arc<AtomicUsize>, _: RawArgs, ctx: ToolContext| {
                ctx.spawn_blocking(move |stream| {
                    let piece = "x".repeat(PIECE);
                    for _ in 0..PIECES {
                        stream.blocking_text(&piece)?;
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
                .await
            },
        )
}

async fn a_tool_waits_for_a_slow_reader_and_goes_on_with_it() {
    let sent = Arc::new(AtomicUsize::new(0));
    let (told, mut waits) = channel();
    let session = serve(eager(sent.clone(), told)).await.session().await;
    let answer = session.call(1, "waits", json!({})).await;
    soon(waits.recv()).await.unwrap();
    assert!(sent.load(Ordering::Relaxed) < BETWEEN);
    read_all(answer, &sent).await;
}
on_both_runtimes!(a_tool_waits_for_a_slow_reader_and_goes_on_with_it);

async fn a_blocking_tool_waits_for_a_slow_reader_too() {
    let sent = Arc::new(AtomicUsize::new(0));
    let session = serve(eager(sent.clone(), channel().0))
        .await
        .session()
        .await;
    read_all(session.call(1, "blocks", json!({})).await, &sent).await;
}
on_both_runtimes!(a_blocking_tool_waits_for_a_slow_reader_too);

#[tokio::test]
async fn an_outbox_of_no_bytes_takes_one_event_at_a_time() {
    let limits = limits(|l| l.max_outbox_bytes = 0);
    let builder =
        builder()
            .limits(limits)
            .tool(Tool::new("t"), async |_: RawArgs, ctx: ToolContext| {
                for ch in ['a', 'b', 'c'] {
                    ctx.streamer("n").text(ch).await?;
                }
                Ok(())
            });
    let session = serve(builder).await.session().await;
    assert_eq!(
        session.call(1, "t", json!({})).await.messages().await.len(),
        4
    );
}

async fn a_tool_that_only_computes_shows_each_token_at_once() {
    const TOKENS: usize = 60;
    let computed = Arc::new(AtomicUsize::new(0));
    let builder = builder().tool_with(
        Tool::new("t"),
        computed.clone(),
        async |computed: Arc<AtomicUsize>, _: RawArgs, ctx: ToolContext| {
            let stream = ctx.streamer("n");
            for _ in 0..TOKENS {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(5) {
                    spin_loop();
                }
                computed.fetch_add(1, Ordering::Relaxed);
                stream.text("token").await?;
            }
            Ok(())
        },
    );
    let session = serve(builder).await.session().await;
    let mut answer = session.call(1, "t", json!({})).await;
    let mut lags = Vec::new();
    for read in 1..=TOKENS {
        answer.message().await.unwrap();
        lags.push(computed.load(Ordering::Relaxed).saturating_sub(read));
    }
    lags.sort_unstable();
    // The median: a busy machine may hold up some.
    assert!(lags[TOKENS / 2] <= 3, "{lags:?}");
}
on_both_runtimes!(a_tool_that_only_computes_shows_each_token_at_once);

fn say_all_blocking(stream: &EventStreamer) -> Result<(), Error> {
    stream.blocking_text("a")?;
    stream.blocking_think("b")?;
    stream.blocking_log("c")?;
    stream.blocking_image("d")?;
    stream.blocking_stl("e")?;
    stream.blocking_video("f")?;
    stream.blocking_emotion("g")?;
    stream.blocking_error("h")?;
    stream.blocking_send("custom", "i")?;
    let refused = stream.blocking_send("result", ());
    assert!(matches!(refused, Err(Error::Config { .. })), "{refused:?}");
    Ok(())
}

async fn a_thread_of_its_own_streams_every_kind() {
    let builder = builder().tool(Tool::new("t"), async |_: RawArgs, ctx: ToolContext| {
        ctx.spawn_blocking(|stream| {
            let stream = stream.node("n");
            say_all_blocking(&stream)?;
            Ok("done".to_owned())
        })
        .await
    });
    let session = serve(builder).await.session().await;
    let mut messages = session.call(1, "t", json!({})).await.messages().await;
    let last = messages.pop().unwrap();
    assert_eq!(last["result"]["content"][0]["text"], "done");
    let seen: Vec<_> = messages.iter().map(event_of).collect();
    let kinds = [
        "text",
        "think",
        "log",
        "image",
        "stl",
        "video",
        "emotion_data",
        "error",
        "custom",
    ];
    let expected: Vec<_> = kinds
        .iter()
        .zip('a'..)
        .map(|(kind, content)| json!({"v": 1, "type": kind, "content": content, "node": "n"}))
        .collect();
    assert_eq!(seen, expected);
}
on_both_runtimes!(a_thread_of_its_own_streams_every_kind);

async fn a_cancel_stops_a_loop_that_blocks() {
    let (told, mut ends) = channel();
    // With room the loop learns it at its next event, without room while it waits.
    for max_outbox_bytes in [1 << 20, 1] {
        let limits = limits(|l| l.max_outbox_bytes = max_outbox_bytes);
        let builder = builder().limits(limits).tool_with(
            Tool::new("t"),
            told.clone(),
            async |told: Told<_>, _: RawArgs, ctx: ToolContext| {
                ctx.spawn_blocking(move |stream| {
                    let error = loop {
                        if let Err(e) = stream.blocking_text("x".repeat(1000)) {
                            break e;
                        }
                    };
                    told.tell((error.to_string(), stream.is_closed()));
                    Err::<(), _>(error.into())
                })
                .await
            },
        );
        let session = serve(builder).await.session().await;
        let mut answer = narrow_call(&session, "t").await;
        answer.message().await.unwrap();
        session.cancel(1).await;
        let (error, is_closed) = soon(ends.recv()).await.unwrap();
        assert!(error.contains("stream") && is_closed, "{error}");
    }
}
on_both_runtimes!(a_cancel_stops_a_loop_that_blocks);

#[tokio::test]
async fn what_a_thread_returns_or_panics_with_ends_the_call() {
    let builder = builder()
        .tool(Tool::new("panics"), async |_: RawArgs, ctx: ToolContext| {
            ctx.spawn_blocking(|_| -> Result<(), ToolError> { panic!("the secret of the tool") })
                .await
        })
        .tool(Tool::new("fails"), async |_: RawArgs, ctx: ToolContext| {
            ctx.spawn_blocking(|_| Ok("x".parse::<u8>()?.to_string()))
                .await
        });
    let session = serve(builder).await.session().await;
    for (tool, expected) in [
        ("panics", "the tool `panics` failed: it panicked"),
        ("fails", "invalid digit found in string"),
    ] {
        let result = session.result(tool, json!({})).await;
        assert_eq!(
            result,
            json!({"content": [{"type": "text", "text": expected}], "isError": true})
        );
    }
}

/// A runtime that goes away takes its blocking loops with it: dropping it waits for them.
#[test]
fn a_runtime_can_be_dropped_while_a_loop_waits_for_room() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (told, mut ends) = channel();
    let limits = limits(|l| l.max_outbox_bytes = 1);
    let builder = builder().limits(limits).tool_with(
        Tool::new("t"),
        told,
        async |told: Told<_>, _: RawArgs, ctx: ToolContext| {
            ctx.spawn_blocking(move |stream| {
                let piece = "x".repeat(1 << 20);
                let error = loop {
                    if let Err(e) = stream.blocking_text(&piece) {
                        break e;
                    }
                };
                told.tell(error.to_string());
                Ok(())
            })
            .await
        },
    );
    let answer = runtime.block_on(async {
        let session = serve(builder).await.session().await;
        let mut answer = narrow_call(&session, "t").await;
        answer.message().await.unwrap();
        answer
    });
    drop(answer);
    let dropping = std::thread::spawn(move || drop(runtime));
    let ended = ends.blocking_recv().unwrap();
    assert!(ended.contains("stream"), "{ended}");
    dropping.join().unwrap();
}
