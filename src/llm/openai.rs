//! Endpoints that speak as OpenAI's chat completions do.
//!
//! Owns what is configured and the course of one answer: asked, refused or read, ended. Must not
//! know the text of a request (`body`), of a chunk (`chunk`) or of a refusal (`refusal`).

mod body;
mod chunk;
mod refusal;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde::Serialize;
use tokio::time::{Sleep, sleep};

use self::body::Settings;
use self::chunk::Answer;
use super::request::ChatRequest;
use super::stream::{ChatChunk, ChatStream, Llm};
use crate::error::{Error, Place, Result};
use crate::limits::Limits;
use crate::transport::http::post::{HttpPost, Posted};
use crate::transport::tls::Trust;
use crate::transport::{BoxFuture, Media, Messages};

/// A model behind an endpoint that speaks as OpenAI's `/v1/chat/completions`: that of llama.cpp,
/// vLLM, Ollama, mlx_lm.server, of OpenAI itself and of many others.
///
/// ```no_run
/// # async fn f() -> agent_hub_kit::Result<()> {
/// use agent_hub_kit::{Llm, OpenAiLlm};
///
/// let model = OpenAiLlm::builder("http://127.0.0.1:8080/v1", "gemma-3-270m")
///     .system("Answer in one sentence.")
///     .temperature(0.2)
///     .build()?;
/// println!("{}", model.chat("What is a hub?".into()).collect_text().await?);
/// # Ok(())
/// # }
/// ```
///
/// Thoughts come as [`ChatChunk::Think`] whether the server tells them apart (`reasoning_content`,
/// `reasoning`) or leaves them in the text between `<think>` and `</think>`; white space right after
/// those tags is left out. A server that does not stream is understood too.
///
/// Cheap to clone, and the clones share their connections. Nothing is tried twice; what may be is
/// told by [`Error::is_retryable`] and [`Error::retry_after`].
///
/// # Errors
/// Of a [stream](ChatStream):
/// - [`Error::Http`] for an answer that refuses (401, 429, 5xx and so on), with what the server says
///   and what to do, and for an error in the middle of a stream, with the status that it is the
///   same as;
/// - [`Error::Transport`] if the endpoint is not reached, or its answer breaks off, after what came
///   of it;
/// - [`Error::Timeout`] if it is silent for too long;
/// - [`Error::Protocol`] for an answer in another form, [`Error::Limit`] for too large a chunk;
/// - [`Error::Config`] for a request without a message or with a temperature that is no number.
///
/// # Cancel safety
/// Dropping an answer before its end hangs up, which tells the server to stop.
#[derive(Clone)]
pub struct OpenAiLlm(Arc<Shared>);

struct Shared {
    post: HttpPost,
    settings: Settings,
    place: Place,
    idle_timeout: Duration,
    /// Where the key comes from, for those whose key is refused.
    key: Key,
}

/// Where the key comes from.
#[derive(Debug, Clone)]
enum Key {
    Given,
    Missing,
    Variable(String),
}

/// Settings of an [`OpenAiLlm`].
#[must_use = "nothing is built before `build`"]
pub struct OpenAiLlmBuilder {
    base_url: String,
    settings: Settings,
    key: Key,
    headers: Vec<(HeaderName, HeaderValue)>,
    limits: Limits,
    pub(super) trust: Trust,
    idle_timeout: Duration,
    fault: Option<Error>,
}

impl OpenAiLlm {
    /// A model at an endpoint. Requests go to `{base_url}/chat/completions`, so most base URLs end in
    /// `/v1`, as in `http://127.0.0.1:8080/v1`; whether with a slash makes no difference. `https`
    /// needs the feature `tls`.
    pub fn builder(base_url: impl Into<String>, model: impl Into<String>) -> OpenAiLlmBuilder {
        OpenAiLlmBuilder {
            base_url: base_url.into(),
            settings: Settings::new(model.into()),
            key: Key::Missing,
            headers: Vec::new(),
            limits: Limits::default(),
            trust: Trust::default(),
            idle_timeout: Duration::from_secs(10 * 60),
            fault: None,
        }
    }
}

impl OpenAiLlmBuilder {
    /// Takes the key from an environment variable, now. A variable that is not set is
    /// [`Error::Config`] when building.
    pub fn api_key_env(mut self, variable: impl Into<String>) -> Self {
        let variable = variable.into();
        match std::env::var(&variable) {
            Ok(key) if !key.trim().is_empty() => self = self.api_key(key.trim()),
            _ => self.fail(format!(
                "the environment variable `{variable}`, which is to hold the API key, is not set"
            )),
        }
        self.key = Key::Variable(variable);
        self
    }

    /// The key, sent as `Authorization: Bearer`. It is never shown.
    pub fn api_key(mut self, key: impl AsRef<str>) -> Self {
        self.headers.retain(|(name, _)| name != AUTHORIZATION);
        self.key = Key::Given;
        self.header(AUTHORIZATION, format!("Bearer {}", key.as_ref()))
    }

    /// Sends a header with every request. Its value is never shown. Those that HTTP lives by, such as
    /// `Content-Length` and `Accept`, cannot be set.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        match (
            HeaderName::try_from(name),
            HeaderValue::try_from(value.as_ref()),
        ) {
            (Ok(name), Ok(value)) => {
                if matches!(self.key, Key::Missing) {
                    self.key = Key::Given; // for all that is known
                }
                self.headers.push((name, value));
            }
            (Err(_), _) => self.fail(format!("{name:?} is no header name")),
            (_, Err(_)) => self.fail(format!("the value of the header `{name}` cannot be sent")),
        }
        self
    }

    /// A message of the system before every conversation that has none of its own.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.settings.system = Some(prompt.into());
        self
    }

    /// How freely the model chooses, from 0, unless a request says. Default: the model's own.
    pub fn temperature(mut self, temperature: f64) -> Self {
        if !temperature.is_finite() {
            self.fail("the temperature is not a number".to_owned());
        }
        self.settings.temperature = Some(temperature);
        self
    }

    /// The longest answer, in tokens, unless a request says. Default: the model's own.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.settings.max_tokens = Some(tokens);
        self
    }

    /// Any other parameter of the request's body, such as `top_p` or `reasoning_effort`. It wins over
    /// what is sent otherwise under this name, and a null leaves it out; `messages`, `model` and
    /// `stream` cannot be set.
    ///
    /// ```
    /// # fn f() -> agent_hub_kit::Result<()> {
    /// # use agent_hub_kit::OpenAiLlm;
    /// let model = OpenAiLlm::builder("http://127.0.0.1:8080/v1", "some-model")
    ///     .parameter("max_completion_tokens", 500) // what some servers call `max_tokens`
    ///     .parameter("stream_options", ()) // for a server that refuses it; no usage then
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// # f().unwrap();
    /// ```
    pub fn parameter(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        match (&*name, serde_json::to_value(value)) {
            ("messages" | "model" | "stream", _) => {
                self.fail(format!("the parameter `{name}` cannot be set"));
            }
            (_, Ok(value)) => drop(self.settings.more.insert(name, value)),
            (_, Err(error)) => self.fail(format!("the parameter `{name}` is no JSON: {error}")),
        }
        self
    }

    /// The longest that opening a connection may take: name lookup, TCP and TLS. Default 10 s; it is
    /// [`Limits::tcp_connect_timeout`].
    pub fn connect_timeout(mut self, after: Duration) -> Self {
        self.limits.tcp_connect_timeout = after;
        self
    }

    /// The longest wait for the first chunk, and between two. Default 10 min: a model may read a
    /// long prompt first, or think in secret. A server's comments that it is alive do not count.
    pub fn idle_timeout(mut self, after: Duration) -> Self {
        self.idle_timeout = after;
        self
    }

    /// The bounds to keep: those of clients for connections, redirects and messages, each chunk being
    /// a message.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The model. Nothing is sent before it is asked.
    ///
    /// # Errors
    /// [`Error::Config`] for the first setting that cannot work.
    pub fn build(self) -> Result<OpenAiLlm> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let url = completions(&self.base_url);
        let post = HttpPost::new(&url, self.headers, &self.trust, &self.limits)?;
        Ok(OpenAiLlm(Arc::new(Shared {
            place: Place::new(&post.target().into(), None),
            post,
            settings: self.settings,
            idle_timeout: self.idle_timeout,
            key: self.key,
        })))
    }

    fn fail(&mut self, fault: String) {
        self.fault.get_or_insert_with(|| Error::config(fault));
    }
}

/// Where a base URL's requests go. A query stays behind the path; the whole path is taken too.
fn completions(base_url: &str) -> String {
    const PATH: &str = "/chat/completions";
    let (base, query) = base_url.split_at(base_url.find('?').unwrap_or(base_url.len()));
    let base = base.trim_end_matches('/');
    format!("{}{PATH}{query}", base.strip_suffix(PATH).unwrap_or(base))
}

impl Llm for OpenAiLlm {
    fn chat(&self, request: ChatRequest) -> ChatStream {
        ChatStream::new(Chat::new(self.0.clone(), request))
    }
}

impl fmt::Debug for OpenAiLlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiLlm")
            .field("model", &self.0.settings.model)
            .field("target", &self.0.post.target())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OpenAiLlmBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiLlmBuilder")
            .field("model", &self.settings.model)
            .finish_non_exhaustive()
    }
}

impl Shared {
    async fn send(self: Arc<Self>, request: ChatRequest) -> Result<Posted> {
        let body = self.settings.body(&request)?;
        drop(request);
        self.post.send(Bytes::from(body)).await
    }

    /// What a refusal means, of whose body this came.
    fn refused(&self, posted: &Posted, body: &str) -> Error {
        let hide = |text: &str| self.hide(text);
        refusal::error(posted, body, &hide, &self.key, &self.settings.model)
    }

    /// An error as it is shown: where it happened, and without our key.
    fn own(&self, error: Error) -> Error {
        let hide = |text: &str| self.hide(text);
        let shown = error.map_quoted(&|text| refusal::detail(text, &hide));
        shown.at(&self.place)
    }

    /// A text of the endpoint's without our key.
    fn hide(&self, text: &str) -> String {
        /// A shorter value is no secret, and is part of many words.
        const MIN_BYTES: usize = 8;
        let secrets = self.post.secrets();
        let secrets = secrets.iter().filter(|secret| secret.len() >= MIN_BYTES);
        secrets.fold(text.to_owned(), |text, secret| {
            text.replace(&**secret, "[hidden]")
        })
    }
}

/// One answer on its way.
struct Chat {
    shared: Arc<Shared>,
    state: State,
    answer: Answer,
    /// What was read and is not yet given.
    ready: VecDeque<ChatChunk>,
    idle: Option<Pin<Box<Sleep>>>,
    /// The reader waits, so `idle` counts.
    waits: bool,
}

enum State {
    Unsent(ChatRequest),
    Sending(BoxFuture<'static, Result<Posted>>),
    /// The endpoint said no and says why.
    Refused(Box<Posted>),
    Reading(Box<dyn Messages>),
    /// What is in `ready` is the last, and this follows.
    Ended(Option<Error>),
}

impl Stream for Chat {
    type Item = Result<ChatChunk>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(chunk) = this.ready.pop_front() {
                this.waits = false;
                return Poll::Ready(Some(Ok(chunk)));
            }
            if let State::Ended(error) = &mut this.state {
                return Poll::Ready(error.take().map(|error| Err(this.shared.own(error))));
            }
            if this.poll_step(cx).is_pending() {
                let late = ready!(this.poll_idle(cx));
                // That it said no is more than that it does not say why.
                let error = match &this.state {
                    State::Refused(posted) => this.shared.refused(posted, ""),
                    _ => late,
                };
                this.end(Some(error));
            }
        }
    }
}

impl Chat {
    fn new(shared: Arc<Shared>, request: ChatRequest) -> Self {
        Self {
            shared,
            state: State::Unsent(request),
            answer: Answer::default(),
            ready: VecDeque::new(),
            idle: None,
            waits: false,
        }
    }

    /// Goes on by a step; ready also where that gave no chunk.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            State::Unsent(request) => {
                let request = std::mem::take(request);
                let sent = self.shared.clone().send(request);
                self.state = State::Sending(Box::pin(sent));
            }
            State::Sending(sent) => match ready!(sent.as_mut().poll(cx)) {
                Ok(posted) => self.take(posted),
                Err(error) => self.end(Some(error)),
            },
            State::Refused(posted) => {
                let excerpt = posted.messages.poll_excerpt(refusal::MAX_BYTES, cx);
                let excerpt = ready!(excerpt);
                let error = self.shared.refused(posted, &excerpt);
                self.end(Some(error));
            }
            State::Reading(messages) => match ready!(messages.poll_next(cx)) {
                Some(Ok(message)) => {
                    self.waits = false;
                    match self.answer.take(&message, &mut self.ready) {
                        Ok(false) => {}
                        Ok(true) => self.end(None),
                        Err(error) => self.end(Some(error)),
                    }
                }
                Some(Err(error)) => self.end(Some(error)),
                None => {
                    let cut = Error::transport("the answer ended before the model had finished it");
                    self.end(Some(cut));
                }
            },
            State::Ended(_) => {}
        }
        Poll::Ready(())
    }

    fn take(&mut self, posted: Posted) {
        self.state = match posted.status {
            200 if posted.media != Media::Other && !refusal::is_compressed(&posted) => {
                State::Reading(posted.messages)
            }
            _ => State::Refused(Box::new(posted)),
        };
    }

    /// Ends the answer. Whatever goes wrong after the model has finished takes nothing from it.
    fn end(&mut self, error: Option<Error>) {
        let error = error.filter(|_| !self.answer.is_finished());
        let state = std::mem::replace(&mut self.state, State::Ended(None));
        match state {
            // All was said, so the connection may be used again.
            State::Reading(messages) if error.is_none() => messages.finish(),
            _ => {}
        }
        self.answer.finish(error.is_none(), &mut self.ready);
        self.state = State::Ended(error);
    }

    /// Ready with an error once the reader has waited for too long.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let after = self.shared.idle_timeout;
        let idle = self.idle.get_or_insert_with(|| Box::pin(sleep(after)));
        if !self.waits {
            self.waits = true;
            idle.set(sleep(after));
        }
        ready!(idle.as_mut().poll(cx));
        Poll::Ready(Error::timeout("idle_timeout", after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One chunk after the other, each after a pause.
    struct Slow(Vec<Duration>, Option<Pin<Box<Sleep>>>);

    impl Messages for Slow {
        fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
            let Some(pause) = self.0.first() else {
                return Poll::Pending;
            };
            let pause = *pause;
            let timer = self.1.get_or_insert_with(|| Box::pin(sleep(pause)));
            ready!(timer.as_mut().poll(cx));
            self.1 = None;
            self.0.remove(0);
            let chunk = br#"{"choices":[{"delta":{"content":"a"}}]}"#;
            Poll::Ready(Some(Ok(Bytes::from_static(chunk))))
        }

        fn poll_excerpt(&mut self, _: usize, _: &mut Context<'_>) -> Poll<String> {
            Poll::Pending
        }

        fn finish(self: Box<Self>) {}
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_time_that_a_reader_waits_for_one_chunk_is_idle() {
        let idle = Duration::from_secs(10);
        let llm = OpenAiLlm::builder("http://h/v1", "m").idle_timeout(idle);
        let pauses = [9, 9, 9, 0, 0].map(Duration::from_secs);
        let mut chat = ChatStream::new(Chat {
            state: State::Reading(Box::new(Slow(pauses.to_vec(), None))),
            ..Chat::new(llm.build().unwrap().0, ChatRequest::new())
        });
        for pause in pauses {
            assert!(chat.next().await.unwrap().is_ok(), "{pause:?}");
            // The reader's own time.
            sleep(3 * idle).await;
        }
        let late = tokio::time::timeout(idle - Duration::from_millis(1), chat.next()).await;
        assert!(late.is_err(), "it was given up too early");
        let late = tokio::time::timeout(Duration::from_millis(2), chat.next()).await;
        let error = late.expect("the time is over").unwrap().unwrap_err();
        assert!(matches!(error, Error::Timeout { after, .. } if after == idle));
        assert!(chat.next().await.is_none());
    }
}
