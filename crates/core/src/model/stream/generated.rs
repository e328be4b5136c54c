//! Generated streams: every style of thinking and calling, ordinary and faulty servers, cut anywhere.
//!
//! A seed makes a story (what the model thought, said and called) and a body that tells it. Each thought and each word of
//! the answer holds a word that occurs once, so that a leak or a loss is seen whatever else happens.
#![allow(
    clippy::format_push_string,
    reason = "a test reads better so, and its allocations cost nobody anything"
)]

use super::tests::read;
use super::{Chunks, StreamOptions};
use crate::model::{Chunk, Finish, StreamError, ToolSpec};
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::{Map, Value, json};

struct Dice(ChaCha20Rng);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0.next_u32() as usize % sides
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    FinishAndDone,
    FinishAlone,
    DoneAlone,
    Nothing,
    Error,
    /// Inside some byte.
    Cut,
}

struct Story {
    dice: Dice,
    words: usize,
    end: End,
    options: StreamOptions,
    /// The field for thinking; `None` where it is inline.
    field: Option<&'static str>,
    body: String,
    line_end: &'static str,
    thoughts: String,
    answer: String,
    calls: Vec<(String, Map<String, Value>)>,
    ids: Vec<String>,
    /// Calls that come as fragments, sent behind the content.
    fragments: Vec<Value>,
}

const THOUGHT: char = 'R';
const SPOKEN: char = 'A';
/// Stands right before a tag. A line end has to follow the tag then: within one line it could not be told from a
/// quotation, and models do write one.
const LONE_BACKTICK: &str = "\nthe ` key ";

impl Story {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(ChaCha20Rng::seed_from_u64(seed));
        let ends = [
            End::FinishAndDone,
            End::FinishAndDone,
            End::FinishAlone,
            End::DoneAlone,
            End::Nothing,
            End::Error,
            End::Cut,
        ];
        let end = ends[dice.below(ends.len())];
        let fields = [
            None,
            None,
            Some("reasoning"),
            Some("reasoning_content"),
            Some("thinking"),
            Some("reasoning_details"),
        ];
        let field = fields[dice.below(fields.len())];
        let starts_inside = if field.is_some() { dice.one_in(4) } else { dice.one_in(2) };
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            repeatable: true,
            parameters: json!({"properties": {"count": {"type": "integer"}, "text": {"type": "string"}}}),
        };
        let tools = vec![tool("weather"), tool("time")];
        let line_end = dice.pick(&["\n", "\r\n", "\r"]);
        let mut story = Self {
            dice,
            words: 0,
            end,
            options: StreamOptions { starts_inside, tools, ..StreamOptions::default() },
            field,
            body: String::new(),
            line_end,
            thoughts: String::new(),
            answer: String::new(),
            calls: Vec::new(),
            ids: Vec::new(),
            fragments: Vec::new(),
        };
        story.tell();
        story
    }

    fn tell(&mut self) {
        let mut content = String::new();
        match self.field {
            Some(field) => {
                let thought = self.prose(THOUGHT);
                self.thoughts += &thought;
                for piece in self.cut_text(&thought) {
                    let piece =
                        if field == "reasoning_details" { json!([{"text": piece}]) } else { json!(piece) };
                    self.event(&json!({field: piece}));
                }
            }
            None if self.options.starts_inside => {
                let (thought, gap) = self.thought_and_gap();
                content = thought + "</think>" + gap;
            }
            None => self.hidden_block(&mut content),
        }
        for _ in 0..self.dice.below(3) {
            let answer = self.prose(SPOKEN);
            self.answer += &answer;
            content += &answer;
            if self.dice.one_in(3) {
                self.hidden_block(&mut content);
            }
        }
        let inline = self.dice.one_in(2);
        for _ in 0..[0, 0, 1, 2][self.dice.below(4)] {
            self.call(inline, &mut content);
        }
        for piece in self.cut_text(&content) {
            self.event(&json!({"content": piece}));
        }
        for fragment in std::mem::take(&mut self.fragments) {
            self.event(&json!({"tool_calls": [fragment]}));
        }
        self.ending();
    }

    fn hidden_block(&mut self, content: &mut String) {
        let mut start = self.dice.pick(&["", "\n"]);
        if !self.answer.is_empty() && self.dice.one_in(3) {
            *content += LONE_BACKTICK;
            self.answer += LONE_BACKTICK;
            start = "\n";
        }
        self.thoughts += start;
        let (thought, gap) = self.thought_and_gap();
        let tag = self.dice.pick(&["think", "thinking"]);
        *content += &format!("<{tag}>{start}{thought}</{tag}>{gap}");
    }

    /// A thought, and the white space behind its end.
    fn thought_and_gap(&mut self) -> (String, &'static str) {
        let mut thought = self.prose(THOUGHT);
        let mut gap = self.dice.pick(&["", "\n", " \n"]);
        if self.dice.one_in(3) {
            thought += LONE_BACKTICK;
            gap = "\n";
        }
        self.thoughts += &thought;
        (thought, gap)
    }

    /// A text with words that occur nowhere else; begins with one and ends with a line end.
    fn prose(&mut self, kind: char) -> String {
        let mut prose = String::new();
        for _ in 0..=self.dice.below(6) {
            self.words += 1;
            let word = format!("{kind}{}z", self.words);
            let tag = self.dice.pick(&[
                "<think>",
                "</think>",
                "<thinking>",
                "</thinking>",
                "<tool_call>",
                "</tool_call>",
            ]);
            prose += &match self.dice.below(if kind == SPOKEN { 14 } else { 11 }) {
                0 => format!("{word} < 3 and </ or <thin {tag:.3} "),
                1 => format!("{word} <b>bold</b> <tool "),
                2 => format!("{word}.\n\n"),
                3 => format!("{word} Grüße 你好 🙂 "),
                4 => format!("{word} quotes `{tag}` "),
                5 => format!("{word} quotes `` a ` {tag} b`` "),
                6 => format!("{word} the ` key\n\n"),
                7 => format!("{word} \\` escaped "),
                9 => format!("{word} quotes `{tag} and {word} and on and on` "),
                8 => format!("{word} writes <tool_call> in prose "),
                11 => format!("{word}:\n```xml\n{tag}\n ` x\n```\n"),
                12 => format!("{word}:\n~~~\n{tag} ```\n~~~\n"),
                13 => format!("{word} quotes `{tag}\nand more\n` "),
                _ => format!("{word} "),
            };
        }
        prose + "\n"
    }

    fn call(&mut self, inline: bool, content: &mut String) {
        self.words += 1;
        let name = self.dice.pick(&["weather", "time"]);
        let mut arguments = Map::new();
        if self.dice.one_in(2) {
            arguments.insert("count".to_owned(), self.dice.below(1000).into());
        }
        let text = self.dice.pick(&["x", "a\nb", "\n", "\"}{", "</tool_call>", "<think>", "`", "\\", "é🙂"]);
        arguments.insert("text".to_owned(), format!("{text} C{}z", self.words).into());
        let json = Value::Object(arguments.clone()).to_string();
        let given = (!inline && self.dice.one_in(2)).then(|| format!("id{}", self.words));
        let gap = self.dice.pick(&["", "\n"]);
        match (inline, self.dice.below(4)) {
            (true, 0) => {
                *content += &format!("<tool_call>{gap}<function={name}>{gap}");
                for (key, value) in &arguments {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    *content += &format!("<parameter={key}>\n{value}\n</parameter>{gap}");
                }
                *content += &format!("</function>{gap}</tool_call>\n");
            }
            (true, fault) => {
                // The last brace is lost only where a server does so: at the end of what went well.
                let brace = if fault == 1 && self.ends_well() { "" } else { "}" };
                *content += &format!(
                    "<tool_call>{gap}{{\"name\": \"{name}\", \"arguments\": {json}{brace}{gap}</tool_call>\n"
                );
            }
            (false, fault) => self.call_in_fragments(name, given.as_ref(), &json, fault),
        }
        let made = self.ids.iter().filter(|id| id.starts_with("call_")).count() + 1;
        self.ids.push(given.unwrap_or_else(|| format!("call_{made}")));
        self.calls.push((name.to_owned(), arguments));
    }

    fn call_in_fragments(&mut self, name: &str, id: Option<&String>, json: &str, fault: usize) {
        let json = if fault == 0 && self.ends_well() { &json[..json.len() - 1] } else { json };
        // With an id any index will do; without one the index has to tell.
        let index = match (id, fault) {
            (Some(_), 1) => Value::Null,
            (Some(_), 2) => json!(0),
            _ => json!(self.calls.len()),
        };
        let repeated = self.dice.one_in(2);
        for (at, piece) in self.cut_text(json).into_iter().enumerate() {
            let named = at == 0 || repeated;
            let mut fragment = json!({"index": index, "function": {"arguments": piece}});
            if let Some(id) = id.filter(|_| named) {
                fragment["id"] = json!(id);
            }
            if named {
                fragment["function"]["name"] = json!(name);
            }
            self.fragments.push(fragment);
        }
    }

    fn ends_well(&self) -> bool {
        matches!(self.end, End::FinishAndDone | End::FinishAlone | End::DoneAlone)
    }

    fn cut_text(&mut self, text: &str) -> Vec<String> {
        let longest = [1, 4, 40, 4000][self.dice.below(4)];
        let mut pieces = vec![String::new()];
        let mut room = 1 + self.dice.below(longest);
        for c in text.chars() {
            if room == 0 {
                pieces.push(String::new());
                room = 1 + self.dice.below(longest);
            }
            room -= 1;
            pieces.last_mut().expect("never empty").push(c);
        }
        pieces
    }

    fn event(&mut self, delta: &Value) {
        let noise = match self.dice.below(12) {
            0 => ": ping",
            1 => "event: thing\ndata: {\"choices\": []}",
            2 => "data: {\"choices\": [{\"index\": 1, \"delta\": {\"content\": \"R0z\"}}]}",
            3 => {
                "data: {\"choices\": [{\"delta\": {\"content\": null, \"reasoning\": null, \"tool_calls\": null}}]}"
            }
            _ => "",
        };
        let data = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": null});
        self.write(&format!("{noise}\n\ndata: {data}\n\n"));
    }

    fn write(&mut self, text: &str) {
        self.body += &text.replace('\n', self.line_end);
    }

    fn ending(&mut self) {
        let reason = if self.calls.is_empty() || self.dice.one_in(2) { "stop" } else { "tool_calls" };
        let finish = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
        match self.end {
            End::FinishAndDone => self.write(&format!("data: {finish}\n\ndata: [DONE]\n\n")),
            End::FinishAlone | End::Cut => self.write(&format!("data: {finish}\n\n")),
            End::DoneAlone => self.write("data: [DONE]\n\n"),
            End::Nothing => {}
            End::Error => self.write("data: {\"error\": {\"message\": \"oh\"}}\n\ndata: [DONE]\n\n"),
        }
    }

    fn check(&mut self) {
        let mut body = std::mem::take(&mut self.body).into_bytes();
        if self.end == End::Cut {
            body.truncate(self.dice.below(body.len()));
        }
        let mut pieces = Vec::new();
        let mut rest = &body[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at((1 + self.dice.below(60)).min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        let chunks = read(self.options.clone(), pieces);
        assert_eq!(chunks, read(self.options.clone(), [&body[..]]), "a cut changed the answer");
        let (thoughts, answer, calls) = join(&chunks);

        let leaked: Vec<_> = words(&answer, THOUGHT).collect();
        assert_eq!(leaked, [] as [&str; 0], "thoughts in the answer {answer:?}");
        if self.end == End::Cut {
            let (came, said): (Vec<_>, Vec<_>) =
                (words(&answer, SPOKEN).collect(), words(&self.answer, SPOKEN).collect());
            assert!(said.starts_with(&came), "{came:?} is no beginning of {said:?}");
            return;
        }
        assert_eq!(answer, self.answer);
        assert_eq!(thoughts, self.thoughts);
        let expected: Vec<_> =
            self.calls.iter().zip(&self.ids).map(|((name, arguments), id)| (id, name, arguments)).collect();
        let calls: Vec<_> = calls.iter().map(|(id, name, arguments)| (id, name, arguments)).collect();
        assert_eq!(calls, expected);
        let finish = if self.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        let end = match self.end {
            End::Nothing => Err(StreamError::Truncated),
            End::Error => Err(StreamError::Reported("oh".to_owned())),
            _ => Ok(Chunk::Finish(finish)),
        };
        assert_eq!(chunks.last(), Some(&end));
    }
}

type Call = (String, String, Map<String, Value>);

fn join(chunks: &Chunks) -> (String, String, Vec<Call>) {
    let mut joined = (String::new(), String::new(), Vec::new());
    for chunk in chunks.iter().flatten() {
        match chunk {
            Chunk::Reasoning(text) => joined.0 += text,
            Chunk::Text(text) => joined.1 += text,
            Chunk::ToolCall(call) => {
                let arguments = call.arguments.clone().unwrap_or_default();
                joined.2.push((call.id.clone(), call.name.clone(), arguments));
            }
            Chunk::Usage(_) | Chunk::Finish(_) => {}
        }
    }
    joined
}

/// The words of one kind, such as `R17z`.
fn words(text: &str, kind: char) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(move |word| word.starts_with(kind) && word.ends_with('z') && word.len() > 2)
}

proptest! {
    #[test]
    fn no_thought_is_spoken_and_no_word_is_lost(seed: u64) {
        Story::new(seed).check();
    }
}

#[cfg(feature = "slow")]
#[test]
fn a_hundred_thousand_streams() {
    for seed in 0..100_000 {
        let told = std::panic::catch_unwind(|| Story::new(seed).check());
        assert!(told.is_ok(), "seed {seed}");
    }
}
