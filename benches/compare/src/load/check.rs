//! Reads a stream of events and finds anything wrong with it.

use memchr::memchr;
use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;

use crate::{Outcome, clock, wire};

/// When an event was sent and when it came, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) sent: u64,
    pub(crate) came: u64,
}

/// All that is between two events is their number: once one was read with care, the next ones need
/// no more than comparing.
#[derive(Debug, Default)]
struct Template {
    before: Vec<u8>,
    after: Vec<u8>,
}

/// One call's messages, as SSE or as lines.
#[derive(Debug)]
pub(crate) struct Check {
    /// What each event should say; none if each says when it was sent.
    text: Option<String>,
    template: Option<Template>,
    events: u64,
    arrivals: Vec<Arrival>,
    result: Option<String>,
    rest: Vec<u8>,
}

#[derive(Deserialize)]
struct Incoming {
    method: Option<String>,
    params: Option<Progress>,
    result: Option<Value>,
}

#[derive(Deserialize)]
struct Progress {
    progress: f64,
    message: String,
}

impl Check {
    /// Events of a size.
    pub(crate) fn sized(size: usize) -> Self {
        Self::new(Some(wire::text(size)))
    }

    /// Events that say when they were sent.
    pub(crate) fn timed() -> Self {
        Self::new(None)
    }

    fn new(text: Option<String>) -> Self {
        Self {
            text,
            template: None,
            events: 0,
            arrivals: Vec::new(),
            result: None,
            rest: Vec::new(),
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// Reads all whole lines that were fed.
    pub(crate) fn read(&mut self) -> Outcome {
        let rest = std::mem::take(&mut self.rest);
        let mut at = 0;
        while let Some(end) = memchr(b'\n', &rest[at..]) {
            self.line(&rest[at..at + end])?;
            at += end + 1;
        }
        self.rest = rest;
        self.rest.drain(..at);
        Ok(())
    }

    pub(crate) fn ended(&self) -> bool {
        self.result.is_some()
    }

    /// When its events were sent and came, if all `n` of them and the result are there.
    pub(crate) fn finish(self, n: u64) -> Outcome<Vec<Arrival>> {
        if self.events != n {
            return Err(format!("{} of {n} events came", self.events).into());
        }
        match self.result.as_deref() {
            Some("done") => Ok(self.arrivals),
            other => Err(format!("the result is {other:?}").into()),
        }
    }

    fn line(&mut self, line: &[u8]) -> Outcome {
        let message = match line {
            [b'{', ..] => line,
            _ => match line.strip_prefix(b"data:") {
                Some(data) => data.strip_prefix(b" ").unwrap_or(data),
                None => return Ok(()),
            },
        };
        if message.is_empty() || self.is_next(message) {
            return Ok(());
        }
        self.message(message)
            .map_err(|e| format!("{e}: {}", String::from_utf8_lossy(message)).into())
    }

    /// Whether it is the next event and not different from the last in anything else.
    fn is_next(&mut self, message: &[u8]) -> bool {
        let Some(template) = &self.template else {
            return false;
        };
        let Some(rest) = message.strip_prefix(&template.before[..]) else {
            return false;
        };
        let Some(digits) = rest.len().checked_sub(template.after.len()) else {
            return false;
        };
        let number = rest[..digits].iter().try_fold(0, |number: u64, &digit| {
            digit
                .is_ascii_digit()
                .then(|| number * 10 + u64::from(digit - b'0'))
        });
        let is_next = number == Some(self.events + 1) && rest[digits..] == template.after[..];
        self.events += u64::from(is_next);
        is_next
    }

    fn message(&mut self, message: &[u8]) -> Outcome {
        if self.result.is_some() {
            return Err("a message after the result".into());
        }
        let incoming: Incoming = serde_json::from_slice(message)?;
        if let Some(result) = incoming.result {
            let text = result["content"][0]["text"].as_str();
            self.result = Some(text.ok_or("a result without text")?.to_owned());
            return Ok(());
        }
        if incoming.method.as_deref() != Some("notifications/progress") {
            return Err("neither event nor result".into());
        }
        let progress = incoming.params.ok_or("no parameters")?;
        self.events += 1;
        if progress.progress != self.events as f64 {
            return Err(format!("not event {}", self.events).into());
        }
        let envelope: Value = serde_json::from_str(&progress.message)?;
        let content = envelope["content"].as_str().unwrap_or_default();
        let text = self.text.as_deref().unwrap_or(content);
        if envelope != serde_json::from_str::<Value>(&wire::envelope(text))? {
            return Err("another envelope".into());
        }
        if self.text.is_some() {
            self.template = Some(template(message)?);
        } else {
            let (sent, came) = (content.parse()?, clock::wall_ns());
            self.arrivals.push(Arrival { sent, came });
        }
        Ok(())
    }
}

fn template(message: &[u8]) -> Outcome<Template> {
    const NAME: &[u8] = br#""progress":"#;
    let start = memmem::find(message, NAME).ok_or("no progress")? + NAME.len();
    let digits = message[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let end = start + digits.count();
    Ok(Template {
        before: message[..start].to_vec(),
        after: message[end..].to_vec(),
    })
}
