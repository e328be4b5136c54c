//! How Sotto runs. This page is the map of the source; what Sotto *decides* is in the crate `sotto-core`, which knows
//! nothing of runtimes, sockets or clocks, and how it reaches a room is in `livekit` on our own `libwebrtc`.
//!
//! | module | what it is for |
//! |---|---|
//! | [`cli`] | the commands, one file each; the doors into everything else |
//! | [`model`] | language models: OpenAI-compatible endpoints, and the built-in demo |
//! | [`tools`] | what the agent can do itself: the built-in tools |
//! | [`tls`] | whom we trust on encrypted connections, and whose cryptography does the work |
//! | [`telemetry`] | what is written to the log, and how much of it |
//!
//! Dependencies point downwards: `cli` may use the others, they never use `cli` nor each other.

pub mod cli;
pub mod model;
pub mod ports;
pub mod telemetry;
pub mod tls;
pub mod tools;
