//! What the store keeps of a conversation.

/// One thing to keep.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A message that was sent and may be asked for again.
    Stanza {
        /// Its number.
        number: i32,
        /// Exactly what was sent.
        bytes: Vec<u8>,
    },
}
