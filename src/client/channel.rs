//! The channel of a shared link, which all answers come on.
//!
//! Owns when it is opened, read and given up; must not know what a message means. It lives as long
//! as the attempt to open the connection that it was opened for.

use std::future::{pending, poll_fn};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::sleep;

use super::connection::Connection;
use super::driver::MAX_ASIDE_BYTES;
use super::outgoing::Outgoing;
use crate::error::Error;
use crate::session::client::Owner;
use crate::transport::Messages;

/// Messages that are taken before anything else gets its turn. Until the next turn their events are
/// slices of what was read: at worst, with noise in between, a piece of 64 KiB for each.
const MAX_MESSAGES: usize = 128;

/// A reader that makes a lot of room at once ends the pause; for less it is looked so often, so that
/// a slow reader of one call does not hold up the others for longer than it has to.
const MAX_PAUSE: Duration = Duration::from_millis(20);

pub(super) struct Channel {
    messages: Option<Box<dyn Messages>>,
    /// For which attempt it was opened.
    attempt: Option<u64>,
    /// How often it was opened since a request was answered, and how many were answered by then.
    starts: usize,
    answered: u64,
    /// There was more to take in the last turn.
    is_cut: bool,
}

/// How a turn ended.
enum Turn {
    /// There may be more at hand.
    Cut,
    /// Nothing more at hand.
    Dry,
    /// The channel is over.
    Ended,
}

impl Channel {
    pub(super) fn new() -> Self {
        Self {
            messages: None,
            attempt: None,
            starts: 0,
            answered: 0,
            is_cut: false,
        }
    }

    /// Hands a message to the link, which takes it at once. The first one of an attempt to open the
    /// connection opens the channel.
    pub(super) async fn send(&mut self, connection: &Connection, outgoing: Outgoing) {
        let Outgoing { frame, owner, .. } = outgoing;
        let opened = match owner {
            Owner::Request(_) => self.open(connection),
            Owner::Confirmation | Owner::Nobody => Ok(()),
        };
        let sent = match opened {
            Ok(()) => connection.link.send(frame).await,
            Err(e) => Err(e),
        };
        connection.input(|session| match sent {
            Ok(_) => session.handle_sent(owner),
            Err(e) => session.handle_end(owner, Some(e)),
        });
    }

    fn open(&mut self, connection: &Connection) -> Result<(), Error> {
        let (attempt, answered) =
            connection.session(|session| (session.attempt(), session.answered()));
        if self.messages.is_some() && attempt == self.attempt {
            return Ok(());
        }
        if std::mem::replace(&mut self.answered, answered) != answered {
            self.starts = 0;
        }
        let max = connection.limits.max_child_starts;
        if self.starts >= max {
            return Err(Error::limit("max_child_starts", max));
        }
        // The last one goes before the next one comes.
        self.messages = None;
        self.messages = connection.link.open()?;
        self.attempt = attempt;
        self.starts += 1;
        Ok(())
    }

    /// Gives the channel up if the session does not live from it any more: it was refused, or it
    /// took too long.
    pub(super) fn end_if_lost(&mut self, connection: &Connection) {
        if self.messages.is_some() && connection.session(|s| s.attempt()) != self.attempt {
            self.messages = None;
        }
    }

    /// Reads some messages, or waits until some may be read. Cancel safe: what was read was given
    /// to the session.
    pub(super) async fn read(&mut self, connection: &Connection) {
        let Some(messages) = &mut self.messages else {
            return pending().await;
        };
        if let Some(pause) = connection.pause() {
            return sleep(pause.min(MAX_PAUSE)).await;
        }
        if std::mem::take(&mut self.is_cut) {
            // What was read by its reader need not be copied.
            yield_now().await;
        }
        match poll_fn(|cx| read_some(messages.as_mut(), connection, cx)).await {
            Turn::Cut => self.is_cut = true,
            Turn::Dry => {}
            Turn::Ended => self.messages = None,
        }
    }
}

fn read_some(
    messages: &mut dyn Messages,
    connection: &Connection,
    cx: &mut Context<'_>,
) -> Poll<Turn> {
    for taken in 0..MAX_MESSAGES {
        match messages.poll_next(cx) {
            Poll::Ready(Some(message)) => {
                if taken == 0 {
                    connection.settle();
                }
                match message {
                    Ok(message) => {
                        connection.input(|session| session.handle_message(&message, Owner::Nobody))
                    }
                    Err(e) => connection.input(|session| session.handle_skipped(&e)),
                }
                if connection.is_full() {
                    return Poll::Ready(Turn::Cut);
                }
            }
            Poll::Ready(None) => {
                let how = match messages.poll_excerpt(MAX_ASIDE_BYTES, cx) {
                    Poll::Ready(how) => how,
                    Poll::Pending => String::new(),
                };
                let error = Error::transport(how);
                connection.lose(|session| session.handle_lost(&error));
                return Poll::Ready(Turn::Ended);
            }
            Poll::Pending if taken > 0 => return Poll::Ready(Turn::Dry),
            Poll::Pending => return Poll::Pending,
        }
    }
    Poll::Ready(Turn::Cut)
}

#[cfg(test)]
mod tests;
