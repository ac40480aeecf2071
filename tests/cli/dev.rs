//! `agent-hub dev`: a server that is built and restarted while it is used.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use agent_hub_kit::{AgentHubClient, Era};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Lines};
use tokio::process::ChildStderr;

use super::*;

/// A project in a folder of its own: `src` is watched, `build.sh` builds `server`.
struct Project(PathBuf);

/// Fails while there is a file `src/broken`. The server comes about by a rename, as a linker or an
/// editor writes it.
const BUILD: &str = r#"
echo "built with $(cat src/main)" >> builds
if [ -e src/broken ]; then echo "error: it does not compile" >&2; exit 1; fi
cp src/main server.new && chmod +x server.new && mv server.new server
"#;

impl Project {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("agent-hub-dev-{}-{number}", std::process::id());
        let project = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(project.0.join("src")).unwrap();
        project.write("build.sh", BUILD);
        project.write("src/main", &echo_script(""));
        project
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn builds(&self) -> usize {
        let builds = fs::read_to_string(self.0.join("builds")).unwrap_or_default();
        builds.matches("built with").count()
    }

    fn start(&self, args: &[&str]) -> Dev {
        let mut command = Command::new(BINARY);
        command.current_dir(&self.0).args(["dev", "--port", "0"]);
        command.args(args);
        let mut child = started(command);
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Dev {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// `dev` as most use it, and the URL once the first server is up.
    async fn serve(&self) -> (Dev, String) {
        let args = ["--watch", "src", "--build", "sh build.sh", "--", "./server"];
        let mut dev = self.start(&args);
        let url = dev.url().await;
        dev.wait_for("dev: the server is up").await;
        (dev, url)
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that says its number first. Its port is not the one that it is asked to take.
fn echo_script(before: &str) -> String {
    format!("#!/bin/sh\necho \"pid $$\" >&2\n{before}\nexec {BINARY} echo --port 1\n")
}

struct Dev {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    seen: Vec<String>,
}

impl Dev {
    /// The rest of the next line that begins so.
    async fn wait_for(&mut self, start: &str) -> String {
        let found = timeout(PATIENCE, async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                self.seen.push(line.clone());
                if let Some(rest) = line.strip_prefix(start) {
                    return Some(rest.to_owned());
                }
            }
            None
        });
        let found = found.await.ok().flatten();
        found.unwrap_or_else(|| panic!("no {start:?} in {:#?}", self.seen))
    }

    async fn url(&mut self) -> String {
        self.wait_for("listening on ").await
    }

    async fn pid(&mut self) -> i64 {
        self.wait_for("pid ").await.parse().unwrap()
    }

    /// A number that was told already.
    fn seen_pid(&self, index: usize) -> i64 {
        let mut pids = self
            .seen
            .iter()
            .filter_map(|line| line.strip_prefix("pid "));
        pids.nth(index).unwrap().parse().unwrap()
    }

    /// Ends it, and gives what it said since.
    async fn stop(mut self, name: &str) -> (Option<i32>, Vec<String>) {
        signal(&self.child, name);
        let status = timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
        let mut rest = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            rest.push(line);
        }
        (status.code(), rest)
    }
}

/// One request over a connection of its own; the head of its answer.
async fn fresh(url: &str, number: usize) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let (headers, body) = match number % 2 {
        0 => (
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n",
            json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"text": "a"}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
            }}}),
        ),
        _ => (
            "",
            json!({"jsonrpc": "2.0", "id": number, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "raw", "version": "0"}}}),
        ),
    };
    let body = body.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\n\
         Content-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    if let Err(error) = stream.read_to_string(&mut answer).await {
        return format!("{error} after {answer:?}");
    }
    answer
}

/// Calls over connections that are kept, one after the other; how many there were.
async fn keep_calling(hub: AgentHubClient, tool: &str, over: Arc<AtomicBool>) -> usize {
    let mut calls = 0;
    while !over.load(Ordering::Relaxed) {
        let text = format!("call {calls}");
        let said = hub.call_tool(tool, json!({"text": text})).await;
        let said = said.unwrap_or_else(|e| panic!("{tool}, {text}: {e:?}"));
        assert_eq!(said, text);
        calls += 1;
    }
    calls
}

#[tokio::test]
async fn no_request_fails_while_the_server_is_rebuilt() {
    let project = Project::new();
    let (mut dev, url) = project.serve().await;
    let hub = AgentHubClient::builder().build();
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for (name, era) in [("legacy", Era::Legacy), ("modern", Era::Modern)] {
        hub.connect_http(name, &url).era(era).await.unwrap();
        for _ in 0..2 {
            let (hub, over, tool) = (hub.clone(), over.clone(), format!("{name}/echo"));
            callers.spawn(async move { keep_calling(hub, &tool, over).await });
        }
    }
    let strangers = tokio::spawn({
        let (url, over) = (url.clone(), over.clone());
        async move {
            let mut count = 0;
            while count < 200 || !over.load(Ordering::Relaxed) {
                let answer = fresh(&url, count).await;
                assert!(
                    answer.starts_with("HTTP/1.1 200 OK\r\n"),
                    "{count}: {answer}"
                );
                count += 1;
            }
        }
    });
    project.write("src/a", "1");
    dev.wait_for("dev: the new server is up").await;
    project.write("src/broken", "");
    dev.wait_for("dev: the build failed (exit status: 1); the old server stays")
        .await;
    fs::remove_file(project.0.join("src/broken")).unwrap();
    dev.wait_for("dev: the new server is up").await;
    over.store(true, Ordering::Relaxed);
    while let Some(calls) = callers.join_next().await {
        assert!(calls.unwrap() > 0);
    }
    strangers.await.unwrap();
    assert_eq!(project.builds(), 4, "{:#?}", dev.seen);
    hub.close().await;
    let (code, _) = dev.stop("-INT").await;
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn the_example_is_replaced_without_a_word_to_its_clients() {
    let mut example = std::env::current_exe().unwrap();
    example.pop();
    example.set_file_name("examples");
    example.push("reload_server");
    assert!(
        example.exists(),
        "no {}: cargo build --examples",
        example.display()
    );
    let project = Project::new();
    let mut dev = project.start(&["--watch", "src", "--", example.to_str().unwrap()]);
    let url = dev.url().await;
    dev.wait_for("dev: the server is up").await;
    let hub = AgentHubClient::builder().build();
    hub.connect_http("example", &url).await.unwrap();
    for round in 0..2 {
        let said = hub.call_tool_stream("greet", ()).collect_text().await;
        assert_eq!(said.unwrap(), "hello", "round {round}");
        project.write("src/a", "1");
        dev.wait_for("dev: the new server is up").await;
    }
    hub.close().await;
    let (code, _) = dev.stop("-INT").await;
    assert_eq!(code, Some(0));
}

/// Whether a process is there. One that nobody has asked about since it ended is not.
fn is_there(pid: i64) -> bool {
    let asked = std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", &pid.to_string()])
        .output();
    let state = String::from_utf8(asked.unwrap().stdout).unwrap();
    !state.trim().is_empty() && !state.starts_with('Z')
}

/// Waits until they are gone.
async fn are_gone(pids: &[i64]) {
    let gone = async {
        while pids.iter().any(|pid| is_there(*pid)) {
            tokio::task::yield_now().await;
        }
    };
    let gone = timeout(PATIENCE, gone).await;
    assert!(gone.is_ok(), "one of {pids:?} is still there");
}

#[tokio::test]
async fn what_does_not_count_builds_nothing_and_many_edits_build_once() {
    let project = Project::new();
    project.write(".gitignore", "*.log\n/src/made/\n");
    fs::create_dir_all(project.0.join("src/made")).unwrap();
    let (mut dev, _) = project.serve().await;
    let pid = dev.seen_pid(0);
    fs::create_dir_all(project.0.join("src/sub/.git")).unwrap();
    for name in [
        "src/a.log",
        "src/made/a",
        "src/.a.swp",
        "src/a~",
        "other",
        "src/sub/.git/HEAD",
    ] {
        project.write(name, "1");
    }
    // A folder that is new, with what is in it, and an edit by rename.
    fs::create_dir_all(project.0.join("src/deep/er")).unwrap();
    for number in 0..100 {
        project.write(&format!("src/deep/er/{number}"), "1");
    }
    project.write("src/main.new", &echo_script("#"));
    fs::rename(project.0.join("src/main.new"), project.0.join("src/main")).unwrap();
    let changed = dev.wait_for("dev: changed: ").await;
    assert!(
        changed.starts_with("src/deep/er/0, src/deep/er/1, "),
        "{changed}"
    );
    assert_ne!(dev.pid().await, pid);
    dev.wait_for("dev: the new server is up").await;
    // Deeper in what was new is watched too.
    project.write("src/deep/er/0", "2");
    assert_eq!(dev.wait_for("dev: changed: ").await, "src/deep/er/0");
    dev.wait_for("dev: the new server is up").await;
    fs::remove_file(project.0.join("src/deep/er/0")).unwrap();
    assert_eq!(dev.wait_for("dev: changed: ").await, "src/deep/er/0");
    dev.wait_for("dev: the new server is up").await;
    assert_eq!(project.builds(), 4, "{:#?}", dev.seen);
    let (code, rest) = dev.stop("-TERM").await;
    let ending = "dev: ending; again to end at once".to_owned();
    assert_eq!((code, rest), (Some(0), vec![ending]));
}

#[tokio::test]
async fn a_server_that_does_not_come_up_leaves_the_old_one() {
    let project = Project::new();
    let (mut dev, url) = project.serve().await;
    for (server, why) in [
        (
            "#!/bin/sh\nexit 3\n".to_owned(),
            "the new server ended (exit status: 3) before",
        ),
        (
            "#!/no/such/program\n".to_owned(),
            "cannot start ./server (No such file",
        ),
        (
            echo_script("kill -9 $$"),
            "the new server ended (signal: 9 (SIGKILL)) before",
        ),
    ] {
        project.write("src/main", &server);
        // Nobody is so fast that the same file alone seems to be written by the build.
        project.write(&format!("src/{}", server.len()), "1");
        let told = dev.wait_for(&format!("dev: {why}")).await;
        assert!(told.ends_with("; the old server stays"), "{told}");
        assert!(fresh(&url, 0).await.starts_with("HTTP/1.1 200 OK"), "{why}");
    }
    // One that hangs is given up for the next change.
    project.write(
        "src/main",
        "#!/bin/sh\necho \"pid $$\" >&2\nexec sleep 1000\n",
    );
    let hung = dev.pid().await;
    project.write("src/main", &echo_script(""));
    dev.wait_for("dev: the new server is up").await;
    are_gone(&[hung]).await;
    let (code, _) = dev.stop("-INT").await;
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn connections_wait_while_there_is_no_server() {
    let project = Project::new();
    project.write("src/broken", "");
    let args = ["--watch", "src", "--build", "sh build.sh", "--", "./server"];
    let mut dev = project.start(&args);
    let address = dev.wait_for("dev: holding ").await;
    dev.wait_for("error: it does not compile").await;
    dev.wait_for("dev: the build failed (exit status: 1); connections wait")
        .await;
    let url = format!("http://{address}/mcp");
    let waiting = tokio::spawn({
        let url = url.clone();
        async move { fresh(&url, 0).await }
    });
    fs::remove_file(project.0.join("src/broken")).unwrap();
    let pid = dev.pid().await;
    let answer = timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    // The same after a crash.
    dev.wait_for("dev: the server is up").await;
    assert!(
        std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
    dev.wait_for("dev: the server ended (signal: 9 (SIGKILL)); waiting for a change")
        .await;
    let waiting = tokio::spawn(async move { fresh(&url, 1).await });
    project.write("src/a", "1");
    let answer = timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    dev.stop("-INT").await;
}

#[tokio::test]
async fn what_the_build_writes_itself_does_not_run_it_for_ever() {
    let project = Project::new();
    project.write("build.sh", &format!("{BUILD}\nls -i builds > src/made\n"));
    let (mut dev, _) = project.serve().await;
    let held = "dev: src/made changes with each build, which is not run again for it";
    dev.wait_for(held).await;
    let builds = project.builds();
    project.write("src/a", "1");
    assert_eq!(dev.wait_for("dev: changed: ").await, "src/a");
    dev.wait_for(held).await;
    assert_eq!(project.builds(), builds + 1);
    // Somebody's own edit of it counts.
    project.write("src/made", "mine");
    assert_eq!(dev.wait_for("dev: changed: ").await, "src/made");
    dev.wait_for("dev: the new server is up").await;
    dev.stop("-INT").await;
}

#[tokio::test]
async fn without_a_build_the_program_and_the_files_count() {
    let project = Project::new();
    fs::create_dir_all(project.0.join("target")).unwrap();
    let link = |script: &str| {
        project.write("new", script);
        let made = std::process::Command::new("chmod")
            .args(["+x", "new"])
            .current_dir(&project.0)
            .status();
        assert!(made.unwrap().success());
        fs::rename(project.0.join("new"), project.0.join("target/server")).unwrap();
    };
    link(&echo_script(""));
    let mut dev = project.start(&["--watch", "src", "--", "target/server"]);
    let first = dev.pid().await;
    dev.wait_for("dev: the server is up").await;
    project.write("target/other", "1");
    link(&echo_script("#"));
    assert_eq!(dev.wait_for("dev: changed: ").await, "target/server");
    let second = dev.pid().await;
    dev.wait_for("dev: the new server is up").await;
    project.write("src/main", "1");
    assert_eq!(dev.wait_for("dev: changed: ").await, "src/main");
    let third = dev.pid().await;
    assert!(first != second && second != third);
    dev.wait_for("dev: the new server is up").await;
    dev.stop("-INT").await;
    are_gone(&[first, second, third]).await;
}

#[tokio::test]
async fn a_folder_that_goes_and_comes_back_is_still_watched() {
    let project = Project::new();
    project.write("server", &echo_script(""));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(project.0.join("server"), mode).unwrap();
    let mut dev = project.start(&["--watch", "src", "--", "./server"]);
    dev.wait_for("dev: the server is up").await;
    for how in ["removed", "moved"] {
        match how {
            "removed" => fs::remove_dir_all(project.0.join("src")).unwrap(),
            _ => fs::rename(project.0.join("src"), project.0.join("old")).unwrap(),
        }
        dev.wait_for("dev: changed: src").await;
        dev.wait_for("dev: the new server is up").await;
        fs::create_dir(project.0.join("src")).unwrap();
        dev.wait_for("dev: changed: src").await;
        dev.wait_for("dev: the new server is up").await;
        project.write("src/main", how);
        assert_eq!(dev.wait_for("dev: changed: ").await, "src/main", "{how}");
        dev.wait_for("dev: the new server is up").await;
    }
    dev.stop("-INT").await;
}

/// A server that a shell starts and waits for, beside something that outlives it.
const FAMILY: &str = "sleep 1000 & echo \"pid $!\" >&2\n";

#[tokio::test]
async fn nothing_is_left_however_it_ends() {
    for (case, name) in [
        ("in order", "-INT"),
        ("in order", "-TERM"),
        ("killed", "-KILL"),
    ] {
        let project = Project::new();
        project.write("src/main", &echo_script(FAMILY));
        let (mut dev, url) = project.serve().await;
        let mut pids = vec![dev.seen_pid(0), dev.seen_pid(1)];
        // And a build that is under way.
        project.write("build.sh", "echo \"pid $$\" >&2; sleep 1000; exit 1\n");
        project.write("src/a", "1");
        pids.push(dev.pid().await);
        let mut hub = Vec::new();
        if name != "-KILL" {
            // A client that is idle holds nothing up for long.
            let client = AgentHubClient::builder().build();
            client.connect_http("echo", &url).await.unwrap();
            hub.push(client);
        }
        assert!(pids.iter().all(|pid| is_there(*pid)), "{case}: {pids:?}");
        let sent = Instant::now();
        let (code, _) = dev.stop(name).await;
        assert_eq!(code, (name != "-KILL").then_some(0), "{case}");
        are_gone(&pids).await;
        assert!(
            sent.elapsed() < Duration::from_secs(5),
            "{case}: {:?}",
            sent.elapsed()
        );
        let again = TcpListener::bind(("127.0.0.1", port_of(&url))).await;
        assert!(again.is_ok(), "{case}: {again:?}");
    }
}

#[tokio::test]
async fn a_second_signal_ends_all_at_once() {
    let project = Project::new();
    // It does not listen to SIGTERM.
    project.write("src/main", "#!/bin/sh\ntrap '' TERM\necho \"pid $$\" >&2\necho listening on x >&2\nwhile :; do sleep 1000; done\n");
    let (mut dev, _) = project.serve().await;
    let pid = dev.seen_pid(0);
    signal(&dev.child, "-INT");
    dev.wait_for("dev: ending; again to end at once").await;
    let (code, _) = dev.stop("-INT").await;
    assert_eq!(code, Some(130));
    are_gone(&[pid]).await;
}

#[tokio::test]
async fn a_command_line_can_be_wrong_in_many_ways() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (args, code, told) in [
        (&["dev"][..], 2, "BINARY"),
        (
            &["dev", "--build", "'", "--", "x"],
            2,
            "the command of --build",
        ),
        (
            &["dev", "--build", "", "--", "x"],
            2,
            "--build names no command",
        ),
        (
            &["dev", "--port", "0", "--watch", "/no/such", "--", "x"],
            2,
            "cannot watch /no/such",
        ),
        (
            &["dev", "--port", &port, "--", "x"],
            1,
            "cannot listen on 127.0.0.1, port",
        ),
    ] {
        let ended = run(args).await;
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(told), "{args:?}: {}", ended.err);
    }
}
