//! How a server ends, and what is left of it.

use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use agent_hub_kit::{McpServerBuilder, RawArgs, Tool, ToolContext};
use serde_json::json;
use tokio::net::TcpStream;

use crate::fixture::{
    Gate, Live, Served, builder, call, echo, endless, gated, limits, on_both_runtimes, serve,
};
use crate::raw::{Raw, soon};
use crate::stated::{ask, tools};

fn patient(seconds: u64) -> McpServerBuilder {
    builder().limits(limits(|l| {
        l.shutdown_timeout = Duration::from_secs(seconds)
    }))
}

async fn ended(served: Served) {
    soon(served.serving).await.unwrap().unwrap();
    // At once, so that a server that restarts finds its port free.
    TcpListener::bind(served.addr).unwrap();
    assert!(soon(TcpStream::connect(served.addr)).await.is_err());
}

async fn an_idle_server_ends_soon() {
    let served = serve(echo(patient(3600))).await;
    let session = served.session().await;
    let mut kept = Raw::connect(served.addr).await;
    kept.send(session.bytes(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#))
        .await;
    let mut answer = kept.answer().await;
    answer.body().await;
    let kept = answer.into_raw();
    // Whether it is accepted before the end or not, it does not hold the end up.
    let _unused = Raw::connect(served.addr).await;
    served.handle.shutdown();
    // No request was read, whatever is on its way.
    let last = kept.answer().await;
    assert_eq!(last.head.status, 408);
    assert!(last.into_raw().is_closed().await);
    ended(served).await;
}
on_both_runtimes!(an_idle_server_ends_soon);

/// Its client was told that it is connected, whether the server has looked or not.
async fn a_request_that_waits_in_the_backlog_is_answered() {
    let served = serve(echo(patient(3600))).await;
    let session = served.session().await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        // From this side alone, so that the server gets no turn.
        let mut socket = std::net::TcpStream::connect(served.addr).unwrap();
        let ping = session.bytes(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        std::io::Write::write_all(&mut socket, ping.as_bytes()).unwrap();
        socket.set_nonblocking(true).unwrap();
        waiting.push(TcpStream::from_std(socket).unwrap());
    }
    served.handle.shutdown();
    for socket in waiting {
        let mut answer = Raw::over(socket).answer().await;
        assert_eq!(answer.head.status, 200);
        assert_eq!(answer.json().await["id"], 1);
    }
    ended(served).await;
}
on_both_runtimes!(a_request_that_waits_in_the_backlog_is_answered);

async fn a_running_call_may_end_after_the_shutdown_began() {
    let gate = Gate::new();
    let served = serve(gated(patient(3600), &gate)).await;
    let session = served.session().await;
    let mut answer = session.call(1, "gated", json!({})).await;
    served.handle.shutdown();
    // Nobody new is let in.
    while soon(TcpStream::connect(served.addr)).await.is_ok() {
        tokio::task::yield_now().await;
    }
    gate.open();
    let result = answer.message().await.unwrap();
    assert_eq!(result["result"]["content"][0]["text"], "released");
    assert_eq!(answer.frame().await, None);
    let answer = answer.into_raw().answer().await;
    assert_eq!(answer.head.status, 408);
    assert!(answer.into_raw().is_closed().await);
    ended(served).await;
}
on_both_runtimes!(a_running_call_may_end_after_the_shutdown_began);

async fn a_call_that_does_not_end_is_told_why() {
    let live = Live::new();
    let limits = limits(|l| l.shutdown_timeout = Duration::from_millis(50));
    let builder = builder().limits(limits).tool_with(
        Tool::new("silent"),
        live.clone(),
        async |live: Live, _: RawArgs, _: ToolContext| {
            let _alive = live.enter();
            std::future::pending::<()>().await;
            Ok(())
        },
    );
    let served = serve(endless(builder, &live)).await;
    let session = served.session().await;
    let mut streaming = session.call(1, "endless", json!({})).await;
    streaming.message().await.unwrap();
    let waiting = tokio::spawn({
        let session = session.clone();
        async move {
            let call = call(2, "silent", json!({}));
            session
                .post_accepting("application/json", call)
                .await
                .json()
                .await
        }
    });
    live.reach(2).await;
    served.handle.shutdown();
    let error = |id| {
        json!({"jsonrpc": "2.0", "id": id,
            "error": {"code": -32603, "message": "the server is shutting down"}})
    };
    assert_eq!(streaming.message().await, Some(error(1)));
    assert_eq!(streaming.frame().await, None);
    assert_eq!(soon(waiting).await.unwrap(), error(2));
    ended(served).await;
    live.reach(0).await;
}
on_both_runtimes!(a_call_that_does_not_end_is_told_why);

async fn a_second_shutdown_ends_at_once() {
    let live = Live::new();
    let served = serve(endless(patient(3600), &live)).await;
    let session = served.session().await;
    let mut answer = session.call(1, "endless", json!({})).await;
    answer.message().await.unwrap();
    served.handle.shutdown();
    served.handle.clone().shutdown();
    ended(served).await;
    live.reach(0).await;
}
on_both_runtimes!(a_second_shutdown_ends_at_once);

async fn a_server_that_is_dropped_takes_its_calls_with_it() {
    let live = Live::new();
    let served = serve(endless(patient(3600), &live)).await;
    let session = served.session().await;
    let mut attended = session.call(1, "endless", json!({})).await;
    attended.message().await.unwrap();
    let mut left = session.call(2, "endless", json!({})).await;
    left.message().await.unwrap();
    drop(left);
    served.serving.abort();
    assert!(soon(served.serving).await.unwrap_err().is_cancelled());
    live.reach(0).await;
    TcpListener::bind(served.addr).unwrap();
}
on_both_runtimes!(a_server_that_is_dropped_takes_its_calls_with_it);

/// Every kind of stream at once: one that listens, one that streams, one that is silent.
async fn open_streams_end_with_their_server() {
    let live = Live::new();
    let limits = limits(|l| l.shutdown_timeout = Duration::from_millis(50));
    let server = endless(builder().limits(limits), &live).dynamic_tools(true);
    let served = serve(server).await;
    let session = served.session().await;
    let mut standing = session.stream().await;
    let mut subscribed = ask(served.addr, 1, "subscriptions/listen", tools()).await;
    subscribed.message().await.unwrap();
    let mut running = session.call(1, "endless", json!({})).await;
    running.message().await.unwrap();
    let mut idle = Raw::connect(served.addr).await;
    served.handle.shutdown();
    assert_eq!(standing.frame().await, None);
    let last = subscribed.message().await.unwrap();
    assert_eq!(last["id"], 1, "{last}");
    assert_eq!(subscribed.frame().await, None);
    let last = running.message().await.unwrap();
    assert_eq!(last["error"]["code"], -32603, "{last}");
    assert_eq!(running.frame().await, None);
    assert!(idle.is_closed().await);
    ended(served).await;
    live.reach(0).await;
}
on_both_runtimes!(open_streams_end_with_their_server);

/// A thread that is held until the test lets it go.
#[derive(Clone, Default)]
struct Held(Arc<(Mutex<bool>, Condvar)>);

impl Held {
    fn hold(&self) {
        let (free, changed) = &*self.0;
        let free = changed.wait_while(free.lock().unwrap(), |free| !*free);
        drop(free.unwrap());
    }

    fn let_go(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// Tools that hold their thread: from the start, after a while, and one of their own. `live` counts
/// them.
fn stuck(builder: McpServerBuilder, held: &Held, live: &Live) -> McpServerBuilder {
    let state = || (held.clone(), live.clone());
    builder
        .tool_with(
            Tool::new("at_once"),
            state(),
            async |(held, live): (Held, Live), _: RawArgs, _: ToolContext| {
                let _alive = live.enter();
                held.hold();
                Ok(())
            },
        )
        .tool_with(
            Tool::new("later"),
            state(),
            async |(held, live): (Held, Live), _: RawArgs, _: ToolContext| {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let _alive = live.enter();
                held.hold();
                Ok(())
            },
        )
        .tool_with(
            Tool::new("on_a_thread"),
            state(),
            async |(held, live): (Held, Live), _: RawArgs, ctx: ToolContext| {
                ctx.spawn_blocking(move |_| {
                    let _alive = live.enter();
                    held.hold();
                    Ok(())
                })
                .await
            },
        )
}

/// The server ends; what does with the thread is the business of whoever wrote the tool.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_never_yields_does_not_hold_up_the_end() {
    for (tool, twice) in [
        ("at_once", false),
        ("at_once", true),
        ("later", false),
        ("later", true),
        ("on_a_thread", false),
        ("on_a_thread", true),
    ] {
        let (held, live) = (Held::default(), Live::new());
        let patience = match twice {
            true => Duration::from_secs(3600),
            false => Duration::from_millis(50),
        };
        let limits = limits(|l| l.shutdown_timeout = patience);
        let server = stuck(builder().limits(limits), &held, &live);
        let served = serve(server).await;
        let session = served.session().await;
        let mut raw = Raw::connect(served.addr).await;
        raw.send(session.bytes(call(1, tool, json!({})))).await;
        live.reach(1).await;
        let begun = Instant::now();
        served.handle.shutdown();
        if twice {
            served.handle.shutdown();
        }
        ended(served).await;
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "{tool}, {twice}: {took:?}");
        assert_eq!(
            live.count(),
            1,
            "{tool}, {twice}: it was stuck all the time"
        );
        held.let_go();
        live.reach(0).await;
        // Whatever it was told, the connection is over.
        raw.rest().await;
    }
}

#[tokio::test]
async fn calls_nobody_listens_to_do_not_delay_the_end() {
    let live = Live::new();
    let served = serve(endless(patient(3600), &live)).await;
    let session = served.session().await;
    let mut left = session.call(1, "endless", json!({})).await;
    left.message().await.unwrap();
    drop(left);
    served.handle.shutdown();
    ended(served).await;
    live.reach(0).await;
}

#[tokio::test]
async fn a_server_told_to_stop_before_it_serves_does_not_begin() {
    let bound = echo(builder()).build().bind("127.0.0.1:0").await.unwrap();
    bound.handle().shutdown();
    soon(bound.serve()).await.unwrap();
}

#[tokio::test]
async fn two_servers_of_one_builder_end_apart() {
    let server = echo(builder()).build();
    let one = server.bind("127.0.0.1:0").await.unwrap();
    let two = server.clone().bind("127.0.0.1:0").await.unwrap();
    let (stop, addr) = (one.handle(), two.local_addr());
    let one = tokio::spawn(one.serve());
    let handle = two.handle();
    let two = Served {
        addr,
        handle,
        serving: tokio::spawn(two.serve()),
    };
    stop.shutdown();
    soon(one).await.unwrap().unwrap();
    assert_eq!(two.session().await.ping().await, 200);
}

#[tokio::test]
async fn a_listener_of_ones_own_is_served() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let server = echo(builder()).build();
    let serving = tokio::spawn(async move { server.serve_listener(listener).await });
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(crate::fixture::post(addr, &[], ping).await.head.status, 200);
    serving.abort();
}
