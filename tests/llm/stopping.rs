//! When a model begins, and when it is stopped.

use agent_hub_kit::{Llm, OpenAiLlm};
use tokio::net::TcpStream;

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
    let first = read(llm.chat("Hi".into()));
    let served = async {
        let mut wire = endpoint.accept().await;
        wire.read().await.unwrap();
        wire.write(format!("{head}e\r\n{DONE}\r\n")).await;
        wire
    };
    let (mut wire, (_, error)) = on_time(async { tokio::join!(served, first) }).await;
    assert!(error.is_none(), "{error:?}");
    // The body ends only after the answer was read.
    wire.write("0\r\n\r\n").await;
    let other = Endpoint::bind().await;
    let url = other.url("");
    let address = url.strip_prefix("http://").unwrap();
    // What comes after it on another connection has come, so it has come as well.
    let (opened, _) = tokio::join!(TcpStream::connect(address), other.accept());
    opened.unwrap();
    let second = read(llm.chat("Hi".into()));
    let served = async {
        let seen = wire.read().await;
        seen.expect("a request on the same connection");
        wire.write(format!("{head}e\r\n{DONE}\r\n0\r\n\r\n")).await;
    };
    let ((), (_, error)) = on_time(async { tokio::join!(served, second) }).await;
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test]
async fn an_answer_whose_connection_cannot_be_used_again_hangs_up_at_its_end() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    let chunk = format!("e\r\n{DONE}\r\n");
    // version, headers, the beginning of a body that does not end
    let table = [
        ("1.1", format!("Connection: close\r\n{chunked}"), &*chunk),
        ("1.1", format!("Connection: x, Close\r\n{chunked}"), &*chunk),
        ("1.1", String::new(), DONE),
        ("1.0", String::new(), DONE),
        ("1.0", "Content-Length: 99\r\n".to_owned(), DONE),
    ];
    for (version, headers, body) in table {
        let endpoint = Endpoint::bind().await;
        let llm = endpoint.llm();
        let head =
            format!("HTTP/{version} 200 OK\r\nContent-Type: text/event-stream\r\n{headers}\r\n");
        let served = async {
            let mut wire = endpoint.accept().await;
            wire.read().await.unwrap();
            wire.write(format!("{head}{body}")).await;
            wire
        };
        let (mut wire, (_, error)) =
            on_time(async { tokio::join!(served, read(llm.chat("Hi".into()))) }).await;
        assert!(error.is_none(), "{head}{error:?}");
        assert!(on_time(wire.hung_up()).await, "{head}");
    }
}

#[tokio::test]
async fn a_connection_that_the_endpoint_has_ended_is_let_go_with_the_next_request() {
    let endpoint = Endpoint::bind().await;
    let llm = endpoint.llm();
    let whole = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{DONE}",
        DONE.len()
    );
    let ask = |text: &str| {
        let answer = llm.chat(text.into());
        tokio::spawn(async { assert!(read(answer).await.1.is_none()) })
    };
    on_time(async {
        let (first, second) = (ask("first"), ask("second"));
        let (mut one, mut two) = (endpoint.accept().await, endpoint.accept().await);
        let seen = one.read().await.unwrap();
        two.read().await.unwrap();
        if seen.body["messages"][0]["content"] != "first" {
            std::mem::swap(&mut one, &mut two);
        }
        one.write(&whole).await;
        first.await.unwrap();
        two.write(&whole).await;
        second.await.unwrap();
        one.end_writing().await;
        let other = Endpoint::bind().await;
        let url = other.url("");
        let address = url.strip_prefix("http://").unwrap();
        // What comes after the end on another connection has come, so the end has come as well.
        let (opened, _) = tokio::join!(TcpStream::connect(address), other.accept());
        opened.unwrap();
        let third = ask("third");
        two.read()
            .await
            .expect("a request on the newest connection");
        two.write(&whole).await;
        third.await.unwrap();
        assert!(one.hung_up().await);
    })
    .await;
}
