//! The requests of a call: the first one, and those that are made because the one before was not
//! run.
//!
//! Owns how often that may be, and what has to happen first; must not know how a reply is read. A
//! request that may have been run is never made again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{CallStream, Flight, State};
use crate::client::connection::{Begun, Connection};
use crate::client::driver::now;
use crate::client::refresh::relist;
use crate::error::{Error, Result};
use crate::mcp::version::ProtocolVersion;
use crate::session::client::CallSpec;
use crate::session::progress::ProgressDecoder;
use crate::session::resume::Resumption;

/// How often a server may want a request made again, and the wait before the first time. Each
/// further one waits twice as long.
const MAX_RETURNS: u32 = 3;
const RETURN_DELAY: Duration = Duration::from_millis(100);

/// What was done already to have a request of the call run.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    relisted: bool,
    reopened: bool,
    returns: u32,
    /// What the server wants to be given back, as JSON.
    state: Option<Box<str>>,
}

/// Why a request is made again.
pub(super) enum Repeat {
    /// The tool may want other headers than when it was listed: the server said so with this.
    Relisted(Arc<Connection>, Error),
    /// The peer lost the session of that number. Or so it seems: if it still speaks this revision,
    /// it may have run the request, and the call ends with this.
    Reopened(Arc<Connection>, u64, Option<(ProtocolVersion, Error)>),
    /// The server wants it again, with this beside it.
    Returned(Box<str>),
}

impl CallStream {
    /// Finds the tool and sends the request.
    pub(super) fn start(&mut self) -> Result<State> {
        let hub = self.hub.upgrade().ok_or_else(|| Error::closed("hub"))?;
        let arguments = self.wanted.arguments.as_ref().map_err(Clone::clone)?;
        // What was tried once is not tried on another server, whatever its name means by now.
        let (tool, connection) = match &self.tool {
            Some(tool) => hub.resolve(tool.name(), Some(tool.server())),
            None => hub.resolve(&self.wanted.tool, self.wanted.server.as_deref()),
        }?;
        let started = *self.started.get_or_insert_with(now);
        let spec = CallSpec {
            tool: tool.name(),
            arguments,
            events: self.wanted.events,
            timeout: self.wanted.timeout,
            wraps_result: tool.wraps_result(),
            mirrored: tool.mirrored(),
            state: self.repeats.state.as_deref(),
            place: tool.place(),
        };
        let begun = connection.begin(&spec, started, self.wanted.queue_capacity);
        self.tool = Some(tool);
        let (call, sent, inbox) = match begun? {
            Begun::Lost(generation) => {
                return Ok(self.after(async move { connection.reopen(generation).await }));
            }
            Begun::Started(call, sent, inbox) => (call, sent, inbox),
        };
        if self.wanted.timeout.is_some() {
            // The task keeps the deadline, so that it holds also while nobody reads.
            connection.wake.notify_one();
        }
        let progress = ProgressDecoder::new(connection.limits.max_json_depth);
        Ok(State::Sending(
            sent,
            Flight {
                connection,
                call,
                inbox,
                progress,
                resumption: Resumption::default(),
            },
        ))
    }

    /// What leads to the request being made again; `None` if it was made often enough.
    pub(super) fn repeat(&mut self, repeat: Repeat) -> Option<State> {
        let repeats = &mut self.repeats;
        match repeat {
            Repeat::Relisted(connection, error) => {
                let first = !std::mem::replace(&mut repeats.relisted, true);
                first.then(|| {
                    self.after(async move { relist(&connection).await.map_err(|_| error) })
                })
            }
            Repeat::Reopened(connection, generation, doubt) => {
                let first = !std::mem::replace(&mut repeats.reopened, true);
                first.then(|| {
                    self.after(async move {
                        let reopened = connection.reopen(generation).await;
                        match doubt {
                            Some((version, error)) if !connection.speaks_other_than(version) => {
                                Err(error)
                            }
                            _ => reopened,
                        }
                    })
                })
            }
            Repeat::Returned(state) if repeats.returns < MAX_RETURNS => {
                let delay = RETURN_DELAY * 2_u32.pow(repeats.returns);
                repeats.returns += 1;
                repeats.state = Some(state);
                Some(self.after(async move {
                    sleep(delay).await;
                    Ok(())
                }))
            }
            Repeat::Returned(_) => None,
        }
    }

    /// Makes the request once `prepared` is done, within what is left of the call's time.
    fn after(&self, prepared: impl Future<Output = Result<()>> + Send + 'static) -> State {
        let limit = self.wanted.timeout.zip(self.started);
        State::Repeating(Box::pin(async move {
            let Some((limit, started)) = limit else {
                return prepared.await;
            };
            let left = limit.saturating_sub(now().saturating_duration_since(started));
            let late = |_| Err(Error::timeout("timeout", limit));
            timeout(left, prepared).await.unwrap_or_else(late)
        }))
    }
}
