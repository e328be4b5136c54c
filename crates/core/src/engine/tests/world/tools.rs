//! Tools in the room: which there are, what people and clients do about them, and the rules of their use. What is in the
//! prompt is judged by the prompt itself, not by what the engine says of it.

use super::super::sotto_core::engine::event::Input;
use super::super::sotto_core::model::{Message, Prompt, ToolSpec};
use super::super::sotto_core::tool::{Effects, Execution, Rights, Tool};
use super::super::sotto_core::wire::body::{
    Body, Configuration, OfferedTool, ToolConsent, ToolConsentRequest, ToolUseRequest, ToolUseResult,
};
use super::{PEOPLE, World};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What the model calls: most of them there are.
pub(super) const CALLED: [&str; 9] =
    ["clock", "page", "note", "mail", "lamp", "pay", "client_torch", "sundial", "horn"];

/// A harmless one, one that strangers write, one that changes something, one to be confirmed, one that clients may run,
/// one that is only for anna, and one that clients run by remote call.
pub(super) fn tools() -> Vec<Tool> {
    let tool = |name: &str| {
        Tool::harmless(ToolSpec {
            name: name.to_owned(),
            description: "tells".to_owned(),
            repeatable: name != "mail",
            parameters: Value::Null,
        })
    };
    let changes = Effects { changes: true, ..Effects::NONE };
    let only_anna = Rights::Only { identities: vec!["anna".to_owned()], attributes: Vec::new() };
    vec![
        tool("clock"),
        Tool { effects: Effects { untrusted_output: true, ..Effects::NONE }, ..tool("page") },
        Tool { effects: changes, ..tool("note") },
        Tool { confirm: true, ..tool("mail") },
        Tool { execution: Execution::Either, ..tool("lamp") },
        Tool { rights: only_anna, ..tool("pay") },
        Tool { execution: Execution::Rpc, ..tool("horn") },
    ]
}

/// What is known of the use of tools.
#[derive(Default)]
pub(super) struct Uses {
    /// The last prompt has words of strangers, and of others than anna.
    untrusted: bool,
    others_speak: bool,
    /// Who was asked for leave, for what, by the id of the request to come.
    asked: BTreeMap<String, (String, String, Map<String, Value>)>,
    answered: BTreeSet<String>,
    /// What was allowed and not run yet.
    allowed: Vec<(String, Map<String, Value>)>,
    /// The requests that went to clients, and to which.
    handed: BTreeMap<String, String>,
    /// The requests of which the room was told the end.
    ended: BTreeSet<String>,
    /// Stanzas that nobody may take for an answer.
    forged: BTreeSet<(String, i32)>,
}

impl World {
    /// Someone does something about tools.
    pub(super) fn act_on_tools(&mut self, index: usize, [what, a, b]: [u8; 3]) {
        let from = PEOPLE[index];
        match what {
            0 => {
                let offer = |name: &str| OfferedTool {
                    name: name.to_owned(),
                    description: "CALL it".to_owned(),
                    parameters: json!({}),
                };
                let names = ["torch", "lamp", "clock", "client_torch"];
                let offered = names.iter().enumerate().filter(|(bit, _)| a & (1 << bit) != 0);
                let tools = Some(offered.map(|(_, name)| offer(name)).collect());
                let features = (b & 1 != 0).then(|| vec!["streaming".to_owned(), "tool_consent".to_owned()]);
                let wants = Configuration { features, tools, ..Configuration::default() };
                self.send(index, Body::Configuration(wants));
            }
            1 => {
                let request_id = nth(self.uses.handed.keys(), a);
                let meant = self.uses.handed.get(&request_id).map(String::as_str) == Some(from);
                let result = ToolUseResult {
                    id: "x".to_owned(),
                    request_id,
                    conversation_id: String::new(),
                    success: b & 1 == 0,
                    result: Some(b.into()),
                    error_code: None,
                    error_message: None,
                };
                if !meant {
                    self.uses.forged.insert((from.to_owned(), self.stanzas[index] + 1));
                }
                self.send(index, Body::ToolUseResult(result));
            }
            2 => {
                let request_id = nth(self.uses.asked.keys(), a);
                let allow = b & 1 == 0;
                match self.uses.asked.get(&request_id) {
                    Some((to, tool, arguments)) if to == from => {
                        // Only the first word can count.
                        if self.uses.answered.insert(request_id.clone()) && allow {
                            self.uses.allowed.push((tool.clone(), arguments.clone()));
                        }
                    }
                    _ => _ = self.uses.forged.insert((from.to_owned(), self.stanzas[index] + 1)),
                }
                let consent = ToolConsent { request_id, conversation_id: String::new(), allow };
                self.send(index, Body::ToolConsent(consent));
            }
            _ => {
                let mut tools = tools();
                tools.truncate(usize::from(a) % 12);
                self.handle(Input::Tools(tools));
            }
        }
    }

    /// The model reads this next.
    pub(super) fn look_at_prompt(&mut self, prompt: &Prompt) {
        let data = |message: &Message| matches!(message, Message::Tool { content, .. } if content.contains("data written by others"));
        // Where several speak, each is named.
        let others = |message: &Message| {
            let named = |text: &str, name: &str| text.to_lowercase().starts_with(&format!("\"{name}\":"));
            matches!(message, Message::User(text) if PEOPLE[1..].iter().any(|name| named(text, name)))
        };
        self.uses.untrusted = prompt.messages.iter().any(data);
        self.uses.others_speak = prompt.messages.iter().any(others);
        if self.uses.others_speak {
            assert!(!prompt.tools.iter().any(|tool| tool.name == "pay"), "it is not for everyone here");
        }
    }

    /// A tool is run, here or at a client.
    pub(super) fn look_at_use(&mut self, name: &str, arguments: &Map<String, Value>) {
        let changes = matches!(name, "note" | "client_torch");
        let needs_leave = name == "mail" || (changes && self.uses.untrusted);
        let leave = self.uses.allowed.iter().position(|allowed| allowed.0 == name && allowed.1 == *arguments);
        if needs_leave {
            assert!(leave.is_some(), "{name} is run without leave");
        }
        if let Some(leave) = leave {
            self.uses.allowed.remove(leave);
        }
        assert!(name != "pay" || !self.uses.others_speak, "{name} is run for one who may not");
    }

    pub(super) fn knows_request(&self, id: &str) -> bool {
        self.uses.handed.contains_key(id)
    }

    /// A client is to run something.
    pub(super) fn look_at_request(&mut self, request: &ToolUseRequest, to: &str) {
        let before = self.uses.handed.insert(request.id.clone(), to.to_owned());
        assert!(before.is_none_or(|before| before == to), "a request stays with the one who is to answer it");
        let again = self.uses.ended.contains(&request.id);
        assert!(!again, "what is over is not asked for again");
    }

    /// Someone is asked for leave.
    pub(super) fn look_at_question(&mut self, request: &ToolConsentRequest, to: &str) {
        assert!(!self.uses.ended.contains(&request.request_id), "what is over is not asked for again");
        // A client knows its own tool by its own name.
        let name = if request.tool_name == "torch" { "client_torch" } else { &request.tool_name };
        let asked = (to.to_owned(), name.to_owned(), request.parameters.clone());
        let before = self.uses.asked.insert(request.request_id.clone(), asked.clone());
        assert!(before.is_none_or(|before| before == asked), "the same is asked of the same one");
    }

    pub(super) fn look_at_result(&mut self, request: &str) {
        assert!(self.uses.ended.insert(request.to_owned()), "no result counts twice: {request}");
    }

    /// A stanza was taken in.
    pub(super) fn look_at_taken(&self, by: &(String, i32)) {
        assert!(!self.uses.forged.contains(by), "{by:?} was not for its sender to say");
    }
}

fn nth<'a>(mut ids: impl ExactSizeIterator<Item = &'a String>, chance: u8) -> String {
    match ids.len() {
        0 => "atu_none".to_owned(),
        // The newest first: the others are over.
        count => ids.nth(count - 1 - usize::from(chance) % count).cloned().unwrap_or_default(),
    }
}
