//! What is shown: the agent's messages in, text for the terminal (or a pipe) out.
//!
//! Pure: it keeps in mind where the cursor is and what is half shown, and writes nothing itself. Everything that comes
//! from the network is cleaned before it becomes part of the output.

use crate::cli::json;
use crate::cli::terminal::{clean, clean_line};
use sotto_core::wire::Envelope;
use sotto_core::wire::body::{
    Body, ErrorMessage, ReasoningDelta, ReasoningStep, ToolConsentRequest, ToolUseRequest, ToolUseResult,
    TurnMeta,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// From here on an `ErrorMessage` is an error; below it is a notice.
const ERROR: i32 = 2;

/// For whom it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// For eyes: thoughts dim and live, figures at the end.
    Terminal {
        /// Whether dim and red may be used.
        colour: bool,
    },
    /// For files and pipes: whole thoughts, no escape codes.
    Plain,
    /// For scripts: one JSON object per message.
    Json,
}

#[derive(Debug)]
pub(super) struct Screen {
    style: Style,
    /// Whether thoughts are shown.
    reasoning: bool,
    /// Whether the cursor is anywhere but at the beginning of a line.
    mid_line: bool,
    thinking: Thinking,
    /// The thought that is half shown, and how much of it.
    thought: Option<(String, String)>,
    /// The names of tools that are being used, by request.
    tools: BTreeMap<String, String>,
    /// The request whose line is open, so that its result fits there.
    open_tool: Option<String>,
    /// The answer that came last.
    answer: Option<String>,
    /// Whether the last thing shown is text of that answer.
    is_speaking: bool,
}

/// What is known of the model's thinking.
#[derive(Clone, Copy, Debug)]
enum Thinking {
    /// It does something else.
    No,
    /// It may have begun then.
    Unseen { since: Duration },
    /// Thoughts have come.
    Seen { since: Duration },
}

/// How something looks.
#[derive(Clone, Copy)]
enum Look {
    Normal,
    Dim,
    Alarming,
}

impl Screen {
    pub(super) fn new(style: Style, reasoning: bool) -> Self {
        Self {
            style,
            reasoning,
            mid_line: false,
            thinking: Thinking::No,
            thought: None,
            tools: BTreeMap::new(),
            open_tool: None,
            answer: None,
            is_speaking: false,
        }
    }

    /// Something is asked now. Shown where nobody saw it being typed.
    pub(super) fn ask(&mut self, question: &str, typed: bool, now: Duration) -> String {
        let mut out = String::new();
        if typed {
            // The line break that ended it was shown by the terminal.
            self.mid_line = false;
        } else if self.style != Style::Json {
            self.show_line(&mut out, Look::Normal, &format!("> {}", clean_line_of_ours(question)));
        }
        self.thinking = Thinking::Unseen { since: now };
        out
    }

    /// Somebody ended a line.
    pub(super) fn typed(&mut self) {
        self.mid_line = false;
    }

    /// Asks for the next line.
    pub(super) fn prompt(&mut self) -> String {
        let mut out = String::new();
        self.fresh_line(&mut out);
        out.push_str("> ");
        self.mid_line = true;
        out
    }

    /// Something that we say ourselves.
    pub(super) fn note(&mut self, text: &str) -> String {
        let mut out = String::new();
        self.leave_off(&mut out);
        self.show_line(&mut out, Look::Dim, text);
        out
    }

    /// What somebody else asks.
    pub(super) fn overhear(&mut self, who: &str, text: &str) -> String {
        self.note(&format!("{} asks: {}", clean_line(who), clean_line(text)))
    }

    /// What an agent sent.
    pub(super) fn receive(&mut self, envelope: &Envelope, now: Duration) -> String {
        if self.style == Style::Json {
            return json::line(envelope);
        }
        let mut out = String::new();
        match &envelope.body {
            Body::ReasoningDelta(delta) => self.think(&mut out, delta, now),
            Body::ReasoningStep(step) => self.think_through(&mut out, step, now),
            Body::ToolUseRequest(request) => {
                self.stop_thinking(&mut out, now);
                self.use_tool(&mut out, request);
            }
            Body::ToolConsentRequest(request) => {
                self.stop_thinking(&mut out, now);
                self.ask_for_leave(&mut out, request);
            }
            Body::ToolUseResult(result) => self.used_tool(&mut out, result, now),
            Body::StartAnswer(start) => {
                self.stop_thinking(&mut out, now);
                self.answer = Some(start.id.clone());
            }
            Body::AssistantSentence(sentence) => {
                self.stop_thinking(&mut out, now);
                self.speak(&mut out, &sentence.text);
                if sentence.is_final == Some(true) {
                    self.leave_off(&mut out);
                }
            }
            // Of a snapshot, or from an agent that does not stream.
            Body::AssistantMessage(whole) if self.answer.as_ref() != Some(&whole.id) => {
                self.stop_thinking(&mut out, now);
                self.show_line(&mut out, Look::Normal, &clean(&whole.content));
            }
            Body::UserMessage(message) => {
                self.leave_off(&mut out);
                self.show_line(&mut out, Look::Dim, &format!("> {}", clean(&message.content)));
            }
            Body::Transcription(heard) if heard.is_final => {
                self.leave_off(&mut out);
                self.show_line(&mut out, Look::Dim, &format!("> {}", clean(&heard.text)));
            }
            Body::MemoryTrace(memory) => self.remark(&mut out, "remembered", &memory.content),
            Body::Commentary(commentary) => {
                let of_tool = commentary.commentary_type.as_deref() == Some("tool_progress");
                self.remark(&mut out, if of_tool { "progress" } else { "comment" }, &commentary.content);
            }
            Body::ErrorMessage(error) => {
                self.stop_thinking(&mut out, now);
                self.complain(&mut out, error);
            }
            Body::TurnMeta(meta) => {
                self.stop_thinking(&mut out, now);
                self.sum_up(&mut out, meta);
            }
            _ => {}
        }
        out
    }

    /// A piece of a thought: live for eyes; others wait for the whole.
    fn think(&mut self, out: &mut String, delta: &ReasoningDelta, now: Duration) {
        self.begin_thinking(now);
        if !self.reasoning || self.style == Style::Plain {
            return;
        }
        let begun = matches!(&self.thought, Some((id, _)) if *id == delta.id);
        if !begun {
            self.leave_off(out);
            self.thought = Some((delta.id.clone(), String::new()));
        }
        if let Some((_, shown)) = &mut self.thought {
            shown.push_str(&delta.delta);
        }
        self.show(out, Look::Dim, &clean(&delta.delta));
    }

    /// A whole thought: what of it was not shown yet.
    fn think_through(&mut self, out: &mut String, step: &ReasoningStep, now: Duration) {
        self.begin_thinking(now);
        let shown = self.thought.take_if(|(id, _)| *id == step.id).map(|(_, shown)| shown);
        if !self.reasoning {
            return;
        }
        if self.style == Style::Plain {
            self.leave_off(out);
            for line in clean(&step.content).lines().filter(|line| !line.trim().is_empty()) {
                self.show_line(out, Look::Dim, &format!("thinking: {line}"));
            }
            return;
        }
        if let Some(rest) = shown.as_deref().and_then(|shown| step.content.strip_prefix(shown)) {
            self.show(out, Look::Dim, &clean(rest));
        } else {
            // None of it was shown, or in other words.
            self.leave_off(out);
            self.show(out, Look::Dim, &clean(&step.content));
        }
        self.fresh_line(out);
    }

    fn begin_thinking(&mut self, now: Duration) {
        self.thinking = match self.thinking {
            Thinking::No => Thinking::Seen { since: now },
            Thinking::Unseen { since } | Thinking::Seen { since } => Thinking::Seen { since },
        };
    }

    /// Something else begins: says how long it was thinking, if it was.
    fn stop_thinking(&mut self, out: &mut String, now: Duration) {
        let Thinking::Seen { since } = std::mem::replace(&mut self.thinking, Thinking::No) else { return };
        if self.style != Style::Plain {
            self.leave_off(out);
            let time = in_words(now.saturating_sub(since));
            self.show_line(out, Look::Dim, &format!("thought for {time}"));
        }
    }

    fn use_tool(&mut self, out: &mut String, request: &ToolUseRequest) {
        self.leave_off(out);
        let name = clean_line(&request.tool_name);
        let parameters = clean_line(&serde_json::Value::Object(request.parameters.clone()).to_string());
        self.show(out, Look::Dim, &format!("{}{name} {parameters}", self.tool_prefix()));
        self.tools.insert(request.id.clone(), name);
        self.open_tool = Some(request.id.clone());
    }

    /// Exactly what would be done: whoever decides must see it.
    fn ask_for_leave(&mut self, out: &mut String, request: &ToolConsentRequest) {
        self.leave_off(out);
        let name = clean_line(&request.tool_name);
        // Not cut: what is dangerous may stand at the end.
        let parameters = clean(&serde_json::Value::Object(request.parameters.clone()).to_string());
        let reason = request.reason.as_deref().map(|reason| format!(" ({})", clean_line(reason)));
        let seconds = request.timeout_ms / 1_000;
        let question = format!(
            "may the agent use {name} {parameters}?{} /allow or /deny, within {seconds} s",
            reason.unwrap_or_default()
        );
        self.show_line(out, Look::Alarming, &question);
    }

    fn used_tool(&mut self, out: &mut String, result: &ToolUseResult, now: Duration) {
        let Some(name) = self.tools.remove(&result.request_id) else { return };
        let outcome = if result.success {
            format!("→ {}", clean_line(&in_one_line(result.result.as_ref())))
        } else {
            let why =
                result.error_message.as_deref().or(result.error_code.as_deref()).unwrap_or("no reason given");
            format!("failed: {}", clean_line(why))
        };
        if self.open_tool.take_if(|open| *open == result.request_id).is_some() {
            self.show(out, Look::Dim, &format!(" {outcome}"));
        } else {
            self.leave_off(out);
            self.show(out, Look::Dim, &format!("{}{name} {outcome}", self.tool_prefix()));
        }
        self.fresh_line(out);
        // Now the model reads it.
        self.thinking = Thinking::Unseen { since: now };
    }

    fn tool_prefix(&self) -> &'static str {
        if self.style == Style::Plain { "tool: " } else { "* " }
    }

    fn speak(&mut self, out: &mut String, text: &str) {
        let mut text = clean(text);
        if !self.is_speaking {
            self.leave_off(out);
            // A break in the answer where something else was shown in between: that is break enough.
            text = text.trim_start_matches('\n').to_owned();
        }
        if !text.is_empty() {
            self.show(out, Look::Normal, &text);
            self.is_speaking = true;
        }
    }

    fn remark(&mut self, out: &mut String, what: &str, content: &str) {
        self.leave_off(out);
        self.show_line(out, Look::Dim, &format!("{what}: {}", clean_line(content)));
    }

    fn complain(&mut self, out: &mut String, error: &ErrorMessage) {
        self.leave_off(out);
        let message = clean(&error.message);
        if error.severity >= ERROR {
            self.show_line(out, Look::Alarming, &format!("error: {message} ({})", error.code));
        } else {
            self.show_line(out, Look::Dim, &format!("note: {message}"));
        }
    }

    fn sum_up(&mut self, out: &mut String, meta: &TurnMeta) {
        self.leave_off(out);
        if self.style != Style::Plain {
            self.show_line(out, Look::Dim, &figures(meta));
        }
    }

    /// Ends whatever is half shown.
    fn leave_off(&mut self, out: &mut String) {
        self.fresh_line(out);
        self.is_speaking = false;
        self.open_tool = None;
        self.thought = None;
    }

    fn fresh_line(&mut self, out: &mut String) {
        if self.mid_line {
            out.push('\n');
            self.mid_line = false;
        }
    }

    fn show_line(&mut self, out: &mut String, look: Look, text: &str) {
        self.fresh_line(out);
        self.show(out, look, text);
        self.fresh_line(out);
    }

    fn show(&mut self, out: &mut String, look: Look, text: &str) {
        if text.is_empty() {
            return;
        }
        let code = match (self.style, look) {
            (Style::Terminal { colour: true }, Look::Dim) => Some("2"),
            (Style::Terminal { colour: true }, Look::Alarming) => Some("31"),
            _ => None,
        };
        match code {
            Some(code) => out.extend(["\x1b[", code, "m", text, "\x1b[0m"]),
            None => out.push_str(text),
        }
        self.mid_line = !text.ends_with('\n');
    }
}

/// What we ask came from our own user, but perhaps out of a file.
fn clean_line_of_ours(question: &str) -> String {
    clean(question).replace('\n', " ")
}

fn in_one_line(value: Option<&serde_json::Value>) -> String {
    match value {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "nothing".to_owned(),
    }
}

fn in_words(time: Duration) -> String {
    // Half a second more makes whole seconds the nearest.
    match (time + Duration::from_millis(500)).as_secs() {
        0 => "a moment".to_owned(),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

fn figures(meta: &TurnMeta) -> String {
    let mut parts = Vec::new();
    if meta.interrupted {
        parts.push("stopped".to_owned());
    }
    let about = if meta.exact { "" } else { "about " };
    if let Some(tokens) = meta.input_tokens {
        parts.push(format!("{about}{tokens} tokens in"));
    }
    if let Some(tokens) = meta.output_tokens {
        let thinking = meta.reasoning_tokens.filter(|tokens| *tokens > 0);
        let thinking = thinking.map_or(String::new(), |tokens| format!(" ({tokens} of them thinking)"));
        parts.push(format!("{about}{tokens} out{thinking}"));
    }
    parts.push(format!("{:.1} s", meta.total_ms as f64 / 1_000.0));
    parts.join(", ")
}

#[cfg(test)]
mod tests;
