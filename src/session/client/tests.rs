use super::*;
use crate::mcp::version::Era;

mod calls;
mod closing;
mod eras;
mod listing;
mod opening;
mod orders;
mod refusals;
mod stateless;

const SESSION: &str = "s-1";

fn client() -> ClientSession {
    client_with(Limits::default())
}

fn client_with(limits: Limits) -> ClientSession {
    client_of(Era::Legacy, false, limits)
}

fn client_of(era: Era, is_shared: bool, limits: Limits) -> ClientSession {
    let info = Implementation {
        name: "hub".to_owned(),
        version: "0.1.0".to_owned(),
    };
    let negotiation = Negotiation::new(era, None);
    ClientSession::new(info, place(None), limits, is_shared, negotiation)
}

fn place(tool: Option<&str>) -> Place {
    let (server, tool) = ("alpha".into(), tool.map(Into::into));
    Place::new(&server, tool.as_ref())
}

fn session_id(text: &str) -> Option<SessionId> {
    SessionId::parse(text)
}

/// A frame or an event on one line, for tables of what follows what.
fn shown(output: Output) -> String {
    match output {
        Output::Send { frame, owner, ends } => {
            let verb = match frame.verb {
                Verb::Post => "POST",
                Verb::Delete => "DELETE",
                Verb::Get => "GET",
            };
            let owner = match owner {
                Owner::Confirmation => "confirmation".to_owned(),
                Owner::Nobody => "nobody".to_owned(),
                Owner::Request(id) => format!("request {id}"),
            };
            let version = frame.head.version.unwrap_or_else(|| "-".to_owned());
            let session = frame.head.session_id;
            let session = session.as_ref().map_or("-", SessionId::as_str);
            let body = std::str::from_utf8(&frame.body).unwrap();
            let ends = ends.map_or(String::new(), |id| format!(" ends {id}"));
            format!("{verb} {version} {session} {owner}{ends}: {body}")
        }
        Output::Event(Event::Call { id, event }) => format!("call {id}: {}", told(&event)),
        Output::Event(Event::Listed { id, tools, lost }) => {
            let tools = tools.map_or_else(
                |e| e.to_string(),
                |list| {
                    let names: Vec<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
                    format!("[{}]", names.join(", "))
                },
            );
            let lost = lost.map_or(String::new(), |generation| format!(" lost {generation}"));
            format!("listed {id}: {tools}{lost}")
        }
        Output::Event(Event::Opened(Ok(()))) => "opened".to_owned(),
        Output::Event(Event::Opened(Err(e))) => format!("not opened: {e}"),
        Output::Event(Event::Returned { id, state, event }) => {
            format!("returned {id} with {state}, else {}", told(&event))
        }
        Output::Event(Event::Subscribed) => "subscribed".to_owned(),
        Output::Event(Event::ToolsChanged) => "tools changed".to_owned(),
        Output::Event(Event::Unsubscribed { id, again }) => {
            let again = if again { ", to be asked again" } else { "" };
            format!("unsubscribed {id}{again}")
        }
        Output::Event(Event::Warning(text)) => format!("warning: {text}"),
    }
}

/// An event on one line: its kind, and its content or why it failed.
fn told(event: &StreamEvent) -> String {
    match event.error() {
        Some(error) => format!("{} {error}", event.kind),
        None => format!("{} {}", event.kind, event.content.raw()),
    }
}

/// All that the session wants done now.
fn outputs(session: &mut ClientSession) -> Vec<String> {
    std::iter::from_fn(|| session.poll_output())
        .map(shown)
        .collect()
}

/// A message on the reply of `owner`, and what follows.
fn received(session: &mut ClientSession, owner: Owner, message: &str) -> Vec<String> {
    session.handle_message(&Bytes::copy_from_slice(message.as_bytes()), owner);
    outputs(session)
}

/// An answer to the request `id` on that request's own reply, and what follows.
fn answered(session: &mut ClientSession, id: i64, members: &str) -> Vec<String> {
    let message = format!(r#"{{"jsonrpc":"2.0","id":{id},{members}}}"#);
    received(session, Owner::Request(id), &message)
}

fn initialized(version: &str) -> String {
    format!(r#""result":{{"protocolVersion":"{version}","capabilities":{{}}}}"#)
}

/// Opens the session with the request `id`.
fn open(session: &mut ClientSession, id: i64, version: &str, name: Option<&str>) {
    session.open(start());
    let owner = Owner::Request(id);
    assert!(outputs(session)[0].starts_with(&format!("POST - - request {id}: ")));
    let name = name.and_then(session_id);
    assert_eq!(session.handle_head(owner, 200, name), Step::Read);
    assert_eq!(answered(session, id, &initialized(version)).len(), 1);
    assert_eq!(
        session.handle_head(Owner::Confirmation, 202, None),
        Step::Ignore
    );
    assert_eq!(outputs(session), ["opened"]);
}

/// An open session; its next request has the id 2.
fn opened() -> ClientSession {
    let mut session = client();
    open(&mut session, 1, "2025-11-25", Some(SESSION));
    session
}

#[expect(
    clippy::disallowed_methods,
    reason = "a start for times that are only compared"
)]
fn start() -> Instant {
    Instant::now()
}

/// Begins a call of the tool `add` and gives its rules.
fn begin(session: &mut ClientSession, timeout: Option<Duration>, now: Instant) -> CallStart {
    let start = try_call(session, timeout, now).unwrap();
    assert_eq!(outputs(session), [""; 0]);
    start
}

/// Begins a call of the tool `add`, if the session allows.
fn try_call(
    session: &mut ClientSession,
    timeout: Option<Duration>,
    now: Instant,
) -> Result<CallStart, Error> {
    let place = place(Some("add"));
    let spec = CallSpec {
        tool: "add",
        arguments: &RawJson::from_static("{}"),
        events: true,
        timeout,
        wraps_result: false,
        mirrored: &[],
        state: None,
        place: &place,
    };
    session.call(&spec, now)
}

/// The answer to `server/discover` of a server whose tools may change.
const DISCOVERED: &str = r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}"#;
