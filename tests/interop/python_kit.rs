//! Programs as users of the Python kit write them, at the other end. They write and read the envelope
//! by means of their own, without a line of this crate.

use agent_hub_kit::{AgentHubClient, EventKind, StreamEvent};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::from_peer::our_server;
use crate::peer::{Client, PATIENCE, Row, Server};

for_each_python_peer!(in_time [
    our_client_hears_typed_events,
    our_echo_is_decoded,
    every_type_is_decoded,
]);

async fn in_time(row: Row, name: &str, scenario: impl AsyncFnOnce(Row, &str)) {
    timeout(PATIENCE, scenario(row, name))
        .await
        .expect("the test ends");
}

/// Kind, content, node, and the numbers of the notification.
type Seen = (EventKind, Value, Option<String>, Option<(f64, Option<f64>)>);

fn seen(event: &StreamEvent) -> Seen {
    (
        event.kind.clone(),
        event.content.value(),
        event.node.as_ref().map(ToString::to_string),
        event.progress().map(|p| (p.number, p.total)),
    )
}

/// What both sides send under `text`, `image`, `stl`, `video`, `emotion_data`, `error` and a type of
/// their own.
fn contents() -> [Value; 7] {
    [
        json!("こんにちは 👋🏽 \"you\" \\ / \u{8}\u{c}\n\r\t \u{1}\u{7f} \u{2028} é"),
        json!("data:image/png;base64,iVBORw0KGgo="),
        json!("data:model/stl;base64,c29saWQgYQ=="),
        json!({"url": "https://example.org/a.mp4?b=1&c=2", "seconds": 1.25}),
        json!({"joy": 0.75, "悲しみ": 0, "keys": ["😀", null, true]}),
        json!("the camera is off, so I go on without it"),
        json!([1, -2.5, {"deep": {"er": []}}, ""]),
    ]
}

async fn our_client_hears_typed_events(row: Row, name: &str) {
    let Some(server) = Server::start(row, "quick_start", name).await else {
        return;
    };
    let hub = AgentHubClient::builder().build();
    server.connect(&hub, "peer").await;
    let mut stream = hub.call_tool_stream("ask", json!({"user_request": "描いて 🎨"}));
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(seen(&event));
    }
    hub.close().await;

    let sent = |number: f64, kind, content, node: Option<&str>| {
        let node = node.map(str::to_owned);
        (kind, content, node, Some((number, Some(9.0))))
    };
    let [text, image, stl, video, feeling, error, moves] = contents();
    let gesture = EventKind::from_envelope_type("gesture");
    assert!(matches!(gesture, EventKind::Other(_)));
    let expected = [
        sent(1.0, EventKind::Log, json!("asked: 描いて 🎨"), None),
        sent(2.0, EventKind::Think, json!("まず考える…"), Some("plan")),
        sent(3.0, EventKind::Text, text, Some("答え 💬")),
        sent(4.0, EventKind::Image, image, Some("draw")),
        sent(5.0, EventKind::Stl, stl, Some("draw")),
        sent(6.0, EventKind::Video, video, Some("draw")),
        sent(7.0, EventKind::EmotionData, feeling, Some("face")),
        sent(8.0, EventKind::Error, error, Some("face")),
        sent(9.0, gesture, moves, Some("body")),
        (EventKind::Result, json!("answered: 描いて 🎨"), None, None),
    ];
    assert_eq!(events, expected);
}

/// What a user's client decoded of a call of our tool.
async fn decoded(row: Row, tool: &str, args: Value) -> Option<Vec<Value>> {
    let (target, _serving) = our_server(row.link).await;
    let client = Client::of(row, "kit_client", target)?;
    Some(client.run(&[tool, &args.to_string()]).await)
}

/// The events with the numbers of their notifications, 1, 2, .., and the result after them.
fn numbered<'a>(
    events: impl IntoIterator<Item = (&'a str, Value, Option<&'a str>)>,
    result: &str,
) -> Vec<Value> {
    (1..)
        .zip(events)
        .map(|(number, (kind, content, node))| {
            let number = f64::from(number);
            json!({"type": kind, "content": content, "node": node, "progress": number, "total": null})
        })
        .chain([json!({"result": result, "is_error": false})])
        .collect()
}

async fn our_echo_is_decoded(row: Row, _: &str) {
    let text = "é👋🏽 \"\\\n\u{1}漢";
    let Some(events) = decoded(row, "echo", json!({"text": text})).await else {
        return;
    };
    let said = ["é", "👋", "🏽", " ", "\"", "\\", "\n", "\u{1}", "漢"];
    let log = ("log", json!("received 9 characters"), Some("echo"));
    let said = said.map(|ch| ("text", json!(ch), Some("echo")));
    let expected = numbered([log].into_iter().chain(said), text);
    assert_eq!(events, expected);
}

async fn every_type_is_decoded(row: Row, _: &str) {
    let Some(events) = decoded(row, "all_types", json!({})).await else {
        return;
    };
    let [text, image, stl, video, feeling, error, moves] = contents();
    let face = Some("顔 \"face\"");
    let expected = [
        ("log", json!("asked"), None),
        ("think", json!("まず考える…"), Some("plan")),
        ("text", text, face),
        ("image", image, Some("draw")),
        ("stl", stl, Some("draw")),
        ("video", video, Some("draw")),
        ("emotion_data", feeling, face),
        ("error", error, face),
        ("gesture", moves, None),
    ];
    assert_eq!(events, numbered(expected, "answered"));
}
