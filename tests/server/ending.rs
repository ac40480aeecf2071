//! How calls end before their time: cancelled, left alone, or with their session.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use agent_hub_kit::{Error, Limits, McpServerBuilder, RawArgs, Tool, ToolContext};
use serde_json::json;
use tokio::sync::watch;

use crate::fixture::{
    Gate, Live, Told, builder, call, channel, echo, endless, event_of, gated, limits,
    on_both_runtimes, serve,
};
use crate::raw::{Raw, soon};

// Covers R-907.
async fn a_cancel_drops_the_handler_and_ends_the_stream_without_a_response() {
    let live = Live::new();
    let session = serve(echo(endless(builder(), &live))).await.session().await;
    for id in [1, 2, 1] {
        let mut answer = session.call(id, "endless", json!({})).await;
        assert_eq!(
            event_of(&answer.message().await.unwrap())["content"],
            "begun"
        );
        assert_eq!(live.count(), 1);
        session.cancel(id).await;
        live.reach(0).await;
        assert_eq!(answer.frame().await, None);
    }
    let echoed = session.result("echo", json!({"text": "alive"})).await;
    assert_eq!(echoed["content"][0]["text"], "alive");
}
on_both_runtimes!(a_cancel_drops_the_handler_and_ends_the_stream_without_a_response);

/// The best of some, since the machine may be busy with others.
// Covers R-907.
#[tokio::test]
async fn a_handler_is_gone_within_a_tenth_of_a_second_of_its_cancel() {
    let live = Live::new();
    let session = serve(endless(builder(), &live)).await.session().await;
    let mut took = Duration::MAX;
    for id in 0..5 {
        let mut answer = session.call(id, "endless", json!({})).await;
        answer.message().await.unwrap();
        let begun = Instant::now();
        session.cancel(id).await;
        live.reach(0).await;
        assert_eq!(answer.frame().await, None);
        took = took.min(begun.elapsed());
    }
    assert!(took < Duration::from_millis(100), "{took:?}");
}

#[tokio::test]
async fn no_handler_runs_on_after_its_cancel() {
    let live = Live::new();
    let polls = Arc::new(watch::Sender::new(0));
    let builder = builder().tool_with(
        Tool::new("t"),
        (live.clone(), polls.clone()),
        async |(live, polls): (Live, Arc<watch::Sender<u32>>), _: RawArgs, _: ToolContext| {
            let _alive = live.enter();
            poll_fn(|_| {
                polls.send_modify(|count| *count += 1);
                Poll::<()>::Pending
            })
            .await;
            Ok(())
        },
    );
    let session = serve(builder).await.session().await;
    let mut answer = session.call(1, "t", json!({})).await;
    // By the connection's task, and by its own.
    soon(polls.subscribe().wait_for(|count| *count == 2))
        .await
        .unwrap();
    session.cancel(1).await;
    assert_eq!(answer.frame().await, None);
    live.reach(0).await;
    assert_eq!(*polls.borrow(), 2);
}

// Covers R-907.
#[tokio::test]
async fn a_cancel_before_the_head_ends_the_answer_in_the_form_that_was_asked_for() {
    for (accept, status) in [("application/json", 204), (crate::fixture::BOTH, 200)] {
        let live = Live::new();
        let limits = limits(|l| l.answer_window = Duration::from_secs(3600));
        let builder = builder().limits(limits).tool_with(
            Tool::new("silent"),
            live.clone(),
            async |live: Live, _: RawArgs, _: ToolContext| {
                let _alive = live.enter();
                std::future::pending::<()>().await;
                Ok(())
            },
        );
        let session = serve(builder).await.session().await;
        let mut raw = Raw::connect(session.addr).await;
        let [id, version] = session.headers();
        raw.send(crate::fixture::post_bytes(
            session.addr,
            &[id, version, ("Accept", accept)],
            &call(1, "silent", json!({})),
        ))
        .await;
        live.reach(1).await;
        session.cancel(1).await;
        live.reach(0).await;
        let mut answer = raw.answer().await;
        assert_eq!(answer.head.status, status, "{accept}");
        assert_eq!(answer.head.is_sse(), status == 200);
        assert_eq!(answer.body().await, "");
    }
}

// Covers R-907.
#[tokio::test]
async fn a_bad_cancel_is_ignored() {
    let live = Live::new();
    let gate = Gate::new();
    let session = serve(gated(endless(builder(), &live), &gate))
        .await
        .session()
        .await;
    let other = serve(endless(builder(), &live)).await.session().await;
    let mut running = session.call(1, "gated", json!({})).await;
    let mut stranger = other.call(2, "endless", json!({})).await;
    stranger.message().await.unwrap();
    for params in [
        r#"{"requestId":"1"}"#,
        r#"{"requestId":2}"#,
        r#"{"requestId":1.0}"#,
        r#"{"requestId":null}"#,
        r#"{"requestId":[1]}"#,
        r#"{"reason":"none"}"#,
        "{}",
        "null",
        "[1]",
        "1",
    ] {
        let body =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
        let mut answer = session.post(&body).await;
        assert_eq!(
            (answer.head.status, &*answer.body().await),
            (202, ""),
            "{body}"
        );
    }
    let bare = r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#;
    assert_eq!(session.post(bare).await.head.status, 202);
    assert_eq!(live.count(), 1);
    // A number does not mean the text that it spells, nor the other way round.
    let texted = call(5, "endless", json!({})).replace(r#""id":5"#, r#""id":"5""#);
    let mut texted = session.post(texted).await;
    texted.message().await.unwrap();
    session.cancel(5).await;
    assert_eq!((session.ping().await, live.count()), (200, 2));
    let body = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"5"}}"#;
    assert_eq!(session.post(body).await.head.status, 202);
    assert_eq!(texted.frame().await, None);
    live.reach(1).await;
    gate.open();
    assert_eq!(running.message().await.unwrap()["id"], 1);
    // One that is over already.
    session.cancel(1).await;
    assert_eq!(session.ping().await, 200);
}

async fn a_cancel_that_races_with_its_call_leaves_nothing_behind() {
    let live = Live::new();
    let served = serve(endless(builder(), &live)).await;
    let session = served.session().await;
    for round in 0..200 {
        // The same id again and again, as a careless client would.
        let id = round % 2;
        let calling = tokio::spawn({
            let session = session.clone();
            async move {
                let mut answer = session.call(id, "endless", json!({})).await;
                if !answer.head.is_sse() {
                    return answer.json().await["error"]["code"].clone();
                }
                answer.messages().await.len().into()
            }
        });
        // Ends in any case: the first cancel may have come too early.
        soon(async {
            while !calling.is_finished() {
                session.cancel(id).await;
            }
        })
        .await;
        let seen = calling.await.unwrap();
        assert!(seen == 0 || seen == 1, "{seen}");
    }
    live.reach(0).await;
}
on_both_runtimes!(a_cancel_that_races_with_its_call_leaves_nothing_behind);

/// A client that uses an id again while the call that had it is being cancelled must not get hold
/// of a call that nothing can end.
async fn an_id_used_again_at_once_does_not_hide_a_call() {
    let live = Live::new();
    let served = serve(endless(builder(), &live)).await;
    for _ in 0..30 {
        let session = served.session().await;
        let mut calls = Vec::new();
        for _ in 0..6 {
            let mut raw = Raw::connect(session.addr).await;
            raw.send(session.bytes(call(1, "endless", json!({})))).await;
            calls.push(raw);
            let mut raw = Raw::connect(session.addr).await;
            raw.send(session.bytes(
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            ))
            .await;
            calls.push(raw);
        }
        session.delete().await;
        // The calls that came in after the end of their session are refused.
        for raw in calls {
            raw.answer().await.body().await;
        }
        live.reach(0).await;
    }
}
on_both_runtimes!(an_id_used_again_at_once_does_not_hide_a_call);

/// A tool that talks until it is told that nobody listens, then says a gigabyte to nobody, and
/// tells the test what became of it.
fn orator(limits: Limits, told: Told<Result<u64, Error>>) -> McpServerBuilder {
    async fn speak(ctx: &ToolContext) -> Result<u64, Error> {
        let stream = ctx.streamer("orator");
        while stream.is_active() {
            stream.text("is anybody there?").await?;
        }
        let piece = "x".repeat(1 << 20);
        let before = resident_bytes();
        let mut most = before;
        for _ in 0..1024 {
            stream.text(&piece).await?;
            most = most.max(resident_bytes());
        }
        Ok(most - before)
    }
    builder().limits(limits).tool_with(
        Tool::new("orator"),
        told,
        async |told: Told<_>, _: RawArgs, ctx: ToolContext| {
            told.tell(speak(&ctx).await);
            Ok(())
        },
    )
}

/// What this process has in memory; 0 where that is not told.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or_default() * 4096
}

// Covers R-906.
async fn a_call_whose_client_left_goes_on_without_being_kept() {
    let (told, mut ends) = channel();
    let session = serve(orator(Limits::default(), told)).await.session().await;
    let mut answer = session.call(1, "orator", json!({})).await;
    answer.message().await.unwrap();
    drop(answer);
    let grown = soon(ends.recv()).await.unwrap().unwrap();
    // Other tests run in this process too.
    assert!(grown < 500 << 20, "{grown}");
}
on_both_runtimes!(a_call_whose_client_left_goes_on_without_being_kept);

fn silent_with(live: &Live, builder: McpServerBuilder) -> McpServerBuilder {
    builder.tool_with(
        Tool::new("silent"),
        live.clone(),
        async |live: Live, _: RawArgs, _: ToolContext| {
            let _alive = live.enter();
            std::future::pending::<()>().await;
            Ok(())
        },
    )
}

async fn a_call_whose_client_left_ends_at_its_limit_or_at_once() {
    let table = [
        (Duration::from_millis(30), false),
        (Duration::ZERO, false),
        (Duration::from_secs(3600), true),
    ];
    for (timeout, at_once) in table {
        let live = Live::new();
        let limits = limits(|l| {
            l.detached_call_timeout = timeout;
            // So that one client leaves before the head and one after it.
            l.answer_window = Duration::from_millis(20);
        });
        let builder = builder().limits(limits).cancel_on_disconnect(at_once);
        let session = serve(silent_with(&live, endless(builder, &live)))
            .await
            .session()
            .await;
        let mut heard = session.call(1, "endless", json!({})).await;
        heard.message().await.unwrap();
        let headed = session.call(2, "silent", json!({})).await;
        let mut raw = Raw::connect(session.addr).await;
        raw.send(session.bytes(call(3, "silent", json!({})))).await;
        live.reach(3).await;
        drop((heard, headed, raw));
        live.reach(0).await;
        // Their ids are free, a moment after the handlers are gone.
        soon(async { while !session.call(1, "endless", json!({})).await.head.is_sse() {} }).await;
    }
}
on_both_runtimes!(a_call_whose_client_left_ends_at_its_limit_or_at_once);

// Covers R-906, R-1309.
#[tokio::test]
async fn a_call_whose_client_left_can_be_cancelled_and_ends_with_its_session() {
    let live = Live::new();
    let session = serve(endless(builder(), &live)).await.session().await;
    for by_delete in [false, true] {
        let mut answer = session.call(1, "endless", json!({})).await;
        answer.message().await.unwrap();
        drop(answer);
        assert_eq!(session.ping().await, 200);
        assert_eq!(live.count(), 1);
        match by_delete {
            false => session.cancel(1).await,
            true => assert_eq!(session.delete().await.head.status, 200),
        }
        live.reach(0).await;
    }
}

// Covers R-1309.
async fn the_end_of_a_session_ends_its_calls() {
    let live = Live::new();
    let served = serve(endless(builder(), &live)).await;
    let session = served.session().await;
    let other = served.session().await;
    let mut streams = Vec::new();
    for id in 1..=3 {
        let mut answer = session.call(id, "endless", json!({})).await;
        answer.message().await.unwrap();
        streams.push(answer);
    }
    let mut spared = other.call(1, "endless", json!({})).await;
    spared.message().await.unwrap();
    assert_eq!(session.delete().await.head.status, 200);
    for mut stream in streams {
        assert_eq!(stream.frame().await, None);
    }
    live.reach(1).await;
    other.cancel(1).await;
    live.reach(0).await;
}
on_both_runtimes!(the_end_of_a_session_ends_its_calls);

async fn a_handler_that_panics_when_it_is_dropped_harms_nobody() {
    struct Mine;
    impl Drop for Mine {
        fn drop(&mut self) {
            // A second panic while one is under way would abort the process.
            assert!(std::thread::panicking(), "dropped");
        }
    }
    let live = Live::new();
    let limits = limits(|l| {
        l.max_session_calls = 1;
        l.max_calls = 1;
        l.detached_call_timeout = Duration::from_millis(1);
    });
    let builder = echo(builder().limits(limits)).tool_with(
        Tool::new("mined"),
        live.clone(),
        async |live: Live, _: RawArgs, ctx: ToolContext| {
            let _alive = live.enter();
            let _mine = Mine;
            ctx.streamer("n").text("begun").await?;
            std::future::pending::<()>().await;
            Ok(())
        },
    );
    let session = serve(builder).await.session().await;
    for id in 1..=2 {
        let mut answer = session.call(id, "mined", json!({})).await;
        answer.message().await.unwrap();
        match id {
            1 => {
                session.cancel(id).await;
                assert_eq!(answer.frame().await, None);
            }
            // Nobody waits any longer: the server gives the call up by itself.
            _ => drop(answer),
        }
        live.reach(0).await;
        // Its place is free, in the session and in the server.
        let echoed = session.result_when_free("echo", json!({"text": "a"})).await;
        assert_eq!(echoed["content"][0]["text"], "a");
    }
    assert_eq!(session.delete().await.head.status, 200);
}
on_both_runtimes!(a_handler_that_panics_when_it_is_dropped_harms_nobody);

#[tokio::test]
async fn others_learn_of_a_cancel_from_the_context() {
    let (told, mut news) = channel();
    let builder = builder().tool_with(
        Tool::new("t"),
        told,
        async |told: Told<_>, _: RawArgs, ctx: ToolContext| {
            let watcher = ctx.clone();
            tokio::spawn(async move {
                let before = watcher.is_cancelled();
                watcher.cancelled().await;
                told.tell((before, watcher.is_cancelled()));
            });
            ctx.streamer("n").text("begun").await?;
            std::future::pending::<()>().await;
            Ok(())
        },
    );
    let session = serve(builder).await.session().await;
    let mut answer = session.call(1, "t", json!({})).await;
    answer.message().await.unwrap();
    session.cancel(1).await;
    assert_eq!(soon(news.recv()).await, Some((false, true)));
}
