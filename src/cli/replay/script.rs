//! What was recorded of a conversation, step by step, and what is known of it as a whole.

use crate::cli::exported::{Exported, decode};
use sotto_core::engine::event::ToolOutcome;
use sotto_core::engine::people::Audience;
use sotto_core::engine::record::{Answer, Record, Stanza, ToolBegun, ToolEnded};
use sotto_core::model::ToolSpec;
use sotto_core::time::Time;
use sotto_core::wire::body::{Body, ToolUseRequest, ToolUseResult};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A recorded conversation.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) conversation: String,
    pub(super) steps: Vec<Step>,
    /// Messages of which not all stanzas are kept any more.
    pub(super) incomplete: BTreeSet<String>,
    /// All user messages.
    pub(super) messages: BTreeSet<String>,
    requests: BTreeMap<String, ToolUseRequest>,
    results: BTreeMap<String, ToolUseResult>,
    /// The request of each call.
    calls: BTreeMap<String, String>,
    /// The message that each answer answers.
    answered: BTreeMap<String, String>,
}

/// One thing that happened.
#[derive(Debug)]
pub(super) enum Step {
    /// A fact was kept.
    Fact(Record),
    /// A stanza was sent.
    Sent(Sent),
}

/// A stanza without its number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) audience: Audience,
    pub(super) body: Body,
}

/// How a run of a tool ended.
#[derive(Debug, PartialEq)]
pub(super) enum Ended {
    /// By itself.
    With(ToolOutcome),
    /// Its time was over.
    Late,
    /// Its answer was broken off.
    Cancelled,
    /// The agent was killed meanwhile.
    Killed,
}

impl Sent {
    /// What a stanza says; nothing if it cannot be decoded, which an export never holds.
    pub(super) fn of(stanza: &Stanza) -> Option<Self> {
        let body = decode(&stanza.bytes).ok()?.body;
        Some(Self { audience: stanza.audience.clone(), body })
    }
}

impl Script {
    pub(super) fn of(exported: Exported) -> Self {
        let step = |record| match record {
            Record::Stanza(stanza) => Sent::of(&stanza).map(Step::Sent),
            fact => Some(Step::Fact(fact)),
        };
        let mut script = Self {
            conversation: exported.conversation,
            steps: exported.entries.into_iter().filter_map(|entry| step(entry.record)).collect(),
            incomplete: BTreeSet::new(),
            messages: BTreeSet::new(),
            requests: BTreeMap::new(),
            results: BTreeMap::new(),
            calls: BTreeMap::new(),
            answered: BTreeMap::new(),
        };
        for step in &script.steps {
            match step {
                Step::Sent(Sent { body: Body::ToolUseRequest(request), .. }) => {
                    script.requests.insert(request.id.clone(), request.clone());
                }
                Step::Sent(Sent { body: Body::ToolUseResult(result), .. }) => {
                    script.results.insert(result.request_id.clone(), result.clone());
                }
                Step::Fact(Record::ToolBegun(tool)) => {
                    script.calls.insert(tool.call.id.clone(), tool.request.clone());
                }
                Step::Fact(Record::Begun(begun)) => {
                    script.answered.insert(begun.answer.clone(), begun.message.clone());
                }
                // One that was stopped before its turn was never begun.
                Step::Fact(Record::Answer(Answer {
                    message: Some(message), answer: Some(answer), ..
                })) => {
                    script.answered.insert(answer.clone(), message.clone());
                }
                Step::Fact(Record::Message(message)) => {
                    script.messages.insert(message.id.clone());
                }
                _ => {}
            }
        }
        script.incomplete = incomplete(&script);
        script
    }

    /// What was said to the first who came.
    pub(super) fn greeting(&self) -> Option<String> {
        self.facts().find_map(|fact| match fact {
            Record::Answer(answer) if answer.message.is_none() => Some(answer.text.clone()),
            _ => None,
        })
    }

    /// The tools that were run.
    pub(super) fn tools(&self) -> Vec<ToolSpec> {
        let mut tools: Vec<ToolSpec> = Vec::new();
        for fact in self.facts() {
            let Record::ToolBegun(ToolBegun { call, repeatable, .. }) = fact else { continue };
            if !tools.iter().any(|tool| tool.name == call.name) {
                tools.push(ToolSpec {
                    name: call.name.clone(),
                    description: String::new(),
                    parameters: serde_json::json!({"type": "object"}),
                    repeatable: *repeatable,
                });
            }
        }
        tools
    }

    /// The time that tools had, as clients were told.
    pub(super) fn tool_timeout(&self) -> Option<Duration> {
        let millis = self.requests.values().find_map(|request| request.timeout_ms)?;
        Some(Duration::from_millis(millis.max(0).unsigned_abs().into()))
    }

    /// Whether anyone was shown thoughts or tools.
    pub(super) fn shows_reasoning(&self) -> bool {
        self.sent().any(|sent| matches!(sent.audience, Audience::Reasoning | Audience::Tools))
    }

    /// Everyone who took part.
    pub(super) fn people(&self) -> BTreeSet<&str> {
        let joined = self.facts().filter_map(|fact| match fact {
            Record::Joined(joined) => Some(joined.identity.as_str()),
            _ => None,
        });
        joined.collect()
    }

    /// The message that something is about: an answer's, or itself.
    pub(super) fn message_of<'a>(&'a self, id: &'a str) -> &'a str {
        self.answered.get(id).map_or(id, String::as_str)
    }

    /// What a tool was given: as clients were shown it, which is closer to what the model wrote than what is kept for prompts.
    pub(super) fn arguments(&self, tool: &ToolBegun) -> serde_json::Map<String, serde_json::Value> {
        match self.requests.get(&tool.request) {
            Some(request) => request.parameters.clone(),
            None => tool.call.arguments.clone().unwrap_or_default(),
        }
    }

    /// How a tool ended: as clients were shown it, else as the model was told.
    pub(super) fn ended(&self, ended: &ToolEnded) -> Ended {
        let result = self.calls.get(&ended.call).and_then(|request| self.results.get(request));
        let Some(result) = result else {
            return Ended::With(ToolOutcome::Done(ended.content.clone().into()));
        };
        let message = result.error_message.clone().unwrap_or_default();
        match (result.success, result.error_code.as_deref()) {
            (true, _) => Ended::With(ToolOutcome::Done(result.result.clone().unwrap_or_default())),
            (_, Some("timeout")) => Ended::Late,
            (_, Some("cancelled")) if message.starts_with("The agent was restarted") => Ended::Killed,
            (_, Some("cancelled")) => Ended::Cancelled,
            (_, Some("invalid_parameters")) => Ended::With(ToolOutcome::InvalidParameters(message)),
            _ => Ended::With(ToolOutcome::Failed(message)),
        }
    }

    pub(super) fn sent(&self) -> impl Iterator<Item = &Sent> {
        self.steps.iter().filter_map(|step| match step {
            Step::Sent(sent) => Some(sent),
            Step::Fact(_) => None,
        })
    }

    fn facts(&self) -> impl Iterator<Item = &Record> {
        self.steps.iter().filter_map(|step| match step {
            Step::Fact(fact) => Some(fact),
            Step::Sent(_) => None,
        })
    }
}

/// When something happened, where it says so.
pub(super) fn time_of(fact: &Record) -> Option<Time> {
    match fact {
        Record::Joined(it) => Some(it.at),
        Record::Message(it) => Some(it.at),
        Record::Variation(it) => Some(it.at),
        Record::Stopped(it) => Some(it.at),
        Record::Begun(it) => Some(it.at),
        Record::ToolAsked(it) => Some(it.at),
        Record::ToolBegun(it) => Some(it.at),
        Record::ToolEnded(it) => Some(it.at),
        Record::BrokenOff(it) => Some(it.at),
        Record::Answer(it) => Some(it.at),
        Record::Reasoning(_) | Record::Reserved { .. } | Record::Stanza(_) => None,
    }
}

/// Finds the message that a stanza belongs to; a greeting's is empty.
#[derive(Debug, Default)]
pub(super) struct Belonging {
    answers: BTreeMap<String, String>,
    requests: BTreeMap<String, String>,
}

impl Belonging {
    /// The message of the next stanza; nothing if what would tell is no longer kept, or if it cannot happen again.
    pub(super) fn message(&mut self, body: &Body) -> Option<String> {
        match body {
            Body::StartAnswer(start) => {
                self.answers.insert(start.id.clone(), start.previous_id.clone());
                Some(start.previous_id.clone())
            }
            Body::ToolUseRequest(request) => {
                self.requests.insert(request.id.clone(), request.message_id.clone());
                Some(request.message_id.clone())
            }
            Body::AssistantSentence(sentence) => self.answers.get(&sentence.previous_id).cloned(),
            Body::ToolUseResult(result) => self.requests.get(&result.request_id).cloned(),
            Body::AssistantMessage(whole) => Some(whole.previous_id.clone()),
            Body::ReasoningStep(step) => Some(step.previous_id.clone()),
            Body::TurnMeta(meta) => Some(meta.message_id.clone()),
            _ => None,
        }
    }
}

/// Messages of which some stanzas are gone because they were too old: answers without their beginning, thoughts without the first
/// ones, tools that nobody was shown although others were. The oldest go first, but the newest of each audience stays.
fn incomplete(script: &Script) -> BTreeSet<String> {
    let shows_reasoning = script.shows_reasoning();
    let oldest_kept = oldest_kept(script);
    let mut started = BTreeSet::new();
    let mut incomplete = BTreeSet::new();
    let mut thinking = BTreeSet::new();
    for sent in script.sent() {
        match &sent.body {
            Body::StartAnswer(start) => {
                started.insert(start.id.as_str());
            }
            Body::ReasoningStep(step) if thinking.insert(&step.previous_id) && step.step_index != 1 => {
                incomplete.insert(step.previous_id.clone());
            }
            _ => {}
        }
    }
    // What began after something that is still kept was never too old.
    let mut is_old = BTreeSet::new();
    for (index, step) in script.steps.iter().enumerate() {
        let Step::Fact(fact) = step else { continue };
        let (message, gone) = match fact {
            Record::Begun(begun) => (begun.message.clone(), false),
            Record::Answer(Answer { message, answer: Some(answer), announced: true, .. }) => {
                (message.clone().unwrap_or_default(), !started.contains(answer.as_str()))
            }
            Record::BrokenOff(broken) => (broken.message.clone(), !started.contains(broken.answer.as_str())),
            Record::ToolBegun(tool) => {
                (tool.message.clone(), shows_reasoning && !script.requests.contains_key(&tool.request))
            }
            _ => continue,
        };
        if index < oldest_kept {
            is_old.insert(message.clone());
        }
        if gone {
            incomplete.insert(message);
        }
    }
    incomplete.intersection(&is_old).cloned().collect()
}

/// The place of the oldest stanza that is not kept merely for being the newest of its audience.
fn oldest_kept(script: &Script) -> usize {
    let mut newest: BTreeMap<&Audience, usize> = BTreeMap::new();
    let mut all: Vec<(usize, &Sent)> = Vec::new();
    for (index, step) in script.steps.iter().enumerate() {
        if let Step::Sent(sent) = step {
            all.push((index, sent));
        }
    }
    for (index, sent) in &all {
        newest.insert(&sent.audience, *index);
    }
    let oldest = all.iter().find(|(index, sent)| newest.get(&sent.audience) != Some(index));
    oldest.map_or(script.steps.len(), |(index, _)| *index)
}
