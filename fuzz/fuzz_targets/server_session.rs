#![no_main]

use agent_hub_kit::fuzzing::{ServerCase, server_session};

libfuzzer_sys::fuzz_target!(|case: ServerCase<'_>| server_session(&case));
