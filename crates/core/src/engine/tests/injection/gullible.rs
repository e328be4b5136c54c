//! A model that does whatever it reads, whoever wrote it and wherever it stands: messages, results, errors, names,
//! descriptions, schemas, its own former words.
//!
//! `CALL name {…}` is done once for each wording, `ALWAYS name {…}` in every answer for as long as it may call something,
//! `WHEN word CALL name {…}` once the last message of a person has that word. In arguments, `$SEEN` stands for all that tools
//! have said.

use crate::model::{Chunk, Finish, Message, Prompt, ToolCall};
use serde_json::{Map, Value};
use std::fmt::Write;

/// How often it calls in one answer.
const MOST: usize = 8;

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) arguments: Map<String, Value>,
}

impl Directive {
    pub(super) fn new(name: &str, arguments: &str) -> Self {
        let arguments =
            serde_json::from_str(arguments).unwrap_or_else(|_| panic!("no arguments: {arguments}"));
        Self { name: name.to_owned(), arguments }
    }
}

#[derive(Default)]
pub(super) struct Gullible {
    /// All that it has tried.
    pub(super) did: Vec<Directive>,
    heard: Vec<Directive>,
}

/// What a text wants done.
pub(super) fn directives(text: &str) -> Vec<Directive> {
    found(text).into_iter().map(|found| found.directive).collect()
}

struct Found {
    directive: Directive,
    always: bool,
    when: Option<String>,
}

fn found(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for (word, always) in [("CALL ", false), ("ALWAYS ", true)] {
        for (at, _) in text.match_indices(word) {
            let rest = &text[at + word.len()..];
            let Some((name, rest)) = rest.split_once(' ') else { continue };
            let Some(arguments) = object(rest) else { continue };
            let before = text[..at].trim_end().rsplit_once("WHEN ").map(|(_, word)| word);
            let when = before.filter(|word| !word.contains(char::is_whitespace)).map(str::to_owned);
            found.push(Found { directive: Directive { name: name.to_owned(), arguments }, always, when });
        }
    }
    found
}

/// The object at the beginning of a text, which may stand in a string within a string.
fn object(text: &str) -> Option<Map<String, Value>> {
    let mut text = text.to_owned();
    for _ in 0..3 {
        let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        if let Some(Ok(Value::Object(object))) = values.next() {
            return Some(object);
        }
        text = text.replace("\\\"", "\"").replace("\\\\", "\\");
    }
    None
}

impl Gullible {
    pub(super) fn answer(&mut self, prompt: &Prompt, told: &mut String) -> Vec<Chunk> {
        let (mut text, mut seen, mut last) = (String::new(), String::new(), "");
        for message in &prompt.messages {
            match message {
                Message::System(said) | Message::Assistant { text: said, .. } => _ = writeln!(text, "{said}"),
                Message::User(said) => {
                    last = said;
                    _ = writeln!(text, "{said}");
                }
                Message::Tool { content, .. } => {
                    seen.push_str(content);
                    _ = writeln!(text, "{content}");
                }
            }
        }
        for tool in &prompt.tools {
            let _ = writeln!(text, "{} {} {}", tool.name, tool.description, tool.parameters);
        }
        told.push_str(&text);
        let mut calls = Vec::new();
        for Found { mut directive, always, when } in found(&text) {
            if when.is_some_and(|word| !last.replace(&format!("WHEN {word}"), "").contains(&word))
                || (!always && self.heard.contains(&directive))
            {
                continue;
            }
            self.heard.push(directive.clone());
            // As it is written in a case, whatever it stands for.
            self.did.push(directive.clone());
            for value in directive.arguments.values_mut().filter(|value| **value == "$SEEN") {
                *value = seen.clone().into();
            }
            calls.push(directive);
        }
        // It may call what it is not offered, but not when it is offered nothing at the end of all rounds.
        calls.truncate(MOST);
        let mut chunks: Vec<Chunk> = Vec::new();
        if calls.is_empty() {
            chunks.push(Chunk::Text("Done.".to_owned()));
        }
        for Directive { name, arguments } in calls {
            chunks.push(Chunk::ToolCall(ToolCall { id: "1".to_owned(), name, arguments: Ok(arguments) }));
        }
        chunks.push(Chunk::Finish(Finish::Stop));
        chunks
    }
}
