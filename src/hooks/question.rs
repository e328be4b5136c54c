//! What a hook is asked, as JSON.

use crate::hash::sha256;
use serde_json::{Map, Value, json};
use sotto_core::engine::hook::{Matter, Question};
use sotto_core::model::ToolSpec;
use sotto_core::model::request::message;

/// The header that has the question's id, too.
pub(super) const ID_HEADER: &str = "Sotto-Request-Id";

/// The body of a request. Its `id` is the same for the same question, whoever asks it when: an agent that was restarted and
/// comes to the same point again asks under the same one.
pub(super) fn body(conversation: &str, question: &Question) -> Value {
    let Question { message, answer, asker, number, matter } = question;
    let hook = matter.hook().name();
    let matter = self::matter(matter);
    let same = json!([hook, conversation, message, number, matter]).to_string();
    let mut body = Map::new();
    body.insert("id".to_owned(), format!("hk_{}", &sha256(same)[..32]).into());
    body.insert("hook".to_owned(), hook.into());
    body.insert("conversation".to_owned(), conversation.into());
    body.insert("message".to_owned(), message.as_str().into());
    body.insert("answer".to_owned(), answer.as_str().into());
    body.insert("asker".to_owned(), asker.as_str().into());
    body.insert("number".to_owned(), (*number).into());
    body.extend(matter);
    Value::Object(body)
}

fn matter(matter: &Matter) -> Map<String, Value> {
    let fields: Vec<(&str, Value)> = match matter {
        Matter::Prompt(prompt) => vec![
            ("messages", prompt.messages.iter().map(message).collect()),
            ("tools", prompt.tools.iter().map(|tool: &ToolSpec| tool.name.as_str()).collect()),
            ("thinking", prompt.thinking.into()),
        ],
        Matter::Call { tool, parameters } => {
            vec![("tool", tool.as_str().into()), ("parameters", parameters.clone().into())]
        }
        Matter::Sentence(text) => vec![("text", text.as_str().into())],
    };
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
