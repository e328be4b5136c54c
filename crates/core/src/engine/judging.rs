//! Asking the hooks, and what comes of their word or their silence.
//!
//! - `before_model`: the prompt waits. Without a word it goes out as it is (`open`), or the message fails (`closed`).
//! - `before_tool`: a call that fits its tool waits. What the hook makes of it is judged like any call: by schema, rights, policy and
//!   consent. Without a word it is judged as it is, or denied.
//! - `before_say`: sentences are judged side by side and said in their order, each when all before it are. Nothing else of the
//!   answer is sent, stored or transcribed before. Tools are used, and the answer ends, once all that was said before is judged. Whoever
//!   breaks an answer off gets no more of it: what is not judged then is not said.
//!
//! Time limits are the engine's own. The greeting and the model's thinking are not judged.

use super::event::{AgentState, Count, Output, RunId, TurnEnd};
use super::hook::{Hook, Matter, Question, QuestionId, Ruled, Ruling, Terms, WhenAway};
use super::people::Audience;
use super::tool_loop::{Run, Stage};
use super::tool_text::replayable;
use super::turn::{Next, Turn};
use super::{Complaint, Engine};
use crate::model::untrusted::neutralise;
use crate::model::{Message, Prompt};
use crate::time::Time;
use crate::tool::Execution;
use crate::wire::body;
use std::collections::VecDeque;

/// How many sentences of an answer are judged at once.
const AT_ONCE: usize = 8;
/// Between what the model says before a tool and after it.
const BREAK: &str = "\n\n";

const NOT_CHECKED: &str =
    "This could not be answered: what checks the questions is away. Send it again later.";
const HELD_BACK: &str = "Parts of this answer were held back: what checks the answers is away.";
const DENIED: &str = "The rules of this agent do not allow this call. It was not run. Go on without it.";
const TOOL_NOT_CHECKED: &str =
    "This call could not be checked, and was not run. Go on without it, or try it again later.";

/// What of a turn the hooks are asked.
#[derive(Debug, Default)]
pub(super) struct Judging {
    /// The prompt that waits.
    prompt: Option<(Asked, Prompt)>,
    /// What was said and has not been sent, in order.
    sentences: VecDeque<Sentence>,
    /// Questions so far, of each kind.
    prompts: u32,
    calls: u32,
    said: u32,
    /// Where in the answer what was said since the model was asked begins, where that is judged.
    round: Option<usize>,
    /// The next sentence begins a paragraph.
    paragraph: bool,
    /// The white space before what was held back: it is still between what is around it.
    gap: String,
    /// What is to be the answer's last sentence.
    last: Option<String>,
    /// How the turn goes on once all that was said is judged.
    held: Option<Next>,
    /// The asking user knows that something was held back.
    told: bool,
}

/// A question that is open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) id: QuestionId,
    pub(super) due: Time,
}

#[derive(Debug)]
struct Sentence {
    /// The white space before it.
    gap: String,
    text: String,
    stage: Judgement,
}

/// How far a sentence has come.
#[derive(Debug)]
enum Judgement {
    Waiting,
    Asked(Asked),
    /// It may be said, as it is or otherwise; or not.
    Over(bool),
}

impl Judging {
    /// Whether the turn is over but for what is not judged yet.
    pub(super) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Whether something is left to be said.
    pub(super) fn has_last_words(&self) -> bool {
        self.last.is_some()
    }

    /// When the next question is given up.
    pub(super) fn due(&self) -> Option<Time> {
        self.open().map(|asked| asked.due).min()
    }

    fn open(&self) -> impl Iterator<Item = Asked> {
        let sentences = self.sentences.iter().filter_map(|sentence| match sentence.stage {
            Judgement::Asked(asked) => Some(asked),
            _ => None,
        });
        self.prompt.iter().map(|(asked, _)| *asked).chain(sentences)
    }
}

impl Engine {
    /// Whether sentences are judged before they are said.
    pub(super) fn judges_sentences(&self) -> bool {
        self.settings.hooks.before_say.is_some()
    }

    fn ask_hook(&mut self, turn: &Turn, number: u32, matter: Matter, terms: Terms) -> Asked {
        self.questions += 1;
        let id = QuestionId(self.questions);
        let question = Question {
            message: turn.work.message_id.clone(),
            answer: turn.speaking.id.clone(),
            asker: turn.work.by.clone(),
            number,
            matter,
        };
        self.outputs.push_back(Output::AskHook { question: id, about: question });
        Asked { id, due: self.now + terms.timeout }
    }

    /// A hook has spoken, or could not be asked.
    pub(super) fn ruled(&mut self, id: QuestionId, ruling: Option<Ruling>) {
        let is_it = |asked: Asked| asked.id == id;
        let waits = |turn: &mut Turn| {
            turn.judging.open().any(is_it) || turn.runs.iter().any(|run| run.question() == Some(id))
        };
        let Some(mut turn) = self.turn.take_if(waits) else {
            self.count(Count::Stale);
            return;
        };
        let ruling = ruling.ok_or(Ruled::Failed);
        let next = self.rule(&mut turn, id, ruling);
        self.go_on(turn, next);
    }

    fn rule(&mut self, turn: &mut Turn, id: QuestionId, ruling: Result<Ruling, Ruled>) -> Next {
        if let Some((_, prompt)) = turn.judging.prompt.take_if(|(asked, _)| asked.id == id) {
            return self.rule_prompt(turn, prompt, ruling);
        }
        if let Some(run) = turn.runs.iter().find(|run| run.question() == Some(id)).map(|run| run.id) {
            self.rule_call(turn, run, ruling);
            return turn.collect();
        }
        self.rule_sentence(turn, id, ruling);
        self.say_what_is_judged(turn)
    }

    /// Gives up what nobody has answered in time.
    pub(super) fn wake_judging(&mut self, turn: &mut Turn) -> Next {
        loop {
            let late = turn.judging.open().find(|asked| asked.due <= self.now);
            let Some(late) = late else { return Next::Wait };
            self.outputs.push_back(Output::CancelHook(late.id));
            match self.rule(turn, late.id, Err(Ruled::Late)) {
                Next::Wait => {}
                next => return next,
            }
        }
    }

    /// The turn is over: nobody waits for a word about it any more.
    pub(super) fn stop_judging(&mut self, turn: &mut Turn) {
        let open: Vec<QuestionId> = turn.judging.open().map(|asked| asked.id).collect();
        self.outputs.extend(open.into_iter().map(Output::CancelHook));
        turn.judging.prompt = None;
        turn.judging.sentences.clear();
    }

    /// Asks before the model is asked. Gives the prompt back where nobody is to be asked.
    pub(super) fn judge_prompt(&mut self, turn: &mut Turn, prompt: Prompt) -> Option<Prompt> {
        turn.judging.round = self.judges_sentences().then_some(turn.speaking.text.len());
        let Some(terms) = self.settings.hooks.before_model else { return Some(prompt) };
        turn.judging.prompts += 1;
        let asked = self.ask_hook(turn, turn.judging.prompts, Matter::Prompt(prompt.clone()), terms);
        turn.judging.prompt = Some((asked, prompt));
        None
    }

    fn rule_prompt(&mut self, turn: &mut Turn, mut prompt: Prompt, ruling: Result<Ruling, Ruled>) -> Next {
        let Some(terms) = self.settings.hooks.before_model else { return Next::Wait };
        let (added, replaced) = match ruling {
            Ok(Ruling::Allow) => (Vec::new(), None),
            Ok(Ruling::Add(messages)) => (messages, None),
            Ok(Ruling::Messages(messages)) => (Vec::new(), Some(messages)),
            other => {
                self.count(Count::Hook(Hook::BeforeModel, why_away(&other)));
                if terms.when_away == WhenAway::Closed {
                    return Next::End(TurnEnd::Failed, Some(Complaint::later(503, NOT_CHECKED)));
                }
                self.generate(turn, prompt);
                return Next::Wait;
            }
        };
        let changed = !added.is_empty() || replaced.is_some();
        if let Some(messages) = replaced {
            prompt.messages = messages.into_iter().map(harmless).collect();
        }
        add(&mut prompt.messages, added.into_iter().map(harmless).collect());
        if changed {
            turn.taint = turn.taint | terms.brings;
        }
        let how = if changed { Ruled::Changed } else { Ruled::Allowed };
        self.count(Count::Hook(Hook::BeforeModel, how));
        self.generate(turn, prompt);
        Next::Wait
    }

    /// Asks before a tool is used. False where nobody is to be asked.
    pub(super) fn judge_call(&mut self, turn: &mut Turn, run: &mut Run) -> bool {
        let Some(terms) = self.settings.hooks.before_tool else { return false };
        turn.judging.calls += 1;
        let matter = Matter::Call { tool: run.call.name.clone(), parameters: run.arguments() };
        let asked = self.ask_hook(turn, turn.judging.calls, matter, terms);
        run.deadline = Some(asked.due);
        run.stage = Stage::Judged(asked.id);
        true
    }

    fn rule_call(&mut self, turn: &mut Turn, id: RunId, ruling: Result<Ruling, Ruled>) {
        let Some(terms) = self.settings.hooks.before_tool else { return };
        let Some(place) = turn.runs.iter().position(|run| run.id == id) else { return };
        let mut run = turn.runs.remove(place);
        run.deadline = None;
        let how = match ruling {
            Ok(Ruling::Allow) => {
                self.permit(turn, &mut run, false);
                Ruled::Allowed
            }
            Ok(Ruling::Parameters(parameters)) => {
                run.call.arguments = Ok(parameters);
                self.permit(turn, &mut run, true);
                Ruled::Changed
            }
            Ok(Ruling::Refuse(reason)) => {
                let reason = reason.map(|reason| format!("It was not run: {reason}"));
                self.refuse_run(turn, &mut run, &reason.unwrap_or_else(|| DENIED.to_owned()));
                Ruled::Refused
            }
            other => {
                match terms.when_away {
                    WhenAway::Open => self.permit(turn, &mut run, false),
                    WhenAway::Closed => self.refuse_run(turn, &mut run, TOOL_NOT_CHECKED),
                }
                why_away(&other)
            }
        };
        self.count(Count::Hook(Hook::BeforeTool, how));
        turn.runs.insert(place, run);
    }

    /// A call is not run, by the word of a hook: whoever would have seen it run sees what was wanted, and the room that it was not
    /// done. Where tools are hidden nobody sees anything: no client has been asked.
    pub(super) fn refuse_run(&mut self, turn: &Turn, run: &mut Run, message: &str) {
        let message = self.settings.secrets.hide(message).into_owned();
        let by = &turn.work.by;
        let for_one = run
            .called
            .as_ref()
            .is_some_and(|called| called.tool.execution == Execution::Rpc || self.is_for_client(by, called));
        let audience = if for_one && self.people.has(&Audience::Tools) {
            Audience::One(by.clone())
        } else {
            Audience::Tools
        };
        let request = self.tool_use_request(&turn.work.message_id, run, body::Execution::Server);
        self.send(audience, request);
        run.fail("cancelled", message.clone());
        self.show_result(run.request.clone(), Err(("cancelled", message)), None);
    }

    /// The time for a word about a call is over.
    pub(super) fn give_up_question(&mut self, turn: &mut Turn, id: RunId) {
        let asked = turn.runs.iter().find(|run| run.id == id).and_then(Run::question);
        self.outputs.extend(asked.map(Output::CancelHook));
        self.rule_call(turn, id, Err(Ruled::Late));
    }

    /// The model speaks on: what it says is judged before anyone hears it.
    pub(super) fn have_judged(&mut self, turn: &mut Turn, delta: &str) {
        for sentence in turn.speaking.split(delta) {
            put_in_line(&mut turn.judging, &sentence);
        }
        self.ask_about_sentences(turn);
    }

    /// What the turn does next, or that it waits: for what was said to be judged, before tools are used or the answer ends.
    pub(super) fn after_judging(&mut self, turn: &mut Turn, next: Next) -> Next {
        if !self.judges_sentences() || !matches!(next, Next::UseTools | Next::End(..)) {
            return next;
        }
        if let Some(rest) = turn.speaking.split_rest() {
            put_in_line(&mut turn.judging, &rest);
        }
        turn.judging.paragraph = matches!(next, Next::UseTools);
        if turn.judging.sentences.is_empty() {
            return next;
        }
        turn.judging.held = Some(next);
        self.ask_about_sentences(turn);
        Next::Wait
    }

    /// Asks about as many as may be judged at once, the oldest first.
    fn ask_about_sentences(&mut self, turn: &mut Turn) {
        let Some(terms) = self.settings.hooks.before_say else { return };
        let asked = |sentence: &&Sentence| matches!(sentence.stage, Judgement::Asked(_));
        let mut open = turn.judging.sentences.iter().filter(asked).count();
        for place in 0..turn.judging.sentences.len() {
            let sentence = &turn.judging.sentences[place];
            if open >= AT_ONCE {
                return;
            }
            if matches!(sentence.stage, Judgement::Waiting) {
                let matter = Matter::Sentence(sentence.text.clone());
                turn.judging.said += 1;
                let asked = self.ask_hook(turn, turn.judging.said, matter, terms);
                turn.judging.sentences[place].stage = Judgement::Asked(asked);
                open += 1;
            }
        }
    }

    fn rule_sentence(&mut self, turn: &mut Turn, id: QuestionId, ruling: Result<Ruling, Ruled>) {
        let Some(terms) = self.settings.hooks.before_say else { return };
        let is_it =
            |sentence: &&mut Sentence| matches!(sentence.stage, Judgement::Asked(asked) if asked.id == id);
        let Some(sentence) = turn.judging.sentences.iter_mut().find(is_it) else { return };
        let (said, how) = match ruling {
            Ok(Ruling::Allow) => (true, Ruled::Allowed),
            Ok(Ruling::Text(text)) => {
                text.trim().clone_into(&mut sentence.text);
                (!sentence.text.is_empty(), Ruled::Changed)
            }
            Ok(Ruling::Refuse(_)) => (false, Ruled::Refused),
            other => (terms.when_away == WhenAway::Open, why_away(&other)),
        };
        sentence.stage = Judgement::Over(said);
        self.count(Count::Hook(Hook::BeforeSay, how));
        let held_back = !said && matches!(how, Ruled::Failed | Ruled::Late);
        if held_back && !std::mem::replace(&mut turn.judging.told, true) {
            let (by, about) = (turn.work.by.clone(), turn.work.message_id.clone());
            self.complain(&by, turn.work.chat, Some(about), Complaint::notice(HELD_BACK));
        }
    }

    /// Says what is judged, as far as all before it is; then the turn may go on with what has waited for that.
    fn say_what_is_judged(&mut self, turn: &mut Turn) -> Next {
        let over = |sentence: &mut Sentence| matches!(sentence.stage, Judgement::Over(_));
        while let Some(sentence) = turn.judging.sentences.pop_front_if(over) {
            let Sentence { mut gap, text, stage } = sentence;
            // What was held back took its white space with it; a paragraph that it began is begun by the next one.
            if turn.judging.gap.len() > gap.len() {
                gap.clone_from(&turn.judging.gap);
            }
            turn.judging.gap = gap;
            if !matches!(stage, Judgement::Over(true)) {
                continue;
            }
            let gap = std::mem::take(&mut turn.judging.gap);
            let said = if turn.speaking.text.is_empty() { text } else { gap + &text };
            self.show(AgentState::Speaking);
            let ends = matches!(turn.judging.held, Some(Next::End(..)));
            if ends && turn.judging.sentences.is_empty() {
                // The answer's end says it, so that the last sentence is the final one.
                turn.judging.last = Some(said);
            } else {
                let spoken = turn.speaking.say_judged(&said);
                self.say(turn, spoken);
            }
        }
        if turn.judging.sentences.is_empty() {
            return turn.judging.held.take().unwrap_or(Next::Wait);
        }
        self.ask_about_sentences(turn);
        Next::Wait
    }
}

impl Turn {
    /// What the model has said since it was asked last, as far as it was really said.
    pub(super) fn said_aloud(&self) -> &str {
        self.judging.round.map_or(self.said.as_str(), |begin| &self.speaking.text[begin..])
    }

    /// What the answer ends with, of what was judged.
    pub(super) fn last_words(&mut self) -> Option<String> {
        self.judging.last.take()
    }
}

/// Why there is no word that could be followed.
fn why_away(ruling: &Result<Ruling, Ruled>) -> Ruled {
    match ruling {
        Err(how) => *how,
        Ok(_) => Ruled::Failed,
    }
}

fn put_in_line(judging: &mut Judging, sentence: &str) {
    let text = sentence.trim();
    let gap = if std::mem::take(&mut judging.paragraph) {
        BREAK.to_owned()
    } else {
        sentence[..sentence.len() - sentence.trim_start().len()].to_owned()
    };
    judging.sentences.push_back(Sentence { gap, text: text.to_owned(), stage: Judgement::Waiting });
}

/// A message that cannot forge the template. Instructions are the developer's own word, as the configuration's are.
fn harmless(message: Message) -> Message {
    let safe = |text: String| neutralise(&text).into_owned();
    match message {
        Message::System(text) => Message::System(text),
        Message::User(text) => Message::User(safe(text)),
        Message::Assistant { text, reasoning, calls } => Message::Assistant {
            text: safe(text),
            reasoning: reasoning.map(safe),
            calls: calls.iter().map(replayable).collect(),
        },
        Message::Tool { call, content } => Message::Tool { call, content: safe(content) },
    }
}

/// Adds messages right before what is to be answered. Templates take instructions only at the beginning, so those join the ones
/// that are there.
fn add(messages: &mut Vec<Message>, added: Vec<Message>) {
    let mut others = Vec::new();
    for message in added {
        match (message, messages.first_mut()) {
            (Message::System(more), Some(Message::System(text))) => {
                text.push_str(BREAK);
                text.push_str(&more);
            }
            (Message::System(text), _) => messages.insert(0, Message::System(text)),
            (other, _) => others.push(other),
        }
    }
    let asked = messages.iter().rposition(|message| matches!(message, Message::User(_)));
    let place = asked.unwrap_or(messages.len());
    messages.splice(place..place, others);
}
