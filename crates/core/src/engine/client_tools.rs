//! Tools that the asking user's client runs: the request goes to it alone, and only its answer counts, once.
//!
//! Whoever leaves may be back in a moment, with the same page loaded anew: what it was to run or to allow stays open for that
//! long and is then sent again, under a new number with the same id. `Either`: the client, where it offers the tool when it is
//! called; the agent, where it does not, or where it has not answered and running the tool twice does no harm.

use super::Engine;
use super::event::RunId;
use super::people::{Audience, TOOL_CONSENT};
use super::tool_loop::{Run, Stage};
use super::toolbox::Available;
use super::turn::Turn;
use crate::tool::Execution;
use crate::wire::body::{self, Body, ToolUseResult};
use serde_json::Value;
use std::time::Duration;

/// How long one who has left may take to come back.
const MAY_BE_AWAY: Duration = Duration::from_secs(10);

impl Engine {
    /// Whether a tool is run by the client of the one who asked, by an envelope.
    pub(super) fn is_for_client(&self, by: &str, called: &Available) -> bool {
        match called.tool.execution {
            Execution::Server | Execution::Rpc => false,
            Execution::Client => true,
            Execution::Either => {
                self.people.offers(by).iter().any(|offer| offer.name == called.tool.spec.name)
            }
        }
    }

    /// Sends the request to the client that is to run it, or sends it again.
    pub(super) fn hand_to_client(&mut self, message: &str, by: &str, run: &mut Run) {
        let either = run.called.as_ref().is_some_and(|called| called.tool.execution == Execution::Either);
        let execution = if either { body::Execution::Either } else { body::Execution::Client };
        let request = self.tool_use_request(message, run, execution);
        self.outbox.take_back(run.asked_by.take());
        self.send(Audience::One(by.to_owned()), request);
        run.asked_by = Some(self.outbox.number());
    }

    /// A client says what its tool gave.
    pub(super) fn client_answered(&mut self, from: &str, stanza: i32, result: ToolUseResult) {
        let request = result.request_id.clone();
        let Some(id) =
            self.open_for(from, stanza, &request, &Stage::Client, || Body::ToolUseResult(result.clone()))
        else {
            return;
        };
        let Some(mut turn) = self.turn.take() else { return };
        let outcome = if result.success {
            Ok(result.result.unwrap_or(Value::Null))
        } else {
            let word =
                result.error_code.as_deref().and_then(|code| WORDS.into_iter().find(|word| *word == code));
            let message = result.error_message.or(result.error_code);
            Err((
                word.unwrap_or("execution_error"),
                message.unwrap_or_else(|| "It gave no reason.".to_owned()),
            ))
        };
        self.settle_answered(&mut turn, id, outcome);
        // Behind the result, which is stored first: what is acknowledged is not lost.
        self.acknowledge(from, stanza, true);
        let next = turn.collect();
        self.go_on(turn, next);
    }

    /// A client has not answered in time, or is gone.
    pub(super) fn give_up_client(&mut self, turn: &mut Turn, id: RunId) {
        let Some(place) = turn.runs.iter().position(|run| run.id == id) else { return };
        let run = &mut turn.runs[place];
        let Some(called) = &run.called else { return };
        let time = called.tool.timeout.unwrap_or(self.settings.tool_timeout);
        if called.tool.execution == Execution::Either && called.tool.spec.repeatable {
            self.outbox.take_back(run.asked_by.take());
            run.stage = Stage::Server;
            run.away_until = None;
            run.deadline = Some(self.now + time);
            let run = &turn.runs[place];
            let request = self.tool_use_request(&turn.work.message_id, run, body::Execution::Server);
            self.send(Audience::Tools, request);
            return self.run_here(run, None);
        }
        let outcome = if run.deadline.is_some_and(|deadline| deadline <= self.now) {
            ("timeout", format!("The tool did not answer within {} s.", time.as_secs()))
        } else if run.away_until.is_none() {
            ("cancelled", "The user's client does not offer this any more. It may have been run.".to_owned())
        } else {
            (
                "cancelled",
                "The user's client, which was to run this, has left. It may have been run.".to_owned(),
            )
        };
        self.settle(turn, id, Err(outcome));
    }

    /// Someone has left: what waits for that one waits a moment longer.
    pub(super) fn went_away(&mut self, identity: &str) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.work.by == identity) else { return };
        for run in turn.runs.iter_mut().filter(|run| matches!(run.stage, Stage::Asked | Stage::Client)) {
            run.away_until.get_or_insert(self.now + MAY_BE_AWAY);
        }
    }

    /// Someone is there again. What its client offers and can ask it will say; what the agent's list declares it need not.
    pub(super) fn came_back(&mut self, identity: &str) {
        self.again(identity, |_, run| match run.stage {
            Stage::Client if run.is_declared_for_clients() => Again::Send,
            _ => Again::Wait,
        });
    }

    /// A client has said what it can do: it gets what is open for it again. What it says that it cannot do any more is over.
    pub(super) fn send_open_again(&mut self, identity: &str, offers_anew: bool) {
        self.again(identity, |engine, run| {
            let offers = |name: &str| engine.people.offers(identity).iter().any(|offer| offer.name == name);
            match (&run.stage, &run.called) {
                (Stage::Asked, _) if engine.people.lists(identity, TOOL_CONSENT) => Again::Send,
                (Stage::Client, _) if run.is_declared_for_clients() => Again::Send,
                (Stage::Client, Some(called)) if offers(called.wire_name()) => Again::Send,
                (Stage::Client, _) if offers_anew => Again::GiveUp,
                _ => Again::Wait,
            }
        });
    }

    fn again(&mut self, identity: &str, decide: impl Fn(&Self, &Run) -> Again) {
        let Some(mut turn) = self.turn.take_if(|turn| turn.work.by == identity) else { return };
        let (message, by) = (turn.work.message_id.clone(), turn.work.by.clone());
        for place in 0..turn.runs.len() {
            let run = &mut turn.runs[place];
            match decide(self, run) {
                Again::Wait => {}
                Again::Send => {
                    run.away_until = None;
                    match run.stage {
                        Stage::Asked => self.send_consent_request(&message, &by, run),
                        _ => self.hand_to_client(&message, &by, run),
                    }
                }
                Again::GiveUp => {
                    let id = run.id;
                    self.give_up_client(&mut turn, id);
                }
            }
        }
        let next = if turn.runs.is_empty() { super::turn::Next::Wait } else { turn.collect() };
        self.go_on(turn, next);
    }
}

/// The protocol's words for what went wrong.
const WORDS: [&str; 5] = ["unknown_tool", "invalid_parameters", "timeout", "execution_error", "cancelled"];

/// What is done about a call that is open for a client.
enum Again {
    Wait,
    Send,
    GiveUp,
}

impl Run {
    /// Whether the agent's list has it as one for clients, whatever they offer.
    fn is_declared_for_clients(&self) -> bool {
        let declared = self.called.as_ref().filter(|called| !called.is_offered());
        declared.is_some_and(|called| called.tool.execution == Execution::Client)
    }
}
