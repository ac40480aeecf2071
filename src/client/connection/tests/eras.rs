//! A peer that is asked what it speaks, on a clock that the test moves.

use super::*;

/// What was sent, and how many milliseconds after the start.
type Heard = Arc<Mutex<Vec<(String, u128)>>>;

fn since(begun: Instant) -> Duration {
    driver::now().saturating_duration_since(begun)
}

async fn connecting(
    limits: Limits,
    script: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static,
) -> (AgentHubClient, Result<()>, Heard) {
    let (begun, heard) = (driver::now(), Heard::default());
    let noted = heard.clone();
    let noting = move |what: &str, message: &Value| {
        let after = since(begun).as_millis();
        noted.lock().unwrap().push((what.to_owned(), after));
        script(what, message)
    };
    let hub = AgentHubClient::builder().limits(limits.clone()).build();
    let link = FakeLink {
        script: Box::new(noting),
        replies: Replies::default(),
        sent: Arc::default(),
    };
    let candidate =
        crate::client::connect::Candidate::over("p".into(), Box::new(link), limits, Era::Auto);
    let policy = crate::client::connect::Policy::default();
    let connected = hub.shared().connect(candidate, policy).await;
    (hub, connected.map(drop), heard)
}

fn limits(connect: u64, discover: u64) -> Limits {
    Limits {
        connect_timeout: Duration::from_millis(connect),
        discover_timeout: Duration::from_millis(discover),
        ..Limits::default()
    }
}

//
#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_offered_the_handshake_on_the_dot() {
    let defaults = Limits::default();
    assert_eq!(defaults.discover_timeout, Duration::from_secs(5));
    for (limits, after) in [
        (defaults, 5_000),
        (limits(6_000, 5_000), 3_000),
        (limits(30_000, 250), 250),
    ] {
        for silence in [Answer::Never, Answer::Messages(Vec::new(), Then::Open)] {
            let (hub, connected, heard) =
                connecting(limits.clone(), move |what, message| match what {
                    "server/discover" => silence.clone(),
                    _ => polite(what, message),
                })
                .await;
            connected.unwrap();
            let expected = [
                ("server/discover", 0),
                ("initialize", after),
                ("notifications/initialized", after),
                ("tools/list", after),
            ];
            let expected = expected.map(|(what, after)| (what.to_owned(), after));
            assert_eq!(*heard.lock().unwrap(), expected);
            hub.close().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn asking_and_offering_take_no_longer_than_connecting_may() {
    let begun = driver::now();
    let (_hub, connected, heard) = connecting(limits(9_000, 5_000), |_, _| Answer::Never).await;
    let error = connected.unwrap_err();
    let Error::Connect { source, .. } = &error else {
        panic!("{error:?}")
    };
    let what = "connect_timeout";
    assert!(
        matches!(&**source, Error::Timeout { what: w, .. } if *w == what),
        "{error:?}"
    );
    assert_eq!(since(begun), Duration::from_secs(9));
    let heard: Vec<_> = heard.lock().unwrap().clone();
    assert_eq!(
        heard,
        [
            ("server/discover".to_owned(), 0),
            ("initialize".to_owned(), 4_500)
        ]
    );
}
