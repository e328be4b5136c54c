//! How Sotto runs. This page is the map of the source; what Sotto *decides* is in the crate `sotto-core`, which knows
//! nothing of runtimes, sockets or clocks, and how it reaches a room is in `livekit` on our own `libwebrtc`.
//!
//! | module | what it is for |
//! |---|---|
//! | [`cli`] | the commands, one file each; the doors into everything else |
//! | [`client`] | the other side of the protocol: a user in a room, for `sotto chat` and for tests |
//! | [`app`] | puts the parts together: the only file that names concrete adapters |
//! | [`config`] | what was written in a file and in the environment, checked once and typed |
//! | [`ports`] | what a session needs of the world, in types of the core alone |
//! | [`session`] | one task per conversation: carries what happens to the engine, and does what it says |
//! | [`room`] | the room, over `livekit`: packets, streams, chat, transcripts, the agent's state |
//! | [`model`] | language models: OpenAI-compatible endpoints, and the built-in demo |
//! | [`tools`] | what the agent can do for the model: built in, HTTP services, MCP servers |
//! | [`hooks`] | the developer's own logic, asked over HTTP |
//! | [`store`] | where conversations are kept |
//! | [`http`] | health and metrics for whoever watches the process |
//! | [`telemetry`] | what is written to the log and what is counted |
//! | `address` | addresses as they may be shown |
//! | `hash` | SHA-256 as text |
//! | [`tls`] | whom we trust on encrypted connections, and whose cryptography does the work |
//!
//! Dependencies point downwards: `cli` uses `app`, `app` uses the others; `session` knows the ports alone; the adapters
//! (`room`, `model`, `tools`, `hooks`, `store`) implement ports and know neither each other nor the session, but that `hooks` borrow from `tools`
//! the rule which hosts may be reached. `client` is no part of the agent; it borrows the reading of streams from `room`.

mod address;
pub mod app;
pub mod cli;
pub mod client;
pub mod config;
mod hash;
pub mod hooks;
pub mod http;
pub mod model;
pub mod ports;
pub mod room;
pub mod session;
pub mod store;
pub mod telemetry;
pub mod tls;
pub mod tools;
