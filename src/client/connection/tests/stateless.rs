//! The same where hanging up is the cancel, and what becomes of a subscription over time.

use super::*;

async fn stateless(script: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static) -> Fake {
    Fake::connect_to(Era::Modern, Limits::default(), script).await
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_call_and_its_end_is_told_by_hanging_up() {
    type Call = fn(&Value) -> Answer;
    let answers: [(&str, Call); 6] = [
        ("never answered", |_| Answer::Never),
        ("open", |m| {
            Answer::Messages(vec![progress(&m["id"])], Then::Open)
        }),
        ("an early end", |m| {
            Answer::Messages(vec![progress(&m["id"])], Then::End)
        }),
        ("a break", |_| Answer::Messages(vec![], Then::Break)),
        ("a refusal without words", |_| Answer::Mute(400)),
        ("asked again for ever", |m| {
            let result = json!({"resultType": "input_required", "requestState": "s"});
            let body = json!({"jsonrpc": "2.0", "id": m["id"], "result": result});
            Answer::Messages(vec![body.to_string()], Then::Open)
        }),
    ];
    for (case, call) in answers {
        for how in ["cancel", "drop", "timeout", "idle_timeout"] {
            let fake = stateless(move |what, message| match what {
                "tools/call" => call(message),
                _ => polite(what, message),
            })
            .await;
            let ten = Duration::from_secs(10);
            let stream = fake.hub.call_tool_stream("t", ());
            let mut stream = match how {
                "timeout" => stream.timeout(ten),
                "idle_timeout" => stream.idle_timeout(ten),
                _ => stream,
            };
            let _ = timeout(Duration::from_millis(1), stream.next()).await;
            match how {
                "drop" => drop(stream),
                "cancel" => {
                    stream.cancel();
                    while stream.next().await.is_some() {}
                }
                _ => while stream.next().await.is_some() {},
            }
            assert_eq!(fake.replies.count(), 0, "{case}, {how}: at once");
            fake.assert_nothing_left(case, 0).await;
        }
    }
}

/// What a subscription is answered first, the time until the reply ends, and when it was asked for
/// within five minutes, in seconds.
async fn asked_for(answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Vec<u64> {
    let begun = driver::now();
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    let fake = stateless(move |what, message| match what {
        "subscriptions/listen" => {
            let spent = driver::now().saturating_duration_since(begun);
            noted.lock().unwrap().push(spent.as_secs());
            answer(message)
        }
        _ => polite(what, message),
    })
    .await;
    sleep(Duration::from_secs(300)).await;
    fake.hub.close().await;
    fake.assert_nothing_left("a subscription", 0).await;
    assert_eq!(fake.count("DELETE") + fake.count("GET"), 0);
    times.lock().unwrap().clone()
}

fn acknowledged(id: &Value) -> String {
    let params = json!({"notifications": {"toolsListChanged": true},
        "_meta": {"io.modelcontextprotocol/subscriptionId": id}});
    let method = "notifications/subscriptions/acknowledged";
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_asked_for_again_after_waits_that_grow() {
    let growing = [0, 1, 3, 7, 15, 31, 61, 91, 121, 151, 181, 211, 241, 271];
    let ended = |message: &Value| {
        let messages = vec![acknowledged(&message["id"]), result(&message["id"])];
        Answer::Messages(messages, Then::End)
    };
    assert_eq!(asked_for(ended).await, growing, "ended in order");
    let broken =
        |message: &Value| Answer::Messages(vec![acknowledged(&message["id"])], Then::Break);
    assert_eq!(asked_for(broken).await, growing, "broken");
    assert_eq!(asked_for(|_| Answer::Break).await, growing, "no answer");
    let busy = |_: &Value| Answer::Status(503, "");
    assert_eq!(asked_for(busy).await, growing, "busy");
    let open = |message: &Value| Answer::Messages(vec![acknowledged(&message["id"])], Then::Open);
    assert_eq!(asked_for(open).await, [0], "open");
    assert_eq!(asked_for(|_| Answer::Never).await, [0], "no head");
    assert_eq!(asked_for(|_| Answer::Status(405, "")).await, [0], "no");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_good_for_a_while_is_asked_for_again_only_after_it() {
    // how long the list is good, and how often it is asked for while a subscription ends at
    // 0, 1, 3, 7, 15, 31, 61 and 91 s
    for (ttl, lists) in [(0, 9), (30_000, 4), (3_600_000, 1)] {
        let fake = stateless(move |what, message| match what {
            "tools/list" => {
                let result = json!({"tools": [{"name": "t"}], "ttlMs": ttl});
                let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                Answer::Messages(vec![body.to_string()], Then::End)
            }
            "subscriptions/listen" => {
                let id = &message["id"];
                Answer::Messages(vec![acknowledged(id), result(id)], Then::End)
            }
            _ => polite(what, message),
        })
        .await;
        sleep(Duration::from_secs(100)).await;
        assert_eq!(fake.count("subscriptions/listen"), 8);
        assert_eq!(fake.count("tools/list"), lists, "{ttl}");
    }
}
