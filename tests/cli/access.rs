//! `--bearer-env`, on both sides.

use super::*;

/// The command with a token in its environment.
fn with_token(args: &[&str], token: &str) -> Child {
    let mut command = Command::new(BINARY);
    command.args(args).env("TEST_BEARER", token);
    started(command)
}

const HI: &str = r#"{"text":"Hi"}"#;

#[tokio::test]
async fn a_token_from_the_environment_opens_a_server_that_asks_for_it() {
    let asks = ["echo", "--port", "0", "--bearer-env", "TEST_BEARER"];
    let (_echo, url) = listening(with_token(&asks, "t0ken\n")).await;
    let call = ["call", &*url, "echo", HI];
    let given = [&call[..], &["--bearer-env", "TEST_BEARER"]].concat();
    let tools = ["tools", &*url, "--bearer-env", "TEST_BEARER"];
    for (args, token, code, says) in [
        (&given[..], " t0ken ", 0, ""),
        (&tools[..], "t0ken", 0, ""),
        (&given[..], "t0kem", 3, "--bearer-env VAR"),
        (&call[..], "t0ken", 3, "401"),
    ] {
        let ended = end(with_token(args, token)).await;
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(says), "{args:?}: {}", ended.err);
        assert!(!ended.err.contains("t0ke"), "{args:?}: {}", ended.err);
    }
}

#[tokio::test]
async fn a_token_that_is_not_there_is_wrong_usage() {
    let serve = ["echo", "--port", "0", "--bearer-env", "TEST_BEARER"];
    let model = ["llm", "--port", "0", "--bearer-env", "TEST_BEARER"];
    let call = [
        "call",
        "http://127.0.0.1:1/mcp",
        "echo",
        "--bearer-env",
        "TEST_BEARER",
    ];
    let child = ["tools", "stdio:x", "--bearer-env", "TEST_BEARER"];
    let stdio = ["echo", "--stdio", "--bearer-env", "TEST_BEARER"];
    for (args, token) in [
        (&serve[..], ""),
        (&serve[..], " \n"),
        (&serve[..], "t0ken and more"),
        (&model[..], ""),
        (&call[..], ""),
        (&call[..], "t0k\u{7f}en"),
        (&call[..], "t0ken and more"),
        (&child[..], "t0ken"),
        (&stdio[..], "t0ken"),
    ] {
        let ended = end(with_token(args, token)).await;
        assert_eq!(ended.code, Some(2), "{args:?}, {token:?}: {}", ended.err);
        assert!(!ended.err.contains("t0k"), "{args:?}: {}", ended.err);
    }
    let unset = run(&["echo", "--bearer-env", "TEST_BEARER"]).await;
    assert_eq!(unset.code, Some(2), "{}", unset.err);
    assert!(unset.err.contains("'TEST_BEARER'"), "{}", unset.err);
}

#[tokio::test]
async fn a_server_that_asks_nobody_says_so_where_others_reach_it() {
    let open = ["echo", "--port", "0", "--host", "0.0.0.0"];
    let guarded = [&open[..], &["--bearer-env", "TEST_BEARER"]].concat();
    for (args, warns) in [
        (&open[..], true),
        (&guarded[..], false),
        (&["echo", "--port", "0"], false),
    ] {
        let mut child = with_token(args, "t0ken");
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        timeout(PATIENCE, err.read_line(&mut line))
            .await
            .unwrap()
            .unwrap();
        assert!(line.starts_with("listening on "), "{line}");
        signal(&child, "-TERM");
        let mut rest = String::new();
        timeout(PATIENCE, err.read_to_string(&mut rest))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(rest.starts_with("warning: "), warns, "{args:?}: {rest}");
        assert_eq!(rest.lines().count(), usize::from(warns), "{args:?}: {rest}");
    }
}
