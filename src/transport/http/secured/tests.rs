use std::time::Duration;

use rcgen::generate_simple_self_signed;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use super::super::super::OutboundBody;
use super::super::super::tls::{RootCertificates, Trust};
use super::super::toy::{
    Client, echo, json, now, outbound, post, service, service_and_drops, source, streaming,
};
use super::*;
use crate::limits::Limits;
use crate::wire::chunk::Chunk;

/// One connection to a server that speaks TLS.
struct Near {
    io: DuplexStream,
    trust: Trust,
    shutdown: Shutdown,
    serving: JoinHandle<()>,
}

fn near<E: Exchange>(service: HttpService<E>, room: usize) -> Near {
    let certified = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (pem, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    let tls = ServerTls::from_pem(&pem, key).unwrap();
    let (io, far) = duplex(room);
    let shutdown = Shutdown::new();
    let told = shutdown.clone();
    Near {
        io,
        trust: Trust::only(&RootCertificates::from_pem(pem).unwrap()),
        shutdown,
        serving: tokio::spawn(async move { secured(far, &tls, service, &told).await }),
    }
}

impl Near {
    async fn agree(self) -> (Client<TlsStream<DuplexStream>>, Shutdown, JoinHandle<()>) {
        let agreed = self.trust.connect("localhost", 443, self.io).await;
        let client = Client::new(agreed.unwrap()).patient();
        (client, self.shutdown, self.serving)
    }
}

const ROOM: usize = 1024 * 1024;

#[tokio::test(start_paused = true)]
async fn requests_are_answered_one_after_the_other() {
    let (service, _) = echo(&Limits::default());
    let (mut client, ..) = near(service, ROOM).agree().await;
    let spoken = client.io.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    assert_eq!(spoken.as_deref(), Some(&b"http/1.1"[..]));
    for message in ["1", "2"] {
        client.post(message).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.body), (200, format!("[{message}]")));
    }
}

#[tokio::test(start_paused = true)]
async fn each_event_goes_out_at_once_and_the_end_is_said() {
    let (source, events, _dropped) = source();
    let (mut client, shutdown, serving) = near(streaming(source, &Limits::default()), ROOM)
        .agree()
        .await;
    client.post("{}").await;
    client.head().await;
    let begin = now();
    for event in ["data: a\n\n", "data: b\n\n"] {
        events.send(event.as_bytes().to_vec()).unwrap();
        client.until(event).await;
    }
    shutdown.shut_down();
    events.send(b"data: last\n\n".to_vec()).unwrap();
    client.until("data: last\n\n").await;
    drop(events);
    client.until("\r\n0\r\n\r\n").await;
    let mut rest = Vec::new();
    assert_eq!(begin.elapsed(), Duration::ZERO);
    // An end without `close_notify` would be an error. No further request comes, and none is lost.
    client.io.read_to_end(&mut rest).await.unwrap();
    assert!(rest.starts_with(b"HTTP/1.1 408 "), "{rest:?}");
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_agree_is_let_go_in_time() {
    let hello = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03";
    let (at_once, late) = (Duration::ZERO, Limits::default().tls_handshake_timeout);
    let clear = "HTTP/1.1 400 Bad Request\r\n";
    // case, what it says, when it is let go, how what it is told begins
    let table: [(&str, &[u8], Duration, &str); 7] = [
        ("says nothing", b"", late, ""),
        ("says one byte", b"\x16", late, ""),
        ("says half a hello", hello, late, ""),
        ("says no TLS", b"\x80\x2e\x01\x00\x02", at_once, "\x15"),
        (
            "breaks a hello",
            b"\x16\x03\x01\x00\x04\x01\x00\x00\x00",
            at_once,
            "\x15",
        ),
        ("begins to speak HTTP", b"PO", late, clear),
        ("speaks HTTP for ever", &[b'P'; 100_000], at_once, clear),
    ];
    for (case, says, when, told) in table {
        let (service, seen) = echo(&Limits::default());
        let Near {
            mut io, serving, ..
        } = near(service, ROOM);
        let begin = now();
        io.write_all(says).await.unwrap();
        let mut heard = Vec::new();
        io.read_to_end(&mut heard).await.unwrap();
        serving.await.unwrap();
        assert_eq!(begin.elapsed(), when, "{case}");
        let heard = String::from_utf8_lossy(&heard);
        assert!(heard.starts_with(told), "{case}: {heard:?}");
        assert_eq!(heard.is_empty(), told.is_empty(), "{case}: {heard:?}");
        assert!(seen.lock().unwrap().is_empty(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_in_the_clear_is_told_what_to_do() {
    let (service, seen) = echo(&Limits::default());
    let Near { io, serving, .. } = near(service, ROOM);
    let mut client = Client::new(io).patient();
    client.post("{}").await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(answer.body.contains("write https://"), "{}", answer.body);
    serde_json::from_str::<serde_json::Value>(&answer.body).unwrap();
    let begin = now();
    drop(client);
    serving.await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_clients_that_have_not_agreed() {
    let (service, _) = echo(&Limits::default());
    let Near {
        mut io,
        shutdown,
        serving,
        ..
    } = near(service, ROOM);
    io.write_all(b"\x16").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begin = now();
    shutdown.shut_down();
    serving.await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stalls_is_cut_off() {
    struct Endless;
    impl super::super::super::Source for Endless {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Chunk>> {
            Poll::Ready(Some(Chunk::once(vec![b'x'; 4096])))
        }

        fn is_end(&self) -> bool {
            false
        }
    }
    let endless = service(&Limits::default(), |_| {
        Some(outbound(OutboundBody::Stream(Box::new(Endless))))
    });
    let (mut client, _shutdown, serving) = near(endless, 4096).agree().await;
    client.post("{}").await;
    client.head().await;
    let begin = now();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(4 * 60)).await;
        assert!(!serving.is_finished(), "it reads, if slowly");
        let mut some = vec![0; 256 * 1024];
        client.io.read_exact(&mut some).await.unwrap();
    }
    let stalled: Instant = now();
    assert!(begin.elapsed() >= Duration::from_secs(12 * 60));
    serving.await.unwrap();
    assert_eq!(stalled.elapsed().as_secs(), 5 * 60);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_ends_what_it_asked_for() {
    for says_so in [true, false] {
        let (service, mut drops) = service_and_drops(&Limits::default(), |_| None);
        let (mut client, _shutdown, serving) = near(service, ROOM).agree().await;
        client.send(post("{}")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!serving.is_finished());
        let mut kept = None;
        if says_so {
            // The pipe stays open: only TLS says that it has ended.
            client.io.get_mut().1.send_close_notify();
            client.io.flush().await.unwrap();
            kept = Some(client);
        } else {
            drop(client);
        }
        assert_eq!(drops.recv().await, Some(()), "{says_so}");
        drop(kept);
        serving.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_in_time_and_with_a_word() {
    let limits = Limits::default();
    let idle = limits.idle_connection_timeout;
    let (mut client, _shutdown, serving) = near(service(&limits, |_| Some(json("1"))), ROOM)
        .agree()
        .await;
    client.post("{}").await;
    client.answer().await;
    let begin = now();
    let mut rest = Vec::new();
    // An end without `close_notify` would be an error.
    client.io.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
    assert_eq!(begin.elapsed(), idle);
    drop(client);
    serving.await.unwrap();
}
