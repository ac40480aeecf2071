use std::future::{pending, ready};

use http::Request;

use super::*;
use crate::transport::http::clock::from_now;

const PATIENCE: Duration = Duration::from_secs(10);

fn parts(authorization: &[&str]) -> Parts {
    let mut request = Request::post("/mcp?access_token=s3cret");
    for value in authorization {
        request = request.header(AUTHORIZATION, value.as_bytes());
    }
    request.body(()).unwrap().into_parts().0
}

fn by_hook<F, Fut>(hook: F) -> Authorization
where
    F: Fn(RequestHead) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Principal, Denied>> + Send + 'static,
{
    let hook: Hook = Arc::new(move |head| Box::pin(hook(head)));
    Authorization::new(Judge::Hook(hook), Challenge::default()).unwrap()
}

/// The principal, or the status and headers of the refusal.
async fn ask(
    authorization: &Authorization,
    parts: &Parts,
) -> Result<Option<Principal>, (u16, HeaderMap)> {
    let admitted = authorization.admit(parts, None, PATIENCE).await;
    admitted.map_err(|refusal| {
        let response = refusal.into_response();
        (response.status().as_u16(), response.headers().clone())
    })
}

// Covers R-1703.
#[tokio::test]
async fn a_token_is_read_from_one_header_of_one_scheme() {
    let tokens = Tokens::new(&[(Some("alice".into()), "abc".to_owned())]).unwrap();
    let authorization = Authorization::new(Judge::Tokens(tokens), Challenge::default()).unwrap();
    let (missing, invalid) = ("Bearer", "Bearer error=\"invalid_token\"");
    let malformed = "Bearer error=\"invalid_request\"";
    for (sent, status, says) in [
        (&["Bearer abc"][..], 200, ""),
        (&["bearer abc"], 200, ""),
        (&["BEARER   abc  "], 200, ""),
        (&[], 401, missing),
        (&["Basic YWJjOmFiYw=="], 401, missing),
        (&["Bearer abd"], 401, invalid),
        (&["Bearer ABC"], 401, invalid),
        (&["Bearer abc\u{e9}"], 401, invalid),
        (&["abc"], 401, missing),
        (&["Bearerabc"], 401, missing),
        (&["Bearer\tabc"], 401, missing),
        (&["Bearer"], 400, malformed),
        (&["Bearer "], 400, malformed),
        (&["Bearer abc def"], 400, malformed),
        (&["Bearer abc", "Bearer abc"], 400, malformed),
        (&["Basic x", "Bearer abc"], 400, malformed),
    ] {
        match ask(&authorization, &parts(sent)).await {
            Ok(principal) => {
                assert_eq!((principal, status), (Some("alice".into()), 200), "{sent:?}");
            }
            Err((found, headers)) => {
                assert_eq!(found, status, "{sent:?}");
                assert_eq!(headers["www-authenticate"], says, "{sent:?}");
            }
        }
    }
}

// Covers R-1703.
#[test]
fn a_challenge_says_why_and_what_would_do() {
    let metadata = "https://h.example/.well-known/oauth-protected-resource";
    let configured = Challenge {
        resource_metadata: Some(metadata.to_owned()),
        scope: Some("a b".to_owned()),
    };
    let plain = Challenge::default();
    let told = Denied::unauthorized().description("it \"ran\\out\"\r\nX: é");
    for (case, challenge, denied, shown, status, header) in [
        (
            "missing",
            &plain,
            Denied::unauthorized(),
            false,
            401,
            "Bearer".to_owned(),
        ),
        (
            "missing, configured",
            &configured,
            Denied::unauthorized(),
            false,
            401,
            format!("Bearer scope=\"a b\", resource_metadata=\"{metadata}\""),
        ),
        (
            "described, missing",
            &plain,
            told.clone(),
            false,
            401,
            "Bearer".to_owned(),
        ),
        (
            "described",
            &plain,
            told,
            true,
            401,
            "Bearer error=\"invalid_token\", error_description=\"it 'ran/out'??X: ?\"".to_owned(),
        ),
        (
            "scope of its own",
            &configured,
            Denied::forbidden().scope("c"),
            true,
            403,
            format!(
                "Bearer error=\"insufficient_scope\", scope=\"c\", resource_metadata=\"{metadata}\""
            ),
        ),
        (
            "malformed",
            &plain,
            Denied::malformed(),
            true,
            400,
            "Bearer error=\"invalid_request\"".to_owned(),
        ),
    ] {
        let response = challenge.refusal(&denied, shown).into_response();
        assert_eq!(response.status(), status, "{case}");
        assert_eq!(response.headers()["www-authenticate"], header, "{case}");
    }
    let response = plain.refusal(&Denied::unavailable(), true).into_response();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    assert!(!response.headers().contains_key("www-authenticate"));
}

#[test]
fn a_challenge_that_no_header_can_carry_is_told() {
    for text in ["", "a\"b", "a\\b", "a\r\nb", "é"] {
        for field in 0..2 {
            let text = |n| (n == field).then(|| text.to_owned());
            let challenge = Challenge {
                resource_metadata: text(0),
                scope: text(1),
            };
            let hook: Hook = Arc::new(|_| Box::pin(pending()));
            let made = Authorization::new(Judge::Hook(hook), challenge.clone());
            assert!(matches!(made, Err(Error::Config { .. })), "{challenge:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_or_takes_too_long_fails_its_request_alone() {
    struct PanicsLate;
    impl Drop for PanicsLate {
        fn drop(&mut self) {
            panic!("while it is dropped");
        }
    }
    fn at_once(_: RequestHead) -> std::future::Ready<Result<Principal, Denied>> {
        panic!("at once");
    }
    let waits = |late: Option<PanicsLate>| async move {
        let _late = late;
        pending().await
    };
    let table: [(&str, Authorization, u16, u64); 5] = [
        ("at once", by_hook(at_once), 500, 0),
        ("later", by_hook(async |_| panic!("later")), 500, 0),
        ("never", by_hook(async |_| pending().await), 503, 10),
        (
            "never, nor gone",
            by_hook(move |_| waits(Some(PanicsLate))),
            503,
            10,
        ),
        (
            "just in time",
            by_hook(async |_| {
                tokio::time::sleep(PATIENCE - Duration::from_millis(1)).await;
                Err(Denied::unauthorized())
            }),
            401,
            9,
        ),
    ];
    let parts = parts(&[]);
    for (case, authorization, status, seconds) in table {
        let start = from_now(Duration::ZERO);
        let (found, headers) = ask(&authorization, &parts).await.unwrap_err();
        assert_eq!(found, status, "{case}");
        assert_eq!(headers.contains_key("retry-after"), status == 503, "{case}");
        assert_eq!(start.elapsed().as_secs(), seconds, "{case}");
    }
}

#[tokio::test]
async fn a_hook_sees_the_head_and_nothing_shows_it() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let authorization = by_hook(move |head| {
        let _ = tell.send(head);
        ready(Ok("alice".into()))
    });
    let mut parts = parts(&["Bearer t0ken"]);
    parts.extensions.insert(7_u32);
    let peer = Some(([10, 0, 0, 1], 5).into());
    let admitted = authorization.admit(&parts, peer, PATIENCE).await.unwrap();
    assert_eq!(admitted, Some("alice".into()));
    let head = told.recv().await.unwrap();
    assert_eq!(head.bearer_token(), Some("t0ken"));
    assert_eq!(head.headers()["authorization"], "Bearer t0ken");
    assert_eq!((head.method(), head.uri().path()), (&Method::POST, "/mcp"));
    assert_eq!(head.extensions().get(), Some(&7_u32));
    assert_eq!(head.peer_addr(), peer);
    for shown in [format!("{head:?}"), format!("{authorization:?}")] {
        for secret in ["t0ken", "s3cret"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
