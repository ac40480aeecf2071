//! What a person sees: text on standard output, all else on standard error, and how the two keep
//! out of each other's way on one terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Stderr, Stdout, Write};
use std::pin::pin;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use agent_hub_kit::{Content, EventKind, StreamEvent};
use serde::Serialize;
use tokio::time::sleep;

use crate::shown::{brief, escaped, shorten, visible, words};

/// Standard output and standard error, or what stands in for them.
pub(crate) struct Screen<O = Stdout, E = Stderr> {
    out: O,
    err: E,
    out_terminal: bool,
    err_terminal: bool,
    colour: bool,
    /// A line on standard output has no end yet.
    out_open: bool,
    /// The same on standard error: reasoning comes in pieces.
    err_open: bool,
    /// The frame of the spinner that is to be seen.
    frame: Option<usize>,
}

/// Why a piece of text stands out.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Bold,
    Dim,
    Red,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        Self {
            out_terminal: out.is_terminal(),
            err_terminal: err.is_terminal() && !dumb,
            colour: set("NO_COLOR").is_none() && !dumb,
            out,
            err,
            out_open: false,
            err_open: false,
            frame: None,
        }
    }
}

impl<O: Write, E: Write> Screen<O, E> {
    /// A piece of the answer, as it is. Only a terminal is kept from a peer's control sequences.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        let Some(last) = text.chars().next_back() else {
            return Ok(());
        };
        self.clear();
        if self.err_open && self.shared() {
            self.end_err_line();
        }
        let shown = match self.out_terminal {
            true => visible(text),
            false => Cow::Borrowed(text),
        };
        self.out_open = last != '\n';
        self.print(&shown)
    }

    /// What is fit for a terminal already.
    pub(crate) fn print(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// What a tool returned, for want of any text.
    pub(crate) fn result(&mut self, content: &Content) -> io::Result<()> {
        match content.as_str() {
            Some(text) => self.text(text)?,
            None if content.is_null() => {}
            None if self.out_terminal => {
                let mut value = content.value();
                shorten(&mut value);
                self.text(&format!("{value:#}"))?;
            }
            None => self.text(&content.raw())?,
        }
        self.finish()
    }

    /// An event or a tool as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = escaped(serde_json::to_string(value)?);
        line.push('\n');
        self.print(&line)
    }

    /// A piece of the reasoning. It is no part of the answer, so it does not go where a script
    /// reads.
    pub(crate) fn think(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.clear();
        if !self.err_open {
            self.leave_text();
        }
        let shown = visible(text);
        let shown = self.styled(self.err_terminal, Style::Dim, &shown);
        let _ = self.err.write_all(shown.as_bytes());
        let _ = self.err.flush();
        self.err_open = !text.ends_with('\n');
    }

    /// A whole line on standard error, with who says it.
    pub(crate) fn line(&mut self, who: &str, text: &str, style: Option<Style>) {
        self.clear();
        self.end_err_line();
        self.leave_text();
        // What looks like another line of ours is seen to be a part of this one.
        let text = visible(text.trim_end()).replace('\n', "\n  ");
        let text = match style {
            Some(style) => self.styled(self.err_terminal, style, &text),
            None => text,
        };
        let who = self.styled(self.err_terminal, Style::Bold, &visible(who));
        let _ = writeln!(self.err, "{who}: {text}");
    }

    /// Shows what has been said of the servers so far.
    pub(crate) fn warn(&mut self, warnings: &Receiver<String>) {
        for warning in warnings.try_iter() {
            self.line("warning", &warning, None);
        }
    }

    /// Shows an event that is not terminal. `tool` is named where no node is.
    pub(crate) fn event(&mut self, event: &StreamEvent, tool: &str) -> io::Result<()> {
        let who = event.node.as_ref().map_or(tool, |node| node.as_str());
        let content = &event.content;
        match &event.kind {
            EventKind::Text => return self.text(&words(content)),
            EventKind::Think => self.think(&words(content)),
            EventKind::Log => self.line(who, &words(content), None),
            EventKind::Error => {
                let text = format!("error: {}", words(content));
                self.line(who, &text, Some(Style::Red));
            }
            // An image has no place on a terminal: that it came, and what it is, has.
            kind => {
                let text = format!("[{kind}] {}", brief(&words(content)));
                self.line(who, &text, Some(Style::Dim));
            }
        }
        Ok(())
    }

    /// Ends the lines that are open.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.clear();
        self.end_err_line();
        if std::mem::take(&mut self.out_open) {
            self.out.write_all(b"\n")?;
        }
        self.out.flush()
    }

    /// Waits, and shows that it does where there is a line for it.
    pub(crate) async fn wait<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        if !self.err_terminal || self.err_open || self.out_open && self.shared() {
            return future.await;
        }
        loop {
            tokio::select! {
                biased;
                output = &mut future => {
                    self.clear();
                    return output;
                }
                () = sleep(FRAME) => self.spin(),
            }
        }
    }

    /// A text for standard output that stands out where people read it.
    pub(crate) fn emphasized(&self, style: Style, text: &str) -> String {
        self.styled(self.out_terminal, style, text)
    }

    fn styled(&self, terminal: bool, style: Style, text: &str) -> String {
        let code = match style {
            Style::Bold => 1,
            Style::Dim => 2,
            Style::Red => 31,
        };
        match terminal && self.colour {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    /// Whether both streams show in one place.
    fn shared(&self) -> bool {
        self.out_terminal && self.err_terminal
    }

    /// Goes below a line of text that has no end yet, without a newline in the text itself.
    fn leave_text(&mut self) {
        if self.out_open && self.shared() {
            let _ = self.err.write_all(b"\n");
            self.out_open = false;
        }
    }

    fn end_err_line(&mut self) {
        if std::mem::take(&mut self.err_open) {
            let _ = self.err.write_all(b"\n");
        }
    }

    fn spin(&mut self) {
        let next = self.frame.map_or(0, |frame| (frame + 1) % FRAMES.len());
        self.frame = Some(next);
        let _ = write!(self.err, "\r{}", FRAMES.get(next).unwrap_or(&""));
        let _ = self.err.flush();
    }

    fn clear(&mut self) {
        if self.frame.take().is_some() {
            let _ = self.err.write_all(b"\r \r");
            let _ = self.err.flush();
        }
    }
}

/// The pace of the spinner, and how long nothing has to come before it shows.
const FRAME: Duration = Duration::from_millis(120);

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Both streams in one place, as a terminal shows them.
    #[derive(Clone, Default)]
    struct Tape(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

    impl Write for Tape {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Tape {
        fn said(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).unwrap()
        }
    }

    fn screen(out: Tape, err: Tape, terminal: bool, colour: bool) -> Screen<Tape, Tape> {
        Screen {
            out,
            err,
            out_terminal: terminal,
            err_terminal: terminal,
            colour,
            out_open: false,
            err_open: false,
            frame: None,
        }
    }

    fn talk(screen: &mut Screen<Tape, Tape>) {
        screen.line("node", "begins", None);
        screen.think("hm");
        screen.think("m");
        screen.text("Hé").unwrap();
        screen.text("l").unwrap();
        screen.line("node", "half\r\n\x1b[2Jerror: x\n", Some(Style::Red));
        screen.text("lo\x1b[0m").unwrap();
        screen.think("so");
        screen.finish().unwrap();
    }

    #[test]
    fn on_one_terminal_each_voice_has_lines_of_its_own() {
        let tape = Tape::default();
        talk(&mut screen(tape.clone(), tape.clone(), true, false));
        let wanted = "node: begins\nhmm\nHél\nnode: half\n  ␛[2Jerror: x\nlo␛[0m\nso\n";
        assert_eq!(tape.said(), wanted);
    }

    #[test]
    fn colours_are_there_for_a_terminal_only() {
        let tape = Tape::default();
        talk(&mut screen(tape.clone(), tape.clone(), true, true));
        let wanted = "\x1b[1mnode\x1b[0m: begins\n\x1b[2mhm\x1b[0m\x1b[2mm\x1b[0m\nHél\n\
                      \x1b[1mnode\x1b[0m: \x1b[31mhalf\n  ␛[2Jerror: x\x1b[0m\nlo␛[0m\n\
                      \x1b[2mso\x1b[0m\n";
        assert_eq!(tape.said(), wanted);
    }

    #[test]
    fn into_a_pipe_goes_the_text_alone_and_as_it_is() {
        let (out, err) = (Tape::default(), Tape::default());
        talk(&mut screen(out.clone(), err.clone(), false, true));
        assert_eq!(out.said(), "Héllo\x1b[0m\n");
        let wanted = "node: begins\nhmm\nnode: half\n  ␛[2Jerror: x\nso\n";
        assert_eq!(err.said(), wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn the_spinner_leaves_nothing_behind_and_keeps_off_open_lines() {
        let tape = Tape::default();
        let mut screen = screen(tape.clone(), tape.clone(), true, false);
        screen.wait(sleep(FRAME / 2)).await;
        assert_eq!(tape.said(), "", "nothing is slow yet");
        screen.wait(sleep(FRAME * 5 / 2)).await;
        assert_eq!(tape.said(), "\r⠋\r⠙\r \r");
        screen.text("x").unwrap();
        screen.wait(sleep(FRAME * 9)).await;
        assert_eq!(tape.said(), "\r⠋\r⠙\r \rx");
    }
}
