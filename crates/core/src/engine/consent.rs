//! Asking before a tool is used: the one who asked for the answer is shown the tool and its exact arguments, and allows it or
//! not. Until then nothing is run, and no `ToolUseRequest` is sent.
//!
//! Only that one's word counts, once, in time. Whoever cannot be asked has not allowed it. A tool that was refused is not
//! asked for again in the same turn: a model that was talked into wanting it must not wear people down.

use super::Complaint;
use super::Engine;
use super::event::{Count, RunId};
use super::people::{Audience, TOOL_CONSENT};
use super::record::{self, Record};
use super::tool_loop::{Run, Stage, millis};
use super::tool_text::replayable;
use super::turn::Turn;
use crate::ids::Kind;
use crate::wire::body::{Body, ToolConsent, ToolConsentRequest};

/// How often someone is asked within one turn.
const MAX_ASKED: usize = 8;

const CANNOT_BE_ASKED: &str = "This call needs the user's leave, and the user's client cannot ask for it. It was not run. Go on without it.";
const NOT_ALLOWED: &str =
    "The user did not allow this call. It was not run. Do not try it again unless the user asks for it.";

impl Engine {
    /// Asks whether a call may be run; or says why that cannot be asked.
    pub(super) fn ask_consent(&mut self, turn: &mut Turn, run: &mut Run, reason: &str) -> Result<(), String> {
        if !self.people.lists(&turn.work.by, TOOL_CONSENT) {
            return Err(CANNOT_BE_ASKED.to_owned());
        }
        if turn.trouble.denied.contains(&run.call.name) {
            return Err(NOT_ALLOWED.to_owned());
        }
        if turn.trouble.asked >= MAX_ASKED {
            return Err(
                "The user was asked for leave too often. It was not run. Go on without it.".to_owned()
            );
        }
        turn.trouble.asked += 1;
        run.stage = Stage::Asked;
        run.deadline = Some(self.now + self.settings.consent_timeout);
        let asked = record::ToolAsked {
            message: turn.work.message_id.clone(),
            call: replayable(&run.call),
            request: run.request.clone(),
            at: self.now,
        };
        self.outbox.save(Record::ToolAsked(asked), false, &mut self.outputs);
        reason.clone_into(&mut run.reason);
        self.send_consent_request(&turn.work.message_id, &turn.work.by, run);
        Ok(())
    }

    /// Asks, or asks again one who has come back.
    pub(super) fn send_consent_request(&mut self, message: &str, by: &str, run: &mut Run) {
        let left = run.deadline.map_or(self.settings.consent_timeout, |deadline| deadline - self.now);
        let request = ToolConsentRequest {
            id: self.ids.next(Kind::Consent),
            request_id: run.request.clone(),
            message_id: message.to_owned(),
            conversation_id: self.settings.conversation.clone(),
            tool_name: run.called.as_ref().map_or(&*run.call.name, |called| called.wire_name()).to_owned(),
            parameters: self.shown_arguments(run),
            reason: Some(run.reason.clone()),
            timeout_ms: millis(left),
        };
        self.outbox.take_back(run.asked_by.take());
        self.send(Audience::One(by.to_owned()), Body::ToolConsentRequest(request));
        run.asked_by = Some(self.outbox.number());
    }

    /// Someone allows a call, or not.
    pub(super) fn consented(&mut self, from: &str, stanza: i32, consent: &ToolConsent) {
        let Some(id) = self.open_for(from, stanza, &consent.request_id, &Stage::Asked, || {
            Body::ToolConsent(consent.clone())
        }) else {
            return;
        };
        let Some(mut turn) = self.turn.take() else { return };
        if consent.allow {
            self.begin_allowed(&mut turn, id);
        } else {
            self.deny(&mut turn, id, NOT_ALLOWED);
        }
        // Behind what came of it, which is stored first: leave that was acknowledged is not asked for again.
        self.acknowledge(from, stanza, true);
        let next = turn.collect();
        self.go_on(turn, next);
    }

    /// Runs what was allowed, if it is still what was asked for.
    fn begin_allowed(&mut self, turn: &mut Turn, id: RunId) {
        let available = self.available(turn);
        let Some(place) = turn.runs.iter().position(|run| run.id == id) else { return };
        let same = turn.runs[place].called.as_ref().is_some_and(|called| available.contains(called));
        if !same {
            let message = "The tool has changed or gone meanwhile. It was not run.".to_owned();
            return self.settle(turn, id, Err(("cancelled", message)));
        }
        let (message, by) = (turn.work.message_id.clone(), turn.work.by.clone());
        self.begin_run(&message, &by, &mut turn.runs[place]);
    }

    /// A call is not to be run.
    pub(super) fn deny(&mut self, turn: &mut Turn, id: RunId, message: &str) {
        if let Some(run) = turn.runs.iter().find(|run| run.id == id) {
            turn.trouble.denied.insert(run.call.name.clone());
        }
        self.settle(turn, id, Err(("cancelled", message.to_owned())));
    }

    /// The call that waits for this word of this sender. Anything else is refused, counted, and changes nothing.
    pub(super) fn open_for(
        &mut self,
        from: &str,
        stanza: i32,
        request: &str,
        stage: &Stage,
        body: impl FnOnce() -> Body,
    ) -> Option<RunId> {
        let turn = self.turn.as_ref();
        let waits = |run: &&Run| run.stage == *stage && run.request == request;
        let open = turn.and_then(|turn| Some((turn.runs.iter().find(waits)?.id, turn.work.by == from)));
        let complaint = match open {
            Some((id, true)) => return Some(id),
            Some((_, false)) => Complaint::refusal(203, "This is for another participant to answer."),
            None => Complaint::refusal(202, "Nobody waits for this: no such tool request is open for you."),
        };
        self.count(Count::Forged);
        self.refuse(from, stanza, &body(), complaint);
        None
    }
}
