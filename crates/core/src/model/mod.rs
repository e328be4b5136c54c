//! Language models as the core sees them: what is asked ([`Prompt`]) and what comes back ([`Chunk`]).
//!
//! Endpoints differ in how they stream reasoning, text and tool calls; whatever they do ends as the same few chunks
//! here. This module parses bytes and builds request bodies. It never opens a connection, never waits and never
//! retries: that is the adapter's part (`src/model/`).

mod arguments;
mod chunk;
mod fragments;
mod inline;
pub mod request;
mod sse;
pub mod stream;
pub mod style;
pub mod untrusted;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// A piece of a model's answer. Joined, the texts are exactly what the model wrote, without the tags around it.
#[derive(Clone, Debug, PartialEq)]
pub enum Chunk {
    /// Thinking. Never spoken and never part of the answer.
    Reasoning(String),
    /// The answer.
    Text(String),
    /// One complete call of a tool.
    ToolCall(ToolCall),
    /// What the endpoint counted; comes at most once, near the end.
    Usage(Usage),
    /// The model has finished; the last chunk of a stream that went well.
    Finish(Finish),
}

/// A call of a tool, as the model made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The endpoint's id of the call, or one made up where it gave none; unique within one response.
    pub id: String,
    /// Which tool, as the model spelled it.
    pub name: String,
    /// The arguments, or the text that could not be read as a JSON object.
    pub arguments: Result<serde_json::Map<String, Value>, String>,
}

/// Tokens, as counted by the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The prompt.
    pub input: u64,
    /// Everything the model wrote, reasoning included.
    pub output: u64,
    /// The part of the output that is reasoning, where the endpoint tells.
    pub reasoning: Option<u64>,
    /// The part of the prompt that the endpoint had cached, where it tells.
    pub cached: Option<u64>,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It had said all.
    Stop,
    /// It wants the results of the tool calls in this response.
    ToolCalls,
    /// It met the limit of tokens.
    Length,
    /// The endpoint held back the rest.
    Filtered,
}

/// Why a stream is over before its end. The texts name what happened and hold nothing that people said.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The endpoint reported an error inside the stream.
    #[error("the endpoint reported an error: {0}")]
    Reported(String),
    /// The stream ended without saying that it was finished.
    #[error("the stream ended before the answer was finished")]
    Truncated,
    /// One event, or the arguments of one call, are larger than anything sensible.
    #[error("{0} is larger than the limit of {1} bytes")]
    TooLarge(&'static str, usize),
}

/// What a model is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// The conversation so far, the system message first.
    pub messages: Vec<Message>,
    /// What the model may call; empty where it may call nothing.
    pub tools: Vec<ToolSpec>,
    /// Whether the model is to think before it answers.
    pub thinking: bool,
}

/// One message of a prompt. Texts are already safe to send: see [`untrusted`].
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The instructions; only ever the first.
    System(String),
    /// What a person said.
    User(String),
    /// What the model said.
    Assistant {
        /// The answer.
        text: String,
        /// Its thinking, given back only inside the running tool loop.
        reasoning: Option<String>,
        /// The tools it called, answered by the `Tool` messages that follow.
        calls: Vec<ToolCall>,
    },
    /// The result of a tool.
    Tool {
        /// The call it answers.
        call: String,
        /// The result, as text.
        content: String,
    },
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Letters, digits, `_` and `-` only: the one form that every server takes.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// Whether running it twice does no harm. One that is not is never run again after a crash.
    pub repeatable: bool,
}

/// Why no answer came, or only a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Failure {
    /// What went wrong and what to do, for the user; no secret, nothing that people said.
    pub message: String,
    /// Whether trying again later may help.
    pub recoverable: bool,
}
