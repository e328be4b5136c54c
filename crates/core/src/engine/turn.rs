//! One turn: from a user message to the end of its answer.
//!
//! A turn asks the model, shows what it thinks and says, lets it use tools, and ends exactly once. What comes back for
//! a request or a run of a tool that nobody waits for any more is dropped here, so an interruption is never a race.

use super::conversation::{Answer, Key};
use super::event::{AgentState, Count, Output, RequestId, TurnEnd};
use super::figures::Figures;
use super::judging::Judging;
use super::policy::Taint;
use super::prompt::{self, Question};
use super::record::{self, Record};
use super::settings::Settings;
use super::showing::LIVE_REASONING;
use super::speaking::Speaking;
use super::thinking::Thinking;
use super::tool_loop::{MAX_CALLS, Run, Trouble};
use super::toolbox::Available;
use super::{Complaint, Engine};
use crate::ids::Kind;
use crate::model::{Chunk, Failure, Finish, Message, Prompt, ToolCall};
use crate::time::Time;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Something that waits for an answer.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// The user message.
    pub(super) message: Key,
    /// Its id on the wire.
    pub(super) message_id: String,
    /// Who wants the answer.
    pub(super) by: String,
    /// Whether that one reads transcripts alone.
    pub(super) chat: bool,
    /// The answer to continue, if any.
    pub(super) go_on_from: Option<Key>,
    /// When it was asked.
    pub(super) arrived: Time,
    /// Tools that were run for it before the agent was restarted, with what they gave.
    pub(super) calls: Vec<(ToolCall, String)>,
    /// What these have brought into the prompt.
    pub(super) taint: Taint,
    /// Until when, after a restart, the model is not asked before the asker is there.
    pub(super) held_until: Option<Time>,
}

impl Work {
    pub(super) fn new(message: Key, message_id: String, by: String, chat: bool, arrived: Time) -> Self {
        let (go_on_from, calls, taint, held_until) = (None, Vec::new(), Taint::default(), None);
        Self { message, message_id, by, chat, go_on_from, arrived, calls, taint, held_until }
    }
}

/// The answer under way.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) work: Work,
    pub(super) thinking: Thinking,
    pub(super) speaking: Speaking,
    /// The request that is being answered.
    pub(super) request: Option<RequestId>,
    /// Whether the model is asked to think.
    think: bool,
    /// It was asked once more, with thinking off.
    asked_again: bool,
    /// How often results went back to the model.
    pub(super) round: u32,
    /// What this turn adds to the prompt: the model's words and the tools' results.
    pub(super) tool_loop: Vec<Message>,
    /// What the model said, thought and called in the running request.
    pub(super) said: String,
    pub(super) thought: String,
    pub(super) called: Vec<ToolCall>,
    /// The tools that are being run.
    pub(super) runs: Vec<Run>,
    /// Tools run so far, with what they gave.
    pub(super) calls: Vec<(ToolCall, String)>,
    /// What the tools of this turn have brought into the prompt, and what was in it before.
    pub(super) taint: Taint,
    pub(super) inherited: Taint,
    /// Whether the model was shown descriptions that nobody has vouched for; what was read is not unread when the tool goes.
    pub(super) unvouched: bool,
    /// Those whose words are in the prompt.
    pub(super) speakers: BTreeSet<String>,
    /// How the use of tools has gone so far.
    pub(super) trouble: Trouble,
    /// What the hooks are asked about it.
    pub(super) judging: Judging,
    /// What the model thought, step by step, where that is kept.
    pub(super) steps: Vec<String>,
    /// The last number given before it began.
    pub(super) begun_after: i32,
    /// What it costs and how long it takes.
    pub(super) figures: Figures,
}

/// How a turn goes on.
#[derive(Debug)]
pub(super) enum Next {
    /// With whatever comes.
    Wait,
    /// By asking the model.
    Ask,
    /// By running the tools that the model called.
    UseTools,
    /// Not at all.
    End(TurnEnd, Option<Complaint>),
}

impl Turn {
    fn new(mut work: Work, answer: String, settings: &Settings, number: i32, now: Time) -> Self {
        let (calls, taint) = (std::mem::take(&mut work.calls), work.taint);
        Self {
            work,
            thinking: Thinking::new(settings.step_chars),
            speaking: Speaking::new(answer),
            request: None,
            think: settings.thinking,
            asked_again: false,
            round: 0,
            tool_loop: prompt::tool_loop(&calls),
            said: String::new(),
            thought: String::new(),
            called: Vec::new(),
            runs: Vec::new(),
            calls,
            taint,
            inherited: Taint::default(),
            unvouched: false,
            speakers: BTreeSet::new(),
            trouble: Trouble::default(),
            judging: Judging::default(),
            steps: Vec::new(),
            begun_after: number,
            figures: Figures::new(now),
        }
    }

    fn ask_without_thinking(&mut self) -> Next {
        self.asked_again = true;
        self.think = false;
        // Some endpoints cannot turn it off. What was too much before must not end this attempt at its first word.
        self.thinking.chars = 0;
        Next::Ask
    }
}

impl Engine {
    /// Begins with the next message that waits, if nothing is under way. Done once, after everything else that an
    /// input brings about.
    pub(super) fn begin_next(&mut self) {
        while self.turn.is_none() && !self.draining {
            let Some(work) = self.waiting.pop_front() else { return };
            let turn = self.turn_for(work);
            if let Some(complaint) = self.over_conversation_budget() {
                self.go_on(turn, Next::End(TurnEnd::Failed, Some(complaint)));
                continue;
            }
            let (message, answer) = (turn.work.message_id.clone(), turn.speaking.id.clone());
            let number = turn.begun_after;
            let taint = self.settings.hooks.before_model.map(|terms| terms.brings).unwrap_or_default();
            self.keep(Record::Begun(record::Begun { message, answer, number, taint, at: self.now }));
            let next = if turn.work.held_until.is_some() { Next::Wait } else { Next::Ask };
            self.go_on(turn, next);
            self.ask_if_settled();
        }
    }

    /// Asks the model for a turn that waits for its asker, once that one is there or the time for it is over.
    pub(super) fn ask_if_settled(&mut self) {
        let (now, people) = (self.now, &self.people);
        let may_ask = |turn: &mut Turn| {
            let Work { by, chat, held_until, .. } = &turn.work;
            held_until.is_some_and(|until| until <= now || people.has_settled(by, *chat))
        };
        if let Some(mut turn) = self.turn.take_if(may_ask) {
            turn.work.held_until = None;
            self.go_on(turn, Next::Ask);
        }
    }

    pub(super) fn turn_for(&mut self, work: Work) -> Turn {
        let answer = self.ids.next(Kind::Message);
        Turn::new(work, answer, &self.settings, self.outbox.number(), self.now)
    }

    /// Ends what waits, as far as it is `meant`, before its turn has begun.
    pub(super) fn close_waiting(&mut self, end: TurnEnd, meant: impl Fn(&Work) -> bool) {
        let closed: VecDeque<Work>;
        (closed, self.waiting) = std::mem::take(&mut self.waiting).into_iter().partition(meant);
        for work in closed {
            self.close(work, end);
        }
    }

    /// Ends something whose turn has not begun.
    pub(super) fn close(&mut self, work: Work, end: TurnEnd) {
        let turn = self.turn_for(work);
        self.end(turn, end, None);
    }

    /// Takes a turn where it goes next.
    pub(super) fn go_on(&mut self, mut turn: Turn, next: Next) {
        if let Next::End(..) = next {
            self.close_request(&mut turn);
        }
        match self.after_judging(&mut turn, next) {
            Next::Wait => self.turn = Some(turn),
            Next::Ask => {
                self.ask(&mut turn);
                self.turn = Some(turn);
            }
            Next::UseTools => {
                let next = self.use_tools(&mut turn);
                self.go_on(turn, next);
            }
            Next::End(end, complaint) => self.end(turn, end, complaint),
        }
    }

    fn ask(&mut self, turn: &mut Turn) {
        self.close_request(turn);
        turn.said.clear();
        turn.thought.clear();
        turn.called.clear();
        let at = turn.work.go_on_from.unwrap_or(turn.work.message);
        self.listen(turn, at);
        let tools =
            if turn.round < self.settings.max_tool_rounds { self.tool_specs(turn) } else { Vec::new() };
        turn.unvouched |= !tools.is_empty() && self.available(turn).iter().any(Available::is_unvouched);
        let question = Question {
            at,
            asker: &turn.work.by,
            go_on: turn.work.go_on_from.is_some(),
            tool_loop: &turn.tool_loop,
            tools: &tools,
            thinking: turn.think,
        };
        let prompt = self.memory.prompt(&self.settings, &self.conversation, &self.people, question, self.now);
        // What was left out of it moves the model no more.
        self.listen(turn, at);
        self.show(AgentState::Thinking);
        if let Some(prompt) = self.judge_prompt(turn, prompt) {
            self.generate(turn, prompt);
        }
    }

    /// Asks the model, with all that it is to be told.
    pub(super) fn generate(&mut self, turn: &mut Turn, prompt: Prompt) {
        turn.figures.begin_request(prompt.messages.iter().map(prompt::bytes).sum());
        self.requests += 1;
        let request = RequestId(self.requests);
        turn.request = Some(request);
        self.outputs.push_back(Output::Generate { request, prompt });
    }

    /// Ends the running request, if any: the connection is closed at once.
    fn close_request(&mut self, turn: &mut Turn) {
        if let Some(request) = turn.request.take() {
            self.outputs.push_back(Output::CancelGenerate(request));
            self.settle_request(turn);
        }
    }

    /// The model goes on, or has failed.
    pub(super) fn model_said(&mut self, request: RequestId, result: Result<Chunk, Failure>) {
        let Some(mut turn) = self.turn.take_if(|turn| turn.request == Some(request)) else {
            self.count(Count::Stale);
            return;
        };
        let next = match result {
            Ok(chunk) => {
                turn.figures.came(self.now);
                self.take_chunk(&mut turn, chunk)
            }
            Err(failure) => {
                turn.request = None;
                self.settle_request(&mut turn);
                let Failure { message, recoverable } = failure;
                let complaint = Complaint { code: 503, severity: 2, recoverable, message };
                Next::End(TurnEnd::Failed, Some(complaint))
            }
        };
        self.go_on(turn, next);
    }

    fn take_chunk(&mut self, turn: &mut Turn, chunk: Chunk) -> Next {
        match chunk {
            Chunk::Reasoning(text) => {
                let left = self.settings.max_thinking_chars.saturating_sub(turn.thinking.chars);
                let (text, too_long) = first_chars(&text, left);
                turn.thought.push_str(text);
                let live = self.people.has(&LIVE_REASONING);
                let thoughts =
                    turn.thinking.push(text, live, &self.settings.secrets, &mut self.ids, self.now);
                self.show_thoughts(turn, thoughts);
                if too_long { self.thought_too_long(turn) } else { Next::Wait }
            }
            Chunk::Text(text) => {
                let left = self.settings.max_answer_chars.saturating_sub(turn.speaking.chars);
                let (text, too_long) = first_chars(&text, left);
                turn.said.push_str(text);
                if !turn.said.trim().is_empty() {
                    self.pause_thinking(turn);
                }
                if self.judges_sentences() {
                    self.have_judged(turn, text);
                } else {
                    if !turn.said.trim().is_empty() {
                        self.show(AgentState::Speaking);
                    }
                    let spoken = turn.speaking.push(text);
                    self.say(turn, spoken);
                }
                if too_long {
                    return Next::End(
                        TurnEnd::Answered,
                        Some(Complaint::notice("The answer was cut: it was too long.")),
                    );
                }
                Next::Wait
            }
            Chunk::ToolCall(call) => {
                self.pause_thinking(turn);
                if turn.called.len() <= MAX_CALLS {
                    turn.called.push(call);
                }
                Next::Wait
            }
            Chunk::Usage(usage) => {
                self.memory.calibrate(turn.figures.prompt_bytes, usage.input);
                turn.figures.add(usage);
                match self.over_turn_budget(turn, 0) {
                    Some(complaint) => Next::End(TurnEnd::Failed, Some(complaint)),
                    None => Next::Wait,
                }
            }
            Chunk::Finish(finish) => {
                turn.request = None;
                self.settle_request(turn);
                self.pause_thinking(turn);
                self.finished(turn, finish)
            }
        }
    }

    fn finished(&mut self, turn: &mut Turn, finish: Finish) -> Next {
        if !turn.called.is_empty() && turn.round < self.settings.max_tool_rounds {
            return Next::UseTools;
        }
        let silent = turn.said.trim().is_empty();
        if silent && !turn.thought.trim().is_empty() && !turn.asked_again && finish != Finish::Filtered {
            return turn.ask_without_thinking();
        }
        let notice = match finish {
            Finish::Length if !silent => Some("The answer was cut: the model met its limit of tokens."),
            Finish::Filtered => Some("The endpoint held back the rest of the answer."),
            _ if silent && (turn.asked_again || finish == Finish::Length) => {
                Some("The model thought, but gave no answer. Asking again or rephrasing may help.")
            }
            _ if silent && !turn.called.is_empty() => {
                Some("The model kept asking for tools and gave no answer. Asking for less at once may help.")
            }
            _ => None,
        };
        Next::End(TurnEnd::Answered, notice.map(Complaint::notice))
    }

    fn thought_too_long(&mut self, turn: &mut Turn) -> Next {
        self.close_request(turn);
        self.pause_thinking(turn);
        let notice = if !turn.said.trim().is_empty() {
            // Asked again, it would say the same again.
            "The answer was cut: the model went back to thinking and thought too long."
        } else if turn.asked_again {
            "The model thought too long and gave no answer. Asking for less at once may help."
        } else {
            return turn.ask_without_thinking();
        };
        Next::End(TurnEnd::Answered, Some(Complaint::notice(notice)))
    }

    /// Time has passed for the running turn.
    pub(super) fn wake_turn(&mut self) {
        let Some(mut turn) = self.turn.take() else { return };
        let next = self.wake_judging(&mut turn);
        if turn.judging.is_holding() || !matches!(next, Next::Wait) {
            return self.go_on(turn, next);
        }
        if turn.thinking.due().is_some_and(|due| due <= self.now) {
            let delta = turn.thinking.delta(self.now);
            self.show_thoughts(&mut turn, delta.into_iter().collect());
        }
        let next = if let Some(complaint) = self.over_turn_budget(&turn, 0) {
            Next::End(TurnEnd::Failed, Some(complaint))
        } else if turn.thinking.since().is_some_and(|since| self.now - since >= self.settings.max_thinking) {
            self.thought_too_long(&mut turn)
        } else {
            self.wake_tools(&mut turn)
        };
        self.go_on(turn, next);
    }

    /// When the running turn wants to be woken.
    pub(super) fn turn_timeout(&self) -> Option<Time> {
        let turn = self.turn.as_ref()?;
        let judging = turn.judging.due();
        if turn.judging.is_holding() {
            return judging;
        }
        let thinking = turn.thinking.since().map(|since| since + self.settings.max_thinking);
        let seconds = self.settings.budget.turn.seconds.map(|s| turn.figures.begun + Duration::from_secs(s));
        let tools = turn.runs.iter().flat_map(|run| [run.due(), run.progress_due()]).flatten();
        let moments = [turn.work.held_until, turn.thinking.due(), thinking, seconds, judging];
        moments.into_iter().flatten().chain(tools).min()
    }

    /// Ends the running turn before its time.
    pub(super) fn break_off(&mut self, end: TurnEnd) {
        if let Some(turn) = self.turn.take() {
            self.end(turn, end, None);
        }
    }

    pub(super) fn end(&mut self, mut turn: Turn, end: TurnEnd, complaint: Option<Complaint>) {
        self.close_request(&mut turn);
        self.stop_judging(&mut turn);
        self.cancel_tools(&mut turn);
        self.pause_thinking(&mut turn);
        // An answer that was never begun is only begun if there is something to say by it: that it is empty, or stopped.
        let announce = match end {
            TurnEnd::Answered | TurnEnd::Stopped => true,
            TurnEnd::Superseded | TurnEnd::Failed => {
                !turn.speaking.is_silent() || turn.judging.has_last_words()
            }
        };
        let last_words = match turn.last_words() {
            _ if !announce => Vec::new(),
            last if self.judges_sentences() => turn.speaking.finish_judged(last),
            _ => turn.speaking.finish(),
        };
        let text = turn.speaking.text.clone();
        let answer = turn.speaking.is_started().then(|| turn.speaking.id.clone());
        turn.figures.tools = turn.calls.len() as u32;
        self.spend(&turn);
        let record = Record::Answer(record::Answer {
            message: Some(turn.work.message_id.clone()),
            answer: Some(turn.speaking.id.clone()).filter(|_| answer.is_some() || !turn.calls.is_empty()),
            announced: answer.is_some(),
            text: text.clone(),
            taint: turn.taint | turn.inherited,
            end,
            steps: turn.thinking.count.unsigned_abs(),
            thinking_ms: turn.thinking.spent(self.now).as_millis() as u64,
            total_ms: (self.now - turn.work.arrived).as_millis() as u64,
            usage: turn.figures.usage,
            spent: self.spent,
            at: self.now,
        });
        if !turn.steps.is_empty() {
            let steps = std::mem::take(&mut turn.steps);
            let (message, answer) = (turn.work.message_id.clone(), turn.speaking.id.clone());
            self.keep(Record::Reasoning(record::Reasoning { message, answer, steps }));
        }
        // The store has the end of the turn, on its disk, before anyone hears of it: no crash in between and no loss of power can
        // answer twice.
        self.outbox.save(record, true, &mut self.outputs);
        self.say(&mut turn, last_words);
        if answer.is_some() {
            self.send_whole(&turn.speaking.id, &turn.work.message_id, &text);
        }
        // An empty answer is one too where it was announced: it can be regenerated.
        if answer.is_some() || !turn.calls.is_empty() {
            let parent = turn.work.go_on_from.unwrap_or(turn.work.message);
            let said = Answer {
                message: Some(turn.work.message),
                text,
                calls: std::mem::take(&mut turn.calls),
                taint: turn.taint | turn.inherited,
            };
            self.conversation.add_answer(turn.speaking.id.clone(), Some(parent), said);
        }
        self.conversation.release(turn.work.message);
        if let Some(answer) = turn.work.go_on_from {
            self.conversation.release(answer);
        }
        if let Some(complaint) = complaint {
            self.complain(&turn.work.by, turn.work.chat, Some(turn.work.message_id.clone()), complaint);
        }
        self.send_figures(&turn, answer.clone(), end);
        self.report(&turn, answer, end);
    }
}

/// As much of a text as may be taken, and whether there is more of it.
fn first_chars(text: &str, most: usize) -> (&str, bool) {
    match text.char_indices().nth(most) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}
