//! Outputs in one readable line each, with short names for ids.

use crate::engine::event::{Output, Recipients, Transcript};
use crate::engine::hook::{Matter, Question};
use crate::engine::record::Record;
use crate::model::{Message, Prompt};
use crate::wire;
use crate::wire::body::{Body, Execution};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What a scenario wants to see besides the essentials.
#[derive(Debug, Default, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "what is shown, one by one")]
pub(super) struct Show {
    pub(super) transcript: bool,
    pub(super) prompt: bool,
    pub(super) counts: bool,
    pub(super) saves: bool,
    pub(super) numbers: bool,
    pub(super) tools: bool,
    pub(super) descriptions: bool,
}

/// Gives ids that were drawn short names: `am#1`, `ar#2`.
#[derive(Debug, Default)]
pub(super) struct Names {
    short: BTreeMap<String, String>,
    count: BTreeMap<String, usize>,
}

impl Names {
    pub(super) fn shorten(&mut self, id: &str) -> String {
        let prefix = match id.split_once('_') {
            Some((prefix, rest)) if rest.len() == 21 => prefix.to_owned(),
            _ => return id.to_owned(),
        };
        if let Some(short) = self.short.get(id) {
            return short.clone();
        }
        let count = self.count.entry(prefix.clone()).or_default();
        *count += 1;
        let short = format!("{prefix}#{count}");
        self.short.insert(id.to_owned(), short.clone());
        short
    }

    pub(super) fn full(&self, short: &str) -> String {
        let found = self.short.iter().find(|(_, name)| *name == short);
        found.map_or_else(|| short.to_owned(), |(id, _)| id.clone())
    }
}

/// One output; `None` where the scenario does not care.
pub(super) fn output(output: &Output, show: Show, names: &mut Names) -> Option<String> {
    Some(match output {
        Output::Save { ticket, record, durable } => {
            if !show.saves {
                return None;
            }
            let what = match record {
                Record::Joined(joined) => format!("{} joined at {}", joined.identity, joined.number),
                Record::Message(message) => format!("message {}", message.id),
                Record::Variation(variation) => format!("variation of {}", names.shorten(&variation.target)),
                Record::Stopped(stopped) => {
                    let target = stopped.target.as_deref().map(|target| names.shorten(target));
                    format!("stop of {}", target.as_deref().unwrap_or("whatever runs"))
                }
                Record::Begun(begun) => {
                    format!("begin {} to {} at {}", names.shorten(&begun.answer), begun.message, begun.number)
                }
                Record::Reasoning(reasoning) => format!("thoughts {:?}", reasoning.steps),
                Record::ToolAsked(tool) => format!("ask for {} {}", tool.call.id, tool.call.name),
                Record::ToolBegun(tool) => format!("begin {} {}", tool.call.id, tool.call.name),
                Record::ToolEnded(tool) => format!("end {} {:?}", tool.call, tool.content),
                Record::BrokenOff(broken) => {
                    format!("break off {} {:?}", names.shorten(&broken.answer), broken.text)
                }
                Record::Answer(answer) => {
                    format!("end {:?} of {}", answer.end, answer.message.as_deref().unwrap_or("-"))
                }
                Record::Reserved { number } => format!("numbers to {number}"),
                Record::Stanza(stanza) => format!("stanza {}", stanza.number),
            };
            let ticket = ticket.map_or(String::new(), |ticket| format!(" {}", ticket.0));
            format!("save{ticket} {what}{}", if *durable { ", synced" } else { "" })
        }
        Output::Replay { after, until, .. } => format!("read after {after} until {until}"),
        Output::Send { to, bytes } => {
            let to = match to {
                Recipients::Everyone => "all".to_owned(),
                Recipients::Only(identities) => identities.join("+"),
            };
            let envelope = wire::decode(bytes, &wire::Limits::default()).expect("what we encode we can read");
            let number = if show.numbers {
                let previous =
                    envelope.meta.get("sotto.prev").map_or(String::new(), |previous| format!("<{previous}"));
                format!(" {}{previous}", envelope.stanza)
            } else {
                String::new()
            };
            format!("{to}{number}: {}", body(&envelope.body, names))
        }
        Output::State(state) => format!("state {}", state.as_str()),
        Output::Transcript(transcript) => {
            if !show.transcript {
                return None;
            }
            match transcript {
                Transcript::Begin { segment } => format!("transcript {} begins", names.shorten(segment)),
                Transcript::Delta { segment, text } => {
                    format!("transcript {} {text:?}", names.shorten(segment))
                }
                Transcript::End { segment } => format!("transcript {} ends", names.shorten(segment)),
            }
        }
        Output::Generate { request, prompt } => {
            let mut line = format!("ask {}", request.0);
            if prompt.thinking {
                line.push_str(" thinking");
            }
            if !prompt.tools.is_empty() {
                line.push_str(" with tools");
            }
            if show.tools {
                let names: Vec<&str> = prompt.tools.iter().map(|tool| tool.name.as_str()).collect();
                let _ = write!(line, " [{}]", names.join(" "));
            }
            for tool in prompt.tools.iter().filter(|_| show.descriptions) {
                let _ = write!(line, "\n      | {} {:?} {}", tool.name, tool.description, tool.parameters);
            }
            if show.prompt {
                line.push_str(&self::prompt(prompt));
            }
            line
        }
        Output::CancelGenerate(request) => format!("cancel {}", request.0),
        Output::RunTool { run, name, arguments, callee, .. } => {
            let by = callee.as_ref().map_or(String::new(), |callee| format!(" by calling {callee}"));
            format!("run {} {name} {}{by}", run.0, serde_json::Value::Object(arguments.clone()))
        }
        Output::CancelTool(run) => format!("cancel run {}", run.0),
        Output::AskHook { question, about } => format!("hook {}, {}", question.0, asked(about, show)),
        Output::CancelHook(question) => format!("cancel hook {}", question.0),
        Output::Count { what, times } => {
            if !show.counts {
                return None;
            }
            let times = if *times == 1 { String::new() } else { format!(" {times} times") };
            format!("count {what:?}{times}")
        }
        Output::TurnEnded(report) => format!("turn ends: {:?}", report.end),
    })
}

fn asked(question: &Question, show: Show) -> String {
    let Question { message, asker, number, matter, .. } = question;
    let matter = match matter {
        Matter::Prompt(prompt) if show.prompt => format!("to ask{}", self::prompt(prompt)),
        Matter::Prompt(_) => "to ask".to_owned(),
        Matter::Call { tool, parameters } => {
            format!("to use {tool} {}", serde_json::Value::Object(parameters.clone()))
        }
        Matter::Sentence(text) => format!("to say {text:?}"),
    };
    format!("number {number} for {message} of {asker}: {matter}")
}

fn body(body: &Body, names: &mut Names) -> String {
    match body {
        Body::Acknowledgement(ack) => {
            format!("ack {}{}", ack.acknowledged_stanza_id, if ack.success { "" } else { " refused" })
        }
        Body::ErrorMessage(error) => {
            let about = error
                .originating_id
                .as_deref()
                .map_or(String::new(), |id| format!(" about {}", names.shorten(id)));
            let again = if error.recoverable { ", recoverable" } else { "" };
            let kind = if error.severity == 2 { "error" } else { "notice" };
            format!("{kind} {}{again}{about}: {}", error.code, error.message)
        }
        Body::ReasoningStep(step) => {
            format!(
                "step {} {} of {}: {}",
                step.step_index,
                names.shorten(&step.id),
                step.previous_id,
                quoted(&step.content)
            )
        }
        Body::ReasoningDelta(delta) => {
            format!("delta {} {}: {:?}", delta.step_index, names.shorten(&delta.id), delta.delta)
        }
        Body::StartAnswer(start) => format!("start {} to {:?}", names.shorten(&start.id), start.previous_id),
        Body::AssistantSentence(sentence) => {
            let last = if sentence.is_final == Some(true) { ", final" } else { "" };
            format!(
                "sentence {}{last} of {}: {}",
                sentence.sequence,
                names.shorten(&sentence.previous_id),
                quoted(&sentence.text)
            )
        }
        Body::UserMessage(message) => {
            let previous = message.previous_id.as_deref().map(|id| names.shorten(id));
            let previous = previous.map_or(String::new(), |id| format!(" after {id}"));
            format!("message {}{previous}: {}", message.id, quoted(&message.content))
        }
        Body::AssistantMessage(whole) => {
            format!(
                "whole {} to {:?}: {}",
                names.shorten(&whole.id),
                whole.previous_id,
                quoted(&whole.content)
            )
        }
        Body::ToolUseRequest(_) | Body::ToolConsentRequest(_) | Body::ToolUseResult(_) => {
            about_tools(body, names)
        }
        Body::Commentary(commentary) => {
            let kind = commentary.commentary_type.as_deref().unwrap_or("comment");
            format!("{kind} on {}: {}", commentary.message_id, quoted(&commentary.content))
        }
        Body::Configuration(configuration) => {
            let features = configuration.features.clone().unwrap_or_default().join(" ");
            format!(
                "configuration, seen {}: {features}",
                configuration.last_sequence_seen.unwrap_or_default()
            )
        }
        Body::TurnMeta(meta) => {
            let answer = meta.answer_id.as_deref().map_or("-".to_owned(), |id| names.shorten(id));
            let tokens = |tokens: Option<i64>| tokens.map_or("-".to_owned(), |tokens| tokens.to_string());
            let mut line = format!("figures of {} {answer}:", meta.message_id);
            if meta.exact {
                let _ = write!(line, " {}+{} tokens,", tokens(meta.input_tokens), tokens(meta.output_tokens));
            }
            let _ = write!(line, " thinking {} ms of {} ms", meta.thinking_ms, meta.total_ms);
            if let Some(effort) = &meta.effort {
                let _ = write!(line, ", effort {effort}");
            }
            if meta.interrupted {
                line.push_str(", interrupted");
            }
            line
        }
        other => format!("{other:?}"),
    }
}

fn about_tools(body: &Body, names: &mut Names) -> String {
    match body {
        Body::ToolUseRequest(request) => {
            let parameters = serde_json::Value::Object(request.parameters.clone());
            let by = match request.execution {
                Execution::Server => "",
                Execution::Client => " by client",
                Execution::Either => " by client or agent",
            };
            format!(
                "tool {} for {}: {} {parameters}{by}",
                names.shorten(&request.id),
                request.message_id,
                request.tool_name
            )
        }
        Body::ToolConsentRequest(request) => {
            let parameters = serde_json::Value::Object(request.parameters.clone());
            format!(
                "may {} ({}) for {}: {} {parameters} within {} ms? {}",
                names.shorten(&request.request_id),
                names.shorten(&request.id),
                request.message_id,
                request.tool_name,
                request.timeout_ms,
                request.reason.as_deref().unwrap_or_default()
            )
        }
        Body::ToolUseResult(result) => {
            let request = names.shorten(&result.request_id);
            match &result.result {
                Some(value) if result.success => format!("result of {request}: {value}"),
                _ => format!(
                    "failure of {request}: {}, {}",
                    result.error_code.as_deref().unwrap_or("?"),
                    result.error_message.as_deref().unwrap_or("?")
                ),
            }
        }
        other => format!("{other:?}"),
    }
}

fn prompt(prompt: &Prompt) -> String {
    let mut lines = String::new();
    for message in &prompt.messages {
        let line = match message {
            Message::System(text) => format!("system {}", quoted(text)),
            Message::User(text) => format!("user {}", quoted(text)),
            Message::Assistant { text, reasoning, calls } => {
                let mut line = format!("assistant {}", quoted(text));
                if let Some(reasoning) = reasoning {
                    let _ = write!(line, " thought {reasoning:?}");
                }
                for call in calls {
                    let _ = write!(line, " calls {}", call.name);
                }
                line
            }
            Message::Tool { content, .. } => format!("tool {}", quoted(content)),
        };
        let _ = write!(lines, "\n      | {line}");
    }
    lines
}

/// A text as it is, or its ends where it is long.
fn quoted(text: &str) -> String {
    let length = text.chars().count();
    if length <= 300 {
        return format!("{text:?}");
    }
    let first: String = text.chars().take(20).collect();
    let last: String = text.chars().skip(length - 20).collect();
    format!("{first:?} … {last:?}, {length} characters")
}
