//! Calling a tool and showing what it says.

use std::io::{self, Read};
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, EventKind, Limits, StreamEvent};
use serde_json::value::RawValue;

use crate::args::CallArgs;
use crate::failure::Failure;
use crate::images;
use crate::screen::Screen;
use crate::signals::{self, Stop};
use crate::target::{self, Targets};

/// A call that is sound as far as this side can tell.
pub(crate) struct Plan {
    targets: Targets,
    server: Option<String>,
    tool: String,
    arguments: Box<RawValue>,
    json: bool,
    timeout: Option<Duration>,
    idle_timeout: Option<Duration>,
}

impl Plan {
    pub(crate) fn new(args: CallArgs) -> Result<Self, Failure> {
        let (targets, tool, json) = target::split(&args.words)?;
        let targets = Targets::new(targets, args.connect)?;
        if let Some(server) = &args.server
            && !targets.names().any(|name| name == server)
        {
            let names: Vec<&str> = targets.names().collect();
            let what = format!("there is no server `{server}`, only {}", names.join(", "));
            return Err(Failure::usage(what, ""));
        }
        let arguments = match json {
            None => arguments("{}")?,
            Some("-") => arguments(&standard_input()?)?,
            Some(json) => arguments(json)?,
        };
        Ok(Self {
            targets,
            server: args.server,
            tool: tool.to_owned(),
            arguments: images::add(arguments, &args.images)?,
            json: args.json,
            timeout: args.timeout,
            idle_timeout: args.idle_timeout,
        })
    }
}

pub(crate) async fn run(plan: Plan) -> Result<(), Failure> {
    let (hub, warnings) = target::hub();
    let stop = signals::watch(hub.clone())?;
    let mut screen = Screen::new();
    let failures = tokio::select! {
        biased;
        () = stop.notified() => None,
        connected = screen.wait(plan.targets.connect(&hub)) => Some(connected.failures),
    };
    screen.warn(&warnings);
    let outcome = match failures {
        None => Err(Failure::Cancelled),
        Some(failures) if failures.is_empty() => call(&plan, &hub, &stop, &mut screen).await,
        // Which tool is meant, only all of them could tell.
        Some(failures) => Err(Failure::connecting(failures)),
    };
    screen.warn(&warnings);
    let finished = screen.finish();
    // Takes four seconds at most. Cancels are sent, sessions are given up, children end.
    stop.close(&hub).await;
    outcome?;
    Ok(finished?)
}

async fn call(
    plan: &Plan,
    hub: &AgentHubClient,
    stop: &Stop,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let mut events = hub.call_tool_stream(&plan.tool, &plan.arguments);
    if let Some(name) = &plan.server {
        events = events.server(name);
    }
    if let Some(limit) = plan.timeout {
        events = events.timeout(limit);
    }
    if let Some(limit) = plan.idle_timeout {
        events = events.idle_timeout(limit);
    }
    let (mut stopping, mut streamed) = (false, false);
    loop {
        let event = tokio::select! {
            biased;
            () = stop.notified(), if !stopping => {
                stopping = true;
                // What came so far is still to be shown.
                events.cancel();
                continue;
            }
            event = screen.wait(events.next()) => event,
        };
        let Some(event) = event else { return Ok(()) };
        streamed |= event.kind == EventKind::Text && event.text() != Some("");
        if plan.json {
            screen.json(&event)?;
        } else if event.kind == EventKind::Result && !streamed {
            screen.result(&event.content)?;
        } else if !event.is_terminal() {
            screen.event(&event, &plan.tool)?;
        }
        if event.is_terminal() {
            return end(&event);
        }
    }
}

fn end(event: &StreamEvent) -> Result<(), Failure> {
    match event.error() {
        None => Ok(()),
        Some(error) if error.is_cancelled() => Err(Failure::Cancelled),
        Some(error) => Err(Failure::Call(error.clone())),
    }
}

/// Reads the arguments, so that a slip of the pen is told before anybody is called.
fn arguments(json: &str) -> Result<Box<RawValue>, Failure> {
    const ADVICE: &str = "quote it for the shell, as in '{\"text\": \"hello\"}'";
    let raw: Box<RawValue> = serde_json::from_str(json.trim())
        .map_err(|e| Failure::usage(format!("the arguments are no JSON: {e}"), ADVICE))?;
    match raw.get().starts_with('{') {
        true => Ok(raw),
        false => Err(Failure::usage(
            "the arguments of a tool are a JSON object",
            ADVICE,
        )),
    }
}

fn standard_input() -> Result<String, Failure> {
    // What no message could hold needs not be read.
    let max = Limits::default().max_client_message_bytes;
    let mut json = String::new();
    io::stdin()
        .lock()
        .take(max as u64 + 1)
        .read_to_string(&mut json)
        .map_err(|e| Failure::usage(format!("standard input cannot be read: {e}"), ""))?;
    match json.len() > max {
        true => Err(Failure::usage(
            format!("standard input holds more than {max} bytes"),
            "",
        )),
        false => Ok(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_and_kept_as_they_are() {
        for (json, kept) in [
            ("{}", Some("{}")),
            (" {\"n\": 1e999}\n", Some("{\"n\": 1e999}")),
            ("", None),
            ("{", None),
            ("{text: 1}", None),
            ("[1]", None),
            ("\"x\"", None),
            ("null", None),
            ("{} {}", None),
        ] {
            let found = arguments(json).ok();
            assert_eq!(found.as_ref().map(|raw| raw.get()), kept, "{json:?}");
        }
    }
}
