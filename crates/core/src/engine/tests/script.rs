//! The form of a scenario:
//!
//! ```text
//! === a title
//! set interruption=queue show=prompt,transcript      (optional; see `settings`)
//! 0 anna says m1 "What is 2+2?"                      (milliseconds, who, what)
//!     anna: ack 1                                    (indented: what must come of it, in this order)
//! 100 model says "Four."
//! ```
//!
//! What follows a title up to the next one is one conversation. Between two lines the engine is woken whenever it asks
//! for it; what it does then is shown under a line `TIME wakes`. The store confirms everything at once unless
//! `store=slow` is set: then `stored 3` and `unstored 3` say how the store answered, `stored all` confirms all that it was
//! given so far and answers what it was asked. `agent crashes` ends the engine, and another one goes on from what the store
//! had confirmed by then. `model …` speaks for the last request, `model 2 …` for request 2. Texts are JSON strings, `"ab"*3` is
//! `"ababab"`.

use super::render::{Names, Show, output};
use super::shelf::Shelf;
use crate::engine::Engine;
use crate::engine::event::{Input, Output, Participant, RequestId, RunId, Ticket, ToolOutcome};
use crate::engine::mask::Secrets;
use crate::engine::record::Record;
use crate::engine::settings::{Interruption, Settings, Visibility};
use crate::model::{Chunk, Failure, Finish, ToolCall, ToolSpec, Usage};
use crate::time::Time;
use crate::wire::body::{
    Acknowledgement, AudioChunk, Body, Commentary, Configuration, ControlStop, ControlVariation, StartAnswer,
    StopType, ToolConsent, ToolUseResult, UserMessage, VariationMode,
};
use crate::wire::{Envelope, Malformed};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// The moment at which every script begins.
const START: u64 = 1_794_823_200_000;

/// The scenarios of a file, each with its title.
pub(super) fn scenarios(text: &str) -> Vec<&str> {
    let starts: Vec<usize> = text.match_indices("=== ").map(|(start, _)| start).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &text[start..end]).collect()
}

/// Plays a scenario and writes it down again with what came of it.
pub(super) fn run(scenario: &str) -> String {
    let mut lines = scenario.lines().filter(|line| !line.starts_with(' ') && !line.trim().is_empty());
    let mut written = format!("{}\n", lines.next().unwrap_or_default());
    let mut player: Option<Player> = None;
    let mut settings = Settings { conversation: "room".to_owned(), ..Settings::default() };
    let (mut show, mut slow_store) = (Show::default(), false);
    for line in lines {
        // Written anew by the player.
        if line.ends_with(" wakes") {
            continue;
        }
        if let Some(pairs) = line.strip_prefix("set ") {
            for pair in words(pairs) {
                set(&pair, &mut settings, &mut show, &mut slow_store);
            }
            let _ = writeln!(written, "{line}");
            continue;
        }
        let player = player.get_or_insert_with(|| Player::new(settings.clone(), show, slow_store));
        written.push_str(&player.play(line));
    }
    written
}

fn set(pair: &str, settings: &mut Settings, show: &mut Show, slow_store: &mut bool) {
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    let number = || value.parse::<u64>().unwrap_or_else(|_| panic!("{key} needs a number"));
    match key {
        "interruption" => {
            settings.interruption =
                if value == "queue" { Interruption::Queue } else { Interruption::Interrupt }
        }
        "visibility" => {
            settings.visibility = if value == "hidden" { Visibility::Hidden } else { Visibility::Full }
        }
        "keep_reasoning" => settings.keep_reasoning = value != "off",
        "share_history" => settings.share_history = value == "on",
        "greeting" => settings.greeting = Some(value.to_owned()),
        "instructions" => settings.instructions = value.to_owned(),
        "language" => settings.language = Some(value.to_owned()),
        "thinking" => settings.thinking = value != "off",
        "tools" => settings.tools = value.split(',').map(tool).collect(),
        "max_rounds" => settings.max_tool_rounds = number() as u32,
        "max_thinking_seconds" => settings.max_thinking = Duration::from_secs(number()),
        "max_thinking_chars" => settings.max_thinking_chars = number() as usize,
        "max_answer_chars" => settings.max_answer_chars = number() as usize,
        "context_tokens" => settings.context_tokens = number(),
        "answer_tokens" => settings.answer_tokens = number(),
        "waiting" => settings.limits.waiting = number() as usize,
        "messages_burst" => settings.limits.messages_burst = number() as u32,
        "others_burst" => settings.limits.others_burst = number() as u32,
        "content_bytes" => settings.limits.content_bytes = number() as usize,
        "turn_tokens" => settings.budget.turn.tokens = Some(number()),
        "turn_seconds" => settings.budget.turn.seconds = Some(number()),
        "turn_tool_calls" => settings.budget.turn.tool_calls = Some(number() as u32),
        "conversation_tokens" => settings.budget.conversation.tokens = Some(number()),
        "conversation_tool_calls" => settings.budget.conversation.tool_calls = Some(number() as u32),
        "conversation_seconds" => settings.budget.conversation.seconds = Some(number()),
        "effort" => settings.effort = Some(value.to_owned()),
        "step_chars" => settings.step_chars = number() as usize,
        "agent_name" => settings.agent_name = value.to_owned(),
        "secret" => settings.secrets = Secrets::new([value.to_owned()]),
        "store" => *slow_store = value == "slow",
        "show" => {
            for what in value.split(',') {
                match what {
                    "transcript" => show.transcript = true,
                    "prompt" => show.prompt = true,
                    "counts" => show.counts = true,
                    "saves" => show.saves = true,
                    "numbers" => show.numbers = true,
                    _ => panic!("unknown: show={what}"),
                }
            }
        }
        _ => panic!("unknown setting {key}"),
    }
}

/// A tool; with `!` behind its name it must not be run twice.
fn tool(name: &str) -> ToolSpec {
    let repeatable = !name.ends_with('!');
    let name = name.trim_end_matches('!');
    ToolSpec {
        name: name.to_owned(),
        description: format!("the {name}"),
        repeatable,
        parameters: json!({ "type": "object" }),
    }
}

struct Player {
    engine: Engine,
    show: Show,
    slow_store: bool,
    names: Names,
    stanzas: BTreeMap<String, i32>,
    last_request: u64,
    settings: Settings,
    now: Time,
    lives: u8,
    /// What the store has.
    shelf: Shelf,
    /// What the store was given since it last confirmed something, and what it was asked.
    given: Vec<(Option<Ticket>, Record)>,
    unconfirmed: BTreeSet<Ticket>,
    asked: Vec<Output>,
}

impl Player {
    fn new(settings: Settings, show: Show, slow_store: bool) -> Self {
        let mut shelf = Shelf::default();
        let engine = Engine::restore(settings.clone(), [7; 32], Time(START), shelf.history());
        let mut player = Self {
            engine,
            settings,
            now: Time(START),
            lives: 1,
            shelf,
            given: Vec::new(),
            asked: Vec::new(),
            show,
            slow_store,
            names: Names::default(),
            stanzas: BTreeMap::new(),
            last_request: 0,
            unconfirmed: BTreeSet::new(),
        };
        // The first state is the same for all.
        player.drain(Time(START));
        player
    }

    fn play(&mut self, line: &str) -> String {
        let mut written = String::new();
        let words = words(line);
        let offset: u64 = words[0].parse().unwrap_or_else(|_| panic!("a line begins with a time: {line}"));
        let now = Time(START + offset);
        self.now = now;
        while let Some(due) = self.engine.poll_timeout().filter(|&due| due <= now) {
            self.engine.handle(due, Input::Wake);
            let outputs = self.drain(due);
            let _ = write!(written, "{} wakes\n{outputs}", due.0 - START);
            assert!(
                self.engine.poll_timeout().is_none_or(|next| next > due),
                "the engine asks again for {due:?}: {line}"
            );
        }
        let _ = writeln!(written, "{line}");
        if words[1..] == ["stored", "all"] {
            for ticket in std::mem::take(&mut self.unconfirmed) {
                self.confirm(now, ticket, true);
            }
            self.put_given();
            for asked in std::mem::take(&mut self.asked) {
                self.answer(now, &asked);
            }
        } else if words[1..] == ["agent", "crashes"] {
            self.crash(now);
        } else if let ["store", "forgets", "all", "but", count] =
            words[1..].iter().map(String::as_str).collect::<Vec<_>>().as_slice()
        {
            self.shelf.keep_only(number(count) as usize);
        } else if let Some(input) = self.input(&words[1..], line) {
            self.engine.handle(now, input);
        }
        written.push_str(&self.drain(now));
        written
    }

    fn drain(&mut self, now: Time) -> String {
        let mut written = String::new();
        while let Some(next) = self.engine.poll() {
            if let Output::Generate { request, .. } = &next {
                self.last_request = request.0;
            }
            if let Some(line) = output(&next, self.show, &mut self.names) {
                let _ = writeln!(written, "    {line}");
            }
            match next {
                Output::Save { ticket, record, .. } => {
                    self.given.push((ticket, record));
                    match ticket {
                        Some(ticket) if self.slow_store => _ = self.unconfirmed.insert(ticket),
                        Some(ticket) => self.confirm(now, ticket, true),
                        None => {}
                    }
                }
                Output::Replay { .. } if self.slow_store => self.asked.push(next),
                Output::Replay { .. } => {
                    self.put_given();
                    self.answer(now, &next);
                }
                _ => {}
            }
        }
        written
    }

    /// The store has something, with all that it was given before; or it could not take it.
    fn confirm(&mut self, now: Time, ticket: Ticket, success: bool) {
        let given = self.given.iter().position(|(given, _)| *given == Some(ticket));
        match given {
            Some(place) if success => {
                for (_, record) in self.given.drain(..=place) {
                    self.shelf.put(record);
                }
            }
            Some(place) => _ = self.given.remove(place),
            None => {}
        }
        self.engine.handle(now, Input::Stored { ticket, success });
    }

    fn put_given(&mut self) {
        for (_, record) in self.given.drain(..) {
            self.shelf.put(record);
        }
    }

    fn answer(&mut self, now: Time, asked: &Output) {
        if let Output::Replay { ticket, after, until, most } = *asked {
            let page = Some(self.shelf.page(after, until, most));
            self.engine.handle(now, Input::Replayed { ticket, page });
        }
    }

    /// The engine ends; another one takes up what the store has.
    fn crash(&mut self, now: Time) {
        if !self.slow_store {
            self.put_given();
        }
        self.given.clear();
        self.unconfirmed.clear();
        self.asked.clear();
        self.lives += 1;
        let seed = [7 * self.lives; 32];
        self.engine = Engine::restore(self.settings.clone(), seed, now, self.shelf.history());
        self.engine.handle(now, Input::Wake);
    }

    fn input(&mut self, words: &[String], line: &str) -> Option<Input> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Some(match words.as_slice() {
            ["passes"] => return None,
            ["drains"] => Input::Drain,
            ["leaves"] => Input::Leave,
            [how @ ("stored" | "unstored"), ticket] => {
                let ticket = Ticket(number(ticket));
                self.unconfirmed.remove(&ticket);
                self.confirm(self.now, ticket, *how == "stored");
                return None;
            }
            ["model", rest @ ..] => self.model(rest, line),
            ["tool", run, rest @ ..] => {
                let outcome = match rest {
                    ["returns", value] => {
                        ToolOutcome::Done(serde_json::from_str(value).unwrap_or_else(|_| json!(value)))
                    }
                    ["fails", message] => ToolOutcome::Failed((*message).to_owned()),
                    ["refuses", message] => ToolOutcome::InvalidParameters((*message).to_owned()),
                    _ => panic!("{line}"),
                };
                Input::Tool { run: RunId(number(run)), outcome }
            }
            [who, "joins"] => Input::Joined(Participant { identity: (*who).to_owned(), name: String::new() }),
            // Another client: it counts from the beginning.
            [who, "joins", "anew"] => {
                self.stanzas.remove(*who);
                Input::Joined(Participant { identity: (*who).to_owned(), name: String::new() })
            }
            [who, "joins", "as", name] => {
                Input::Joined(Participant { identity: (*who).to_owned(), name: (*name).to_owned() })
            }
            [who, "leaves"] => Input::Left { identity: (*who).to_owned() },
            [who, "chats", id, text] => {
                Input::Chat { from: (*who).to_owned(), id: self.names.full(id), text: (*text).to_owned() }
            }
            [who, "overflows", packets] => {
                Input::Overflowed { from: (*who).to_owned(), packets: number(packets) as u32 }
            }
            [who, "sends", "garbage"] => {
                let malformed =
                    Malformed { reason: "not MessagePack".to_owned(), stanza: None, kind: None, id: None };
                Input::Received { from: (*who).to_owned(), envelope: Err(malformed) }
            }
            [who, "sends", "malformed", kind, id] => {
                let stanza = Some(self.stanza(who));
                let (kind, id) = (Some(number(kind) as u16), Some((*id).to_owned()));
                let malformed = Malformed { reason: "content is empty".to_owned(), stanza, kind, id };
                Input::Received { from: (*who).to_owned(), envelope: Err(malformed) }
            }
            [who, "elsewhere", conversation, rest @ ..] => {
                let body = self.body(rest, line);
                self.received(who, Some((*conversation).to_owned()), body)
            }
            [who, rest @ ..] => {
                let body = self.body(rest, line);
                self.received(who, None, body)
            }
            [] => panic!("{line}"),
        })
    }

    fn stanza(&mut self, who: &str) -> i32 {
        let stanza = self.stanzas.entry(who.to_owned()).or_default();
        *stanza += 1;
        *stanza
    }

    fn received(&mut self, who: &str, conversation: Option<String>, body: Body) -> Input {
        let stanza = self.stanza(who);
        let envelope = Envelope { stanza, conversation, meta: Map::new(), body };
        Input::Received { from: who.to_owned(), envelope: Ok(envelope) }
    }

    fn body(&self, words: &[&str], line: &str) -> Body {
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
            ["answers", request] => Body::ToolUseResult(ToolUseResult {
                id: "x".to_owned(),
                request_id: self.names.full(request),
                conversation_id,
                success: true,
                result: None,
                error_code: None,
                error_message: None,
            }),
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
            ["consents", request] => Body::ToolConsent(ToolConsent {
                request_id: self.names.full(request),
                conversation_id,
                allow: true,
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

    fn model(&self, words: &[&str], line: &str) -> Input {
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

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

/// Words between blanks; a JSON string, an object, or `key="a value"` is one word.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let mut end = 0;
        let (mut quoted, mut escaped, mut depth) = (false, false, 0);
        for (index, c) in rest.char_indices() {
            end = index + c.len_utf8();
            match c {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                '{' if !quoted => depth += 1,
                '}' if !quoted => depth -= 1,
                ' ' if !quoted && depth == 0 => {
                    end = index;
                    break;
                }
                _ => {}
            }
        }
        let word = &rest[..end];
        words.push(plain(word));
        rest = rest[end..].trim_start();
    }
    words
}

/// A word without its quotes.
fn plain(word: &str) -> String {
    if let Some((key, value)) = word.split_once("=\"") {
        let value: String =
            serde_json::from_str(&format!("\"{value}")).unwrap_or_else(|_| panic!("bad string: {word}"));
        return format!("{key}={value}");
    }
    if let Some((text, times)) = word.rsplit_once("\"*")
        && let Ok(times) = times.parse()
    {
        return plain(&format!("{text}\"")).repeat(times);
    }
    if word.starts_with('"') {
        return serde_json::from_str(word).unwrap_or_else(|_| panic!("bad string: {word}"));
    }
    word.to_owned()
}
