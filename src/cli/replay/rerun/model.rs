//! What the model said and thought in a turn, taken from the stanzas that came of it.
//!
//! A sentence or a thought is sent when it is certain that it has ended, which takes what comes next. So the model says each
//! as recorded, and then goes on with what came next, character by character, until the new engine has sent it too: what happens
//! afterwards then finds the turn as it was.

use super::super::script::{Sent, Step};
use super::Rerun;
use sotto_core::engine::event::Input;
use sotto_core::engine::record::{Record, Stanza};
use sotto_core::model::{Chunk, Finish};
use sotto_core::wire::body::Body;

/// Between thoughts; and what ends a sentence without being part of one.
const BREAK: &str = "\n\n";
/// What was lost with an agent that was killed: words that are neither the end of anything nor its beginning.
const LOST: &str = "and more of it";

#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The recorded answer's id.
    pub(super) answer: String,
    /// What its recorded sentences say so far.
    pub(super) said: String,
    /// How much of the next sentence the model has said already, and how much of its next thought it has had.
    pub(super) words_ahead: usize,
    pub(super) thoughts_ahead: usize,
    pub(super) used_tools: bool,
    /// Sentences and steps so far: recorded, and sent by the new engine.
    pub(super) then: Count,
    pub(super) now: Count,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) sentences: u32,
    pub(super) steps: u32,
}

/// What came next in a turn.
#[derive(Debug)]
pub(super) enum Next {
    Words(String),
    Thought(String),
    Tools,
    /// The end, with what had been said and was sent with it.
    End(String),
    /// What nobody knows: the agent was killed, or had not come further.
    Lost,
}

impl Rerun<'_> {
    /// A stanza was sent: what it says the model said just before, and what came next as far as it took to know where it
    /// ends.
    pub(super) fn sent(&mut self, index: usize, body: &Body) {
        match body {
            Body::ReasoningStep(step) if self.ran.as_ref() == Some(&step.previous_id) => {
                self.turn.then.steps += 1;
                let thought = format!("{BREAK}{}", step.content);
                let ahead = std::mem::take(&mut self.turn.thoughts_ahead);
                self.model_says(Chunk::Reasoning(thought.get(ahead..).unwrap_or_default().to_owned()));
                self.end_thought(index);
            }
            // What comes after the end is the end's: it is in the record of that.
            Body::AssistantSentence(sentence)
                if self.ran.is_some() && sentence.previous_id == self.turn.answer =>
            {
                self.turn.then.sentences += 1;
                self.turn.said.push_str(&sentence.text);
                self.speak(&sentence.text);
                self.end_sentence(index);
            }
            Body::ToolUseRequest(_) => self.call_tools(index),
            _ => {}
        }
    }

    /// The model says what it has not said yet of the next words.
    pub(super) fn speak(&mut self, words: &str) {
        let ahead = std::mem::take(&mut self.turn.words_ahead);
        if let Some(words) = words.get(ahead..).filter(|words| !words.is_empty()) {
            self.model_says(Chunk::Text(words.to_owned()));
        }
    }

    /// The model speaks on until it is certain that the sentence has ended, which it was when it was sent.
    fn end_sentence(&mut self, index: usize) {
        let thoughts = |next: &Next| matches!(next, Next::Thought(_));
        let words = match self.next(index, thoughts) {
            Next::Words(words) => words,
            Next::End(rest) if !rest.is_empty() => rest,
            Next::Lost => format!("{BREAK}{LOST}"),
            // Nothing that counts.
            Next::End(_) | Next::Tools | Next::Thought(_) => BREAK.to_owned(),
        };
        while self.turn.now.sentences < self.turn.then.sentences && self.speak_on(&words) {}
    }

    /// The model thinks on, or begins to speak, until the thought has ended.
    fn end_thought(&mut self, index: usize) {
        match self.next(index, |_| false) {
            Next::Words(words) | Next::End(words) => {
                while self.turn.now.steps < self.turn.then.steps && self.speak_on(&words) {}
            }
            Next::Thought(thought) => self.think_on(&format!("{BREAK}{thought}")),
            Next::Lost => self.think_on(&format!("{BREAK}{LOST}")),
            // They end it.
            Next::Tools => {}
        }
    }

    /// One more character; false if there is none.
    pub(super) fn speak_on(&mut self, words: &str) -> bool {
        let next = words.get(self.turn.words_ahead..).and_then(|words| words.chars().next());
        if let Some(next) = next {
            self.turn.words_ahead += next.len_utf8();
            self.model_says(Chunk::Text(next.into()));
        }
        next.is_some()
    }

    fn think_on(&mut self, thought: &str) {
        for next in thought.chars() {
            if self.turn.now.steps >= self.turn.then.steps {
                return;
            }
            self.turn.thoughts_ahead += next.len_utf8();
            self.model_says(Chunk::Reasoning(next.into()));
        }
    }

    /// What came next in the recorded turn, but for what is passed over.
    pub(super) fn next(&self, index: usize, passed_over: impl Fn(&Next) -> bool) -> Next {
        let next = |step: &Step| match step {
            Step::Sent(Sent { body: Body::ReasoningStep(step), .. })
                if self.ran.as_ref() == Some(&step.previous_id) =>
            {
                Some(Next::Thought(step.content.clone()))
            }
            Step::Sent(Sent { body: Body::AssistantSentence(sentence), .. })
                if sentence.previous_id == self.turn.answer =>
            {
                Some(Next::Words(sentence.text.clone()))
            }
            Step::Sent(Sent { body: Body::ToolUseRequest(_), .. }) | Step::Fact(Record::ToolBegun(_)) => {
                Some(Next::Tools)
            }
            Step::Fact(Record::Answer(answer)) if answer.message == self.ran => {
                if self.was_killed_before(answer) {
                    return Some(Next::Lost);
                }
                Some(Next::End(answer.text.strip_prefix(&self.turn.said).unwrap_or_default().to_owned()))
            }
            Step::Fact(Record::BrokenOff(_) | Record::Begun(_)) => Some(Next::Lost),
            _ => None,
        };
        let later = self.script.steps[index + 1..].iter().filter_map(next);
        later.into_iter().find(|next| !passed_over(next)).unwrap_or(Next::Lost)
    }

    pub(super) fn model_says(&mut self, chunk: Chunk) {
        if let Some(request) = self.request {
            self.happens(Input::Model { request, result: Ok(chunk) });
        }
    }

    pub(super) fn model_finishes(&mut self, finish: Finish) {
        if let Some(request) = self.request.take() {
            self.happens(Input::Model { request, result: Ok(Chunk::Finish(finish)) });
        }
    }

    pub(super) fn count(&mut self, stanza: &Stanza) {
        let Some((message, answer)) = &self.running else { return };
        match Sent::of(stanza).map(|sent| sent.body) {
            Some(Body::AssistantSentence(sentence)) if sentence.previous_id == *answer => {
                self.turn.now.sentences += 1;
            }
            Some(Body::ReasoningStep(step)) if step.previous_id == *message => self.turn.now.steps += 1,
            _ => {}
        }
    }
}
