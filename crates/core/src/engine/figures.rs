//! What a turn costs and how long it takes: counted by the endpoint where it tells, estimated where it does not.

use super::Engine;
use super::event::{Output, TurnEnd, TurnReport};
use super::people::{Audience, TURN_META};
use super::turn::Turn;
use crate::model::Usage;
use crate::time::Time;
use crate::wire::body::{Body, TurnMeta};

/// Those who want to know.
const FIGURES: Audience = Audience::Feature(TURN_META);

#[derive(Debug)]
pub(super) struct Figures {
    /// When the turn began; the message may have waited before.
    pub(super) begun: Time,
    /// Tokens of all requests so far.
    pub(super) usage: Usage,
    /// Whether the endpoint has counted every one of them.
    exact: bool,
    /// The size of the running request's prompt.
    pub(super) prompt_bytes: usize,
    /// Whether the running request has brought anything, and whether the endpoint has counted it.
    answered: bool,
    counted: bool,
    /// Tools run, in a turn that is over.
    pub(super) tools: u32,
    first_token: Option<Time>,
    pub(super) first_step: Option<Time>,
    pub(super) first_sentence: Option<Time>,
}

impl Figures {
    pub(super) fn new(now: Time) -> Self {
        Self {
            begun: now,
            usage: Usage::default(),
            exact: true,
            prompt_bytes: 0,
            answered: false,
            counted: false,
            tools: 0,
            first_token: None,
            first_step: None,
            first_sentence: None,
        }
    }

    pub(super) fn begin_request(&mut self, prompt_bytes: usize) {
        self.prompt_bytes = prompt_bytes;
        self.answered = false;
        self.counted = false;
    }

    /// The running request has brought something.
    pub(super) fn came(&mut self, now: Time) {
        self.answered = true;
        self.first_token.get_or_insert(now);
    }

    /// The endpoint has counted. Its figures are a stranger's: they may be anything.
    pub(super) fn add(&mut self, usage: Usage) {
        self.counted = true;
        let add = |sum: Option<u64>, more: Option<u64>| match (sum, more) {
            (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
            (sum, more) => sum.or(more),
        };
        self.usage = Usage {
            input: self.usage.input.saturating_add(usage.input),
            output: self.usage.output.saturating_add(usage.output),
            reasoning: add(self.usage.reasoning, usage.reasoning),
            cached: add(self.usage.cached, usage.cached),
        };
    }

    pub(super) fn tokens(&self) -> u64 {
        self.usage.input.saturating_add(self.usage.output)
    }
}

impl Engine {
    /// A request is over, one way or another: what the endpoint did not count is estimated, and marked so. What brought
    /// nothing is taken to have cost nothing.
    pub(super) fn settle_request(&mut self, turn: &mut Turn) {
        let figures = &mut turn.figures;
        if figures.counted {
            return;
        }
        if figures.answered {
            let input = self.memory.tokens(figures.prompt_bytes);
            let output = self.memory.tokens(turn.said.len() + turn.thought.len());
            figures.add(Usage { input, output, ..Usage::default() });
        }
        figures.exact = false;
    }

    pub(super) fn send_figures(&mut self, turn: &Turn, answer: Option<String>, end: TurnEnd) {
        let tokens = |tokens: u64| Some(i64::try_from(tokens).unwrap_or(i64::MAX));
        let Figures { usage, exact, .. } = turn.figures;
        let figures = TurnMeta {
            message_id: turn.work.message_id.clone(),
            conversation_id: self.settings.conversation.clone(),
            answer_id: answer,
            input_tokens: tokens(usage.input),
            output_tokens: tokens(usage.output),
            reasoning_tokens: usage.reasoning.and_then(tokens),
            exact,
            effort: self.settings.effort.clone(),
            thinking_ms: turn.thinking.spent(self.now).as_millis() as i64,
            total_ms: (self.now - turn.work.arrived).as_millis() as i64,
            interrupted: matches!(end, TurnEnd::Stopped | TurnEnd::Superseded),
        };
        self.send(FIGURES, Body::TurnMeta(figures));
    }

    /// What the turn has cost is part of what the conversation has.
    pub(super) fn spend(&mut self, turn: &Turn) {
        let figures = &turn.figures;
        let millis = (self.now - figures.begun).as_millis() as u64;
        self.spent.tokens = self.spent.tokens.saturating_add(figures.tokens());
        self.spent.millis = self.spent.millis.saturating_add(millis);
        self.spent.tool_calls = self.spent.tool_calls.saturating_add(figures.tools);
    }

    pub(super) fn report(&mut self, turn: &Turn, answer: Option<String>, end: TurnEnd) {
        let figures = &turn.figures;
        let since = |moment: Option<Time>| moment.map(|moment| moment - turn.work.arrived);
        self.outputs.push_back(Output::TurnEnded(TurnReport {
            message: turn.work.message_id.clone(),
            answer,
            end,
            first_token: since(figures.first_token),
            first_step: since(figures.first_step),
            first_sentence: since(figures.first_sentence),
            total: self.now - turn.work.arrived,
            steps: turn.thinking.count.unsigned_abs(),
            sentences: turn.speaking.count.unsigned_abs(),
            tools: figures.tools,
            usage: figures.usage,
        }));
    }
}
