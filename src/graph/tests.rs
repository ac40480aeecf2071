//! Graphs at work.

use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use futures_util::future::{join, join_all};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::error::{Error, Result};
use crate::event::{Content, EventKind, StreamEvent};

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct Draft {
    text: String,
    attempts: u32,
    decision: &'static str,
}

/// As `[type, content, node]`.
fn shown(event: &StreamEvent) -> Value {
    let event = serde_json::to_value(event).unwrap();
    json!([event["type"], event["content"], event["node"]])
}

async fn events<S: Send + 'static>(run: &mut GraphRun<S>) -> Vec<Value> {
    let mut seen = Vec::new();
    while let Some(event) = run.next().await {
        seen.push(shown(&event));
    }
    seen
}

/// A loop of drafts with a node that fails and one that fails once on its way round.
fn drafts() -> LlmGraph<Draft> {
    LlmGraph::builder()
        .add_node("fetch", async |_draft, ctx| {
            ctx.log("looking for sources").await?;
            Err(NodeError::new("no network"))
        })
        .add_node("write", async |mut draft: GraphState<Draft>, ctx| {
            let attempt = draft.attempts + 1;
            for word in ["draft ".to_owned(), attempt.to_string()] {
                ctx.send("answer_text", word).await?;
            }
            draft.attempts = attempt;
            draft.text = format!("draft {attempt}");
            Ok(())
        })
        .add_node("check", async |mut draft: GraphState<Draft>, ctx| {
            ctx.log(json!({"attempts": draft.attempts})).await?;
            if draft.attempts == 2 {
                return Err(NodeError::new("cannot judge"));
            }
            draft.decision = if draft.attempts < 3 {
                "retry"
            } else {
                "publish"
            };
            Ok(())
        })
        .add_node("publish", async |_draft, ctx| {
            ctx.image("data:,x").await?;
            Ok(())
        })
        .add_edge(START, "fetch")
        .add_edge("fetch", "write")
        .add_edge("write", "check")
        .add_conditional_edge(
            "check",
            |draft| draft.decision,
            [("retry", "write"), ("publish", "publish")],
        )
        .build()
        .unwrap()
}

/// What llm-graph-kit 1.1.2 yields for the same graph, with the node of its error events, which it
/// calls `agent`.
#[tokio::test]
async fn a_retry_loop_with_failing_nodes_gives_the_events_of_llm_graph_kit() {
    let mut run = drafts().run(Draft::default());
    let wanted = [
        json!(["log", "looking for sources", "fetch"]),
        json!(["error", "no network", "fetch"]),
        json!(["answer_text", "draft ", "write"]),
        json!(["answer_text", "1", "write"]),
        json!(["log", {"attempts": 1}, "check"]),
        json!(["answer_text", "draft ", "write"]),
        json!(["answer_text", "2", "write"]),
        json!(["log", {"attempts": 2}, "check"]),
        json!(["error", "cannot judge", "check"]),
        json!(["answer_text", "draft ", "write"]),
        json!(["answer_text", "3", "write"]),
        json!(["log", {"attempts": 3}, "check"]),
        json!(["image", "data:,x", "publish"]),
    ];
    assert_eq!(events(&mut run).await, wanted);
    assert_eq!(run.next().await.map(|e| shown(&e)), None, "it stays ended");
    let done = run.finish().await.unwrap();
    assert_eq!((&*done.text, done.attempts), ("draft 3", 3));
    let errors: Vec<String> = done.errors().iter().map(ToString::to_string).collect();
    let wanted = ["error in fetch: no network", "error in check: cannot judge"];
    assert_eq!(errors, wanted);
    assert_eq!(done.into_inner().decision, "publish");
}

/// It runs eight nodes: so many may, and of seven the last event says at which node it stopped.
#[tokio::test]
async fn a_run_over_its_steps_is_an_error_and_says_where() {
    let run = drafts().run(Draft::default()).max_steps(8);
    assert_eq!(run.finish().await.unwrap().attempts, 3);
    for steps in [7, 0] {
        let mut run = drafts().run(Draft::default()).max_steps(steps);
        let node = if steps == 0 { "fetch" } else { "publish" };
        let text = format!("the limit `max_steps` of {steps} was hit");
        let last = events(&mut run).await.pop();
        assert_eq!(last, Some(json!(["terminal_error", text, node])), "{steps}");
        let error = run.finish().await.unwrap_err();
        assert!(
            matches!(error, Error::Limit { what: "max_steps", max, .. } if max == steps as u64),
            "{error:?}"
        );
    }
    let endless = LlmGraph::<u32>::builder()
        .add_node("round", async |mut n: GraphState<u32>, _ctx| *n += 1)
        .add_edge(START, "round")
        .add_edge("round", "round")
        .build()
        .unwrap();
    let error = endless.run(0).finish().await.unwrap_err();
    assert!(matches!(error, Error::Limit { max: 100, .. }), "{error:?}");
}

#[tokio::test]
async fn a_panic_is_an_error_event_and_the_run_goes_on_with_what_was_changed() {
    #[allow(unreachable_code, reason = "its type is that of a node that ends")]
    let graph = LlmGraph::<Vec<&str>>::builder()
        .add_node("bad", async |mut seen: GraphState<Vec<&str>>, ctx| {
            seen.push("bad");
            ctx.text("a").await?;
            panic!("a secret");
            Ok(())
        })
        .add_node("worse", |_: GraphState<Vec<&str>>, _: NodeContext| {
            panic!("before its future is there");
            ready(())
        })
        .add_node("good", async |mut seen: GraphState<Vec<&str>>, ctx| {
            let failed: Vec<String> = seen.errors().iter().map(|e| e.node.to_string()).collect();
            ctx.log(failed).await?;
            seen.push("good");
            Ok(())
        })
        .add_edge(START, "bad")
        .add_edge("bad", "worse")
        .add_edge("worse", "good")
        .build()
        .unwrap();
    let mut run = graph.run(Vec::new());
    let wanted = [
        json!(["text", "a", "bad"]),
        json!(["error", "the node panicked", "bad"]),
        json!(["error", "the node panicked", "worse"]),
        json!(["log", ["bad", "worse"], "good"]),
    ];
    assert_eq!(events(&mut run).await, wanted);
    let done = run.finish().await.unwrap();
    assert_eq!((done.len(), done.errors().len()), (2, 2));
}

#[tokio::test]
async fn a_signal_that_panics_ends_the_run_with_an_error() {
    let graph = LlmGraph::<Vec<u8>>::builder()
        .add_node("a", async |_, _| ())
        .add_edge(START, "a")
        .add_conditional_edge("a", |bytes| bytes[0], [(1, "a")])
        .build()
        .unwrap();
    let mut run = graph.run(Vec::new());
    let text = "the signal of the conditional edge from `a` panicked";
    let wanted = [json!(["terminal_error", text, "a"])];
    assert_eq!(events(&mut run).await, wanted);
    assert_eq!(run.finish().await.unwrap_err().to_string(), text);
}

#[tokio::test]
async fn a_node_that_keeps_the_state_ends_the_run_with_an_error() {
    let kept = Arc::new(Mutex::new(None));
    let graph = LlmGraph::<u8>::builder()
        .add_node_with("a", kept.clone(), async |kept: Arc<Mutex<_>>, state, _| {
            *kept.lock().unwrap() = Some(state);
        })
        .add_edge(START, "a")
        .build()
        .unwrap();
    let error = graph.run(7).finish().await.unwrap_err().to_string();
    assert!(error.contains("`a` kept the state"), "{error}");
    assert_eq!(**kept.lock().unwrap().as_ref().unwrap(), 7);
}

#[tokio::test]
async fn signals_are_compared_by_what_they_show_and_an_unknown_one_ends_the_run() {
    for (signal, wanted) in [(1, 10), (2, 200), (3, 3)] {
        let graph = LlmGraph::<u32>::builder()
            .add_node("route", async |_, _| ())
            .add_node("one", async |mut n: GraphState<u32>, _| *n *= 10)
            .add_node("two", async |mut n: GraphState<u32>, _| *n *= 100)
            .add_edge(START, "route")
            .add_conditional_edge("route", |n| **n, [("1", "one"), ("2", "two")])
            .build()
            .unwrap();
        let done = graph.run(signal).finish().await.unwrap();
        assert_eq!(*done, wanted, "signal {signal}");
    }
    let routes = [(true, END), (false, "flip")];
    let graph = LlmGraph::<bool>::builder()
        .add_node("flip", async |mut on: GraphState<bool>, _| *on = !*on)
        .add_edge(START, "flip")
        .add_conditional_edge("flip", |on| **on, routes)
        .build()
        .unwrap();
    assert!(*graph.run(true).finish().await.unwrap());
    assert_eq!(graph.run(false).next().await.map(|e| shown(&e)), None);
}

#[test]
fn a_wrong_graph_is_refused_with_what_and_where() {
    type Builder = LlmGraphBuilder<u8>;
    let nodes = || {
        LlmGraph::builder()
            .add_node("a", async |_, _| ())
            .add_node("b", async |_, _| ())
    };
    let cases: [(&str, Builder, &str); 17] = [
        (
            "no node",
            LlmGraph::builder(),
            "no edge leads away from START",
        ),
        (
            "no edge from START",
            nodes().add_edge("a", "b"),
            "no edge leads away from START",
        ),
        (
            "two edges from START",
            nodes().add_edge(START, "a").add_edge(START, "b"),
            "two edges lead away from `START`",
        ),
        (
            "START leads nowhere",
            nodes().add_edge(START, "c"),
            "the edge from `__START__` leads to `c`, which is no node of the graph; its nodes: a, b",
        ),
        (
            "an edge leads nowhere",
            nodes().add_edge(START, "a").add_edge("a", "c"),
            "the edge from `a` leads to `c`, which is no node",
        ),
        (
            "a key leads nowhere",
            nodes()
                .add_edge(START, "a")
                .add_conditional_edge("a", |n| **n, [(1, "c")]),
            "the edge from `a` for the key `1` leads to `c`",
        ),
        (
            "an edge comes from nowhere",
            nodes().add_edge(START, "a").add_edge("c", "a"),
            "an edge leads away from `c`, which is no node",
        ),
        (
            "a conditional edge comes from nowhere",
            nodes()
                .add_edge(START, "a")
                .add_conditional_edge("c", |n| **n, [(1, "a")]),
            "an edge leads away from `c`, which is no node",
        ),
        (
            "an edge from END",
            nodes().add_edge(START, "a").add_edge(END, "a"),
            "away from `__END__`, which is where a run ends",
        ),
        (
            "an edge to START",
            nodes().add_edge(START, "a").add_edge("a", START),
            "leads to `__START__`, which is where a run begins",
        ),
        (
            "START branches",
            nodes().add_conditional_edge(START, |n| **n, [(1, "a")]),
            "the edge from START is conditional",
        ),
        (
            "two edges from one node",
            nodes()
                .add_edge(START, "a")
                .add_edge("a", "b")
                .add_edge("a", END),
            "two edges lead away from `a`: join them into one conditional edge",
        ),
        (
            "a plain and a conditional edge",
            nodes()
                .add_edge(START, "a")
                .add_conditional_edge("a", |n| **n, [(1, "b")])
                .add_edge("a", "b"),
            "two edges lead away from `a`",
        ),
        (
            "a key twice",
            nodes()
                .add_edge(START, "a")
                .add_conditional_edge("a", |n| **n, [(1, "a"), (1, "b")]),
            "has the key `1` twice",
        ),
        (
            "a node twice",
            nodes().add_node("a", async |_, _| ()).add_edge(START, "a"),
            "the node `a` was added twice",
        ),
        (
            "a reserved name",
            nodes().add_node(END, async |_, _| ()).add_edge(START, "a"),
            "the name `__END__` of a node is reserved",
        ),
        (
            "no name",
            nodes().add_node("", async |_, _| ()).add_edge(START, "a"),
            "a node of the graph has no name",
        ),
    ];
    for (case, builder, wanted) in cases {
        let error = builder.build().expect_err(case);
        assert!(matches!(error, Error::Config { .. }), "{case}: {error:?}");
        assert!(error.to_string().contains(wanted), "{case}: {error}");
    }
    // Python's library takes a node that no edge leads to as well.
    nodes().add_edge(START, "a").build().unwrap();
}

/// Like a generator: an event is out before the node goes on, and it goes on when that was read.
#[tokio::test]
async fn a_node_goes_on_only_when_its_event_was_read() {
    let done = Arc::new(AtomicUsize::new(0));
    let graph = LlmGraph::<()>::builder()
        .add_node_with(
            "fast",
            done.clone(),
            async |done: Arc<AtomicUsize>, _, ctx| {
                for n in 1..=3 {
                    ctx.text(n.to_string()).await?;
                    done.store(n, Ordering::Relaxed);
                }
                Ok(())
            },
        )
        .add_edge(START, "fast")
        .build()
        .unwrap();
    let mut run = graph.run(());
    assert_eq!(done.load(Ordering::Relaxed), 0, "nothing runs unread");
    for read in 1..=3 {
        let event = run.next().await.unwrap();
        assert_eq!(event.text().unwrap(), read.to_string());
        assert_eq!(done.load(Ordering::Relaxed), read - 1, "event {read}");
    }
    run.finish().await.unwrap();
    assert_eq!(done.load(Ordering::Relaxed), 3);
}

/// Each has its turn, whoever is polled first, under the reader's waker or its own.
#[tokio::test(start_paused = true)]
async fn parts_of_a_node_that_emit_at_once_take_turns() {
    async fn count(ctx: &NodeContext, name: char) -> Result<()> {
        for _ in 0..3 {
            ctx.text(name).await?;
        }
        Ok(())
    }
    let graph = LlmGraph::<bool>::builder()
        .add_node("both", async |own_wakers: GraphState<bool>, ctx| {
            if *own_wakers {
                join_all((0..40).map(|n| count(&ctx, if n < 20 { 'a' } else { 'b' }))).await;
            } else {
                let _ = join(count(&ctx, 'a'), count(&ctx, 'b')).await;
            }
        })
        .add_edge(START, "both")
        .build()
        .unwrap();
    for (own_wakers, each) in [(false, 1), (true, 20)] {
        let mut run = graph.run(own_wakers);
        let mut text = String::new();
        let next = async |run: &mut GraphRun<bool>| timeout(PATIENCE, run.next()).await;
        while let Some(event) = next(&mut run).await.expect("one is never woken") {
            text.push_str(event.text().unwrap());
        }
        let round = "a".repeat(each) + &"b".repeat(each);
        assert_eq!(text, round.repeat(3), "own wakers: {own_wakers}");
    }
}

/// A task of the node's wakes the reader, may emit while the run goes on, and learns of its end.
#[tokio::test(start_paused = true)]
async fn a_task_that_a_node_left_behind_can_emit_until_the_run_ends() {
    let (ended, seen) = tokio::sync::oneshot::channel();
    let ended = Arc::new(Mutex::new(Some(ended)));
    let graph = LlmGraph::<()>::builder()
        .add_node_with("a", ended, async |ended: Arc<Mutex<Option<_>>>, _, ctx| {
            let late = ctx.clone();
            let ended: tokio::sync::oneshot::Sender<Result<()>> =
                ended.lock().unwrap().take().unwrap();
            let (sent, was_sent) = tokio::sync::oneshot::channel();
            tokio::spawn(async move {
                late.text("from a task").await.unwrap();
                sent.send(()).unwrap();
                ended.send(late.text("too late").await)
            });
            was_sent.await.unwrap();
        })
        .add_edge(START, "a")
        .build()
        .unwrap();
    let mut run = graph.run(());
    // Not `timeout`, which looks at the run once more when the time is up.
    let first = tokio::select! {
        biased;
        () = tokio::time::sleep(PATIENCE) => panic!("nobody woke the reader"),
        event = run.next() => event.unwrap(),
    };
    assert_eq!(shown(&first), json!(["text", "from a task", "a"]));
    run.finish().await.unwrap();
    let error = seen.await.unwrap().unwrap_err();
    assert!(
        matches!(error, Error::Closed { what: "stream", .. }),
        "{error:?}"
    );
}

/// Reader and emitter are one task here, so it has to wake itself.
#[tokio::test(start_paused = true)]
async fn whoever_reads_a_run_may_emit_in_it_too() {
    let kept: Arc<Mutex<Option<NodeContext>>> = Arc::default();
    let graph = LlmGraph::<()>::builder()
        .add_node_with(
            "a",
            kept.clone(),
            async |kept: Arc<Mutex<_>>, _, ctx: NodeContext| {
                *kept.lock().unwrap() = Some(ctx.clone());
                ctx.text("from the node").await?;
                pending::<Result<(), NodeError>>().await
            },
        )
        .add_edge(START, "a")
        .build()
        .unwrap();
    let mut run = graph.run(());
    run.next().await.unwrap();
    let ctx = kept.lock().unwrap().take().unwrap();
    let (sent, event) = tokio::select! {
        biased;
        () = tokio::time::sleep(PATIENCE) => panic!("nobody woke the emitter"),
        both = join(ctx.text("from the reader"), run.next()) => both,
    };
    sent.unwrap();
    let wanted = json!(["text", "from the reader", "a"]);
    assert_eq!(shown(&event.unwrap()), wanted);
}

#[tokio::test]
async fn an_event_that_is_given_up_unread_is_not_sent() {
    let graph = LlmGraph::<()>::builder()
        .add_node("a", async |_, ctx: NodeContext| {
            {
                let mut text = Box::pin(ctx.text("given up"));
                let mut cx = Context::from_waker(Waker::noop());
                assert!(text.as_mut().poll(&mut cx).is_pending());
            }
            ctx.text("kept").await?;
            Ok(())
        })
        .add_edge(START, "a")
        .build()
        .unwrap();
    let wanted = [json!(["text", "kept", "a"])];
    assert_eq!(events(&mut graph.run(())).await, wanted);
}

#[test]
fn dropping_a_run_drops_its_node() {
    let owned = Arc::new(());
    let graph = LlmGraph::<()>::builder()
        .add_node_with("wait", owned.clone(), async |_owned, _, ctx| {
            ctx.text("here").await?;
            pending::<()>().await;
            Ok(())
        })
        .add_edge(START, "wait")
        .build()
        .unwrap();
    let mut run = graph.run(());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut run).poll_next(&mut cx).is_ready());
    assert!(Pin::new(&mut run).poll_next(&mut cx).is_pending());
    assert_eq!(Arc::strong_count(&owned), 3, "the node has its own");
    drop(run);
    assert_eq!(Arc::strong_count(&owned), 2);
}

#[tokio::test]
async fn each_method_emits_its_kind_under_the_node() {
    let graph = LlmGraph::<()>::builder()
        .add_node(String::from("all"), async |_, ctx: NodeContext| {
            assert_eq!(ctx.node(), &"all");
            ctx.text('t').await?;
            ctx.think("h").await?;
            ctx.log(1).await?;
            ctx.image("i").await?;
            ctx.stl("s").await?;
            ctx.video("v").await?;
            ctx.emotion(json!({"joy": 1})).await?;
            ctx.error("e").await?;
            ctx.send("mine", [1, 2]).await?;
            ctx.send("text", Value::Null).await?;
            ctx.send("result", 1).await?;
            Ok(())
        })
        .add_edge(START, "all")
        .build()
        .unwrap();
    let mut run = graph.run(());
    let wanted = [
        json!(["text", "t", "all"]),
        json!(["think", "h", "all"]),
        json!(["log", 1, "all"]),
        json!(["image", "i", "all"]),
        json!(["stl", "s", "all"]),
        json!(["video", "v", "all"]),
        json!(["emotion_data", {"joy": 1}, "all"]),
        json!(["error", "e", "all"]),
        json!(["mine", [1, 2], "all"]),
        json!(["text", null, "all"]),
        json!([
            "error",
            "an event of type `result` ends a stream; return from the node instead",
            "all"
        ]),
    ];
    assert_eq!(events(&mut run).await, wanted);
}

#[tokio::test]
async fn a_node_passes_the_events_of_another_agent_on() {
    fn theirs() -> Vec<StreamEvent> {
        let (kind, text) = (EventKind::Text, Content::text("hi"));
        vec![
            StreamEvent::notified(kind.clone(), text.clone(), None, (1.0, None), None),
            StreamEvent::notified(kind, text, Some("deep".into()), (2.0, None), None),
            StreamEvent::failure(Error::closed("connection")),
        ]
    }
    let graph = LlmGraph::<bool>::builder()
        .add_node("ask", async |mut failed: GraphState<bool>, ctx| {
            let last = ctx.forward(stream::iter(theirs())).await?;
            *failed = last.is_some_and(|event| event.error().is_some());
            Ok(())
        })
        .add_edge(START, "ask")
        .build()
        .unwrap();
    let mut run = graph.run(false);
    let wanted = [
        json!(["text", "hi", "ask"]),
        json!(["text", "hi", "deep"]),
        json!(["error", "connection closed", "ask"]),
    ];
    assert_eq!(events(&mut run).await, wanted);
    assert!(*run.finish().await.unwrap());
}

#[test]
fn a_chart_holds_whatever_a_name_or_a_key_is() {
    let graph = LlmGraph::<()>::builder()
        .add_node("ask", async |_, _| ())
        .add_node("say \"<hi>\"\n#1", async |_, _| ())
        .add_node("end", async |_, _| ())
        .add_node("調べる", async |_, _| ())
        .add_edge(START, "ask")
        .add_conditional_edge(
            "ask",
            |_| "",
            [
                ("yes", "say \"<hi>\"\n#1"),
                ("no | maybe", "end"),
                ("後で", "調べる"),
            ],
        )
        .add_edge("end", END)
        .build()
        .unwrap();
    let wanted = r##"graph TD
  __START__(START)
  __END__(END)
  ask{"ask"}
  __NODE_1__["say #34;#60;hi#62;#34; #35;1"]
  __NODE_2__["end"]
  __NODE_3__["調べる"]
  __START__ --> ask
  ask -- yes --> __NODE_1__
  ask -- "no | maybe" --> __NODE_2__
  ask -- "後で" --> __NODE_3__
  __NODE_1__ --> __END__
  __NODE_2__ --> __END__
  __NODE_3__ --> __END__
"##;
    assert_eq!(graph.to_mermaid(), wanted);
}

/// Whatever its state is.
#[test]
fn a_run_may_go_anywhere() {
    fn anywhere<T: Send + Unpin + 'static>(_: &T) {}
    let graph = LlmGraph::<std::cell::Cell<u8>>::builder()
        .add_node("a", async |n, ctx| {
            n.set(1);
            ctx.log(n.get()).await?;
            Ok(())
        })
        .add_edge(START, "a")
        .build()
        .unwrap();
    anywhere(&graph);
    anywhere(&graph.run(std::cell::Cell::new(0)));
    let mut run = graph.run(std::cell::Cell::new(0));
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(event)) = Pin::new(&mut run).poll_next(&mut cx) else {
        panic!("no runtime is needed");
    };
    assert_eq!(shown(&event), json!(["log", 1, "a"]));
}
