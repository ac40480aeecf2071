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
    /// As that, within an app of somebody else's.
    Mounted,
    /// It is started anew within its process.
    Flaky,
    /// Its process is killed.
    Mortal,
    /// The way to it is cut, and it keeps what was not read.
    Replay,
    /// A child of the client, killed or stopped.
    Child,
    /// Bytes are changed on the way, in both directions.
    Battered,
    /// The same to a child.
    BatteredChild,
}

impl Target {
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Mounted => "mounted",
            Self::Flaky => "flaky",
            Self::Mortal => "mortal",
            Self::Replay => "replay",
            Self::Child => "child",
            Self::Battered => "battered",
            Self::BatteredChild => "battered child",
        }
    }

    /// Whether calls may be cut.
    pub fn is_disturbed(self) -> bool {
        !matches!(self, Self::Steady | Self::Mounted)
    }

    /// Whether nothing is certain of a call but that it ends, once.
    pub fn is_battered(self) -> bool {
        matches!(self, Self::Battered | Self::BatteredChild)
    }
}

/// A kind of fault by name, and what it was.
type Fault = (&'static str, String);

/// The names of what may be wrong with a call.
pub const FAULTS: [&str; 4] = ["lost", "out of order", "damaged", "ended wrongly"];

/// How long a battered call may take whose end may never come.
const UNREAD: Duration = Duration::from_secs(1);

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

/// A call of which some was read.
pub struct Left {
    call: Call,
    events: CallStream,
    seen: Result<u64, Fault>,
    /// It was over before its hub was.
    is_over: bool,
}

impl Left {
    /// Reads the rest, after the hub has ended.
    pub async fn read(mut self, counts: &Counts) {
        let checked = async {
            let mut seen = self.seen?;
            if self.is_over {
                return nothing_after(&mut self.events).await;
            }
            while let Some(event) = self.events.next().await {
                if event.is_terminal() {
                    let cut = matches!(event.kind, EventKind::TerminalError);
                    let closed = matches!(event.error(), Some(Error::Closed { .. }));
                    counts.add("ended with the hub", 1);
                    return match cut && (closed || self.call.target.is_disturbed()) {
                        true => nothing_after(&mut self.events).await,
                        false => Err(wrong_end(format!("its hub ended, and {event:?}"))),
                    };
                }
                if !self.call.target.is_battered() {
                    self.call.follows(&event, seen)?;
                }
                seen += 1;
            }
            Err(wrong_end("no end after the end of the hub".to_owned()))
        };
        let checked = checked.await;
        if let Err((fault, what)) = checked {
            self.call.ask.load.truncate(0);
            counts.wrong_call(fault, format!("{what}: {:?}", self.call));
        }
    }
}

impl Call {
    /// Reads some of it.
    pub async fn leave(self, hub: &AgentHubClient) -> Left {
        let mut events = self.events(hub);
        let (mut count, wanted) = (0, self.ask.events / 2);
        let (mut seen, mut is_over) = (Ok(()), false);
        while count < wanted && seen.is_ok() {
            match events.next().await {
                Some(event) if self.target.is_battered() && !event.is_terminal() => count += 1,
                Some(event) if !event.is_terminal() => {
                    seen = self.follows(&event, count);
                    count += 1;
                }
                Some(_) if self.target.is_disturbed() => {
                    is_over = true;
                    break;
                }
                event => seen = Err(wrong_end(format!("after {count} events {event:?}"))),
            }
        }
        Left {
            call: self,
            events,
            seen: seen.map(|()| count),
            is_over,
        }
    }

    pub async fn run(self, hub: &AgentHubClient, counts: &Counts) {
        counts.add("calls", 1);
        let checked = match self.reader {
            Reader::Result => self.result(hub, counts).await,
            _ => self.stream(hub, counts).await,
        };
        if let Err((fault, what)) = checked {
            let Self {
                target,
                mut ask,
                reader,
            } = self;
            ask.load.truncate(0);
            counts.wrong_call(fault, format!("{what}: {target:?} {reader:?} {ask:?}"));
        }
    }

    async fn result(&self, hub: &AgentHubClient, counts: &Counts) -> Result<(), Fault> {
        let mut call = hub
            .call_tool("stream", &self.ask)
            .server(self.target.name());
        if self.target == Target::BatteredChild {
            call = call.timeout(UNREAD);
        }
        let answer = call.await;
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

    fn events(&self, hub: &AgentHubClient) -> CallStream {
        let events = hub
            .call_tool_stream("stream", &self.ask)
            .server(self.target.name());
        match self.target {
            // Over a pipe an answer that cannot be read is one that does not come.
            Target::BatteredChild => events.timeout(UNREAD),
            // The event that is waited for may be one that cannot be read.
            Target::Battered if self.ask.end == End::Hang => events.timeout(UNREAD),
            _ => events,
        }
    }

    async fn stream(&self, hub: &AgentHubClient, counts: &Counts) -> Result<(), Fault> {
        let mut events = self.events(hub);
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
                return Err(wrong_end(format!("no end after {seen} events")));
            };
            if !event.is_terminal() && self.target.is_battered() {
                seen += 1;
                continue;
            }
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
    fn follows(&self, event: &StreamEvent, seen: u64) -> Result<(), Fault> {
        let kind = match seen % 8 {
            6 => EventKind::Log,
            7 => EventKind::Think,
            _ => EventKind::Text,
        };
        let wanted = content(self.ask.call, seen, self.ask.size);
        let number = event.progress().map(|progress| progress.number);
        let text = event.content.as_str().unwrap_or_default();
        if text == wanted && event.kind == kind && number == Some((seen + 1) as f64) {
            return Ok(());
        }
        let begin: String = text.chars().take(40).collect();
        let told = format!(
            "event {seen} is {} {begin:?}, number {number:?}",
            event.kind
        );
        let mut parts = text.split(':').map(|part| part.parse::<u64>().ok());
        match (parts.next().flatten(), parts.next().flatten()) {
            (Some(call), Some(index)) if call == self.ask.call && index > seen => {
                Err(("lost", told))
            }
            (Some(call), Some(index)) if call == self.ask.call && index < seen => {
                Err(("out of order", told))
            }
            _ => Err(("damaged", told)),
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
    ) -> Result<(), Fault> {
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
            _ if self.target.is_battered() => "battered",
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
                let told = format!("after {seen} events {kind} {value} {error:?}");
                let lost = *kind == EventKind::Result && seen != complete;
                return Err((if lost { "lost" } else { "ended wrongly" }, told));
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

fn wrong_end(what: String) -> Fault {
    ("ended wrongly", what)
}

async fn nothing_after(events: &mut CallStream) -> Result<(), Fault> {
    for _ in 0..2 {
        if let Some(event) = events.next().await {
            return Err(wrong_end(format!("after the end: {event:?}")));
        }
    }
    Ok(())
}
