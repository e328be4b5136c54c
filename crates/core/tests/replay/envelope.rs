//! Any bytes are an envelope or malformed; what could be read can be written, and is then read as the same.

use sotto_core::wire::{Limits, decode, encode};

pub(crate) fn check(bytes: &[u8]) {
    if let Ok(envelope) = decode(bytes, &Limits::default()) {
        let written = encode(&envelope);
        // Base64 and larger floats may take it over a limit, which is not what is asked here.
        let roomy =
            Limits { bytes: usize::MAX, content_bytes: usize::MAX, keys: usize::MAX, depth: usize::MAX };
        let read = decode(&written, &roomy).expect("what we write is readable");
        assert_eq!(encode(&read), written);
    }
}
