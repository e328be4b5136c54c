//! A recorded conversation happens again, to a fresh engine.
//!
//! The records are walked through in their order, which is the order in which the engine that wrote them decided. What
//! came from outside (people, the model, tools, the store, being killed) is done to the new engine when the record that
//! tells of it is reached; what the engine decided by itself is left to it. A message is confirmed as stored only when
//! something recorded can have come of that, so that an interruption happens where it happened.

mod model;

use super::script::{Ended, Script, Sent, Step, time_of};
use model::{Count, Next, Turn};
use serde_json::Map;
use sotto_core::engine::Engine;
use sotto_core::engine::event::{Input, Output, Participant, RequestId, RunId, Ticket, TurnEnd};
use sotto_core::engine::people::Audience;
use sotto_core::engine::record::{
    Answer, Begun, History, Message, Record, Stanza, Stopped, ToolEnded, Variation,
};
use sotto_core::engine::settings::{Limits, Settings, Visibility};
use sotto_core::model::{Chunk, Failure, Finish, ToolCall};
use sotto_core::time::Time;
use sotto_core::tool::Tool;
use sotto_core::wire::Envelope;
use sotto_core::wire::body::{Body, Configuration, ControlStop, ControlVariation, StopType, UserMessage};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How far numbers jump when an engine is begun anew: further than anything unseen can have used.
const JUMP: i32 = 100_000;

/// All stanzas that the engine keeps when the conversation happens again.
pub(super) fn rerun(script: &Script, step_chars: usize) -> Vec<Sent> {
    let mut rerun = Rerun::new(script, step_chars);
    for (index, step) in script.steps.iter().enumerate() {
        rerun.take(index, step);
    }
    rerun.stanzas().filter_map(Sent::of).collect()
}

struct Rerun<'a> {
    script: &'a Script,
    settings: Settings,
    engine: Engine,
    now: Time,
    /// Somebody nobody was, who takes what only some clients ask for and stops what was stopped.
    listener: String,
    is_listening: bool,
    /// All that the engine had stored.
    saved: Vec<Record>,
    /// Messages and variations that the store has not confirmed yet.
    held: VecDeque<Held>,
    /// The request that the model is answering.
    request: Option<RequestId>,
    /// Runs of tools that were begun and not matched with recorded ones yet.
    begun_runs: VecDeque<RunId>,
    /// The run of each recorded call.
    runs: BTreeMap<String, RunId>,
    /// The new engine's answer for each recorded one.
    answers: BTreeMap<String, String>,
    /// The message whose turn runs in the new engine, with its answer; and the one whose turn ran then.
    running: Option<(String, String)>,
    ran: Option<String>,
    /// How often each message has ended in the new engine, and how often then.
    ends: BTreeMap<String, u32>,
    ended: BTreeMap<String, u32>,
    /// The turn that was recorded, as far as it has come.
    turn: Turn,
    stanza: i32,
}

#[derive(Debug)]
struct Held {
    ticket: Ticket,
    /// The message that is to be answered.
    message: String,
    /// What a stop calls it.
    id: String,
}

impl<'a> Rerun<'a> {
    fn new(script: &'a Script, step_chars: usize) -> Self {
        let unlimited = Limits {
            messages_burst: u32::MAX,
            others_burst: u32::MAX,
            waiting: usize::MAX,
            content_bytes: usize::MAX,
            ..Limits::default()
        };
        // What was recorded had passed all limits, and what was shown had no secrets left. Whatever the configuration
        // was, what came of interruptions is in the records.
        let settings = Settings {
            conversation: script.conversation.clone(),
            greeting: script.greeting(),
            visibility: if script.shows_reasoning() { Visibility::Full } else { Visibility::Hidden },
            step_chars,
            max_thinking: Duration::MAX,
            max_thinking_chars: usize::MAX,
            max_answer_chars: usize::MAX,
            tools: script.tools().into_iter().map(Tool::harmless).collect(),
            max_tool_rounds: u32::MAX,
            tool_timeout: script.tool_timeout().unwrap_or(Settings::default().tool_timeout),
            limits: unlimited,
            // Whether the asker was there when the model was asked is not recorded.
            return_timeout: Duration::ZERO,
            ..Settings::default()
        };
        let mut listener = "listener".to_owned();
        while script.people().contains(listener.as_str()) {
            listener.push('-');
        }
        Self {
            script,
            engine: Engine::new(settings.clone(), [0; 32], Time::default()),
            settings,
            now: Time::default(),
            listener,
            is_listening: false,
            saved: Vec::new(),
            held: VecDeque::new(),
            request: None,
            begun_runs: VecDeque::new(),
            runs: BTreeMap::new(),
            answers: BTreeMap::new(),
            running: None,
            ran: None,
            ends: BTreeMap::new(),
            ended: BTreeMap::new(),
            turn: Turn::default(),
            stanza: 0,
        }
    }

    fn take(&mut self, index: usize, step: &Step) {
        let fact = match step {
            Step::Sent(sent) => return self.sent(index, &sent.body),
            Step::Fact(fact) => fact,
        };
        self.now = self.now.max(time_of(fact).unwrap_or_default());
        match fact {
            Record::Joined(joined) => {
                let (identity, name) = (joined.identity.clone(), String::new());
                self.happens(Input::Joined(Participant { identity, name }));
                self.listen();
            }
            Record::Message(message) => self.message(message),
            Record::Variation(variation) => self.variation(variation),
            Record::Begun(begun) => self.begun(begun),
            Record::ToolBegun(_) => self.call_tools(index),
            Record::ToolEnded(ended) => self.tool_ended(ended),
            Record::BrokenOff(_) => self.is_killed(),
            Record::Answer(answer) => self.ends(index, answer),
            Record::Stopped(stopped) => self.stopped(stopped),
            Record::ToolAsked(_) | Record::Reasoning(_) | Record::Reserved { .. } | Record::Stanza(_) => {}
        }
    }

    fn message(&mut self, message: &Message) {
        let Message { id, previous, from, text, chat, .. } = message.clone();
        if chat {
            return self.happens(Input::Chat { from, id, text });
        }
        let previous_id = previous.map(|id| self.answers.get(&id).cloned().unwrap_or(id));
        let body = UserMessage {
            id,
            previous_id,
            conversation_id: String::new(),
            content: text,
            timestamp: None,
            attachments: None,
        };
        self.receives(from, Body::UserMessage(body));
    }

    fn variation(&mut self, variation: &Variation) {
        let Variation { from, target, mode, text, .. } = variation.clone();
        // It was accepted, so what it is about was known.
        let script = self.script;
        self.confirm_to(script.message_of(&target));
        let target_id = self.answers.get(&target).cloned().unwrap_or(target);
        let body = ControlVariation { conversation_id: String::new(), target_id, mode, new_content: text };
        self.receives(from, Body::ControlVariation(body));
    }

    fn begun(&mut self, begun: &Begun) {
        if self.ran.is_some() {
            // It was begun before and did not end.
            self.is_killed();
        }
        self.ran = Some(begun.message.clone());
        self.turn = Turn { answer: begun.answer.clone(), now: self.turn.now, ..Turn::default() };
        if !self.runs_now(&begun.message) {
            self.confirm_to(&begun.message);
        }
        self.match_answer(&begun.answer, &begun.message);
    }

    fn match_answer(&mut self, recorded: &str, of: &str) {
        if let Some((message, answer)) = &self.running
            && message == of
        {
            self.answers.insert(recorded.to_owned(), answer.clone());
        }
    }

    /// The model calls the tools of which the records at this place tell.
    fn call_tools(&mut self, index: usize) {
        let mut calls = Vec::new();
        for step in &self.script.steps[index..] {
            match step {
                Step::Fact(Record::ToolBegun(tool)) => calls.push(tool),
                Step::Sent(Sent { body: Body::ToolUseRequest(_), .. }) => {}
                _ => break,
            }
        }
        calls.retain(|tool| !self.runs.contains_key(&tool.call.id));
        // All of one response were called by the first of these records.
        let Some(first) = calls.first() else { return };
        self.now = self.now.max(first.at);
        self.turn.used_tools = true;
        for tool in &calls {
            let arguments = Ok(self.script.arguments(tool));
            let call = ToolCall { id: tool.call.id.clone(), name: tool.call.name.clone(), arguments };
            self.model_says(Chunk::ToolCall(call));
        }
        (self.turn.words_ahead, self.turn.thoughts_ahead) = (0, 0);
        self.model_finishes(Finish::ToolCalls);
        for tool in calls {
            let run = self.begun_runs.pop_front();
            // One that did not begin is matched with none.
            self.runs.insert(tool.call.id.clone(), run.unwrap_or(RunId(u64::MAX)));
        }
        self.begun_runs.clear();
    }

    fn call_no_tool(&mut self) {
        let (id, name, arguments) = (String::new(), String::new(), Ok(Map::new()));
        self.model_says(Chunk::ToolCall(ToolCall { id, name, arguments }));
        self.model_finishes(Finish::ToolCalls);
    }

    fn tool_ended(&mut self, ended: &ToolEnded) {
        let Some(&run) = self.runs.get(&ended.call) else { return };
        match self.script.ended(ended) {
            Ended::With(outcome) => self.happens(Input::Tool { run, outcome }),
            Ended::Late => {
                self.now = self.now.max(self.engine.poll_timeout().unwrap_or_default());
                self.happens(Input::Wake);
            }
            Ended::Killed if self.ran.is_some() => self.is_killed(),
            // By the end of its turn, or with the agent just now.
            Ended::Cancelled | Ended::Killed => {}
        }
    }

    /// A turn ends as it ended.
    fn ends(&mut self, index: usize, answer: &Answer) {
        // A greeting ends by itself.
        let Some(message) = &answer.message else { return };
        *self.ended.entry(message.clone()).or_default() += 1;
        if self.ran.as_ref() == Some(message) && self.was_killed_before(answer) {
            self.is_killed();
        }
        // What ends one that waits may end the running one with it, which has said all by then.
        if let Next::End(rest) = self.next(index, |_| false)
            && self.ran.as_ref() != Some(message)
        {
            while self.speak_on(&rest) {}
        }
        if self.ran.take_if(|ran| ran == message).is_some() && !self.has_ended(message) {
            if answer.answer.is_some() && !answer.announced && !self.turn.used_tools {
                // A turn that only called for tools which there are not has an answer, and nothing else tells of it.
                self.call_no_tool();
            }
            if let Some(rest) = answer.text.strip_prefix(&self.turn.said) {
                self.speak(rest);
            }
        }
        match answer.end {
            TurnEnd::Answered => {
                // One that only thought is asked once more.
                while self.runs_now(message) && self.request.is_some() && !self.has_ended(message) {
                    self.model_finishes(Finish::Stop);
                }
            }
            TurnEnd::Superseded => while !self.has_ended(message) && self.confirm_next() {},
            TurnEnd::Stopped if self.has_ended(message) => {}
            TurnEnd::Stopped => {
                let held = self.held.iter().find(|held| held.message == *message);
                let id = held.map_or_else(|| message.clone(), |held| held.id.clone());
                self.stop(Some(id).filter(|_| !self.runs_now(message)));
                if !self.has_ended(message) {
                    self.confirm_to(message);
                }
            }
            TurnEnd::Failed => self.fail(message),
        }
        if let Some(id) = &answer.answer
            && let Some(now) = self.last_answer(message)
        {
            self.answers.insert(id.clone(), now);
        }
    }

    /// Whether the recorded thoughts were another agent's, which was killed, so that the next one gave the message up before
    /// its turn.
    fn was_killed_before(&self, answer: &Answer) -> bool {
        answer.steps < self.turn.then.steps
    }

    fn fail(&mut self, message: &str) {
        if self.has_ended(message) {
            return;
        }
        if !self.runs_now(message) {
            self.confirm_to(message);
        }
        if !self.runs_now(message) {
            return;
        }
        if let Some(request) = self.request.take() {
            let failure = Failure { message: "It failed.".to_owned(), recoverable: true };
            self.happens(Input::Model { request, result: Err(failure) });
        } else {
            // While tools ran: the agent had to leave.
            self.engine.give_up("It failed.");
            self.settle();
        }
    }

    /// What was still being stored when it was stopped ends once it is. What ended at once is told next, with what was said until
    /// then.
    fn stopped(&mut self, stopped: &Stopped) {
        for id in &stopped.coming {
            let id = self.answers.get(id).unwrap_or(id).clone();
            self.stop(Some(id));
        }
    }

    fn stop(&mut self, target_id: Option<String>) {
        let (conversation_id, stop_type) = (String::new(), StopType::Generation);
        let stop = ControlStop { conversation_id, target_id, reason: None, stop_type };
        self.receives(self.listener.clone(), Body::ControlStop(stop));
    }

    /// Another engine goes on from what was stored.
    fn is_killed(&mut self) {
        let lowest = self.stanzas().map(|stanza| stanza.number).min().unwrap_or(0);
        let is_fact = |record: &&Record| !matches!(record, Record::Stanza(_) | Record::Reserved { .. });
        let records: Vec<Record> = self.saved.iter().filter(is_fact).cloned().collect();
        let unfinished = match History::unfinished_since(&records) {
            Some(since) => self.stanzas().filter(|stanza| stanza.number < since).cloned().collect(),
            None => Vec::new(),
        };
        let mut last_kept: BTreeMap<Audience, i32> = BTreeMap::new();
        for stanza in self.stanzas() {
            last_kept.insert(stanza.audience.clone(), stanza.number);
        }
        let last_kept = last_kept.into_iter().collect();
        let number = lowest.saturating_sub(JUMP);
        let history = History { number, reserved: i32::MIN, last_kept, records, unfinished };
        // Ids must not repeat: a seed for each of them.
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&(self.saved.len() as u64).to_le_bytes());
        self.engine = Engine::restore(self.settings.clone(), seed, self.now, history);
        self.held.clear();
        (self.request, self.running, self.ran) = (None, None, None);
        self.turn = Turn::default();
        self.is_listening = false;
        self.happens(Input::Wake);
        self.listen();
    }

    /// From here on someone takes everything.
    fn listen(&mut self) {
        if !std::mem::replace(&mut self.is_listening, true) {
            let features = Some(vec!["turn_meta".to_owned()]);
            let configuration = Configuration { features, ..Configuration::default() };
            self.receives(self.listener.clone(), Body::Configuration(configuration));
        }
    }

    fn receives(&mut self, from: String, body: Body) {
        self.stanza = self.stanza.saturating_add(1);
        let envelope = Envelope { stanza: self.stanza, conversation: None, meta: Map::new(), body };
        self.happens(Input::Received { from, envelope: Ok(envelope) });
    }

    /// The store has all up to what is about this message.
    fn confirm_to(&mut self, message: &str) {
        if let Some(place) = self.held.iter().position(|held| held.message == message) {
            for _ in 0..=place {
                self.confirm_next();
            }
        }
    }

    /// The store has the next of what it was given; false if there is none.
    fn confirm_next(&mut self) -> bool {
        let Some(Held { ticket, .. }) = self.held.pop_front() else { return false };
        self.happens(Input::Stored { ticket, success: true });
        true
    }

    fn runs_now(&self, message: &str) -> bool {
        self.running.as_ref().is_some_and(|(running, _)| running == message)
    }

    /// Whether a message has ended as often as it had by now.
    fn has_ended(&self, message: &str) -> bool {
        self.ends.get(message) >= self.ended.get(message)
    }

    fn last_answer(&self, of: &str) -> Option<String> {
        self.saved.iter().rev().find_map(|record| match record {
            Record::Answer(Answer { message: Some(message), answer, .. }) if message == of => answer.clone(),
            _ => None,
        })
    }

    fn stanzas(&self) -> impl Iterator<Item = &Stanza> {
        self.saved.iter().filter_map(|record| match record {
            Record::Stanza(stanza) => Some(stanza),
            _ => None,
        })
    }

    fn happens(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        self.settle();
    }

    /// Does what the engine says: stores everything at once, but for what people wait for.
    fn settle(&mut self) {
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Save { ticket, record, .. } => self.save(ticket, record),
                Output::Generate { request, .. } => self.request = Some(request),
                Output::CancelGenerate(request) => {
                    self.request.take_if(|running| *running == request);
                }
                Output::RunTool { run, .. } => self.begun_runs.push_back(run),
                _ => {}
            }
        }
    }

    fn save(&mut self, ticket: Option<Ticket>, record: Record) {
        let waits_for = match &record {
            Record::Message(message) => Some((message.id.clone(), message.id.clone())),
            Record::Variation(variation) => {
                Some((self.message_now(&variation.target), variation.target.clone()))
            }
            Record::Begun(begun) => {
                self.running = Some((begun.message.clone(), begun.answer.clone()));
                self.turn.now = Count::default();
                None
            }
            Record::Answer(Answer { message: Some(message), .. }) => {
                *self.ends.entry(message.clone()).or_default() += 1;
                self.running.take_if(|(running, _)| running == message);
                None
            }
            Record::Stanza(stanza) => {
                self.count(stanza);
                None
            }
            _ => None,
        };
        self.saved.push(record);
        match (ticket, waits_for) {
            (Some(ticket), Some((message, id))) => self.held.push_back(Held { ticket, message, id }),
            (Some(ticket), None) => self.engine.handle(self.now, Input::Stored { ticket, success: true }),
            (None, _) => {}
        }
    }

    /// The message that something of the new engine is about.
    fn message_now(&self, id: &str) -> String {
        let then = self.answers.iter().find(|(_, now)| *now == id).map_or(id, |(then, _)| then);
        self.script.message_of(then).to_owned()
    }
}
