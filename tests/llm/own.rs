//! Models of a user's own, and the one for tests.

use std::convert::Infallible;
use std::error::Error as _;
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use agent_hub_kit::{
    ChatChunk, ChatMessage, ChatRequest, ChatStream, DummyLlm, Error, Llm, OpenAiLlm, Role,
};
use futures_util::{StreamExt, stream};

use super::endpoint::{on_time, read};

#[tokio::test]
async fn a_stream_of_texts_is_an_answer() {
    let chunks = ["a", "", "b"].map(Ok::<_, Infallible>);
    let (told, error) = read(ChatStream::new(stream::iter(chunks))).await;
    assert_eq!(told, "text: ab");
    assert!(error.is_none());
    let chunks = ["a", "b"].map(|text| Ok::<_, Infallible>(ChatChunk::Think(text.to_owned())));
    let (told, _) = read(ChatStream::new(stream::iter(chunks))).await;
    assert_eq!(told, "think: ab");
}

#[tokio::test]
async fn the_first_error_is_the_last() {
    let chunks = stream::iter([
        Ok("a"),
        Err(io::Error::other("out of memory")),
        Ok("never read"),
    ]);
    let mut answer = ChatStream::new(chunks);
    assert_eq!(answer.next().await.unwrap().unwrap(), "a".into());
    let error = answer.next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Model { .. }), "{error:?}");
    assert_eq!(error.to_string(), "the model failed");
    assert_eq!(error.source().unwrap().to_string(), "out of memory");
    assert!(!error.is_retryable() && !error.is_tool() && !error.is_cancelled());
    assert!(answer.next().await.is_none());
    // An error of ours stays what it is.
    let again = ChatStream::new(stream::once(async move { Err::<&str, _>(error) }));
    let error = again.collect_text().await.unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), "out of memory");
}

#[tokio::test]
async fn a_synchronous_model_streams() {
    let answer = ChatStream::blocking(|out| {
        out.think("hm")?;
        // More than fits in what waits.
        for _ in 0..100 {
            out.text("a")?;
        }
        Ok::<_, Error>(())
    });
    let (told, error) = read(answer).await;
    assert_eq!(told, format!("think: hm | text: {}", "a".repeat(100)));
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test]
async fn a_synchronous_model_stops_when_nobody_listens() {
    let (ended, end) = mpsc::channel();
    let mut answer = ChatStream::blocking(move |out| {
        let stopped = loop {
            if let Err(error) = out.text("on and on ") {
                break error;
            }
        };
        assert!(out.is_closed());
        ended.send(stopped.to_string()).unwrap();
        Ok::<_, Error>(())
    });
    on_time(answer.next()).await.unwrap().unwrap();
    drop(answer);
    let end = tokio::task::spawn_blocking(move || end.recv_timeout(Duration::from_secs(30)));
    assert_eq!(end.await.unwrap().unwrap(), "stream closed");
}

#[tokio::test]
async fn a_synchronous_model_begins_with_the_first_poll() {
    let begun = Arc::new(());
    let held = begun.clone();
    let answer = ChatStream::blocking(move |out| {
        out.text(format!("{}", Arc::strong_count(&held)))?;
        Ok::<_, Error>(())
    });
    assert_eq!(Arc::strong_count(&begun), 2, "it waits");
    drop(answer);
    assert_eq!(Arc::strong_count(&begun), 1, "it never ran");
}

#[tokio::test]
async fn what_a_synchronous_model_fails_with_is_told_after_what_came() {
    let fails = ChatStream::blocking(|out| {
        out.text("so far")?;
        Err::<(), Box<dyn std::error::Error + Send + Sync>>("out of tokens".into())
    });
    let panics = ChatStream::blocking(|out| -> Result<(), Error> {
        out.text("so far")?;
        panic!("out of {}", "luck")
    });
    for (answer, cause) in [
        (fails, "out of tokens"),
        (panics, "it panicked: out of luck"),
    ] {
        let (told, error) = read(answer).await;
        assert_eq!(told, "text: so far");
        let error = error.unwrap();
        assert!(matches!(error, Error::Model { .. }), "{error:?}");
        assert_eq!(error.source().unwrap().to_string(), cause);
    }
}

#[tokio::test]
async fn the_dummy_says_what_it_was_asked() {
    let request = ChatRequest::new()
        .system("Be short.")
        .message(ChatMessage::user("Good day").image("data:,"))
        .message(ChatMessage::new(Role::Assistant, "Hm."))
        .temperature(0.5)
        .max_tokens(9);
    let llm: Arc<dyn Llm> = Arc::new(DummyLlm::new());
    let expected = "think: 3 messages, 1 images, temperature 0.5, at most 9 tokens \
                    | text: You said: Good day | Stop | 6+19";
    for _ in 0..2 {
        let (told, error) = read(llm.chat(request.clone())).await;
        assert_eq!(told, expected);
        assert!(error.is_none());
    }
    let chunks: Vec<_> = llm.chat("Hello".into()).collect().await;
    assert!(chunks.len() > 8, "small chunks: {chunks:?}");
}

#[tokio::test(start_paused = true)]
async fn the_dummy_takes_its_time() {
    let llm = DummyLlm::new().delay(Duration::from_secs(3));
    let mut answer = llm.chat("Hello".into());
    let second = Duration::from_secs(1);
    assert!(
        tokio::time::timeout(2 * second, answer.next())
            .await
            .is_err()
    );
    let first = tokio::time::timeout(2 * second, answer.next()).await;
    assert!(first.unwrap().unwrap().is_ok());
}

#[test]
fn models_and_answers_cross_threads() {
    fn model<T: Llm + Clone + Send + Sync + 'static>() {}
    fn answer<T: Send + Unpin + 'static>() {}
    model::<DummyLlm>();
    model::<OpenAiLlm>();
    model::<Arc<dyn Llm>>();
    answer::<ChatStream>();
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_gathered_for_ever() {
    let piece = "x".repeat(1024 * 1024);
    let endless = stream::repeat_with(move || Ok::<_, Infallible>(piece.clone()));
    let error = ChatStream::new(endless).collect_text().await.unwrap_err();
    let Error::Limit { max, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(usize::try_from(max).unwrap(), ChatStream::MAX_TEXT_LEN);
}
