use proptest::prelude::*;

use super::*;

const WHAT: &str = "max_client_message_bytes";

/// What a decoder has to say: an event as (name, data), or the name of the limit.
type Seen = Result<(String, String), &'static str>;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn drain(decoder: &mut SseDecoder, seen: &mut Vec<Seen>) {
    loop {
        match decoder.next_event() {
            Ok(Some(event)) => seen.push(Ok((text(&event.name), text(&event.data)))),
            Ok(None) => return,
            Err(Error::Limit { what, .. }) => seen.push(Err(what)),
            Err(other) => panic!("not a limit: {other:?}"),
        }
    }
}

fn decode(decoder: &mut SseDecoder, pushes: &[&[u8]]) -> Vec<Seen> {
    let mut seen = Vec::new();
    for push in pushes {
        decoder.push(Bytes::copy_from_slice(push));
        drain(decoder, &mut seen);
    }
    seen
}

fn event(name: &str, data: &str) -> Seen {
    Ok((name.to_owned(), data.to_owned()))
}

// Covers R-1501, R-1502, R-1503.
#[test]
fn a_stream_decodes_as_the_standard_says() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("", &[]),
        ("\n\n\r\r\r\n\r\n", &[]),
        // Line ends.
        ("data: a\n\n", &[("", "a")]),
        ("data: a\r\n\r\n", &[("", "a")]),
        ("data: a\r\r", &[("", "a")]),
        ("data: a\n\r", &[("", "a")]),
        ("data: a\r\n\r", &[("", "a")]),
        ("data: a\r\n\n", &[("", "a")]),
        (
            "data: a\r\ndata: b\rdata: c\ndata: d\n\r\n",
            &[("", "a\nb\nc\nd")],
        ),
        (
            "data: a\r\n\r\n\r\ndata: b\r\r\n\n",
            &[("", "a"), ("", "b")],
        ),
        (
            "data: a\u{2028}b\u{85}c\u{b}d\n\n",
            &[("", "a\u{2028}b\u{85}c\u{b}d")],
        ),
        // Space after the colon.
        ("data:a\n\n", &[("", "a")]),
        ("data:  a \n\n", &[("", " a ")]),
        ("data:\ta\n\n", &[("", "\ta")]),
        ("data::a\n\n", &[("", ":a")]),
        ("data: : a\n\n", &[("", ": a")]),
        // Several data lines, empty ones among them.
        ("data: a\ndata: b\n\n", &[("", "a\nb")]),
        ("data: a\ndata\ndata:\ndata: \n\n", &[("", "a\n\n\n")]),
        ("data\ndata: a\n\n", &[("", "\na")]),
        ("data:  \n\n", &[("", " ")]),
        ("data\n\ndata:\n\ndata: \n\ndata\ndata\n\n", &[]),
        (
            "data: {\ndata:   \"a\": 1\ndata: }\n\n",
            &[("", "{\n  \"a\": 1\n}")],
        ),
        // Names; order does not matter and the last one counts.
        ("event: message\ndata: a\n\n", &[("message", "a")]),
        ("data: a\nevent: message\n\n", &[("message", "a")]),
        (
            "event:ping\nevent: pong\ndata: a\n\ndata: b\n\n",
            &[("pong", "a"), ("", "b")],
        ),
        ("event: x\n\ndata: a\n\n", &[("", "a")]),
        ("event: x\nevent\ndata: a\n\n", &[("", "a")]),
        ("event: x\ndata\n\ndata: a\n\n", &[("", "a")]),
        // Comments and unknown fields.
        (": c\n:\n::\n:data: x\ndata: a\n: c\n\n", &[("", "a")]),
        (": c\n\n: c\n\n", &[]),
        ("foo\nfoo: a\n: data\ndata: a\n\n", &[("", "a")]),
        (
            "Data: x\n data: x\ndata : x\ndat: x\ndatas: x\ndata x\n\n",
            &[],
        ),
        ("DATA: x\nEVENT: x\ndata: a\n\n", &[("", "a")]),
        // Byte order mark.
        ("\u{feff}data: a\n\n", &[("", "a")]),
        ("\u{feff}\u{feff}data: a\n\n", &[]),
        ("\u{feff}\n\u{feff}data: a\n\n", &[]),
        ("data: \u{feff}a\n\n", &[("", "\u{feff}a")]),
        // Other bytes are none of its business.
        ("data: \0a\u{fffd}é😀\n\n", &[("", "\0a\u{fffd}é😀")]),
        // Nothing ends the event.
        ("data: a", &[]),
        ("data: a\n", &[]),
        ("data: a\r", &[]),
        ("data: a\r\n", &[]),
        ("data: a\n\ndata: b\n:\n", &[("", "a")]),
    ];
    for (input, wanted) in cases {
        let wanted: Vec<Seen> = wanted
            .iter()
            .map(|(name, data)| event(name, data))
            .collect();
        let bytes = input.as_bytes();
        let whole = decode(&mut SseDecoder::new(WHAT, 1024), &[bytes]);
        assert_eq!(whole, wanted, "{input:?}");
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let bytewise = decode(&mut SseDecoder::new(WHAT, 1024), &single);
        assert_eq!(bytewise, wanted, "{input:?} byte by byte");
    }
}

// Covers R-1501.
#[test]
fn an_event_is_given_out_at_its_blank_line_and_no_earlier() {
    for whole in [
        "event: message\ndata: {}\n\n",
        "data: {}\r\n\r",
        "id: 1\rdata: {}\r\r",
    ] {
        let mut decoder = SseDecoder::new(WHAT, 1024);
        let mut seen = Vec::new();
        for (at, byte) in whole.bytes().enumerate() {
            decoder.push(Bytes::from(vec![byte]));
            drain(&mut decoder, &mut seen);
            let last = at + 1 == whole.len();
            assert_eq!(seen.len(), usize::from(last), "{:?}", &whole[..=at]);
        }
        // The other half of a CRLF is no blank line of its own.
        decoder.push(Bytes::from_static(b"\ndata: b\n\n"));
        drain(&mut decoder, &mut seen);
        assert_eq!(seen.len(), 2, "{whole:?}");
    }
}

#[test]
fn bytes_that_are_not_utf8_pass_through() {
    let mut decoder = SseDecoder::new(WHAT, 1024);
    decoder.push(Bytes::from_static(b"event: \xFF\ndata: \xC3\n\n"));
    let event = decoder.next_event().unwrap().unwrap();
    assert_eq!(
        (&event.name[..], &event.data[..]),
        (&b"\xFF"[..], &b"\xC3"[..])
    );
}

// Covers R-1317, R-1505.
#[test]
fn an_id_counts_from_the_blank_line_on() {
    let long = format!("id: {}\n\n", "x".repeat(MAX_ID_BYTES + 1));
    let longest = "x".repeat(MAX_ID_BYTES);
    let fits = format!("id: {longest}\n\n");
    let cases: &[(&[&[u8]], Option<&str>)] = &[
        (&[b"data: a\n\n"], None),
        (&[b"id: 7\n"], None),
        (&[b"id: 7\n\n"], Some("7")),
        (&[b"id: 7\nretry: 500\ndata:\n\n"], Some("7")),
        (&[b"id:7\ndata: a\n\n"], Some("7")),
        (&[b"id:  7 \n\n"], Some(" 7 ")),
        (&[b"id: 7\n\ndata: a\n\n"], Some("7")),
        (&[b"id: 7\n\nid: 8\n"], Some("7")),
        (&[b"id: 7\nid: 8\n\n"], Some("8")),
        (&[b"id: 7\n\nid\n\n"], None),
        (&[b"id: 7\n\nid:\n\n"], None),
        (&[b"id: 7\n\nid: \n\n"], None),
        (&[b"id: 7\n\nid: 8\x009\n\n"], Some("7")),
        (&[b"id: 7\n\nid: \xFF\n\n"], Some("7")),
        (&[b"id: 7\n\n", long.as_bytes()], Some("7")),
        (&[b"id: 7\n\n", fits.as_bytes()], Some(&longest)),
        (&[b"ID: 7\nids: 7\n\n"], None),
        (&[b"i", b"d: ", b"7", b"\r", b"\r"], Some("7")),
    ];
    for (pushes, wanted) in cases {
        let mut decoder = SseDecoder::new(WHAT, 4096);
        decode(&mut decoder, pushes);
        assert_eq!(decoder.last_event_id(), *wanted, "{pushes:?}");
        decoder.finish();
        assert_eq!(decoder.last_event_id(), *wanted, "{pushes:?} and the end");
    }
}

#[test]
fn an_id_belongs_to_the_event_that_was_given_out_last() {
    let mut decoder = SseDecoder::new(WHAT, 1024);
    decoder.push(Bytes::from_static(b"id: 1\ndata: a\n\nid: 2\ndata: b\n\n"));
    for id in ["1", "2"] {
        assert!(decoder.next_event().unwrap().is_some());
        assert_eq!(decoder.last_event_id(), Some(id));
    }
}

// Covers R-1505.
#[test]
fn a_retry_is_digits_with_a_cap() {
    let cases: &[(&str, Option<u64>)] = &[
        ("", None),
        ("retry: 500\n", Some(500)),
        ("retry:500\n\n", Some(500)),
        ("retry: 0\n", Some(0)),
        ("retry: 007\n", Some(7)),
        ("retry: 300001\n", Some(300_000)),
        ("retry: 99999999999999999999999999\n", Some(300_000)),
        ("retry: 1\nretry: 2\n", Some(2)),
        ("retry: 1\nretry: x\n", Some(1)),
        ("retry: 1\nretry\n", Some(1)),
        ("retry:\n", None),
        ("retry: +5\n", None),
        ("retry: -5\n", None),
        ("retry: 5 \n", None),
        ("retry:  5\n", None),
        ("retry: 5.0\n", None),
        ("retry: 0x5\n", None),
        ("retry: ٣\n", None),
        ("retry: 5", None),
    ];
    for (input, wanted) in cases {
        let mut decoder = SseDecoder::new(WHAT, 1024);
        decode(&mut decoder, &[input.as_bytes()]);
        let millis = decoder.retry().map(|wait| wait.as_millis());
        assert_eq!(millis, wanted.map(u128::from), "{input:?}");
    }
}

// Covers R-1503.
#[test]
fn data_without_a_blank_line_is_given_out_at_the_end() {
    let cases: &[(&str, Option<(&str, &str)>)] = &[
        ("", None),
        ("data: a\n\n", None),
        (": c", None),
        ("event: x", None),
        ("event: x\n", None),
        ("data", None),
        ("data:", None),
        ("dat", None),
        ("data: a", Some(("", "a"))),
        ("data: a\n", Some(("", "a"))),
        ("data: a\r", Some(("", "a"))),
        ("data: a\r\n", Some(("", "a"))),
        ("data: a\ndata: b", Some(("", "a\nb"))),
        ("event: message\ndata: a", Some(("message", "a"))),
        // A name that may be cut short is not told.
        ("data: a\nevent: mess", Some(("", "a"))),
        ("data: a\n\ndata: b", Some(("", "b"))),
    ];
    for (input, wanted) in cases {
        let mut decoder = SseDecoder::new(WHAT, 1024);
        decode(&mut decoder, &[input.as_bytes()]);
        let last = decoder
            .finish()
            .map(|event| (text(&event.name), text(&event.data)));
        let wanted = wanted.map(|(name, data)| (name.to_owned(), data.to_owned()));
        assert_eq!(last, wanted, "{input:?}");
        decoder.push(Bytes::from_static(b"data: late\n\n"));
        assert_eq!(
            decoder.next_event().unwrap(),
            None,
            "{input:?} and more after the end"
        );
        assert_eq!(decoder.finish(), None, "{input:?} twice");
    }
}

#[test]
fn data_of_an_uncut_line_points_into_the_pushed_buffer() {
    let frame: &[u8] = b"event: message\ndata: {\"a\":1}\n\n";
    let stream = [frame, frame, frame].concat();
    for cut in 0..frame.len() {
        // The end of a first event, a whole one, and the start of a third.
        let push = Bytes::copy_from_slice(&stream[cut..cut + 2 * frame.len()]);
        let range = push.as_ptr_range();
        let mut decoder = SseDecoder::new(WHAT, 1024);
        decoder.push(Bytes::copy_from_slice(&stream[..cut]));
        assert_eq!(decoder.next_event().unwrap(), None);
        decoder.push(push);
        for number in 0..2 {
            let event = decoder.next_event().unwrap().unwrap();
            assert_eq!(event.data, "{\"a\":1}");
            // Only the line that the cut goes through may have moved.
            let data_cut = number == 0 && cut > b"event: message\n".len();
            let inside = range.contains(&event.data.as_ptr());
            assert_eq!(inside, !data_cut, "event {number}, cut at {cut}");
        }
        assert_eq!(decoder.next_event().unwrap(), None);
    }
}

#[test]
fn data_stays_in_place_when_only_its_line_end_comes_later() {
    let push = Bytes::from(b"data: abc".to_vec());
    let place = push[6..].as_ptr();
    let mut decoder = SseDecoder::new(WHAT, 1024);
    decoder.push(push);
    assert_eq!(decoder.next_event().unwrap(), None);
    decoder.push(Bytes::from_static(b"\n\n"));
    let event = decoder.next_event().unwrap().unwrap();
    assert_eq!((event.data.as_ptr(), &event.data[..]), (place, &b"abc"[..]));
}

#[test]
fn a_line_is_put_together_without_the_frame_that_follows() {
    let mut decoder = SseDecoder::new(WHAT, 1024);
    decoder.push(Bytes::from_static(b"data: a"));
    assert_eq!(decoder.next_event().unwrap(), None);
    let push = Bytes::from(b"b\n\ndata: c\n\n".to_vec());
    let range = push.as_ptr_range();
    decoder.push(push);
    assert_eq!(decoder.next_event().unwrap().unwrap().data, "ab");
    let next = decoder.next_event().unwrap().unwrap();
    assert!(range.contains(&next.data.as_ptr()));
}

#[test]
fn a_read_buffer_is_let_go_with_its_last_event() {
    let mut decoder = SseDecoder::new(WHAT, 1024);
    let push = Bytes::from(b"id: 1\nevent: x\ndata: a\n\n: c\n\n".to_vec());
    decoder.push(push.clone());
    let event = decoder.next_event().unwrap();
    assert_eq!(decoder.next_event().unwrap(), None);
    drop(event);
    assert!(push.is_unique(), "{decoder:?}");
}

// Covers R-1508.
#[test]
fn hundreds_of_thousands_of_comments_cost_nothing() {
    let noise = ":\n".repeat(300_000) + &"event: x\n\n".repeat(300_000);
    let frame = noise + "data: a\n\n";
    for size in [frame.len(), 4096, 3] {
        let mut decoder = SseDecoder::new(WHAT, 64);
        let mut seen = Vec::new();
        for push in frame.as_bytes().chunks(size) {
            decoder.push(Bytes::copy_from_slice(push));
            drain(&mut decoder, &mut seen);
            let held = decoder.input.cut().len() + decoder.input.unread().len();
            assert!(
                held <= b"event: x".len(),
                "{held} bytes held, pushes of {size}"
            );
        }
        assert_eq!(seen, [event("", "a")], "pushes of {size}");
    }
}

#[test]
fn a_line_of_ten_mebibytes_in_small_pushes_comes_whole() {
    let frame = format!("data: {}\n\n", "x".repeat(10 << 20));
    let mut decoder = SseDecoder::new(WHAT, 10 << 20);
    let mut seen = Vec::new();
    for push in frame.as_bytes().chunks(1024) {
        decoder.push(Bytes::copy_from_slice(push));
        drain(&mut decoder, &mut seen);
    }
    let lengths: Vec<usize> = seen.into_iter().map(|seen| seen.unwrap().1.len()).collect();
    assert_eq!(lengths, [10 << 20]);
}

// Covers R-809.
#[test]
fn the_cap_is_on_the_data_of_one_event() {
    let ok = |data: &[&str]| data.iter().map(|data| event("", data)).collect::<Vec<_>>();
    let limit = vec![Err(WHAT)];
    let cases: &[(&str, Vec<Seen>)] = &[
        ("data: 12345678\n\n", ok(&["12345678"])),
        ("data:12345678\n\n", ok(&["12345678"])),
        ("data: 123456789\n\n", limit.clone()),
        ("data:123456789\n\n", limit.clone()),
        ("data: 1234\ndata: 678\n\n", ok(&["1234\n678"])),
        ("data: 1234\ndata: 6789\n\n", limit.clone()),
        ("data: 12345678\ndata\n\n", limit.clone()),
        ("data: 12345678\nid: 1\n\n", ok(&["12345678"])),
        (
            "data: 12345678\n\ndata: 12345678\n\n",
            ok(&["12345678", "12345678"]),
        ),
        (
            "data: 1\n\ndata: 123456789\n\ndata: 3\n\n",
            vec![event("", "1"), Err(WHAT)],
        ),
        (": 345678901234\ndata: 1\n\n", ok(&["1"])),
        (": 3456789012345\ndata: 1\n\n", limit.clone()),
        ("data: 123456789", limit.clone()),
        (
            "data\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata: 1\n\n",
            limit,
        ),
    ];
    for (input, wanted) in cases {
        for size in [usize::MAX, 1, 2, 7] {
            let mut decoder = SseDecoder::new(WHAT, 8);
            let pushes: Vec<&[u8]> = input.as_bytes().chunks(size).collect();
            let seen = decode(&mut decoder, &pushes);
            assert_eq!(&seen, wanted, "{input:?} in pushes of {size}");
        }
    }
}

#[test]
fn the_cap_is_also_on_data_without_a_blank_line() {
    let cases: &[(&str, Option<&str>)] = &[
        ("data:12345678", Some("12345678")),
        ("data:123456789", None),
        ("data: 1234\ndata:678", Some("1234\n678")),
        ("data: 1234\ndata:6789", None),
    ];
    for (input, wanted) in cases {
        let mut decoder = SseDecoder::new(WHAT, 8);
        assert_eq!(decode(&mut decoder, &[input.as_bytes()]), [], "{input:?}");
        let last = decoder.finish().map(|event| text(&event.data));
        assert_eq!(last.as_deref(), *wanted, "{input:?}");
    }
}

#[test]
fn after_the_cap_nothing_is_given_or_kept() {
    let mut decoder = SseDecoder::new(WHAT, 64);
    let flood = Bytes::from(vec![b'x'; 100]);
    decoder.push(Bytes::from_static(b"id: 1\ndata: a\n\n"));
    assert!(decoder.next_event().unwrap().is_some());
    decoder.push(Bytes::from_static(b"event: x\ndata: a\ndata: b"));
    assert_eq!(decoder.next_event().unwrap(), None);
    decoder.push(flood.clone());
    let error = decoder.next_event().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Limit {
                what: WHAT,
                max: 64,
                ..
            }
        ),
        "{error:?}"
    );
    for _ in 0..3 {
        decoder.push(flood.clone());
        decoder.push(Bytes::from_static(b"\n\ndata: b\n\n"));
        assert_eq!(decoder.next_event().unwrap(), None);
    }
    assert_eq!(decoder.finish(), None);
    drop(Bytes::clone(&flood));
    assert!(flood.is_unique(), "{decoder:?}");
    assert_eq!(decoder.last_event_id(), Some("1"));
}

// Covers R-1508.
#[test]
fn an_endless_line_is_held_up_to_the_cap_only() {
    for start in ["data: ", ": ", "event: ", "x"] {
        let mut decoder = SseDecoder::new(WHAT, 10_000);
        decoder.push(Bytes::from(start));
        let mut most = 0;
        let failed = (0..100).find(|_| {
            decoder.push(Bytes::from(vec![b'x'; 1000]));
            let failed = decoder.next_event().is_err();
            most = most.max(decoder.input.cut().len());
            failed
        });
        assert!(
            matches!(failed, Some(9 | 10)),
            "{start:?} went on to {failed:?}"
        );
        assert!(most <= 10_006, "{start:?}: {most} bytes held");
    }
}

// Covers R-1507.
#[test]
fn an_encoded_event_has_its_fixed_form() {
    let mut out = KEEP_ALIVE.to_vec();
    encode_event(&mut out, br#"{"id":1}"#);
    encode_event(&mut out, br#"{"id":2}"#);
    let wanted = ": keep-alive\n\n\
                  event: message\ndata: {\"id\":1}\n\n\
                  event: message\ndata: {\"id\":2}\n\n";
    assert_eq!(text(&out), wanted);
}

/// Text in which the bytes that mean something are frequent.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "data",
        "data: ",
        "data:",
        "event: ",
        "event",
        "id: ",
        "id",
        "retry: ",
        "7",
        ":",
        " ",
        "\0",
        "\u{feff}",
        "x",
        "é",
        "0123456789",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Cuts `bytes` at the given places, which may repeat.
fn split<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.sort_unstable();
    cuts.push(bytes.len());
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    starts
        .zip(&cuts)
        .map(|(start, end)| &bytes[start..*end])
        .collect()
}

proptest! {
    // Covers R-1501.
    #[test]
    fn any_split_gives_the_same_events(
        bytes in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        max in prop_oneof![Just(1024_usize), 0..16_usize],
        drain_late in any::<bool>(),
    ) {
        let mut whole = SseDecoder::new(WHAT, max);
        let wanted = decode(&mut whole, &[&bytes]);

        let mut cut = SseDecoder::new(WHAT, max);
        let mut seen = Vec::new();
        for push in split(&bytes, &cuts) {
            cut.push(Bytes::copy_from_slice(push));
            if !drain_late {
                drain(&mut cut, &mut seen);
            }
        }
        drain(&mut cut, &mut seen);

        prop_assert_eq!(seen, wanted);
        prop_assert_eq!(cut.last_event_id(), whole.last_event_id());
        prop_assert_eq!(cut.retry(), whole.retry());
        prop_assert_eq!(cut.finish(), whole.finish());
    }

    #[test]
    fn any_bytes_decode_to_something(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut decoder = SseDecoder::new(WHAT, 100);
        decode(&mut decoder, &[&bytes]);
        decoder.finish();
    }

    #[test]
    fn decoding_undoes_encoding(data in prop::collection::vec("[^\r\n]{1,40}", 0..5)) {
        let mut out = Vec::new();
        for data in &data {
            encode_event(&mut out, data.as_bytes());
        }
        let seen = decode(&mut SseDecoder::new(WHAT, 1024), &[&out]);
        let wanted: Vec<Seen> = data.iter().map(|data| event("message", data)).collect();
        prop_assert_eq!(seen, wanted);
    }

    #[test]
    fn every_prefix_of_an_event_is_not_yet(data in "[^\r\n]{1,40}") {
        let mut out = Vec::new();
        encode_event(&mut out, data.as_bytes());
        for end in 0..out.len() {
            let seen = decode(&mut SseDecoder::new(WHAT, 1024), &[&out[..end]]);
            prop_assert!(seen.is_empty(), "{} of {} bytes", end, out.len());
        }
    }
}
