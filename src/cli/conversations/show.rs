//! `sotto conversations show`: a conversation, to be read.
//!
//! [`Telling`] is pure: records in, text out. What people and models wrote is cleaned before it becomes part of that.

#[cfg(test)]
mod tests;

use super::list::shown;
use crate::cli::terminal::{clean, clean_line, has_colours};
use crate::store::{Archive, Entry};
use futures_util::TryStreamExt;
use jiff::tz::TimeZone;
use serde_json::Value;
use sotto_core::engine::event::TurnEnd;
use sotto_core::engine::record::{Answer, Message, Record, Variation};
use sotto_core::model::ToolCall;
use sotto_core::time::Time;
use sotto_core::wire::body::VariationMode;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// Show a conversation: who said what when, and how each answer came about and ended.
///
/// What the model thought stands before what it did and said (dimmed on a terminal), tools with what they were given and gave. Where
/// the conversation goes on from an earlier place (another answer, an edited message), a line says so and counts the branch.
/// What is sealed and cannot be opened is shown as (sealed). For scripts there is `sotto conversations export`.
#[derive(clap::Args, Debug)]
pub(super) struct Arguments {
    /// The conversation: the room's name
    name: String,
}

pub(super) async fn run(arguments: &Arguments, archive: &Arc<dyn Archive>) -> anyhow::Result<()> {
    let mut entries = super::entries(&**archive, &arguments.name).await?;
    let mut telling = Telling::new(TimeZone::system(), has_colours());
    let mut out = std::io::stdout().lock();
    while let Some(entry) = entries.try_next().await? {
        write!(out, "{}", telling.tell(&entry))?;
    }
    Ok(write!(out, "{}", telling.finish())?)
}

/// How much of a text is quoted where it is only pointed to, in characters.
const QUOTED: usize = 60;
/// What stands where something was said that cannot be read here.
const SEALED: &str = "(sealed)";
/// What stands before a line that has no time of its own.
const MARGIN: &str = "                     ";

/// A conversation as it is told.
#[derive(Debug)]
struct Telling {
    zone: TimeZone,
    /// Whether thoughts may be dimmed.
    colour: bool,
    /// The answer under way.
    turn: Option<Turn>,
    /// The beginning of what was said, and what it follows.
    said: BTreeMap<String, Said>,
    /// Where the conversation would go on.
    leaf: Option<String>,
    branches: u32,
    /// How often each message was answered.
    answers: BTreeMap<String, u32>,
    /// The answer that is to be continued, by the message that both answer.
    continued: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Said {
    beginning: String,
    parent: Option<String>,
    /// The message that it answers; itself if it is one.
    message: String,
}

#[derive(Debug)]
struct Turn {
    message: String,
    thoughts: Vec<String>,
    tools: Vec<Tool>,
}

#[derive(Debug)]
struct Tool {
    call: String,
    line: String,
    /// Whether it was run; someone may have been asked first.
    begun: bool,
    result: Option<String>,
}

impl Turn {
    /// A tool is run, perhaps one that someone has allowed.
    fn begin(&mut self, call: &ToolCall) {
        match self.tools.iter_mut().find(|tool| tool.call == call.id) {
            Some(tool) => tool.begun = true,
            None => self.tools.push(Tool::new(call, true)),
        }
    }
}

impl Telling {
    fn new(zone: TimeZone, colour: bool) -> Self {
        Self {
            zone,
            colour,
            turn: None,
            said: BTreeMap::new(),
            leaf: None,
            branches: 1,
            answers: BTreeMap::new(),
            continued: BTreeMap::new(),
        }
    }

    /// What there is to say about the next record.
    fn tell(&mut self, entry: &Entry) -> String {
        if entry.sealed.is_some() {
            return self.tell_record(&entry.record.with_content(|| SEALED.to_owned()));
        }
        self.tell_record(&entry.record)
    }

    fn tell_record(&mut self, record: &Record) -> String {
        match record {
            Record::Joined(joined) => {
                self.line(joined.at, &format!("{} joined", clean_line(&joined.identity)))
            }
            Record::Message(message) => self.tell_message(message),
            Record::Variation(variation) => self.tell_variation(variation),
            Record::Begun(begun) => {
                let before = self.drop_turn();
                self.turn =
                    Some(Turn { message: begun.message.clone(), thoughts: Vec::new(), tools: Vec::new() });
                before
            }
            Record::Reasoning(reasoning) => {
                if let Some(turn) = &mut self.turn {
                    turn.thoughts.clone_from(&reasoning.steps);
                }
                String::new()
            }
            Record::ToolBegun(tool) => {
                self.turn.iter_mut().for_each(|turn| turn.begin(&tool.call));
                String::new()
            }
            Record::ToolEnded(ended) => {
                let mut tools = self.turn.iter_mut().flat_map(|turn| &mut turn.tools);
                if let Some(tool) = tools.find(|tool| tool.call == ended.call) {
                    tool.result = Some(clean_line(&ended.content));
                }
                String::new()
            }
            Record::BrokenOff(broken) => {
                let message = broken.message.clone();
                let (answer, text) = (Some(broken.answer.clone()), &broken.text);
                self.tell_answer(broken.at, &message, answer, text, "the agent ended here; it answers again")
            }
            Record::Answer(answer) => self.tell_end(answer),
            Record::ToolAsked(asked) => {
                self.turn.iter_mut().for_each(|turn| turn.tools.push(Tool::new(&asked.call, false)));
                String::new()
            }
            // What was stopped says so at its end.
            Record::Stopped(_) | Record::Reserved { .. } | Record::Stanza(_) => String::new(),
        }
    }

    /// What is left to say at the end.
    fn finish(&mut self) -> String {
        match self.turn.take() {
            Some(turn) => self.work(&turn) + &self.note("not answered to the end yet"),
            None => String::new(),
        }
    }

    fn tell_message(&mut self, message: &Message) -> String {
        let Message { id, previous, from, name, text, at, .. } = message;
        let mut out = String::new();
        let elsewhere = previous.as_ref().filter(|id| self.said.contains_key(*id) && !self.is_on_branch(id));
        if let Some(previous) = elsewhere.cloned() {
            out += &self.branch(*at, &format!("it goes on from {}", self.quoted(&previous)));
            self.leaf = Some(previous);
        }
        let who = if name.is_empty() || name == from {
            clean_line(from)
        } else {
            format!("{} ({})", clean_line(name), clean_line(from))
        };
        out += &self.line(*at, &format!("{who}: {}", clean(text)));
        let parent = self.leaf.take();
        self.remember(id.clone(), parent, id.clone(), text);
        self.leaf = Some(id.clone());
        out
    }

    fn tell_variation(&mut self, variation: &Variation) -> String {
        let Variation { from, target, mode, text, at } = variation;
        let (who, quoted) = (clean_line(from), self.quoted(target));
        let message = self.said.get(target).map_or_else(|| target.clone(), |said| said.message.clone());
        match mode {
            VariationMode::Regenerate => {
                self.leaf = Some(message);
                self.branch(*at, &format!("{who} asks for another answer to {quoted}"))
            }
            VariationMode::Edit => {
                let text = text.as_deref().unwrap_or_default();
                if let Some(said) = self.said.get_mut(&message) {
                    said.beginning = beginning(text);
                }
                self.leaf = Some(message);
                self.branch(*at, &format!("{who} changes {quoted} to: {}", clean(text)))
            }
            VariationMode::Continue => {
                self.continued.insert(message, target.clone());
                let wish = format!("{who} asks to go on from {quoted}");
                if self.leaf.as_ref() == Some(target) {
                    return self.line(*at, &wish);
                }
                self.leaf = Some(target.clone());
                self.branch(*at, &wish)
            }
        }
    }

    fn tell_end(&mut self, answer: &Answer) -> String {
        let Answer {
            message, answer: id, announced, text, end, steps, thinking_ms, total_ms, usage, at, ..
        } = answer;
        let Some(message) = message else {
            if let Some(id) = id {
                self.remember(id.clone(), self.leaf.clone(), String::new(), text);
                self.leaf = Some(id.clone());
            }
            return self.line(*at, &format!("agent: {}", clean(text))) + &self.note("a greeting");
        };
        let how = match end {
            TurnEnd::Answered => "answered",
            TurnEnd::Stopped => "stopped",
            TurnEnd::Superseded => "broken off: the same user went on",
            TurnEnd::Failed => "failed",
        };
        let mut facts = vec![format!("{how} after {}", seconds(*total_ms))];
        if *steps > 0 {
            facts.push(format!("thought for {} in {steps} steps", seconds(*thinking_ms)));
        }
        if usage.input + usage.output > 0 {
            facts.push(format!("{} tokens in, {} out", usage.input, usage.output));
        }
        let id = id.clone().filter(|_| *announced);
        self.tell_answer(*at, &message.clone(), id, text, &facts.join("; "))
    }

    /// An answer with all that led to it.
    fn tell_answer(
        &mut self,
        at: Time,
        message: &str,
        answer: Option<String>,
        text: &str,
        how: &str,
    ) -> String {
        let mut out = String::new();
        if let Some(turn) = self.turn.take_if(|turn| turn.message == message) {
            out += &self.work(&turn);
        }
        let continued = self.continued.remove(message);
        let Some(answer) = answer else {
            return out + &self.line(at, &format!("no answer to {}", self.quoted(message))) + &self.note(how);
        };
        let nth = self.answers.entry(message.to_owned()).or_default();
        *nth += 1;
        let which = if *nth > 1 { format!(" (answer {nth})") } else { String::new() };
        let text_shown = if text.is_empty() { "(nothing)".to_owned() } else { clean(text) };
        out += &self.line(at, &format!("agent{which}: {text_shown}"));
        let parent = Some(continued.unwrap_or_else(|| message.to_owned()));
        if self.leaf == parent {
            self.leaf = Some(answer.clone());
        }
        self.remember(answer, parent, message.to_owned(), text);
        out + &self.note(how)
    }

    /// A turn that was begun and of which nothing more is known.
    fn drop_turn(&mut self) -> String {
        match self.turn.take() {
            Some(turn) => self.work(&turn) + &self.note("the agent ended here; it answers again"),
            None => String::new(),
        }
    }

    /// What the model thought and did in a turn.
    fn work(&self, turn: &Turn) -> String {
        let mut out = String::new();
        for thought in &turn.thoughts {
            let text = indented(&format!("thinking: {}", clean(thought)));
            let (dim, normal) = if self.colour { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
            out.extend([MARGIN, dim, &text, normal, "\n"]);
        }
        for tool in &turn.tools {
            let result = tool.result.as_deref().unwrap_or("(no result)");
            let asked = if tool.begun { "" } else { " (asked for, not run)" };
            out.extend([MARGIN, &tool.line, asked, " → ", result, "\n"]);
        }
        out
    }

    fn remember(&mut self, id: String, parent: Option<String>, message: String, text: &str) {
        self.said.insert(id, Said { beginning: beginning(text), parent, message });
    }

    /// Whether something was said on the way to where the conversation would go on.
    fn is_on_branch(&self, id: &str) -> bool {
        let mut at = self.leaf.as_deref();
        // Nothing is passed twice, unless a damaged store has a circle.
        for _ in 0..=self.said.len() {
            match at {
                Some(here) if here == id => return true,
                Some(here) => at = self.said.get(here).and_then(|said| said.parent.as_deref()),
                None => return false,
            }
        }
        false
    }

    fn quoted(&self, id: &str) -> String {
        match self.said.get(id) {
            Some(said) => format!("“{}”", said.beginning),
            None => "something that is not kept any more".to_owned(),
        }
    }

    fn branch(&mut self, at: Time, what: &str) -> String {
        self.branches += 1;
        self.line(at, &format!("── branch {}: {what}", self.branches))
    }

    fn line(&self, at: Time, text: &str) -> String {
        format!("{}  {}\n", shown(at, &self.zone), indented(text))
    }

    #[expect(clippy::unused_self, reason = "says the same as the others, about the same conversation")]
    fn note(&self, text: &str) -> String {
        format!("{MARGIN}({text})\n")
    }
}

impl Tool {
    fn new(call: &ToolCall, begun: bool) -> Self {
        let arguments = match &call.arguments {
            Ok(arguments) => Value::Object(arguments.clone()).to_string(),
            Err(text) => text.clone(),
        };
        let mut line = format!("tool: {}", clean_line(&call.name));
        if call.name != SEALED {
            line.extend([" ", &clean_line(&arguments)]);
        }
        Self { call: call.id.clone(), line, begun, result: None }
    }
}

/// A text whose lines all stand behind the margin.
fn indented(text: &str) -> String {
    text.replace('\n', &format!("\n{MARGIN}"))
}

fn beginning(text: &str) -> String {
    let mut line = clean_line(text);
    if let Some((end, _)) = line.char_indices().nth(QUOTED) {
        line.truncate(end);
        line.push('…');
    }
    line
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1_000, millis % 1_000 / 100)
}
