#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| agent_hub_kit::fuzzing::headers(input));
