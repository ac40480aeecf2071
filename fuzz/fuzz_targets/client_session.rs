#![no_main]

use agent_hub_kit::fuzzing::{ClientCase, client_session};

libfuzzer_sys::fuzz_target!(|case: ClientCase<'_>| client_session(&case));
