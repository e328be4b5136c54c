//! The model's thinking within one turn: steps with their numbers, and live pieces of the step under way.
//!
//! Secrets are hidden here, before anything else sees the text.

use super::mask::{self, Secrets};
use super::reasoning::{Piece, Steps};
use crate::ids::{Ids, Kind};
use crate::time::Time;
use std::time::Duration;

/// Live pieces go out at most this often.
const BETWEEN_DELTAS: Duration = Duration::from_millis(100);

/// Something to show.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Thought {
    /// The next piece of a step that is not finished.
    Delta { id: String, index: i32, text: String },
    /// A finished step.
    Step { id: String, index: i32, text: String },
}

/// The step under way.
#[derive(Debug)]
struct Step {
    id: String,
    text: String,
    /// How much of the text has gone out in pieces.
    shown: usize,
}

#[derive(Debug)]
pub(super) struct Thinking {
    max_step_chars: usize,
    mask: mask::Stream,
    steps: Steps,
    step: Option<Step>,
    /// Steps finished so far.
    pub(super) count: i32,
    /// Characters so far.
    pub(super) chars: usize,
    last_delta: Option<Time>,
    since: Option<Time>,
    spent: Duration,
}

impl Thinking {
    pub(super) fn new(max_step_chars: usize) -> Self {
        Self {
            max_step_chars,
            mask: mask::Stream::default(),
            steps: Steps::new(max_step_chars),
            step: None,
            count: 0,
            chars: 0,
            last_delta: None,
            since: None,
            spent: Duration::ZERO,
        }
    }

    /// The model thinks on. `live` says whether anyone wants to see pieces.
    pub(super) fn push(
        &mut self,
        text: &str,
        live: bool,
        secrets: &Secrets,
        ids: &mut Ids,
        now: Time,
    ) -> Vec<Thought> {
        self.since.get_or_insert(now);
        self.chars += text.chars().count();
        let text = self.mask.push(secrets, text);
        let pieces = self.steps.push(&text);
        let mut thoughts = self.take(pieces, live, ids, now);
        if live && self.last_delta.is_none_or(|last| now - last >= BETWEEN_DELTAS) {
            thoughts.extend(self.delta(now));
        }
        thoughts
    }

    /// The thought is over, for now or for good: what is pending is its last step.
    pub(super) fn pause(&mut self, live: bool, secrets: &Secrets, ids: &mut Ids, now: Time) -> Vec<Thought> {
        if let Some(since) = self.since.take() {
            self.spent += now - since;
        }
        let rest = self.mask.finish(secrets);
        let mut pieces = self.steps.push(&rest);
        pieces.extend(self.steps.finish());
        self.steps = Steps::new(self.max_step_chars);
        self.take(pieces, live, ids, now)
    }

    /// When the next live piece is due.
    pub(super) fn due(&self) -> Option<Time> {
        let pending = self.step.as_ref().is_some_and(|step| step.shown < step.text.len());
        self.last_delta.filter(|_| pending).map(|last| last + BETWEEN_DELTAS)
    }

    /// The live piece that is pending.
    pub(super) fn delta(&mut self, now: Time) -> Option<Thought> {
        let step = self.step.as_mut().filter(|step| step.shown < step.text.len())?;
        let text = step.text[step.shown..].to_owned();
        step.shown = step.text.len();
        self.last_delta = Some(now);
        Some(Thought::Delta { id: step.id.clone(), index: self.count + 1, text })
    }

    /// Since when the model has been thinking without a break.
    pub(super) fn since(&self) -> Option<Time> {
        self.since
    }

    /// How long it has thought in all.
    pub(super) fn spent(&self, now: Time) -> Duration {
        self.spent + self.since.map_or(Duration::ZERO, |since| now - since)
    }

    fn take(&mut self, pieces: Vec<Piece>, live: bool, ids: &mut Ids, now: Time) -> Vec<Thought> {
        let mut thoughts = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => {
                    let step = self.step.get_or_insert_with(|| Step {
                        id: ids.next(Kind::ReasoningStep),
                        text: String::new(),
                        shown: 0,
                    });
                    step.text.push_str(&text);
                }
                Piece::End => {
                    let Some(step) = self.step.take() else { continue };
                    let index = self.count + 1;
                    // Joined, the pieces of a step are its text: the rate gives way to that. A step that nobody has
                    // seen a piece of needs none.
                    if live && step.shown > 0 && step.shown < step.text.len() {
                        let text = step.text[step.shown..].to_owned();
                        self.last_delta = Some(now);
                        thoughts.push(Thought::Delta { id: step.id.clone(), index, text });
                    }
                    self.count = index;
                    thoughts.push(Thought::Step { id: step.id, index, text: step.text });
                }
            }
        }
        thoughts
    }
}
