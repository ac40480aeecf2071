//! Whatever is done in whatever order, the reader gets whole frames in order.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Event,
    Progress(f64),
    /// An event whose writer fails after it wrote something.
    Broken,
    TooLarge,
    Take,
    Decide,
    Detach,
    End,
    Abandon,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let number = prop_oneof![
        (-5..20i32).prop_map(|n| f64::from(n) / 2.0),
        any::<f64>(),
        Just(f64::NAN)
    ];
    let op = prop_oneof![
        8 => Just(Op::Event),
        4 => number.prop_map(Op::Progress),
        1 => Just(Op::Broken),
        1 => Just(Op::TooLarge),
        4 => Just(Op::Take),
        1 => Just(Op::Decide),
        1 => Just(Op::Detach),
        1 => Just(Op::End),
        1 => Just(Op::Abandon),
    ];
    proptest::collection::vec(op, 0..40)
}

/// What should come out, kept beside the outbox.
#[derive(Default)]
struct Model {
    sent: usize,
    /// Labels of what waits, and of what was read.
    waiting: Vec<String>,
    read: Vec<String>,
    gone: bool,
    ended: bool,
    streams: bool,
    json: bool,
}

impl Model {
    fn say(&mut self, outcome: Result<Pushed, Error>, over_mark: bool, label: String) {
        match outcome {
            Err(Error::Closed { .. }) => assert!(self.ended),
            Ok(Pushed::Full) => assert!(over_mark && !self.gone && !self.ended),
            Ok(Pushed::Done) => {
                assert!(!self.ended && (self.gone || !over_mark));
                if !self.gone {
                    self.streams = true;
                    self.waiting.push(label);
                }
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn end(&mut self, response: bool) {
        if !self.ended && !self.gone && response {
            if self.streams {
                self.waiting.push("response".to_owned());
            } else {
                self.json = true;
            }
        }
        self.ended = true;
    }
}

/// The labels of what is in a chunk.
fn labels(bytes: Bytes) -> Vec<String> {
    let label = |message: Value| match message.get("params") {
        None => "response".to_owned(),
        Some(params) => params["message"].as_str().unwrap_or("progress").to_owned(),
    };
    messages(bytes).into_iter().map(label).collect()
}

proptest! {
    #[test]
    fn chunks_are_whole_frames_in_order_with_the_response_last(
        ops in ops(),
        max_bytes in prop_oneof![Just(1usize), 100..1000usize, Just(1 << 16)],
        active in proptest::bool::weighted(0.9),
    ) {
        let outbox = if active { outbox(max_bytes) } else { unheard() };
        let mut model = Model::default();
        let mut risen = Vec::new();
        for op in ops {
            let over_mark = outbox.lock().bytes.len() >= max_bytes;
            match op {
                Op::Event => {
                    model.sent += 1;
                    let label = format!("event {}", model.sent);
                    let outcome = push(&outbox, &label);
                    if active {
                        model.say(outcome, over_mark, label);
                    } else {
                        prop_assert_eq!(outcome.is_err(), model.ended);
                    }
                }
                Op::Progress(number) => {
                    let outcome = outbox.push_progress(number, Some(number), SILENT);
                    if active {
                        model.say(outcome, over_mark, "progress".to_owned());
                    } else {
                        prop_assert_eq!(outcome.is_err(), model.ended);
                    }
                }
                Op::Broken | Op::TooLarge => {
                    let outcome = outbox.push_event(|out| {
                        out.extend_from_slice(&vec![b'x'; MAX_EVENT_BYTES + 1]);
                        if matches!(op, Op::Broken) { Err(Error::config("broken")) } else { Ok(()) }
                    });
                    let taken = !active || model.gone || over_mark;
                    prop_assert_eq!(outcome.is_ok(), taken && !model.ended);
                }
                Op::Take => {
                    // The reader reads what is in the buffer, whatever the form.
                    if let Poll::Ready(Some(mut chunk)) = outbox.poll_chunk(&mut ignored()) {
                        let bytes = chunk.copy_to_bytes(chunk.remaining());
                        prop_assert!(!bytes.is_empty());
                        risen.extend(numbers(&bytes));
                        model.read.extend(labels(bytes));
                        model.waiting.clear();
                    } else {
                        prop_assert!(model.waiting.is_empty());
                    }
                }
                Op::Decide => {
                    let answer = outbox.decide();
                    prop_assert_eq!(matches!(answer, Answer::Json { .. }), model.json);
                    model.json = false;
                    model.streams = true;
                }
                Op::Detach => {
                    outbox.detach();
                    model.waiting.clear();
                    model.gone |= !model.ended;
                }
                Op::End => {
                    outbox.end(200, br#"{"id":1}"#.to_vec());
                    model.end(true);
                }
                Op::Abandon => {
                    outbox.abandon();
                    model.end(false);
                }
            }
            prop_assert_eq!(outbox.is_ended(), model.ended);
            prop_assert_eq!(outbox.is_active(), active && !model.gone && !model.ended);
            let over = model.ended || model.gone;
            prop_assert_eq!(outbox.is_drained(), over && model.waiting.is_empty());
            let expected = model.waiting.clone();
            let waiting = outbox.lock().bytes.clone();
            prop_assert_eq!(labels(waiting.into()), expected);
        }
        outbox.abandon();
        while let Some(bytes) = chunk(&outbox) {
            risen.extend(numbers(&bytes));
            model.read.extend(labels(bytes));
        }
        let risen: Vec<f64> = risen.iter().map(|number| number.parse().unwrap()).collect();
        prop_assert!(risen.is_sorted_by(|a, b| a < b), "{:?}", risen);
        let responses: Vec<usize> = (0..model.read.len())
            .filter(|at| model.read[*at] == "response")
            .collect();
        prop_assert!(responses.is_empty() || responses == [model.read.len() - 1]);
        let said: Vec<usize> = model
            .read
            .iter()
            .filter_map(|label| label.strip_prefix("event "))
            .map(|number| number.parse().unwrap())
            .collect();
        prop_assert!(said.is_sorted_by(|a, b| a < b));
    }
}
