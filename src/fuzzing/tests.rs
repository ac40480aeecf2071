//! The seeds of the fuzz targets, given to the same properties without a fuzzer.

use std::fs;
use std::path::Path;

use arbitrary::{Arbitrary, Unstructured};
use proptest::prelude::*;

type Property = fn(&[u8]);

/// By the names of their targets.
const TARGETS: [(&str, Property); 8] = [
    ("client_session", client_session),
    ("envelope", super::envelope),
    ("fast_path", super::fast_path),
    ("headers", super::headers),
    ("jsonrpc", super::jsonrpc),
    ("lines", super::lines),
    ("server_session", server_session),
    ("sse", super::sse),
];

/// As the fuzzer reads it.
fn client_session(input: &[u8]) {
    if let Ok(case) = super::ClientCase::arbitrary_take_rest(Unstructured::new(input)) {
        super::client_session(&case);
    }
}

fn server_session(input: &[u8]) {
    if let Ok(case) = super::ServerCase::arbitrary_take_rest(Unstructured::new(input)) {
        super::server_session(&case);
    }
}

#[test]
fn every_seed_keeps_its_property() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Cargo leaves this in a package, and the fuzz project out of it.
    if root.join("Cargo.toml.orig").exists() {
        return eprintln!("no seeds in a published package");
    }
    for (target, property) in TARGETS {
        let folder = root.join("fuzz/seeds").join(target);
        let mut seeds: Vec<_> = fs::read_dir(&folder)
            .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        seeds.sort();
        assert!(seeds.len() >= 8, "{target}: {} seeds", seeds.len());
        for seed in seeds {
            let input = fs::read(&seed).unwrap();
            let outcome = std::panic::catch_unwind(|| property(&input));
            assert!(outcome.is_ok(), "{} breaks its property", seed.display());
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_keep_every_property(input in proptest::collection::vec(any::<u8>(), 0..400)) {
        for (_, property) in TARGETS {
            property(&input);
        }
    }
}
