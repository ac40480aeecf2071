//! How many calls and sessions there may be, and how long sessions stay.

use std::time::Duration;

use serde_json::json;

use crate::fixture::{
    Gate, Live, Session, builder, call, echo, endless, gated, limits, on_both_runtimes, quiet_call,
    serve,
};
use crate::raw::{message_of, soon};

// Covers R-201, R-1707.
async fn a_call_over_the_bound_is_told_to_come_back() {
    for (of_session, in_all, limit) in [(2, 100, "max_session_calls"), (100, 2, "max_calls")] {
        let live = Live::new();
        let limits = limits(|l| {
            l.max_session_calls = of_session;
            l.max_calls = in_all;
        });
        let served = serve(echo(endless(builder().limits(limits), &live))).await;
        let session = served.session().await;
        let mut running = Vec::new();
        for id in 1..=2 {
            let mut answer = session.call(id, "endless", json!({})).await;
            answer.message().await.unwrap();
            running.push(answer);
        }
        for body in [
            call(3, "endless", json!({})),
            quiet_call(3, "echo", json!({"text": "a"})),
        ] {
            let mut refused = session.post(body).await;
            assert_eq!(refused.head.status, 503);
            assert_eq!(refused.head.header("retry-after"), Some("1"));
            assert_eq!(
                refused.json().await,
                json!({"jsonrpc": "2.0", "id": 3,
                    "error": {"code": -32603, "message": "server busy", "data": {"limit": limit}}})
            );
        }
        // What is no call is answered, and another session has a share of its own.
        assert_eq!(session.ping().await, 200);
        let other = served.session().await;
        let elsewhere = other
            .post(quiet_call(1, "echo", json!({"text": "a"})))
            .await;
        assert_eq!(
            elsewhere.head.status,
            if of_session == 2 { 200 } else { 503 }
        );

        session.cancel(1).await;
        live.reach(1).await;
        // The place is free a moment after the handler is gone.
        let echoed = session.result_when_free("echo", json!({"text": "a"})).await;
        assert_eq!(echoed["content"][0]["text"], "a");
    }
}
on_both_runtimes!(a_call_over_the_bound_is_told_to_come_back);

#[tokio::test]
async fn calls_that_end_in_every_way_give_their_places_back() {
    let live = Live::new();
    let gate = Gate::new();
    gate.open();
    let limits = limits(|l| {
        l.max_calls = 3;
        l.detached_call_timeout = Duration::ZERO;
    });
    let builder = echo(gated(endless(builder().limits(limits), &live), &gate)).tool(
        agent_hub_kit::Tool::new("panics"),
        async |_: agent_hub_kit::RawArgs, _: agent_hub_kit::ToolContext| {
            tokio::task::yield_now().await;
            if true {
                panic!("a test");
            }
            Ok(())
        },
    );
    let served = serve(builder).await;
    let session = served.session().await;
    for round in 0..30 {
        let mut answer = match round % 5 {
            0 => session.result("gated", json!({})).await["content"].take(),
            1 => session.result("panics", json!({})).await["content"].take(),
            2 => session.result("echo", json!({})).await["content"].take(),
            way => {
                let mut answer = session.call(round, "endless", json!({})).await;
                answer.message().await.unwrap();
                match way {
                    3 => drop(answer),
                    _ => session.cancel(round).await,
                }
                live.reach(0).await;
                json!([0])
            }
        };
        assert_eq!(answer.as_array_mut().unwrap().len(), 1, "{round}");
    }
    // Three places are there, no more and no less.
    let mut running = Vec::new();
    soon(async {
        while running.len() < 3 {
            let id = running.len() as i64;
            let mut answer = session.call(id, "endless", json!({})).await;
            if answer.head.status == 200 {
                answer.message().await.unwrap();
                running.push(answer);
            }
        }
    })
    .await;
    assert_eq!(session.call(9, "endless", json!({})).await.head.status, 503);
}

// Covers R-1306.
async fn an_idle_session_expires_and_a_busy_one_stays() {
    let gate = Gate::new();
    let limits = limits(|l| {
        l.session_idle_timeout = Duration::from_millis(300);
        l.keep_alive_interval = Duration::from_millis(20);
    });
    let served = serve(gated(builder().limits(limits), &gate)).await;
    let busy = served.session().await;
    let mut running = busy.call(1, "gated", json!({})).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(served.session().await);
    }
    // A look at a session keeps it, so each is looked at once. The comments on the stream of the
    // busy one are the clock.
    loop {
        assert_eq!(running.frame().await.unwrap(), ": keep-alive\n\n");
        match idle.pop().expect("one that expired").ping().await {
            200 => {}
            404 => break,
            status => panic!("{status}"),
        }
    }
    gate.open();
    let frames = running.frames().await;
    assert_eq!(message_of(frames.last().unwrap())["id"], 1);
    assert_eq!(busy.ping().await, 200);
}
on_both_runtimes!(an_idle_session_expires_and_a_busy_one_stays);

// Covers R-1303, R-1306.
#[tokio::test]
async fn the_session_that_was_idle_longest_makes_room_and_none_that_is_busy() {
    let live = Live::new();
    let limits = limits(|l| l.max_sessions = 3);
    let served = serve(endless(builder().limits(limits), &live)).await;
    let begin = async |session: &Session| {
        let mut answer = session.call(1, "endless", json!({})).await;
        answer.message().await.unwrap();
        answer
    };
    let busy = served.session().await;
    let mut first = begin(&busy).await;
    let oldest = served.session().await;
    let older = served.session().await;
    assert_eq!(oldest.ping().await, 200);
    // Now `older` is the one.
    let newest = served.session().await;
    assert_eq!(older.ping().await, 404);
    assert_eq!(oldest.ping().await, 200);

    let _second = begin(&oldest).await;
    let _third = begin(&newest).await;
    let mut refused = served.initialize().await;
    assert_eq!(refused.head.status, 503);
    assert_eq!(refused.head.header("retry-after"), Some("1"));
    assert_eq!(refused.head.header("mcp-session-id"), None);
    let error = refused.json().await["error"].take();
    assert_eq!(error["code"], -32603);
    assert_eq!(error["data"], json!({"limit": "max_sessions"}));

    busy.cancel(1).await;
    assert_eq!(first.frame().await, None);
    let fresh = served.session().await;
    assert_eq!(busy.ping().await, 404);
    assert_eq!(fresh.ping().await, 200);
    assert_eq!(live.count(), 2);
}
