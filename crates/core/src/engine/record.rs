//! What the store is given of a conversation, and what it gives back.
//!
//! Records are facts in the order in which they happened: who came, what was said and asked for, what was begun and how
//! it ended, and the stanzas that may be asked for again. All records of one [`handle`](super::Engine::handle) are one
//! transaction. [`History`] is what an engine needs of them to go on where another stopped.
//!
//! Never among them: what people's clients can do, and how often someone sent too much.

use super::event::TurnEnd;
use super::people::Audience;
use super::policy::Taint;
use crate::model::{ToolCall, Usage};
use crate::time::Time;
use crate::wire::body::VariationMode;
use serde::{Deserialize, Serialize};

/// One thing to keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// Someone joined for the first time: what was before is not for that one.
    Joined(Joined),
    /// A user message was taken in.
    Message(Message),
    /// A variation was taken in.
    Variation(Variation),
    /// Someone stopped something; what came of it follows.
    Stopped(Stopped),
    /// The turn of a message or a variation began.
    Begun(Begun),
    /// What the model thought in a turn, kept apart so that it can be erased alone.
    Reasoning(Reasoning),
    /// Someone is asked whether a tool may be used; it has not begun.
    ToolAsked(ToolAsked),
    /// A tool is about to be run.
    ToolBegun(ToolBegun),
    /// A tool has ended.
    ToolEnded(ToolEnded),
    /// An answer was closed before its end because the agent ended under way; its message is still to be answered.
    BrokenOff(BrokenOff),
    /// A turn is over: this is the end of one message or variation.
    Answer(Answer),
    /// Numbers down to this one may be used from now on.
    Reserved {
        /// The last of them.
        number: i32,
    },
    /// A stanza that may be asked for again.
    Stanza(Stanza),
}

/// Someone's first joining.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Who, on the server's word.
    pub identity: String,
    /// The last number given before.
    pub number: i32,
    /// When.
    pub at: Time,
}

/// A user message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its id; unique in the conversation.
    pub id: String,
    /// The message or answer that its writer named before it.
    pub previous: Option<String>,
    /// Who wrote it.
    pub from: String,
    /// How the writer was called then.
    pub name: String,
    /// What was written.
    pub text: String,
    /// Whether it came through LiveKit's chat.
    pub chat: bool,
    /// When it came.
    pub at: Time,
}

/// A wish for another answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variation {
    /// Who asked.
    pub from: String,
    /// Of which message or answer.
    pub target: String,
    /// Which kind.
    pub mode: VariationMode,
    /// The new text, for an edit.
    pub text: Option<String>,
    /// When.
    pub at: Time,
}

/// A stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// Who wanted it.
    pub from: String,
    /// The message or answer that was meant; `None` for whatever ran.
    pub target: Option<String>,
    /// Whether all that this one waited for was meant too.
    pub all: bool,
    /// What was still being stored, by the messages or answers that it is about: it ends once it is stored.
    pub coming: Vec<String>,
    /// When.
    pub at: Time,
}

/// The beginning of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// The user message.
    pub message: String,
    /// The id that the answer will have.
    pub answer: String,
    /// The last number given before: stanzas of this turn come after it.
    pub number: i32,
    /// What the hook before the model may bring into its prompts. Before this was recorded it was forgotten.
    #[serde(default)]
    pub taint: Taint,
    /// When.
    pub at: Time,
}

/// What the model thought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The user message.
    pub message: String,
    /// The id that the answer has, or would have had.
    pub answer: String,
    /// Step by step.
    pub steps: Vec<String>,
}

/// A tool that waits for someone's leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolAsked {
    /// The user message.
    pub message: String,
    /// The call, as the model may be shown it again.
    pub call: ToolCall,
    /// The id that the `ToolUseRequest` would have.
    pub request: String,
    /// When.
    pub at: Time,
}

/// A tool that is about to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolBegun {
    /// The user message.
    pub message: String,
    /// The call, as the model may be shown it again.
    pub call: ToolCall,
    /// The id of the `ToolUseRequest`.
    pub request: String,
    /// Whether running it twice does no harm.
    pub repeatable: bool,
    /// Whether the asker's client alone was shown it.
    #[serde(default)]
    pub handed: bool,
    /// What its output brings into the prompt. Before this was recorded there were only tools that bring nothing.
    #[serde(default)]
    pub taint: Taint,
    /// When.
    pub at: Time,
}

/// A tool that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolEnded {
    /// The call's id.
    pub call: String,
    /// The outcome, as the model is told.
    pub content: String,
    /// When.
    pub at: Time,
}

/// An answer that was closed before its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenOff {
    /// The user message.
    pub message: String,
    /// The answer.
    pub answer: String,
    /// What was said of it.
    pub text: String,
    /// When it was closed.
    pub at: Time,
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The user message; `None` for a greeting.
    pub message: Option<String>,
    /// The answer's id, where anything of it was announced or a tool was used.
    pub answer: Option<String>,
    /// Whether it was announced to the room.
    pub announced: bool,
    /// What was said.
    pub text: String,
    /// What was in the prompt when it was made, and may be in it.
    #[serde(default)]
    pub taint: Taint,
    /// How it ended.
    pub end: TurnEnd,
    /// Steps of reasoning; this stays when their text is erased.
    pub steps: u32,
    /// How long the model thought, in milliseconds.
    pub thinking_ms: u64,
    /// From the message's arrival to its end, in milliseconds.
    pub total_ms: u64,
    /// What it cost.
    pub usage: Usage,
    /// What the conversation has cost so far.
    pub spent: Spent,
    /// When it ended.
    pub at: Time,
}

/// What a conversation has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Tokens, in and out.
    pub tokens: u64,
    /// Milliseconds of answering.
    pub millis: u64,
    /// Runs of tools.
    pub tool_calls: u32,
}

/// What was sent and may be asked for again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stanza {
    /// Its number.
    pub number: i32,
    /// For whom.
    pub audience: Audience,
    /// Exactly what was sent.
    pub bytes: Vec<u8>,
}

/// What is known of a conversation when an engine takes it up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The last number that may have been used.
    pub number: i32,
    /// Numbers down to this one may be used.
    pub reserved: i32,
    /// The newest kept stanza of each audience.
    pub last_kept: Vec<(Audience, i32)>,
    /// Everything but stanzas, oldest first: at least what is not ended yet and what came after it, everyone's first
    /// joining in its place, and as much of what was before as a prompt may need.
    pub records: Vec<Record>,
    /// The stanzas of turns that were begun and not ended, oldest first.
    pub unfinished: Vec<Stanza>,
}

/// A part of what was sent, as it is given back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Stanzas in the order in which they were sent.
    pub stanzas: Vec<Stanza>,
    /// Some that were asked for are no longer kept.
    pub incomplete: bool,
}

impl Record {
    /// Whether it may be refused: a wish of someone who is told so and can send it again. All else has happened.
    pub fn may_fail(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Variation(_))
    }

    /// The same without what anybody said, thought or did: ids, kinds, counts, times and ends alone, for a store that keeps
    /// the rest unreadable. Who wrote stays; how that one was called does not.
    #[must_use]
    pub fn without_content(&self) -> Self {
        self.with_content(String::new)
    }

    /// The same with `text` in the place of each of those.
    #[must_use]
    pub fn with_content(&self, text: impl Fn() -> String) -> Self {
        let mut record = self.clone();
        match &mut record {
            Self::Message(message) => {
                message.name.clear();
                message.text = text();
            }
            Self::Variation(variation) => variation.text = variation.text.take().map(|_| text()),
            Self::Reasoning(reasoning) => reasoning.steps.iter_mut().for_each(|step| *step = text()),
            Self::ToolAsked(ToolAsked { call, .. }) | Self::ToolBegun(ToolBegun { call, .. }) => {
                call.name = text();
                call.arguments = match call.arguments {
                    Ok(_) => Ok(serde_json::Map::new()),
                    Err(_) => Err(text()),
                };
            }
            Self::ToolEnded(tool) => tool.content = text(),
            Self::BrokenOff(broken) => broken.text = text(),
            Self::Answer(answer) => answer.text = text(),
            Self::Stanza(stanza) => stanza.bytes.clear(),
            Self::Joined(_) | Self::Stopped(_) | Self::Begun(_) | Self::Reserved { .. } => {}
        }
        record
    }

    /// As bytes, for a store: with names, so that later versions may add fields.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Only maps with keys that are no strings could fail, and there are none.
        rmp_serde::to_vec_named(self).unwrap_or_default()
    }

    /// From such bytes; `None` where they are of a kind that this version does not know, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        rmp_serde::from_slice(bytes).ok()
    }
}

impl History {
    /// The turn that was begun and neither ended nor broken off: the number before its first stanza.
    pub fn unfinished_since(records: &[Record]) -> Option<i32> {
        let mut unfinished: Option<&Begun> = None;
        for record in records {
            match record {
                Record::Begun(begun) => unfinished = Some(begun),
                Record::Answer(Answer { message: Some(message), .. })
                | Record::BrokenOff(BrokenOff { message, .. }) => {
                    unfinished.take_if(|begun| begun.message == *message);
                }
                _ => {}
            }
        }
        unfinished.map(|begun| begun.number)
    }
}

#[cfg(test)]
mod tests;
