//! All that can happen to a conversation, and all that it can want done.

use super::hook::{Hook, Question, QuestionId, Ruled, Ruling};
use crate::model::{Chunk, Failure, Prompt};
use crate::tool::Tool;
use crate::wire::{Envelope, Malformed};
use serde_json::{Map, Value};
use std::time::Duration;

/// Someone in the room who is not an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Who it is, on the server's word.
    pub identity: String,
    /// How it calls itself; may be empty. Its own word: never trusted.
    pub name: String,
}

/// A request to the model, told apart from all others of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A run of a tool, told apart from all others of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// Something handed to the store, which says [`Input::Stored`] once it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "handed over once, one at a time")]
pub enum Input {
    /// Someone is in the room.
    Joined(Participant),
    /// Someone is gone.
    Left {
        /// Who.
        identity: String,
    },
    /// What the server says of someone who is there, after [`Joined`](Self::Joined) and whenever it changes.
    Attributes {
        /// Who.
        identity: String,
        /// Name and value of each.
        attributes: Vec<(String, String)>,
        /// Whether only the server can have set them. Where their owner could, they give no rights.
        fixed: bool,
    },
    /// A packet of ours came, readable or not.
    Received {
        /// Who sent it, on the server's word.
        from: String,
        /// What it was.
        envelope: Result<Envelope, Malformed>,
    },
    /// So many packets of this sender were dropped unread, because too much was waiting.
    Overflowed {
        /// Who sent them.
        from: String,
        /// How many.
        packets: u32,
    },
    /// Something of this sender could not be taken in for now, and may be sent again.
    Refused {
        /// Who sent it.
        from: String,
        /// Why, and what to do.
        reason: String,
    },
    /// LiveKit's own chat.
    Chat {
        /// Who sent it.
        from: String,
        /// The stream's id, which is the message's.
        id: String,
        /// What was written.
        text: String,
    },
    /// The model goes on, or has failed.
    Model {
        /// Which request.
        request: RequestId,
        /// What came.
        result: Result<Chunk, Failure>,
    },
    /// A tool has ended.
    Tool {
        /// Which run.
        run: RunId,
        /// How.
        outcome: ToolOutcome,
    },
    /// A tool that is being run says how far it is, in words for people.
    Progress {
        /// Which run.
        run: RunId,
        /// Its words.
        text: String,
    },
    /// A hook has spoken.
    Ruled {
        /// Which question it answers.
        question: QuestionId,
        /// What it said; `None` where it could not be asked, or said what makes no sense.
        ruling: Option<Ruling>,
    },
    /// These are the agent's tools from now on. What is being run goes on. An engine that is made anew has those of its
    /// settings.
    Tools(Vec<Tool>),
    /// The store has it, or could not take it.
    Stored {
        /// What.
        ticket: Ticket,
        /// Whether it is safe now.
        success: bool,
    },
    /// What was sent before; `None` if the store could not read it.
    Replayed {
        /// Which reading.
        ticket: Ticket,
        /// A part of it, empty at the end.
        page: Option<super::record::Page>,
    },
    /// Time has passed: what [`poll_timeout`](super::Engine::poll_timeout) asked for.
    Wake,
    /// Finish what is running and begin nothing new.
    Drain,
    /// There is no time left: end everything, so that nobody waits for an answer that will not come.
    Leave,
}

/// How a run of a tool ended.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// Its result.
    Done(Value),
    /// It failed, in words for the model.
    Failed(String),
    /// The tool says that it cannot work with these parameters, in words for the model.
    InvalidParameters(String),
}

/// What to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Store this, after all that was to be stored before and together with the rest of what one input brought about.
    /// What could not be stored is tried again until it is; only what [`Record::may_fail`](super::record::Record::may_fail)
    /// is given up at once.
    Save {
        /// Under which number to say so; `None` where nobody waits for it.
        ticket: Option<Ticket>,
        /// What.
        record: super::record::Record,
        /// Whether it must be on the disk itself, rather than survive only this process.
        durable: bool,
    },
    /// Read what was sent and answer with [`Input::Replayed`], after all that is to be stored so far.
    Replay {
        /// Under which number to answer.
        ticket: Ticket,
        /// After which stanza.
        after: i32,
        /// Up to which one, inclusive.
        until: i32,
        /// How many at most.
        most: usize,
    },
    /// Send these bytes.
    Send {
        /// To whom.
        to: Recipients,
        /// One envelope.
        bytes: Vec<u8>,
    },
    /// Show this state.
    State(AgentState),
    /// Go on with a transcript.
    Transcript(Transcript),
    /// Ask the model.
    Generate {
        /// Under which number to answer.
        request: RequestId,
        /// What.
        prompt: Prompt,
    },
    /// Nobody wants this answer any more: close the connection at once.
    CancelGenerate(RequestId),
    /// Run a tool.
    RunTool {
        /// Under which number to answer.
        run: RunId,
        /// Which.
        name: String,
        /// With what.
        arguments: Map<String, Value>,
        /// The time it has; the engine does not wait longer in any case.
        timeout: Duration,
        /// Whose client runs it, as a remote call; none: the agent.
        callee: Option<String>,
    },
    /// Nobody wants this result any more.
    CancelTool(RunId),
    /// Ask a hook and answer with [`Input::Ruled`]; the engine does not wait longer than that hook may take.
    AskHook {
        /// Under which number to answer.
        question: QuestionId,
        /// What.
        about: Question,
    },
    /// Nobody wants this answer any more.
    CancelHook(QuestionId),
    /// Something worth counting happened.
    Count {
        /// What.
        what: Count,
        /// How often.
        times: u32,
    },
    /// A turn is over.
    TurnEnded(TurnReport),
}

/// Who gets a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// Whoever is in the room.
    Everyone,
    /// These alone; never empty.
    Only(Vec<String>),
}

/// What the agent is doing, as LiveKit's front ends know it (`lk.agent.state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgentState {
    /// Not ready yet.
    Initializing,
    /// Ready, nobody there.
    Idle,
    /// Ready.
    Listening,
    /// Working on an answer.
    Thinking,
    /// Answering.
    Speaking,
}

impl AgentState {
    /// The attribute's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::Idle => "idle",
            Self::Listening => "listening",
            Self::Thinking => "thinking",
            Self::Speaking => "speaking",
        }
    }
}

/// The answer as LiveKit's own text stream. Reasoning never goes here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transcript {
    /// A segment begins.
    Begin {
        /// Its id.
        segment: String,
    },
    /// It goes on; neighbouring pieces may be sent as one.
    Delta {
        /// Its id.
        segment: String,
        /// The next piece of text.
        text: String,
    },
    /// It is complete.
    End {
        /// Its id.
        segment: String,
    },
}

/// Something worth counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Count {
    /// A packet that was not a message.
    Malformed,
    /// A message of a type that is not known.
    UnknownType,
    /// A message refused because its sender sent too many.
    RateLimited,
    /// A message refused because too many were waiting.
    QueueOverflow,
    /// A message with an id that was already taken in.
    Duplicate,
    /// Something came back for a turn that is over.
    Stale,
    /// A tool's result, or the leave to use one, that was not its sender's to give.
    Forged,
    /// A hook was asked.
    Hook(Hook, Ruled),
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// The answer is complete.
    Answered,
    /// A participant stopped it.
    Stopped,
    /// A newer message of the same user took its place.
    Superseded,
    /// It failed, and an `ErrorMessage` said so.
    Failed,
}

/// A turn in figures; nothing that people said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnReport {
    /// The user message that was answered.
    pub message: String,
    /// The answer, where one was begun.
    pub answer: Option<String>,
    /// How it ended.
    pub end: TurnEnd,
    /// From the message's arrival to the model's first chunk.
    pub first_token: Option<Duration>,
    /// From the message's arrival to the first reasoning step.
    pub first_step: Option<Duration>,
    /// From the message's arrival to the first sentence.
    pub first_sentence: Option<Duration>,
    /// From the message's arrival to the end.
    pub total: Duration,
    /// Reasoning steps sent.
    pub steps: u32,
    /// Sentences sent.
    pub sentences: u32,
    /// Tools run.
    pub tools: u32,
    /// Tokens of all requests of the turn, as far as the endpoint told.
    pub usage: crate::model::Usage,
}
