//! Which era a peer speaks: what to open a connection with, and what to do about the answer.
//!
//! Owns the user's choice, what was found out, and the order of the attempts; must not know how an
//! opening is sent. "Protocol Version Negotiation" of the specification's versioning page has the
//! rules: ask first, and fall back to the handshake whatever a server says that does not
//! understand the question.
//!
//! At most four openings are tried for one connection: the question, the question again if the
//! peer wants it repeated, one handshake, and a question after a handshake that the peer refuses
//! as one who does not shake hands, or was too slow to be asked before.

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::mcp::era::{Dialect, Opened, Unopened, clipped, dialect, spelled};
use crate::mcp::version::{Era, ProtocolVersion};
use crate::wire::jsonrpc::{self, Code, ErrorObject, Outcome, RawJson};

use super::call::rpc_error;

/// How the connections to one peer are opened.
#[derive(Debug)]
pub(crate) struct Negotiation {
    era: Era,
    /// What the peer spoke when a connection was open last.
    known: Option<ProtocolVersion>,
    step: Step,
    /// How often this opening has asked.
    questions: usize,
    /// It has offered the handshake.
    has_offered: bool,
    before: Option<Failed>,
}

/// What the opening under way is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Handshake,
    Question,
}

/// An opening that failed and was followed by another one.
#[derive(Debug)]
struct Failed {
    step: Step,
    error: Error,
    /// If the other one fails too, this is the error to tell.
    decides: bool,
    /// It was not answered in time, as by a peer that is slow to start.
    is_silence: bool,
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
    /// A child that heard an opening already must not hear it: start another one.
    pub(crate) is_fresh: bool,
}

/// How an opening failed that was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There was a reply, but no answer in it.
    Answerless,
    /// The peer has gone, and can be started again.
    Gone,
    /// It did not reach the peer.
    Unsent,
}

/// What an answer that opens nothing says of the peer.
#[derive(Debug)]
enum Why {
    /// The peer understood the opening, and finds fault with it.
    Corrects,
    /// Whatever is tried next meets the same.
    Final,
    Gone,
    /// There was no answer in time.
    Silent,
    /// Nothing certain: trouble of its own, an odd answer or none.
    Unclear,
    /// The peer does not understand the opening.
    Unknown,
    /// What the peer speaks, as far as it says so.
    Versions {
        listed: Vec<String>,
        /// It is the error for a version that the peer does not speak.
        is_refusal: bool,
    },
}

impl Negotiation {
    /// `known` is what the peer spoke in another connection.
    pub(crate) fn new(era: Era, known: Option<ProtocolVersion>) -> Self {
        Self {
            era,
            known,
            step: Step::Question,
            questions: 0,
            has_offered: false,
            before: None,
        }
    }

    /// What was found out; `None` if nothing was, or the user said it.
    pub(crate) fn found(&self) -> Option<ProtocolVersion> {
        self.known.filter(|_| self.era == Era::Auto)
    }

    /// The dialect of the opening under way, or of the next one.
    pub(crate) fn dialect(&self) -> &'static dyn Dialect {
        match self.step {
            Step::Handshake => dialect(ProtocolVersion::NEWEST_LEGACY),
            Step::Question => dialect(ProtocolVersion::NEWEST_MODERN),
        }
    }

    /// Begins to open a connection. A peer that is known to want it otherwise is not asked.
    pub(crate) fn begin(&mut self) -> Opening {
        let shakes_hands = match self.era {
            Era::Auto => self.known.is_some_and(ProtocolVersion::is_legacy),
            Era::Legacy => true,
            Era::Modern => false,
        };
        (self.questions, self.has_offered, self.before) = (0, false, None);
        match shakes_hands {
            true => self.opening(Step::Handshake, false),
            false => self.opening(Step::Question, false),
        }
    }

    fn opening(&mut self, step: Step, is_fresh: bool) -> Opening {
        self.step = step;
        match step {
            Step::Handshake => self.has_offered = true,
            Step::Question => self.questions += 1,
        }
        Opening {
            dialect: self.dialect(),
            is_question: step == Step::Question && self.may_offer(),
            is_fresh,
        }
    }

    fn may_offer(&self) -> bool {
        self.era == Era::Auto && !self.has_offered
    }

    /// The opening was answered.
    pub(crate) fn handle_answer(&mut self, outcome: Outcome) -> Move {
        let result = match outcome {
            Outcome::Result(result) => result,
            Outcome::Error(error) => {
                let (why, versions) = (meaning(&error), self.versions_in(&error));
                return self.fail(why, with(rpc_error(error), versions));
            }
            Outcome::Malformed(detail) => return self.fail(Why::Unclear, Error::protocol(detail)),
        };
        match self.dialect().opened(&result) {
            Ok(opened) => {
                self.known = Some(opened.version);
                Move::Done(opened)
            }
            Err(Unopened::Odd(detail)) => self.fail(Why::Unclear, Error::protocol(detail)),
            Err(Unopened::Versions(listed)) => {
                let error = Error::protocol(self.no_common_version(&listed));
                let is_refusal = false;
                self.fail(Why::Versions { listed, is_refusal }, error)
            }
        }
    }

    /// The opening was refused: with a status that is no success, or a reply that holds no
    /// messages. `rpc` is the JSON-RPC error in the body, if there is one, and `error` what is
    /// told of it all.
    pub(crate) fn handle_refusal(
        &mut self,
        status: u16,
        rpc: Option<ErrorObject>,
        error: Error,
    ) -> Move {
        let versions = rpc.as_ref().and_then(|rpc| self.versions_in(rpc));
        match (status, rpc) {
            (401 | 403, _) => self.fail(Why::Final, error),
            (_, Some(rpc)) => self.fail(meaning(&rpc), with(error, versions)),
            (400 | 404 | 405, None) if self.step == Step::Handshake => {
                let hint = "an endpoint of the deprecated HTTP+SSE transport answers so, which is \
                            not supported; check the URL";
                self.fail(Why::Unknown, error.with_clause(hint))
            }
            (400..=499, None) => self.fail(Why::Unknown, error),
            (_, None) => self.fail(Why::Unclear, error),
        }
    }

    /// There was no answer for so long.
    pub(crate) fn handle_silence(&mut self, after: Duration) -> Move {
        self.fail(Why::Silent, Error::timeout("discover_timeout", after))
    }

    /// What is known of the peer led to nothing: from now on it is asked.
    pub(crate) fn doubt(&mut self) {
        self.known = None;
    }

    /// There is no answer, and none will come.
    pub(crate) fn handle_failure(&mut self, error: Error, failure: Failure) -> Move {
        let why = match failure {
            Failure::Answerless => Why::Unclear,
            Failure::Gone => Why::Gone,
            Failure::Unsent => Why::Final,
        };
        self.fail(why, error)
    }

    fn fail(&mut self, why: Why, error: Error) -> Move {
        let Some((step, is_fresh)) = self.next(&why) else {
            // One that has gone would have to be started twice to be asked.
            if !matches!(why, Why::Final | Why::Gone) {
                self.doubt();
            }
            return Move::Fail(self.told(error));
        };
        let decides = matches!(why, Why::Corrects) && self.step == Step::Question;
        self.before = Some(Failed {
            step: self.step,
            error,
            decides,
            is_silence: matches!(why, Why::Silent),
        });
        Move::Open(self.opening(step, is_fresh))
    }

    /// What may follow, and whether a child has to be started anew for it: one that heard a
    /// handshake stays with it.
    fn next(&self, why: &Why) -> Option<(Step, bool)> {
        match (self.step, why) {
            (_, Why::Final) => None,
            (
                Step::Question,
                Why::Versions {
                    listed,
                    is_refusal: true,
                },
            ) if speaks(listed, false) => (self.questions == 1).then_some((Step::Question, false)),
            (Step::Question, _) if !self.may_offer() => None,
            (Step::Question, Why::Versions { listed, .. }) => {
                speaks(listed, true).then_some((Step::Handshake, false))
            }
            (Step::Question, why) => Some((Step::Handshake, matches!(why, Why::Gone))),
            (Step::Handshake, _) if self.era != Era::Auto => None,
            // It may say so only because it was asked before, and then heard a handshake.
            (
                Step::Handshake,
                Why::Versions {
                    listed,
                    is_refusal: true,
                },
            ) => (listed.is_empty() || speaks(listed, false)).then_some((Step::Question, true)),
            // It is not what it was.
            (Step::Handshake, Why::Corrects | Why::Unknown) if self.questions == 0 => {
                Some((Step::Question, true))
            }
            // It may have been too slow to be asked, and speaks that alone.
            (Step::Handshake, Why::Corrects | Why::Unknown)
                if self.before.as_ref().is_some_and(|before| before.is_silence) =>
            {
                Some((Step::Question, false))
            }
            (Step::Handshake, _) => None,
        }
    }

    /// The error of an opening that nothing follows, with what was tried before it.
    fn told(&mut self, error: Error) -> Error {
        match self.before.take() {
            Some(before) if before.decides => {
                let last = Told(self.step, &error, &before.error);
                let clause = format!("after that, {last}");
                before.error.with_clause(&clause)
            }
            Some(before) if before.step != self.step => {
                let first = Told(before.step, &before.error, &error);
                let clause = format!("before that, {first}");
                error.with_clause(&clause)
            }
            _ => error,
        }
    }

    /// Both sides' versions, if the peer's error names its own or is about them.
    fn versions_in(&self, error: &ErrorObject) -> Option<String> {
        let listed = listed_in(error.data.as_ref());
        let is_about = error.code == Code::UNSUPPORTED_VERSION || !listed.is_empty();
        is_about.then(|| self.no_common_version(&listed))
    }

    fn no_common_version(&self, listed: &[String]) -> String {
        let theirs = match listed {
            [] => "names no protocol version".to_owned(),
            [one] => format!("speaks protocol version {:?}", clipped(one)),
            many => format!("speaks protocol versions {:?}", clipped(&many.join(", "))),
        };
        let may_speak = |version: &ProtocolVersion| match self.era {
            Era::Auto => true,
            Era::Legacy => version.is_legacy(),
            Era::Modern => !version.is_legacy(),
        };
        let ours = spelled(ProtocolVersion::ALL.into_iter().filter(may_speak));
        format!("the server {theirs}; this client knows {ours}")
    }
}

fn with(error: Error, clause: Option<String>) -> Error {
    match clause {
        Some(clause) => error.with_clause(&clause),
        None => error,
    }
}

/// Whether any of these versions is one that we know, of the kind.
fn speaks(listed: &[String], legacy: bool) -> bool {
    let known = |text: &String| ProtocolVersion::parse(text);
    let mut versions = listed.iter().filter_map(known);
    versions.any(|version| version.is_legacy() == legacy)
}

fn meaning(error: &ErrorObject) -> Why {
    match error.code {
        Code::UNSUPPORTED_VERSION => Why::Versions {
            listed: listed_in(error.data.as_ref()),
            is_refusal: true,
        },
        Code::HEADER_MISMATCH | Code::MISSING_CAPABILITY => Why::Corrects,
        Code::INVALID_PARAMS | Code::INVALID_REQUEST | Code::METHOD_NOT_FOUND => Why::Unknown,
        _ => Why::Unclear,
    }
}

/// The versions in the data of an error; none if there are none to be read.
fn listed_in(data: Option<&RawJson>) -> Vec<String> {
    let listed = |data: &RawJson| -> Option<Vec<String>> {
        let [supported] = jsonrpc::given(data.as_str(), ["supported"]).ok()?;
        jsonrpc::strings(supported?.get()).ok()
    };
    data.and_then(listed).unwrap_or_default()
}

/// A step and how it failed, in short if that was as for the `other` one.
struct Told<'a>(Step, &'a Error, &'a Error);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(step, error, other) = self;
        f.write_str(match step {
            Step::Handshake => "initialize: ",
            Step::Question => "server/discover: ",
        })?;
        let (text, other) = (error.to_string(), other.to_string());
        match other.strip_prefix(&*text) {
            Some(_) => f.write_str("the same"),
            None => f.write_str(&text),
        }
    }
}

#[cfg(test)]
mod tests;
