use proptest::prelude::*;

use super::*;

const WHAT: &str = "max_server_message_bytes";

/// What a decoder has to say: a line, or the name of the limit.
type Seen = Result<Vec<u8>, &'static str>;

fn drain(decoder: &mut LineDecoder, seen: &mut Vec<Seen>) {
    loop {
        match decoder.next_line() {
            Ok(Some(line)) => seen.push(Ok(line.to_vec())),
            Ok(None) => return,
            Err(Error::Limit { what, .. }) => seen.push(Err(what)),
            Err(other) => panic!("not a limit: {other:?}"),
        }
    }
}

/// Everything in `bytes`, pushed in pieces of `size`, and the unfinished line at the end.
fn decode(max: usize, bytes: &[u8], size: usize) -> Vec<Seen> {
    let mut decoder = LineDecoder::new(WHAT, max);
    let mut seen = Vec::new();
    for push in bytes.chunks(size) {
        decoder.push(Bytes::copy_from_slice(push));
        drain(&mut decoder, &mut seen);
    }
    seen.extend(decoder.finish().map(|line| Ok(line.to_vec())));
    seen
}

// Covers R-1601, R-1612.
#[test]
fn a_stream_falls_into_lines() {
    const OVER: Result<&str, &str> = Err(WHAT);
    let cases: &[(&str, &[Result<&str, &str>])] = &[
        ("", &[]),
        ("{}\n", &[Ok("{}")]),
        ("{}\n[]\n", &[Ok("{}"), Ok("[]")]),
        ("{}\r\n[]\r\n", &[Ok("{}"), Ok("[]")]),
        ("\n\n\r\n \t\n{}\n\n", &[Ok("{}")]),
        (" {} \n", &[Ok(" {} ")]),
        ("a\rb\n", &[Ok("a\rb")]),
        ("a\r\r\n", &[Ok("a\r")]),
        ("a\u{2028}b\n", &[Ok("a\u{2028}b")]),
        // Byte order mark.
        ("\u{feff}{}\n", &[Ok("{}")]),
        ("\u{feff}\n{}\n", &[Ok("{}")]),
        ("{}\n\u{feff}{}\n", &[Ok("{}"), Ok("\u{feff}{}")]),
        // Nothing ends the last line.
        ("{}", &[Ok("{}")]),
        ("{}\r", &[Ok("{}")]),
        ("{}\n[", &[Ok("{}"), Ok("[")]),
        ("{}\n  ", &[Ok("{}")]),
        // The cap is 8.
        ("12345678\n", &[Ok("12345678")]),
        ("12345678\r\n", &[Ok("12345678")]),
        ("12345678", &[Ok("12345678")]),
        ("\u{feff}12345678\n", &[Ok("12345678")]),
        ("123456789\n", &[OVER]),
        ("123456789\r\n", &[OVER]),
        ("123456789", &[OVER]),
        ("12345678\r9\n", &[OVER]),
        ("         \n{}\n", &[OVER, Ok("{}")]),
        (
            "a\n1234567890123456789012345\nb\n",
            &[Ok("a"), OVER, Ok("b")],
        ),
        ("1234567890\n\n1234567890\nb", &[OVER, OVER, Ok("b")]),
    ];
    for (input, wanted) in cases {
        let wanted: Vec<Seen> = wanted.iter().map(|line| line.map(Vec::from)).collect();
        for size in [usize::MAX, 1, 2, 5] {
            let seen = decode(8, input.as_bytes(), size);
            assert_eq!(seen, wanted, "{input:?} in pushes of {size}");
        }
    }
}

#[test]
fn the_limit_names_its_setting() {
    let mut decoder = LineDecoder::new(WHAT, 3);
    decoder.push(Bytes::from_static(b"1234"));
    let error = decoder.next_line().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Limit {
                what: WHAT,
                max: 3,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn an_uncut_line_points_into_the_pushed_buffer() {
    let push = Bytes::from(b"b\n{\"a\":1}\r\n[]\n{".to_vec());
    let range = push.as_ptr_range();
    let mut decoder = LineDecoder::new(WHAT, 64);
    decoder.push(Bytes::from_static(b"a"));
    assert_eq!(decoder.next_line().unwrap(), None);
    decoder.push(push.clone());
    for (wanted, inside) in [("ab", false), ("{\"a\":1}", true), ("[]", true)] {
        let line = decoder.next_line().unwrap().unwrap();
        assert_eq!(line, wanted);
        assert_eq!(range.contains(&line.as_ptr()), inside, "{wanted}");
    }
    assert_eq!(decoder.next_line().unwrap(), None);
    decoder.push(Bytes::from_static(b"\n"));
    let last = decoder.next_line().unwrap().unwrap();
    assert!(
        range.contains(&last.as_ptr()),
        "only its line end came later"
    );
    drop(last);
    assert!(push.is_unique(), "{decoder:?}");
}

// Covers R-1612.
#[test]
fn an_endless_line_is_held_up_to_the_cap_only() {
    let mut decoder = LineDecoder::new(WHAT, 10_000);
    let push = Bytes::from(vec![b'x'; 1000]);
    let mut errors = 0;
    for _ in 0..100 {
        decoder.push(push.clone());
        errors += usize::from(decoder.next_line().is_err());
        let held = decoder.input.cut().len() + decoder.input.unread().len();
        assert!(held <= 10_000, "{held} bytes held");
    }
    assert_eq!(errors, 1);
    assert!(push.is_unique(), "{decoder:?}");
    decoder.push(Bytes::from_static(b"x\n{}\n"));
    assert_eq!(decoder.next_line().unwrap().unwrap(), "{}");
}

#[test]
fn hundreds_of_thousands_of_blank_lines_cost_nothing() {
    let input = "\n\r\n".repeat(300_000) + "{}\n";
    for size in [usize::MAX, 4096, 1] {
        assert_eq!(
            decode(64, input.as_bytes(), size),
            [Ok(b"{}".to_vec())],
            "{size}"
        );
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same_lines(
        pieces in prop::collection::vec(
            prop::sample::select(vec!["\n", "\r\n", "\r", " ", "{}", "\u{feff}", "12345678"]),
            0..60,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        max in prop_oneof![Just(1024_usize), 0..16_usize],
        drain_late in any::<bool>(),
    ) {
        let bytes = pieces.concat().into_bytes();
        let wanted = decode(max, &bytes, usize::MAX);

        let mut decoder = LineDecoder::new(WHAT, max);
        let mut seen = Vec::new();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let mut start = 0;
        for end in cuts {
            decoder.push(Bytes::copy_from_slice(&bytes[start..end]));
            start = end;
            if !drain_late {
                drain(&mut decoder, &mut seen);
            }
        }
        drain(&mut decoder, &mut seen);
        seen.extend(decoder.finish().map(|line| Ok(line.to_vec())));
        prop_assert_eq!(seen, wanted);
    }

    #[test]
    fn lines_come_back_as_they_were_written(
        lines in prop::collection::vec("\\{[^\r\n]{0,40}", 0..5),
    ) {
        let bytes: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let seen = decode(1024, bytes.as_bytes(), usize::MAX);
        let wanted: Vec<Seen> = lines.into_iter().map(|line| Ok(line.into_bytes())).collect();
        prop_assert_eq!(seen, wanted);
    }

    #[test]
    fn every_prefix_of_a_line_is_not_yet(line in "[^\n]{0,40}") {
        for end in (0..=line.len()).filter(|end| line.is_char_boundary(*end)) {
            let mut decoder = LineDecoder::new(WHAT, 1024);
            decoder.push(Bytes::copy_from_slice(&line.as_bytes()[..end]));
            prop_assert_eq!(decoder.next_line().unwrap(), None, "{} bytes", end);
        }
    }
}
