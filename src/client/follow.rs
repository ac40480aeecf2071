//! The stream on which a server says what concerns no call: that its tools have changed.
//!
//! Owns when it is asked for and when no more; must not know what is said on it. Whatever becomes
//! of it, the connection goes on.

use std::future::poll_fn;
use std::sync::Arc;

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
    /// The frame that asks for the stream of an opening that is new; what followed the last one is
    /// to be ended.
    pub(super) fn next(&mut self, connection: &Connection) -> Option<Frame> {
        if !connection.follows_list_changes || connection.link.is_shared() {
            return None;
        }
        connection.session(|session| {
            let is_new = session.opened().is_some() && session.generation() != self.0;
            is_new.then(|| self.0 = session.generation())?;
            session.stream()
        })
    }
}

/// Reads the stream, and asks for it again each time it ends, until the server says no.
pub(super) async fn follow(connection: Arc<Connection>, frame: Frame) {
    let mut resumption = Resumption::default();
    loop {
        let mut frame = frame.clone();
        frame.head.last_event_id = resumption.after();
        match connection.link.send(frame).await {
            Ok(Sent::Reply(Reply { head, messages })) => match head.status {
                200..=299 if head.media == Media::Sse => {
                    read(&connection, messages, &mut resumption).await;
                }
                status if is_passing(status) => {}
                _ => return,
            },
            Err(Error::Transport { .. }) => {}
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
    // A stream that lived long ended for reasons of its own, as proxies have them.
    if now().saturating_duration_since(began) > connection.limits.max_resume_delay {
        resumption.forgive();
    }
    resumption.handle_end(messages.position());
}
