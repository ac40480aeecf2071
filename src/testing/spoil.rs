//! Between a client and a server, where answers are spoilt.
//!
//! Owns what each fault does to the bytes; must not know whose they are.

use std::future::{pending, poll_fn};
use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, split};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::fault::{Fault, Faults};
use super::http1::{Body, Head, SSE_HEAD, chunk};
use super::request::{Framing, MAX_MESSAGE_BYTES, PeerRequest, hung_up};
use crate::transport::stream::Lines;

/// What a flood comes to, so that no test drowns.
const MAX_FLOOD_BYTES: usize = 64 * 1024 * 1024;

/// Between two events of a flood: time goes on, also for a clock that is paused.
const FLOOD_PAUSE: Duration = Duration::from_millis(1);

/// No HTTP, no JSON, no UTF-8.
const GARBAGE: &[u8] = b"\x16\x03\x01\0\xff\xfe<html>\r\n\0\0}{][\"\\\xc3(\n";

/// What a client has to pass over, as the data of SSE events or as lines.
const NOISE: &[&str] = &[
    "no JSON",
    "",
    "{\"jsonrpc\":\"2.0\"",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/noise\",\"params\":{\"of\":[\"nobody\"]}}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"nobody's\",\"progress\":1,\"message\":\"noise\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":\"nobody's\",\"result\":{\"content\":[]}}",
];

/// Whether a connection goes on.
#[derive(Debug, PartialEq, Eq)]
enum Flow {
    Closes,
    GoesOn,
}

/// Passes what a client and a server say to each other, until one of them hangs up or a fault does.
pub(super) async fn spoil<A, B>(client: A, beyond: B, framing: Framing, faults: Faults)
where
    A: AsyncRead + AsyncWrite + Send,
    B: AsyncRead + AsyncWrite + Send,
{
    // Whoever broke off knows.
    let _ = match framing {
        Framing::Http => spoil_http(client, beyond, None, &faults).await,
        Framing::Lines => spoil_lines(client, beyond, &faults).await,
    };
}

/// `host` is what the server is called, if it has to be told.
pub(super) async fn spoil_http<A, B>(
    client: A,
    beyond: B,
    host: Option<&str>,
    faults: &Faults,
) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Send,
    B: AsyncRead + AsyncWrite + Send,
{
    let (input, mut output) = split(client);
    let mut input = BufReader::new(input);
    let (answers, mut requests) = split(beyond);
    let mut answers = BufReader::new(answers);
    loop {
        let request = tokio::select! {
            request = PeerRequest::read(&mut input, Framing::Http, 0) => request?,
            () = hung_up(&mut answers) => None,
        };
        let Some(request) = request else {
            return output.shutdown().await;
        };
        let fault = faults.current();
        let mut to_client = Spoilt {
            output: &mut output,
            fault,
            left: match fault {
                Some(Fault::CutAfter(bytes)) => bytes,
                _ => usize::MAX,
            },
        };
        let answered = async {
            match fault {
                Some(Fault::Silence) => pending().await,
                Some(Fault::Garbage) => to_client.garbage().await,
                Some(Fault::Flood(bytes)) if !request.is_notification() => {
                    to_client.output.write_all(SSE_HEAD.as_bytes()).await?;
                    let asked = (request.progress_token().cloned(), bytes);
                    to_client.flood(asked, Framing::Http, faults).await?;
                    // There is no answer to end it with.
                    Ok(Flow::Closes)
                }
                _ => {
                    let is_wrong = fault == Some(Fault::WrongIds);
                    requests
                        .write_all(&forwarded(&request, host, is_wrong))
                        .await?;
                    requests.flush().await?;
                    to_client.relay(&mut answers).await
                }
            }
        };
        let flow = tokio::select! {
            flow = answered => flow?,
            () = hung_up(&mut input) => Flow::Closes,
        };
        if flow == Flow::Closes {
            return output.shutdown().await;
        }
    }
}

/// A request as it goes on to the server.
fn forwarded(request: &PeerRequest, host: Option<&str>, is_wrong: bool) -> Vec<u8> {
    let mut head = request.head().clone();
    let body = match is_wrong {
        true => with_wrong_id(request).unwrap_or_else(|| request.body().to_vec()),
        false => request.body().to_vec(),
    };
    head.remove("Transfer-Encoding");
    if head.header("Content-Length").is_some() || !body.is_empty() {
        head.set("Content-Length", body.len().to_string());
    }
    if let Some(host) = host {
        head.set("Host", host);
    }
    let mut bytes = head.to_bytes();
    bytes.extend(body);
    bytes
}

/// The message under another id, which its answer then has; `None` if it wants no answer.
fn with_wrong_id(request: &PeerRequest) -> Option<Vec<u8>> {
    let mut message = request.json().clone();
    let id = message
        .get_mut("id")
        .filter(|_| !request.is_notification())?;
    *id = format!("not {id}").into();
    Some(message.to_string().into_bytes())
}

/// The way back to the client.
struct Spoilt<'a, W> {
    output: &'a mut W,
    fault: Option<Fault>,
    /// What may still pass before the cut.
    left: usize,
}

impl<W: AsyncWrite + Unpin> Spoilt<'_, W> {
    /// Passes one piece of an answer.
    async fn pass(&mut self, piece: &[u8]) -> io::Result<Flow> {
        if let Some(Fault::Delay(delay)) = self.fault {
            sleep(delay).await;
        }
        let within = piece.get(..self.left).unwrap_or(piece);
        self.left -= within.len();
        self.output.write_all(within).await?;
        self.output.flush().await?;
        Ok(match self.left {
            0 => Flow::Closes,
            _ => Flow::GoesOn,
        })
    }

    /// Passes a whole answer.
    async fn relay(&mut self, answers: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Flow> {
        let Some(mut head) = Head::read(answers).await? else {
            return Ok(Flow::Closes);
        };
        let status = head.line.split(' ').nth(1).unwrap_or_default();
        let mut body = match status {
            "204" | "304" => Body::NONE,
            _ => head.body(Body::UntilClosed)?,
        };
        let closes = body == Body::UntilClosed;
        let is_chunked = matches!(body, Body::Chunked { .. });
        let media = head.header("Content-Type").unwrap_or_default();
        let is_noisy = self.fault == Some(Fault::Noise);
        let is_noisy_stream = is_noisy && is_chunked && media.starts_with("text/event-stream");
        let pads = is_noisy && media.starts_with("application/json");
        const PADDING: &[u8] = b" \r\n\t";
        if let Body::Known { left } = body
            && pads
        {
            head.set("Content-Length", (left + 2 * PADDING.len()).to_string());
        }
        let framed = |data: &[u8]| match is_chunked {
            true => chunk(data),
            false => data.to_vec(),
        };
        if self.pass(&head.to_bytes()).await? == Flow::Closes {
            return Ok(Flow::Closes);
        }
        if is_noisy_stream {
            self.pass(&framed(&noise())).await?;
        }
        if pads {
            self.pass(&framed(PADDING)).await?;
        }
        while let Some(data) = body.next(answers).await? {
            if self.pass(&framed(&data)).await? == Flow::Closes {
                return Ok(Flow::Closes);
            }
            if is_noisy_stream && data.ends_with(b"\n\n") {
                self.pass(&framed(&noise())).await?;
            }
        }
        if pads {
            self.pass(&framed(PADDING)).await?;
        }
        if is_chunked && self.pass(&chunk(b"")).await? == Flow::Closes {
            return Ok(Flow::Closes);
        }
        Ok(match closes {
            true => Flow::Closes,
            false => Flow::GoesOn,
        })
    }

    async fn garbage(&mut self) -> io::Result<Flow> {
        self.output.write_all(GARBAGE).await?;
        Ok(Flow::Closes)
    }

    async fn flood(
        &mut self,
        (token, bytes): (Option<Value>, usize),
        framing: Framing,
        faults: &Faults,
    ) -> io::Result<Flow> {
        let text = "~".repeat(bytes);
        let mut left = MAX_FLOOD_BYTES;
        for number in 1.. {
            // Put together by hand: of large events a serializer would be most of a test's time.
            let message = match &token {
                Some(token) => format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{number},"message":"{text}"}}}}"#
                ),
                None => format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{text}"}}}}"#
                ),
            };
            let event = match framing {
                Framing::Http => chunk(format!("data: {message}\n\n").as_bytes()),
                Framing::Lines => format!("{message}\n").into_bytes(),
            };
            left = match left.checked_sub(event.len()) {
                Some(left) if faults.current() == Some(Fault::Flood(bytes)) => left,
                Some(_) => return Ok(Flow::GoesOn),
                None => break,
            };
            self.output.write_all(&event).await?;
            self.output.flush().await?;
            sleep(FLOOD_PAUSE).await;
        }
        Ok(Flow::Closes)
    }
}

/// As SSE events.
fn noise() -> Vec<u8> {
    let mut events = ": a comment\n\nevent: unknown\ndata: {}\n\nretry: soon\n\n".to_owned();
    for data in NOISE {
        events += &format!("data: {data}\n\n");
    }
    events.into_bytes()
}

async fn spoil_lines<A, B>(client: A, beyond: B, faults: &Faults) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Send,
    B: AsyncRead + AsyncWrite + Send,
{
    let (input, mut output) = split(client);
    let mut input = BufReader::new(input);
    let (answers, mut requests) = split(beyond);
    let mut answers = Lines::new(answers, "a line of a test", MAX_MESSAGE_BYTES);
    // One flood at a time: the rest of what the client says waits behind it.
    let (flood, mut floods) = mpsc::channel(1);
    let forward = async {
        while let Some(request) = PeerRequest::read(&mut input, Framing::Lines, 0).await? {
            let mut line = match faults.current() {
                Some(Fault::WrongIds) => with_wrong_id(&request),
                Some(Fault::Flood(bytes)) if !request.is_notification() => {
                    let asked = (request.progress_token().cloned(), bytes);
                    if flood.send(asked).await.is_err() {
                        return Ok(());
                    }
                    continue;
                }
                _ => None,
            }
            .unwrap_or_else(|| request.body().to_vec());
            line.push(b'\n');
            requests.write_all(&line).await?;
            requests.flush().await?;
        }
        // The server may still answer what it was asked.
        requests.shutdown().await?;
        pending::<io::Result<()>>().await
    };
    let back = async {
        let mut cut = None;
        loop {
            let line = tokio::select! {
                line = poll_fn(|cx| answers.poll_line(cx)) => line,
                Some(asked) = floods.recv() => {
                    let mut to_client = Spoilt { output: &mut output, fault: None, left: usize::MAX };
                    match to_client.flood(asked, Framing::Lines, faults).await? {
                        Flow::GoesOn => continue,
                        Flow::Closes => return Ok(()),
                    }
                }
            };
            let Some(Ok(line)) = line else {
                return Ok(());
            };
            let fault = faults.current();
            let left = match (fault, cut) {
                (Some(Fault::CutAfter(bytes)), Some((asked, left))) if bytes == asked => left,
                (Some(Fault::CutAfter(bytes)), _) => bytes,
                _ => usize::MAX,
            };
            let mut to_client = Spoilt {
                output: &mut output,
                fault,
                left,
            };
            match fault {
                Some(Fault::Silence) => continue,
                Some(Fault::Garbage) => {
                    to_client.garbage().await?;
                    return Ok(());
                }
                Some(Fault::Noise) => {
                    let lines: Vec<_> = NOISE.iter().map(|line| format!("{line}\n")).collect();
                    to_client.pass(lines.concat().as_bytes()).await?;
                }
                _ => {}
            }
            if to_client.pass(&[&line, &b"\n"[..]].concat()).await? == Flow::Closes {
                return Ok(());
            }
            cut = match fault {
                Some(Fault::CutAfter(bytes)) => Some((bytes, to_client.left)),
                _ => None,
            };
        }
    };
    let over: io::Result<()> = tokio::select! {
        over = forward => over,
        over = back => over,
    };
    output.shutdown().await?;
    over
}
