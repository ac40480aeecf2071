//! Many servers at once, and what becomes of those that fail.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use agent_hub_kit::{
    AgentHubClient, Error, HubEvent, OnError, ServerChange, ServerState, ServerStatus, ToolRef,
};
use tokio::net::{TcpSocket, TcpStream};

use crate::connect::chain;
use crate::peer::{
    self, Answer, FIRST_LIST, Peer, json as json_answer, listed, polite, with_session,
};
use crate::{Seen, read, run};

/// An address that refuses connections, and that nobody else gets meanwhile.
struct Dead {
    url: String,
    _bound: TcpSocket,
}

impl Dead {
    fn new() -> Self {
        let bound = TcpSocket::new_v4().unwrap();
        bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self {
            url: format!("http://{}/mcp", bound.local_addr().unwrap()),
            _bound: bound,
        }
    }

    fn url(&self) -> String {
        self.url.clone()
    }
}

/// A listener whose backlog is full: a connect to it is neither accepted nor refused.
pub struct BlackHole {
    address: SocketAddr,
    _held: (tokio::net::TcpListener, Vec<TcpStream>),
}

impl BlackHole {
    async fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap()).await
    }

    pub async fn at(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let address = socket.local_addr().unwrap();
        let listener = socket.listen(1).unwrap();
        let mut held = Vec::new();
        let patience = Duration::from_millis(200);
        while let Ok(stream) = tokio::time::timeout(patience, TcpStream::connect(address)).await {
            held.push(stream.unwrap());
        }
        Self {
            address,
            _held: (listener, held),
        }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Frees the port.
    pub fn close(self) -> SocketAddr {
        self.address
    }
}

/// `name state` of each server.
fn states(hub: &AgentHubClient) -> Vec<String> {
    let line = |status: ServerStatus| format!("{} {:?}", status.name, status.state);
    hub.servers().into_iter().map(line).collect()
}

/// `server: tool tool` of each server.
fn tools(lists: &[(String, Vec<ToolRef>)]) -> Vec<String> {
    let names = |tools: &[ToolRef]| {
        let names: Vec<&str> = tools.iter().map(ToolRef::name).collect();
        names.join(" ")
    };
    let line = |(name, tools): &(String, Vec<ToolRef>)| format!("{name}: {}", names(tools));
    lists.iter().map(line).collect()
}

/// A peer that offers one tool.
async fn offering(tool: &'static str) -> Peer {
    Peer::start(move |request| match &*request.what() {
        "tools/list" => json_answer(&listed(&request.id(), &[tool])).into(),
        _ => polite(request),
    })
    .await
}

fn connected(seen: &Seen) -> usize {
    let is = |event: &HubEvent| matches!(event, HubEvent::Server { change, .. } if *change == ServerChange::Connected);
    seen.all().iter().filter(|event| is(event)).count()
}

#[test]
fn a_hundred_servers_connect_in_parallel_and_the_healthy_ones_do_not_wait() {
    run(async || {
        let timeout = Duration::from_secs(2);
        let (hole, mut endpoints) = (BlackHole::start().await, Vec::new());
        let (mut peers, mut dead) = (Vec::new(), Vec::new());
        for n in 0..100 {
            let url = match n {
                50 => hole.url(),
                _ if n % 10 == 3 => {
                    dead.push(Dead::new());
                    dead.last().unwrap().url()
                }
                _ => {
                    peers.push(Peer::polite().await);
                    peers.last().unwrap().url()
                }
            };
            endpoints.push((format!("s{n}"), url));
        }
        let seen = Seen::default();
        let hub = seen.hub();
        let connecting = hub
            .connect_all_http(endpoints.clone())
            .connect_timeout(timeout)
            .on_error(OnError::Skip);
        let started = Instant::now();
        let connecting = tokio::spawn(connecting.into_future());
        while connected(&seen) < 89 {
            assert!(!connecting.is_finished(), "not all healthy ones connected");
            tokio::task::yield_now().await;
        }
        assert_eq!(hub.call_tool("s99/echo", ()).await.unwrap(), "done");
        assert!(!connecting.is_finished(), "the black hole answered");
        let lists = connecting.await.unwrap().unwrap();
        assert!(started.elapsed() < timeout * 2, "{:?}", started.elapsed());
        let names: Vec<&str> = lists.iter().map(|(name, _)| name.as_str()).collect();
        let given: Vec<&str> = endpoints.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, given);
        for (n, (status, (_, tools))) in hub.servers().iter().zip(&lists).enumerate() {
            let fails = n == 50 || n % 10 == 3;
            let (state, count) = match fails {
                true => (ServerState::Failed, 0),
                false => (ServerState::Connected, 2),
            };
            assert_eq!(&*status.name, given[n]);
            assert_eq!(
                (status.state, status.tools, tools.len()),
                (state, count, count)
            );
            assert_eq!(status.last_error.is_some(), fails, "{status:?}");
        }
        let late = hub.servers()[50].last_error.clone().unwrap();
        assert!(chain(&late)[1].contains("connect_timeout"), "{late:?}");
        hub.close().await;
        assert!(hub.servers().is_empty());
    });
}

#[test]
fn the_order_is_that_of_the_iterator_also_with_a_slow_first_server() {
    run(async || {
        let slow = Peer::start(|request| match &*request.what() {
            "initialize" => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let quick = Peer::polite().await;
        let seen = Seen::default();
        let hub = seen.hub();
        let connecting =
            hub.connect_all_http([("b", slow.url()), ("a", quick.url()), ("0", quick.url())]);
        let connecting = tokio::spawn(connecting.into_future());
        let (initialize, mut wire) = slow.handed().await;
        while connected(&seen) < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(states(&hub), ["b Connecting", "a Connected", "0 Connected"]);
        wire.write(with_session("s", &peer::initialized(&initialize)))
            .await;
        slow.resume(wire);
        let lists = connecting.await.unwrap().unwrap();
        assert_eq!(
            tools(&lists),
            ["b: echo stream", "a: echo stream", "0: echo stream"]
        );
        assert_eq!(states(&hub), ["b Connected", "a Connected", "0 Connected"]);
        let found: Vec<String> = hub
            .find_tools("echo")
            .iter()
            .map(|t| t.qualified_name())
            .collect();
        assert_eq!(found, ["b/echo", "a/echo", "0/echo"]);
        let ambiguous = hub.call_tool("echo", ()).await.unwrap_err();
        let Error::AmbiguousTool { candidates, .. } = &ambiguous else {
            panic!("{ambiguous:?}")
        };
        assert_eq!(&candidates[..], ["b/echo", "a/echo", "0/echo"]);
        assert_eq!(hub.call_tool("0/echo", ()).await.unwrap(), "done");
        assert_eq!(hub.call_tool("echo", ()).server("b").await.unwrap(), "done");
        let warnings = seen.warnings();
        assert!(warnings.last().unwrap().contains("a/echo"), "{warnings:?}");
    });
}

#[test]
fn two_servers_with_the_same_tool_are_told_whichever_comes_first() {
    run(async || {
        for names in [["x", "y"], ["y", "x"]] {
            let peers = [offering("search").await, offering("search").await];
            let seen = Seen::default();
            let hub = seen.hub();
            hub.connect_all_http(
                names
                    .iter()
                    .zip(&peers)
                    .map(|(name, peer)| (*name, peer.url())),
            )
            .await
            .unwrap();
            let warnings = seen.warnings();
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            for name in names {
                assert!(
                    warnings[0].contains(&format!("{name}/search")),
                    "{warnings:?}"
                );
            }
            assert_eq!(hub.find_tool("search").unwrap().server(), names[0]);
            let said = hub.diagnose_tool("search");
            let both = format!("{0}/search, {1}/search", names[0], names[1]);
            assert!(said.contains(&both), "{said}");
        }
    });
}

#[test]
fn with_raise_every_failure_is_told_and_those_that_opened_are_closed() {
    run(async || {
        let dead = Dead::new();
        let (good, other) = (Peer::polite().await, Peer::polite().await);
        let broken = Peer::start(|_| peer::empty("503 Service Unavailable").into()).await;
        let seen = Seen::default();
        let hub = seen.hub();
        other.connect(&hub, "other").await;
        let failed = hub
            .connect_all_http([
                ("refused", dead.url()),
                ("good", good.url()),
                ("broken", broken.url()),
                ("no host", "http://no-such-host.invalid/mcp".to_owned()),
                ("bad", "nonsense".to_owned()),
                ("other", good.url()),
            ])
            .await
            .unwrap_err();
        let Error::ConnectMany { failures, .. } = &failed else {
            panic!("{failed:?}")
        };
        let names: Vec<&str> = failures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["refused", "broken", "no host", "bad", "other"]);
        assert!(failed.to_string().contains("refused, broken"), "{failed}");
        for (name, error) in failures.iter() {
            let config = matches!(error, Error::Config { .. });
            assert_eq!(
                config,
                ["bad", "other"].contains(&name.as_str()),
                "{error:?}"
            );
        }
        assert_eq!(states(&hub), ["other Connected"]);
        assert_eq!(good.seen_of("DELETE").len(), 1, "the session is given up");
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        let ends = |event: &HubEvent| matches!(event, HubEvent::Server { server, change, .. } if &**server == "good" && *change == ServerChange::Disconnected);
        assert_eq!(seen.all().iter().filter(|event| ends(event)).count(), 1);
        // Every name is free again.
        good.connect(&hub, "good").await;
        good.connect(&hub, "refused").await;
    });
}

#[test]
fn with_skip_or_warn_the_others_are_usable_and_the_reasons_can_be_asked_for() {
    run(async || {
        for on_error in [OnError::Skip, OnError::Warn] {
            let good = Peer::polite().await;
            let dead = Dead::new();
            let gone = dead.url();
            let seen = Seen::default();
            let hub = seen.hub();
            let lists = hub
                .connect_all_http([
                    ("refused", gone.clone()),
                    ("no host", "http://no-such-host.invalid/mcp".to_owned()),
                    ("bad", "https://user:s3cret@x/?key=s3cret".to_owned()),
                    ("good", good.url()),
                ])
                .on_error(on_error)
                .await
                .unwrap();
            let expected = ["refused: ", "no host: ", "bad: ", "good: echo stream"];
            assert_eq!(tools(&lists), expected);
            assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
            let expected = [
                "refused Failed",
                "no host Failed",
                "bad Failed",
                "good Connected",
            ];
            assert_eq!(states(&hub), expected);
            let servers = hub.servers();
            assert_eq!(&*servers[0].target, gone);
            let why = chain(servers[0].last_error.as_ref().unwrap());
            assert!(why.last().unwrap().contains("refused"), "{why:?}");
            assert!(!format!("{servers:?}").contains("s3cret"), "{servers:?}");
            assert_eq!(servers[3].protocol_version, Some("2025-11-25"));
            assert!(servers[3].last_error.is_none() && servers[0].protocol_version.is_none());
            let warned: Vec<String> = seen.warnings();
            let count = if on_error == OnError::Warn { 3 } else { 0 };
            assert_eq!(warned.len(), count, "{warned:?}");
            if let Some(warning) = warned.iter().find(|text| text.starts_with("refused: ")) {
                assert!(warning.contains(&gone), "{warning}");
            }
            // Nobody has a tool of a server that failed; the reason is told.
            let unknown = hub
                .call_tool("refused/x", ())
                .await
                .unwrap_err()
                .to_string();
            assert!(
                unknown.contains("the server `refused` is down"),
                "{unknown}"
            );
            // It is not in use: it can be connected, in its place, and forgotten.
            good.connect(&hub, "no host").await;
            hub.disconnect("bad").await.unwrap();
            let expected = ["refused Failed", "no host Connected", "good Connected"];
            assert_eq!(states(&hub), expected);
        }
    });
}

#[test]
fn one_connect_can_skip_or_warn_too() {
    run(async || {
        let dead = Dead::new();
        let seen = Seen::default();
        let hub = seen.hub();
        let skipped = hub.connect_http("a", dead.url()).on_error(OnError::Skip);
        assert!(skipped.await.unwrap().is_empty());
        assert_eq!(seen.warnings(), [""; 0]);
        let warned = hub.connect_http("b", dead.url()).on_error(OnError::Warn);
        assert!(warned.await.unwrap().is_empty());
        let warnings = seen.warnings();
        assert!(
            warnings.len() == 1
                && warnings[0].starts_with("b: ")
                && warnings[0].contains("refused"),
            "{warnings:?}"
        );
        hub.connect_http("c", dead.url()).await.unwrap_err();
        assert_eq!(states(&hub), ["a Failed", "b Failed"]);
        // A later failure that is raised leaves the place as it was, with the newer reason.
        hub.connect_http("a", "nonsense").await.unwrap_err();
        assert_eq!(states(&hub), ["a Failed", "b Failed"]);
        let why = hub.servers()[0].last_error.clone().unwrap();
        assert!(matches!(why, Error::Config { .. }), "{why:?}");
    });
}

#[test]
fn with_no_observer_a_warning_is_one_line_on_standard_error() {
    const INSIDE: &str = "AGENT_HUB_KIT_WARNS";
    let name = "many::with_no_observer_a_warning_is_one_line_on_standard_error";
    if std::env::var_os(INSIDE).is_none() {
        let ended = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.success(), "{said}");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 2, "one on each kind of runtime: {said}");
        for line in lines {
            assert!(line.contains("`p`") && line.contains("refused"), "{said}");
        }
        return;
    }
    run(async || {
        let dead = Dead::new();
        let hub = AgentHubClient::builder().build();
        let skipped = hub
            .connect_http("skipped", dead.url())
            .on_error(OnError::Skip);
        skipped.await.unwrap();
        let warned = hub.connect_http("p", dead.url()).on_error(OnError::Warn);
        warned.await.unwrap();
    });
}

#[test]
fn what_is_wrong_on_this_side_is_an_error_whatever_is_to_be_skipped() {
    run(async || {
        let peer = Peer::polite().await;
        let hub = AgentHubClient::builder().build();
        let url = peer.url();
        let endpoints = |names: &[&str]| -> Vec<(String, String)> {
            let pair = |name: &&str| ((*name).to_owned(), url.clone());
            names.iter().map(pair).collect()
        };
        let table = [
            (
                "a name twice",
                hub.connect_all_http(endpoints(&["a", "b", "a"])),
            ),
            ("no name", hub.connect_all_http(endpoints(&["a", ""]))),
            (
                "a bad header",
                hub.connect_all_http(endpoints(&["a"])).header("a b", "c"),
            ),
            (
                "a header that is ours",
                hub.connect_all_http(endpoints(&["a"]))
                    .header("Content-Length", "1"),
            ),
        ];
        for (case, connect) in table {
            let refused = connect.on_error(OnError::Skip).await.unwrap_err();
            assert!(
                matches!(refused, Error::Config { .. }),
                "{case}: {refused:?}"
            );
        }
        assert!(peer.seen().is_empty() && hub.servers().is_empty());
        let none: [(&str, &str); 0] = [];
        assert!(hub.connect_all_http(none).await.unwrap().is_empty());
        hub.close().await;
        let closed = hub.connect_all_http(endpoints(&["a"])).await.unwrap_err();
        assert!(
            matches!(closed, Error::Closed { what: "hub", .. }),
            "{closed:?}"
        );
    });
}

#[test]
fn many_connects_that_are_dropped_leave_nothing() {
    run(async || {
        let silent = Peer::start(|_| Answer::Hand).await;
        let peer = Peer::polite().await;
        let seen = Seen::default();
        let hub = seen.hub();
        let mut connecting = hub
            .connect_all_http([("silent", silent.url()), ("p", peer.url())])
            .into_future();
        while connected(&seen) < 1 {
            let polled = tokio::time::timeout(Duration::from_millis(1), &mut connecting).await;
            assert!(polled.is_err());
        }
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        drop(connecting);
        assert!(hub.servers().is_empty());
        peer.connect(&hub, "p").await;
        peer.connect(&hub, "silent").await;
    });
}

#[test]
fn headers_and_tokens_go_to_each_of_many() {
    run(async || {
        let peers = [Peer::polite().await, Peer::polite().await];
        let hub = AgentHubClient::builder().build();
        let connect = hub
            .connect_all_http(
                peers
                    .iter()
                    .zip(["a", "b"])
                    .map(|(peer, name)| (name, peer.url())),
            )
            .header("X-Team", "red")
            .bearer_token("t0ken-t0ken");
        assert_eq!(
            format!("{connect:?}"),
            r#"ConnectAllHttp { names: ["a", "b"], .. }"#
        );
        connect.await.unwrap();
        for request in peers.iter().flat_map(Peer::seen) {
            assert_eq!(request.header("x-team"), Some("red"));
            assert_eq!(request.header("authorization"), Some("Bearer t0ken-t0ken"));
        }
    });
}

#[test]
fn a_probe_finds_out_soon_that_nobody_answers() {
    run(async || {
        let hole = BlackHole::start().await;
        let hub = AgentHubClient::builder().build();
        let started = Instant::now();
        let failed = hub
            .connect_http("hole", hole.url())
            .probe_timeout(Duration::from_millis(100))
            .await
            .unwrap_err();
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{:?}",
            started.elapsed()
        );
        let texts = chain(&failed);
        assert!(texts[0].contains("`hole`"), "{texts:?}");
        assert!(texts[1].contains(&hole.address.to_string()), "{texts:?}");
        assert!(texts[2].contains("probe_timeout"), "{texts:?}");
        assert!(failed.is_retryable());
        // It takes its time from that of the connect.
        let late = hub
            .connect_http("hole", hole.url())
            .connect_timeout(Duration::from_millis(50))
            .probe_timeout(Duration::from_secs(60))
            .await
            .unwrap_err();
        assert!(chain(&late)[1].contains("connect_timeout"), "{late:?}");
    });
}

#[test]
fn a_probe_tries_every_address_and_lets_a_healthy_server_through() {
    run(async || {
        let dead = Dead::new();
        let peer = Peer::polite().await;
        let hub = AgentHubClient::builder().build();
        // `localhost` has two addresses, and each peer listens on one.
        let six = Peer::start_at("[::1]:0".parse().unwrap(), polite).await;
        for (name, host, peer) in [
            ("a", "127.0.0.1", &peer),
            ("b", "localhost", &peer),
            ("6", "localhost", &six),
            ("[6]", "[::1]", &six),
        ] {
            let tools = hub
                .connect_http(name, format!("http://{host}:{}/mcp", peer.address.port()))
                .probe_timeout(Duration::from_secs(5))
                .await
                .unwrap();
            assert_eq!(tools.len(), 2, "{host}");
        }
        let refused = hub
            .connect_all_http([("c", dead.url())])
            .probe_timeout(Duration::from_secs(5))
            .await
            .unwrap_err();
        let texts = chain(&refused);
        assert!(texts.last().unwrap().contains("refused"), "{texts:?}");
    });
}

#[test]
fn a_replacement_is_ready_before_the_old_connection_goes() {
    run(async || {
        let old = Peer::calls(|_| Answer::Hand).await;
        let new = Peer::start(|request| match &*request.what() {
            "tools/list" => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let last = offering("other").await;
        let seen = Seen::default();
        let hub = seen.hub();
        old.connect(&hub, "p").await;
        last.connect(&hub, "last").await;
        let mut running = hub.call_tool_stream("echo", ());
        let waits = tokio::time::timeout(Duration::from_millis(1), running.next()).await;
        assert!(waits.is_err());
        let (_, call) = old.handed().await;

        let replacing = hub.connect_http("p", new.url()).replace(true);
        let replacing = tokio::spawn(replacing.into_future());
        let (list, mut wire) = new.handed().await;
        assert_eq!(states(&hub), ["p Connected", "last Connected"]);
        assert!(
            hub.find_tool("echo").is_some(),
            "the old one is there until then"
        );
        assert!(old.seen_of("DELETE").is_empty());
        let busy = hub.reconnect_http("p", new.url()).await.unwrap_err();
        assert!(matches!(busy, Error::Config { .. }), "{busy:?}");
        wire.write(json_answer(&listed(&list.id(), &["fresh"])))
            .await;
        new.resume(wire);
        let tools = replacing.await.unwrap().unwrap();
        assert_eq!(tools[0].qualified_name(), "p/fresh");

        let events = read(&mut running).await;
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].kind.as_str(), "terminal_error", "{events:?}");
        drop(call);
        assert_eq!(
            old.seen_of("DELETE").len(),
            1,
            "the old session is given up"
        );
        assert_eq!(old.seen_of("notifications/cancelled").len(), 1);
        assert_eq!(
            states(&hub),
            ["p Connected", "last Connected"],
            "the place is kept"
        );
        assert!(hub.find_tool("echo").is_none());
        assert_eq!(hub.call_tool("fresh", ()).await.unwrap(), "done");
        let changes: Vec<ServerChange> = seen
            .all()
            .iter()
            .filter_map(|event| match event {
                HubEvent::Server { server, change, .. } if &**server == "p" => Some(*change),
                _ => None,
            })
            .collect();
        assert_eq!(changes, [ServerChange::Connected, ServerChange::Replaced]);
    });
}

#[test]
fn a_replacement_that_fails_or_is_dropped_leaves_the_old_connection() {
    run(async || {
        let dead = Dead::new();
        let (old, silent) = (Peer::polite().await, Peer::start(|_| Answer::Hand).await);
        let hub = old.hub().await;
        for on_error in [OnError::Raise, OnError::Skip, OnError::Warn] {
            let failed = hub.reconnect_http("p", dead.url()).on_error(on_error).await;
            assert_eq!(failed.is_err(), on_error == OnError::Raise, "{failed:?}");
            assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
            let status = &hub.servers()[0];
            assert_eq!(status.state, ServerState::Connected);
            assert_eq!(&*status.target, old.url(), "what it is connected to");
            assert!(status.last_error.is_some(), "{status:?}");
        }
        let mut replacing = hub.reconnect_http("p", silent.url()).into_future();
        tokio::select! {
            biased;
            replaced = &mut replacing => panic!("{replaced:?}"),
            (_, mut wire) = silent.handed() => {
                drop(replacing);
                wire.hung_up().await;
            }
        }
        assert_eq!(hub.call_tool("echo", ()).await.unwrap(), "done");
        assert!(old.seen_of("DELETE").is_empty());
        hub.reconnect_http("p", old.url()).await.unwrap();
        assert!(hub.servers()[0].last_error.is_none());
        assert_eq!(old.seen_of("DELETE").len(), 1);
    });
}

#[test]
fn reconnecting_keeps_the_place_and_connects_an_unknown_name() {
    run(async || {
        let (one, two) = (Peer::polite().await, Peer::polite().await);
        let hub = AgentHubClient::builder().build();
        one.connect(&hub, "one").await;
        two.connect(&hub, "two").await;
        let tools = hub
            .reconnect_http("one", two.url())
            .header("X-Again", "yes")
            .await
            .unwrap();
        assert_eq!(tools.len(), 2);
        hub.reconnect_http("three", one.url()).await.unwrap();
        assert_eq!(
            states(&hub),
            ["one Connected", "two Connected", "three Connected"]
        );
        assert_eq!(hub.find_tool("echo").unwrap().server(), "one");
        hub.call_tool("one/echo", ()).await.unwrap();
        let call = two.seen_of("tools/call").pop().unwrap();
        assert_eq!(call.header("x-again"), Some("yes"));
        assert_eq!(
            one.seen_of("DELETE").len(),
            1,
            "one a session that is given up"
        );
    });
}

#[test]
fn a_server_can_be_disconnected_while_it_is_being_connected() {
    run(async || {
        let slow = Peer::start(|request| match &*request.what() {
            "tools/list" => Answer::Hand,
            _ => polite(request),
        })
        .await;
        let quick = Peer::polite().await;
        let hub = AgentHubClient::builder().build();
        let connecting = tokio::spawn(hub.connect_http("p", slow.url()).into_future());
        let (list, mut wire) = slow.handed().await;
        hub.disconnect("p").await.unwrap();
        let unknown = hub.disconnect("p").await.unwrap_err();
        assert!(
            matches!(unknown, Error::UnknownServer { .. }),
            "{unknown:?}"
        );
        quick.connect(&hub, "p").await;
        wire.write(json_answer(&listed(&list.id(), &["late"])))
            .await;
        slow.resume(wire);
        let late = connecting.await.unwrap().unwrap_err();
        assert!(matches!(late, Error::Closed { .. }), "{late:?}");
        assert!(hub.find_tool("late").is_none() && hub.find_tool("echo").is_some());
        assert_eq!(slow.seen_of("DELETE").len(), 1);
    });
}

#[test]
fn the_tools_of_one_server_are_listed_again_and_fail_alone() {
    run(async || {
        let (good, other) = (Peer::polite().await, Peer::polite().await);
        let seen = Seen::default();
        let hub = seen.hub();
        good.connect(&hub, "good").await;
        let bad = Peer::start(|request| match &*request.what() {
            "tools/list" if request.id() != FIRST_LIST => {
                peer::answer("500 Oops", "", "broken").into()
            }
            _ => polite(request),
        })
        .await;
        bad.connect(&hub, "bad").await;
        other.connect(&hub, "other").await;
        let tools = hub.list_tools_from("good").await.unwrap();
        assert_eq!(tools.len(), 2);
        assert_eq!(other.seen_of("tools/list").len(), 1, "nobody else is asked");
        let failed = hub.list_tools_from("bad").await.unwrap_err();
        assert!(
            matches!(failed, Error::Http { status: 500, .. }),
            "{failed:?}"
        );
        assert_eq!(failed.server(), Some("bad"));
        assert_eq!(hub.find_tools("echo").len(), 3, "it keeps the list it had");
        let status = &hub.servers()[1];
        assert!(status.last_error.is_some() && status.state == ServerState::Connected);
        let unknown = hub.list_tools_from("nobody").await.unwrap_err();
        assert!(
            matches!(unknown, Error::UnknownServer { .. }),
            "{unknown:?}"
        );
    });
}

#[test]
fn a_diagnosis_says_what_a_name_means_or_why_it_means_nothing() {
    run(async || {
        let dead = Dead::new();
        let hub = AgentHubClient::builder().build();
        let said = hub.diagnose_tool("echo");
        assert!(said.contains("no server is connected"), "{said}");
        let (one, two) = (Peer::polite().await, offering("echo").await);
        let silent = Peer::start(|_| Answer::Hand).await;
        one.connect(&hub, "one").await;
        two.connect(&hub, "two").await;
        hub.connect_http("down", dead.url())
            .on_error(OnError::Skip)
            .await
            .unwrap();
        let connecting = tokio::spawn(hub.connect_http("slow", silent.url()).into_future());
        let _held = silent.handed().await;
        // name, what is said of it
        let table: [(&str, &[&str]); 8] = [
            ("stream", &["`stream` is the tool one/stream"]),
            ("two/echo", &["`two/echo` is the tool two/echo"]),
            ("echo", &["several servers offer", "one/echo, two/echo"]),
            (
                "steam",
                &["did you mean one/stream?", "`down` is down", "refused"],
            ),
            ("one/steam", &["did you mean one/stream?"]),
            ("down/echo", &["the server `down` is down", "refused"]),
            ("slow/echo", &["the server `slow` is still being connected"]),
            ("tow/echo", &["no server `tow`", "two/echo"]),
        ];
        for (name, parts) in table {
            let said = hub.diagnose_tool(name);
            for part in parts {
                assert!(said.contains(part), "{name}: {said}");
            }
            if let Err(failed) = hub.call_tool(name, ()).await {
                assert_eq!(failed.to_string(), said, "the error says the same");
            }
        }
        connecting.abort();
        hub.close().await;
        assert!(hub.diagnose_tool("echo").contains("closed"));
    });
}
