//! A client's bookkeeping: its own numbers, what nobody has acknowledged, and which of the agent's numbers it has seen.
//!
//! Pure: it says what is to be sent, and sends nothing.

use serde_json::{Map, Value};
use sotto_core::wire::Envelope;
use sotto_core::wire::body::{Body, UserMessage};
use std::collections::BTreeSet;

/// The key under which a kept stanza names the one before it.
const PREVIOUS: &str = "sotto.prev";
/// So many of the agent's numbers are remembered; a replay reaches no further back.
const REMEMBERED: usize = 4_096;

/// What a stanza of the agent is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receipt {
    /// News.
    New,
    /// News, and it follows one that never came: ask for it.
    NewButOneIsMissing,
    /// Seen before, or nothing of an agent's.
    Known,
}

#[derive(Debug)]
struct Unacknowledged {
    message: UserMessage,
    /// The numbers under which it was sent.
    stanzas: Vec<i32>,
}

#[derive(Debug)]
pub(super) struct Ledger {
    conversation: String,
    /// The last of our numbers.
    last: i32,
    unacknowledged: Vec<Unacknowledged>,
    /// The agent's numbers that came; it counts down.
    seen: BTreeSet<i32>,
    /// Where we came in: what was sent before is not missing.
    first: i32,
    /// The latest of the agent's numbers; 0 if it never said anything.
    latest: i32,
    /// Asked for, and not there yet.
    missing: BTreeSet<i32>,
    /// Another agent is there, of which we do not know yet whether it remembers.
    another_agent: bool,
}

impl Ledger {
    pub(super) fn new(conversation: String) -> Self {
        Self {
            conversation,
            last: 0,
            unacknowledged: Vec::new(),
            seen: BTreeSet::new(),
            first: 0,
            latest: 0,
            missing: BTreeSet::new(),
            another_agent: false,
        }
    }

    /// Gives a message its number, and remembers what must not be lost.
    pub(super) fn number(&mut self, body: Body) -> Envelope {
        self.last += 1;
        if let Body::UserMessage(message) = &body {
            let stanzas = vec![self.last];
            self.unacknowledged.push(Unacknowledged { message: message.clone(), stanzas });
        }
        self.envelope(body)
    }

    /// All that nobody has acknowledged, in order, under new numbers and the old ids.
    pub(super) fn unacknowledged(&mut self) -> Vec<Envelope> {
        let messages: Vec<_> = self
            .unacknowledged
            .iter_mut()
            .map(|open| {
                self.last += 1;
                open.stanzas.push(self.last);
                (self.last, open.message.clone())
            })
            .collect();
        messages
            .into_iter()
            .map(|(stanza, message)| Envelope { stanza, ..self.envelope(Body::UserMessage(message)) })
            .collect()
    }

    /// Forgets a message that nobody has acknowledged; false if somebody has.
    pub(super) fn withdraw(&mut self, id: &str) -> bool {
        let before = self.unacknowledged.len();
        self.unacknowledged.retain(|open| open.message.id != id);
        self.unacknowledged.len() < before
    }

    /// Takes note of what an agent sent.
    pub(super) fn receive(&mut self, envelope: &Envelope) -> Receipt {
        let stanza = envelope.stanza;
        if stanza >= 0 {
            return Receipt::Known;
        }
        // One that goes on where the other stopped has a number below all we know. One that could not remember counts
        // anew, and nothing of the old one's numbers holds.
        if std::mem::take(&mut self.another_agent) && stanza >= self.latest {
            self.seen.clear();
            self.missing.clear();
            self.first = 0;
        }
        if !self.seen.insert(stanza) {
            return Receipt::Known;
        }
        if self.first == 0 {
            self.first = stanza;
            self.latest = stanza;
        }
        if self.seen.len() > REMEMBERED
            && let Some(oldest) = self.seen.pop_last()
        {
            self.first = self.first.min(oldest);
        }
        self.latest = self.latest.min(stanza);
        self.missing.remove(&stanza);
        self.settle(&envelope.body);
        let previous = envelope.meta.get(PREVIOUS).and_then(Value::as_i64).unwrap_or(0);
        let previous = i32::try_from(previous).unwrap_or(0);
        // Only what was sent since we came can be missing, and only before the one that names it.
        let is_due = stanza < previous && previous < self.first;
        if is_due && !self.seen.contains(&previous) && self.missing.insert(previous) {
            return Receipt::NewButOneIsMissing;
        }
        Receipt::New
    }

    /// Up to which of the agent's numbers nothing is missing, as a Configuration says it.
    pub(super) fn last_sequence_seen(&self) -> Option<i32> {
        let complete = self.missing.last().map_or(self.latest, |missing| missing + 1);
        (complete < 0).then_some(-complete)
    }

    /// Another agent may go on where the old one stopped, or count anew, if it could not remember. What it says first tells.
    pub(super) fn agent_changed(&mut self) {
        self.another_agent = true;
    }

    /// What the agent has taken in, or told us to send again ourselves, is not waiting any more.
    fn settle(&mut self, body: &Body) {
        match body {
            Body::Acknowledgement(acknowledgement) => {
                let stanza = acknowledgement.acknowledged_stanza_id;
                self.unacknowledged.retain(|open| !open.stanzas.contains(&stanza));
            }
            Body::ErrorMessage(error) => {
                let about = error.originating_id.as_deref();
                self.unacknowledged.retain(|open| Some(open.message.id.as_str()) != about);
            }
            _ => {}
        }
    }

    fn envelope(&self, body: Body) -> Envelope {
        Envelope { stanza: self.last, conversation: Some(self.conversation.clone()), meta: Map::new(), body }
    }
}

#[cfg(test)]
mod tests;
