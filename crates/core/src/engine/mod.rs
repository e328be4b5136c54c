//! The engine: one conversation, decided. It takes one input at a time and answers with outputs; it never does
//! anything itself.
//!
//! ```text
//! engine.handle(now, input);                       // something happened
//! while let Some(output) = engine.poll() { … }      // do this, in this order
//! engine.poll_timeout()                             // and wake me then, if nothing happens before
//! ```
//!
//! The same seed, settings, times and inputs give the same outputs. It may read and write nothing but its own state.
//!
//! | module | what it decides |
//! |---|---|
//! | [`event`] | the inputs and outputs themselves |
//! | [`settings`] | what an engine is told at its start |
//! | `inbox`, `control` | what a packet means and what its sender is owed |
//! | `turn`, `thinking`, `speaking`, `showing`, `figures` | the way from a message to the end of its answer |
//! | `tool_loop`, [`toolbox`], [`policy`], `consent`, `client_tools`, `tool_text`, `progress` | the use of tools: which there are, when they may be used, who runs them, what the model and the room are told |
//! | [`hook`], `judging` | the developer's own logic: what it is asked, and what comes of its word or its silence |
//! | `conversation`, `prompt` | what was said, and what of it the model is told |
//! | [`people`], `rate` | who takes part, what each may send and gets to see |
//! | `outbox`, [`record`] | numbers, order, what is kept |
//! | `restore`, `replay`, `snapshot` | going on where another engine stopped; what those get who missed something |
//! | [`sentence`], [`reasoning`], [`mask`] | text as it flows: sentences, steps, hidden secrets |

mod client_tools;
mod consent;
mod control;
mod conversation;
pub mod event;
mod figures;
pub mod hook;
mod inbox;
mod judging;
pub mod mask;
mod outbox;
pub mod people;
pub mod policy;
mod progress;
mod prompt;
mod rate;
pub mod reasoning;
pub mod record;
mod replay;
mod restore;
pub mod sentence;
pub mod settings;
mod showing;
mod snapshot;
mod speaking;
mod thinking;
mod tool_loop;
mod tool_text;
pub mod toolbox;
mod turn;

#[cfg(test)]
mod tests;

use crate::ids::{Ids, Kind};
use crate::model::Usage;
use crate::time::Time;
use crate::wire::body::{Body, ErrorMessage};
use conversation::Conversation;
use event::{AgentState, Count, Input, Output, Participant, Ticket, Transcript, TurnEnd};
use inbox::Saving;
use outbox::Outbox;
use people::{Audience, People, Since};
use policy::Taint;
use prompt::Memory;
use record::{History, Record, Spent};
use replay::CatchUp;
use settings::Settings;
use speaking::Speaking;
use std::collections::{BTreeMap, VecDeque};
use turn::{Turn, Work};

/// One conversation.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    now: Time,
    ids: Ids,
    people: People,
    conversation: Conversation,
    memory: Memory,
    outbox: Outbox,
    /// What the store has not confirmed yet.
    saving: BTreeMap<Ticket, Saving>,
    /// Those who are being told what they missed.
    catching_up: BTreeMap<String, CatchUp>,
    /// What waits for its turn, in order.
    waiting: VecDeque<Work>,
    turn: Option<Turn>,
    state: AgentState,
    draining: bool,
    spent: Spent,
    requests: u64,
    runs: u64,
    questions: u64,
    outputs: VecDeque<Output>,
}

/// Something that a participant is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    code: i32,
    severity: i32,
    recoverable: bool,
    message: String,
}

impl Complaint {
    /// Nothing failed, but there is something to know.
    fn notice(message: &str) -> Self {
        Self { code: 100, severity: 1, recoverable: true, message: message.to_owned() }
    }

    /// Refused for good.
    fn refusal(code: i32, message: impl Into<String>) -> Self {
        Self { code, severity: 2, recoverable: false, message: message.into() }
    }

    /// Refused for now: the same may be sent again.
    fn later(code: i32, message: impl Into<String>) -> Self {
        Self { code, severity: 2, recoverable: true, message: message.into() }
    }
}

impl Engine {
    /// Begins a conversation of which nothing is known yet and whose numbers are all free. The seed must be a fresh one:
    /// ids come from it.
    pub fn new(settings: Settings, seed: [u8; 32], now: Time) -> Self {
        Self::restore(settings, seed, now, History { reserved: i32::MIN, ..History::default() })
    }

    fn empty(mut settings: Settings, seed: [u8; 32], now: Time, history: &History) -> Self {
        settings.tools = toolbox::admitted(settings.tools);
        let mut engine = Self {
            now,
            ids: Ids::from_seed(seed),
            people: People::new(settings.limits, settings.visibility),
            conversation: Conversation::default(),
            memory: Memory::new(),
            outbox: Outbox::new(settings.conversation.clone(), settings.keep_reasoning, history),
            saving: BTreeMap::new(),
            catching_up: BTreeMap::new(),
            waiting: VecDeque::new(),
            turn: None,
            state: AgentState::Initializing,
            draining: false,
            spent: Spent::default(),
            requests: 0,
            runs: 0,
            questions: 0,
            outputs: VecDeque::new(),
            settings,
        };
        // Before the first packet: an attribute change makes the server announce the agent at once.
        engine.show(AgentState::Listening);
        engine
    }

    /// Something happened. Times never run backwards.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Joined(participant) => self.joined(&participant),
            Input::Attributes { identity, attributes, fixed } => {
                self.people.describe(&identity, attributes, fixed, self.now);
            }
            Input::Left { identity } => self.left(&identity),
            Input::Received { from, envelope } => self.received(&from, envelope),
            Input::Overflowed { from, packets } => self.overflowed(&from, packets),
            Input::Refused { from, reason } => self.refused_for_now(&from, 1, reason),
            Input::Chat { from, id, text } => self.chat(&from, id, text),
            Input::Model { request, result } => self.model_said(request, result),
            Input::Tool { run, outcome } => self.tool_ended(run, outcome),
            Input::Progress { run, text } => self.tool_progressed(run, text),
            Input::Ruled { question, ruling } => self.ruled(question, ruling),
            Input::Tools(tools) => self.settings.tools = toolbox::admitted(tools),
            Input::Stored { ticket, success } => self.stored(ticket, success),
            Input::Replayed { ticket, page } => self.replayed(ticket, page),
            Input::Wake => {}
            Input::Drain => self.draining = true,
            Input::Leave => self.leave(),
        }
        if self.turn_timeout().is_some_and(|due| due <= self.now) {
            self.wake_turn();
        }
        self.complain_about_the_store();
        self.ask_if_settled();
        self.begin_next();
        if self.turn.is_none() {
            self.show(AgentState::Listening);
        }
    }

    /// What to do next.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`handle`](Self::handle) with [`Input::Wake`] if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<Time> {
        let store = self.saving.values().filter_map(Saving::deadline);
        self.turn_timeout().into_iter().chain(store).min()
    }

    /// Whether nothing is under way and nothing is being stored; what waits may wait.
    pub fn is_idle(&self) -> bool {
        self.turn.is_none() && self.saving.is_empty()
    }

    /// There is no time left. Whatever was taken in ends here, and its sender is told to send it again.
    fn leave(&mut self) {
        self.draining = true;
        self.give_up("The agent has to leave. Send it again when one is back.");
    }

    /// Ends whatever was taken in and is not answered, without an answer: it must not be tried again.
    pub fn give_up(&mut self, why: &str) {
        let complaint = || Complaint::later(501, why);
        if let Some(turn) = self.turn.take() {
            self.end(turn, TurnEnd::Failed, Some(complaint()));
        }
        for work in std::mem::take(&mut self.waiting) {
            let turn = self.turn_for(work);
            self.end(turn, TurnEnd::Failed, Some(complaint()));
        }
        // Not acknowledged yet, so nothing is owed but to say so.
        for saving in std::mem::take(&mut self.saving).into_values() {
            let (from, chat, about) = self.give_back(saving);
            self.complain(&from, chat, Some(about), complaint());
        }
    }

    fn joined(&mut self, participant: &Participant) {
        let number = self.outbox.number();
        let since = Since { said: self.conversation.next_key(), number };
        if self.people.since(&participant.identity).is_none() {
            let identity = participant.identity.clone();
            self.keep(Record::Joined(record::Joined { identity, number, at: self.now }));
        }
        let news = self.people.join(participant, since, self.now);
        if news {
            self.came_back(&participant.identity);
        }
        if news && self.conversation.is_empty() {
            self.greet();
        }
    }

    /// Whoever comes next under this name may be another client, which counts its own stanzas: nothing that was owed to
    /// the former one may reach it.
    fn left(&mut self, identity: &str) {
        self.stop_catching_up(identity);
        self.outbox.forget(identity);
        self.forget_stanzas(identity);
        self.people.leave(identity, self.now);
        self.went_away(identity);
    }

    /// Says the greeting, once, as an answer to nobody.
    fn greet(&mut self) {
        let Some(greeting) = self.settings.greeting.take() else { return };
        let mut speaking = Speaking::new(self.ids.next(Kind::Message));
        let mut spoken = speaking.push(&greeting);
        spoken.extend(speaking.finish());
        let Speaking { id, text, .. } = speaking;
        let record = Record::Answer(record::Answer {
            message: None,
            answer: Some(id.clone()),
            announced: true,
            text: text.clone(),
            taint: Taint::default(),
            end: TurnEnd::Answered,
            steps: 0,
            thinking_ms: 0,
            total_ms: 0,
            usage: Usage::default(),
            spent: self.spent,
            at: self.now,
        });
        self.outbox.save(record, false, &mut self.outputs);
        self.speak(&id, "", spoken);
        self.send_whole(&id, "", &text);
        let answer = conversation::Answer { message: None, text, calls: Vec::new(), taint: Taint::default() };
        self.conversation.add_answer(id, None, answer);
    }

    fn send(&mut self, audience: Audience, body: Body) {
        let kept = self.outbox.send(&self.people, audience, body, &mut self.outputs);
        if let Some(stanza) = kept {
            self.hold_for_later(&stanza);
        }
    }

    /// Stores a fact that nobody waits for.
    fn keep(&mut self, record: Record) {
        self.outputs.push_back(Output::Save { ticket: None, record, durable: false });
    }

    fn show(&mut self, state: AgentState) {
        if self.state != state {
            self.state = state;
            self.outbox.follow(Output::State(state), &mut self.outputs);
        }
    }

    fn count(&mut self, count: Count) {
        self.outputs.push_back(Output::Count { what: count, times: 1 });
    }

    /// Tells one participant; one that came through LiveKit's chat reads transcripts and no packets.
    fn complain(&mut self, to: &str, chat: bool, about: Option<String>, complaint: Complaint) {
        self.tell(to, chat, about, complaint, false);
    }

    /// The same past everything that waits for the store: it is the store that failed.
    fn complain_at_once(&mut self, to: &str, chat: bool, about: Option<String>, complaint: Complaint) {
        self.tell(to, chat, about, complaint, true);
    }

    fn tell(&mut self, to: &str, chat: bool, about: Option<String>, complaint: Complaint, at_once: bool) {
        let Complaint { code, severity, recoverable, message } = complaint;
        let message = self.settings.secrets.hide(&message).into_owned();
        let id = self.ids.next(Kind::Error);
        if chat {
            let segment = id.clone();
            let text = message.clone();
            let transcript = [
                Transcript::Begin { segment: segment.clone() },
                Transcript::Delta { segment: segment.clone(), text },
                Transcript::End { segment },
            ];
            for output in transcript.map(Output::Transcript) {
                if at_once {
                    self.outputs.push_back(output);
                } else {
                    self.outbox.follow(output, &mut self.outputs);
                }
            }
        }
        let error = ErrorMessage {
            id,
            conversation_id: self.settings.conversation.clone(),
            code,
            message,
            severity,
            recoverable,
            originating_id: about,
        };
        if at_once {
            self.outbox.send_at_once(to.to_owned(), Body::ErrorMessage(error), &mut self.outputs);
        } else {
            self.send(Audience::One(to.to_owned()), Body::ErrorMessage(error));
        }
    }

    fn over_conversation_budget(&self) -> Option<Complaint> {
        let limit = self.settings.budget.conversation;
        let over = |spent: u64, limit: Option<u64>| limit.is_some_and(|limit| spent >= limit);
        let what = if over(self.spent.tokens, limit.tokens) {
            "tokens (budget.conversation_tokens)"
        } else if over(self.spent.millis / 1_000, limit.seconds) {
            "time (budget.conversation_seconds)"
        } else if over(self.spent.tool_calls.into(), limit.tool_calls.map(u64::from)) {
            "tool calls (budget.conversation_tool_calls)"
        } else {
            return None;
        };
        let message = format!(
            "This conversation has used up its {what}. Go on in a new room, or ask for a larger budget."
        );
        Some(Complaint::refusal(429, message))
    }

    /// Whether the turn has cost too much, or would with so `many_more` runs of tools.
    fn over_turn_budget(&self, turn: &Turn, many_more: usize) -> Option<Complaint> {
        let limit = self.settings.budget.turn;
        let seconds = (self.now - turn.figures.begun).as_secs();
        let tools = (turn.calls.len() + turn.runs.len() + many_more) as u64;
        let what = if limit.tokens.is_some_and(|limit| turn.figures.tokens() > limit) {
            "tokens (budget.turn_tokens)"
        } else if limit.seconds.is_some_and(|limit| seconds >= limit) {
            "time (budget.turn_seconds)"
        } else if limit.tool_calls.is_some_and(|limit| tools > u64::from(limit)) {
            "tool calls (budget.turn_tool_calls)"
        } else {
            return None;
        };
        Some(Complaint::later(429, format!("This answer has used up its {what}. Ask for less at once.")))
    }
}
