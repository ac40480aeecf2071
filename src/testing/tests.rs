//! Bytes in, bytes out: what a fault does to an answer, and what a hand-written HTTP takes.

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::fault::{Fault, Faults};
use super::http1::{Body, Head};
use super::request::Framing;
use super::spoil::spoil;

const ASK: &str = r#"{"id":7,"jsonrpc":"2.0","method":"tools/call"}"#;
const WRONG: &str = r#"{"id":"not 7","jsonrpc":"2.0","method":"tools/call"}"#;
const JSON: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
const SSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n5\r\ndata:\r\n3\r\n2\n\n\r\n0\r\n\r\n";

fn post(body: &str) -> String {
    let length = body.len();
    format!("POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// What the server hears and the client reads, when the client says `asked` and the server
/// `answered` and leaves.
async fn passed(
    fault: Option<Fault>,
    framing: Framing,
    asked: &str,
    answered: &str,
) -> [String; 2] {
    let faults = Faults::none();
    faults.set(fault);
    let ((mut client, far), (beyond, mut server)) = (duplex(1 << 20), duplex(1 << 20));
    let spoiling = tokio::spawn(spoil(far, beyond, framing, faults));
    client.write_all(asked.as_bytes()).await.unwrap();
    let mut heard = vec![0; 4096];
    let count = match fault {
        Some(Fault::Garbage) if framing == Framing::Http => 0,
        _ => server.read(&mut heard).await.unwrap(),
    };
    heard.truncate(count);
    server.write_all(answered.as_bytes()).await.unwrap();
    drop(server);
    let mut read = Vec::new();
    client.read_to_end(&mut read).await.unwrap();
    spoiling.await.unwrap();
    [heard, read].map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test(start_paused = true)]
async fn a_fault_spoils_an_answer_and_nothing_else() {
    let cut = |bytes: usize| Some(Fault::CutAfter(bytes));
    let line = format!("{ASK}\n");
    let (http, lines) = (Framing::Http, Framing::Lines);
    // fault, framing, what is asked and answered, what is heard and read
    let table = [
        (None, http, post(ASK), JSON, post(ASK), JSON.to_owned()),
        (None, http, post(ASK), SSE, post(ASK), SSE.to_owned()),
        (
            None,
            lines,
            line.clone(),
            "{}\n",
            line.clone(),
            "{}\n".to_owned(),
        ),
        (cut(0), http, post(ASK), JSON, post(ASK), String::new()),
        (
            cut(20),
            http,
            post(ASK),
            JSON,
            post(ASK),
            JSON[..20].to_owned(),
        ),
        (
            cut(SSE.len() - 1),
            http,
            post(ASK),
            SSE,
            post(ASK),
            SSE[..SSE.len() - 1].to_owned(),
        ),
        (cut(1000), http, post(ASK), SSE, post(ASK), SSE.to_owned()),
        (
            cut(4),
            lines,
            line.clone(),
            "{}\n{}\n",
            line.clone(),
            "{}\n{".to_owned(),
        ),
        (
            Some(Fault::WrongIds),
            http,
            post(ASK),
            JSON,
            post(WRONG),
            JSON.to_owned(),
        ),
        (
            Some(Fault::WrongIds),
            lines,
            line.clone(),
            "{}\n",
            format!("{WRONG}\n"),
            "{}\n".to_owned(),
        ),
        (
            Some(Fault::Silence),
            lines,
            line.clone(),
            "{}\n",
            line.clone(),
            String::new(),
        ),
    ];
    for (fault, framing, asked, answered, heard, read) in table {
        let case = format!("{fault:?}, {framing:?}, {answered:?}");
        let passed = passed(fault, framing, &asked, answered).await;
        assert_eq!(passed, [heard, read], "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn noise_stands_around_each_message() {
    let [_, read] = passed(Some(Fault::Noise), Framing::Http, &post(ASK), SSE).await;
    let places: Vec<_> = read.match_indices(": a comment").collect();
    assert_eq!(places.len(), 3, "before, between and after: {read}");
    assert!(
        read.contains("data: 1\n\n") && read.ends_with("0\r\n\r\n"),
        "{read}"
    );
    // An event in two pieces is not torn.
    assert!(read.contains("5\r\ndata:\r\n3\r\n2\n\n\r\n"), "{read}");
    let [_, read] = passed(Some(Fault::Noise), Framing::Http, &post(ASK), JSON).await;
    assert!(
        read.ends_with("Content-Length: 10\r\n\r\n \r\n\t{} \r\n\t"),
        "{read:?}"
    );
    let [_, read] = passed(
        Some(Fault::Noise),
        Framing::Lines,
        &format!("{ASK}\n"),
        "{}\n",
    )
    .await;
    assert!(
        read.starts_with("no JSON\n\n") && read.ends_with("\n{}\n"),
        "{read}"
    );
    for (framing, asked) in [
        (Framing::Http, post(ASK)),
        (Framing::Lines, format!("{ASK}\n")),
    ] {
        let [_, read] = passed(Some(Fault::Garbage), framing, &asked, "{}\n").await;
        assert!(
            read.contains("<html>") && !read.contains("HTTP/1.1"),
            "{read:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_ends_by_itself() {
    for (framing, asked) in [
        (Framing::Http, post(ASK)),
        (Framing::Lines, format!("{ASK}\n")),
    ] {
        let faults = Faults::from(Fault::Flood(1 << 20));
        let ((mut client, far), (beyond, _server)) = (duplex(1 << 20), duplex(1 << 10));
        let spoiling = tokio::spawn(spoil(far, beyond, framing, faults));
        client.write_all(asked.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        spoiling.await.unwrap();
        let mebibytes = read.len() >> 20;
        assert!((60..=64).contains(&mebibytes), "{framing:?}: {mebibytes}");
    }
}

#[tokio::test]
async fn bodies_end_where_their_heads_say() {
    // a head and more, the body, what is left; a body that is no text where it is refused
    let table = [
        ("P / HTTP/1.1\r\n\r\nrest", Ok(""), "rest"),
        (
            "P / HTTP/1.1\r\ncontent-length:3\r\n\r\nabcrest",
            Ok("abc"),
            "rest",
        ),
        ("P / HTTP/1.1\nContent-Length: 0\n\nrest", Ok(""), "rest"),
        (
            "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nT: x\r\n\r\nrest",
            Ok("abcd"),
            "rest",
        ),
        (
            "P / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc",
            Err("hung up inside a body"),
            "",
        ),
        (
            "P / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            Err("no length"),
            "",
        ),
        (
            "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            Err("size of a chunk"),
            "",
        ),
        (
            "P / HTTP/1.1\r\nContent-Length: 9\r\n\r\n123456789",
            Err("more than 8"),
            "",
        ),
        ("P / HTTP/1.1\r\nno header\r\n\r\n", Err("no header"), ""),
        ("P / HTTP/1.1\r\nA: b\r\n", Err("hung up inside a head"), ""),
        ("P / HTTP/1.1\r\nA: b", Err("has not ended"), ""),
    ];
    for (bytes, wanted, left) in table {
        let mut io = bytes.as_bytes();
        let read = async {
            let head = Head::read(&mut io).await?.unwrap();
            head.body(Body::NONE)?.read(&mut io, 8).await
        };
        match (read.await, wanted) {
            (Ok(body), Ok(wanted)) => {
                assert_eq!(
                    (&*body, io),
                    (wanted.as_bytes(), left.as_bytes()),
                    "{bytes:?}"
                );
            }
            (Err(e), Err(wanted)) => assert!(e.to_string().contains(wanted), "{bytes:?}: {e}"),
            (read, _) => panic!("{bytes:?}: {read:?}"),
        }
    }
    assert!(
        Head::read(&mut &b""[..]).await.unwrap().is_none(),
        "nothing more"
    );
}
