//! What people send and models say, by the words of a line.

use super::Player;
use super::words::number;
use crate::engine::event::{Input, RequestId};
use crate::engine::hook::Ruling;
use crate::model::{Chunk, Failure, Finish, Message, ToolCall, Usage};
use crate::wire::body::{
    Acknowledgement, AudioChunk, Body, Commentary, Configuration, ControlStop, ControlVariation, OfferedTool,
    StartAnswer, StopType, ToolConsent, ToolUseResult, UserMessage, VariationMode,
};
use serde_json::{Value, json};

/// What a hook says; `None` if it says nothing that makes sense.
pub(super) fn ruling(words: &[&str], line: &str) -> Option<Ruling> {
    // `system=…`, `user=…`, `assistant=…`, as they follow each other.
    let messages = |words: &[&str]| {
        let message = |word: &&str| match word.split_once('=') {
            Some(("system", text)) => Message::System(text.to_owned()),
            Some(("user", text)) => Message::User(text.to_owned()),
            Some(("assistant", text)) => {
                Message::Assistant { text: text.to_owned(), reasoning: None, calls: Vec::new() }
            }
            _ => panic!("no message: {word} in {line}"),
        };
        words.iter().map(message).collect::<Vec<_>>()
    };
    Some(match words {
        ["allows"] => Ruling::Allow,
        ["adds", rest @ ..] => Ruling::Add(messages(rest)),
        ["gives", rest @ ..] => Ruling::Messages(messages(rest)),
        ["changes", parameters] => Ruling::Parameters(
            serde_json::from_str(parameters).unwrap_or_else(|_| panic!("no object: {line}")),
        ),
        ["replaces", text] => Ruling::Text((*text).to_owned()),
        ["refuses"] => Ruling::Refuse(None),
        ["refuses", reason] => Ruling::Refuse(Some((*reason).to_owned())),
        ["fails"] => return None,
        _ => panic!("{line}"),
    })
}

impl Player {
    pub(super) fn body(&self, words: &[&str], line: &str) -> Body {
        let conversation_id = String::new();
        let variation = |target: &str, mode, text: Option<&str>| {
            Body::ControlVariation(ControlVariation {
                conversation_id: String::new(),
                target_id: self.names.full(target),
                mode,
                new_content: text.map(str::to_owned),
            })
        };
        match *words {
            ["says", id, text] => user_message(&self.names.full(id), None, text, None),
            ["says", id, text, "after", previous] => {
                user_message(id, Some(self.names.full(previous)), text, None)
            }
            ["says", id, text, "with", "attachments"] => user_message(id, None, text, Some(json!(["a.png"]))),
            ["says", id, text, "without", "attachments"] => user_message(id, None, text, Some(json!([]))),
            ["stops"] => stop(None, StopType::Generation),
            ["stops", "all"] => stop(None, StopType::All),
            ["stops", "speech"] => stop(None, StopType::Speech),
            ["stops", "all", target] => stop(Some(self.names.full(target)), StopType::All),
            ["stops", target] => stop(Some(self.names.full(target)), StopType::Generation),
            ["regenerates", target] => variation(target, VariationMode::Regenerate, None),
            ["continues", target] => variation(target, VariationMode::Continue, None),
            ["edits", target, text] => variation(target, VariationMode::Edit, Some(text)),
            ["edits", target] => variation(target, VariationMode::Edit, None),
            ["configures", features] => configuration(Some(features), None),
            ["configures", features, "in", language] => configuration(Some(features), Some(language)),
            ["configures"] => configuration(None, None),
            ["configures", "having", "seen", stanza] => Body::Configuration(Configuration {
                last_sequence_seen: Some(stanza.parse().unwrap_or_else(|_| panic!("{line}"))),
                ..Configuration::default()
            }),
            ["offers", "nothing"] => offer(&[]),
            ["offers", ref tools @ ..] => offer(tools),
            ["answers", request, ref result @ ..] => {
                let result = result.first().map(|value| serde_json::from_str(value).unwrap_or(json!(value)));
                tool_result(self.names.full(request), result, None)
            }
            ["fails", request, word, message] => {
                tool_result(self.names.full(request), None, Some((word, message)))
            }
            ["sends", "commentary", id] => Body::Commentary(Commentary {
                id: id.to_owned(),
                message_id: "m1".to_owned(),
                conversation_id,
                content: "Well.".to_owned(),
                commentary_type: None,
            }),
            ["sends", "acknowledgement"] => Body::Acknowledgement(Acknowledgement {
                conversation_id,
                acknowledged_stanza_id: -1,
                success: true,
            }),
            ["sends", "start"] => Body::StartAnswer(StartAnswer {
                id: "am_forged".to_owned(),
                previous_id: "m1".to_owned(),
                conversation_id,
                answer_type: None,
                planned_sentence_count: None,
            }),
            [how @ ("allows" | "denies"), request] => Body::ToolConsent(ToolConsent {
                request_id: self.names.full(request),
                conversation_id,
                allow: how == "allows",
            }),
            ["sends", "type", kind] => Body::Unknown(number(kind) as u16),
            ["sends", "audio"] => Body::AudioChunk(AudioChunk {
                conversation_id,
                format: "pcm".to_owned(),
                sequence: 1,
                duration_ms: 20,
                track_sid: None,
                data: None,
                is_last: None,
                timestamp: None,
            }),
            _ => panic!("what is this? {line}"),
        }
    }

    pub(super) fn model(&self, words: &[&str], line: &str) -> Input {
        let (request, words) = match words.first().and_then(|word| word.parse::<u64>().ok()) {
            Some(request) => (request, &words[1..]),
            None => (self.last_request, words),
        };
        let result = match *words {
            ["thinks", text] => Ok(Chunk::Reasoning(text.to_owned())),
            ["says", text] => Ok(Chunk::Text(text.to_owned())),
            ["calls", name, arguments] => {
                let arguments = match serde_json::from_str::<Value>(arguments) {
                    Ok(Value::Object(map)) => Ok(map),
                    _ => Err(arguments.to_owned()),
                };
                Ok(Chunk::ToolCall(ToolCall { id: format!("call_{name}"), name: name.to_owned(), arguments }))
            }
            ["counts", input, output] => {
                Ok(Chunk::Usage(Usage { input: number(input), output: number(output), ..Usage::default() }))
            }
            ["counts", input, output, "thinking", reasoning] => Ok(Chunk::Usage(Usage {
                input: number(input),
                output: number(output),
                reasoning: Some(number(reasoning)),
                cached: None,
            })),
            ["finishes"] => Ok(Chunk::Finish(Finish::Stop)),
            ["finishes", "length"] => Ok(Chunk::Finish(Finish::Length)),
            ["finishes", "filtered"] => Ok(Chunk::Finish(Finish::Filtered)),
            ["fails", message] => Err(Failure { message: message.to_owned(), recoverable: true }),
            ["fails", message, "for", "good"] => {
                Err(Failure { message: message.to_owned(), recoverable: false })
            }
            _ => panic!("what is this? {line}"),
        };
        Input::Model { request: RequestId(request), result }
    }
}

fn user_message(id: &str, previous_id: Option<String>, text: &str, attachments: Option<Value>) -> Body {
    Body::UserMessage(UserMessage {
        id: id.to_owned(),
        previous_id,
        conversation_id: String::new(),
        content: text.to_owned(),
        timestamp: None,
        attachments,
    })
}

fn tool_result(request_id: String, result: Option<Value>, error: Option<(&str, &str)>) -> Body {
    Body::ToolUseResult(ToolUseResult {
        id: "x".to_owned(),
        request_id,
        conversation_id: String::new(),
        success: error.is_none(),
        result,
        error_code: error.map(|(word, _)| word.to_owned()),
        error_message: error.map(|(_, message)| message.to_owned()),
    })
}

/// Tools by name, or as JSON.
fn offer(tools: &[&str]) -> Body {
    let read = |tool: &&str| {
        let tool = serde_json::from_str(tool).unwrap_or_else(|_| json!({ "name": tool }));
        let text = |key: &str| tool[key].as_str().map_or_else(|| format!("its {key}"), str::to_owned);
        OfferedTool {
            name: text("name"),
            description: text("description"),
            parameters: tool.get("parameters").cloned().unwrap_or_else(|| json!({})),
        }
    };
    let tools = Some(tools.iter().map(read).collect());
    Body::Configuration(Configuration { tools, ..Configuration::default() })
}

fn stop(target_id: Option<String>, stop_type: StopType) -> Body {
    Body::ControlStop(ControlStop { conversation_id: String::new(), target_id, reason: None, stop_type })
}

fn configuration(features: Option<&str>, language: Option<&str>) -> Body {
    let features =
        features.map(|features| features.split(',').filter(|f| !f.is_empty()).map(str::to_owned).collect());
    Body::Configuration(Configuration {
        features,
        preferred_language: language.map(str::to_owned),
        ..Configuration::default()
    })
}
