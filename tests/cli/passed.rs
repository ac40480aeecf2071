//! Listening sockets that are passed on, as `LISTEN_FDS` says.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use agent_hub_kit::specialists::build_echo_server;
use agent_hub_kit::{AgentHubClient, StdioCommand};
use command_fds::{CommandFdExt, FdMapping};

/// That this process is the one that binds; the tests run it, as its variables are its own.
const ROLE: &str = "AGENT_HUB_TEST_BINDS";

/// Runs the binder below with these descriptors from 3 on, and gives what it said.
fn binder(passed: Vec<OwnedFd>, variables: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "--nocapture",
            "passed::binder_of_another_process",
        ])
        .env(ROLE, "1")
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    let numbered = passed.into_iter().zip(3..);
    let mappings = numbered.map(|(parent_fd, child_fd)| FdMapping {
        parent_fd,
        child_fd,
    });
    command.fd_mappings(mappings.collect()).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let lines = said
        .lines()
        .filter_map(|line| line.strip_prefix("binder: "));
    lines.map(str::to_owned).collect()
}

/// Binds three times, and says to what; then whether a child sees anything of it.
#[tokio::test]
async fn binder_of_another_process() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let server = build_echo_server().build();
    let mut kept = Vec::new();
    for _ in 0..3 {
        match server.bind("127.0.0.2:0").await {
            Ok(bound) => {
                eprintln!("binder: {}", bound.local_addr());
                kept.push(bound);
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                eprintln!("binder: {error}: {}", cause.unwrap_or_default());
            }
        }
    }
    // It is not asked for long: a connection to the first one is answered.
    if let Some(first) = kept.into_iter().next() {
        let (url, handle) = (first.url().to_owned(), first.handle());
        let serving = tokio::spawn(first.serve());
        let hub = AgentHubClient::builder().build();
        hub.connect_http("own", &url).await.unwrap();
        hub.close().await;
        handle.shutdown();
        serving.await.unwrap().unwrap();
    }
    // The child is no server; what it sees is in a file.
    let file = std::env::temp_dir().join(format!("agent-hub-passed-{}", std::process::id()));
    let look = "{
        for fd in 3 4 5; do (: <&$fd) 2>/dev/null && echo inherits $fd; done
        echo LISTEN_FDS=$LISTEN_FDS LISTEN_PID=$LISTEN_PID
    } > \"$0\"";
    let hub = AgentHubClient::builder().build();
    let child = StdioCommand::new("/bin/sh").args(["-c", look]).arg(&file);
    let connected = hub.connect_stdio("child", child.inherit_env()).await;
    assert!(connected.is_err());
    for line in std::fs::read_to_string(&file).unwrap().lines() {
        eprintln!("binder: {line}");
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn each_bind_takes_the_next_and_no_child_sees_any() {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [one, two] = listeners
        .each_ref()
        .map(|l| l.local_addr().unwrap().to_string());
    let both = || {
        listeners
            .iter()
            .map(|l| OwnedFd::from(l.try_clone().unwrap()))
            .collect()
    };
    let no_variables = "LISTEN_FDS= LISTEN_PID=";

    let said = binder(both(), &[("LISTEN_FDS", "2")]);
    assert_eq!(said[..2], [one.clone(), two.clone()]);
    assert!(said[2].starts_with("127.0.0.2:"), "{said:?}");
    assert_eq!(said[3..], [no_variables]);

    // One of two, and none.
    let said = binder(both(), &[("LISTEN_FDS", "1"), ("LISTEN_PID", "")]);
    assert_eq!(said[0], one);
    assert!(said[1].starts_with("127.0.0.2:"), "{said:?}");
    for variables in [
        &[("LISTEN_FDS", "0")][..],
        &[("LISTEN_FDS", "2"), ("LISTEN_PID", "1")],
    ] {
        let said = binder(Vec::new(), variables);
        assert!(said[0].starts_with("127.0.0.2:"), "{variables:?}: {said:?}");
        assert_eq!(said[3..], [no_variables], "{variables:?}");
    }
}

#[test]
fn what_is_no_listening_socket_is_told() {
    let wrong = "a descriptor that LISTEN_FDS passes on is no listening TCP socket";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connected = TcpStream::connect(address).unwrap();
    let said = binder(
        vec![
            File::open("/dev/null").unwrap().into(),
            connected.into(),
            listener.into(),
        ],
        &[("LISTEN_FDS", "3")],
    );
    assert!(
        said[0].contains(wrong) && said[0].contains("fd 3 is not a socket"),
        "{said:?}"
    );
    assert!(said[1].contains(wrong), "{said:?}");
    assert_eq!(said[2], address.to_string(), "the others are not lost");

    for number in ["two", "-1", "", "1025", "99999999999999999999"] {
        let said = binder(Vec::new(), &[("LISTEN_FDS", number)]);
        let told = "the environment variable LISTEN_FDS is not a number of descriptors";
        assert!(said[0].contains(told), "{number:?}: {said:?}");
    }
    for first in ["x", "", "-5", "2", "2147483647"] {
        let variables = [("LISTEN_FDS", "2"), ("LISTEN_FDS_FIRST_FD", first)];
        let said = binder(Vec::new(), &variables);
        let told = "the environment variable LISTEN_FDS_FIRST_FD is not the number of a descriptor";
        assert!(said[0].contains(told), "{first:?}: {said:?}");
    }
}
