//! Who takes part: what each may send, can take in and has been told.

use super::conversation::Key;
use super::event::{Participant, Recipients};
use super::rate::{Rate, Window};
use super::settings::{Limits, Visibility};
use crate::model::ToolSpec;
use crate::time::Time;
use crate::tool::Rights;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::time::Duration;

/// Those who have left are remembered, so that leaving does not reset their limits; but only so many.
const MAX_ABSENT: usize = 256;

/// For whom a stanza is meant. Sending filters by it, and so does replaying. In a store it is a word ([`Display`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub enum Audience {
    /// Whoever is there.
    Everyone,
    /// Those who may see reasoning.
    Reasoning,
    /// Those who may see the agent's own tools at work: the same, but it is kept whether reasoning is or not.
    Tools,
    /// Those who take an answer sentence by sentence.
    Streaming,
    /// Those who take an answer whole.
    Whole,
    /// Those who list this feature.
    Feature(&'static str),
    /// Those who list this feature and may see reasoning.
    ReasoningFeature(&'static str),
    /// One participant.
    One(String),
}

impl Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everyone => f.write_str("everyone"),
            Self::Reasoning => f.write_str("reasoning"),
            Self::Tools => f.write_str("tools"),
            Self::Streaming => f.write_str("streaming"),
            Self::Whole => f.write_str("whole"),
            Self::Feature(feature) => write!(f, "feature:{feature}"),
            Self::ReasoningFeature(feature) => write!(f, "reasoning_feature:{feature}"),
            Self::One(identity) => write!(f, "one:{identity}"),
        }
    }
}

impl From<Audience> for String {
    fn from(audience: Audience) -> Self {
        audience.to_string()
    }
}

impl<'de> Deserialize<'de> for Audience {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl TryFrom<String> for Audience {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let feature = |name: &str| FEATURES.into_iter().find(|feature| *feature == name);
        let audience = match word.split_once(':') {
            None if word == "everyone" => Some(Self::Everyone),
            None if word == "reasoning" => Some(Self::Reasoning),
            None if word == "tools" => Some(Self::Tools),
            None if word == "streaming" => Some(Self::Streaming),
            None if word == "whole" => Some(Self::Whole),
            Some(("feature", name)) => feature(name).map(Self::Feature),
            Some(("reasoning_feature", name)) => feature(name).map(Self::ReasoningFeature),
            Some(("one", identity)) => Some(Self::One(identity.to_owned())),
            _ => None,
        };
        audience.ok_or_else(|| format!("no such audience: {word}"))
    }
}

/// The features that make a difference to what a client gets. An answer sentence by sentence:
const STREAMING: &str = "streaming";
/// A thought before it is finished:
pub(super) const REASONING_DELTAS: &str = "reasoning_deltas";
/// The figures of each turn:
pub(super) const TURN_META: &str = "turn_meta";
/// Being asked before a tool is used:
pub(super) const TOOL_CONSENT: &str = "tool_consent";
const FEATURES: [&str; 4] = [STREAMING, REASONING_DELTAS, TURN_META, TOOL_CONSENT];

/// How much of a name is remembered, in characters, and of a language's tag.
const NAME_CHARS: usize = 256;
const LANGUAGE_CHARS: usize = 32;
/// How many attributes of someone are remembered.
const MAX_ATTRIBUTES: usize = 64;

/// Something a participant is told once, not every time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hint {
    Attachments,
    AudioChunk,
    Commentary,
    ClientTools,
}

/// Where a conversation was when someone first joined it. What is older is not for that one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    /// What was said next.
    pub(super) said: Key,
    /// The last number given until then.
    pub(super) number: i32,
}

/// One participant.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four facts that do not depend on each other")]
pub(super) struct Person {
    pub(super) name: String,
    present: bool,
    /// `None` until it has joined.
    since: Option<Since>,
    left: Time,
    /// What its Configuration listed, as far as it makes a difference; `None` where it sent none.
    features: Option<BTreeSet<&'static str>>,
    pub(super) language: Option<String>,
    /// The tools that its client offers to run, by its own names.
    pub(super) offers: Vec<ToolSpec>,
    /// What the server says of it and it cannot change; and whether it has said anything yet.
    attributes: Vec<(String, String)>,
    described: bool,
    /// Whether its client has said what it can do.
    configured: bool,
    pub(super) messages: Rate,
    pub(super) others: Rate,
    pub(super) errors: Window,
    pub(super) hints: BTreeSet<Hint>,
    /// The highest of its stanzas that was acknowledged.
    pub(super) acknowledged: i32,
    /// What it missed is being read: until then it gets nothing that is kept.
    pub(super) catching_up: bool,
    /// How often it may have what it missed.
    pub(super) replays: Window,
}

impl Person {
    fn lists(&self, feature: &str) -> bool {
        self.features.as_ref().is_some_and(|features| features.contains(feature))
    }

    /// Without a Configuration, or one without a list, the defaults hold: streaming.
    fn streams(&self) -> bool {
        self.features.as_ref().is_none_or(|features| features.contains(STREAMING))
    }

    /// Takes over what its Configuration says.
    pub(super) fn configure(&mut self, features: Option<Vec<String>>, language: Option<String>) {
        self.configured = true;
        if let Some(features) = features {
            self.features =
                Some(FEATURES.into_iter().filter(|known| features.iter().any(|f| f == known)).collect());
        }
        if let Some(language) = language {
            self.language = Some(language.chars().take(LANGUAGE_CHARS).collect());
        }
    }
}

/// Everyone who is or was there.
#[derive(Debug)]
pub(super) struct People {
    known: BTreeMap<String, Person>,
    limits: Limits,
    visibility: Visibility,
}

impl People {
    pub(super) fn new(limits: Limits, visibility: Visibility) -> Self {
        Self { known: BTreeMap::new(), limits, visibility }
    }

    /// Someone is there, on the server's word or by having sent something. True if that is news.
    pub(super) fn join(&mut self, participant: &Participant, since: Since, now: Time) -> bool {
        let person = self.get(&participant.identity, now);
        let news = !person.present;
        person.present = true;
        person.since.get_or_insert(since);
        if news {
            // Another client, for all we know: what the former one wanted and had counted is not about this one.
            person.features = None;
            person.language = None;
            person.offers.clear();
            person.attributes.clear();
            (person.described, person.configured) = (false, false);
            person.acknowledged = 0;
        }
        if !participant.name.is_empty() {
            person.name = participant.name.chars().take(NAME_CHARS).collect();
        }
        news
    }

    /// Someone was here before, as the store has it; the first time counts.
    pub(super) fn remember(&mut self, identity: &str, since: Since, at: Time) {
        self.get(identity, at).since.get_or_insert(since);
        self.forget_absent();
    }

    /// Takes over who is there from someone who knows better, but for when they first joined: that is in the store. Whoever was
    /// being told what it missed sees that something is missing, and asks again.
    pub(super) fn take_over(&mut self, other: &mut Self) {
        for (identity, mut person) in std::mem::take(&mut other.known) {
            person.since = self.known.get(&identity).and_then(|known| known.since);
            person.catching_up = false;
            self.known.insert(identity, person);
        }
    }

    /// How someone who is remembered was called.
    pub(super) fn rename(&mut self, identity: &str, name: &str, at: Time) {
        if name != identity {
            self.get(identity, at).name = name.chars().take(NAME_CHARS).collect();
        }
    }

    pub(super) fn leave(&mut self, identity: &str, now: Time) {
        if let Some(person) = self.known.get_mut(identity) {
            person.present = false;
            person.left = now;
        }
        self.forget_absent();
    }

    /// Those who left longest ago are forgotten first.
    fn forget_absent(&mut self) {
        let absent =
            |known: &BTreeMap<String, Person>| known.values().filter(|person| !person.present).count();
        while absent(&self.known) > MAX_ABSENT {
            let gone = self.known.iter().filter(|(_, person)| !person.present);
            let oldest = gone.min_by_key(|(_, person)| person.left).map(|(identity, _)| identity.clone());
            oldest.map(|identity| self.known.remove(&identity));
        }
    }

    /// The record of a participant, made where there is none: packets may come before their sender is announced.
    pub(super) fn get(&mut self, identity: &str, now: Time) -> &mut Person {
        let limits = self.limits;
        self.known.entry(identity.to_owned()).or_insert_with(|| Person {
            name: String::new(),
            present: false,
            since: None,
            left: now,
            features: None,
            language: None,
            offers: Vec::new(),
            attributes: Vec::new(),
            described: false,
            configured: false,
            messages: Rate::new(limits.messages_burst, limits.messages_per_second, now),
            others: Rate::new(limits.others_burst, limits.others_per_second, now),
            errors: Window::new(5, Duration::from_secs(10)),
            hints: BTreeSet::new(),
            acknowledged: 0,
            catching_up: false,
            replays: Window::new(5, Duration::from_secs(10)),
        })
    }

    /// The name to use for someone: what it calls itself, else its identity.
    pub(super) fn name<'a>(&'a self, identity: &'a str) -> &'a str {
        self.known
            .get(identity)
            .map(|person| person.name.as_str())
            .filter(|name| !name.is_empty())
            .unwrap_or(identity)
    }

    pub(super) fn language(&self, identity: &str) -> Option<&str> {
        self.known.get(identity)?.language.as_deref()
    }

    /// What the server says of someone. What its owner could have set is forgotten: it would be anyone's word.
    pub(super) fn describe(
        &mut self,
        identity: &str,
        attributes: Vec<(String, String)>,
        fixed: bool,
        now: Time,
    ) {
        let kept = if fixed { attributes } else { Vec::new() };
        let person = self.get(identity, now);
        person.described = true;
        person.attributes = kept.into_iter().take(MAX_ATTRIBUTES).collect();
    }

    /// Whether someone is there, and it is known what it may have done and what its client can do. Of one who talks through
    /// LiveKit's chat the latter is never said.
    pub(super) fn has_settled(&self, identity: &str, chat: bool) -> bool {
        let settled = |person: &Person| person.present && person.described && (chat || person.configured);
        self.known.get(identity).is_some_and(settled)
    }

    /// Whether someone has these rights. Whoever is not there any more has no attributes that could be relied on.
    pub(super) fn has_rights(&self, identity: &str, rights: &Rights) -> bool {
        match rights {
            Rights::Everyone => true,
            Rights::Only { identities, attributes } => {
                let own = self.known.get(identity).filter(|person| person.present);
                let own = own.map_or(&[][..], |person| &person.attributes);
                identities.iter().any(|one| one == identity)
                    || attributes.iter().any(|wanted| own.contains(wanted))
            }
        }
    }

    /// The tools that someone who is there offers to run.
    pub(super) fn offers(&self, identity: &str) -> &[ToolSpec] {
        let person = self.known.get(identity).filter(|person| person.present);
        person.map_or(&[], |person| &person.offers)
    }

    /// Whether someone is there whose client lists a feature.
    pub(super) fn lists(&self, identity: &str, feature: &str) -> bool {
        self.known.get(identity).is_some_and(|person| person.present && person.lists(feature))
    }

    /// Where the conversation was when someone first joined.
    pub(super) fn since(&self, identity: &str) -> Option<Since> {
        self.known.get(identity)?.since
    }

    /// Whether someone belongs to the audience.
    pub(super) fn takes(&self, identity: &str, audience: &Audience) -> bool {
        match audience {
            Audience::One(one) => one == identity,
            _ => self.known.get(identity).is_some_and(|person| self.admits(person, audience)),
        }
    }

    /// Who is there.
    pub(super) fn present(&self) -> Vec<String> {
        self.known.iter().filter(|(_, person)| person.present).map(|(identity, _)| identity.clone()).collect()
    }

    fn admits(&self, person: &Person, audience: &Audience) -> bool {
        match audience {
            Audience::Everyone => true,
            Audience::Reasoning | Audience::Tools => self.visibility == Visibility::Full,
            Audience::Streaming => person.streams(),
            Audience::Whole => !person.streams(),
            Audience::Feature(feature) => person.lists(feature),
            Audience::ReasoningFeature(feature) => {
                self.visibility == Visibility::Full && person.lists(feature)
            }
            Audience::One(_) => false,
        }
    }

    /// Whether anyone, there or away, belongs to the audience: else nothing need be kept for it.
    pub(super) fn has(&self, audience: &Audience) -> bool {
        match audience {
            Audience::Everyone | Audience::Streaming | Audience::One(_) => true,
            Audience::Reasoning | Audience::Tools => self.visibility == Visibility::Full,
            _ => self.known.values().any(|person| self.admits(person, audience)),
        }
    }

    /// Who gets it now; `None` if nobody does. Whoever is catching up gets what is kept in its turn, from the store.
    pub(super) fn recipients(&self, audience: &Audience, kept: bool) -> Option<Recipients> {
        if let Audience::One(identity) = audience {
            let later = kept && self.known.get(identity).is_some_and(|person| person.catching_up);
            return (!later).then(|| Recipients::Only(vec![identity.clone()]));
        }
        let present = || self.known.iter().filter(|(_, person)| person.present);
        let admitted: Vec<String> = present()
            .filter(|(_, person)| self.admits(person, audience) && !(kept && person.catching_up))
            .map(|(identity, _)| identity.clone())
            .collect();
        // Where nobody is left out it goes to the room, and so to those who are not announced yet.
        let by_default = matches!(audience, Audience::Everyone | Audience::Streaming)
            || (matches!(audience, Audience::Reasoning | Audience::Tools)
                && self.visibility == Visibility::Full);
        if by_default && admitted.len() == present().count() {
            Some(Recipients::Everyone)
        } else if admitted.is_empty() {
            None
        } else {
            Some(Recipients::Only(admitted))
        }
    }
}
