//! Starts everything, disturbs it, watches it, and says at the end whether all is as it should be.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until, timeout};

use crate::dice::Dice;
use crate::own::Counts;
use crate::process::Process;
use crate::report::Setup;
use crate::vandal;
use crate::verdict::Findings;
use crate::watch::{children, cpu};

/// From the end of the run to the end of all processes; the longest waits of those are within it.
const PATIENCE: Duration = Duration::from_secs(150);

const SAMPLE: Duration = Duration::from_millis(500);
const LINE: Duration = Duration::from_secs(10);

/// All but the one that is killed are in one process.
const TOGETHER: [&str; 5] = ["battered", "flaky", "mounted", "replay", "steady"];

/// A port that stays ours while nobody listens on it: a connection that goes out cannot take it.
fn port() -> std::io::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let addr = socket.local_addr()?;
    Ok((socket, addr))
}

/// Whether everything was as it should be.
pub async fn run(length: Duration, setup: Setup) -> bool {
    // It ends by itself, whatever happens.
    let watched = timeout(length + 4 * PATIENCE, watched(length, setup)).await;
    match watched {
        Ok(Ok(kept)) => kept,
        Ok(Err(error)) => {
            println!("soak: FAILED, {error}");
            false
        }
        Err(_) => {
            println!("soak: FAILED, it does not end");
            false
        }
    }
}

async fn watched(length: Duration, setup: Setup) -> std::io::Result<bool> {
    let counts = Arc::new(Counts::default());
    let (mut ports, mut servers) = (Vec::new(), BTreeMap::new());
    for name in TOGETHER.into_iter().chain(["mortal"]) {
        let (socket, addr) = port()?;
        ports.push(socket);
        servers.insert(name.to_owned(), addr);
    }
    let setup = Setup { servers, ..setup };
    let (cut, battered) = (listen().await?, listen().await?);
    // Where clients see them.
    let mut seen = setup.clone();
    seen.servers.insert("replay".to_owned(), cut.local_addr()?);
    seen.servers
        .insert("battered".to_owned(), battered.local_addr()?);

    let mut run = Run::start(&setup, &seen, &counts).await?;
    let mut disturbing = JoinSet::new();
    let (servers, seed) = (&setup.servers, setup.seed);
    disturbing.spawn(vandal::cut(cut, servers["replay"], seed, counts.clone()));
    disturbing.spawn(vandal::batter(
        battered,
        servers["battered"],
        seed,
        counts.clone(),
    ));
    disturbing.spawn(vandal::stall(servers["steady"], counts.clone()));
    disturbing.spawn(vandal::vandalise(
        servers.values().copied().collect(),
        servers["steady"],
        seed,
        counts.clone(),
    ));
    disturbing.spawn(vandal::vandalise_stdio(seed, counts.clone()));

    println!(
        "soak: {} s, {} clients, {} calls/s, seed {seed}",
        length.as_secs(),
        setup.clients,
        setup.rate,
    );
    let mut findings = Findings::default();
    run.watch(length, &mut findings).await?;
    run.end(disturbing, findings).await
}

async fn listen() -> std::io::Result<TcpListener> {
    TcpListener::bind("127.0.0.1:0").await
}

/// A run and what is to happen next in it.
struct Run {
    counts: Arc<Counts>,
    dice: Dice,
    clients: Process,
    servers: Process,
    mortal: Process,
    mortal_setup: Setup,
    /// What those that were killed have used, in seconds of processor.
    killed_cpu: f64,
    start: Instant,
    next_restart: Instant,
    next_kill: Instant,
    /// When the killed one is started again.
    revive: Option<Instant>,
    next_child: Instant,
    /// A child that was stopped, and until when.
    stopped: Option<(Pid, Instant)>,
}

impl Run {
    async fn start(setup: &Setup, seen: &Setup, counts: &Arc<Counts>) -> std::io::Result<Self> {
        let only = |wanted: &[&str]| {
            let mut setup = setup.clone();
            setup
                .servers
                .retain(|name, _| wanted.contains(&name.as_str()));
            setup
        };
        let mortal_setup = only(&["mortal"]);
        let servers = Process::start("server", &only(&TOGETHER))?;
        let mortal = Process::start("server", &mortal_setup)?;
        for process in [&servers, &mortal] {
            let ready = timeout(PATIENCE, process.ready()).await;
            ready.map_err(std::io::Error::other)?;
        }
        let clients = Process::start("client", seen)?;
        let start = Instant::now();
        Ok(Self {
            counts: counts.clone(),
            dice: Dice::new(setup.seed, 0xfa17),
            clients,
            servers,
            mortal,
            mortal_setup,
            killed_cpu: 0.0,
            start,
            next_restart: start,
            next_kill: start,
            revive: None,
            next_child: start,
            stopped: None,
        })
    }

    /// Disturbs and watches for so long, or until a process ends that should not.
    async fn watch(&mut self, length: Duration, findings: &mut Findings) -> std::io::Result<()> {
        let mut samples = interval(SAMPLE);
        let mut lines = interval(LINE);
        Findings::heading();
        while self.start.elapsed() < length {
            let (revive, stopped) = (self.revive, self.stopped);
            tokio::select! {
                _ = samples.tick() => {
                    let children = children(self.clients.pid());
                    findings.sample(&self.clients.report(), &self.servers.report(), &children);
                    if self.clients.has_ended() || self.servers.has_ended() {
                        break; // told at the end
                    }
                }
                _ = lines.tick() => self.line(),
                () = sleep_until(self.next_restart) => self.restart().await,
                () = sleep_until(self.next_kill) => self.kill(findings).await?,
                () = sleep_until(revive.unwrap_or(self.start)), if revive.is_some() => {
                    self.revive()?;
                }
                () = sleep_until(self.next_child), if stopped.is_none() => self.disturb_child(),
                () = sleep_until(stopped.map_or(self.start, |(_, until)| until)),
                    if stopped.is_some() => self.resume_child(),
            }
        }
        self.resume_child();
        self.revive()?;
        self.line();
        Ok(())
    }

    fn line(&self) {
        let children = children(self.clients.pid()).len();
        Findings::line(
            self.start.elapsed(),
            &self.clients.report(),
            &self.servers.report(),
            &self.counts.report(),
            children,
        );
    }

    async fn restart(&mut self) {
        self.next_restart += Duration::from_millis(self.dice.between(1_000, 5_000));
        let how = match self.dice.percent(50) {
            true => "gentle",
            false => "hard",
        };
        self.servers.say(&format!("{how} flaky")).await;
        self.counts.add("restarts", 1);
    }

    async fn kill(&mut self, findings: &mut Findings) -> std::io::Result<()> {
        self.next_kill += Duration::from_millis(self.dice.between(3_000, 9_000));
        if self.revive.is_some() {
            return Ok(());
        }
        self.killed_cpu += self.mortal.cpu();
        findings.wrong.extend(self.mortal.report().wrong);
        self.mortal.child.kill().await?;
        self.counts.add("kills of a server", 1);
        let away = Duration::from_millis(self.dice.between(0, 500));
        self.revive = Some(Instant::now() + away);
        Ok(())
    }

    fn revive(&mut self) -> std::io::Result<()> {
        if self.revive.take().is_some() {
            self.mortal = Process::start("server", &self.mortal_setup)?;
        }
        Ok(())
    }

    fn disturb_child(&mut self) {
        self.next_child += Duration::from_millis(self.dice.between(500, 2_000));
        let children = children(self.clients.pid());
        let picked = self.dice.pick(&children);
        let Some(pid) = picked.and_then(|child| Pid::from_raw(child.pid)) else {
            return;
        };
        if self.dice.percent(70) {
            let _ = kill_process(pid, Signal::KILL); // it may just have ended
            self.counts.add("kills of a child", 1);
        } else if kill_process(pid, Signal::STOP).is_ok() {
            self.counts.add("stops of a child", 1);
            self.stopped = Some((pid, Instant::now() + Duration::from_millis(300)));
        }
    }

    fn resume_child(&mut self) {
        if let Some((pid, _)) = self.stopped.take() {
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    /// Lets everybody go, first the clients, and looks at what is left.
    async fn end(
        mut self,
        disturbing: JoinSet<()>,
        mut findings: Findings,
    ) -> std::io::Result<bool> {
        let mut spent = cpu(std::process::id()).as_secs_f64() + self.killed_cpu;
        let mut cores = Vec::new();
        for process in [&self.clients, &self.servers, &self.mortal] {
            spent += process.cpu();
            cores.push(process.cpu() / self.start.elapsed().as_secs_f64());
        }
        let all = spent / self.start.elapsed().as_secs_f64();
        println!(
            "\nprocessors: {all:.2} in all, clients {:.2}, servers {:.2}",
            cores[0], cores[1]
        );

        let until = Instant::now() + PATIENCE;
        let wrong = &mut findings.wrong;
        let clients = self.clients.end(until, wrong, "clients").await;
        drop(disturbing); // a tool that nobody reads may still run then, for as long as it may
        let servers = self.servers.end(until, wrong, "servers").await;
        let mortal = self.mortal.end(until, wrong, "server that is killed").await;
        wrong.extend(mortal.wrong);
        Ok(findings.verdict(&clients, &servers, &self.counts.report()))
    }
}
