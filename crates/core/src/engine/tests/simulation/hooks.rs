//! Hooks that judge what they are asked, late or never now and then. What they let pass is written down here, outside of any
//! engine: nothing else may be said or run.

use super::agent::ToAgent;
use super::dice::Dice;
use super::schedule::{Event, Simulation};
use crate::engine::event::Input;
use crate::engine::hook::{Hooks, Matter, Question, QuestionId, Ruling, Terms, WhenAway};
use crate::engine::policy::Taint;
use crate::model::Message;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::time::Duration;

/// Schedules from here on have hooks; those before are what they were when there were none.
pub(super) const HOOKED: u64 = 1 << 32;

/// What the hooks have let pass.
#[derive(Default)]
pub(super) struct Passed {
    /// Sentences, by answer. The model never says the same twice.
    sentences: BTreeSet<(String, String)>,
    /// Calls, as they may be run.
    calls: BTreeSet<String>,
    changes: u64,
}

impl Passed {
    fn let_pass(&mut self, question: &Question) {
        match &question.matter {
            Matter::Prompt(_) => {}
            Matter::Call { tool, parameters } => _ = self.calls.insert(call(tool, parameters)),
            Matter::Sentence(text) => _ = self.sentences.insert((question.answer.clone(), text.clone())),
        }
    }

    pub(super) fn may_be_said(&self, answer: &str, text: &str) -> bool {
        text.trim().is_empty() || self.sentences.contains(&(answer.to_owned(), text.trim().to_owned()))
    }

    pub(super) fn may_be_run(&self, tool: &str, parameters: &Map<String, Value>) -> bool {
        self.calls.contains(&call(tool, parameters))
    }
}

fn call(tool: &str, parameters: &Map<String, Value>) -> String {
    format!("{tool} {}", Value::Object(parameters.clone()))
}

/// Some of them, each open or closed.
pub(super) fn hooks(dice: &mut Dice) -> Hooks {
    let terms = |dice: &mut Dice, percent| {
        let when_away = if dice.percent(40) { WhenAway::Open } else { WhenAway::Closed };
        let timeout = Duration::from_millis(dice.between(200, 1_500));
        dice.percent(percent).then_some(Terms { timeout, when_away, brings: Taint::default() })
    };
    Hooks { before_model: terms(dice, 40), before_tool: terms(dice, 60), before_say: terms(dice, 80) }
}

impl Simulation {
    pub(super) fn ask_hook(&mut self, agent: usize, id: QuestionId, question: Question) {
        self.agents[agent].questions.insert(id, question);
        let takes =
            if self.dice.percent(10) { self.dice.between(200, 3_000) } else { self.dice.between(1, 150) };
        self.after(takes, Event::Agent(agent, ToAgent::Ruled(id)));
    }

    /// Nobody waits for it any more: it was broken off, or takes too long.
    pub(super) fn cancel_question(&mut self, agent: usize, id: QuestionId) {
        if let Some(question) = self.agents[agent].questions.remove(&id) {
            self.without_a_word(&question);
        }
    }

    pub(super) fn ruled(&mut self, agent: usize, question: QuestionId) {
        let Some(about) = self.agents[agent].questions.remove(&question) else { return };
        let ruling = match (self.dice.between(0, 9), &about.matter) {
            (0, _) => None,
            (1, Matter::Prompt(_)) => Some(Ruling::Add(vec![Message::System("Be kind.".to_owned())])),
            (1 | 2, Matter::Call { .. } | Matter::Sentence(_)) => Some(Ruling::Refuse(None)),
            (3, Matter::Call { tool, .. }) => {
                self.passed.changes += 1;
                let changed = Value::from(1_000_000 + self.passed.changes);
                let parameters = Map::from_iter([("n".to_owned(), changed)]);
                self.passed.calls.insert(call(tool, &parameters));
                Some(Ruling::Parameters(parameters))
            }
            (3, Matter::Sentence(_)) => {
                self.passed.changes += 1;
                let text = format!("changed{}.", self.passed.changes);
                self.passed.sentences.insert((about.answer.clone(), text.clone()));
                Some(Ruling::Text(text))
            }
            _ => {
                self.passed.let_pass(&about);
                Some(Ruling::Allow)
            }
        };
        if ruling.is_none() {
            self.without_a_word(&about);
        }
        self.tell(|| format!("agent {agent} hook {}: {ruling:?}", question.0));
        self.handle(agent, Input::Ruled { question, ruling });
    }

    fn without_a_word(&mut self, question: &Question) {
        let hooks = self.settings.hooks;
        let terms = match question.matter {
            Matter::Prompt(_) => hooks.before_model,
            Matter::Call { .. } => hooks.before_tool,
            Matter::Sentence(_) => hooks.before_say,
        };
        if terms.is_some_and(|terms| terms.when_away == WhenAway::Open) {
            self.passed.let_pass(question);
        }
    }
}
