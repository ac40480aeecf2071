//! When a model begins, and when it is stopped.

use agent_hub_kit::{Llm, OpenAiLlm};

use super::endpoint::{DONE, Endpoint, STREAM, deltas, on_time, read};

#[tokio::test]
async fn nothing_is_asked_before_the_first_poll() {
    let endpoint = Endpoint::bind().await;
    let early = OpenAiLlm::builder(endpoint.url("/early"), "m")
        .build()
        .unwrap();
    let late = OpenAiLlm::builder(endpoint.url("/late"), "m")
        .build()
        .unwrap();
    let unread = early.chat("Hi".into());
    let answer = format!("{STREAM}{DONE}");
    let chat = read(late.chat("Hi".into()));
    let (seen, _) = on_time(async { tokio::join!(endpoint.answer(answer), chat) }).await;
    assert!(seen.head.starts_with("POST /late/"), "{}", seen.head);
    drop(unread);
}

#[tokio::test]
async fn an_answer_that_is_dropped_hangs_up() {
    let head = STREAM.to_owned();
    // how far the endpoint has come
    for sent in [
        String::new(),
        head.clone(),
        head + &deltas(&[r#"{"content":"a"}"#]),
    ] {
        let endpoint = Endpoint::bind().await;
        let llm = endpoint.llm();
        let mut answer = llm.chat("Hi".into());
        let served = async {
            let mut wire = endpoint.accept().await;
            wire.read().await.unwrap();
            wire.write(&sent).await;
            wire
        };
        let mut wire = on_time(async {
            // A chunk comes, or the answer is dropped while it is awaited.
            let mut served = std::pin::pin!(served);
            tokio::select! {
                wire = &mut served => wire,
                _ = answer.next() => served.await,
            }
        })
        .await;
        drop(answer);
        assert!(on_time(wire.hung_up()).await, "`{sent}`");
    }
}

#[tokio::test]
async fn an_answer_that_has_ended_leaves_its_connection_to_the_next() {
    let endpoint = Endpoint::bind().await;
    let llm = endpoint.llm();
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let served = async {
        let mut wire = endpoint.accept().await;
        for _ in 0..2 {
            wire.read().await.expect("a request on the same connection");
            wire.write(format!("{head}e\r\n{DONE}\r\n0\r\n\r\n")).await;
        }
    };
    let asked = async {
        for _ in 0..2 {
            let (told, error) = read(llm.chat("Hi".into())).await;
            assert!(error.is_none(), "{told} {error:?}");
        }
    };
    on_time(async { tokio::join!(served, asked) }).await;
}
