//! Malformed traffic, and a way that is cut.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
    copy_bidirectional,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::dice::Dice;
use crate::own::Counts;
use crate::tools::{Ask, End};

/// Longer than any time that a server gives a client that does not go on.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is sent on a connection of its own, and how an answer may begin; empty: there may be none.
struct Trick(&'static str, &'static [u8], &'static [&'static str]);

macro_rules! post {
    ($length:literal, $rest:literal) => {
        concat!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n",
            "accept: application/json, text/event-stream\r\ncontent-length: ",
            $length,
            "\r\n",
            $rest
        )
        .as_bytes()
    };
}

const NOT_HTTP: &[&str] = &["", "HTTP/1.1 400"];
const TOO_LATE: &[&str] = &["", "HTTP/1.1 408", "HTTP/1.1 400"];
const BAD: &[&str] = &["HTTP/1.1 400"];

#[rustfmt::skip]
const TRICKS: &[Trick] = &[
    Trick("no HTTP", b"hello, is this the door?\r\n\r\n", NOT_HTTP),
    Trick("bytes", b"\x16\x03\x01\x02\x00\x01\xff\xfe\x00\x00", TOO_LATE),
    Trick("nothing", b"", TOO_LATE),
    Trick("half a head", b"POST /mcp HTTP/1.1\r\nhost: local", TOO_LATE),
    // One that is mounted does not know its path.
    Trick("another path", b"GET /elsewhere HTTP/1.1\r\nhost: localhost\r\n\r\n",
        &["HTTP/1.1 404", "HTTP/1.1 405"]),
    Trick("another host", b"POST /mcp HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 2\r\n\r\n{}",
        &["HTTP/1.1 403"]),
    Trick("another method", b"PATCH /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
        &["HTTP/1.1 405"]),
    Trick("a chunk that is none", b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        accept: application/json, text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", NOT_HTTP),
    Trick("a cut body", post!("500", "\r\n{\"jsonrpc\":\"2.0\","), TOO_LATE),
    Trick("no JSON", post!("9", "\r\n{\"jsonrp}"), BAD),
    Trick("no UTF-8", b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        accept: application/json, text/event-stream\r\ncontent-length: 4\r\n\r\n{\"\xff}", BAD),
    Trick("no message", post!("13", "\r\n{\"jsonrpc\":1}"), BAD),
    Trick("too much", post!("99999999999", "\r\n"), &["HTTP/1.1 413"]),
    Trick("an id that is none", post!("48", "\r\n{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"tools/list\"}"), BAD),
    Trick("a session that is none", post!("46", "mcp-session-id: 0123\r\n\r\n\
        {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"), &["HTTP/1.1 404", "HTTP/1.1 400"]),
    Trick("a version that is none", post!("46", "mcp-protocol-version: 1999-01-01\r\n\r\n\
        {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"), BAD),
    Trick("an answer to nothing", post!("37", "\r\n{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}"),
        &["HTTP/1.1 4", "HTTP/1.1 202"]),
];

/// Sends such a thing so many times a second.
pub async fn vandalise(
    servers: Vec<SocketAddr>,
    steady: SocketAddr,
    seed: u64,
    counts: Arc<Counts>,
) {
    let mut dice = Dice::new(seed, 0x7a4d);
    loop {
        sleep(Duration::from_millis(dice.between(10, 90))).await;
        let (Some(trick), Some(addr)) = (dice.pick(TRICKS), dice.pick(&servers).copied()) else {
            return;
        };
        let (Trick(name, bytes, answers), counts) = (trick, counts.clone());
        // Some go without waiting for the answer.
        let waits = dice.percent(80);
        tokio::spawn(async move {
            counts.add("malformed", 1);
            match timeout(PATIENCE, play(bytes, addr, waits)).await {
                Ok(Ok(answer))
                    if !waits
                        || answers.iter().any(|begin| match *begin {
                            "" => answer.is_empty(),
                            begin => answer.starts_with(begin),
                        }) => {}
                Ok(Ok(answer)) if addr == steady || !answer.is_empty() => {
                    let begin: String = answer.chars().take(60).collect();
                    counts.wrong(format!("{}: answered by {begin:?}", name));
                }
                Ok(Err(error)) if addr == steady => counts.wrong(format!("{}: {error}", name)),
                Ok(_) => {}
                Err(_) => counts.wrong(format!("{}: the connection stays open", name)),
            }
        });
    }
}

/// Calls for more than any buffer holds and reads none of it, so that the server has to hang up.
pub async fn stall(addr: SocketAddr, counts: Arc<Counts>) {
    for call in u64::from(u32::MAX) << 32.. {
        sleep(Duration::from_secs(2)).await;
        let counts = counts.clone();
        tokio::spawn(async move {
            counts.add("stalled", 1);
            match timeout(PATIENCE, read_nothing(addr, call)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => counts.wrong(format!("a reader that stalls: {error}")),
                Err(_) => counts.wrong("a reader that stalls is kept".to_owned()),
            }
        });
    }
}

async fn read_nothing(addr: SocketAddr, call: u64) -> Result<(), Anything> {
    let mut socket = TcpStream::connect(addr).await?;
    socket.write_all(&posted("", OPEN)).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"}") && !head.windows(9).any(|part| part == b"\r\n0\r\n\r\n") {
        if socket.read_buf(&mut head).await? == 0 {
            return Err("no session".into());
        }
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let (_, id) = head.split_once("mcp-session-id: ").ok_or("no session")?;
    let session = format!(
        "mcp-session-id: {}\r\n",
        id.lines().next().unwrap_or_default()
    );
    let ask = Ask {
        call,
        events: 1_000_000,
        size: 1_000,
        pause_us: 0,
        end: End::Done,
        plain: false,
        load: String::new(),
    };
    let call = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "stream", "arguments": ask, "_meta": { "progressToken": 1 } },
    });
    socket
        .write_all(&posted(&session, &call.to_string()))
        .await?;
    // Longer than a reader may stall; then what the socket holds is read, and its end.
    sleep(Duration::from_secs(10)).await;
    let mut sink = tokio::io::sink();
    match tokio::io::copy(&mut socket, &mut sink).await {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => Err(error.into()),
        _ => Ok(()),
    }
}

const OPEN: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"vandal","version":"0"}}}"#;

fn posted(headers: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// What is answered until the connection ends or has said how it answers.
async fn play(bytes: &[u8], addr: SocketAddr, waits: bool) -> std::io::Result<String> {
    let mut socket = TcpStream::connect(addr).await?;
    socket.write_all(bytes).await?;
    let mut answer = Vec::new();
    if waits {
        while !answer.windows(4).any(|part| part == b"\r\n\r\n") {
            match socket.read_buf(&mut answer).await {
                Ok(0) => break,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                read => drop(read?),
            }
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

const LINES: &[&[u8]] = &[
    b"hello\n",
    b"\n",
    b"{\n",
    b"\xff\xfe\x00\n",
    b"[]\n",
    b"{\"jsonrpc\":\"1.0\",\"id\":5,\"method\":\"ping\"}\n",
    b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}\n",
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}\n",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":7}\n",
    b"{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"tools/call\",\"params\":{\"name\":4}}\n",
    b"{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"no/such\"}\n",
];

/// Sends garbage to a server over stdio, which goes on answering between; then leaves, in the middle of
/// a line. Again and again.
pub async fn vandalise_stdio(seed: u64, counts: Arc<Counts>) {
    let mut dice = Dice::new(seed, 0x57d1);
    loop {
        let lines = dice.between(20, 100);
        if let Err(error) = garble(lines, &mut dice, &counts).await {
            counts.wrong(format!("a server over stdio: {error}"));
        }
    }
}

type Anything = Box<dyn std::error::Error>;

async fn garble(lines: u64, dice: &mut Dice, counts: &Counts) -> Result<(), Anything> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("stdio")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut input = child.stdin.take().ok_or("no stdin")?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
    let open = concat!(
        r#"{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-06-18","#,
        r#""capabilities":{},"clientInfo":{"name":"vandal","version":"0"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
    );
    input.write_all(open.as_bytes()).await?;
    for number in 0..lines {
        sleep(Duration::from_millis(dice.between(10, 90))).await;
        input.write_all(dice.pick(LINES).ok_or("no line")?).await?;
        counts.add("malformed", 1);
        let ping =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":\"ping {number}\",\"method\":\"ping\"}}\n");
        input.write_all(ping.as_bytes()).await?;
        let pong = format!("\"ping {number}\"");
        loop {
            let line = timeout(PATIENCE, output.next_line()).await??;
            let line = line.ok_or("it has ended")?;
            if line.contains(&pong) && line.contains("\"result\"") {
                break;
            }
        }
    }
    input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":").await?;
    drop(input);
    let status = timeout(PATIENCE, child.wait()).await??;
    match status.success() {
        true => Ok(()),
        false => Err(format!("it ended by {status}").into()),
    }
}

/// Passes connections on to a server and changes some of the bytes, in both directions.
pub async fn batter(listener: TcpListener, to: SocketAddr, seed: u64, counts: Arc<Counts>) {
    let mut dice = Dice::new(seed, 0xba77);
    while let Ok((near, _)) = listener.accept().await {
        let (seed, counts) = (dice.between(0, u64::MAX), counts.clone());
        tokio::spawn(async move {
            let Ok(far) = TcpStream::connect(to).await else {
                return;
            };
            let (near_in, near_out) = near.into_split();
            let (far_in, far_out) = far.into_split();
            // When one direction ends, so does the other.
            let (one, other) = (Dice::new(seed, 1), Dice::new(seed, 2));
            let battered = tokio::select! {
                battered = pass(near_in, far_out, one) => battered,
                battered = pass(far_in, near_out, other) => battered,
            };
            counts.add("battered", battered);
        });
    }
}

/// A server over stdio with the same on its pipes.
pub async fn batter_stdio() {
    let seed = u64::from(std::process::id());
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let child = Command::new(program)
        .arg("stdio")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else { return };
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return;
    };
    let (one, other) = (Dice::new(seed, 1), Dice::new(seed, 2));
    tokio::select! {
        _ = pass(tokio::io::stdin(), input, one) => {}
        _ = pass(output, tokio::io::stdout(), other) => {}
    }
    let _ = timeout(PATIENCE, child.wait()).await;
    std::process::exit(0); // tokio's stdin would hold it
}

/// Passes bytes on, and says how often it changed them.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut dice: Dice,
) -> u64 {
    let mut bytes = Vec::with_capacity(8 << 10);
    let mut battered: u64 = 0;
    loop {
        bytes.clear();
        if !matches!(from.read_buf(&mut bytes).await, Ok(1..)) {
            return battered;
        }
        let place = dice.between(0, bytes.len() as u64) as usize;
        match dice.between(0, 60) {
            0 => bytes[place] ^= 1 << dice.between(0, 8),
            1 => drop(bytes.remove(place)),
            2 => bytes.insert(place, dice.between(0, 256) as u8),
            3 => bytes.truncate(place),
            4 => bytes.extend_from_within(place..),
            _ => battered = battered.wrapping_sub(1),
        }
        battered = battered.wrapping_add(1);
        if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
            return battered;
        }
    }
}

/// Passes connections on to a server and cuts some of them after so many bytes of the answer, in order
/// or by a reset.
pub async fn cut(listener: TcpListener, to: SocketAddr, seed: u64, counts: Arc<Counts>) {
    let mut dice = Dice::new(seed, 0xc07);
    while let Ok((mut near, _)) = listener.accept().await {
        let cut_after = dice.percent(30).then(|| dice.between(0, 60_000));
        let counts = counts.clone();
        tokio::spawn(async move {
            let Ok(mut far) = TcpStream::connect(to).await else {
                return;
            };
            let Some(bytes) = cut_after else {
                let _ = copy_bidirectional(&mut near, &mut far).await;
                return;
            };
            let (mut far_in, mut far_out) = far.split();
            let (mut near_in, mut near_out) = near.split();
            let mut answer = (&mut far_in).take(bytes);
            tokio::select! {
                _ = tokio::io::copy(&mut near_in, &mut far_out) => {}
                _ = tokio::io::copy(&mut answer, &mut near_out) => {}
            }
            counts.add("cuts", 1);
        });
    }
}
