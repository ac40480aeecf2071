//! A server over lines: what it answers, and that it writes nothing else.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::raw::{Raw, call, cancel, initialize, quiet, stated, text};
use crate::run_once;

// Covers R-406, R-411, R-1602.
#[test]
fn a_session_begins_with_its_opening() {
    run_once(async || {
        let mut raw = Raw::start();
        // What is written, and the code of the error or the result that comes back.
        let table = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, json!({})),
            (
                r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
                json!(-32602),
            ),
            (&call(3, "echo", json!({"text": "a"})), json!(-32602)),
            (
                r#"{"jsonrpc":"2.0","id":"4","method":"ping","params":{}}"#,
                json!({}),
            ),
            (
                r#"{"jsonrpc":"2.0","id":4,"method":"ping","params":null}"#,
                json!({}),
            ),
        ];
        for (line, expected) in table {
            raw.write(line).await;
            let answer = raw.json().await;
            let given = [&answer["result"], &answer["error"]["code"]];
            assert!(given.contains(&&expected), "{line}: {answer}");
        }
        raw.write(&initialize("init")).await;
        let answer = raw.json().await;
        assert_eq!(answer["id"], "init");
        assert_eq!(answer["result"]["capabilities"], json!({"tools": {}}));
        // A call may come before the note that completes the opening.
        raw.write(&quiet(5, "echo", json!({"text": "a"}))).await;
        assert_eq!(text(&raw.json().await), "a");
        raw.write(&initialize(6)).await;
        let answer = raw.json().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(6), &json!(-32600))
        );
        raw.write(r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#)
            .await;
        let answer = raw.json().await;
        let tools = answer["result"]["tools"].as_array().unwrap();
        assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{answer}");
        assert_eq!(raw.close().await, "");
    });
}

// Covers R-105, R-108, R-116, R-201, R-1602, R-1603.
#[test]
fn each_line_has_its_answer_or_none() {
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}{}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let deep_id = deep.replace(r#""id":1"#, &format!(r#""id":{}"#, "[".repeat(5000)));
    // What is written, and the answer's id and code; `None` where there is none.
    type Expected = Option<(Value, i64)>;
    let long_id = format!(
        r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#,
        "x".repeat(2 << 20)
    );
    let table: [(&[u8], Expected); 28] = [
        (long_id.as_bytes(), Some((Value::Null, -32600))),
        (b"{", Some((Value::Null, -32700))),
        (b"[", Some((Value::Null, -32700))),
        (b"{oops}", Some((Value::Null, -32700))),
        (b"  {\"jsonrpc\":\"2.0\",", Some((Value::Null, -32700))),
        (b"{\"a\":\"\xff\"}", Some((Value::Null, -32700))),
        (deep.as_bytes(), Some((Value::Null, -32700))),
        (deep_id.as_bytes(), Some((Value::Null, -32700))),
        (b"{}", Some((Value::Null, -32600))),
        (b"[]", Some((Value::Null, -32600))),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Some((Value::Null, -32600))),
        (br#"{"jsonrpc":"2.0","id":{"a":[1]},"method":"ping"}"#, Some((Value::Null, -32600))),
        (br#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, Some((Value::Null, -32600))),
        (br#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, Some((Value::Null, -32600))),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Some((Value::Null, -32600))),
        (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Some((Value::Null, -32600))),
        (br#"{"jsonrpc":"2.0","id":7,"method":"no/such"}"#, Some((json!(7), -32601))),
        (br#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"no-such"}}"#, Some((json!(8), -32602))),
        (br#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"echo","arguments":"{}"}}"#, Some((json!(8), -32602))),
        (br#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"echo","arguments":[1]}}"#, Some((json!(8), -32602))),
        (br#"{"jsonrpc":"2.0","method":"no/such"}"#, None),
        (br#"{"jsonrpc":"2.0","id":99,"result":{}}"#, None),
        (br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#, None),
        (b"npm WARN deprecated", None),
        (b"\"text\", 1, null", None),
        (b"\xff\xfe\x00", None),
        (b"", None),
        (b" \t\r", None),
    ];
    run_once(async || {
        let mut raw = Raw::opened().await;
        for (line, expected) in &table {
            let shown = String::from_utf8_lossy(&line[..line.len().min(100)]);
            raw.write_bytes(line).await;
            raw.write_bytes(b"\n{\"jsonrpc\":\"2.0\",\"id\":\"next\",\"method\":\"ping\"}\r\n")
                .await;
            let mut answer = raw.json().await;
            if let Some((id, code)) = expected {
                assert_eq!(
                    (&answer["id"], &answer["error"]["code"]),
                    (id, &json!(code)),
                    "{shown}: {answer}"
                );
                answer = raw.json().await;
            }
            assert_eq!(answer["id"], "next", "{shown}: {answer}");
        }
        assert_eq!(raw.close().await, "");
    });
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_message() {
    run_once(async || {
        let mut raw = Raw::start();
        raw.write_bytes(b"\xEF\xBB\xBF").await;
        raw.open().await;
        assert_eq!(raw.close().await, "");
    });
}

// Covers R-104.
#[test]
fn ids_come_back_as_they_were() {
    let long = format!("\"{}\"", "é".repeat(100));
    let ids = [
        r#""1""#,
        r#""init-1""#,
        r#""""#,
        "0",
        "-5",
        "4294967296",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        &long,
        r#""\"\\\u0000""#,
    ];
    run_once(async || {
        let mut raw = Raw::opened().await;
        for id in ids {
            for (method, member) in [("ping", "result"), ("no/such", "error")] {
                raw.write(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#
                ))
                .await;
                let line = raw.line().await;
                let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":"#);
                assert!(line.starts_with(&start), "{id}: {line}");
            }
        }
        assert_eq!(raw.close().await, "");
    });
}

// Covers R-802, R-805, R-1601.
#[test]
fn every_event_is_a_line_before_the_result() {
    run_once(async || {
        let mut raw = Raw::opened().await;
        raw.write(&call("t", "count", json!({"n": 3, "size": 2})))
            .await;
        for n in 1..=3 {
            let line = format!(
                concat!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"t","#,
                    r#""progress":{n},"message":"{{\"v\":1,\"type\":\"text\",\"content\":\"{n} xx\",\"node\":\"n\"}}"}}}}"#
                ),
                n = n
            );
            assert_eq!(raw.line().await, line);
        }
        let result =
            r#"{"jsonrpc":"2.0","id":"t","result":{"content":[{"text":"counted","type":"text"}]}}"#;
        assert_eq!(raw.line().await, result);
        raw.write(&quiet(2, "count", json!({"n": 3, "size": 2})))
            .await;
        assert_eq!(text(&raw.json().await), "counted", "no token, no events");
        assert_eq!(raw.close().await, "");
    });
}

// Covers R-711, R-804.
#[test]
fn nothing_of_a_call_follows_its_result() {
    // The tool, its result, how often, and what it says when it learns that its stream is closed.
    let table = [
        ("late", "early", 50, Some("closed")),
        ("clock", "early", 2, Some("closed")),
        ("count", "counted", 2, None),
    ];
    run_once(async || {
        let mut raw = Raw::opened().await;
        for (tool, result, times, said) in table {
            for id in 0..times {
                let request = call(id, tool, json!({"n": 1000, "size": 1}));
                // In the session and beside it, in turn.
                let request = match id % 2 {
                    0 => request,
                    _ => stated(&request),
                };
                raw.write(&request).await;
                let mut numbers = 0;
                let mut answer = raw.json().await;
                while answer["method"] == "notifications/progress" {
                    numbers += 1;
                    assert_eq!(answer["params"]["progressToken"], id, "{tool}: {answer}");
                    assert_eq!(answer["params"]["progress"], numbers, "{tool}: {answer}");
                    answer = raw.json().await;
                }
                assert_eq!((&answer["id"], text(&answer)), (&json!(id), result));
                match said {
                    Some(said) => raw.until_said(said).await,
                    None => assert_eq!(numbers, 1000, "{tool}"),
                }
                // Its id is free, and nothing stands before the next answer.
                raw.write(r#"{"jsonrpc":"2.0","id":"next","method":"ping"}"#)
                    .await;
                assert_eq!(raw.json().await["id"], "next", "{tool}");
            }
        }
        assert_eq!(raw.close().await, "");
    });
}

// Covers R-802.
#[test]
fn any_token_that_is_one_comes_back_as_it_was() {
    run_once(async || {
        let mut raw = Raw::opened().await;
        for token in [json!(0), json!(""), json!("0"), json!(-7)] {
            let mut request: Value =
                serde_json::from_str(&call("c", "count", json!({"n": 1, "size": 1}))).unwrap();
            request["params"]["_meta"]["progressToken"] = token.clone();
            for request in [request.to_string(), stated(&request.to_string())] {
                raw.write(&request).await;
                let event = raw.json().await;
                assert_eq!(event["params"]["progressToken"], token, "{event}");
                assert_eq!(raw.json().await["id"], "c", "{token}");
            }
        }
        assert_eq!(raw.close().await, "");
    });
}

// Covers R-112, R-907, R-1610.
#[test]
fn a_slow_call_holds_nothing_up_and_a_cancel_drops_it() {
    run_once(async || {
        let mut raw = Raw::opened().await;
        raw.write(&call(1, "hold", json!({}))).await;
        assert_eq!(raw.json().await["params"]["progressToken"], 1);
        assert_eq!(raw.said().await, "held");
        // None of these means the call.
        for line in [
            cancel("1"),
            cancel(2),
            cancel(json!(null)),
            cancel(json!({"a": 1})),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#.to_owned(),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#.to_owned(),
            quiet(4, "echo", json!({"text": "fast"})),
        ] {
            raw.write(&line).await;
        }
        assert_eq!(
            raw.json().await,
            json!({"jsonrpc": "2.0", "id": 3, "result": {}})
        );
        assert_eq!(text(&raw.json().await), "fast");
        raw.write(&cancel(1)).await;
        assert_eq!(raw.said().await, "dropped");
        raw.write(&cancel(1)).await;
        raw.write(&quiet(1, "echo", json!({"text": "the id is free"})))
            .await;
        assert_eq!(
            text(&raw.json().await),
            "the id is free",
            "no answer came before"
        );
        assert_eq!(raw.close().await, "");
    });
}

#[test]
fn a_call_that_is_one_too_many_is_refused_and_the_session_lives() {
    run_once(async || {
        let mut raw = Raw::opened().await;
        for id in 0..64 {
            raw.write(&quiet(id, "hold", json!({}))).await;
            assert_eq!(raw.said().await, "held");
        }
        raw.write(&quiet(64, "echo", json!({"text": "a"}))).await;
        let answer = raw.json().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(64), &json!(-32603))
        );
        raw.write(&cancel(17)).await;
        assert_eq!(raw.said().await, "dropped");
        raw.write(&quiet(65, "echo", json!({"text": "b"}))).await;
        assert_eq!(text(&raw.json().await), "b");
        raw.signal("TERM");
        raw.signal("TERM");
        let (rest, status) = raw.end().await;
        assert!(status.success(), "{status}");
        assert_eq!(rest.lines().count(), 63, "each that ran is told: {rest}");
    });
}

#[test]
fn a_tool_that_panics_ends_its_call_alone() {
    run_once(async || {
        let mut raw = Raw::opened().await;
        raw.write(&quiet(1, "panic", json!({}))).await;
        let answer = raw.json().await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        raw.write(&quiet(2, "echo", json!({"text": "a"}))).await;
        assert_eq!(text(&raw.json().await), "a");
        assert_eq!(raw.close().await, "");
    });
}

#[test]
fn any_text_comes_back_as_it_was() {
    let cjk = format!("\"{}\"", "漢".repeat(350_000));
    // As JSON, and what it means.
    let table = [
        (r#""\ud83d\ude00""#, "😀"),
        (r#""😀""#, "😀"),
        (r#""a\u0000b""#, "a\0b"),
        (r#""\u2028\u2029""#, "\u{2028}\u{2029}"),
        (r#""e\u0301""#, "e\u{301}"),
        (r#""\n\r\t\"\\\/""#, "\n\r\t\"\\/"),
        (r#""\u001b[31m""#, "\u{1b}[31m"),
        (&cjk, cjk.trim_matches('"')),
    ];
    run_once(async || {
        let mut raw = Raw::opened().await;
        for (json, expected) in table {
            raw.write(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":{json}}}}}}}"#
            ))
            .await;
            assert!(
                text(&raw.json().await) == expected,
                "{}",
                &json[..json.len().min(30)]
            );
        }
        // What is missing is an empty object, and a field that is missing in it is named.
        for arguments in ["", r#","arguments":null"#, r#","arguments":{}"#] {
            raw.write(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo"{arguments}}}}}"#
            ))
            .await;
            let answer = raw.json().await;
            assert_eq!(answer["result"]["isError"], true, "{answer}");
            assert!(text(&answer).contains("`text`"), "{answer}");
        }
        // Half a pair is an error of the caller.
        raw.write(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"\ud83d"}}}"#)
            .await;
        let answer = raw.json().await;
        assert_eq!(
            (&answer["id"], &answer["result"]["isError"]),
            (&json!(1), &json!(true)),
            "{answer}"
        );
        assert_eq!(raw.close().await, "");
    });
}

// Covers R-1612.
#[test]
fn a_line_over_the_bound_is_refused_and_the_next_one_is_taken() {
    const MAX: usize = 16 * 1024 * 1024;
    run_once(async || {
        let mut raw = Raw::opened().await;
        let with_length = |length: usize| {
            let line = quiet(1, "echo", json!({"text": ""}));
            let (start, end) = line.split_at(line.find(r#""text":""#).unwrap() + 8);
            format!("{start}{}{end}\n", "a".repeat(length - line.len()))
        };
        for (length, fits) in [(MAX, true), (MAX + 1, false), (2 * MAX + 7, false)] {
            let line = with_length(length);
            let mut stdin = raw.stdin.take().unwrap();
            let writing = async {
                stdin.write_all(line.as_bytes()).await.unwrap();
                stdin
            };
            let (stdin, answer) = tokio::join!(writing, raw.json());
            raw.stdin = Some(stdin);
            if fits {
                assert!(text(&answer).len() > MAX - 200, "{length}");
            } else {
                assert_eq!(
                    (&answer["id"], &answer["error"]["code"]),
                    (&Value::Null, &json!(-32600)),
                    "{length}"
                );
                let message = answer["error"]["message"].as_str().unwrap();
                assert!(message.contains("max_server_message_bytes"), "{message}");
            }
            raw.write(&quiet(2, "echo", json!({"text": "next"}))).await;
            assert_eq!(text(&raw.json().await), "next", "{length}");
        }
        assert_eq!(raw.close().await, "");
    });
}

/// The memory that a process holds, in bytes.
fn memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    words[1].parse::<usize>().unwrap() * 1024
}

#[test]
fn a_client_that_never_reads_costs_a_bounded_amount() {
    const MIB: usize = 1024 * 1024;
    run_once(async || {
        let mut raw = Raw::opened().await;
        let pid = raw.child.id().unwrap();
        // Twenty that would say a gigabyte each; none gets to its end.
        for id in 0..20 {
            raw.write(&call(id, "count", json!({"n": 1 << 20, "size": 1000})))
                .await;
        }
        // Answers that are ready at once, as many as are taken. It is not taken for ever.
        let echo = quiet("e", "echo", json!({"text": "x".repeat(MIB)})) + "\n";
        let mut stdin = raw.stdin.take().unwrap();
        let mut taken = 0;
        while let Ok(written) =
            tokio::time::timeout(Duration::from_secs(1), stdin.write_all(echo.as_bytes())).await
        {
            written.unwrap();
            taken += 1;
            assert!(taken < 200, "nothing held the client up");
        }
        let held = memory(pid);
        assert!(held < 200 * MIB, "{} MiB are held", held / MIB);
        // Told to go, it does not wait for the client for ever.
        raw.signal("TERM");
        raw.signal("TERM");
        let status = raw.child.wait().await.unwrap();
        assert!(status.success(), "{status}");
    });
}
