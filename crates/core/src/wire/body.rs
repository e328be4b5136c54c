//! The bodies of all messages: one struct per type, in the order of their numbers.
//!
//! Field names are the wire's, in snake case; `Option` fields are left out when absent. Ids are opaque strings.

#![expect(missing_docs, reason = "most fields say by their name what the protocol says of them")]

use serde_json::{Map, Value};

/// The body of an envelope.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Type 1.
    ErrorMessage(ErrorMessage),
    /// Type 2.
    UserMessage(UserMessage),
    /// Type 3.
    AssistantMessage(AssistantMessage),
    /// Type 4.
    AudioChunk(AudioChunk),
    /// Type 5.
    ReasoningStep(ReasoningStep),
    /// Type 6.
    ToolUseRequest(ToolUseRequest),
    /// Type 7.
    ToolUseResult(ToolUseResult),
    /// Type 8.
    Acknowledgement(Acknowledgement),
    /// Type 9.
    Transcription(Transcription),
    /// Type 10.
    ControlStop(ControlStop),
    /// Type 11.
    ControlVariation(ControlVariation),
    /// Type 12.
    Configuration(Configuration),
    /// Type 13.
    StartAnswer(StartAnswer),
    /// Type 14.
    MemoryTrace(MemoryTrace),
    /// Type 15.
    Commentary(Commentary),
    /// Type 16.
    AssistantSentence(AssistantSentence),
    /// Type 64, an extension.
    ReasoningDelta(ReasoningDelta),
    /// Type 65, an extension.
    TurnMeta(TurnMeta),
    /// Type 66, an extension.
    ToolConsentRequest(ToolConsentRequest),
    /// Type 67, an extension.
    ToolConsent(ToolConsent),
    /// A type that nobody here knows; never an error.
    Unknown(u16),
}

/// Something went wrong, told to the one whom it concerns.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorMessage {
    pub id: String,
    pub conversation_id: String,
    pub code: i32,
    pub message: String,
    /// 0 information, 1 warning, 2 error, 3 critical.
    pub severity: i32,
    /// Whether the same may work later.
    pub recoverable: bool,
    /// The message it is about.
    pub originating_id: Option<String>,
}

/// What a person wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct UserMessage {
    pub id: String,
    pub previous_id: Option<String>,
    pub conversation_id: String,
    pub content: String,
    /// Milliseconds since the Unix epoch.
    pub timestamp: Option<i64>,
    /// Not used yet; kept so that the sender can be told.
    pub attachments: Option<Value>,
}

/// A whole answer, for clients that do not take it sentence by sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct AssistantMessage {
    pub id: String,
    pub previous_id: String,
    pub conversation_id: String,
    pub content: String,
    pub timestamp: Option<i64>,
}

/// Audio for clients without an audio track.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioChunk {
    pub conversation_id: String,
    pub format: String,
    pub sequence: i32,
    pub duration_ms: i32,
    pub track_sid: Option<String>,
    pub data: Option<Vec<u8>>,
    pub is_last: Option<bool>,
    pub timestamp: Option<i64>,
}

/// One finished thought.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasoningStep {
    pub id: String,
    pub conversation_id: String,
    /// The user message that is being answered.
    pub previous_id: String,
    pub content: String,
    /// From 1, for each answer.
    pub step_index: i32,
    pub total_steps: Option<i32>,
}

/// The model wants a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUseRequest {
    pub id: String,
    /// The user message that is being answered.
    pub message_id: String,
    pub conversation_id: String,
    pub tool_name: String,
    pub parameters: Map<String, Value>,
    pub execution: Execution,
    pub timeout_ms: Option<i32>,
}

/// Who runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// `"server"`: the agent.
    Server,
    /// `"client"`: the participant that it is sent to.
    Client,
    /// `"either"`.
    Either,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUseResult {
    pub id: String,
    pub request_id: String,
    pub conversation_id: String,
    pub success: bool,
    pub result: Option<Value>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
}

/// A stanza was taken in (or refused for good).
#[derive(Clone, Debug, PartialEq)]
pub struct Acknowledgement {
    pub conversation_id: String,
    pub acknowledged_stanza_id: i32,
    pub success: bool,
}

/// What a person said. A final one is the user message, under its id.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcription {
    pub id: String,
    pub previous_id: Option<String>,
    pub conversation_id: String,
    pub text: String,
    /// `final` on the wire.
    pub is_final: bool,
    pub confidence: Option<f32>,
    pub language: Option<String>,
}

/// Stop answering.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlStop {
    pub conversation_id: String,
    pub target_id: Option<String>,
    pub reason: Option<String>,
    pub stop_type: StopType,
}

/// What is to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopType {
    /// `"generation"`: the running answer; also what an absent or unknown word means.
    #[default]
    Generation,
    /// `"speech"`: the voice alone.
    Speech,
    /// `"all"`: the running answer and the sender's waiting messages.
    All,
}

/// Answer again, differently.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlVariation {
    pub conversation_id: String,
    pub target_id: String,
    pub mode: VariationMode,
    pub new_content: Option<String>,
}

/// How an answer is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariationMode {
    /// `"regenerate"`: a new answer to the same message.
    Regenerate,
    /// `"edit"`: the user message gets a new text and a new answer.
    Edit,
    /// `"continue"`: a new answer that goes on from the target.
    Continue,
}

/// What one side can do, and how far it has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    pub conversation_id: Option<String>,
    pub last_sequence_seen: Option<i32>,
    pub client_version: Option<String>,
    pub preferred_language: Option<String>,
    pub device: Option<String>,
    pub features: Option<Vec<String>>,
    /// Tools that the client offers to run: our extension.
    pub tools: Option<Vec<OfferedTool>>,
}

/// A tool that a client offers to run.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedTool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// An answer begins.
#[derive(Clone, Debug, PartialEq)]
pub struct StartAnswer {
    /// The coming answer's.
    pub id: String,
    /// The user message that is being answered.
    pub previous_id: String,
    pub conversation_id: String,
    /// `"text"`, `"voice"` or `"text+voice"`.
    pub answer_type: Option<String>,
    pub planned_sentence_count: Option<i32>,
}

/// Something remembered that went into an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryTrace {
    pub id: String,
    pub message_id: String,
    pub conversation_id: String,
    pub memory_id: String,
    pub content: String,
    pub relevance: f32,
}

/// A remark on a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Commentary {
    pub id: String,
    pub message_id: String,
    pub conversation_id: String,
    pub content: String,
    pub commentary_type: Option<String>,
}

/// One sentence of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct AssistantSentence {
    pub id: Option<String>,
    /// The id of the StartAnswer.
    pub previous_id: String,
    pub conversation_id: String,
    /// From 1.
    pub sequence: i32,
    pub text: String,
    pub is_final: Option<bool>,
    pub audio: Option<Vec<u8>>,
}

/// A piece of a thought that is not finished yet.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasoningDelta {
    /// Of the coming step.
    pub id: String,
    pub previous_id: String,
    pub conversation_id: String,
    pub step_index: i32,
    pub delta: String,
}

/// Figures of a turn, after its end.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnMeta {
    pub message_id: String,
    pub conversation_id: String,
    pub answer_id: Option<String>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub reasoning_tokens: Option<i64>,
    /// Whether the endpoint counted the tokens, rather than we estimated them.
    pub exact: bool,
    pub effort: Option<String>,
    pub thinking_ms: i64,
    pub total_ms: i64,
    pub interrupted: bool,
}

/// May this tool run?
#[derive(Clone, Debug, PartialEq)]
pub struct ToolConsentRequest {
    pub id: String,
    pub request_id: String,
    pub message_id: String,
    pub conversation_id: String,
    pub tool_name: String,
    pub parameters: Map<String, Value>,
    pub reason: Option<String>,
    pub timeout_ms: i32,
}

/// It may, or not.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolConsent {
    pub request_id: String,
    pub conversation_id: String,
    pub allow: bool,
}
