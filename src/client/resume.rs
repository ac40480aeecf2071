//! Taking up a reply again that ended before its answer.
//!
//! Owns the requests that ask for the rest of it; must not know who reads it, nor what the
//! messages in it mean.

use std::sync::Arc;

use tokio::time::sleep;

use super::connection::Connection;
use crate::error::{Error, Result};
use crate::mcp::frame::Frame;
use crate::session::client::EARLY_END;
use crate::session::resume::{Attempt, Resumption, is_passing};
use crate::transport::{BoxFuture, Messages, Reply, Sent};

/// A reply that goes on.
pub(super) struct Resumed {
    pub(super) messages: Box<dyn Messages>,
    pub(super) resumption: Resumption,
}

pub(super) type Resuming = BoxFuture<'static, Result<Resumed>>;

/// Asks for the rest of the reply of request `id`, whose connection ended with `error`.
///
/// # Errors
/// That error if the rest cannot be had: the peer has said no event to go on after, or said no, or
/// was asked often enough.
pub(super) fn resume(
    connection: &Arc<Connection>,
    id: i64,
    mut resumption: Resumption,
    ended: &dyn Messages,
    error: Error,
) -> Result<Resuming> {
    if !matches!(error, Error::Transport { .. }) {
        return Err(error);
    }
    resumption.handle_end(ended.position());
    match next(connection, id, &mut resumption) {
        Some(next) => Ok(Box::pin(ask(
            connection.clone(),
            id,
            resumption,
            next,
            error,
        ))),
        None => Err(given_up(connection, &resumption, error)),
    }
}

/// Names the limit, if it was that.
fn given_up(connection: &Connection, resumption: &Resumption, error: Error) -> Error {
    let limits = &connection.limits;
    if !resumption.is_spent(limits) {
        return error;
    }
    let times = limits.max_resume_attempts;
    Error::transport_by(
        format!("the rest was asked for {times} times (`max_resume_attempts`)"),
        error,
    )
}

fn next(connection: &Connection, id: i64, resumption: &mut Resumption) -> Option<(Attempt, Frame)> {
    let attempt = resumption.next_attempt(&connection.limits)?;
    let after = attempt.after.clone();
    let frame = connection.input(|session| session.resume(id, after))?;
    Some((attempt, frame))
}

async fn ask(
    connection: Arc<Connection>,
    id: i64,
    mut resumption: Resumption,
    first: (Attempt, Frame),
    mut error: Error,
) -> Result<Resumed> {
    let mut upcoming = Some(first);
    while let Some((attempt, frame)) = upcoming {
        sleep(attempt.wait).await;
        match connection.link.send(frame).await {
            Ok(Sent::Reply(Reply { head, messages })) => match head.status {
                200..=299 if head.holds_messages() => {
                    return Ok(Resumed {
                        messages,
                        resumption,
                    });
                }
                status if is_passing(status) => error = refused(status),
                status => return Err(refused(status)),
            },
            Ok(Sent::Shared) => break,
            Err(e @ (Error::HeaderProvider { .. } | Error::Transport { .. })) => error = e,
            Err(e) => return Err(e),
        }
        upcoming = next(&connection, id, &mut resumption);
    }
    Err(given_up(&connection, &resumption, error))
}

fn refused(status: u16) -> Error {
    Error::transport(format!(
        "{EARLY_END}, and the server does not go on with it (HTTP {status})"
    ))
}
