//! The sections of the configuration, typed. The default of each key stands beside its name; `config/sotto.toml` says
//! the same to people, and a test keeps the two alike.

mod hooks;
mod model;
mod store;
mod tools;

pub use hooks::{Hook, Hooks};
pub use model::{Endpoint, Model, Switch, Thinking};
pub use store::{KeptReasoning, Store, StoreUrl};
pub use tools::{BuiltinTool, ClientTool, HttpTool, McpReach, McpServer, ToolTerms, Tools};

use super::reader::Section;
use super::source::Given;
use super::value::{self, Mismatch, boolean, integer, line, one_of, seconds, text};
use super::{ConfigError, Secret, Text};
use std::net::SocketAddr;
use std::time::Duration;

const DAY: f64 = 86_400.0;
/// Larger than any sensible count, and safe to add and multiply.
const MANY: i64 = 1_000_000_000;

/// `[livekit]`: the LiveKit server.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveKit {
    /// Where it is.
    pub url: Text,
    /// The name of the key that tokens are signed with; public.
    pub api_key: Option<Text>,
    /// The key itself.
    pub api_secret: Option<Secret>,
}

impl LiveKit {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        Self {
            url: section.or("url", "ws://localhost:7880".into(), value::livekit_url),
            api_key: section.get("api_key", value::line),
            api_secret: section.secret("api_secret"),
        }
    }

    /// What signs tokens; an error that tells what is missing.
    pub fn credentials(&self) -> Result<(&str, &Secret), ConfigError> {
        let missing = |key: &str| {
            ConfigError::from(format!(
                "livekit.{key} is not set; set LIVEKIT_{}, or {key} under [livekit] in the configuration file",
                key.to_uppercase()
            ))
        };
        let api_key = self.api_key.as_ref().ok_or_else(|| missing("api_key"))?;
        let api_secret = self.api_secret.as_ref().ok_or_else(|| missing("api_secret"))?;
        Ok((api_key, api_secret))
    }
}

/// `[room]`: rooms and their packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    /// The topic of our packets; none: packets have none.
    pub topic: Option<Text>,
    /// Whether packets without a sender (hidden participants, the server's API) are taken in.
    pub allow_anonymous: bool,
}

impl Room {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        Self {
            topic: section.get("topic", line),
            allow_anonymous: section.or("allow_anonymous", false, boolean),
        }
    }
}

/// What a new message does to the answer to an older one of the same user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// Ends it.
    Interrupt,
    /// Waits for its end.
    Queue,
}

/// `[agent]`: who the agent is.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// How it is called in the room.
    pub name: Text,
    /// Who it is in the room; none: `agent-` and something random.
    pub identity: Option<Text>,
    /// What it is told about its part, from `instructions` or the file `instructions_file`.
    pub instructions: Text,
    /// What it says first; none: it waits.
    pub greeting: Option<Text>,
    /// The language it answers in; none: the user's.
    pub language: Option<Text>,
    /// What a new message does to a running answer.
    pub interruption: Interruption,
    /// How long a running answer may go on when the agent is told to leave.
    pub drain_seconds: Duration,
}

const DEFAULT_INSTRUCTIONS: &str = "You are a friendly assistant in a live conversation. Answer briefly, in plain \
                                    sentences, and say so when you do not know something.";

impl Agent {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        Self {
            name: section.or("name", "Sotto".into(), line),
            identity: section.get("identity", line),
            instructions: read_instructions(section).unwrap_or_else(|| DEFAULT_INSTRUCTIONS.into()),
            greeting: section.get("greeting", text),
            language: section.get("language", value::tag),
            interruption: section.or(
                "interruption",
                Interruption::Interrupt,
                one_of(&[("interrupt", Interruption::Interrupt), ("queue", Interruption::Queue)]),
            ),
            drain_seconds: section.or("drain_seconds", Duration::from_secs(10), seconds(0.0..=3_600.0)),
        }
    }
}

/// The instructions themselves or a file that holds them. What the environment says goes before what the file says,
/// whichever of the two keys it uses; both at one place contradict each other.
fn read_instructions(section: &mut Section<'_, '_>) -> Option<Text> {
    let inline = section.take("instructions");
    let file = section.take("instructions_file");
    match (inline, file) {
        (Some(inline), Some(file)) if inline.origin.is_variable() == file.origin.is_variable() => {
            section.problem(
                "instructions_file",
                &file,
                "and agent.instructions exclude each other; leave one out",
            );
            None
        }
        (Some(inline), file) if inline.origin.is_variable() || file.is_none() => {
            section.interpret("instructions", &inline, text)
        }
        (_, file) => section.interpret("instructions_file", &file?, file_content),
    }
}

fn file_content(given: &Given) -> Result<Text, Mismatch> {
    let path = given.origin.directory().join(text(given)?.as_str());
    match std::fs::read_to_string(path) {
        Ok(content) if content.trim().is_empty() => {
            Err(Mismatch::Expected("a file that is not empty".to_owned()))
        }
        Ok(content) => Ok(content.trim().into()),
        Err(error) => Err(Mismatch::Expected(format!("a text file that can be read ({error})"))),
    }
}

/// Who sees the model's thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Everyone.
    Full,
    /// Nobody; only that it thinks.
    Hidden,
}

/// `[reasoning]`: what is done with the model's thinking.
#[derive(Clone, Debug, PartialEq)]
pub struct Reasoning {
    /// Who sees it.
    pub visibility: Visibility,
    /// How long it may go on before the model is asked to answer without.
    pub max_seconds: Duration,
    /// How much of it there may be before the model is asked to answer without.
    pub max_chars: usize,
    /// About how long one step may be.
    pub step_chars: usize,
}

impl Reasoning {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        Self {
            visibility: section.or(
                "visibility",
                Visibility::Full,
                one_of(&[("full", Visibility::Full), ("hidden", Visibility::Hidden)]),
            ),
            max_seconds: section.or("max_seconds", Duration::from_secs(120), seconds(1.0..=DAY)),
            max_chars: section.or("max_chars", 40_000, integer(100..=MANY)),
            // An envelope holds a step of 4,000 characters of any script without becoming a stream.
            step_chars: section.or("step_chars", 600, integer(100..=4_000)),
        }
    }
}

/// `[limits]`: what one participant may send.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// User messages and variations at once.
    pub messages_burst: u32,
    /// User messages and variations in the long run.
    pub messages_per_second: u32,
    /// Messages of all other types at once.
    pub others_burst: u32,
    /// Messages of all other types in the long run.
    pub others_per_second: u32,
    /// Messages that may wait in one conversation.
    pub waiting: usize,
    /// The content of one message.
    pub content_bytes: usize,
    /// How deeply an envelope may be nested.
    pub depth: usize,
    /// How many keys an envelope may have.
    pub keys: usize,
    /// The size of one incoming stream.
    pub stream_bytes: usize,
    /// Incoming streams at once.
    pub streams: usize,
}

impl Limits {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        Self {
            messages_burst: section.or("messages_burst", 30, integer(1..=MANY)),
            messages_per_second: section.or("messages_per_second", 5, integer(1..=MANY)),
            others_burst: section.or("others_burst", 100, integer(1..=MANY)),
            others_per_second: section.or("others_per_second", 20, integer(1..=MANY)),
            waiting: section.or("waiting", 64, integer(1..=100_000)),
            content_bytes: section.or("content_bytes", 65_536, integer(1..=MANY)),
            // Reading recurses; more than this would cost stack, and no client needs it.
            depth: section.or("depth", 32, integer(4..=128)),
            keys: section.or("keys", 1_024, integer(16..=1_000_000)),
            stream_bytes: section.or("stream_bytes", 1_048_576, integer(1..=MANY)),
            streams: section.or("streams", 4, integer(1..=1_000)),
        }
    }
}

/// `[budget]`: what a turn and a conversation may cost; none: no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Tokens of one turn.
    pub turn_tokens: Option<u64>,
    /// The time of one turn.
    pub turn_seconds: Option<Duration>,
    /// Tool calls of one turn.
    pub turn_tool_calls: Option<u64>,
    /// Tokens of one conversation.
    pub conversation_tokens: Option<u64>,
    /// The time of all turns of one conversation.
    pub conversation_seconds: Option<Duration>,
    /// Tool calls of one conversation.
    pub conversation_tool_calls: Option<u64>,
}

impl Budget {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        Self {
            turn_tokens: section.get("turn_tokens", integer(1..=i64::MAX)),
            turn_seconds: section.get("turn_seconds", seconds(1.0..=365.0 * DAY)),
            turn_tool_calls: section.get("turn_tool_calls", integer(1..=i64::MAX)),
            conversation_tokens: section.get("conversation_tokens", integer(1..=i64::MAX)),
            conversation_seconds: section.get("conversation_seconds", seconds(1.0..=365.0 * DAY)),
            conversation_tool_calls: section.get("conversation_tool_calls", integer(1..=i64::MAX)),
        }
    }
}

/// `[http]`: health and metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// Where they are; none: nowhere.
    pub addr: Option<SocketAddr>,
}

impl Http {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        let usual = SocketAddr::from(([127, 0, 0, 1], 8081));
        Self { addr: section.or("addr", Some(usual), value::listen_address) }
    }
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// `[telemetry]`: the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// What is logged: a filter as `tracing` knows it. `SOTTO_LOG` goes before it.
    pub log: Text,
    /// How it is written.
    pub format: LogFormat,
    /// Whether what people say may be logged.
    pub content: bool,
}

impl Telemetry {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        Self {
            log: section.or("log", "warn,sotto=info,sotto_core=info".into(), value::log_filter),
            format: section.or(
                "format",
                LogFormat::Auto,
                one_of(&[
                    ("auto", LogFormat::Auto),
                    ("pretty", LogFormat::Pretty),
                    ("json", LogFormat::Json),
                ]),
            ),
            content: section.or("content", false, boolean),
        }
    }
}
