//! A peer that follows a script.
//!
//! Owns its connections and where the script stands; must not know what a step is good for.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::http1::{LAST_CHUNK, SSE_HEAD, answer, chunk};
use super::request::{Framing, PeerRequest, hung_up};
use super::script::{Action, Expected, Polite, Script, Step, filled, polite};
use crate::error::{Error, Result};

/// What is kept of the requests, about. A client that does not stop asking is a failure of the test.
const MAX_KEPT_BYTES: usize = 64 * 1024 * 1024;

/// A server whose answers are a [`Script`]. It speaks Streamable HTTP on a port of this machine, and
/// [`connect_memory`](super::connect_memory) joins it to a hub without a socket.
///
/// What comes that the script does not expect is answered with an error that says so, and is what
/// [`finish`](Self::finish) fails with. Dropped, it closes all its connections.
///
/// ```
/// use agent_hub_kit::testing::{self, Script, ScriptedPeer};
/// use agent_hub_kit::{AgentHubClient, encode_envelope};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let said = encode_envelope("text", "hello", None)?;
/// let script = Script::new().offer(["greet"]).expect("tools/call").answer_sse([
///     json!({"method": "notifications/progress", "params": {"progress": 1, "message": said}}),
///     json!({"result": {"content": [{"type": "text", "text": "done"}]}}),
/// ]);
/// let peer = ScriptedPeer::start(script).await?;
///
/// let hub = AgentHubClient::builder().build();
/// testing::connect_memory(&hub, "scripted", &peer).await?;
/// let mut events = hub.call_tool_stream("greet", json!({"whom": "you"}));
/// assert_eq!(events.next().await.unwrap().text(), Some("hello"));
/// assert!(events.next().await.unwrap().is_terminal());
///
/// let asked = peer.requests();
/// assert_eq!(asked.last().unwrap().json()["params"]["arguments"]["whom"], "you");
/// peer.finish().await
/// # }
/// ```
#[must_use = "dropped, it closes all its connections"]
pub struct ScriptedPeer {
    pub(super) shared: Arc<Shared>,
    local_addr: SocketAddr,
    url: String,
    /// What accepts, and so all connections over the network.
    _accepting: JoinSet<()>,
    /// Dropped, it ends also those in memory.
    _alive: watch::Sender<()>,
}

/// What the connections of a peer share.
pub(super) struct Shared {
    state: Mutex<State>,
    offered: Option<Vec<Value>>,
    patience: Duration,
    /// Told whenever the state changes.
    changed: watch::Sender<()>,
    released: Semaphore,
    alive: watch::Receiver<()>,
}

struct State {
    steps: VecDeque<Step>,
    /// How many steps that expect are behind, and how many there are.
    passed: usize,
    total: usize,
    /// Requests whose steps are being done.
    running: usize,
    connections: usize,
    failure: Option<String>,
    requests: Vec<PeerRequest>,
    kept_bytes: usize,
}

/// What is done about one request.
enum Plan {
    Act(Vec<Action>),
    Polite(Polite),
    Fail(String),
}

impl ScriptedPeer {
    /// Starts a peer on a free port of this machine.
    ///
    /// # Errors
    /// [`Error::Transport`] if there is none.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is listened on if the future is dropped.
    pub async fn start(script: Script) -> Result<Self> {
        let failed = |e| Error::transport_by("a scripted peer could not listen", e);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(failed)?;
        let local_addr = listener.local_addr().map_err(failed)?;
        let (alive, is_alive) = watch::channel(());
        let is_expected = |step: &&Step| matches!(step, Step::Expect(_));
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                passed: 0,
                total: script.steps.iter().filter(is_expected).count(),
                steps: script.steps,
                running: 0,
                connections: 0,
                failure: None,
                requests: Vec::new(),
                kept_bytes: 0,
            }),
            offered: script.offered,
            patience: script.patience,
            changed: watch::Sender::new(()),
            released: Semaphore::new(0),
            alive: is_alive,
        });
        let mut accepting = JoinSet::new();
        let accepted = shared.clone();
        accepting.spawn(accept(listener, move |socket| {
            accepted.clone().serve(socket, Framing::Http)
        }));
        Ok(Self {
            shared,
            local_addr,
            url: format!("http://{local_addr}/mcp"),
            _accepting: accepting,
            _alive: alive,
        })
    }

    /// The URL for a client over HTTP. Any path is the same to it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address with the port that was taken.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// All that it was asked so far, in order, also what needed no step.
    pub fn requests(&self) -> Vec<PeerRequest> {
        self.shared.state().requests.clone()
    }

    /// Lets one [`hold`](Script::hold) pass, now or when it is reached.
    pub fn release(&self) {
        self.shared.released.add_permits(1);
    }

    /// Waits until the script is done, and closes all connections.
    ///
    /// # Errors
    /// [`Error::Protocol`] with what was expected and what came, at once for what was not expected,
    /// and after [`Script::patience`] for what is missing.
    ///
    /// # Cancel safety
    /// Dropping the future closes all connections.
    pub async fn finish(self) -> Result<()> {
        let mut changes = self.shared.changed.subscribe();
        let done = changes.wait_for(|()| self.shared.state().is_over());
        let _ = timeout(self.shared.patience, done).await;
        match self.shared.state().shortfall() {
            None => Ok(()),
            Some(failure) => Err(Error::protocol(failure)),
        }
    }
}

impl fmt::Debug for ScriptedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedPeer")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Serves each connection in a task of its own; dropped, it ends them all.
pub(super) async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    /// The rest wait in the backlog: a test with more has lost count.
    const MAX_CONNECTIONS: usize = 1024;
    const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((socket, _)) => {
                    let _ = socket.set_nodelay(true);
                    connections.spawn(serve(socket));
                }
                // Of the connection, or out of descriptors, which would fail again at once.
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one connection until it, or the peer, ends.
    pub(super) async fn serve<Io>(self: Arc<Self>, io: Io, framing: Framing)
    where
        Io: AsyncRead + AsyncWrite + Send,
    {
        let mut alive = self.alive.clone();
        tokio::select! {
            // An error is of the client, who knows of it, or was told to the script.
            _ = self.converse(io, framing) => {}
            _ = alive.changed() => {}
        }
    }

    async fn converse<Io>(&self, io: Io, framing: Framing) -> io::Result<()>
    where
        Io: AsyncRead + AsyncWrite + Send,
    {
        let (number, first) = self.state().open();
        let (input, output) = split(io);
        let mut talk = Talk {
            input: BufReader::new(input),
            output,
            framing,
            has_begun: false,
        };
        let nothing = PeerRequest::default();
        if !first.is_empty() && !self.act(&mut talk, first, &nothing).await? {
            return Ok(());
        }
        loop {
            let request = match PeerRequest::read(&mut talk.input, framing, number).await {
                Ok(Some(request)) => request,
                Ok(None) => return Ok(()),
                Err(e) => {
                    let failure = format!("connection {number} could not be read: {e}");
                    self.state().failure.get_or_insert(failure);
                    self.changed.send_replace(());
                    return Err(e);
                }
            };
            talk.has_begun = false;
            let plan = self.state().plan(&request, self.offered.as_deref());
            self.changed.send_replace(());
            match plan {
                Plan::Act(actions) => {
                    if !self.act(&mut talk, actions, &request).await? {
                        return talk.output.shutdown().await;
                    }
                }
                Plan::Polite(Polite::Accept(status)) => talk.accept(status).await?,
                Plan::Polite(Polite::Answer(message)) => talk.say(message, &request).await?,
                Plan::Fail(_) if request.is_notification() => {
                    talk.accept("400 Bad Request").await?
                }
                Plan::Fail(failure) => {
                    let error = json!({"error": {"code": -32603, "message": failure}});
                    talk.say(error, &request).await?;
                }
            }
        }
    }

    /// False if the connection is to be closed.
    async fn act<Io: AsyncRead + AsyncWrite + Send>(
        &self,
        talk: &mut Talk<Io>,
        actions: Vec<Action>,
        request: &PeerRequest,
    ) -> io::Result<bool> {
        let _running = Running(self);
        if actions.is_empty() && request.is_notification() {
            talk.accept("202 Accepted").await?;
        }
        for action in actions {
            match action {
                Action::Close => return Ok(false),
                Action::ExpectClose => {
                    hung_up(&mut talk.input).await;
                    return Ok(false);
                }
                Action::Hold => {
                    if let Ok(permit) = self.released.acquire().await {
                        permit.forget();
                    }
                }
                Action::Json(message) => talk.say(message, request).await?,
                Action::Raw(answer) => talk.write(&answer(request)).await?,
                Action::Stream { messages, ends } => talk.stream(messages, ends, request).await?,
            }
        }
        Ok(true)
    }
}

/// Counts what is being done about a request until it is done.
struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state().running -= 1;
        self.0.changed.send_replace(());
    }
}

impl State {
    /// The number of a new connection, and what is said on it before anything was asked.
    fn open(&mut self) -> (usize, Vec<Action>) {
        self.connections += 1;
        let actions = self.actions();
        self.running += usize::from(!actions.is_empty());
        (self.connections - 1, actions)
    }

    /// What is to be done before the next step that expects.
    fn actions(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(Step::Act(_)) = self.steps.front() {
            if let Some(Step::Act(action)) = self.steps.pop_front() {
                actions.push(action);
            }
        }
        actions
    }

    fn plan(&mut self, request: &PeerRequest, offered: Option<&[Value]>) -> Plan {
        self.keep(request);
        if let Some(failure) = &self.failure {
            return Plan::Fail(failure.clone());
        }
        let different = match self.steps.front() {
            Some(Step::Expect(expected)) => expected.difference(request),
            _ => Some(String::new()),
        };
        let Some(different) = different else {
            self.steps.pop_front();
            self.passed += 1;
            self.running += 1;
            return Plan::Act(self.actions());
        };
        if let Some(polite) = offered.and_then(|tools| polite(tools, request)) {
            return Plan::Polite(polite);
        }
        let wanted = self.wanted();
        let failure = format!("{wanted}, and {} came{different}", request.shown());
        self.failure = Some(failure.clone());
        Plan::Fail(failure)
    }

    fn keep(&mut self, request: &PeerRequest) {
        self.kept_bytes += request.cost();
        if self.kept_bytes <= MAX_KEPT_BYTES {
            self.requests.push(request.clone());
        } else {
            let count = self.requests.len();
            let failure = format!("more was asked than is kept, after {count} requests");
            self.failure.get_or_insert(failure);
        }
    }

    fn expected(&self) -> Option<&Expected> {
        self.steps.iter().find_map(|step| match step {
            Step::Expect(expected) => Some(expected),
            Step::Act(_) => None,
        })
    }

    /// What the script waits for, as the begin of a sentence.
    fn wanted(&self) -> String {
        let (number, total) = (self.passed + 1, self.total);
        match self.expected() {
            Some(expected) => format!("request {number} of {total} was to be {expected}"),
            None => format!("the script ended after {total} requests"),
        }
    }

    fn is_over(&self) -> bool {
        self.failure.is_some() || (self.steps.is_empty() && self.running == 0)
    }

    /// What is wrong; `None` if nothing is.
    fn shortfall(&self) -> Option<String> {
        match &self.failure {
            Some(failure) => Some(failure.clone()),
            None if self.expected().is_some() => {
                let last = match self.requests.last() {
                    Some(request) => format!("the last that came was {}", request.shown()),
                    None => "nothing came at all".to_owned(),
                };
                Some(format!("{} and did not come; {last}", self.wanted()))
            }
            None if !self.steps.is_empty() => Some("nobody connected".to_owned()),
            None if self.running > 0 => {
                let last = self.requests.last().map(PeerRequest::shown);
                let last = last.unwrap_or_else(|| "the connection".to_owned());
                Some(format!(
                    "what was to be done about {last} has not ended: the client neither read it \
                     nor hung up, or nobody released it"
                ))
            }
            None => None,
        }
    }
}

/// The peer's end of one connection.
struct Talk<Io> {
    input: BufReader<tokio::io::ReadHalf<Io>>,
    output: tokio::io::WriteHalf<Io>,
    framing: Framing,
    /// The head of a stream was written.
    has_begun: bool,
}

impl<Io: AsyncRead + AsyncWrite> Talk<Io> {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes).await?;
        self.output.flush().await
    }

    /// Writes a status and no message.
    async fn accept(&mut self, status: &str) -> io::Result<()> {
        match self.framing {
            Framing::Http => self.write(&answer(status, "", "")).await,
            Framing::Lines => Ok(()),
        }
    }

    async fn say(&mut self, message: Value, request: &PeerRequest) -> io::Result<()> {
        let text = filled(message, request).to_string();
        match self.framing {
            Framing::Http => {
                let whole = answer("200 OK", "application/json", &text);
                self.write(&whole).await
            }
            Framing::Lines => self.write(format!("{text}\n").as_bytes()).await,
        }
    }

    async fn stream(
        &mut self,
        messages: Vec<Value>,
        ends: bool,
        request: &PeerRequest,
    ) -> io::Result<()> {
        if self.framing == Framing::Http && !self.has_begun {
            self.has_begun = true;
            self.write(SSE_HEAD.as_bytes()).await?;
        }
        for message in messages {
            let text = filled(message, request).to_string();
            match self.framing {
                Framing::Http => {
                    let event = format!("data: {text}\n\n");
                    self.write(&chunk(event.as_bytes())).await?;
                }
                Framing::Lines => self.write(format!("{text}\n").as_bytes()).await?,
            }
        }
        if ends && self.framing == Framing::Http {
            self.write(LAST_CHUNK.as_bytes()).await?;
        }
        Ok(())
    }
}
