//! What stands in headers: heads, encoded texts, arguments that are repeated.

use serde_json::value::RawValue;

use crate::mcp::frame::Head;
use crate::mcp::param::{self, ParamHeader};
use crate::mcp::value;
use crate::wire::jsonrpc::RawJson;

/// A head that was read is written as it was; any text comes through a header; and a server finds
/// that the headers say what the arguments say if a client wrote them, and not if they were
/// tampered with.
///
/// The first line is an input schema, the second one holds arguments, the others are headers.
pub fn headers(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let mut lines = input.split('\n');
    let (schema, arguments) = (lines.next(), lines.next());
    let fields: Vec<(String, &str)> = lines
        .map(|line| line.split_once(':').unwrap_or((line, "")))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    heads(&fields);
    texts(&input);
    for (_, value) in &fields {
        texts(value.trim());
    }
    if let (Some(schema), Some(arguments)) = (raw_json(schema), raw_json(arguments)) {
        params(&schema, &arguments, &fields);
    }
}

fn raw_json(text: Option<&str>) -> Option<RawJson> {
    let value: &RawValue = serde_json::from_str(text?).ok()?;
    RawJson::serialized(&value).ok()
}

fn read(fields: &[(String, &str)]) -> Head {
    Head::read(fields.iter().map(|(name, value)| (&**name, *value)))
}

fn written(head: &Head) -> Vec<(String, &str)> {
    let mut fields = Vec::new();
    head.write(|name, value| fields.push((name.to_owned(), value)));
    fields
}

fn heads(fields: &[(String, &str)]) {
    let mut once: Vec<(String, &str)> = Vec::new();
    for (name, value) in fields {
        if !once.iter().any(|(known, _)| known == name) {
            once.push((name.clone(), value));
        }
    }
    let head = read(fields);
    for (name, values) in written(&head) {
        let mut came = fields.iter().filter(|(known, _)| *known == name);
        let is_said = came.any(|(_, value)| values.contains(value.trim()));
        // A session id of impossible spelling is one that nobody has.
        assert!(is_said || values == "-", "{name}: {values:?}");
    }
    let head = read(&once);
    let fields = written(&head);
    assert_eq!(read(&fields), head);
    for (name, value) in &fields {
        let came = once.iter().filter(|(known, _)| known == name).count();
        assert_eq!((came, value.trim()), (1, *value), "{name}");
    }
}

fn texts(text: &str) {
    let sent = value::encode(text);
    assert!(sent.bytes().all(|b| matches!(b, b' '..=b'~')), "{sent:?}");
    assert_eq!(sent.trim(), sent, "white space is lost on the way");
    assert_eq!(value::decode(&sent).as_deref(), Ok(text));
    if let Ok(text) = value::decode(text) {
        assert_eq!(value::decode(&value::encode(&text)), Ok(text.clone()));
    }
}

/// Header fields, ready to be written or as they came.
type Fields = Vec<(Box<str>, Box<str>)>;

fn params(schema: &RawJson, arguments: &RawJson, fields: &[(String, &str)]) {
    let Ok(wanted) = ParamHeader::read_all(schema) else {
        return;
    };
    let sent = param::headers(&wanted, arguments);
    assert!(sent.len() <= wanted.len());
    for (name, value) in &sent {
        let is_token = |b: u8| b.is_ascii_graphic() && !br#"(),/:;<=>?@[\]{}""#.contains(&b);
        assert!(name.starts_with("Mcp-Param-") && name.bytes().all(is_token));
        assert!(value.bytes().all(|b| matches!(b, b' '..=b'~')), "{value:?}");
    }
    let came = arrived(&sent);
    assert_eq!(came.len(), sent.len(), "two headers of one name");
    match param::check(&wanted, arguments, &came) {
        Ok(()) => tampered(&wanted, arguments, &came),
        // Such an argument is not for headers.
        Err(why) => assert!(why.contains("no integer within"), "{why}"),
    }
    // Whatever else is sent, a verdict is given, and it is the headers' that are wanted alone.
    let others = read(fields).params;
    let judged = param::check(&wanted, arguments, &others);
    let mut more = others.clone();
    more.push(("mcp-param- no token".into(), "x".into()));
    assert_eq!(param::check(&wanted, arguments, &more), judged);
    if wanted.is_empty() {
        assert_eq!(judged, Ok(()));
    }
}

/// Headers as a server has them.
fn arrived(sent: &Fields) -> Fields {
    let lower = |(name, value): &(Box<str>, Box<str>)| (name.to_ascii_lowercase(), value.clone());
    let sent: Vec<_> = sent.iter().map(lower).collect();
    let fields: Vec<(String, &str)> = sent.iter().map(|(name, v)| (name.clone(), &**v)).collect();
    read(&fields).params
}

fn tampered(wanted: &[ParamHeader], arguments: &RawJson, came: &Fields) {
    for at in 0..came.len() {
        let mut less = came.clone();
        less.remove(at);
        let verdict = param::check(wanted, arguments, &less);
        assert!(verdict.is_err(), "{} is missing", came[at].0);

        for other in ["", "another \u{e9}", "1e400", "=?base64?!?="] {
            let mut changed = came.clone();
            let other = match other {
                "=?base64?!?=" => other.to_owned(),
                text => value::encode(text).into_owned(),
            };
            let is_same = value::decode(&other) == value::decode(&came[at].1);
            changed[at].1 = other.into();
            let verdict = param::check(wanted, arguments, &changed);
            assert_eq!(verdict.is_ok(), is_same, "{:?}", changed[at]);
        }

        let mut twice = came.clone();
        twice.push(came[at].clone());
        let verdict = param::check(wanted, arguments, &twice);
        assert!(verdict.is_err(), "{} came twice", came[at].0);
    }
    // With no arguments there is nothing for headers to say.
    let none = RawJson::from_static("{}");
    assert_eq!(param::check(wanted, &none, &Vec::new()), Ok(()));
    assert_eq!(param::headers(wanted, &none), Vec::new());
}
