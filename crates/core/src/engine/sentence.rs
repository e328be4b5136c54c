//! An answer, delta by delta, becomes sentences.
