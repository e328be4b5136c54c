//! What the demo model thinks, calls and says.

use super::question::{self, Wish};
use super::tokens;
use serde_json::{Map, Value, json};
use sotto_core::model::{Message, Prompt, ToolCall};

/// An answer of the demo.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Its thinking, by paragraph.
    pub(super) thoughts: Vec<String>,
    pub(super) text: String,
    pub(super) calls: Vec<ToolCall>,
}

const INTRODUCTION: &str = "I am Sotto's built-in demo model, so I only look for words and understand nothing. \
                            Set SOTTO_MODEL_URL to the address of an OpenAI-compatible endpoint, and a real model \
                            answers here instead.";

pub(super) fn answer(prompt: &Prompt) -> Answer {
    match prompt.messages.last() {
        Some(Message::Tool { .. }) => after_tools(prompt),
        Some(Message::Assistant { .. }) => Answer {
            thoughts: vec!["I am to go on from what I have said.".to_owned()],
            text: "To go on from there: I have said all that a demo can say about it. Ask me something else."
                .to_owned(),
            calls: Vec::new(),
        },
        _ => first(prompt),
    }
}

/// The answer to a question, or the calls that it needs first.
fn first(prompt: &Prompt) -> Answer {
    let question = asked(prompt);
    let wishes = question::wishes(question);
    let calls = calls(prompt, &wishes);
    let mut thoughts = vec![
        format!("I am asked: \"{}\" Let me look at what is wanted before I say anything.", excerpt(question)),
        plan(&wishes[0], !calls.is_empty()),
    ];
    if calls.is_empty() {
        thoughts.push(
            "I keep the answer short and in whole sentences, so that it can be read and spoken.".to_owned(),
        );
        let mut text = speech(&wishes[0], question);
        if is_first_answer(prompt) && wishes[0] != Wish::Introduction {
            text = format!("{text}\n\n{INTRODUCTION}");
        }
        Answer { thoughts, text, calls }
    } else {
        let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
        thoughts.push(format!("So I call {} and wait for the result.", names.join(" and ")));
        Answer { thoughts, text: String::new(), calls }
    }
}

/// The answer once the tools have been run.
fn after_tools(prompt: &Prompt) -> Answer {
    let mut thoughts = Vec::new();
    let mut sentences = Vec::new();
    for (call, content) in results(prompt) {
        let result: Value = serde_json::from_str(content).unwrap_or(Value::Null);
        thoughts.push(format!("The tool {} has answered. I check that this is what I need.", call.name));
        sentences.push(report(call, &result).unwrap_or_else(|| {
            format!("The tool {} could not help: {}.", call.name, excerpt(content).trim_end_matches('.'))
        }));
    }
    thoughts.push("That is enough to answer, so I put it into words.".to_owned());
    if is_first_answer(prompt) {
        sentences.push(INTRODUCTION.to_owned());
    }
    Answer { thoughts, text: sentences.join(" "), calls: Vec::new() }
}

/// A result in words, if it looks as the built-in tools make it.
fn report(call: &ToolCall, result: &Value) -> Option<String> {
    let arguments = call.arguments.as_ref().ok()?;
    match call.name.as_str() {
        "calculator" => {
            let expression = arguments.get("expression")?.as_str()?;
            Some(format!("{expression} is {}.", result.get("result")?))
        }
        "time" => {
            let part = |name| result.get(name).and_then(Value::as_str);
            let time = part("time")?.get(..5)?;
            Some(format!("It is {time} on {}, {} ({}).", part("weekday")?, part("date")?, part("timezone")?))
        }
        _ => None,
    }
}

/// Calls for all that is wished, of the tools that there are.
fn calls(prompt: &Prompt, wishes: &[Wish]) -> Vec<ToolCall> {
    let wanted = wishes.iter().filter_map(|wish| match wish {
        Wish::Sum(expression) => Some(("calculator", json!({ "expression": expression }))),
        Wish::Time(Some(zone)) => Some(("time", json!({ "timezone": zone }))),
        Wish::Time(None) => Some(("time", json!({}))),
        _ => None,
    });
    let round = prompt.messages.len();
    wanted
        .filter(|(name, _)| prompt.tools.iter().any(|tool| tool.name == *name))
        .enumerate()
        .map(|(number, (name, arguments))| ToolCall {
            id: format!("demo-{round}-{number}"),
            name: name.to_owned(),
            arguments: Ok(object(arguments)),
        })
        .collect()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn plan(wish: &Wish, with_tool: bool) -> String {
    match wish {
        Wish::Sum(expression) if with_tool => {
            format!("There is something to work out: {expression}. A calculator is surer than I am.")
        }
        Wish::Time(_) if with_tool => {
            "The question is about the time. I cannot know it, but a tool can.".to_owned()
        }
        Wish::Sum(_) | Wish::Time(_) => "This wants a tool, and I have none for it. I say so.".to_owned(),
        Wish::Count(end) => {
            format!("I am to count to {end}. That is long, so I go on until I am done or interrupted.")
        }
        Wish::Story => {
            "Something long is wanted. A story, then, told until it ends or I am interrupted.".to_owned()
        }
        Wish::Greeting => "That is a greeting. I greet back and say what I can do.".to_owned(),
        Wish::Thanks => "That is kind, and nothing needs to be done.".to_owned(),
        Wish::Introduction => "The question is about me. I say plainly what I am.".to_owned(),
        Wish::Other => {
            "I find nothing here that I can compute. I repeat what I was asked, so that it is seen to have \
                        arrived, and say what I can do."
                .to_owned()
        }
    }
}

fn speech(wish: &Wish, question: &str) -> String {
    match wish {
        Wish::Sum(expression) => {
            format!("I would work out {expression} with a calculator, but I have none here.")
        }
        Wish::Time(_) => "I would look at a clock for that, but I have none here.".to_owned(),
        Wish::Count(end) => counting(*end),
        Wish::Story => story(),
        Wish::Greeting => {
            "Hello! It is good to hear you. Ask me what 12*(3+4) is, what time it is in Tokyo, or to \
                           count to 100, and watch me think."
                .to_owned()
        }
        Wish::Thanks => "You are welcome. I am here if there is anything else.".to_owned(),
        Wish::Introduction => format!(
            "{INTRODUCTION} Until then I can work things out, tell the time, count, and tell a long story to interrupt."
        ),
        Wish::Other => format!(
            "You asked: \"{}\" A real model would know more about that. What I can show you is how an answer arrives: \
             first the thinking, then one sentence after the other.",
            excerpt(question)
        ),
    }
}

/// Ten numbers to a sentence.
fn counting(end: u32) -> String {
    let numbers: Vec<_> = (1..=end).map(|number| number.to_string()).collect();
    let sentences: Vec<_> = numbers.chunks(10).map(|ten| format!("{}.", ten.join(", "))).collect();
    sentences.join(" ")
}

/// The same night in twelve houses: long enough for anybody to interrupt.
fn story() -> String {
    const LISTENERS: [&str; 12] = [
        "a baker",
        "a clockmaker",
        "a ferryman",
        "a gardener",
        "a lamplighter",
        "a miller",
        "a nurse",
        "a postman",
        "a saddler",
        "a teacher",
        "a watchman",
        "a weaver",
    ];
    let mut chapters = vec![
        "Once there was a town where everybody spoke under their voice. Nobody knew why, and nobody liked to ask aloud."
            .to_owned(),
    ];
    for (number, listener) in LISTENERS.iter().enumerate() {
        let house = number + 1;
        chapters.push(format!(
            "In house number {house} lived {listener}. Each night, before the light went out, {listener} sat at the \
             window and thought of something that had never been said. It was a small thing, and it took its time. \
             When it was ready it went out into the street like a breath. The neighbour heard it, nodded, and kept it \
             until the morning."
        ));
    }
    chapters.push(
        "In the morning all twelve met at the well, and found that they had thought the same thing. So they said it \
         aloud, together, and that was the end of the silence."
            .to_owned(),
    );
    chapters.join("\n\n")
}

/// What was asked last.
fn asked(prompt: &Prompt) -> &str {
    let last = prompt.messages.iter().rev().find_map(|message| match message {
        Message::User(text) => Some(text.as_str()),
        _ => None,
    });
    last.unwrap_or_default()
}

/// The calls of the last round, each with its result.
fn results(prompt: &Prompt) -> Vec<(&ToolCall, &str)> {
    let calls = prompt.messages.iter().rev().find_map(|message| match message {
        Message::Assistant { calls, .. } => Some(calls.as_slice()),
        _ => None,
    });
    let content = |id: &str| {
        prompt.messages.iter().rev().find_map(|message| match message {
            Message::Tool { call, content } if call == id => Some(content.as_str()),
            _ => None,
        })
    };
    calls.unwrap_or_default().iter().filter_map(|call| Some((call, content(&call.id)?))).collect()
}

/// Whether nothing was said in this conversation before.
fn is_first_answer(prompt: &Prompt) -> bool {
    !prompt
        .messages
        .iter()
        .any(|message| matches!(message, Message::Assistant { text, .. } if !text.trim().is_empty()))
}

/// The beginning of a text, on one line.
fn excerpt(text: &str) -> String {
    const LENGTH: usize = 120;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{} …", line[..end].trim_end()),
        None => line,
    }
}

pub(super) fn prompt_tokens(prompt: &Prompt) -> u64 {
    let of_message = |message: &Message| match message {
        Message::System(text) | Message::User(text) | Message::Tool { content: text, .. } => tokens(text),
        Message::Assistant { text, reasoning, .. } => tokens(text) + reasoning.as_deref().map_or(0, tokens),
    };
    prompt.messages.iter().map(of_message).sum()
}
