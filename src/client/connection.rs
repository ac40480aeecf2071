//! One connected server: its session, its link, and the calls that run on it.
//!
//! Owns what the connection's task and its calls share; must not know how a name found it. The
//! session is locked at the start and the end of a call and for what arrives on another call's
//! reply, never per event.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::driver;
use super::events::{Observer, ServerChange};
use super::hub::Hub;
use super::inbox::{Inbox, Pushed};
use super::outgoing::{Outbox, Outgoing, Over, Retired, Room};
use super::secrets::Secrets;
use crate::error::{Error, Place, Result};
use crate::event::StreamEvent;
use crate::limits::Limits;
use crate::mcp::types::{Implementation, ToolDescription};
use crate::mcp::version::ProtocolVersion;
use crate::session::call::Call;
use crate::session::client::{Asker, CallSpec, CallStart, ClientSession, Event, Output, Owner};
use crate::session::negotiate::Negotiation;
use crate::session::tools::ToolList;
use crate::transport::{BoxFuture, Link, Sent};

mod ending;
mod tools;

use ending::AbortOnDrop;
use tools::Standing;

pub(super) struct Connection {
    name: Arc<str>,
    place: Place,
    pub(super) link: Box<dyn Link>,
    pub(super) limits: Limits,
    observer: Observer,
    /// Which hub wants to know its tools.
    pub(super) hub: Weak<Hub>,
    pub(super) follows_list_changes: bool,
    session: Mutex<ClientSession>,
    shared: Mutex<Shared>,
    /// Wakes the task: there is something to send, or a deadline changed.
    pub(super) wake: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What waits for the task, and who waits for it.
#[derive(Default)]
struct Shared {
    outgoing: Outbox,
    inboxes: HashMap<i64, Arc<Inbox>>,
    /// Calls whose inbox was full when it was last filled.
    full: HashSet<i64>,
    opening: Vec<oneshot::Sender<Result<()>>>,
    listing: HashMap<i64, oneshot::Sender<Listed>>,
    /// Who waits for the end of a subscription.
    listening: HashMap<i64, oneshot::Sender<bool>>,
    /// The hub's list of tools is this connection's.
    followed: bool,
    standing: Standing,
    /// Until then it is good, unless the server says otherwise.
    fresh_until: Option<Instant>,
}

impl Shared {
    /// Of a call that is over; its reader has the inbox.
    fn forget(&mut self, id: i64) {
        self.inboxes.remove(&id);
        self.full.remove(&id);
    }
}

/// The end of a tool list, and the session that was lost on the way.
type Listed = (Result<ToolList>, Option<u64>);

/// What is told once no lock is held: whoever hears it may call back.
enum Told {
    Changed(ServerChange),
    /// The list of tools may have changed unsaid.
    Doubted,
    HungUp(#[expect(dead_code, reason = "kept to be dropped")] Retired),
    Listed(oneshot::Sender<Listed>, Listed),
    Opened(Vec<oneshot::Sender<Result<()>>>, Result<()>),
    Ready(Waker),
    Unsubscribed(oneshot::Sender<bool>, bool),
    Warning(String),
}

/// A call that the session knows, or why there is none.
pub(super) enum Begun {
    /// The connection is not open: open it anew, unless it is still the one of this generation.
    Lost(u64),
    Started(Call, BoxFuture<'static, Result<Sent>>, Arc<Inbox>),
}

impl Connection {
    /// Connects: starts the task, opens the session and asks for the tools, within what is `left`
    /// of the connect timeout.
    ///
    /// # Cancel safety
    /// Dropping the future ends the task and drops the link.
    pub(super) async fn connect(
        name: Arc<str>,
        link: Box<dyn Link>,
        client: Implementation,
        limits: Limits,
        negotiation: Negotiation,
        left: Duration,
        hub: &Arc<Hub>,
    ) -> Result<(Arc<Self>, Vec<ToolDescription>)> {
        let place = Place::new(&name, None);
        let is_shared = link.is_shared();
        let (place_of_session, bounds) = (place.clone(), limits.clone());
        let session = ClientSession::new(client, place_of_session, bounds, is_shared, negotiation);
        let connection = Arc::new(Self {
            name,
            place,
            link,
            limits,
            observer: hub.observer.clone(),
            hub: Arc::downgrade(hub),
            follows_list_changes: hub.follows_list_changes,
            session: Mutex::new(session),
            shared: Mutex::default(),
            wake: Arc::new(Notify::new()),
            task: Mutex::new(None),
        });
        let guard = AbortOnDrop(Some(connection.clone()));
        let task = driver::start(connection.clone());
        *connection
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(task);
        let opened = async {
            connection.reopen(0).await?;
            connection.list(Asker::User).await
        };
        let limit = connection.limits.connect_timeout;
        let opened = match timeout(left, opened).await {
            Ok(opened) => opened,
            Err(_) => Err(Error::timeout("connect_timeout", limit)),
        };
        match opened {
            Ok(tools) => {
                guard.keep();
                Ok((connection, tools))
            }
            Err(e) => {
                // Also if it took too long.
                connection.forget();
                // A session may be open already: say goodbye to it.
                connection.close().await;
                Err(e)
            }
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the session an input and does what comes out of it.
    ///
    /// Messages are queued and events are in their inbox before anybody else can give it another
    /// one, so both keep the order of the session. The session is locked before what is shared,
    /// never after it.
    pub(super) fn input<R>(&self, input: impl FnOnce(&mut ClientSession) -> R) -> R {
        let mut told = Vec::new();
        let mut sends = false;
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let result = input(&mut session);
        while let Some(output) = session.poll_output() {
            match output {
                // What waits for nothing keeps its place among the calls, which are sent likewise.
                Output::Send { frame, owner, .. }
                    if owner == Owner::Nobody && self.link.is_shared() =>
                {
                    drop(self.link.send(frame));
                }
                Output::Send { frame, owner, ends } => {
                    sends = true;
                    let outgoing = Outgoing { frame, owner, ends };
                    let max = self.limits.max_queued_messages;
                    let overflow = self.shared().outgoing.push(outgoing, max);
                    told.extend(overflow.map(Told::HungUp));
                }
                Output::Event(Event::Call { id, event }) => {
                    let reader = self.receive(&mut session, id, event, None);
                    told.extend(reader.map(Told::Ready));
                }
                Output::Event(Event::Returned { id, state, event }) => {
                    let reader = self.receive(&mut session, id, event, Some(state));
                    told.extend(reader.map(Told::Ready));
                }
                Output::Event(event) => told.extend(self.route(&session, event)),
            }
        }
        drop(session);
        if sends {
            self.wake.notify_one();
        }
        for told in told {
            self.tell(told);
        }
        result
    }

    /// Looks at the session without changing it.
    pub(super) fn session<R>(&self, look: impl FnOnce(&ClientSession) -> R) -> R {
        look(&self.session.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a peer must not make us show.
    fn secrets<'a>(&'a self, session: &'a ClientSession) -> Secrets<'a> {
        Secrets {
            of_link: self.link.secrets(),
            session: session.last_session(),
        }
    }

    /// What a refusal says, without our secrets.
    pub(super) fn hide(&self, text: &str) -> String {
        self.session(|session| self.secrets(session).hide(text).into_owned())
    }

    /// A terminal event of a call's own reply, without our secrets.
    pub(super) fn hide_in_event(&self, event: StreamEvent) -> StreamEvent {
        match event.error() {
            Some(_) => self.session(|session| self.secrets(session).hide_in_event(event)),
            None => event,
        }
    }

    /// An event of a call that did not come through its own reply. A call with too many of them
    /// ends. With a `returned` it is the end only if the call is not made again.
    fn receive(
        &self,
        session: &mut ClientSession,
        id: i64,
        event: StreamEvent,
        returned: Option<Box<str>>,
    ) -> Option<Waker> {
        let inbox = self.shared().inboxes.get(&id).cloned()?;
        let event = self.secrets(session).hide_in_event(event);
        let pushed = match returned {
            Some(state) => inbox.push_returned(event, state),
            None => inbox.push(event),
        };
        match pushed {
            Ok(Pushed::Done(reader)) => reader,
            Ok(Pushed::Full(reader)) => {
                self.shared().full.insert(id);
                reader
            }
            Err(full) => self.end_unread(session, id, &inbox, full),
        }
    }

    /// Ends a call that nobody reads.
    fn end_unread(
        &self,
        session: &mut ClientSession,
        id: i64,
        inbox: &Inbox,
        full: Error,
    ) -> Option<Waker> {
        let end = session.give_up(id, "too many unread events", full)?;
        match inbox.push(end) {
            Ok(Pushed::Done(reader) | Pushed::Full(reader)) => reader,
            Err(_) => None,
        }
    }

    /// More has come on a shared link: what waits unread lets go of what was read before.
    pub(super) fn settle(&self) {
        self.shared()
            .inboxes
            .values()
            .for_each(|inbox| inbox.settle());
    }

    /// Whether some call's events wait unread up to their bound, so that nothing more should be
    /// read from a shared link.
    pub(super) fn is_full(&self) -> bool {
        !self.shared().full.is_empty()
    }

    /// How long that lasts at most; `None` if it does not. Ends the calls whose events nobody reads.
    pub(super) fn pause(&self) -> Option<Duration> {
        if !self.is_full() {
            return None;
        }
        let (limit, now) = (self.limits.stalled_queue_timeout, driver::now());
        let mut pause: Option<Duration> = None;
        let mut unread = Vec::new();
        {
            let mut shared = self.shared();
            let Shared { full, inboxes, .. } = &mut *shared;
            full.retain(|id| {
                let Some(inbox) = inboxes.get(id) else {
                    return false;
                };
                let Some((error, since)) = inbox.is_full() else {
                    return false;
                };
                let left = limit.saturating_sub(now.saturating_duration_since(since));
                if left.is_zero() {
                    unread.push((*id, inbox.clone(), error));
                    return false;
                }
                pause = Some(pause.map_or(left, |pause| pause.min(left)));
                true
            });
        }
        for (id, inbox, error) in unread {
            if let Some(reader) = self.input(|session| self.end_unread(session, id, &inbox, error))
            {
                reader.wake();
            }
        }
        pause
    }

    /// Whom an event is for.
    fn route(&self, session: &ClientSession, event: Event) -> Vec<Told> {
        let secrets = self.secrets(session);
        match event {
            Event::Call { .. } | Event::Returned { .. } => Vec::new(),
            Event::Listed { id, tools, lost } => {
                let tools = tools.map_err(|e| secrets.hide_in(e));
                let waiter = self.shared().listing.remove(&id);
                let told = waiter.map(|waiter| Told::Listed(waiter, (tools, lost)));
                told.into_iter().collect()
            }
            Event::Opened(result) => {
                let waiters = std::mem::take(&mut self.shared().opening);
                let result = result.map_err(|e| secrets.hide_in(e));
                let again = result.is_ok() && session.generation() > 1;
                let changes = [Told::Changed(ServerChange::Reopened), Told::Doubted];
                let changes = changes.into_iter().filter(|_| again);
                changes.chain([Told::Opened(waiters, result)]).collect()
            }
            Event::Subscribed => vec![Told::Doubted],
            Event::ToolsChanged => vec![Told::Changed(ServerChange::ToolsChanged)],
            Event::Unsubscribed { id, again } => {
                let waiter = self.shared().listening.remove(&id);
                let told = waiter.map(|waiter| Told::Unsubscribed(waiter, again));
                told.into_iter().collect()
            }
            Event::Warning(text) => vec![Told::Warning(secrets.hide(&text).into_owned())],
        }
    }

    fn tell(&self, told: Told) {
        match told {
            Told::Changed(change @ ServerChange::ToolsChanged) => {
                self.observer.change(&self.name, change);
                self.distrust_tools();
            }
            Told::Changed(change) => self.observer.change(&self.name, change),
            Told::Doubted => self.doubt_tools(),
            Told::HungUp(_) => {}
            // Whoever waited may have gone.
            Told::Listed(waiter, listed) => drop(waiter.send(listed)),
            Told::Opened(waiters, result) => {
                for waiter in waiters {
                    let _ = waiter.send(result.clone());
                }
            }
            Told::Ready(reader) => reader.wake(),
            Told::Unsubscribed(waiter, again) => drop(waiter.send(again)),
            Told::Warning(text) => self.observer.warn(&self.name, &text),
        }
    }

    /// Opens the connection if it is still the one of `generation`. Callers that come together
    /// share one opening.
    pub(super) async fn reopen(&self, generation: u64) -> Result<()> {
        let (sender, waiter) = oneshot::channel();
        let current = self.input(|session| {
            if session.opened().is_some() && session.generation() != generation {
                return true;
            }
            self.shared().opening.push(sender);
            session.open(driver::now());
            false
        });
        if current {
            return Ok(());
        }
        let limit = self.limits.connect_timeout;
        let opened = match timeout(limit, waiter).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Error::closed("connection")),
            Err(_) => {
                let late = Error::timeout("connect_timeout", limit);
                // On a shared link nothing else ends an opening that gets no answer.
                if self.link.is_shared() {
                    self.lose(|session| session.give_up_opening(&late));
                    self.wake.notify_one();
                }
                Err(late)
            }
        };
        match &opened {
            Ok(()) => self.remember(),
            Err(_) => self.forget(),
        }
        opened.map_err(Error::without_place)
    }

    /// Keeps what the peer was found to speak for a connection that comes after this one.
    fn remember(&self) {
        let found = self.session(ClientSession::found);
        if let (Some(hub), Some(peer), Some(version)) =
            (self.hub.upgrade(), self.link.peer(), found)
        {
            hub.known().add(peer, version);
        }
    }

    /// A connection that comes after this one asks the peer again, which may be another by now.
    fn forget(&self) {
        if let Some((hub, peer)) = self.hub.upgrade().zip(self.link.peer()) {
            hub.known().forget(peer);
        }
    }

    /// The revision that is spoken; `None` while the session is lost.
    pub(super) fn protocol_version(&self) -> Option<&'static str> {
        self.session(|session| Some(session.opened()?.version.as_str()))
    }

    /// It is open, and another revision is spoken than this one.
    pub(super) fn speaks_other_than(&self, version: ProtocolVersion) -> bool {
        self.session(|session| session.opened().is_some_and(|now| now.version != version))
    }

    /// Begins a call, with a place for events that do not come through its own reply.
    pub(super) fn begin(
        &self,
        spec: &CallSpec<'_>,
        started: Instant,
        capacity: Option<usize>,
    ) -> Result<Begun> {
        self.input(|session| {
            if session.opened().is_none() {
                return Ok(Begun::Lost(session.generation()));
            }
            let CallStart { call, frame } = session.call(spec, started)?;
            let feeder = self.link.is_shared().then(|| self.wake.clone());
            let inbox = Arc::new(Inbox::new(&self.limits, capacity, feeder));
            let mut shared = self.shared();
            shared.inboxes.insert(call.id, inbox.clone());
            drop(shared);
            // Given to the link before the session can change, so that on a shared link it never
            // comes before the opening of the next one.
            Ok(Begun::Started(call, self.link.send(frame), inbox))
        })
    }

    /// A call is over, with its end known to its caller. What came for it another way is in its
    /// inbox by now, and nothing more will.
    pub(super) fn finish(&self, id: i64) {
        self.input(|session| {
            session.finish(id);
            self.shared().forget(id);
        });
    }

    /// A call is given up. The peer is told by the task; `reply` is hung up after that.
    pub(super) fn cancel(&self, id: i64, reason: &'static str, reply: Option<Retired>) {
        self.input(|session| session.cancel(id, reason));
        let mut shared = self.shared();
        shared.forget(id);
        let over = shared.outgoing.retire(id, reply);
        // Hung up outside the lock.
        drop(shared);
        drop(over);
    }

    /// The next message to send of a kind that there is room for; `Err` when there is none and none
    /// will come.
    pub(super) fn next_outgoing(&self, room: &Room) -> Result<Option<Outgoing>, Over> {
        self.shared().outgoing.next(room)
    }

    /// The channel that all answers come on is lost: whatever waits fails, and what was to be sent
    /// is not for the next one.
    pub(super) fn lose(&self, lose: impl FnOnce(&mut ClientSession)) {
        let left = self.input(|session| {
            lose(session);
            self.shared().outgoing.take()
        });
        // Hangs up outside the lock.
        drop(left);
    }

    /// Only what is to be said before the end is still sent.
    pub(super) fn is_closing(&self) -> bool {
        self.shared().outgoing.is_closing()
    }

    /// A cancel was delivered, or could not be.
    pub(super) fn hang_up(&self, id: i64) {
        let reply = self.shared().outgoing.hang_up(id);
        // Hung up outside the lock.
        drop(reply);
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
