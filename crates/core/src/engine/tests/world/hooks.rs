//! Hooks in the room, which say anything at any time or nothing at all; and the rules: nothing is said or run that they have not
//! let pass.

use super::super::sotto_core::engine::event::Input;
use super::super::sotto_core::engine::hook::{Hooks, Matter, Question, QuestionId, Ruling, Terms, WhenAway};
use super::super::sotto_core::engine::policy::Taint;
use super::super::sotto_core::model::Message;
use super::World;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known of the hooks.
#[derive(Default)]
pub(super) struct Judges {
    hooks: Hooks,
    open: BTreeMap<QuestionId, Matter>,
    /// What may be said and run, as often as it is there.
    sayable: Vec<String>,
    runnable: Vec<(String, Map<String, Value>)>,
}

/// None, one or several hooks.
pub(super) fn hooks(choice: u8) -> Hooks {
    let when_away = if choice & 128 != 0 { WhenAway::Open } else { WhenAway::Closed };
    let terms = Terms { timeout: Duration::from_millis(700), when_away, brings: Taint::default() };
    let if_chosen = |bit: u8| (choice & bit != 0).then_some(terms);
    Hooks { before_model: if_chosen(16), before_tool: if_chosen(32), before_say: if_chosen(64) }
}

impl Judges {
    pub(super) fn new(hooks: Hooks) -> Self {
        Self { hooks, ..Self::default() }
    }

    /// The oldest question that is open.
    pub(super) fn oldest(&self) -> Option<QuestionId> {
        self.open.keys().next().copied()
    }

    fn let_pass(&mut self, matter: Matter) {
        match matter {
            Matter::Prompt(_) => {}
            Matter::Call { tool, parameters } => self.runnable.push((tool, parameters)),
            Matter::Sentence(text) => self.sayable.push(text),
        }
    }
}

impl World {
    /// Some hook says something, now and then about nothing that was asked.
    pub(super) fn act_on_hooks(&mut self, a: u8, b: u8) {
        let nth = usize::from(a) % self.judges.open.len().max(1);
        let question = self.judges.open.keys().nth(nth).copied().unwrap_or(QuestionId(u64::from(a)));
        let ruling = match b % 8 {
            0..=2 => Some(Ruling::Allow),
            3 => Some(Ruling::Text(["Instead.", "  ", ""][usize::from(a) % 3].to_owned())),
            4 => Some(Ruling::Refuse(None)),
            5 => Some(Ruling::Parameters(Map::from_iter([("n".to_owned(), Value::from(b))]))),
            6 => Some(Ruling::Add(vec![Message::System("S".to_owned()), Message::User("U".to_owned())])),
            _ => None,
        };
        self.rule(question, ruling);
    }

    pub(super) fn rule(&mut self, question: QuestionId, ruling: Option<Ruling>) {
        if let Some(matter) = self.judges.open.remove(&question) {
            match (matter, &ruling) {
                (matter, Some(Ruling::Allow)) => self.judges.let_pass(matter),
                (Matter::Sentence(_), Some(Ruling::Text(text))) => {
                    self.judges.sayable.push(text.trim().to_owned());
                }
                (Matter::Call { tool, .. }, Some(Ruling::Parameters(parameters))) => {
                    self.judges.runnable.push((tool, parameters.clone()));
                }
                (Matter::Sentence(_) | Matter::Call { .. }, Some(Ruling::Refuse(_))) => {}
                (matter, _) => self.judges.without_a_word(matter),
            }
        }
        self.handle(Input::Ruled { question, ruling });
    }

    pub(super) fn look_at_asked(&mut self, question: QuestionId, about: &Question) {
        let hooks = self.judges.hooks;
        let asked = match about.matter {
            Matter::Prompt(_) => hooks.before_model,
            Matter::Call { .. } => hooks.before_tool,
            Matter::Sentence(_) => hooks.before_say,
        };
        assert!(asked.is_some(), "only hooks that there are, are asked");
        assert!(self.judges.open.insert(question, about.matter.clone()).is_none(), "each is a new one");
    }

    pub(super) fn look_at_cancelled_question(&mut self, question: QuestionId) {
        let matter = self.judges.open.remove(&question).expect("what is cancelled was open");
        // It may be too late, rather than not wanted any more.
        self.judges.without_a_word(matter);
    }

    /// A sentence of an answer to someone.
    pub(super) fn look_at_judged(&mut self, text: &str) {
        let text = text.trim();
        if self.judges.hooks.before_say.is_none() || text.is_empty() {
            return;
        }
        let place = self.judges.sayable.iter().position(|sayable| sayable == text);
        self.judges.sayable.remove(place.unwrap_or_else(|| panic!("{text:?} is said and was not judged")));
    }

    /// A tool is run, here or at a client.
    pub(super) fn look_at_judged_use(&mut self, name: &str, arguments: &Map<String, Value>) {
        if self.judges.hooks.before_tool.is_some() {
            let judged =
                |(tool, parameters): &(String, Map<String, Value>)| tool == name && parameters == arguments;
            assert!(self.judges.runnable.iter().any(judged), "{name} {arguments:?} was not judged");
        }
    }
}

impl Judges {
    fn without_a_word(&mut self, matter: Matter) {
        let terms = match matter {
            Matter::Prompt(_) => self.hooks.before_model,
            Matter::Call { .. } => self.hooks.before_tool,
            Matter::Sentence(_) => self.hooks.before_say,
        };
        if terms.is_some_and(|terms| terms.when_away == WhenAway::Open) {
            self.let_pass(matter);
        }
    }
}
