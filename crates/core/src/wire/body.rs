//! The bodies of all messages: one struct per type, in the order of their numbers.
//!
//! Field names are the wire's, in snake case; `Option` fields are left out when absent. Ids are opaque strings.

#![expect(missing_docs, reason = "most fields say by their name what the protocol says of them")]

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

/// The body of an envelope.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
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
    #[serde(serialize_with = "empty_map")]
    Unknown(u16),
}

impl Body {
    /// The type's number on the wire.
    pub fn kind(&self) -> u16 {
        match self {
            Self::ErrorMessage(_) => 1,
            Self::UserMessage(_) => 2,
            Self::AssistantMessage(_) => 3,
            Self::AudioChunk(_) => 4,
            Self::ReasoningStep(_) => 5,
            Self::ToolUseRequest(_) => 6,
            Self::ToolUseResult(_) => 7,
            Self::Acknowledgement(_) => 8,
            Self::Transcription(_) => 9,
            Self::ControlStop(_) => 10,
            Self::ControlVariation(_) => 11,
            Self::Configuration(_) => 12,
            Self::StartAnswer(_) => 13,
            Self::MemoryTrace(_) => 14,
            Self::Commentary(_) => 15,
            Self::AssistantSentence(_) => 16,
            Self::ReasoningDelta(_) => 64,
            Self::TurnMeta(_) => 65,
            Self::ToolConsentRequest(_) => 66,
            Self::ToolConsent(_) => 67,
            Self::Unknown(kind) => *kind,
        }
    }

    /// The message's own id or, where it has none, the one that it is about (`targetId`, `requestId`).
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::ErrorMessage(body) => Some(&body.id),
            Self::UserMessage(body) => Some(&body.id),
            Self::AssistantMessage(body) => Some(&body.id),
            Self::ReasoningStep(body) => Some(&body.id),
            Self::ToolUseRequest(body) => Some(&body.id),
            Self::ToolUseResult(body) => Some(&body.id),
            Self::Transcription(body) => Some(&body.id),
            Self::StartAnswer(body) => Some(&body.id),
            Self::MemoryTrace(body) => Some(&body.id),
            Self::Commentary(body) => Some(&body.id),
            Self::ReasoningDelta(body) => Some(&body.id),
            Self::ToolConsentRequest(body) => Some(&body.id),
            Self::AssistantSentence(body) => body.id.as_deref(),
            Self::ControlStop(body) => body.target_id.as_deref(),
            Self::ControlVariation(body) => Some(&body.target_id),
            Self::ToolConsent(body) => Some(&body.request_id),
            Self::AudioChunk(_)
            | Self::Acknowledgement(_)
            | Self::Configuration(_)
            | Self::TurnMeta(_)
            | Self::Unknown(_) => None,
        }
    }
}

/// Something went wrong, told to the one whom it concerns.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub originating_id: Option<String>,
}

/// What a person wrote.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_id: Option<String>,
    pub conversation_id: String,
    pub content: String,
    /// Milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
    /// Not used yet; kept so that the sender can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Value>,
}

/// A whole answer, for clients that do not take it sentence by sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    pub id: String,
    pub previous_id: String,
    pub conversation_id: String,
    pub content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
}

/// Audio for clients without an audio track.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AudioChunk {
    pub conversation_id: String,
    pub format: String,
    pub sequence: i32,
    pub duration_ms: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub track_sid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "binary")]
    pub data: Option<Vec<u8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_last: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
}

/// One finished thought.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningStep {
    pub id: String,
    pub conversation_id: String,
    /// The user message that is being answered.
    pub previous_id: String,
    pub content: String,
    /// From 1, for each answer.
    pub step_index: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<i32>,
}

/// The model wants a tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolUseRequest {
    pub id: String,
    /// The user message that is being answered.
    pub message_id: String,
    pub conversation_id: String,
    pub tool_name: String,
    pub parameters: Map<String, Value>,
    pub execution: Execution,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i32>,
}

/// Who runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Execution {
    /// `"server"`: the agent.
    Server,
    /// `"client"`: the participant that it is sent to.
    Client,
    /// `"either"`.
    Either,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolUseResult {
    pub id: String,
    pub request_id: String,
    pub conversation_id: String,
    pub success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// A stanza was taken in (or refused for good).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Acknowledgement {
    pub conversation_id: String,
    pub acknowledged_stanza_id: i32,
    pub success: bool,
}

/// What a person said. A final one is the user message, under its id.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Transcription {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_id: Option<String>,
    pub conversation_id: String,
    pub text: String,
    /// `final` on the wire.
    #[serde(rename = "final")]
    pub is_final: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

/// Stop answering.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlStop {
    pub conversation_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub stop_type: StopType,
}

/// What is to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlVariation {
    pub conversation_id: String,
    pub target_id: String,
    pub mode: VariationMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_content: Option<String>,
}

/// How an answer is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VariationMode {
    /// `"regenerate"`: a new answer to the same message.
    Regenerate,
    /// `"edit"`: the user message gets a new text and a new answer.
    Edit,
    /// `"continue"`: a new answer that goes on from the target.
    Continue,
}

/// What one side can do, and how far it has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_sequence_seen: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
    /// Tools that the client offers to run: our extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<OfferedTool>>,
}

/// A tool that a client offers to run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedTool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// An answer begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartAnswer {
    /// The coming answer's.
    pub id: String,
    /// The user message that is being answered.
    pub previous_id: String,
    pub conversation_id: String,
    /// `"text"`, `"voice"` or `"text+voice"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_sentence_count: Option<i32>,
}

/// Something remembered that went into an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryTrace {
    pub id: String,
    pub message_id: String,
    pub conversation_id: String,
    pub memory_id: String,
    pub content: String,
    pub relevance: f32,
}

/// A remark on a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Commentary {
    pub id: String,
    pub message_id: String,
    pub conversation_id: String,
    pub content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commentary_type: Option<String>,
}

/// One sentence of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantSentence {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The id of the `StartAnswer`.
    pub previous_id: String,
    pub conversation_id: String,
    /// From 1.
    pub sequence: i32,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_final: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "binary")]
    pub audio: Option<Vec<u8>>,
}

/// A piece of a thought that is not finished yet.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningDelta {
    /// Of the coming step.
    pub id: String,
    pub previous_id: String,
    pub conversation_id: String,
    pub step_index: i32,
    pub delta: String,
}

/// Figures of a turn, after its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnMeta {
    pub message_id: String,
    pub conversation_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<i64>,
    /// Whether the endpoint counted the tokens, rather than we estimated them.
    pub exact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    pub thinking_ms: i64,
    pub total_ms: i64,
    pub interrupted: bool,
}

/// May this tool run?
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolConsentRequest {
    pub id: String,
    pub request_id: String,
    pub message_id: String,
    pub conversation_id: String,
    pub tool_name: String,
    pub parameters: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub timeout_ms: i32,
}

/// It may, or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolConsent {
    pub request_id: String,
    pub conversation_id: String,
    pub allow: bool,
}

/// As `MessagePack`'s binary type, rather than as a list of numbers.
#[expect(clippy::ref_option, reason = "serde calls it so")]
fn binary<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    match bytes {
        Some(bytes) => serializer.serialize_bytes(bytes),
        None => serializer.serialize_none(),
    }
}

/// What a body is that nobody knows.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn empty_map<S: Serializer>(_kind: &u16, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(std::iter::empty::<((), ())>())
}
