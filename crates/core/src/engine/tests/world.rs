//! A room full of people who do anything at any time, a model and a store that do as well; and the rules that hold
//! whatever they do. Actions are four bytes each, so that properties and the fuzz target (`fuzz/`) share them.
//!
//! Every output is looked at when it comes (`world/rules.rs`); a broken rule panics and says which.

// The fuzz target includes this file by its path, from where the module would be looked for elsewhere.
#[path = "world/hooks.rs"]
mod hooks;
#[path = "world/rules.rs"]
mod rules;
#[path = "world/tools.rs"]
mod tools;

use super::shelf::Shelf;
use super::sotto_core::engine::Engine;
use super::sotto_core::engine::event::{Input, Output, Participant, RequestId, RunId, Ticket, ToolOutcome};
use super::sotto_core::engine::hook::Ruling;
use super::sotto_core::engine::people::Audience;
use super::sotto_core::engine::record::{self, Record};
use super::sotto_core::engine::settings::{Interruption, Settings};
use super::sotto_core::model::{Chunk, Failure, Finish, ToolCall, Usage};
use super::sotto_core::time::Time;
use super::sotto_core::wire::body::{
    Body, Configuration, ControlStop, ControlVariation, StopType, UserMessage, VariationMode,
};
use super::sotto_core::wire::{Envelope, Malformed};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Who is there.
const PEOPLE: [&str; 3] = ["anna", "bob", "carl"];
/// Stands in every thought and nowhere else.
const THOUGHT: char = 'Ψ';
const THOUGHTS: [&str; 6] =
    ["Ψ", "Ψ so. Ψ then.\n\n", "ΨΨ", "1. Ψ first\n2. Ψ second\n", "Ψ the key is opense", "same Ψ"];
const WORDS: [&str; 8] =
    ["", " ", "One. ", "Two and", " 3.14 e.g. four! ", "\n\n", "fünf 😀 六。", "```\nx = 1;\n```\n"];
const FEATURES: [&str; 5] = ["streaming", "reasoning_deltas", "turn_meta", "reasoning_steps", "tool_consent"];

/// One answer, as far as it has come.
#[derive(Debug, Default)]
struct Answer {
    sentences: i32,
    text: String,
    transcript: String,
    transcribing: Option<bool>,
    last: bool,
    /// What the store was told.
    stored: Option<String>,
}

pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) log: Vec<Output>,
    now: Time,
    stanzas: [i32; 3],
    draining: bool,
    /// Told to leave: what the store takes in from now on is not accepted any more.
    left: bool,
    /// What the store has not answered, oldest first, what it has, and what it is to read once it has stored so much.
    unconfirmed: VecDeque<(Option<Ticket>, Record)>,
    confirmed: BTreeSet<Ticket>,
    pub(super) shelf: Shelf,
    stored: usize,
    asked: VecDeque<(usize, Output)>,
    tickets_of_stanzas: BTreeMap<i32, Ticket>,
    numbers: BTreeMap<i32, Vec<u8>>,
    last_number: i32,
    /// The last kept stanza that each got, and how often each may get older ones because it asked for them.
    last_got: BTreeMap<String, i32>,
    may_go_back: BTreeMap<String, usize>,
    anyone_asked: bool,
    last_kept: BTreeMap<Audience, i32>,
    request: Option<RequestId>,
    runs: BTreeSet<RunId>,
    accepted: usize,
    ends_stored: usize,
    ended: usize,
    ends_of: BTreeMap<String, usize>,
    accepted_messages: BTreeSet<String>,
    /// Which message a client's stanza was, and which have been acknowledged.
    sent_as: BTreeMap<(String, i32), String>,
    acknowledged: BTreeSet<String>,
    acknowledgements: BTreeSet<(String, i32)>,
    answers: BTreeMap<String, Answer>,
    greetings: BTreeSet<String>,
    steps: BTreeMap<String, i32>,
    uses: tools::Uses,
    judges: hooks::Judges,
}

/// Settings under which much happens soon. The first byte of an action sequence chooses between them.
pub(super) fn settings(choice: u8) -> Settings {
    let mut settings = Settings {
        conversation: "room".to_owned(),
        tools: tools::tools(),
        max_tool_rounds: 2,
        tool_timeout: Duration::from_secs(1),
        max_thinking: Duration::from_secs(2),
        max_thinking_chars: 60,
        max_answer_chars: 300,
        step_chars: 20,
        ..Settings::default()
    };
    settings.limits.waiting = 4;
    settings.client_tools = choice & 8 != 0;
    settings.hooks = hooks::hooks(choice);
    if choice & 1 != 0 {
        settings.interruption = Interruption::Queue;
    }
    if choice & 2 != 0 {
        settings.greeting = Some("Welcome. Ask.".to_owned());
    }
    if choice & 4 != 0 {
        settings.budget.turn.seconds = Some(3);
        settings.budget.turn.tool_calls = Some(2);
        settings.budget.conversation.tokens = Some(5_000);
    }
    settings
}

impl World {
    pub(super) fn new(settings: Settings, seed: u8) -> Self {
        let mut shelf = Shelf::default();
        let judging = settings.hooks;
        let mut world = Self {
            engine: Engine::restore(settings, [seed; 32], Time(1_000_000), shelf.history()),
            log: Vec::new(),
            now: Time(1_000_000),
            stanzas: [0; 3],
            draining: false,
            left: false,
            unconfirmed: VecDeque::new(),
            confirmed: BTreeSet::new(),
            shelf,
            stored: 0,
            asked: VecDeque::new(),
            tickets_of_stanzas: BTreeMap::new(),
            numbers: BTreeMap::new(),
            last_number: 0,
            last_got: BTreeMap::new(),
            may_go_back: BTreeMap::new(),
            anyone_asked: false,
            last_kept: BTreeMap::new(),
            request: None,
            runs: BTreeSet::new(),
            accepted: 0,
            ends_stored: 0,
            ended: 0,
            ends_of: BTreeMap::new(),
            accepted_messages: BTreeSet::new(),
            sent_as: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            acknowledgements: BTreeSet::new(),
            answers: BTreeMap::new(),
            greetings: BTreeSet::new(),
            steps: BTreeMap::new(),
            uses: tools::Uses::default(),
            judges: hooks::Judges::new(judging),
        };
        world.drain();
        world
    }

    /// Does something. Any four bytes mean something.
    pub(super) fn act(&mut self, [what, who, a, b]: [u8; 4]) {
        let index = usize::from(who) % PEOPLE.len();
        match what % 32 {
            0..=2 => {
                let id = format!("m{}", a % 16);
                let content = format!("{} {}", WORDS[2], b % 4);
                let previous_id = (b & 64 != 0).then(|| self.some_id(b));
                let stanza = self.send(index, user_message(id.clone(), previous_id, content));
                self.sent_as.insert((PEOPLE[index].to_owned(), stanza), id);
            }
            3 => {
                let (from, id) = (PEOPLE[index].to_owned(), format!("c{}", a % 8));
                self.handle(Input::Chat { from, id, text: WORDS[usize::from(b) % WORDS.len()].to_owned() });
            }
            4 => {
                let stop_type = [StopType::Generation, StopType::All, StopType::Speech][usize::from(a % 3)];
                let target_id = (b & 1 != 0).then(|| self.some_id(b));
                let stop = ControlStop { conversation_id: String::new(), target_id, reason: None, stop_type };
                self.send(index, Body::ControlStop(stop));
            }
            5 | 6 => {
                let mode = [VariationMode::Regenerate, VariationMode::Edit, VariationMode::Continue];
                let variation = ControlVariation {
                    conversation_id: String::new(),
                    target_id: self.some_id(b),
                    mode: mode[usize::from(a % 3)],
                    new_content: (a & 4 == 0).then(|| format!("edited {b}")),
                };
                self.send(index, Body::ControlVariation(variation));
            }
            7 => {
                let listed = |bit: &usize| a & (1 << bit) != 0;
                let features = (0..FEATURES.len()).filter(listed).map(|bit| FEATURES[bit].to_owned());
                let features = (b & 1 == 0).then(|| features.collect());
                let last_sequence_seen = (b & 2 != 0).then(|| i32::from(a));
                if last_sequence_seen.is_some() {
                    self.anyone_asked = true;
                    *self.may_go_back.entry(PEOPLE[index].to_owned()).or_default() += 1;
                }
                let wants = Configuration { last_sequence_seen, features, ..Configuration::default() };
                self.send(index, Body::Configuration(wants));
            }
            8 => {
                let malformed = Malformed { reason: "broken".into(), stanza: None, kind: None, id: None };
                self.handle(Input::Received { from: PEOPLE[index].to_owned(), envelope: Err(malformed) });
            }
            9 if a & 1 == 0 => {
                // What it sent is answered all the same, but it is owed no acknowledgement any more.
                let sent = self.sent_as.iter().filter(|((from, _), _)| from == PEOPLE[index]);
                self.acknowledged.extend(sent.map(|(_, id)| id.clone()));
                self.handle(Input::Left { identity: PEOPLE[index].to_owned() });
            }
            9 => {
                let identity = PEOPLE[index].to_owned();
                self.handle(Input::Joined(Participant { name: identity.to_uppercase(), identity }));
            }
            10 | 11 => {
                self.model(a, Ok(Chunk::Reasoning(THOUGHTS[usize::from(b) % THOUGHTS.len()].to_owned())));
            }
            12..=14 => self.model(a, Ok(Chunk::Text(WORDS[usize::from(b) % WORDS.len()].to_owned()))),
            15 => {
                let name = tools::CALLED[usize::from(b / 4) % tools::CALLED.len()].to_owned();
                let arguments = Map::from_iter([("n".to_owned(), Value::from(a))]);
                let arguments = if b % 4 != 0 { Ok(arguments) } else { Err("[".to_owned()) };
                self.model(a, Ok(Chunk::ToolCall(ToolCall { id: format!("call{b}"), name, arguments })));
            }
            16 => {
                let usage = Usage { input: u64::from(b), output: u64::from(a), ..Usage::default() };
                self.model(a, Ok(Chunk::Usage(usage)));
            }
            17 => {
                let finish = [Finish::Stop, Finish::ToolCalls, Finish::Length, Finish::Filtered];
                self.model(a, Ok(Chunk::Finish(finish[usize::from(b % 4)])));
            }
            18 => self.model(a, Err(Failure { message: "broken".to_owned(), recoverable: b & 1 == 0 })),
            19 => self.tool_acts(a, b),
            20 | 21 => self.confirm(usize::from(a) % 4 + 1, b % 8 != 0),
            22 if b == 0 => self.shelf.keep_only(usize::from(a) % 8),
            22 => self.pass(Duration::from_millis(u64::from(a) * 10)),
            23 => self.act_on_hooks(a, b),
            24..=30 => self.act_on_tools(index, [(what % 32 - 24) / 2, a, b]),
            _ if a == 0 && b == 0 => {
                self.draining = true;
                self.handle(Input::Drain);
            }
            _ if a % 16 == 1 && b < 16 => {
                self.left = true;
                self.handle(Input::Leave);
                assert!(self.engine.is_idle(), "nothing is under way when the agent leaves");
                assert_eq!(self.ended, self.accepted, "nothing that was accepted is left without an end");
            }
            _ => self.confirm(usize::MAX, true),
        }
    }

    /// Lets everything come to its end, and checks what must be true then.
    pub(super) fn settle(&mut self) {
        for _ in 0..1_000 {
            self.confirm(usize::MAX, true);
            if let Some(request) = self.request.take() {
                self.handle(Input::Model { request, result: Ok(Chunk::Finish(Finish::Stop)) });
            } else if let Some(&run) = self.runs.first() {
                self.tool(run, ToolOutcome::Done(Value::Null));
            } else if let Some(question) = self.judges.oldest() {
                self.rule(question, Some(Ruling::Allow));
            } else if self.unconfirmed.is_empty() {
                if self.engine.is_idle() {
                    break;
                }
                // Someone is to answer, and does not.
                self.pass(Duration::from_secs(100));
            }
        }
        assert!(self.engine.is_idle(), "it comes to its end");
        assert_eq!(self.engine.poll_timeout(), None, "nothing is waited for when nothing is under way");
        assert_eq!(self.ended, self.ends_stored, "every end is stored once");
        if self.left || !self.draining {
            assert_eq!(self.ended, self.accepted, "everything accepted ends exactly once");
            for message in &self.accepted_messages {
                assert!(self.ends_of.contains_key(message), "{message} ends");
            }
        }
        for (id, answer) in &self.answers {
            assert!(answer.last, "{id} has a last sentence");
            assert_eq!(answer.stored.as_ref(), Some(&answer.text), "{id} is stored as it was said");
            assert_eq!(answer.transcript, answer.text, "the transcript of {id} is the answer");
            assert_ne!(answer.transcribing, Some(true), "the transcript of {id} has ended");
        }
    }

    /// Time passes; the engine is woken when it asks for it.
    pub(super) fn pass(&mut self, duration: Duration) {
        let until = self.now + duration;
        while let Some(due) = self.engine.poll_timeout().filter(|&due| due <= until) {
            self.now = self.now.max(due);
            self.handle(Input::Wake);
            assert!(self.engine.poll_timeout().is_none_or(|next| next > due), "waking makes progress");
        }
        self.now = until;
    }

    pub(super) fn handle(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        self.drain();
    }

    fn send(&mut self, index: usize, body: Body) -> i32 {
        self.stanzas[index] += 1;
        let stanza = self.stanzas[index];
        let envelope = Envelope { stanza, conversation: None, meta: Map::new(), body };
        self.handle(Input::Received { from: PEOPLE[index].to_owned(), envelope: Ok(envelope) });
        stanza
    }

    /// The model speaks, now and then for a request that is over.
    pub(super) fn model(&mut self, chance: u8, result: Result<Chunk, Failure>) {
        let request = match self.request {
            Some(request) if !chance.is_multiple_of(16) => request,
            _ => RequestId(u64::from(chance % 8)),
        };
        if self.request == Some(request) && matches!(result, Ok(Chunk::Finish(_)) | Err(_)) {
            self.request = None;
        }
        self.handle(Input::Model { request, result });
    }

    /// A tool ends or says how far it is, now and then one that nobody waits for.
    fn tool_acts(&mut self, a: u8, b: u8) {
        let known = self.runs.iter().nth(usize::from(a) % 3).copied();
        let run = known.unwrap_or(RunId(u64::from(b)));
        let outcome = match b % 3 {
            _ if b >= 192 => {
                let text = WORDS[usize::from(b) % WORDS.len()].repeat(usize::from(a));
                return self.handle(Input::Progress { run, text });
            }
            0 => ToolOutcome::Done(Value::from(b)),
            1 => ToolOutcome::Failed("broken".to_owned()),
            _ => ToolOutcome::InvalidParameters("wrong".to_owned()),
        };
        self.tool(run, outcome);
    }

    fn tool(&mut self, run: RunId, outcome: ToolOutcome) {
        self.runs.remove(&run);
        self.handle(Input::Tool { run, outcome });
    }

    /// The store answers for the oldest records.
    pub(super) fn confirm(&mut self, count: usize, success: bool) {
        for _ in 0..count.min(self.unconfirmed.len()) {
            let Some((ticket, record)) = self.unconfirmed.pop_front() else { return };
            // What has happened is tried again until it is stored.
            let success = success || !record.may_fail();
            match &record {
                Record::Message(record::Message { id, .. }) if success && !self.left => {
                    self.accepted += 1;
                    self.accepted_messages.insert(id.clone());
                }
                Record::Variation(_) if success && !self.left => self.accepted += 1,
                _ => {}
            }
            if success {
                self.shelf.put(record);
            }
            if let Some(ticket) = ticket {
                self.confirmed.insert(ticket);
                self.handle(Input::Stored { ticket, success });
            }
            self.stored += 1;
            self.read();
        }
        self.read();
    }

    /// The store reads what it was asked for before it took in what has come since.
    fn read(&mut self) {
        while let Some(&(after_storing, Output::Replay { ticket, after, until, .. })) = self.asked.front()
            && after_storing <= self.stored
        {
            self.asked.pop_front();
            let page = Some(self.shelf.page(after, until, 3));
            self.handle(Input::Replayed { ticket, page });
        }
    }

    /// The id of some message or answer, or of none.
    fn some_id(&self, chance: u8) -> String {
        let answers = self.answers.len();
        match (usize::from(chance) / 2) % (answers + 17) {
            index if index < 16 => format!("m{index}"),
            16 => "nothing".to_owned(),
            index => self.answers.keys().nth(index - 17).cloned().unwrap_or_default(),
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.engine.poll() {
            self.look_at(&output);
            self.log.push(output);
        }
    }
}

fn user_message(id: String, previous_id: Option<String>, content: String) -> Body {
    let conversation_id = String::new();
    Body::UserMessage(UserMessage {
        id,
        previous_id,
        conversation_id,
        content,
        timestamp: None,
        attachments: None,
    })
}
