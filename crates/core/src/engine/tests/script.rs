//! The form of a scenario:
//!
//! ```text
//! === a title
//! set interruption=queue show=prompt,transcript      (optional; see `script/setting.rs`)
//! 0 anna says m1 "What is 2+2?"                      (milliseconds, who, what)
//!     anna: ack 1                                    (indented: what must come of it, in this order)
//! 100 model says "Four."
//! ```
//!
//! What follows a title up to the next one is one conversation. Between two lines the engine is woken whenever it asks
//! for it; what it does then is shown under a line `TIME wakes`. The store confirms everything at once unless
//! `store=slow` is set: then `stored 3` and `unstored 3` say how the store answered, `stored all` confirms all that it was
//! given so far and answers what it was asked. `agent crashes` ends the engine, and another one goes on from what the store
//! had confirmed by then; so does `agent panics`, but those who are there need not say again what they can do, and what was to be
//! answered is given up. `model …` speaks for the last request, `model 2 …` for request 2. Texts are JSON strings, `"ab"*3` is
//! `"ababab"`. `anna has role=admin` is an attribute by the server's word, `anna claims role=admin` one of her own. `hook 3 …` is
//! the answer to question 3: `allows`, `adds` and `gives` messages, `changes` parameters, `replaces` a sentence, `refuses`, `fails`.

mod said;
pub(super) mod setting;
pub(super) mod words;

use super::render::{Names, Show, output};
use super::shelf::Shelf;
use crate::engine::Engine;
use crate::engine::event::{Input, Output, Participant, RunId, Ticket, ToolOutcome};
use crate::engine::hook::QuestionId;
use crate::engine::record::Record;
use crate::engine::settings::Settings;
use crate::time::Time;
use crate::wire::body::Body;
use crate::wire::{Envelope, Malformed};
use serde_json::{Map, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;
use words::{number, words};

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
    // Whoever was there before a crash is not waited for, unless a script wants it (`return_seconds`).
    let return_timeout = Duration::ZERO;
    let mut settings = Settings { conversation: "room".to_owned(), return_timeout, ..Settings::default() };
    let (mut show, mut slow_store) = (Show::default(), false);
    for line in lines {
        // Written anew by the player.
        if line.ends_with(" wakes") {
            continue;
        }
        if let Some(pairs) = line.strip_prefix("set ") {
            for pair in words(pairs) {
                setting::set(&pair, &mut settings, &mut show, &mut slow_store);
            }
            let _ = writeln!(written, "{line}");
            continue;
        }
        let player = player.get_or_insert_with(|| Player::new(settings.clone(), show, slow_store));
        written.push_str(&player.play(line));
    }
    written
}

pub(super) struct Player {
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
    /// All outputs, for whoever wants to react to them.
    seen: Option<Vec<Output>>,
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
            seen: None,
        };
        // The first state is the same for all.
        player.drain(Time(START));
        player
    }

    /// A player whose outputs can be taken and reacted to.
    pub(super) fn recording(settings: Settings) -> Self {
        Self { seen: Some(Vec::new()), ..Self::new(settings, Show::default(), false) }
    }

    /// What came out since it was last asked.
    pub(super) fn take_seen(&mut self) -> Vec<Output> {
        self.seen.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whose turn it is.
    pub(super) fn asker(&self) -> Option<String> {
        self.engine.turn.as_ref().map(|turn| turn.work.by.clone())
    }

    /// Something happens beyond what the lines say.
    pub(super) fn happens(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        self.drain(self.now);
    }

    /// Someone sends something beyond what the lines say.
    pub(super) fn sends(&mut self, who: &str, body: Body) {
        let input = self.received(who, None, body);
        self.happens(input);
    }

    pub(super) fn play(&mut self, line: &str) -> String {
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
            self.engine.handle(now, Input::Wake);
        } else if words[1..] == ["agent", "panics"] {
            let mut former = self.crash(now);
            self.engine.take_over(&mut former);
            self.engine.give_up("Something went wrong inside the agent. Send it again.");
            self.engine.handle(now, Input::Wake);
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
            self.seen.iter_mut().for_each(|seen| seen.push(next.clone()));
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

    /// The engine ends; another one takes up what the store has. Returns the former one.
    fn crash(&mut self, now: Time) -> Engine {
        if !self.slow_store {
            self.put_given();
        }
        self.given.clear();
        self.unconfirmed.clear();
        self.asked.clear();
        self.lives += 1;
        let seed = [7 * self.lives; 32];
        let engine = Engine::restore(self.settings.clone(), seed, now, self.shelf.history());
        std::mem::replace(&mut self.engine, engine)
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
            ["tool", run, "tells", text] => {
                Input::Progress { run: RunId(number(run)), text: (*text).to_owned() }
            }
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
            ["hook", question, rest @ ..] => {
                Input::Ruled { question: QuestionId(number(question)), ruling: said::ruling(rest, line) }
            }
            ["agent", "has", "tools", tools] => Input::Tools(tools.split(',').map(setting::tool).collect()),
            [who, how @ ("has" | "claims"), attribute] => {
                let (name, value) = attribute.split_once('=').unwrap_or_else(|| panic!("{line}"));
                let attributes = vec![(name.to_owned(), value.to_owned())];
                Input::Attributes { identity: (*who).to_owned(), attributes, fixed: *how == "has" }
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
}
