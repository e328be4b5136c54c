//! One event of an OpenAI-style stream becomes the few things that it says.
//!
//! Servers differ in which fields they fill and with what; unknown fields, explicit nulls and empty lists mean nothing
//! here. Also reads an answer that came whole (`message` in place of `delta`). Keeps no text and knows no tags: what is
//! inline in the content is found by [`inline`](super::inline).

use super::fragments::Fragment;
use super::sse::Event;
use super::{Finish, StreamError, Usage};
use serde_json::Value;

/// How much of an endpoint's own error message is passed on.
const MESSAGE_CHARS: usize = 4_000;

/// What one event says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Delta {
    /// Thinking, told apart by the server, and where it stood.
    Reasoning(Field, String),
    /// Content, with whatever tags are in it.
    Content(String),
    /// A piece of a tool call.
    Call(Fragment),
    /// What the endpoint has counted so far.
    Usage(Usage),
    /// Why the model stopped.
    Finish(Finish),
    /// Nothing follows: `[DONE]`.
    Done,
}

/// Where a server puts the thinking that it tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `reasoning`: vLLM, Ollama, `OpenRouter`.
    Reasoning,
    /// `reasoning_content`: `SGLang`, llama.cpp, `DashScope`, older vLLM.
    ReasoningContent,
    /// `thinking`.
    Thinking,
    /// `reasoning_details`: `OpenRouter`.
    Details,
    /// A part of the content that says it is thinking.
    Part,
}

impl Field {
    /// The key in the JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reasoning => "reasoning",
            Self::ReasoningContent => "reasoning_content",
            Self::Thinking => "thinking",
            Self::Details => "reasoning_details",
            Self::Part => "content",
        }
    }
}

/// Reads events, one after the other.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Thinking came in a plain field: `reasoning_details` only repeats it.
    plain_reasoning: bool,
}

impl Decoder {
    /// Appends what the event says, also when it ends in an error.
    pub(super) fn decode(&mut self, event: &Event, deltas: &mut Vec<Delta>) -> Result<(), StreamError> {
        let data = event.data.trim();
        if data == "[DONE]" {
            deltas.push(Delta::Done);
            return Ok(());
        }
        let named_error = event.name == "error";
        match serde_json::from_str(data) {
            Ok(value) if named_error => Err(reported(&value)),
            Ok(value) => self.value(&value, deltas),
            Err(_) if named_error => Err(reported(&Value::String(data.to_owned()))),
            // An object that is cut in the middle. Going on would lose words without a sign.
            Err(_) if data.starts_with('{') => Err(StreamError::Truncated),
            Err(_) => Ok(()),
        }
    }

    /// The same for an event that is JSON already, and for an answer that came whole.
    pub(super) fn value(&mut self, value: &Value, deltas: &mut Vec<Delta>) -> Result<(), StreamError> {
        let choice = value
            .get("choices")
            .and_then(Value::as_array)
            .and_then(|choices| choices.iter().find(|choice| number(choice, "index").unwrap_or(0) == 0));
        if let Some(delta) =
            choice.and_then(|choice| given(choice, "delta").or_else(|| given(choice, "message")))
        {
            self.delta(delta, deltas);
        }
        if let Some(usage) = given(value, "usage") {
            deltas.push(Delta::Usage(read_usage(usage)));
        }
        if let Some(error) = failure(value).or_else(|| failure(choice?)) {
            return Err(error);
        }
        match choice.and_then(|choice| text(choice, "finish_reason")) {
            // Some write the absence of a reason as a word.
            None | Some("null") => Ok(()),
            Some(reason) => {
                deltas.push(Delta::Finish(read_finish(reason)?));
                Ok(())
            }
        }
    }

    fn delta(&mut self, delta: &Value, deltas: &mut Vec<Delta>) {
        // Some servers fill two fields with the same text while they move from one name to the other.
        let plain = [Field::ReasoningContent, Field::Reasoning, Field::Thinking]
            .into_iter()
            .find_map(|field| Some((field, text(delta, field.as_str())?.to_owned())));
        self.plain_reasoning |= plain.is_some();
        let details = || Some((Field::Details, detailed_reasoning(delta)?));
        let reasoning = if self.plain_reasoning { plain } else { details() };
        deltas.extend(reasoning.map(|(field, text)| Delta::Reasoning(field, text)));

        match delta.get("content") {
            Some(Value::String(content)) if !content.is_empty() => {
                deltas.push(Delta::Content(content.clone()));
            }
            Some(Value::Array(parts)) => deltas.extend(parts.iter().filter_map(read_part)),
            _ => {}
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        deltas.extend(calls.into_iter().flatten().map(|call| Delta::Call(read_fragment(call))));
    }
}

/// A field that is there and not null.
fn given<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|value| !value.is_null())
}

/// A field that is text and not empty.
fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn number(value: &Value, key: &str) -> Option<u64> {
    let value = value.get(key)?;
    value.as_u64().or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64))
}

fn detailed_reasoning(delta: &Value) -> Option<String> {
    let details = delta.get("reasoning_details")?.as_array()?;
    let texts = details.iter().filter_map(|detail| text(detail, "text").or_else(|| text(detail, "summary")));
    Some(texts.collect::<String>()).filter(|text| !text.is_empty())
}

fn read_part(part: &Value) -> Option<Delta> {
    let kind = text(part, "type").unwrap_or("text");
    if kind == "thinking" || kind == "reasoning" {
        let thinking = match part.get(kind).or_else(|| part.get("text"))? {
            Value::String(thinking) => thinking.clone(),
            Value::Array(parts) => parts.iter().filter_map(|part| text(part, "text")).collect::<String>(),
            _ => return None,
        };
        return (!thinking.is_empty()).then_some(Delta::Reasoning(Field::Part, thinking));
    }
    text(part, "text").map(|text| Delta::Content(text.to_owned()))
}

fn read_fragment(call: &Value) -> Fragment {
    let function = call.get("function").unwrap_or(call);
    Fragment {
        index: number(call, "index"),
        id: text(call, "id").map(str::to_owned),
        name: text(function, "name").map(str::to_owned),
        arguments: match function.get("arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(arguments)) => arguments.clone(),
            // Not what the interface says, but plain enough.
            Some(arguments) => arguments.to_string(),
        },
    }
}

fn read_usage(usage: &Value) -> Usage {
    let detail = |group: &str, key: &str| number(usage.get(group)?, key);
    Usage {
        input: number(usage, "prompt_tokens").unwrap_or(0),
        output: number(usage, "completion_tokens").unwrap_or(0),
        reasoning: detail("completion_tokens_details", "reasoning_tokens")
            .or_else(|| number(usage, "reasoning_tokens")),
        cached: detail("prompt_tokens_details", "cached_tokens")
            .or_else(|| number(usage, "prompt_cache_hit_tokens")),
    }
}

fn read_finish(reason: &str) -> Result<Finish, StreamError> {
    match reason {
        "tool_calls" | "function_call" | "tool_use" => Ok(Finish::ToolCalls),
        "length" | "max_tokens" => Ok(Finish::Length),
        "content_filter" | "safety" => Ok(Finish::Filtered),
        "abort" | "aborted" | "cancelled" | "error" => {
            Err(StreamError::Reported(format!("it ended the answer with \"{reason}\"")))
        }
        // `stop` and its many spellings: whatever it is called, the model has finished.
        _ => Ok(Finish::Stop),
    }
}

/// An error where an answer was expected.
fn failure(value: &Value) -> Option<StreamError> {
    let error = given(value, "error").filter(|error| **error != Value::Bool(false));
    match error {
        Some(error) => Some(reported(error)),
        None => (text(value, "object") == Some("error")).then(|| reported(value)),
    }
}

fn reported(error: &Value) -> StreamError {
    let error = given(error, "error").unwrap_or(error);
    let message = match error {
        Value::String(message) => message.clone(),
        error => match (text(error, "message"), given(error, "code").or_else(|| given(error, "type"))) {
            (Some(message), _) => message.to_owned(),
            (None, Some(Value::String(code))) => code.clone(),
            (None, Some(code)) => code.to_string(),
            (None, None) => String::new(),
        },
    };
    let words: Vec<&str> = message.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let message: String = words.join(" ").trim().chars().take(MESSAGE_CHARS).collect();
    StreamError::Reported(if message.is_empty() { "it gave no reason".to_owned() } else { message })
}
