//! What becomes of a call whose client hangs up: without a session that is a cancel.

use std::time::Duration;

use agent_hub_kit::{McpServerBuilder, RawArgs, Tool, ToolContext};
use serde_json::json;

use crate::fixture::{Gate, Live, builder, call, endless, limits, on_both_runtimes, serve};
use crate::raw::{Raw, soon};
use crate::stated::{body, bytes, quiet, streaming};

/// Tools that never end by themselves: one says nothing, one says something now and then, one says
/// more than anybody takes. `live` counts them.
fn tireless(builder: McpServerBuilder, live: &Live) -> McpServerBuilder {
    endless(builder, live)
        .tool_with(
            Tool::new("silent"),
            live.clone(),
            async |live: Live, _: RawArgs, _: ToolContext| {
                let _alive = live.enter();
                std::future::pending::<()>().await;
                Ok(())
            },
        )
        .tool_with(
            Tool::new("flooding"),
            live.clone(),
            async |live: Live, _: RawArgs, ctx: ToolContext| {
                let _alive = live.enter();
                let stream = ctx.streamer("t");
                let text = "x".repeat(1000);
                loop {
                    stream.text(&text).await?;
                }
                #[expect(unreachable_code, reason = "says what it would return")]
                Ok(())
            },
        )
}

/// No write can have failed in a second that is far shorter than these.
fn patient() -> McpServerBuilder {
    builder().limits(limits(|l| {
        l.keep_alive_interval = Duration::from_secs(3600);
        l.answer_window = Duration::from_secs(3600);
        l.detached_call_timeout = Duration::from_secs(3600);
        l.stalled_reader_timeout = Duration::from_secs(3600);
    }))
}

//
async fn who_hangs_up_cancels() {
    let live = Live::new();
    let served = serve(tireless(patient(), &live)).await;
    // A full socket, and one that nobody ever wrote to.
    for (tool, reads) in [
        ("silent", 0),
        ("endless", 1),
        ("endless", 0),
        ("flooding", 0),
        ("flooding", 3),
    ] {
        for params in [streaming(tool, json!({})), quiet(tool, json!({}))] {
            let is_heard = params["_meta"].is_object();
            let mut raw = Raw::connect_narrow(served.addr).await;
            let request = body(1, "tools/call", params);
            raw.send(bytes(served.addr, &request, &[])).await;
            live.reach(1).await;
            if reads > 0 && is_heard {
                let mut answer = raw.answer().await;
                for _ in 0..reads {
                    answer.message().await.unwrap();
                }
                raw = answer.into_raw();
            }
            drop(raw);
            let gone = tokio::time::timeout(Duration::from_secs(1), live.reach(0)).await;
            assert!(
                gone.is_ok(),
                "{tool}, {reads} events read, heard: {is_heard}"
            );
        }
    }
}
on_both_runtimes!(who_hangs_up_cancels);

/// As a client does whose process or machine is gone.
//
async fn who_resets_the_connection_cancels() {
    let live = Live::new();
    let served = serve(tireless(patient(), &live)).await;
    for (tool, reads) in [
        ("silent", 0),
        ("endless", 1),
        ("flooding", 0),
        ("flooding", 3),
    ] {
        let mut raw = Raw::connect_narrow(served.addr).await;
        let request = body(1, "tools/call", streaming(tool, json!({})));
        raw.send(bytes(served.addr, &request, &[])).await;
        live.reach(1).await;
        if reads > 0 {
            let mut answer = raw.answer().await;
            for _ in 0..reads {
                answer.message().await.unwrap();
            }
            raw = answer.into_raw();
        }
        raw.reset();
        let gone = tokio::time::timeout(Duration::from_secs(1), live.reach(0)).await;
        assert!(gone.is_ok(), "{tool}, {reads} events read");
    }
}
on_both_runtimes!(who_resets_the_connection_cancels);

//
async fn who_hangs_up_behind_much_else_cancels() {
    let live = Live::new();
    let served = serve(tireless(patient(), &live)).await;
    for (accept, length) in [
        ("application/json", 100),
        ("application/json", 40_000),
        ("text/event-stream", 40_000),
    ] {
        let mut raw = Raw::connect(served.addr).await;
        let request = body(1, "tools/call", quiet("silent", json!({})));
        raw.send(bytes(served.addr, &request, &[("Accept", accept)]))
            .await;
        live.reach(1).await;
        raw.send("x".repeat(length)).await;
        drop(raw);
        live.reach(0).await;
    }
}
on_both_runtimes!(who_hangs_up_behind_much_else_cancels);

//
async fn who_stops_sending_has_hung_up() {
    let live = Live::new();
    let served = serve(tireless(patient(), &live)).await;
    for tool in ["silent", "endless", "flooding"] {
        let mut raw = Raw::connect_narrow(served.addr).await;
        let request = body(1, "tools/call", streaming(tool, json!({})));
        raw.send(bytes(served.addr, &request, &[])).await;
        live.reach(1).await;
        raw.stop_sending().await;
        live.reach(0).await;
    }
}
on_both_runtimes!(who_stops_sending_has_hung_up);

//
async fn who_reads_nothing_for_too_long_has_hung_up() {
    let live = Live::new();
    let builder = builder().limits(limits(|l| {
        l.stalled_reader_timeout = Duration::from_millis(50);
        l.detached_call_timeout = Duration::from_secs(3600);
    }));
    let served = serve(tireless(builder, &live)).await;
    let mut raw = Raw::connect_narrow(served.addr).await;
    let request = body(1, "tools/call", streaming("flooding", json!({})));
    raw.send(bytes(served.addr, &request, &[])).await;
    live.reach(1).await;
    live.reach(0).await;
    drop(raw);
}
on_both_runtimes!(who_reads_nothing_for_too_long_has_hung_up);

//
async fn a_call_in_a_session_goes_on() {
    for by_reset in [false, true] {
        goes_on(by_reset).await;
    }
}

async fn goes_on(by_reset: bool) {
    let gate = Gate::new();
    let live = Live::new();
    let server = tireless(patient(), &live).tool_with(
        Tool::new("gated"),
        (gate.clone(), live.clone()),
        async |(gate, live): (Gate, Live), _: RawArgs, _: ToolContext| {
            let _alive = live.enter();
            gate.passed().await;
            Ok("released")
        },
    );
    let served = serve(server).await;
    let session = served.session().await;
    let mut heard = Raw::connect(served.addr).await;
    heard.send(session.bytes(call(1, "gated", json!({})))).await;
    live.reach(1).await;
    match by_reset {
        true => heard.reset(),
        false => drop(heard),
    }
    // The one beside it, without a session, is gone; what the session began is not.
    let mut raw = Raw::connect(served.addr).await;
    let request = body(1, "tools/call", quiet("silent", json!({})));
    raw.send(bytes(served.addr, &request, &[])).await;
    live.reach(2).await;
    drop(raw);
    live.reach(1).await;
    gate.open();
    live.reach(0).await;
    soon(session.delete()).await;
}
on_both_runtimes!(a_call_in_a_session_goes_on);
