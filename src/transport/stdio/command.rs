//! How to start a server that speaks over its standard streams.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

/// A command to start a server: program, arguments, environment, working directory.
///
/// It is started as it stands, never through a shell. Its environment is a small default set of
/// the variables of this process (on Unix `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `USER`), and
/// what [`env`](Self::env) adds: secrets of this process do not leak into servers by themselves.
///
/// ```
/// use agent_hub_kit::StdioCommand;
///
/// let python = StdioCommand::new("python").args(["server.py", "--quiet"]).env("TOKEN", "s3cret");
/// let words: StdioCommand = ["agent-hub", "echo", "--stdio"].into();
/// # let _ = (python, words);
/// ```
#[derive(Clone)]
pub struct StdioCommand {
    program: OsString,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    inherit_env: bool,
    cwd: Option<PathBuf>,
}

/// What a child gets of our environment by default.
#[cfg(unix)]
const DEFAULT_ENV: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
#[cfg(not(unix))]
const DEFAULT_ENV: [&str; 12] = [
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
    "USERPROFILE",
];

impl StdioCommand {
    /// A program, found in `PATH` unless it has a slash.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            inherit_env: false,
            cwd: None,
        }
    }

    /// Adds one argument, which reaches the program unchanged.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the child's environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .insert(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Sets variables of the child's environment.
    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        variables
            .into_iter()
            .fold(self, |command, (name, value)| command.env(name, value))
    }

    /// Gives the child the whole environment of this process, secrets included.
    pub fn inherit_env(mut self) -> Self {
        self.inherit_env = true;
        self
    }

    /// The child's working directory. Default: that of this process.
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    pub(super) fn to_command(&self) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.args);
        if !self.inherit_env {
            command.env_clear();
            let ours = DEFAULT_ENV
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?)));
            // A value that begins so is a function of an old shell, which would run in a new one.
            command.envs(ours.filter(|(_, value)| !value.to_string_lossy().starts_with("()")));
        }
        command.envs(&self.env);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }

    /// The command for people: program and arguments, cut to a bound, never the environment.
    pub(super) fn shown(&self) -> String {
        const MAX_CHARS: usize = 300;
        let words = std::iter::once(&self.program).chain(&self.args);
        let mut text = words.map(quoted).collect::<Vec<_>>().join(" ");
        if let Some((cut, _)) = text.char_indices().nth(MAX_CHARS) {
            text.truncate(cut);
            text.push('…');
        }
        text
    }

    pub(super) fn cwd_shown(&self) -> Option<String> {
        self.cwd.as_ref().map(|cwd| cwd.display().to_string())
    }

    /// The same for the same command, and for no other one but by chance.
    pub(super) fn fingerprint(&self) -> u64 {
        let Self {
            program,
            args,
            env,
            inherit_env,
            cwd,
        } = self;
        let mut hasher = DefaultHasher::new();
        (program, args, env, inherit_env, cwd).hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.program.is_empty()
    }
}

/// A word as a shell would take it.
fn quoted(word: &OsString) -> Cow<'_, str> {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''")).into()
    }
}

/// The words of a command: the program, then its arguments. No words make a command that cannot
/// be started.
impl<const N: usize> From<[&str; N]> for StdioCommand {
    fn from(words: [&str; N]) -> Self {
        Self::from_words(words)
    }
}

impl From<Vec<String>> for StdioCommand {
    fn from(words: Vec<String>) -> Self {
        Self::from_words(words)
    }
}

impl From<&[String]> for StdioCommand {
    fn from(words: &[String]) -> Self {
        Self::from_words(words)
    }
}

/// A lone string is the name of a program; it is never split or given to a shell.
impl From<&str> for StdioCommand {
    fn from(program: &str) -> Self {
        Self::new(program)
    }
}

impl From<String> for StdioCommand {
    fn from(program: String) -> Self {
        Self::new(program)
    }
}

impl StdioCommand {
    fn from_words<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Self {
        let mut words = words.into_iter();
        match words.next() {
            Some(program) => Self::new(program).args(words),
            None => Self::new(""),
        }
    }
}

/// Shows the names of the variables that were set, not their values.
impl fmt::Debug for StdioCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioCommand")
            .field("command", &self.shown())
            .field("env", &self.env.keys())
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}
