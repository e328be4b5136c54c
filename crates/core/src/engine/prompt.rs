//! From the conversation to what the model is asked: the system message, as much of the past as fits, the running
//! tool loop. People's words are made harmless on the way.
//!
//! Endpoints cache the beginning of a prompt. So the beginning stays the same for as long as possible: when the past
//! grows too long, a whole quarter of it is left out at once, and then nothing for many turns.

use super::conversation::{Conversation, Key, Said};
use super::people::People;
use super::settings::Settings;
use crate::model::untrusted::{neutralise, with_lines_marked};
use crate::model::{Message, Prompt, ToolCall, ToolSpec};
use crate::time::Time;
use std::collections::BTreeSet;
use std::fmt::Write;

/// How long the result of a tool may be in later turns, in characters.
const PAST_RESULT_CHARS: usize = 2_000;
/// How long a name may be, in characters.
const NAME_CHARS: usize = 64;
/// Tokens for a byte of prompt, in thousandths, until an endpoint has told its own figure.
const FIRST_GUESS: u64 = 300;
/// What an endpoint may tell; outside of this it counts something else.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 50..=1_500;

/// Where the remembered part of the conversation begins, and what a byte costs.
#[derive(Debug)]
pub(super) struct Memory {
    /// The first message that still goes to the model.
    first: Option<Key>,
    tokens_per_1000_bytes: u64,
}

/// What is to be answered, and what came of it so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    /// The last message of the past: a user message, or the answer to continue.
    pub(super) at: Key,
    /// Who asks.
    pub(super) asker: &'a str,
    /// Whether the answer at the end of the past is to be continued.
    pub(super) go_on: bool,
    /// What the model said and the tools answered within this turn.
    pub(super) tool_loop: &'a [Message],
    /// The tools that may be called.
    pub(super) tools: &'a [ToolSpec],
    /// Whether the model is to think.
    pub(super) thinking: bool,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self { first: None, tokens_per_1000_bytes: FIRST_GUESS }
    }

    /// Learns from what an endpoint counted for a prompt of so many bytes.
    pub(super) fn calibrate(&mut self, bytes: usize, tokens: u64) {
        let seen = tokens.saturating_mul(1_000) / (bytes as u64).max(1);
        // A short prompt is mostly template.
        if bytes > 400 && PLAUSIBLE.contains(&seen) {
            self.tokens_per_1000_bytes = (self.tokens_per_1000_bytes * 3 + seen) / 4;
        }
    }

    /// About how many tokens so many bytes are.
    pub(super) fn tokens(&self, bytes: usize) -> u64 {
        (bytes as u64).saturating_mul(self.tokens_per_1000_bytes) / 1_000
    }

    /// What of a branch goes to the model, as far as was decided last.
    pub(super) fn remembered(&self, mut path: Vec<Key>) -> Vec<Key> {
        let begin = self.first.and_then(|first| path.iter().position(|&key| key == first));
        path.split_off(begin.unwrap_or(0))
    }

    /// What to ask the model.
    pub(super) fn prompt(
        &mut self,
        settings: &Settings,
        conversation: &Conversation,
        people: &People,
        question: Question<'_>,
        now: Time,
    ) -> Prompt {
        let path = conversation.path(Some(question.at));
        let several = speakers(conversation, &path).len() > 1;
        let system = |path: &[Key]| {
            let speakers = speakers(conversation, path);
            let instructions = instructions(settings, people, question.asker, &speakers, now);
            (!instructions.is_empty()).then_some(Message::System(instructions))
        };
        let past: Vec<(Key, Vec<Message>)> =
            path.iter().map(|&key| (key, messages(conversation, key, several))).collect();

        let fixed = system(&path).as_ref().map_or(0, bytes)
            + question.tool_loop.iter().map(bytes).sum::<usize>()
            + question.tools.iter().map(|tool| tool.description.len() + 300).sum::<usize>();
        let begin = self.begin(settings, &past, fixed);

        let mut messages = Vec::from_iter(system(&path[begin..]));
        messages.extend(past.into_iter().skip(begin).flat_map(|(_, messages)| messages));
        if question.go_on {
            messages
                .push(Message::User("Go on from where you stopped, without repeating anything.".to_owned()));
        }
        messages.extend_from_slice(question.tool_loop);
        Prompt { messages, tools: question.tools.to_vec(), thinking: question.thinking }
    }

    /// How many messages at the beginning of the past are left out.
    fn begin(&mut self, settings: &Settings, past: &[(Key, Vec<Message>)], fixed: usize) -> usize {
        let sizes: Vec<usize> = past.iter().map(|(_, messages)| messages.iter().map(bytes).sum()).collect();
        let budget =
            settings.context_tokens.saturating_sub(settings.answer_tokens).max(settings.context_tokens / 4);
        let cost = |memory: &Self, begin: usize| memory.tokens(fixed + sizes[begin..].iter().sum::<usize>());
        let mut begin =
            self.first.and_then(|first| past.iter().position(|&(key, _)| key == first)).unwrap_or(0);
        if cost(self, begin) > budget {
            // The last one is what is being asked and stays.
            while begin + 1 < past.len() && cost(self, begin) > budget / 4 * 3 {
                begin += 1;
            }
            // A past that begins with an answer would hang in the air.
            while begin + 1 < past.len() && matches!(past[begin].1.first(), Some(Message::Assistant { .. })) {
                begin += 1;
            }
        }
        self.first = past.get(begin).map(|&(key, _)| key);
        begin
    }
}

/// The bytes that a message adds to a prompt, about.
pub(super) fn bytes(message: &Message) -> usize {
    /// What the template puts around a message.
    const FRAME: usize = 20;
    FRAME
        + match message {
            Message::System(text) | Message::User(text) => text.len(),
            Message::Assistant { text, reasoning, calls } => {
                let arguments = |call: &ToolCall| {
                    call.arguments
                        .as_ref()
                        .map_or(0, |map| map.iter().map(|(k, v)| k.len() + v.to_string().len() + 6).sum())
                };
                text.len()
                    + reasoning.as_ref().map_or(0, String::len)
                    + calls.iter().map(|call| call.name.len() + 40 + arguments(call)).sum::<usize>()
            }
            Message::Tool { content, .. } => content.len(),
        }
}

/// Those who say something there.
fn speakers<'a>(conversation: &'a Conversation, path: &[Key]) -> BTreeSet<&'a str> {
    path.iter().filter_map(|&key| conversation.user(key)).map(|user| user.from.as_str()).collect()
}

fn instructions(
    settings: &Settings,
    people: &People,
    asker: &str,
    speakers: &BTreeSet<&str>,
    now: Time,
) -> String {
    // A name is its owner's own word, and whoever does not speak has no say in what tools may do. The identity is the server's.
    let named =
        |who: &String| quoted_name(if speakers.contains(who.as_str()) { people.name(who) } else { who });
    let users: Vec<String> = people.present().iter().map(named).collect();
    let mut text = settings
        .instructions
        .replace("{date}", &now.date())
        .replace("{agent}", &settings.agent_name)
        .replace("{room}", &quoted_name(&settings.conversation))
        .replace("{users}", &users.join(", "));
    if let Some(language) = people.language(asker).or(settings.language.as_deref()) {
        // A language tag is short and in one word; whatever else a client sends there is not part of it.
        let tag: String = language
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c))
            .take(20)
            .collect();
        if !tag.is_empty() {
            let _ = write!(text, "\n\nAnswer in this language unless asked otherwise: {tag}");
        }
    }
    text.trim().to_owned()
}

fn messages(conversation: &Conversation, key: Key, several: bool) -> Vec<Message> {
    match conversation.node(key).map(|node| &node.said) {
        None => Vec::new(),
        Some(Said::User(user)) => {
            let text = neutralise(&user.text);
            let text = if several {
                format!("{}: {}", quoted_name(&user.name), with_lines_marked(&text, "  "))
            } else {
                text.into_owned()
            };
            vec![Message::User(text)]
        }
        Some(Said::Agent(answer)) => {
            let mut messages = Vec::new();
            let called = |(call, result): &(ToolCall, String)| {
                (call.clone(), result.chars().take(PAST_RESULT_CHARS).collect())
            };
            messages.extend(tool_loop(&answer.calls.iter().map(called).collect::<Vec<_>>()));
            if !answer.text.is_empty() {
                let text = neutralise(&answer.text).into_owned();
                messages.push(Message::Assistant { text, reasoning: None, calls: Vec::new() });
            }
            messages
        }
    }
}

/// Calls of tools and what they gave, as the model is told; nothing where there were none.
pub(super) fn tool_loop(calls: &[(ToolCall, String)]) -> Vec<Message> {
    if calls.is_empty() {
        return Vec::new();
    }
    let called = calls.iter().map(|(call, _)| call.clone()).collect();
    let result = |(call, content): &(ToolCall, String)| Message::Tool {
        call: call.id.clone(),
        content: content.clone(),
    };
    let asked = Message::Assistant { text: String::new(), reasoning: None, calls: called };
    std::iter::once(asked).chain(calls.iter().map(result)).collect()
}

/// A name that cannot be taken for anything else: quoted, short, in one line.
fn quoted_name(name: &str) -> String {
    let clean: String =
        name.chars().map(|c| if c.is_control() || c == '"' { ' ' } else { c }).take(NAME_CHARS).collect();
    format!("\"{}\"", neutralise(clean.trim()))
}
