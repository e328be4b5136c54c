//! What Sotto decides, as opposed to how it runs.
//!
//! Everything in this crate is pure: it is given its input, its time and its seed as arguments and answers with
//! values. It may use data-structure and parsing crates. It never reads a clock, never asks the system for
//! randomness, never opens a socket or a file, never starts a thread and never waits; `clippy.toml` beside this
//! crate turns the usual ways of doing so into build errors. The reward is that whatever happens in a conversation
//! can be replayed from a seed and a list of inputs.
//!
//! - [`ids`]: names for messages, unique and reproducible.
//! - [`time`]: moments, as they are passed in.
//! - [`wire`]: messages as bytes and as types.
//! - [`model`]: what endpoints stream, and what they are asked.
//! - [`schema`]: whether arguments fit what a tool says of them.
//! - [`tool`]: tools as the engine knows them.
//! - [`engine`]: the conversation itself.

pub mod engine;
pub mod ids;
pub mod model;
pub mod schema;
pub mod time;
pub mod tool;
pub mod wire;
