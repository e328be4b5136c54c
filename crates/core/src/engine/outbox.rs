//! What leaves the conversation: numbered, encoded once, kept where it may be asked for again, and sent in order,
//! nothing before the store has it.
//!
//! Numbers are reserved in blocks, durably, before they are used: whatever happens to the process or the machine, none is
//! ever used twice.

use super::event::{Output, Recipients, RunId, Ticket};
use super::people::{Audience, People};
use super::record::{History, Record, Stanza};
use crate::wire::body::{Body, Execution};
use crate::wire::{self, Envelope};
use serde_json::Map;
use std::collections::{BTreeMap, VecDeque};

/// The key under which a kept stanza names the one before it in the same audience.
const PREVIOUS: &str = "sotto.prev";
/// How many numbers are reserved at once.
const BLOCK: i32 = 1_024;

/// Something on its way out.
#[derive(Debug)]
struct Waiting {
    /// What the store must confirm first.
    ticket: Option<Ticket>,
    /// The number it has, which must be one that is reserved.
    number: Option<i32>,
    /// Whether it is a stanza that may be asked for again.
    kept: bool,
    /// `None` for what is only kept: a record, or a stanza that nobody is there to get.
    output: Option<Output>,
}

impl Waiting {
    /// Takes one out of those who are to get it by name.
    fn leave_out(&mut self, identity: &str) {
        if let Some(Output::Send { to: Recipients::Only(identities), .. }) = &mut self.output {
            identities.retain(|other| other != identity);
            if identities.is_empty() {
                self.output = None;
            }
        }
    }
}

/// The conversation's one counter, and the stanzas that wait for the store.
#[derive(Debug)]
pub(super) struct Outbox {
    conversation: String,
    /// Whether steps of reasoning may be asked for again.
    keeps_reasoning: bool,
    /// The last number given; counts down from 0.
    number: i32,
    /// Numbers down to this one may be used.
    reserved: i32,
    /// The block that is being reserved.
    reserving: Option<Ticket>,
    last_kept: BTreeMap<Audience, i32>,
    waiting: VecDeque<Waiting>,
    tickets: u64,
}

impl Outbox {
    pub(super) fn new(conversation: String, keeps_reasoning: bool, history: &History) -> Self {
        Self {
            conversation,
            keeps_reasoning,
            number: history.number,
            reserved: history.reserved,
            reserving: None,
            last_kept: history.last_kept.iter().cloned().collect(),
            waiting: VecDeque::new(),
            tickets: 0,
        }
    }

    /// A number for something to be stored.
    pub(super) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Numbers a message and sends it to its audience. Kept ones go out once they are stored, the others in their turn.
    /// Returns what was kept, for those of the audience who cannot have it yet.
    pub(super) fn send(
        &mut self,
        people: &People,
        audience: Audience,
        body: Body,
        outputs: &mut VecDeque<Output>,
    ) -> Option<Stanza> {
        let kept = self.keeps(&body) && people.has(&audience);
        let to = people.recipients(&audience, kept);
        if to.is_none() && !kept {
            return None;
        }
        let bytes = self.encode(body, kept.then_some(&audience), outputs);
        let number = self.number;
        let stanza = kept.then(|| Stanza { number, audience, bytes: bytes.clone() });
        let ticket = stanza.clone().map(|stanza| {
            let ticket = self.ticket();
            let record = Record::Stanza(stanza);
            outputs.push_back(Output::Save { ticket: Some(ticket), record, durable: false });
            ticket
        });
        let output = to.map(|to| Output::Send { to, bytes });
        self.waiting.push_back(Waiting { ticket, number: Some(number), kept, output });
        self.release(outputs);
        stanza
    }

    /// Stores something; whatever is sent after this waits for it.
    pub(super) fn save(&mut self, record: Record, durable: bool, outputs: &mut VecDeque<Output>) {
        let ticket = self.ticket();
        outputs.push_back(Output::Save { ticket: Some(ticket), record, durable });
        self.waiting.push_back(Waiting { ticket: Some(ticket), number: None, kept: false, output: None });
    }

    /// Puts something else out, after all that was sent before.
    pub(super) fn follow(&mut self, output: Output, outputs: &mut VecDeque<Output>) {
        self.waiting.push_back(Waiting { ticket: None, number: None, kept: false, output: Some(output) });
        self.release(outputs);
    }

    /// Sends a message to one participant in its turn, and keeps it for nobody.
    pub(super) fn send_unkept(&mut self, to: String, body: Body, outputs: &mut VecDeque<Output>) {
        let bytes = self.encode(body, None, outputs);
        let output = Some(Output::Send { to: Recipients::Only(vec![to]), bytes });
        self.waiting.push_back(Waiting { ticket: None, number: Some(self.number), kept: false, output });
        self.release(outputs);
    }

    /// Someone gets what is kept from the store from now on, so nothing of it that is still on its way.
    pub(super) fn leave_out(&mut self, identity: &str, people: &People) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.kept) {
            if let Some(Output::Send { to: to @ Recipients::Everyone, .. }) = &mut waiting.output {
                *to = Recipients::Only(people.present());
            }
            waiting.leave_out(identity);
        }
    }

    /// Someone is gone: what was for that one is for nobody. Another client may come under the same name, and would take
    /// it for its own.
    pub(super) fn forget(&mut self, identity: &str) {
        for waiting in &mut self.waiting {
            waiting.leave_out(identity);
        }
    }

    /// Takes back the run of a tool that has not gone out yet. False if it has.
    pub(super) fn withdraw(&mut self, run: RunId) -> bool {
        let is_it =
            |output: &mut Output| matches!(output, Output::RunTool { run: waiting, .. } if *waiting == run);
        self.waiting.iter_mut().any(|waiting| waiting.output.take_if(is_it).is_some())
    }

    /// Takes back a message to one participant, if it has not gone out yet.
    pub(super) fn take_back(&mut self, number: Option<i32>) {
        let is_it = |waiting: &&mut Waiting| number.is_some() && waiting.number == number && !waiting.kept;
        if let Some(waiting) = self.waiting.iter_mut().find(is_it) {
            waiting.output = None;
        }
    }

    /// Whether nothing waits for the store.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.reserving.is_none()
    }

    /// The last number given.
    pub(super) fn number(&self) -> i32 {
        self.number
    }

    /// The number of the newest stanza that is kept for one of these.
    pub(super) fn newest_kept(&self, meant: impl Fn(&Audience) -> bool) -> Option<i32> {
        self.last_kept.iter().filter(|(audience, _)| meant(audience)).map(|(_, &number)| number).min()
    }

    /// Sends a message to one participant at once, past whatever waits for a store that does not answer. Where that has
    /// left us without numbers too, it cannot be sent.
    pub(super) fn send_at_once(&mut self, to: String, body: Body, outputs: &mut VecDeque<Output>) {
        if self.number > self.reserved {
            let bytes = self.encode(body, None, outputs);
            outputs.push_back(Output::Send { to: Recipients::Only(vec![to]), bytes });
        }
    }

    /// The store has it.
    pub(super) fn stored(&mut self, ticket: Ticket, outputs: &mut VecDeque<Output>) {
        if self.reserving.take_if(|reserving| *reserving == ticket).is_some() {
            self.reserved = self.reserved.saturating_sub(BLOCK);
        } else if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.ticket == Some(ticket)) {
            waiting.ticket = None;
        }
        self.release(outputs);
    }

    fn release(&mut self, outputs: &mut VecDeque<Output>) {
        let may_go = |next: &Waiting| {
            next.ticket.is_none() && next.number.is_none_or(|number| number >= self.reserved)
        };
        while self.waiting.front().is_some_and(may_go) {
            outputs.extend(self.waiting.pop_front().and_then(|next| next.output));
        }
    }

    fn encode(&mut self, body: Body, kept_for: Option<&Audience>, outputs: &mut VecDeque<Output>) -> Vec<u8> {
        self.number = self.number.saturating_sub(1);
        if self.number < self.reserved.saturating_add(BLOCK / 2) && self.reserving.is_none() {
            let ticket = self.ticket();
            let record = Record::Reserved { number: self.reserved.saturating_sub(BLOCK) };
            outputs.push_back(Output::Save { ticket: Some(ticket), record, durable: true });
            self.reserving = Some(ticket);
        }
        let mut meta = Map::new();
        if let Some(audience) = kept_for {
            let previous = self.last_kept.insert(audience.clone(), self.number).unwrap_or(0);
            meta.insert(PREVIOUS.to_owned(), previous.into());
        }
        let conversation = Some(self.conversation.clone());
        wire::encode(&Envelope { stanza: self.number, conversation, meta, body })
    }

    /// Whether it may be asked for again.
    fn keeps(&self, body: &Body) -> bool {
        is_kept(body) && (self.keeps_reasoning || !matches!(body, Body::ReasoningStep(_)))
    }
}

/// The types that may be asked for again.
fn is_kept(body: &Body) -> bool {
    match body {
        // One for a client is sent again while it is open, and never after.
        Body::ToolUseRequest(request) => request.execution == Execution::Server,
        Body::AssistantMessage(_)
        | Body::ReasoningStep(_)
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
