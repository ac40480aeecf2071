use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::super::toy::{
    Client, UNASKED, echo, json, now, outbound, post, service, service_and_drops, source, streaming,
};
use super::*;
use crate::limits::Limits;
use crate::transport::OutboundBody;

/// Outer bound of what happens on real sockets.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a port of its own, and how to stop it.
struct Running {
    address: SocketAddr,
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

async fn start<E: Exchange>(service: HttpService<E>) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server::new(listener, service, Shutdown::new());
    Running {
        address: server.listener.local_addr().unwrap(),
        shutdown: server.shutdown.clone(),
        task: tokio::spawn(server.run()),
    }
}

async fn client(address: SocketAddr) -> Client<TcpStream> {
    let connecting = timeout(PATIENCE, TcpStream::connect(address)).await;
    Client::new(connecting.unwrap().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_are_served_at_once() {
    // Each answer waits for all requests to be there.
    let gate = Arc::new(tokio::sync::Barrier::new(20));
    struct Gated(Arc<tokio::sync::Barrier>);
    impl Exchange for Gated {
        async fn exchange(
            &self,
            inbound: super::super::super::Inbound,
        ) -> super::super::super::Outbound {
            self.0.wait().await;
            json(&String::from_utf8_lossy(&inbound.body))
        }
    }
    let access = super::super::toy::loopback();
    let service = HttpService::new(Gated(gate), Some("/mcp"), access, None, &Limits::default());
    let running = start(service).await;
    let calls: Vec<_> = (0..20)
        .map(|i| {
            tokio::spawn(async move {
                let mut client = client(running.address).await;
                for round in 0..5 {
                    let message = format!("\"{i}.{round}\"");
                    client.post(&message).await;
                    assert_eq!(client.answer().await.body, message);
                }
            })
        })
        .collect();
    for call in calls {
        timeout(PATIENCE, call).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_shutdown_with_an_open_stream_ends_within_its_bound() {
    let limits = Limits {
        shutdown_timeout: Duration::from_secs(1),
        ..Limits::default()
    };
    let (source, events, dropped) = source();
    let running = start(streaming(source, &limits)).await;
    let mut idle = client(running.address).await;
    idle.send("GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    idle.answer().await;
    let mut busy = client(running.address).await;
    busy.post("{}").await;
    busy.head().await;

    let started = now();
    running.shutdown.shut_down();
    assert_eq!(
        timeout(PATIENCE, idle.rest()).await.unwrap(),
        UNASKED,
        "an idle one is let go"
    );
    assert!(!running.task.is_finished());
    events.send(b"data: still here\n\n".to_vec()).unwrap();
    busy.until("still here").await;
    // What would listen next does not have to wait for that.
    let again = TcpListener::bind(running.address).await;
    assert!(again.is_ok(), "{again:?}");
    drop(again);
    assert!(TcpStream::connect(running.address).await.is_err());

    timeout(PATIENCE, running.task).await.unwrap().unwrap();
    let took = started.elapsed();
    assert!(
        took >= Duration::from_secs(1) && took < Duration::from_secs(5),
        "{took:?}"
    );
    assert!(
        timeout(PATIENCE, dropped).await.unwrap().is_err(),
        "the source is gone"
    );
    let rest = busy.rest().await;
    assert!(
        !rest.ends_with("0\r\n\r\n"),
        "a cut stream must not look complete: {rest:?}"
    );
}

#[tokio::test]
async fn a_shutdown_waits_for_what_ends_by_itself() {
    let (source, events, _dropped) = source();
    let running = start(streaming(source, &Limits::default())).await;
    let mut client = client(running.address).await;
    client.post("{}").await;
    client.head().await;
    running.shutdown.shut_down();
    assert!(TcpStream::connect(running.address).await.is_err() || !running.task.is_finished());
    events.send(b"data: last\n\n".to_vec()).unwrap();
    drop(events);
    let body = timeout(PATIENCE, client.rest()).await.unwrap();
    let body = body.strip_suffix(UNASKED).unwrap();
    assert!(body.ends_with("data: last\n\n\r\n0\r\n\r\n"), "{body:?}");
    timeout(PATIENCE, running.task).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_hear_that_they_have_to_end_and_can_still_say_so() {
    let (source, events, _dropped) = source();
    let (near, far) = tokio::io::duplex(1024);
    let server = Server::new(
        Script::of([Ok(far)]).0,
        streaming(source, &Limits::default()),
        Shutdown::new(),
    );
    let shutdown = server.shutdown.clone();
    let running = tokio::spawn(server.run());
    let mut client = Client::new(near).patient();
    client.post("{}").await;
    client.head().await;
    let begin = now();
    shutdown.shut_down();
    shutdown.reached(Stage::Ending).await;
    assert_eq!(begin.elapsed().as_secs(), 5);
    events.send(b"data: the server stops\n\n".to_vec()).unwrap();
    drop(events);
    let body = client.rest().await;
    let body = body.strip_suffix(UNASKED).unwrap();
    assert!(
        body.ends_with("data: the server stops\n\n\r\n0\r\n\r\n"),
        "{body:?}"
    );
    running.await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn told_twice_a_server_stops_at_once() {
    let (service, mut drops) = service_and_drops(&Limits::default(), |_| None);
    let running = start(service).await;
    let mut client = client(running.address).await;
    client.post("{}").await;
    assert!(
        timeout(Duration::from_millis(50), drops.recv())
            .await
            .is_err()
    );
    let started = now();
    running.shutdown.shut_down();
    running.shutdown.shut_down();
    timeout(PATIENCE, running.task).await.unwrap().unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(timeout(PATIENCE, drops.recv()).await, Ok(Some(())));
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn dropping_a_server_ends_its_connections() {
    let (service, mut drops) = service_and_drops(&Limits::default(), |_| None);
    let running = start(service).await;
    let mut client = client(running.address).await;
    client.post("{}").await;
    assert!(
        timeout(Duration::from_millis(50), drops.recv())
            .await
            .is_err()
    );
    running.task.abort();
    assert_eq!(timeout(PATIENCE, drops.recv()).await, Ok(Some(())));
    assert_eq!(timeout(PATIENCE, client.rest()).await.unwrap(), "");
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_connection_over_the_cap_is_told_so_and_costs_no_place() {
    let limits = Limits {
        max_connections: 2,
        ..Limits::default()
    };
    let (handed, listener) = mpsc::unbounded_channel();
    let (service, seen) = echo(&limits);
    tokio::spawn(Server::new(Handed(listener), service, Shutdown::new()).run());
    let connect = || {
        let (near, far) = tokio::io::duplex(1024);
        handed.send(far).unwrap();
        Client::new(near).patient()
    };
    let mut inside = [connect(), connect()];
    let mut held = Vec::new();
    for client in &mut inside {
        client.post("{}").await;
        assert_eq!(client.answer().await.status, 200);
    }
    // Whatever it asks for, and however it asks.
    let requests = [
        post("{}"),
        post("").replace("Content-Length: 0", "Content-Length: 1073741824"),
        "GET / HTTP/1.1\r\nHost: elsewhere\r\n\r\n".to_owned(),
    ];
    for request in &requests {
        let begin = now();
        let mut outside = connect();
        outside.send(request).await;
        let answer = outside.answer().await;
        assert_eq!(answer.status, 503, "{request}");
        assert_eq!(answer.header("retry-after"), Some("1"), "{request}");
        assert_eq!(answer.header("connection"), Some("close"), "{request}");
        assert!(answer.body.contains("-32603"), "{answer:?}");
        assert!(answer.body.contains("`max_connections`"), "{answer:?}");
        assert!(begin.elapsed() < Duration::from_millis(10), "{request}");
        outside.rest().await;
    }
    // Those that say nothing hold up others for a moment and no longer.
    held.extend((0..MAX_REFUSED).map(|_| connect()));
    let begin = now();
    let mut later = connect();
    later.post("{}").await;
    assert_eq!(later.answer().await.status, 503);
    assert_eq!(begin.elapsed().as_secs(), REFUSED_TIMEOUT.as_secs());
    for mut silent in held {
        assert_eq!(silent.rest().await, "");
    }
    assert_eq!(seen.lock().unwrap().len(), 2);
    // Who is in stays in, and a place that is left is taken.
    let [mut first, second] = inside;
    first.post("{}").await;
    assert_eq!(first.answer().await.status, 200);
    drop(second);
    tokio::task::yield_now().await;
    let mut third = connect();
    third.post("{}").await;
    assert_eq!(third.answer().await.status, 200);
}

#[tokio::test]
async fn a_client_over_tcp_reads_why_its_large_body_was_refused() {
    let limits = Limits {
        max_server_message_bytes: 1024 * 1024,
        ..Limits::default()
    };
    let (service, _) = echo(&limits);
    let running = start(service).await;
    for sent in [0, 100, 1024 * 1024] {
        let mut client = client(running.address).await;
        client
            .send(post("").replace("Content-Length: 0", "Content-Length: 1073741824"))
            .await;
        client.send(vec![b'x'; sent]).await;
        assert_eq!(client.answer().await.status, 413, "after {sent} bytes");
    }
}

#[tokio::test]
async fn a_disconnect_over_tcp_drops_the_source() {
    let (source, _events, dropped) = source();
    let running = start(streaming(source, &Limits::default())).await;
    let mut client = client(running.address).await;
    client.post("{}").await;
    client.head().await;
    drop(client);
    let told = timeout(Duration::from_secs(1), dropped).await;
    assert!(told.unwrap().is_err());
}

#[tokio::test]
async fn a_panic_on_one_connection_leaves_the_others_alone() {
    let service = service(&Limits::default(), |inbound| match &inbound.body[..] {
        b"panic" => panic!("as told"),
        _ => Some(outbound(OutboundBody::Empty)),
    });
    let running = start(service).await;
    let mut other = client(running.address).await;
    other.post("{}").await;
    other.answer().await;
    let mut client = client(running.address).await;
    client.post("panic").await;
    assert_eq!(timeout(PATIENCE, client.rest()).await.unwrap(), "");
    other.post("{}").await;
    assert_eq!(other.answer().await.status, 200);
}

/// Gives what the test puts in; then it waits.
struct Script {
    steps: VecDeque<io::Result<DuplexStream>>,
    accepts: mpsc::UnboundedSender<Instant>,
}

impl Script {
    fn of(
        steps: impl IntoIterator<Item = io::Result<DuplexStream>>,
    ) -> (Self, mpsc::UnboundedReceiver<Instant>) {
        let (accepts, tried) = mpsc::unbounded_channel();
        let steps = steps.into_iter().collect();
        (Self { steps, accepts }, tried)
    }
}

impl Listener for Script {
    type Io = DuplexStream;

    fn poll_accept(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<io::Result<(DuplexStream, Option<SocketAddr>)>> {
        match self.steps.pop_front() {
            Some(step) => {
                let _ = self.accepts.send(now());
                Poll::Ready(step.map(|io| (io, None)))
            }
            None => Poll::Pending,
        }
    }
}

/// Gives what it is handed.
struct Handed(mpsc::UnboundedReceiver<DuplexStream>);

impl Listener for Handed {
    type Io = DuplexStream;

    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(DuplexStream, Option<SocketAddr>)>> {
        match ready!(self.0.poll_recv(cx)) {
            Some(io) => Poll::Ready(Ok((io, None))),
            None => Poll::Pending,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_accept_that_fails_is_tried_again() {
    let (near, far) = tokio::io::duplex(1024);
    let (listener, mut tried) = Script::of([
        Err(io::ErrorKind::ConnectionAborted.into()),
        Err(io::Error::other("too many open files")),
        Err(io::Error::other("too many open files")),
        Ok(far),
    ]);
    let (service, _) = echo(&Limits::default());
    let begin = now();
    tokio::spawn(Server::new(listener, service, Shutdown::new()).run());
    for pauses in [0, 0, 1, 2] {
        let at = tried.recv().await.unwrap() - begin;
        let off = at.abs_diff(pauses * ACCEPT_PAUSE);
        assert!(
            off < Duration::from_millis(10),
            "{at:?} instead of {pauses} pauses"
        );
    }
    let mut client = Client::new(near).patient();
    client.post("{}").await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn ended_connections_are_not_kept() {
    let limits = Limits {
        // More than ever live at once, so that only a growing set would hit it.
        max_connections: 3,
        ..Limits::default()
    };
    let (handed, listener) = mpsc::unbounded_channel();
    let (service, seen) = echo(&limits);
    tokio::spawn(Server::new(Handed(listener), service, Shutdown::new()).run());
    for _ in 0..100 {
        let (near, far) = tokio::io::duplex(1024);
        handed.send(far).unwrap();
        let mut client = Client::new(near).patient();
        client.post("{}").await;
        client.answer().await;
    }
    assert_eq!(seen.lock().unwrap().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_goes_from_stage_to_stage_and_never_back() {
    let shutdown = Shutdown::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    for stage in [Stage::Draining, Stage::Ending, Stage::Over] {
        let (reached, log) = (shutdown.reached(stage), log.clone());
        tokio::spawn(async move {
            reached.await;
            log.lock().unwrap().push(stage);
        });
    }
    let so_far = async || {
        sleep(Duration::from_millis(1)).await;
        log.lock().unwrap().clone()
    };
    assert_eq!(so_far().await, []);
    shutdown.shut_down();
    assert_eq!(so_far().await, [Stage::Draining]);
    shutdown.raise_to(Stage::Ending);
    shutdown.raise_to(Stage::Draining);
    assert_eq!(so_far().await, [Stage::Draining, Stage::Ending]);
    shutdown.shut_down();
    assert_eq!(
        so_far().await,
        [Stage::Draining, Stage::Ending, Stage::Over]
    );
    shutdown.reached(Stage::Draining).await;
}

#[tokio::test]
async fn a_token_does_not_wait_for_the_one_before_it() {
    let mut listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (mut far, peer) = poll_fn(|cx| Listener::poll_accept(&mut listener, cx))
        .await
        .unwrap();
    assert!(far.nodelay().unwrap());
    assert_eq!(peer, near.local_addr().ok());
    far.write_all(b"x").await.unwrap();
    assert_eq!(near.read_u8().await.unwrap(), b'x');
}
