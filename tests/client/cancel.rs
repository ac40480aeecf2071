//! Cancelling, and what is left when somebody goes away.

use std::time::Duration;

use agent_hub_kit::{AgentHubClient, CallStream, Error, EventKind, Limits};
use futures_util::FutureExt;
use serde_json::json;

use crate::peer::{
    self, Answer, FIRST_LIST, Peer, Request, SSE_HEAD, Wire, envelope, polite, progress, result,
};
use crate::{Seen, read, run, shown};

/// A peer that hands its calls over, a hub, and a call of which one event was read.
struct Running {
    hub: AgentHubClient,
    peer: Peer,
    stream: CallStream,
    request: Request,
    wire: Wire,
}

impl Running {
    async fn start(options: impl Fn(CallStream) -> CallStream) -> Self {
        let peer = Peer::calls(|_| Answer::Hand).await;
        let hub = peer.hub().await;
        let mut stream = options(hub.call_tool_stream("stream", ()));
        let serve = async {
            let (request, mut wire) = peer.handed().await;
            wire.write(SSE_HEAD).await;
            let message = progress(&request.token(), 1, &envelope("text", "a"));
            wire.send(peer::event(&message)).await;
            (request, wire)
        };
        let (event, (request, wire)) = tokio::join!(stream.next(), serve);
        assert_eq!(event.unwrap().text(), Some("a"));
        Self {
            hub,
            peer,
            stream,
            request,
            wire,
        }
    }

    async fn say(&mut self, message: &str) {
        self.wire.send(peer::event(message)).await;
    }

    /// Closes the hub, after which nothing more is sent, and counts the cancels.
    async fn assert_cancels(self, count: usize) {
        drop(self.stream);
        self.hub.close().await;
        let cancels = self.peer.seen_of("notifications/cancelled");
        let ids: Vec<_> = cancels
            .iter()
            .map(|cancel| cancel.json()["params"]["requestId"].clone())
            .collect();
        assert_eq!(ids, vec![self.request.id(); count]);
    }
}

//
#[test]
fn a_dropped_stream_cancels_its_call_once_and_then_hangs_up() {
    run(async || {
        let mut running = Running::start(|stream| stream).await;
        drop(std::mem::replace(
            &mut running.stream,
            running.hub.call_tool_stream("echo", ()),
        ));
        let cancel = running.peer.wait_for("notifications/cancelled", 1).await;
        assert!(cancel[0].json()["params"]["requestId"].is_number());
        running.wire.hung_up().await;
        running.assert_cancels(1).await;
    });
}

//
#[test]
fn a_call_that_is_cancelled_gives_what_it_has_and_one_cancelled() {
    run(async || {
        let mut running = Running::start(|stream| stream).await;
        running.stream.cancel();
        running.stream.cancel();
        let events = read(&mut running.stream).await;
        assert_eq!(shown(&events), ["cancelled null"]);
        assert!(events[0].error().unwrap().is_cancelled());
        running.stream.cancel();
        assert!(running.stream.next().await.is_none());
        running.peer.wait_for("notifications/cancelled", 1).await;
        running.wire.hung_up().await;
        running.assert_cancels(1).await;
    });
}

//
#[test]
fn a_call_that_timed_out_is_cancelled_once() {
    run(async || {
        let after = Duration::from_secs(2);
        let with_total = |stream: CallStream| stream.timeout(after);
        let with_idle = |stream: CallStream| stream.idle_timeout(after);
        let options: [(&str, &dyn Fn(CallStream) -> CallStream); 2] =
            [("timeout", &with_total), ("idle_timeout", &with_idle)];
        for (named, options) in options {
            let mut running = Running::start(options).await;
            let events = read(&mut running.stream).await;
            let Some(Error::Timeout {
                what, after: limit, ..
            }) = events[0].error()
            else {
                panic!("{named}: {events:?}")
            };
            assert_eq!((*what, *limit), (named, after));
            assert!(
                events[0].text().unwrap().starts_with("p/stream: "),
                "{events:?}"
            );
            running.stream.cancel();
            running.peer.wait_for("notifications/cancelled", 1).await;
            running.wire.hung_up().await;
            running.assert_cancels(1).await;
        }
    });
}

#[test]
fn a_call_that_timed_out_unread_is_cancelled_and_its_stream_says_so() {
    run(async || {
        let mut running = Running::start(|s| s.timeout(Duration::from_secs(2))).await;
        running.peer.wait_for("notifications/cancelled", 1).await;
        // Too late: the time was over.
        let end = result(&running.request.id(), "late");
        running.say(&end).await;
        let events = read(&mut running.stream).await;
        assert!(
            matches!(events[0].error(), Some(Error::Timeout { .. })),
            "{events:?}"
        );
        running.assert_cancels(1).await;
    });
}

//
#[test]
fn a_call_that_ended_is_not_cancelled() {
    run(async || {
        let mut running = Running::start(|s| s.timeout(Duration::from_secs(30))).await;
        let end = result(&running.request.id(), "end");
        running.say(&end).await;
        assert_eq!(shown(&read(&mut running.stream).await), ["result \"end\""]);
        running.stream.cancel();
        running.assert_cancels(0).await;
    });
}

#[test]
fn a_result_that_was_not_read_yet_loses_to_a_cancel() {
    run(async || {
        let mut running = Running::start(|stream| stream).await;
        let id = running.request.id();
        // A batch brings the event and the end in one piece, of which one is read.
        let event = progress(&running.request.token(), 2, &envelope("text", "b"));
        running
            .say(&format!("[{event},{}]", result(&id, "end")))
            .await;
        assert_eq!(running.stream.next().await.unwrap().text(), Some("b"));
        running.stream.cancel();
        assert_eq!(shown(&read(&mut running.stream).await), ["cancelled null"]);
        running.assert_cancels(0).await;
    });
}

#[test]
fn a_dropped_call_tool_cancels_its_call() {
    run(async || {
        let peer = Peer::calls(|_| Answer::Hand).await;
        let hub = peer.hub().await;
        let mut call = hub.call_tool("echo", ()).into_future();
        let (request, mut wire) = tokio::select! {
            biased;
            end = &mut call => panic!("{end:?}"),
            handed = peer.handed() => handed,
        };
        drop(call);
        let cancel = &peer.wait_for("notifications/cancelled", 1).await[0];
        assert_eq!(cancel.json()["params"]["requestId"], request.id());
        wire.hung_up().await;
    });
}

//
#[test]
fn a_reply_is_hung_up_also_if_the_cancel_gets_no_answer() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "tools/call" | "notifications/cancelled" => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let mut limits = Limits::default();
        limits.cancel_timeout = Duration::from_millis(50);
        let hub = AgentHubClient::builder().limits(limits).build();
        peer.connect(&hub, "p").await;
        let mut stream = hub.call_tool_stream("stream", ());
        let (request, mut wire) = tokio::select! {
            biased;
            event = stream.next() => panic!("{event:?}"),
            handed = peer.handed() => handed,
        };
        drop(stream);
        let (cancel, mut other) = peer.handed().await;
        assert_eq!(cancel.json()["params"]["requestId"], request.id());
        // When the time for it is over.
        wire.hung_up().await;
        other.hung_up().await;
    });
}

//
#[test]
fn answers_after_a_cancel_are_dropped_and_those_that_cross_it_are_no_errors() {
    run(async || {
        for code in [0, -32800, -32603] {
            let mut running = Running::start(|stream| stream).await;
            running.stream.cancel();
            let late = peer::error(&running.request.id(), code, "Request cancelled");
            running.say(&late).await;
            assert_eq!(
                shown(&read(&mut running.stream).await),
                ["cancelled null"],
                "{code}"
            );
            running.assert_cancels(1).await;
        }
        let mut running = Running::start(|stream| stream).await;
        let crossed = peer::error(&running.request.id(), -32800, "Request cancelled");
        running.say(&crossed).await;
        let events = read(&mut running.stream).await;
        assert_eq!(events[0].kind, EventKind::Cancelled);
        running.assert_cancels(0).await;
        let mut running = Running::start(|stream| stream).await;
        let unasked = peer::error(&running.request.id(), 0, "Request cancelled");
        running.say(&unasked).await;
        let events = read(&mut running.stream).await;
        assert!(
            matches!(events[0].error(), Some(Error::Rpc { code: 0, .. })),
            "{events:?}"
        );
        running.assert_cancels(0).await;
    });
}

//
#[test]
fn close_cancels_first_and_gives_the_session_up_last() {
    run(async || {
        let mut running = Running::start(|stream| stream).await;
        let other = running.hub.call_tool_stream("stream", ());
        let mut other = Box::pin(other);
        let (request, _wire) = tokio::select! {
            biased;
            event = other.next() => panic!("{event:?}"),
            handed = running.peer.handed() => handed,
        };
        let list = tokio::spawn({
            let hub = running.hub.clone();
            async move { hub.list_tools().await }
        });
        list.await.unwrap();
        running.hub.close().await;
        let heard = running.peer.heard();
        let last = &heard[heard.len() - 3..];
        assert_eq!(
            last,
            [
                "notifications/cancelled",
                "notifications/cancelled",
                "DELETE"
            ]
        );
        let delete = running.peer.seen().pop().unwrap();
        assert_eq!(delete.header("mcp-session-id"), Some("s-1"));
        assert_eq!(delete.header("mcp-protocol-version"), Some("2025-11-25"));
        let mut ids: Vec<_> = running
            .peer
            .seen_of("notifications/cancelled")
            .iter()
            .map(|cancel| cancel.json()["params"]["requestId"].as_i64().unwrap())
            .collect();
        ids.sort_unstable();
        let running_ids = [&running.request, &request].map(|r| r.id().as_i64().unwrap());
        assert_eq!(ids, running_ids);
        for stream in [&mut running.stream, &mut *other] {
            let events = read(stream).await;
            let error = events[0].error().unwrap();
            assert!(matches!(error, Error::Closed { .. }), "{error:?}");
            assert_eq!(error.tool(), Some("stream"), "{error:?}");
        }
    });
}

#[test]
fn disconnect_ends_the_calls_of_that_server_only() {
    run(async || {
        let mut running = Running::start(|stream| stream).await;
        let other = Peer::polite().await;
        other.connect(&running.hub, "q").await;
        running.hub.disconnect("p").await.unwrap();
        let events = read(&mut running.stream).await;
        assert!(
            matches!(events[0].error(), Some(Error::Closed { .. })),
            "{events:?}"
        );
        let text = events[0].text().unwrap();
        assert!(text.starts_with("p/stream: "), "{text}");
        assert_eq!(running.hub.call_tool("q/echo", ()).await.unwrap(), "done");
        running.wire.hung_up().await;
        running.assert_cancels(1).await;
    });
}

#[test]
fn close_does_not_wait_for_an_answer_that_never_comes() {
    run(async || {
        let peer = Peer::start(|request| match &*request.what() {
            "tools/list" if request.id() != FIRST_LIST => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let hub = peer.hub().await;
        let listing = tokio::spawn({
            let hub = hub.clone();
            async move { hub.list_tools().await }
        });
        let (_, mut wire) = peer.handed().await;
        hub.close().await;
        assert_eq!(peer.heard().last().unwrap(), "DELETE");
        wire.hung_up().await;
        listing.await.unwrap();
    });
}

#[test]
fn dropping_the_last_clone_ends_everything_at_once() {
    run(async || {
        let Running {
            hub,
            peer,
            mut stream,
            mut wire,
            ..
        } = Running::start(|s| s).await;
        let clone = hub.clone();
        drop(hub);
        assert!(
            stream.next().now_or_never().is_none(),
            "a clone keeps the hub"
        );
        drop(clone);
        let events = read(&mut stream).await;
        assert!(
            matches!(events[0].error(), Some(Error::Closed { .. })),
            "{events:?}"
        );
        wire.hung_up().await;
        assert!(peer.seen_of("DELETE").is_empty());
        // One that began before and was not polled yet ends the same way.
        let hub = peer.hub().await;
        let mut never = hub.call_tool_stream("stream", ());
        drop(hub);
        let events = read(&mut never).await;
        assert!(
            matches!(events[0].error(), Some(Error::Closed { .. })),
            "{events:?}"
        );
    });
}

#[test]
fn a_reader_that_waits_is_woken_by_the_end_of_the_hub() {
    run(async || {
        for answered in [false, true] {
            let peer = Peer::calls(|_| Answer::Hand).await;
            let hub = peer.hub().await;
            let mut stream = hub.call_tool_stream("stream", ());
            let reading = tokio::spawn(async move { read(&mut stream).await });
            let (_, mut wire) = peer.handed().await;
            if answered {
                wire.write(SSE_HEAD).await;
            }
            drop(hub);
            let events = reading.await.unwrap();
            assert!(
                matches!(events[0].error(), Some(Error::Closed { .. })),
                "{events:?}"
            );
            wire.hung_up().await;
        }
    });
}

#[test]
fn a_reader_that_waits_for_the_words_of_a_refusal_is_woken_too() {
    run(async || {
        let peer = Peer::calls(|_| Answer::Hand).await;
        let seen = Seen::default();
        let hub = seen.hub();
        peer.connect(&hub, "p").await;
        let mut stream = hub
            .call_tool_stream("stream", ())
            .timeout(Duration::from_millis(50));
        let reading = tokio::spawn(async move { read(&mut stream).await });
        let (_, mut wire) = peer.handed().await;
        wire.write("HTTP/1.1 500 Oops\r\nContent-Length: 10\r\n\r\nhalf")
            .await;
        let events = reading.await.unwrap();
        assert!(
            matches!(events[0].error(), Some(Error::Timeout { .. })),
            "{events:?}"
        );
        peer.wait_for("notifications/cancelled", 1).await;
        wire.hung_up().await;
    });
}

#[test]
fn cancelling_many_calls_at_once_tells_each_of_them() {
    run(async || {
        const CALLS: usize = 100;
        let peer = Peer::calls(|_| Answer::Hand).await;
        let hub = peer.hub().await;
        let mut streams = Vec::new();
        let mut wires = Vec::new();
        for n in 0..CALLS {
            let mut stream = hub.call_tool_stream("stream", json!({"n": n}));
            wires.push(tokio::select! {
                biased;
                event = stream.next() => panic!("{event:?}"),
                (_, wire) = peer.handed() => wire,
            });
            streams.push(stream);
        }
        drop(streams);
        let cancels = peer.wait_for("notifications/cancelled", CALLS).await;
        let ids: std::collections::HashSet<String> = cancels
            .iter()
            .map(|cancel| cancel.json()["params"]["requestId"].to_string())
            .collect();
        assert_eq!((cancels.len(), ids.len()), (CALLS, CALLS));
        for mut wire in wires {
            wire.hung_up().await;
        }
    });
}
