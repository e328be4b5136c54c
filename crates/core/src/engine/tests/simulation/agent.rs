//! Agents as processes: an engine each, and around it what the shell does. They perform outputs in order, store what one
//! input brought about as one transaction, try again what could not be stored, are killed at any moment, pause and wake
//! up, lose the conversation to each other.

use super::model::{Answering, PAY};
use super::schedule::{Event, Simulation, brief_output};
use super::store::{Fault, Refused};
use crate::engine::Engine;
use crate::engine::event::{Input, Output, Participant, RequestId, RunId, Ticket, ToolOutcome};
use crate::engine::hook::{Question, QuestionId};
use crate::engine::record::{Page, Record};
use crate::model::Chunk;
use crate::time::Time;
use crate::wire::Envelope;
use crate::wire::body::Body;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Wants the conversation.
    Waiting,
    /// Has it, or believes so.
    Live,
    Gone,
}

/// What happens to an agent.
#[expect(clippy::large_enum_variant, reason = "handed over once, one at a time")]
pub(super) enum ToAgent {
    Joined {
        client: usize,
        session: u32,
    },
    Left {
        client: usize,
    },
    Packet {
        client: usize,
        session: u32,
        envelope: Envelope,
    },
    Stored {
        batch: Batch,
        result: Result<(), Refused>,
    },
    Read {
        ticket: Ticket,
        page: Result<Page, Refused>,
    },
    /// Time to try again what could not be stored.
    Retry,
    Chunk(RequestId),
    ToolEnded(RunId),
    Ruled(QuestionId),
    Wake,
    Drain,
    Leave,
}

/// What is stored together: under which ticket, what, and whether it must be durable.
pub(super) type Batch = Vec<(Option<Ticket>, Record, bool)>;

/// What the store is to do for an agent, one after the other.
pub(super) enum Job {
    Append(Batch),
    Read { ticket: Ticket, after: i32, until: i32, most: usize },
}

/// A tool that is being run.
pub(super) struct Run {
    pub(super) name: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) message: String,
}

#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(super) struct Agent {
    pub(super) number: usize,
    pub(super) state: State,
    pub(super) engine: Option<Engine>,
    pub(super) fence: u64,
    /// The former engine panicked: what was open is given up.
    pub(super) after_panic: bool,
    pub(super) jobs: VecDeque<Job>,
    /// The store is at work for it, or it waits to try again.
    pub(super) busy: bool,
    pub(super) requests: BTreeMap<RequestId, Answering>,
    pub(super) runs: BTreeMap<RunId, Run>,
    pub(super) questions: BTreeMap<QuestionId, Question>,
    /// The turn that was begun last: its message and its answer.
    pub(super) turn: (String, String),
    pub(super) alarm: Option<Time>,
    /// What happens while it is paused.
    pub(super) paused: Option<VecDeque<ToAgent>>,
    /// Since when the store has not heard of it.
    pub(super) unheard_since: Option<Time>,
    /// Until when it cannot reach the store.
    pub(super) cut_off_until: Time,
    pub(super) away_from_room: bool,
    /// Whether the store still gets what was on its way when it died, and until when clients get what was.
    pub(super) commits_late: bool,
    pub(super) silent_from: Option<Time>,
    pub(super) leaving: bool,
    /// The session of each client that it knows of.
    pub(super) sessions: BTreeMap<usize, u32>,
    /// How often each client has asked, and what of what is kept it was sent since.
    pub(super) sent: BTreeMap<usize, (u32, BTreeSet<i32>)>,
}

impl Agent {
    pub(super) fn new(number: usize, after_panic: bool) -> Self {
        Self {
            number,
            state: State::Waiting,
            engine: None,
            fence: 0,
            after_panic,
            jobs: VecDeque::new(),
            busy: false,
            requests: BTreeMap::new(),
            runs: BTreeMap::new(),
            questions: BTreeMap::new(),
            turn: (String::new(), String::new()),
            alarm: None,
            paused: None,
            unheard_since: None,
            cut_off_until: Time(0),
            away_from_room: false,
            commits_late: false,
            silent_from: None,
            leaving: false,
            sessions: BTreeMap::new(),
            sent: BTreeMap::new(),
        }
    }

    /// What keeps it from being at rest.
    pub(super) fn busy_with(&self) -> Option<&'static str> {
        let engine = self.engine.as_ref()?;
        if self.paused.is_some() {
            Some("is paused")
        } else if self.busy || !self.jobs.is_empty() {
            Some("is storing")
        } else if !engine.is_idle() || !self.requests.is_empty() || !self.runs.is_empty() {
            Some("is answering")
        } else {
            None
        }
    }

    /// Whether what it sent reaches anyone at this time.
    pub(super) fn is_heard(&self, now: Time) -> bool {
        self.silent_from.is_none_or(|silent| now < silent)
    }
}

impl Simulation {
    /// Something is on its way to an agent; while that is paused, it waits.
    pub(super) fn arrives(&mut self, agent: usize, what: ToAgent) {
        let me = &mut self.agents[agent];
        if me.state == State::Gone {
            return;
        }
        let of_the_room =
            matches!(what, ToAgent::Joined { .. } | ToAgent::Left { .. } | ToAgent::Packet { .. });
        if of_the_room && me.away_from_room {
            return;
        }
        match &mut me.paused {
            Some(kept) => kept.push_back(what),
            None => self.happens(agent, what),
        }
    }

    /// Something happens to an agent.
    pub(super) fn happens(&mut self, agent: usize, what: ToAgent) {
        let me = &mut self.agents[agent];
        match what {
            ToAgent::Joined { client, session } => {
                let one = &self.clients[client];
                if one.present && one.session == session {
                    me.sessions.insert(client, session);
                    let participant = Participant { identity: one.name.to_owned(), name: String::new() };
                    let identity = participant.identity.clone();
                    self.handle(agent, Input::Joined(participant));
                    self.handle(agent, Input::Attributes { identity, attributes: Vec::new(), fixed: true });
                }
            }
            ToAgent::Left { client } => {
                let identity = self.clients[client].name.to_owned();
                self.handle(agent, Input::Left { identity });
            }
            ToAgent::Packet { client, session, envelope } => {
                me.sessions.insert(client, session);
                if matches!(envelope.body, Body::Configuration(_)) {
                    let (asked, sent) = me.sent.entry(client).or_default();
                    *asked += 1;
                    sent.clear();
                }
                let from = self.clients[client].name.to_owned();
                self.tell(|| format!("agent {agent} gets of {from} {}", super::schedule::brief(&envelope)));
                self.handle(agent, Input::Received { from, envelope: Ok(envelope) });
            }
            ToAgent::Stored { batch, result } => self.stored(agent, batch, result),
            ToAgent::Read { ticket, page } => self.was_read(agent, ticket, page),
            ToAgent::Retry => self.rest(agent),
            ToAgent::Chunk(request) => self.chunk(agent, request),
            ToAgent::ToolEnded(run) => {
                if me.runs.remove(&run).is_some() {
                    let outcome = if self.dice.percent(80) {
                        ToolOutcome::Done(Value::from("done"))
                    } else {
                        ToolOutcome::Failed("no".to_owned())
                    };
                    self.handle(agent, Input::Tool { run, outcome });
                }
            }
            ToAgent::Ruled(question) => self.ruled(agent, question),
            ToAgent::Wake => {
                let due = me.engine.as_ref().and_then(Engine::poll_timeout);
                if due.is_some_and(|due| due <= self.now) {
                    self.handle(agent, Input::Wake);
                }
            }
            ToAgent::Drain => {
                me.leaving = true;
                self.handle(agent, Input::Drain);
            }
            ToAgent::Leave => {
                self.handle(agent, Input::Leave);
                // What it says at last may still reach the store and the room.
                let me = &mut self.agents[agent];
                me.requests.clear();
                me.runs.clear();
                me.questions.clear();
                let last = self.dice.between(0, 300);
                self.after(last, Event::Heartbeat(agent));
            }
        }
    }

    pub(super) fn handle(&mut self, agent: usize, input: Input) {
        let now = self.now;
        if let Some(engine) = &mut self.agents[agent].engine {
            engine.handle(now, input);
            self.perform(agent);
        }
    }

    /// Does what the engine says, in order.
    fn perform(&mut self, agent: usize) {
        let (mut batch, mut readings) = (Batch::new(), Vec::new());
        while let Some(output) = self.agents[agent].engine.as_mut().and_then(Engine::poll) {
            let stormy = self.healed.is_none() && self.weather.kills_within > 0;
            if stormy && self.dice.between(0, self.weather.kills_within) == 0 {
                return self.kill(agent, "in the middle of it");
            }
            if let Some(line) = brief_output(&output) {
                self.tell(|| format!("agent {agent} {line}"));
            }
            match output {
                Output::Save { ticket, record, durable } => {
                    if let Record::Begun(begun) = &record {
                        self.agents[agent].turn = (begun.message.clone(), begun.answer.clone());
                    }
                    batch.push((ticket, record, durable));
                }
                Output::Replay { ticket, after, until, most } => {
                    readings.push(Job::Read { ticket, after, until, most });
                }
                Output::Send { to, bytes } => self.send(agent, &to, bytes),
                Output::Generate { request, prompt } => {
                    let answering = self.model.answer(&prompt, self.healed.is_some(), &mut self.dice);
                    let me = &mut self.agents[agent];
                    me.requests.insert(request, answering);
                    self.model.begin(&me.turn.1);
                    self.next_chunk(agent, request);
                }
                Output::CancelGenerate(request) => _ = self.agents[agent].requests.remove(&request),
                Output::RunTool { run, name, arguments, .. } => self.run_tool(agent, run, name, arguments),
                Output::CancelTool(run) => _ = self.agents[agent].runs.remove(&run),
                Output::State(_) | Output::Transcript(_) | Output::Count { .. } | Output::TurnEnded(_) => {}
                Output::AskHook { question, about } => self.ask_hook(agent, question, about),
                Output::CancelHook(question) => self.cancel_question(agent, question),
            }
        }
        let me = &mut self.agents[agent];
        if self.store.fault == Fault::ReadTooEarly {
            for reading in readings.drain(..) {
                me.jobs.push_front(reading);
            }
        }
        if !batch.is_empty() {
            me.jobs.push_back(Job::Append(batch));
        }
        me.jobs.extend(readings);
        let due = me.engine.as_ref().and_then(Engine::poll_timeout);
        if me.alarm != due {
            me.alarm = due;
            if let Some(due) = due {
                self.at(due.max(self.now), Event::Agent(agent, ToAgent::Wake));
            }
        }
        self.next_job(agent);
    }

    fn run_tool(&mut self, agent: usize, run: RunId, name: String, arguments: Map<String, Value>) {
        let message = self.agents[agent].turn.0.clone();
        if self.model.lacks_leave(&name, &arguments) {
            return self.breaks(format!("{name} {arguments:?} is run without leave"));
        }
        if self.settings.hooks.before_tool.is_some() && !self.passed.may_be_run(&name, &arguments) {
            self.breaks(format!("{name} {arguments:?} is run, and no hook has let it pass"));
        }
        self.model.run(&name, &arguments, &message);
        let me = &mut self.agents[agent];
        let slow = name == PAY && self.dice.percent(20);
        me.runs.insert(run, Run { name, arguments, message });
        let takes = if slow { self.dice.between(1_000, 4_000) } else { self.dice.between(1, 1_500) };
        self.after(takes, Event::Agent(agent, ToAgent::ToolEnded(run)));
    }

    fn next_chunk(&mut self, agent: usize, request: RequestId) {
        let pause =
            if self.dice.percent(10) { self.dice.between(500, 3_000) } else { self.dice.between(1, 300) };
        self.after(pause, Event::Agent(agent, ToAgent::Chunk(request)));
    }

    fn chunk(&mut self, agent: usize, request: RequestId) {
        let me = &mut self.agents[agent];
        let Some(answering) = me.requests.get_mut(&request) else { return };
        let Some(result) = answering.pop_front() else { return };
        if answering.is_empty() {
            me.requests.remove(&request);
        } else {
            self.next_chunk(agent, request);
        }
        if let Ok(Chunk::Text(text)) = &result {
            self.model.heard(&self.agents[agent].turn.1, text);
        }
        self.tell(|| format!("agent {agent} model {}: {result:?}", request.0));
        self.handle(agent, Input::Model { request, result });
    }

    /// Hands the store what is next, if it is not at work for this agent already.
    fn next_job(&mut self, agent: usize) {
        let together = self.dice.percent(60);
        let me = &mut self.agents[agent];
        if me.busy {
            return;
        }
        let Some(mut job) = me.jobs.pop_front() else { return };
        // Several transactions may be one.
        if let Job::Append(batch) = &mut job {
            while together && let Some(Job::Append(more)) = me.jobs.front_mut() {
                batch.append(more);
                me.jobs.pop_front();
            }
        }
        me.busy = true;
        let takes =
            if self.dice.percent(5) { self.dice.between(50, 2_000) } else { self.dice.between(0, 10) };
        self.after(takes, Event::Commit(agent, job));
    }

    /// The store gets to it.
    pub(super) fn commit(&mut self, agent: usize, mut job: Job) {
        let me = &self.agents[agent];
        let gone = me.state == State::Gone;
        if gone && !me.commits_late {
            return;
        }
        let reachable = if gone { Time(0) } else { me.cut_off_until };
        let again = self.store.away_until.max(reachable);
        if again > self.now {
            return self.at(again, Event::Commit(agent, job));
        }
        if gone
            && self.store.fault == Fault::TornTransactions
            && let Job::Append(batch) = &mut job
        {
            batch.truncate(batch.len().div_ceil(2));
        }
        let fence = me.fence;
        let fails = self.store.full_until > self.now || (self.weather.hiccups && self.dice.percent(3));
        let fails = fails && self.healed.is_none();
        let done = match job {
            Job::Append(batch) => {
                let records = || batch.iter().map(|(_, record, _)| record.clone()).collect();
                let durable = batch.iter().any(|(.., durable)| *durable);
                if fails && self.store.fault == Fault::FailedButKept {
                    let _ = self.store.append(fence, records(), durable);
                }
                let result = if fails {
                    Err(Refused::Unavailable)
                } else {
                    self.store.append(fence, records(), durable)
                };
                self.tell(|| format!("agent {agent} store {result:?} {}", brief_batch(&batch)));
                for (_, record, _) in batch.iter().filter(|_| result.is_ok()) {
                    if let Record::Stanza(stanza) = record {
                        self.look_at_number(agent, stanza.number, &stanza.bytes, false);
                    }
                }
                ToAgent::Stored { batch, result }
            }
            Job::Read { ticket, after, until, most } => {
                let most =
                    if self.dice.percent(50) { most.min(self.dice.between(1, 6) as usize) } else { most };
                let read = if fails {
                    Err(Refused::Unavailable)
                } else {
                    self.store.read(fence, after, until, most)
                };
                ToAgent::Read { ticket, page: read }
            }
        };
        let takes = self.dice.between(0, 5);
        let heard = self.agents[agent].cut_off_until.max(self.now + Duration::from_millis(takes));
        self.at(heard, Event::Agent(agent, done));
    }

    fn stored(&mut self, agent: usize, batch: Batch, result: Result<(), Refused>) {
        match result {
            Ok(()) => {
                self.agents[agent].busy = false;
                for ticket in batch.into_iter().filter_map(|(ticket, ..)| ticket) {
                    self.handle(agent, Input::Stored { ticket, success: true });
                }
                self.next_job(agent);
            }
            Err(Refused::Lost) => self.lose(agent),
            Err(Refused::Unavailable) => {
                let forgets = self.store.fault == Fault::NotTriedAgain;
                let (given_up, rest): (Batch, Batch) =
                    batch.into_iter().partition(|(_, record, _)| record.may_fail() || forgets);
                if !rest.is_empty() {
                    self.agents[agent].jobs.push_front(Job::Append(rest));
                }
                for (ticket, record, _) in given_up {
                    if let Some(ticket) = ticket {
                        self.handle(agent, Input::Stored { ticket, success: !record.may_fail() });
                    }
                }
                let pause = self.dice.between(50, 1_000);
                self.after(pause, Event::Agent(agent, ToAgent::Retry));
            }
        }
    }

    fn was_read(&mut self, agent: usize, ticket: Ticket, page: Result<Page, Refused>) {
        if page == Err(Refused::Lost) {
            return self.lose(agent);
        }
        self.tell(|| {
            let numbers = page.iter().flat_map(|page| &page.stanzas).map(|stanza| stanza.number);
            let incomplete = page.as_ref().is_ok_and(|page| page.incomplete);
            format!(
                "agent {agent} read {}: {:?} incomplete {incomplete}",
                ticket.0,
                numbers.collect::<Vec<_>>()
            )
        });
        self.agents[agent].busy = false;
        self.handle(agent, Input::Replayed { ticket, page: page.ok() });
        self.next_job(agent);
    }

    fn rest(&mut self, agent: usize) {
        self.agents[agent].busy = false;
        self.next_job(agent);
    }
}

fn brief_batch(batch: &Batch) -> String {
    let brief = |record: &Record| match record {
        Record::Stanza(stanza) => format!("stanza {}", stanza.number),
        Record::Joined(joined) => format!("{} joined at {}", joined.identity, joined.number),
        Record::Message(message) => format!("message {}", message.id),
        Record::Variation(variation) => format!("{:?} of {}", variation.mode, variation.target),
        Record::Stopped(stopped) => format!("stop of {:?}", stopped.target),
        Record::Begun(begun) => format!("begin {} to {}", begun.answer, begun.message),
        Record::ToolAsked(tool) => format!("ask for {} for {}", tool.call.id, tool.message),
        Record::ToolBegun(tool) => format!("begin {} for {}", tool.call.id, tool.message),
        Record::ToolEnded(ended) => format!("end {}", ended.call),
        Record::BrokenOff(broken) => format!("break off {}", broken.answer),
        Record::Answer(answer) => format!("end {:?} of {:?}", answer.end, answer.message),
        Record::Reserved { number } => format!("reserve {number}"),
        Record::Reasoning(_) => "thoughts".to_owned(),
    };
    batch.iter().map(|(_, record, _)| brief(record)).collect::<Vec<_>>().join(", ")
}
