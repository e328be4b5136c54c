//! Hooks: the developer's own logic, asked before the model is, before a tool is used and before a sentence is said.
//!
//! What it is asked and what it may say, in types that know nothing of how it is reached. When it is asked, and what comes of
//! its word or its silence, is in `judging`.

use super::policy::Taint;
use crate::model::{Message, Prompt};
use serde_json::{Map, Value};
use std::time::Duration;

/// Where a hook is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// Before each request to the model.
    BeforeModel,
    /// Before a tool is used.
    BeforeTool,
    /// Before a sentence is said.
    BeforeSay,
}

impl Hook {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::BeforeModel, Self::BeforeTool, Self::BeforeSay];

    /// How it is called, in the configuration and everywhere else.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeModel => "before_model",
            Self::BeforeTool => "before_tool",
            Self::BeforeSay => "before_say",
        }
    }
}

/// A question to a hook, told apart from all others of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(pub u64);

/// What a hook is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The user message that is being answered.
    pub message: String,
    /// The answer's id.
    pub answer: String,
    /// Who wants the answer, on the server's word.
    pub asker: String,
    /// The how manieth of its kind in this turn it is, from 1.
    pub number: u32,
    /// What is to be judged.
    pub matter: Matter,
}

/// What is to be judged.
#[derive(Clone, Debug, PartialEq)]
pub enum Matter {
    /// What the model is about to be asked.
    Prompt(Prompt),
    /// The use of a tool.
    Call {
        /// Which.
        tool: String,
        /// With what.
        parameters: Map<String, Value>,
    },
    /// A sentence, without the white space around it.
    Sentence(String),
}

impl Matter {
    /// Which hook it is for.
    pub const fn hook(&self) -> Hook {
        match self {
            Self::Prompt(_) => Hook::BeforeModel,
            Self::Call { .. } => Hook::BeforeTool,
            Self::Sentence(_) => Hook::BeforeSay,
        }
    }
}

/// What a hook says. What does not fit the question counts as no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// It goes on as it is.
    Allow,
    /// The model is told these too, right before what it is to answer; instructions join the instructions.
    Add(Vec<Message>),
    /// The model is told these instead.
    Messages(Vec<Message>),
    /// The tool is used with these instead.
    Parameters(Map<String, Value>),
    /// This is said instead.
    Text(String),
    /// It is not done, or not said; with a reason for the model where there is one to tell.
    Refuse(Option<String>),
}

/// How a question ended, for whoever counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ruled {
    /// It went on as it was.
    Allowed,
    /// It went on otherwise.
    Changed,
    /// It did not go on.
    Refused,
    /// The hook could not be asked, or said what makes no sense.
    Failed,
    /// The hook did not answer in time.
    Late,
}

/// Which hooks there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Asked before the model is.
    pub before_model: Option<Terms>,
    /// Asked before a tool is used.
    pub before_tool: Option<Terms>,
    /// Asked before a sentence is said.
    pub before_say: Option<Terms>,
}

/// What holds for a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long it may take.
    pub timeout: Duration,
    /// What happens without its word.
    pub when_away: WhenAway,
    /// What it may bring into the prompt, where it changes that.
    pub brings: Taint,
}

/// What happens where a hook cannot be asked, makes no sense or takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenAway {
    /// All goes on as if there were no hook.
    Open,
    /// What it did not allow does not happen.
    Closed,
}
