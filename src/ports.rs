//! The ports: what a session needs of the world, in types of the core alone. Adapters implement them and know nothing
//! of each other.

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};
use sotto_core::engine::event::{AgentState, Participant, Recipients, ToolOutcome, Transcript};
use sotto_core::engine::hook::{Question, Ruling};
use sotto_core::engine::record::{History, Page, Record};
use sotto_core::model::{Chunk, Failure, Prompt};
use sotto_core::tool::Tool;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// A room that was joined: what happens in it, and what to do in it. Both ends are bounded; the room ends when
/// `commands` is dropped or [`RoomCommand::Leave`] was done, and then closes `events`.
#[derive(Debug)]
pub struct Room {
    /// The room's name, which is the conversation's id.
    pub name: String,
    /// What happens, in order.
    pub events: mpsc::Receiver<RoomEvent>,
    /// What to do, in order.
    pub commands: mpsc::Sender<RoomCommand>,
    /// Whether we are connected: false while a lost connection is being restored.
    pub connected: watch::Receiver<bool>,
    /// How to call people's clients.
    pub calls: Arc<dyn Calls>,
}

/// What happens in a room. Agents (participants of kind agent, ourselves included) never appear.
#[derive(Debug, PartialEq)]
pub enum RoomEvent {
    /// Someone is there; those who were there before us come first. Comes again for one who spoke before it was
    /// announced and turns out to have a name.
    Joined(Participant),
    /// What the server says of someone who is there; after its joining, and whenever it changes.
    Attributes {
        /// Who.
        identity: String,
        /// Name and value of each that its owner cannot change.
        attributes: Vec<(String, String)>,
    },
    /// Someone left.
    Left {
        /// Who.
        identity: String,
    },
    /// One envelope, from a data packet or from a byte stream; not yet decoded.
    Packet {
        /// The sender, on the server's word.
        from: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A stream that could not be taken in (too large, too many, too slow), in words for its sender.
    Refused {
        /// The sender.
        from: String,
        /// What was wrong and what to do.
        reason: String,
        /// No rule was broken: the same may be taken another time.
        for_now: bool,
    },
    /// Packets that were dropped because too much was waiting.
    Overflowed {
        /// The sender.
        from: String,
        /// How many.
        packets: u32,
    },
    /// LiveKit's own chat, by text stream or by the older packet.
    Chat {
        /// The sender.
        from: String,
        /// The stream's id.
        id: String,
        /// What was written.
        text: String,
    },
    /// The room is over for us; nothing follows.
    Closed {
        /// Why, for the log.
        reason: String,
    },
}

/// What to do in a room.
#[derive(Debug, PartialEq)]
pub enum RoomCommand {
    /// Send one envelope: as a data packet, or as a byte stream where it is too large for one.
    Send {
        /// To whom.
        to: Recipients,
        /// The envelope.
        bytes: Vec<u8>,
    },
    /// Show what the agent is doing.
    State(AgentState),
    /// Go on with the transcript.
    Transcript(Transcript),
    /// Send what is pending, then leave.
    Leave,
}

/// Remote calls to people's clients.
pub trait Calls: Debug + Send + Sync {
    /// Calls a method of one participant's client; its answer is the outcome. Dropping the future gives it up, and a late
    /// answer is dropped.
    fn call(
        &self,
        identity: &str,
        method: &str,
        arguments: Map<String, Value>,
        timeout: Duration,
    ) -> BoxFuture<'static, ToolOutcome>;
}

/// A language model behind some endpoint, or several.
pub trait Model: Send + Sync {
    /// Streams one answer. A good stream ends with [`Chunk::Finish`]; a failure is the last item. Dropping the stream
    /// cancels it: the connection is closed at once.
    fn answer(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Failure>>;
}

/// The tools that the agent itself can run.
pub trait Tools: Send + Sync {
    /// What there is now.
    fn offered(&self) -> Vec<Tool>;

    /// Whether one of this name is offered now.
    fn has(&self, name: &str) -> bool {
        self.offered().iter().any(|tool| tool.spec.name == name)
    }

    /// Yields when [`offered`](Self::offered) may say something else than it did when this was called; ends where it never
    /// will.
    fn changes(&self) -> BoxStream<'static, ()>;

    /// Runs one. Dropping the future cancels it.
    fn run(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        timeout: Duration,
        progress: Progress,
    ) -> BoxFuture<'static, ToolOutcome>;
}

/// Is told how far a run is, in words for people, as often as the tool likes.
pub type Progress = Arc<dyn Fn(String) + Send + Sync>;

/// The developer's own logic.
pub trait Hooks: Send + Sync {
    /// Asks one; `None` where it says nothing that makes sense, which whoever runs the agent is told. Dropping the future cancels it.
    fn ask(&self, conversation: &str, question: Question) -> BoxFuture<'static, Option<Ruling>>;
}

/// Where conversations are kept.
pub trait Store: Send + Sync {
    /// Takes a conversation for this process alone, from now until the journal is dropped. Nobody else can write to it
    /// meanwhile, nor could anyone who had it before and does not know yet.
    fn open(&self, conversation: &str) -> BoxFuture<'static, Result<Box<dyn Journal>, StoreError>>;
}

/// One conversation, as long as it is ours. Dropping it gives it free.
pub trait Journal: Send + Sync {
    /// What is known of it. A first block of numbers is reserved with it, durably.
    fn history(&self) -> BoxFuture<'static, Result<History, StoreError>>;

    /// Keeps records, all of them or none. Ready once they survive this process, or with `durable` a loss of power. One
    /// call at a time. After an error that may be tried again nothing of it was kept.
    fn append(&self, records: Vec<Record>, durable: bool) -> BoxFuture<'static, Result<(), StoreError>>;

    /// What was sent after the stanza numbered `after` up to the one numbered `until` (numbers count down), at most `most`
    /// of it, oldest first.
    fn stanzas(&self, after: i32, until: i32, most: usize) -> BoxFuture<'static, Result<Page, StoreError>>;
}

/// Why something could not be kept or given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Not now: the store is away, full or too slow. Trying again may help.
    #[error("{0}")]
    Unavailable(String),
    /// Another process has the conversation; only when opening.
    #[error("{0}")]
    Held(String),
    /// Another process has taken the conversation over: nothing more may be said in it from here.
    #[error("another agent has taken the conversation over")]
    Lost,
    /// Never: what is there cannot be read or is not ours. In words for whoever runs this.
    #[error("{0}")]
    Broken(String),
}
