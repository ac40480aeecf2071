//! What can be said on the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agent_hub_kit::Era;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Agents call each other over MCP, and see each other's tokens as they come.
#[derive(Debug, Parser)]
#[command(name = "agent-hub", version, arg_required_else_help = true, after_help = EXIT_STATUS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Call a tool and show its events as they come
    Call(CallArgs),
    /// Two servers and a client in one process: a conversation, token by token
    Demo,
    /// Rebuild and restart a server when its files change, without a request that fails
    Dev(DevArgs),
    /// Serve the echo specialist, which says a text back one character at a time
    Echo(EchoArgs),
    /// Serve the LLM specialist, which asks a language model
    Llm(LlmArgs),
    /// Show what servers offer
    Tools(ToolsArgs),
}

#[derive(Debug, Args)]
#[command(after_help = CALL_HELP, override_usage = CALL_USAGE)]
pub(crate) struct CallArgs {
    /// The servers, the tool as `agent-hub tools` shows it, and its arguments: a JSON object, or -
    /// to read it from standard input
    #[arg(required = true, value_name = "TARGET|TOOL|JSON", num_args = 1..)]
    pub(crate) words: Vec<String>,
    /// An image that is added to the argument `images`, as a data URI; may be repeated
    #[arg(long = "image", value_name = "FILE")]
    pub(crate) images: Vec<PathBuf>,
    /// The server whose tool is meant, by its name: HOST:PORT or the program's
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
    /// Print one event a line, {"type","content","node"}, the terminal one last
    #[arg(long)]
    pub(crate) json: bool,
    /// The longest that the call may take, in seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// The longest that nothing may be heard of the tool, in seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) idle_timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET_HELP)]
pub(crate) struct ToolsArgs {
    /// The servers
    #[arg(required = true, value_name = "TARGET")]
    pub(crate) targets: Vec<String>,
    /// Print one tool a line, {"server","tool"}, each tool as its server describes it
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// How a server is connected.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// The longest that connecting may take, in seconds [default: 30]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Which era of the protocol to speak
    #[arg(long, value_name = "ERA", default_value = "auto", value_parser = era())]
    pub(crate) era: Era,
    /// A header for every request to every URL, such as 'X-Tenant: a'; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// The environment variable that holds the bearer token for every URL
    #[arg(long = "bearer-env", value_name = "VAR", value_parser = token)]
    pub(crate) bearer: Option<Token>,
}

/// How a specialist is served.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Serve the one client that started this process, over standard input and output
    #[arg(long, conflicts_with_all = ["host", "port", "bearer", "allow_hosts", "allow_origins"])]
    pub(crate) stdio: bool,
    /// The environment variable that holds the bearer token that clients have to send
    #[arg(long = "bearer-env", value_name = "VAR", value_parser = token)]
    pub(crate) bearer: Option<Token>,
    /// A name under which clients may ask for this server, beside those of this machine on a loopback
    /// --host, and alone on any other; may be repeated
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) allow_hosts: Vec<String>,
    /// A web origin whose pages may call this server; may be repeated
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub(crate) allow_origins: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct EchoArgs {
    /// The port to listen on; 0 takes any free one
    #[arg(long, default_value_t = 8001)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

#[derive(Debug, Args)]
#[command(after_help = LLM_HELP)]
pub(crate) struct LlmArgs {
    /// Who answers
    #[arg(long, value_name = "BACKEND", default_value = "dummy")]
    pub(crate) backend: Backend,
    /// The endpoint, mostly ending in /v1: requests go to URL/chat/completions
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The model, as the endpoint calls it
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The environment variable that holds the API key, for endpoints that want one
    #[arg(long, value_name = "VAR")]
    pub(crate) key_env: Option<String>,
    /// What the model is told before each request
    #[arg(long, value_name = "PROMPT")]
    pub(crate) system: Option<String>,
    /// How freely the model chooses, from 0 [default: the model's own]
    #[arg(long, value_name = "T", value_parser = temperature, allow_negative_numbers = true)]
    pub(crate) temperature: Option<f64>,
    /// The longest answer, in tokens [default: the model's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,
    /// The port to listen on; 0 takes any free one
    #[arg(long, default_value_t = 8002)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

#[derive(Debug, Args)]
#[command(after_help = DEV_HELP)]
pub(crate) struct DevArgs {
    /// A folder whose files count, or a file; may be repeated [default: .]
    #[arg(long, value_name = "DIR")]
    pub(crate) watch: Vec<PathBuf>,
    /// What to run after a change, before the server is started anew
    #[arg(long, value_name = "CMD")]
    pub(crate) build: Option<String>,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The port to listen on; 0 takes any free one
    #[arg(long, default_value_t = 8001)]
    pub(crate) port: u16,
    /// The server and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "BINARY")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// A model that says each request back; needs nothing
    Dummy,
    /// An endpoint that speaks as OpenAI's: llama.cpp, vLLM, Ollama, OpenAI itself
    Openai,
}

fn era() -> impl TypedValueParser<Value = Era> {
    let words = [
        (
            "auto",
            "ask each server, and shake hands if it does not understand",
        ),
        (
            "legacy",
            "the handshake, 2024-11-05 to 2025-11-25, and nothing else",
        ),
        (
            "modern",
            "no handshake, 2026-07-28 and later, and nothing else",
        ),
    ];
    let words = words.map(|(word, help)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(words).map(|word| match &*word {
        "legacy" => Era::Legacy,
        "modern" => Era::Modern,
        _ => Era::Auto,
    })
}

/// A time of more than nothing and of no more than a year.
fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("give seconds, more than 0 and at most {MAX_SECONDS}, as in 2.5");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    // Not-a-number and what rounds to nothing fail too.
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && seconds <= MAX_SECONDS => Ok(time),
        _ => Err(wrong()),
    }
}

/// A token, out of the environment: what stands on a command line is there for all to read.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn into_inner(self) -> String {
        self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

fn token(variable: &str) -> Result<Token, String> {
    let held = std::env::var(variable).unwrap_or_default();
    match held.trim() {
        "" => Err("no environment variable of that name holds a token".to_owned()),
        token if token.bytes().all(|b| b.is_ascii_graphic()) => Ok(Token(token.to_owned())),
        _ => Err("what it holds is no token: there is a blank in it, or no ASCII".to_owned()),
    }
}

fn temperature(text: &str) -> Result<f64, String> {
    let temperature = text.parse().ok();
    let temperature = temperature.filter(|t: &f64| t.is_finite() && *t >= 0.0);
    temperature.ok_or_else(|| "give a number from 0 on, as in 0.7".to_owned())
}

/// A year: beyond it a number is a mistake, and no clock here can overflow.
const MAX_SECONDS: f64 = 31_536_000.0;

const EXIT_STATUS: &str = "\
Exit status: 0 done, 1 the tool failed, 2 wrong usage, 3 could not connect, 130 cancelled.";

pub(crate) const CALL_USAGE: &str = "agent-hub call [OPTIONS] <TARGET>... <TOOL> [JSON|-]";

/// What both commands say of a target.
macro_rules! target_help {
    () => {
        "\
A TARGET is http(s)://HOST:PORT/PATH, or 'stdio:COMMAND ARGS...': a program that is started, and ended
with the command. Its words are split as a shell splits them, but no shell is run, and of the
environment it sees only the likes of PATH and HOME: 'stdio:env NAME=VALUE COMMAND' adds to it.
Servers are named HOST:PORT or by their program, a second one of the same name NAME-2. Where several
offer a tool, NAME/TOOL is the one that is meant."
    };
}

const TARGET_HELP: &str = target_help!();

const CALL_HELP: &str = concat!(
    target_help!(),
    "\n
Text goes to standard output as it comes; reasoning, logs and errors go to standard error. Without
any text the result is printed. Ctrl-C cancels the call on the server; a second one ends at once.

Exit status: 0 result, 1 the tool failed (also: unknown or ambiguous tool, timeout, lost
connection), 2 wrong usage, 3 could not connect, 130 cancelled.

Examples:
  agent-hub call http://127.0.0.1:8001/mcp echo '{\"text\": \"hello\"}'
  agent-hub call 'stdio:agent-hub echo --stdio' echo '{\"text\": \"hello\"}' --json
  agent-hub call http://127.0.0.1:8002/mcp ask '{\"user_request\": \"What is it?\"}' --image cat.png"
);

const LLM_HELP: &str = "\
Its tool `ask` takes user_request, and images as data URIs, and streams the answer as it comes. A call
that is cancelled stops the model.

Examples:
  agent-hub llm
  agent-hub llm --backend openai --base-url http://127.0.0.1:8080/v1 --model gemma-3-270m
  agent-hub llm --backend openai --base-url https://api.openai.com/v1 --model gpt-5 \\
      --key-env OPENAI_API_KEY
  agent-hub call http://127.0.0.1:8002/mcp ask '{\"user_request\": \"What is a hub?\"}'";

const DEV_HELP: &str = "\
The listening socket stays open for as long as this runs, and is passed on to each server as
LISTEN_FDS says: `McpServer::bind` and `serve_http` take it, whatever address they are given. After a
change the build runs; when it fails, or when the new server is not up within 60 s, the old one stays.
A server stays in the foreground, and is up when it says 'listening on' on standard error. Then the
old one is told to end with SIGTERM, and killed after 30 s; its calls end in its own time. Connections
made meanwhile wait.

What .gitignore and .ignore name does not count, nor do .git, target, or folders with a CACHEDIR.TAG.
Without a --build a change of the server's program counts too. Words are split as a shell splits them,
but no shell is run. Ctrl-C ends the server in order; a second one at once.

Example:
  agent-hub dev --watch src --build 'cargo build' -- target/debug/my-agent";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_put_together_soundly() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn seconds_are_positive_and_bounded() {
        for (text, millis) in [
            ("2.5", Some(2_500)),
            ("0.001", Some(1)),
            ("31536000", Some(31_536_000_000)),
            ("1e3", Some(1_000_000)),
            ("31536001", None),
            ("1e400", None),
            ("0", None),
            ("-0", None),
            ("1e-30", None),
            ("-1", None),
            ("inf", None),
            ("nan", None),
            ("5s", None),
            ("", None),
        ] {
            let time = seconds(text).ok();
            assert_eq!(time, millis.map(Duration::from_millis), "{text:?}");
        }
    }
}
