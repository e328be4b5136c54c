//! Going on where another engine stopped: the conversation is told over from its records, what was under way is closed,
//! and what was accepted and not ended waits for its answer again.

use super::conversation::{Answer, Conversation, UserMessage};
use super::event::TurnEnd;
use super::people::{Audience, Since};
use super::policy::Taint;
use super::record::{self, History, Record, Stanza};
use super::settings::Settings;
use super::turn::{Next, Work};
use super::{Complaint, Engine};
use crate::ids::Kind;
use crate::model::ToolCall;
use crate::time::Time;
use crate::wire;
use crate::wire::body::{AssistantSentence, Body};

/// How often an answer is begun in all before its message is given up: it may be what ends the agent each time.
const MAX_ATTEMPTS: u32 = 5;

/// What the model is told of a tool that was cut short, by whether running it again does no harm.
const CUT_SHORT: &str = "The agent was restarted while this ran, and the result is lost. Call it again.";
const UNKNOWN: &str = "The agent was restarted while this ran. Whether it took effect is unknown. It was not run again; \
                       find out or ask before you repeat it.";

const NOT_RUN: &str = "The agent was restarted before the user had allowed this call. It was not run.";

/// A message or variation that was accepted and has not ended.
struct Open {
    work: Work,
    /// Someone stopped it before its turn.
    stopped: bool,
    attempts: u32,
    /// What a hook may have brought into the prompts of these attempts.
    hooked: Taint,
    calls: Vec<Used>,
}

/// A run of a tool.
struct Used {
    call: ToolCall,
    /// `None` while it waits for someone's leave.
    begun: Option<record::ToolBegun>,
    content: Option<String>,
}

impl Engine {
    /// Takes up a conversation. The seed must be a fresh one: ids come from it.
    pub fn restore(settings: Settings, seed: [u8; 32], now: Time, history: History) -> Self {
        let mut engine = Self::empty(settings, seed, now, &history);
        let mut open: Vec<Open> = Vec::new();
        let mut begun: Option<record::Begun> = None;
        for record in history.records {
            engine.tell_over(record, &mut open, &mut begun);
        }
        // Nobody is greeted a second time.
        if !engine.conversation.is_empty() {
            engine.settings.greeting = None;
        }
        if let Some(begun) = begun {
            engine.break_off_restored(&begun, &history.unfinished, &mut open);
        }
        for open in open {
            engine.take_up(open);
        }
        engine
    }

    /// Whether all that this engine knows of the conversation is in the store, and nothing is under way.
    pub fn may_rest(&self) -> bool {
        self.is_idle()
            && self.waiting.is_empty()
            && self.catching_up.is_empty()
            && self.outputs.is_empty()
            && self.outbox.is_empty()
    }

    /// Forgets what was said, to cost no memory. The next one to be asked is an engine that was restored since and
    /// [takes over](Self::take_over).
    pub fn rest(&mut self) {
        self.conversation = Conversation::default();
    }

    /// Takes over from an engine that rests or has failed: who is there, and what each can take and may send, is in no store.
    /// What was asked of the world goes on to be counted from there: what still comes for the former one is nobody's.
    pub fn take_over(&mut self, former: &mut Self) {
        self.people.take_over(&mut former.people);
        self.requests = self.requests.max(former.requests);
        self.runs = self.runs.max(former.runs);
        self.questions = self.questions.max(former.questions);
    }

    /// Who is there.
    pub fn present(&self) -> Vec<String> {
        self.people.present()
    }

    /// One record, as if it had just happened, but without doing anything about it.
    fn tell_over(&mut self, record: Record, open: &mut Vec<Open>, begun: &mut Option<record::Begun>) {
        match record {
            Record::Joined(joined) => {
                let since = Since { said: self.conversation.next_key(), number: joined.number };
                self.people.remember(&joined.identity, since, joined.at);
            }
            Record::Message(message) => open.extend(self.tell_message(message).map(Open::new)),
            Record::Variation(variation) => {
                let work = self.tell_variation(variation, open);
                open.extend(work.map(Open::new));
            }
            Record::Stopped(stopped) => {
                for id in stopped.coming {
                    let about = self.conversation.find(&id).and_then(|key| self.conversation.message_of(key));
                    let mut meant = open.iter_mut().filter(|open| Some(open.work.message) == about);
                    meant.next_back().into_iter().for_each(|open| open.stopped = true);
                }
            }
            Record::Begun(now_begun) => {
                if let Some(open) = of_message(open, &now_begun.message) {
                    open.attempts += 1;
                    open.hooked = open.hooked | now_begun.taint;
                }
                *begun = Some(now_begun);
            }
            Record::ToolAsked(tool) => {
                self.runs = self.runs.max(number_of(&tool.call));
                if let Some(open) = of_message(open, &tool.message) {
                    open.calls.push(Used { call: tool.call, begun: None, content: None });
                }
            }
            Record::ToolBegun(tool) => {
                self.runs = self.runs.max(number_of(&tool.call));
                if let Some(open) = of_message(open, &tool.message) {
                    open.begin(tool);
                }
            }
            Record::ToolEnded(ended) => {
                let mut calls = open.iter_mut().flat_map(|open| &mut open.calls);
                if let Some(call) = calls.find(|call| call.call.id == ended.call) {
                    call.content = Some(ended.content);
                }
            }
            Record::BrokenOff(broken) => {
                begun.take_if(|begun| begun.message == broken.message);
                if let Some(message) = self.conversation.find(&broken.message) {
                    let told = of_message(open, &broken.message).map(|open| open.taint() | open.hooked);
                    let taint = told.unwrap_or_default()
                        | self.conversation.taint(&self.conversation.path(Some(message)));
                    let said = Answer { message: Some(message), text: broken.text, calls: Vec::new(), taint };
                    let newest = self.conversation.is_newest(message);
                    self.conversation.add_answer(broken.answer, Some(message), said);
                    // The answer to come takes its place.
                    if newest {
                        self.conversation.return_to(message);
                    }
                }
            }
            Record::Answer(answer) => {
                self.spent = answer.spent;
                if let Some(message) = &answer.message {
                    begun.take_if(|begun| begun.message == *message);
                }
                self.tell_answer(answer, open);
            }
            Record::Reasoning(_) | Record::Reserved { .. } | Record::Stanza(_) => {}
        }
    }

    fn tell_message(&mut self, message: record::Message) -> Option<Work> {
        let record::Message { id, previous, from, name, text, chat, at } = message;
        if self.conversation.find(&id).is_some() {
            return None;
        }
        self.conversation.remember(&id, &from, &text);
        self.people.rename(&from, &name, at);
        let message = UserMessage { from: from.clone(), name, text, chat };
        let key = self.conversation.add_message(id.clone(), previous.as_deref(), message);
        self.conversation.hold(key);
        Some(Work::new(key, id, from, chat, at))
    }

    fn tell_variation(&mut self, variation: record::Variation, open: &[Open]) -> Option<Work> {
        let record::Variation { from, target, mode, text, at } = variation;
        let target = self.conversation.find(&target)?;
        let (message, go_on_from) = self.conversation.varied(target, mode)?;
        let (by, chat) = self.told_how_it_ends(message, from, open.iter().map(|open| &open.work));
        self.turn_to(message, go_on_from, text, by, chat, at)
    }

    fn tell_answer(&mut self, answer: record::Answer, open: &mut Vec<Open>) {
        let record::Answer { message, answer, text, taint, .. } = answer;
        let Some(message) = message else {
            // A greeting.
            let said = Answer { message: None, text, calls: Vec::new(), taint };
            if let Some(answer) = answer {
                self.conversation.add_answer(answer, None, said);
            }
            return;
        };
        let place = open.iter().position(|open| open.work.message_id == message);
        let ended = place.map(|place| open.remove(place));
        // What was called in the last round and not given to the model before the turn was broken off is told from now on.
        let taint = taint | ended.as_ref().map(Open::taint).unwrap_or_default();
        let (go_on_from, calls) = match ended {
            Some(open) => {
                self.conversation.release(open.work.message);
                open.work.go_on_from.inspect(|&answer| self.conversation.release(answer));
                (open.work.go_on_from, open.calls)
            }
            None => (None, Vec::new()),
        };
        let (Some(answer), Some(key)) = (answer, self.conversation.find(&message)) else { return };
        let calls = calls.into_iter().filter_map(|call| Some((call.call, call.content?))).collect();
        let said = Answer { message: Some(key), text, calls, taint };
        self.conversation.add_answer(answer, Some(go_on_from.unwrap_or(key)), said);
    }

    /// Closes an answer that was under way, for those who heard its beginning.
    fn break_off_restored(&mut self, begun: &record::Begun, stanzas: &[Stanza], open: &mut Vec<Open>) {
        let (mut started, mut sequence, mut text) = (false, 0, String::new());
        for stanza in stanzas {
            match wire::decode(&stanza.bytes, &wire::Limits::default()).map(|envelope| envelope.body) {
                Ok(Body::StartAnswer(start)) if start.id == begun.answer => started = true,
                Ok(Body::AssistantSentence(sentence)) if sentence.previous_id == begun.answer => {
                    sequence = sentence.sequence;
                    text.push_str(&sentence.text);
                }
                _ => {}
            }
        }
        if !started {
            return;
        }
        let broken = record::BrokenOff {
            message: begun.message.clone(),
            answer: begun.answer.clone(),
            text,
            at: self.now,
        };
        let record = Record::BrokenOff(broken.clone());
        self.tell_over(record.clone(), open, &mut None);
        self.outbox.save(record, false, &mut self.outputs);
        let last = AssistantSentence {
            id: Some(self.ids.next(Kind::Sentence)),
            previous_id: broken.answer,
            conversation_id: self.settings.conversation.clone(),
            sequence: sequence + 1,
            text: String::new(),
            is_final: Some(true),
            audio: None,
        };
        self.send(Audience::Streaming, Body::AssistantSentence(last));
    }

    /// Puts in line again what was accepted and has not ended.
    fn take_up(&mut self, open: Open) {
        let taint = open.taint();
        let Open { mut work, stopped, attempts, hooked, calls } = open;
        // What the model called is in the prompt again, and may be what the words of a hook made it want.
        work.taint = if calls.is_empty() { taint } else { taint | hooked };
        work.held_until = Some(self.now + self.settings.return_timeout);
        for Used { call, begun, content } in calls {
            let content = content.unwrap_or_else(|| match &begun {
                Some(begun) => self.lose(begun, &work.by),
                None => self.never_ran(&call),
            });
            work.calls.push((call, content));
        }
        if attempts < MAX_ATTEMPTS {
            // As when it came: it takes the place of what the same user waited for, and a variation that of what it varies.
            self.close_waiting(TurnEnd::Superseded, |other| other.message == work.message);
            return self.enqueue(work, stopped);
        }
        let turn = self.turn_for(work);
        let complaint = Complaint::refusal(
            501,
            "The agent ended several times over while it answered this, and has given it up. Ask differently.",
        );
        self.go_on(turn, Next::End(TurnEnd::Failed, Some(complaint)));
    }

    /// A tool was never run: whoever was asked cannot allow it any more. Returns what the model is told.
    fn never_ran(&mut self, call: &ToolCall) -> String {
        let ended = record::ToolEnded { call: call.id.clone(), content: NOT_RUN.to_owned(), at: self.now };
        self.keep(Record::ToolEnded(ended));
        NOT_RUN.to_owned()
    }

    /// The result of a tool is lost: whoever saw it begin and the model are told. Returns what the model is told.
    fn lose(&mut self, tool: &record::ToolBegun, by: &str) -> String {
        let told = if tool.repeatable { CUT_SHORT } else { UNKNOWN };
        let ended = record::ToolEnded { call: tool.call.id.clone(), content: told.to_owned(), at: self.now };
        self.keep(Record::ToolEnded(ended));
        let outcome = Err(("cancelled", "The agent was restarted while the tool ran.".to_owned()));
        self.show_result(tool.request.clone(), outcome, Some(by).filter(|_| tool.handed));
        told.to_owned()
    }
}

impl Open {
    fn new(work: Work) -> Self {
        Self { work, stopped: false, attempts: 0, hooked: Taint::default(), calls: Vec::new() }
    }

    /// A tool is begun, perhaps one that was asked for before.
    fn begin(&mut self, begun: record::ToolBegun) {
        match self.calls.iter_mut().find(|call| call.call.id == begun.call.id) {
            Some(call) => call.begun = Some(begun),
            None => self.calls.push(Used { call: begun.call.clone(), begun: Some(begun), content: None }),
        }
    }

    /// What its tools have brought into the prompt.
    fn taint(&self) -> Taint {
        let begun = self.calls.iter().filter_map(|call| call.begun.as_ref());
        begun.fold(Taint::default(), |sum, begun| sum | begun.taint)
    }
}

/// The one whose turn it is, of those that are about a message.
fn of_message<'a>(open: &'a mut [Open], message: &str) -> Option<&'a mut Open> {
    open.iter_mut().find(|open| open.work.message_id == message)
}

/// The running number in the id of a call.
fn number_of(call: &ToolCall) -> u64 {
    call.id.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}
