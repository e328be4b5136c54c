//! What a packet means, and what its sender is owed: an acknowledgement, an error, or an answer.

use super::conversation::{Familiar, Key, Said, UserMessage};
use super::event::{Count, Output, Participant, Ticket, TurnEnd};
use super::people::{Audience, Hint};
use super::record::Record;
use super::settings::Interruption;
use super::turn::Work;
use super::{Complaint, Engine};
use crate::ids::Kind;
use crate::time::Time;
use crate::wire::body::{
    self, Acknowledgement, AssistantSentence, Body, Configuration, ControlStop, ControlVariation,
    StartAnswer, StopType, VariationMode,
};
use crate::wire::{Envelope, Malformed};

/// What the agent can do, as its Configuration says.
const FEATURES: [&str; 5] = ["streaming", "reasoning_steps", "tool_use", "reasoning_deltas", "turn_meta"];
/// The types that are acknowledged.
const ACKNOWLEDGED: [u16; 6] = [2, 7, 10, 11, 12, 67];

/// Something that is acknowledged and begun once the store has it.
#[derive(Debug)]
pub(super) struct Saving {
    from: String,
    /// The stanzas to acknowledge: more than one if it was sent again meanwhile. Empty for LiveKit's chat.
    stanzas: Vec<i32>,
    arrived: Time,
    what: Accepted,
}

#[derive(Debug)]
enum Accepted {
    Message { id: String, previous: Option<String>, message: UserMessage },
    Variation { target: Key, target_id: String, mode: VariationMode, text: Option<String> },
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
            Body::ToolUseResult(_) | Body::ToolConsent(_) => {
                let complaint =
                    Complaint::refusal(202, "Nobody waits for this: no such tool request is open for you.");
                self.refuse(from, stanza, &body, complaint);
            }
            Body::AudioChunk(_) => self.hint(
                from,
                Hint::AudioChunk,
                "AudioChunk is not taken in yet and was ignored. Publish an audio track, or write.",
            ),
            Body::Commentary(_) => self.hint(
                from,
                Hint::Commentary,
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
            let complaint =
                Complaint::later(429, "You send too much at once. Wait a little and send it again.");
            return self.complain(from, true, Some(id), complaint);
        }
        if text.len() > self.settings.limits.content_bytes {
            let most = self.settings.limits.content_bytes;
            return self.complain(
                from,
                true,
                Some(id),
                Complaint::refusal(101, format!("The message is longer than {most} bytes.")),
            );
        }
        self.take_message(from, None, id, None, text);
    }

    pub(super) fn overflowed(&mut self, from: &str, packets: u32) {
        self.announce(from);
        for _ in 0..packets {
            self.count(Count::QueueOverflow);
        }
        let message =
            format!("{packets} of your packets were dropped unread: too much was waiting. Send them again.");
        self.complain(from, false, None, Complaint::later(504, message));
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
        let about = id.or_else(|| stanza.map(|stanza| stanza.to_string()));
        self.complain(from, false, about, Complaint::refusal(101, reason));
        if let Some(stanza) = stanza
            && kind.is_some_and(|kind| ACKNOWLEDGED.contains(&kind))
        {
            self.acknowledge(from, stanza, false);
        }
    }

    /// Refuses for good.
    fn refuse(&mut self, from: &str, stanza: i32, body: &Body, complaint: Complaint) {
        if !self.people.get(from, self.now).errors.take(self.now) {
            return;
        }
        self.complain(from, false, Some(about(body, stanza)), complaint);
        if ACKNOWLEDGED.contains(&body.kind()) {
            self.acknowledge(from, stanza, false);
        }
    }

    fn acknowledge(&mut self, to: &str, stanza: i32, success: bool) {
        if success {
            let person = self.people.get(to, self.now);
            person.acknowledged = person.acknowledged.max(stanza);
        }
        let conversation_id = self.settings.conversation.clone();
        let body = Acknowledgement { conversation_id, acknowledged_stanza_id: stanza, success };
        self.send(Audience::One(to.to_owned()), Body::Acknowledgement(body));
    }

    fn hint(&mut self, to: &str, hint: Hint, message: &str) {
        if self.people.get(to, self.now).hints.insert(hint) {
            self.complain(to, false, None, Complaint::notice(message));
        }
    }

    fn user_message(&mut self, from: &str, stanza: i32, message: body::UserMessage) {
        if message.attachments.is_some() {
            self.hint(
                from,
                Hint::Attachments,
                "Attachments are not taken in yet: the message is answered by its text.",
            );
        }
        self.take_message(from, Some(stanza), message.id, message.previous_id, message.content);
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
        if let Some(complaint) = self.no_room() {
            return self.complain(from, chat, Some(id), complaint);
        }
        match self.conversation.familiar(&id, from, &text) {
            Familiar::New => {}
            Familiar::Same => return self.same_again(from, stanza, &id),
            Familiar::Different => {
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
        let name = self.people.name(from).to_owned();
        let record = Record::Message {
            id: id.clone(),
            parent: previous.clone().or_else(|| self.conversation.leaf_id().map(str::to_owned)),
            from: from.to_owned(),
            name: name.clone(),
            text: text.clone(),
            at: self.now,
        };
        let message = UserMessage { from: from.to_owned(), name, text, chat };
        self.save(from, stanza, record, Accepted::Message { id, previous, message });
    }

    /// Why nothing new can be taken in just now.
    fn no_room(&mut self) -> Option<Complaint> {
        if self.draining {
            return Some(Complaint::later(501, "The agent is leaving. Send it again when one is back."));
        }
        if self.waiting.len() + self.saving.len() >= self.settings.limits.waiting {
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

    fn save(&mut self, from: &str, stanza: Option<i32>, record: Record, what: Accepted) {
        let ticket = self.outbox.ticket();
        self.outputs.push_back(Output::Save { ticket, record, durable: true });
        let saving =
            Saving { from: from.to_owned(), stanzas: stanza.into_iter().collect(), arrived: self.now, what };
        self.saving.insert(ticket, saving);
    }

    pub(super) fn stored(&mut self, ticket: Ticket, success: bool) {
        let Some(saving) = self.saving.remove(&ticket) else {
            return self.outbox.stored(ticket, &mut self.outputs);
        };
        let Saving { from, stanzas, arrived, what } = saving;
        if !success {
            if let Accepted::Message { id, .. } = &what {
                self.conversation.forget(id);
            }
            let (about, chat) = match what {
                Accepted::Message { id, message, .. } => (id, message.chat),
                Accepted::Variation { target_id, .. } => (target_id, false),
            };
            let complaint =
                Complaint::later(501, "It could not be stored and was not taken in. Send it again.");
            return self.complain(&from, chat, Some(about), complaint);
        }
        for stanza in stanzas {
            self.acknowledge(&from, stanza, true);
        }
        match what {
            Accepted::Message { id, previous, message } => {
                let chat = message.chat;
                let key = self.conversation.add_message(id.clone(), previous.as_deref(), message);
                self.enqueue(Work {
                    message: key,
                    message_id: id,
                    by: from,
                    chat,
                    go_on_from: None,
                    arrived,
                });
            }
            Accepted::Variation { target, target_id, mode, text } => {
                self.begin_variation(from, arrived, target, &target_id, mode, text);
            }
        }
    }

    /// Puts work in line. A newer message of the same user takes the place of all that this user still waits for.
    fn enqueue(&mut self, work: Work) {
        if self.settings.interruption == Interruption::Interrupt {
            let superseded: Vec<Work> =
                self.waiting.iter().filter(|other| other.by == work.by).cloned().collect();
            self.waiting.retain(|other| other.by != work.by);
            for old in superseded {
                self.close_unanswered(&old, TurnEnd::Superseded);
            }
            self.waiting.push_back(work);
            let by = self.waiting.back().map(|work| work.by.clone());
            if self.turn.as_ref().is_some_and(|turn| Some(&turn.work.by) == by.as_ref()) {
                self.break_off(TurnEnd::Superseded);
            }
        } else {
            self.waiting.push_back(work);
        }
        self.begin_next();
    }

    /// Ends a message whose turn never began.
    fn close_unanswered(&mut self, work: &Work, end: TurnEnd) {
        let ticket = self.outbox.ticket();
        let answer = (end == TurnEnd::Stopped).then(|| self.ids.next(Kind::Message));
        let record = Record::Answer {
            message: Some(work.message_id.clone()),
            answer: answer.clone(),
            text: String::new(),
            end,
            usage: crate::model::Usage::default(),
            at: self.now,
        };
        self.outputs.push_back(Output::Save { ticket, record, durable: false });
        let Some(answer) = answer else { return };
        let conversation_id = self.settings.conversation.clone();
        let start = StartAnswer {
            id: answer.clone(),
            previous_id: work.message_id.clone(),
            conversation_id: conversation_id.clone(),
            answer_type: Some("text".to_owned()),
            planned_sentence_count: None,
        };
        self.send(Audience::Streaming, Body::StartAnswer(start));
        let id = Some(self.ids.next(Kind::Sentence));
        let text = String::new();
        let last = AssistantSentence {
            id,
            previous_id: answer,
            conversation_id,
            sequence: 1,
            text,
            is_final: Some(true),
            audio: None,
        };
        self.send(Audience::Streaming, Body::AssistantSentence(last));
    }

    fn stop(&mut self, from: &str, stanza: i32, stop: ControlStop) {
        let target = stop.target_id.as_deref().filter(|target| !target.is_empty());
        let is_running = |target: &str| {
            self.turn
                .as_ref()
                .is_some_and(|turn| turn.work.message_id == target || turn.speaking.id == target)
        };
        let known = target.is_none_or(|target| {
            is_running(target)
                || self.conversation.find(target).is_some()
                || self.waiting.iter().any(|work| work.message_id == target)
        });
        let running = target.is_none_or(is_running);
        if !known {
            let complaint = Complaint::refusal(
                202,
                "There is nothing with this targetId. Leave it out to stop whatever is running.",
            );
            return self.refuse(from, stanza, &Body::ControlStop(stop), complaint);
        }
        self.acknowledge(from, stanza, true);
        let stopped: Vec<Work> = match (stop.stop_type, target) {
            (StopType::All, _) => self.waiting.iter().filter(|work| work.by == from).cloned().collect(),
            (StopType::Generation, Some(target)) => self
                .waiting
                .iter()
                .filter(|work| work.message_id == target && work.by == from)
                .cloned()
                .collect(),
            _ => Vec::new(),
        };
        self.waiting.retain(|work| !stopped.iter().any(|stopped| stopped.message == work.message));
        for work in &stopped {
            self.close_unanswered(work, TurnEnd::Stopped);
        }
        // Speech alone: there is none yet, and the text goes on.
        if running && stop.stop_type != StopType::Speech {
            self.break_off(TurnEnd::Stopped);
        }
    }

    fn vary(&mut self, from: &str, stanza: i32, variation: ControlVariation) {
        let ControlVariation { ref target_id, mode, ref new_content, .. } = variation;
        let found = self.conversation.find(target_id);
        let said = found.and_then(|key| self.conversation.node(key)).map(|node| &node.said);
        let complaint = match (mode, said) {
            (_, None) => {
                Some(Complaint::refusal(202, "There is nothing with this targetId, or it is too long ago."))
            }
            (VariationMode::Edit, Some(Said::User(message))) if message.from != from => {
                Some(Complaint::refusal(203, "Only its author may edit a message."))
            }
            (VariationMode::Edit, Some(Said::Agent(_))) => {
                Some(Complaint::refusal(202, "Only a user message can be edited."))
            }
            (VariationMode::Edit, _) if new_content.as_deref().is_none_or(|text| text.trim().is_empty()) => {
                Some(Complaint::refusal(101, "An edit needs newContent."))
            }
            (VariationMode::Continue, Some(Said::User(_))) => {
                Some(Complaint::refusal(202, "Only an answer can be continued."))
            }
            (_, Some(Said::Agent(answer))) if answer.message.is_none() => {
                Some(Complaint::refusal(202, "A greeting answers nothing and has no variation."))
            }
            _ => None,
        };
        let target = match (complaint, found) {
            (None, Some(target)) => target,
            (complaint, _) => {
                let complaint = complaint
                    .unwrap_or_else(|| Complaint::refusal(202, "There is nothing with this targetId."));
                return self.refuse(from, stanza, &Body::ControlVariation(variation), complaint);
            }
        };
        if let Some(complaint) = self.no_room() {
            return self.complain(from, false, Some(variation.target_id), complaint);
        }
        let ControlVariation { target_id, mode, new_content: text, .. } = variation;
        let text = text.filter(|_| mode == VariationMode::Edit);
        let record = Record::Variation {
            from: from.to_owned(),
            target: target_id.clone(),
            mode,
            text: text.clone(),
            at: self.now,
        };
        self.save(from, Some(stanza), record, Accepted::Variation { target, target_id, mode, text });
    }

    fn begin_variation(
        &mut self,
        from: String,
        arrived: Time,
        target: Key,
        target_id: &str,
        mode: VariationMode,
        text: Option<String>,
    ) {
        let Some(node) = self.conversation.node(target) else { return };
        let (message, go_on_from) = match (&node.said, mode) {
            (Said::User(_), _) => (target, None),
            (Said::Agent(answer), VariationMode::Continue) => {
                (answer.message.unwrap_or(target), Some(target))
            }
            (Said::Agent(answer), _) => (answer.message.unwrap_or(target), None),
        };
        let Some(message_id) = self.conversation.node(message).map(|node| node.id.clone()) else {
            let complaint = Complaint::refusal(202, "The message that was answered there is too long ago.");
            return self.complain(&from, false, Some(target_id.to_owned()), complaint);
        };
        // Whatever is being said to this message is out of date now.
        if self.turn.as_ref().is_some_and(|turn| turn.work.message == message) {
            self.break_off(TurnEnd::Superseded);
        }
        self.waiting.retain(|work| work.message != message);
        match text {
            Some(text) => self.conversation.edit(message, text),
            None => self.conversation.return_to(go_on_from.unwrap_or(message)),
        }
        self.enqueue(Work { message, message_id, by: from, chat: false, go_on_from, arrived });
    }

    fn configure(&mut self, from: &str, stanza: i32, configuration: Configuration) {
        let Configuration { features, preferred_language, .. } = configuration;
        let person = self.people.get(from, self.now);
        person.configure(features, preferred_language);
        self.acknowledge(from, stanza, true);
        let acknowledged = self.people.get(from, self.now).acknowledged;
        let answer = Configuration {
            conversation_id: Some(self.settings.conversation.clone()),
            last_sequence_seen: Some(acknowledged),
            client_version: Some(self.settings.version.clone()),
            features: Some(FEATURES.map(str::to_owned).to_vec()),
            ..Configuration::default()
        };
        self.send(Audience::One(from.to_owned()), Body::Configuration(answer));
    }
}

/// The id of the message that an error is about, or its number.
fn about(body: &Body, stanza: i32) -> String {
    let id = match body {
        Body::UserMessage(message) => Some(&message.id),
        Body::ControlVariation(variation) => Some(&variation.target_id),
        Body::ControlStop(stop) => stop.target_id.as_ref(),
        Body::ToolUseResult(result) => Some(&result.request_id),
        Body::ToolConsent(consent) => Some(&consent.request_id),
        _ => None,
    };
    id.filter(|id| !id.is_empty()).cloned().unwrap_or_else(|| stanza.to_string())
}
