//! What must hold when everything has settled: of the store, of what was done, and of what each client holds.

use super::client::Client;
use super::schedule::{Figures, Simulation};
use crate::engine::people::Audience;
use crate::engine::record::{self, Record, Stanza};
use crate::engine::settings::Visibility;
use crate::wire;
use crate::wire::body::Body;
use std::collections::{BTreeMap, BTreeSet};

/// An answer as its stanzas have it.
#[derive(Default)]
struct Announced {
    sentences: i32,
    text: String,
    last: bool,
    /// The records that say how it ended.
    closed: u32,
}

/// What the records say.
#[derive(Default)]
struct Told {
    /// Of each message, how often an answer was accepted to be owed, and how often it ended.
    owed: BTreeMap<String, (u32, u32)>,
    messages: BTreeMap<String, record::Message>,
    variations: BTreeMap<(String, String), usize>,
    begun: Vec<record::Begun>,
    ends: Vec<record::Answer>,
    broken_off: Vec<record::BrokenOff>,
    /// The requests of tools that were begun.
    tools: BTreeSet<String>,
    /// The last number before each one's first joining.
    since: BTreeMap<String, i32>,
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

impl Told {
    fn over(records: Vec<Record>) -> Result<Self, String> {
        let mut told = Self::default();
        let mut message_of: BTreeMap<String, String> = BTreeMap::new();
        for record in records {
            match record {
                Record::Joined(joined) => _ = told.since.entry(joined.identity).or_insert(joined.number),
                Record::Message(message) => {
                    told.owed.entry(message.id.clone()).or_default().0 += 1;
                    let id = message.id.clone();
                    ensure(told.messages.insert(id.clone(), message).is_none(), || {
                        format!("{id} is stored twice")
                    })?;
                }
                Record::Variation(variation) => {
                    let message = message_of.get(&variation.target).unwrap_or(&variation.target);
                    told.owed.entry(message.clone()).or_default().0 += 1;
                    *told.variations.entry((variation.from, variation.target)).or_default() += 1;
                }
                Record::Begun(begun) => {
                    message_of.insert(begun.answer.clone(), begun.message.clone());
                    told.begun.push(begun);
                }
                Record::ToolBegun(tool) => _ = told.tools.insert(tool.request),
                Record::BrokenOff(broken) => told.broken_off.push(broken),
                Record::Answer(answer) => {
                    if let Some(message) = &answer.message {
                        told.owed.entry(message.clone()).or_default().1 += 1;
                        if let Some(answer) = &answer.answer {
                            message_of.insert(answer.clone(), message.clone());
                        }
                    }
                    told.ends.push(answer);
                }
                _ => {}
            }
        }
        Ok(told)
    }
}

impl Simulation {
    pub(super) fn check(&self) -> Result<(), String> {
        let told = Told::over(self.store.records())?;
        for (message, (owed, ended)) in &told.owed {
            ensure(owed == ended, || format!("{message} was accepted {owed} times and ended {ended} times"))?;
        }
        ensure(told.ends.iter().filter(|end| end.message.is_none()).count() <= 1, || {
            "someone was greeted twice".to_owned()
        })?;
        self.check_tools(&told)?;
        self.check_answers(&told)?;
        self.check_chains()?;
        self.clients.iter().try_for_each(|client| self.check_client(client, &told))
    }

    fn check_tools(&self, told: &Told) -> Result<(), String> {
        for (number, runs) in &self.model.runs {
            ensure(*runs <= 1, || format!("the call {number} of a tool with effects was run {runs} times"))?;
        }
        for (message, paid) in &self.model.paid {
            let owed = told.owed.get(message).map_or(0, |(owed, _)| *owed);
            ensure(*paid <= owed, || format!("a tool with effects was run {paid} times for {message}"))?;
        }
        // Of what clients run the room sees the end alone.
        let is_by_client =
            |request: &&String| self.clients.iter().any(|client| client.ran.contains_key(*request));
        let mut by_clients: BTreeSet<&String> = told.tools.iter().filter(is_by_client).collect();
        let (mut open, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for body in self.store.stanzas().map(body) {
            match body {
                Body::ToolUseRequest(request) => {
                    by_clients.remove(&request.id);
                    open.insert(request.id);
                }
                Body::ToolUseResult(result) => {
                    let request = &result.request_id;
                    let begun = told.tools.contains(request) && !seen.contains(request);
                    ensure(open.remove(request) || begun, || {
                        format!("{request} has a second result, or one before it began")
                    })?;
                    by_clients.remove(request);
                    seen.insert(request.clone());
                }
                _ => {}
            }
        }
        ensure(open.is_empty(), || format!("the room never heard how these tools ended: {open:?}"))?;
        let visible = self.settings.visibility == Visibility::Full;
        ensure(!visible || by_clients.is_empty(), || {
            format!("the room never heard how these tools of clients ended: {by_clients:?}")
        })
    }

    fn check_answers(&self, told: &Told) -> Result<(), String> {
        let mut answers: BTreeMap<String, Announced> = BTreeMap::new();
        let mut wholes = Vec::new();
        let mut greetings = BTreeSet::new();
        // Sentence by sentence, then.
        let judged = self.settings.hooks.before_say.is_some();
        for body in self.store.stanzas().map(body) {
            match body {
                Body::StartAnswer(start) => {
                    if start.previous_id.is_empty() {
                        greetings.insert(start.id.clone());
                    }
                    let known = answers.insert(start.id.clone(), Announced::default());
                    ensure(known.is_none(), || format!("{} starts twice", start.id))?;
                }
                Body::AssistantSentence(sentence) => {
                    let id = sentence.previous_id;
                    let answer =
                        answers.get_mut(&id).ok_or_else(|| format!("{id} goes on without a start"))?;
                    answer.sentences += 1;
                    let in_turn = answer.sentences == sentence.sequence && !answer.last;
                    ensure(in_turn, || format!("sentence {} of {id} is out of turn", sentence.sequence))?;
                    if judged && !greetings.contains(&id) {
                        let text = &sentence.text;
                        ensure(self.passed.may_be_said(&id, text), || {
                            format!("{id} says {text:?}, and no hook has let it pass")
                        })?;
                    }
                    answer.text.push_str(&sentence.text);
                    answer.last = sentence.is_final == Some(true);
                }
                Body::AssistantMessage(whole) => wholes.push(whole),
                _ => {}
            }
        }
        for broken in &told.broken_off {
            let id = &broken.answer;
            let answer = answers.get_mut(id).ok_or_else(|| format!("{id} is broken off and never began"))?;
            answer.closed += 1;
            ensure(answer.text == broken.text, || format!("{id} is stored as something else than was said"))?;
            let said = self.model.whole(id);
            ensure(judged || said.starts_with(&broken.text), || {
                format!("{id} begins with {:?}, the model with {said:?}", broken.text)
            })?;
        }
        for end in told.ends.iter().filter(|end| end.announced) {
            let id = end.answer.as_deref().unwrap_or_default();
            let answer = answers.get_mut(id).ok_or_else(|| format!("{id} was never announced"))?;
            answer.closed += 1;
            ensure(answer.text == end.text, || format!("{id} is stored as something else than was said"))?;
            let said = self.model.whole(id);
            ensure(judged || end.message.is_none() || said == end.text, || {
                format!("{id} ({:?}) says {:?}, the model said {said:?}", end.end, end.text)
            })?;
        }
        for (id, answer) in &answers {
            ensure(answer.last, || format!("{id} never ends"))?;
            ensure(answer.closed == 1, || format!("{id} is closed {} times", answer.closed))?;
        }
        for whole in wholes {
            let text =
                told.ends.iter().find(|end| end.answer.as_ref() == Some(&whole.id)).map(|end| &end.text);
            ensure(text == Some(&whole.content), || format!("{} is not what it is as a whole", whole.id))?;
        }
        Ok(())
    }

    /// Each stanza names the one before it in its audience.
    fn check_chains(&self) -> Result<(), String> {
        let mut last: BTreeMap<&Audience, i64> = BTreeMap::new();
        for stanza in self.store.stanzas() {
            let before = last.insert(&stanza.audience, stanza.number.into()).unwrap_or(0);
            let envelope = wire::decode(&stanza.bytes, &wire::Limits::default());
            let named = envelope.ok().and_then(|envelope| envelope.meta.get("sotto.prev")?.as_i64());
            let number = stanza.number;
            ensure(named == Some(before), || {
                format!("{number} names {named:?} before it, and it is {before}")
            })?;
            ensure(before == 0 || i64::from(number) < before, || format!("{number} comes after {before}"))?;
        }
        Ok(())
    }

    fn check_client(&self, client: &Client, told: &Told) -> Result<(), String> {
        let name = client.name;
        for written in client.written.iter().filter(|written| written.acknowledged) {
            let stored = told.messages.get(&written.id).is_some_and(|message| message.from == name);
            ensure(stored, || format!("{} was acknowledged and is not in the store", written.id))?;
        }
        for request in &client.given {
            ensure(told.tools.contains(request), || {
                format!("leave for {request} was acknowledged, and the store does not know that it began")
            })?;
        }
        let mut varied: BTreeMap<&String, usize> = BTreeMap::new();
        for target in &client.varied {
            *varied.entry(target).or_default() += 1;
        }
        for (target, count) in varied {
            let stored = told.variations.get(&(name.to_owned(), target.clone())).copied().unwrap_or(0);
            ensure(count <= stored, || {
                format!("a variation of {target} was acknowledged and is not stored")
            })?;
        }
        for (message, at) in &client.over {
            // Unless someone wanted another answer.
            let once = told.owed.get(message).is_some_and(|(owed, _)| *owed == 1);
            let again = told.begun.iter().any(|begun| begun.message == *message && begun.at > *at);
            ensure(!(once && again), || format!("{message} is begun after {name} was told that it is over"))?;
        }
        let stored: BTreeMap<i32, &Stanza> =
            self.store.stanzas().map(|stanza| (stanza.number, stanza)).collect();
        for (number, packet) in &client.held {
            let known = match stored.get(number) {
                Some(stanza) => stanza.bytes == packet.bytes,
                None => self.store.lost.contains(number),
            };
            ensure(known, || format!("{name} holds {number}, which the store never had so"))?;
        }
        if !client.asks {
            return Ok(());
        }
        let since = *told.since.get(name).ok_or_else(|| format!("{name} never joined"))?;
        for stanza in self.store.stanzas().filter(|stanza| stanza.number < since) {
            let number = stanza.number;
            let gone = client.told_gone != 0 && number > client.told_gone;
            if gone || client.held.contains_key(&number) || !self.takes(client, &stanza.audience) {
                continue;
            }
            // Whoever does not know that it lost something sees it in what comes next for the same audience.
            let later = |held: &&i32| {
                **held < number && stored.get(held).is_some_and(|later| later.audience == stanza.audience)
            };
            let cannot_know = client.unaware && !client.held.keys().any(|held| later(&held));
            ensure(cannot_know, || format!("{name} misses {number}"))?;
        }
        Ok(())
    }

    fn takes(&self, client: &Client, audience: &Audience) -> bool {
        let visible = self.settings.visibility == Visibility::Full;
        match audience {
            Audience::Everyone => true,
            Audience::Reasoning | Audience::Tools => visible,
            Audience::Streaming => client.streams(),
            Audience::Whole => !client.streams(),
            Audience::Feature(feature) => client.lists(feature),
            Audience::ReasoningFeature(feature) => visible && client.lists(feature),
            Audience::One(identity) => *identity == client.name,
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let records = self.store.records();
        let count = |wanted: fn(&Record) -> bool| records.iter().filter(|record| wanted(record)).count();
        Figures {
            messages: count(|record| matches!(record, Record::Message(_) | Record::Variation(_))),
            agents: self.agents.iter().filter(|agent| agent.fence > 0).count(),
            stanzas: self.store.stanzas().count(),
            broken_off: count(|record| matches!(record, Record::BrokenOff(_))),
            runs: self.model.runs.len(),
            runs_by_clients: self.clients.iter().map(|client| client.ran.len()).sum(),
            allowed: self.model.allowed.len(),
            lost_with_power: self.store.lost.len(),
            snapshots: self.clients.iter().filter(|client| client.told_gone != 0).count(),
        }
    }
}

fn body(stanza: &Stanza) -> Body {
    match wire::decode(&stanza.bytes, &wire::Limits::default()) {
        Ok(envelope) => envelope.body,
        Err(_) => Body::Unknown(0),
    }
}
