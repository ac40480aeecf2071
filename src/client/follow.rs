//! How a server comes to say what concerns no call: that its tools have changed. On a stream of the
//! session, or in answer to a request of its own.
//!
//! Owns when that is asked for and when no more; must not know what is said. Whatever becomes of
//! it, the connection goes on.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

use tokio::time::sleep;

use super::connection::Connection;
use super::driver::now;
use crate::error::Error;
use crate::mcp::frame::Frame;
use crate::session::client::Owner;
use crate::session::resume::{Resumption, is_passing};
use crate::transport::{Media, Messages, Reply, Sent};

/// Which opening of a connection is followed already.
#[derive(Debug, Default)]
pub(super) struct Followed(u64);

impl Followed {
    /// Whether there is a new one, which is to be followed in place of the last one.
    pub(super) fn is_due(&mut self, connection: &Connection) -> bool {
        let opening = connection.session(|session| session.opened().map(|_| session.generation()));
        match opening {
            Some(opening) if connection.follows_list_changes && opening != self.0 => {
                self.0 = opening;
                true
            }
            _ => false,
        }
    }
}

/// Listens to the server, and asks again each time that ends, until the server says no.
pub(super) async fn follow(connection: Arc<Connection>) {
    match connection.session(|session| session.stream()) {
        Some(frame) => follow_stream(&connection, frame).await,
        None => listen(&connection).await,
    }
}

async fn listen(connection: &Arc<Connection>) {
    let mut resumption = Resumption::default();
    loop {
        let began = now();
        let Some(true) = connection.listen().await else {
            return;
        };
        handle_end(connection, began, &mut resumption);
        sleep(resumption.next_wait(&connection.limits)).await;
    }
}

async fn follow_stream(connection: &Connection, frame: Frame) {
    let mut resumption = Resumption::default();
    loop {
        let mut frame = frame.clone();
        frame.head.last_event_id = resumption.after();
        match connection.link.send(frame).await {
            Ok(Sent::Reply(Reply { head, messages })) => match head.status {
                200..=299 if head.media == Media::Sse => {
                    read(connection, messages, &mut resumption).await;
                }
                status if is_passing(status) => {}
                _ => return,
            },
            Err(Error::HeaderProvider { .. } | Error::Transport { .. }) => {}
            Ok(Sent::Shared) | Err(_) => return,
        }
        sleep(resumption.next_wait(&connection.limits)).await;
    }
}

async fn read(
    connection: &Connection,
    mut messages: Box<dyn Messages>,
    resumption: &mut Resumption,
) {
    let began = now();
    while let Some(Ok(message)) = poll_fn(|cx| messages.poll_next(cx)).await {
        resumption.forgive();
        connection.input(|session| session.handle_message(&message, Owner::Nobody));
    }
    handle_end(connection, began, resumption);
    resumption.handle_end(messages.position());
}

/// A stream that lived long ended for reasons of its own, as proxies have them.
fn handle_end(connection: &Connection, began: Instant, resumption: &mut Resumption) {
    if now().saturating_duration_since(began) > connection.limits.max_resume_delay {
        resumption.forgive();
    }
}
