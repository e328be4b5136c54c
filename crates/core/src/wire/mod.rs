//! The wire: what travels between a client and the agent, as bytes and as types.
//!
//! [`decode`] reads leniently and within limits, [`encode`] writes one exact form. Nothing here decides what a
//! message means or what its sender is owed: a packet that cannot be read becomes a [`Malformed`] value, and the engine
//! takes it from there.
//!
//! - [`body`]: the messages, one struct per type.
//! - `encode`: the one way in which they are written.
//! - `token` (bytes), `scan` (limits), `value` and `fields` (leniency), `read_body` (types): the steps of `decode`.

pub mod body;
mod decode;
mod encode;
mod fault;
mod fields;
mod read_body;
mod scan;
#[cfg(test)]
mod tests;
mod token;
mod value;

pub use decode::decode;
pub use encode::encode;

use body::Body;
use serde_json::{Map, Value};
use thiserror::Error;

/// One message with its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// `stanzaId`: clients count up from 1, the agent down from -1.
    pub stanza: i32,
    /// `conversationId`; `None` where it is blank or missing.
    pub conversation: Option<String>,
    /// Trace context and our own notes; `{}` when empty.
    pub meta: Map<String, Value>,
    /// The message.
    pub body: Body,
}

/// How large and how deep a packet may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole envelope.
    pub bytes: usize,
    /// Nesting of maps and arrays.
    pub depth: usize,
    /// Keys of all maps, and elements of all arrays, together.
    pub keys: usize,
    /// Bytes of the text of one message (`content`, `newContent`).
    pub content_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 1 << 20, depth: 32, keys: 1_024, content_bytes: 64 << 10 }
    }
}

/// A packet that is not a message, and as much of it as could be read, so that its sender can be told.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{reason}")]
pub struct Malformed {
    /// What is wrong, for the sender: names the key, never quotes what people said.
    pub reason: String,
    /// The stanza's number, where it was readable.
    pub stanza: Option<i32>,
    /// The stanza's type, where it was readable.
    pub kind: Option<u16>,
    /// The `id` (or `targetId`, `requestId`) in the body, where it was readable.
    pub id: Option<String>,
}
