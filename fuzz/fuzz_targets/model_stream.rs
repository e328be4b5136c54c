#![no_main]

#[path = "../../crates/core/tests/replay/model_stream.rs"]
mod model_stream;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model_stream::check(bytes));
