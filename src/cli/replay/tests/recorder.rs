//! An agent to be recorded.

use crate::cli::exported::Exported;
use crate::store::Entry;
use serde_json::{Map, json};
use sotto_core::engine::Engine;
use sotto_core::engine::event::{Input, Output, Participant, RequestId, RunId, Ticket, ToolOutcome};
use sotto_core::engine::record::{History, Record, Stanza};
use sotto_core::engine::settings::Settings;
use sotto_core::model::{Chunk, Failure, Finish, ToolCall, ToolSpec};
use sotto_core::time::Time;
use sotto_core::tool::Tool;
use sotto_core::wire::Envelope;
use sotto_core::wire::body::{
    Body, Configuration, ControlStop, ControlVariation, StopType, UserMessage, VariationMode,
};
use std::collections::VecDeque;
use std::time::Duration;

/// An agent whose store keeps everything, and in which things happen as a test says.
pub(super) struct Recorder {
    settings: Settings,
    engine: Engine,
    now: Time,
    pub(super) saved: Vec<Record>,
    /// What the store has not confirmed yet.
    unconfirmed: VecDeque<Ticket>,
    request: Option<RequestId>,
    runs: Vec<RunId>,
    sent: i32,
    restarts: u8,
}

impl Recorder {
    pub(super) fn new(settings: Settings) -> Self {
        let tool = |name: &str, repeatable| {
            Tool::harmless(ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                parameters: json!({}),
                repeatable,
            })
        };
        let tools = vec![tool("time", true), tool("mail", false)];
        let settings = Settings { conversation: "room".to_owned(), tools, ..settings };
        let now = Time(1_794_787_200_000);
        Self {
            engine: Engine::new(settings.clone(), [7; 32], now),
            settings,
            now,
            saved: Vec::new(),
            unconfirmed: VecDeque::new(),
            request: None,
            runs: Vec::new(),
            sent: 0,
            restarts: 0,
        }
    }

    pub(super) fn happens(&mut self, input: Input) {
        self.now = self.now + Duration::from_millis(10);
        self.engine.handle(self.now, input);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Save { ticket, record, .. } => {
                    self.unconfirmed.extend(ticket);
                    self.saved.push(record);
                }
                Output::Generate { request, .. } => self.request = Some(request),
                Output::CancelGenerate(_) => self.request = None,
                Output::RunTool { run, .. } => self.runs.push(run),
                Output::CancelTool(run) => self.runs.retain(|running| *running != run),
                _ => {}
            }
        }
    }

    /// The store confirms what it has, as far as it has come.
    pub(super) fn confirms(&mut self, most: usize) {
        for _ in 0..most {
            let Some(ticket) = self.unconfirmed.pop_front() else { return };
            self.happens(Input::Stored { ticket, success: true });
        }
    }

    pub(super) fn settles(&mut self) {
        self.confirms(usize::MAX);
    }

    pub(super) fn joins(&mut self, identity: &str) {
        let participant = Participant { identity: identity.to_owned(), name: String::new() };
        self.happens(Input::Joined(participant));
    }

    pub(super) fn sends(&mut self, from: &str, body: Body) {
        self.sent += 1;
        let envelope = Envelope { stanza: self.sent, conversation: None, meta: Map::new(), body };
        self.happens(Input::Received { from: from.to_owned(), envelope: Ok(envelope) });
    }

    pub(super) fn writes(&mut self, from: &str, id: &str) {
        self.sends(
            from,
            Body::UserMessage(UserMessage {
                id: id.to_owned(),
                previous_id: None,
                conversation_id: String::new(),
                content: format!("This is {id}."),
                timestamp: None,
                attachments: None,
            }),
        );
    }

    pub(super) fn can(&mut self, from: &str, features: &[&str]) {
        let features = Some(features.iter().map(|&feature| feature.to_owned()).collect());
        self.sends(from, Body::Configuration(Configuration { features, ..Configuration::default() }));
    }

    pub(super) fn stops(&mut self, from: &str, target: Option<&str>, stop_type: StopType) {
        let (conversation_id, target_id) = (String::new(), target.map(str::to_owned));
        self.sends(
            from,
            Body::ControlStop(ControlStop { conversation_id, target_id, reason: None, stop_type }),
        );
    }

    pub(super) fn varies(&mut self, from: &str, target: &str, mode: VariationMode) {
        let (conversation_id, target_id) = (String::new(), target.to_owned());
        let new_content = (mode == VariationMode::Edit).then(|| "Something else.".to_owned());
        self.sends(
            from,
            Body::ControlVariation(ControlVariation { conversation_id, target_id, mode, new_content }),
        );
    }

    /// The model goes on, if it was asked.
    pub(super) fn says(&mut self, chunk: Chunk) {
        let Some(request) = self.request else { return };
        if matches!(chunk, Chunk::Finish(_)) {
            self.request = None;
        }
        self.happens(Input::Model { request, result: Ok(chunk) });
    }

    pub(super) fn thinks(&mut self, text: &str) {
        self.says(Chunk::Reasoning(text.to_owned()));
    }

    pub(super) fn speaks(&mut self, text: &str) {
        self.says(Chunk::Text(text.to_owned()));
    }

    pub(super) fn calls(&mut self, name: &str) {
        let arguments = json!({"q": "<think>"}).as_object().cloned().ok_or_else(String::new);
        self.says(Chunk::ToolCall(ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments }));
    }

    pub(super) fn finishes(&mut self) {
        self.says(Chunk::Finish(Finish::Stop));
    }

    pub(super) fn fails(&mut self) {
        let Some(request) = self.request.take() else { return };
        let failure = Failure { message: "Away.".to_owned(), recoverable: true };
        self.happens(Input::Model { request, result: Err(failure) });
    }

    pub(super) fn tool_gives(&mut self, outcome: ToolOutcome) {
        if !self.runs.is_empty() {
            let run = self.runs.remove(0);
            // What it says on its way is nothing that happens again.
            self.happens(Input::Progress { run, text: "half".to_owned() });
            self.happens(Input::Tool { run, outcome });
        }
    }

    pub(super) fn waits(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.happens(Input::Wake);
    }

    /// The process is killed, and another one goes on.
    pub(super) fn restarts(&mut self) {
        self.restarts += 1;
        let stanzas: Vec<&Stanza> = self
            .saved
            .iter()
            .filter_map(|record| match record {
                Record::Stanza(stanza) => Some(stanza),
                _ => None,
            })
            .collect();
        let facts: Vec<Record> =
            self.saved.iter().filter(|record| !matches!(record, Record::Stanza(_))).cloned().collect();
        let since = History::unfinished_since(&facts).unwrap_or(i32::MIN);
        let history = History {
            number: i32::from(self.restarts) * -10_240,
            reserved: i32::MIN,
            last_kept: Vec::new(),
            unfinished: stanzas.into_iter().filter(|stanza| stanza.number < since).cloned().collect(),
            records: facts,
        };
        self.now = self.now + Duration::from_secs(1);
        self.engine = Engine::restore(self.settings.clone(), [8 + self.restarts; 32], self.now, history);
        self.unconfirmed.clear();
        self.runs.clear();
        self.request = None;
        self.happens(Input::Wake);
    }

    pub(super) fn exported(&self) -> Exported {
        let kept = self.saved.iter().filter(|record| !matches!(record, Record::Reserved { .. }));
        let entries = kept.map(|record| Entry { at: Time(0), record: record.clone(), sealed: None });
        Exported { conversation: "room".to_owned(), entries: entries.collect() }
    }

    /// An id of the last of the agent's messages.
    pub(super) fn last_answer(&self) -> String {
        let answer = |record: &Record| match record {
            Record::Answer(answer) => answer.answer.clone(),
            _ => None,
        };
        self.saved.iter().rev().find_map(answer).unwrap_or_default()
    }
}
