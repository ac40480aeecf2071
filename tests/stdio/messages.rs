//! What a child may say on its stdout and stderr, and what is made of it.

use std::sync::{Arc, Mutex};

use agent_hub_kit::{AgentHubClient, Error, EventKind, HubEvent, ServerChange};
use futures_util::FutureExt as _;
use serde_json::json;

use crate::{child, hub, hub_with, process, read, run, run_once, said, shown};

// Covers R-1602, R-1603.
#[test]
fn noise_on_stdout_is_skipped_and_nothing_is_written_back() {
    run(async || {
        let hub = hub();
        let noisy = r#"
            noise() {
                say 'Server v1.2 started'
                say '🖥️ Server mode: STDIO'
                printf '%s\r\n' 'npm WARN [######......] / reify'
                say '    at Object.<anonymous> (/srv/a.js:1:2)'
                say '"a string", true, 1'
                say ''
                printf '\377\376\000\n'
            }
            noise
            opening() { noise; welcome; noise; }
            listing() { noise; tools; noise; }
            call() { noise; progress "$id" 1 a; noise; text "$lines"; noise; }
        "#;
        let (command, _) = child::script(noisy);
        hub.connect_stdio("p", command).await.unwrap();
        for lines in 4..7 {
            let events = read(&mut hub.call_tool_stream("t", ())).await;
            let seen = [r#"text "a""#.to_owned(), format!("result \"{lines}\"")];
            assert_eq!(shown(&events), seen, "opening, note, list and calls alone");
        }
    });
}

// Covers R-1604.
#[test]
fn a_flood_on_stderr_delays_no_answer() {
    run(async || {
        let hub = hub();
        let flood = r#"
            flood() { head -c 4194304 /dev/zero | tr '\0' e >&2; }
            call() { flood; progress "$id" 1 a; flood; text ok; }
            flood
        "#;
        child::connect(&hub, flood).await;
        for _ in 0..3 {
            let events = read(&mut hub.call_tool_stream("t", ())).await;
            assert_eq!(shown(&events), [r#"text "a""#, r#"result "ok""#]);
        }
    });
}

// Covers R-102, R-110, R-113, R-1601, R-1603.
#[test]
fn a_message_is_known_whatever_its_form() {
    // What the tool writes, and the events that come of it.
    let table: [(&str, &[&str]); 12] = [
        (
            r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\r\n' "$id""#,
            &["result null"],
        ),
        (
            r#"printf '\n\r\n  \n'; printf ' \t{"jsonrpc":"2.0","id":%s,"result":{}}  \n' "$id""#,
            &["result null"],
        ),
        (
            r#"say '{"jsonrpc":"2.0","id":"'"$id"'","result":{"structuredContent":{"a":1}}}'"#,
            &[r#"result {"a":1}"#],
        ),
        (
            r#"say '{"jsonrpc":"2.0","id":'"$id"'.0,"result":{"content":[]}}'"#,
            &["result null"],
        ),
        (
            r#"say '{"result":{"content":null,"structuredContent":{}},"x":[1],"id":'"$id"',"jsonrpc":"2.0"}'"#,
            &["result {}"],
        ),
        (
            r#"say '{"params":{"message":"a","progress":1,"more":{},"progressToken":'"$id"'},"more":0,"jsonrpc":"2.0","method":"notifications/progress"}'; text b"#,
            &[r#"text "a""#, r#"result "b""#],
        ),
        (
            r#"say '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}'; text b"#,
            &[r#"result "b""#],
        ),
        (
            r#"say '[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'"$id"',"progress":1,"message":"a"}},{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[]}}]'"#,
            &[r#"text "a""#, "result null"],
        ),
        (
            r#"say '{"jsonrpc":"2.0","id":999999,"result":{}}'; say '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"who"}}'; text b"#,
            &[r#"result "b""#],
        ),
        (
            r#"say '{"jsonrpc":"2.0","id":'; say '[[['; text b"#,
            &[r#"result "b""#],
        ),
        (
            r#"progress 999999 1 lost; text b; text again; progress "$id" 2 late"#,
            &[r#"result "b""#],
        ),
        (
            r#"printf '{"jsonrpc":"2.0",'; printf '"id":%s,"res' "$id"; printf 'ult":{"content":[{"type":"text","text":"\303'; printf '\251"}]}}\n'"#,
            &[r#"result "é""#],
        ),
    ];
    run(async || {
        for (call, events) in table {
            let hub = hub();
            child::connect(&hub, &format!("call() {{ {call}; }}")).await;
            for _ in 0..2 {
                let seen = read(&mut hub.call_tool_stream("t", ())).await;
                assert_eq!(shown(&seen), events, "{call}");
            }
        }
    });
}

// Covers R-101.
#[test]
fn a_malformed_answer_ends_its_call_at_once_and_no_other() {
    // The members beside `jsonrpc`, and what is said of them.
    let table = [
        (
            r#""id":%s,"result":{},"error":{"code":1,"message":"m"}"#,
            "both",
        ),
        (r#""id":%s"#, "neither"),
        (r#""id":%s,"result":null"#, "not an object"),
        (r#""id":%s,"result":"text""#, "not an object"),
        (r#""id":%s,"error":"boom""#, "`error`"),
        (r#""id":%s,"error":{"message":"no code"}"#, "code"),
        (r#""id":%s,"error":null"#, "neither"),
    ];
    run(async || {
        for (members, says) in table {
            let hub = hub();
            let odd = format!(
                r#"
                call() {{
                    case $line in
                        *'"u"'*) waits=$id; progress "$id" 1 a ;;
                        *) printf '{{"jsonrpc":"2.0",{members}}}\n' "$id"; id=$waits; text ok ;;
                    esac
                }}
                "#
            );
            child::connect(&hub, &odd).await;
            let mut other = hub.call_tool_stream("u", ());
            assert_eq!(other.next().await.unwrap().text(), Some("a"));
            let error = hub.call_tool("t", ()).await.unwrap_err();
            assert!(
                matches!(error, Error::Protocol { .. }),
                "{members}: {error:?}"
            );
            let text = said(&error);
            assert!(
                text.starts_with("p/t: ") && text.contains(says),
                "{members}: {text}"
            );
            let rest = read(&mut other).await;
            assert_eq!(shown(&rest), [r#"result "ok""#], "{members}");
        }
        let hub = hub();
        let tolerated =
            r#"call() { say '{"jsonrpc":"2.0","id":'"$id"',"error":null,"result":{}}'; }"#;
        child::connect(&hub, tolerated).await;
        assert_eq!(hub.call_tool("t", ()).await.unwrap(), json!(null));
    });
}

#[test]
fn large_messages_pass_with_the_defaults() {
    run_once(async || {
        let hub = hub();
        let large = r#"
            long() { head -c "$1" /dev/zero | tr '\0' x; }
            call() {
                printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":"%s"}}\n' "$id" "$(long 2097152)"
                printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' "$id"
                long 8388608
                printf '"}]}}\n'
            }
        "#;
        child::connect(&hub, large).await;
        let events = read(&mut hub.call_tool_stream("t", ())).await;
        let lengths: Vec<_> = events.iter().map(|e| e.text().map(str::len)).collect();
        assert_eq!(lengths, [Some(2 << 20), Some(8 << 20)]);
    });
}

#[test]
fn what_comes_before_the_answer_of_the_opening_is_passed_over() {
    run(async || {
        let hub = hub();
        let early = r#"
            printf '\357\273\277{"jsonrpc":"2.0","method":"notifications/message","params":{}}\r\n'
            opening() {
                say '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}'
                say '{"jsonrpc":"2.0","id":77,"result":{}}'
                welcome
            }
        "#;
        child::connect(&hub, early).await;
        assert_eq!(hub.call_tool("t", ()).await.unwrap(), "4");
    });
}

#[test]
fn a_byte_order_mark_before_the_first_message_is_no_part_of_it() {
    run(async || {
        let hub = hub();
        let marked = r#"
            next; printf '\357\273\277'; discover
        "#;
        child::connect(&hub, marked).await;
    });
}

#[test]
fn requests_of_a_server_are_answered() {
    run(async || {
        let hub = hub();
        let asking = r#"
            call() {
                own=$id
                say '{"jsonrpc":"2.0","id":"p1","method":"ping"}'; next; ping=$line
                say '{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}'; next
                id=$own
                answer '{"structuredContent":{"ping":'"$ping"',"sampling":'"$line"'}}'
            }
        "#;
        child::connect(&hub, asking).await;
        let answers = hub.call_tool("t", ()).await.unwrap();
        assert_eq!(
            answers["ping"],
            json!({"jsonrpc": "2.0", "id": "p1", "result": {}})
        );
        assert_eq!(answers["sampling"]["id"], 7);
        assert_eq!(answers["sampling"]["error"]["code"], -32601);
    });
}

#[test]
fn a_changed_list_is_told_to_the_observer() {
    run(async || {
        let changes = Arc::new(Mutex::new(Vec::new()));
        let seen = changes.clone();
        let hub = AgentHubClient::builder().on_event(move |event| {
            if let HubEvent::Server { change, .. } = event {
                seen.lock().unwrap().push(*change);
            }
        });
        let hub = hub.build();
        let changing = r#"
            call() { say '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; text ok; }
        "#;
        child::connect(&hub, changing).await;
        hub.call_tool("t", ()).await.unwrap();
        let changes = || changes.lock().unwrap().clone();
        while !changes().contains(&ServerChange::ToolsListed) {
            tokio::task::yield_now().await;
        }
        let expected = [
            ServerChange::Connected,
            ServerChange::ToolsChanged,
            ServerChange::ToolsListed,
        ];
        assert_eq!(changes(), expected);
    });
}

// Covers R-1612.
#[test]
fn a_line_over_the_bound_ends_what_waits_and_the_child_goes_on() {
    run(async || {
        let hub = hub_with(|limits| limits.max_client_message_bytes = 100_000);
        let long = r#"
            note() { case $line in *notifications/cancelled*) cancels=$((cancels + 1)) ;; esac; }
            call() {
                case $line in
                    *'"u"'*) waits=$id; progress "$id" 1 a ;;
                    *'"long":true'*)
                        printf '{"jsonrpc":"2.0","id":%s,"result":"' "$id"
                        head -c 100001 /dev/zero | tr '\0' x
                        printf '"}\n' ;;
                    *) text "$cancels" ;;
                esac
            }
            cancels=0
        "#;
        let marker = child::connect(&hub, long).await;
        let pids = process::with(&marker);
        let mut waiting = hub.call_tool_stream("u", ());
        assert_eq!(waiting.next().await.unwrap().text(), Some("a"));
        let long = hub.call_tool("t", json!({"long": true})).await.unwrap_err();
        for error in [long, read(&mut waiting).await[0].error().unwrap().clone()] {
            let Error::Limit { what, max, .. } = &error else {
                panic!("{}", said(&error))
            };
            assert_eq!((*what, *max), ("max_client_message_bytes", 100_000));
        }
        assert_eq!(hub.call_tool("t", ()).await.unwrap(), "2", "both cancelled");
        assert_eq!(process::with(&marker), pids, "the same child");
    });
}

// Covers R-1601.
#[test]
fn a_line_break_in_raw_arguments_ends_no_line() {
    run(async || {
        let hub = hub();
        // Says whether the line has the end of the request too.
        let whole = r#"call() { case $line in *'{"a":'*'2'*'}}}') text "$lines" ;; esac; }"#;
        child::connect(&hub, whole).await;
        for (nth, arguments) in ["{\"a\":\n[1,\r\n\t2]\r}", "{\n\"a\":2}\n"]
            .iter()
            .enumerate()
        {
            let raw: Box<serde_json::value::RawValue> = serde_json::from_str(arguments).unwrap();
            let lines = hub.call_tool("t", raw).await.unwrap();
            assert_eq!(lines, (4 + nth).to_string(), "{arguments:?}");
        }
    });
}

// Covers R-112, R-1610.
#[test]
fn a_hundred_calls_at_once_each_get_their_own() {
    run_once(async || {
        let hub = hub();
        // Answers in the opposite order, once all are there, and with every spelling of an id.
        let turned = r#"
            call() {
                progress "$id" 1 "p$id"
                ids="$id $ids" count=$((count + 1))
                if [ "$count" = 100 ]; then
                    for n in $ids; do
                        case $((n % 3)) in 0) id=$n ;; 1) id="\"$n\"" ;; *) id=$n.0 ;; esac
                        text "r$n"
                    done
                fi
            }
            count=0
        "#;
        child::connect(&hub, turned).await;
        let calls = (0..100).map(|_| {
            let mut stream = hub.call_tool_stream("t", ());
            async move { read(&mut stream).await }
        });
        for events in futures_util::future::join_all(calls).await {
            assert_eq!(events[0].kind, EventKind::Text);
            let own = events[0].text().unwrap().strip_prefix('p').unwrap();
            assert_eq!(events[1].text().unwrap().strip_prefix('r').unwrap(), own);
        }
    });
}

#[test]
fn there_may_be_more_calls_than_the_pipe_holds() {
    run_once(async || {
        let hub = hub();
        child::connect(&hub, "").await;
        let calls = (0..3000).map(|_| hub.call_tool("t", ()).into_future());
        let mut lines = Vec::new();
        for result in futures_util::future::join_all(calls).await {
            lines.push(result.unwrap().as_str().unwrap().parse::<usize>().unwrap());
        }
        assert!(
            lines.is_sorted() && lines[0] == 4,
            "each got its own, in order"
        );
    });
}

#[test]
fn what_waits_for_a_child_that_does_not_read_is_bounded() {
    run_once(async || {
        let hub = hub_with(|limits| limits.max_client_message_bytes = 1 << 20);
        // Reads a first call, then nothing more.
        let marker = child::connect(
            &hub,
            r#"call() { progress "$id" 1 a; while :; do sleep 1000; done; }"#,
        )
        .await;
        let mut first = hub.call_tool_stream("t", ());
        assert_eq!(first.next().await.unwrap().text(), Some("a"));
        let big = json!({ "big": "x".repeat(1 << 18) });
        let mut waiting = Vec::new();
        let error = loop {
            let mut call = hub.call_tool_stream("t", &big);
            match call.next().now_or_never() {
                None => waiting.push(call),
                Some(event) => break event.unwrap(),
            }
            assert!(waiting.len() < 100, "nothing bounds it");
        };
        let Some(Error::Limit { what, .. }) = error.error() else {
            panic!("{error:?}")
        };
        assert_eq!(*what, "max_client_message_bytes");
        drop((first, waiting, hub));
        process::gone(&marker, &[]).await;
    });
}
