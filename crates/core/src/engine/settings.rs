//! What an engine is told once, at its start: validated values, from wherever they came.

use super::hook::Hooks;
use super::mask::Secrets;
use crate::tool::Tool;
use std::time::Duration;

/// How a conversation is to be held.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on each other")]
pub struct Settings {
    /// The conversation's id: the room's name.
    pub conversation: String,
    /// How the agent is called.
    pub agent_name: String,
    /// What the agent says it is, e.g. `sotto/0.1.0`.
    pub version: String,
    /// The system message; `{date}`, `{agent}`, `{room}` and `{users}` are filled in.
    pub instructions: String,
    /// Said to the first who comes.
    pub greeting: Option<String>,
    /// The language to answer in where the client names none.
    pub language: Option<String>,
    /// What a new message does to a running answer of the same user.
    pub interruption: Interruption,
    /// Whether people see the model's thinking.
    pub visibility: Visibility,
    /// Whether what the model thought is kept, and shown again to those who missed it.
    pub keep_reasoning: bool,
    /// Whether whoever comes may know what was said before.
    pub share_history: bool,
    /// How long what was to be answered before a restart waits for the one who asked: only then it is known what that one may
    /// have done, and can be asked.
    pub return_timeout: Duration,
    /// Whether the model is to think.
    pub thinking: bool,
    /// How hard it thinks, as told to clients that ask.
    pub effort: Option<String>,
    /// About how long a step of reasoning may be, in characters.
    pub step_chars: usize,
    /// How long one request may think.
    pub max_thinking: Duration,
    /// How much the model may think before it is asked again with thinking off, in characters; asked again, it has as much
    /// once more.
    pub max_thinking_chars: usize,
    /// How long an answer may be, in characters.
    pub max_answer_chars: usize,
    /// The tools that the agent has, whoever runs them.
    pub tools: Vec<Tool>,
    /// How often one answer may go back to the model with results.
    pub max_tool_rounds: u32,
    /// The time one run of a tool has.
    pub tool_timeout: Duration,
    /// Whether clients may bring tools of their own.
    pub client_tools: bool,
    /// How long someone has to allow the use of a tool.
    pub consent_timeout: Duration,
    /// When a tool may be used without asking.
    pub policy: Policy,
    /// Whose word is asked for before something is done.
    pub hooks: Hooks,
    /// What participants may send.
    pub limits: Limits,
    /// What a turn and a conversation may cost.
    pub budget: Budget,
    /// The size of the model's context, in tokens.
    pub context_tokens: u64,
    /// Of these, what is left free for the answer.
    pub answer_tokens: u64,
    /// Values that must not leave the engine.
    pub secrets: Secrets,
}

/// What a new message does to a running answer of the same user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// Ends it.
    Interrupt,
    /// Waits for its end.
    Queue,
}

/// Whether people see the model's thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Every step, as it comes.
    Full,
    /// Not at all; the state `thinking` still shows.
    Hidden,
}

/// When a tool may be used without asking, beyond what the tool says of itself. The default is the safe choice everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A tool that changes or sends something, once the output of strangers is in the prompt.
    pub untrusted: Gate,
    /// A tool that sends something out, once private data is in the prompt or where it reads such data itself.
    pub private: Gate,
    /// A tool that changes or sends something, while the model is shown descriptions that nobody has vouched for: those
    /// of clients' tools, and of tools whose effects nobody has declared.
    pub descriptions: Gate,
    /// Whether what tools gave in earlier turns counts, for as long as it or an answer made of it is in the prompt.
    pub past_turns: bool,
    /// Whose rights a call has.
    pub speakers: Speakers,
}

/// What is done about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// It is run.
    Allow,
    /// The asking user is asked.
    Ask,
    /// It is not run.
    Deny,
}

/// Whose rights a call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speakers {
    /// Only what everybody may have done whose words are in the prompt. A model cannot tell whose wish it follows, and
    /// what was said long ago moves it as well as what was said last.
    InThePrompt,
    /// What the one may have done who asked.
    TheAsker,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            untrusted: Gate::Ask,
            private: Gate::Ask,
            descriptions: Gate::Ask,
            past_turns: true,
            speakers: Speakers::InThePrompt,
        }
    }
}

/// What participants may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Messages and variations at once, per participant.
    pub messages_burst: u32,
    /// Messages and variations a second, per participant.
    pub messages_per_second: u32,
    /// Everything else at once, per participant.
    pub others_burst: u32,
    /// Everything else a second, per participant.
    pub others_per_second: u32,
    /// Messages that wait for their turn, in the whole conversation.
    pub waiting: usize,
    /// Bytes of one message's text.
    pub content_bytes: usize,
}

/// What may be spent; `None` is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// For one turn.
    pub turn: Spending,
    /// For the conversation.
    pub conversation: Spending,
}

/// Three things that cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spending {
    /// Tokens, in and out.
    pub tokens: Option<u64>,
    /// Seconds of answering.
    pub seconds: Option<u64>,
    /// Runs of tools.
    pub tool_calls: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            messages_burst: 30,
            messages_per_second: 5,
            others_burst: 100,
            others_per_second: 20,
            waiting: 64,
            content_bytes: 64 << 10,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            conversation: String::new(),
            agent_name: "Sotto".to_owned(),
            version: concat!("sotto/", env!("CARGO_PKG_VERSION")).to_owned(),
            instructions: String::new(),
            greeting: None,
            language: None,
            interruption: Interruption::Interrupt,
            visibility: Visibility::Full,
            keep_reasoning: true,
            share_history: false,
            return_timeout: Duration::from_secs(3),
            thinking: true,
            effort: None,
            step_chars: 600,
            max_thinking: Duration::from_mins(2),
            max_thinking_chars: 40_000,
            max_answer_chars: 100_000,
            tools: Vec::new(),
            max_tool_rounds: 8,
            tool_timeout: Duration::from_secs(30),
            client_tools: false,
            consent_timeout: Duration::from_mins(1),
            policy: Policy::default(),
            hooks: Hooks::default(),
            limits: Limits::default(),
            budget: Budget::default(),
            context_tokens: 32_768,
            answer_tokens: 4_096,
            secrets: Secrets::default(),
        }
    }
}
