#![no_main]

#[path = "../../crates/core/tests/replay/engine.rs"]
mod engine;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| engine::check(bytes));
