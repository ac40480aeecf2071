use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn id(text: &str) -> EventId {
    EventId::parse(text).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn an_id_has_one_spelling() {
    for text in ["s0-0", "s3-7", "s18446744073709551615-18446744073709551615"] {
        assert_eq!(id(text).to_string(), text);
    }
    for text in [
        "",
        "s",
        "-",
        "s-",
        "3-7",
        "S3-7",
        "s3",
        "s3-",
        "s-7",
        "s3-7 ",
        " s3-7",
        "s03-7",
        "s3-07",
        "s+3-7",
        "s3-+7",
        "s3--7",
        "s3-7-1",
        "s３-7",
        "s18446744073709551616-0",
    ] {
        assert_eq!(EventId::parse(text), None, "{text:?}");
    }
}

/// `begin 1`, `end 1`, `forget 1`, `clear`, and of an event its id and how large it is.
fn ring(max_events: usize, max_bytes: usize, steps: &str) -> Ring<()> {
    let mut ring = Ring::new(max_events, max_bytes);
    for step in steps.split(", ") {
        match step.split_once(' ') {
            None => ring.clear(),
            Some(("begin", stream)) => ring.begin(stream.parse().unwrap(), ()),
            Some(("end", stream)) => ring.finish(stream.parse().unwrap()),
            Some(("forget", stream)) => ring.forget(stream.parse().unwrap()),
            Some((event, size)) => {
                let mut frame = format!("{event};").into_bytes();
                frame.resize(size.parse().unwrap(), b'.');
                ring.record(id(event), &frame);
            }
        }
    }
    ring
}

#[test]
fn the_rest_of_a_stream_is_all_of_it_or_nothing() {
    let full = "begin 1, begin 2, s1-1 5, s2-1 5, s1-2 5, s1-3 5";
    let steps = |more: &str| format!("{full}{more}");
    // bounds, what happened, asked for, what follows
    let table = [
        ((9, 99), steps(""), "s1-0", Some("s1-1;s1-2;s1-3;")),
        ((9, 99), steps(""), "s1-2", Some("s1-3;")),
        ((9, 99), steps(""), "s1-3", Some("")),
        ((9, 99), steps(""), "s2-0", Some("s2-1;")),
        ((9, 99), steps(""), "s1-4", None),
        ((9, 99), steps(""), "s3-0", None),
        ((9, 99), steps(", end 1"), "s1-0", Some("s1-1;s1-2;s1-3;")),
        ((9, 99), steps(", end 1"), "s1-3", Some("")),
        // The oldest are gone.
        ((3, 99), steps(""), "s1-0", None),
        ((3, 99), steps(""), "s1-1", Some("s1-2;s1-3;")),
        ((9, 19), steps(""), "s1-0", None),
        ((9, 19), steps(""), "s1-1", Some("s1-2;s1-3;")),
        ((9, 19), steps(""), "s2-0", Some("s2-1;")),
        ((9, 20), steps(""), "s1-0", Some("s1-1;s1-2;s1-3;")),
        ((2, 99), steps(""), "s2-0", None),
        ((2, 99), steps(""), "s2-1", Some("")),
        ((0, 99), steps(""), "s1-2", None),
        ((0, 99), steps(""), "s1-3", Some("")),
        // One that is too large alone leaves a gap, and the others alone.
        (
            (9, 19),
            "begin 1, s1-1 5, s1-2 20, s1-3 5".into(),
            "s1-0",
            None,
        ),
        (
            (9, 19),
            "begin 1, s1-1 5, s1-2 20, s1-3 5".into(),
            "s1-1",
            None,
        ),
        (
            (9, 19),
            "begin 1, s1-1 5, s1-2 20, s1-3 5".into(),
            "s1-2",
            Some("s1-3;"),
        ),
        (
            (9, 19),
            "begin 2, s2-1 5, begin 1, s1-1 20".into(),
            "s2-0",
            Some("s2-1;"),
        ),
        // Older events that go do not bring back what was lost later.
        (
            (3, 19),
            "begin 1, s1-1 5, s1-2 20, s1-3 5, s1-4 5, s1-5 5".into(),
            "s1-1",
            None,
        ),
        // A stream that has ended is unknown once nothing of it is left.
        ((2, 99), steps(", end 2"), "s2-1", None),
        ((9, 9), "begin 1, s1-1 10, end 1".into(), "s1-1", None),
        ((9, 99), steps(", forget 1"), "s1-3", None),
        ((9, 99), steps(", forget 1"), "s2-0", Some("s2-1;")),
        ((9, 99), steps(", clear"), "s2-0", None),
        // What nobody comes back to is not kept.
        ((9, 99), steps(", forget 1, s1-4 5"), "s1-3", None),
    ];
    for ((max_events, max_bytes), steps, after, expected) in table {
        let ring = ring(max_events, max_bytes, &steps);
        let rest = ring.rest(id(after));
        let rest = rest.map(|bytes| String::from_utf8(bytes).unwrap());
        let case = format!("{max_events} events, {max_bytes} bytes, {steps}: {after}");
        assert_eq!(rest.as_deref(), expected, "{case}");
    }
}

#[test]
fn what_is_forgotten_leaves_its_room_to_others() {
    let mut ring = ring(3, 15, "begin 1, begin 2, s1-1 5, s2-1 5, s1-2 5, forget 1");
    for number in 2..4 {
        ring.record(EventId { stream: 2, number }, b"12345");
    }
    assert_eq!((ring.bytes, ring.events.len()), (15, 3));
    assert_eq!(ring.rest(id("s2-0")).unwrap().len(), 15);
    ring.clear();
    assert_eq!(
        (ring.bytes, ring.events.len(), ring.streams.len()),
        (0, 0, 0)
    );
}

#[derive(Debug, Clone)]
enum Op {
    Event {
        stream: u64,
        size: usize,
    },
    End(u64),
    Forget(u64),
    /// A client that has read so much of its stream, in percent, comes back.
    Resume {
        stream: u64,
        read: usize,
    },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let stream = 0..4_u64;
    let op = prop_oneof![
        12 => (stream.clone(), 0..40_usize).prop_map(|(stream, size)| Op::Event { stream, size }),
        1 => stream.clone().prop_map(Op::End),
        1 => stream.clone().prop_map(Op::Forget),
        4 => (stream, 0..=100_usize).prop_map(|(stream, read)| Op::Resume { stream, read }),
    ];
    proptest::collection::vec(op, 0..80)
}

/// A stream as it was sent.
#[derive(Default)]
struct Sent {
    frames: Vec<Vec<u8>>,
    over: bool,
}

proptest! {
    /// Wherever a client was cut off: it gets what follows once and in order, or is told that this
    /// cannot be had; and that only if something was lost.
    #[test]
    fn a_client_that_comes_back_misses_nothing_unknowingly(
        ops in ops(),
        max_events in 0..12_usize,
        max_bytes in 0..200_usize,
    ) {
        let mut ring = Ring::new(max_events, max_bytes);
        let mut streams: HashMap<u64, Sent> = HashMap::new();
        let mut total = (0, 0);
        for stream in 0..4 {
            ring.begin(stream, ());
            streams.insert(stream, Sent::default());
        }
        for op in ops {
            match op {
                Op::Event { stream, size } => {
                    let sent = streams.get_mut(&stream).unwrap();
                    if sent.over {
                        continue;
                    }
                    let number = sent.frames.len() as u64 + 1;
                    let frame = vec![b'0' + u8::try_from(number % 64).unwrap(); size];
                    ring.record(EventId { stream, number }, &frame);
                    sent.frames.push(frame);
                    total = (total.0 + 1, total.1 + size);
                }
                Op::End(stream) => {
                    ring.finish(stream);
                    streams.get_mut(&stream).unwrap().over = true;
                }
                Op::Forget(stream) => {
                    ring.forget(stream);
                    *streams.get_mut(&stream).unwrap() = Sent { over: true, ..Sent::default() };
                }
                Op::Resume { stream, read } => {
                    let Sent { frames, over } = &streams[&stream];
                    let read = frames.len() * read / 100;
                    let after = EventId { stream, number: read as u64 };
                    match ring.rest(after) {
                        Some(rest) => prop_assert_eq!(rest, frames[read..].concat()),
                        None => prop_assert!(
                            *over && read == frames.len()
                                || total.0 > max_events
                                || total.1 > max_bytes
                        ),
                    }
                }
            }
            prop_assert!(ring.events.len() <= max_events && ring.bytes <= max_bytes);
            let bytes: usize = ring.events.iter().map(|kept| kept.frame.len()).sum();
            prop_assert_eq!(ring.bytes, bytes);
            let ended = ring.streams.values().filter(|track| track.ended).count();
            prop_assert!(ended <= ring.events.len());
        }
    }
}
