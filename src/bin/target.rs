//! The servers that a command talks to.

use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, sync_channel};
use std::task::Poll;
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Era, HubEvent, Limits, StdioCommand, ToolRef};

use crate::args::{ConnectArgs, Token};
use crate::failure::{Failure, Unconnected};

/// Where servers are and how they are asked.
pub(crate) struct Targets {
    targets: Vec<Target>,
    headers: Vec<(String, String)>,
    bearer: Option<Token>,
    connect_timeout: Option<Duration>,
    era: Era,
}

struct Target {
    /// `host:port`, or the program's name; unlike that of any other.
    name: String,
    place: Place,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// A URL. What is wrong with it, the library tells when it connects.
    Http(String),
    /// A program and its arguments.
    Stdio(Vec<String>),
}

/// What became of connecting, server by server.
pub(crate) struct Connected {
    /// By the name of their server.
    pub(crate) tools: Vec<(String, Vec<ToolRef>)>,
    pub(crate) failures: Vec<Unconnected>,
}

impl Targets {
    pub(crate) fn new(words: &[String], connect: ConnectArgs) -> Result<Self, Failure> {
        let mut targets: Vec<Target> = Vec::new();
        for word in words {
            let place = Place::parse(word)?.ok_or_else(unknown)?;
            let name = unique(place.name(), |name| {
                targets.iter().any(|target| target.name == name)
            });
            targets.push(Target { name, place });
        }
        let headers = connect.headers.iter().map(|line| header(line));
        let headers = headers.collect::<Result<Vec<_>, _>>()?;
        let is_http = |target: &Target| matches!(target.place, Place::Http(_));
        let given = [
            ("--header", !headers.is_empty()),
            ("--bearer-env", connect.bearer.is_some()),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given);
        if let Some((option, _)) = given.filter(|_| !targets.iter().any(is_http)) {
            return Err(Failure::usage(
                format!("{option} is given, and no URL to send it to"),
                "",
            ));
        }
        Ok(Self {
            targets,
            headers,
            bearer: connect.bearer,
            connect_timeout: connect.connect_timeout,
            era: connect.era,
        })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().map(|target| &*target.name)
    }

    /// Connects all at once. They stand in the hub in the order of the command line.
    pub(crate) async fn connect(&self, hub: &AgentHubClient) -> Connected {
        let connecting = self
            .targets
            .iter()
            .map(|target| -> Connecting { self.connect_one(hub, target) });
        let mut connected = Connected {
            tools: Vec::new(),
            failures: Vec::new(),
        };
        for (target, outcome) in self.targets.iter().zip(all(connecting.collect()).await) {
            match outcome {
                Ok(tools) => connected.tools.push((target.name.clone(), tools)),
                Err(error) => connected.failures.push(match target.place {
                    Place::Http(_) => Unconnected::at_url(error),
                    Place::Stdio(_) => Unconnected::as_child(error),
                }),
            }
        }
        connected
    }

    fn connect_one(&self, hub: &AgentHubClient, target: &Target) -> Connecting {
        match &target.place {
            Place::Http(url) => {
                let mut connecting = hub.connect_http(&target.name, url).era(self.era);
                if let Some(limit) = self.connect_timeout {
                    connecting = connecting.connect_timeout(limit);
                }
                for (name, value) in &self.headers {
                    connecting = connecting.header(name, value);
                }
                if let Some(token) = self.bearer.clone() {
                    connecting = connecting.bearer_token(token.into_inner());
                }
                connecting.into_future()
            }
            Place::Stdio(words) => {
                let command = StdioCommand::from(&**words);
                let mut connecting = hub.connect_stdio(&target.name, command).era(self.era);
                if let Some(limit) = self.connect_timeout {
                    connecting = connecting.connect_timeout(limit);
                }
                connecting.into_future()
            }
        }
    }
}

type Connecting = Pin<Box<dyn Future<Output = agent_hub_kit::Result<Vec<ToolRef>>> + Send>>;

/// Waits for all of them; the first look at each is in their order.
async fn all<F: Future + Unpin>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (future, None)).collect();
    poll_fn(|cx| {
        let mut waits = false;
        for (future, output) in &mut futures {
            if output.is_none() {
                match Pin::new(future).poll(cx) {
                    Poll::Ready(ready) => *output = Some(ready),
                    Poll::Pending => waits = true,
                }
            }
        }
        if waits {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    futures
        .into_iter()
        .filter_map(|(_, output)| output)
        .collect()
}

/// Parts the words of a call: targets come first and are known by how they begin.
pub(crate) fn split(words: &[String]) -> Result<(&[String], &str, Option<&str>), Failure> {
    let is_target = |word: &String| !matches!(Place::parse(word), Ok(None));
    let count = words.iter().take_while(|word| is_target(word)).count();
    let (targets, rest) = words.split_at(count);
    if targets.is_empty() {
        return Err(unknown());
    }
    let (tool, arguments) = match rest {
        [] => return Err(Failure::usage("no tool is named", crate::args::CALL_USAGE)),
        [tool] => (tool, None),
        [tool, arguments] => (tool, Some(&**arguments)),
        _ => {
            return Err(Failure::usage(
                "there are too many words after the tool",
                "quote the arguments for the shell, as in '{\"text\": \"hello\"}'",
            ));
        }
    };
    // What looks like a URL is no tool.
    match tool.contains("://") {
        true => Err(unknown()),
        false => Ok((targets, tool, arguments)),
    }
}

fn unknown() -> Failure {
    // Not quoted: what is no URL may hold a password all the same.
    Failure::usage(
        "the target is none that is known",
        "a target is a URL in full, such as http://127.0.0.1:8001/mcp, or 'stdio:COMMAND ARGS...'",
    )
}

impl Place {
    /// `None` for what is no target at all.
    fn parse(word: &str) -> Result<Option<Self>, Failure> {
        if let Some(command) = without_prefix(word, "stdio:") {
            let words = shell_words::split(command)
                .map_err(|e| Failure::usage(format!("the command of a stdio target: {e}"), ""))?;
            return match words.first().is_none_or(String::is_empty) {
                true => Err(Failure::usage(
                    "a stdio target names no command",
                    "write it as 'stdio:COMMAND ARGS...'",
                )),
                false => Ok(Some(Self::Stdio(words))),
            };
        }
        let schemes = ["http://", "https://"];
        let is_url = schemes.iter().any(|s| without_prefix(word, s).is_some());
        Ok(is_url.then(|| Self::Http(word.to_owned())))
    }

    fn name(&self) -> String {
        match self {
            Self::Http(url) => host_and_port(url),
            Self::Stdio(words) => {
                let program = words.first().map_or("", |program| program);
                match Path::new(program).file_name() {
                    Some(name) => name.to_string_lossy().into_owned(),
                    None => program.to_owned(),
                }
            }
        }
    }
}

fn without_prefix<'a>(word: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = word.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The name, with a number behind it if it is taken.
fn unique(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or(name)
}

/// The hub that a command uses, and what is odd about its servers: to be shown when the screen is
/// free for it.
pub(crate) fn hub() -> (AgentHubClient, Receiver<String>) {
    let (warn, warnings) = sync_channel(MAX_WARNINGS);
    let mut limits = Limits::default();
    limits.child_stop_timeout = CHILD_STOP_TIMEOUT;
    let hub = AgentHubClient::builder()
        .client_info("agent-hub", env!("CARGO_PKG_VERSION"))
        .limits(limits)
        .on_event(move |event| {
            if let HubEvent::Warning { server, text, .. } = event {
                let _ = warn.try_send(format!("{server}: {text}"));
            }
        })
        .build();
    (hub, warnings)
}

/// `host:port` of a URL.
fn host_and_port(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && !port.ends_with(']'));
    let host = host.trim_end_matches(':').to_ascii_lowercase();
    match has_port {
        true => host,
        false if scheme.eq_ignore_ascii_case("https") => format!("{host}:443"),
        false => format!("{host}:80"),
    }
}

/// Splits `Name: value`. The text is not quoted in an error, since it may be a secret.
fn header(line: &str) -> Result<(String, String), Failure> {
    match line.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(Failure::usage(
            "a --header has no name, or no colon after it",
            "write it as --header 'Name: value'",
        )),
    }
}

/// A child gets as long to end by itself, and as long again after SIGTERM. Whoever waits here has
/// seen the answer, so it is shorter than the library's own.
const CHILD_STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// About a screen; what is over it is not shown.
const MAX_WARNINGS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    fn targets(list: &[&str], headers: &[&str]) -> Option<Vec<String>> {
        let connect = ConnectArgs {
            connect_timeout: None,
            era: Era::Auto,
            headers: words(headers),
            bearer: None,
        };
        let targets = Targets::new(&words(list), connect).ok()?;
        Some(targets.names().map(str::to_owned).collect())
    }

    #[test]
    fn a_server_is_named_by_host_and_port_or_by_its_program() {
        for (target, name) in [
            ("http://127.0.0.1:8001/mcp", Some("127.0.0.1:8001")),
            ("HTTP://Example.COM", Some("example.com:80")),
            ("https://example.com/a:b/c", Some("example.com:443")),
            ("http://example.com:?key=1", Some("example.com:80")),
            ("http://[::1]:8001/mcp", Some("[::1]:8001")),
            ("http://[::1]/mcp", Some("[::1]:80")),
            ("http://user:secret@host:1/", Some("host:1")),
            ("stdio:agent-hub echo --stdio", Some("agent-hub")),
            ("stdio: '/opt/my tools/serve.py' -q", Some("serve.py")),
            ("STDIO:./a/..", Some("./a/..")),
            ("stdio:", None),
            ("stdio:''", None),
            ("stdio:'a", None),
            ("127.0.0.1:8001", None),
            ("ftp://host/", None),
            ("", None),
        ] {
            let found = targets(&[target], &[]);
            assert_eq!(
                found.as_deref(),
                name.map(|n| vec![n.to_owned()]).as_deref(),
                "{target:?}"
            );
        }
    }

    #[test]
    fn names_are_made_unique() {
        let list = [
            "stdio:x",
            "stdio:x-2",
            "stdio:a/x",
            "http://h/a",
            "http://h/b",
            "stdio:x",
        ];
        let names = targets(&list, &["a: b"]).unwrap();
        assert_eq!(names, ["x", "x-2", "x-3", "h:80", "h:80-2", "x-4"]);
    }

    #[test]
    fn a_header_needs_a_url_to_go_to() {
        assert!(targets(&["stdio:x"], &["a: b"]).is_none());
        assert!(targets(&["stdio:x", "http://h/"], &["a: b"]).is_some());
    }

    #[test]
    fn a_command_is_split_as_a_shell_does_and_nothing_is_expanded() {
        for (target, wanted) in [
            ("stdio:a b  c", &["a", "b", "c"][..]),
            ("stdio:a 'b c' \"d e\" f\\ g", &["a", "b c", "d e", "f g"]),
            (
                "stdio:a $HOME * ; b | c",
                &["a", "$HOME", "*", ";", "b", "|", "c"],
            ),
            ("stdio:a '' こんにちは👋", &["a", "", "こんにちは👋"]),
        ] {
            let place = Place::parse(target).ok().flatten();
            assert_eq!(place, Some(Place::Stdio(words(wanted))), "{target}");
        }
    }

    #[test]
    fn the_first_word_that_is_no_target_is_the_tool() {
        for (list, wanted) in [
            (&["http://h/", "t"][..], Some((1, "t", None))),
            (
                &["http://h/", "stdio:x y", "t", "{}"],
                Some((2, "t", Some("{}"))),
            ),
            (&["stdio:x", "h:80/t", "-"], Some((1, "h:80/t", Some("-")))),
            (
                &["stdio:x", "t", "http://h/"],
                Some((1, "t", Some("http://h/"))),
            ),
            (&["t", "{}"], None),
            (&["http://h/"], None),
            (&["http://h/", "ftp://h/", "t"], None),
            (&["http://h/", "t", "{}", "{}"], None),
        ] {
            let list = words(list);
            let found = split(&list).ok();
            let found = found.map(|(targets, tool, json)| (targets.len(), tool, json));
            assert_eq!(found, wanted, "{list:?}");
        }
    }

    #[test]
    fn a_header_is_split_at_its_first_colon() {
        for (line, split) in [
            ("X-Key: a:b", Some(("X-Key", "a:b"))),
            ("X-Key:", Some(("X-Key", ""))),
            ("X-Key a", None),
            (": a", None),
            ("", None),
        ] {
            let found = header(line).ok();
            let found = found.as_ref().map(|(name, value)| (&**name, &**value));
            assert_eq!(found, split, "{line:?}");
        }
    }
}
