//! Hides the values of secrets in text that leaves the engine.
