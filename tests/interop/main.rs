//! The official SDKs of other languages as the peer, both ways, over each link.
//!
//! `tests/run.sh` installs them and names their interpreters in `INTEROP_PYTHON` and `INTEROP_NODE`,
//! empty if there is none; unset, what it installed before is found. Without one its tests say so
//! and pass, except under `CI=true`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

/// Makes each scenario a test for each peer over each link: `setting(peer, link, name, scenario)`.
macro_rules! for_each_peer {
    ($setting:ident $scenarios:tt) => {
        for_each_peer!(python_http: Python over Http, $setting $scenarios);
        for_each_peer!(python_stdio: Python over Stdio, $setting $scenarios);
        for_each_peer!(typescript_http: TypeScript over Http, $setting $scenarios);
        for_each_peer!(typescript_stdio: TypeScript over Stdio, $setting $scenarios);
    };
    ($module:ident: $peer:ident over $link:ident, $setting:ident [$($scenario:ident),+ $(,)?]) => {
        mod $module {
            use crate::peer::{Link, Peer};

            $(
                #[tokio::test]
                async fn $scenario() {
                    let name = concat!(module_path!(), "::", stringify!($scenario));
                    super::$setting(Peer::$peer, Link::$link, name, super::$scenario).await;
                }
            )+
        }
    };
}

mod from_peer;
mod peer;
mod to_peer;
mod tools;
