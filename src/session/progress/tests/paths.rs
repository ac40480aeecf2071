//! The fast paths give what the general path gives, whatever comes.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::wire::jsonrpc::{self, Incoming, Message};

const MAX_DEPTH: usize = 6;

fn general(message: &Bytes) -> Option<(i64, StreamEvent)> {
    match jsonrpc::decode(message, MAX_DEPTH) {
        Ok(Incoming::One(Message::Notification(note)))
            if *note.method == *"notifications/progress" =>
        {
            let (token, event) = decode_progress(&note.params?)?;
            Some((token.as_number()?, event))
        }
        _ => None,
    }
}

/// All that can be seen of an event, and whether `raw` had to be copied.
fn seen((token, event): &(i64, StreamEvent)) -> impl PartialEq + std::fmt::Debug + use<> {
    let progress = event.progress().unwrap();
    (
        *token,
        event.kind.clone(),
        event.content.clone(),
        event.node.clone(),
        (progress.number.to_bits(), progress.total.map(f64::to_bits)),
        event.raw().map(|raw| raw.into_owned()),
        event.weight(),
    )
}

/// What the decoder gives for each message, by way of `decoder`.
fn check(decoder: &mut ProgressDecoder, message: &str) -> Result<bool, TestCaseError> {
    let message = Bytes::copy_from_slice(message.as_bytes());
    let found = decoder.decode(message.clone()).ok();
    let scanned = ProgressDecoder::new(MAX_DEPTH).decode(message.clone()).ok();
    prop_assert_eq!(found.as_ref().map(seen), scanned.as_ref().map(seen));
    if let Some(found) = &found {
        prop_assert_eq!(Some(seen(found)), general(&message).as_ref().map(seen));
    }
    Ok(found.is_some())
}

fn checked(decoder: &mut ProgressDecoder, message: &str) -> bool {
    check(decoder, message).unwrap_or_else(|e| panic!("{message}: {e}"))
}

fn notification(inner: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":7,"progress":5,"message":"{inner}"}}}}"#
    )
}

#[test]
fn what_peers_write_needs_no_general_path() {
    for message in [
        notification("plain"),
        notification(""),
        notification(r"plain \u00e9\n\\ and so on"),
        notification(r#" \n{\"v\":1,\"type\":\"text\",\"content\":\"あ\",\"node\":\"n\"} \t"#),
        notification(r#"{\"type\":\"t\",\"content\":\"a\\\"b\\\\c\\n\\u00e9\\ud83d\\ude00\\ud83d\"}"#),
        notification(r#"{\"type\":\"t\",\"content\":\"\u00e9\ud83d\ude00\ud83d\/\\/\\\/\"}"#),
        notification(r#"{\"type\":\"t\",\"content\":{\"a\":[1,{}],\"b\\n\":null}}"#),
        notification(r#"{ \"content\" : null , \"type\" : \"done\" , \"node\" : 7 }"#),
        notification(r#"{\"type\":\"result\",\"content\":1e999,\"more\":[[\"\"]]}"#),
        notification(r#"{\"type\":\"a\",\"type\":\"b\",\"content\":1,\"content\":2}"#),
        r#" { "params" : { "message" : "a" , "_meta" : {"x":[]} , "total" : 9 , "progress" : 1.5e1 ,
            "progressToken" : "7" } , "method" : "notifications/progress" , "x" : "\u0000\"" ,
            "jsonrpc" : "2.0" } "#
            .to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"message":"a"}}"#
            .to_owned(),
    ] {
        assert!(checked(&mut ProgressDecoder::new(MAX_DEPTH), &message), "{message}");
    }
}

#[test]
fn what_is_unusual_is_left_to_the_general_path() {
    for message in [
        notification(r"\u007b"),
        notification(r#"{\"type\":\"a\"#),
        notification(r#"{\"type\":7}"#),
        notification(r#"{\"content\":7}"#),
        notification(r#"{\"t\\u0079pe\":\"a\",\"type\":\"b\"}"#),
        notification(r#"{\"type\":\"\u0041\"}"#),
        notification(r#"{\"type\":\"a\\x\"}"#),
        notification(r#"{\"type\":\"a\nb\"}"#),
        notification("a").replace("\"2.0\"", "\"2.1\""),
        notification("a").replace("jsonrpc", "jsonrpcs"),
        notification("a").replace("params", "par\\u0061ms"),
        notification("a").replace("notifications/progress", "notifications/message"),
        notification("a").replace("\"message\"", "\"message\":null,\"message\""),
        notification("a").replace("{\"jsonrpc", "{\"id\":1,\"jsonrpc"),
        notification("a").replace(":7", ":7.0"),
        notification("a").replace(":7", ":[[[[[[7]]]]]]"),
        notification("a").replace(":7,", ":7,\"x\":[[[[[]]]]],"),
        notification("a").replace("\"a\"", "7"),
        notification("a").replace("{\"progress", "[\"progress"),
        format!("[{}]", notification("a")),
        format!("{}x", notification("a")),
        String::new(),
    ] {
        assert!(
            !checked(&mut ProgressDecoder::new(MAX_DEPTH), &message),
            "{message}"
        );
    }
}

#[test]
fn what_nests_too_deep_is_left_to_the_general_path() {
    let flat = Bytes::from(notification("a"));
    for (max_depth, taken) in [(0, false), (1, false), (2, true), (1000, true)] {
        let found = ProgressDecoder::new(max_depth).decode(flat.clone());
        assert_eq!(found.is_ok(), taken, "{max_depth}");
        assert_eq!(
            jsonrpc::decode(&flat, max_depth).is_ok(),
            taken,
            "{max_depth}"
        );
    }
}

#[test]
fn the_next_event_of_a_stream_may_differ_in_anything() {
    let envelope = |content: &str| {
        notification(&format!(
            r#"{{\"v\":1,\"type\":\"mine\",\"content\":\"{content}\",\"node\":\"my-node\"}}"#
        ))
    };
    let first = envelope("first");
    for next in [
        envelope(""),
        envelope("other"),
        envelope("あ"),
        envelope(r"a\\nb"),
        envelope(r"a\nb"),
        envelope("first").replace(":5", ":6"),
        envelope("first").replace(":5", ":123456789012345"),
        envelope("first").replace(":5", ":1234567890123456"),
        envelope("first").replace(":5", ":0"),
        envelope("first").replace(":5", ":05"),
        envelope("first").replace(":5", ":5.5"),
        envelope("first").replace(":5", ":-5"),
        envelope("first").replace(":5", ":"),
        envelope("first").replace(":5", ":5,\"total\":9"),
        envelope("first").replace("mine", "yours"),
        envelope("first").replace("node", "nodes"),
        envelope("first").replace("}\"}}", "}\"}"),
        envelope("first").replace("}\"}}", "}\"}}}"),
        envelope("first").replace(r#"\"first\""#, "{}"),
        envelope("first").replace(r#"\"first\""#, "null"),
        envelope("first").replace(r#"\"first\""#, "\"first\""),
        first[..first.len() / 2].to_owned(),
        "{}".to_owned(),
        "plain".to_owned(),
        String::new(),
    ] {
        let mut decoder = ProgressDecoder::new(MAX_DEPTH);
        assert!(checked(&mut decoder, &first));
        assert!(decoder.remembers() > 0);
        checked(&mut decoder, &next);
        checked(&mut decoder, &first);
        checked(&mut decoder, &next);
    }
}

#[test]
fn what_surrounds_an_event_is_remembered_up_to_a_bound_only() {
    let text = r#"{\"type\":\"text\",\"content\":\"a\"}"#;
    let mut decoder = ProgressDecoder::new(MAX_DEPTH);
    assert!(checked(&mut decoder, &notification(text)));
    assert!(decoder.remembers() > 0);
    let large = format!(r#""x":"{}","message""#, "x".repeat(1 << 20));
    assert!(checked(
        &mut decoder,
        &notification(text).replace("\"message\"", &large)
    ));
    assert_eq!(decoder.remembers(), 0);
}

/// Text as it stands between quotes, with escapes of many kinds, right and wrong.
fn escaped() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "a",
        " ",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "あ",
        "\u{2028}",
        r#"\""#,
        r"\\",
        r"\n",
        r"\/",
        r"\u0041",
        r"\u0022",
        r"\u005c",
        r"\u00e9",
        r"\ud83d",
        r"\ude00",
        r"\ud83d\ude00",
        r#"\\\""#,
        r"\\\\",
        r"\\n",
        r"\\u00e9",
        r"\\ud83d",
        r"\\ude00",
        r"\\\/",
        r"\\x",
        r"\x",
        "\\",
        "\"",
        "\n",
        "null",
        "1",
        r#"\"type\""#,
        r#"\"content\""#,
        r#"\"node\""#,
    ]);
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// A text escaped as peers do: once or twice, and as little or as much as they like.
fn inside(text: &str, twice: bool, ascii: bool) -> String {
    let escape = |text: &str| {
        let json = serde_json::to_string(text).unwrap();
        let inner = &json[1..json.len() - 1];
        if !ascii {
            return inner.to_owned();
        }
        let mut out = String::new();
        for c in inner.chars() {
            if c.is_ascii() {
                out.push(c);
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
        out
    };
    let once = escape(text);
    if twice { escape(&once) } else { once }
}

fn members(members: Vec<String>, order: &[Index], space: &str) -> String {
    let mut rest = members;
    let mut out = Vec::new();
    for index in order {
        if rest.is_empty() {
            break;
        }
        let at = index.index(rest.len());
        out.push(rest.remove(at));
    }
    out.extend(rest);
    format!(
        "{{{space}{}{space}}}",
        out.join(&format!("{space},{space}"))
    )
}

prop_compose! {
    fn contents()(
        text in ".{0,12}",
        wild in escaped(),
        ascii in any::<bool>(),
        which in 0..6,
    ) -> String {
        match which {
            0..3 => format!(r#"\"{}\""#, inside(&text, true, ascii)),
            3 => format!(r#"\"{wild}\""#),
            4 => wild,
            _ => r#"{\"a\":[1,\"b\"]}"#.to_owned(),
        }
    }
}

prop_compose! {
    fn envelopes()(
        content in contents(),
        kind in select(vec![r#"\"text\""#, r#"\"mine\""#, r#"\"result\""#, r#"\"a\\nb\""#, "7"]),
        node in select(vec![None, Some(r#"\"n\""#), Some(r#"\"a\\\"b\""#), Some("null")]),
        extra in select(vec![None, Some(r#"\"x\":[[]]"#), Some(r#"\"type\":\"log\""#), Some(r#"\"\\u0074ype\":\"log\""#)]),
        order in vec(any::<Index>(), 0..4),
        space in select(vec!["", "", " ", r"\n "]),
    ) -> String {
        let mut all = vec![r#"\"v\":1"#.to_owned(), format!(r#"\"type\":{kind}"#), format!(r#"\"content\":{content}"#)];
        all.extend(node.map(|node| format!(r#"\"node\":{node}"#)));
        all.extend(extra.map(str::to_owned));
        members(all, &order, space)
    }
}

prop_compose! {
    fn notifications()(
        inner in prop_oneof![4 => envelopes(), 1 => escaped()],
        token in select(vec!["7", "7", "\"7\"", "7.0", "-1", "null", "\"\\u0037\"", "\"x\""]),
        number in prop_oneof![
            3 => (0..3000_u64).prop_map(|number| number.to_string()),
            1 => select(vec!["1.5", "-0", "01", "1e3", "null", "\"5\"", "12345678901234567", "1e999"]).prop_map(str::to_owned),
        ],
        total in select(vec![None, None, Some("10"), Some("null"), Some("2.50")]),
        extra in select(vec![None, None, Some("\"_meta\":{\"a\":[{}]}"), Some("\"x\":\"\\ud800\""), Some("\"deep\":[[[[[[]]]]]]"), Some("\"progress\":1")]),
        outer in select(vec![None, None, Some("\"id\":1"), Some("\"more\":{}"), Some("\"result\":null")]),
        orders in vec(any::<Index>(), 0..8),
        space in select(vec!["", "", " ", "\n\t"]),
    ) -> String {
        let mut params = vec![
            format!("\"progressToken\":{token}"),
            format!("\"progress\":{number}"),
            format!("\"message\":\"{inner}\""),
        ];
        params.extend(total.map(|total| format!("\"total\":{total}")));
        params.extend(extra.map(str::to_owned));
        let (first, second) = orders.split_at(orders.len() / 2);
        let mut all = vec![
            "\"jsonrpc\":\"2.0\"".to_owned(),
            "\"method\":\"notifications/progress\"".to_owned(),
            format!("\"params\":{}", members(params, first, space)),
        ];
        all.extend(outer.map(str::to_owned));
        members(all, second, space)
    }
}

/// Replaces one character, or takes it out.
fn change(text: &str, at: Index, instead: &str) -> String {
    let Some((at, old)) = text
        .char_indices()
        .nth(at.index(text.chars().count().max(1)))
    else {
        return instead.to_owned();
    };
    let mut text = text.to_owned();
    text.replace_range(at..at + old.len_utf8(), instead);
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn all_paths_agree_about_any_stream(
        start in notifications(),
        changes in vec((any::<Index>(), select(vec!["", "0", "1", "9", "\\", "\"", "{", "}", "あ", "\\\\", "\\\"", " ", "\n", ",", "a"])), 0..6),
        others in vec(notifications(), 0..3),
    ) {
        let mut decoder = ProgressDecoder::new(MAX_DEPTH);
        check(&mut decoder, &start)?;
        let mut text = start.clone();
        for (at, instead) in changes {
            check(&mut decoder, &change(&start, at, instead))?;
            check(&mut decoder, &start)?;
            text = change(&text, at, instead);
            check(&mut decoder, &text)?;
        }
        for other in others {
            check(&mut decoder, &other)?;
            check(&mut decoder, &start)?;
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_left_to_the_general_path(start in notifications(), at in any::<Index>(), byte in 0x80_u8..) {
        let mut decoder = ProgressDecoder::new(MAX_DEPTH);
        check(&mut decoder, &start)?;
        let mut bytes = start.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let bytes = Bytes::from(bytes);
        let found = decoder.decode(bytes.clone()).ok();
        if let Some(found) = &found {
            prop_assert_eq!(Some(seen(found)), general(&bytes).as_ref().map(seen));
        }
    }
}
