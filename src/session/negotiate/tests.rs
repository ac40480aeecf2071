use super::*;
use crate::wire::jsonrpc::{self, Incoming, Message, Response};
use bytes::Bytes;

const OLD: Option<ProtocolVersion> = Some(ProtocolVersion::V2025_06_18);
const NEW: Option<ProtocolVersion> = Some(ProtocolVersion::V2026_07_28);

/// What a peer does about an opening.
#[derive(Debug, Clone, Copy)]
enum Does {
    /// Answers with these members, beside `jsonrpc` and `id`, and a good status.
    Answers(&'static str),
    Ends,
    Exits,
    Refuses(u16, &'static str),
    Silent,
    Unreachable,
}

use Does::{Answers, Ends, Exits, Refuses, Silent, Unreachable};

fn decoded(members: &str) -> Outcome {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,{members}}}"#);
    match jsonrpc::decode(&Bytes::from(text), 128) {
        Ok(Incoming::One(Message::Response(Response { outcome, .. }))) => outcome,
        other => panic!("{members}: {other:?}"),
    }
}

fn react(negotiation: &mut Negotiation, does: Does) -> Move {
    match does {
        Answers(members) => negotiation.handle_answer(decoded(members)),
        Ends => negotiation.handle_failure(Error::transport("it broke off"), Failure::Answerless),
        Exits => negotiation.handle_failure(Error::transport("it exited"), Failure::Gone),
        Refuses(status, body) => {
            let rpc = match body.strip_prefix('{') {
                Some(members) => match decoded(members.strip_suffix('}').unwrap()) {
                    Outcome::Error(error) => Some(error),
                    other => panic!("{body}: {other:?}"),
                },
                None => None,
            };
            let error = match &rpc {
                Some(rpc) => rpc_error(rpc.clone()),
                None => Error::Http {
                    place: crate::error::Place::default(),
                    status,
                    detail: body.into(),
                    retry_after: None,
                },
            };
            negotiation.handle_refusal(status, rpc, error)
        }
        Silent => negotiation.handle_silence(Duration::from_secs(5)),
        Unreachable => negotiation.handle_failure(Error::transport("refused"), Failure::Unsent),
    }
}

/// Every opening that was sent, and how it went: `discover`, `initialize`, with `+` if a child has
/// to be started anew for it and `?` if silence would be an answer, then the version or the error.
fn story(negotiation: &mut Negotiation, peer: &[Does]) -> Vec<String> {
    let mut told = Vec::new();
    let mut next = Move::Open(negotiation.begin());
    let mut peer = peer.iter();
    loop {
        match next {
            Move::Done(opened) => told.push(opened.version.to_string()),
            Move::Fail(error) => told.push(error.to_string()),
            Move::Open(opening) => {
                let client = crate::mcp::types::Implementation {
                    name: "c".to_owned(),
                    version: "1".to_owned(),
                };
                let id = jsonrpc::RequestId::Number(1);
                let (_, body) = opening.dialect.opening(&id, &client);
                let text = std::str::from_utf8(&body).unwrap();
                let what = match text.contains("server/discover") {
                    true => "discover",
                    false => "initialize",
                };
                let fresh = if opening.is_fresh { "+" } else { "" };
                let patience = if opening.is_question { "?" } else { "" };
                told.push(format!("{what}{fresh}{patience}"));
                let Some(does) = peer.next() else {
                    told.push("..".to_owned());
                    return told;
                };
                next = react(negotiation, *does);
                continue;
            }
        }
        assert!(peer.next().is_none(), "{told:?} did not need all of it");
        return told;
    }
}

fn told(era: Era, known: Option<ProtocolVersion>, peer: &[Does]) -> String {
    story(&mut Negotiation::new(era, known), peer).join(" > ")
}

const DISCOVERED: Does = Answers(r#""result":{"supportedVersions":["2026-07-28"]}"#);
const INITIALIZED: Does = Answers(r#""result":{"protocolVersion":"2025-06-18"}"#);
const NOT_FOUND: Does = Answers(r#""error":{"code":-32601,"message":"Method not found"}"#);
const SAME: &str = r#"{"error":{"code":-32022,"message":"v","data":{"supported":["2026-07-28"]}}}"#;
const LOCKED: Does = Answers(r#""error":{"code":-32022,"message":"v"}"#);

const ALL: &str = "2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05";

// Covers R-302, R-303, R-308.
#[test]
fn each_answer_to_the_question_has_its_consequence() {
    let both = |theirs: &str| format!("the server {theirs}; this client knows {ALL}");
    let stateless = "2026-07-28".to_owned();
    let handshake = "initialize > 2025-06-18".to_owned();
    // What the peer does, and what follows the question.
    let table: Vec<(Vec<Does>, String)> = vec![
        // Answers that are a result.
        (vec![DISCOVERED], stateless.clone()),
        (
            vec![Answers(
                r#""result":{"resultType":"complete","supportedVersions":["2027-01-01","2026-07-28","2025-11-25"],"capabilities":{"tools":{}},"ttlMs":0}"#,
            )],
            stateless.clone(),
        ),
        (
            vec![
                Answers(r#""result":{"supportedVersions":["2025-11-25","2025-06-18"]}"#),
                INITIALIZED,
            ],
            handshake.clone(),
        ),
        (
            vec![Answers(r#""result":{"supportedVersions":["2027-01-01"]}"#)],
            format!(
                "the peer broke the protocol: {}",
                both(r#"speaks protocol version "2027-01-01""#)
            ),
        ),
        (
            vec![Answers(r#""result":{"supportedVersions":["x","y"]}"#)],
            format!(
                "the peer broke the protocol: {}",
                both(r#"speaks protocol versions "x, y""#)
            ),
        ),
        (
            vec![Answers(r#""result":{"supportedVersions":[]}"#)],
            format!(
                "the peer broke the protocol: {}",
                both("names no protocol version")
            ),
        ),
        // The error for a version, at any status.
        (
            vec![Refuses(400, SAME), DISCOVERED],
            "discover? > 2026-07-28".to_owned(),
        ),
        (
            vec![Refuses(200, SAME), DISCOVERED],
            "discover? > 2026-07-28".to_owned(),
        ),
        (
            vec![Refuses(400, SAME), Refuses(400, SAME)],
            format!(
                "discover? > the server answered error -32022: v; {}",
                both(r#"speaks protocol version "2026-07-28""#)
            ),
        ),
        (
            vec![Refuses(400, SAME), Silent, INITIALIZED],
            format!("discover? > {handshake}"),
        ),
        (
            vec![
                Answers(
                    r#""error":{"code":-32022,"message":"v","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}"#,
                ),
                INITIALIZED,
            ],
            handshake.clone(),
        ),
        (
            vec![Answers(
                r#""error":{"code":-32022,"message":"v","data":{"supported":["2027-01-01"]}}"#,
            )],
            format!(
                "the server answered error -32022: v; {}",
                both(r#"speaks protocol version "2027-01-01""#)
            ),
        ),
    ];
    for (peer, follows) in table {
        for known in [None, NEW] {
            let follows = format!("discover? > {follows}");
            assert_eq!(told(Era::Auto, known, &peer), follows, "{peer:?}");
        }
    }
    // Its data may be anything.
    for data in [
        "",
        r#","data":null"#,
        r#","data":"2026-07-28""#,
        r#","data":{"supported":"2026-07-28"}"#,
        r#","data":{"supported":[1,null]}"#,
        r#","data":["2026-07-28"]"#,
        r#","data":{}"#,
    ] {
        let members = format!(r#""error":{{"code":-32022,"message":"v"{data}}}"#);
        let peer = [Answers(members.leak())];
        let follows = format!(
            "discover? > the server answered error -32022: v; {}",
            both("names no protocol version")
        );
        assert_eq!(told(Era::Auto, None, &peer), follows, "{data}");
    }
}

// Covers R-302, R-308, R-309.
#[test]
fn whoever_does_not_understand_the_question_is_offered_the_handshake() {
    let table = [
        // JSON-RPC errors of any code.
        NOT_FOUND,
        Answers(r#""error":{"code":-32600,"message":"Missing session ID"}"#),
        Answers(r#""error":{"code":-32602,"message":"Invalid request parameters"}"#),
        Answers(r#""error":{"code":-32603,"message":"Internal error"}"#),
        Answers(r#""error":{"code":-32000,"message":"Server not initialized"}"#),
        Answers(r#""error":{"code":-32800,"message":"cancelled"}"#),
        Answers(r#""error":{"code":0,"message":""}"#),
        Answers(r#""error":{"code":-32020,"message":"headers"}"#),
        Answers(r#""error":{"code":-32021,"message":"capabilities"}"#),
        Refuses(
            400,
            r#"{"error":{"code":-32600,"message":"Missing session ID"}}"#,
        ),
        Refuses(400, r#"{"error":{"code":-32020,"message":"headers"}}"#),
        Refuses(
            404,
            r#"{"error":{"code":-32601,"message":"Method not found"}}"#,
        ),
        Refuses(
            500,
            r#"{"error":{"code":-32603,"message":"Internal error"}}"#,
        ),
        // Results of another shape, and what is neither.
        Answers(r#""result":{}"#),
        Answers(r#""result":{"tools":[]}"#),
        Answers(r#""result":null"#),
        Answers(r#""result":[["2026-07-28"]]"#),
        Answers(r#""result":{"supportedVersions":"2026-07-28"}"#),
        Answers(r#""result":{"supportedVersions":[20260728]}"#),
        Answers(r#""x":1"#),
        Answers(r#""error":"no""#),
        // Statuses.
        Refuses(400, ""),
        Refuses(404, "Not Found"),
        Refuses(405, "<html>"),
        Refuses(406, ""),
        Refuses(415, ""),
        Refuses(418, ""),
        Refuses(422, "expect initialize request"),
        Refuses(429, ""),
        Refuses(200, "<html>"),
        Refuses(204, ""),
        Refuses(500, ""),
        Refuses(502, "Bad Gateway"),
        Refuses(503, ""),
        Ends,
        Silent,
    ];
    for does in table {
        assert_eq!(
            told(Era::Auto, None, &[does, INITIALIZED]),
            "discover? > initialize > 2025-06-18",
            "{does:?}"
        );
    }
    // A child that has gone is started again, and not asked again.
    assert_eq!(
        told(Era::Auto, None, &[Exits, INITIALIZED]),
        "discover? > initialize+ > 2025-06-18"
    );
}

// Covers R-302.
#[test]
fn where_the_next_request_meets_the_same_there_is_none() {
    let table = [
        (Refuses(401, "who"), "the server answered HTTP 401: who"),
        (Refuses(403, ""), "the server answered HTTP 403"),
        (Unreachable, "refused"),
    ];
    for (does, why) in table {
        for (era, known, first) in [
            (Era::Auto, None, "discover?"),
            (Era::Auto, OLD, "initialize"),
            (Era::Legacy, None, "initialize"),
            (Era::Modern, None, "discover"),
        ] {
            assert_eq!(
                told(era, known, &[does]),
                format!("{first} > {why}"),
                "{does:?}"
            );
        }
        assert!(told(Era::Auto, None, &[NOT_FOUND, does]).contains(why));
    }
}

// Covers R-302, R-309, R-310.
#[test]
fn a_choice_of_the_user_is_all_that_is_tried() {
    let table = [
        NOT_FOUND,
        LOCKED,
        Answers(r#""error":{"code":-32020,"message":"headers"}"#),
        Answers(r#""result":{}"#),
        Refuses(404, ""),
        Refuses(500, ""),
        Refuses(200, "<html>"),
        Ends,
        Exits,
    ];
    for does in table {
        for known in [None, OLD, NEW] {
            for (era, first) in [(Era::Legacy, "initialize"), (Era::Modern, "discover")] {
                let mut negotiation = Negotiation::new(era, known);
                let story = story(&mut negotiation, &[does]);
                assert_eq!(story.len(), 2, "{does:?}: {story:?}");
                assert_eq!(story[0], first, "{does:?}");
                assert_eq!(negotiation.found(), None, "{does:?}");
            }
        }
    }
    let modern = |peer: &[Does]| told(Era::Modern, None, peer);
    assert_eq!(modern(&[DISCOVERED]), "discover > 2026-07-28");
    assert_eq!(
        modern(&[Refuses(400, SAME), DISCOVERED]),
        "discover > discover > 2026-07-28"
    );
    let old = r#"{"error":{"code":-32022,"message":"v","data":{"supported":["2025-11-25"]}}}"#;
    assert_eq!(
        modern(&[Refuses(400, old)]),
        "discover > the server answered error -32022: v; the server speaks protocol version \
         \"2025-11-25\"; this client knows 2026-07-28"
    );
    assert_eq!(
        told(Era::Legacy, NEW, &[INITIALIZED]),
        "initialize > 2025-06-18"
    );
    assert_eq!(
        told(Era::Legacy, None, &[Refuses(400, SAME)]),
        "initialize > the server answered error -32022: v; the server speaks protocol version \
         \"2026-07-28\"; this client knows 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"
    );
}

// Covers R-307, R-309.
#[test]
fn a_peer_that_holds_on_to_the_question_is_asked_once_more() {
    for refusal in [
        LOCKED,
        Refuses(400, r#"{"error":{"code":-32022,"message":"v"}}"#),
        Refuses(400, SAME),
    ] {
        let story = |last: &[Does]| {
            let peer: Vec<Does> = [NOT_FOUND, refusal].iter().chain(last).copied().collect();
            told(Era::Auto, None, &peer)
        };
        let asked = "discover? > initialize > discover+ > ";
        assert_eq!(story(&[DISCOVERED]), format!("{asked}2026-07-28"));
        // Then nothing more, whatever it says.
        for last in [NOT_FOUND, LOCKED, Refuses(400, SAME), Ends, Exits] {
            let story = story(&[last]);
            assert!(story.starts_with(asked), "{last:?}: {story}");
            assert_eq!(story.matches(" > ").count(), 3, "{last:?}: {story}");
            assert!(story.contains("; before that, initialize: "), "{story}");
        }
    }
    // Nothing in common: it is not asked.
    let strange = r#"{"error":{"code":-32022,"message":"v","data":{"supported":["2027-01-01"]}}}"#;
    let story = told(Era::Auto, None, &[NOT_FOUND, Refuses(400, strange)]);
    assert_eq!(story.matches(" > ").count(), 2, "{story}");
    assert!(
        story.contains("2027-01-01") && story.contains(ALL),
        "{story}"
    );
}

// Covers R-303, R-310.
#[test]
fn what_is_known_is_tried_first_and_found_out_anew_if_it_is_contradicted() {
    let again = |peer: &[Does]| told(Era::Auto, OLD, peer);
    assert_eq!(again(&[INITIALIZED]), "initialize > 2025-06-18");
    for does in [
        NOT_FOUND,
        LOCKED,
        Answers(r#""error":{"code":-32602,"message":"no _meta"}"#),
        Answers(r#""error":{"code":-32020,"message":"headers"}"#),
        Refuses(400, SAME),
        Refuses(400, ""),
        Refuses(404, ""),
        Refuses(405, ""),
    ] {
        let asked = "initialize > discover+ > ";
        assert_eq!(
            again(&[does, DISCOVERED]),
            format!("{asked}2026-07-28"),
            "{does:?}"
        );
        let story = again(&[does, NOT_FOUND]);
        assert!(story.starts_with(asked), "{does:?}: {story}");
        assert_eq!(story.matches(" > ").count(), 2, "{does:?}: {story}");
        assert_eq!(
            again(&[does, Refuses(400, SAME), DISCOVERED]),
            format!("{asked}discover > 2026-07-28"),
            "{does:?}"
        );
    }
    // Trouble contradicts nothing.
    for does in [
        Answers(r#""error":{"code":-32603,"message":"boom"}"#),
        Refuses(500, ""),
        Refuses(200, "<html>"),
        Ends,
        Exits,
    ] {
        let story = again(&[does]);
        assert_eq!(story.matches(" > ").count(), 1, "{does:?}: {story}");
    }
    // One connection learns, and goes on from there.
    let mut negotiation = Negotiation::new(Era::Auto, None);
    assert_eq!(negotiation.found(), None);
    for (peer, heard, found) in [
        (
            &[NOT_FOUND, INITIALIZED][..],
            "discover? > initialize > 2025-06-18",
            OLD,
        ),
        (&[INITIALIZED], "initialize > 2025-06-18", OLD),
        (
            &[NOT_FOUND, DISCOVERED],
            "initialize > discover+ > 2026-07-28",
            NEW,
        ),
        (&[DISCOVERED], "discover? > 2026-07-28", NEW),
        (
            &[Silent, Exits],
            "discover? > initialize > it exited; before that, server/discover: no end within the discover_timeout of 5s",
            NEW,
        ),
        (
            &[Refuses(400, ""), INITIALIZED],
            "discover? > initialize > 2025-06-18",
            OLD,
        ),
    ] {
        assert_eq!(story(&mut negotiation, peer).join(" > "), heard);
        assert_eq!(negotiation.found(), found, "{heard}");
    }
}

// Covers R-303.
#[test]
fn what_is_known_and_leads_to_nothing_is_asked_for_the_next_time() {
    for does in [
        Answers(r#""error":{"code":-32603,"message":"boom"}"#),
        Refuses(500, ""),
        Refuses(200, "<html>"),
        Ends,
    ] {
        let mut negotiation = Negotiation::new(Era::Auto, OLD);
        story(&mut negotiation, &[does]);
        assert_eq!(negotiation.found(), None, "{does:?}");
        let again = story(&mut negotiation, &[DISCOVERED]).join(" > ");
        assert_eq!(again, "discover? > 2026-07-28", "{does:?}");
    }
    // It was not there to say anything, or is in trouble.
    for does in [Refuses(401, ""), Unreachable, Exits] {
        let mut negotiation = Negotiation::new(Era::Auto, OLD);
        story(&mut negotiation, &[does]);
        assert_eq!(negotiation.found(), OLD, "{does:?}");
    }
}

// Covers R-307.
#[test]
fn a_peer_that_was_too_slow_to_be_asked_is_asked_again() {
    for refusal in [NOT_FOUND, Refuses(404, ""), Refuses(400, "")] {
        let asked = "discover? > initialize > discover > ";
        let peer = [Silent, refusal, DISCOVERED];
        assert_eq!(told(Era::Auto, None, &peer), format!("{asked}2026-07-28"));
        for last in [NOT_FOUND, Refuses(400, SAME), Ends, Exits] {
            let story = told(Era::Auto, None, &[Silent, refusal, last]);
            assert!(story.starts_with(asked), "{last:?}: {story}");
            assert_eq!(story.matches(" > ").count(), 3, "{last:?}: {story}");
        }
    }
}

// Covers R-302, R-318, R-403.
#[test]
fn an_error_says_what_was_tried() {
    let hint = "an endpoint of the deprecated HTTP+SSE transport answers so, which is not \
                supported; check the URL";
    let table = [
        // A fault that was found with the question is what counts.
        (
            vec![
                Refuses(
                    400,
                    r#"{"error":{"code":-32020,"message":"no Mcp-Method"}}"#,
                ),
                Answers(r#""error":{"code":-32601,"message":"gone"}"#),
            ],
            "the server answered error -32020: no Mcp-Method; after that, initialize: the server \
             answered error -32601: gone"
                .to_owned(),
        ),
        (
            vec![Refuses(503, "down"), Refuses(502, "still down")],
            "the server answered HTTP 502: still down; before that, server/discover: the server \
             answered HTTP 503: down"
                .to_owned(),
        ),
        (
            vec![Refuses(502, "Bad Gateway"), Refuses(502, "Bad Gateway")],
            "the server answered HTTP 502: Bad Gateway; before that, server/discover: the same"
                .to_owned(),
        ),
        (
            vec![Refuses(404, "Not Found"), Refuses(404, "Not Found")],
            format!(
                "the server answered HTTP 404: Not Found; {hint}; before that, server/discover: \
                 the same"
            ),
        ),
        (
            vec![Refuses(405, ""), Refuses(405, "")],
            format!("the server answered HTTP 405: {hint}; before that, server/discover: the same"),
        ),
        (
            vec![Exits, Exits],
            "it exited; before that, server/discover: the same".to_owned(),
        ),
        (
            vec![
                NOT_FOUND,
                Answers(r#""result":{"protocolVersion":"1999-01-01"}"#),
            ],
            format!(
                "the peer broke the protocol: the server speaks protocol version \"1999-01-01\"; \
                 this client knows {ALL}; before that, server/discover: the server answered error \
                 -32601: Method not found"
            ),
        ),
        // As old servers say it.
        (
            vec![
                NOT_FOUND,
                Answers(
                    r#""error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-10-07"],"requested":"2025-11-25"}}"#,
                ),
            ],
            format!(
                "the server answered error -32602: Unsupported protocol version; the server \
                 speaks protocol version \"2024-10-07\"; this client knows {ALL}; before that, \
                 server/discover: the server answered error -32601: Method not found"
            ),
        ),
    ];
    for (peer, error) in table {
        let story = story(&mut Negotiation::new(Era::Auto, None), &peer);
        assert_eq!(story.last().unwrap(), &error, "{peer:?}");
        assert_eq!(story.len(), 3, "{story:?}");
    }
    // Only a handshake, and only one without a JSON-RPC answer, may have met that transport.
    let error = told(Era::Modern, None, &[Refuses(404, "Not Found")]);
    assert!(!error.contains("HTTP+SSE"), "{error}");
    let rpc = Refuses(404, r#"{"error":{"code":-32601,"message":"x"}}"#);
    assert!(!told(Era::Legacy, None, &[rpc]).contains("HTTP+SSE"));
}

#[test]
fn a_long_list_of_versions_is_cut() {
    let listed = vec!["x".repeat(60); 1_000];
    let text = Negotiation::new(Era::Auto, None).no_common_version(&listed);
    assert!(text.len() < 300, "{text}");
}
