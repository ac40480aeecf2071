//! What is sent arrives, through all the codecs in between.

use proptest::prelude::*;

use super::*;
use crate::event::write_text_envelope;
use crate::wire::jsonrpc::{self, Incoming, Message};
use crate::wire::sse::SseDecoder;

/// Any text; one with something to escape is as likely as one without.
fn texts() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec!['"', '\\', '\0', '\n', '\r', '\u{2028}', '😀', '{']);
    let c = prop_oneof![3 => any::<char>(), 1 => special];
    prop_oneof![
        "[a-z ]{0,60}",
        prop::collection::vec(c, 0..60).prop_map(|chars| chars.into_iter().collect()),
    ]
}

fn tokens() -> impl Strategy<Value = RequestId> {
    prop_oneof![
        any::<i64>().prop_map(RequestId::Number),
        texts().prop_map(|text| token(&serde_json::to_string(&text).unwrap())),
    ]
}

proptest! {
    #[test]
    fn an_event_that_is_sent_arrives_as_it_was(
        token in tokens(),
        kind in prop_oneof![Just("text".to_owned()), Just("think".to_owned()), texts()],
        text in texts(),
        node in proptest::option::of(texts()),
        number in prop_oneof![(0..1000i32).prop_map(f64::from), any::<f64>().prop_filter("finite", |n| n.is_finite())],
        split in any::<prop::sample::Index>(),
    ) {
        let mut sent = Vec::new();
        ProgressFrame::new(Framing::Sse, &token)
            .write(&mut sent, number, None, Some(|out: &mut Vec<u8>| {
                write_text_envelope(out, &kind, &text, node.as_deref());
                Ok(())
            }))
            .unwrap();

        let mut decoder = SseDecoder::new("a test", 1 << 20);
        let mut second = bytes::Bytes::from(sent);
        let first = second.split_to(split.index(second.len()));
        decoder.push(first);
        prop_assert_eq!(decoder.next_event().unwrap(), None);
        decoder.push(second);
        let frame = decoder.next_event().unwrap().unwrap();
        prop_assert_eq!(&frame.name[..], b"message");
        prop_assert_eq!(decoder.next_event().unwrap(), None);

        let Ok(Incoming::One(Message::Notification(note))) = jsonrpc::decode(&frame.data, 128) else {
            panic!("a notification");
        };
        prop_assert_eq!(&*note.method, "notifications/progress");
        let (back, event) = decode_progress(&note.params.unwrap()).unwrap();
        prop_assert_eq!(back, token);
        prop_assert_eq!(&event.kind, &EventKind::from_envelope_type(&kind));
        prop_assert_eq!(event.content.as_str(), Some(&*text));
        prop_assert_eq!(event.node.as_ref().map(|node| node.as_str()), node.as_deref());
        prop_assert_eq!(event.progress().unwrap().number, number);
    }

    #[test]
    fn no_params_make_the_decoder_panic(
        token in "[0-9.e\"-]{0,6}",
        rest in "[\\PC]{0,40}",
    ) {
        for json in [format!("{{\"progressToken\":{token},{rest}}}"), rest.clone()] {
            if let Ok(raw) = RawValue::from_string(json) {
                let _ = decode_progress(&RawJson::serialized(&raw).unwrap());
            }
        }
    }
}
