//! What leaves the conversation: numbered, encoded once, kept where it may be asked for again, and sent in order,
//! nothing before the store has it.

use super::event::{Output, Recipients, Ticket};
use super::people::{Audience, People};
use super::record::{Record, Stanza};
use crate::wire::{self, Envelope, body::Body};
use serde_json::Map;
use std::collections::{BTreeMap, VecDeque};

/// The key under which a kept stanza names the one before it in the same audience.
const PREVIOUS: &str = "sotto.prev";

/// Something on its way out.
#[derive(Debug)]
struct Waiting {
    /// What the store must confirm first.
    ticket: Option<Ticket>,
    /// `None` for what is only kept: a record, or a stanza that nobody is there to get.
    output: Option<Output>,
}

/// The conversation's one counter, and the stanzas that wait for the store.
#[derive(Debug)]
pub(super) struct Outbox {
    conversation: String,
    /// The last number given; counts down from 0.
    number: i32,
    last_kept: BTreeMap<Audience, i32>,
    waiting: VecDeque<Waiting>,
    tickets: u64,
}

impl Outbox {
    pub(super) fn new(conversation: String) -> Self {
        Self { conversation, number: 0, last_kept: BTreeMap::new(), waiting: VecDeque::new(), tickets: 0 }
    }

    /// An empty one that goes on counting where another stopped: numbers are never used twice.
    pub(super) fn after(other: &Self) -> Self {
        Self {
            conversation: other.conversation.clone(),
            number: other.number,
            last_kept: other.last_kept.clone(),
            waiting: VecDeque::new(),
            tickets: other.tickets,
        }
    }

    /// A number for something to be stored.
    pub(super) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Numbers a message and sends it to its audience. Kept ones go out once they are stored, the others in their turn.
    pub(super) fn send(
        &mut self,
        people: &People,
        audience: Audience,
        body: Body,
        outputs: &mut VecDeque<Output>,
    ) {
        let to = people.recipients(&audience);
        let kept = is_kept(&body) && people.has(&audience);
        if to.is_none() && !kept {
            return;
        }
        let bytes = self.encode(body, kept.then_some(&audience));
        let ticket = kept.then(|| {
            let ticket = self.ticket();
            let record = Record::Stanza(Stanza { number: self.number, audience, bytes: bytes.clone() });
            outputs.push_back(Output::Save { ticket, record, durable: false });
            ticket
        });
        let output = to.map(|to| Output::Send { to, bytes });
        self.waiting.push_back(Waiting { ticket, output });
        self.release(outputs);
    }

    /// Stores something; whatever is sent after this waits for it.
    pub(super) fn save(&mut self, record: Record, outputs: &mut VecDeque<Output>) {
        let ticket = self.ticket();
        outputs.push_back(Output::Save { ticket, record, durable: false });
        self.waiting.push_back(Waiting { ticket: Some(ticket), output: None });
    }

    /// Puts something else out, after all that was sent before.
    pub(super) fn follow(&mut self, output: Output, outputs: &mut VecDeque<Output>) {
        self.waiting.push_back(Waiting { ticket: None, output: Some(output) });
        self.release(outputs);
    }

    /// Sends a message to one participant in its turn, and keeps it for nobody.
    pub(super) fn send_unkept(&mut self, to: String, body: Body, outputs: &mut VecDeque<Output>) {
        let bytes = self.encode(body, None);
        self.follow(Output::Send { to: Recipients::Only(vec![to]), bytes }, outputs);
    }

    /// The last number given.
    pub(super) fn number(&self) -> i32 {
        self.number
    }

    /// The number of the newest stanza that is kept for one of these.
    pub(super) fn newest_kept(&self, meant: impl Fn(&Audience) -> bool) -> Option<i32> {
        self.last_kept.iter().filter(|(audience, _)| meant(audience)).map(|(_, &number)| number).min()
    }

    /// Sends a message to one participant at once, past whatever waits for a store that does not answer.
    pub(super) fn send_at_once(&mut self, to: String, body: Body, outputs: &mut VecDeque<Output>) {
        let bytes = self.encode(body, None);
        outputs.push_back(Output::Send { to: Recipients::Only(vec![to]), bytes });
    }

    /// The store has it (or never will: the stanza is still owed to those who are there).
    pub(super) fn stored(&mut self, ticket: Ticket, outputs: &mut VecDeque<Output>) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.ticket == Some(ticket)) {
            waiting.ticket = None;
        }
        self.release(outputs);
    }

    fn release(&mut self, outputs: &mut VecDeque<Output>) {
        while self.waiting.front().is_some_and(|next| next.ticket.is_none()) {
            outputs.extend(self.waiting.pop_front().and_then(|next| next.output));
        }
    }

    fn encode(&mut self, body: Body, kept_for: Option<&Audience>) -> Vec<u8> {
        self.number -= 1;
        let mut meta = Map::new();
        if let Some(audience) = kept_for {
            let previous = self.last_kept.insert(audience.clone(), self.number).unwrap_or(0);
            meta.insert(PREVIOUS.to_owned(), previous.into());
        }
        let conversation = Some(self.conversation.clone());
        wire::encode(&Envelope { stanza: self.number, conversation, meta, body })
    }
}

/// What may be asked for again.
fn is_kept(body: &Body) -> bool {
    match body {
        Body::AssistantMessage(_)
        | Body::ReasoningStep(_)
        | Body::ToolUseRequest(_)
        | Body::ToolUseResult(_)
        | Body::Transcription(_)
        | Body::StartAnswer(_)
        | Body::MemoryTrace(_)
        | Body::Commentary(_)
        | Body::AssistantSentence(_)
        | Body::TurnMeta(_) => true,
        Body::ErrorMessage(_)
        | Body::UserMessage(_)
        | Body::AudioChunk(_)
        | Body::Acknowledgement(_)
        | Body::ControlStop(_)
        | Body::ControlVariation(_)
        | Body::Configuration(_)
        | Body::ReasoningDelta(_)
        | Body::ToolConsentRequest(_)
        | Body::ToolConsent(_)
        | Body::Unknown(_) => false,
    }
}
