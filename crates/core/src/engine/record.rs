//! What the store is given of a conversation: what people said and asked for, how each turn ended with what was said, and
//! the stanzas that may be asked for again.
//!
//! Not among it: what the model thought and what tools gave (except as the stanzas that showed it), what people's
//! clients can do, and what was spent of the conversation's budgets besides tokens.

use super::event::TurnEnd;
use super::people::Audience;
use crate::model::Usage;
use crate::time::Time;
use crate::wire::body::VariationMode;

/// One thing to keep.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A user message was taken in.
    Message {
        /// Its id.
        id: String,
        /// The message or answer it follows.
        parent: Option<String>,
        /// Who wrote it.
        from: String,
        /// How the writer was called then.
        name: String,
        /// What was written.
        text: String,
        /// When it came.
        at: Time,
    },
    /// A variation was asked for.
    Variation {
        /// Who asked.
        from: String,
        /// Of which message or answer.
        target: String,
        /// Which kind.
        mode: VariationMode,
        /// The new text, for an edit.
        text: Option<String>,
        /// When.
        at: Time,
    },
    /// A user message's turn is over: this is its end.
    Answer {
        /// The user message; `None` for a greeting.
        message: Option<String>,
        /// The answer, where one was begun.
        answer: Option<String>,
        /// What was said.
        text: String,
        /// How it ended.
        end: TurnEnd,
        /// What it cost.
        usage: Usage,
        /// When it ended.
        at: Time,
    },
    /// A stanza that may be asked for again.
    Stanza {
        /// Its number.
        number: i32,
        /// For whom.
        audience: Audience,
        /// Exactly what was sent.
        bytes: Vec<u8>,
    },
}
