//! A model that says words nobody said before, thinks, fails, is cut off and calls tools; and the tools. What it said and
//! what was done is written down here, outside of any engine.

use super::dice::Dice;
use crate::model::{Chunk, Failure, Finish, Message, Prompt, ToolCall, ToolSpec, Usage};
use crate::tool::{Execution, Tool};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The tool whose running cannot be undone: the model calls it once for each question that asks for it, unless the prompt
/// shows that it has.
pub(super) const PAY: &str = "pay";
/// The same, but for leave; and the same, run by clients.
pub(super) const MAIL: &str = "mail";
pub(super) const DOOR: &str = "door";
/// All of these.
pub(super) const LASTING: [&str; 3] = [PAY, MAIL, DOOR];
/// One that may be run again.
pub(super) const CLOCK: &str = "clock";

/// What is left of an answer to one request.
pub(super) type Answering = VecDeque<Result<Chunk, Failure>>;

#[derive(Default)]
pub(super) struct Model {
    words: u64,
    /// What was said in each answer, request by request, as far as it reached the engine.
    said: BTreeMap<String, Vec<String>>,
    /// How often each call of a tool with effects was run, by its number; and how often for each message.
    pub(super) runs: BTreeMap<u64, u32>,
    pub(super) paid: BTreeMap<String, u32>,
    /// The calls that someone has allowed.
    pub(super) allowed: BTreeSet<u64>,
}

pub(super) fn tools() -> Vec<Tool> {
    let tool = |name: &str, repeatable| {
        Tool::harmless(ToolSpec {
            name: name.to_owned(),
            description: name.to_owned(),
            parameters: json!({ "type": "object" }),
            repeatable,
        })
    };
    vec![
        tool(PAY, false),
        Tool { confirm: true, ..tool(MAIL, false) },
        Tool { execution: Execution::Client, ..tool(DOOR, false) },
        tool(CLOCK, true),
    ]
}

impl Model {
    /// Decides what to answer.
    pub(super) fn answer(&mut self, prompt: &Prompt, healthy: bool, dice: &mut Dice) -> Answering {
        let mut chunks = Answering::new();
        if prompt.thinking && dice.percent(50) {
            for _ in 0..dice.between(1, 3) {
                let thought = format!("Hm {}.{}", self.word(), dice.pick(&["", "\n\n", " And "]));
                chunks.push_back(Ok(Chunk::Reasoning(thought)));
            }
        }
        let pieces = dice.between(0, 5);
        for _ in 0..pieces {
            let text = match dice.between(0, 3) {
                0 => format!("{} ", self.word()),
                1 => format!("{}. {}", self.word(), self.word()),
                2 => format!("{}. {}! ", self.word(), self.word()),
                _ => format!(" {}.\n\n", self.word()),
            };
            chunks.push_back(Ok(Chunk::Text(text)));
        }
        let calls = if prompt.tools.is_empty() { Vec::new() } else { self.calls(prompt, dice) };
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        chunks.extend(calls.into_iter().map(|call| Ok(Chunk::ToolCall(call))));
        if dice.percent(30) {
            chunks.push_back(Ok(Chunk::Usage(Usage { input: 100, output: 10, ..Usage::default() })));
        }
        chunks.push_back(Ok(Chunk::Finish(if dice.percent(3) { Finish::Length } else { finish })));
        if !healthy && dice.percent(8) {
            chunks.truncate(dice.index(chunks.len()));
            let message = "the stream ended before the answer was finished".to_owned();
            chunks.push_back(Err(Failure { message, recoverable: true }));
        }
        chunks
    }

    fn calls(&mut self, prompt: &Prompt, dice: &mut Dice) -> Vec<ToolCall> {
        let question = prompt.messages.iter().rposition(|message| matches!(message, Message::User(_)));
        let (asked, since) = prompt.messages.split_at(question.map_or(0, |place| place + 1));
        let called = since.iter().flat_map(|message| match message {
            Message::Assistant { calls, .. } => calls.as_slice(),
            _ => &[],
        });
        let has_called = |name: &str| called.clone().any(|call| call.name == name);
        let wants = |name: &str| matches!(asked.last(), Some(Message::User(text)) if text.contains(name));
        let mut calls: Vec<&str> =
            LASTING.into_iter().filter(|name| wants(name) && !has_called(name)).collect();
        if called.count() < 3 && dice.percent(15) {
            calls.insert(dice.index(calls.len() + 1), CLOCK);
        }
        let mut call = |name: &str| {
            self.words += 1;
            let arguments = Ok(Map::from_iter([("n".to_owned(), Value::from(self.words))]));
            ToolCall { id: "call".to_owned(), name: name.to_owned(), arguments }
        };
        calls.into_iter().map(&mut call).collect()
    }

    /// A request is made for an answer.
    pub(super) fn begin(&mut self, answer: &str) {
        self.said.entry(answer.to_owned()).or_default().push(String::new());
    }

    /// The engine has got a piece of it.
    pub(super) fn heard(&mut self, answer: &str, text: &str) {
        if let Some(said) = self.said.get_mut(answer).and_then(|requests| requests.last_mut()) {
            said.push_str(text);
        }
    }

    /// What an answer must be, of all that was said for it.
    pub(super) fn whole(&self, answer: &str) -> String {
        let said = self.said.get(answer).into_iter().flatten();
        said.map(|said| said.trim()).filter(|said| !said.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// A tool is run.
    pub(super) fn run(&mut self, name: &str, arguments: &Map<String, Value>, message: &str) {
        if LASTING.contains(&name) {
            let number = number(arguments);
            *self.runs.entry(number).or_default() += 1;
            *self.paid.entry(message.to_owned()).or_default() += 1;
        }
    }

    /// Whether someone had to allow it, and nobody did.
    pub(super) fn lacks_leave(&self, name: &str, arguments: &Map<String, Value>) -> bool {
        name == MAIL && !self.allowed.contains(&number(arguments))
    }

    fn word(&mut self) -> String {
        self.words += 1;
        format!("w{}", self.words)
    }
}

/// The number of a call.
pub(super) fn number(arguments: &Map<String, Value>) -> u64 {
    arguments.get("n").and_then(Value::as_u64).unwrap_or(0)
}
