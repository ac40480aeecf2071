//! Which era a peer speaks: what to open a connection with, and what to do about the answer.
//!
//! Owns the user's choice, what was found out, and the order of the attempts; must not know how an
//! opening is sent. "Protocol Version Negotiation" of the specification's versioning page has the
//! rules: ask first, and fall back to the handshake whatever a server says that does not
//! understand the question.

use crate::error::Error;
use crate::mcp::era::{Dialect, Opened, dialect};
use crate::mcp::version::{Era, ProtocolVersion};
use crate::wire::jsonrpc::{ErrorObject, Outcome};

use super::call::rpc_error;

/// How the connections to one peer are opened.
#[derive(Debug)]
pub(crate) struct Negotiation {
    era: Era,
    /// What the peer spoke when a connection was open last.
    known: Option<ProtocolVersion>,
    step: Step,
}

/// What the opening under way is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Handshake,
    Question,
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Move {
    /// The connection is open.
    Done(Opened),
    /// It cannot be opened.
    Fail(Error),
    /// Send the opening of this dialect.
    Open(Opening),
}

/// An opening to be sent.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) dialect: &'static dyn Dialect,
    /// Its answer is waited for only so long; then [`Negotiation::handle_silence`] says what to do.
    pub(crate) is_question: bool,
    /// A child that was asked already must not hear it: start another one.
    pub(crate) is_fresh: bool,
}

impl Negotiation {
    /// `known` is what the peer spoke in another connection.
    pub(crate) fn new(era: Era, known: Option<ProtocolVersion>) -> Self {
        Self {
            era,
            known,
            step: Step::Question,
        }
    }

    /// The dialect of the opening under way, or of the next one.
    pub(crate) fn dialect(&self) -> &'static dyn Dialect {
        match self.step {
            Step::Handshake => dialect(ProtocolVersion::NEWEST_LEGACY),
            Step::Question => dialect(ProtocolVersion::NEWEST_MODERN),
        }
    }

    /// Begins to open a connection.
    pub(crate) fn begin(&mut self) -> Opening {
        let handshake = match self.era {
            Era::Auto => self.known.is_some_and(ProtocolVersion::is_legacy),
            Era::Legacy => true,
            Era::Modern => false,
        };
        self.opening(
            if handshake {
                Step::Handshake
            } else {
                Step::Question
            },
            false,
        )
    }

    fn opening(&mut self, step: Step, is_fresh: bool) -> Opening {
        self.step = step;
        Opening {
            dialect: self.dialect(),
            is_question: step == Step::Question && self.era == Era::Auto,
            is_fresh,
        }
    }

    /// The opening was answered.
    pub(crate) fn handle_answer(&mut self, outcome: Outcome) -> Move {
        let opened = match outcome {
            Outcome::Result(result) => self.dialect().opened(&result).map_err(Error::protocol),
            Outcome::Error(error) => Err(rpc_error(error)),
            Outcome::Malformed(detail) => Err(Error::protocol(detail)),
        };
        match opened {
            Ok(opened) => {
                self.known = Some(opened.version);
                Move::Done(opened)
            }
            Err(e) => self.fall_back(e, false),
        }
    }

    /// The opening was refused with a status that is no success. `rpc` is the JSON-RPC error in
    /// the body, if there is one, and `error` what is told of it all.
    pub(crate) fn handle_refusal(
        &mut self,
        status: u16,
        rpc: Option<ErrorObject>,
        error: Error,
    ) -> Move {
        let _ = rpc;
        match status {
            401 | 403 => Move::Fail(error),
            _ => self.fall_back(error, false),
        }
    }

    /// There was no answer in time.
    pub(crate) fn handle_silence(&mut self) -> Move {
        self.fall_back(Error::protocol("no answer to server/discover"), false)
    }

    /// The opening could not be sent, or its reply broke off. `lost` if the peer is gone and has
    /// to be started again.
    pub(crate) fn handle_failure(&mut self, error: Error, lost: bool) -> Move {
        match lost {
            true => self.fall_back(error, true),
            false => Move::Fail(error),
        }
    }

    fn fall_back(&mut self, error: Error, is_fresh: bool) -> Move {
        match (self.era, self.step) {
            (Era::Auto, Step::Question) => Move::Open(self.opening(Step::Handshake, is_fresh)),
            _ => Move::Fail(error),
        }
    }

    /// What the peer is known to speak.
    pub(crate) fn known(&self) -> Option<ProtocolVersion> {
        self.known
    }
}
