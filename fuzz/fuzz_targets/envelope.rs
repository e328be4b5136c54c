#![no_main]

#[path = "../../crates/core/tests/replay/envelope.rs"]
mod envelope;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| envelope::check(bytes));
