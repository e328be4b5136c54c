//! What a hook may say: one JSON object with an `action` and what belongs to it, and nothing else. What is wrong is told by its
//! place, never by its words.

use serde::Deserialize;
use serde_json::{Map, Value};
use sotto_core::engine::hook::{Hook, Ruling};
use sotto_core::model::{Message, ToolCall};

#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
enum BeforeModel {
    Allow {},
    Add { messages: Vec<Written> },
    Replace { messages: Vec<Written> },
}

#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
enum BeforeTool {
    Allow {},
    Change {
        parameters: Map<String, Value>,
    },
    Deny {
        #[serde(default)]
        reason: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
enum BeforeSay {
    Allow {},
    Replace { text: String },
    Block {},
}

/// A message, as endpoints read it.
#[derive(Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
enum Written {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        #[serde(default)]
        content: Option<String>,
        #[serde(default)]
        reasoning_content: Option<String>,
        #[serde(default)]
        tool_calls: Vec<Call>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    id: String,
    #[serde(rename = "type", default)]
    _kind: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    name: String,
    arguments: String,
}

/// What a hook has said; or what is wrong with it.
pub(super) fn read(hook: Hook, bytes: &[u8]) -> Result<Ruling, String> {
    match hook {
        Hook::BeforeModel => {
            let form =
                "{\"action\": \"allow\"}, or \"add\" or \"replace\" with messages as OpenAI's API has them";
            match parse(bytes, form)? {
                BeforeModel::Allow {} => Ok(Ruling::Allow),
                BeforeModel::Add { messages } => added(messages).map(Ruling::Add),
                BeforeModel::Replace { messages } => replaced(messages).map(Ruling::Messages),
            }
        }
        Hook::BeforeTool => {
            let form = "{\"action\": \"allow\"}, or \"change\" with parameters, or \"deny\" with or without a reason";
            Ok(match parse(bytes, form)? {
                BeforeTool::Allow {} => Ruling::Allow,
                BeforeTool::Change { parameters } => Ruling::Parameters(parameters),
                BeforeTool::Deny { reason } => {
                    Ruling::Refuse(reason.filter(|reason| !reason.trim().is_empty()))
                }
            })
        }
        Hook::BeforeSay => {
            let form = "{\"action\": \"allow\"}, or \"replace\" with a text, or \"block\"";
            Ok(match parse(bytes, form)? {
                BeforeSay::Allow {} => Ruling::Allow,
                BeforeSay::Replace { text } => Ruling::Text(text),
                BeforeSay::Block {} => Ruling::Refuse(None),
            })
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8], form: &str) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| {
        // What the error says may be what the hook said; where it is may be told.
        let (line, column) = (error.line(), error.column());
        format!("it must be {form}, and nothing else (see line {line}, column {column})")
    })
}

fn added(messages: Vec<Written>) -> Result<Vec<Message>, String> {
    let messages = messages.into_iter().map(message).collect::<Result<Vec<_>, _>>()?;
    let fits = |message: &Message| match message {
        Message::System(_) | Message::User(_) => true,
        Message::Assistant { calls, .. } => calls.is_empty(),
        Message::Tool { .. } => false,
    };
    match messages.iter().position(|message| !fits(message)) {
        None => Ok(messages),
        Some(place) => Err(format!("message {place} has to do with tools, and such cannot be added")),
    }
}

fn replaced(messages: Vec<Written>) -> Result<Vec<Message>, String> {
    let messages = messages.into_iter().map(message).collect::<Result<Vec<_>, _>>()?;
    if !messages.iter().any(|message| matches!(message, Message::User(_))) {
        return Err("there is no message of a user, and models answer nothing else".to_owned());
    }
    match messages.iter().skip(1).position(|message| matches!(message, Message::System(_))) {
        None => Ok(messages),
        Some(place) => Err(format!("message {} is of the system, and only the first may be", place + 1)),
    }
}

fn message(written: Written) -> Result<Message, String> {
    Ok(match written {
        Written::System { content } => Message::System(content),
        Written::User { content } => Message::User(content),
        Written::Tool { tool_call_id, content } => Message::Tool { call: tool_call_id, content },
        Written::Assistant { content, reasoning_content, tool_calls } => Message::Assistant {
            text: content.unwrap_or_default(),
            reasoning: reasoning_content,
            calls: tool_calls.into_iter().map(call).collect::<Result<_, _>>()?,
        },
    })
}

fn call(call: Call) -> Result<ToolCall, String> {
    let Call { id, function: Function { name, arguments }, .. } = call;
    let arguments = serde_json::from_str(&arguments)
        .map_err(|_| "the arguments of a tool call are no JSON object in a string".to_owned())?;
    Ok(ToolCall { id, name, arguments: Ok(arguments) })
}
