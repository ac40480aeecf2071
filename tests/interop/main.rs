//! The official SDKs as the peer, both ways, over each link, in each era; and programs as users of the
//! Python kit write them.
//!
//! `tests/run.sh` installs them and names what runs them in `INTEROP_PYTHON_1`, `INTEROP_PYTHON_2`,
//! `INTEROP_NODE` and `INTEROP_RUST`, empty if there is none; unset, what it installed before is
//! found. Without one its tests say so and pass, except under `CI=true`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

/// Makes each scenario a test for each peer, over each link, in each era that the SDK has:
/// `setting(row, name, scenario)`. `tests/run.sh` reads the names of the rows: PEER_LINK_ERA.
macro_rules! for_each_peer {
    ($setting:ident $scenarios:tt) => {
        for_each_python_peer!($setting $scenarios);
        for_each_peer!(typescript_1_http_legacy: TypeScript1, Http, Legacy, $setting $scenarios);
        for_each_peer!(typescript_1_stdio_legacy: TypeScript1, Stdio, Legacy, $setting $scenarios);
        for_each_peer!(typescript_2_http_legacy: TypeScript2, Http, Legacy, $setting $scenarios);
        for_each_peer!(typescript_2_http_modern: TypeScript2, Http, Modern, $setting $scenarios);
        for_each_peer!(typescript_2_stdio_legacy: TypeScript2, Stdio, Legacy, $setting $scenarios);
        for_each_peer!(typescript_2_stdio_modern: TypeScript2, Stdio, Modern, $setting $scenarios);
        for_each_peer!(rust_3_http_legacy: Rust3, Http, Legacy, $setting $scenarios);
        for_each_peer!(rust_3_http_modern: Rust3, Http, Modern, $setting $scenarios);
        for_each_peer!(rust_3_stdio_legacy: Rust3, Stdio, Legacy, $setting $scenarios);
        for_each_peer!(rust_3_stdio_modern: Rust3, Stdio, Modern, $setting $scenarios);
    };
    (
        $row:ident: $peer:ident, $link:ident, $era:ident,
        $setting:ident [$($scenario:ident),+ $(,)?]
    ) => {
        mod $row {
            use crate::peer::{Era, Link, Peer, Row};

            const ROW: Row = Row { peer: Peer::$peer, link: Link::$link, era: Era::$era };

            $(
                #[tokio::test]
                async fn $scenario() {
                    let name = concat!(module_path!(), "::", stringify!($scenario));
                    super::$setting(ROW, name, super::$scenario).await;
                }
            )+
        }
    };
}

/// As [`for_each_peer`], for the Python peers alone.
macro_rules! for_each_python_peer {
    ($setting:ident $scenarios:tt) => {
        for_each_peer!(python_1_http_legacy: Python1, Http, Legacy, $setting $scenarios);
        for_each_peer!(python_1_stdio_legacy: Python1, Stdio, Legacy, $setting $scenarios);
        for_each_peer!(python_2_http_legacy: Python2, Http, Legacy, $setting $scenarios);
        for_each_peer!(python_2_http_modern: Python2, Http, Modern, $setting $scenarios);
        for_each_peer!(python_2_stdio_legacy: Python2, Stdio, Legacy, $setting $scenarios);
        for_each_peer!(python_2_stdio_modern: Python2, Stdio, Modern, $setting $scenarios);
    };
}

mod from_peer;
mod peer;
mod python_kit;
mod to_peer;
mod tools;
