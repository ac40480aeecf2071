//! A connection's task: sends what is not a call, keeps the deadlines, tends the idle link.
//!
//! Owns the only `select!` of the client and the exchanges that run for it; must not know what a
//! message means. It ends when its connection is closed or aborted.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use super::channel::Channel;
use super::connection::Connection;
use super::event_queue::EventQueue;
use super::follow::{Followed, follow};
use super::outgoing::{Outgoing, Over, Room};
use super::refresh::{Pace, refresh};
use super::resume::{Resumed, resume};
use crate::error::Error;
use crate::session::client::{Owner, Step, early_end};
use crate::session::resume::Resumption;
use crate::transport::{Messages, Reply, ReplyHead, Sent};

/// Time between looks at the idle connections of a link.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// What is read of an answer that says nothing, or says no. It is a reason, not a result.
pub(super) const MAX_ASIDE_BYTES: usize = 64 * 1024;

/// Messages of a kind that are under way at once. Beyond it they wait in the connection's queue.
const MAX_EXCHANGES: usize = 64;

pub(super) fn start(connection: Arc<Connection>) -> JoinHandle<()> {
    tokio::spawn(run(connection))
}

/// The task of a hub that tells its observer.
pub(super) fn observe(queue: Arc<EventQueue>) -> JoinHandle<()> {
    tokio::spawn(async move { queue.run().await })
}

async fn run(connection: Arc<Connection>) {
    // What is asked for an answer, and what the peer is only told. Neither waits for the other, and
    // the end waits for what is told alone.
    let (mut asked, mut told) = (JoinSet::new(), JoinSet::new());
    let (mut refreshes, mut pace) = (JoinSet::new(), Pace::default());
    let (mut followed, mut following) = (Followed::default(), JoinSet::new());
    let mut sweeps = interval(SWEEP_INTERVAL);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut channel = Channel::new();
    loop {
        if connection.is_closing() {
            asked.abort_all();
            following.abort_all();
        }
        channel.end_if_lost(&connection);
        loop {
            let room = Room {
                to_ask: asked.len() < MAX_EXCHANGES,
                to_tell: told.len() < MAX_EXCHANGES,
                idle: told.is_empty(),
            };
            match connection.next_outgoing(&room) {
                Ok(Some(outgoing)) if connection.link.is_shared() => {
                    channel.send(&connection, outgoing).await;
                }
                Ok(Some(outgoing)) => {
                    let exchanges = match outgoing.owner {
                        Owner::Nobody => &mut told,
                        Owner::Confirmation | Owner::Request(_) => &mut asked,
                    };
                    exchanges.spawn(send(connection.clone(), outgoing));
                }
                Ok(None) => break,
                Err(Over) => return,
            }
        }
        if refreshes.is_empty() && connection.take_stale() {
            let pause = pace.begin(now(), connection.limits.max_resume_delay);
            refreshes.spawn(refresh(connection.clone(), pause));
        }
        if followed.is_due(&connection) {
            following.abort_all();
            following.spawn(follow(connection.clone()));
        }
        let deadline = connection.session(|session| session.poll_timeout());
        tokio::select! {
            () = connection.wake.notified() => {}
            Some(_) = asked.join_next() => {}
            Some(_) = told.join_next() => {}
            () = channel.read(&connection) => {}
            Some(_) = refreshes.join_next() => pace.handle_end(now()),
            Some(_) = following.join_next() => {}
            () = until(deadline) => connection.input(|session| session.handle_timeout(now())),
            _ = sweeps.tick() => connection.link.sweep(),
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// Sends one message and reads what comes back, within its time.
async fn send(connection: Arc<Connection>, outgoing: Outgoing) {
    let Outgoing { frame, owner, ends } = outgoing;
    let (what, limit) = patience(&connection, owner, ends);
    if timeout(
        limit,
        exchange(&connection, connection.link.send(frame), owner),
    )
    .await
    .is_err()
    {
        let error = Error::timeout(what, limit);
        connection.input(|session| session.handle_end(owner, Some(error)));
    }
    if let Some(id) = ends {
        connection.hang_up(id);
    }
}

/// How long a message may take, and the name of that limit.
fn patience(connection: &Connection, owner: Owner, ends: Option<i64>) -> (&'static str, Duration) {
    let limits = &connection.limits;
    match owner {
        Owner::Nobody if ends.is_some() => ("cancel_timeout", limits.cancel_timeout),
        Owner::Nobody => ("close_timeout", limits.close_timeout),
        Owner::Request(_) if connection.session(|session| session.opened().is_some()) => {
            ("list_timeout", limits.list_timeout)
        }
        Owner::Confirmation | Owner::Request(_) => ("connect_timeout", limits.connect_timeout),
    }
}

/// What to do with a reply. One of a form that holds no messages is no answer, whatever its status:
/// what it says instead is for the error.
pub(super) fn judge(connection: &Connection, owner: Owner, head: &ReplyHead) -> Step {
    let step = connection
        .input(|session| session.handle_head(owner, head.status, head.session_id.clone()));
    match step {
        Step::Read if !head.holds_messages() => Step::Refused,
        step => step,
    }
}

pub(super) async fn exchange(
    connection: &Arc<Connection>,
    sent: impl Future<Output = Result<Sent, Error>>,
    owner: Owner,
) {
    let Reply { head, mut messages } = match sent.await {
        Ok(Sent::Reply(reply)) => reply,
        Ok(Sent::Shared) => return connection.input(|session| session.handle_sent(owner)),
        Err(e) => return connection.input(|session| session.handle_end(owner, Some(e))),
    };
    match judge(connection, owner, &head) {
        // What comes beyond the excerpt is hung up.
        Step::Ignore => drop(poll_fn(|cx| messages.poll_excerpt(MAX_ASIDE_BYTES, cx)).await),
        Step::Refused => {
            let body = poll_fn(|cx| messages.poll_excerpt(MAX_ASIDE_BYTES, cx)).await;
            drop(messages);
            let body = connection.hide(&body);
            let authenticate = head.authenticate.map(|text| connection.hide(&text));
            connection.input(|session| {
                session.handle_refusal(owner, head.status, authenticate.as_deref(), &body);
            });
        }
        Step::Read => {
            if let Err(e) = read(connection, messages, owner).await {
                connection.input(|session| session.handle_end(owner, Some(e)));
            }
        }
    }
}

/// Reads a reply until nothing in it matters any more.
async fn read(
    connection: &Arc<Connection>,
    mut messages: Box<dyn Messages>,
    owner: Owner,
) -> Result<(), Error> {
    let mut resumption = Resumption::default();
    loop {
        let end = match poll_fn(|cx| messages.poll_next(cx)).await {
            Some(Ok(message)) => {
                let over = connection.input(|session| {
                    session.handle_message(&message, owner);
                    !session.awaits(owner)
                });
                if over {
                    messages.finish();
                    return Ok(());
                }
                continue;
            }
            Some(Err(e)) => e,
            None => early_end(),
        };
        let Owner::Request(id) = owner else {
            return Err(end);
        };
        Resumed {
            messages,
            resumption,
        } = resume(connection, id, resumption, messages.as_ref(), end)?.await?;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a driver reads the clock for its machines"
)]
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The moment `wait` from now; a wait beyond what the clock can count ends in thirty years.
pub(super) fn from_now(wait: Duration) -> tokio::time::Instant {
    const THIRTY_YEARS: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    let now = now();
    now.checked_add(wait)
        .unwrap_or_else(|| now + THIRTY_YEARS)
        .into()
}
