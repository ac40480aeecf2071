//! What is left of a call and of a list, whatever way they end: nothing.

mod eras;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::client::{AgentHubClient, CallStream};
use crate::mcp::frame::{Frame, SessionId, Verb};
use crate::mcp::version::Era;
use crate::transport::{BoxFuture, Media, Messages, Reply, ReplyHead, Sent};

mod stateless;

/// How a peer without a network answers.
#[derive(Clone)]
enum Answer {
    /// Not at all.
    Never,
    /// The connection breaks before an answer.
    Break,
    /// With these messages. Then the reply ends, or stays open.
    Messages(Vec<String>, Then),
    /// With a refusal whose words never come.
    Mute(u16),
    Status(u16, &'static str),
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    Break,
    End,
    Open,
}

type Script = dyn Fn(&str, &Value) -> Answer + Send + Sync;

struct FakeLink {
    script: Box<Script>,
    replies: Replies,
    sent: Arc<Mutex<Vec<String>>>,
}

/// How many replies are held somewhere.
#[derive(Clone, Default)]
struct Replies(Arc<AtomicUsize>);

struct Held(Replies);

impl Replies {
    fn held(&self) -> Held {
        self.0.fetch_add(1, SeqCst);
        Held(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
    }
}

struct FakeMessages {
    waiting: VecDeque<String>,
    then: Then,
    _held: Held,
}

impl Messages for FakeMessages {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        match (self.waiting.pop_front(), self.then) {
            (Some(message), _) => Poll::Ready(Some(Ok(message.into()))),
            (None, Then::Open) => Poll::Pending,
            (None, Then::End) => Poll::Ready(None),
            (None, Then::Break) => Poll::Ready(Some(Err(Error::transport("reset")))),
        }
    }

    fn poll_excerpt(&mut self, _: usize, _: &mut Context<'_>) -> Poll<String> {
        match self.then {
            Then::Open => Poll::Pending,
            Then::Break | Then::End => Poll::Ready(self.waiting.pop_front().unwrap_or_default()),
        }
    }

    fn finish(self: Box<Self>) {}
}

impl Link for FakeLink {
    fn send(&self, frame: Frame) -> BoxFuture<'static, Result<Sent>> {
        let message: Value = serde_json::from_slice(&frame.body).unwrap_or_default();
        let what = match frame.verb {
            Verb::Delete => "DELETE",
            Verb::Get => "GET",
            Verb::Post => message["method"].as_str().unwrap_or("response"),
        };
        self.sent.lock().unwrap().push(what.to_owned());
        let answer = (self.script)(what, &message);
        let held = self.replies.held();
        Box::pin(async move {
            let reply = |status, media, waiting, then, held| {
                Sent::Reply(Reply {
                    head: ReplyHead {
                        status,
                        media,
                        session_id: SessionId::parse("s-1"),
                        authenticate: None,
                    },
                    messages: Box::new(FakeMessages {
                        waiting,
                        then,
                        _held: held,
                    }),
                })
            };
            match answer {
                Answer::Break => Err(Error::transport("reset")),
                Answer::Messages(messages, then) => {
                    Ok(reply(200, Media::Sse, messages.into(), then, held))
                }
                Answer::Mute(status) => Ok(reply(
                    status,
                    Media::Other,
                    VecDeque::new(),
                    Then::Open,
                    held,
                )),
                Answer::Never => {
                    let _held = held;
                    std::future::pending().await
                }
                Answer::Status(status, body) => {
                    let body = VecDeque::from([body.to_owned()]);
                    Ok(reply(status, Media::Other, body, Then::End, held))
                }
            }
        })
    }

    fn sweep(&self) {}

    fn close(&self) {}

    fn target(&self) -> &'static str {
        "nowhere"
    }
}

impl fmt::Debug for FakeLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeLink")
    }
}

fn result(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}).to_string()
}

fn progress(token: &Value) -> String {
    let params = json!({"progressToken": token, "progress": 1, "message": "m"});
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string()
}

/// What a well-behaved peer answers to all but calls.
fn polite(what: &str, message: &Value) -> Answer {
    let id = &message["id"];
    let one = |result: Value| {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result});
        Answer::Messages(vec![body.to_string()], Then::End)
    };
    match what {
        "initialize" => one(json!({"protocolVersion": "2025-11-25"})),
        "server/discover" => one(json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}},
        })),
        "subscriptions/listen" => {
            let error = json!({"code": -32601, "message": "no"});
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error});
            Answer::Messages(vec![body.to_string()], Then::End)
        }
        "tools/list" => one(json!({"tools": [{"name": "t"}]})),
        _ => Answer::Status(202, ""),
    }
}

struct Fake {
    hub: AgentHubClient,
    connection: Arc<Connection>,
    replies: Replies,
    sent: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    async fn connect(
        limits: Limits,
        script: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::connect_to(Era::Legacy, limits, script).await
    }

    async fn connect_to(
        era: Era,
        limits: Limits,
        script: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let hub = AgentHubClient::builder().limits(limits.clone()).build();
        let (replies, sent) = (Replies::default(), Arc::default());
        let link = FakeLink {
            script: Box::new(script),
            replies: replies.clone(),
            sent: Arc::clone(&sent),
        };
        let shared = hub.shared().clone();
        shared
            .connect(
                crate::client::connect::Candidate::over("p".into(), Box::new(link), limits, era),
                crate::client::connect::Policy::default(),
            )
            .await
            .unwrap();
        let (_, connection) = shared.resolve("t", None).unwrap();
        Self {
            hub,
            connection,
            replies,
            sent,
        }
    }

    async fn calls(call: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        Self::connect(Limits::default(), move |what, message| match what {
            "tools/call" => call(message),
            _ => polite(what, message),
        })
        .await
    }

    fn count(&self, what: &str) -> usize {
        let sent = self.sent.lock().unwrap();
        sent.iter().filter(|sent| *sent == what).count()
    }

    /// Nothing may be left once all that is under way had its time.
    async fn assert_nothing_left(&self, case: &str, cancels: usize) {
        sleep(Duration::from_secs(100)).await;
        assert_eq!(self.leftovers(), [0; 9], "{case}: {LEFTOVERS:?}");
        assert_eq!(self.replies.count(), 0, "{case}: replies");
        assert_eq!(
            self.count("notifications/cancelled"),
            cancels,
            "{case}: cancels"
        );
    }

    fn leftovers(&self) -> [usize; 9] {
        let pending = self.connection.session(ClientSession::pending_count);
        let shared = self.connection.shared();
        let [outgoing, retired, ending] = shared.outgoing.counts();
        [
            pending,
            outgoing,
            retired,
            ending,
            shared.inboxes.len(),
            shared.full.len(),
            shared.opening.len(),
            shared.listing.len(),
            shared.listening.len(),
        ]
    }
}

const LEFTOVERS: &str =
    "pending, outgoing, retired, ending, inboxes, full, opening, listing, listening";

async fn read(mut stream: CallStream) -> StreamEvent {
    let mut events = Vec::new();
    let hour = Duration::from_secs(3600);
    while let Some(event) = timeout(hour, stream.next()).await.expect("an end") {
        events.push(event);
    }
    let ends = events.iter().filter(|event| event.is_terminal()).count();
    let last = events.pop().unwrap();
    assert!(ends == 1 && last.is_terminal(), "{events:?} {last:?}");
    last
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_call_that_was_read_to_its_end() {
    let (ten, id) = (Duration::from_secs(10), |message: &Value| {
        message["id"].clone()
    });
    // the answer, the options, how many cancels are told
    type Call = fn(&Value) -> Answer;
    let table: [(&str, Call, usize); 10] = [
        (
            "a result",
            |m| Answer::Messages(vec![progress(&m["id"]), result(&m["id"])], Then::End),
            0,
        ),
        (
            "a result, then silence",
            |m| Answer::Messages(vec![result(&m["id"])], Then::Open),
            0,
        ),
        (
            "a batch",
            |m| {
                Answer::Messages(
                    vec![format!("[{},{}]", progress(&m["id"]), result(&m["id"]))],
                    Then::End,
                )
            },
            0,
        ),
        ("silence", |_| Answer::Never, 1),
        (
            "silence after an event",
            |m| Answer::Messages(vec![progress(&m["id"])], Then::Open),
            1,
        ),
        (
            "an early end",
            |m| Answer::Messages(vec![progress(&m["id"])], Then::End),
            1,
        ),
        ("a break", |_| Answer::Messages(vec![], Then::Break), 1),
        ("no answer", |_| Answer::Break, 0),
        ("a refusal", |_| Answer::Status(500, "no"), 0),
        ("a refusal without words", |_| Answer::Mute(500), 1),
    ];
    for (case, call, cancels) in table {
        for idle in [false, true] {
            let fake = Fake::calls(call).await;
            let stream = fake.hub.call_tool_stream("t", ());
            read(match idle {
                true => stream.idle_timeout(ten),
                false => stream.timeout(ten),
            })
            .await;
            fake.assert_nothing_left(case, cancels).await;
        }
    }
    // An error that is found through the id of its reply.
    let fake = Fake::calls(move |message| {
        let error =
            json!({"jsonrpc": "2.0", "error": {"code": 1, "message": id(message).to_string()}});
        Answer::Messages(vec![error.to_string()], Then::Open)
    })
    .await;
    read(fake.hub.call_tool_stream("t", ())).await;
    fake.assert_nothing_left("an error without an id", 0).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_call_that_was_given_up() {
    type Call = fn(&Value) -> Answer;
    let answers: [(&str, Call); 4] = [
        ("never answered", |_| Answer::Never),
        ("open", |m| {
            Answer::Messages(vec![progress(&m["id"])], Then::Open)
        }),
        ("refused without words", |_| {
            Answer::Messages(vec![], Then::Open)
        }),
        ("answered", |m| {
            Answer::Messages(
                vec![progress(&m["id"]), progress(&m["id"]), result(&m["id"])],
                Then::End,
            )
        }),
    ];
    for (case, call) in answers {
        for cancel in [false, true] {
            for told in [
                Answer::Status(202, ""),
                Answer::Never,
                Answer::Break,
                Answer::Messages(vec![], Then::Open),
            ] {
                let fake = Fake::connect(Limits::default(), move |what, message| match what {
                    "tools/call" => call(message),
                    "notifications/cancelled" => told.clone(),
                    _ => polite(what, message),
                })
                .await;
                let mut stream = fake.hub.call_tool_stream("t", ());
                let first = stream.next();
                let _ = timeout(Duration::from_millis(1), first).await;
                match cancel {
                    true => {
                        stream.cancel();
                        assert!(read(stream).await.error().unwrap().is_cancelled());
                    }
                    false => drop(stream),
                }
                fake.assert_nothing_left(case, 1).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_calls_that_end_on_another_ones_reply() {
    for last in ["result", "flood"] {
        let limits = Limits {
            max_queued_events: 3,
            ..Limits::default()
        };
        let fake = Fake::connect(limits, move |what, message| match what {
            // The first call is quiet, the second one's reply speaks for both.
            "tools/call" if message["id"] == 3 => Answer::Messages(vec![], Then::Open),
            "tools/call" => {
                let mut messages = vec![progress(&json!(3)); 10];
                if last == "result" {
                    messages = vec![progress(&json!(3)), result(&json!(3))];
                }
                messages.push(result(&message["id"]));
                Answer::Messages(messages, Then::End)
            }
            _ => polite(what, message),
        })
        .await;
        let mut quiet = fake.hub.call_tool_stream("t", ());
        let _ = timeout(Duration::from_millis(1), quiet.next()).await;
        read(fake.hub.call_tool_stream("t", ())).await;
        read(quiet).await;
        fake.assert_nothing_left(last, usize::from(last == "flood"))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_lost_session() {
    for again in [true, false] {
        let lost = AtomicUsize::new(0);
        let fake = Fake::connect(Limits::default(), move |what, message| match what {
            "tools/call" if message["id"] == 3 => Answer::Status(404, "no session"),
            "tools/call" => Answer::Messages(vec![result(&message["id"])], Then::End),
            "initialize" if lost.fetch_add(1, SeqCst) > 0 && !again => Answer::Never,
            _ => polite(what, message),
        })
        .await;
        let mut dropped = fake.hub.call_tool_stream("t", ());
        let waits = timeout(Duration::from_millis(1), dropped.next()).await;
        assert_eq!(waits.is_ok(), again, "the other one waits for an opening");
        let end = read(
            fake.hub
                .call_tool_stream("t", ())
                .timeout(Duration::from_secs(9)),
        )
        .await;
        assert_eq!(end.error().is_none(), again);
        drop(dropped);
        fake.assert_nothing_left("a lost session", 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_list() {
    for answer in [
        Answer::Never,
        Answer::Break,
        Answer::Status(404, ""),
        Answer::Messages(vec![], Then::Open),
    ] {
        for dropped in [true, false] {
            let shown = answer.clone();
            let fake = Fake::connect(Limits::default(), move |what, message| match what {
                "tools/list" if message["id"] != 2 => shown.clone(),
                _ => polite(what, message),
            })
            .await;
            match dropped {
                true => {
                    let short = Duration::from_millis(1);
                    let _ = timeout(short, fake.hub.list_tools()).await;
                }
                false => assert_eq!(fake.hub.list_tools().await[0].1.len(), 1),
            }
            fake.assert_nothing_left("a list", 0).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_connection_that_ends_with_calls_on_it() {
    for orderly in [true, false] {
        for told in [Answer::Status(202, ""), Answer::Never] {
            let shown = told.clone();
            let fake = Fake::connect(Limits::default(), move |what, message| match what {
                "tools/call" if message["id"] == 3 => Answer::Never,
                "tools/call" => Answer::Messages(vec![progress(&message["id"])], Then::Open),
                "notifications/cancelled" | "DELETE" => shown.clone(),
                "tools/list" if message["id"] != 2 => Answer::Never,
                _ => polite(what, message),
            })
            .await;
            let Fake {
                hub,
                connection,
                replies,
                sent,
            } = fake;
            let mut streams = Vec::new();
            for _ in 0..3 {
                let mut stream = hub.call_tool_stream("t", ());
                let _ = timeout(Duration::from_millis(1), stream.next()).await;
                streams.push(stream);
            }
            let listing = connection.clone();
            let list = tokio::spawn(async move { listing.list(Asker::User).await });
            tokio::task::yield_now().await;
            match orderly {
                true => hub.close().await,
                false => drop(hub),
            }
            assert!(list.await.unwrap().is_err());
            let unread = streams.pop();
            for stream in streams {
                assert!(matches!(
                    read(stream).await.error(),
                    Some(Error::Closed { .. })
                ));
            }
            drop(unread);
            let cancels = match (orderly, told) {
                (true, _) => 3,
                (false, _) => 0,
            };
            let fake = Fake {
                hub: AgentHubClient::builder().build(),
                connection,
                replies,
                sent,
            };
            fake.assert_nothing_left("the end of a connection", cancels)
                .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_messages_that_were_pushed_out() {
    let limits = Limits {
        max_queued_messages: 2,
        ..Limits::default()
    };
    let fake = Fake::connect(limits, |what, message| match what {
        "tools/call" => Answer::Messages(vec![progress(&message["id"])], Then::Open),
        "notifications/cancelled" => Answer::Never,
        _ => polite(what, message),
    })
    .await;
    let mut streams = Vec::new();
    for _ in 0..300 {
        let mut stream = fake.hub.call_tool_stream("t", ());
        stream.next().await.unwrap();
        streams.push(stream);
    }
    drop(streams);
    assert!(fake.connection.shared().outgoing.counts()[0] <= 2);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(fake.leftovers(), [0; 9], "{LEFTOVERS}");
    assert_eq!(fake.replies.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn neither_what_is_asked_nor_what_is_told_waits_for_the_other() {
    let limits = Limits {
        max_queued_messages: 70,
        ..Limits::default()
    };
    let fake = Fake::connect(limits, |what, message| match what {
        "tools/call" if message["id"] == 4 => {
            let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
            Answer::Messages((0..200).map(ping).collect(), Then::Open)
        }
        "tools/call" => Answer::Messages(vec![progress(&message["id"])], Then::Open),
        "tools/list" if message["id"].as_u64() < Some(60) => polite(what, message),
        "response" | "tools/list" => Answer::Never,
        _ => polite(what, message),
    })
    .await;
    // More answers than may wait push the oldest answers out, and no list that was asked for before.
    let quick = Duration::from_millis(10);
    let mut pings = fake.hub.call_tool_stream("t", ());
    let (lists, _) = tokio::join!(
        timeout(quick, fake.hub.list_tools()),
        timeout(quick, pings.next())
    );
    assert_eq!(lists.expect("no answer is waited for")[0].1.len(), 1);
    // As many answers as can be under way are.
    assert_eq!(fake.count("response"), 64);
    assert_eq!(fake.connection.shared().outgoing.counts()[0], 70 - 64);
    let lists = timeout(quick, fake.hub.list_tools()).await;
    assert_eq!(lists.expect("no answer is waited for")[0].1.len(), 1);
    sleep(Duration::from_secs(10)).await;
    // The other way round: a list that is not answered holds up no cancel.
    let listing: Vec<_> = (0..200)
        .map(|_| {
            let hub = fake.hub.clone();
            tokio::spawn(async move { hub.list_tools().await })
        })
        .collect();
    let mut stream = fake.hub.call_tool_stream("t", ());
    stream.next().await.unwrap();
    drop(stream);
    sleep(quick).await;
    assert_eq!(fake.count("notifications/cancelled"), 1);
    fake.hub.close().await;
    drop(pings);
    for list in listing {
        list.await.unwrap();
    }
    fake.assert_nothing_left("many messages", 2).await;
}

/// Many calls on many threads, each ended another way, while the connection ends as well: every
/// stream has one end, and nothing is left.
#[test]
fn calls_that_end_in_every_way_at_once_leave_nothing() {
    for round in 0..40_u64 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(3)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let limits = Limits {
                cancel_timeout: Duration::from_millis(1),
                ..Limits::default()
            };
            let fake = Fake::connect(limits, move |what, message| match what {
                "tools/call" => {
                    let id = message["id"].as_u64().unwrap();
                    let other = json!(id + 1 - 2 * ((id + round) % 2));
                    let own = &message["id"];
                    match (id + round) % 5 {
                        0 => Answer::Never,
                        1 => Answer::Messages(vec![progress(own)], Then::Open),
                        2 => Answer::Messages(
                            vec![progress(&other), result(&other), progress(own), result(own)],
                            Then::End,
                        ),
                        3 => Answer::Messages(vec![progress(&other), progress(own)], Then::Break),
                        _ => Answer::Messages(vec![progress(own), result(own)], Then::End),
                    }
                }
                _ => polite(what, message),
            })
            .await;
            let calls: Vec<_> = (0..60_u64)
                .map(|n| {
                    let mut stream = fake
                        .hub
                        .call_tool_stream("t", ())
                        .timeout(Duration::from_micros(n * 50));
                    tokio::spawn(async move {
                        match (n + round) % 4 {
                            0 => drop(timeout(Duration::from_micros(n), stream.next()).await),
                            1 => {
                                let _ = timeout(Duration::from_micros(n), stream.next()).await;
                                stream.cancel();
                                let mut ends = 0;
                                while let Some(event) = stream.next().await {
                                    ends += usize::from(event.is_terminal());
                                }
                                assert!(ends <= 1);
                            }
                            _ => drop(read(stream).await),
                        }
                    })
                })
                .collect();
            if round % 2 == 0 {
                tokio::task::yield_now().await;
                fake.hub.close().await;
            }
            for call in calls {
                timeout(Duration::from_secs(20), call)
                    .await
                    .expect("a call never ended")
                    .unwrap();
            }
            let gone = async {
                while fake.leftovers() != [0; 9] || fake.replies.count() > 0 {
                    tokio::task::yield_now().await;
                }
            };
            let gone = timeout(Duration::from_secs(20), gone).await;
            assert!(
                gone.is_ok(),
                "round {round}: {:?}: {LEFTOVERS}",
                fake.leftovers()
            );
        });
    }
}
