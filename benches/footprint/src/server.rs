//! A server as a child process, and what its clients send it: bytes on sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Anything;

pub struct Server {
    child: Child,
    address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"footprint","version":"0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl Server {
    /// Starts a program that says its URL on its first line.
    pub fn start(program: &Path) -> Result<Self, Anything> {
        let mut child = Command::new(program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut url)?;
        }
        let address = url.trim().trim_start_matches("http://");
        let address = address.trim_end_matches("/mcp").parse()?;
        Ok(Self { child, address })
    }

    pub fn connect(&self) -> Result<Client, Anything> {
        let socket = TcpStream::connect(self.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Client {
            socket,
            host: self.address.to_string(),
            read: Vec::new(),
        })
    }

    /// Resident memory in KiB.
    pub fn rss(&self) -> Result<f64, Anything> {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let rollup = std::fs::read_to_string(path)?;
        let line = rollup.lines().find(|line| line.starts_with("Rss:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(kib.ok_or("no Rss")?.parse()?)
    }
}

/// One connection. Dropping it closes it.
pub struct Client {
    socket: TcpStream,
    host: String,
    read: Vec<u8>,
}

impl Client {
    /// Opens a session; bare hyper has none.
    pub fn open_session(&mut self) -> Result<Option<String>, Anything> {
        self.send(None, INITIALIZE)?;
        let head = self.answer()?;
        let session = header(&head, "mcp-session-id").map(str::to_owned);
        self.send(session.as_deref(), INITIALIZED)?;
        self.answer()?;
        Ok(session)
    }

    /// Starts a call of `echo`.
    pub fn call(&mut self, session: Option<&str>, arguments: &str) -> Result<(), Anything> {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{arguments},"_meta":{{"progressToken":1}}}}}}"#
        );
        self.send(session, &body)
    }

    fn send(&mut self, session: Option<&str>, body: &str) -> Result<(), Anything> {
        let session = session.map_or(String::new(), |id| format!("Mcp-Session-Id: {id}\r\n"));
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2025-06-18\r\n{session}Content-Length: {}\r\n\r\n{body}",
            self.host,
            body.len(),
        );
        Ok(self.socket.write_all(request.as_bytes())?)
    }

    /// Reads until the text has come.
    pub fn wait_for(&mut self, text: &str) -> Result<(), Anything> {
        self.until(text.as_bytes())?;
        Ok(())
    }

    /// Reads one answer to its end, and gives its head.
    fn answer(&mut self) -> Result<String, Anything> {
        let end = self.until(b"\r\n\r\n")?;
        let head = String::from_utf8(self.read.drain(..end).collect())?;
        if !head.starts_with("HTTP/1.1 2") {
            return Err(head.into());
        }
        let length = match header(&head, "content-length") {
            Some(length) => length.parse()?,
            None if header(&head, "transfer-encoding").is_some() => self.until(b"0\r\n\r\n")?,
            None => 0,
        };
        while self.read.len() < length {
            self.fill()?;
        }
        self.read.drain(..length);
        Ok(head)
    }

    /// Reads until a text has come, and gives where it ends.
    fn until(&mut self, text: &[u8]) -> Result<usize, Anything> {
        loop {
            let found = self.read.windows(text.len()).position(|part| part == text);
            if let Some(start) = found {
                return Ok(start + text.len());
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), Anything> {
        let mut part = [0; 4096];
        match self.socket.read(&mut part)? {
            0 => Err("the server hung up".into()),
            count => {
                self.read.extend_from_slice(&part[..count]);
                Ok(())
            }
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(found, _)| found.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}
