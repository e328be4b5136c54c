//! What a packet means, and what its sender is owed: an acknowledgement, an error, or an answer.

use super::conversation::{Familiar, Key, UserMessage};
use super::event::{Count, Output, Participant, Ticket, TurnEnd};
use super::people::{Audience, Hint};
use super::record::{self, Record};
use super::settings::{Interruption, Visibility};
use super::turn::Work;
use super::{Complaint, Engine};
use crate::time::Time;
use crate::wire::body::{self, Acknowledgement, Body, Configuration, VariationMode};
use crate::wire::{Envelope, Malformed};
use serde_json::Value;
use std::time::Duration;

/// What the agent can do, as its Configuration says.
const FEATURES: [&str; 6] =
    ["streaming", "reasoning_steps", "tool_use", "reasoning_deltas", "turn_meta", "tool_consent"];
/// The types that are acknowledged.
const ACKNOWLEDGED: [u16; 6] = [2, 7, 10, 11, 12, 67];
/// The longest id that is taken: ids are remembered, and sent back.
const MAX_ID_BYTES: usize = 128;

/// How long the store may take before whoever waits for an acknowledgement is told why.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// Something that is acknowledged and begun once the store has it.
#[derive(Debug)]
pub(super) struct Saving {
    pub(super) from: String,
    /// The stanzas to acknowledge: more than one if it was sent again meanwhile. Empty for LiveKit's chat.
    stanzas: Vec<i32>,
    arrived: Time,
    /// A stop has come for it meanwhile.
    pub(super) stopped: bool,
    /// The sender was told that the store does not answer.
    told: bool,
    pub(super) what: Accepted,
}

impl Saving {
    /// When its sender is told that it takes long.
    pub(super) fn deadline(&self) -> Option<Time> {
        (!self.told).then_some(self.arrived + STORE_PATIENCE)
    }
}

#[derive(Debug)]
pub(super) enum Accepted {
    Message { id: String, previous: Option<String>, message: UserMessage },
    Variation { target: Key, target_id: String, mode: VariationMode, text: Option<String> },
}

impl Accepted {
    /// The message that is meant.
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Message { id, .. } => id,
            Self::Variation { target_id, .. } => target_id,
        }
    }
}

impl Engine {
    pub(super) fn received(&mut self, from: &str, envelope: Result<Envelope, Malformed>) {
        self.announce(from);
        let envelope = match envelope {
            Ok(envelope) => envelope,
            Err(malformed) => return self.refuse_malformed(from, malformed),
        };
        let Envelope { stanza, conversation, body, .. } = envelope;
        let message = matches!(body, Body::UserMessage(_) | Body::ControlVariation(_));
        let person = self.people.get(from, self.now);
        let rate = if message { &mut person.messages } else { &mut person.others };
        if !rate.take(self.now) {
            self.count(Count::RateLimited);
            let complaint =
                Complaint::later(429, "You send too much at once. Wait a little and send it again.");
            // Whoever floods with anything else is not answered each time.
            if message || self.people.get(from, self.now).errors.take(self.now) {
                self.complain(from, false, Some(about(&body, stanza)), complaint);
            }
            return;
        }
        if conversation.is_some_and(|conversation| conversation != self.settings.conversation) {
            if matches!(body, Body::ToolUseResult(_) | Body::ToolConsent(_)) {
                self.count(Count::Forged);
            }
            let complaint = Complaint::refusal(
                201,
                "There is no such conversation here. Leave conversationId blank for the room's own.",
            );
            return self.refuse(from, stanza, &body, complaint);
        }
        match body {
            Body::UserMessage(message) => self.user_message(from, stanza, message),
            Body::ControlStop(stop) => self.stop(from, stanza, stop),
            Body::ControlVariation(variation) => self.vary(from, stanza, variation),
            Body::Configuration(configuration) => self.configure(from, stanza, configuration),
            Body::ToolUseResult(result) => self.client_answered(from, stanza, result),
            Body::ToolConsent(consent) => self.consented(from, stanza, &consent),
            Body::AudioChunk(_) => self.hint(
                from,
                Hint::AudioChunk,
                stanza.to_string(),
                "AudioChunk is not taken in yet and was ignored. Publish an audio track, or write.",
            ),
            Body::Commentary(commentary) => self.hint(
                from,
                Hint::Commentary,
                usable(commentary.id).unwrap_or_else(|| stanza.to_string()),
                "Commentary of clients is not taken in yet and was ignored.",
            ),
            Body::Acknowledgement(_) => {}
            // What only an agent sends, and what nobody knows.
            _ => self.count(Count::UnknownType),
        }
    }

    /// LiveKit's own chat: a user message without acknowledgement.
    pub(super) fn chat(&mut self, from: &str, id: String, text: String) {
        self.announce(from);
        if text.trim().is_empty() {
            return;
        }
        if !self.people.get(from, self.now).messages.take(self.now) {
            self.count(Count::RateLimited);
            // Each would be shown to the whole room, as a transcript.
            if self.people.get(from, self.now).errors.take(self.now) {
                let complaint =
                    Complaint::later(429, "You send too much at once. Wait a little and send it again.");
                self.complain(from, true, usable(id), complaint);
            }
            return;
        }
        let most = self.settings.limits.content_bytes;
        let fault =
            if text.len() > most { Some(format!("The message is longer than {most} bytes.")) } else { None };
        let id = usable(id);
        match (id, fault) {
            (Some(id), None) => self.take_message(from, None, id, None, text),
            (id, fault) => {
                let fault = fault.unwrap_or_else(|| BAD_ID.to_owned());
                if self.people.get(from, self.now).errors.take(self.now) {
                    self.complain(from, true, id, Complaint::refusal(101, fault));
                }
            }
        }
    }

    pub(super) fn overflowed(&mut self, from: &str, packets: u32) {
        let message =
            format!("{packets} of your packets were dropped unread: too much was waiting. Send them again.");
        self.refused_for_now(from, packets, message);
    }

    pub(super) fn refused_for_now(&mut self, from: &str, times: u32, reason: String) {
        self.outputs.push_back(Output::Count { what: Count::QueueOverflow, times });
        // A flood must not become a flood of errors.
        if self.people.get(from, self.now).errors.take(self.now) {
            self.complain(from, false, None, Complaint::later(504, reason));
        }
    }

    /// Whoever sends is there, whether the server has announced it or not.
    fn announce(&mut self, identity: &str) {
        self.joined(&Participant { identity: identity.to_owned(), name: String::new() });
    }

    fn refuse_malformed(&mut self, from: &str, malformed: Malformed) {
        self.count(Count::Malformed);
        let Malformed { reason, stanza, kind, id } = malformed;
        // A flood of garbage must not become a flood of errors.
        if !self.people.get(from, self.now).errors.take(self.now) {
            return;
        }
        let about = id.and_then(usable).or_else(|| stanza.map(|stanza| stanza.to_string()));
        self.complain(from, false, about, Complaint::refusal(101, reason));
        if let Some(stanza) = stanza
            && kind.is_some_and(|kind| ACKNOWLEDGED.contains(&kind))
        {
            self.acknowledge(from, stanza, false);
        }
    }

    /// Refuses for good. What is no message at all is told as rarely as garbage; any other refusal always is, as its
    /// sender waits for it.
    pub(super) fn refuse(&mut self, from: &str, stanza: i32, body: &Body, complaint: Complaint) {
        if complaint.code == 101 && !self.people.get(from, self.now).errors.take(self.now) {
            return;
        }
        self.complain(from, false, Some(about(body, stanza)), complaint);
        if ACKNOWLEDGED.contains(&body.kind()) {
            self.acknowledge(from, stanza, false);
        }
    }

    pub(super) fn acknowledge(&mut self, to: &str, stanza: i32, success: bool) {
        if success {
            let person = self.people.get(to, self.now);
            person.acknowledged = person.acknowledged.max(stanza);
        }
        let conversation_id = self.settings.conversation.clone();
        let body = Acknowledgement { conversation_id, acknowledged_stanza_id: stanza, success };
        self.send(Audience::One(to.to_owned()), Body::Acknowledgement(body));
    }

    pub(super) fn hint(&mut self, to: &str, hint: Hint, about: String, message: &str) {
        if self.people.get(to, self.now).hints.insert(hint) {
            self.complain(to, false, Some(about), Complaint::notice(message));
        }
    }

    fn user_message(&mut self, from: &str, stanza: i32, message: body::UserMessage) {
        let fault = if !is_usable(&message.id) {
            Some(BAD_ID)
        } else if message.content.trim().is_empty() {
            Some("body.content is blank")
        } else {
            None
        };
        if let Some(fault) = fault {
            let complaint = Complaint::refusal(101, fault);
            return self.refuse(from, stanza, &Body::UserMessage(message), complaint);
        }
        if message.attachments.as_ref().is_some_and(holds_something) {
            self.hint(
                from,
                Hint::Attachments,
                message.id.clone(),
                "Attachments are not taken in yet: the message is answered by its text.",
            );
        }
        let previous = message.previous_id.and_then(usable);
        self.take_message(from, Some(stanza), message.id, previous, message.content);
    }

    /// A message by packet (with its stanza) or by chat.
    fn take_message(
        &mut self,
        from: &str,
        stanza: Option<i32>,
        id: String,
        previous: Option<String>,
        text: String,
    ) {
        let chat = stanza.is_none();
        let answering = self.turn.as_ref().is_some_and(|turn| turn.speaking.id == id);
        match self.conversation.familiar(&id, from, &text) {
            Familiar::New if !answering => {}
            Familiar::Same => return self.same_again(from, stanza, &id),
            Familiar::New | Familiar::Different => {
                let complaint = Complaint::refusal(
                    202,
                    "This id is taken by another message. Give each message an id of its own.",
                );
                self.complain(from, chat, Some(id), complaint);
                if let Some(stanza) = stanza {
                    self.acknowledge(from, stanza, false);
                }
                return;
            }
        }
        if let Some(complaint) = self.no_room() {
            return self.complain(from, chat, Some(id), complaint);
        }
        self.conversation.remember(&id, from, &text);
        let name = self.people.name(from).to_owned();
        let record = Record::Message(record::Message {
            id: id.clone(),
            previous: previous.clone(),
            from: from.to_owned(),
            name: name.clone(),
            text: text.clone(),
            chat,
            at: self.now,
        });
        let message = UserMessage { from: from.to_owned(), name, text, chat };
        self.save(from, stanza, record, Accepted::Message { id, previous, message });
    }

    /// Why nothing new can be taken in just now.
    pub(super) fn no_room(&mut self) -> Option<Complaint> {
        if self.draining {
            return Some(Complaint::later(501, "The agent is leaving. Send it again when one is back."));
        }
        // One of what is being stored will not have to wait.
        let room = self.settings.limits.waiting.saturating_add(usize::from(self.turn.is_none()));
        if self.waiting.len() + self.saving.len() >= room {
            self.count(Count::QueueOverflow);
            return Some(Complaint::later(504, "Too many messages wait for an answer. Send it again later."));
        }
        None
    }

    fn same_again(&mut self, from: &str, stanza: Option<i32>, id: &str) {
        self.count(Count::Duplicate);
        let Some(stanza) = stanza else { return };
        let is_it =
            |saving: &&mut Saving| matches!(&saving.what, Accepted::Message { id: other, .. } if other == id);
        match self.saving.values_mut().find(is_it) {
            Some(saving) => saving.stanzas.push(stanza),
            None => self.acknowledge(from, stanza, true),
        }
    }

    pub(super) fn save(&mut self, from: &str, stanza: Option<i32>, record: Record, what: Accepted) {
        let ticket = self.outbox.ticket();
        self.outputs.push_back(Output::Save { ticket: Some(ticket), record, durable: true });
        let saving = Saving {
            from: from.to_owned(),
            stanzas: stanza.into_iter().collect(),
            arrived: self.now,
            stopped: false,
            told: false,
            what,
        };
        self.saving.insert(ticket, saving);
    }

    pub(super) fn stored(&mut self, ticket: Ticket, success: bool) {
        let Some(saving) = self.saving.remove(&ticket) else {
            return self.outbox.stored(ticket, &mut self.outputs);
        };
        if !success {
            let (from, chat, about) = self.give_back(saving);
            let complaint =
                Complaint::later(501, "It could not be stored and was not taken in. Send it again.");
            return self.complain_at_once(&from, chat, Some(about), complaint);
        }
        let Saving { from, stanzas, arrived, stopped, what, .. } = saving;
        for stanza in stanzas {
            self.acknowledge(&from, stanza, true);
        }
        match what {
            Accepted::Message { id, previous, message } => {
                let chat = message.chat;
                let key = self.conversation.add_message(id.clone(), previous.as_deref(), message);
                self.conversation.hold(key);
                let work = Work::new(key, id, from, chat, arrived);
                self.enqueue(work, stopped);
            }
            Accepted::Variation { target, target_id, mode, text } => {
                match self.variation(from, arrived, target, mode, text) {
                    Ok(work) => self.enqueue(work, stopped),
                    Err(from) => {
                        let complaint = Complaint::refusal(202, "What it was about is too long ago.");
                        self.complain(&from, false, Some(target_id), complaint);
                    }
                }
            }
        }
    }

    /// What someone sent is still taken in, but not acknowledged to whoever comes next under its name.
    pub(super) fn forget_stanzas(&mut self, from: &str) {
        for saving in self.saving.values_mut().filter(|saving| saving.from == from) {
            saving.stanzas.clear();
        }
    }

    /// Tells those who wait for a store that does not answer.
    pub(super) fn complain_about_the_store(&mut self) {
        let mut late: Vec<(String, bool, String)> = Vec::new();
        for saving in self.saving.values_mut() {
            if saving.deadline().is_some_and(|due| due <= self.now) {
                saving.told = true;
                let chat = matches!(&saving.what, Accepted::Message { message, .. } if message.chat);
                late.push((saving.from.clone(), chat, saving.what.id().to_owned()));
            }
        }
        for (from, chat, about) in late {
            let complaint = Complaint::later(
                501,
                "It could not be stored yet. If it is not acknowledged soon, send the same again.",
            );
            self.complain_at_once(&from, chat, Some(about), complaint);
        }
    }

    /// Not taken in after all: it may come again. Returns who is to be told, whether by chat, and about what.
    pub(super) fn give_back(&mut self, saving: Saving) -> (String, bool, String) {
        match saving.what {
            Accepted::Message { id, message, .. } => {
                self.conversation.forget(&id);
                (saving.from, message.chat, id)
            }
            Accepted::Variation { target_id, .. } => (saving.from, false, target_id),
        }
    }

    /// Puts in line what was accepted, unless it was stopped while it was being stored.
    pub(super) fn enqueue(&mut self, work: Work, stopped: bool) {
        // A newer message of the same user takes the place of all that this user still waits for.
        if self.settings.interruption == Interruption::Interrupt {
            self.close_waiting(TurnEnd::Superseded, |other| other.by == work.by);
            if self.turn.as_ref().is_some_and(|turn| turn.work.by == work.by) {
                self.break_off(TurnEnd::Superseded);
            }
        }
        if stopped {
            self.close(work, TurnEnd::Stopped);
        } else {
            self.waiting.push_back(work);
        }
    }

    fn configure(&mut self, from: &str, stanza: i32, configuration: Configuration) {
        let Configuration { features, preferred_language, last_sequence_seen, tools, .. } = configuration;
        let offers_anew = tools.is_some();
        let person = self.people.get(from, self.now);
        person.configure(features, preferred_language);
        self.acknowledge(from, stanza, true);
        let acknowledged = self.people.get(from, self.now).acknowledged;
        let hidden = self.settings.visibility == Visibility::Hidden;
        let features = FEATURES.into_iter().filter(|feature| !(hidden && feature.starts_with("reasoning")));
        let answer = Configuration {
            conversation_id: Some(self.settings.conversation.clone()),
            last_sequence_seen: Some(acknowledged),
            client_version: Some(self.settings.version.clone()),
            features: Some(features.map(str::to_owned).collect()),
            ..Configuration::default()
        };
        self.send(Audience::One(from.to_owned()), Body::Configuration(answer));
        if let Some(tools) = tools {
            self.offered(from, stanza, tools);
        }
        if let Some(seen) = last_sequence_seen {
            self.catch_up(from, seen);
        }
        self.send_open_again(from, offers_anew);
    }
}

/// The id of the message that an error is about, or its number.
fn about(body: &Body, stanza: i32) -> String {
    let id = match body {
        // Whoever answers knows the request; the answer's own id may be made up.
        Body::ToolUseResult(result) => Some(result.request_id.as_str()),
        other => other.id(),
    };
    id.map(str::to_owned).and_then(usable).unwrap_or_else(|| stanza.to_string())
}

/// What is wrong with an id.
const BAD_ID: &str = "the id is blank, or longer than 128 bytes";

pub(super) fn is_usable(id: &str) -> bool {
    !id.trim().is_empty() && id.len() <= MAX_ID_BYTES
}

/// The id, if it is one.
fn usable(id: String) -> Option<String> {
    Some(id).filter(|id| is_usable(id))
}

/// Whether anything is in there: some clients always send a list.
fn holds_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}
