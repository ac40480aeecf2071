//! Starting a child: the command, its environment, and what cannot be started.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use agent_hub_kit::{AgentHubClient, Error, StdioCommand};

use crate::{child, hub, on_time, run, said};

/// Answers every call with the environment, or with its arguments, a line each.
const TELLING: &str = r#"
    escaped() { sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g' | awk '{ printf "%s\\n", $0 }'; }
    call() {
        case $line in
            *'"u"'*) text "$arguments" ;;
            *) text "$( (pwd; env) | escaped)" ;;
        esac
    }
    arguments=$(for argument in "$@"; do printf '<%s>\n' "$argument"; done | escaped)
"#;

async fn told(hub: &AgentHubClient, tool: &str) -> String {
    let told = hub.call_tool(tool, ()).await.unwrap();
    told.as_str().unwrap().to_owned()
}

#[test]
fn what_cannot_be_started_is_an_error_at_once() {
    let folder = std::env::temp_dir().join(format!("stdio-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let plain = folder.join("plain file");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let broken = folder.join("broken");
    std::fs::write(&broken, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&broken, std::fs::Permissions::from_mode(0o755)).unwrap();
    let plain_word = format!("'{}'", plain.display());
    // What is started, and what the error says.
    let table: [(StdioCommand, &[&str]); 7] = [
        (
            "no-such-program-anywhere".into(),
            &["no-such-program-anywhere", "No such file"],
        ),
        // A lone string is a program, not a command line.
        (
            "sh -c true".into(),
            &["could not start `'sh -c true'`", "No such file"],
        ),
        (
            ["/no/such/file", "--stdio", "two words"].into(),
            &["/no/such/file --stdio 'two words'", "No such file"],
        ),
        (
            StdioCommand::new(&plain),
            &[&plain_word, "Permission denied"],
        ),
        (StdioCommand::new(&folder), &["Permission denied"]),
        (StdioCommand::new(&broken), &["broken", "No such file"]),
        (
            StdioCommand::new("sh").cwd("/no/such/folder"),
            &["sh", "in /no/such/folder", "No such file"],
        ),
    ];
    run(async || {
        for (command, words) in &table {
            let hub = hub();
            let connecting = hub.connect_stdio("p", command.clone()).into_future();
            let at_once = tokio::time::timeout(Duration::from_secs(5), connecting);
            let error = at_once.await.unwrap().unwrap_err();
            assert!(matches!(error, Error::Connect { .. }), "{error:?}");
            let text = said(&error);
            for word in *words {
                assert!(text.contains(word), "no `{word}` in {text}");
            }
            // The name is free.
            hub.connect_stdio("p", child::script("").0).await.unwrap();
        }
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn no_command_and_a_name_in_use_are_errors_of_the_caller() {
    run(async || {
        let hub = hub();
        let nothing: [StdioCommand; 3] = ["".into(), [""; 0].into(), Vec::<String>::new().into()];
        for command in nothing {
            let error = hub.connect_stdio("p", command).await.unwrap_err();
            assert!(matches!(error, Error::Config { .. }), "{error:?}");
        }
        child::connect(&hub, "").await;
        let again = hub.connect_stdio("p", child::script("").0).await;
        assert!(matches!(again, Err(Error::Config { .. })), "{again:?}");
        assert_eq!(hub.call_tool("t", ()).await.unwrap(), "4");
    });
}

// Covers R-1605.
#[test]
fn arguments_reach_the_child_unchanged() {
    let arguments = [
        "plain",
        "two words",
        " ",
        "",
        "'single' \"double\"",
        "$HOME `id` $(id) ; rm -rf x & | > <",
        "back\\slash \\n",
        "tab\there",
        "日本語 👋 é",
        "-e --x=y *",
    ];
    run(async || {
        let hub = hub();
        let (command, _) = child::script(TELLING);
        hub.connect_stdio("p", command.args(arguments))
            .await
            .unwrap();
        let shown: String = arguments.iter().map(|a| format!("<{a}>\n")).collect();
        assert_eq!(told(&hub, "u").await, shown);
    });
}

#[test]
fn a_line_break_in_an_argument_is_no_end_of_it() {
    run(async || {
        let hub = hub();
        let (command, _) = child::bare(
            r#"
            first=$1
            call() { [ "$first" = "$(printf 'two\nlines')" ] && text same; }
            serve
            "#,
        );
        hub.connect_stdio("p", command.arg("two\nlines"))
            .await
            .unwrap();
        assert_eq!(hub.call_tool("t", ()).await.unwrap(), "same");
    });
}

/// Environment variables are of the whole process, so this test has one of its own.
// Covers R-1605, R-1706.
#[test]
fn a_child_gets_the_default_variables_and_what_it_is_given() {
    if std::env::var_os("STDIO_TEST_SECRET").is_some() {
        return in_this_environment();
    }
    let own = std::env::current_exe().unwrap();
    let name = "starting::a_child_gets_the_default_variables_and_what_it_is_given";
    let run = std::process::Command::new(own)
        .args(["--exact", name])
        .env("STDIO_TEST_SECRET", "hush")
        .env("HOME", "/home/é")
        .env("SHELL", "() { echo a function; }")
        .env("TERM", "term")
        .env("USER", "user")
        .env("LANG", "C")
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
}

fn in_this_environment() {
    let names = |told: &str| -> Vec<String> {
        let shell_makes = ["PWD", "OLDPWD", "SHLVL", "_", "SCRIPT"];
        let name = |line: &str| Some(line.split_once('=')?.0.to_owned());
        let mut names: Vec<String> = told.lines().skip(1).filter_map(name).collect();
        names.retain(|name| {
            !shell_makes.contains(&name.as_str())
                && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        });
        names.sort();
        names
    };
    run(async || {
        let hub = hub();
        let (command, _) = child::script(TELLING);
        hub.connect_stdio("default", command.clone()).await.unwrap();
        let given = command
            .clone()
            .env("K", "v w")
            .env("TERM", "other")
            .cwd("/");
        let given = given.envs([("L", "é"), ("M", "")]);
        assert!(!format!("{given:?}").contains("v w"), "values are secrets");
        hub.connect_stdio("given", given).await.unwrap();
        hub.connect_stdio("all", command.inherit_env())
            .await
            .unwrap();

        let told = on_time(told(&hub, "default/t")).await;
        let expected = ["HOME", "LOGNAME", "PATH", "TERM", "USER"];
        let expected = expected.map(str::to_owned).to_vec();
        let without_logname = |mut names: Vec<String>| {
            names.retain(|name| name != "LOGNAME");
            names
        };
        assert_eq!(without_logname(names(&told)), without_logname(expected));
        assert!(told.contains("\nHOME=/home/é\n"), "{told}");
        assert!(
            !told.contains("hush") && !told.contains("a function"),
            "{told}"
        );

        let told = crate::starting::told(&hub, "given/t").await;
        for line in ["K=v w", "L=é", "M=", "TERM=other", "HOME=/home/é"] {
            assert!(told.contains(&format!("\n{line}\n")), "{line}: {told}");
        }
        assert!(told.starts_with("/\n") && !told.contains("hush"), "{told}");

        let told = crate::starting::told(&hub, "all/t").await;
        assert!(told.contains("\nSTDIO_TEST_SECRET=hush\n"), "{told}");
    });
}

#[test]
fn one_command_makes_two_servers_on_two_hubs() {
    run(async || {
        let (first, second) = (hub(), hub());
        let (command, marker) = child::script("");
        first.connect_stdio("p", command.clone()).await.unwrap();
        second.connect_stdio("p", command).await.unwrap();
        assert_eq!(crate::process::with(&marker).len(), 2);
        first.close().await;
        assert_eq!(second.call_tool("t", ()).await.unwrap(), "4");
        assert_eq!(crate::process::with(&marker).len(), 1);
        let closed = first.call_tool("t", ()).await.unwrap_err();
        assert!(
            matches!(closed, Error::UnknownTool { .. } | Error::Closed { .. }),
            "{closed:?}"
        );
    });
}
