//! How a command ends when it does not end well: what is said of it, and the exit status.

use std::error::Error as StdError;
use std::io::{self, Write};

use agent_hub_kit::Error;

use crate::shown::visible;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The call did not end with a result.
    Call(Error),
    Cancelled,
    /// One at least.
    Connect(Vec<Unconnected>),
    /// Standard output could not be written.
    Output(io::Error),
    Serve {
        error: Error,
        advice: &'static str,
    },
    /// The system refused what every command needs.
    System(io::Error),
    /// Nobody reads what is printed any more; that is no failure of ours.
    Unread,
    Usage {
        what: String,
        advice: &'static str,
    },
    /// The system refused what one command needs.
    Refused {
        what: String,
        error: io::Error,
        advice: &'static str,
    },
}

/// A server that could not be connected, and what to try.
#[derive(Debug)]
pub(crate) struct Unconnected {
    error: Error,
    advice: &'static str,
}

impl Unconnected {
    pub(crate) fn at_url(error: Error) -> Self {
        let advice = match cause(&error) {
            Some(Error::Http {
                status: 401 | 403, ..
            }) => "credentials, with --bearer-env VAR or with --header",
            Some(Error::Http {
                status: 404 | 405, ..
            }) => "another path: many servers answer at /mcp",
            Some(Error::Timeout { .. }) => "a longer --connect-timeout",
            // It answers, but by no TLS that is accepted: the causes say what to do.
            Some(Error::Transport {
                source: Some(source),
                ..
            }) if is_invalid_data(&**source) => "",
            Some(Error::Transport { .. }) => "start the server, or check host and port",
            Some(Error::Protocol { .. }) => {
                "check that an MCP server (Streamable HTTP) answers at this URL"
            }
            _ => "",
        };
        Self { error, advice }
    }

    pub(crate) fn as_child(error: Error) -> Self {
        let advice = match cause(&error) {
            Some(Error::Timeout { .. }) => {
                "a longer --connect-timeout, or check that the program speaks MCP over stdio"
            }
            Some(Error::Transport {
                source: Some(_), ..
            }) => "check the command: it is started as it stands, without a shell",
            Some(_) => "check that the program speaks MCP over stdio",
            None => "",
        };
        Self { error, advice }
    }
}

fn is_invalid_data(source: &(dyn std::error::Error + 'static)) -> bool {
    let error = source.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
}

fn cause(error: &Error) -> Option<&Error> {
    match error {
        Error::Connect { source, .. } => Some(source),
        _ => None,
    }
}

impl Failure {
    pub(crate) fn usage(what: impl Into<String>, advice: &'static str) -> Self {
        Self::Usage {
            what: what.into(),
            advice,
        }
    }

    /// Servers could not be connected. What is wrong with the command line itself comes first.
    pub(crate) fn connecting(failures: Vec<Unconnected>) -> Self {
        let is_usage = |failure: &&Unconnected| matches!(failure.error, Error::Config { .. });
        match failures.iter().find(is_usage) {
            Some(failure) => Self::usage(failure.error.to_string(), ""),
            None => Self::Connect(failures),
        }
    }

    /// Something on this machine kept a server from serving.
    pub(crate) fn serving(error: Error, advice: &'static str) -> Self {
        match error {
            Error::Config { .. } => Self::usage(error.to_string(), ""),
            error => Self::Serve { error, advice },
        }
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Unread => 0,
            Self::Call(_) | Self::Output(_) | Self::Serve { .. } => 1,
            Self::Refused { .. } | Self::System(_) => 1,
            Self::Usage { .. } => 2,
            Self::Connect(_) => 3,
            Self::Cancelled => 130,
        }
    }

    /// Says what failed, where, why, and what to try. Where even that cannot be said, the exit
    /// status remains.
    pub(crate) fn report(&self, err: &mut impl Write) {
        match self {
            Self::Unread => {}
            Self::Cancelled => {
                let _ = writeln!(err, "cancelled");
            }
            Self::Usage { what, advice } => tell(err, what, None, advice),
            Self::Call(error) => tell_error(err, error, call_advice(error)),
            Self::Connect(failures) => {
                for Unconnected { error, advice } in failures {
                    tell_error(err, error, advice);
                }
            }
            Self::Serve { error, advice } => tell_error(err, error, advice),
            Self::Output(error) => {
                tell(err, "standard output cannot be written", Some(error), "");
            }
            Self::Refused {
                what,
                error,
                advice,
            } => tell(err, what, Some(error), advice),
            Self::System(error) => tell(err, "the system refuses to help", Some(error), ""),
        }
    }
}

fn tell_error(err: &mut impl Write, error: &Error, advice: &str) {
    tell(err, &error.to_string(), error.source(), advice);
}

fn tell(
    err: &mut impl Write,
    what: &str,
    mut cause: Option<&(dyn StdError + 'static)>,
    advice: &str,
) {
    let _ = writeln!(err, "error: {}", indented(what));
    while let Some(error) = cause {
        let _ = writeln!(err, "  because: {}", indented(&error.to_string()));
        cause = error.source();
    }
    if !advice.is_empty() {
        let _ = writeln!(err, "  try: {advice}");
    }
}

/// What looks like another line of ours is seen to be a part of this one.
fn indented(text: &str) -> String {
    visible(text).replace('\n', "\n    ")
}

impl From<io::Error> for Failure {
    /// Of writing to standard output.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unread,
            _ => Self::Output(error),
        }
    }
}

fn call_advice(error: &Error) -> &'static str {
    match error {
        Error::AmbiguousTool { .. } => "one of these names, or --server NAME",
        Error::UnknownTool { .. } => "`agent-hub tools TARGET` shows what there is",
        Error::Timeout {
            what: "idle_timeout",
            ..
        } => "a longer --idle-timeout",
        Error::Timeout { .. } => "a longer --timeout",
        Error::Closed { .. } | Error::Transport { .. } => {
            "look at the server before you call again: the tool may have run"
        }
        _ => "",
    }
}
