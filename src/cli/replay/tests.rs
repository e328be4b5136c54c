//! Conversations of real engines, recorded as a store would have them, must come out the same again: written by hand for
//! each thing that people do, and at random.

use super::compare::{Outcome, compare};
use super::rerun::rerun;
use super::script::Script;
use crate::cli::exported::Exported;
use crate::store::Entry;
use serde_json::{Map, json};
use sotto_core::engine::Engine;
use sotto_core::engine::event::{Input, Output, Participant, RequestId, RunId, Ticket, ToolOutcome};
use sotto_core::engine::record::{History, Record, Stanza};
use sotto_core::engine::settings::{Interruption, Settings, Visibility};
use sotto_core::model::{Chunk, Failure, Finish, ToolCall, ToolSpec};
use sotto_core::time::Time;
use sotto_core::wire::body::{
    Body, Configuration, ControlStop, ControlVariation, StopType, UserMessage, VariationMode,
};
use sotto_core::wire::{self, Envelope};
use std::collections::VecDeque;
use std::time::Duration;

/// An agent whose store keeps everything, and in which things happen as a test says.
struct Recorder {
    settings: Settings,
    engine: Engine,
    now: Time,
    saved: Vec<Record>,
    /// What the store has not confirmed yet.
    unconfirmed: VecDeque<Ticket>,
    request: Option<RequestId>,
    runs: Vec<RunId>,
    sent: i32,
    restarts: u8,
}

impl Recorder {
    fn new(settings: Settings) -> Self {
        let tool = |name: &str, repeatable| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({}),
            repeatable,
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

    fn happens(&mut self, input: Input) {
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
    fn confirms(&mut self, most: usize) {
        for _ in 0..most {
            let Some(ticket) = self.unconfirmed.pop_front() else { return };
            self.happens(Input::Stored { ticket, success: true });
        }
    }

    fn settles(&mut self) {
        self.confirms(usize::MAX);
    }

    fn joins(&mut self, identity: &str) {
        let participant = Participant { identity: identity.to_owned(), name: String::new() };
        self.happens(Input::Joined(participant));
    }

    fn sends(&mut self, from: &str, body: Body) {
        self.sent += 1;
        let envelope = Envelope { stanza: self.sent, conversation: None, meta: Map::new(), body };
        self.happens(Input::Received { from: from.to_owned(), envelope: Ok(envelope) });
    }

    fn writes(&mut self, from: &str, id: &str) {
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

    fn can(&mut self, from: &str, features: &[&str]) {
        let features = Some(features.iter().map(|&feature| feature.to_owned()).collect());
        self.sends(from, Body::Configuration(Configuration { features, ..Configuration::default() }));
    }

    fn stops(&mut self, from: &str, target: Option<&str>, stop_type: StopType) {
        let (conversation_id, target_id) = (String::new(), target.map(str::to_owned));
        self.sends(
            from,
            Body::ControlStop(ControlStop { conversation_id, target_id, reason: None, stop_type }),
        );
    }

    fn varies(&mut self, from: &str, target: &str, mode: VariationMode) {
        let (conversation_id, target_id) = (String::new(), target.to_owned());
        let new_content = (mode == VariationMode::Edit).then(|| "Something else.".to_owned());
        self.sends(
            from,
            Body::ControlVariation(ControlVariation { conversation_id, target_id, mode, new_content }),
        );
    }

    /// The model goes on, if it was asked.
    fn says(&mut self, chunk: Chunk) {
        let Some(request) = self.request else { return };
        if matches!(chunk, Chunk::Finish(_)) {
            self.request = None;
        }
        self.happens(Input::Model { request, result: Ok(chunk) });
    }

    fn thinks(&mut self, text: &str) {
        self.says(Chunk::Reasoning(text.to_owned()));
    }

    fn speaks(&mut self, text: &str) {
        self.says(Chunk::Text(text.to_owned()));
    }

    fn calls(&mut self, name: &str) {
        let arguments = json!({"q": "<think>"}).as_object().cloned().ok_or_else(String::new);
        self.says(Chunk::ToolCall(ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments }));
    }

    fn finishes(&mut self) {
        self.says(Chunk::Finish(Finish::Stop));
    }

    fn fails(&mut self) {
        let Some(request) = self.request.take() else { return };
        let failure = Failure { message: "Away.".to_owned(), recoverable: true };
        self.happens(Input::Model { request, result: Err(failure) });
    }

    fn tool_gives(&mut self, outcome: ToolOutcome) {
        if !self.runs.is_empty() {
            let run = self.runs.remove(0);
            self.happens(Input::Tool { run, outcome });
        }
    }

    fn waits(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.happens(Input::Wake);
    }

    /// The process is killed, and another one goes on.
    fn restarts(&mut self) {
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

    fn exported(&self) -> Exported {
        let kept = self.saved.iter().filter(|record| !matches!(record, Record::Reserved { .. }));
        let entries = kept.map(|record| Entry { at: Time(0), record: record.clone() });
        Exported { conversation: "room".to_owned(), entries: entries.collect() }
    }

    /// An id of the last of the agent's messages.
    fn last_answer(&self) -> String {
        let answer = |record: &Record| match record {
            Record::Answer(answer) => answer.answer.clone(),
            _ => None,
        };
        self.saved.iter().rev().find_map(answer).unwrap_or_default()
    }
}

fn replayed(exported: Exported) -> Outcome {
    let script = Script::of(exported);
    let found = rerun(&script, Settings::default().step_chars);
    compare(&script, found)
}

/// How many stanzas were the same.
fn same(recorder: &Recorder) -> usize {
    match replayed(recorder.exported()) {
        Outcome::Same { stanzas, not_kept: 0 } => stanzas,
        Outcome::Same { not_kept, .. } => panic!("{not_kept} messages were not compared"),
        Outcome::Different(difference) => panic!("{difference}"),
    }
}

fn stanzas(recorder: &Recorder) -> usize {
    recorder.saved.iter().filter(|record| matches!(record, Record::Stanza(_))).count()
}

fn talk() -> Recorder {
    let greeting = Some("Welcome. I am here.".to_owned());
    let mut recorder = Recorder::new(Settings { greeting, ..Settings::default() });
    recorder.joins("anna");
    recorder.settles();
    recorder
}

#[test]
fn an_exchange_with_thoughts_tools_and_figures() {
    let mut it = talk();
    it.can("anna", &["streaming", "turn_meta"]);
    it.can("bob", &[]);
    it.writes("anna", "m1");
    it.settles();
    for text in ["Let me", " see.\n\n1. Look", " it up\n2. Tell\n", "the", " truth"] {
        it.thinks(text);
    }
    it.speaks("I will look");
    it.calls("time");
    it.calls("nothing_like_it");
    it.calls("mail");
    it.finishes();
    it.settles();
    it.tool_gives(ToolOutcome::Done(json!({"now": "12:00", "zone": ["UTC"]})));
    it.tool_gives(ToolOutcome::Failed("no such address".to_owned()));
    it.settles();
    it.thinks("Good.");
    it.speaks("It is 3.14 o'clock. Mr. ");
    it.settles();
    it.speaks("Smith knows.\n");
    it.finishes();
    it.settles();
    assert_eq!(same(&it), stanzas(&it));
    assert!(stanzas(&it) > 15, "{}", stanzas(&it));
}

#[test]
fn interruptions_stops_failures_and_waiting() {
    let mut it = talk();
    it.writes("anna", "m1");
    it.settles();
    it.speaks("Once upon a time. There");
    it.writes("bob", "m2");
    it.writes("anna", "m3");
    it.speaks(" was one more word before the store had it");
    it.settles();
    // Now bob is answered; anna waits, and changes her mind.
    it.thinks("Bob asks");
    it.writes("anna", "m4");
    it.settles();
    it.stops("anna", None, StopType::Generation);
    it.settles();
    it.speaks("Well. I ");
    it.fails();
    it.settles();
    it.writes("anna", "m5");
    it.stops("anna", Some("m5"), StopType::Generation);
    it.settles();
    it.writes("anna", "m6");
    it.settles();
    it.thinks("Only thoughts.");
    it.finishes();
    it.finishes();
    it.settles();
    it.writes("anna", "m7");
    it.settles();
    it.calls("time");
    it.finishes();
    it.settles();
    it.waits(31);
    it.settles();
    it.speaks("Too late.\n\n");
    it.stops("bob", None, StopType::All);
    it.settles();
    assert_eq!(same(&it), stanzas(&it));
}

#[test]
fn variations_of_all_kinds() {
    let mut it = talk();
    it.writes("anna", "m1");
    it.settles();
    it.speaks("Blue.");
    it.finishes();
    it.settles();
    let blue = it.last_answer();
    for (target, mode) in [
        (blue.as_str(), VariationMode::Regenerate),
        ("m1", VariationMode::Edit),
        (blue.as_str(), VariationMode::Continue),
    ] {
        it.varies("anna", target, mode);
        it.settles();
        it.speaks("And another");
        it.finishes();
        it.settles();
    }
    it.varies("bob", "m1", VariationMode::Regenerate);
    it.settles();
    it.speaks("Half of");
    it.varies("anna", "m1", VariationMode::Regenerate);
    it.settles();
    it.finishes();
    it.settles();
    assert_eq!(same(&it), stanzas(&it));
}

#[test]
fn an_agent_that_was_killed_at_any_moment() {
    for moment in 0..7 {
        let mut it = talk();
        it.writes("anna", "m1");
        for step in 0..7 {
            if step == moment {
                it.restarts();
                it.settles();
            }
            match step {
                0 | 5 => it.settles(),
                1 => it.thinks("First.\n\nSecond"),
                2 => it.calls("mail"),
                3 => it.finishes(),
                4 => it.speaks("I am here. And"),
                _ => it.writes("anna", "m2"),
            }
        }
        it.settles();
        it.speaks("Here I am again.");
        it.finishes();
        it.settles();
        it.finishes();
        it.settles();
        assert_eq!(same(&it), stanzas(&it), "killed before step {moment}");
    }
}

#[test]
fn with_hidden_reasoning_and_a_queue() {
    let settings = Settings {
        visibility: Visibility::Hidden,
        interruption: Interruption::Queue,
        ..Settings::default()
    };
    let mut it = Recorder::new(settings);
    for id in ["m1", "m2", "m3"] {
        it.writes("anna", id);
    }
    for _ in 0..3 {
        it.settles();
        it.thinks("Secretly.");
        it.calls("time");
        it.finishes();
        it.settles();
        it.tool_gives(ToolOutcome::Done(json!(1)));
        it.settles();
        it.speaks("One. Two.");
        it.finishes();
    }
    it.settles();
    assert_eq!(same(&it), stanzas(&it));
}

#[test]
fn an_answer_that_is_still_under_way() {
    let mut it = talk();
    it.writes("anna", "m1");
    it.settles();
    it.speaks("I am here. And I");
    it.settles();
    let Outcome::Same { stanzas, not_kept: 0 } = replayed(it.exported()) else { panic!("different") };
    assert_eq!(stanzas, super::tests::stanzas(&it));
}

/// Changes the text of the sentence at this place among the sentences.
fn forged(mut exported: Exported, place: usize, forge: impl Fn(&mut String)) -> Exported {
    let mut seen = 0;
    for entry in &mut exported.entries {
        let Record::Stanza(stanza) = &mut entry.record else { continue };
        let mut envelope = wire::decode(&stanza.bytes, &wire::Limits::default()).expect("it was encoded");
        if let Body::AssistantSentence(sentence) = &mut envelope.body {
            if seen == place {
                forge(&mut sentence.text);
            }
            seen += 1;
        }
        stanza.bytes = wire::encode(&envelope);
    }
    exported
}

#[test]
fn the_first_difference_is_shown_with_what_was_before() {
    let mut it = talk();
    it.writes("anna", "m1");
    it.settles();
    it.speaks("One. Two. Three. ");
    it.finishes();
    it.settles();
    // Two sentences are one: no engine of ours would have sent that.
    let joined = forged(it.exported(), 3, |text| text.push_str(" And more, too. Really."));
    let Outcome::Different(difference) = replayed(joined) else { panic!("the same") };
    let shown = difference.to_string();
    assert!(shown.starts_with("5 stanzas are the same; then they differ:\n"), "{shown}");
    assert!(shown.contains("            StartAnswer for streaming: "), "{shown}");
    assert!(shown.contains("\n  recorded: AssistantSentence for streaming: "), "{shown}");
    assert!(shown.contains("Two. And more, too. Really."), "{shown}");
    assert!(shown.contains("\n  now:      AssistantSentence for streaming: "), "{shown}");

    let mut lost = it.exported();
    lost.entries.retain(|entry| !matches!(&entry.record, Record::Stanza(stanza) if stanza.number == -6));
    assert!(matches!(replayed(lost), Outcome::Different(_)), "a sentence in the middle is missing");
}

#[test]
fn what_is_no_longer_kept_is_not_compared() {
    let mut it = talk();
    for id in ["m1", "m2"] {
        it.writes("anna", id);
        it.settles();
        it.thinks("Well.\n\nWell.");
        it.speaks("One. Two. Three. ");
        it.finishes();
        it.settles();
    }
    let all = stanzas(&it);
    for dropped in 1..=all {
        let mut exported = it.exported();
        let mut seen = 0;
        exported.entries.retain(|entry| {
            let is_stanza = matches!(entry.record, Record::Stanza(_));
            seen += usize::from(is_stanza);
            !(is_stanza && seen <= dropped)
        });
        match replayed(exported) {
            Outcome::Same { stanzas, not_kept } => {
                assert!(stanzas < all && not_kept >= 1, "{dropped}: {stanzas}, {not_kept}");
            }
            Outcome::Different(difference) => panic!("{dropped} dropped: {difference}"),
        }
    }
}

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

const THOUGHTS: [&str; 8] = [
    "Let me see. ",
    "First, ",
    "this is hard.\n\n",
    "1. One\n2. Two\n",
    "\n```\nlet a = 1;\n\nlet b = 2;\n```\n",
    " ",
    "So be it",
    "A thought that goes on and on, with commas, and more commas, and never seems to find an end, for it is the kind of thought \
     that one has late at night, when all others sleep; then it ends. ",
];
const WORDS: [&str; 10] = [
    "Hello",
    " world.",
    " Dr. Smith",
    " said 3.14.",
    "\n\n- an item\n- another\n",
    "```rust\nfn main() {}\n```\n",
    " Really? Yes! ",
    "日本語。はい。",
    " ",
    "\n",
];

#[test]
fn whatever_people_do_at_random_comes_out_the_same_again() {
    let mut compared = 0;
    for seed in 1..=400 {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let mut it = talk();
        let mut messages = 0;
        for _ in 0..120 {
            let who = dice.one_of(&["anna", "bob"]);
            match dice.below(40) {
                0..=3 => {
                    messages += 1;
                    it.writes(who, &format!("m{messages}"));
                }
                4..=13 => it.confirms(1 + seed as usize % 3),
                14..=17 => it.thinks(dice.one_of(&THOUGHTS)),
                18..=25 => it.speaks(dice.one_of(&WORDS)),
                26 => it.calls(dice.one_of(&["time", "mail", "unknown"])),
                27..=29 => it.finishes(),
                30 => it.fails(),
                31 | 32 => {
                    let outcome = [
                        ToolOutcome::Done(json!("fine")),
                        ToolOutcome::InvalidParameters("no".to_owned()),
                        ToolOutcome::Failed("broken".to_owned()),
                    ];
                    it.tool_gives(outcome[dice.below(3)].clone());
                }
                33 => it.stops(who, None, dice.one_of(&[StopType::Generation, StopType::All])),
                34 if messages > 0 => {
                    let target = format!("m{}", 1 + dice.below(messages));
                    it.stops(who, Some(&target), StopType::Generation);
                }
                35 => {
                    let mode = dice.one_of(&[VariationMode::Regenerate, VariationMode::Continue]);
                    let target = it.last_answer();
                    it.varies(who, &target, mode);
                }
                36 if messages > 0 => {
                    let target = format!("m{}", 1 + dice.below(messages));
                    it.varies(who, &target, dice.one_of(&[VariationMode::Regenerate, VariationMode::Edit]));
                }
                37 => it.can(who, dice.one_of(&[&["streaming"][..], &["turn_meta"], &["streaming", "turn_meta"]])),
                38 => it.waits(dice.one_of(&[1, 40])),
                39 if seed % 2 == 0 => {
                    it.restarts();
                }
                _ => it.settles(),
            }
        }
        match replayed(it.exported()) {
            Outcome::Same { stanzas, .. } => compared += stanzas,
            Outcome::Different(difference) => {
                let recorded: Vec<_> = it.saved.iter().map(brief).collect();
                if std::env::var("ALL").is_ok() {
                    eprintln!("SEED {seed}");
                    if std::env::var("ALL") == Ok(seed.to_string()) { eprintln!("{difference}\n{}", recorded.join("\n")); }
                    continue;
                }
                panic!("seed {seed}: {difference}\n{}", recorded.join("\n"));
            }
        }
    }
    assert!(compared > 10_000, "only {compared} stanzas were compared");
}

/// A record in one line, for whoever has to find out what went wrong.
fn brief(record: &Record) -> String {
    match record {
        Record::Stanza(stanza) => {
            let envelope = wire::decode(&stanza.bytes, &wire::Limits::default()).expect("it was encoded");
            format!("    {} {}", stanza.number, serde_json::to_string(&envelope.body).expect("text keys"))
        }
        other => format!("{other:?}"),
    }
}
