//! The process of the clients: each a task with a hub of its own, which it makes anew at times.

use std::sync::Arc;
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Era, Limits, StdioCommand};
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{interval, sleep, timeout};

use crate::call::{Call, Reader, Target};
use crate::dice::Dice;
use crate::own::{Counts, commands};
use crate::report::Setup;
use crate::tools::{Ask, End};
use crate::watch::children;

/// Longer than anything that is meant to end may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Within it a client knows that a server has gone, and that an answer was changed on the way.
const CONNECT: Duration = Duration::from_secs(5);

/// Calls until it is told `stop`.
pub async fn run(setup: Setup) {
    let counts = Arc::new(Counts::default());
    let mut commands = commands();
    let fds = counts.report().fds;
    let (stop, stopped) = watch::channel(false);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..setup.clients {
        let client = Client {
            number,
            setup: setup.clone(),
            counts: counts.clone(),
            stopped: stopped.clone(),
            dice: Dice::new(setup.seed, number),
            calls: 0,
            leaked: Vec::new(),
        };
        clients.spawn(client.live());
    }
    let mut ticks = interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            _ = ticks.tick() => counts.tell(),
            _ = commands.recv() => break,
        }
    }
    let _ = stop.send(true);
    let all = async {
        while let Some(ended) = clients.join_next().await {
            if let Err(error) = ended {
                counts.wrong(format!("a client's task: {error}"));
            }
        }
    };
    if timeout(PATIENCE * 2, all).await.is_err() {
        counts.wrong("a client does not end".to_owned());
    }
    // Children of hubs that were dropped are given some seconds to end.
    let gone = counts.until(Duration::from_secs(20), |own| {
        own.tasks == 0 && own.fds <= fds
    });
    if !gone.await {
        let own = counts.report();
        let (tasks, left) = (own.tasks, own.fds);
        let children = children(std::process::id()).len();
        counts.wrong(format!(
            "{tasks} tasks are left, {children} children, and {left} descriptors of {fds}"
        ));
    }
    counts.add("over", 1);
    counts.tell();
    std::process::exit(0);
}

fn hub_limits() -> Limits {
    let mut limits = Limits::default();
    limits.list_timeout = Duration::from_secs(10);
    // Well before a server hangs up: a call on a connection that is about to be closed may be lost.
    limits.pool_idle_timeout = Duration::from_secs(2);
    limits.resume_delay = Duration::from_millis(100);
    limits
}

struct Client {
    number: u64,
    setup: Setup,
    counts: Arc<Counts>,
    stopped: watch::Receiver<bool>,
    dice: Dice,
    calls: u64,
    leaked: Vec<Vec<u8>>,
}

impl Client {
    async fn live(mut self) {
        while !*self.stopped.borrow() {
            let hub = AgentHubClient::builder().limits(hub_limits()).build();
            let targets = self.targets();
            for target in &targets {
                self.connect(&hub, *target).await;
            }
            for _ in 0..self.dice.between(20, 200) {
                if *self.stopped.borrow() {
                    break;
                }
                let before = self.calls;
                if timeout(PATIENCE, self.step(&hub, &targets)).await.is_err() {
                    let number = self.number;
                    let what = format!("client {number} hangs in a step after call {before}");
                    self.counts.wrong_call("hangs", what);
                }
                self.pause(self.calls - before).await;
            }
            let target = *self.dice.pick(&targets).unwrap_or(&Target::Steady);
            let mut left = self.call(target);
            left.reader = Reader::Stream;
            (left.ask.end, left.ask.plain) = (End::Hang, false);
            let left = timeout(PATIENCE, left.leave(&hub)).await;
            if left.is_err() {
                self.counts
                    .wrong_call("hangs", format!("a call of {target:?}"));
            }
            match self.dice.percent(50) {
                true => {
                    if timeout(PATIENCE, hub.close()).await.is_err() {
                        self.counts.wrong("a hub does not close".to_owned());
                    }
                    self.counts.add("closed", 1);
                }
                false => {
                    drop(hub);
                    self.counts.add("left", 1);
                }
            }
            if let Ok(left) = left
                && timeout(PATIENCE, left.read(&self.counts)).await.is_err()
            {
                self.counts.wrong("a stream outlives its hub".to_owned());
            }
        }
    }

    /// Every client knows the steady server; some have a child.
    fn targets(&mut self) -> Vec<Target> {
        let mut targets = vec![Target::Steady];
        for target in [
            Target::Mounted,
            Target::Flaky,
            Target::Mortal,
            Target::Replay,
        ] {
            if self.dice.percent(40) {
                targets.push(target);
            }
        }
        match self.number % 16 {
            0 | 8 => targets.push(Target::Child),
            4 => targets.push(Target::Battered),
            12 => targets.push(Target::BatteredChild),
            _ => {}
        }
        targets
    }

    fn era(&mut self) -> Era {
        *self
            .dice
            .pick(&[Era::Auto, Era::Legacy, Era::Modern])
            .unwrap_or(&Era::Auto)
    }

    async fn connect(&mut self, hub: &AgentHubClient, target: Target) {
        let era = self.era();
        let name = target.name();
        let tries = if target.is_battered() { 1 } else { 5 };
        for _ in 0..tries {
            let connecting = match target {
                Target::Child | Target::BatteredChild => {
                    let program = std::env::current_exe().unwrap_or_default();
                    let command = StdioCommand::new(program).arg(match target {
                        Target::Child => "stdio",
                        _ => "battered",
                    });
                    let connecting = hub
                        .connect_stdio(name, command)
                        .era(era)
                        .replace(true)
                        .connect_timeout(CONNECT);
                    connecting.into_future()
                }
                _ => {
                    let url = format!("http://{}/mcp", self.setup.servers[name]);
                    hub.reconnect_http(name, url)
                        .era(era)
                        .connect_timeout(CONNECT)
                        .into_future()
                }
            };
            match timeout(PATIENCE, connecting).await {
                Ok(Ok(tools)) if tools.iter().any(|tool| tool.name() == "stream") => {
                    return self.counts.add("connects", 1);
                }
                Ok(_) if target.is_battered() => {}
                Ok(Ok(_)) => self.counts.wrong(format!("{name} lists no stream")),
                Ok(Err(error)) if target.is_disturbed() => {
                    self.counts.add("refused", 1);
                    if !error.is_retryable() {
                        self.counts.wrong(format!("connecting {name}: {error:?}"));
                    }
                }
                Ok(Err(error)) => self.counts.wrong(format!("connecting {name}: {error:?}")),
                Err(_) => self.counts.wrong(format!("connecting {name} hangs")),
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Keeps to the rate.
    async fn pause(&mut self, calls: u64) {
        let mean = 1_000_000 * self.setup.clients / self.setup.rate.max(1) * calls.max(1);
        sleep(Duration::from_micros(
            self.dice.between(mean / 2, mean * 3 / 2 + 1),
        ))
        .await;
    }

    async fn step(&mut self, hub: &AgentHubClient, targets: &[Target]) {
        let target = match self.dice.percent(40) {
            true => Target::Steady,
            false => *self.dice.pick(targets).unwrap_or(&Target::Steady),
        };
        match self.dice.between(0, 100) {
            0..=3 => self.connect(hub, target).await,
            4..=5 => {
                let _ = hub.disconnect(target.name()).await;
                self.connect(hub, target).await;
            }
            6..=7 => self.list(hub, target).await,
            8..=15 => {
                let count = self.dice.between(2, 6);
                let calls: Vec<Call> = (0..count).map(|_| self.call(target)).collect();
                join_all(calls.into_iter().map(|call| call.run(hub, &self.counts))).await;
            }
            _ => self.call(target).run(hub, &self.counts).await,
        }
        if self.setup.leak > 0 {
            self.leaked.push(vec![1; self.setup.leak]);
        }
    }

    async fn list(&mut self, hub: &AgentHubClient, target: Target) {
        match hub.list_tools_from(target.name()).await {
            Ok(tools) if tools.iter().any(|tool| tool.name() == "stream") => {
                self.counts.add("lists", 1);
            }
            _ if target.is_battered() => {}
            Err(_) if target.is_disturbed() => self.counts.add("lists cut", 1),
            unlike => self.counts.wrong(format!("listing {target:?}: {unlike:?}")),
        }
    }

    /// What is asked, and how its answer is read.
    fn call(&mut self, target: Target) -> Call {
        self.calls += 1;
        let dice = &mut self.dice;
        let mut ask = Ask {
            call: self.number << 32 | self.calls,
            events: dice.between(1, 40),
            size: dice.between(0, 60) as usize,
            pause_us: 0,
            end: End::Done,
            plain: false,
            load: String::new(),
        };
        match dice.between(0, 100) {
            0..=1 => (ask.events, ask.size) = (dice.between(500, 2_000), 24),
            2 => (ask.events, ask.size) = (dice.between(10, 40), 16 << 10),
            3 => (ask.events, ask.size) = (dice.between(1, 4), 256 << 10),
            4..=8 => (ask.events, ask.pause_us) = (0, dice.between(1, 200_000)),
            9..=13 => (ask.events, ask.pause_us) = (dice.between(1, 30), dice.between(1, 20_000)),
            14..=16 => ask.load = "å\n".repeat(dice.between(1, 10_000) as usize),
            17 => ask.load = "x".repeat(dice.between(100_000, 500_000) as usize),
            18..=24 => ask.end = End::Fail,
            25 => ask.end = End::Panic,
            26..=33 if target == Target::Child => ask.end = End::Exit,
            _ => {}
        }
        let short = Duration::from_millis(dice.between(1, 100));
        let reader = match dice.between(0, 100) {
            0..=7 => Reader::Cancels {
                after: dice.between(0, ask.events + 1),
            },
            8..=15 => Reader::Drops {
                after: dice.between(0, ask.events + 1),
            },
            16..=18 => Reader::Waits {
                total: Some(short),
                idle: None,
            },
            19..=20 => Reader::Waits {
                total: None,
                idle: Some(short),
            },
            21..=23 => Reader::Pauses {
                every: dice.between(1, 20),
                pause: short / 10,
            },
            24..=33 => Reader::Result,
            _ => Reader::Stream,
        };
        if matches!(
            reader,
            Reader::Cancels { .. } | Reader::Drops { .. } | Reader::Waits { .. }
        ) {
            ask.end = End::Hang;
        }
        ask.plain = !target.is_disturbed() && ask.end != End::Hang;
        Call {
            target,
            ask,
            reader,
        }
    }
}
