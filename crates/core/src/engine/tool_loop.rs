//! The tool loop: what the model calls is run, shown, and given back to it, until it answers.
//!
//! A call is judged before anything happens: is there such a tool for everyone who speaks here, do the arguments fit, does
//! someone have to be asked first (`policy`, `consent`)? Then the agent runs it, or the asking user's client (`client_tools`).
//! Whatever goes wrong (a tool that does not exist, arguments that make no sense, no answer in time) is told to the model,
//! which may know better. Results are shown as they come and stored together with being shown, so that no crash leaves the
//! room waiting for one; the model gets them in the order of its calls.

use super::Engine;
use super::event::{AgentState, Count, Output, RunId, ToolOutcome, TurnEnd};
use super::hook::QuestionId;
use super::people::Audience;
use super::policy::{Taint, Verdict};
use super::progress::Progress;
use super::record::{self, Record};
use super::tool_text::{Outcome, for_the_model, for_the_room, replayable};
use super::toolbox::Available;
use super::turn::{Next, Turn};
use crate::ids::Kind;
use crate::model::{Message, ToolCall, untrusted::neutralise};
use crate::schema;
use crate::time::Time;
use crate::tool::Execution;
use crate::wire::body::{self, Body, ToolUseRequest, ToolUseResult};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many calls of one response are run. One more is kept, to tell the model; what comes after that is dropped.
pub(super) const MAX_CALLS: usize = 32;
/// How often a model may correct the arguments of a call.
const MAX_CORRECTIONS: u32 = 2;
/// What it is told then.
const ENOUGH: &str = " Do not try this again: go on without the tool.";

/// One call, from the model's asking to the tool's answer.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) call: ToolCall,
    pub(super) id: RunId,
    /// The tool, where there is one and the call fits it.
    pub(super) called: Option<Available>,
    /// The id of the `ToolUseRequest`, sent or to be sent.
    pub(super) request: String,
    /// Why someone is asked, where someone is.
    pub(super) reason: String,
    pub(super) stage: Stage,
    /// It has been begun, and the room may know of it.
    begun: bool,
    /// One client was shown it, whoever runs it then, and is to be told its end.
    pub(super) handed: bool,
    /// When the answer is given up.
    pub(super) deadline: Option<Time>,
    /// When it is given up because the one who is to answer is away.
    pub(super) away_until: Option<Time>,
    /// The number of the packet by which the one who is to answer was asked last.
    pub(super) asked_by: Option<i32>,
    /// How far it is, as the tool says.
    pub(super) progress: Progress,
}

/// Why a call cannot be run at all: the protocol's word, what is wrong, and what the model can do about it.
struct Misfit {
    word: &'static str,
    fault: String,
    remedy: &'static str,
}

/// How far a call has come.
#[derive(Debug, PartialEq)]
pub(super) enum Stage {
    /// A hook is asked about it.
    Judged(QuestionId),
    /// The asking user is asked whether it may be run.
    Asked,
    /// The asking user's client runs it.
    Client,
    /// The agent runs it.
    Server,
    /// It is over, and this is what the model is told.
    Over(String),
}

/// How the use of tools has gone in a turn.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Of each tool, in how many rounds on end its arguments made no sense, and in which round last.
    corrections: BTreeMap<String, (u32, u32)>,
    /// The tools whose use was not allowed.
    pub(super) denied: BTreeSet<String>,
    /// How often someone was asked.
    pub(super) asked: usize,
}

impl Trouble {
    /// The arguments of a call made no sense; what else the model is told then. A round counts once: what was called together
    /// with it could not be corrected yet.
    fn count_fault(&mut self, tool: &str, round: u32) -> &'static str {
        let (count, last) = self.corrections.entry(tool.to_owned()).or_insert((0, round));
        if *count == 0 || *last != round {
            *count += 1;
        }
        *last = round;
        if *count > MAX_CORRECTIONS { ENOUGH } else { "" }
    }
}

impl Run {
    fn new(call: ToolCall, id: RunId) -> Self {
        let stage = Stage::Over(String::new());
        let (request, reason, begun) = (String::new(), String::new(), false);
        Self {
            call,
            id,
            called: None,
            request,
            reason,
            stage,
            begun,
            handed: false,
            deadline: None,
            away_until: None,
            asked_by: None,
            progress: Progress::default(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_))
    }

    /// When it is to be given up.
    pub(super) fn due(&self) -> Option<Time> {
        let moments = [self.deadline, self.away_until];
        moments.into_iter().flatten().min().filter(|_| !self.is_over())
    }

    /// Its tool, if it fits it; else what is wrong with the call, for the model.
    fn fit(&self, available: &[Available]) -> Result<Available, Misfit> {
        let Some(called) = available.iter().find(|one| one.tool.spec.name == self.call.name) else {
            let names: Vec<&str> = available.iter().map(|one| one.tool.spec.name.as_str()).collect();
            let fault = format!("There is no such tool. There are: {}", names.join(", "));
            return Err(Misfit { word: "unknown_tool", fault, remedy: "" });
        };
        let (fault, remedy) = match &self.call.arguments {
            Err(_) => ("The arguments are not a JSON object.".to_owned(), " Call the tool again with one."),
            Ok(arguments) => {
                let arguments = Value::Object(arguments.clone());
                let faults = schema::faults(&called.tool.spec.parameters, &arguments);
                if faults.is_empty() {
                    return Ok(called.clone());
                }
                (format!("{}.", faults.join("; ")), " Correct this and call it again.")
            }
        };
        Err(Misfit { word: "invalid_parameters", fault, remedy })
    }

    pub(super) fn fail(&mut self, word: &'static str, message: String) {
        self.stage = Stage::Over(for_the_model(Err((word, message)), None));
    }

    /// What a hook is asked about it, while it is.
    pub(super) fn question(&self) -> Option<QuestionId> {
        match self.stage {
            Stage::Judged(question) => Some(question),
            _ => None,
        }
    }

    pub(super) fn arguments(&self) -> Map<String, Value> {
        self.call.arguments.clone().unwrap_or_default()
    }
}

impl Engine {
    /// Runs what the model called.
    pub(super) fn use_tools(&mut self, turn: &mut Turn) -> Next {
        // What is judged before it is said has been said by now.
        if !self.judges_sentences() {
            let spoken = turn.speaking.pause();
            self.say(turn, spoken);
        }
        self.show(AgentState::Thinking);
        // Before anything is run: a limit that is found out afterwards is none.
        if let Some(complaint) = self.over_turn_budget(turn, turn.called.len()) {
            return Next::End(TurnEnd::Failed, Some(complaint));
        }
        for (nth, mut call) in std::mem::take(&mut turn.called).into_iter().enumerate() {
            self.runs += 1;
            // Endpoints number calls anew in each response; a prompt holds those of many. Some take only nine letters
            // and digits.
            call.id = format!("call{:05}", self.runs);
            let mut run = Run::new(call, RunId(self.runs));
            if nth < MAX_CALLS {
                self.start_run(turn, &mut run);
            } else {
                let message = format!(
                    "Too many calls at once: this one and all after it were not run. Call at most {MAX_CALLS} at once."
                );
                run.fail("invalid_parameters", message);
            }
            turn.runs.push(run);
        }
        turn.collect()
    }

    /// A call that fits its tool is judged by the hook, where there is one, and by the agent's own rules.
    fn start_run(&mut self, turn: &mut Turn, run: &mut Run) {
        match run.fit(&self.available(turn)) {
            Ok(called) => run.called = Some(called),
            Err(Misfit { word, fault, remedy }) => {
                let advice = match word {
                    "invalid_parameters" => turn.trouble.count_fault(&run.call.name, turn.round),
                    _ => "",
                };
                return run.fail(word, format!("{fault}{remedy}{advice}"));
            }
        }
        run.request = self.ids.next(Kind::ToolUse);
        if !self.judge_call(turn, run) {
            self.permit(turn, run, false);
        }
    }

    /// Judges a call by the agent's own rules, and runs it or asks for it or does not. `changed`: a hook has changed it, which the
    /// model cannot correct.
    pub(super) fn permit(&mut self, turn: &mut Turn, run: &mut Run, changed: bool) {
        let available = self.available(turn);
        let called = match run.fit(&available) {
            Ok(called) => called,
            Err(Misfit { fault, .. }) if changed => {
                let message = format!(
                    "It was not run: the rules of this agent made a call of it that does not fit the tool. {fault}"
                );
                return self.refuse_run(turn, run, &message);
            }
            Err(Misfit { word, fault, remedy }) => return run.fail(word, format!("{fault}{remedy}")),
        };
        let verdict = self.verdict(turn, &called, &available);
        run.called = Some(called);
        match verdict {
            Verdict::Run => self.begin_run(&turn.work.message_id, &turn.work.by, run),
            Verdict::Ask(reason) => {
                if let Err(message) = self.ask_consent(turn, run, reason) {
                    run.fail("cancelled", message);
                }
            }
            Verdict::Refuse(reason) => run.fail("cancelled", format!("It was not run. {reason}")),
        }
    }

    /// Runs a tool that may be run: here, or by handing it to the client of the one who asked.
    pub(super) fn begin_run(&mut self, message: &str, by: &str, run: &mut Run) {
        let Some(called) = &run.called else { return };
        let repeatable = called.tool.spec.repeatable;
        let by_client = self.is_for_client(by, called);
        run.handed = by_client || called.tool.execution == Execution::Rpc;
        let begun = Record::ToolBegun(record::ToolBegun {
            message: message.to_owned(),
            call: replayable(&run.call),
            request: run.request.clone(),
            repeatable,
            handed: run.handed,
            taint: Taint::of(called.tool.effects),
            at: self.now,
        });
        run.begun = true;
        // Whoever was waited for has answered.
        run.away_until = None;
        run.deadline = Some(self.now + self.time_of(run));
        // What must not be done twice is not done before it is known, whatever happens, that it was begun.
        if by_client {
            run.stage = Stage::Client;
            self.outbox.save(begun, !repeatable, &mut self.outputs);
            self.hand_to_client(message, by, run);
        } else {
            run.stage = Stage::Server;
            let client = (called.tool.execution == Execution::Rpc).then(|| by.to_owned());
            // What is handed to one client is not for the others to see; and nobody is asked by an envelope to run it.
            let audience = client.clone().map_or(Audience::Tools, Audience::One);
            let request = self.tool_use_request(message, run, body::Execution::Server);
            self.send(audience, request);
            self.outbox.save(begun, !repeatable, &mut self.outputs);
            self.run_here(run, client);
        }
    }

    /// The agent runs it, or calls the client that does, once what was to be stored before is stored.
    pub(super) fn run_here(&mut self, run: &Run, callee: Option<String>) {
        let name = run.call.name.clone();
        let arguments = if callee.is_some() { self.shown_arguments(run) } else { run.arguments() };
        let start = Output::RunTool { run: run.id, name, arguments, timeout: self.time_of(run), callee };
        self.outbox.follow(start, &mut self.outputs);
    }

    pub(super) fn tool_use_request(&self, message: &str, run: &Run, execution: body::Execution) -> Body {
        let name = run.called.as_ref().map_or(run.call.name.as_str(), Available::wire_name);
        Body::ToolUseRequest(ToolUseRequest {
            id: run.request.clone(),
            message_id: message.to_owned(),
            conversation_id: self.settings.conversation.clone(),
            tool_name: name.to_owned(),
            parameters: self.shown_arguments(run),
            execution,
            timeout_ms: Some(millis(self.time_of(run))),
        })
    }

    /// The arguments as people may see them: exactly, but for secrets.
    pub(super) fn shown_arguments(&self, run: &Run) -> Map<String, Value> {
        let mut shown = Value::Object(run.arguments());
        self.settings.secrets.hide_json(&mut shown);
        shown.as_object().cloned().unwrap_or_default()
    }

    /// The time that a run has.
    fn time_of(&self, run: &Run) -> Duration {
        let own = run.called.as_ref().and_then(|called| called.tool.timeout);
        own.unwrap_or(self.settings.tool_timeout)
    }

    /// A tool has ended.
    pub(super) fn tool_ended(&mut self, id: RunId, outcome: ToolOutcome) {
        let mine = |turn: &Turn| turn.runs.iter().any(|run| run.id == id && run.stage == Stage::Server);
        let Some(mut turn) = self.turn.take_if(|turn| mine(turn)) else {
            self.count(Count::Stale);
            return;
        };
        let outcome = match outcome {
            ToolOutcome::Done(value) => Ok(value),
            ToolOutcome::Failed(message) => Err(("execution_error", message)),
            ToolOutcome::InvalidParameters(message) => Err(("invalid_parameters", message)),
        };
        self.settle_answered(&mut turn, id, outcome);
        let next = turn.collect();
        self.go_on(turn, next);
    }

    /// Does something about calls whose time is over.
    pub(super) fn wake_tools(&mut self, turn: &mut Turn) -> Next {
        self.show_progress(turn);
        let due = |run: &&Run| run.due().is_some_and(|due| due <= self.now);
        let due: Vec<RunId> = turn.runs.iter().filter(due).map(|run| run.id).collect();
        if due.is_empty() {
            return Next::Wait;
        }
        for id in due {
            self.give_up_run(turn, id);
        }
        turn.collect()
    }

    fn give_up_run(&mut self, turn: &mut Turn, id: RunId) {
        let Some(run) = turn.runs.iter_mut().find(|run| run.id == id) else { return };
        match run.stage {
            Stage::Judged(_) => self.give_up_question(turn, id),
            Stage::Asked => self.deny(turn, id, "Nobody allowed this call in time. It was not run."),
            Stage::Client => self.give_up_client(turn, id),
            Stage::Server => {
                let seconds = self.time_of(run).as_secs();
                self.cancel_run(id);
                let message = format!("The tool did not answer within {seconds} s.");
                self.settle(turn, id, Err(("timeout", message)));
            }
            Stage::Over(_) => {}
        }
    }

    /// Ends what is still running; the room is told.
    pub(super) fn cancel_tools(&mut self, turn: &mut Turn) {
        let open = turn.runs.iter().filter(|run| !run.is_over());
        let open: Vec<_> = open.map(|run| (run.id, run.stage == Stage::Server, run.question())).collect();
        for (id, here, question) in open {
            if here {
                self.cancel_run(id);
            }
            self.outputs.extend(question.map(Output::CancelHook));
            self.settle(turn, id, Err(("cancelled", "The answer was broken off.".to_owned())));
        }
    }

    /// Ends a run, or keeps it from beginning where the store has kept it waiting.
    fn cancel_run(&mut self, id: RunId) {
        if !self.outbox.withdraw(id) {
            self.outputs.push_back(Output::CancelTool(id));
        }
    }

    /// The tool has answered, in its own words.
    pub(super) fn settle_answered(&mut self, turn: &mut Turn, id: RunId, outcome: Outcome) {
        let Some(run) = turn.runs.iter().find(|run| run.id == id) else { return };
        let untrusted = run.called.as_ref().is_some_and(|called| called.tool.effects.untrusted_output);
        let written_by = Some(run.call.name.clone()).filter(|_| untrusted);
        let advice = match &outcome {
            Err(("invalid_parameters", _)) => turn.trouble.count_fault(&run.call.name, turn.round),
            Ok(_) => {
                turn.trouble.corrections.remove(&run.call.name);
                ""
            }
            Err(_) => "",
        };
        self.settle_as(turn, id, outcome, written_by.as_deref(), advice);
    }

    /// A run is over for a reason of ours.
    pub(super) fn settle(&mut self, turn: &mut Turn, id: RunId, outcome: Outcome) {
        self.settle_as(turn, id, outcome, None, "");
    }

    /// A run is over: that is stored and shown.
    fn settle_as(
        &mut self,
        turn: &mut Turn,
        id: RunId,
        outcome: Outcome,
        written_by: Option<&str>,
        advice: &str,
    ) {
        let Some(run) = turn.runs.iter_mut().find(|run| run.id == id && !run.is_over()) else { return };
        let outcome = match outcome {
            Ok(mut value) => {
                self.settings.secrets.hide_json(&mut value);
                Ok(value)
            }
            Err((word, message)) => Err((word, self.settings.secrets.hide(&message).into_owned())),
        };
        // Whom the store has kept waiting need not be asked any more.
        self.outbox.take_back(run.asked_by.take());
        // The advice is ours, and stands outside of what others wrote.
        let content = for_the_model(outcome.clone(), written_by)
            + if advice.is_empty() { "" } else { "\n" }
            + advice.trim();
        run.stage = Stage::Over(content.clone());
        let (call, request_id) = (run.call.id.clone(), run.request.clone());
        let (begun, handed) = (run.begun, run.handed);
        let ended = Record::ToolEnded(record::ToolEnded { call, content, at: self.now });
        // What was never begun nobody was shown. Whoever did not allow it is told that this was heard once it is stored.
        if begun {
            self.keep(ended);
            self.show_result(request_id, outcome, Some(turn.work.by.as_str()).filter(|_| handed));
        } else {
            self.outbox.save(ended, false, &mut self.outputs);
        }
    }

    /// Shows a result to the room; to the client that was shown the call in any case, so that it knows when that is over.
    pub(super) fn show_result(&mut self, request_id: String, outcome: Outcome, client: Option<&str>) {
        let (result, error) = match outcome {
            Ok(value) => (Some(for_the_room(value)), None),
            Err(error) => (None, Some(error)),
        };
        let (error_code, error_message) = error.map(|(word, message)| (word.to_owned(), message)).unzip();
        let result = ToolUseResult {
            id: self.ids.next(Kind::ToolResult),
            request_id,
            conversation_id: self.settings.conversation.clone(),
            success: result.is_some(),
            result,
            error_code,
            error_message,
        };
        let audience = match client {
            Some(client) if !self.people.has(&Audience::Tools) => Audience::One(client.to_owned()),
            _ => Audience::Tools,
        };
        self.send(audience, Body::ToolUseResult(result));
    }
}

impl Turn {
    /// When all results are there they go to the model.
    pub(super) fn collect(&mut self) -> Next {
        if self.runs.iter().any(|run| !run.is_over()) {
            return Next::Wait;
        }
        let runs = std::mem::take(&mut self.runs);
        let calls: Vec<ToolCall> = runs.iter().map(|run| replayable(&run.call)).collect();
        let thought = std::mem::take(&mut self.thought);
        let reasoning = Some(neutralise(&thought).into_owned()).filter(|thought| !thought.trim().is_empty());
        let text = neutralise(self.said_aloud().trim()).into_owned();
        self.tool_loop.push(Message::Assistant { text, reasoning, calls: calls.clone() });
        for (run, call) in runs.into_iter().zip(calls) {
            if let Some(called) = run.called.as_ref().filter(|_| run.begun) {
                self.taint = self.taint | Taint::of(called.tool.effects);
            }
            let Stage::Over(content) = run.stage else { continue };
            self.tool_loop.push(Message::Tool { call: call.id.clone(), content: content.clone() });
            self.calls.push((call, content));
        }
        self.round += 1;
        Next::Ask
    }
}

/// A duration as the wire has it.
pub(super) fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
