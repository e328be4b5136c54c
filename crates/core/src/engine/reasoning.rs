//! Thinking, chunk by chunk, becomes steps.
