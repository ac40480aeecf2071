//! Starts everything, disturbs it, watches it, and says at the end whether all is as it should be.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};

use crate::dice::Dice;
use crate::own::Counts;
use crate::report::{Report, Setup};
use crate::vandal;
use crate::watch::{Rule, children, cpu};

/// From the end of the run to the end of all processes; the longest waits of those are within it.
const PATIENCE: Duration = Duration::from_secs(150);

/// A process of the run, and what it said last.
struct Process {
    child: Child,
    input: ChildStdin,
    last: Arc<Mutex<Report>>,
}

impl Process {
    fn start(mode: &str, setup: &Setup) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(mode)
            .arg(serde_json::to_string(setup)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || std::io::Error::other("no pipe");
        let input = child.stdin.take().ok_or_else(missing)?;
        let mut output = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        let last = Arc::new(Mutex::new(Report::default()));
        let told = last.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                if let Ok(report) = serde_json::from_str(&line) {
                    *told.lock().unwrap() = report;
                }
            }
        });
        Ok(Self { child, input, last })
    }

    async fn say(&mut self, line: &str) {
        let _ = self.input.write_all(format!("{line}\n").as_bytes()).await;
    }

    fn report(&self) -> Report {
        self.last.lock().unwrap().clone()
    }

    fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Tells it to end and waits until it did.
    async fn end(&mut self, until: Instant, wrong: &mut Vec<String>, name: &str) -> Report {
        self.say("stop").await;
        match tokio::time::timeout_at(until, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(status) => wrong.push(format!("the {name} ended by {status:?}")),
            Err(_) => wrong.push(format!("the {name} does not end")),
        }
        for _ in 0..100 {
            if self.report().count("over") > 0 {
                break;
            }
            sleep(Duration::from_millis(10)).await; // until its last line was read
        }
        self.report()
    }
}

/// A port that stays ours while nobody listens on it: a connection that goes out cannot take it.
fn port() -> std::io::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let addr = socket.local_addr()?;
    Ok((socket, addr))
}

/// What is watched for growth, a row of samples each.
const RULES: [Rule; 6] = [
    Rule {
        what: "clients' RSS, KiB",
        constant: 12 << 10,
    },
    Rule {
        what: "servers' RSS, KiB",
        constant: 12 << 10,
    },
    Rule {
        what: "clients' descriptors",
        constant: 150,
    },
    Rule {
        what: "servers' descriptors",
        constant: 150,
    },
    Rule {
        what: "clients' tasks",
        constant: 150,
    },
    Rule {
        what: "servers' tasks",
        constant: 150,
    },
];

const SAMPLE: Duration = Duration::from_millis(500);

/// Whether everything was as it should be.
pub async fn run(length: Duration, setup: Setup) -> bool {
    match watched(length, setup).await {
        Ok(wrong) => wrong.is_empty(),
        Err(error) => {
            println!("soak: could not run: {error}");
            false
        }
    }
}

async fn watched(length: Duration, mut setup: Setup) -> std::io::Result<Vec<String>> {
    let counts = Arc::new(Counts::default());
    let mut ports = Vec::new();
    let mut addrs = BTreeMap::new();
    for name in ["flaky", "mortal", "replay", "steady"] {
        let (socket, addr) = port()?;
        ports.push(socket);
        addrs.insert(name.to_owned(), addr);
    }
    let only = |names: &[&str]| {
        let mut only = setup.clone();
        only.servers = addrs.clone();
        only.servers.retain(|name, _| names.contains(&&**name));
        only
    };
    let mortal_setup = only(&["mortal"]);
    let mut servers = Process::start("server", &only(&["flaky", "replay", "steady"]))?;
    let mut mortal = Process::start("server", &mortal_setup)?;
    for process in [&servers, &mortal] {
        let said = async {
            while process.report().rss_kib == 0 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, said)
            .await
            .map_err(std::io::Error::other)?;
    }
    let idle = servers.report();

    let proxy = TcpListener::bind("127.0.0.1:0").await?;
    setup.servers = addrs.clone();
    setup
        .servers
        .insert("replay".to_owned(), proxy.local_addr()?);
    let seed = setup.seed;
    let disturbing = [
        tokio::spawn(vandal::cut(proxy, addrs["replay"], seed, counts.clone())),
        tokio::spawn(vandal::vandalise(
            addrs.values().copied().collect(),
            addrs["steady"],
            seed,
            counts.clone(),
        )),
        tokio::spawn(vandal::vandalise_stdio(seed, counts.clone())),
    ];
    let mut clients = Process::start("client", &setup)?;

    println!(
        "soak: {} s, {} clients, {} calls/s, seed {seed}",
        length.as_secs(),
        setup.clients,
        setup.rate
    );
    heading();
    let start = Instant::now();
    let mut samples = RULES.map(|_| Vec::new());
    let mut wrong = Vec::new();
    let mut dice = Dice::new(seed, 0xfa17);
    let mut ticks = interval(SAMPLE);
    let mut lines = interval(Duration::from_secs(10));
    lines.tick().await;
    let (mut next_restart, mut next_kill, mut next_child) = (start, start, start);
    let mut revive = None;
    let mut stopped: Option<(Pid, Instant)> = None;
    let mut mortal_cpu = Duration::ZERO;
    while start.elapsed() < length {
        tokio::select! {
            _ = lines.tick() => line(start.elapsed(), &clients, &servers, &counts),
            _ = ticks.tick() => {
                let (ours, theirs) = (clients.report(), servers.report());
                let figures = [ours.rss_kib, theirs.rss_kib, ours.fds, theirs.fds, ours.tasks, theirs.tasks];
                for (row, figure) in samples.iter_mut().zip(figures) {
                    row.push(figure);
                }
                if clients.child.try_wait()?.is_some() || servers.child.try_wait()?.is_some() {
                    break; // told below
                }
            }
            () = sleep_until(next_restart) => {
                next_restart += Duration::from_millis(dice.between(1_000, 5_000));
                let how = if dice.percent(50) { "gentle" } else { "hard" };
                servers.say(&format!("{how} flaky")).await;
                counts.add("restarts", 1);
            }
            () = sleep_until(next_kill) => {
                next_kill += Duration::from_millis(dice.between(3_000, 9_000));
                if revive.is_none() {
                    mortal_cpu += cpu(mortal.pid());
                    wrong.extend(mortal.report().wrong);
                    mortal.child.kill().await?;
                    counts.add("kills", 1);
                    revive = Some(Instant::now() + Duration::from_millis(dice.between(0, 500)));
                }
            }
            () = sleep_until(revive.unwrap_or(start)), if revive.is_some() => {
                revive = None;
                mortal = Process::start("server", &mortal_setup)?;
            }
            () = sleep_until(next_child), if stopped.is_none() => {
                next_child += Duration::from_millis(dice.between(500, 2_000));
                let all = children(clients.pid());
                if let Some(pid) = dice.pick(&all).and_then(|child| Pid::from_raw(child.pid)) {
                    if dice.percent(70) {
                        let _ = kill_process(pid, Signal::KILL);
                        counts.add("kills", 1);
                    } else if kill_process(pid, Signal::STOP).is_ok() {
                        counts.add("stops", 1);
                        stopped = Some((pid, Instant::now() + Duration::from_millis(300)));
                    }
                }
            }
            () = sleep_until(stopped.map_or(start, |(_, until)| until)), if stopped.is_some() => {
                if let Some((pid, _)) = stopped.take() {
                    let _ = kill_process(pid, Signal::CONT);
                }
            }
        }
    }
    if let Some((pid, _)) = stopped {
        let _ = kill_process(pid, Signal::CONT);
    }
    if revive.is_some() {
        mortal = Process::start("server", &mortal_setup)?;
    }
    line(start.elapsed(), &clients, &servers, &counts);
    let spent = [&clients, &servers, &mortal].map(|process| cpu(process.pid()).as_secs_f64());
    let spent = spent.iter().sum::<f64>()
        + mortal_cpu.as_secs_f64()
        + cpu(std::process::id()).as_secs_f64();

    // What is left when everybody has gone.
    let until = Instant::now() + PATIENCE;
    let before_end = children(clients.pid()).len();
    let ours = clients.end(until, &mut wrong, "clients").await;
    for task in disturbing {
        task.abort();
    }
    let theirs = servers.end(until, &mut wrong, "servers").await;
    let last = mortal.end(until, &mut wrong, "killed server").await;
    for report in [&ours, &theirs, &last, &counts.report()] {
        wrong.extend(report.wrong.iter().cloned());
    }
    let fds = theirs.count("fds before the end");
    if fds > idle.fds {
        wrong.push(format!(
            "the servers hold {fds} descriptors without clients, {} at their start",
            idle.fds
        ));
    }
    for what in ["plain calls", "plain events"] {
        let (here, there) = (ours.count(what), theirs.count(what));
        if here != there {
            wrong.push(format!("{what}: {there} sent, {here} received"));
        }
    }
    println!("\n{:<24} {:>10} {:>10}", "median of a fifth", "2nd", "last");
    for (rule, row) in RULES.iter().zip(&samples) {
        let Some(level) = rule.level(row) else {
            continue;
        };
        println!("{:<24} {:>10} {:>10}", rule.what, level.early, level.late);
        if !level.kept {
            wrong.push(format!(
                "{} grew from {} to {}",
                rule.what, level.early, level.late
            ));
        }
    }
    println!(
        "\nclients: {:?}\nservers: {:?}\ndisturbances: {:?}",
        ours.counts,
        theirs.counts,
        counts.report().counts
    );
    println!(
        "children at the end {before_end}, processor {:.2} cores",
        spent / start.elapsed().as_secs_f64()
    );
    Ok(verdict(wrong, start, &ours, &counts, String::new()))
}

fn heading() {
    println!(
        "{:>6} {:>9} {:>10} {:>8} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6} {:>4} {:>6}",
        "s",
        "calls",
        "events",
        "result",
        "failed",
        "cancel",
        "drop",
        "time",
        "cut",
        "fault",
        "RSS c",
        "RSS s",
        "fds c",
        "fds s",
        "task c",
        "task s",
        "proc",
        "wrong"
    );
}

fn line(since: Duration, clients: &Process, servers: &Process, counts: &Counts) {
    let (ours, theirs, own) = (clients.report(), servers.report(), counts.report());
    let faults: u64 = own.counts.values().sum();
    println!(
        "{:>6} {:>9} {:>10} {:>8} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6} {:>4} {:>6}",
        since.as_secs(),
        ours.count("calls"),
        ours.count("events"),
        ours.count("result"),
        ours.count("failed"),
        ours.count("cancelled"),
        ours.count("dropped"),
        ours.count("timeout"),
        ours.count("cut"),
        faults,
        ours.rss_kib,
        theirs.rss_kib,
        ours.fds,
        theirs.fds,
        ours.tasks,
        theirs.tasks,
        children(clients.pid()).len(),
        ours.count("wrong") + theirs.count("wrong") + own.count("wrong"),
    );
}

fn verdict(
    wrong: Vec<String>,
    start: Instant,
    ours: &Report,
    counts: &Counts,
    _: String,
) -> Vec<String> {
    let (calls, events) = (ours.count("calls"), ours.count("events"));
    for what in &wrong {
        println!("soak: {what}");
    }
    let verdict = if wrong.is_empty() { "ok" } else { "FAILED" };
    let _ = (start, counts);
    println!(
        "soak: {verdict}, {calls} calls, {events} events, {} wrong",
        wrong.len()
    );
    wrong
}
