//! What people do about answers: stop them, or ask for other ones.

use super::conversation::{Key, Said};
use super::event::TurnEnd;
use super::inbox::{Accepted, is_usable};
use super::record::{self, Record};
use super::settings::Interruption;
use super::turn::Work;
use super::{Complaint, Engine};
use crate::time::Time;
use crate::wire::body::{Body, ControlStop, ControlVariation, StopType, VariationMode};

impl Engine {
    pub(super) fn stop(&mut self, from: &str, stanza: i32, stop: ControlStop) {
        let target = stop.target_id.as_deref().filter(|target| !target.trim().is_empty());
        let running = self.turn.as_ref().is_some_and(|turn| {
            target.is_none_or(|target| turn.work.message_id == target || turn.speaking.id == target)
        });
        let known = running
            || target.is_none_or(|target| {
                self.conversation.find(target).is_some()
                    || self.saving.values().any(|saving| saving.what.id() == target)
            });
        if !known {
            let complaint = Complaint::refusal(
                202,
                "There is nothing with this targetId. Leave it out to stop whatever is running.",
            );
            return self.refuse(from, stanza, &Body::ControlStop(stop), complaint);
        }
        // Speech alone: there is none yet, and the text goes on.
        if stop.stop_type == StopType::Speech {
            return self.acknowledge(from, stanza, true);
        }
        // Anyone may stop an answer, so anyone may also stop one by its name before it has begun.
        let all = stop.stop_type == StopType::All;
        let coming = self.stop_what_is_being_stored(from, target, all);
        // Stored, even where nothing comes of it: another agent may have taken the conversation over and be answering, and then the
        // store says so, and nobody is told that it is stopped.
        let (from_whom, about) = (from.to_owned(), target.map(str::to_owned));
        let stopped = record::Stopped { from: from_whom, target: about, all, coming, at: self.now };
        self.outbox.save(Record::Stopped(stopped), false, &mut self.outputs);
        if running {
            self.break_off(TurnEnd::Stopped);
        }
        self.close_waiting(TurnEnd::Stopped, |work| {
            (all && work.by == from) || target == Some(work.message_id.as_str())
        });
        // Behind the ends, which are stored first: what is said to be stopped is not begun again after a crash.
        self.acknowledge(from, stanza, true);
    }

    /// A slow store must not let a message overtake the stop that came after it: what would be running or waiting by
    /// now is stopped once it is stored. Returns what that is about.
    fn stop_what_is_being_stored(&mut self, from: &str, target: Option<&str>, all: bool) -> Vec<String> {
        for saving in self.saving.values_mut() {
            saving.stopped |= (all && saving.from == from) || target == Some(saving.what.id());
        }
        if target.is_none() {
            self.stop_what_would_run(from);
        }
        let stopped = self.saving.values().filter(|saving| saving.stopped);
        stopped.map(|saving| saving.what.id().to_owned()).collect()
    }

    fn stop_what_would_run(&mut self, from: &str) {
        let own_turn = self.turn.as_ref().map(|turn| turn.work.by == from);
        let mut own = self.saving.values_mut().filter(|saving| saving.from == from);
        let would_run = match (self.settings.interruption, own_turn) {
            (Interruption::Interrupt, None | Some(true)) => own.next_back(),
            (Interruption::Queue, None) => own.next(),
            _ => None,
        };
        if let Some(saving) = would_run {
            saving.stopped = true;
        }
    }

    pub(super) fn vary(&mut self, from: &str, stanza: i32, variation: ControlVariation) {
        let found = self.conversation.find(&variation.target_id);
        let target = match (self.unfit(from, &variation, found), found) {
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
        let record = Record::Variation(record::Variation {
            from: from.to_owned(),
            target: target_id.clone(),
            mode,
            text: text.clone(),
            at: self.now,
        });
        self.save(from, Some(stanza), record, Accepted::Variation { target, target_id, mode, text });
    }

    /// Why there cannot be such a variation.
    fn unfit(&self, from: &str, variation: &ControlVariation, target: Option<Key>) -> Option<Complaint> {
        let ControlVariation { target_id, mode, new_content, .. } = variation;
        let blank = new_content.as_deref().is_none_or(|text| text.trim().is_empty());
        let said = target.and_then(|key| self.conversation.node(key)).map(|node| &node.said);
        let (code, message) = match (mode, said) {
            _ if !is_usable(target_id) => (101, "body.targetId is blank, or longer than 128 bytes"),
            (VariationMode::Edit, _) if blank => (101, "An edit needs newContent."),
            (_, None) => (202, "There is nothing with this targetId, or it is too long ago."),
            (VariationMode::Edit, Some(Said::User(message))) if message.from != from => {
                (203, "Only its author may edit a message.")
            }
            (VariationMode::Edit, Some(Said::Agent(_))) => (202, "Only a user message can be edited."),
            (VariationMode::Continue, Some(Said::User(_))) => (202, "Only an answer can be continued."),
            (_, Some(Said::Agent(answer))) if answer.message.is_none() => {
                (202, "A greeting answers nothing and has no variation.")
            }
            _ => return None,
        };
        Some(Complaint::refusal(code, message))
    }

    /// Turns to what is to be answered anew. Where it is no longer held, gives back who asked.
    pub(super) fn variation(
        &mut self,
        from: String,
        arrived: Time,
        target: Key,
        mode: VariationMode,
        text: Option<String>,
    ) -> Result<Work, String> {
        let Some((message, go_on_from)) = self.conversation.varied(target, mode) else { return Err(from) };
        let running = self.turn.as_ref().map(|turn| &turn.work);
        let earlier = running.into_iter().chain(&self.waiting);
        let (by, chat) = self.told_how_it_ends(message, from.clone(), earlier);
        // Whatever is being said to this message is out of date now.
        self.close_waiting(TurnEnd::Superseded, |work| work.message == message);
        if self.turn.as_ref().is_some_and(|turn| turn.work.message == message) {
            self.break_off(TurnEnd::Superseded);
        }
        self.turn_to(message, go_on_from, text, by, chat, arrived).ok_or(from)
    }

    /// Who is told how the answer to a variation ends, and whether by transcripts alone: where its author still waits for an
    /// answer, the author stays the one.
    pub(super) fn told_how_it_ends<'a>(
        &self,
        message: Key,
        from: String,
        mut earlier: impl Iterator<Item = &'a Work>,
    ) -> (String, bool) {
        let author = self.conversation.user(message).map(|message| &message.from);
        let waits = earlier.find(|work| work.message == message && author == Some(&work.by));
        waits.map_or((from, false), |work| (work.by.clone(), work.chat))
    }

    /// Goes on from what is to be answered anew.
    pub(super) fn turn_to(
        &mut self,
        message: Key,
        go_on_from: Option<Key>,
        text: Option<String>,
        by: String,
        chat: bool,
        arrived: Time,
    ) -> Option<Work> {
        let message_id = self.conversation.node(message)?.id.clone();
        self.conversation.hold(message);
        if let Some(answer) = go_on_from {
            self.conversation.hold(answer);
        }
        match text {
            Some(text) => self.conversation.edit(message, text),
            None => self.conversation.return_to(go_on_from.unwrap_or(message)),
        }
        Some(Work { go_on_from, ..Work::new(message, message_id, by, chat, arrived) })
    }
}
