use proptest::prelude::*;

use super::*;

fn decoded(text: &str) -> Result<Incoming, Invalid> {
    decode(&Bytes::copy_from_slice(text.as_bytes()), 128)
}

/// A short rendering of what was decoded, for tables.
fn shown(text: &str) -> String {
    fn one(message: &Message) -> String {
        let raw = |raw: &Option<RawJson>| raw.as_ref().map_or("-", RawJson::as_str).to_owned();
        match message {
            Message::Notification(n) => format!("note {} {}", n.method, raw(&n.params)),
            Message::Request(r) => format!("req {} {} {}", r.id, r.method, raw(&r.params)),
            Message::Response(r) => {
                let id =
                    r.id.as_ref()
                        .map_or_else(|| "-".to_owned(), ToString::to_string);
                match &r.outcome {
                    Outcome::Error(e) => {
                        format!("err {id} {} {} {}", e.code.0, e.message, raw(&e.data))
                    }
                    Outcome::Malformed(_) => format!("bad {id}"),
                    Outcome::Result(result) => format!("ok {id} {}", result.as_str()),
                }
            }
        }
    }
    fn invalid(e: &Invalid) -> String {
        format!(
            "{} {}",
            e.code.0,
            e.id.as_ref()
                .map_or_else(|| "-".to_owned(), ToString::to_string)
        )
    }
    match decoded(text) {
        Ok(Incoming::One(message)) => one(&message),
        Ok(Incoming::Batch(members)) => {
            let members: Vec<String> = members
                .iter()
                .map(|m| m.as_ref().map_or_else(invalid, one))
                .collect();
            format!("[{}]", members.join("; "))
        }
        Err(e) => invalid(&e),
    }
}

// Covers R-101, R-102, R-103, R-105, R-107, R-109, R-111, R-1801, R-1803.
#[test]
fn messages_are_told_apart_by_their_members() {
    let table = [
        // Requests; the order of members and unknown ones do not matter.
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            "req 1 ping -",
        ),
        (
            r#"{"params":{"a":1},"x":[],"method":"m","id":"1","jsonrpc":"2.0"}"#,
            r#"req "1" m {"a":1}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#,
            "req 1 m -",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#,
            "req 1 m [1]",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"m\u0065thod":"p\u0069ng"}"#,
            "req 1 ping -",
        ),
        // Ids keep their spelling.
        (
            r#"{"jsonrpc":"2.0","id":"\u0041","method":"m"}"#,
            r#"req "\u0041" m -"#,
        ),
        (r#"{"jsonrpc":"2.0","id":"","method":"m"}"#, r#"req "" m -"#),
        (r#"{"jsonrpc":"2.0","id":0,"method":"m"}"#, "req 0 m -"),
        (r#"{"jsonrpc":"2.0","id":-5,"method":"m"}"#, "req -5 m -"),
        (
            r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"m"}"#,
            "req 9007199254740993 m -",
        ),
        (
            r#"{"jsonrpc":"2.0","id":9223372036854775807,"method":"m"}"#,
            "req 9223372036854775807 m -",
        ),
        // Ids that cannot be.
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, "-32600 -"),
        (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, "-32600 -"),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#, "-32600 -"),
        (
            r#"{"jsonrpc":"2.0","id":{"a":[1]},"method":"m"}"#,
            "-32600 -",
        ),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, "-32600 -"),
        (
            r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"m"}"#,
            "-32600 -",
        ),
        // Notifications.
        (r#"{"jsonrpc":"2.0","method":"n","params":{}}"#, "note n {}"),
        // Not a message, though the id is known.
        (r#"{"id":3,"method":"m"}"#, "-32600 3"),
        (r#"{"jsonrpc":"1.0","id":3,"method":"m"}"#, "-32600 3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":7}"#, "-32600 3"),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"m","result":{}}"#,
            "-32600 3",
        ),
        (r#"{"jsonrpc":"2.0"}"#, "-32600 -"),
        (
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
            "-32600 -",
        ),
        ("7", "-32600 -"),
        ("\"text\"", "-32600 -"),
        ("", "-32700 -"),
        ("{", "-32700 -"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#, "-32700 -"),
        // Responses.
        (
            r#"{"jsonrpc":"2.0","id":3,"result":{"a":1}}"#,
            r#"ok 3 {"a":1}"#,
        ),
        (r#"{"jsonrpc":"2.0","id":3,"result":null}"#, "ok 3 null"),
        (
            r#"{"jsonrpc":"2.0","id":3,"result":"text"}"#,
            r#"ok 3 "text""#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"error":null,"result":{}}"#,
            "ok 3 {}",
        ),
        (r#"{"jsonrpc":"2.0","id":3.0,"result":{}}"#, "ok 3 {}"),
        (r#"{"jsonrpc":"2.0","id":"3","result":{}}"#, r#"ok "3" {}"#),
        (
            r#"{"jsonrpc":"2.0","id":3,"result":{},"error":{"code":1,"message":"m"}}"#,
            "bad 3",
        ),
        (r#"{"jsonrpc":"2.0","id":3}"#, "bad 3"),
        (r#"{"jsonrpc":"2.0","id":3,"error":"boom"}"#, "bad 3"),
        (r#"{"jsonrpc":"2.0","id":3,"error":[1,"m"]}"#, "bad 3"),
        (r#"{"id":3,"result":{}}"#, "bad 3"),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m\n","data":[1]}}"#,
            "err - -32600 m\n [1]",
        ),
        (
            r#"{"jsonrpc":"2.0","error":{"code":-32600.0,"message":null}}"#,
            "err - -32600  -",
        ),
        (
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":1}}"#,
            r#"err "server-error" 1  -"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"result":null,"error":{"code":1,"message":"m"}}"#,
            "err 3 1 m -",
        ),
        // Batches.
        ("[]", "-32600 -"),
        ("[1]", "[-32600 -]"),
        (r#"[["2.0",1,"ping"]]"#, "[-32600 -]"),
        (
            r#" [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"n"},{"id":2}]"#,
            "[req 1 ping -; note n -; bad 2]",
        ),
        ("[", "-32700 -"),
    ];
    for (text, expected) in table {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn a_batch_has_a_bound_and_all_of_it_is_json() {
    let ones = |count: usize, end: &str| format!("[{}1{end}", "1,".repeat(count - 1));
    assert_eq!(shown(&ones(1_000, "]")).matches("-32600").count(), 1_000);
    assert_eq!(shown(&ones(1_001, "]")), "-32600 -");
    assert_eq!(shown(&ones(1_001, "")), "-32700 -");
    assert_eq!(shown(&ones(5_000, "] ]")), "-32700 -");
}

// Covers R-105.
#[test]
fn a_giant_id_is_refused_and_not_echoed() {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#,
        "x".repeat(2 << 20)
    );
    assert_eq!(shown(&text), "-32600 -");
}

// Covers R-1213.
#[test]
fn depth_is_bounded_everywhere_and_brackets_in_strings_do_not_count() {
    let nested = |n: usize| {
        let (open, close) = ("[".repeat(n), "]".repeat(n));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{open}{close}}}}}"#)
    };
    assert!(shown(&nested(126)).starts_with("req 1 m"));
    assert_eq!(shown(&nested(127)), "-32700 -");
    assert_eq!(shown(&nested(100_000)), "-32700 -");
    let quoted = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":"{}\"{}"}}}}"#,
        "[".repeat(500),
        "{".repeat(500)
    );
    assert!(shown(&quoted).starts_with("req 1 m"));
}

// Covers R-101.
#[test]
fn bytes_that_are_not_utf8_are_a_parse_error() {
    let invalid = decode(
        &Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"),
        128,
    );
    assert_eq!(invalid.unwrap_err().code, Code::PARSE);
}

#[test]
fn lone_surrogates_below_the_top_level_stay_raw() {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"t":"\ud83d"}}"#;
    assert_eq!(shown(text), r#"req 1 m {"t":"\ud83d"}"#);
}

#[test]
fn params_and_results_are_slices_of_the_message() {
    let bytes = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#);
    let Ok(Incoming::One(Message::Response(response))) = decode(&bytes, 128) else {
        panic!("a response");
    };
    let Outcome::Result(result) = response.outcome else {
        panic!("a result")
    };
    let at = result.as_str().as_ptr() as usize - bytes.as_ptr() as usize;
    assert_eq!(at, r#"{"jsonrpc":"2.0","id":1,"result":"#.len());
}

// Covers R-1601.
#[test]
fn what_is_serialized_is_one_line() {
    let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
    for (json, line) in [
        ("{\n  \"a\": [\r\n1]\r}", r#"{  "a": [1]}"#),
        (r#"{"a":"\n\r"}"#, r#"{"a":"\n\r"}"#),
        ("[1,\u{20}\t2]", "[1,\u{20}\t2]"),
    ] {
        let value = RawJson::serialized(&[raw(json)]).unwrap();
        assert_eq!(value.as_str(), format!("[{line}]"), "{json:?}");
    }
}

// Covers R-106, R-1803.
#[test]
fn an_id_answered_as_a_string_still_has_its_number() {
    for (id, number) in [
        ("7", Some(7)),
        ("\"7\"", Some(7)),
        ("\"x\"", None),
        ("7.0", Some(7)),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#);
        let Ok(Incoming::One(Message::Response(response))) = decoded(&text) else {
            panic!("{id}");
        };
        assert_eq!(response.id.and_then(|id| id.as_number()), number, "{id}");
    }
}

#[test]
fn every_prefix_of_a_message_is_a_parse_error() {
    let text = r#"{"jsonrpc":"2.0","id":"é\n","method":"m","params":{"a":["👋",{}]}}"#;
    for end in 0..text.len() {
        let bytes = Bytes::copy_from_slice(&text.as_bytes()[..end]);
        assert_eq!(decode(&bytes, 128).unwrap_err().code, Code::PARSE, "{end}");
    }
}

fn ids() -> impl Strategy<Value = RequestId> {
    prop_oneof![
        any::<i64>().prop_map(RequestId::Number),
        "\\PC{0,20}".prop_map(|text| {
            let raw = serde_json::to_string(&text).unwrap();
            RequestId::parse(&raw.into()).unwrap()
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same(id in ids(), text in "\\PC{0,40}", code in any::<i64>()) {
        let params = serde_json::json!({ "text": text });
        let request = encode_request(&id, "tools/call", &params);
        let Ok(Incoming::One(Message::Request(back))) = decode(&request, 128) else {
            panic!("a request");
        };
        prop_assert_eq!(&back.id, &id);
        prop_assert_eq!(back.params.unwrap().deserialize::<serde_json::Value>().unwrap(), params.clone());

        let mut out = Vec::new();
        let data = RawJson::serialized(&params).unwrap();
        let error = ErrorObject { code: Code(code), message: text.into(), data: Some(data) };
        encode_error(&mut out, Some(&id), &error);
        let Ok(Incoming::One(Message::Response(back))) = decode(&out.into(), 128) else {
            panic!("a response");
        };
        prop_assert_eq!(back.id, Some(id.clone()));
        let Outcome::Error(read) = back.outcome else { panic!("an error") };
        prop_assert_eq!(read.code, error.code);
        prop_assert_eq!(read.message, error.message);
        prop_assert_eq!(read.data, error.data);

        let mut out = Vec::new();
        encode_result(&mut out, &id, &params.to_string());
        let Ok(Incoming::One(Message::Response(back))) = decode(&out.into(), 128) else {
            panic!("a response");
        };
        let Outcome::Result(read) = back.outcome else { panic!("a result") };
        prop_assert_eq!(read.as_str(), params.to_string());
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes.into(), 8);
    }
}

#[test]
fn a_method_and_an_id_without_escapes_are_slices_of_the_message() {
    for (json, is_slice) in [
        (
            r#"{"jsonrpc":"2.0","id":"abc","method":"tools/list"}"#,
            true,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"\u0061","method":"tools\/list"}"#,
            false,
        ),
    ] {
        let bytes = Bytes::from_static(json.as_bytes());
        let Ok(Incoming::One(Message::Request(request))) = decode(&bytes, 128) else {
            panic!("{json}");
        };
        let RequestId::Text { value, .. } = &request.id else {
            panic!("{json}");
        };
        let range = bytes.as_ptr_range();
        for part in [&request.method, value] {
            assert_eq!(range.contains(&part.as_ptr()), is_slice, "{part} of {json}");
        }
    }
}
