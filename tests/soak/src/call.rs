//! One call, and whether all that came of it is what was sent: gapless, in order, with one end.

use std::time::Duration;

use agent_hub_kit::{AgentHubClient, CallStream, Error, EventKind, StreamEvent};
use tokio::time::sleep;

use crate::own::Counts;
use crate::tools::{Ask, End, content, ending};

/// The servers, by what happens to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Nothing but malformed requests.
    Steady,
    /// It is started anew within its process.
    Flaky,
    /// Its process is killed.
    Mortal,
    /// The way to it is cut, and it keeps what was not read.
    Replay,
    /// A child of the client, killed or stopped.
    Child,
}

impl Target {
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Flaky => "flaky",
            Self::Mortal => "mortal",
            Self::Replay => "replay",
            Self::Child => "child",
        }
    }

    /// Whether calls may be cut.
    pub fn is_disturbed(self) -> bool {
        self != Self::Steady
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Reader {
    Stream,
    /// Asks for no events.
    Result,
    Pauses {
        every: u64,
        pause: Duration,
    },
    Cancels {
        after: u64,
    },
    Drops {
        after: u64,
    },
    Waits {
        total: Option<Duration>,
        idle: Option<Duration>,
    },
}

#[derive(Debug)]
pub struct Call {
    pub target: Target,
    pub ask: Ask,
    pub reader: Reader,
}

impl Call {
    pub async fn run(self, hub: &AgentHubClient, counts: &Counts) {
        counts.add("calls", 1);
        let checked = match self.reader {
            Reader::Result => self.result(hub, counts).await,
            _ => self.stream(hub, counts).await,
        };
        if let Err(what) = checked {
            let Self {
                target,
                mut ask,
                reader,
            } = self;
            ask.load.truncate(0);
            counts.wrong(format!("{what}: {target:?} {reader:?} {ask:?}"));
        }
    }

    async fn result(&self, hub: &AgentHubClient, counts: &Counts) -> Result<(), String> {
        let answer = hub
            .call_tool("stream", &self.ask)
            .server(self.target.name())
            .await;
        let said = match answer {
            Ok(value) => (EventKind::Result, value, None),
            Err(Error::Tool { content, .. }) => (EventKind::TerminalError, *content, None),
            Err(error) => (
                EventKind::TerminalError,
                error.to_string().into(),
                Some(error),
            ),
        };
        self.ended(0, &said.0, &said.1, said.2.as_ref(), counts)
    }

    async fn stream(&self, hub: &AgentHubClient, counts: &Counts) -> Result<(), String> {
        let mut events = hub
            .call_tool_stream("stream", &self.ask)
            .server(self.target.name());
        if let Reader::Waits { total, idle } = self.reader {
            if let Some(total) = total {
                events = events.timeout(total);
            }
            if let Some(idle) = idle {
                events = events.idle_timeout(idle);
            }
        }
        let mut seen = 0;
        loop {
            match self.reader {
                Reader::Cancels { after } if after == seen => events.cancel(),
                Reader::Drops { after } if after == seen => {
                    counts.add("dropped", 1);
                    return Ok(());
                }
                Reader::Pauses { every, pause } if seen % every == 0 => sleep(pause).await,
                _ => {}
            }
            let Some(event) = events.next().await else {
                return Err(format!("no end after {seen} events"));
            };
            if !event.is_terminal() {
                self.follows(&event, seen)?;
                seen += 1;
                counts.add("events", 1);
                continue;
            }
            let value = event.content.value();
            self.ended(seen, &event.kind, &value, event.error(), counts)?;
            return nothing_after(&mut events).await;
        }
    }

    /// Whether an event is the one that comes next.
    fn follows(&self, event: &StreamEvent, seen: u64) -> Result<(), String> {
        let kind = match seen % 8 {
            6 => EventKind::Log,
            7 => EventKind::Think,
            _ => EventKind::Text,
        };
        let wanted = content(self.ask.call, seen, self.ask.size);
        let number = event.progress().map(|progress| progress.number);
        match event.content.as_str() {
            _ if seen == self.ask.events => Err(format!("more than {seen} events: {event:?}")),
            Some(text) if text == wanted && event.kind == kind && number.is_some() => Ok(()),
            text => {
                let begin: String = text.unwrap_or_default().chars().take(40).collect();
                Err(format!(
                    "event {seen} is {} {begin:?}, number {number:?}",
                    event.kind
                ))
            }
        }
    }

    /// Whether a call may end like this after so many events.
    fn ended(
        &self,
        seen: u64,
        kind: &EventKind,
        value: &serde_json::Value,
        error: Option<&Error>,
        counts: &Counts,
    ) -> Result<(), String> {
        let cut = matches!(
            error,
            Some(
                Error::Transport { .. }
                    | Error::Closed { .. }
                    | Error::Http { .. }
                    | Error::Rpc { .. }
                    | Error::UnknownServer { .. }
                    | Error::Connect { .. }
            )
        );
        let tool = error.is_none_or(Error::is_tool);
        let complete = match self.reader {
            Reader::Result => 0,
            _ => self.ask.events,
        };
        let wanted = ending(&self.ask, complete);
        let whole = seen == complete && value.as_str() == Some(&wanted);
        let end = match (kind, self.ask.end) {
            (EventKind::Result, End::Done) if whole => "result",
            (EventKind::TerminalError, End::Fail) if tool && whole => "failed",
            (EventKind::TerminalError, End::Panic) if tool && seen == complete => "failed",
            (EventKind::Cancelled, End::Hang) if matches!(self.reader, Reader::Cancels { .. }) => {
                "cancelled"
            }
            (EventKind::TerminalError, End::Hang)
                if matches!(error, Some(Error::Timeout { .. }))
                    && matches!(self.reader, Reader::Waits { .. }) =>
            {
                "timeout"
            }
            (EventKind::TerminalError, _) if cut && self.target.is_disturbed() => "cut",
            _ => {
                let value: String = value.to_string().chars().take(80).collect();
                return Err(format!(
                    "ended after {seen} events as {kind} {value} {error:?}"
                ));
            }
        };
        counts.add(end, 1);
        if end == "cut"
            && let Some(error) = error
        {
            let name: String = format!("{error:?}")
                .chars()
                .take_while(|c| c.is_alphanumeric())
                .collect();
            counts.add(&format!("cut {} {name}", self.target.name()), 1);
        }
        if self.ask.plain {
            counts.add("plain calls", 1);
            counts.add("plain events", seen);
        }
        Ok(())
    }
}

async fn nothing_after(events: &mut CallStream) -> Result<(), String> {
    for _ in 0..2 {
        if let Some(event) = events.next().await {
            return Err(format!("after the end: {event:?}"));
        }
    }
    Ok(())
}
