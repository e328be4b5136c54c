//! What can be wrong with a packet, in words for its sender. They name keys and numbers of ours, never what was sent.

use super::token::Broken;
use thiserror::Error;

/// Why a packet is not a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Fault {
    #[error("the packet is empty")]
    Empty,
    #[error("the packet is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the packet nests maps and arrays deeper than {0}")]
    TooDeep(usize),
    #[error("the packet has more than {0} keys and elements")]
    TooManyKeys(usize),
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error("there are bytes after the envelope; send one envelope in one packet")]
    Trailing,
    #[error("the packet uses msgpackr's records; switch them off: new Packr({{ useRecords: false }})")]
    Records,
    #[error(
        "the packet must be one MessagePack map with the keys stanzaId, conversationId, type, meta and body (with \
         msgpackr: useRecords: false)"
    )]
    NotAnEnvelope,
    #[error("{0} is missing")]
    Missing(String),
    #[error("{key} must be {wanted}")]
    Wrong { key: String, wanted: &'static str },
    #[error("{0} is empty")]
    Blank(String),
    #[error("{key} is longer than {limit} bytes")]
    TooLong { key: String, limit: usize },
}
